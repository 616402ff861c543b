//! A file on an object store: opening it, reading, and what it says of itself.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bufpool::source::{Alignment, Capabilities, Done, FileIdentity, ReadRequest, Source, WriteRequest};
use futures_util::future::try_join_all;
use object_store::ObjectStore;
use object_store::path::Path;
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use super::chunk::ENVELOPE_BYTES;
use super::collect::{self, Collected};
use super::error::ObjectError;
use super::folder;
use super::history;
use super::landing::{Arrival, Landing, Part};
use super::manifest::{Manifest, PAGES_MAX};
use super::map::{PageMap, Segment};
use super::options::ObjectOptions;
use super::probe;
use super::state::State;
use super::store::{Store, random};
use super::worker::Worker;
use super::write::Writes;

/// A file on an object store, as a [`Source`] of a pool; see the [module](super).
pub struct ObjectSource {
    inner: Arc<Inner>,
}

/// What requests under way keep.
pub(super) struct Inner {
    pub store: Store,
    pub worker: Arc<Worker>,
    pub options: ObjectOptions,
    pub page_bytes: u32,
    pub file: u128,
    /// This opening of the file.
    pub writer: u128,
    /// Why it takes no writes, if it takes none.
    read_only: Option<String>,
    pub state: Mutex<State>,
    pub writes: Writes,
}

/// What has been asked of the store since the file was opened, and how it is open.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ObjectReport {
    /// Number of the manifest that is open: the last that this source has committed or loaded.
    pub manifest: u64,
    /// Why the file takes no writes, if it takes none.
    pub read_only: Option<String>,
    /// Calls that read an object or a part of one.
    pub gets: u64,
    /// Bytes that they brought.
    pub get_bytes: u64,
    /// Calls that wrote an object, conditional ones included.
    pub puts: u64,
    /// Bytes that they wrote.
    pub put_bytes: u64,
    /// Calls that looked up, listed or removed objects.
    pub others: u64,
    /// How many of all calls were repetitions of one that failed.
    pub repeated: u64,
}

impl ObjectSource {
    /// Makes an empty file under `prefix`, of pages of [`ObjectOptions::page_bytes`], and opens it. Waits for
    /// the store.
    ///
    /// # Errors
    ///
    /// [`ObjectError::FileExists`]; [`ObjectError::ReadOnly`] if the store does not do conditional puts;
    /// [`ObjectError::Options`], [`ObjectError::Store`], [`ObjectError::TimedOut`].
    pub fn create(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        options: ObjectOptions,
    ) -> Result<Arc<Self>, ObjectError> {
        let (store, worker) = parts(store, prefix, &options)?;
        let page_bytes = options.page_bytes;
        let opened = worker.run(async move {
            if let Some(why) = probe::why_not_writable(&store).await? {
                return Err(ObjectError::ReadOnly { why });
            }
            let (file, writer, commit) = (random()?, random()?, random()?);
            let map = PageMap::default();
            let first = Manifest { number: 1, page_bytes, pages: 0, file, writer, commit, map };
            create_first(&store, &first).await?;
            Ok((store, first, writer))
        })?;
        Ok(Self::of(opened, None, worker, options))
    }

    /// Opens the file under `prefix`, for reading and writing if the store allows it. Whether it does is
    /// tried with several conditional puts at a time of a name of its own; [`ObjectSource::report`] says why
    /// not. Two writers may have a file open, and the first that commits wins. Waits for the store.
    ///
    /// # Errors
    ///
    /// [`ObjectError::NoFile`], [`ObjectError::Corrupt`], [`ObjectError::Options`], [`ObjectError::Store`],
    /// [`ObjectError::TimedOut`].
    pub fn open(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        options: ObjectOptions,
    ) -> Result<Arc<Self>, ObjectError> {
        let (store, worker) = parts(store, prefix, &options)?;
        let (read_only, opened) = worker.run(async move {
            let manifest = history::newest(&store, 1).await?;
            let why = probe::why_not_writable(&store).await?;
            Ok((why, (store, manifest, random()?)))
        })?;
        Ok(Self::of(opened, read_only, worker, options))
    }

    /// As [`ObjectSource::open`], for reading only: nothing is written to the store.
    pub fn open_read_only(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        options: ObjectOptions,
    ) -> Result<Arc<Self>, ObjectError> {
        let (store, worker) = parts(store, prefix, &options)?;
        let opened = worker.run(async move {
            let manifest = history::newest(&store, 1).await?;
            Ok((store, manifest, random()?))
        })?;
        Ok(Self::of(opened, Some("it was opened for reading only".into()), worker, options))
    }

    fn of(
        (store, manifest, writer): (Store, Manifest, u128),
        read_only: Option<String>,
        worker: Arc<Worker>,
        options: ObjectOptions,
    ) -> Arc<Self> {
        let inner = Inner {
            store,
            worker,
            page_bytes: manifest.page_bytes,
            file: manifest.file,
            writer,
            read_only,
            state: Mutex::new(State::of(manifest, options.chunk_pages)),
            writes: Writes::default(),
            options,
        };
        Arc::new(Self { inner: Arc::new(inner) })
    }

