//! What a thread keeps for itself.

pub(crate) mod context;
pub(crate) mod holds;
pub(crate) mod hot;
pub(crate) mod keys;
pub(crate) mod reader;
pub(crate) mod ring;
pub(crate) mod scope;
pub(crate) mod site;
pub(crate) mod spare;
pub(crate) mod stack;
