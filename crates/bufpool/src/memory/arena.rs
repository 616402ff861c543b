//! The memory of all page frames, and the right to use it as a value.
//!
//! The arena is one anonymous mapping: aligned for direct I/O, huge pages advised, zeros in the child of a fork. A frame's
//! bytes belong to whoever has its [`FrameLease`], of which there is exactly one for each frame. A lease lies in one of four
//! places: with the free frames, with a thread that fills or empties the frame, with an operation in flight, or in
//! a page word (turned into a latch by [`latch`](crate::page::latch)); so none of these can touch the bytes of another.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use bufpool_policies::{FrameId, TenantId};
use parking_lot::Mutex;

use crate::io::{Action, Backend, Buffer, Buffers, Completion, Feed, Group, IoError, IoFile, Request};
use crate::memory::lease::FrameLease;
use crate::sys::Mapping;

/// The smallest page size, in bytes.
pub const PAGE_BYTES_MIN: usize = 512;
/// The largest page size, in bytes.
pub const PAGE_BYTES_MAX: usize = 1 << 20;

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

// SAFETY: an address and a number; what may be done with the bytes there is up to who holds the frame.
unsafe impl Send for FrameMap {}
// SAFETY: as above.
unsafe impl Sync for FrameMap {}

/// A number a frame, and one for all. Clones are the same numbers.
#[derive(Clone)]
pub(crate) struct FrameNumbers(Arc<[AtomicU32]>);

impl FrameNumbers {
    /// For so many frames, all 0.
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

    /// That of a frame, without a look at how many there are.
    ///
    /// # Safety
    ///
    /// There is one for the frame.
    #[inline(always)]
    pub unsafe fn of_known(&self, frame: FrameId) -> &AtomicU32 {
        // SAFETY: there is one more than there are frames.
        let of_frames = unsafe { self.0.get_unchecked(1..) };
        // SAFETY: says the caller.
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
        // SAFETY: checked when the arena was made. So what lies within the first bytes of any page is read without a look at the length.
        unsafe { std::hint::assert_unchecked(page_bytes >= PAGE_BYTES_MIN) };
        // SAFETY: the mapping holds so many pages, says the caller.
        let start = unsafe { self.start.add(frame.index() << self.page_shift) };
        NonNull::slice_from_raw_parts(start, page_bytes)
    }