    /// Bytes of the file's pages. Those of the pool are a multiple of them, or the pool refuses the file
    /// ([`ErrorKind::Alignment`](bufpool::ErrorKind::Alignment)).
    pub fn page_bytes(&self) -> u32 {
        self.inner.page_bytes
    }

    /// How the file is open, and what was asked of the store.
    pub fn report(&self) -> ObjectReport {
        let counts = &self.inner.store.counts;
        ObjectReport {
            manifest: self.inner.state.lock().base,
            read_only: self.inner.read_only.clone(),
            gets: counts.gets.load(Ordering::Relaxed),
            get_bytes: counts.get_bytes.load(Ordering::Relaxed),
            puts: counts.puts.load(Ordering::Relaxed),
            put_bytes: counts.put_bytes.load(Ordering::Relaxed),
            others: counts.others.load(Ordering::Relaxed),
            repeated: counts.repeated.load(Ordering::Relaxed),
        }
    }

    /// Removes the chunks that no reader can want any more, and empties the manifests that had them. Waits
    /// for the store; takes a listing of all objects of the file, and memory for their names.
    ///
    /// A manifest is kept while it is the newest, and for [`ObjectOptions::grace_secs`] after another has
    /// taken its place, by the store's clock. A chunk is removed if it is older than that, no kept manifest
    /// has it, and there is a manifest with a higher number than the one that its writer began with. Such a
    /// chunk cannot be committed any more, however long its writer sleeps. Chunks of a writer that crashed
    /// are removed after the next commit of another.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Store`], [`ObjectError::TimedOut`], [`ObjectError::Corrupt`] if a manifest cannot be
    /// read. What was removed before is gone, and the rest is garbage still.
    pub fn collect_garbage(&self) -> Result<Collected, ObjectError> {
        let inner = Arc::clone(&self.inner);
        let grace = self.inner.options.grace;
        self.inner.worker.run(async move { collect::collect(&inner.store, grace).await })
    }
}

pub(super) fn parts(
    store: Arc<dyn ObjectStore>,
    prefix: &str,
    options: &ObjectOptions,
) -> Result<(Store, Arc<Worker>), ObjectError> {
    options.check()?;
    let root = Path::parse(prefix).map_err(|error| {
        let what = format!("the prefix {prefix:?} is no path of an object store: {error}");
        ObjectError::Options { what }
    })?;
    let store = Store::new(store, root, options.timeout, options.requests_in_flight);
    Ok((store, options.worker_or_new()?))
}

/// Makes a file by its first manifest.
pub(super) async fn create_first(store: &Store, first: &Manifest) -> Result<(), ObjectError> {
    history::commit(store, first).await.map_err(|error| match error {
        ObjectError::Superseded { manifest, .. } => ObjectError::FileExists { object: manifest },
        other => other,
    })
}

impl Inner {
    pub fn check_writable(&self) -> Result<(), ObjectError> {
        self.read_only.clone().map_or(Ok(()), |why| Err(ObjectError::ReadOnly { why }))
    }

    /// The pages of a request of the pool, which knows the page size.
    pub fn pages_of(&self, offset: u64, bytes: usize) -> Range<u64> {
        let page_bytes = u64::from(self.page_bytes);
        offset / page_bytes..(offset + bytes as u64) / page_bytes
    }

    fn begin_read(self: &Arc<Self>, mut request: ReadRequest) {
        match self.read_from_memory(&mut request) {
            Err(error) => request.finish(Err(error)),
            Ok(parts) if parts.is_empty() => request.finish(Ok(())),
            Ok(parts) => match self.store.folder() {
                Some((folder, turn)) => self.begin_in_folder(folder, turn, parts, request),
                None => self.begin_in_store(parts, request),
            },
        }
    }

    /// Reads from the files of a folder: one job of a thread that may block, where the store's client needs
    /// two with a turn of its own thread between.
    fn begin_in_folder(
        self: &Arc<Self>,
        folder: &std::path::Path,
        turn: OwnedSemaphorePermit,
        parts: Vec<Part>,
        mut request: ReadRequest,
    ) {
        let (inner, folder) = (Arc::clone(self), folder.to_owned());
        self.worker.spawn_blocking(move || {
            let is_read = parts.iter().all(|part| {
                inner.store.count_read(&part.range(inner.page_bytes));
                folder::read(&folder.join(part.id.to_string()), part, &mut request, inner.page_bytes)
            });
            drop(turn);
            if is_read {
                request.finish(Ok(()));
            } else {
                // The store says what is wrong.
                inner.begin_in_store(parts, request);
            }
        });
    }

    fn begin_in_store(self: &Arc<Self>, parts: Vec<Part>, request: ReadRequest) {
        let inner = Arc::clone(self);
        let landing = Arc::new(Landing::new(request, parts.len(), self.page_bytes as usize));
        self.worker.spawn(async move {
            if let Err(error) = try_join_all(parts.iter().map(|part| inner.get_part(part, &landing))).await {
                landing.fail(error);
            }
        });
    }

