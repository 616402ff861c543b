//! What only this backend can be asked: flags, registrations, refusals. The rest is in `conformance`.

use std::os::fd::AsFd;

use super::super::conformance::directory;
use super::super::{Buffer, Buffers, Completion, FileOpen, start};
use super::*;
use crate::io::options::{Direct, Io, IoBackend};
use crate::sys::Mapping;

/// A backend, or a printed notice where the kernel refuses io_uring.
fn started(options: &IoOptions) -> Option<Uring> {
    match Uring::new(options) {
        Ok(backend) => Some(backend),
        Err(error) => {
            println!("skipped: no io_uring here: {error}");
            None
        }
    }
}

fn open(backend: &Uring, directory: &tempfile::TempDir, direct: Direct) -> SourceRef {
    let how = FileOpen { direct, ..FileOpen::READ_WRITE };
    let file = LocalFile::open(&directory.path().join("file"), &how).unwrap();
    let file = file.saturated_at(backend.options.saturation_depth);
    backend.register_file(&file);
    SourceRef::new(Arc::new(file))
}

/// A backend with a file whose first page is written, and memory of 16 pages.
struct Written {
    backend: Uring,
    directory: tempfile::TempDir,
    file: SourceRef,
    memory: Mapping,
}

fn written(depth: u32) -> Option<Written> {
    let backend = started(&IoOptions { depth, ..IoOptions::default() })?;
    let directory = directory();
    let file = open(&backend, &directory, Direct::Prefer);
    let memory = Mapping::new(16 * 4096).unwrap();
    backend.run(&file, Action::Write { offset: 0, buffers: page(&memory, 0).into() }).unwrap();
    Some(Written { backend, directory, file, memory })
}

/// Page `number` of `memory`.
fn page(memory: &Mapping, number: usize) -> Buffer {
    assert!((number + 1) * 4096 <= memory.len());
    // SAFETY: within the mapping, which tests keep, and leave alone, while operations run.
    let all = unsafe { Buffer::new(memory.start(), memory.len()) };
    all.skip(number * 4096).first(4096)
}

/// Writes pages 0 to 8 from the first half of 16 pages of memory and reads them into the second, as batches.
fn round_trip(backend: &Uring, file: &SourceRef, memory: &Mapping) {
    // SAFETY: nothing is in flight, and the mapping is that long.
    let bytes = unsafe { std::slice::from_raw_parts_mut(memory.start().as_ptr(), memory.len()) };
    bytes.iter_mut().enumerate().for_each(|(index, byte)| *byte = (index / 4096 * 3 + 1) as u8);
    for reading in [false, true] {
        let group = Group::new(8);
        let action = |number: usize| {
            let offset = number as u64 * 4096;
            if reading {
                Action::Read { offset, buffers: page(memory, 8 + number).into() }
            } else {
                Action::Write { offset, buffers: page(memory, number).into() }
            }
        };
        let request = |number| Request {
            source: file.clone(),
            action: action(number),
            tenant: None,
            token: number as u64,
            completion: group.clone(),
        };
        backend.submit_and_wait(&mut (0..4).map(request).collect(), &Group::new(0));
        backend.submit(&mut (4..8).map(request).collect());
        group.wait();
        assert_eq!(group.take_failures(), []);
    }
    let (written, read) = bytes[..16 * 4096].split_at(8 * 4096);
    assert!(written == read);
}

#[test]
fn uses_registered_buffers_and_others() {
    let Some(backend) = started(&IoOptions { depth: 4, ..IoOptions::default() }) else { return };
    let directory = directory();
    let file = open(&backend, &directory, Direct::Prefer);
    let (registered, other) = (Mapping::new(16 * 4096).unwrap(), Mapping::new(16 * 4096).unwrap());
    backend.register_memory(registered.start(), registered.len());
    let report = backend.report();
    let told = report
        .features
        .iter()
        .chain(&report.steps_down)
        .filter(|line| line.starts_with("registered buffers") && !line.contains("vectored"));
    assert_eq!(told.count(), 1, "{report}");
    round_trip(&backend, &file, &registered);
    round_trip(&backend, &file, &other);
}

