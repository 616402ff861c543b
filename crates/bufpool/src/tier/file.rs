//! A tier in a file.

use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use bufpool_policies::PageId;
use bufpool_policies::tier::{Arrival, TierOrder, TierSlot};
use parking_lot::Mutex;

use crate::engine::PageName;
use crate::error::{Error, ErrorKind, Result};
use crate::io::options::Direct;
use crate::io::{Action, Backend, Buffer, Completion, FileOpen, IoError, Request, Source};
use crate::tier::buffer::{Envelope, TierBuffer, TierPage};
use crate::tier::{Attachment, Demoted, Tier, TierDone, TierPolicy, TierRange, TierReport, Version};

/// Most writes and reads in flight; a page that would be one more is refused, or said to be absent. So many
/// places more than pages are in the file, so that none is given to another page while a transfer uses it.
const IN_FLIGHT_MAX: u32 = 128;

/// A tier in a file on a local drive, before a source that is slower: an object store, a remote file system, a
/// disk. Read and written with direct I/O through the pool's own backend.
///
/// The file is made if it is not there, and locked as the pool's files are. What it contains is of no use to
/// anybody once the pool is closed. Which page is where is known in memory alone, at about 90 bytes a page. A
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
    policy: TierPolicy,
    /// Writes are waited for.
    is_deterministic: bool,
    order: Box<dyn TierOrder>,
    /// By the order's slot.
    copies: Vec<Option<Copy>>,
    places: Vec<Place>,
    free: Vec<u32>,
    in_flight: u32,
}

/// A page in the tier.
struct Copy {
    envelope: Envelope,
    place: u32,
    /// While it is being written.
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

    fn open(&self, to: &Attachment) -> Result<Used> {
        const OPERATION: &str = "open tier";
        let name = self.path.display().to_string();
        let open =
            |create| to.opener.open(&self.path, &FileOpen { read_only: false, create, direct: self.direct });
        // To make one makes its name durable, which takes a sync.
        let opened = open(false).or_else(|error| if error.is_not_found() { open(true) } else { Err(error) });
        let source = opened.map_err(|error| error.into_error(OPERATION, &name))?;
        let alignment = source.capabilities().alignment;
        let needed = alignment.offset_bytes.max(alignment.memory_bytes) as usize;
        if !to.page_bytes.is_multiple_of(needed) {
            let message = format!(
                "direct I/O on this file needs pages of a multiple of {needed} bytes, and the pool's have {}; open it with Direct::Off or use larger pages",
                to.page_bytes
            );
            return Err(Error::new(ErrorKind::Alignment, OPERATION, message).in_file(&name));
        }
        let places = self.pages_max + IN_FLIGHT_MAX;
        let bytes = u64::from(places) * to.page_bytes as u64;
        if !source.capabilities().fixed_length {
            source.set_len_bytes(bytes).map_err(|error| Error::from_io(OPERATION, error).in_file(&name))?;
        } else if source.len_bytes().is_ok_and(|found| found < bytes) {
            let message = format!("the block device is shorter than the {bytes} bytes of {places} places");
            return Err(Error::new(ErrorKind::FileLength, OPERATION, message).in_file(&name));
        }
        Ok(Used {
            source,
            backend: Arc::clone(&to.backend),
            page_bytes: to.page_bytes,
            policy: to.policy,
            is_deterministic: to.is_deterministic,
            order: to.policy.order(self.pages_max),
            copies: Vec::new(),
            places: vec![Place::default(); places as usize],
            free: (0..places).rev().collect(),
            in_flight: 0,
        })
    }
}

impl Used {
    fn copy(&mut self, slot: TierSlot) -> &mut Option<Copy> {
        let index = slot.index();
        if index >= self.copies.len() {
            self.copies.resize_with(index + 1, || None);
        }
        &mut self.copies[index]
    }

    fn offset(&self, place: u32) -> u64 {
        u64::from(place) * self.page_bytes as u64
    }

    /// A copy has left its place.
    fn vacate(&mut self, place: u32) {
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
        if let Some(slot) = self.order.forget(page)
            && let Some(copy) = self.copy(slot).take()
        {
            self.vacate(copy.place);
        }
    }

    /// Whether the page is there with these contents; it is of this version then, and last to go.
    fn renew(&mut self, page: PageId, envelope: Envelope) -> bool {
        let Some(slot) = self.order.find(page) else { return false };
        let Some(copy) = self.copy(slot) else { return false };
        if copy.envelope.hash() != envelope.hash() {
            return false;
        }
        copy.envelope = envelope;
        self.order.demote(page);
        true
    }