    /// As [`frame`](Self::frame), for bytes that are about to be read, from the first on: they are fetched meanwhile.
    ///
    /// # Safety
    ///
    /// As for [`frame`](Self::frame).
    #[inline(always)]
    pub unsafe fn frame_soon(&self, frame: FrameId) -> NonNull<[u8]> {
        // SAFETY: says the caller.
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
    /// The arena has the frame, and outlives the slice. As long as the slice is used, the frame is written only through slices like it: its
    /// page belongs to an optimistic file, and whoever takes the frame when the page has left waits for the caller first
    /// ([`readers`](crate::page::readers)).
    #[inline(always)]
    pub unsafe fn words<'a>(&self, frame: FrameId) -> &'a [AtomicU64] {
        // SAFETY: says the caller.
        let bytes = unsafe { self.frame(frame) };
        // SAFETY: frames are aligned and whole numbers of words; not written in another way, says the caller.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 8) }
    }

    fn page_bytes(&self) -> usize {
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

/// A write from memory that nobody changes while the value is borrowed.
pub(crate) struct WriteFrom<'a> {
    /// The file.
    pub file: &'a Arc<IoFile>,
    /// Page number of the first page.
    pub number: u64,
    /// Neighbouring pages of the file, in file order; at most [`Buffers::PIECES_MAX`].
    pub frames: Vec<&'a FrameLease>,
}

/// Where [`Arena::read_stream`] gets its reads, and what becomes of them. Frames are counted over the whole stream, in the order in
/// which they were added.
pub(crate) trait ReadSource {
    /// Adds the next few reads; none if there are no more.
    fn next(&mut self, reads: &mut NextReads);

    /// The read into the frames from number `first` on is over, and their leases are the source's again.
    fn landed(&mut self, first: usize, leases: &mut [Option<FrameLease>], result: Result<(), IoError>);

    /// Several reads have landed.
    fn publish(&mut self);
}

/// Reads that are about to begin.
#[derive(Default)]
pub(crate) struct NextReads {
    /// File, number of the first page, and how many pages.
    reads: Vec<(Arc<IoFile>, u64, usize)>,
    leases: Vec<FrameLease>,
}

impl NextReads {
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Pages of the last read.
    pub fn last_pages(&self) -> usize {
        self.reads.last().map_or(0, |(.., pages)| *pages)
    }

    /// Begins another read, of page `number` of `file` into the leased frame.
    pub fn begin(&mut self, file: Arc<IoFile>, number: u64, lease: FrameLease) {
        self.reads.push((file, number, 1));
        self.leases.push(lease);
    }

    /// Adds the next page of the file to the last read, which then has at most [`Buffers::PIECES_MAX`].
    pub fn extend(&mut self, lease: FrameLease) {
        self.reads.last_mut().expect("a read was begun").2 += 1;
        self.leases.push(lease);
    }
}

/// A stream of reads under way.
struct ReadStream<'a> {
    arena: &'a Arena,
    tenant: TenantId,
    source: &'a mut dyn ReadSource,
    next: NextReads,
    group: Arc<Group>,
    /// Of all reads so far; the token of a read is its first frame's place. Leases are here as long as their read is not over, and
    /// nobody looks at them.
    leases: Vec<Option<FrameLease>>,
    /// Pages of the read that begins at this place.
    pages: Vec<u32>,
    successes: Vec<u64>,
}

impl Feed for ReadStream<'_> {
    fn prepare(&mut self, requests: &mut Vec<Request>) -> bool {
        self.source.next(&mut self.next);
        let NextReads { reads, leases } = &mut self.next;
        self.group.expect(reads.len());
        let more = !reads.is_empty();
        let mut leases = leases.drain(..);
        for (file, number, pages) in reads.drain(..) {
            let first = self.leases.len();
            self.leases.extend(leases.by_ref().take(pages).map(Some));
            self.pages.resize(self.leases.len(), pages as u32);
            let frames = self.leases[first..].iter().flatten().map(FrameLease::frame);
            requests.push(Request {
                file,
                action: Action::Read {
                    offset: number * self.arena.map.page_bytes() as u64,
                    // SAFETY: the leases stay in `self.leases`, where nobody uses them, until the group has the read's outcome. If a panic drops
                    // them, their frames are lost, never used again.
                    buffers: unsafe { self.arena.buffers(frames) },
                },
                tenant: Some(self.tenant),
                token: first as u64,
                completion: Arc::clone(&self.group) as _,
            });
        }
        more
    }

    fn land(&mut self) {
        self.group.take_successes(&mut self.successes);
        let successes = self.successes.drain(..).map(|token| (token, Ok(())));
        let failures = self.group.take_failures().into_iter().map(|(token, error)| (token, Err(error)));
        let mut landed = false;
        for (token, result) in successes.chain(failures) {
            let first = token as usize;
            let leases = &mut self.leases[first..first + self.pages[first] as usize];
            self.source.landed(first, leases, result);
            landed = true;
        }
        if landed {
            self.source.publish();
        }
    }
}

/// Frames that an operation fills or writes, and what is done with them then.
struct Lent<F>(Mutex<Option<(Vec<FrameLease>, F)>>);

impl<F: FnOnce(Vec<FrameLease>, Result<(), IoError>) + Send + 'static> Completion for Lent<F> {
    fn complete(&self, _: u64, result: Result<(), IoError>) {
        let lent = self.0.lock().take();
        if let Some((leases, then)) = lent {
            then(leases, result);
        }
    }
}

