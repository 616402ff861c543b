//! Where the pages of a file live.

use std::any::Any;
use std::{fmt, io};

use super::buffer::Buffers;
use super::done::Done;
use super::identity::FileIdentity;
use super::name::Entry;
use super::run;

/// Where the pages of one open file live: a file of the operating system, a file of the simulated device, or
/// anything else that keeps bytes by offset.
///
/// The pool opens a source, keeps it while the file is open, and shares it with all requests in flight. A
/// source is dropped when the file is closed and the last of its requests has ended, by any thread, one of
/// its own included; it then gives up whatever keeps others from the file.
///
/// # Who calls what, and what may block
///
/// | call | by | how often | may it block |
/// | --- | --- | --- | --- |
/// | `identity`, `capabilities`, `note` | opening, reports | a few times a file | no |
/// | `len_bytes` | opening, reopening | once each | yes |
/// | `set_len_bytes` | truncation | once each, with no request in flight beyond the new end | yes |
/// | `read` | misses, prefetch, futures | once a run of pages, by several threads at once | no |
/// | `write` | write-back, flushes | once a run of pages, by several threads at once | no |
/// | `sync` | flushes, checkpoints | one at a time | no |
/// | `allocate` | extension of the file | one at a time | no |
/// | `drop_cache` | reopening | once each, with no request in flight | yes |
/// | `entry` | removal of the file | once | no; its own calls may |
///
/// The four calls with a [`Done`] begin a request. They return without waiting for it, because their caller
/// may be the thread that all requests of a pool go through, and they hold no lock that another call of the
/// same source wants while they tell an end. More requests than [`Capabilities::requests_in_flight`] may be
/// begun; the source lets them wait inside. Each ends by [`Done::finish`], on any thread, whether or not
/// anybody calls the source again. A source that gives up a request, by dropping its [`Done`] or by a panic,
/// fails it.
///
/// Backends move the bytes of sources that they know themselves, and do not call these four for them. The
/// results must be the same either way.
///
/// # What a request promises
///
/// * A read or write moves all its bytes or fails. Interruptions and short transfers are continued by the
///   source, not reported. What was read into the buffers, or changed in the file, by one that fails is
///   undefined.
/// * A read that meets the end of the file fails with [`Cause::EndOfFile`](super::error::Cause::EndOfFile).
/// * A read that begins after a write has ended sees it. Requests in flight together have no order; the pool
///   has no two in flight for one page of which one is a write.
/// * Buffers are the source's until it finishes the request, and are not touched afterwards.
/// * A sync makes durable what ended before it began. If it fails, nothing is known about that, and the pool
///   does not write to the source again before the file is reopened.
pub(crate) trait Source: Any + fmt::Debug + Send + Sync {
    /// Which file it is. Two sources with the same identity are the same file, which a pool opens once; no
    /// two files that exist at the same time have the same.
    fn identity(&self) -> FileIdentity;

    /// What can be done with it. The same in each call.
    fn capabilities(&self) -> Capabilities;

    /// How it is accessed, in a few words, for reports.
    fn note(&self) -> &str;

    /// Its length now, in bytes.
    fn len_bytes(&self) -> io::Result<u64>;

    /// Sets its length. What is beyond is gone, and what is new reads as zeros. Fails, and changes nothing,
    /// if the source has a fixed length or is not writable. Durable with the next sync.
    fn set_len_bytes(&self, bytes: u64) -> io::Result<()>;

    /// Fills `into` with the bytes from `offset` on: pages that are neighbours in the file. Offset, length
    /// and addresses are multiples of [`Capabilities::alignment`].
    fn read(&self, offset: u64, into: Buffers, done: Done);

    /// Writes `from` to the bytes from `offset` on; as [`Source::read`]. Fails if the source is not writable.
    fn write(&self, offset: u64, from: Buffers, done: Done);

    /// Makes durable what was written, with the metadata needed to read it back, or with `all_metadata` all
    /// of it.
    fn sync(&self, all_metadata: bool, done: Done);

    /// Sets aside room for the range, so that a later write of it does not fail for lack of room, and makes
    /// the file at least that long. New bytes are zero, present ones stay. One that fails leaves the length
    /// as it was.
    fn allocate(&self, offset: u64, bytes: u64, done: Done);

    /// Forgets what it caches of the file and did not make durable, so that reads show what is durable. A
    /// source that caches nothing has nothing to do.
    fn drop_cache(&self) -> io::Result<()> {
        Ok(())
    }

    /// The name that it was opened by. None if it has none that could be removed.
    fn entry(&self) -> Option<&dyn Entry> {
        None
    }
}

/// What can be done with a source, and what it costs least in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// Takes writes, allocations and syncs.
    pub(crate) writable: bool,
    /// Has the length it has, which need be no multiple of a page, as a block device.
    pub(crate) fixed_length: bool,
    /// Bytes of one request from which on a longer one costs no less a byte; at least 1. The pool makes
    /// requests of up to this many bytes where pages are neighbours, and never longer ones than it is laid
    /// out for ([`run::run_pages`]).
    pub(crate) run_bytes: usize,
    /// Requests in flight from which on more of them only wait; at least 1.
    pub(crate) requests_in_flight: u32,
    /// What requests have to be multiples of.
    pub(crate) alignment: Alignment,
}

impl Capabilities {
    /// Most pages of one transfer: at least 1.
    pub(crate) fn run_pages(&self, page_bytes: usize) -> usize {
        (self.run_bytes / page_bytes).clamp(1, run::run_pages(page_bytes))
    }
}

/// What buffers, offsets and lengths of an operation on a file have to be multiples of, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alignment {
    /// For the address of each buffer.
    pub(crate) memory_bytes: u32,
    /// For offsets and lengths.
    pub(crate) offset_bytes: u32,
}

impl Alignment {
    /// Ordinary buffered I/O.
    pub(crate) const NONE: Self = Self { memory_bytes: 1, offset_bytes: 1 };
}
