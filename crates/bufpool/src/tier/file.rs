//! A tier in a file.

use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use bufpool_policies::PageId;
use parking_lot::Mutex;

use crate::engine::PageName;
use crate::error::{Error, ErrorKind, Result};
use crate::io::options::Direct;
use crate::io::{Action, Backend, Buffer, Completion, FileOpen, IoError, Request, Source};
use crate::tier::buffer::{Buffers, Envelope, TierBuffer, TierPage};
use crate::tier::copies::{Copies, Copy, Found, Kept};
use crate::tier::{Attachment, Demoted, Tier, TierDone, TierRange, TierReport, Version, in_use};

const OPERATION: &str = "open tier";
/// What a tier's file begins with, in a page of its own. A file that begins otherwise, and not with zeros, is
/// somebody's.
const HEADER: &[u8] = b"bufpool tier 1\n";
/// Most writes and reads in flight; a page that would be one more is refused, or said to be absent. So many
/// places more than pages are in the file, so that none is given to another page while a transfer uses it.
const IN_FLIGHT_MAX: u32 = 128;

/// A tier in a file on a local drive, before a source that is slower: an object store, a remote file system, a
/// disk. Read and written with direct I/O through the pool's own backend.
///
/// The file is made if it is not there, and locked as the pool's files are. One that is there must be a tier's, or
/// empty, or begin with a page of zeros. What it contains is of no use to anybody once the pool is closed. Which page is where is known in memory alone, at about 90 bytes a page. A
/// page that is asked for while it is being written comes from memory (a *rescue*).
pub struct FileTier {
    path: PathBuf,
    pages_max: u32,
    direct: Direct,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// None while no pool uses it.
    used: Option<Used>,
    rescues: u64,
    failures: u64,
}

struct Used {
    source: Arc<dyn Source>,
    backend: Arc<dyn Backend>,
    page_bytes: usize,
    /// Writes are waited for.
    is_deterministic: bool,
    copies: Copies<Placed>,
    places: Vec<Place>,
    free: Vec<u32>,
    in_flight: u32,
}

/// Where the bytes of a copy are.
#[derive(Clone)]
struct Placed {
    place: u32,
    /// While they are being written.
    bytes: Option<Arc<TierPage>>,
}

/// Room for a page in the file: free, if nothing has it.
#[derive(Clone, Copy, Default)]
struct Place {
    /// A copy is there.
    is_taken: bool,
    in_flight: u32,
}

impl FileTier {
    /// In the file at `path`, with room for `pages` pages.
    pub fn new(path: impl AsRef<Path>, pages: u32) -> Self {
        let path = path.as_ref().to_owned();
        Self { path, pages_max: pages, direct: Direct::Prefer, state: Arc::default() }
    }

    /// Whether to bypass the system's cache of pages. Default [`Direct::Prefer`].
    pub fn direct(mut self, direct: Direct) -> Self {
        self.direct = direct;
        self
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn open(&self, to: &Attachment) -> Result<Used> {
        let copies = Copies::new(to.policy, self.pages_max.into())?;
        let open =
            |create| to.opener.open(&self.path, &FileOpen { read_only: false, create, direct: self.direct });
        // To make one makes its name durable, which takes a sync.
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
        let places = self.pages_max + IN_FLIGHT_MAX;
        make_ready(&source, to, (u64::from(places) + 1) * to.page_bytes as u64)?;
        Ok(Used {
            source,
            backend: Arc::clone(&to.backend),
            page_bytes: to.page_bytes,
            is_deterministic: to.is_deterministic,
            copies,
            places: vec![Place::default(); places as usize],
            free: (0..places).rev().collect(),
            in_flight: 0,
        })
    }
}

/// Makes sure that the file is a tier's, and gives it its length.
fn make_ready(source: &Arc<dyn Source>, to: &Attachment, bytes: u64) -> Result<()> {
    let failed = |error| Error::from_io(OPERATION, error);
    let page_bytes = to.page_bytes as u64;
    let is_fixed = source.capabilities().fixed_length;
    let found_bytes = source.len_bytes().map_err(failed)?;
    let mut header = Buffers::new(1, to.page_bytes).take().expect("one is free");
    header.fill(0);
    if found_bytes >= page_bytes {
        // SAFETY: the call returns after the read, and nobody else has the buffer.
        let buffer = unsafe { lend(NonNull::from(&mut *header)) };
        let read = to.backend.run(source, Action::Read { offset: 0, buffers: buffer.into() });
        read.map_err(|error| Error::with_source(ErrorKind::Io, OPERATION, error))?;
    }
    let is_tiers = header.starts_with(HEADER);
    if !is_tiers && (header.iter().any(|byte| *byte != 0) || (1..page_bytes).contains(&found_bytes)) {
        let message =
            "the file has contents that are not a tier's, expected an empty file or one that does not exist";
        return Err(Error::new(ErrorKind::Unsupported, OPERATION, message));
    }
    if is_fixed && found_bytes < bytes {
        let message = format!("the block device has {found_bytes} bytes, expected {bytes} for all places");
        return Err(Error::new(ErrorKind::FileLength, OPERATION, message));
    }
    if !is_fixed {
        source.set_len_bytes(bytes).map_err(failed)?;
    }
    if !is_tiers {
        header[..HEADER.len()].copy_from_slice(HEADER);
        // SAFETY: the call returns after the write, and nobody changes the buffer meanwhile.
        let buffer = unsafe { lend(NonNull::from(&*header)) };
        let written = to.backend.run(source, Action::Write { offset: 0, buffers: buffer.into() });
        written.map_err(|error| Error::with_source(ErrorKind::Io, OPERATION, error))?;
    }
    Ok(())
}

impl Used {
    /// The first page is the header's.
    fn offset(&self, place: u32) -> u64 {
        (u64::from(place) + 1) * self.page_bytes as u64
    }

