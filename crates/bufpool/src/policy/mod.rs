//! What the policy lock protects: the directory, and what the pool adds to it.

pub(crate) mod ahead;
pub(crate) mod claims;
pub(crate) mod engine_code;
pub(crate) mod lock;
pub(crate) mod mutex;
pub(crate) mod pricing;
pub(crate) mod programs;
mod recording;
