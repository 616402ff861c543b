//! Reading without a latch: take a version, read, look whether the version is still the same.
//!
//! An optimistic read stores nothing that threads share, so any number of threads may read the same page at
//! full speed. What it reads may be torn by a writer, or belong to another page that has taken the frame; the
//! version tells, and the result is thrown away. In Rust such reading is sound only if reader and writer both
//! use atomic operations of one size, which is why it is for files opened with
//! [`FileOptions::optimistic`](crate::FileOptions::optimistic) only: their pages are read through a
//! [`PageView`] and written through an [`OptimisticWriteGuard`], in words of 8 bytes. That a frame gets its
//! next page only when nobody reads the last one any more is seen to in [`readers`].
//!
//! For lock coupling, check the parent's version after the child has been read:
//!
//! ```
//! # fn run(tenant: &bufpool::Tenant, index: &bufpool::File, key: usize) -> bufpool::Result<u64> {
//! loop {
//!     let root = index.page(0);
//!     let (child, version) = tenant.optimistic(root, |page| page.read_u64(8 * key))?;
//!     let (value, _) = tenant.optimistic(index.page(child % index.pages()), |page| page.read_u64(0))?;
//!     if tenant.still(root, version) {
//!         return Ok(value);
//!     }
//! }
//! # }
//! ```

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::access::guard::{Pin, ReadGuard, WriteGuard};
use crate::access::hit::{Granted, TenantAccess};
use crate::error::Result;
use crate::handle::file::Page;
use crate::memory::arena::FrameMap;
use crate::page::readers::{self};
use crate::page::word::{Begun, PageWord, Version};
use crate::state::waiting::{Limit, Purpose, Refused};
use crate::thread::context::ScopeId;
use crate::thread::reader::Section;
use crate::thread::site::{CallPlace, Origin, PageClass, SiteRef};

/// Reads that may fail before a latch is taken.
const TRIES: u32 = 4;
const WORD: usize = size_of::<u64>();

/// A page's bytes, which may change while they are read.
///
/// Numbers are little-endian and may begin at any byte. What lies beyond the page reads as zeros: an offset
/// that was itself read from a torn page may be anything.
#[derive(Clone, Copy)]
pub struct PageView<'v> {
    words: &'v [AtomicU64],
}

/// Exclusive access to a page of an optimistic file. Dereferences to its bytes, for reading.
///
/// An optimistic read that overlaps a change made through the guard is never confirmed.
pub struct OptimisticWriteGuard<'g> {
    guard: WriteGuard<'g>,
}

impl<'g> TenantAccess<'g> {
    #[inline(always)]
    pub(crate) fn read_optimistic<R>(
        self,
        page: Page<'_>,
        origin: Origin,
        mut read: impl FnMut(PageView<'_>) -> R,
    ) -> Result<(R, Version)> {
        if let Some(pages) = page.file().hot.pages_optimistic(self.tenant.open_in())
            && let Some(word) = pages.word_or_far(page.number(), &page.file().shared.table)
            && let Some(section) = readers::enter_unfenced()
            && let Some((result, version)) =
                try_optimistic(pages.frames(), word, Some(section), &mut read, PageWord::is_as)
        {
            // SAFETY: a word of the pool's has named the frame.
            let frame = unsafe { pages.marked(version.frame()) };
            self.note_hit(pages.tag, page, frame, origin, false);
            return Ok((result, version));
        }
        self.read_optimistic_slowly(page, origin.place, origin.scope(), origin.class, &mut read)
    }

    /// A few more tries, and then under a latch.
    #[cold]
    #[inline(never)]
    fn read_optimistic_slowly<R>(
        self,
        page: Page<'_>,
        place: CallPlace,
        scope: ScopeId,
        class: PageClass,
        read: &mut impl FnMut(PageView<'_>) -> R,
    ) -> Result<(R, Version)> {
        const OPERATION: &str = "read page optimistically";
        let site = self.called(SiteRef { place, scope, class });
        page.check_optimistic(true, OPERATION)?;
        let word = self.checked_word(page, Purpose::Read, OPERATION)?;
        let frames = *page.file().shared.table.frames();
        if let Some(reader) = readers::own_reader() {
            for _ in 0..TRIES {
                if let Some((result, version)) =
                    try_optimistic(frames, word, reader.enter(), read, |word, begun| {
                        word.still(begun.version())
                    })
                {
                    let frame = self.marked(version.frame());
                    self.note_hit_at(self.tenant.pool.hot.tag, page, frame, site, false);
                    return Ok((result, version));
                }
                if word.state().is_absent() {
                    break;
                }
                std::hint::spin_loop();
            }
        }
        let latch = self.latch_or_load(page, Purpose::Read, site, Limit::Default);
        let guard = ReadGuard::on_latch(self.tenant, page, latch.map_err(Refused::into_error)?.into());
        let version = word.version_latched();
        // SAFETY: the latch keeps the page in the frame, which is one of ours, and writers away.
        let words = unsafe { frames.words(version.frame()) };
        let result = read(PageView { words });
        drop(guard);
        Ok((result, version))
    }

    pub(crate) fn guard_optimistic(
        self,
        page: Page<'g>,
        origin: Origin,
        limit: Limit,
    ) -> Granted<OptimisticWriteGuard<'g>> {
        page.check_optimistic(true, "write page")?;
        let latch = self.latch(page, Purpose::Write, origin, limit)?;
        Ok(OptimisticWriteGuard { guard: WriteGuard::new(self.tenant, page, latch) })
    }

    pub(crate) fn guard_created_optimistic(
        self,
        page: Page<'g>,
        origin: Origin,
        limit: Limit,
    ) -> Granted<OptimisticWriteGuard<'g>> {
        page.check_optimistic(true, "create page")?;
        let latch = self.latch(page, Purpose::Create, origin, limit)?;
        let mut guard = WriteGuard::new(self.tenant, page, latch);
        guard.words_mut().iter().for_each(|word| word.store(0, Ordering::Relaxed));
        Ok(OptimisticWriteGuard { guard })
    }
}