    /// A copy has left its place.
    fn vacate(&mut self, left: &Placed) {
        let place = left.place;
        let state = &mut self.places[place as usize];
        state.is_taken = false;
        if state.in_flight == 0 {
            self.free.push(place);
        }
    }

    fn begin_transfer(&mut self, place: u32) {
        self.in_flight += 1;
        self.places[place as usize].in_flight += 1;
    }

    fn end_transfer(&mut self, place: u32) {
        self.in_flight -= 1;
        let state = &mut self.places[place as usize];
        state.in_flight -= 1;
        if state.in_flight == 0 && !state.is_taken {
            self.free.push(place);
        }
    }

    fn forget(&mut self, page: PageId) {
        if let Some(left) = self.copies.forget(page) {
            self.vacate(&left);
        }
    }

    /// What becomes of a page that is offered, and where it is to be written if it is kept.
    fn admit(&mut self, page: PageId, bytes: &Arc<TierPage>) -> (Demoted, Option<u32>) {
        if self.copies.renew(page, bytes.envelope()) {
            return (Demoted::Present, None);
        }
        let place = (self.in_flight < IN_FLIGHT_MAX).then(|| self.free.pop()).flatten();
        let Some(place) = place else { return (Demoted::Refused, None) };
        self.places[place as usize].is_taken = true;
        let placed = Placed { place, bytes: Some(Arc::clone(bytes)) };
        let Kept { demoted, left } =
            self.copies.keep(page, Copy { envelope: bytes.envelope(), bytes: placed });
        left.iter().for_each(|left| self.vacate(left));
        if demoted == Demoted::Refused {
            return (demoted, None);
        }
        self.begin_transfer(place);
        (demoted, Some(place))
    }

    /// The write to a place has ended.
    fn written(&mut self, page: PageId, place: u32, is_written: bool) {
        self.end_transfer(place);
        let Some(copy) = self.copies.get_mut(page).filter(|copy| copy.bytes.place == place) else { return };
        copy.bytes.bytes = None;
        if !is_written {
            self.forget(page);
        }
    }

    /// The copy of that version. If it has no bytes here, a transfer from its place has begun.
    fn find(&mut self, page: PageId, version: Version) -> Option<Copy<Placed>> {
        let is_here = self.copies.get_mut(page).is_some_and(|copy| copy.bytes.bytes.is_some());
        if !is_here && self.in_flight >= IN_FLIGHT_MAX {
            return None;
        }
        match self.copies.find(page, version) {
            Found::Nothing => None,
            Found::Stale(left) => {
                self.vacate(&left);
                None
            }
            Found::Right { copy, stays } => {
                if copy.bytes.bytes.is_none() {
                    self.begin_transfer(copy.bytes.place);
                }
                if !stays {
                    self.vacate(&copy.bytes);
                }
                Some(copy)
            }
        }
    }
}

impl Tier for FileTier {
    fn attach(&self, to: &Attachment) -> Result<()> {
        if self.state.lock().used.is_some() {
            return Err(in_use().in_file(&self.name()));
        }
        let used = self.open(to).map_err(|error| error.in_file(&self.name()))?;
        // A pool that attaches it meanwhile finds the file locked.
        *self.state.lock() = State { used: Some(used), ..State::default() };
        Ok(())
    }

