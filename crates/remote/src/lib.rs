//! Pages of [`bufpool`] in places that are reached over a network, by clients that exist already.
//!
//! [`object`] (feature `object`, on by default) keeps the pages of a file on an object store: S3, GCS, Azure, a
//! folder, or memory, whatever the crate `object_store` has a client for. It is a
//! [`Source`](bufpool::source::Source), opened by [`Pool::open_source`](bufpool::Pool::open_source). The features
//! `s3`, `gcs`, `azure` and `http` switch on the clients of `object_store` of that name.
//!
//! What is here runs its clients on a thread of its own and needs no runtime of the caller's.

#[cfg(feature = "object")]
pub mod object;
