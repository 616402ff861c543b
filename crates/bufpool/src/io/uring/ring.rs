//! One ring, owned by one thread at a time: slots, submission, completions.
//!
//! All of the io_uring backend's unsafe code is here. What it rests on:
//!
//! 1. A slot holds its request, and with it file and buffers, from before its entry is pushed until
//!    the completion that answers the entry is seen.
//! 2. There are at most as many slots as the submission queue has entries, and the completion queue has at
//!    least as many again, so neither can overflow. With SQPOLL the kernel's thread may answer an entry
//!    shortly before it frees its place in the submission queue; that is waited for.
//! 3. A [`Ring`] with operations in flight is not dropped: its drop waits for them.
//! 4. Every entry carries its slot's number and generation; an answer is believed only if both match.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use io_uring::squeue::{Entry, Flags};
use io_uring::{IoUring, Probe, opcode, types};

use super::super::buffer::{Buffer, Buffers};
use super::super::error::{Cause, IoError};
use super::super::local::LocalFile;
use super::super::progress::{End, Next, Progress};
use super::super::request::{Action, Request};

/// What came out of a ring.
pub(super) enum Outcome {
    /// The request is done.
    Finished(Request, Result<(), IoError>),
    /// The ring cannot do this one; it has to be done with ordinary system calls.
    Refused(Request),
}

impl Outcome {
    /// The request that came out.
    pub(super) fn request(&self) -> &Request {
        let (Self::Finished(request, _) | Self::Refused(request)) = self;
        request
    }
}

/// Memory that may be registered with rings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub(super) start: NonNull<u8>,
    pub(super) bytes: usize,
}

// SAFETY: an address range; what may be done with the memory is said by the buffers within it.
unsafe impl Send for Region {}
// SAFETY: an address range; what may be done with the memory is said by the buffers within it.
unsafe impl Sync for Region {}

impl Region {
    /// Most bytes of one registered buffer (the kernel's limit).
    const CHUNK_BYTES: usize = 1 << 30;

    /// The region as a list of registered buffers, in order.
    fn iovecs(self) -> Vec<libc::iovec> {
        let chunks = self.bytes.div_ceil(Self::CHUNK_BYTES);
        let chunk = |index: usize| {
            let from = index * Self::CHUNK_BYTES;
            libc::iovec {
                iov_base: self.start.as_ptr().wrapping_add(from).cast(),
                iov_len: (self.bytes - from).min(Self::CHUNK_BYTES),
            }
        };
        (0..chunks).map(chunk).collect()
    }

    /// The registered buffer that `buffer` lies in as a whole.
    fn index_of(self, buffer: Buffer) -> Option<u16> {
        let from = (buffer.start().as_ptr() as usize).checked_sub(self.start.as_ptr() as usize)?;
        let to = from + buffer.len();
        let chunk = from / Self::CHUNK_BYTES;
        let inside = to <= self.bytes && to <= (chunk + 1) * Self::CHUNK_BYTES;
        if inside { u16::try_from(chunk).ok() } else { None }
    }
}

/// A place for one operation in flight.
#[derive(Default)]
struct Slot {
    request: Option<Request>,
    /// The request's file, as long as the request is in the slot.
    target: Target,
    /// Where the file ends.
    end: End,
    progress: Progress,
    generation: u32,
    /// The pieces that a vectored entry points to. They stay in place while the entry is in flight, because
    /// nothing touches them until the answer is seen.
    pieces: Vec<Buffer>,
}

/// How an entry names its file.
#[derive(Clone, Copy)]
enum Target {
    /// By a descriptor.
    Descriptor(RawFd),
    /// By its place in the table of registered files.
    Registered(u32),
}

impl Default for Target {
    /// No file: what a slot has before its first request.
    fn default() -> Self {
        Self::Descriptor(-1)
    }
}

/// See the [module](self).
pub(super) struct Ring {
    ring: IoUring,
    slots: Box<[Slot]>,
    free: Vec<u32>,
    /// The memory registered with this ring.
    region: Option<Region>,
    /// Whether vectored transfers may use it (Linux 6.15).
    takes_vectors: bool,
    /// Serial numbers of the files registered with this ring, by place.
    files: Vec<Option<u64>>,
    /// An eventfd whose next event is wanted, and where the kernel stores its count.
    wake: Option<Wake>,
    answers: Vec<(u64, i32)>,
    /// Counts calls of io_uring_enter.
    calls: Arc<AtomicU64>,
}

