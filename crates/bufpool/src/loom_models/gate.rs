//! A file's gate: loads against operations that close a file or shorten it.

use bufpool_policies::PageId;
use loom::sync::Arc;
use loom::thread;

use super::{PATIENT, Page, Woken, lease, model, pool_waker};
use crate::files::gate::Gate;
use crate::memory::frame::WriteEnds;
use crate::page::latch::{Acquired, Exclusive, Loading, Shared, acquire, acquire_resident};

/// A file is closed while a page of it is being loaded and another's write is in flight: neither touches a
/// frame that has a new owner.
#[test]
fn closing_with_reads_and_writes_in_flight() {
    model(|| {
        let gate = Arc::new(Gate::new(false, 2));
        let ends = Arc::new(WriteEnds::default());
        let (dirty, absent) = (Page::resident(), Page::absent());
        dirty.frame.mark_dirty();
        let writer = {
            let (page, ends) = (Arc::clone(&dirty), Arc::clone(&ends));
            thread::spawn(move || {
                let held =
                    acquire_resident::<_, Shared>(&page.word, &mut { PATIENT }).ok().expect("no deadlock");
                let Some(held) = held else { return };
                if page.frame.is_dirty() && page.frame.begin_write() {
                    let mark = page.frame.mark();
                    drop(held);
                    page.frame.mark_written(mark);
                    page.frame.end_write();
                    ends.announce();
                }
            })
        };
        let loader = {
            let (page, gate) = (Arc::clone(&absent), Arc::clone(&gate));
            thread::spawn(move || {
                let Ok(loading) = Loading::try_new(&page.word) else { unreachable!("nobody else loads it") };
                gate.fence_before_load();
                if gate.holds_off(0) || gate.is_closed() {
                    return false;
                }
                page.write(1);
                page.frame.occupy(PageId(0));
                drop(loading.publish::<Shared>(lease()));
                true
            })
        };
        let loads = gate.hold_off_loads(0);
        let mut seized = 0;
        for page in [&dirty, &absent] {
            if page.word.state().is_absent() {
                continue;
            }
            let held =
                acquire_resident::<_, Exclusive>(&page.word, &mut { PATIENT }).ok().expect("no deadlock");
            let Some(held) = held else { continue };
            ends.wait(&page.frame);
            page.frame.vacate(false);
            let (departing, _lease) = held.depart();
            drop(departing);
            // The frame has a new page, which is dirty and must stay so.
            page.frame.occupy(PageId(1));
            assert!(page.frame.mark_dirty());
            page.write(2);
            seized += 1;
        }
        gate.set_closed();
        drop(loads);
        let loaded = loader.join().unwrap();
        writer.join().unwrap();
        assert_eq!(seized, 1 + u32::from(loaded));
        for page in [&dirty, &absent] {
            assert!(page.word.state().is_absent(), "closed with a page in memory");
        }
        assert!(dirty.frame.is_dirty() && dirty.read() == 2);
    });
}

/// A load that the closing of a file holds off waits for the outcome, whatever it is; and no page is loaded
/// while pages are seized.
#[test]
fn a_load_that_is_held_off_sees_what_was_decided() {
    for closes in [false, true] {
        model(move || {
            let gate = Arc::new(Gate::new(false, 1));
            let page = Page::absent();
            let loader = {
                let (page, gate) = (Arc::clone(&page), Arc::clone(&gate));
                thread::spawn(move || {
                    loop {
                        let Ok((Acquired::Load(loading), _)) =
                            acquire::<_, Shared>(&page.word, &mut { PATIENT })
                        else {
                            unreachable!("nobody else loads it")
                        };
                        gate.fence_before_load();
                        if gate.holds_off(0) {
                            drop(loading);
                            assert!(gate.wait_until_decided(0, std::time::Instant::now()));
                            continue;
                        }
                        if gate.is_closed() {
                            return false;
                        }
                        page.write(1);
                        page.frame.occupy(PageId(0));
                        drop(loading.publish::<Shared>(lease()));
                        return true;
                    }
                })
            };
            let loads = gate.hold_off_loads(0);
            let held =
                acquire_resident::<_, Exclusive>(&page.word, &mut { PATIENT }).ok().expect("no deadlock");
            if closes {
                let was_loaded = held.is_some();
                if let Some(held) = held {
                    page.frame.vacate(false);
                    drop(held.depart().0);
                }
                gate.set_closed();
                drop(loads);
                assert_eq!(loader.join().unwrap(), was_loaded);
                assert!(page.word.state().is_absent(), "closed with a page in memory");
            } else {
                drop((held, loads));
                assert!(loader.join().unwrap(), "an operation that fails is not seen");
                assert!(page.word.state().is_unlatched());
            }
        });
    }
}

/// A future whose load is held off is woken when the operation is decided.
#[test]
fn a_future_that_is_held_off_is_woken() {
    use std::sync::atomic::{AtomicBool, Ordering};
    model(|| {
        let gate = Arc::new(Gate::new(false, 1));
        let loads = gate.hold_off_loads(0);
        let woken = std::sync::Arc::new(Woken(AtomicBool::new(false)));
        let future = {
            let (gate, woken) = (Arc::clone(&gate), std::sync::Arc::clone(&woken));
            thread::spawn(move || gate.park_future(0, 1, pool_waker(&woken.clone().into())))
        };
        drop(loads);
        let parked = future.join().unwrap();
        assert!(!parked || woken.0.load(Ordering::Relaxed), "parked for ever");
    });
}
