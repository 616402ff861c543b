//! The memory of all page frames, and the right to use it as a value.
//!
//! The arena is one anonymous mapping: aligned for direct I/O, huge pages advised, zeros in the child of a fork. A frame's
//! bytes belong to whoever has its [`FrameLease`], of which there is exactly one for each frame. A lease lies in one of four
//! places: with the free frames, with a thread that fills or empties the frame, with an operation in flight, or in
//! a page word (turned into a latch by [`latch`](crate::page::latch)); so none of these can touch the bytes of another.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bufpool_policies::{FrameId, TenantId};
use parking_lot::Mutex;

use crate::api::options::PAGE_BYTES_MIN;
use crate::io::{Action, Backend, Buffer, Buffers, Completion, Feed, Group, IoError, IoFile, Request};
use crate::page::word::PageWord;
use crate::sync;
#[cfg(not(bufpool_loom))]
use crate::sys::Reservation;
use crate::sys::{self, AddressSpace, Mapping};

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

/// Leases that nobody uses, one bit a frame. They are taken in the order of their frames, round and round, so that pages which come in
/// one after the other lie side by side in memory as far as there are neighbours.
pub(crate) struct FreeLeases {
    /// Set for the frames whose leases are here.
    bits: Box<[u64]>,
    /// Where to look next.
    next: usize,
    count: usize,
}