    fn demote(&self, page: PageName, _: Version, bytes: TierPage) -> Demoted {
        let id = PageId::in_file(page.file, page.number);
        let bytes = Arc::new(bytes);
        let mut state = self.state.lock();
        let Some(used) = &mut state.used else { return Demoted::Refused };
        let (demoted, place) = used.admit(id, &bytes);
        let Some(place) = place else { return demoted };
        // SAFETY: the completion keeps the page until the write is over, and nobody changes it.
        let buffer = unsafe { lend(NonNull::from(&**bytes)) };
        let action = Action::Write { offset: used.offset(place), buffers: buffer.into() };
        let (source, backend) = (Arc::clone(&used.source), Arc::clone(&used.backend));
        let waits = used.is_deterministic;
        drop(state);
        let write = Write { state: Arc::downgrade(&self.state), page: id, place, _bytes: bytes };
        if waits {
            let result = backend.run(&source, action);
            write.complete(0, result);
        } else {
            let completion = Arc::new(write);
            backend.submit(&mut vec![Request { source, action, tenant: None, token: 0, completion }]);
        }
        demoted
    }

    fn take(&self, page: PageName, version: Version, mut into: TierBuffer, done: TierDone) {
        let id = PageId::in_file(page.file, page.number);
        let mut state = self.state.lock();
        let found = state.used.as_mut().and_then(|used| {
            let Copy { envelope, bytes: Placed { place, bytes } } = used.find(id, version)?;
            let at = (Arc::clone(&used.source), Arc::clone(&used.backend), used.offset(place));
            Some((envelope, place, bytes, at))
        });
        let is_rescue = matches!(found, Some((.., Some(_), _)));
        state.rescues += u64::from(is_rescue);
        // Who is told may call the tier.
        drop(state);
        let Some((envelope, place, bytes, (source, backend, offset))) = found else {
            return done.absent(into);
        };
        if let Some(bytes) = bytes {
            into.copy_from_slice(&bytes);
            return done.filled(into, envelope);
        }
        let ends = Mutex::new(Some((into, done)));
        let completion = Arc::new(Read { state: Arc::downgrade(&self.state), place, envelope, ends });
        let buffer = completion.ends.lock().as_mut().map(|(into, _)| {
            // SAFETY: the buffer lies in the completion, where nobody reaches it before the read is over.
            unsafe { lend(NonNull::from(&mut **into)) }
        });
        let Some(buffer) = buffer else { return };
        let action = Action::Read { offset, buffers: buffer.into() };
        backend.submit(&mut vec![Request { source, action, tenant: None, token: 0, completion }]);
    }

    fn forget(&self, pages: TierRange) {
        if let Some(used) = &mut self.state.lock().used {
            used.copies.pages_of(&pages).into_iter().for_each(|page| used.forget(page));
        }
    }

    fn report(&self) -> TierReport {
        let state = self.state.lock();
        let name = self.path.display();
        let Some(used) = &state.used else { return TierReport::new(format!("{name}, in use by no pool")) };
        let pages = u64::from(used.copies.len());
        TierReport {
            pages,
            pages_max: u64::from(self.pages_max),
            bytes: pages * used.page_bytes as u64,
            metadata_bytes: used.copies.metadata_bytes()
                + (used.places.capacity() * size_of::<Place>() + used.free.capacity() * 4) as u64,
            rescues: state.rescues,
            failures: state.failures,
            ..TierReport::new(format!(
                "{name}, {} pages of {} bytes, {}",
                self.pages_max,
                used.page_bytes,
                used.source.note()
            ))
        }
    }

    fn detach(&self) {
        let used = self.state.lock().used.take();
        drop(used);
    }
}

/// The bytes of a page or buffer, for a transfer.
///
/// # Safety
///
/// The transfer's completion keeps what the bytes are of, and nobody uses them before it is called; while they
/// are written to a file, others may read them.
unsafe fn lend(bytes: NonNull<[u8]>) -> Buffer {
    // SAFETY: the bytes are initialized, on the heap, and stay there as the caller promises.
    unsafe { Buffer::new(bytes.cast(), bytes.len()) }
}

/// A page is written to its place.
struct Write {
    state: Weak<Mutex<State>>,
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
        if let Some(used) = &mut state.used {
            used.written(self.page, self.place, result.is_ok());
        }
    }
}

/// A page is read from its place.
struct Read {
    state: Weak<Mutex<State>>,
    place: u32,
    envelope: Envelope,
    /// What it is read into, and who is told.
    ends: Mutex<Option<(TierBuffer, TierDone)>>,
}

impl Completion for Read {
    fn complete(&self, _: u64, result: std::result::Result<(), IoError>) {
        if let Some(state) = self.state.upgrade() {
            let mut state = state.lock();
            state.failures += u64::from(result.is_err());
            if let Some(used) = &mut state.used {
                used.end_transfer(self.place);
            }
        }
        let ends = self.ends.lock().take();
        let Some((buffer, done)) = ends else { return };
        match result {
            Ok(()) => done.filled(buffer, self.envelope),
            Err(_) => done.absent(buffer),
        }
    }
}
