//! A tier in memory of its own, compressed (feature `zstd`).

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use bufpool_policies::PageId;
use parking_lot::{Condvar, Mutex};

use crate::engine::PageName;
use crate::error::{Error, Result};
use crate::tier::buffer::{TierBuffer, TierPage};
use crate::tier::copies::{Client, Copies, Copy, Kept, Lookup, Offer};
use crate::tier::{Attachment, Demoted, Life, Tier, TierDone, TierRange, TierReport, Version, in_use};

/// The level of zstd that takes least time.
const LEVEL: i32 = 1;
/// The highest compression ratio that is expected on average.
const SMALLEST: u64 = 16;
/// Memory that a copy takes besides its bytes, counted against the limit.
const COPY_BYTES: usize = 96;

/// A tier in memory of its own that keeps pages compressed, so that more of them have room there than in as
/// much memory as frames.
///
/// A page that goes down is compressed by a thread of the tier, in some microseconds for 4 KiB, and by the
/// caller in deterministic mode. A page that is asked for before that is served uncompressed (a *rescue*). A
/// page that comes up is uncompressed by the thread that asks. Pages that do not become smaller are kept as
/// they are. The tier serves one pool at a time, and is empty after that.
pub struct CompressedTier {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    bytes_max: u64,
    /// None while no pool uses it.
    used: Option<Used>,
    /// How many pools have used it, the present one included.
    turn: u64,
    rescues: u64,
    failures: u64,
}

struct Used {
    page_bytes: usize,
    copies: Copies<Bytes>,
    /// Bytes of all copies that were compressed, with the memory that each takes besides.
    bytes: u64,
    /// Pages to be compressed, oldest first.
    waiting: VecDeque<(PageId, Arc<TierPage>)>,
    is_deterministic: bool,
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

    /// The bytes that the copy counts for.
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
    /// A tier with room for `bytes` bytes of compressed pages. The memory is taken when it is first needed.
    pub fn new(bytes: u64) -> Self {
        let state = Mutex::new(State { bytes_max: bytes, ..State::default() });
        Self { shared: Arc::new(Shared { state, work: Condvar::new() }) }
    }

    /// Gives it room for `bytes` bytes of compressed pages, also while a pool uses it. With less room, the
    /// pages that are next to go leave.
    ///
    /// # Errors
    ///
    /// If as many pages as may fit are more than a tier can have. Nothing has changed then.
    pub fn resize(&self, bytes: u64) -> Result<()> {
        let mut state = self.shared.state.lock();
        if let Some(used) = &mut state.used {
            used.resize(bytes)?;
        }
        state.bytes_max = bytes;
        Ok(())
    }

    fn keep(&self, page: PageName, bytes: TierPage, offer: Offer) -> Demoted {
        let id = PageId::in_file(page.file, page.number);
        let (envelope, bytes) = (bytes.envelope(), Arc::new(bytes));
        let mut state = self.shared.state.lock();
        let bytes_max = state.bytes_max;
        let Some(used) = &mut state.used else { return Demoted::Refused };
        let copy = Copy { envelope, bytes: Bytes::Waiting(Arc::clone(&bytes)) };
        let Kept { demoted, left } = used.copies.keep(id, copy, offer);
        used.left(left.as_ref());
        if matches!(demoted, Demoted::Refused | Demoted::PassedUp) {
            return demoted;
        }
        if used.is_deterministic {
            used.pack(id, &bytes, Bytes::compressed(&bytes), bytes_max);
        } else {
            used.waiting.push_back((id, bytes));
            drop(state);
            self.shared.work.notify_one();
        }
        demoted
    }
}

/// The most pages that may fit in so many bytes.
fn pages_in(bytes_max: u64, page_bytes: usize) -> u64 {
    bytes_max.saturating_mul(SMALLEST) / page_bytes as u64
}

impl Used {
    fn resize(&mut self, bytes_max: u64) -> Result<()> {
        let left = self.copies.resize(pages_in(bytes_max, self.page_bytes))?;
        left.iter().for_each(|left| self.left(Some(left)));
        self.make_room(bytes_max);
        Ok(())
    }

    /// Ejects pages, the next to go first, until the others fit.
    fn make_room(&mut self, bytes_max: u64) {
        while self.bytes > bytes_max && self.copies.len() > 0 {
            let ejected = self.copies.eject();
            self.left(ejected.as_ref());
        }
    }

    /// Notes that these bytes have left.
    fn left(&mut self, bytes: Option<&Bytes>) {
        self.bytes -= bytes.map_or(0, Bytes::len);
    }

