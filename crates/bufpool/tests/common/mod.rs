//! What the tests share: pools and files in a temporary directory, on each backend.
#![allow(dead_code)]

use std::future::Future;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use bufpool::manager::{Access, Block, FrameId, Manager, PageId};
use bufpool::sim::SimDevice;
use bufpool::{File, FileOptions, Io, IoBackend, IoOperation, Pool, PoolOptions};
use tempfile::TempDir;

pub const PAGE_BYTES: usize = 4096;

/// The text of a program that gives up the page used last.
pub const MRU: &str = "policy mru {
  queue all
  event initial     { ret }
  event fault(p)    { enqt all, p ; ret }
  event access(p)   { enqt all, p ; ret }
  event replace(c)  { peekt v, all
                L:    isnil t, v ; jnz t, none
                      pinned t, v ; jz t, take
                      prev v, v ; jmp L
                take: ret v
                none: ret c }
}";

/// The text of a program that looks at everything and has wishes.
/// With wish 1 it writes pages, with a greater one it marks them.
pub const WISHES: &str = "policy wishes {
  queue all  ghost left  int wish  const one = 1
  event initial     { ret }
  event fault(p)    { recall t, left, p ; setmeta p, t ; enqt all, p ; ret }
  event access(p)   { enqt all, p ; ret }
  event gone(p)     { remember left, p ; ret }
  event mistake(p)  { enqh all, p ; ret }
  event replace(c)  { peekt v, all
                L:    isnil t, v ; jnz t, none
                      eq t, wish, one ; jz t, look ; flush v
                look: lt t, one, wish ; jz t, held ; setmod v
                held: pinned t, v ; jz t, take
                      prev v, v ; jmp L
                take: ret v
                none: ret c }
}";

/// A place for files on a real file system, so that direct I/O is tried.
pub fn directory() -> TempDir {
    // Cargo sets the variable for tests, and not for fuzz targets, which use no real files.
    let place = option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    tempfile::Builder::new().prefix("bufpool-test").tempdir_in(place).unwrap()
}

/// Runs `test` on every backend that this machine allows. `threads` is always one of them.
pub fn on_each_backend(test: impl Fn(Io)) {
    test(Io::Require(IoBackend::Threads));
    match small().io(Io::Require(IoBackend::Uring)).open() {
        Ok(pool) => {
            pool.close().unwrap();
            test(Io::Require(IoBackend::Uring));
        }
        Err(error) => println!("skipped on io_uring: {error}"),
    }
    test(Io::Auto);
}

/// Runs a test, which would hang if it failed, in a thread of its own, and fails after a minute.
pub fn in_a_minute(test: impl FnOnce() + Send + 'static) {
    let (over, is_over) = channel();
    let running = std::thread::spawn(move || {
        // Dropped when the test ends, however it ends.
        let _over: Sender<()> = over;
        test();
    });
    let outcome = is_over.recv_timeout(Duration::from_secs(60));
    assert_eq!(outcome, Err(RecvTimeoutError::Disconnected), "it does not come to its end");
    running.join().unwrap_or_else(|panic| resume_unwind(panic));
}

/// A manager that calls a function when a block has come in and when it is asked for a victim. It always
/// answers with the pool's candidate.
pub struct CallsBack<F>(pub F);

impl<F: FnMut() + Send> Manager for CallsBack<F> {
    fn new_block(&mut self, _: &Block) {
        (self.0)();
    }

    fn block_gone(&mut self, _: FrameId, _: PageId) {}

    fn block_accessed(&mut self, _: FrameId, _: &Access) {}

    fn replace_block(
        &mut self,
        candidate: FrameId,
        _: Option<&Access>,
        _: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        (self.0)();
        candidate
    }

    fn placeholder_used(&mut self, _: &Access, _: FrameId) {}
}

/// The payload of a panic, which panics again when it is dropped.
pub struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("what is left of a panic is dropped");
    }
}

/// Options of a small pool: 32 frames of 4 KiB, for at most 8 threads, without read-ahead, so that misses can
/// be counted.
pub fn small() -> PoolOptions {
    PoolOptions::new().frames(32).page_bytes(PAGE_BYTES).threads_max(8).read_ahead(false)
}

/// Options of a small pool in deterministic mode.
pub fn deterministic() -> PoolOptions {
    small().deterministic(1)
}

/// A new file of `pages` zeroed pages.
pub fn new_file(pool: &Pool, directory: &Path, name: &str, pages: u64) -> File {
    let file = pool.open_file(directory.join(name), FileOptions::new().create(true)).unwrap();
    assert_eq!(file.extend(pages).unwrap(), 0..pages);
    file
}

/// A simulated device with a file `data` of stamped pages, version 1.
pub fn stamped_device(pages: u64) -> SimDevice {
    let device = SimDevice::new(1);
    let mut contents = vec![0; pages as usize * PAGE_BYTES];
    for (number, page) in contents.chunks_exact_mut(PAGE_BYTES).enumerate() {
        stamp(page, number as u64, 1);
    }
    device.put("data", &contents);
    device
}

/// A pool on a simulated device, and the file `data` there.
pub fn open_on(options: PoolOptions, device: &SimDevice) -> (Pool, File) {
    let pool = options.open_on(device).unwrap();
    let file = pool.open_file("data", FileOptions::new()).unwrap();
    (pool, file)
}

/// Reads page 0 from the device until its `nth` read has been made. If a run had fewer reads, the failure
/// that was set for the `nth` one is still to come, and is used up by this.
pub fn spend_read_failure(device: &SimDevice, pool: &Pool, file: &File, nth: u64) {
    while device.calls(IoOperation::Read) < nth {
        let _ = pool.default_tenant().read(file.page(0));
        file.discard(0..1).unwrap();
    }
}

/// No frame is lost: the first 32 pages, as many as [`small`] has frames, can be held at once.
pub fn assert_frames_can_be_held(pool: &Pool, file: &File) {
    let tenant = pool.default_tenant();
    let guards: Vec<_> = (0..32).map(|number| tenant.read(file.page(number)).unwrap()).collect();
    (0..).zip(&guards).for_each(|(number, guard)| assert!(version(guard, number) >= 1));
}

/// The stamp of a page and a version of it, different from all others.
pub fn pattern(number: u64, version: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// Fills a page with its pattern.
pub fn stamp(page: &mut [u8], number: u64, version: u64) {
    for part in page.chunks_exact_mut(16) {
        part.copy_from_slice(&pattern(number, version));
    }
}

/// The version of a stamped page, all of which must be of that version.
#[track_caller]
pub fn version(page: &[u8], number: u64) -> u64 {
    let version = u64::from_le_bytes(page[8..16].try_into().unwrap());
    for (at, part) in page.chunks_exact(16).enumerate() {
        assert_eq!(part, pattern(number, version), "page {number}, part {at}");
    }
    version
}

/// The kind of an error.
#[track_caller]
pub fn kind<T>(result: bufpool::Result<T>) -> bufpool::ErrorKind {
    match result {
        Ok(_) => panic!("expected an error"),
        Err(error) => error.kind(),
    }
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Drives one future on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// xorshift64 (Marsaglia), from a seed that is not 0.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        for shift in [13, -7, 17] {
            self.0 ^= if shift > 0 { self.0 << shift } else { self.0 >> -shift };
        }
        self.0 % bound
    }
}