/// Scattered pages of registered memory, of other memory, and of both.
#[test]
fn vectored_transfers_use_registered_buffers_and_others() {
    let Some(backend) = started(&IoOptions { depth: 4, ..IoOptions::default() }) else { return };
    let directory = directory();
    let file = open(&backend, &directory, Direct::Prefer);
    let (registered, other) = (Mapping::new(16 * 4096).unwrap(), Mapping::new(16 * 4096).unwrap());
    backend.register_memory(registered.start(), registered.len());
    println!("{}", backend.report());
    let bytes = |memory: &Mapping| {
        // SAFETY: nothing is in flight when the slice is used, and the mapping is that long.
        unsafe { std::slice::from_raw_parts_mut(memory.start().as_ptr(), memory.len()) }
    };
    let run = |action| {
        let group = Group::new(1);
        let completion = group.clone();
        let request = Request { source: file.clone(), action, tenant: None, token: 0, completion };
        backend.submit(&mut vec![request]);
        group.wait();
        assert_eq!(group.take_failures(), []);
    };
    let places =
        [[(&registered, 9), (&registered, 3)], [(&other, 9), (&other, 3)], [(&registered, 9), (&other, 3)]];
    for (round, from) in places.iter().enumerate() {
        for to in &places {
            bytes(&registered).fill(0);
            bytes(&other).fill(0);
            for (at, (memory, number)) in from.iter().enumerate() {
                bytes(memory)[number * 4096..][..4096].fill((10 * round + at + 1) as u8);
            }
            let pieces = |list: &[(&Mapping, usize); 2]| {
                Buffers::Many(list.iter().map(|(memory, number)| page(memory, *number)).collect())
            };
            run(Action::Write { offset: 0, buffers: pieces(from) });
            bytes(&registered).fill(0xff);
            bytes(&other).fill(0xff);
            run(Action::Read { offset: 0, buffers: pieces(to) });
            for (at, (memory, number)) in to.iter().enumerate() {
                let page = &bytes(memory)[number * 4096..][..4096];
                assert!(page.iter().all(|byte| *byte == (10 * round + at + 1) as u8));
            }
            let untouched = &bytes(&registered)[4 * 4096..9 * 4096];
            assert!(untouched.iter().all(|byte| *byte == 0xff), "no page between them");
        }
    }
}

/// An ordinary user may lock little memory; that is a line in the report, not an error. As root, who has
/// no limit, nothing is refused.
#[test]
fn goes_on_without_registered_buffers_where_memlock_is_small() {
    let Some(backend) = started(&IoOptions { depth: 4, ..IoOptions::default() }) else { return };
    let directory = directory();
    let file = open(&backend, &directory, Direct::Prefer);
    let memory = Mapping::new(64 << 20).unwrap();
    backend.register_memory(memory.start(), memory.len());
    let report = backend.report();
    println!("{report}");
    let refused = report.steps_down.iter().find(|line| line.starts_with("registered buffers:"));
    assert!(refused.is_none_or(|line| line.contains("memlock limit")), "{report}");
    round_trip(&backend, &file, &memory);
}

#[test]
fn a_refused_registration_is_reported_with_its_size_and_the_limit() {
    let refused = refused_registration(12_288, &io::Error::from_raw_os_error(libc::ENOMEM));
    assert!(refused.starts_with("registered buffers: "), "{refused}");
    assert!(refused.contains("(12 KiB wanted, memlock limit "), "{refused}");
    let no_ring = refusal(&io::Error::from_raw_os_error(libc::ENOMEM));
    assert!(no_ring.starts_with("io_uring: ") && no_ring.contains("(memlock limit "), "{no_ring}");
}

