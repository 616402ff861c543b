//! A tier in memory of its own, compressed (feature `zstd`).

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use bufpool_policies::PageId;
use bufpool_policies::tier::{Arrival, TierOrder, TierSlot};
use parking_lot::{Condvar, Mutex};

use crate::engine::PageName;
use crate::error::{Error, ErrorKind, Result};
use crate::tier::buffer::{Envelope, TierBuffer, TierPage};
use crate::tier::{Attachment, Demoted, Tier, TierDone, TierPolicy, TierRange, TierReport, Version};

/// Of zstd: the one that takes least time.
const LEVEL: i32 = 1;
/// Pages are not expected to become smaller than this part of themselves, on average.
const SMALLEST: u64 = 16;
/// What a copy takes besides its bytes, for the bound.
const COPY_BYTES: usize = 96;

/// A tier in memory of its own that keeps pages compressed, so that more of them have room there than in as
/// much memory as frames.
///
/// A page that goes down is compressed by a thread of the tier, in some microseconds for 4 KiB, and by the
/// caller in deterministic mode; a page that is asked for before is served as it is (a *rescue*). A page that
/// comes up is uncompressed by the thread that asks. Pages that do not become smaller are kept as they are. It
/// serves one pool at a time, and is empty after that.
pub struct CompressedTier {
    bytes_max: u64,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    /// None while no pool uses it.
    used: Option<Used>,
    rescues: u64,
    failures: u64,
}

struct Used {
    page_bytes: usize,
    policy: TierPolicy,
    order: Box<dyn TierOrder>,
    /// By slot.
    copies: Vec<Option<Copy>>,
    /// Bytes of all copies that were compressed, with what they take besides.
    bytes: u64,
    /// To be compressed, oldest first.
    waiting: VecDeque<(PageId, Arc<TierPage>)>,
    is_deterministic: bool,
}

struct Copy {
    envelope: Envelope,
    bytes: Bytes,
}

/// Cheap to clone.
#[derive(Clone)]
enum Bytes {
    /// Not compressed yet.
    Waiting(Arc<TierPage>),
    Compressed(Arc<[u8]>),
    /// As they are, because they do not become smaller.
    Plain(Arc<[u8]>),
}

impl Bytes {
    fn compressed(page: &[u8]) -> Self {
        match zstd::bulk::compress(page, LEVEL) {
            Ok(smaller) if smaller.len() < page.len() => Self::Compressed(smaller.into()),
            _ => Self::Plain(page.into()),
        }
    }

    /// What the copy counts for.
    fn len(&self) -> u64 {
        match self {
            Self::Waiting(_) => 0,
            Self::Compressed(bytes) | Self::Plain(bytes) => (bytes.len() + COPY_BYTES) as u64,
        }
    }

    /// False if they cannot be uncompressed.
    fn copy_to(&self, into: &mut [u8]) -> bool {
        match self {
            Self::Waiting(page) => into.copy_from_slice(page),
            Self::Plain(bytes) => into.copy_from_slice(bytes),
            Self::Compressed(bytes) => {
                return zstd::bulk::decompress_to_buffer(bytes, into).is_ok_and(|len| len == into.len());
            }
        }
        true
    }
}

