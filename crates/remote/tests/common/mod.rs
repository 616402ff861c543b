//! What the tests share: a store that fails in many ways, and pools on files of it.
#![allow(dead_code)]

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bufpool::{File, FileOptions, Pool, PoolOptions};
use bufpool_remote::object::object_store::path::Path;
use bufpool_remote::object::object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use bufpool_remote::object::{ObjectError, ObjectOptions, ObjectSource};
use bytes::Bytes;
use futures_util::stream::{BoxStream, iter};
use futures_util::{StreamExt, TryStreamExt};

pub const PAGE_BYTES: usize = 512;
/// Where the tests' files are in their stores.
pub const PLACE: &str = "tables/orders";

/// What happens to calls, in parts of a thousand.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    /// The call is not made, and fails.
    pub fail: u64,
    /// The call is made, and fails.
    pub drop_answer: u64,
    /// The call rests for up to two milliseconds, so that others overtake it.
    pub delay: u64,
}

/// A store before another, to which not everything gets through.
#[derive(Debug)]
pub struct Faulty {
    inner: Arc<dyn ObjectStore>,
    state: Mutex<State>,
    released: Condvar,
    calls: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    random: u64,
    faults: Faults,
    /// Nothing gets through after this many calls.
    calls_max: u64,
    /// Conditional puts are carried out as others.
    lax: bool,
    /// Conditional puts are refused.
    unconditional: bool,
    /// How many conditional puts fail before the next one gets through.
    lost_puts: usize,
    /// Calls never end.
    stuck: bool,
    /// Reads of what conditional puts were tried with never end.
    stuck_probes: bool,
    /// Commits wait.
    held: bool,
    /// How many wait.
    waiting: usize,
    /// Uploads of chunks wait.
    held_chunks: bool,
    /// How many commits get through all the same.
    passes: usize,
}

impl Faulty {
    pub fn new(inner: Arc<dyn ObjectStore>, seed: u64) -> Arc<Self> {
        let state = State {
            random: seed,
            faults: Faults::default(),
            calls_max: u64::MAX,
            lax: false,
            unconditional: false,
            lost_puts: 0,
            stuck: false,
            stuck_probes: false,
            held: false,
            waiting: 0,
            held_chunks: false,
            passes: 0,
        };
        Arc::new(Self { inner, state: Mutex::new(state), released: Condvar::new(), calls: AtomicU64::new(0) })
    }

    pub fn set(&self, faults: Faults) {
        self.state.lock().unwrap().faults = faults;
    }

    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    pub fn stop_after(&self, calls: u64) {
        self.state.lock().unwrap().calls_max = self.calls() + calls;
    }

    pub fn set_lax(&self) {
        self.state.lock().unwrap().lax = true;
    }

    pub fn set_unconditional(&self) {
        self.state.lock().unwrap().unconditional = true;
    }

    /// The next `count` conditional puts fail and are not made.
    pub fn lose_puts(&self, count: usize) {
        self.state.lock().unwrap().lost_puts = count;
    }

    pub fn set_stuck(&self, stuck: bool) {
        self.state.lock().unwrap().stuck = stuck;
    }

    pub fn set_stuck_probes(&self, stuck: bool) {
        self.state.lock().unwrap().stuck_probes = stuck;
    }

    /// Lets commits wait, or go on.
    pub fn hold_commits(&self, held: bool) {
        self.state.lock().unwrap().held = held;
        self.released.notify_all();
    }

    /// Lets the next commit go on, and those after it wait.
    pub fn let_one_commit_pass(&self) {
        self.state.lock().unwrap().passes = 1;
    }

    /// Lets uploads of chunks wait, or go on.
    pub fn hold_chunks(&self, held: bool) {
        self.state.lock().unwrap().held_chunks = held;
    }

    /// Waits until a commit waits.
    pub fn wait_for_commit(&self) {
        let mut state = self.state.lock().unwrap();
        while state.waiting == 0 {
            state = self.released.wait(state).unwrap();
        }
    }

    /// Makes a call, or not.
    async fn through<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let calls = self.calls.fetch_add(1, Ordering::SeqCst);
        let (draws, faults, stopped, stuck) = {
            let mut state = self.state.lock().unwrap();
            let draws = [state.draw(), state.draw(), state.draw()];
            (draws, state.faults, calls >= state.calls_max, state.stuck)
        };
        if stuck {
            std::future::pending::<()>().await;
        }
        if stopped {
            let source = "the process is gone".into();
            return Err(Error::PermissionDenied { path: String::new(), source });
        }
        if draws[0] < faults.delay {
            tokio::time::sleep(Duration::from_micros(draws[0] * 7 % 2000)).await;
        }
        if draws[1] < faults.fail {
            return Err(fault("the call was lost"));
        }
        let answer = call.await;
        if draws[2] < faults.drop_answer { Err(fault("the answer was lost")) } else { answer }
    }
}

impl Faulty {
    /// Lets the bytes come in pieces of odd lengths, after any of which they may fail.
    fn in_pieces(&self, got: GetResult) -> GetResult {
        let GetResultPayload::Stream(bytes) = got.payload else { return got };
        let mut state = self.state.lock().unwrap();
        let fail = state.faults.fail / 10;
        let mut random = State { random: state.random ^ state.draw(), ..State::default() };
        let piece = move |mut rest: Bytes| {
            let mut pieces = Vec::new();
            while !rest.is_empty() {
                let len = (random.draw() as usize % 300).clamp(1, rest.len());
                pieces.push(Ok(rest.split_to(len)));
                if random.draw() < fail {
                    pieces.push(Err(fault("the rest was lost")));
                }
            }
            pieces
        };
        let pieces = bytes.map_ok(piece).map(|pieces| iter(pieces.unwrap_or_else(|error| vec![Err(error)])));
        GetResult { payload: GetResultPayload::Stream(pieces.flatten().boxed()), ..got }
    }
}