    /// Fills in zeros and pages that are in memory, and returns what is in the store.
    fn read_from_memory(&self, request: &mut ReadRequest) -> io::Result<Vec<Part>> {
        let pages = self.pages_of(request.offset(), request.len());
        let state = self.state.lock();
        if pages.end > state.pages {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let page_bytes = self.page_bytes as usize;
        let mut parts = Vec::new();
        for Segment { pages: part, place } in state.map.find(pages.clone()) {
            let to = (part.start - pages.start) as usize * page_bytes;
            let bytes = (part.end - part.start) as usize * page_bytes;
            match place {
                None => request.fill(to, &vec![0; bytes]),
                Some((chunk, at)) => {
                    let stored = chunk.read(at, 0..bytes, |pages| request.fill(to, pages));
                    parts.extend(stored.map(|id| Part { id, pages: part, at }));
                }
            }
        }
        Ok(parts)
    }

    async fn get_part(&self, part: &Part, landing: &Arc<Landing>) -> Result<(), ObjectError> {
        let range = part.range(self.page_bytes);
        let object = self.store.chunk(&part.id);
        match self.store.land(part.id, &object, range.clone(), || Arrival::new(landing, part, &object)).await
        {
            Ok(()) => Ok(()),
            Err(error) if error.is_not_found() => {
                let manifest = self.state.lock().base;
                let newest = history::newest_number(&self.store, manifest).await?;
                let (object, page) = (object.to_string(), part.pages.start);
                Err(ObjectError::ChunkGone { object, page, manifest, newest })
            }
            // Some stores refuse a range beyond the end, as if the call were wrong.
            Err(error @ ObjectError::Store { .. }) => match self.store.look(&object).await {
                Ok(Some(meta)) if meta.size < range.end => {
                    let framed_bytes = u64::from(self.page_bytes) + ENVELOPE_BYTES as u64;
                    let missing = part.pages.start + (meta.size.saturating_sub(range.start) / framed_bytes);
                    let what = format!("cut short: {} bytes, expected at least {}", meta.size, range.end);
                    Err(ObjectError::corrupt(object, Some(missing), what))
                }
                _ => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Begins anew with what is committed, after a commit under way.
    fn reload(self: &Arc<Self>) -> Result<(), ObjectError> {
        let inner = Arc::clone(self);
        self.worker.run(async move {
            // A commit that ended later would take the map from before it for its own.
            let _no_commit = inner.writes.commit.lock().await;
            let known = inner.state.lock().base;
            let manifest = history::newest(&inner.store, known).await?;
            if manifest.file != inner.file || manifest.page_bytes != inner.page_bytes {
                let object = inner.store.manifest(manifest.number);
                return Err(ObjectError::corrupt(object, None, "it is another file's manifest"));
            }
            *inner.state.lock() = State::of(manifest, inner.options.chunk_pages);
            Ok(())
        })
    }
}

impl Source for ObjectSource {
    fn identity(&self) -> FileIdentity {
        FileIdentity::from_number(self.inner.file)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            writable: self.inner.read_only.is_none(),
            requests_in_flight: self.inner.options.requests_in_flight,
            // The pool's pages are one or several of the file's.
            alignment: Alignment { memory_bytes: 1, offset_bytes: self.inner.page_bytes },
            ..Capabilities::default()
        }
    }

    fn note(&self) -> String {
        let place = self.inner.store.describe();
        match &self.inner.read_only {
            None => place,
            Some(why) => format!("{place}, read-only: {why}"),
        }
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.inner.state.lock().pages * u64::from(self.inner.page_bytes))
    }

    fn set_len_bytes(&self, bytes: u64) -> io::Result<()> {
        self.inner.check_writable()?;
        self.inner.state.lock().set_pages(bytes / u64::from(self.inner.page_bytes));
        Ok(())
    }

    fn read(&self, request: ReadRequest) {
        self.inner.begin_read(request);
    }

    fn write(&self, request: WriteRequest) {
        self.inner.begin_write(request);
    }

    fn sync(&self, _: bool, done: Done) {
        self.inner.begin_sync(done);
    }

    /// The store has room, or has not when chunks are uploaded. New pages take none.
    fn allocate(&self, offset: u64, bytes: u64, done: Done) {
        if let Err(error) = self.inner.check_writable() {
            return done.finish(Err(error.into()));
        }
        let pages = (offset + bytes).div_ceil(u64::from(self.inner.page_bytes));
        if pages > PAGES_MAX {
            let what =
                format!("{pages} pages of {} bytes, expected at most {PAGES_MAX}", self.inner.page_bytes);
            let error = io::Error::new(io::ErrorKind::FileTooLarge, what);
            return done.finish(Err(ObjectError::local("extending the file", None, error).into()));
        }
        let mut state = self.inner.state.lock();
        if pages > state.pages {
            state.set_pages(pages);
        }
        drop(state);
        done.finish(Ok(()));
    }

    fn drop_cache(&self) -> io::Result<()> {
        Ok(self.inner.reload()?)
    }
}

impl fmt::Debug for ObjectSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectSource({})", self.inner.store.describe())
    }
}
