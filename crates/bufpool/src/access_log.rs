//! Hits on their way to the policy: one ring a thread.
//!
//! A hit is noted by its thread without a lock and applied to the directory later, in batches, by whoever holds the policy
//! lock ("BP-Wrapper", Ding, Jiang, Zhang, ICDE '09): the thread tries the lock when its ring is half full and waits
//! for it when the ring is full, and a miss drains the missing thread's ring before it asks for a frame. Each
//! thread's hits keep their order. A ring is written by its thread only and read under the policy lock only, so each of its
//! two counters has one writer.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bufpool_policies::{FrameId, PageId, TenantId};
use crossbeam::atomic::AtomicCell;
use crossbeam::utils::CachePadded;

use crate::Site;
use crate::call_site::{Place, SiteRef};
use crate::scope::ScopeId;
use crate::sync::{AtomicU64, Ordering};

/// Entries of a ring; a power of two.
pub(crate) const RING_ENTRIES: usize = if cfg!(bufpool_loom) { 2 } else { 128 };

/// One hit.
#[derive(Clone, Copy)]
pub(crate) struct Hit {
    pub page: PageId,
    pub frame: FrameId,
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
    page: AtomicU64,
    /// Frame in the lower half, tenant in the upper.
    frame_and_tenant: AtomicU64,
    scope: AtomicU64,
    /// At most one of the two is set.
    caller: AtomicCell<Option<&'static Location<'static>>>,
    named: AtomicCell<Option<&'static Site>>,
}

/// The hits of one thread in one pool.
pub(crate) struct Ring {
    /// Entries pushed so far. Written by the thread.
    pushed: CachePadded<AtomicU64>,
    /// Entries taken so far. Written under the policy lock.
    taken: CachePadded<AtomicU64>,
    entries: Box<[Entry]>,
    /// The thread has ended.
    abandoned: AtomicBool,
}

impl Ring {
    pub fn new() -> Self {
        Self {
            pushed: CachePadded::new(AtomicU64::new(0)),
            taken: CachePadded::new(AtomicU64::new(0)),
            entries: (0..RING_ENTRIES).map(|_| Entry::default()).collect(),
            abandoned: AtomicBool::new(false),
        }
    }

