//! A tier in a file.

mod saved;
mod store;

use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, Instant};

use bufpool_policies::PageId;
use parking_lot::Mutex;

use crate::engine::PageName;
use crate::error::{Error, ErrorKind, Result};
use crate::io::options::Direct;
use crate::io::{Action, Completion, FileOpen, IoError, Request, SourceRef};
use crate::tier::buffer::{Envelope, TierBuffer, TierPage};
use crate::tier::copies::{self, Offer, capacity};
use crate::tier::file::saved::{TierFile, lend};
use crate::tier::file::store::{Placed, Store};
use crate::tier::{Attachment, Demoted, Life, Tier, TierDone, TierRange, TierReport, Version, in_use};

const OPERATION: &str = "open tier";
/// A drive that makes no step forward for this time is not waited for any longer, by a pool that closes over
/// a persistent tier and by [`FileTier::resize`] when it shortens the file.
const STUCK: Duration = Duration::from_millis(900);

/// How long a pool that closes waits for a [`FileTier::resize`] under way. After that nothing is saved.
const LENGTH_WAIT: Duration = STUCK.saturating_mul(2);
/// How long [`FileTier::resize`] pauses before it checks again whether transfers have ended.
const TRANSFERS_POLL: Duration = Duration::from_millis(1);

/// A tier in a file on a local drive, before a source that is slower: an object store, a remote file system,
/// a disk. Read and written with direct I/O through the pool's own backend.
///
/// The file is made if it is not there, and locked as the pool's files are. A file that is there must be a
/// tier's, or empty, or begin with a page of zeros. Unless the tier is [persistent](Self::persistent), its
/// contents are of no use once the pool is closed. Which page is where is known in memory alone, at about 90
/// bytes a page. A page that is asked for while it is being written is served from memory (a *rescue*).
pub struct FileTier {
    path: PathBuf,
    direct: Direct,
    is_persistent: bool,
    state: Arc<Mutex<State>>,
    /// Held by a change of the file's length, while a pool attaches, and as one detaches.
    resizing: Mutex<()>,
}

#[derive(Default)]
struct State {
    pages_max: u32,
    /// None while no pool uses it.
    used: Option<Used>,
    /// How many pools have used it, the present one included.
    turn: u64,
    rescues: u64,
    failures: u64,
}

struct Used {
    file: TierFile,
    store: Store,
    /// Writes are waited for in deterministic mode.
    is_deterministic: bool,
    /// Pages that were in the file when it was opened.
    restored: u32,
}

impl FileTier {
    /// A tier in the file at `path`, with room for `pages` pages. The file is opened when a pool attaches
    /// the tier.
    pub fn new(path: impl AsRef<Path>, pages: u32) -> Self {
        let path = path.as_ref().to_owned();
        let state = State { pages_max: pages, ..State::default() };
        let state = Arc::new(Mutex::new(state));
        Self { path, direct: Direct::Prefer, is_persistent: false, state, resizing: Mutex::default() }
    }

    /// Whether to bypass the system's cache of pages. Default [`Direct::Prefer`].
    pub fn direct(mut self, direct: Direct) -> Self {
        self.direct = direct;
        self
    }

