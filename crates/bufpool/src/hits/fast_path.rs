//! What a hit looks at of a file and its pool. Each handle of a file has a copy, so that a hit finds all of
//! it in the handle that it is given: the fewer loads a hit makes, the more hits a processor has in flight at
//! a time (see [`docs::performance`](crate::docs::performance)).

use std::ptr::{NonNull, without_provenance_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use bufpool_policies::FrameId;

use crate::hits::filter::{HitFilter, Marked};
use crate::memory::arena::FrameMap;
use crate::page::latch::SharedLatch;
use crate::page::table::PageTable;
use crate::page::word::PageWord;
use crate::page::words::WordMap;
use crate::thread::holds::HoldsSlot;
use crate::thread::hot::HOLDS_SLOTS;

/// A pool in one word: the address of its first frame, which identifies the pool, and in the 12 low bits,
/// which are 0 in that address, what else a hit has to know. Open tenants and file handles carry their pool's
/// tag. So one comparison of two tags shows that the tenant is open and the file is of its pool, and the rest
/// is in a register.
///
/// ```text
///   63                    12   11    10           6 5              0
/// +-------------------------+-------+--------------+----------------+
/// |   where frame 0 lies    | notes |  holds slot  |   page shift   |
/// +-------------------------+-------+--------------+----------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PoolTag(*mut u8);

// SAFETY: an address; what may be done with the bytes there is up to who holds the frame.
unsafe impl Send for PoolTag {}
// SAFETY: an address; what may be done with the bytes there is up to who holds the frame.
unsafe impl Sync for PoolTag {}

const SLOT_SHIFT: u32 = 6;
const NOTES_HITS: usize = 1 << 11;
const _: () = assert!(HOLDS_SLOTS << SLOT_SHIFT <= NOTES_HITS);
/// Frames begin at multiples of this.
const START_ALIGN: usize = 1 << 12;

impl PoolTag {
    /// The tag of a closed tenant, which no pool and no file has.
    pub const CLOSED: Self = Self(without_provenance_mut(usize::MAX));
    /// The tag of a file whose pages are not found through its handle, which no pool and no tenant has.
    const ELSEWHERE: Self = Self(without_provenance_mut(usize::MAX - 1));

    /// Of a pool with frames there; `notes_hits`: hits reach the directory.
    pub fn new(frames: &FrameMap, slot: HoldsSlot, notes_hits: bool) -> Self {
        let start = frames.start().as_ptr();
        assert!(start.addr().is_multiple_of(START_ALIGN));
        let notes = if notes_hits { NOTES_HITS } else { 0 };
        let rest = notes | (slot.number() as usize) << SLOT_SHIFT | frames.page_shift() as usize;
        Self(start.map_addr(|start| start | rest))
    }

    #[inline(always)]
    pub fn notes_hits(self) -> bool {
        self.0.addr() & NOTES_HITS != 0
    }

    /// Where threads count their guards and pins on pages of the pool.
    #[inline(always)]
    pub fn holds_slot(self) -> HoldsSlot {
        HoldsSlot::from_number((self.0.addr() >> SLOT_SHIFT) as u32)
    }

    /// Where the pool's frames lie.
    ///
    /// # Safety
    ///
    /// It is a pool's.
    #[inline(always)]
    unsafe fn frames(self) -> FrameMap {
        let start = self.0.map_addr(|start| start & !(START_ALIGN - 1));
        // SAFETY: the tag is a pool's, and so an address of memory, which is not null.
        let start = unsafe { NonNull::new_unchecked(start) };
        // SAFETY: the address and the shift are those of the map that the tag was made of.
        unsafe { FrameMap::new(start, self.0.addr() as u32 % u64::BITS) }
    }

    /// To be kept in an atomic pointer.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut u8 {
        self.0
    }

    /// From [`as_ptr`](Self::as_ptr).
    #[inline(always)]
    pub fn from_ptr(tag: *mut u8) -> Self {
        Self(tag)
    }
}

/// What a hit looks at of the pool.
#[derive(Clone)]
pub(crate) struct FastPool {
    /// Tells pools apart in the lifetime of the process.
    pub serial: u64,
    pub tag: PoolTag,
    /// Which pages need not be noted.
    pub filter: HitFilter,
}

impl FastPool {
    /// Of a new pool.
    pub fn new(tag: PoolTag, filter: HitFilter) -> Self {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only that no two are the same counts.
        Self { serial: SERIAL.fetch_add(1, Ordering::Relaxed), tag, filter }
    }
}

/// What a hit reads of a file, copied into each of the file's handles. Nothing of it changes, except for the
/// numbers in the filter.
pub(crate) struct FastPath {
    /// The pool's; [`PoolTag::ELSEWHERE`] if the file's words are not all where `words` says.
    tag: PoolTag,
    /// The same, if pages may be read without a latch.
    tag_optimistic: PoolTag,
    words: WordMap,
    pub filter: HitFilter,
}

/// A file's page words and frames, for a tenant of its pool.
#[derive(Clone, Copy)]
pub(crate) struct FastPages<'f> {
    file: &'f FastPath,
    pub tag: PoolTag,
}

impl FastPath {
    /// Of a file with this table.
    ///
    /// # Safety
    ///
    /// The table belongs to the file of a pool with this part, and is not dropped before what is made here.
    pub unsafe fn new(pool: &FastPool, table: &PageTable, optimistic: bool) -> Self {
        // SAFETY: the caller drops what is made here before the table.
        let words = unsafe { table.map() };
        let tag = if words.is_some() { pool.tag } else { PoolTag::ELSEWHERE };
        Self {
            tag,
            tag_optimistic: if optimistic { tag } else { PoolTag::ELSEWHERE },
            words: words.unwrap_or_else(WordMap::none),
            filter: pool.filter.clone(),
        }
    }

