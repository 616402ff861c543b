//! A source that is no descriptor: bytes in memory, moved by a thread of its own.
//!
//! It stands for sources that no backend knows, and shows what one has to do.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak, mpsc};

use parking_lot::Mutex;

use super::*;
use crate::io::done::{Done, ReadRequest, WriteRequest};
use crate::io::identity::FileIdentity;
use crate::io::name::{Entry, NameError};
use crate::io::source::Capabilities;
use crate::{ErrorKind, FileOptions, Pool, PoolOptions};

/// The longest transfer that is useful for these files.
const RUN_BYTES: usize = 2 * PAGE_BYTES;

/// Files in memory, by path.
#[derive(Debug, Default)]
pub(super) struct MemoryFiles {
    files: Arc<Mutex<HashMap<PathBuf, Contents>>>,
    /// Bytes of the longest transfer that any of them was asked for.
    longest_bytes: Arc<AtomicU64>,
}

/// The contents of a file, and its openings.
#[derive(Debug, Default)]
struct Contents {
    number: u64,
    bytes: Arc<Mutex<Vec<u8>>>,
    open: Vec<(Weak<()>, bool)>,
}

/// A request, left to the file's thread.
enum Work {
    Read(ReadRequest),
    Write(WriteRequest),
    Sync(Done),
    Allocate(u64, Done),
}

/// A file, open.
#[derive(Debug)]
struct MemorySource {
    files: Arc<Mutex<HashMap<PathBuf, Contents>>>,
    path: PathBuf,
    number: u64,
    bytes: Arc<Mutex<Vec<u8>>>,
    read_only: bool,
    /// Kept as long as the file is open.
    _lock: Arc<()>,
    longest_bytes: Arc<AtomicU64>,
    work: mpsc::Sender<Work>,
}

impl Opener for MemoryFiles {
    fn identify(&self, path: &Path) -> Option<FileIdentity> {
        let number = self.files.lock().get(path)?.number;
        Some(FileIdentity::from_number(number.into()))
    }

    fn open(&self, path: &Path, how: &FileOpen) -> Result<Arc<dyn Source>, OpenError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let mut files = self.files.lock();
        if how.create_new && files.contains_key(path) {
            return Err(OpenError::Exists);
        }
        if !files.contains_key(path) && !how.create && !how.create_new {
            return Err(OpenError::Os { doing: "opening", error: io::ErrorKind::NotFound.into() });
        }
        let file = files.entry(path.to_owned()).or_insert_with(|| Contents {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            ..Contents::default()
        });
        file.open.retain(|(lock, _)| lock.strong_count() > 0);
        if file.open.iter().any(|(_, read_only)| !(*read_only && how.read_only)) {
            return Err(OpenError::Locked);
        }
        let lock = Arc::new(());
        file.open.push((Arc::downgrade(&lock), how.read_only));
        let (work, queue) = mpsc::channel();
        let (bytes, read_only) = (Arc::clone(&file.bytes), how.read_only);
        std::thread::spawn(move || {
            queue.into_iter().for_each(|work| execute(&bytes, work, read_only));
        });
        Ok(Arc::new(MemorySource {
            files: Arc::clone(&self.files),
            path: path.to_owned(),
            number: file.number,
            bytes: Arc::clone(&file.bytes),
            read_only,
            _lock: lock,
            longest_bytes: Arc::clone(&self.longest_bytes),
            work,
        }))
    }

    fn adopt(&self, _: OwnedFd, _: &FileOpen) -> Result<Arc<dyn Source>, OpenError> {
        let error = io::ErrorKind::Unsupported.into();
        Err(OpenError::Os { doing: "taking over a descriptor", error })
    }
}

fn execute(file: &Mutex<Vec<u8>>, work: Work, read_only: bool) {
    let refused = || io::Error::from_raw_os_error(libc::EBADF);
    match work {
        Work::Read(mut request) => {
            let from = request.offset() as usize;
            let read = match file.lock().get(from..from + request.len()) {
                Some(bytes) => {
                    request.fill(0, bytes);
                    Ok(())
                }
                None => Err(io::ErrorKind::UnexpectedEof.into()),
            };
            request.finish(read);
        }
        Work::Sync(done) => done.finish(Ok(())),
        Work::Write(request) if read_only => request.finish(Err(refused())),
        Work::Allocate(_, done) if read_only => done.finish(Err(refused())),
        Work::Write(request) => {
            let bytes: Vec<u8> = request.pieces().flatten().copied().collect();
            let from = request.offset() as usize;
            lengthen(&mut file.lock(), from + bytes.len())[from..][..bytes.len()].copy_from_slice(&bytes);
            request.finish(Ok(()));
        }
        Work::Allocate(end, done) => {
            lengthen(&mut file.lock(), end as usize);
            done.finish(Ok(()));
        }
    }
}

