//! The frame table: what is known of each frame besides its bytes.

use std::time::Instant;

use bufpool_policies::{FrameId, PageId, PageWorth};

use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Condvar, Mutex, Ordering};

/// Stands for "no page" in [`Frame::page`]; page ids never reach it.
const NO_PAGE: u64 = u64::MAX;
/// The same, in a frame that optimistic readers may still be looking at.
const NO_PAGE_BUT_READERS: u64 = u64::MAX - 1;

/// What is known of one frame.
///
/// Invariants, while a page is resident in the frame:
/// 1. `page` is that page; it changes only while the page's word is held exclusively (or loading).
/// 2. The page is dirty if and only if the two halves of `marks` differ.
/// 3. At most one write of the page is in flight, and then `writing` is set; it is set under a latch and
///    keeps the page from departing.
/// 4. `pins` rises only under a latch, so a thread that holds the word exclusively and sees 0 may let the
///    page depart.
///
/// What each miss looks at comes first. An entry has 48 bytes, so this part is in one cache line for three
/// frames of four.
#[repr(C)]
pub(crate) struct Frame {
    page: AtomicU64,
    /// Upper half: the number of the last mark, which says that the page is dirty. Lower half: that of the
    /// last mark that was written out. Both start at 0 for a page just read. 32 bits each: a page would have
    /// to be marked 2^32 times during one write to look clean.
    marks: AtomicU64,
    /// 64 bits, so that it cannot overflow: pins may be forgotten, and are then never taken off.
    pins: AtomicU64,
    writing: AtomicU32,
    /// A [`PageWorth`], set when the page is chosen to leave.
    worth: AtomicU8,
    /// A [`Below`].
    below: AtomicU8,
    rec_lsn: AtomicU64,
    page_lsn: AtomicU64,
}

#[cfg(not(bufpool_loom))]
const _: () = assert!(size_of::<Frame>() <= 64);

/// What a tier that promotes has of a page in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Below {
    Nothing,
    /// A copy, and the pool keeps the page as well.
    Copy,
    /// The page: the pool gives it up first.
    Page,
}

/// The number of a page's last mark, noted when it is copied for writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark(u32);

impl Frame {
    pub(crate) fn empty() -> Self {
        Self {
            page: AtomicU64::new(NO_PAGE),
            marks: AtomicU64::new(0),
            rec_lsn: AtomicU64::new(u64::MAX),
            page_lsn: AtomicU64::new(0),
            pins: AtomicU64::new(0),
            writing: AtomicU32::new(0),
            worth: AtomicU8::new(PageWorth::Once as u8),
            below: AtomicU8::new(Below::Nothing as u8),
        }
    }

    /// The page in the frame. May be out of date unless the caller holds the page's word.
    pub fn page(&self) -> Option<PageId> {
        let page = self.page.load(Ordering::Acquire);
        (page < NO_PAGE_BUT_READERS).then_some(PageId(page))
    }

    /// A page has come in, clean. Only the holder of its word calls this.
    pub fn occupy(&self, page: PageId) {
        debug_assert_eq!(self.pins.load(Ordering::Relaxed), 0);
        self.marks.store(0, Ordering::Relaxed);
        // Most pages were clean all the time, and these are in another cache line.
        for (lsn, none) in [(&self.page_lsn, 0), (&self.rec_lsn, u64::MAX)] {
            if lsn.load(Ordering::Relaxed) != none {
                lsn.store(none, Ordering::Relaxed);
            }
        }
        self.page.store(page.0, Ordering::Release);
    }

    /// The page has left; its word is held exclusively. `has_readers` if it may have been read without a
    /// latch. True if it was dirty.
    pub fn vacate(&self, has_readers: bool) -> bool {
        // One that is clean stays clean: it is marked under a latch, and a write that ends makes no page
        // dirty.
        let was_dirty = self.is_dirty() && is_dirty(self.marks.swap(0, Ordering::AcqRel));
        self.below.store(Below::Nothing as u8, Ordering::Relaxed);
        self.page.store(if has_readers { NO_PAGE_BUT_READERS } else { NO_PAGE }, Ordering::Release);
        was_dirty
    }