impl AsMut<Ring> for Ring {
    fn as_mut(&mut self) -> &mut Ring {
        self
    }
}

struct Wake {
    eventfd: RawFd,
    count: Box<u64>,
    armed: bool,
}

/// How long a thread pauses after the kernel could not take a submission.
const SHORTAGE_PAUSE: Duration = Duration::from_micros(100);

/// The answer to the read of the eventfd; no slot has this number.
const WAKE: u64 = u64::MAX;

impl Ring {
    /// Wraps a fresh ring, for at most `slots` operations in flight; its calls are added to `calls`.
    /// [`Ring::listen`] needs one entry of the submission queue on top.
    pub(super) fn new(ring: IoUring, slots: u32, calls: &Arc<AtomicU64>) -> Self {
        assert!(slots <= ring.params().sq_entries(), "invariant 2");
        assert!(slots < ring.params().cq_entries(), "invariant 2");
        Self {
            ring,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            free: (0..slots).rev().collect(),
            region: None,
            takes_vectors: false,
            files: Vec::new(),
            wake: None,
            answers: Vec::new(),
            calls: Arc::clone(calls),
        }
    }

    /// The ring's descriptor.
    pub(super) fn fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// Operations in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Operations that may be in flight at a time.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// How many more operations can be started.
    pub(super) fn room(&self) -> usize {
        self.free.len()
    }

    /// True if one more operation can be started.
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Registers `region`, so that transfers of buffers within it cost the kernel less. Shares the
    /// registration of the ring `like`, if given and possible. Returns whether transfers of several buffers
    /// can use it, too.
    pub(super) fn register_region(&mut self, region: Region, like: Option<RawFd>) -> io::Result<bool> {
        let submitter = self.ring.submitter();
        let shared = like.is_some_and(|fd| submitter.register_buffers_clone(fd).is_ok());
        if !shared {
            // SAFETY: the kernel pins the pages and writes them only for operations, each of which owns
            // its part (`Buffer::new`); the region is mapped now, and pinned pages outlive a mapping.
            unsafe { submitter.register_buffers(&region.iovecs()) }?;
        }
        self.region = Some(region);
        let mut probe = Probe::new();
        let needed = [opcode::ReadvFixed::CODE, opcode::WritevFixed::CODE];
        self.takes_vectors = self.ring.submitter().register_probe(&mut probe).is_ok()
            && needed.iter().all(|&code| probe.is_supported(code));
        Ok(self.takes_vectors)
    }

    /// Makes room for `places` registered files.
    pub(super) fn register_file_table(&mut self, places: u32) -> io::Result<()> {
        self.ring.submitter().register_files_sparse(places)?;
        self.files = vec![None; places as usize];
        Ok(())
    }

    /// Lets go of the registered file at `place`, if there is one.
    pub(super) fn forget_file(&mut self, place: u32) {
        if self.files.get_mut(place as usize).is_some_and(|serial| serial.take().is_some()) {
            // A failure leaves the file registered; the serial number keeps it from being used.
            let _ = self.ring.submitter().register_files_update(place, &[-1]);
        }
    }

    /// Makes [`Ring::enter`] return when `eventfd` is written, now and after each such answer.
    pub(super) fn listen(&mut self, eventfd: RawFd) {
        assert!(self.slots.len() < self.ring.params().sq_entries() as usize, "invariant 2");
        self.wake = Some(Wake { eventfd, count: Box::new(0), armed: false });
    }

    /// True if a ring can do `action` on `file`. Allocations are left out, because undoing a failed one
    /// takes several system calls. A ring that polls does only direct transfers.
    fn takes(&self, file: &LocalFile, action: &Action) -> bool {
        match action {
            Action::Read { .. } | Action::Write { .. } => !self.polls() || file.is_direct(),
            Action::Sync { .. } => !self.polls(),
            Action::Allocate { .. } => false,
        }
    }

    /// True if waiting means polling the device (IOPOLL).
    pub(super) fn polls(&self) -> bool {
        self.ring.params().is_setup_iopoll()
    }