fn fault(what: &'static str) -> Error {
    Error::Generic { store: "faulty", source: what.into() }
}

impl State {
    /// Below 1,000.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 20) % 1000
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, path: &Path, payload: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        if options.mode == PutMode::Create {
            let (lax, unconditional, is_lost) = {
                let mut state = self.state.lock().unwrap();
                let is_lost = state.lost_puts > 0;
                state.lost_puts -= usize::from(is_lost);
                (state.lax, state.unconditional, is_lost)
            };
            if is_lost {
                return Err(fault("the call was lost"));
            }
            if unconditional {
                let (operation, implementer) = ("conditional put".into(), self.to_string());
                return Err(Error::NotImplemented { operation, implementer });
            }
            if lax {
                options.mode = PutMode::Overwrite;
            }
            if path.as_ref().contains("/manifest/") {
                self.rest().await;
            }
        }
        while path.as_ref().contains("/chunk/") && self.state.lock().unwrap().held_chunks {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.through(self.inner.put_opts(path, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        if path.as_ref().contains("/probe/") && self.state.lock().unwrap().stuck_probes {
            std::future::pending::<()>().await;
        }
        self.through(self.inner.get_opts(path, options)).await.map(|got| self.in_pieces(got))
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

impl Faulty {
    /// Waits while commits are held.
    async fn rest(&self) {
        loop {
            {
                let mut state = self.state.lock().unwrap();
                if !state.held {
                    return;
                }
                if state.passes > 0 {
                    state.passes -= 1;
                    return;
                }
                state.waiting += 1;
                self.released.notify_all();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            self.state.lock().unwrap().waiting -= 1;
        }
    }
}

pub fn options() -> ObjectOptions {
    ObjectOptions::new().page_bytes(PAGE_BYTES as u32).chunk_pages(64).grace_secs(0)
}

pub fn pool() -> Pool {
    PoolOptions::new().frames(64).page_bytes(PAGE_BYTES).threads_max(8).open().unwrap()
}

/// An open file, and its pool and source.
pub struct Opened {
    pub pool: Pool,
    pub file: File,
    pub source: Arc<ObjectSource>,
}

pub fn opened(source: Arc<ObjectSource>) -> Opened {
    let pool = pool();
    let read_only = source.report().read_only.is_some();
    let file = pool.open_source(source.clone(), FileOptions::new().read_only(read_only)).unwrap();
    Opened { pool, file, source }
}

pub fn create(store: &Arc<dyn ObjectStore>) -> Opened {
    opened(ObjectSource::create(Arc::clone(store), PLACE, options()).unwrap())
}

pub fn open(store: &Arc<dyn ObjectStore>) -> Opened {
    opened(ObjectSource::open(Arc::clone(store), PLACE, options()).unwrap())
}

pub fn open_read_only(store: &Arc<dyn ObjectStore>) -> Opened {
    opened(ObjectSource::open_read_only(Arc::clone(store), PLACE, options()).unwrap())
}

impl Opened {
    pub fn write(&self, number: u64, version: u64) {
        stamp(&mut self.pool.default_tenant().write(self.file.page(number)).unwrap(), number, version);
    }

    pub fn read(&self, number: u64) -> bufpool::Result<u64> {
        Ok(version(&self.pool.default_tenant().read(self.file.page(number))?, number))
    }

    pub fn write_all(&self, pages: Range<u64>, version: u64) {
        pages.for_each(|number| self.write(number, version));
    }

    #[track_caller]
    pub fn expect_all(&self, pages: Range<u64>, version: u64) {
        pages.for_each(|number| assert_eq!(self.read(number).unwrap(), version, "page {number}"));
    }
}

pub fn stamp(page: &mut [u8], number: u64, version: u64) {
    for part in page.chunks_exact_mut(16) {
        part[..8].copy_from_slice(&number.to_le_bytes());
        part[8..].copy_from_slice(&version.to_le_bytes());
    }
}

/// The version of a stamped page, all of which must be of that version; of one of zeros, 0.
#[track_caller]
pub fn version(page: &[u8], number: u64) -> u64 {
    if page.iter().all(|&byte| byte == 0) {
        return 0;
    }
    let mut expected = vec![0; page.len()];
    let version = u64::from_le_bytes(page[8..16].try_into().unwrap());
    stamp(&mut expected, number, version);
    assert_eq!(page, expected, "page {number}");
    version
}

/// The error of an object that an error of the pool comes from.
#[track_caller]
pub fn cause(error: &bufpool::Error) -> ObjectError {
    ObjectError::of(error).unwrap_or_else(|| panic!("{error}")).clone()
}

/// Runs a call of a store.
pub fn block<T>(call: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(call)
}

/// All objects of a folder of the test's file.
pub fn objects(store: &dyn ObjectStore, folder: &str) -> Vec<ObjectMeta> {
    let folder = Path::from(format!("{PLACE}/{folder}"));
    let mut listed: Vec<_> = block(store.list(Some(&folder)).map(Result::unwrap).collect());
    listed.sort_by(|a: &ObjectMeta, b| a.location.cmp(&b.location));
    listed
}

pub fn bytes_of(store: &dyn ObjectStore, path: &Path) -> Vec<u8> {
    block(async { store.get(path).await.unwrap().bytes().await.unwrap().to_vec() })
}

pub fn put(store: &dyn ObjectStore, path: &Path, bytes: Vec<u8>) {
    block(store.put(path, bytes.into())).unwrap();
}
