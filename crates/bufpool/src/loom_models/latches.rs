//! Latches on a page's word, against each other, against loads and against eviction.

use loom::sync::Arc;
use loom::thread;

use super::{PATIENT, Page, latch, lease, model};
use crate::page::latch::{
    Acquired, Exclusive, Latch, Shared, acquire, acquire_resident, wait_while_ahead, wake,
};

#[test]
fn readers_and_writers_exclude_one_another_and_all_are_woken() {
    model(|| {
        let page = Page::resident();
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let page = Arc::clone(&page);
                thread::spawn(move || {
                    let mut held = latch::<Exclusive>(&page);
                    held.set_changed();
                    page.write(page.read() + 1);
                })
            })
            .collect();
        let held = latch::<Shared>(&page);
        assert!(page.read() <= 2);
        drop(held);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!((page.read(), page.word.state().version()), (2, 2));
        assert!(page.word.state().is_unlatched());
    });
}

#[test]
fn two_loaders_of_one_page_load_it_once() {
    model(|| {
        let page = Page::absent();
        let load = |page: &Page| match acquire::<_, Shared>(&page.word, &mut { PATIENT })
            .ok()
            .expect("no deadlock")
            .0
        {
            Acquired::Latched(_held) => assert_eq!(page.read(), 7),
            Acquired::Load(loading) => {
                assert_eq!(page.read(), 0, "loaded once");
                page.write(7);
                drop(loading.publish::<Shared>(lease()));
            }
        };
        let other = Arc::clone(&page);
        let loader = thread::spawn(move || load(&other));
        load(&page);
        loader.join().unwrap();
    });
}

/// As of a call for many pages, which holds others meanwhile.
#[test]
fn a_page_on_its_way_arrives_or_not_for_one_who_waits() {
    for arrives in [false, true] {
        model(move || {
            let page = Page::absent();
            page.word.begin_load_ahead().expect("absent");
            let waiter = {
                let page = Arc::clone(&page);
                thread::spawn(move || {
                    wait_while_ahead(&page.word, &mut { PATIENT });
                    match Latch::<_, Shared>::try_new(&page.word) {
                        Ok(_held) => assert!(arrives && page.read() == 7),
                        Err(state) => assert!(!arrives && state.is_absent()),
                    }
                })
            };
            page.write(7);
            let woken =
                if arrives { page.word.publish_unlatched(lease().into_word()) } else { page.word.depart() };
            wake(&page.word, woken);
            waiter.join().unwrap();
        });
    }
}

/// An evictor takes the frame away while a reader comes, and a pin stops it.
#[test]
fn eviction_against_a_reader_and_a_pin() {
    model(|| {
        let page = Page::resident();
        let evictor = {
            let page = Arc::clone(&page);
            thread::spawn(move || {
                let Ok(held) = Latch::<_, Exclusive>::try_new(&page.word) else { return false };
                if page.frame.pins() > 0 {
                    return false;
                }
                let (departing, _lease) = held.depart();
                page.write(99);
                drop(departing);
                true
            })
        };
        let held = acquire_resident::<_, Shared>(&page.word, &mut { PATIENT }).ok().expect("no deadlock");
        let was_resident = held.is_some();
        if let Some(held) = held {
            page.frame.pin();
            drop(held);
            assert_eq!(page.read(), 0, "pinned, so its frame is its own");
            page.frame.unpin();
        }
        let evicted = evictor.join().unwrap();
        assert!(was_resident || evicted);
        assert_eq!(page.word.state().is_absent(), evicted);
    });
}
