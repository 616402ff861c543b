//! What users call: thin handles over the rooms below.

pub(crate) mod bytes;
pub(crate) mod file;
pub(crate) mod file_stats;
pub(crate) mod invariants;
pub(crate) mod options;
pub(crate) mod pool;
pub(crate) mod report;
pub(crate) mod stats;
pub(crate) mod tenant;
pub(crate) mod tenant_options;
