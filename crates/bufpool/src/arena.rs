//! The memory of all page frames, and the right to use it as a value.
//!
//! The arena is one anonymous mapping: aligned for direct I/O, huge pages advised, not inherited by a fork. A frame's
//! bytes belong to whoever has its [`FrameLease`], of which there is exactly one for each frame. A lease lies in one of four
//! places: with the list of free frames, with a thread that fills or empties the frame, with an operation in flight, or in
//! a page word (turned into a latch by [`latch`](crate::latch)); so none of these can touch the bytes of another.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bufpool_policies::{FrameId, TenantId};
use parking_lot::Mutex;

use crate::io::{Action, Backend, Buffer, Buffers, Completion, Group, IoError, IoFile, Request};
use crate::page_word::PageWord;
use crate::sys::Mapping;

/// The memory of a pool's frames.
pub(crate) struct Arena {
    memory: Mapping,
    page_bytes: usize,
    frames: u32,
}

/// The right to a frame's bytes. Neither cloned nor made twice; dropping it loses the frame for good.
#[derive(Debug)]
#[must_use = "a lost lease is a lost frame"]
pub(crate) struct FrameLease {
    frame: FrameId,
}

impl FrameLease {
    /// The frame.
    pub fn frame(&self) -> FrameId {
        self.frame
    }

    /// The frame is handed to a page word.
    pub fn into_word(self) -> FrameId {
        let Self { frame } = self;
        frame
    }

    /// The lease of a frame that a page word held.
    ///
    /// # Safety
    ///
    /// The caller has taken the frame out of the word, or holds the word exclusively and gives up its other ways to the bytes.
    pub unsafe fn from_word(frame: FrameId) -> Self {
        Self { frame }
    }
}

/// A write from memory that nobody changes while the value is borrowed.
pub(crate) struct WriteFrom<'a> {
    /// The file.
    pub file: &'a Arc<IoFile>,
    /// Page number of the first page.
    pub number: u64,
    /// Neighbouring pages of the file, in file order; at most [`Buffers::PIECES_MAX`].
    pub frames: Vec<&'a FrameLease>,
}

/// A read into frames that are the caller's alone while the value is borrowed.
pub(crate) struct ReadInto<'a> {
    /// The file.
    pub file: Arc<IoFile>,
    /// Page number of the first page.
    pub number: u64,
    /// For neighbouring pages of the file, in file order; at most [`Buffers::PIECES_MAX`].
    pub leases: &'a mut [FrameLease],
}

/// Frames that are being filled, and what is done with them then.
struct Fill<F>(Mutex<Option<(Vec<FrameLease>, F)>>);

impl<F: FnOnce(Vec<FrameLease>, Result<(), IoError>) + Send + 'static> Completion for Fill<F> {
    fn complete(&self, _: u64, result: Result<(), IoError>) {
        let filled = self.0.lock().take();
        if let Some((leases, then)) = filled {
            then(leases, result);
        }
    }
}