    /// Whether its pages outlive the pool. Default false.
    ///
    /// Closing the pool writes which page is where, and the next pool that uses the file finds the pages
    /// there. If a process ends without closing its pool, the next pool finds an empty tier. A copy is
    /// served only to an opening that asks for its version, so only copies of files that are open for
    /// reading only, with an [epoch](crate::FileOptions::epoch) of the engine's, are of use later. Pages are
    /// known by the [tags](crate::FileOptions::tag) of their files, which must differ; pages of a file
    /// without a tag are not kept.
    ///
    /// Closing waits for a [resize](Self::resize) under way, up to two seconds, and then until the directory,
    /// 48 bytes a page, is written. If the drive makes no progress for about a second, closing returns, and a
    /// thread goes on, which has the file open until it is done.
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.is_persistent = persistent;
        self
    }

    /// Gives it room for `pages` pages, also while a pool uses it. With less room, pages that lie beyond the
    /// new end of the file leave first, and then those that would go next. Blocks for a system call that
    /// changes the file's length, and before that for transfers beyond its new end. If one of these takes
    /// longer than about a second, the file keeps its length until it is opened next.
    ///
    /// # Errors
    ///
    /// If a tier cannot have that many pages, a block device has no room for them, or the call fails.
    /// Nothing has changed then, except that there may be fewer pages.
    pub fn resize(&self, pages: u32) -> Result<()> {
        capacity(pages.into())?;
        let _one_at_a_time = self.resizing.lock();
        let (file, pages_before) = {
            let state = self.state.lock();
            (state.used.as_ref().map(|used| used.file.clone()), state.pages_max)
        };
        let set_places = || {
            let set = file.as_ref().map_or(Ok(()), |file| file.set_places(Store::places_of(pages)));
            set.map_err(|error| error.in_file(&self.name()))
        };
        if pages > pages_before {
            set_places()?;
        }
        let mut state = self.state.lock();
        state.used.as_mut().map_or(Ok(()), |used| used.store.resize(pages))?;
        state.pages_max = pages;
        drop(state);
        if pages < pages_before && self.wait_for_transfers_beyond() { set_places() } else { Ok(()) }
    }

    /// Waits for transfers beyond the end of a file that is to become shorter: a read would find nothing,
    /// and a write would make the file longer. False if one does not end in time.
    fn wait_for_transfers_beyond(&self) -> bool {
        let deadline = Instant::now() + STUCK;
        loop {
            let state = self.state.lock();
            // A pool that has closed meanwhile may be writing its directory behind the last place.
            let Some(used) = &state.used else { return false };
            if !used.store.has_transfers_beyond() {
                return true;
            }
            drop(state);
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(TRANSFERS_POLL);
        }
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn keep(&self, page: PageName, bytes: TierPage, offer: Offer) -> Demoted {
        let bytes = Arc::new(bytes);
        let mut state = self.state.lock();
        let turn = state.turn;
        let Some(used) = &mut state.used else { return Demoted::Refused };
        let Some(id) = used.store.id(page) else { return Demoted::PassedUp };
        let (demoted, place) = used.store.admit(id, &bytes, offer);
        let Some(place) = place else { return demoted };
        // SAFETY: the completion keeps the page until the write is over, and nobody changes it.
        let buffer = unsafe { lend(NonNull::from(&**bytes)) };
        let action = Action::Write { offset: used.file.offset(place), buffers: buffer.into() };
        let TierFile { source, backend, .. } = used.file.clone();
        let waits = used.is_deterministic;
        drop(state);
        let write = Write { state: Arc::downgrade(&self.state), turn, page: id, place, _bytes: bytes };
        if waits {
            let result = backend.run(&source, action);
            write.complete(0, result);
        } else {
            let completion = Arc::new(write);
            backend.submit(&mut vec![Request { source, action, tenant: None, token: 0, completion }]);
        }
        demoted
    }

    fn open(&self, to: &Attachment, pages_max: u32) -> Result<Used> {
        let mut store = Store::new(to.into(), pages_max, self.is_persistent)?;
        let how = |create| FileOpen {
            create,
            direct: self.direct,
            page_bytes: to.page_bytes,
            ..FileOpen::EXISTING
        };
        let open = |create| to.opener.open(&self.path, &how(create));
        // The file is opened without making it first: making one takes a sync, for its name.
        let opened = open(false).or_else(|error| if error.is_not_found() { open(true) } else { Err(error) });
        let source = opened.map_err(|error| error.into_error(OPERATION, &self.name()))?;
        let alignment = source.capabilities().alignment;
        let needed = alignment.offset_bytes.max(alignment.memory_bytes) as usize;
        if !to.page_bytes.is_multiple_of(needed) {
            let message = format!(
                "direct I/O on this file needs pages of a multiple of {needed} bytes, and the pool's have {}; open it with Direct::Off or use larger pages",
                to.page_bytes
            );
            return Err(Error::new(ErrorKind::Alignment, OPERATION, message));
        }
        let file = TierFile {
            source: SourceRef::new(source),
            backend: Arc::clone(&to.backend),
            page_bytes: to.page_bytes,
        };
        file.make_ready(Store::places_of(pages_max), &mut store)?;
        let restored = store.len();
        Ok(Used { file, store, is_deterministic: to.is_deterministic, restored })
    }
}

impl State {
    /// The present use of the tier, if a transfer of that turn belongs to it.
    fn used_in(&mut self, turn: u64) -> Option<&mut Used> {
        self.used.as_mut().filter(|_| self.turn == turn)
    }
}

impl Used {
    /// Writes what the next pool is to find. Waits until that is done, or makes no progress.
    fn save(self, pages_max: u32, state: &Arc<Mutex<State>>) {
        let (progress, steps) = mpsc::channel();
        let (Self { file, store, is_deterministic, .. }, state) = (self, Arc::clone(state));
        let save = move || {
            let saved = file.save(&store, Store::places_of(pages_max), &progress);
            state.lock().failures += u64::from(saved.is_err());
        };
        if is_deterministic {
            return save();
        }
        // If no thread can be started, the next pool finds nothing.
        if std::thread::Builder::new().name("bufpool-tier".into()).spawn(save).is_ok() {
            while steps.recv_timeout(STUCK).is_ok() {}
        }
    }
}

