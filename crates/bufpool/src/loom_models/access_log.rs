//! The access log: entries, counts of skipped hits, and keys.

use bufpool_policies::{FrameId, PageId, TenantId};
use loom::sync::Arc;
use loom::thread;

use super::model;
use crate::thread::keys::{KeyPlace, SiteHash, TenantTag};
use crate::thread::ring::{HitRing, Level, POOL, RING_ENTRIES, THREAD};
use crate::thread::site::SiteRef;

fn find_key(ring: &HitRing, tenant: u32) -> Option<KeyPlace> {
    let site = SiteRef::caller().masked(0);
    let tenant = TenantId(tenant);
    ring.find_key(SiteHash::new(&TenantTag::new(0, tenant), site), tenant, site)
}

/// Noted hits come out once each and in order, skipped ones are counted once each, by whichever thread they
/// are drained.
#[test]
fn the_access_log_loses_and_doubles_nothing() {
    model(|| {
        let ring = Arc::new(HitRing::new());
        let policy = Arc::new(loom::sync::Mutex::new((Vec::new(), 0)));
        let drain = |ring: &HitRing, policy: &loom::sync::Mutex<(Vec<u64>, u64)>| {
            let mut seen = policy.lock().unwrap();
            ring.drain(|hit, _| seen.0.push(hit.page.0));
            ring.drain_skipped(|skipped| seen.1 += skipped.hits);
        };
        let drainer = {
            let (ring, policy) = (Arc::clone(&ring), Arc::clone(&policy));
            thread::spawn(move || drain(&ring, &policy))
        };
        let pushes = RING_ENTRIES as u64 + 1;
        for page in 0..pushes {
            let key = find_key(&ring, 0).expect("room for one key");
            ring.skip(key);
            if ring.push(PageId(page), FrameId(0), key, false) == Level::Full {
                drain(&ring, &policy);
            }
        }
        drainer.join().unwrap();
        drain(&ring, &policy);
        assert_eq!(*policy.lock().unwrap(), ((0..pushes).collect::<Vec<_>>(), pushes));
    });
}

/// A key that is made and used while another thread drains is never seen half made, and keys are cleared
/// under the lock.
#[test]
fn keys_are_seen_whole() {
    model(|| {
        let ring = Arc::new(HitRing::new());
        let lock = Arc::new(loom::sync::Mutex::new(0));
        let drain = |ring: &HitRing, counted: &mut u64| {
            ring.drain(|hit, _| assert_eq!(u64::from(hit.tenant.0), hit.page.0));
            ring.drain_skipped(|skipped| *counted += u64::from(skipped.tenant.0) * skipped.hits);
        };
        let drainer = {
            let (ring, lock) = (Arc::clone(&ring), Arc::clone(&lock));
            thread::spawn(move || drain(&ring, &mut lock.lock().unwrap()))
        };
        for tenant in 1..=3 {
            let find = || find_key(&ring, tenant);
            let key = find().unwrap_or_else(|| {
                let mut counted = lock.lock().unwrap();
                drain(&ring, &mut counted);
                ring.clear_keys();
                find().expect("room")
            });
            ring.skip(key);
            if ring.push(PageId(u64::from(tenant)), FrameId(0), key, false) == Level::Full {
                drain(&ring, &mut lock.lock().unwrap());
            }
        }
        drainer.join().unwrap();
        let mut counted = lock.lock().unwrap();
        drain(&ring, &mut counted);
        assert_eq!(*counted, 6);
    });
}

/// A thread ends while its pool looks whether it has. The pool takes the ring back with all that is in it.
#[test]
fn the_log_of_a_thread_that_ends_is_taken_back_whole() {
    model(|| {
        let ring = Arc::new(HitRing::new());
        let thread = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let key = find_key(&ring, 0).expect("room for one key");
                ring.skip(key);
                ring.push(PageId(7), FrameId(0), key, false);
                assert!(!ring.give_up(THREAD), "the pool has it still");
            })
        };
        let (mut pages, mut skipped) = (Vec::new(), 0);
        let mut look = || {
            // Before it is drained: nothing is added afterwards.
            let is_abandoned = ring.is_abandoned();
            ring.drain(|hit, _| pages.push(hit.page.0));
            ring.drain_skipped(|more| skipped += more.hits);
            if is_abandoned {
                assert_eq!((pages.as_slice(), skipped), ([7].as_slice(), 1));
                assert!(ring.give_up(POOL), "nobody has it any more");
            }
            is_abandoned
        };
        let is_over = look();
        thread.join().unwrap();
        assert!(is_over || look());
    });
}
