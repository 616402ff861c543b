//! Moving pages between frames and files.
//!
//! Where the pages of a file live is a [`Source`]: a local file, a file of the simulated device, or something
//! else. Everything above this module opens sources and hands [`Request`]s for them to one [`Backend`], each
//! with a [`Completion`] that is called when it is done. Three backends implement that trait:
//!
//! | backend | how | for |
//! | --- | --- | --- |
//! | `uring` | io_uring | everyday use |
//! | `threads` | positioned reads and writes on a few threads | kernels and containers that refuse io_uring |
//! | `sim` (feature `sim`) | in memory, deterministic, with faults and power cuts | tests |
//!
//! `uring` and `threads` move the bytes of local files, and `sim` those of its device. A request for a
//! source of another kind is left to the source ([`elsewhere`]).
//!
//! # Who owns a buffer, and until when
//!
//! A request owns its source and its buffers from the moment it is submitted until its completion is called.
//! Nothing that a user does shortens that. Dropping whatever waits for the result (a future, a half-made
//! guard) only gives up interest; the completion, which owns the frame, still runs. A backend calls each
//! completion exactly once, also when it is being closed.
//!
//! # Who makes progress
//!
//! No operation waits for a user thread to come back into the library: after [`Backend::submit`] the
//! backend's own threads, or the kernel's, finish the work. A thread inside
//! [`Backend::submit_and_wait`] or [`Backend::run`] may do its own work itself, and nobody spins.
//!
//! # What a transfer promises
//!
//! Short transfers, interruptions (EINTR), temporary refusals (EAGAIN) and cancellations because a
//! submitting thread ended (ECANCELED) are continued, never reported. After
//! [`RETRIES_MAX`](error::RETRIES_MAX) of them in a row without progress the operation fails. A read that
//! meets the end of the file fails with [`IoError::is_end_of_file`].

mod backend;
mod buffer;
#[cfg(test)]
mod conformance;
mod done;
mod elsewhere;
pub(crate) mod error;
mod fair;
mod foreign;
mod group;
mod identity;
mod local;
mod name;
mod open;
pub(crate) mod options;
mod progress;
mod report;
mod request;
pub(crate) mod run;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod source;
mod start;
pub(crate) mod threads;
mod transfer;
pub(crate) mod uring;

pub(crate) use backend::{Backend, Feed, Lane};
pub(crate) use buffer::{Buffer, Buffers};
pub use done::{Done, ReadRequest, WriteRequest};
pub use error::{IoError, IoOperation};
pub(crate) use foreign::Foreign;
pub(crate) use group::Group;
pub use identity::FileIdentity;
pub(crate) use name::NameError;
#[cfg(test)]
pub(crate) use open::OpenError;
pub(crate) use open::{FileOpen, Opener};
pub(crate) use options::IoOptions;
pub use report::IoReport;
pub(crate) use request::{Action, Completion, Request, SourceRef};
pub use source::{Alignment, Capabilities, Source};
#[cfg(any(test, feature = "sim"))]
pub(crate) use start::start_sim;
pub(crate) use start::{Started, start};
