//! Calls to a store: named objects of one file, within a time, repeated where that may help, and counted.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::once;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Error as StoreError, GetOptions, GetResult, GetResultPayload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMode, PutPayload,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout_at};

use super::chunk::ChunkId;
use super::error::ObjectError;
use super::landing::Arrival;

/// How often a call is made, if it fails for a reason that may pass.
const ATTEMPTS_MAX: u32 = 10;
/// Rest after the first attempt; doubled after each.
const BACKOFF: Duration = Duration::from_millis(2);
/// Uploads in flight.
pub(super) const UPLOADS_MAX: usize = 8;

/// The objects of one file.
#[derive(Debug)]
pub(super) struct Store {
    store: Arc<dyn ObjectStore>,
    root: Path,
    timeout: Duration,
    reads: Arc<Semaphore>,
    uploads: Semaphore,
    /// Where the chunks are, if the store has shown itself to be a folder.
    folder: OnceLock<PathBuf>,
    pub counts: Counts,
}

/// Calls since the file was opened.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub gets: AtomicU64,
    pub get_bytes: AtomicU64,
    pub puts: AtomicU64,
    pub put_bytes: AtomicU64,
    pub others: AtomicU64,
    pub repeated: AtomicU64,
}

impl Counts {
    pub fn add(count: &AtomicU64, more: u64) {
        count.fetch_add(more, Ordering::Relaxed);
    }
}

/// What has become of a conditional put.
pub(super) enum Put {
    Created,
    /// There is an object of this name, perhaps the one that was put.
    Exists,
}

impl Store {
    pub fn new(store: Arc<dyn ObjectStore>, root: Path, timeout: Duration, reads: u32) -> Self {
        Self {
            store,
            root,
            timeout,
            reads: Arc::new(Semaphore::new(reads as usize)),
            uploads: Semaphore::new(UPLOADS_MAX),
            folder: OnceLock::new(),
            counts: Counts::default(),
        }
    }

    /// The file's place, for messages.
    pub fn describe(&self) -> String {
        format!("{} {}", self.store, self.root)
    }

    pub fn manifest(&self, number: u64) -> Path {
        self.root.clone().join("manifest").join(format!("{number:016x}"))
    }

    pub fn chunk(&self, id: &impl std::fmt::Display) -> Path {
        self.root.clone().join("chunk").join(id.to_string())
    }

    /// A name that nobody else has.
    pub fn scratch(&self, what: &str, random: u128) -> Path {
        self.root.clone().join(what).join(format!("{random:032x}"))
    }

    pub async fn get(&self, object: &Path) -> Result<Bytes, ObjectError> {
        let get = || async { self.store.get(object).await?.bytes().await };
        let bytes = self.attempts("reading", object, &self.counts.gets, get).await?;
        Counts::add(&self.counts.get_bytes, bytes.len() as u64);
        Ok(bytes)
    }

    /// Lets part of chunk `id` arrive, and less of it if the chunk is shorter.
    pub async fn land(
        &self,
        id: ChunkId,
        object: &Path,
        range: Range<u64>,
        arrival: impl Fn() -> Arrival,
    ) -> Result<(), ObjectError> {
        let _turn = self.reads.acquire().await.expect("never closed");
        let get = || async {
            let options = GetOptions::new().with_range(Some(range.clone()));
            let got = self.store.get_opts(object, options).await?;
            Counts::add(&self.counts.get_bytes, got.range.end - got.range.start);
            if let GetResultPayload::File(_, path) = &got.payload {
                self.learn_folder(id, path);
            }
            take(got, arrival()).await
        };
        self.attempts("reading", object, &self.counts.gets, get).await?
    }

    fn learn_folder(&self, id: ChunkId, path: &std::path::Path) {
        if path.file_name() == Some(id.to_string().as_ref())
            && let Some(folder) = path.parent()
        {
            self.folder.get_or_init(|| folder.to_owned());
        }
    }

    /// Where the chunks are, and a permit to read. None if the store is not known to be a folder, or too
    /// many reads are in flight.
    pub fn folder(&self) -> Option<(&std::path::Path, OwnedSemaphorePermit)> {
        let folder = self.folder.get()?;
        Some((folder, Arc::clone(&self.reads).try_acquire_owned().ok()?))
    }

    /// Counts a read that needed no call.
    pub fn count_read(&self, range: &Range<u64>) {
        Counts::add(&self.counts.gets, 1);
        Counts::add(&self.counts.get_bytes, range.end - range.start);
    }

