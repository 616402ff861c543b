//! Files as bytes: reads and writes of any length at any offset, over pages.

use std::ops::Range;
use std::time::Instant;

use bufpool_policies::{DEFAULT_TENANT, PageId};
use parking_lot::MutexGuard;

use crate::access::guard::ReadGuard;
use crate::access::hit::TenantAccess;
use crate::access::optimistic::OptimisticWriteGuard;
use crate::access::owned::OwnedWriteGuard;
use crate::error::{ErrorKind, Result};
use crate::files::bytes::ByteLength;
use crate::handle::file::{File, Page};
use crate::handle::tenant::Tenant;
use crate::state::waiting::{Limit, Refused};
use crate::sync::deadline_after;
use crate::thread::site::Origin;
use crate::write::drain::Drain;

/// Which part of which page.
struct Part {
    number: u64,
    in_page: Range<usize>,
    /// Of the caller's bytes.
    in_bytes: Range<usize>,
}

/// The page within which a file ends, to be changed.
enum LastPage<'f> {
    Plain(OwnedWriteGuard),
    Optimistic(OptimisticWriteGuard<'f>),
}

impl LastPage<'_> {
    /// Sets these bytes to zero. A page on which they are zeros already is not changed, and so does not
    /// become dirty.
    fn zero(&mut self, range: Range<usize>) {
        let page: &[u8] = match self {
            Self::Plain(page) => page,
            Self::Optimistic(page) => page,
        };
        if are_zeros(&page[range.clone()]) {
            return;
        }
        match self {
            Self::Plain(page) => page[range].fill(0),
            Self::Optimistic(page) => page.edit(range, |bytes| bytes.fill(0)),
        }
    }
}

impl File {
    /// The file's length in bytes: that of its pages, unless it was opened with
    /// [`FileOptions::bytes`](crate::FileOptions::bytes).
    pub fn byte_len(&self) -> u64 {
        let whole = || self.pages() * self.page_bytes() as u64;
        self.shared.byte_length.as_ref().map_or_else(whole, ByteLength::get)
    }

    /// Gives a file that was opened with [`FileOptions::bytes`](crate::FileOptions::bytes) this length.
    /// Bytes beyond it are gone, new bytes are zeros, and space for them is allocated. The new length is
    /// durable with the next flush.
    ///
    /// Waits for latches on the old or new last page and on pages beyond the new end, and for other
    /// operations on the file. Reads the page within which the file ends, if it is not in memory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for a file of pages and for an optimistic one; those of
    /// [`Tenant::write`](crate::Tenant::write) on the last page; those of [`File::extend`] if the file
    /// becomes longer, and of [`File::truncate`] if it becomes shorter. Nothing has changed then.
    #[track_caller]
    pub fn set_byte_len(&self, bytes: u64) -> Result<()> {
        const OPERATION: &str = "set length";
        let origin = Origin::caller();
        let length = self.length_in_bytes(OPERATION)?;
        self.shared.check_optimistic(false, OPERATION)?;
        self.shared.check_resizable(OPERATION)?;
        while bytes < length.get() {
            if self.cut(bytes, origin, OPERATION)? {
                return Ok(());
            }
        }
        self.reach(&self.resizing_tenant(), origin, bytes, OPERATION)
    }

    /// Shortens the file to `bytes`. False if the file has become that short meanwhile.
    fn cut(&self, bytes: u64, origin: Origin, operation: &'static str) -> Result<bool> {
        let page_bytes = self.page_bytes() as u64;
        let (pages, kept) = (bytes.div_ceil(page_bytes), (bytes % page_bytes) as usize);
        // The rest of the new last page becomes zeros. That page is latched before anything changes, because
        // it may have to be read.
        let tenant = self.resizing_tenant();
        // A thread that holds a page beyond may want it, so it is given back between tries.
        let file = &self.shared;
        let last = || self.write_page_of(&tenant, origin, bytes);
        let (mut last, drained) = match Drain::of(&self.pool).drain_with(file, pages, operation, last) {
            // Another thread has made it shorter.
            Err(error) if error.kind() == ErrorKind::PageBeyondEnd => return Ok(false),
            drained => drained?,
        };
        file.check_resizable(operation)?;
        if file.byte_length.as_ref().is_none_or(|length| length.get() <= bytes) {
            return Ok(false);
        }
        self.shorten(drained, pages, bytes, operation)?;
        last.iter_mut().for_each(|page| page.zero(kept..self.page_bytes()));
        Ok(true)
    }

