//! Hits on their way to the policy: one ring a thread.
//!
//! A hit is noted by its thread without a lock and applied to the directory later, in batches, by whoever holds the policy
//! lock ("BP-Wrapper", Ding, Jiang, Zhang, ICDE '09): the thread tries the lock when its ring is half full and waits
//! for it when the ring is full, and a miss drains the missing thread's ring before it asks for a frame. Each
//! thread's hits keep their order. A ring is written by its thread only and read under the policy lock only, so each of its
//! counters has one writer.
//!
//! Who makes a hit (tenant, call site, scopes) is the same again and again, so a ring keeps a small table of [`Key`]s, and an
//! entry has the page, the frame and the place of its key: 16 bytes. A hit that the [filter](crate::hits::filter) skips is counted
//! in its key and gets no entry, so that statistics are exact.
//!
//! Rings live for ever and are used again: a thread reaches its own through a plain reference, without counting.

use std::cell::RefCell;
use std::panic::Location;

use bufpool_policies::{FrameId, PageId, TenantId, mix64};
use crossbeam::atomic::AtomicCell;
use crossbeam::utils::CachePadded;

use crate::Site;
use crate::hits::call_site::{Place, SiteRef};
use crate::hits::filter::Watched;
use crate::sync::{AtomicU32, AtomicU64, Ordering, const_unless_loom};
use crate::thread::hot::{NO_RING, PoolRing, hot, no_keys};
use crate::thread::scope::ScopeId;

/// Entries of a ring; a power of two.
pub(crate) const RING_ENTRIES: usize = if cfg!(bufpool_loom) { 2 } else { 128 };
/// Keys of a ring; a power of two, at most 64. A thread that comes from more places than that drains its ring each time it has met
/// so many.
pub(crate) const KEYS: usize = if cfg!(bufpool_loom) { 2 } else { 64 };
/// Skipped hits of a key after which its ring is drained, since a thread whose hits are all skipped has no other occasion.
pub(crate) const SKIPS_A_DRAIN: u64 = 1 << 16;
/// Places looked at for a key.
const PROBES: usize = if cfg!(bufpool_loom) { 2 } else { 8 };
/// Bits of a frame number in an entry; the rest is the key's place.
const FRAME_BITS: u32 = 24;

/// One hit.
#[derive(Clone, Copy)]
pub(crate) struct Hit {
    pub page: PageId,
    pub frame: FrameId,
    pub tenant: TenantId,
    pub site: SiteRef,
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

/// The place of a key in its ring's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyPlace(u32);

/// A tenant of a pool, as its hits are told from those of others.
#[derive(Clone)]
pub(crate) struct Party {
    pub tenant: TenantId,
    /// What the filter looks at.
    pub watched: Watched,
    /// Differs from that of all other tenants, other pools' included, in bits all over.
    salt: u64,
}

impl Party {
    pub fn new(pool_serial: u64, tenant: TenantId) -> Self {
        // Not of the form in which scopes are numbered.
        let salt = mix64(mix64(pool_serial.rotate_left(32) ^ u64::from(tenant.0)).wrapping_add(SALT));
        Self { tenant, watched: Watched::by(tenant), salt }
    }
}

/// Any number.
const SALT: u64 = 0x9E37_79B9_7F4A_7C15;

/// What tells a key from others: pool, tenant, call site and scopes in one number.
///
/// Sites of one tenant outside of scopes have different numbers, since they lie at different addresses; otherwise two are the same as seldom as
/// random numbers of 64 bits, which is also how scopes are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Who(u64);

impl Who {
    /// Stands for nobody, in a key without use.
    const NOBODY: u64 = u64::MAX;

    #[inline(always)]
    pub fn new(party: &Party, site: SiteRef) -> Self {
        Self(site.place.address() as u64 ^ site.scope.0 ^ party.salt)
    }