    /// The page that has left may still be being read without a latch.
    pub fn may_have_readers(&self) -> bool {
        self.page.load(Ordering::Acquire) == NO_PAGE_BUT_READERS
    }

    /// No optimistic read of the page that has left is going on any more.
    pub fn readers_left(&self) {
        self.page.store(NO_PAGE, Ordering::Release);
    }

    /// Contents differ from the file.
    pub fn is_dirty(&self) -> bool {
        is_dirty(self.marks.load(Ordering::Acquire))
    }

    /// Marks the page dirty; the caller holds it exclusively and has not written yet. True if it was clean.
    pub fn mark_dirty(&self) -> bool {
        let marks = self.marks.load(Ordering::Relaxed);
        // The numbers may come round while the page stays dirty; the one that would make it look clean is
        // left out. Only the end of a write changes the other half meanwhile, to the number of an earlier
        // mark.
        let step = if is_dirty(marks.wrapping_add(1 << 32)) { 1 << 32 } else { 2 << 32 };
        !is_dirty(self.marks.fetch_add(step, Ordering::AcqRel))
    }

    /// The last mark, for a caller that holds a latch and is about to copy the contents.
    pub fn mark(&self) -> Mark {
        Mark((self.marks.load(Ordering::Acquire) >> 32) as u32)
    }

    /// The contents as of `mark` are in the file. True if that makes a dirty page clean; false if it was
    /// marked meanwhile.
    pub fn mark_written(&self, mark: Mark) -> bool {
        let written = |marks: u64| Some((marks >> 32 << 32) | u64::from(mark.0));
        let before = self.marks.fetch_update(Ordering::AcqRel, Ordering::Acquire, written);
        before.is_ok_and(|marks| (marks >> 32) as u32 == mark.0 && marks as u32 != mark.0)
    }

    /// What is known of the page, for a caller that has chosen it to leave.
    pub fn set_worth(&self, worth: PageWorth) {
        self.worth.store(worth as u8, Ordering::Relaxed);
    }

    /// What was known of the page when it was chosen to leave.
    pub fn worth(&self) -> PageWorth {
        let worth = self.worth.load(Ordering::Relaxed);
        let known = [PageWorth::Again, PageWorth::Never].into_iter().find(|known| *known as u8 == worth);
        known.unwrap_or(PageWorth::Once)
    }

    /// What the tier has of the page that is about to come in here. Only the holder of its word calls this.
    pub fn set_below(&self, below: Below) {
        self.below.store(below as u8, Ordering::Relaxed);
    }

    /// What the tier had of the page when it came in.
    pub fn below(&self) -> Below {
        let below = self.below.load(Ordering::Relaxed);
        let known = [Below::Copy, Below::Page].into_iter().find(|known| *known as u8 == below);
        known.unwrap_or(Below::Nothing)
    }

    /// Takes the right to write the page out. Needs a latch; false if a write is in flight.
    pub fn begin_write(&self) -> bool {
        self.writing.swap(1, Ordering::Acquire) == 0
    }

    /// The write is over.
    pub fn end_write(&self) {
        self.writing.store(0, Ordering::Release);
    }

    /// A write of the page is in flight.
    pub fn is_writing(&self) -> bool {
        self.writing.load(Ordering::Acquire) != 0
    }

    /// Adds a pin. Needs a latch, or another pin.
    pub fn pin(&self) {
        self.pins.fetch_add(1, Ordering::Relaxed);
    }

    /// Drops a pin. Release, so that what was done under it is over when an evictor sees 0.
    pub fn unpin(&self) {
        let before = self.pins.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0);
    }

    pub fn pins(&self) -> u64 {
        self.pins.load(Ordering::Acquire)
    }

    /// The log sequence number of the last change.
    pub fn page_lsn(&self) -> u64 {
        self.page_lsn.load(Ordering::Acquire)
    }

    /// No change of the page that is not in its file was logged before this; meaningless while the page is
    /// clean and nobody has it exclusively.
    pub fn rec_lsn(&self) -> u64 {
        self.rec_lsn.load(Ordering::Acquire)
    }

    pub fn set_rec_lsn(&self, lsn: u64) {
        self.rec_lsn.store(lsn, Ordering::Release);
    }

    /// Notes a change's log sequence number; it never falls.
    pub fn raise_page_lsn(&self, lsn: u64) {
        self.page_lsn.fetch_max(lsn, Ordering::AcqRel);
    }
}