fn lengthen(file: &mut Vec<u8>, end: usize) -> &mut [u8] {
    file.resize(file.len().max(end), 0);
    file
}

impl MemorySource {
    /// Leaves a request to the file's thread, which ends when the source and all of this are gone.
    fn leave(&self, work: Work) {
        // If the thread has ended, dropping what was sent fails the request.
        let _ = self.work.send(work);
    }

    fn note_length(&self, bytes: usize) {
        self.longest_bytes.fetch_max(bytes as u64, Ordering::Relaxed);
    }
}

impl Source for MemorySource {
    fn identity(&self) -> FileIdentity {
        FileIdentity::from_number(self.number.into())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            writable: !self.read_only,
            run_bytes: RUN_BYTES,
            requests_in_flight: 1,
            ..Capabilities::default()
        }
    }

    fn note(&self) -> String {
        "in memory".into()
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }

    fn set_len_bytes(&self, bytes: u64) -> io::Result<()> {
        self.bytes.lock().resize(bytes as usize, 0);
        Ok(())
    }

    fn read(&self, request: ReadRequest) {
        self.note_length(request.len());
        self.leave(Work::Read(request));
    }

    fn write(&self, request: WriteRequest) {
        self.note_length(request.len());
        self.leave(Work::Write(request));
    }

    fn sync(&self, _: bool, done: Done) {
        self.leave(Work::Sync(done));
    }

    fn allocate(&self, offset: u64, bytes: u64, done: Done) {
        self.leave(Work::Allocate(offset + bytes, done));
    }

    fn entry(&self) -> Option<&dyn Entry> {
        Some(self)
    }
}

impl Entry for MemorySource {
    fn remove(&self) -> Result<(), NameError> {
        self.files.lock().remove(&self.path);
        Ok(())
    }

    fn sync_folder(&self) -> Result<(), NameError> {
        Ok(())
    }
}

/// A source that forgets its requests: each fails, once, whatever the source does with it.
#[derive(Debug)]
struct Forgetful;

