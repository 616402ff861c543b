//! Where the pages of a file live.

use std::any::Any;
use std::{fmt, io};

use super::done::{Done, ReadRequest, WriteRequest};
use super::identity::FileIdentity;
use super::name::Entry;
use super::run;

/// Where the pages of one open file live: a file of the operating system, a file of the simulated device, or
/// anything else that keeps bytes by offset.
///
/// The pool keeps a source while the file is open, and shares it with all requests in flight. It drops the
/// source once the file is closed and the last of its requests has ended. That may happen on any thread,
/// also on one of the source's own.
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
///
/// No call is made with a lock of the pool held that other users of the pool wait for. During the calls that
/// may block, the pages of the file are held. A source does not call the pool that it belongs to, except
/// from threads of its own that no request waits for.
///
/// The four calls with a request begin it. They return without waiting for it, because their caller may be
/// the thread that all requests of a pool go through. While they tell an end they hold no lock that another
/// call of the same source needs. More requests than [`Capabilities::requests_in_flight`] may be begun; the
/// source queues them. Each ends by a `finish`, on any thread, whether or not anybody calls the source
/// again. Only the source limits how long that takes: threads of users wait for it, and so does the closing
/// of the file, so a source that may become unreachable needs time-outs of its own.
///
/// # What goes wrong inside
///
/// A request that is dropped, or whose call panics, fails once, with EIO. A panic in another call makes the
/// operation that called it fail with [`ErrorKind::Io`](crate::ErrorKind::Io); in `identity`, `capabilities`
/// and `note` it passes to the pool's caller. A failed read is an error for its reader and nothing else. A
/// failed write or sync *poisons* the file, as it does a local one ([`File::reopen`](crate::File::reopen)).
///
/// # What a request promises
///
/// * A read or write moves all its bytes or fails. Interruptions and short transfers are continued by the
///   source, not reported. If it fails, the contents of its memory (a read) or of its range of the file (a
///   write) are undefined.
/// * A read that meets the end of the file fails with [`io::ErrorKind::UnexpectedEof`].
/// * A read that begins after a write has ended sees it, synced or not. Requests in flight together have no
///   order; the pool never has a write of a page in flight together with another request for that page.
/// * A sync makes durable what ended before it began. If it fails, it is unknown what is durable, and the
///   pool does not write to the source again before the file is reopened.
///
/// Offsets, lengths and addresses are multiples of [`Capabilities::alignment`], and runs no longer than
/// [`Capabilities::run_bytes`], or one page where that is more.
///
/// # Example
///
/// A table that the program has in its own image, for reading only:
///
/// ```
/// use std::sync::Arc;
///
/// use bufpool::source::{Capabilities, FileIdentity, ReadRequest, Source};
/// use bufpool::{FileOptions, PoolOptions};
///
/// static TABLE: [u8; 8192] = [7; 8192];
///
/// #[derive(Debug)]
/// struct Image;
///
/// impl Source for Image {
///     fn identity(&self) -> FileIdentity {
///         FileIdentity::from_number(1)
///     }
///     fn capabilities(&self) -> Capabilities {
///         Capabilities::default()
///     }
///     fn len_bytes(&self) -> std::io::Result<u64> {
///         Ok(TABLE.len() as u64)
///     }
///     fn read(&self, mut request: ReadRequest) {
///         let from = request.offset() as usize;
///         match TABLE.get(from..from + request.len()) {
///             Some(bytes) => {
///                 request.fill(0, bytes);
///                 request.finish(Ok(()));
///             }
///             None => request.finish(Err(std::io::ErrorKind::UnexpectedEof.into())),
///         }
///     }
/// }
///
/// # fn main() -> bufpool::Result<()> {
/// let pool = PoolOptions::new().frames(64).page_bytes(4096).open()?;
/// let table = pool.open_source(Arc::new(Image), FileOptions::new().read_only(true))?;
/// assert_eq!(pool.default_tenant().read(table.page(1))?[0], 7);
/// # drop(table);
/// # pool.close()
/// # }
/// ```
pub trait Source: Any + fmt::Debug + Send + Sync {
    /// Which file it is. Two sources with the same identity are the same file, which a pool opens once. No
    /// two files that exist at the same time have the same identity.
    fn identity(&self) -> FileIdentity;

