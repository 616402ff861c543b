//! The memory of all page frames, and the right to use it as a value.
//!
//! The arena is one anonymous mapping: aligned for direct I/O, huge pages advised, zeros in the child of a
//! fork. The holder of a frame's [`FrameLease`] has its bytes, and there is exactly one lease for each frame.
//! A lease lies in one of four places: with the free frames, with a thread that fills or empties the frame,
//! with an operation in flight, or in a page word (turned into a latch by [`latch`](crate::page::latch)). So
//! none of these can touch the bytes of another.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use bufpool_policies::FrameId;

use crate::io::Backend;
use crate::memory::lease::FrameLease;
use crate::sys::Mapping;

/// The smallest page size, in bytes.
pub const PAGE_BYTES_MIN: usize = 512;
/// The largest page size, in bytes.
pub const PAGE_BYTES_MAX: usize = 1 << 20;

/// Bytes behind each frame that can be read, those of the last one too. Engines in C read whole words where
/// a page's last value is shorter; SQLite wants this many behind a page that it reads where it lies.
const READABLE_BEHIND_BYTES: usize = 256;

/// The memory of a pool's frames.
pub(crate) struct Arena {
    memory: Mapping,
    map: FrameMap,
    frames: usize,
}

/// Where an arena's frames lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameMap {
    start: NonNull<u8>,
    /// The binary logarithm of the bytes of a page, of which there are at least [`PAGE_BYTES_MIN`].
    page_shift: u32,
}

// SAFETY: an address and a number; what may be done with the bytes there depends on the frame's lease.
unsafe impl Send for FrameMap {}
// SAFETY: a shared reference allows nothing that a copy does not.
unsafe impl Sync for FrameMap {}

/// One number for each frame, and one for all frames. Clones share the numbers.
#[derive(Clone)]
pub(crate) struct FrameNumbers(Arc<[AtomicU32]>);

impl FrameNumbers {
    /// For `frames` frames, all 0.
    pub fn new(frames: u32) -> Self {
        Self((0..=frames).map(|_| AtomicU32::new(0)).collect())
    }

    /// The one for all.
    #[inline(always)]
    pub fn of_all(&self) -> &AtomicU32 {
        // SAFETY: there is one more than there are frames.
        unsafe { self.0.get_unchecked(0) }
    }

    /// That of a frame.
    pub fn of(&self, frame: FrameId) -> &AtomicU32 {
        &self.0[1 + frame.index()]
    }

    /// That of a frame, without a bounds check.
    ///
    /// # Safety
    ///
    /// There is one for the frame.
    #[inline(always)]
    pub unsafe fn of_known(&self, frame: FrameId) -> &AtomicU32 {
        // SAFETY: there is one more than there are frames.
        let of_frames = unsafe { self.0.get_unchecked(1..) };
        // SAFETY: there is a number for the frame, by the caller's promise.
        unsafe { of_frames.get_unchecked(frame.index()) }
    }

    pub fn metadata_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

impl FrameMap {
    /// Of an arena whose first frame lies there.
    ///
    /// # Safety
    ///
    /// Both are what another map of an arena says.
    #[inline(always)]
    pub unsafe fn new(start: NonNull<u8>, page_shift: u32) -> Self {
        Self { start, page_shift }
    }

    /// The bytes of a frame. What may be done with them depends on who holds the frame's lease or latch.
    ///
    /// # Safety
    ///
    /// The arena has the frame.
    #[inline(always)]
    pub unsafe fn frame(&self, frame: FrameId) -> NonNull<[u8]> {
        let page_bytes = self.page_bytes();
        // SAFETY: checked when the arena was made. It spares a check of the length where the first bytes are
        // read.
        unsafe { std::hint::assert_unchecked(page_bytes >= PAGE_BYTES_MIN) };
        // SAFETY: the mapping holds the frame, by the caller's promise.
        let start = unsafe { self.start.add(frame.index() << self.page_shift) };
        NonNull::slice_from_raw_parts(start, page_bytes)
    }

    /// As [`frame`](Self::frame), for bytes that are about to be read, which the processor begins to fetch.
    ///
    /// # Safety
    ///
    /// As for [`frame`](Self::frame).
    #[inline(always)]
    pub unsafe fn frame_soon(&self, frame: FrameId) -> NonNull<[u8]> {
        // SAFETY: the arena has the frame, by the caller's promise.
        let bytes = unsafe { self.frame(frame) };
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint, which changes nothing and needs no right to the bytes.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(bytes.cast().as_ptr());
        }
        bytes
    }

    /// The words of a frame, for those who read it without a latch.
    ///
    /// # Safety
    ///
    /// The arena has the frame, and outlives the slice. As long as the slice is used, the frame is written
    /// only through slices like it: its page belongs to an optimistic file, and a thread that takes the frame
    /// when the page has left waits for the caller first ([`readers`](crate::page::readers)).
    #[inline(always)]
    pub unsafe fn words<'a>(&self, frame: FrameId) -> &'a [AtomicU64] {
        // SAFETY: the arena has the frame, by the caller's promise.
        let bytes = unsafe { self.frame(frame) };
        // SAFETY: frames are aligned and whole numbers of words; the caller promises that they are not
        // written in another way.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 8) }
    }