    /// For a tenant that is open in the pool with this tag. None if that is another pool, or if the words
    /// have to be found in another way.
    #[inline(always)]
    pub fn pages(&self, open_in: PoolTag) -> Option<FastPages<'_>> {
        (open_in == self.tag).then_some(FastPages { file: self, tag: open_in })
    }

    /// As [`pages`](Self::pages), to be read without a latch.
    #[inline(always)]
    pub fn pages_optimistic(&self, open_in: PoolTag) -> Option<FastPages<'_>> {
        (open_in == self.tag_optimistic).then_some(FastPages { file: self, tag: open_in })
    }
}

impl<'f> FastPages<'f> {
    /// The word of page `number` of the file with this table, made or not; None if it lies in a far chunk and
    /// was not made. Only relaxed loads of the word are allowed until one of them has seen a resident page.
    #[inline(always)]
    pub fn word_or_far(self, number: u64, table: &'f PageTable) -> Option<&'f PageWord> {
        // SAFETY: the tag was a pool's, so there is a map.
        unsafe { self.file.words.get(number) }.or_else(|| table.get_far(number))
    }

    /// Takes a shared latch on page `number` if its word is near, `may_take` allows its frame, and the first
    /// try succeeds. Also returns the page's bytes.
    #[inline(always)]
    pub fn try_shared_once(
        self,
        number: u64,
        may_take: impl FnOnce(Marked<'f>) -> bool,
    ) -> Option<(SharedLatch<'f>, NonNull<[u8]>)> {
        // SAFETY: the tag was a pool's, so there is a map.
        let word = unsafe { self.file.words.get(number) }?;
        // SAFETY: the frame asked about is named by a word of the pool's.
        let (latch, frame) = SharedLatch::try_once(word, |frame| may_take(unsafe { self.marked(frame) }))?;
        // SAFETY: words are published with leases of the pool's arena, the one that the table has the map of.
        Some((latch, unsafe { self.frames().frame_soon(frame) }))
    }

    /// A shared latch without waiting on page `number` of the file with this table, where the page is, and
    /// its bytes, which are about to be read.
    #[inline(always)]
    pub fn try_shared(
        self,
        number: u64,
        table: &'f PageTable,
    ) -> Option<(SharedLatch<'f>, Marked<'f>, NonNull<[u8]>)> {
        let word = self.word_or_far(number, table)?;
        let (latch, (frame, bytes)) = SharedLatch::try_near(word, |frame| {
            // SAFETY: words are published with leases of the pool's arena, the one that the table has the map
            // of.
            (frame, unsafe { self.frames().frame_soon(frame) })
        })?;
        // SAFETY: a word of the pool's has named the frame.
        let marked = unsafe { self.marked(frame) };
        Some((latch, marked, bytes))
    }

    /// Where the frames of the pool lie.
    #[inline(always)]
    pub fn frames(self) -> FrameMap {
        // SAFETY: the tag is that of the pool.
        unsafe { self.tag.frames() }
    }

    /// A frame with its mark in the filter.
    ///
    /// # Safety
    ///
    /// A word of the pool's has named the frame.
    #[inline(always)]
    pub unsafe fn marked(self, frame: FrameId) -> Marked<'f> {
        // SAFETY: there is a mark for each frame of the arena that may hold a page.
        let mark = unsafe { self.file.filter.numbers().of_known(frame) };
        Marked { frame, mark }
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;
    use crate::io::sim::SimDevice;
    use crate::memory::arena::Arena;
    use crate::{FileOptions, PoolOptions};

    #[test]
    fn a_tag_says_what_it_was_made_of() {
        for slot in (0..HOLDS_SLOTS as u32).map(HoldsSlot::from_number) {
            for (page_bytes, notes_hits) in [(512, true), (4096, false), (1 << 16, true)] {
                let arena = Arena::new(3, page_bytes).unwrap().0;
                let tag = PoolTag::new(&arena.map(), slot, notes_hits);
                assert_eq!((tag.notes_hits(), tag.holds_slot()), (notes_hits, slot));
                // SAFETY: of an arena, as a pool's.
                assert_eq!(unsafe { tag.frames() }, arena.map());
                assert_eq!(PoolTag::from_ptr(tag.as_ptr()), tag);
                assert!(tag != PoolTag::CLOSED && tag != PoolTag::ELSEWHERE);
            }
        }
        assert_ne!(PoolTag::CLOSED, PoolTag::ELSEWHERE);
    }

    #[test]
    fn a_page_is_latched_fast_if_it_is_there_and_free() {
        let device = SimDevice::new(1);
        device.put("data", &[7; 8 * 4096]);
        let pool = PoolOptions::new().frames(32).page_bytes(4096).threads_max(8).open_on(&device).unwrap();
        let file = pool.open_file("data", FileOptions::new()).unwrap();
        let tenant = pool.default_tenant();
        let pages = file.hot.pages(tenant.open_in()).expect("it is open in the file's pool");
        let latched = || pages.try_shared(5, &file.shared.table);
        assert!(latched().is_none(), "it is not there");
        drop(tenant.read(file.page(5)).unwrap());
        let (latch, marked, bytes) = latched().unwrap();
        assert_eq!((latch.frame(), bytes.len()), (marked.frame, 4096));
        drop(latch);
        let guard = tenant.write(file.page(5)).unwrap();
        assert!(latched().is_none(), "it is latched exclusively");
        drop(guard);
    }
}