    /// Where the page is to be written. None if there is no room for it.
    fn admit(&mut self, page: PageId, bytes: &Arc<TierPage>) -> Option<u32> {
        if self.in_flight >= IN_FLIGHT_MAX {
            return None;
        }
        let place = self.free.pop()?;
        let (Arrival::Stored { slot, .. } | Arrival::Present(slot)) = self.order.demote(page) else {
            self.free.push(place);
            return None;
        };
        self.places[place as usize].is_taken = true;
        let copy = Copy { envelope: bytes.envelope(), place, bytes: Some(Arc::clone(bytes)) };
        // That of the page which was ejected, or an older one of this page.
        if let Some(displaced) = self.copy(slot).replace(copy) {
            self.vacate(displaced.place);
        }
        self.begin_transfer(place);
        Some(place)
    }

    /// The write to a place has ended.
    fn written(&mut self, page: PageId, place: u32, is_written: bool) {
        self.end_transfer(place);
        let Some(slot) = self.order.find(page) else { return };
        let Some(copy) = self.copy(slot).as_mut().filter(|copy| copy.place == place) else { return };
        copy.bytes = None;
        if !is_written {
            self.forget(page);
        }
    }

    /// The copy, if it is of that version. One of another version is of no use to anybody.
    fn find(&mut self, page: PageId, version: Version) -> Option<Found> {
        let slot = self.order.find(page)?;
        let copy = self.copy(slot).as_ref()?;
        if copy.envelope.version() != version {
            self.forget(page);
            return None;
        }
        let (envelope, place, bytes) = (copy.envelope, copy.place, copy.bytes.clone());
        if bytes.is_none() {
            if self.in_flight >= IN_FLIGHT_MAX {
                return None;
            }
            self.begin_transfer(place);
        }
        let stays = match self.policy {
            TierPolicy::Demote => self.order.take(page).is_none(),
            _ => self.order.read(page).is_some_and(|found| found.stays),
        };
        if !stays {
            *self.copy(slot) = None;
            self.vacate(place);
        }
        Some(Found { envelope, place, bytes })
    }
}

/// A copy that was asked for.
struct Found {
    envelope: Envelope,
    place: u32,
    /// Of one that is still being written. Otherwise a transfer from its place has begun.
    bytes: Option<Arc<TierPage>>,
}

impl Tier for FileTier {
    fn attach(&self, to: &Attachment) -> Result<()> {
        let mut state = self.state.lock();
        if state.used.is_some() {
            let message = "the tier is another pool's, expected one that no pool uses";
            let error = Error::new(ErrorKind::InvalidOptions, "open tier", message);
            return Err(error.in_file(&self.path.display().to_string()));
        }
        *state = State { used: Some(self.open(to)?), ..State::default() };
        Ok(())
    }

    fn demote(&self, page: PageName, _: Version, bytes: TierPage) -> Demoted {
        let id = PageId::in_file(page.file, page.number);
        let bytes = Arc::new(bytes);
        let mut state = self.state.lock();
        let Some(used) = &mut state.used else { return Demoted::Refused };
        if used.renew(id, bytes.envelope()) {
            return Demoted::Present;
        }
        let was_there = used.order.find(id).is_some();
        let Some(place) = used.admit(id, &bytes) else { return Demoted::Refused };
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
        if was_there { Demoted::Present } else { Demoted::Stored }
    }

    fn take(&self, page: PageName, version: Version, mut into: TierBuffer, done: TierDone) {
        let mut state = self.state.lock();
        let Some(used) = &mut state.used else { return done.absent(into) };
        let found = used.find(PageId::in_file(page.file, page.number), version);
        let Some(Found { envelope, place, bytes }) = found else {
            drop(state);
            return done.absent(into);
        };
        if let Some(bytes) = bytes {
            state.rescues += 1;
            drop(state);
            into.copy_from_slice(&bytes);
            return done.filled(into, envelope);
        }
        let (source, backend, offset) =
            (Arc::clone(&used.source), Arc::clone(&used.backend), used.offset(place));
        drop(state);
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
            pages.each_of(&*used.order).into_iter().for_each(|page| used.forget(page));
        }
    }

    fn report(&self) -> TierReport {
        let state = self.state.lock();
        let name = self.path.display();
        let Some(used) = &state.used else { return TierReport::new(format!("{name}, in use by no pool")) };
        let pages = u64::from(used.order.len());
        TierReport {
            pages,
            pages_max: u64::from(self.pages_max),
            bytes: pages * used.page_bytes as u64,
            metadata_bytes: used.order.metadata_bytes() as u64
                + (used.copies.capacity() * size_of::<Option<Copy>>()) as u64
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