impl Arena {
    /// Maps memory for `frames` frames and hands out their leases, in order.
    pub fn new(frames: u32, page_bytes: usize) -> io::Result<(Self, Vec<FrameLease>)> {
        let bytes = (frames as usize).checked_mul(page_bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        let arena = Self { memory: Mapping::new(bytes)?, page_bytes, frames };
        let leases = (0..frames).map(|frame| FrameLease { frame: FrameId(frame) }).collect();
        Ok((arena, leases))
    }

    /// Lets the backend register the memory with the kernel.
    pub fn register(&self, backend: &dyn Backend) {
        backend.register_memory(self.memory.start(), self.memory.len());
    }

    /// The bytes of a frame. What may be done with them depends on who holds the frame's lease or latch.
    #[inline]
    pub fn frame(&self, frame: FrameId) -> NonNull<[u8]> {
        assert!(frame.0 < self.frames);
        // SAFETY: the frame's number is below `frames`, and the mapping holds that many pages.
        let start = unsafe { self.memory.start().add(frame.index() * self.page_bytes) };
        NonNull::slice_from_raw_parts(start, self.page_bytes)
    }

    /// The words of a frame, for those who read it without a latch.
    ///
    /// # Safety
    ///
    /// As long as the slice is used, the frame is written only through slices like it: its page belongs to an optimistic file, and
    /// whoever takes the frame when the page has left waits for the caller first ([`readers`](crate::readers)).
    #[inline(always)]
    pub unsafe fn words(&self, frame: FrameId) -> &[AtomicU64] {
        let bytes = self.frame(frame);
        // SAFETY: frames are aligned and whole numbers of words, mapped as long as the arena; not written in another
        // way, says the caller.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 8) }
    }

    /// The bytes of a leased frame, or of one whose lease is lent by a latch.
    pub fn bytes<'a>(&'a self, lease: &'a FrameLease) -> &'a [u8] {
        // SAFETY: valid and initialized (mappings are zeroed); the borrowed lease keeps all others from writing.
        unsafe { self.frame(lease.frame).as_ref() }
    }

    /// The bytes of a leased frame, to be changed.
    pub fn bytes_mut<'a>(&'a self, lease: &'a mut FrameLease) -> &'a mut [u8] {
        // SAFETY: as in `bytes`; the lease is borrowed exclusively, and there is one for each frame.
        unsafe { self.frame(lease.frame).as_mut() }
    }

    /// Fills a frame with page `number` of `file` for `tenant` and waits for it.
    pub fn read(
        &self,
        backend: &dyn Backend,
        file: &Arc<IoFile>,
        number: u64,
        lease: &mut FrameLease,
        tenant: TenantId,
    ) -> Result<(), IoError> {
        // SAFETY: the lease is ours alone until `read_for` has returned.
        let buffer = unsafe { self.buffer(lease.frame) };
        let read = Action::Read { offset: number * self.page_bytes as u64, buffers: buffer.into() };
        backend.read_for(tenant, file, read)
    }

    /// Does all `reads` for `tenant` and waits for them. Returns the failures with the index of their read, in no order.
    pub fn read_all(
        &self,
        backend: &dyn Backend,
        reads: &mut [ReadInto<'_>],
        tenant: TenantId,
    ) -> Vec<(u64, IoError)> {
        let group = Group::new(reads.len());
        let request = |(token, read): (usize, &mut ReadInto<'_>)| Request {
            file: Arc::clone(&read.file),
            action: Action::Read {
                offset: read.number * self.page_bytes as u64,
                // SAFETY: the leases are borrowed exclusively until the group is done.
                buffers: unsafe { self.buffers(read.leases.iter().map(FrameLease::frame)) },
            },
            tenant: Some(tenant),
            token: token as u64,
            completion: Arc::clone(&group) as _,
        };
        let mut requests: Vec<Request> = reads.iter_mut().enumerate().map(request).collect();
        backend.submit_and_wait(&mut requests, &group);
        group.take_failures()
    }

    /// A read for `tenant` of pages from `number` on into frames that belong to it until it is done; `then` gets them back with the result,
    /// wherever the backend completes requests.
    ///
    /// Whoever submits it drains the backend before the arena goes.
    pub fn fill_request(
        &self,
        file: Arc<IoFile>,
        number: u64,
        leases: Vec<FrameLease>,
        tenant: TenantId,
        then: impl FnOnce(Vec<FrameLease>, Result<(), IoError>) + Send + 'static,
    ) -> Request {
        // SAFETY: the leases lie in the completion, where nobody reaches them before it is called.
        let buffers = unsafe { self.buffers(leases.iter().map(FrameLease::frame)) };
        Request {
            file,
            action: Action::Read { offset: number * self.page_bytes as u64, buffers },
            tenant: Some(tenant),
            token: 0,
            completion: Arc::new(Fill(Mutex::new(Some((leases, then))))),
        }
    }

    /// Writes one page from a frame and waits for it.
    pub fn write(
        &self,
        backend: &dyn Backend,
        file: &Arc<IoFile>,
        number: u64,
        lease: &FrameLease,
    ) -> Result<(), IoError> {
        // SAFETY: nobody changes the frame while its lease is borrowed, and `run` returns after the write.
        let buffer = unsafe { self.buffer(lease.frame) };
        backend.run(file, Action::Write { offset: number * self.page_bytes as u64, buffers: buffer.into() })
    }

    /// Does all `writes` and waits for them. Returns the failures with the index of their write, in no order.
    pub fn write_all(&self, backend: &dyn Backend, writes: &[WriteFrom<'_>]) -> Vec<(u64, IoError)> {
        let group = Group::new(writes.len());
        let request = |(token, write): (usize, &WriteFrom<'_>)| Request {
            file: Arc::clone(write.file),
            action: Action::Write {
                offset: write.number * self.page_bytes as u64,
                // SAFETY: the leases are borrowed until the group is done.
                buffers: unsafe { self.buffers(write.frames.iter().map(|lease| lease.frame())) },
            },
            tenant: None,
            token: token as u64,
            completion: Arc::clone(&group) as _,
        };
        let mut requests: Vec<Request> = writes.iter().enumerate().map(request).collect();
        backend.submit_and_wait(&mut requests, &group);
        group.take_failures()
    }

    /// The bytes of frames in this order; frames that are neighbours in memory become one piece, which costs the kernel
    /// less.
    ///
    /// # Safety
    ///
    /// As for [`Buffer::new`], for each of the frames.
    unsafe fn buffers(&self, frames: impl Iterator<Item = FrameId>) -> Buffers {
        let mut pieces: Vec<Buffer> = Vec::new();
        for frame in frames {
            // SAFETY: our caller's duty.
            let next = unsafe { self.buffer(frame) };
            match pieces.last_mut().and_then(|last| last.joined(next)) {
                Some(both) => *pieces.last_mut().expect("it was just looked at") = both,
                None => pieces.push(next),
            }
        }
        match *pieces {
            [one] => one.into(),
            _ => Buffers::Many(pieces.into()),
        }
    }

    /// # Safety
    ///
    /// As for [`Buffer::new`].
    unsafe fn buffer(&self, frame: FrameId) -> Buffer {
        // SAFETY: the range is a frame of ours, mapped as long as the arena; the rest is our caller's duty.
        unsafe { Buffer::new(self.frame(frame).cast(), self.page_bytes) }
    }
}

/// `count` page words of absent pages.
#[cfg(bufpool_loom)]
pub(crate) fn zeroed_page_words(count: usize) -> Box<[PageWord]> {
    (0..count).map(|_| PageWord::new()).collect()
}

/// `count` (not 0) page words of absent pages, as zeroed memory that costs nothing until it is touched.
#[cfg(not(bufpool_loom))]
pub(crate) fn zeroed_page_words(count: usize) -> Box<[PageWord]> {
    let layout = std::alloc::Layout::array::<PageWord>(count).expect("page tables fit the address space");
    assert!(layout.size() > 0);
    // SAFETY: the layout's size is not 0.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    let Some(start) = NonNull::new(start.cast::<PageWord>()) else { std::alloc::handle_alloc_error(layout) };
    let words = NonNull::slice_from_raw_parts(start, count);
    // SAFETY: allocated just now with this layout by the allocator that Box uses; a page word is one atomic integer,
    // for which zero bytes are a value.
    unsafe { Box::from_raw(words.as_ptr()) }
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
}