    /// Where its key is looked for first. Descriptions of sites are some 24 bytes long and lie side by side, so their
    /// addresses differ in the bits from the third on.
    #[inline(always)]
    fn home(self) -> usize {
        (self.0 >> 3) as usize % KEYS
    }
}

/// Who makes hits: tenant, call site and scopes; and how many of them were skipped.
///
/// All but the last field are written by the ring's thread: the first five when the key is made, before it is marked as used.
#[cfg_attr(not(bufpool_loom), repr(align(64)))]
pub(crate) struct Key {
    /// As in [`Who`].
    who: AtomicU64,
    scope: AtomicU64,
    tenant: AtomicU32,
    /// At most one of the two is set.
    caller: AtomicCell<Option<&'static Location<'static>>>,
    named: AtomicCell<Option<&'static Site>>,
    skipped: AtomicU64,
    /// How many of these have been handed over. Written under the policy lock.
    skipped_taken: AtomicU64,
}

impl Key {
    const_unless_loom! {
        fn new() -> Self {
            Self {
                who: AtomicU64::new(Who::NOBODY),
                scope: AtomicU64::new(0),
                tenant: AtomicU32::new(0),
                caller: AtomicCell::new(None),
                named: AtomicCell::new(None),
                skipped: AtomicU64::new(0),
                skipped_taken: AtomicU64::new(0),
            }
        }
    }

    /// Counts a hit that gets no entry, for the ring's own thread. Now and then says that it is a good moment to drain.
    #[inline(always)]
    pub fn skip(&self) -> bool {
        let skipped = self.skipped.load(Ordering::Relaxed) + 1;
        self.skipped.store(skipped, Ordering::Relaxed);
        skipped.is_multiple_of(SKIPS_A_DRAIN)
    }

    #[inline(always)]
    fn is(&self, who: Who) -> bool {
        self.who.load(Ordering::Relaxed) == who.0
    }

    fn tenant(&self) -> TenantId {
        TenantId(self.tenant.load(Ordering::Relaxed))
    }

    fn site(&self) -> SiteRef {
        let place = self.caller.load().map(Place::Caller).or_else(|| self.named.load().map(Place::Named));
        let scope = ScopeId(self.scope.load(Ordering::Relaxed));
        SiteRef { place: place.expect("keys in use have a site"), scope }
    }
}

/// The keys of a ring.
pub(crate) struct Keys([Key; KEYS]);

impl Keys {
    /// Without use.
    #[cfg(not(bufpool_loom))]
    pub const fn new() -> Self {
        Self([const { Key::new() }; KEYS])
    }

    /// Without use.
    #[cfg(bufpool_loom)]
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| Key::new()))
    }

    /// The key of `who`, if it lies where it is looked for first. For the ring's own thread.
    #[inline(always)]
    pub fn get(&self, who: Who) -> Option<&Key> {
        Some(&self.0[who.home()]).filter(|key| key.is(who))
    }
}

#[derive(Default)]
struct Entry {
    page: AtomicU64,
    /// Frame in the lower [`FRAME_BITS`], the key's place above.
    frame_and_key: AtomicU32,
}

/// The hits of one thread in one pool.
pub(crate) struct Ring {
    /// Entries pushed so far. Written by the thread.
    pushed: CachePadded<AtomicU64>,
    /// Entries taken so far. Written under the policy lock.
    taken: CachePadded<AtomicU64>,
    /// One bit a key: it is in use. Written by the thread.
    keys_used: AtomicU64,
    keys: Keys,
    entries: Box<[Entry; RING_ENTRIES]>,
    /// [`THREAD`] and [`POOL`]: who still refers to the ring.
    users: AtomicU32,
}

/// The thread that fills a ring.
pub(crate) const THREAD: u32 = 1;
/// The pool that empties it.
pub(crate) const POOL: u32 = 2;

impl Ring {
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

