//! What a thread keeps for itself.

pub(crate) mod hot;
pub(crate) mod scope;