impl Source for Forgetful {
    fn identity(&self) -> FileIdentity {
        FileIdentity::from_number(0)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { writable: true, fixed_length: true, run_bytes: 1, ..Capabilities::default() }
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn read(&self, _: ReadRequest) {}

    fn write(&self, _request: WriteRequest) {
        std::panic::resume_unwind(Box::new("a source that does not keep its contract"));
    }

    fn sync(&self, _: bool, done: Done) {
        drop(done);
    }

    fn allocate(&self, _: u64, _: u64, done: Done) {
        done.finish(Ok(()));
        std::panic::resume_unwind(Box::new("after the end"));
    }
}

#[test]
fn requests_that_a_source_gives_up_fail_once() {
    let backend: Arc<dyn Backend> = start::threads().unwrap();
    let source = SourceRef::new(Arc::new(Forgetful));
    let memory = Pages::new(1);
    let tally = Tally::new(4);
    let actions = [
        read(7, memory.buffer(0)),
        write(7, memory.buffer(0)),
        Action::Sync { all_metadata: false },
        Action::Allocate { offset: 0, bytes: 1 },
    ];
    let requests = actions.into_iter().enumerate();
    let mut requests: Vec<_> =
        requests.map(|(token, action)| request(&source, action, token as u64, tally.clone())).collect();
    backend.submit_and_wait(&mut requests, &tally.group);
    backend.drain();
    assert!(tally.counts.iter().all(|count| count.load(Ordering::SeqCst) == 1));
    let failures = tally.failures.lock().clone();
    let failed = failures.iter().map(|error| (error.operation(), error.offset(), error.os_error()));
    let at = 7 * PAGE_BYTES as u64;
    let eio = Some(libc::EIO);
    let expected = [(IoOperation::Read, at, eio), (IoOperation::Write, at, eio), (IoOperation::Sync, 0, eio)];
    assert_eq!(failed.collect::<Vec<_>>(), expected);
    assert!(source.is_last(), "nothing keeps the source open any more");
}

/// A pool on a source that no backend knows: changes, eviction, flush, extension, truncation, removal.
#[test]
fn a_pool_works_on_a_source_that_no_backend_knows() {
    const PAGES: u64 = 200;
    for backend in [start::uring(), start::threads(), start::sim()].into_iter().flatten() {
        let files = Arc::new(MemoryFiles::default());
        let options = PoolOptions::new().frames(64).page_bytes(PAGE_BYTES);
        let pool = Pool::open_on(options, Started { opener: files.clone(), backend }).unwrap();
        let file = pool.open_file("table", FileOptions::new().create(true)).unwrap();
        file.extend(PAGES).unwrap();
        let tenant = pool.default_tenant();
        for number in 0..PAGES {
            tenant.write(file.page(number)).unwrap().fill(pattern(number as usize));
        }
        file.flush().unwrap();
        let bytes = Arc::clone(&files.files.lock()[Path::new("table")].bytes);
        let written = |number: u64| bytes.lock()[number as usize * PAGE_BYTES + 1];
        assert!((0..PAGES).all(|number| written(number) == pattern(number as usize)));
        let pages: Vec<_> = (0..16).map(|number| file.page(number)).collect();
        let read = tenant.read_many(&pages).into_iter();
        assert!(read.enumerate().all(|(number, page)| page.unwrap().unwrap()[7] == pattern(number)));
        file.truncate(3).unwrap();
        assert_eq!(bytes.lock().len(), 3 * PAGE_BYTES);
        file.remove().unwrap();
        assert!(files.files.lock().is_empty());
        pool.close().unwrap();
    }
}

#[test]
fn a_source_that_takes_no_writes_is_opened_for_reading_only() {
    #[derive(Debug)]
    struct Unwritable;

    impl Opener for Unwritable {
        fn identify(&self, _: &Path) -> Option<FileIdentity> {
            None
        }

        fn open(&self, _: &Path, _: &FileOpen) -> Result<Arc<dyn Source>, OpenError> {
            let files = MemoryFiles::default();
            files.open(Path::new("table"), &READ_WRITE)?;
            files.open(Path::new("table"), &READ_ONLY)
        }

        fn adopt(&self, _: OwnedFd, _: &FileOpen) -> Result<Arc<dyn Source>, OpenError> {
            Err(OpenError::Locked)
        }
    }

    let started = Started { opener: Arc::new(Unwritable), backend: start::threads().unwrap() };
    let pool = Pool::open_on(PoolOptions::new().frames(64).page_bytes(PAGE_BYTES), started).unwrap();
    let refused = pool.open_file("table", FileOptions::new()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    pool.open_file("table", FileOptions::new().read_only(true)).unwrap();
}

/// Neighbours are written, evicted, read ahead and read together in runs as long as their source says, with a
/// reserve to copy to and without.
#[test]
fn every_transfer_is_as_long_as_its_source_says() {
    const PAGES: u64 = 200;
    for reserve_frames in [0, 16] {
        let files = Arc::new(MemoryFiles::default());
        let options = PoolOptions::new()
            .frames(64)
            .page_bytes(PAGE_BYTES)
            .reserve_low_frames(0)
            .reserve_high_frames(reserve_frames);
        let started = Started { opener: files.clone(), backend: start::threads().unwrap() };
        let pool = Pool::open_on(options, started).unwrap();
        let file = pool.open_file("table", FileOptions::new().create(true)).unwrap();
        file.extend(PAGES).unwrap();
        let tenant = pool.default_tenant();
        for flushed in 1..=3 {
            (0..20).for_each(|number| tenant.write(file.page(number)).unwrap().fill(flushed));
            file.flush().unwrap();
        }
        (0..PAGES).for_each(|number| tenant.write(file.page(number)).unwrap().fill(4));
        let pages: Vec<_> = (0..16).map(|number| file.page(number)).collect();
        assert!(tenant.read_many(&pages).into_iter().all(|page| page.unwrap().unwrap()[7] == 4));
        pool.close().unwrap();
        assert_eq!(files.longest_bytes.load(Ordering::Relaxed), RUN_BYTES as u64);
    }
}

#[test]
fn runs_are_no_longer_than_the_source_says_and_than_the_pool_is_laid_out_for() {
    let of = |run_bytes| Capabilities { run_bytes, ..Forgetful.capabilities() };
    assert_eq!(of(1).run_pages(PAGE_BYTES), 1);
    assert_eq!(of(3 * PAGE_BYTES + 1).run_pages(PAGE_BYTES), 3);
    assert_eq!(of(usize::MAX).run_pages(PAGE_BYTES), crate::io::run::run_pages(PAGE_BYTES));
}