/// Whether marks tell of changes that are not in the file.
fn is_dirty(marks: u64) -> bool {
    (marks >> 32) as u32 != marks as u32
}

/// Where threads wait for writes of pages in frames to be over.
#[derive(Default)]
pub(crate) struct WriteEnds {
    lock: Mutex<()>,
    ended: Condvar,
}

impl WriteEnds {
    /// To be called after [`Frame::end_write`].
    pub fn announce(&self) {
        drop(self.lock.lock());
        self.ended.notify_all();
    }

    /// Waits until no write of the page in `frame` is in flight. A caller that holds the page exclusively
    /// keeps new ones from beginning.
    pub fn wait(&self, frame: &Frame) {
        let mut guard = self.lock.lock();
        while frame.is_writing() {
            guard = self.ended.wait(guard, None);
        }
    }

    /// As [`wait`](Self::wait), no longer than `until`. False if a write is still in flight then.
    pub fn wait_until(&self, frame: &Frame, until: Instant) -> bool {
        let mut guard = self.lock.lock();
        while frame.is_writing() {
            if Instant::now() >= until {
                return false;
            }
            guard = self.ended.wait(guard, Some(until));
        }
        true
    }
}

/// All frames: those that policies fill, and those of the reserve, which change places.
pub(crate) struct FrameTable {
    frames: Box<[Frame]>,
}

impl FrameTable {
    pub fn new(frames: u32) -> Self {
        Self { frames: (0..frames).map(|_| Frame::empty()).collect() }
    }

    #[inline]
    pub fn get(&self, frame: FrameId) -> &Frame {
        &self.frames[frame.index()]
    }

    pub fn iter(&self) -> impl Iterator<Item = (FrameId, &Frame)> {
        (0..).map(FrameId).zip(self.frames.iter())
    }

    /// All frames in order, in slices of at most `frames`.
    pub fn pieces(&self, frames: usize) -> impl Iterator<Item = &[Frame]> {
        self.frames.chunks(frames)
    }

    pub fn metadata_bytes(&self) -> usize {
        size_of_val(&*self.frames)
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_page_with_more_pins_than_32_bits_count_is_pinned() {
        let frame = Frame::empty();
        frame.pins.fetch_add(u32::MAX.into(), Ordering::Relaxed);
        frame.pin();
        assert!(frame.pins() > 0);
        frame.unpin();
        assert!(frame.pins() > 0);
    }

    /// A page that is written to all the time may be marked that often before it is ever written out.
    #[test]
    fn a_page_whose_marks_come_round_stays_dirty() {
        for written in [0, 1, u32::MAX] {
            let frame = Frame::empty();
            frame.occupy(PageId(7));
            let one_before = written.wrapping_sub(1);
            frame.marks.store(u64::from(one_before) << 32 | u64::from(written), Ordering::Relaxed);
            for _ in 0..3 {
                assert!(frame.is_dirty());
                assert!(!frame.mark_dirty(), "it was dirty all the time");
            }
            assert!(frame.is_dirty() && frame.mark_written(frame.mark()) && !frame.is_dirty());
        }
    }

    #[test]
    fn a_mark_during_a_write_keeps_the_page_dirty() {
        let frame = Frame::empty();
        frame.occupy(PageId(7));
        assert!(!frame.is_dirty());
        assert!(frame.mark_dirty());
        let copied = frame.mark();
        assert!(!frame.mark_dirty());
        assert!(!frame.mark_written(copied));
        assert!(frame.is_dirty());
        assert!(frame.mark_written(frame.mark()));
        assert!(!frame.is_dirty());
        assert!(!frame.mark_written(frame.mark()), "it was clean already");
        assert!(frame.mark_dirty());
        assert!(frame.vacate(false));
        assert!(!frame.is_dirty() && !frame.vacate(false));
    }
}