impl Tier for FileTier {
    fn attach(&self, to: &Attachment) -> Result<()> {
        let _as_large_as_it_is = self.resizing.lock();
        let (pages_max, turn) = {
            let state = self.state.lock();
            if state.used.is_some() {
                return Err(in_use().in_file(&self.name()));
            }
            (state.pages_max, state.turn + 1)
        };
        let used = self.open(to, pages_max).map_err(|error| error.in_file(&self.name()))?;
        *self.state.lock() = State { pages_max, used: Some(used), turn, ..State::default() };
        Ok(())
    }

    fn demote(&self, page: PageName, _: Version, bytes: TierPage) -> Demoted {
        self.keep(page, bytes, Offer::Demotion)
    }

    fn fill(&self, page: PageName, _: Version, bytes: TierPage) -> Demoted {
        self.keep(page, bytes, Offer::Fill)
    }

    fn hear_life(&self, life: Life) {
        if let Some(used) = &mut self.state.lock().used {
            used.store.hear_life(life);
        }
    }

    fn take(&self, page: PageName, version: Version, mut into: TierBuffer, done: TierDone) {
        let mut state = self.state.lock();
        let turn = state.turn;
        let found = state.used.as_mut().and_then(|used| {
            let id = used.store.id(page)?;
            let (copies::Copy { envelope, bytes }, stays_below) = used.store.find(id, version)?;
            let promised = Promised { envelope, stays_below };
            Some((promised, bytes, used.file.clone(), id))
        });
        let is_rescue = matches!(found, Some((_, Placed { bytes: Some(_), .. }, ..)));
        state.rescues += u64::from(is_rescue);
        // The pool's code that is told may call the tier.
        drop(state);
        let Some((promised, Placed { place, bytes }, file, page)) = found else {
            return done.absent(into);
        };
        if let Some(bytes) = bytes {
            into.copy_from_slice(&bytes);
            return promised.give(into, done);
        }
        let ends = Mutex::new(Some((into, done)));
        let completion =
            Arc::new(Read { state: Arc::downgrade(&self.state), turn, page, place, promised, ends });
        let buffer = completion.ends.lock().as_mut().map(|(into, _)| {
            // SAFETY: the buffer lies in the completion, where nobody reaches it before the read is over.
            unsafe { lend(NonNull::from(&mut **into)) }
        });
        let Some(buffer) = buffer else { return };
        let action = Action::Read { offset: file.offset(place), buffers: buffer.into() };
        let TierFile { source, backend, .. } = file;
        backend.submit(&mut vec![Request { source, action, tenant: None, token: 0, completion }]);
    }

    fn forget(&self, pages: TierRange) {
        if let Some(used) = &mut self.state.lock().used {
            used.store.forget(&pages);
        }
    }

    fn report(&self) -> TierReport {
        let state = self.state.lock();
        let name = self.path.display();
        let State { rescues, failures, .. } = *state;
        let Some(used) = &state.used else {
            // Failures while the last pool detached explain why the next one finds nothing.
            let note = format!("{name}, in use by no pool");
            return TierReport { rescues, failures, ..TierReport::new(note) };
        };
        let (pages, page_bytes) = (u64::from(used.store.len()), used.file.page_bytes);
        let found =
            if self.is_persistent { format!(", {} found there", used.restored) } else { String::new() };
        let about = used.file.source.note();
        TierReport {
            pages,
            pages_max: state.pages_max.into(),
            bytes: pages * page_bytes as u64,
            metadata_bytes: used.store.metadata_bytes(),
            rescues,
            failures,
            ..TierReport::new(format!(
                "{name}, {} pages of {page_bytes} bytes{found}, {about}",
                state.pages_max
            ))
        }
    }

    fn detach(&self) {
        // A change of length that comes later would cut off the directory.
        let length = self.resizing.try_lock_for(LENGTH_WAIT);
        let (used, pages_max) = {
            let mut state = self.state.lock();
            (state.used.take(), state.pages_max)
        };
        let is_set = length.is_some();
        drop(length);
        match used.filter(|_| self.is_persistent) {
            Some(used) if is_set => used.save(pages_max, &self.state),
            Some(_) => self.state.lock().failures += 1,
            None => {}
        }
    }
}

/// A write of a page to its place.
struct Write {
    state: Weak<Mutex<State>>,
    /// The turn of the pool that it is made for.
    turn: u64,
    page: PageId,
    place: u32,
    /// What is written.
    _bytes: Arc<TierPage>,
}

impl Completion for Write {
    fn complete(&self, _: u64, result: std::result::Result<(), IoError>) {
        let Some(state) = self.state.upgrade() else { return };
        let mut state = state.lock();
        state.failures += u64::from(result.is_err());
        if let Some(used) = state.used_in(self.turn) {
            used.store.written(self.page, self.place, result.is_ok());
        }
    }
}

