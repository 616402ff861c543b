//! Transfers between frames and files: reads and writes of runs of pages, whose requests own the frames'
//! leases.

use std::sync::{Arc, mpsc};

use bufpool_policies::{FrameId, TenantId};
use parking_lot::Mutex;

use crate::io::{Action, Backend, Buffer, Buffers, Completion, Feed, Group, IoError, Request, SourceRef};
use crate::memory::arena::Arena;
use crate::memory::lease::FrameLease;

/// A write from memory that nobody changes while the value is borrowed.
pub(crate) struct WriteFrom<'a> {
    /// The file.
    pub file: &'a SourceRef,
    /// Page number of the first page.
    pub number: u64,
    /// Neighbouring pages of the file, in file order; at most [`Buffers::PIECES_MAX`].
    pub frames: Vec<&'a FrameLease>,
}

/// Where [`Arena::read_stream`] gets its reads, and what becomes of them. Frames are numbered from 0 over the
/// whole stream, in the order in which they were added.
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
    reads: Vec<(SourceRef, u64, usize)>,
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
    pub fn begin(&mut self, file: SourceRef, number: u64, lease: FrameLease) {
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
    /// Of all reads so far; the token of a read is its first frame's place. A lease is here as long as its
    /// read is in flight, and is not used meanwhile.
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
                source: file,
                action: Action::Read {
                    offset: self.arena.offset_of(number),
                    // SAFETY: the leases stay in `self.leases`, unused, until the group has the read's
                    // outcome. If a panic drops them, their frames are never used again.
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
    /// Fills a frame with page `number` of `file` for `tenant` and waits for it.
    pub fn read(
        &self,
        backend: &dyn Backend,
        file: &SourceRef,
        number: u64,
        lease: &mut FrameLease,
        tenant: TenantId,
    ) -> Result<(), IoError> {
        // SAFETY: the lease is ours alone until `read_for` has returned.
        let buffer = unsafe { self.buffer(lease.frame()) };
        let read = Action::Read { offset: self.offset_of(number), buffers: buffer.into() };
        backend.read_for(tenant, file, read)
    }

    /// As [`read`](Self::read); does `meanwhile` once the read has begun. Where the backend cannot do both at
    /// a time, `meanwhile` comes first.
    pub fn read_meanwhile(
        &self,
        backend: &dyn Backend,
        file: &SourceRef,
        number: u64,
        mut lease: FrameLease,
        tenant: TenantId,
        meanwhile: impl FnOnce(),
    ) -> (FrameLease, Result<(), IoError>) {
        let Some(mut lane) = backend.leased_lane() else {
            meanwhile();
            let result = self.read(backend, file, number, &mut lease, tenant);
            return (lease, result);
        };
        let (done, outcome) = mpsc::sync_channel(1);
        let request = self.read_request(file.clone(), number, vec![lease], tenant, move |leases, result| {
            // Cannot fail: the receiver waits.
            let _ = done.send((leases, result));
        });
        lane.submit(&mut vec![request]);
        meanwhile();
        while lane.wait() {
            while lane.complete() {}
        }
        // What queues for its tenant's turn, or was refused by the ring, is completed by a thread of the
        // backend.
        let (mut leases, result) = outcome.recv().expect("a request is completed");
        (leases.pop().expect("the lease that was lent"), result)
    }

    /// Does all reads of `source` for `tenant` and waits for them. Where the backend can do that, the source
    /// is asked for more, and told of those that are over, while others are in flight.
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

    /// A read for `tenant` of the pages from `number` on. The frames belong to the request until it is done;
    /// `then` gets them back with the result, in the thread that completes the request.
    ///
    /// The submitter drains the backend before the arena is dropped.
    pub fn read_request(
        &self,
        file: SourceRef,
        number: u64,
        leases: Vec<FrameLease>,
        tenant: TenantId,
        then: impl FnOnce(Vec<FrameLease>, Result<(), IoError>) + Send + 'static,
    ) -> Request {
        // SAFETY: the leases lie in the completion, where nobody reaches them before it is called.
        let buffers = unsafe { self.buffers(leases.iter().map(FrameLease::frame)) };
        Request {
            source: file,
            action: Action::Read { offset: self.offset_of(number), buffers },
            tenant: Some(tenant),
            token: 0,
            completion: Arc::new(Lent(Mutex::new(Some((leases, then))))),
        }
    }

    /// A write of the pages from `number` on. The frames belong to the request until it is done; `then` gets
    /// them back with the result, in the thread that completes the request.
    ///
    /// The submitter drains the backend before the arena is dropped.
    pub fn write_request(
        &self,
        file: SourceRef,
        number: u64,
        leases: Vec<FrameLease>,
        then: impl FnOnce(Vec<FrameLease>, Result<(), IoError>) + Send + 'static,
    ) -> Request {
        // SAFETY: the leases lie in the completion, where nobody reaches them before it is called.
        let buffers = unsafe { self.buffers(leases.iter().map(FrameLease::frame)) };
        Request {
            source: file,
            action: Action::Write { offset: self.offset_of(number), buffers },
            tenant: None,
            token: 0,
            completion: Arc::new(Lent(Mutex::new(Some((leases, then))))),
        }
    }

    /// Writes one page from a frame and waits for it.
    pub fn write(
        &self,
        backend: &dyn Backend,
        file: &SourceRef,
        number: u64,
        lease: &FrameLease,
    ) -> Result<(), IoError> {
        // SAFETY: nobody changes the frame while its lease is borrowed, and `run` returns after the write.
        let buffer = unsafe { self.buffer(lease.frame()) };
        backend.run(file, Action::Write { offset: self.offset_of(number), buffers: buffer.into() })
    }

    /// Does all `writes` and waits for them. Returns the failures with the index of their write, in no order.
    pub fn write_all(&self, backend: &dyn Backend, writes: &[WriteFrom<'_>]) -> Vec<(u64, IoError)> {
        let group = Group::new(writes.len());
        let request = |(token, write): (usize, &WriteFrom<'_>)| Request {
            source: write.file.clone(),
            action: Action::Write {
                offset: self.offset_of(write.number),
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

    /// The byte of a file at which page `number` begins.
    fn offset_of(&self, number: u64) -> u64 {
        number * self.map().page_bytes() as u64
    }

    /// The bytes of frames in this order. Frames that are neighbours in memory become one piece, which costs
    /// the kernel less.
    ///
    /// # Safety
    ///
    /// As for [`Buffer::new`], for each of the frames.
    unsafe fn buffers(&self, frames: impl Iterator<Item = FrameId>) -> Buffers {
        let mut pieces: Vec<Buffer> = Vec::new();
        for frame in frames {
            // SAFETY: our caller promises for each frame what `buffer` asks.
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
        unsafe { Buffer::new(self.frame(frame).cast(), self.map().page_bytes()) }
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::io::options::{Io, IoBackend};
    use crate::io::{FileOpen, IoOptions, Started, start};

    const PAGE_BYTES: usize = 4096;
    const TENANT: TenantId = TenantId(0);

    /// What is done meanwhile is done once and before the call returns, also where it begins a read itself,
    /// where the read fails, and where it panics; and the frame comes back but for a panic.
    #[test]
    fn something_else_is_done_while_a_page_is_read() {
        for backend in [IoBackend::Threads, IoBackend::Uring] {
            let options = IoOptions { io: Io::Require(backend), ..IoOptions::default() };
            let Ok(Started { opener, backend }) = start(&options) else {
                println!("skipped: no io_uring");
                continue;
            };
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            std::fs::write(&path, [vec![1; PAGE_BYTES], vec![2; PAGE_BYTES]].concat()).unwrap();
            let how = FileOpen::READ_ONLY;
            let file = SourceRef::new(opener.open(&path, &how).unwrap());
            let (arena, mut leases) = Arena::new(3, PAGE_BYTES).unwrap();
            let ahead = vec![leases.pop().unwrap()];
            let (other, landed) = mpsc::channel();
            let submit = || {
                let file = file.clone();
                let then = move |leases, result| other.send((leases, result)).unwrap();
                backend.submit(&mut vec![arena.read_request(file, 0, ahead, TENANT, then)]);
            };
            let lease = leases.pop().unwrap();
            let (lease, result) = arena.read_meanwhile(&*backend, &file, 1, lease, TENANT, submit);
            assert_eq!((result, arena.bytes(&lease)), (Ok(()), &[2; PAGE_BYTES][..]));
            let (ahead, result) = landed.recv().unwrap();
            assert_eq!((result, arena.bytes(&ahead[0])), (Ok(()), &[1; PAGE_BYTES][..]));

            let mut done = 0;
            let (_, result) = arena.read_meanwhile(&*backend, &file, 2, lease, TENANT, || done += 1);
            assert!(result.unwrap_err().is_end_of_file());
            assert_eq!(done, 1);

            let lease = leases.pop().unwrap();
            let read =
                || arena.read_meanwhile(&*backend, &file, 1, lease, TENANT, || panic!("in the meantime"));
            assert!(catch_unwind(AssertUnwindSafe(read)).is_err());
            // Nothing is left in flight that would fill a frame later.
            backend.drain();
        }
    }
}