/// A ring that polls does direct transfers only; all else, and everything on devices without polling, is
/// done by ordinary calls.
#[test]
fn polling_falls_back_where_files_or_devices_do_not_poll() {
    let Some(backend) = started(&IoOptions { depth: 4, iopoll: true, ..IoOptions::default() }) else {
        return;
    };
    println!("{}", backend.report());
    let memory = Mapping::new(16 * 4096).unwrap();
    for direct in [Direct::Prefer, Direct::Off] {
        let directory = directory();
        let file = open(&backend, &directory, direct);
        round_trip(&backend, &file, &memory);
        let group = Group::new(1);
        let action = Action::Sync { all_metadata: false };
        backend.submit(&mut vec![Request {
            source: file,
            action,
            tenant: None,
            token: 0,
            completion: group.clone(),
        }]);
        group.wait();
        assert_eq!(group.take_failures(), []);
    }
    backend.drain();
}

#[test]
fn a_refusal_is_a_step_down_or_an_error() {
    let refusing = IoOptions { refuse_uring: true, ..IoOptions::default() };
    let report = start(&refusing).unwrap().backend.report();
    assert_eq!(report.backend, "threads");
    assert_eq!(report.steps_down.len(), 1, "{report}");
    assert!(report.to_string().contains("without io_uring: refused"), "{report}");
    let required = IoOptions { io: Io::Require(IoBackend::Uring), ..refusing.clone() };
    assert_eq!(start(&required).unwrap_err().kind(), io::ErrorKind::Unsupported);
    let threads = IoOptions { io: Io::Require(IoBackend::Threads), ..refusing };
    assert_eq!(start(&threads).unwrap().backend.report().steps_down, Vec::<String>::new());
}

/// The lock and the space of a file are free when it is dropped, though rings had it registered.
#[test]
fn a_dropped_file_is_let_go_by_all_rings() {
    let Some(backend) = started(&IoOptions { depth: 4, ..IoOptions::default() }) else { return };
    let directory = directory();
    let memory = Mapping::new(16 * 4096).unwrap();
    for _ in 0..4 {
        let file = open(&backend, &directory, Direct::Prefer);
        round_trip(&backend, &file, &memory);
        drop(file);
        let again = std::fs::File::open(directory.path().join("file")).unwrap();
        assert!(sys::try_flock(again.as_fd(), true).unwrap());
    }
    assert_eq!(backend.shared.places.lock().len(), setup::file_places() as usize);
}

/// However many files are closed while one ring is always out.
#[test]
fn files_that_a_leased_ring_is_to_forget_are_no_more_than_there_are_places() {
    let Some(backend) = started(&IoOptions { depth: 4, ..IoOptions::default() }) else { return };
    let Some(_lane) = backend.leased_lane() else { panic!("no second ring") };
    let directory = directory();
    for _ in 0..10 {
        drop(open(&backend, &directory, Direct::Prefer));
    }
    assert_eq!(backend.shared.leases.lock().released.len(), 1);
}

/// Closes a file, opens another one, which gets the place of the first, and reads over its end.
#[derive(Debug)]
struct Reopens {
    backend: Arc<Uring>,
    old: Mutex<Option<SourceRef>>,
    new: std::path::PathBuf,
    read: Action,
    group: Arc<Group>,
    outcome: Arc<Group>,
}

impl Completion for Reopens {
    fn complete(&self, token: u64, result: Result<(), IoError>) {
        if let Some(old) = self.old.lock().take() {
            let place = LocalFile::of(&*old).unwrap().registration().unwrap().place;
            drop(old);
            let how = FileOpen { direct: Direct::Off, ..FileOpen::READ_WRITE };
            let new = LocalFile::open(&self.new, &how).unwrap();
            self.backend.register_file(&new);
            assert_eq!(new.registration().unwrap().place, place);
            let source = SourceRef::new(Arc::new(new));
            let (action, completion) = (self.read.clone(), self.outcome.clone());
            self.backend.submit(&mut vec![Request { source, action, tenant: None, token, completion }]);
        }
        self.group.complete(token, result);
    }
}

