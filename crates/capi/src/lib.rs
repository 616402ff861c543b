//! The C interface of [`bufpool`]. Its header is `include/bufpool.h`, made by cbindgen from this crate. A
//! test compares it; `BUFPOOL_WRITE_HEADER=1 cargo test -p bufpool-capi --test header` writes it anew.
//! `examples/c/example.c` shows most of it.
//!
//! `cargo build --release -p bufpool-capi` makes `libbufpool_c.a` and `libbufpool_c.so`.
//!
//! No panic crosses the border: it becomes [`bufpool_status::BUFPOOL_PANICKED`]. Handles are boxes that the
//! caller owns. Guards are values in the caller's memory, so that a hit allocates nothing.
#![allow(non_camel_case_types)]

mod file;
mod guard;
mod hints;
mod pool;
mod site;
mod status;
mod tenant;

pub use file::*;
pub use guard::*;
pub use hints::*;
pub use pool::*;
pub use site::bufpool_site;
pub use status::*;
pub use tenant::*;
