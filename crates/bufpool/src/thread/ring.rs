//! The hits of one thread in one pool, on their way to the policy.

use bufpool_policies::{FrameId, PageId, TenantId};
use crossbeam::utils::CachePadded;

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::thread::keys::{KEYS, Key, KeyPlace, Keys, SiteHash};
use crate::thread::site::{CallPlace, SiteRef};

/// Entries of a ring; a power of two.
pub(crate) const RING_ENTRIES: usize = if cfg!(bufpool_loom) { 2 } else { 128 };
/// Places looked at for a key.
pub(crate) const PROBES: usize = if cfg!(bufpool_loom) { 2 } else { 8 };
/// Bits of a frame number in an entry. Above them are the key's place and, in the highest, [`CREATES`].
pub(crate) const FRAME_BITS: u32 = 24;
/// The bit of a hit that gave its page new contents.
const CREATES: u32 = 1 << 31;
const _: () = assert!(KEYS << FRAME_BITS <= CREATES as usize, "a key's place lies below the bit");

/// One hit.
#[derive(Clone, Copy)]
pub(crate) struct Hit {
    pub page: PageId,
    pub frame: FrameId,
    pub tenant: TenantId,
    pub site: SiteRef,
    /// Whether the access gave the page new contents.
    pub creates: bool,
}

/// Hits of one tenant at one call site that were not noted one by one.
#[derive(Clone, Copy)]
pub(crate) struct Skipped {
    pub hits: u64,
    pub tenant: TenantId,
    pub site: SiteRef,
}

/// How full a ring is after a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    /// Nothing to do.
    Low,
    /// A good moment to drain, if the lock is free.
    Half,
    /// The next push needs a drain.
    Full,
}

#[derive(Default)]
struct Entry {
    pub(crate) page: AtomicU64,
    /// The frame in the lower [`FRAME_BITS`], above it the key's place, and [`CREATES`] in the highest bit.
    pub(crate) frame_and_key: AtomicU32,
}

/// The hits of one thread in one pool.
pub(crate) struct HitRing {
    /// Entries pushed so far. Written by the thread.
    pub(crate) pushed: CachePadded<AtomicU64>,
    /// Entries taken so far. Written under the policy lock.
    pub(crate) taken: CachePadded<AtomicU64>,
    /// One bit a key: it is in use. Written by the thread.
    pub(crate) keys_used: AtomicU64,
    pub(crate) keys: Keys,
    entries: Box<[Entry; RING_ENTRIES]>,
    /// [`THREAD`] and [`POOL`]: who still refers to the ring.
    pub(crate) users: AtomicU32,
}

/// The thread that fills a ring.
pub(crate) const THREAD: u32 = 1;
/// The pool that empties it.
pub(crate) const POOL: u32 = 2;

impl HitRing {
    pub fn new() -> Self {
        Self {
            pushed: CachePadded::new(AtomicU64::new(0)),
            taken: CachePadded::new(AtomicU64::new(0)),
            keys_used: AtomicU64::new(0),
            keys: Keys::new(),
            entries: std::array::from_fn::<_, RING_ENTRIES, _>(|_| Entry::default()).into(),
            users: AtomicU32::new(THREAD | POOL),
        }
    }

    /// The key of `who`, which is `tenant` coming from `site`, made if there is room. For the ring's own
    /// thread.
    pub fn find_key(&self, who: SiteHash, tenant: TenantId, site: SiteRef) -> Option<KeyPlace> {
        let used = self.keys_used.load(Ordering::Relaxed);
        for probe in 0..PROBES {
            let place = (who.home() + probe) % KEYS;
            if self.keys.0[place].is(who) {
                return Some(KeyPlace(place as u32));
            }
            if used & (1 << place) == 0 {
                self.make_key(place, who, tenant, site);
                return Some(KeyPlace(place as u32));
            }
        }
        None
    }

    pub(crate) fn make_key(&self, place: usize, who: SiteHash, tenant: TenantId, site: SiteRef) {
        let key = &self.keys.0[place];
        match site.place {
            CallPlace::Caller(at) => key.caller.store(Some(at)),
            CallPlace::Named(named) => {
                key.caller.store(None);
                key.named.store(Some(named));
            }
        }
        key.scope.store(site.scope.0, Ordering::Relaxed);
        key.tenant.store(tenant.0, Ordering::Relaxed);
        key.class.store(site.class.0, Ordering::Relaxed);
        key.who.store(who.0, Ordering::Relaxed);
        // Release, so that a thread that sees the key in use sees its fields.
        let used = self.keys_used.load(Ordering::Relaxed);
        self.keys_used.store(used | 1 << place, Ordering::Release);
    }

