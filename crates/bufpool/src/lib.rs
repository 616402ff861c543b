//! A buffer pool for storage engines.
