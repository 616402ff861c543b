//! Pages of [`bufpool`] in places that are reached over a network, through existing client crates.
//!
//! [`object`] (feature `object`, on by default) keeps the pages of a file on an object store: S3, GCS, Azure,
//! a folder, or memory, whatever the crate `object_store` has a client for. It is a
//! [`Source`](bufpool::source::Source), opened by [`Pool::open_source`](bufpool::Pool::open_source). The
//! features `s3`, `gcs`, `azure` and `http` switch on the clients of `object_store` of that name.
//!
//! `redis` (feature `redis`; `redis-cluster` for clusters) is a [`Tier`](bufpool::tier::Tier) in the memory
//! of a Redis or Valkey server, version 6.2 or later, which several pools and machines may share. It pays
//! where the server answers in less than half the time of a read from the file, and is passed by where it
//! does not. Give the server a `maxmemory` and the policy `volatile-ttl`; settings are read and reported,
//! never changed. A server that is dead, stuck, full or emptied costs misses, and nothing else.
//!
//! Both run their clients on threads of their own and need no runtime of the caller's.
#![forbid(unsafe_code)]

#[cfg(feature = "object")]
pub mod object;
#[cfg(feature = "redis")]
pub mod redis;
