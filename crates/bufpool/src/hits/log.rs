//! Hits on their way to the policy: one ring a thread.
//!
//! A hit is noted by its thread without a lock and applied to the directory later, in batches, by a thread
//! that holds the policy lock ("BP-Wrapper", Ding, Jiang, Zhang, ICDE '09): the thread tries the lock when
//! its ring is half full and waits for it when the ring is full, and a miss drains the missing thread's ring
//! before it asks for a frame. Each thread's hits keep their order. A ring is written by its thread only and
//! read under the policy lock only, so each of its counters has one writer.
//!
//! Who makes a hit (tenant, call site, scopes) is the same again and again, so a ring keeps a small table of
//! [`Key`](crate::thread::keys::Key)s, and an entry has the page, the frame and the place of its key: 16
//! bytes. A hit that the [filter](crate::hits::filter) skips is counted in its key and gets no entry, so that
//! statistics are exact.
//!
//! Rings live for ever and are used again: a thread reaches its own through a plain reference, without
//! counting. The ring of a thread that has ended is [taken back](Logs::take_back) by misses and by threads
//! that begin, a few at a time, so that there are not many more rings than there were threads at one time.

use std::cell::RefCell;
use std::sync::atomic::AtomicU64;

use crate::sync::Ordering;
use crate::thread::hot::{NO_RING, PoolRing, hot, no_keys};
use crate::thread::keys::Keys;
use crate::thread::ring::{HitRing, POOL, THREAD};

/// Rings that nobody uses.
static SPARE: parking_lot::Mutex<Vec<&'static HitRing>> = parking_lot::Mutex::new(Vec::new());

/// A ring for a thread and a pool.
fn take_ring() -> &'static HitRing {
    let spare = SPARE.lock().pop();
    let Some(ring) = spare else { return Box::leak(Box::new(HitRing::new())) };
    // Entries and counts go on from where they were: the last user has drained the ring when it gave it up.
    ring.users.store(THREAD | POOL, Ordering::Relaxed);
    ring
}

/// A thread or a pool needs the ring no more; hits not handed over yet are lost.
pub(crate) fn give_up_ring(ring: &'static HitRing, user: u32) {
    if ring.give_up(user) {
        ring.drain(|_, _| {});
        ring.drain_skipped(|_| {});
        ring.clear_keys();
        SPARE.lock().push(ring);
    }
}