    /// What it can do. Every call returns the same.
    fn capabilities(&self) -> Capabilities;

    /// What it is and how it is accessed, in a few words: the file's name in errors, and a part of
    /// [`Pool::io`](crate::Pool::io). By default the identity.
    fn note(&self) -> String {
        self.identity().to_string()
    }

    /// Its length now, in bytes: a multiple of the pool's page size, unless
    /// [`Capabilities::fixed_length`] is set.
    fn len_bytes(&self) -> io::Result<u64>;

    /// Sets its length in bytes. Bytes beyond it are gone, and new bytes read as zeros. Durable with the
    /// next sync. Fails and changes nothing if the source has a fixed length or is not writable; the default
    /// always fails.
    fn set_len_bytes(&self, bytes: u64) -> io::Result<()> {
        let _ = bytes;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Reads pages that are neighbours in the file.
    fn read(&self, request: ReadRequest);

    /// Writes pages that are neighbours in the file. Fails if the source is not writable; the default always
    /// fails.
    fn write(&self, request: WriteRequest) {
        request.finish(Err(io::ErrorKind::Unsupported.into()));
    }

    /// Makes written bytes durable, with the metadata needed to read them back, or with `all_metadata` all
    /// metadata. The default always fails. Not called if the file is open for reading only.
    fn sync(&self, all_metadata: bool, done: Done) {
        let _ = all_metadata;
        done.finish(Err(io::ErrorKind::Unsupported.into()));
    }

    /// Allocates room for the range, so that a later write of it does not fail for lack of room, and makes
    /// the file at least that long. New bytes are zero, present ones stay. If it fails, the length is as
    /// before; the default always fails.
    fn allocate(&self, offset: u64, bytes: u64, done: Done) {
        let _ = (offset, bytes);
        done.finish(Err(io::ErrorKind::Unsupported.into()));
    }

    /// Forgets what it caches of the file and has not made durable, so that reads and [`Source::len_bytes`]
    /// show what is durable. The default does nothing, for sources that cache nothing.
    fn drop_cache(&self) -> io::Result<()> {
        Ok(())
    }

    /// The name in a folder that it was opened by. None if it has no name that could be removed; then
    /// [`File::remove`](crate::File::remove) is refused.
    #[doc(hidden)]
    fn entry(&self) -> Option<&dyn Entry> {
        None
    }
}

/// What a source can do, and which requests suit it best.
///
/// By default: reads only, of any length, in runs of up to 256 KiB, 32 in flight, aligned to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether it takes writes, allocations and syncs. If not, it must be opened with
    /// [`FileOptions::read_only`](crate::FileOptions::read_only).
    pub writable: bool,
    /// Whether the length never changes, as that of a block device. Then it need not be a multiple of a
    /// page.
    pub fixed_length: bool,
    /// The length in bytes, at least 1, beyond which longer requests do not cost less for each byte. The
    /// pool makes requests of up to this many bytes for neighbouring pages, but none longer than 256 KiB, or
    /// one page if that is more.
    pub run_bytes: usize,
    /// Requests in flight beyond which further ones only wait; at least 1. For an engine's own source this
    /// is for reports only: the pool begins all its requests.
    pub requests_in_flight: u32,
    /// What offsets, lengths and addresses of requests have to be multiples of.
    pub alignment: Alignment,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            writable: false,
            fixed_length: false,
            run_bytes: run::RUN_BYTES,
            requests_in_flight: 32,
            alignment: Alignment::NONE,
        }
    }
}

impl Capabilities {
    /// Most pages of one transfer: at least 1.
    pub(crate) fn run_pages(&self, page_bytes: usize) -> usize {
        (self.run_bytes / page_bytes).clamp(1, run::run_pages(page_bytes))
    }
}

/// What buffers, offsets and lengths of an operation on a file have to be multiples of, in bytes: powers of
/// two, no larger than a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// For the address of each buffer.
    pub memory_bytes: u32,
    /// For offsets and lengths.
    pub offset_bytes: u32,
}

impl Alignment {
    /// That of buffered I/O: no alignment.
    pub const NONE: Self = Self { memory_bytes: 1, offset_bytes: 1 };
}