/// What the answer says besides the bytes, once these are there.
#[derive(Clone, Copy)]
struct Promised {
    envelope: Envelope,
    /// The copy stays, and the page is to leave the pool's memory first.
    stays_below: bool,
}

impl Promised {
    fn give(self, buffer: TierBuffer, done: TierDone) {
        done.give(buffer, self.envelope, self.stays_below);
    }
}

/// A read of a page from its place.
struct Read {
    state: Weak<Mutex<State>>,
    /// The turn of the pool that it is made for.
    turn: u64,
    page: PageId,
    place: u32,
    promised: Promised,
    /// The buffer that is read into, and the end of the question.
    ends: Mutex<Option<(TierBuffer, TierDone)>>,
}

impl Completion for Read {
    fn complete(&self, _: u64, result: std::result::Result<(), IoError>) {
        if let Some(state) = self.state.upgrade() {
            let mut state = state.lock();
            state.failures += u64::from(result.is_err());
            if let Some(used) = state.used_in(self.turn) {
                used.store.end_transfer(self.place);
                if result.is_err() {
                    used.store.lose(self.page, self.place);
                }
            }
        }
        let ends = self.ends.lock().take();
        let Some((buffer, done)) = ends else { return };
        match result {
            Ok(()) => self.promised.give(buffer, done),
            Err(_) => done.absent(buffer),
        }
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::io;

    use super::*;
    use crate::io::sim::SimDevice;
    use crate::source::{Capabilities, Done, FileIdentity, ReadRequest, Source, WriteRequest};
    use crate::tier::{TierAdmit, TierPolicy};
    use crate::{FileOptions, Pool, PoolOptions};

    /// A file of which a change of length takes until `go` is told of, or some time.
    #[derive(Debug)]
    struct SlowLength {
        file: SourceRef,
        begun: mpsc::Sender<()>,
        go: Mutex<mpsc::Receiver<()>>,
    }

    impl Source for SlowLength {
        fn identity(&self) -> FileIdentity {
            self.file.identity()
        }

        fn capabilities(&self) -> Capabilities {
            self.file.capabilities()
        }

        fn len_bytes(&self) -> io::Result<u64> {
            self.file.len_bytes()
        }

        fn set_len_bytes(&self, bytes: u64) -> io::Result<()> {
            self.begun.send(()).unwrap();
            let _ = self.go.lock().recv_timeout(Duration::from_millis(300));
            self.file.set_len_bytes(bytes)
        }

        fn read(&self, request: ReadRequest) {
            self.file.read(request);
        }

        fn write(&self, request: WriteRequest) {
            self.file.write(request);
        }

        fn sync(&self, all_metadata: bool, done: Done) {
            self.file.sync(all_metadata, done);
        }
    }

    fn pool_over(device: &SimDevice, tier: &Arc<FileTier>) -> Pool {
        let options = PoolOptions::new().frames(32).page_bytes(4096).threads_max(8).deterministic(1);
        let tier: Arc<dyn Tier> = Arc::<FileTier>::clone(tier);
        options.tier(tier, TierPolicy::Demote, TierAdmit::All).open_on(device).unwrap()
    }

    /// The directory lies behind the last place, where a change of length that comes late would cut it off.
    #[test]
    fn a_tier_that_is_resized_while_its_pool_closes_keeps_its_pages() {
        for pages in [50, 30] {
            let device = SimDevice::new(1);
            device.put("data", &vec![0; 64 * 4096]);
            let tier = Arc::new(FileTier::new("tier", 40).persistent(true));
            let pool = pool_over(&device, &tier);
            let how = FileOptions::new().read_only(true).tag(5).epoch(1);
            let file = pool.open_file("data", how).unwrap();
            (0..50).for_each(|number| drop(pool.default_tenant().read(file.page(number)).unwrap()));
            let kept = tier.report().pages;
            assert!((1..30).contains(&kept), "{kept} pages");
            let (begun, length_changes) = mpsc::channel();
            let (closed, go) = mpsc::channel();
            if let Some(used) = &mut tier.state.lock().used {
                let file = used.file.source.clone();
                used.file.source = SourceRef::new(Arc::new(SlowLength { file, begun, go: go.into() }));
            }
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    length_changes.recv().unwrap();
                    pool.close().unwrap();
                    closed.send(()).unwrap_or(());
                });
                tier.resize(pages).unwrap();
            });
            let next = pool_over(&device, &tier);
            assert_eq!(tier.report().pages, kept, "resized to {pages}");
            next.check_invariants();
        }
    }
}