/// The rings of one thread, with the serial numbers of their pools.
struct ThreadRings(Vec<(u64, &'static HitRing)>);

impl Drop for ThreadRings {
    fn drop(&mut self) {
        set_last_ring(NO_RING);
        for (_, ring) in self.0.drain(..) {
            give_up_ring(ring, THREAD);
        }
        // Release, so that who sees the count finds the rings given up.
        ENDED.fetch_add(1, Ordering::Release);
    }
}

/// Threads of the process that had rings and have ended.
static ENDED: AtomicU64 = AtomicU64::new(0);

/// Threads of the process that had rings and have ended so far.
pub(crate) fn threads_ended() -> u64 {
    ENDED.load(Ordering::Acquire)
}

/// The rings of a pool's threads.
#[derive(Default)]
pub(crate) struct Logs {
    rings: Vec<&'static HitRing>,
    /// The next ring to be looked at, in a look at all of them.
    next: usize,
    /// How many threads had ended when that look began.
    ended: u64,
    /// How many threads had ended when the latest completed look began. None of their rings is here any more.
    ended_seen: u64,
}

impl Logs {
    /// A thread has made a ring.
    pub fn add(&mut self, ring: &'static HitRing) {
        self.rings.push(ring);
    }

    /// Looks at all rings: `apply` takes what is in them, and those of ended threads are given up.
    pub fn drain(&mut self, mut apply: impl FnMut(&HitRing)) {
        self.rings.retain(|ring| {
            // Before it is drained: nothing is added afterwards.
            let is_abandoned = ring.is_abandoned();
            apply(ring);
            if is_abandoned {
                give_up_ring(ring, POOL);
            }
            !is_abandoned
        });
        self.next = 0;
    }

    /// How many rings there are.
    pub fn len(&self) -> usize {
        self.rings.len()
    }

    /// As [`drain`](Self::drain), for at most `count` rings, those just before number `end`. Returns the
    /// `end` for the next call. A series of calls that begins with [`len`](Self::len) has drained all rings
    /// of that moment when it returns 0.
    pub fn drain_before(&mut self, end: usize, count: usize, mut apply: impl FnMut(&HitRing)) -> usize {
        let end = end.min(self.rings.len());
        let first = end.saturating_sub(count);
        for at in (first..end).rev() {
            let ring = self.rings[at];
            let is_abandoned = ring.is_abandoned();
            apply(ring);
            if is_abandoned {
                give_up_ring(ring, POOL);
                // The one that takes its place has been drained, or was added meanwhile.
                self.rings.swap_remove(at);
            }
        }
        self.next = 0;
        first
    }

    /// How many threads had [ended](threads_ended) when the latest completed look at all rings began.
    pub fn ended_seen(&self) -> u64 {
        self.ended_seen
    }

    /// Looks at the next `count` rings, if threads have ended: `apply` takes what is in the rings of those,
    /// and they are given up.
    pub fn take_back(&mut self, count: usize, mut apply: impl FnMut(&HitRing)) {
        let ended = threads_ended();
        for _ in 0..count {
            if ended == self.ended_seen {
                return;
            }
            if self.next == 0 {
                self.ended = ended;
            }
            match self.rings.get(self.next) {
                Some(ring) if ring.is_abandoned() => {
                    apply(ring);
                    give_up_ring(self.rings.swap_remove(self.next), POOL);
                }
                Some(_) => self.next += 1,
                None => {
                    self.next = 0;
                    self.ended_seen = self.ended;
                }
            }
        }
    }

    /// The pool has ended.
    pub fn give_up(&mut self) {
        self.rings.drain(..).for_each(|ring| give_up_ring(ring, POOL));
    }
}

thread_local! {
    static RINGS: RefCell<ThreadRings> = const { RefCell::new(ThreadRings(Vec::new())) };
}

/// The keys of the ring that the calling thread used last, in whatever pool. Keys of other pools are not
/// found there.
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
pub(crate) fn existing_ring(pool_serial: u64) -> Option<&'static HitRing> {
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

/// As [`existing_ring`], but makes one, which `register` is told of. None if the thread is ending and has no
/// rings any more.
pub(crate) fn ring(pool_serial: u64, register: impl FnOnce(&'static HitRing)) -> Option<&'static HitRing> {
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
    use bufpool_policies::{FrameId, PageId, TenantId, mix64};

    use super::*;
    use crate::site;
    use crate::thread::context::ScopeId;
    use crate::thread::keys::{KeyPlace, SKIPS_A_DRAIN, SiteHash, TenantTag};
    use crate::thread::ring::{Hit, Level, PROBES, RING_ENTRIES};
    use crate::thread::site::{CallPlace, Origin, PageClass, SiteRef};

    const TENANT: TenantId = TenantId(3);

    #[track_caller]
    fn key(ring: &HitRing) -> KeyPlace {
        let site = SiteRef::caller();
        ring.find_key(SiteHash::new(&TenantTag::new(0, TENANT), site), TENANT, site).expect("room for a key")
    }

    fn creates_page(page: u64) -> bool {
        page.is_multiple_of(3)
    }

    fn push(ring: &HitRing, page: u64) -> Level {
        ring.push(PageId(page), FrameId(page as u32), key(ring), creates_page(page))
    }

    #[test]
    fn hits_come_out_as_they_went_in() {
        let ring = HitRing::new();
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
            let apply = |hit: Hit, _| {
                assert_eq!((hit.page.0, u64::from(hit.frame.0)), (round + count, round + count));
                assert_eq!((hit.tenant, hit.creates), (TENANT, creates_page(hit.page.0)));
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
        let ring = HitRing::new();
        let levels: Vec<Level> = (0..RING_ENTRIES as u64).map(|page| push(&ring, page)).collect();
        assert!(levels[..RING_ENTRIES / 2 - 1].iter().all(|level| *level == Level::Low));
        assert_eq!(levels[RING_ENTRIES / 2 - 1], Level::Half);
        assert_eq!(levels[RING_ENTRIES - 1], Level::Full);
    }

    /// Also where nothing but one of the five differs.
    #[test]
    fn pools_tenants_sites_scopes_and_classes_are_told_apart() {
        let (one, two) = (CallPlace::Named(site!("one")), CallPlace::Named(site!("two")));
        let site = |scope| Origin::new(one, Some(ScopeId(scope)), PageClass::NONE).site();
        let other = Origin::new(two, Some(ScopeId::NONE), PageClass::NONE).site();
        let sites = || {
            let classes = (1..=255).map(|class| site(0).in_class(class));
            classes.chain([site(0), site(mix64(1)), other])
        };
        let mut seen = std::collections::HashSet::new();
        for (serial, tenant) in (0..50).flat_map(|serial| (0..50).map(move |tenant| (serial, tenant))) {
            let tag = TenantTag::new(serial, TenantId(tenant));
            for site in sites() {
                assert!(seen.insert(SiteHash::new(&tag, site).0), "{serial} {tenant}");
            }
        }
    }

    #[test]
    fn skipped_hits_are_handed_over_now_and_then() {
        let ring = HitRing::new();
        let key = key(&ring);
        assert_eq!((0..3 * SKIPS_A_DRAIN).filter(|_| ring.skip(key)).count(), 3);
    }

    #[test]
    fn keys_are_told_apart_until_there_is_no_room() {
        let ring = HitRing::new();
        let site =
            SiteRef { place: CallPlace::Named(site!("probe")), scope: ScopeId::NONE, class: PageClass::NONE };
        let who = |tenant| SiteHash::new(&TenantTag::new(0, TenantId(tenant)), site);
        let find_key = |tenant| ring.find_key(who(tenant), TenantId(tenant), site);
        let mut places = Vec::new();
        for tenant in 0.. {
            let Some(place) = find_key(tenant) else { break };
            assert_eq!(find_key(tenant), Some(place));
            ring.push(PageId(u64::from(tenant)), FrameId(0), place, false);
            (0..tenant).for_each(|_| assert!(!ring.skip(place)));
            places.push(place.0);
        }
        let distinct: std::collections::HashSet<u32> = places.iter().copied().collect();
        assert_eq!(distinct.len(), places.len());
        assert!(places.len() >= PROBES);
        let mut skipped = vec![0; places.len()];
        ring.drain(|hit, _| assert_eq!(u64::from(hit.tenant.0), hit.page.0));
        ring.drain_skipped(|counted| skipped[counted.tenant.index()] += counted.hits);
        assert_eq!(skipped, (0..places.len() as u64).collect::<Vec<_>>());
        let mut tenants: Vec<u32> = ring.tenants().map(|tenant| tenant.0).collect();
        tenants.sort_unstable();
        assert_eq!(tenants, (0..places.len() as u32).collect::<Vec<_>>());
        ring.clear_keys();
        assert!(ring.keys.get(who(0)).is_none());
        assert!(find_key(places.len() as u32).is_some());
        assert_eq!(ring.tenants().map(TenantId::index).collect::<Vec<_>>(), [places.len()]);
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
        ring.drain(|hit, _| pages.push(hit.page.0));
        assert_eq!(pages, [1]);
        give_up_ring(ring, POOL);
        assert!(SPARE.lock().iter().any(|spare| std::ptr::eq(*spare, ring)));
    }

    /// A pool of a few pages, all of them in memory.
    fn pool_of(pages: u64) -> (crate::Tenant, crate::File) {
        let device = crate::io::sim::SimDevice::new(1);
        device.put("data", &vec![0; 4096 * pages as usize]);
        let options = crate::PoolOptions::new().page_bytes(4096).frames(64).threads_max(8).read_ahead(false);
        let pool = options.open_on(&device).unwrap();
        let file = pool.open_file("data", crate::FileOptions::new()).unwrap();
        let tenant = pool.default_tenant();
        (0..8).for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
        (tenant, file)
    }

    /// Nobody misses, and nobody asks for statistics.
    #[test]
    fn threads_that_begin_take_back_the_logs_of_threads_that_have_ended() {
        let (tenant, file) = pool_of(8);
        for _ in 0..500 {
            let read = || drop(tenant.read(file.page(7)).unwrap());
            std::thread::scope(|scope| scope.spawn(read).join().unwrap());
        }
        let left = tenant.pool.logs.lock().rings.len();
        assert!(left <= 8, "{left} logs of 500 threads, one at a time");
        let mut policy = tenant.pool.policy.lock();
        tenant.pool.drain_logs(&mut policy);
        assert_eq!(policy.directory.stats().accesses, 508);
    }

    #[test]
    fn misses_take_back_the_logs_of_threads_that_have_ended() {
        const THREADS: usize = 100;
        let (tenant, file) = pool_of(1000);
        let all_here = std::sync::Barrier::new(THREADS);
        std::thread::scope(|scope| {
            let read = || {
                drop(tenant.read(file.page(7)).unwrap());
                all_here.wait();
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(read)).collect();
            // The end of the scope does not wait for what threads do when they end.
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        assert!(tenant.pool.logs.lock().rings.len() >= THREADS);
        for number in 8..8 + THREADS as u64 {
            drop(tenant.read(file.page(number)).unwrap());
        }
        let left = tenant.pool.logs.lock().rings.len();
        assert!(left <= 8, "{left} logs, and a thread");
    }
}
