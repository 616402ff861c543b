//! What the policy lock protects: the directory, and what the pool adds to it.
//!
//! [`state`] has what is kept. What is done with it has a file for each subject, none of which knows the
//! others: [`admission`], [`hit_application`], [`expectation`], [`hint_lists`], [`management`].

mod admission;
pub(crate) mod ahead;
pub(crate) mod claims;
pub(crate) mod engine_code;
mod expectation;
pub(crate) mod hint_lists;
pub(crate) mod hint_sites;
mod hit_application;
mod management;
pub(crate) mod mutex;
pub(crate) mod noted_hits;
pub(crate) mod pricing;
pub(crate) mod programs;
mod recording;
pub(crate) mod state;
pub(crate) mod tenant_entry;