/// The place is let go of for the old file before the new file's read is started, which goes on when a part
/// of it is done.
#[test]
fn a_file_keeps_the_place_that_another_one_had() {
    let Some(backend) = started(&IoOptions { depth: 4, ..IoOptions::default() }) else { return };
    let backend = Arc::new(backend);
    let (directory, other) = (directory(), directory());
    let memory = Mapping::new(64 * 4096).unwrap();
    // The reads are of cached bytes, so that the I/O thread finds all of one call done.
    let old = open(&backend, &directory, Direct::Off);
    let new = other.path().join("new");
    std::fs::write(&new, [7; 5000]).unwrap();
    let long = other.path().join("long");
    std::fs::write(&long, vec![8; 32 * 4096]).unwrap();
    let how = FileOpen { direct: Direct::Off, ..FileOpen::READ_WRITE };
    let long = LocalFile::open(&long, &how).unwrap();
    backend.register_file(&long);
    let long = SourceRef::new(Arc::new(long));
    // The ring knows the old file.
    let group = Group::new(1);
    let action = Action::Write { offset: 0, buffers: page(&memory, 0).into() };
    let completion = group.clone();
    backend.submit(&mut vec![Request { source: old.clone(), action, tenant: None, token: 0, completion }]);
    group.wait();

    // SAFETY: the mapping is kept until nothing is in flight, and not looked at.
    let all = unsafe { Buffer::new(memory.start(), memory.len()) };
    let (group, outcome) = (Group::new(2), Group::new(1));
    let completion: Arc<Reopens> = Arc::new(Reopens {
        backend: Arc::clone(&backend),
        old: Mutex::new(Some(old)),
        new,
        read: Action::Read { offset: 0, buffers: all.first(8192).into() },
        group: Arc::clone(&group),
        outcome: Arc::clone(&outcome),
    });
    let request = |number: usize| Request {
        source: long.clone(),
        action: Action::Read {
            offset: 0,
            buffers: all.skip((1 + number) * 16 * 4096).first(16 * 4096).into(),
        },
        tenant: None,
        token: number as u64,
        completion: completion.clone(),
    };
    backend.submit(&mut (0..2).map(request).collect());
    group.wait();
    outcome.wait();
    assert_eq!(group.take_failures(), []);
    let failures = outcome.take_failures();
    assert!(matches!(&failures[..], [(_, error)] if error.is_end_of_file()), "{failures:?}");
}

/// The kernel's submitting thread may answer an operation before the operation's place in the submission
/// queue is free.
#[test]
fn a_full_submission_queue_is_waited_for() {
    let options = IoOptions { depth: 2, sqpoll_idle_ms: Some(10), ..IoOptions::default() };
    let Some(backend) = started(&options) else { return };
    let directory = directory();
    let file = open(&backend, &directory, Direct::Prefer);
    let memory = Mapping::new(4096).unwrap();
    // Reads beyond the end are answered at once.
    const READS: u64 = 2000;
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let group = Group::new(2 * READS as usize);
                let request = |token| Request {
                    source: file.clone(),
                    action: Action::Read { offset: 4096, buffers: page(&memory, 0).into() },
                    tenant: None,
                    token,
                    completion: group.clone(),
                };
                backend.submit(&mut (0..READS).map(request).collect());
                backend.submit_and_wait(&mut (0..READS).map(request).collect(), &group);
                assert_eq!(group.take_failures().len(), 2 * READS as usize);
            });
        }
    });
}

/// Reads of tenant `tenant`, of pages that are there, all into the same memory, which nobody looks at.
fn reads(file: &SourceRef, memory: &Mapping, tenant: u32, count: usize, group: &Arc<Group>) -> Vec<Request> {
    let request = |number: usize| Request {
        source: file.clone(),
        action: Action::Read { offset: 0, buffers: page(memory, number % 16).into() },
        tenant: Some(TenantId(tenant)),
        token: number as u64,
        completion: Arc::clone(group) as _,
    };
    (0..count).map(request).collect()
}