    /// Adds a hit, for the ring's own thread. There is room unless the last push said [`Level::Full`].
    #[inline]
    pub fn push(&self, hit: Hit) -> Level {
        let pushed = self.pushed.load(Ordering::Relaxed);
        let entry = &self.entries[pushed as usize % RING_ENTRIES];
        entry.page.store(hit.page.0, Ordering::Relaxed);
        let tenant = u64::from(hit.tenant.0) << 32;
        entry.frame_and_tenant.store(tenant | u64::from(hit.frame.0), Ordering::Relaxed);
        entry.scope.store(hit.site.scope.0, Ordering::Relaxed);
        match hit.site.place {
            Place::Caller(at) => entry.caller.store(Some(at)),
            Place::Named(site) => {
                entry.caller.store(None);
                entry.named.store(Some(site));
            }
        }
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

    /// Hands over all hits, oldest first. The caller holds the policy lock.
    pub fn drain(&self, mut apply: impl FnMut(Hit)) {
        let taken = self.taken.load(Ordering::Relaxed);
        let pushed = self.pushed.load(Ordering::Acquire);
        for at in taken..pushed {
            let entry = &self.entries[at as usize % RING_ENTRIES];
            let frame_and_tenant = entry.frame_and_tenant.load(Ordering::Relaxed);
            let place =
                entry.caller.load().map(Place::Caller).or_else(|| entry.named.load().map(Place::Named));
            let scope = ScopeId(entry.scope.load(Ordering::Relaxed));
            apply(Hit {
                page: PageId(entry.page.load(Ordering::Relaxed)),
                frame: FrameId(frame_and_tenant as u32),
                tenant: TenantId((frame_and_tenant >> 32) as u32),
                site: SiteRef { place: place.expect("every push sets a site"), scope },
            });
        }
        if taken != pushed {
            self.taken.store(pushed, Ordering::Release);
        }
    }

    /// Empty for good.
    pub fn is_finished(&self) -> bool {
        // Acquire: what the thread pushed before it ended is visible to the comparison.
        self.abandoned.load(Ordering::Acquire)
            && self.taken.load(Ordering::Relaxed) == self.pushed.load(Ordering::Relaxed)
    }
}

/// The rings of one thread, with the serial numbers of their pools; the last used first.
struct ThreadRings(Vec<(u64, Arc<Ring>)>);

impl Drop for ThreadRings {
    fn drop(&mut self) {
        for (_, ring) in &self.0 {
            ring.abandoned.store(true, Ordering::Release);
        }
    }
}

thread_local! {
    static RINGS: RefCell<ThreadRings> = const { RefCell::new(ThreadRings(Vec::new())) };
}

/// Calls `use_ring` with the calling thread's ring in the pool with this serial number, which `register` is told of when
/// it is new. None if the thread is ending and has no ring any more.
#[inline]
pub(crate) fn with_ring<R>(
    pool_serial: u64,
    register: impl FnOnce(&Arc<Ring>),
    use_ring: impl FnOnce(&Ring) -> R,
) -> Option<R> {
    RINGS
        .try_with(|rings| {
            let mut rings = rings.borrow_mut();
            match rings.0.first() {
                Some((serial, ring)) if *serial == pool_serial => use_ring(ring),
                _ => use_ring(find_or_add(&mut rings.0, pool_serial, register)),
            }
        })
        .ok()
}

/// As [`with_ring`], for a thread that may have none. Nothing happens then.
pub(crate) fn with_existing_ring(pool_serial: u64, use_ring: impl FnOnce(&Ring)) {
    let _ = RINGS.try_with(|rings| {
        let rings = rings.borrow();
        if let Some((_, ring)) = rings.0.iter().find(|(serial, _)| *serial == pool_serial) {
            use_ring(ring);
        }
    });
}

#[cold]
fn find_or_add(
    rings: &mut Vec<(u64, Arc<Ring>)>,
    pool_serial: u64,
    register: impl FnOnce(&Arc<Ring>),
) -> &Arc<Ring> {
    match rings.iter().position(|(serial, _)| *serial == pool_serial) {
        Some(at) => rings.swap(0, at),
        None => {
            // Rings that no pool knows any more belonged to pools that are gone.
            rings.retain(|(_, ring)| Arc::strong_count(ring) > 1);
            let ring = Arc::new(Ring::new());
            register(&ring);
            rings.insert(0, (pool_serial, ring));
        }
    }
    &rings[0].1
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    #[track_caller]
    fn hit(page: u64) -> Hit {
        Hit { page: PageId(page), frame: FrameId(page as u32), tenant: TenantId(3), site: SiteRef::caller() }
    }

    #[test]
    fn hits_come_out_as_they_went_in() {
        let ring = Ring::new();
        let mut next = 0;
        for round in 0..1000_u64 {
            let fill = round as usize % RING_ENTRIES;
            for page in 0..fill as u64 {
                assert_ne!(ring.push(hit(round + page)), Level::Full);
            }
            let mut count = 0;
            ring.drain(|hit| {
                assert_eq!((hit.page.0, hit.tenant.0), (round + count, 3));
                count += 1;
            });
            next += count;
            assert_eq!(count, fill as u64);
        }
        assert_eq!(next, ring.pushed.load(Ordering::Relaxed));
    }

    #[test]
    fn a_ring_says_when_it_is_full() {
        let ring = Ring::new();
        let levels: Vec<Level> = (0..RING_ENTRIES as u64).map(|page| ring.push(hit(page))).collect();
        assert!(levels[..RING_ENTRIES / 2 - 1].iter().all(|level| *level == Level::Low));
        assert_eq!(levels[RING_ENTRIES / 2 - 1], Level::Half);
        assert_eq!(levels[RING_ENTRIES - 1], Level::Full);
    }

    #[test]
    fn the_ring_of_an_ended_thread_is_finished_once_drained() {
        let mut registered = None;
        let thread_ring = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let mut ring = None;
                with_ring(u64::MAX, |new| ring = Some(Arc::clone(new)), |ring| ring.push(hit(1)));
                ring
            });
            thread.join().unwrap()
        });
        registered.clone_from(&thread_ring);
        let ring = registered.unwrap();
        assert!(!ring.is_finished());
        ring.drain(|_| {});
        assert!(ring.is_finished());
    }
}