    fn find(&mut self, page: PageId, version: Version) -> Lookup<Bytes> {
        let found = self.copies.find(page, version);
        match &found {
            Lookup::Right { copy, stays: false, .. } => self.left(Some(&copy.bytes)),
            Lookup::Stale(bytes) => self.left(Some(bytes)),
            Lookup::Right { stays: true, .. } | Lookup::Nothing => {}
        }
        found
    }

    /// Takes in a page that was compressed, unless it has left or changed meanwhile. Other pages make room
    /// for it.
    fn pack(&mut self, page: PageId, from: &Arc<TierPage>, bytes: Bytes, bytes_max: u64) {
        let Some(copy) = self.copies.get_mut(page) else { return };
        if matches!(&copy.bytes, Bytes::Waiting(waiting) if Arc::ptr_eq(waiting, from)) {
            self.bytes += bytes.len();
            copy.bytes = bytes;
        }
        self.make_room(bytes_max);
    }
}

impl Shared {
    /// Compresses waiting pages, until the pool that this thread was started for is gone: the `turn`th pool
    /// to use the tier.
    fn compress(this: &Weak<Self>, turn: u64) {
        while let Some(shared) = this.upgrade() {
            let mut state = shared.state.lock();
            let is_over = state.turn != turn;
            let Some(used) = state.used.as_mut().filter(|_| !is_over) else { return };
            let Some((page, bytes)) = used.waiting.pop_front() else {
                shared.work.wait(&mut state);
                continue;
            };
            drop(state);
            let compressed = Bytes::compressed(&bytes);
            let mut state = shared.state.lock();
            let bytes_max = state.bytes_max;
            if state.turn == turn
                && let Some(used) = &mut state.used
            {
                used.pack(page, &bytes, compressed, bytes_max);
            }
        }
    }
}

impl Tier for CompressedTier {
    fn attach(&self, to: &Attachment) -> Result<()> {
        let mut state = self.shared.state.lock();
        if state.used.is_some() {
            return Err(in_use());
        }
        let &Attachment { page_bytes, is_deterministic, .. } = to;
        // `frames` is scaled as the number of pages is, by the best compression ratio, so that the tier's
        // share of all pages is as if none became smaller. The probability of promoting begins there.
        let client = Client { frames: to.frames.saturating_mul(SMALLEST as u32), ..Client::from(to) };
        let copies = Copies::new(client, pages_in(state.bytes_max, page_bytes))?;
        let (turn, bytes_max) = (state.turn + 1, state.bytes_max);
        if !is_deterministic {
            let shared = Arc::downgrade(&self.shared);
            let thread = std::thread::Builder::new().name("bufpool-zstd".into());
            let started = thread.spawn(move || Shared::compress(&shared, turn));
            started.map_err(|error| Error::from_io("open tier", error))?;
        }
        let used = Used { page_bytes, copies, bytes: 0, waiting: VecDeque::new(), is_deterministic };
        *state = State { bytes_max, used: Some(used), turn, ..State::default() };
        Ok(())
    }

    fn demote(&self, page: PageName, _: Version, bytes: TierPage) -> Demoted {
        self.keep(page, bytes, Offer::Demotion)
    }

    fn fill(&self, page: PageName, _: Version, bytes: TierPage) -> Demoted {
        self.keep(page, bytes, Offer::Fill)
    }

    fn hear_life(&self, life: Life) {
        if let Some(used) = &mut self.shared.state.lock().used {
            used.copies.hear_life(life);
        }
    }

    fn take(&self, page: PageName, version: Version, mut into: TierBuffer, done: TierDone) {
        let id = PageId::in_file(page.file, page.number);
        let mut state = self.shared.state.lock();
        let found = state.used.as_mut().map_or(Lookup::Nothing, |used| used.find(id, version));
        let Lookup::Right { copy, stays_below, .. } = found else {
            // The pool's code that is told may call the tier.
            drop(state);
            return done.absent(into);
        };
        state.rescues += u64::from(matches!(copy.bytes, Bytes::Waiting(_)));
        drop(state);
        if copy.bytes.copy_to(&mut into) {
            done.give(into, copy.envelope, stays_below);
        } else {
            self.shared.state.lock().failures += 1;
            done.absent(into);
        }
    }

    fn forget(&self, pages: TierRange) {
        let mut state = self.shared.state.lock();
        let Some(used) = &mut state.used else { return };
        for page in used.copies.pages_of(&pages) {
            let left = used.copies.forget(page);
            used.left(left.as_ref());
        }
    }

    fn report(&self) -> TierReport {
        let state = self.shared.state.lock();
        let Some(used) = &state.used else { return TierReport::new("compressed memory, in use by no pool") };
        let bytes_max = state.bytes_max;
        TierReport {
            pages: used.copies.len().into(),
            bytes: used.bytes,
            metadata_bytes: used.copies.metadata_bytes(),
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