    /// Makes the file at least `bytes` long, for `tenant`.
    fn reach(&self, tenant: &Tenant, origin: Origin, bytes: u64, operation: &'static str) -> Result<()> {
        let length = self.length_in_bytes(operation)?;
        let file = &*self.shared;
        file.check_resizable(operation)?;
        if bytes <= length.get() {
            return Ok(());
        }
        let _locked = self.lock_growing(tenant, origin, bytes, operation)?;
        file.check_resizable(operation)?;
        if bytes > length.get() {
            self.lengthen(bytes.div_ceil(self.page_bytes() as u64).max(self.pages()), bytes, operation)?;
        }
        Ok(())
    }

    /// Locks the length of the file, which is to grow for `tenant` to `bytes` or less. On the page within
    /// which the file ends, if there is one, the bytes from the end up to `bytes` are zeros on return. They
    /// may have been others: a write that runs while another thread shortens the file may reach the page
    /// after that thread has cleared its rest.
    pub(super) fn lock_growing(
        &self,
        tenant: &Tenant,
        origin: Origin,
        bytes: u64,
        operation: &'static str,
    ) -> Result<MutexGuard<'_, ()>> {
        let mut until = None;
        loop {
            let end = self.byte_len();
            let mut last = match self.write_page_of(tenant, origin, end) {
                Err(error) if error.kind() == ErrorKind::PageBeyondEnd => continue,
                last => last?,
            };
            // The lock is only tried while the page is held, because its holder may be waiting for the page.
            let Some(locked) = self.shared.lock_length_at_once() else {
                drop(last);
                let until = *until.get_or_insert_with(|| deadline_after(self.pool.latch_wait));
                if Instant::now() >= until {
                    return Err(self.shared.busy_error(operation, self.pool.latch_wait));
                }
                self.shared.wait_for_operation(until);
                continue;
            };
            if self.byte_len() == end {
                let page_bytes = self.page_bytes() as u64;
                let start = end % page_bytes;
                let behind = bytes.saturating_sub(end).min(page_bytes - start);
                last.iter_mut().for_each(|page| page.zero(start as usize..(start + behind) as usize));
                return Ok(locked);
            }
        }
    }

    /// The page within which a file of `bytes` bytes ends, exclusively latched. None if the last page is
    /// whole.
    fn write_page_of<'f>(
        &'f self,
        tenant: &'f Tenant,
        origin: Origin,
        bytes: u64,
    ) -> Result<Option<LastPage<'f>>> {
        let page_bytes = self.page_bytes() as u64;
        if bytes.is_multiple_of(page_bytes) {
            return Ok(None);
        }
        let (page, access) = (self.page(bytes / page_bytes), TenantAccess::of(tenant));
        let last = match self.shared.optimistic {
            true => access.guard_optimistic(page, origin, Limit::Default).map(LastPage::Optimistic),
            false => access.guard_exclusive_owned(page, origin, Limit::Default).map(LastPage::Plain),
        };
        last.map(Some).map_err(Refused::into_error)
    }

    /// The tenant of accesses that a change of length makes on no tenant's behalf: the default tenant.
    pub(super) fn resizing_tenant(&self) -> Tenant {
        Tenant::new(self.pool.clone(), DEFAULT_TENANT, "default".into(), None)
    }

    fn length_in_bytes(&self, operation: &'static str) -> Result<&ByteLength> {
        let message = "the file was opened as one of whole pages, expected FileOptions::bytes(true)";
        let length = self.shared.byte_length.as_ref();
        length.ok_or_else(|| self.shared.error(ErrorKind::Unsupported, operation, message))
    }

    /// Divides the `bytes` bytes from `offset` on into parts of pages.
    fn parts(&self, offset: u64, bytes: usize) -> impl Iterator<Item = Part> {
        let page_bytes = self.page_bytes();
        let mut done = 0;
        std::iter::from_fn(move || {
            if done == bytes {
                return None;
            }
            let at = offset + done as u64;
            let from = (at % page_bytes as u64) as usize;
            let here = (page_bytes - from).min(bytes - done);
            done += here;
            Some(Part {
                number: at / page_bytes as u64,
                in_page: from..from + here,
                in_bytes: done - here..done,
            })
        })
    }
}