impl CompressedTier {
    /// With room for `bytes` bytes of compressed pages, whose memory is taken when it is first needed.
    pub fn new(bytes: u64) -> Self {
        Self { bytes_max: bytes, shared: Arc::default() }
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

    fn drop_copy(&mut self, slot: TierSlot) {
        let dropped = self.copy(slot).take();
        self.bytes -= dropped.map_or(0, |copy| copy.bytes.len());
    }

    fn forget(&mut self, page: PageId) {
        if let Some(slot) = self.order.forget(page) {
            self.drop_copy(slot);
        }
    }

    fn keep(&mut self, page: PageId, copy: Copy) -> Demoted {
        let (slot, demoted) = match self.order.demote(page) {
            Arrival::Stored { slot, .. } => (slot, Demoted::Stored),
            Arrival::Present(slot) => (slot, Demoted::Present),
            Arrival::NotKept => return Demoted::Refused,
        };
        // That of the page which was ejected, or an older one of this page.
        self.drop_copy(slot);
        self.bytes += copy.bytes.len();
        *self.copy(slot) = Some(copy);
        demoted
    }

    /// The page was compressed, unless it has left or changed meanwhile.
    fn pack(&mut self, page: PageId, from: &Arc<TierPage>, bytes: Bytes) {
        let Some(slot) = self.order.find(page) else { return };
        let Some(copy) = self.copy(slot) else { return };
        if matches!(&copy.bytes, Bytes::Waiting(waiting) if Arc::ptr_eq(waiting, from)) {
            let len = bytes.len();
            copy.bytes = bytes;
            self.bytes += len;
        }
    }

    /// Ejects pages until the others have room.
    fn make_room(&mut self, bytes_max: u64) {
        let capacity = self.order.capacity();
        while self.bytes > bytes_max && !self.order.is_empty() {
            let mut ejected = Vec::new();
            self.order.resize(self.order.len() - 1, &mut |page| ejected.push(page.slot));
            ejected.into_iter().for_each(|slot| self.drop_copy(slot));
            self.order.resize(capacity, &mut |_| {});
        }
    }

    /// The copy, if it is of that version. One of another version is of no use to anybody.
    fn find(&mut self, page: PageId, version: Version) -> Option<(Envelope, Bytes)> {
        let slot = self.order.find(page)?;
        let copy = self.copy(slot).as_ref()?;
        if copy.envelope.version() != version {
            self.forget(page);
            return None;
        }
        let found = (copy.envelope, copy.bytes.clone());
        let stays = match self.policy {
            TierPolicy::Demote => self.order.take(page).is_none(),
            _ => self.order.read(page).is_some_and(|found| found.stays),
        };
        if !stays {
            self.drop_copy(slot);
        }
        Some(found)
    }
}

impl Shared {
    /// Compresses what waits, until no pool uses the tier. Runs in a thread of its own.
    fn compress(this: &Weak<Self>, bytes_max: u64) {
        while let Some(shared) = this.upgrade() {
            let mut state = shared.state.lock();
            let Some(used) = &mut state.used else { return };
            let Some((page, bytes)) = used.waiting.pop_front() else {
                shared.work.wait(&mut state);
                continue;
            };
            drop(state);
            let compressed = Bytes::compressed(&bytes);
            if let Some(used) = &mut shared.state.lock().used {
                used.pack(page, &bytes, compressed);
                used.make_room(bytes_max);
            }
        }
    }
}

impl Tier for CompressedTier {
    fn attach(&self, to: &Attachment) -> Result<()> {
        let mut state = self.shared.state.lock();
        if state.used.is_some() {
            let message = "the tier is another pool's, expected one that no pool uses";
            return Err(Error::new(ErrorKind::InvalidOptions, "open tier", message));
        }
        let &Attachment { page_bytes, policy, is_deterministic, .. } = to;
        let pages = self.bytes_max * SMALLEST / page_bytes as u64;
        let order = policy.order(u32::try_from(pages).unwrap_or(u32::MAX / 2));
        if !is_deterministic {
            let (shared, bytes_max) = (Arc::downgrade(&self.shared), self.bytes_max);
            let thread = std::thread::Builder::new().name("bufpool-zstd".into());
            let started = thread.spawn(move || Shared::compress(&shared, bytes_max));
            started.map_err(|error| Error::from_io("open tier", error))?;
        }
        let (copies, waiting) = (Vec::new(), VecDeque::new());
        let used = Used { page_bytes, policy, order, copies, bytes: 0, waiting, is_deterministic };
        *state = State { used: Some(used), ..State::default() };
        Ok(())
    }

    fn demote(&self, page: PageName, _: Version, bytes: TierPage) -> Demoted {
        let id = PageId::in_file(page.file, page.number);
        let (envelope, bytes) = (bytes.envelope(), Arc::new(bytes));
        let mut state = self.shared.state.lock();
        let Some(used) = &mut state.used else { return Demoted::Refused };
        let demoted = used.keep(id, Copy { envelope, bytes: Bytes::Waiting(Arc::clone(&bytes)) });
        if used.is_deterministic {
            used.pack(id, &bytes, Bytes::compressed(&bytes));
            used.make_room(self.bytes_max);
        } else if demoted != Demoted::Refused {
            used.waiting.push_back((id, bytes));
            drop(state);
            self.shared.work.notify_one();
        }
        demoted
    }

    fn take(&self, page: PageName, version: Version, mut into: TierBuffer, done: TierDone) {
        let id = PageId::in_file(page.file, page.number);
        let mut state = self.shared.state.lock();
        let found = state.used.as_mut().and_then(|used| used.find(id, version));
        let was_waiting = matches!(found, Some((_, Bytes::Waiting(_))));
        state.rescues += u64::from(was_waiting);
        drop(state);
        let Some((envelope, bytes)) = found else { return done.absent(into) };
        if bytes.copy_to(&mut into) {
            done.filled(into, envelope);
        } else {
            self.shared.state.lock().failures += 1;
            done.absent(into);
        }
    }

    fn forget(&self, pages: TierRange) {
        if let Some(used) = &mut self.shared.state.lock().used {
            pages.each_of(&*used.order).into_iter().for_each(|page| used.forget(page));
        }
    }

    fn report(&self) -> TierReport {
        let state = self.shared.state.lock();
        let Some(used) = &state.used else { return TierReport::new("compressed memory, in use by no pool") };
        let bytes_max = self.bytes_max;
        TierReport {
            pages: used.order.len().into(),
            bytes: used.bytes,
            metadata_bytes: used.order.metadata_bytes() as u64
                + (used.copies.capacity() * size_of::<Option<Copy>>()) as u64,
            rescues: state.rescues,
            failures: state.failures,
            ..TierReport::new(format!("memory, {bytes_max} bytes of pages of {} compressed", used.page_bytes))
        }
    }

    fn detach(&self) {
        let used = self.shared.state.lock().used.take();
        drop(used);
        self.shared.work.notify_all();
    }
}