    /// The bytes of a page.
    pub fn page_bytes(&self) -> usize {
        1 << self.page_shift
    }

    /// Where the first frame lies.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The binary logarithm of the bytes of a page.
    pub fn page_shift(&self) -> u32 {
        self.page_shift
    }

    /// Of an arena without frames.
    #[cfg(test)]
    pub fn none() -> Self {
        Self { start: NonNull::dangling(), page_shift: PAGE_BYTES_MIN.ilog2() }
    }
}

impl Arena {
    /// Maps memory for `frames` frames and hands out their leases, in order.
    pub fn new(frames: u32, page_bytes: usize) -> io::Result<(Self, Vec<FrameLease>)> {
        assert!(page_bytes >= PAGE_BYTES_MIN && page_bytes.is_power_of_two());
        let bytes = (frames as usize).checked_mul(page_bytes);
        let bytes = bytes.and_then(|bytes| bytes.checked_add(READABLE_BEHIND_BYTES));
        let memory = Mapping::new(bytes.ok_or(io::ErrorKind::OutOfMemory)?)?;
        let map = FrameMap { start: memory.start(), page_shift: page_bytes.ilog2() };
        let arena = Self { memory, map, frames: frames as usize };
        let leases = (0..frames).map(|frame| FrameLease::first(FrameId(frame))).collect();
        Ok((arena, leases))
    }

    /// Lets the backend register the memory with the kernel.
    pub fn register(&self, backend: &dyn Backend) {
        backend.register_memory(self.map.start(), self.frames * self.map.page_bytes());
    }

    /// The frame that has these bytes.
    pub fn frame_at(&self, bytes: NonNull<[u8]>) -> FrameId {
        let from_start = bytes.cast::<u8>().addr().get() - self.memory.start().addr().get();
        FrameId((from_start / self.map.page_bytes()) as u32)
    }

    /// Where the frames lie.
    pub fn map(&self) -> FrameMap {
        self.map
    }

    /// The bytes of a frame. What may be done with them depends on who holds the frame's lease or latch.
    #[inline]
    pub fn frame(&self, frame: FrameId) -> NonNull<[u8]> {
        assert!(frame.index() < self.frames);
        // SAFETY: one of the arena's frames, as just checked, all of which the map has.
        unsafe { self.map.frame(frame) }
    }

    /// The bytes of a leased frame, or of one whose lease is lent by a latch.
    pub fn bytes<'a>(&'a self, lease: &'a FrameLease) -> &'a [u8] {
        // SAFETY: valid and initialized (mappings are zeroed); the borrowed lease keeps all others from
        // writing.
        unsafe { self.frame(lease.frame()).as_ref() }
    }

    /// The bytes of a leased frame, to be changed.
    pub fn bytes_mut<'a>(&'a self, lease: &'a mut FrameLease) -> &'a mut [u8] {
        // SAFETY: valid and initialized (mappings are zeroed); the lease is borrowed exclusively, and there
        // is one for each frame, so nobody else reads or writes the bytes.
        unsafe { self.frame(lease.frame()).as_mut() }
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    #[test]
    fn frames_are_zeroed_aligned_and_apart() {
        let (arena, mut leases) = Arena::new(5, 4096).unwrap();
        for lease in &mut leases {
            let fill = lease.frame().0 as u8 + 1;
            let bytes = arena.bytes_mut(lease);
            assert_eq!(bytes.as_ptr().align_offset(4096), 0);
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes.fill(fill);
        }
        for lease in &leases {
            let fill = lease.frame().0 as u8 + 1;
            assert!(arena.bytes(lease).iter().all(|&byte| byte == fill));
        }
    }

    #[test]
    fn what_is_behind_a_page_can_be_read() {
        for (frames, page_bytes) in [(1, 512), (5, 4096), (512, 4096), (2, 1 << 20)] {
            let arena = Arena::new(frames, page_bytes).unwrap().0;
            let last = arena.frame(FrameId(frames - 1)).cast::<u8>();
            // SAFETY: the end of the mapping, which is one allocation.
            let end = unsafe { arena.memory.start().add(arena.memory.len()) };
            assert!(end.addr().get() - last.addr().get() >= page_bytes + READABLE_BEHIND_BYTES);
            for at in page_bytes..page_bytes + READABLE_BEHIND_BYTES {
                // SAFETY: below the end of the mapping, as was just asserted.
                let behind = unsafe { last.add(at) };
                // SAFETY: mapped, zeroed, and nobody writes to it.
                assert_eq!(unsafe { behind.read() }, 0);
            }
        }
    }
}