/// With many in flight a system call moves several of them, both ways.
#[test]
fn a_batch_takes_fewer_system_calls_than_reads() {
    const READS: usize = 4096;
    let Some(Written { backend, file, memory, directory: _directory }) = written(64) else { return };
    let calls = || backend.shared.calls.load(Ordering::Relaxed);
    let before = calls();
    let group = Group::new(READS);
    backend.submit_and_wait(&mut reads(&file, &memory, 1, READS, &group), &group);
    assert_eq!(group.take_failures(), []);
    let called = calls() - before;
    println!("{called} calls for {READS} reads");
    // An eighth of the 64 is waited for each time; signals may cut a few waits short.
    assert!(called <= READS as u64 / 8 + 64, "{called}");
}

/// A thread without work sleeps in the kernel: with nothing in flight, and also while reads wait for their
/// turn.
#[test]
fn nobody_spins() {
    let options = IoOptions { depth: 4, saturation_depth: 2, ..IoOptions::default() };
    let Some(backend) = started(&options) else { return };
    let directory = directory();
    let file = open(&backend, &directory, Direct::Prefer);
    let memory = Mapping::new(16 * 4096).unwrap();
    backend.run(&file, Action::Write { offset: 0, buffers: page(&memory, 0).into() }).unwrap();
    let driver = &backend.shared.driver;
    // Two other tenants have all slots.
    assert_eq!((driver.start_reads(TenantId(1), 1), driver.start_reads(TenantId(2), 1)), (1, 1));
    let group = Group::new(8);
    backend.submit(&mut reads(&file, &memory, 3, 8, &group));
    // The I/O thread has seen them once they are lined up.
    while backend.report().to_string().contains("(0 reads have waited)") {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let calls = || backend.shared.calls.load(Ordering::Relaxed);
    let before = calls();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(calls() - before <= 2, "{} calls while nothing could be done", calls() - before);
    assert!(!group.is_done());
    driver.finish(Some(TenantId(1)), 1);
    driver.finish(Some(TenantId(2)), 1);
    group.wait();
    assert_eq!(group.take_failures(), []);
    backend.drain();
    let before = calls();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(calls() - before <= 2, "{} calls while nothing was in flight", calls() - before);
}

/// Reads of one page each, two at a time.
struct Twos<'a> {
    left: Vec<Request>,
    group: &'a Group,
    prepared: usize,
    landed: usize,
    /// Most reads that were prepared and had not landed when more were prepared.
    most_outstanding: usize,
    panics_at: usize,
}

impl<'a> Twos<'a> {
    fn new(left: Vec<Request>, group: &'a Group) -> Self {
        Self { left, group, prepared: 0, landed: 0, most_outstanding: 0, panics_at: usize::MAX }
    }
}

impl Feed for Twos<'_> {
    fn prepare(&mut self, requests: &mut Vec<Request>) -> bool {
        self.most_outstanding = self.most_outstanding.max(self.prepared - self.landed);
        assert!(self.prepared < self.panics_at, "asked to panic");
        let next = self.left.split_off(self.left.len().saturating_sub(2));
        let more = !next.is_empty();
        self.prepared += next.len();
        self.group.expect(next.len());
        requests.extend(next);
        more
    }

    fn land(&mut self) {
        let mut successes = Vec::new();
        self.group.take_successes(&mut successes);
        self.landed += successes.len();
    }
}