    /// Frees all keys, after [`drain`](Self::drain). For the ring's own thread under the policy lock, or for
    /// its last user.
    pub fn clear_keys(&self) {
        self.keys_used.store(0, Ordering::Relaxed);
        for key in self.keys.0.iter() {
            key.who.store(SiteHash::NOBODY, Ordering::Relaxed);
        }
    }

    /// As [`Key::skip`].
    pub fn skip(&self, key: KeyPlace) -> bool {
        self.keys.0[key.0 as usize % KEYS].skip()
    }

    /// Adds a hit, for the ring's own thread. There is room unless the last push said [`Level::Full`].
    #[inline]
    pub fn push(&self, page: PageId, frame: FrameId, key: KeyPlace, creates: bool) -> Level {
        let pushed = self.pushed.load(Ordering::Relaxed);
        let entry = &self.entries[pushed as usize % RING_ENTRIES];
        entry.page.store(page.0, Ordering::Relaxed);
        debug_assert!(frame.0 < 1 << FRAME_BITS);
        let creates = if creates { CREATES } else { 0 };
        entry.frame_and_key.store(creates | key.0 << FRAME_BITS | frame.0, Ordering::Relaxed);
        // Release, so that a thread that sees the new count sees the entry.
        self.pushed.store(pushed + 1, Ordering::Release);
        // Acquire pairs with the release in `drain`: the entries counted as taken have been read.
        match pushed + 1 - self.taken.load(Ordering::Acquire) {
            full if full >= RING_ENTRIES as u64 => Level::Full,
            // At half, and once more each time the lock was not free for an eighth of the ring.
            fill if fill >= RING_ENTRIES as u64 / 2 && fill % (RING_ENTRIES as u64 / 8).max(1) == 0 => {
                Level::Half
            }
            _ => Level::Low,
        }
    }

    /// The frames of the hits that [`drain`](Self::drain) would hand over now. The caller holds the policy
    /// lock.
    pub fn frames(&self) -> impl Iterator<Item = FrameId> + Clone {
        let pending = self.taken.load(Ordering::Relaxed)..self.pushed.load(Ordering::Acquire);
        pending.map(|at| self.entry(at).0)
    }

    /// Hands over all hits, oldest first, each with its key. The caller holds the policy lock.
    pub fn drain(&self, mut apply: impl FnMut(Hit, KeyPlace)) {
        let taken = self.taken.load(Ordering::Relaxed);
        let pushed = self.pushed.load(Ordering::Acquire);
        for at in taken..pushed {
            let (frame, place, creates) = self.entry(at);
            let key = &self.keys.0[place.0 as usize % KEYS];
            let page = PageId(self.entries[at as usize % RING_ENTRIES].page.load(Ordering::Relaxed));
            apply(Hit { page, frame, tenant: key.tenant(), site: key.site(), creates }, place);
        }
        if taken != pushed {
            self.taken.store(pushed, Ordering::Release);
        }
    }

    /// The keys in use. The caller holds the policy lock.
    fn keys_in_use(&self) -> impl Iterator<Item = &Key> {
        let mut used = self.keys_used.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            let place = Some(used.trailing_zeros() as usize).filter(|_| used != 0)?;
            used &= used - 1;
            Some(&self.keys.0[place])
        })
    }

    /// The tenants of the keys in use, one a key. The caller holds the policy lock.
    pub fn tenants(&self) -> impl Iterator<Item = TenantId> {
        self.keys_in_use().map(Key::tenant)
    }

    /// Hands over the counts of skipped hits. The caller holds the policy lock.
    pub fn drain_skipped(&self, mut apply: impl FnMut(Skipped)) {
        for key in self.keys_in_use() {
            let (taken, now) =
                (key.skipped_taken.load(Ordering::Relaxed), key.skipped.load(Ordering::Relaxed));
            if taken != now {
                key.skipped_taken.store(now, Ordering::Relaxed);
                apply(Skipped { hits: now - taken, tenant: key.tenant(), site: key.site() });
            }
        }
    }

    #[inline]
    pub(crate) fn entry(&self, at: u64) -> (FrameId, KeyPlace, bool) {
        let both = self.entries[at as usize % RING_ENTRIES].frame_and_key.load(Ordering::Relaxed);
        let frame = FrameId(both & ((1 << FRAME_BITS) - 1));
        (frame, KeyPlace((both & !CREATES) >> FRAME_BITS), both & CREATES != 0)
    }

    /// Its thread has ended; what it pushed and counted before is visible to a caller that has seen this.
    pub fn is_abandoned(&self) -> bool {
        self.users.load(Ordering::Acquire) & THREAD == 0
    }

    /// One of the two users needs the ring no more. True for the last one.
    pub(crate) fn give_up(&self, user: u32) -> bool {
        let before = self.users.fetch_and(!user, Ordering::AcqRel);
        debug_assert!(before & user != 0);
        before == user
    }
}
