//! Futures: where loads land, and where wakers wait.

use std::task::Waker;

use bufpool_policies::PageId;
use loom::sync::Arc;
use loom::thread;

use super::{Page, Woken, latch, lease, model, pool_waker};
use crate::landing::Landing;
use crate::page::latch::{Exclusive, Latch, Loading, Patience, Shared, acquire_resident, park_future};
use crate::page::word::Want;
use crate::wakers::PoolWaker;

/// A future is dropped while its load is in flight, or when it has just landed: the page is there for others,
/// and no pin is left.
#[test]
fn a_dropped_future_in_flight() {
    struct Pinned(Arc<Page>);
    impl Drop for Pinned {
        fn drop(&mut self) {
            self.0.frame.unpin();
        }
    }
    model(|| {
        let page = Page::absent();
        let landing = Arc::new(Landing::<Pinned>::new());
        let load = {
            let (page, landing) = (Arc::clone(&page), Arc::clone(&landing));
            thread::spawn(move || {
                let loading = Loading::try_new_detached(&page.word).ok().expect("nobody else loads");
                page.write(7);
                page.frame.occupy(PageId(0));
                let waker = landing.land(|| {
                    page.frame.pin();
                    Pinned(Arc::clone(&page))
                });
                loading.publish_unlatched(lease());
                waker.into_iter().for_each(PoolWaker::hand_over);
            })
        };
        let landed = landing.poll(|| Some(pool_waker(Waker::noop())));
        if landed.is_some() {
            assert_eq!(page.frame.pins(), 1, "landed and kept");
        }
        drop(landed);
        landing.abandon();
        assert_eq!(page.frame.pins(), 0, "nothing is held for a future that is gone");
        load.join().unwrap();
        assert_eq!(page.frame.pins(), 0);
        let held = acquire_resident::<_, Exclusive>(&page.word, &mut { Patience::None }).ok().flatten();
        assert!(held.is_some() && page.read() == 7);
    });
}

/// A future that leaves its waker while the page is released is woken, or finds the page free.
#[test]
fn a_future_that_waits_is_woken() {
    use std::sync::atomic::{AtomicBool, Ordering};
    model(|| {
        let page = Page::resident();
        let held = latch::<Exclusive>(&page);
        let woken = std::sync::Arc::new(Woken(AtomicBool::new(false)));
        let future = {
            let (page, woken) = (Arc::clone(&page), std::sync::Arc::clone(&woken));
            thread::spawn(move || {
                loop {
                    match Latch::<_, Shared>::try_new(&page.word) {
                        Ok(_) => return false,
                        Err(state)
                            if park_future(
                                &page.word,
                                state,
                                Want::Shared,
                                1,
                                pool_waker(&woken.clone().into()),
                            ) =>
                        {
                            return true;
                        }
                        Err(_) => thread::yield_now(),
                    }
                }
            })
        };
        drop(held);
        let parked = future.join().unwrap();
        assert!(!parked || woken.0.load(Ordering::Relaxed), "parked for ever");
    });
}