    /// Prepares `request` for the next [`Ring::enter`]. There must be room. Gives the request back if a ring
    /// cannot do it: rings do transfers and syncs of local files only.
    pub(super) fn start(&mut self, request: Request) -> Result<(), Request> {
        let file = LocalFile::of(&*request.source).filter(|file| self.takes(file, &request.action));
        let Some(file) = file else { return Err(request) };
        let (target, end) = (self.target_of(file), file.end());
        let index = self.free.pop().expect("the caller has seen that there is room");
        let slot = &mut self.slots[index as usize];
        (slot.target, slot.end) = (target, end);
        slot.request = Some(request);
        slot.progress = Progress::default();
        self.push(index);
        Ok(())
    }

    /// Pushes an entry for what is left to do in slot `index`.
    fn push(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let user_data = u64::from(slot.generation) << 32 | u64::from(index);
        let request = slot.request.as_ref().expect("a slot in use holds its request");
        let (region, takes_vectors) = (self.region, self.takes_vectors);
        let mut rest = Rest { done: slot.progress.done(), region, takes_vectors, pieces: &mut slot.pieces };
        let entry = match slot.target {
            Target::Registered(place) => {
                rest.entry(types::Fd(place as i32), &request.action).flags(Flags::FIXED_FILE)
            }
            Target::Descriptor(fd) => rest.entry(types::Fd(fd), &request.action),
        };
        // SAFETY: invariant 1: file, buffers and pieces stay as they are until the answer is seen.
        unsafe { self.push_entry(&entry.user_data(user_data)) }
    }