    /// What the store knows of an object. None if it is not there.
    pub async fn look(&self, object: &Path) -> Result<Option<ObjectMeta>, ObjectError> {
        let head = || self.store.head(object);
        match self.attempts("looking up", object, &self.counts.others, head).await {
            Ok(meta) => Ok(Some(meta)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts an object of a name that only this caller uses, or an empty one.
    pub async fn put(&self, object: &Path, bytes: Bytes) -> Result<(), ObjectError> {
        let _turn = self.uploads.acquire().await.expect("never closed");
        let put = || self.store.put(object, PutPayload::from_bytes(bytes.clone()));
        Counts::add(&self.counts.put_bytes, bytes.len() as u64);
        self.attempts("writing", object, &self.counts.puts, put).await.map(drop)
    }

    /// Puts an object if there is none of this name. [`Put::Exists`] may mean this caller's own object: an
    /// attempt may have succeeded though its answer was lost.
    pub async fn create(&self, object: &Path, bytes: Bytes) -> Result<Put, ObjectError> {
        Counts::add(&self.counts.put_bytes, bytes.len() as u64);
        let create = || self.create_once(object, bytes.clone());
        self.attempts("committing", object, &self.counts.puts, create).await
    }

    /// As [`Store::create`], without repetitions.
    async fn create_once(&self, object: &Path, bytes: Bytes) -> Result<Put, StoreError> {
        match self.store.put_opts(object, PutPayload::from_bytes(bytes), PutMode::Create.into()).await {
            Ok(_) => Ok(Put::Created),
            Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => Ok(Put::Exists),
            Err(error) => Err(error),
        }
    }

    /// One conditional put that is not repeated, for the probe.
    pub async fn try_create(&self, object: &Path, bytes: Bytes) -> Result<Put, ObjectError> {
        Counts::add(&self.counts.puts, 1);
        let created = timeout_at(Instant::now() + self.timeout, self.create_once(object, bytes)).await;
        match created {
            Ok(created) => created.map_err(|error| self.failed("probing", object, error)),
            Err(_) => Err(self.timed_out("probing", object)),
        }
    }

    pub async fn delete(&self, object: &Path) -> Result<(), ObjectError> {
        let delete = || self.store.delete(object);
        match self.attempts("removing", object, &self.counts.others, delete).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }

    /// All objects of a folder.
    pub async fn list(&self, folder: &'static str) -> Result<Vec<ObjectMeta>, ObjectError> {
        let folder = self.root.clone().join(folder);
        let list = || self.store.list(Some(&folder)).try_collect();
        self.attempts("listing", &folder, &self.counts.others, list).await
    }

    /// Makes a call until it succeeds, fails for good, has been made often enough, or time is up.
    async fn attempts<T, F>(
        &self,
        doing: &'static str,
        object: &Path,
        count: &AtomicU64,
        mut call: impl FnMut() -> F,
    ) -> Result<T, ObjectError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let until = Instant::now() + self.timeout;
        let mut rest = BACKOFF;
        for attempt in 1.. {
            Counts::add(count, 1);
            let error = match timeout_at(until, call()).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(error)) => error,
                Err(_) => return Err(self.timed_out(doing, object)),
            };
            if is_final(&error) || attempt >= ATTEMPTS_MAX || Instant::now() + rest >= until {
                return Err(self.failed(doing, object, error));
            }
            Counts::add(&self.counts.repeated, 1);
            sleep(rest).await;
            rest *= 2;
        }
        unreachable!("attempts are bounded")
    }

    fn failed(&self, doing: &'static str, object: &Path, error: StoreError) -> ObjectError {
        ObjectError::Store { doing, object: object.to_string(), error: Arc::new(error) }
    }

    fn timed_out(&self, doing: &'static str, object: &Path) -> ObjectError {
        ObjectError::TimedOut { doing, object: object.to_string(), after: self.timeout }
    }
}

/// Gives `arrival` what a call has brought. The outer error is the store's; the inner one says what is wrong
/// with the bytes.
async fn take(got: GetResult, mut arrival: Arrival) -> Result<Result<(), ObjectError>, StoreError> {
    let mut pieces = match got {
        GetResult { payload: GetResultPayload::Stream(pieces), .. } => pieces,
        file => once(file.bytes()).boxed(),
    };
    while let Some(piece) = pieces.try_next().await? {
        if let Err(error) = arrival.take(&piece) {
            return Ok(Err(error));
        }
    }
    Ok(arrival.end())
}

/// Whether the same call would fail again.
fn is_final(error: &StoreError) -> bool {
    !matches!(error, StoreError::Generic { .. } | StoreError::JoinError { .. })
}

/// A random number.
pub(super) fn random() -> Result<u128, ObjectError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        ObjectError::local("drawing a random number", None, std::io::Error::other(error.to_string()))
    })?;
    Ok(u128::from_le_bytes(bytes))
}