impl FreeLeases {
    /// Those of `leases`, with room for all frames below `frames`.
    pub fn new(frames: u32, leases: Vec<FrameLease>) -> Self {
        let bits = vec![0; (frames as usize).div_ceil(64)].into();
        let mut free = Self { bits, next: 0, count: 0 };
        leases.into_iter().for_each(|lease| free.put(lease));
        free
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether that of `frame` is here.
    pub fn has(&self, frame: FrameId) -> bool {
        self.bits[frame.index() / 64] >> (frame.index() % 64) & 1 != 0
    }

    pub fn put(&mut self, lease: FrameLease) {
        let frame = lease.into_word();
        debug_assert!(!self.has(frame), "a frame has one lease");
        self.bits[frame.index() / 64] |= 1 << (frame.index() % 64);
        self.count += 1;
    }

    /// That of `frame`, if it is here.
    pub fn take_of(&mut self, frame: FrameId) -> Option<FrameLease> {
        if !self.has(frame) {
            return None;
        }
        self.bits[frame.index() / 64] &= !(1 << (frame.index() % 64));
        self.count -= 1;
        // The frame's lease went into `put`, and comes out once, because the bit is cleared.
        Some(FrameLease { frame })
    }

    /// The next one. Looks at each word of bits once at most, and rarely at more than a few.
    pub fn take(&mut self) -> Option<FrameLease> {
        let words = self.bits.len();
        let (word, bit) = (self.next / 64, self.next % 64);
        // The word looked at first comes again at the end, for what lies before `next`.
        let masked = |step| {
            let at = (word + step) % words;
            (at, self.bits[at] & if step == 0 { u64::MAX << bit } else { u64::MAX })
        };
        let (at, free) = (0..=words).filter(|_| self.count > 0).map(masked).find(|(_, free)| *free != 0)?;
        let index = at * 64 + free.trailing_zeros() as usize;
        self.next = (index + 1) % (words * 64);
        self.take_of(FrameId(index as u32))
    }

    pub fn metadata_bytes(&self) -> usize {
        size_of_val(&*self.bits)
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
        let leases = (0..frames).map(|frame| FrameLease { frame: FrameId(frame) }).collect();
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
        let buffer = unsafe { self.buffer(lease.frame) };
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

/// Page words that come into being from the first on, as many as are needed, and then stay where they are.
///
/// A word is found with one comparison and one load, because the addresses of all that may ever be are reserved.
#[repr(C)]
pub(crate) struct WordTable {
    /// Where `memory` begins.
    start: NonNull<PageWord>,
    /// How many there are. Grows only.
    len: sync::AtomicU64,
    capacity: u64,
    memory: WordMemory,
}

// SAFETY: page words are for all threads, and `start` is the table's own.
unsafe impl Send for WordTable {}
// SAFETY: as above.
unsafe impl Sync for WordTable {}

impl WordTable {
    /// An empty table that can grow to `capacity` words, or to a part of that where the process may not have so many addresses; to none where
    /// it may not have `least`. Under a limit on addresses it takes no more than [`reservable_bytes`], so that files leave the rest of
    /// the process what it needs.
    pub fn new(capacity: u64, least: u64) -> Self {
        let _one_at_a_time = ADDRESSES.lock();
        let words_max = reservable_bytes() / size_of::<u64>() as u64;
        let halves = std::iter::successors(Some(capacity), |words| Some(words / 2));
        let fitting = halves.skip_while(|words| *words > words_max);
        let reserved = fitting.take_while(|words| *words >= least.max(1)).find_map(|words| {
            let memory = WordMemory::reserve(words as usize)?;
            Some((memory, words))
        });
        let (memory, capacity) = reserved.unwrap_or((WordMemory::none(), 0));
        Self { start: memory.start(), len: sync::AtomicU64::new(0), capacity, memory }
    }

    /// A table of `words` words (not 0), all of them there; none if the system has no memory for them, or a limit on addresses has no room.
    pub fn whole(words: u64) -> Option<Self> {
        let memory = {
            let _one_at_a_time = ADDRESSES.lock();
            if words > needed_bytes_max() / size_of::<u64>() as u64 {
                return None;
            }
            WordMemory::reserve(words as usize)?
        };
        let table = Self { start: memory.start(), len: sync::AtomicU64::new(0), capacity: words, memory };
        table.grow(words).then_some(table)
    }

    /// The word at `index`, if there is one.
    #[inline]
    pub fn get(&self, index: u64) -> Option<&PageWord> {
        // Acquire pairs with the release in `grow`.
        if index >= self.len.load(Ordering::Acquire) {
            return None;
        }
        self.memory.check(index as usize);
        // SAFETY: there are so many words.
        let word = unsafe { self.start.add(index as usize) };
        // SAFETY: the word is there until the table is dropped, and changed by atomic operations only.
        Some(unsafe { word.as_ref() })
    }

    /// All words.
    pub fn words(&self) -> &[PageWord] {
        // SAFETY: as in `get`; where there are none, the address is aligned and not null.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len() as usize) }
    }

    /// How many words there are.
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Where they lie, if all that may come can be looked at.
    ///
    /// # Safety
    ///
    /// The map is not used once the table is dropped.
    pub unsafe fn map(&self) -> Option<WordMap> {
        (self.capacity >= WORDS_RESERVED).then_some(WordMap(self.start))
    }

    /// How many there may be.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Makes it `len` words, at most [`capacity`](Self::capacity); the new ones are those of absent pages. False if the system has no memory.
    /// One call at a time, says the caller.
    pub fn grow(&self, len: u64) -> bool {
        assert!(self.len() <= len && len <= self.capacity);
        let grown = self.memory.open_up(len as usize);
        if grown {
            self.len.store(len, Ordering::Release);
        }
        grown
    }
}

/// Held while addresses are counted and taken, so that no two tables take the same ones.
static ADDRESSES: Mutex<()> = Mutex::new(());
/// The part of a limit on addresses that reservations of page tables leave to the rest of the process: a quarter.
const RESERVATIONS_LEAVE: u64 = 4;
/// The part of what is left above that which one table may reserve.
const RESERVATION_SHARE: u64 = 4;
/// The part of the limit that page words leave which are needed at once: a sixteenth.
const NEEDED_WORDS_LEAVE: u64 = 16;

/// Bytes of addresses that a table may reserve for pages to come. None where nobody knows what a limited process has taken: such a table
/// takes what it needs page by page.
fn reservable_bytes() -> u64 {
    match sys::address_space() {
        AddressSpace::Unlimited => u64::MAX,
        AddressSpace::Limited { limit_bytes, left_bytes: Some(left) } => {
            left.saturating_sub(limit_bytes / RESERVATIONS_LEAVE) / RESERVATION_SHARE
        }
        AddressSpace::Limited { left_bytes: None, .. } => 0,
    }
}

/// The most bytes of addresses that words may take which are needed now.
fn needed_bytes_max() -> u64 {
    match sys::address_space() {
        AddressSpace::Limited { limit_bytes, left_bytes: Some(left) } => {
            left.saturating_sub(limit_bytes / NEEDED_WORDS_LEAVE)
        }
        AddressSpace::Unlimited | AddressSpace::Limited { left_bytes: None, .. } => u64::MAX,
    }
}

/// Words for which each file reserves addresses; a power of two. 2^27 are 1 GiB of addresses, and 512 GiB of 4 KiB pages.
pub(crate) const WORDS_RESERVED: u64 = if cfg!(bufpool_loom) { 4 } else { 1 << 27 };

/// Where the words of a table lie that has addresses for [`WORDS_RESERVED`]: all may be looked at, and those beyond the table's length
/// are absent pages', in memory that can be read only.
pub(crate) struct WordMap(NonNull<PageWord>);

// SAFETY: page words are for all threads.
unsafe impl Send for WordMap {}
// SAFETY: as above.
unsafe impl Sync for WordMap {}

impl WordMap {
    /// Of no table.
    pub fn none() -> Self {
        Self(NonNull::dangling())
    }

    /// The word at `index`, if it is one of these. Beyond the table's length nothing but relaxed loads are allowed, which find 0.
    ///
    /// # Safety
    ///
    /// It is the map of a table.
    #[inline(always)]
    pub unsafe fn get(&self, index: u64) -> Option<&PageWord> {
        if index >= WORDS_RESERVED {
            return None;
        }
        // SAFETY: there are addresses for so many words, says the caller.
        let word = unsafe { self.0.add(index as usize) };
        // SAFETY: readable, and 0 if it was never written, until the table is dropped; changed by atomic operations only.
        Some(unsafe { word.as_ref() })
    }
}

/// Where the words of a table lie: reserved addresses; or none, if none could be had.
#[cfg(not(bufpool_loom))]
struct WordMemory(Option<Reservation>);

#[cfg(not(bufpool_loom))]
impl WordMemory {
    fn none() -> Self {
        Self(None)
    }

    fn reserve(words: usize) -> Option<Self> {
        let bytes = words.checked_mul(size_of::<PageWord>())?;
        Some(Self(Some(Reservation::new(bytes).ok()?)))
    }

    /// Makes the first `words` words zeroed memory, which a page word may be: it is one atomic integer.
    fn open_up(&self, words: usize) -> bool {
        self.0.as_ref().is_some_and(|memory| memory.open_up(words * size_of::<PageWord>()).is_ok())
    }

    fn start(&self) -> NonNull<PageWord> {
        self.0.as_ref().map_or(NonNull::dangling(), |memory| memory.start().cast())
    }

    #[inline(always)]
    fn check(&self, _: usize) {}
}

/// The same for the model checker, which sees who looks at a word that may not be there yet.
#[cfg(bufpool_loom)]
struct WordMemory {
    words: Box<[PageWord]>,
    is_open: Box<[loom::cell::UnsafeCell<bool>]>,
}

#[cfg(bufpool_loom)]
impl WordMemory {
    fn none() -> Self {
        Self { words: Box::default(), is_open: Box::default() }
    }

    fn reserve(words: usize) -> Option<Self> {
        let is_open = (0..words).map(|_| loom::cell::UnsafeCell::new(false)).collect();
        Some(Self { words: (0..words).map(|_| PageWord::new()).collect(), is_open })
    }

    fn open_up(&self, words: usize) -> bool {
        for is_open in &self.is_open[..words] {
            // SAFETY: as long as a word is not open nobody else looks; loom fails the model if somebody does.
            if !is_open.with(|is_open| unsafe { *is_open }) {
                // SAFETY: as above.
                is_open.with_mut(|is_open| unsafe { *is_open = true });
            }
        }
        true
    }

    fn start(&self) -> NonNull<PageWord> {
        NonNull::from(&*self.words).cast()
    }

    fn check(&self, word: usize) {
        // SAFETY: written before the word was counted; loom fails the model if not.
        assert!(self.is_open[word].with(|is_open| unsafe { *is_open }), "not there yet");
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    /// Against a plain set: nothing is lost or doubled, and what is taken one after the other are neighbours as far as there are any.
    #[test]
    fn leases_are_taken_round_and_round() {
        for frames in [1, 63, 64, 65, 200] {
            let mut free = FreeLeases::new(frames, Arena::new(frames, 4096).unwrap().1);
            let mut naive: std::collections::BTreeSet<u32> = (0..frames).collect();
            let (mut taken, mut next, mut draw) = (Vec::new(), 0, 12345_u32);
            for _ in 0..2_000 {
                draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if (draw >> 16) % 3 > 0 {
                    let expected = naive.range(next..).next().or(naive.first()).copied();
                    let lease = free.take();
                    assert_eq!(lease.as_ref().map(|lease| lease.frame().0), expected);
                    let Some(lease) = lease else { continue };
                    naive.remove(&lease.frame().0);
                    next = lease.frame().0 + 1;
                    taken.push(lease);
                } else if !taken.is_empty() {
                    let lease = taken.swap_remove((draw >> 20) as usize % taken.len());
                    let frame = lease.frame();
                    assert!(!free.has(frame) && free.take_of(frame).is_none());
                    naive.insert(frame.0);
                    free.put(lease);
                    assert!(free.has(frame));
                    if draw >> 31 == 0 {
                        naive.remove(&frame.0);
                        taken.extend(free.take_of(frame));
                    }
                }
                assert_eq!(free.len(), naive.len());
            }
        }
    }

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