    /// The key of `who`, which is `tenant` coming from `site`, made if there is room. For the ring's own thread.
    pub fn find_key(&self, who: Who, tenant: TenantId, site: SiteRef) -> Option<KeyPlace> {
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

    fn make_key(&self, place: usize, who: Who, tenant: TenantId, site: SiteRef) {
        let key = &self.keys.0[place];
        match site.place {
            Place::Caller(at) => key.caller.store(Some(at)),
            Place::Named(named) => {
                key.caller.store(None);
                key.named.store(Some(named));
            }
        }
        key.scope.store(site.scope.0, Ordering::Relaxed);
        key.tenant.store(tenant.0, Ordering::Relaxed);
        key.who.store(who.0, Ordering::Relaxed);
        // Release, so that whoever sees the key in use sees what it is.
        self.keys_used.fetch_or(1 << place, Ordering::Release);
    }

    /// Frees all keys. For the ring's own thread, under the policy lock, and after [`drain`](Self::drain).
    pub fn clear_keys(&self) {
        self.keys_used.store(0, Ordering::Relaxed);
        for key in self.keys.0.iter() {
            key.who.store(Who::NOBODY, Ordering::Relaxed);
        }
    }

    /// As [`Key::skip`].
    pub fn skip(&self, key: KeyPlace) -> bool {
        self.keys.0[key.0 as usize % KEYS].skip()
    }

    /// Adds a hit, for the ring's own thread. There is room unless the last push said [`Level::Full`].
    #[inline]
    pub fn push(&self, page: PageId, frame: FrameId, key: KeyPlace) -> Level {
        let pushed = self.pushed.load(Ordering::Relaxed);
        let entry = &self.entries[pushed as usize % RING_ENTRIES];
        entry.page.store(page.0, Ordering::Relaxed);
        debug_assert!(frame.0 < 1 << FRAME_BITS);
        entry.frame_and_key.store(key.0 << FRAME_BITS | frame.0, Ordering::Relaxed);
        // Release, so that whoever sees the new count sees the entry.
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

    /// The frames of the hits that [`drain`](Self::drain) would hand over now. The caller holds the policy lock.
    pub fn frames(&self) -> impl Iterator<Item = FrameId> + Clone {
        let pending = self.taken.load(Ordering::Relaxed)..self.pushed.load(Ordering::Acquire);
        pending.map(|at| self.entry(at).0)
    }

    /// Hands over all hits, oldest first. The caller holds the policy lock.
    pub fn drain(&self, mut apply: impl FnMut(Hit)) {
        let taken = self.taken.load(Ordering::Relaxed);
        let pushed = self.pushed.load(Ordering::Acquire);
        for at in taken..pushed {
            let (frame, key) = self.entry(at);
            let page = PageId(self.entries[at as usize % RING_ENTRIES].page.load(Ordering::Relaxed));
            apply(Hit { page, frame, tenant: key.tenant(), site: key.site() });
        }
        if taken != pushed {
            self.taken.store(pushed, Ordering::Release);
        }
    }

    /// Hands over the counts of skipped hits. The caller holds the policy lock.
    pub fn drain_skipped(&self, mut apply: impl FnMut(Skipped)) {
        let mut used = self.keys_used.load(Ordering::Acquire);
        while used != 0 {
            let key = &self.keys.0[used.trailing_zeros() as usize];
            used &= used - 1;
            let (taken, now) =
                (key.skipped_taken.load(Ordering::Relaxed), key.skipped.load(Ordering::Relaxed));
            if taken != now {
                key.skipped_taken.store(now, Ordering::Relaxed);
                apply(Skipped { hits: now - taken, tenant: key.tenant(), site: key.site() });
            }
        }
    }

    #[inline]
    fn entry(&self, at: u64) -> (FrameId, &Key) {
        let both = self.entries[at as usize % RING_ENTRIES].frame_and_key.load(Ordering::Relaxed);
        let frame = FrameId(both & ((1 << FRAME_BITS) - 1));
        (frame, &self.keys.0[(both >> FRAME_BITS) as usize % KEYS])
    }

    /// Its thread has ended; what it pushed and counted before is visible to whoever has seen this.
    pub fn is_abandoned(&self) -> bool {
        self.users.load(Ordering::Acquire) & THREAD == 0
    }

    /// One of the two users needs the ring no more. True for the last one.
    fn give_up(&self, user: u32) -> bool {
        let before = self.users.fetch_and(!user, Ordering::AcqRel);
        debug_assert!(before & user != 0);
        before == user
    }
}

/// Rings that nobody uses.
static SPARE: parking_lot::Mutex<Vec<&'static Ring>> = parking_lot::Mutex::new(Vec::new());

/// A ring for a thread and a pool.
fn take_ring() -> &'static Ring {
    let spare = SPARE.lock().pop();
    let Some(ring) = spare else { return Box::leak(Box::new(Ring::new())) };
    // Entries and counts go on from where they were; both sides are level, since whoever gave the ring up last has seen to it.
    ring.users.store(THREAD | POOL, Ordering::Relaxed);
    ring
}

/// A thread or a pool needs the ring no more; hits not handed over yet are lost.
pub(crate) fn give_up_ring(ring: &'static Ring, user: u32) {
    if ring.give_up(user) {
        ring.drain(|_| {});
        ring.drain_skipped(|_| {});
        ring.clear_keys();
        SPARE.lock().push(ring);
    }
}

/// The rings of one thread, with the serial numbers of their pools.
struct ThreadRings(Vec<(u64, &'static Ring)>);

impl Drop for ThreadRings {
    fn drop(&mut self) {
        set_last_ring(NO_RING);
        for (_, ring) in self.0.drain(..) {
            give_up_ring(ring, THREAD);
        }
    }
}

thread_local! {
    static RINGS: RefCell<ThreadRings> = const { RefCell::new(ThreadRings(Vec::new())) };
}

/// The keys of the ring that the calling thread used last, in whatever pool. Keys of other pools are not found there.
#[inline(always)]
pub(crate) fn last_keys() -> &'static Keys {
    hot(|thread| thread.keys.get())
}

fn set_last_ring(ring: PoolRing) {
    hot(|thread| {
        thread.last_ring.set(ring);
        thread.keys.set(ring.1.map_or_else(no_keys, |ring| &ring.keys));
    });
}

/// The calling thread's ring in the pool with this serial number, if it has one.
pub(crate) fn existing_ring(pool_serial: u64) -> Option<&'static Ring> {
    let (serial, ring) = hot(|thread| thread.last_ring.get());
    let last = if serial == pool_serial { ring } else { None };
    last.or_else(|| {
        let find = |rings: &RefCell<ThreadRings>| {
            rings.borrow().0.iter().find(|(serial, _)| *serial == pool_serial).map(|(_, ring)| *ring)
        };
        let ring = RINGS.try_with(find).ok().flatten()?;
        set_last_ring((pool_serial, Some(ring)));
        Some(ring)
    })
}

/// As [`existing_ring`], but makes one, which `register` is told of. None if the thread is ending and has no rings any more.
pub(crate) fn ring(pool_serial: u64, register: impl FnOnce(&'static Ring)) -> Option<&'static Ring> {
    existing_ring(pool_serial).or_else(|| {
        let add = |rings: &RefCell<ThreadRings>| {
            let mut rings = rings.borrow_mut();
            // Rings of pools that are gone.
            rings.0.retain(|(_, ring)| {
                let lives = ring.users.load(Ordering::Acquire) & POOL != 0;
                if !lives {
                    give_up_ring(ring, THREAD);
                }
                lives
            });
            let ring = take_ring();
            rings.0.push((pool_serial, ring));
            ring
        };
        let ring = RINGS.try_with(add).ok()?;
        set_last_ring((pool_serial, Some(ring)));
        register(ring);
        Some(ring)
    })
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;
    use crate::site;

    const TENANT: TenantId = TenantId(3);

    #[track_caller]
    fn key(ring: &Ring) -> KeyPlace {
        let site = SiteRef::caller();
        ring.find_key(Who::new(&Party::new(0, TENANT), site), TENANT, site).expect("room for a key")
    }

    fn push(ring: &Ring, page: u64) -> Level {
        ring.push(PageId(page), FrameId(page as u32), key(ring))
    }

    #[test]
    fn hits_come_out_as_they_went_in() {
        let ring = Ring::new();
        let (mut noted, mut skipped) = (0, 0);
        for round in 0..1000_u64 {
            let fill = round as usize % RING_ENTRIES;
            for page in 0..fill as u64 {
                assert_ne!(push(&ring, round + page), Level::Full);
            }
            (0..round).for_each(|_| {
                ring.skip(key(&ring));
            });
            let mut count = 0;
            let apply = |hit: Hit| {
                assert_eq!((hit.page.0, u64::from(hit.frame.0)), (round + count, round + count));
                assert_eq!(hit.tenant, TENANT);
                count += 1;
            };
            ring.drain(apply);
            ring.drain_skipped(|counted| skipped += counted.hits);
            noted += count;
            assert_eq!(count, fill as u64);
        }
        assert_eq!(noted, ring.pushed.load(Ordering::Relaxed));
        assert_eq!(skipped, (0..1000).sum::<u64>());
    }

    #[test]
    fn a_ring_says_when_it_is_full() {
        let ring = Ring::new();
        let levels: Vec<Level> = (0..RING_ENTRIES as u64).map(|page| push(&ring, page)).collect();
        assert!(levels[..RING_ENTRIES / 2 - 1].iter().all(|level| *level == Level::Low));
        assert_eq!(levels[RING_ENTRIES / 2 - 1], Level::Half);
        assert_eq!(levels[RING_ENTRIES - 1], Level::Full);
    }

    /// Also where nothing but one of the four differs.
    #[test]
    fn pools_tenants_sites_and_scopes_are_told_apart() {
        let site = |scope| SiteRef { place: Place::Named(site!("one")), scope: ScopeId(scope) };
        let other = SiteRef { place: Place::Named(site!("two")), scope: ScopeId(0) };
        let mut seen = std::collections::HashSet::new();
        for (serial, tenant) in (0..100).flat_map(|serial| (0..100).map(move |tenant| (serial, tenant))) {
            let party = Party::new(serial, TenantId(tenant));
            for site in [site(0), site(mix64(1)), other] {
                assert!(seen.insert(Who::new(&party, site).0), "{serial} {tenant}");
            }
        }
    }

    #[test]
    fn skipped_hits_are_handed_over_now_and_then() {
        let ring = Ring::new();
        let key = key(&ring);
        assert_eq!((0..3 * SKIPS_A_DRAIN).filter(|_| ring.skip(key)).count(), 3);
    }

    #[test]
    fn keys_are_told_apart_until_there_is_no_room() {
        let ring = Ring::new();
        let site = SiteRef { place: Place::Named(site!("probe")), scope: ScopeId::NONE };
        let who = |tenant| Who::new(&Party::new(0, TenantId(tenant)), site);
        let find_key = |tenant| ring.find_key(who(tenant), TenantId(tenant), site);
        let mut places = Vec::new();
        for tenant in 0.. {
            let Some(place) = find_key(tenant) else { break };
            assert_eq!(find_key(tenant), Some(place));
            ring.push(PageId(u64::from(tenant)), FrameId(0), place);
            (0..tenant).for_each(|_| assert!(!ring.skip(place)));
            places.push(place.0);
        }
        let distinct: std::collections::HashSet<u32> = places.iter().copied().collect();
        assert_eq!(distinct.len(), places.len());
        assert!(places.len() >= PROBES);
        let mut skipped = vec![0; places.len()];
        ring.drain(|hit| assert_eq!(u64::from(hit.tenant.0), hit.page.0));
        ring.drain_skipped(|counted| skipped[counted.tenant.index()] += counted.hits);
        assert_eq!(skipped, (0..places.len() as u64).collect::<Vec<_>>());
        ring.clear_keys();
        assert!(ring.keys.get(who(0)).is_none());
        assert!(find_key(places.len() as u32).is_some());
    }

    #[test]
    fn a_ring_is_used_again_once_thread_and_pool_are_gone() {
        let serial = u64::MAX - 1;
        let mut registered = None;
        let ring = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let ring = ring(serial, |new| registered = Some(new)).unwrap();
                assert!(std::ptr::eq(last_keys(), &ring.keys));
                push(ring, 1);
                ring
            });
            thread.join().unwrap()
        });
        assert!(std::ptr::eq(registered.unwrap(), ring));
        assert!(ring.is_abandoned());
        let mut pages = Vec::new();
        ring.drain(|hit| pages.push(hit.page.0));
        assert_eq!(pages, [1]);
        give_up_ring(ring, POOL);
        assert!(SPARE.lock().iter().any(|spare| std::ptr::eq(*spare, ring)));
    }
}