    /// Pushes an entry, for which there is a place (invariant 2).
    ///
    /// # Safety
    ///
    /// As for [`io_uring::SubmissionQueue::push`]: what the entry refers to stays valid until it is answered.
    unsafe fn push_entry(&mut self, entry: &Entry) {
        // SAFETY: what the entry refers to stays valid until it is answered: this function's own condition.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            assert!(self.ring.params().is_setup_sqpoll(), "invariant 2: there is a place for each slot");
            // Wakes the kernel's thread if it sleeps; then waits until it has freed a place.
            let freed = self.ring.submit().and_then(|_| self.ring.submitter().squeue_wait());
            if freed.is_err() {
                std::thread::sleep(SHORTAGE_PAUSE);
            }
        }
    }

    /// How this ring names `file`, which is registered first if it has a place. Does not change as long as
    /// the file is open.
    fn target_of(&mut self, file: &LocalFile) -> Target {
        self.place_of(file).map_or(Target::Descriptor(file.fd().as_raw_fd()), Target::Registered)
    }

    fn place_of(&mut self, file: &LocalFile) -> Option<u32> {
        let registration = file.registration()?;
        let registered = self.files.get_mut(registration.place as usize)?;
        if *registered != Some(registration.serial) {
            let fd = file.fd().as_raw_fd();
            self.ring.submitter().register_files_update(registration.place, &[fd]).ok()?;
            *registered = Some(registration.serial);
        }
        Some(registration.place)
    }

    /// Gives prepared operations to the kernel and waits until `wanted` answers are there, or fewer if
    /// something interrupts. Does not wait if `wanted` is 0.
    pub(super) fn enter(&mut self, wanted: usize) -> io::Result<()> {
        self.arm_wake();
        debug_assert!(wanted <= self.in_flight().max(1));
        // Relaxed: a statistic.
        self.calls.fetch_add(1, Ordering::Relaxed);
        match self.ring.submit_and_wait(wanted) {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(()),
            // The kernel is short of resources. Entries that it did not take stay in the queue, and the
            // caller takes the answers that are there before it enters again.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => {
                std::thread::sleep(SHORTAGE_PAUSE);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Gives prepared operations, if there are any, to the kernel. Those that it does not take go with the
    /// next [`Ring::enter`].
    pub(super) fn submit(&mut self) {
        if !self.ring.submission().is_empty() {
            let _ = self.enter(0);
        }
    }

    fn arm_wake(&mut self) {
        let Some(wake) = self.wake.as_mut().filter(|wake| !wake.armed) else { return };
        let count: *mut u64 = &raw mut *wake.count;
        let entry = opcode::Read::new(types::Fd(wake.eventfd), count.cast(), 8).build().user_data(WAKE);
        wake.armed = true;
        // SAFETY: `count` is a box of our own that is not touched while `armed`, and the owner of the ring
        // keeps the eventfd open as long as the ring. There is an entry for this (`Ring::listen`).
        unsafe { self.push_entry(&entry) }
    }

    /// Takes all answers that are there. Unfinished operations are pushed again and go on with the next
    /// [`Ring::enter`]; finished ones are added to `out`. Returns whether the eventfd was written.
    pub(super) fn reap(&mut self, out: &mut Vec<Outcome>) -> bool {
        let mut answers = std::mem::take(&mut self.answers);
        answers.extend(self.ring.completion().map(|answer| (answer.user_data(), answer.result())));
        let mut woken = false;
        for (user_data, result) in answers.drain(..) {
            if user_data == WAKE {
                woken = true;
                if let Some(wake) = &mut self.wake {
                    wake.armed = false;
                }
            } else if let Some(outcome) = self.take_answer(user_data, result) {
                out.push(outcome);
            }
        }
        self.answers = answers;
        woken
    }

    fn take_answer(&mut self, user_data: u64, result: i32) -> Option<Outcome> {
        let (index, generation) = (user_data as u32, (user_data >> 32) as u32);
        let slot = self.slots.get_mut(index as usize)?;
        // Invariant 4: the answer may be to an earlier use of the slot.
        let request = slot.request.as_ref().filter(|_| slot.generation == generation)?;
        let result = usize::try_from(result).map_err(|_| -result);
        match slot.progress.advance(&request.action, slot.end, result) {
            Next::Continue => {
                self.push(index);
                None
            }
            Next::Finished => self.release(index).map(|request| Outcome::Finished(request, Ok(()))),
            // The kernel keeps refusing for the moment, or has no such operation for this file. Ordinary
            // system calls will do it.
            Next::Fail(Cause::NoProgress(1..) | Cause::Os(libc::EOPNOTSUPP)) => {
                self.release(index).map(Outcome::Refused)
            }
            Next::Fail(cause) => {
                let error = request.action.failed(cause);
                self.release(index).map(|request| Outcome::Finished(request, Err(error)))
            }
        }
    }

    /// Frees slot `index` and gives back its request.
    fn release(&mut self, index: u32) -> Option<Request> {
        self.free.push(index);
        self.slots[index as usize].request.take()
    }
}

impl Drop for Ring {
    /// Waits for what is in flight (invariant 3). Owners drain before they drop a ring, so this is for
    /// the way out of a panic.
    fn drop(&mut self) {
        while self.in_flight() > 0 {
            let mut out = Vec::new();
            if self.enter(1).is_err() {
                std::thread::sleep(SHORTAGE_PAUSE);
            }
            self.reap(&mut out);
            for outcome in out {
                match outcome {
                    Outcome::Finished(request, result) => request.complete(result),
                    Outcome::Refused(request) => {
                        let error = request.action.failed(Cause::Os(libc::ECANCELED));
                        request.complete(Err(error));
                    }
                }
            }
        }
        if let Some(wake) = self.wake.take().filter(|wake| wake.armed) {
            // The kernel may still store the count, so its box is never freed.
            Box::leak(wake.count);
        }
    }
}

/// The rest of an action, from which an entry is made.
struct Rest<'slot> {
    done: usize,
    region: Option<Region>,
    takes_vectors: bool,
    pieces: &'slot mut Vec<Buffer>,
}