/// One try, in `section`, or within another if there is none. The word is of the file and `frames` of its
/// pool. `confirm` says whether what was read is what the page was.
#[inline(always)]
fn try_optimistic<R>(
    frames: FrameMap,
    word: &PageWord,
    section: Option<Section<'_>>,
    read: &mut impl FnMut(PageView<'_>) -> R,
    confirm: impl FnOnce(&PageWord, Begun) -> bool,
) -> Option<(R, Version)> {
    // After the section was begun: a thread that takes the page away after this look waits for the section's
    // end.
    let begun = word.begin_optimistic()?;
    let version = begun.version();
    // SAFETY: a page was seen in the frame, so it is one of the pool's arena, which the file's user keeps.
    // The section was begun before that, so nobody writes there but through words, before the section has
    // ended, and the view does not outlive it.
    let words = unsafe { frames.words(version.frame()) };
    let result = read(PageView { words });
    let valid = confirm(word, begun);
    drop(section);
    valid.then_some((result, version))
}

impl PageView<'_> {
    /// Bytes of the page.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // Pages are never empty.
    pub fn len(&self) -> usize {
        self.words.len() * WORD
    }

    /// The 8 bytes from `offset`.
    #[inline(always)]
    pub fn read_u64(&self, offset: usize) -> u64 {
        if offset.is_multiple_of(WORD) {
            return self.word(offset / WORD);
        }
        let shift = 8 * (offset % WORD) as u32;
        self.word(offset / WORD) >> shift | self.word(offset / WORD + 1) << (u64::BITS - shift)
    }

    /// The 4 bytes from `offset`.
    #[inline(always)]
    pub fn read_u32(&self, offset: usize) -> u32 {
        self.read_u64(offset) as u32
    }

    /// The 2 bytes from `offset`.
    #[inline(always)]
    pub fn read_u16(&self, offset: usize) -> u16 {
        self.read_u64(offset) as u16
    }

    /// The byte at `offset`.
    #[inline(always)]
    pub fn read_u8(&self, offset: usize) -> u8 {
        self.read_u64(offset) as u8
    }

    /// Fills `out` with the bytes from `offset` on.
    pub fn read_at(&self, offset: usize, out: &mut [u8]) {
        for (index, piece) in out.chunks_mut(WORD).enumerate() {
            let at = offset.saturating_add(index * WORD);
            piece.copy_from_slice(&self.read_u64(at).to_le_bytes()[..piece.len()]);
        }
    }

    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.words.get(index).map_or(0, |word| u64::from_le(word.load(Ordering::Relaxed)))
    }
}

impl fmt::Debug for PageView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageView({} bytes)", self.len())
    }
}

impl<'g> OptimisticWriteGuard<'g> {
    /// The page.
    #[inline]
    pub fn page(&self) -> Page<'g> {
        self.guard.page()
    }

    /// Overwrites the bytes from `offset` on.
    ///
    /// # Panics
    ///
    /// If they do not lie within the page.
    pub fn write_at(&mut self, offset: usize, bytes: &[u8]) {
        let page_bytes = self.len();
        let fits = offset.checked_add(bytes.len()).is_some_and(|end| end <= page_bytes);
        assert!(fits, "{} bytes from {offset} do not lie within a page of {page_bytes}", bytes.len());
        if bytes.is_empty() {
            return;
        }
        let words = self.guard.words_mut();
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let within = at % WORD;
            let (piece, later) = rest.split_at((WORD - within).min(rest.len()));
            let word = &words[at / WORD];
            let mut raw = word.load(Ordering::Relaxed).to_ne_bytes();
            raw[within..within + piece.len()].copy_from_slice(piece);
            word.store(u64::from_ne_bytes(raw), Ordering::Relaxed);
            (at, rest) = (at + piece.len(), later);
        }
    }

    /// Overwrites the 8 bytes from `offset` on, little-endian.
    ///
    /// # Panics
    ///
    /// If they do not lie within the page.
    pub fn write_u64(&mut self, offset: usize, value: u64) {
        self.write_at(offset, &value.to_le_bytes());
    }

    /// Lets `edit` change a private copy of a range of the page, which is allocated, and stores it back. If
    /// `edit` panics, nothing has changed.
    ///
    /// # Panics
    ///
    /// If the range does not lie within the page, or `edit` does.
    pub fn edit<R>(&mut self, range: Range<usize>, edit: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut copy = self[range.clone()].to_vec();
        let result = edit(&mut copy);
        self.write_at(range.start, &copy);
        result
    }

    /// As [`WriteGuard::set_lsn`].
    pub fn set_lsn(&mut self, lsn: u64) {
        self.guard.set_lsn(lsn);
    }

    /// A pin on the page, which outlives the guard. Not an access of its own.
    pub fn pin(&self) -> Pin<'g> {
        self.guard.pin()
    }

    /// Turns exclusive into shared access without letting go of the page. Never waits, and lets waiting
    /// readers in.
    pub fn downgrade(self) -> ReadGuard<'g> {
        self.guard.downgrade()
    }
}

impl Deref for OptimisticWriteGuard<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.guard
    }
}

impl fmt::Debug for OptimisticWriteGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OptimisticWriteGuard({:?})", self.page())
    }
}