/// See [`Tenant::read_at`](crate::Tenant::read_at). If there are several pages, `prefetch` is called with
/// their numbers first; then `read` is called for each page.
pub(super) fn read_at<'f>(
    tenant: &Tenant,
    file: &'f File,
    offset: u64,
    into: &mut [u8],
    prefetch: impl FnOnce(Range<u64>),
    mut read: impl FnMut(Page<'f>) -> Result<ReadGuard<'f>>,
) -> Result<usize> {
    const OPERATION: &str = "read bytes";
    check(tenant, file, OPERATION)?;
    let there = file.byte_len().saturating_sub(offset).min(into.len() as u64) as usize;
    let page_bytes = file.page_bytes() as u64;
    let pages = offset / page_bytes..(offset + there as u64).div_ceil(page_bytes);
    if pages.end > pages.start + 1 {
        prefetch(pages);
    }
    for Part { number, in_page, in_bytes } in file.parts(offset, there) {
        let page = match read(file.page(number)) {
            // The file has become shorter meanwhile.
            Err(error) if error.kind() == ErrorKind::PageBeyondEnd => return Ok(in_bytes.start),
            page => page?,
        };
        // A thread that shortens the file latches its new last page before it changes the length, and keeps
        // the latch until the rest of that page is zeros. So the length does not change within this page
        // now.
        let left = file.byte_len().saturating_sub(offset + in_bytes.start as u64);
        let here = in_bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        into[in_bytes.start..in_bytes.start + here]
            .copy_from_slice(&page[in_page.start..in_page.start + here]);
        if here < in_bytes.len() {
            return Ok(in_bytes.start + here);
        }
    }
    Ok(there)
}

/// See [`Tenant::write_at`](crate::Tenant::write_at). `write` gets a page, the range in it, and the bytes
/// for that range.
pub(super) fn write_at<'f>(
    tenant: &Tenant,
    file: &'f File,
    origin: Origin,
    offset: u64,
    bytes: &[u8],
    mut write: impl FnMut(Page<'f>, Range<usize>, &[u8]) -> Result<()>,
) -> Result<()> {
    const OPERATION: &str = "write bytes";
    let (bits, page_bytes, grows) =
        (PageId::NUMBER_BITS, file.page_bytes(), file.shared.byte_length.is_some());
    let too_long = || {
        let (kind, within) = match grows {
            true => (ErrorKind::FileLength, format!("2^{bits} pages of {page_bytes} bytes")),
            false => (ErrorKind::Range, format!("the file's {} pages", file.pages())),
        };
        let message = format!("{} bytes at byte {offset}, expected an end within {within}", bytes.len());
        file.shared.error(kind, OPERATION, message)
    };
    // Before the file becomes longer.
    check(tenant, file, OPERATION)?;
    file.shared.check_writable(OPERATION)?;
    file.shared.check_optimistic(false, OPERATION)?;
    let end = offset.checked_add(bytes.len() as u64).ok_or_else(too_long)?;
    if end > file.byte_len() && !bytes.is_empty() {
        let is_possible = grows && end.div_ceil(page_bytes as u64) <= 1 << bits;
        if !is_possible {
            return Err(too_long());
        }
        file.reach(tenant, origin, end, OPERATION)?;
    }
    let mut parts = file.parts(offset, bytes.len());
    parts.try_for_each(|Part { number, in_page, in_bytes }| {
        write(file.page(number), in_page, &bytes[in_bytes])
    })
}

fn are_zeros(bytes: &[u8]) -> bool {
    // No early exit within a chunk, so that one instruction looks at many bytes.
    bytes.chunks(64).all(|chunk| chunk.iter().fold(0, |seen, byte| seen | byte) == 0)
}

/// The checks that a call makes even if it has no bytes to move.
fn check(tenant: &Tenant, file: &File, operation: &'static str) -> Result<()> {
    tenant.check_file(file, operation)?;
    file.shared.check_open(operation)?;
    tenant.check_open(operation).map_err(|error| error.in_file(file.name()))
}