impl Rest<'_> {
    fn entry(&mut self, file: types::Fd, action: &Action) -> Entry {
        match action {
            Action::Read { offset, buffers } => self.read(file, offset + self.done as u64, buffers),
            Action::Write { offset, buffers } => self.write(file, offset + self.done as u64, buffers),
            Action::Sync { all_metadata: true } => opcode::Fsync::new(file).build(),
            Action::Sync { all_metadata: false } => {
                opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build()
            }
            Action::Allocate { .. } => unreachable!("`takes` leaves allocations to ordinary calls"),
        }
    }

    fn read(&mut self, file: types::Fd, offset: u64, buffers: &Buffers) -> Entry {
        let Some(piece) = self.single(buffers) else {
            buffers.rest_into(self.done, self.pieces);
            let (pieces, count) = (Buffer::iovecs(self.pieces).as_ptr(), self.pieces.len() as u32);
            return match self.common_index() {
                Some(index) => opcode::ReadvFixed::new(file, pieces, count, index).offset(offset).build(),
                None => opcode::Readv::new(file, pieces, count).offset(offset).build(),
            };
        };
        let (start, bytes) = (piece.start().as_ptr(), piece.len() as u32);
        match self.region.and_then(|region| region.index_of(piece)) {
            Some(index) => opcode::ReadFixed::new(file, start, bytes, index).offset(offset).build(),
            None => opcode::Read::new(file, start, bytes).offset(offset).build(),
        }
    }

    fn write(&mut self, file: types::Fd, offset: u64, buffers: &Buffers) -> Entry {
        let Some(piece) = self.single(buffers) else {
            buffers.rest_into(self.done, self.pieces);
            let (pieces, count) = (Buffer::iovecs(self.pieces).as_ptr(), self.pieces.len() as u32);
            return match self.common_index() {
                Some(index) => opcode::WritevFixed::new(file, pieces, count, index).offset(offset).build(),
                None => opcode::Writev::new(file, pieces, count).offset(offset).build(),
            };
        };
        let (start, bytes) = (piece.start().as_ptr(), piece.len() as u32);
        match self.region.and_then(|region| region.index_of(piece)) {
            Some(index) => opcode::WriteFixed::new(file, start, bytes, index).offset(offset).build(),
            None => opcode::Write::new(file, start, bytes).offset(offset).build(),
        }
    }

    /// The registered buffer that all pieces lie in.
    fn common_index(&self) -> Option<u16> {
        let region = self.region.filter(|_| self.takes_vectors)?;
        let (first, others) = self.pieces.split_first()?;
        let index = region.index_of(*first)?;
        others.iter().all(|piece| region.index_of(*piece) == Some(index)).then_some(index)
    }

    /// The rest, if it is one piece.
    fn single(&self, buffers: &Buffers) -> Option<Buffer> {
        let mut rest = buffers.rest(self.done);
        let first = rest.next()?;
        rest.next().is_none().then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use bufpool_policies::TenantId;

    use super::super::super::conformance::directory;
    use super::*;
    use crate::io::SourceRef;
    use crate::io::options::Direct;
    use crate::io::{FileOpen, Group};
    use crate::sys::Mapping;

    /// Two whole chunks and half a one. Nobody looks at the memory, which need not be there.
    #[test]
    fn a_region_is_registered_in_chunks_and_a_buffer_lies_in_one() {
        const CHUNK: usize = Region::CHUNK_BYTES;
        let start = NonNull::without_provenance(std::num::NonZero::new(1 << 40).unwrap());
        let region = Region { start, bytes: 2 * CHUNK + CHUNK / 2 };
        let chunks = region.iovecs();
        let chunks = chunks.iter().map(|chunk| (chunk.iov_base.addr() - (1 << 40), chunk.iov_len));
        let expected = [(0, CHUNK), (CHUNK, CHUNK), (2 * CHUNK, CHUNK / 2)];
        assert_eq!(chunks.collect::<Vec<_>>(), expected);
        let index_of = |from: isize, bytes| {
            let start = NonNull::new(start.as_ptr().wrapping_offset(from)).unwrap();
            // SAFETY: no operation carries the buffer.
            region.index_of(unsafe { Buffer::new(start, bytes) })
        };
        let (chunk, end) = (CHUNK as isize, region.bytes as isize);
        assert_eq!((index_of(0, 4096), index_of(chunk - 4096, 4096)), (Some(0), Some(0)));
        assert_eq!((index_of(chunk, CHUNK), index_of(end - 4096, 4096)), (Some(1), Some(2)));
        assert_eq!(index_of(chunk - 4096, 4097), None, "in two chunks");
        assert_eq!((index_of(-4096, 4096), index_of(end - 4096, 4097)), (None, None), "not in the region");
    }

    #[test]
    fn a_region_counts_as_registered_when_the_kernel_has_taken_it() {
        let Ok(plain) = IoUring::new(2) else {
            println!("skipped: no io_uring here");
            return;
        };
        let mut ring = Ring::new(plain, 1, &Arc::default());
        // No process has memory there.
        let nowhere = NonNull::without_provenance(std::num::NonZero::new(1 << 62).unwrap());
        assert!(ring.register_region(Region { start: nowhere, bytes: 4096 }, None).is_err());
        assert!(ring.region.is_none());
        let memory = Mapping::new(4096).unwrap();
        match ring.register_region(Region { start: memory.start(), bytes: 4096 }, None) {
            Ok(_) => assert!(ring.region.is_some_and(|region| region.start == memory.start())),
            Err(error) => println!("skipped: no memory may be locked here: {error}"),
        }
    }

    /// Nothing else ends this wait: nobody writes the eventfd.
    #[test]
    fn a_signal_ends_a_wait_and_is_no_failure() {
        extern "C" fn ignore(_: libc::c_int) {}
        let Ok(plain) = IoUring::new(2) else {
            println!("skipped: no io_uring here");
            return;
        };
        let eventfd = crate::sys::eventfd().unwrap();
        let mut ring = Ring::new(plain, 1, &Arc::default());
        ring.listen(eventfd.as_raw_fd());
        // What a call submits is its result, even if it is interrupted afterwards.
        ring.enter(0).unwrap();
        let handler: extern "C" fn(libc::c_int) = ignore;
        // SAFETY: a handler that does nothing may run anywhere, and nothing else here uses the signal.
        unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
        // SAFETY: it always succeeds.
        let waiting = unsafe { libc::pthread_self() };
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // A signal that comes before the wait does not end it.
                while !is_over.load(Ordering::Relaxed) {
                    // SAFETY: the thread waits for this one to end.
                    assert_eq!(unsafe { libc::pthread_kill(waiting, libc::SIGUSR2) }, 0);
                    std::thread::yield_now();
                }
            });
            let result = ring.enter(1);
            is_over.store(true, Ordering::Relaxed);
            result.unwrap();
        });
        assert!(!ring.reap(&mut Vec::new()), "the eventfd was not written");
    }

    /// The slot of a read is used again; then another answer with the number of its first use comes out of
    /// the kernel.
    #[test]
    fn an_answer_of_an_earlier_use_of_a_slot_is_not_taken() {
        let Ok(plain) = IoUring::new(2) else {
            println!("skipped: no io_uring here");
            return;
        };
        let directory = directory();
        let how = FileOpen { direct: Direct::Off, ..FileOpen::READ_WRITE };
        let file = Arc::new(LocalFile::open(&directory.path().join("file"), &how).unwrap());
        file.allocate_now(0, 4096).unwrap();
        let memory = Mapping::new(4096).unwrap();
        let group = Group::new(2);
        let read = |token| Request {
            source: SourceRef::new(Arc::clone(&file) as _),
            // SAFETY: the mapping, which is kept until both reads are over, and not looked at.
            action: Action::Read { offset: 0, buffers: unsafe { Buffer::new(memory.start(), 4096) }.into() },
            tenant: Some(TenantId(0)),
            token,
            completion: Arc::clone(&group) as _,
        };
        let mut ring = Ring::new(plain, 1, &Arc::default());
        let mut outcomes = Vec::new();
        let mut reap_one = |ring: &mut Ring, stale: Option<u64>| {
            if let Some(user_data) = stale {
                // SAFETY: a no-op refers to no memory.
                unsafe { ring.push_entry(&opcode::Nop::new().build().user_data(user_data)) }
            }
            while ring.in_flight() > 0 {
                ring.enter(1).unwrap();
                ring.reap(&mut outcomes);
            }
            assert_eq!(outcomes.len(), 1);
            let Some(Outcome::Finished(request, result)) = outcomes.pop() else {
                panic!("a read was refused")
            };
            (request.token, result)
        };
        ring.start(read(1)).unwrap();
        let first_use = u64::from(ring.slots[0].generation) << 32;
        assert_eq!(reap_one(&mut ring, None), (1, Ok(())));
        ring.start(read(2)).unwrap();
        assert!(ring.take_answer(first_use, 0).is_none(), "no bytes: it would be the end of the file");
        assert!(ring.take_answer(first_use, -libc::EIO).is_none());
        assert!(ring.take_answer(first_use | 7, 4096).is_none(), "there is no slot 7");
        assert_eq!(ring.in_flight(), 1);
        assert_eq!(reap_one(&mut ring, Some(first_use)), (2, Ok(())));
        // Nothing is in flight: neither use is there any more.
        assert!(ring.take_answer(first_use, 4096).is_none());
        assert!(ring.take_answer(u64::from(ring.slots[0].generation) << 32, 4096).is_none());
        assert_eq!((ring.in_flight(), ring.room()), (0, 1));
    }
}