impl Arena {
    /// Maps memory for `frames` frames and hands out their leases, in order.
    pub fn new(frames: u32, page_bytes: usize) -> io::Result<(Self, Vec<FrameLease>)> {
        assert!(page_bytes >= PAGE_BYTES_MIN && page_bytes.is_power_of_two());
        let bytes = (frames as usize).checked_mul(page_bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        let memory = Mapping::new(bytes)?;
        let map = FrameMap { start: memory.start(), page_shift: page_bytes.ilog2() };
        let arena = Self { memory, map, frames: frames as usize };
        let leases = (0..frames).map(|frame| FrameLease::first(FrameId(frame))).collect();
        Ok((arena, leases))
    }

    /// Lets the backend register the memory with the kernel.
    pub fn register(&self, backend: &dyn Backend) {
        backend.register_memory(self.memory.start(), self.memory.len());
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
        // SAFETY: just looked at.
        unsafe { self.map.frame(frame) }
    }

    /// The bytes of a leased frame, or of one whose lease is lent by a latch.
    pub fn bytes<'a>(&'a self, lease: &'a FrameLease) -> &'a [u8] {
        // SAFETY: valid and initialized (mappings are zeroed); the borrowed lease keeps all others from writing.
        unsafe { self.frame(lease.frame()).as_ref() }
    }

    /// The bytes of a leased frame, to be changed.
    pub fn bytes_mut<'a>(&'a self, lease: &'a mut FrameLease) -> &'a mut [u8] {
        // SAFETY: as in `bytes`; the lease is borrowed exclusively, and there is one for each frame.
        unsafe { self.frame(lease.frame()).as_mut() }
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
        let buffer = unsafe { self.buffer(lease.frame()) };
        let read = Action::Read { offset: number * self.map.page_bytes() as u64, buffers: buffer.into() };
        backend.read_for(tenant, file, read)
    }

    /// Does all reads of `source` for `tenant` and waits for them. The source is asked for more, and told of those that are over, while
    /// others are in flight, where the backend can do that.
    pub fn read_stream(&self, backend: &dyn Backend, tenant: TenantId, source: &mut dyn ReadSource) {
        let group = Group::for_stream();
        let mut stream = ReadStream {
            arena: self,
            tenant,
            source,
            next: NextReads::default(),
            group: Arc::clone(&group),
            leases: Vec::new(),
            pages: Vec::new(),
            successes: Vec::new(),
        };
        backend.stream(&mut stream, &group);
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
            action: Action::Read { offset: number * self.map.page_bytes() as u64, buffers },
            tenant: Some(tenant),
            token: 0,
            completion: Arc::new(Lent(Mutex::new(Some((leases, then))))),
        }
    }

    /// A write of pages from `number` on, from frames that belong to it until it is done; `then` gets them back with the result, wherever
    /// the backend completes requests.
    ///
    /// Whoever submits it drains the backend before the arena goes.
    pub fn drain_request(
        &self,
        file: Arc<IoFile>,
        number: u64,
        leases: Vec<FrameLease>,
        then: impl FnOnce(Vec<FrameLease>, Result<(), IoError>) + Send + 'static,
    ) -> Request {
        // SAFETY: the leases lie in the completion, where nobody reaches them before it is called.
        let buffers = unsafe { self.buffers(leases.iter().map(FrameLease::frame)) };
        Request {
            file,
            action: Action::Write { offset: number * self.map.page_bytes() as u64, buffers },
            tenant: None,
            token: 0,
            completion: Arc::new(Lent(Mutex::new(Some((leases, then))))),
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
        let buffer = unsafe { self.buffer(lease.frame()) };
        backend.run(
            file,
            Action::Write { offset: number * self.map.page_bytes() as u64, buffers: buffer.into() },
        )
    }

    /// Does all `writes` and waits for them. Returns the failures with the index of their write, in no order.
    pub fn write_all(&self, backend: &dyn Backend, writes: &[WriteFrom<'_>]) -> Vec<(u64, IoError)> {
        let group = Group::new(writes.len());
        let request = |(token, write): (usize, &WriteFrom<'_>)| Request {
            file: Arc::clone(write.file),
            action: Action::Write {
                offset: write.number * self.map.page_bytes() as u64,
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
        unsafe { Buffer::new(self.frame(frame).cast(), self.map.page_bytes()) }
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
}