/// A list much longer than the ring's depth is prepared little by little while the device works.
#[test]
fn a_stream_is_prepared_while_its_reads_are_in_flight() {
    const READS: usize = 500;
    let Some(Written { backend, file, memory, directory: _directory }) = written(8) else { return };
    let group = Group::for_stream();
    let mut feed = Twos::new(reads(&file, &memory, 1, READS, &group), &group);
    backend.stream(&mut feed, &group);
    assert_eq!((feed.prepared, feed.landed), (READS, READS));
    // A full ring, and not quite what fills it up again.
    assert!((8..16).contains(&feed.most_outstanding), "{}", feed.most_outstanding);
}

#[test]
fn a_panic_in_a_stream_leaves_nothing_in_flight() {
    let Some(Written { backend, file, memory, directory: _directory }) = written(8) else { return };
    let group = Group::for_stream();
    let mut feed = Twos::new(reads(&file, &memory, 1, 100, &group), &group);
    feed.panics_at = 6;
    let streamed =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| backend.stream(&mut feed, &group)));
    assert!(streamed.is_err());
    assert!(group.is_done(), "what was started was waited for");
    let leases = backend.shared.leases.lock();
    assert_eq!((leases.out, leases.idle.len(), leases.made), (0, 1, 1));
    assert_eq!(leases.idle[0].in_flight(), 0);
    drop(leases);
    backend.drain();
}

#[test]
fn a_lane_does_more_than_its_ring_holds_and_closes_files_at_once() {
    const WRITES: usize = 100;
    let Some(backend) = started(&IoOptions { depth: 8, ..IoOptions::default() }) else { return };
    let Some(mut own) = backend.lane() else { panic!("no second ring") };
    let directory = directory();
    let memory = Mapping::new(16 * 4096).unwrap();
    for is_leased in [false, true, false, true] {
        let mut leased = is_leased.then(|| backend.leased_lane().expect("a third ring"));
        let lane = leased.as_deref_mut().unwrap_or(&mut *own);
        // Its lock has to be free again.
        let file = open(&backend, &directory, Direct::Prefer);
        let group = Group::new(WRITES + 1);
        let request = |number: usize| Request {
            source: file.clone(),
            action: match number {
                // Rings do not allocate: the backend's threads do, and complete it.
                WRITES => Action::Allocate { offset: 0, bytes: 4096 },
                _ => {
                    Action::Write { offset: number as u64 * 4096, buffers: page(&memory, number % 16).into() }
                }
            },
            tenant: None,
            token: number as u64,
            completion: group.clone(),
        };
        lane.submit(&mut (0..=WRITES).map(request).collect());
        while lane.complete() || lane.wait() {}
        group.wait();
        assert_eq!(group.take_failures(), []);
        assert_eq!(std::fs::metadata(directory.path().join("file")).unwrap().len(), WRITES as u64 * 4096);
    }
    let leases = backend.shared.leases.lock();
    assert_eq!((leases.out, leases.idle.len(), leases.made), (0, 1, 1), "the lease was given back each time");
}

/// What is done is completed one by one and when it is asked for, so that more can be started in between.
#[test]
fn a_lane_completes_one_operation_at_a_time() {
    let Some(backend) = started(&IoOptions::default()) else { return };
    let Some(mut lane) = backend.lane() else { panic!("no second ring") };
    let directory = directory();
    let memory = Mapping::new(4 * 4096).unwrap();
    let file = open(&backend, &directory, Direct::Prefer);
    let groups: Vec<_> = (0..4).map(|_| Group::new(1)).collect();
    let request = |number: usize| Request {
        source: file.clone(),
        action: Action::Write { offset: number as u64 * 4096, buffers: page(&memory, number).into() },
        tenant: None,
        token: 0,
        completion: groups[number].clone(),
    };
    let completed = || groups.iter().filter(|group| group.is_done()).count();
    assert!(!lane.wait() && !lane.complete(), "nothing is in flight");
    lane.submit(&mut (0..4).map(request).collect());
    for number in 0..4 {
        assert!(lane.wait());
        assert_eq!(completed(), number);
        assert!(lane.complete());
        assert_eq!(completed(), number + 1);
    }
    assert!(!lane.complete() && !lane.wait());
}
