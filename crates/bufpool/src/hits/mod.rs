//! The way of a hit from an access to the policy.

pub(crate) mod call_site;
pub(crate) mod contexts;
pub(crate) mod fast_path;
pub(crate) mod filter;
pub(crate) mod log;
