//! Every interleaving of a few steps of two or three threads, explored by loom.
//!
//! `RUSTFLAGS="--cfg bufpool_loom" cargo test -p bufpool --lib --release --target-dir target-loom
//! loom_models`
//!
//! Loom reports a lost wake-up as a deadlock, and the checked cells report two threads in a page's bytes at
//! once.
//!
//! What the models of the access log, of reads without latches and of the latch detect. Each line was tried
//! by breaking the code by hand:
//!
//! | broken | fails |
//! | --- | --- |
//! | `HitRing::push` stores its count relaxed; `drain` stores its own too early, or not at all, or not that of skipped hits | [`the_access_log_loses_and_doubles_nothing`] |
//! | a key is marked as used relaxed, or before it is filled | [`keys_are_seen_whole`] |
//! | `is_as` or `still` without its fence; a writer does not count its change; a word held exclusively may be read | [`optimistic_reads_are_whole`] |
//! | a read begins without its barrier, or ends relaxed; the waiter looks relaxed, or does not wait | [`eviction_against_an_optimistic_reader`] |
//! | a latch is taken, or let go of, relaxed; the last holder wakes nobody | [`readers_and_writers_exclude_one_another_and_all_are_woken`] |
//! | a share is left relaxed, or without its barrier | [`a_share_that_is_left_when_its_handle_is_given_up`] |
//! | numbers of unsynced changes are read in the other order | [`what_was_written_is_seen_until_it_is_synced`] |
//!
//! Not detected: an optimistic read that begins with a relaxed load of the word.

use std::sync::LazyLock;
use std::task::Waker;

use bufpool_policies::{FileId, FrameId, PageId, TenantId};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::files::gate::Gate;
use crate::files::unsynced::UnsyncedLsn;
use crate::landing::Landing;
use crate::memory::arena::{Arena, FrameMap};
use crate::memory::frame::{Frame, WriteEnds};
use crate::memory::lease::FrameLease;
use crate::memory::reserve::Reserve;
use crate::owner::Owner;
use crate::page::latch::{
    Acquired, Exclusive, Latch, Loading, Mode, Patience, Shared, acquire, acquire_resident, park_future,
    wait_while_ahead, wake,
};
use crate::page::table::{PageTable, PageTableBudget};
use crate::page::word::{Begun, PageWord};
use crate::policy::mutex::PolicyMutex;
use crate::sync::{AtomicU64, Mutex, Ordering, fence, relax};
use crate::thread::keys::{KeyPlace, SiteHash, TenantTag};
use crate::thread::reader::Reader;
use crate::thread::ring::{HitRing, Level, RING_ENTRIES};
use crate::thread::site::SiteRef;
use crate::thread::spare::Spare;
use crate::wakers::{PoolWaker, WakerThread};

const PATIENT: Patience = Patience::Limit(std::time::Duration::MAX);

/// Explores with at most two preemptions, which is where nearly all races show.
fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(body);
}

/// A page with one frame: its word, its entry in the frame table, and its contents.
struct Page {
    word: PageWord,
    frame: Frame,
    contents: UnsafeCell<u32>,
}

// SAFETY: `contents` is only touched under the word's latches, which is what the models check.
unsafe impl Sync for Page {}
// SAFETY: `contents` is only touched under the word's latches, which is what the models check.
unsafe impl Send for Page {}

fn lease() -> FrameLease {
    Arena::new(1, 4096).expect("one page of memory").1.pop().expect("one frame")
}

fn latch<M: Mode>(page: &Page) -> Latch<&PageWord, M> {
    acquire_resident(&page.word, &mut { PATIENT }).ok().flatten().expect("the page is resident")
}

impl Page {
    fn absent() -> Arc<Self> {
        Arc::new(Self { word: PageWord::new(), frame: Frame::empty(), contents: UnsafeCell::new(0) })
    }

    fn resident() -> Arc<Self> {
        let page = Self::absent();
        page.frame.occupy(PageId(0));
        let Ok((Acquired::Load(loading), _)) = acquire::<_, Shared>(&page.word, &mut { PATIENT }) else {
            unreachable!()
        };
        drop(loading.publish::<Shared>(lease()));
        page
    }

    fn read(&self) -> u32 {
        // SAFETY: the caller holds a latch; loom fails the model if somebody writes meanwhile.
        self.contents.with(|contents| unsafe { *contents })
    }

    fn write(&self, value: u32) {
        // SAFETY: the caller holds the exclusive latch; loom fails the model if somebody else is here.
        self.contents.with_mut(|contents| unsafe { *contents = value });
    }
}

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

/// The schedule that has broken an existing pool library: a change during a flush must not be marked clean.
#[test]
fn a_writer_that_arrives_during_a_flush_stays_dirty() {
    model(|| {
        let page = Page::resident();
        page.frame.mark_dirty();
        let writer = {
            let page = Arc::clone(&page);
            thread::spawn(move || {
                let mut held = latch::<Exclusive>(&page);
                held.set_changed();
                page.frame.mark_dirty();
                page.write(1);
            })
        };
        let held = latch::<Shared>(&page);
        assert!(page.frame.begin_write());
        let (mark, in_file) = (page.frame.mark(), page.read());
        drop(held);
        page.frame.mark_written(mark);
        page.frame.end_write();
        writer.join().unwrap();
        assert!(page.frame.is_dirty() || in_file == 1);
    });
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

/// One thread at a time has the policy lock, and no thread sleeps on when the lock is free.
#[test]
fn the_policy_lock_excludes_and_wakes() {
    model(|| {
        let mutex = Arc::new(PolicyMutex::new(0));
        let add = |mutex: &PolicyMutex<u32>| {
            let mut count = mutex.lock();
            let seen = *count;
            thread::yield_now();
            *count = seen + 1;
        };
        let others = [(); 2].map(|()| {
            let mutex = Arc::clone(&mutex);
            thread::spawn(move || add(&mutex))
        });
        add(&mutex);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*mutex.lock(), 3);
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

/// The other schedule that has broken an existing pool library: everything is flushed while a thread holds a
/// page exclusively and fetches another, for which a page that the flush may be writing has to leave.
#[test]
fn flushing_everything_against_a_holder_who_fetches_another_page() {
    model(|| {
        let pages = [Page::resident(), Page::resident()];
        pages.iter().for_each(|page| assert!(page.frame.mark_dirty()));
        let (policy, ends) = (Arc::new(Mutex::<()>::default()), Arc::new(WriteEnds::default()));
        let holder = {
            let (pages, policy, ends) = (pages.clone(), Arc::clone(&policy), Arc::clone(&ends));
            thread::spawn(move || {
                let mut held = latch::<Exclusive>(&pages[0]);
                held.set_changed();
                pages[0].frame.mark_dirty();
                pages[0].write(1);
                // A miss: the other page is the only victim. It is tried under the policy lock, never waited
                // for there.
                let victim = loop {
                    let locked = policy.lock();
                    let claimed = Latch::<_, Exclusive>::try_new(&pages[1].word).ok();
                    drop(locked);
                    match claimed.filter(|_| !pages[1].frame.is_writing()) {
                        Some(victim) => break victim,
                        None => ends.wait(&pages[1].frame),
                    }
                    thread::yield_now();
                };
                let (departing, _lease) = victim.depart();
                let was_dirty = pages[1].frame.is_dirty();
                pages[1].frame.vacate(false);
                drop(departing);
                drop(held);
                was_dirty
            })
        };
        // A flush: what is latched now is waited for later, one page at a time, with nothing held.
        let written: Vec<bool> = pages
            .iter()
            .map(|page| {
                let held =
                    acquire_resident::<_, Shared>(&page.word, &mut { PATIENT }).ok().expect("no deadlock");
                let Some(held) = held else { return false };
                if !page.frame.is_dirty() || !page.frame.begin_write() {
                    return false;
                }
                let mark = page.frame.mark();
                drop(held);
                page.frame.mark_written(mark);
                page.frame.end_write();
                ends.announce();
                true
            })
            .collect();
        let left_dirty = holder.join().unwrap();
        assert!(left_dirty != written[1], "written by one of the two, and only once");
        assert!(pages[0].frame.is_dirty() || written[0]);
    });
}

/// A resident page is written from a copy in the reserve and changed meanwhile, while a miss waits for the
/// frame of the copy. The miss gets the frame when the copy is written, and not before. The page is clean
/// only if its present contents were written.
#[test]
fn a_copy_in_flight_while_a_miss_waits_for_its_frame() {
    model(|| {
        let (page, ends) = (Page::resident(), Arc::new(WriteEnds::default()));
        assert!(page.frame.mark_dirty());
        // The reserve has one frame, whose bytes are those of a page without a name.
        let (reserve, spare) = (Arc::new(Reserve::new(1, vec![lease()], 0, 0)), Page::absent());
        let writer = {
            let (page, ends) = (Arc::clone(&page), Arc::clone(&ends));
            let (reserve, spare) = (Arc::clone(&reserve), Arc::clone(&spare));
            thread::spawn(move || {
                let held = latch::<Shared>(&page);
                let copy = reserve.take_spare()?;
                assert!(page.frame.begin_write());
                let mark = page.frame.mark();
                spare.write(page.read());
                drop(held);
                // The device takes its time.
                thread::yield_now();
                let written = spare.read();
                page.frame.mark_written(mark);
                page.frame.end_write();
                reserve.give_back([copy]);
                ends.announce();
                Some(written)
            })
        };
        let changer = {
            let page = Arc::clone(&page);
            thread::spawn(move || {
                let mut held = latch::<Exclusive>(&page);
                held.set_changed();
                page.frame.mark_dirty();
                page.write(2);
            })
        };
        let lease = reserve.take_until(std::time::Instant::now()).expect("waited for");
        spare.write(9);
        let written = writer.join().unwrap();
        changer.join().unwrap();
        assert!(page.frame.is_dirty() || written == Some(2), "{written:?}");
        assert!(!page.frame.is_writing() && !reserve.has_free());
        reserve.give_back([lease]);
    });
}

/// A reserve of one frame has borrowed another; both are in flight, and a miss waits. The miss gets one of
/// them, and the pool gets the borrowed one back, once.
#[test]
fn borrowed_frames_come_back_beside_a_miss_that_waits() {
    model(|| {
        let mut leases = Arena::new(2, 4096).expect("two pages of memory").1;
        let victim = leases.pop().expect("two frames");
        let reserve = Arc::new(Reserve::new(2, leases, 0, 1));
        reserve.borrow(1);
        let in_flight = [reserve.take().expect("its own"), victim];
        let pool = Arc::new(Mutex::new(Vec::new()));
        let writers = in_flight.map(|lease| {
            let (reserve, pool) = (Arc::clone(&reserve), Arc::clone(&pool));
            thread::spawn(move || {
                reserve.give_back([lease]);
                if reserve.has_surplus() {
                    let mut pool = pool.lock();
                    pool.extend(reserve.repay(reserve.frames()));
                }
            })
        });
        let lease = reserve.take_until(std::time::Instant::now()).expect("waited for");
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        reserve.give_back([lease]);
        if reserve.has_surplus() {
            pool.lock().extend(reserve.repay(reserve.frames()));
        }
        let repaid = pool.lock().len();
        assert_eq!((repaid, reserve.free(), reserve.borrowed()), (1, 1, 0));
    });
}

/// A dirty victim leaves with its frame, which a miss waits for, while another thread wants the victim. The
/// frame gets its next page when the victim is in its file, and a thread that finds the victim absent finds
/// it in the file.
#[test]
fn a_departing_page_its_reader_and_a_miss_that_waits_for_its_frame() {
    struct Word(Arc<Page>);
    impl std::ops::Deref for Word {
        type Target = PageWord;
        fn deref(&self) -> &PageWord {
            &self.0.word
        }
    }
    struct File(UnsafeCell<u32>);
    // SAFETY: written by the writer before the page is absent, and read by who has found it absent, which is
    // what the model checks.
    unsafe impl Sync for File {}
    // SAFETY: written by the writer before the page is absent, and read by who has found it absent, which is
    // what the model checks.
    unsafe impl Send for File {}
    model(|| {
        let (victim, file) = (Page::resident(), Arc::new(File(UnsafeCell::new(0))));
        let reserve = Arc::new(Reserve::new(1, Vec::new(), 0, 0));
        assert!(victim.frame.mark_dirty());
        let mut held =
            Latch::<_, Exclusive>::try_new(Word(Arc::clone(&victim))).ok().expect("nobody else has it");
        held.set_changed();
        victim.write(7);
        let (departing, lease) = held.depart();
        let writer = {
            let (victim, file, reserve) = (Arc::clone(&victim), Arc::clone(&file), Arc::clone(&reserve));
            thread::spawn(move || {
                // SAFETY: nobody reads the file before the page is absent; loom fails the model otherwise.
                file.0.with_mut(|contents| unsafe { *contents = victim.read() });
                victim.frame.vacate(false);
                reserve.give_back([lease]);
                drop(departing);
            })
        };
        let reader = {
            let (victim, file) = (Arc::clone(&victim), Arc::clone(&file));
            thread::spawn(move || {
                match acquire::<_, Shared>(&victim.word, &mut { PATIENT }).ok().expect("no deadlock").0 {
                    Acquired::Latched(_) => unreachable!("it is departing, and nobody brings it in"),
                    // SAFETY: the page is absent, so its writer is through.
                    Acquired::Load(_loading) => file.0.with(|contents| unsafe { *contents }),
                }
            })
        };
        let _lease = reserve.take_until(std::time::Instant::now()).expect("waited for");
        victim.frame.occupy(PageId(1));
        victim.write(9);
        writer.join().unwrap();
        assert_eq!(reader.join().unwrap(), 7);
        assert!(victim.word.state().is_absent());
        assert_eq!(victim.frame.page(), Some(PageId(1)), "the frame is the next page's");
    });
}

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

/// A waker that notes that it was used.
struct Woken(std::sync::atomic::AtomicBool);

impl std::task::Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// As a pool adopts it. In the models a waker runs where it is handed over.
fn pool_waker(waker: &Waker) -> PoolWaker {
    static THREAD: LazyLock<WakerThread> =
        LazyLock::new(|| WakerThread::new(Owner::new().expect("one page of memory")));
    THREAD.adopt(waker).expect("no thread is needed")
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
                            if park_future(&page.word, state, 1, pool_waker(&woken.clone().into())) =>
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

/// A page table grows while others look words up: a thread that finds a word may use it, and a page has one
/// word for all.
#[test]
fn a_page_table_grows_under_its_readers() {
    fn address(table: &PageTable, number: u64) -> Option<usize> {
        table.get(number).map(|word| {
            assert!(word.state().is_absent());
            std::ptr::from_ref(word).addr()
        })
    }
    model(|| {
        let table = Arc::new(PageTable::new(FileId(0), FrameMap::none()));
        let budget = Arc::new(PageTableBudget::new(u64::MAX));
        let make = |number| {
            let (table, budget) = (Arc::clone(&table), Arc::clone(&budget));
            thread::spawn(move || {
                let word = table.get_or_allocate(number, &budget).expect("there is no limit");
                std::ptr::from_ref(word).addr()
            })
        };
        let makers = [make(0), make(2)];
        let seen = address(&table, 0);
        let made = makers.map(|maker| maker.join().unwrap());
        assert!(seen.is_none_or(|seen| seen == made[0]));
        assert_eq!([address(&table, 0), address(&table, 2)], made.map(Some));
        assert_eq!(budget.bytes(), 3 * size_of::<u64>() as u64);
    });
}

/// What an optimistic read sees and confirms was left by one writer. As in the pool, the quick way to
/// confirm it and the other way are used one at a time.
#[test]
fn optimistic_reads_are_whole() {
    for confirm in [PageWord::is_as, |word: &PageWord, begun: Begun| word.still(begun.version())] {
        model(move || {
            let page = Page::resident();
            let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            let writer = {
                let (page, words) = (Arc::clone(&page), Arc::clone(&words));
                thread::spawn(move || {
                    for value in 1..=2 {
                        let mut held = latch::<Exclusive>(&page);
                        held.set_changed();
                        fence(Ordering::Release);
                        words[0].store(value, Ordering::Relaxed);
                        words[1].store(value, Ordering::Relaxed);
                    }
                })
            };
            if let Some(begun) = page.word.begin_optimistic() {
                let seen = [0, 1].map(|word: usize| words[word].load(Ordering::Relaxed));
                if confirm(&page.word, begun) {
                    assert_eq!(seen[0], seen[1], "torn");
                    assert_eq!(seen[0], u64::from(begun.version().changes()), "of another version");
                }
            }
            writer.join().unwrap();
            assert_eq!(page.word.state().version(), 2);
        });
    }
}

/// A page leaves while it is read without a latch; its frame is written with ordinary stores only after the
/// reader has ended.
#[test]
fn eviction_against_an_optimistic_reader() {
    model(|| {
        let page = Page::resident();
        let reader = Arc::new(Reader::new(true));
        let evictor = {
            let (page, reader) = (Arc::clone(&page), Arc::clone(&reader));
            thread::spawn(move || {
                let (departing, _lease) = latch::<Exclusive>(&page).depart();
                drop(departing);
                fence(Ordering::SeqCst);
                if let Some(read) = reader.reading() {
                    while reader.is_at(read) {
                        relax();
                    }
                }
                // The next page of the frame: loom fails the model if somebody reads meanwhile.
                page.write(99);
            })
        };
        let section = reader.enter().expect("not within another");
        if let Some(begun) = page.word.begin_optimistic() {
            let seen = page.read();
            assert_eq!(seen, 0, "the frame is used again while it is read");
            page.word.still(begun.version());
        }
        drop(section);
        evictor.join().unwrap();
        assert!(page.word.state().is_absent());
    });
}

/// A guard ends in a thread that leaves its share for the next guard, while the handle is given up. The
/// share is dropped once, and after all that was done with it.
#[test]
fn a_share_that_is_left_when_its_handle_is_given_up() {
    model(|| {
        struct Kept {
            spare: Spare,
            given_up: AtomicU64,
            shares: AtomicU64,
            contents: UnsafeCell<u32>,
        }
        // SAFETY: `contents` is only touched by who has a share; loom fails the model otherwise.
        unsafe impl Sync for Kept {}
        // SAFETY: what it has may be touched by any one thread at a time.
        unsafe impl Send for Kept {}

        fn let_go(kept: &Kept) {
            if kept.shares.fetch_sub(1, Ordering::AcqRel) == 1 {
                // SAFETY: nobody else has a share.
                kept.contents.with_mut(|contents| unsafe { *contents = 1 });
            }
        }

        let shared = std::ptr::without_provenance_mut(64);
        let kept = Arc::new(Kept {
            spare: Spare::shut(),
            given_up: AtomicU64::new(0),
            shares: AtomicU64::new(2),
            contents: UnsafeCell::new(0),
        });
        kept.spare.open();
        let guard = {
            let kept = Arc::clone(&kept);
            thread::spawn(move || {
                // SAFETY: the guard has a share.
                assert_eq!(kept.contents.with(|contents| unsafe { *contents }), 0);
                let is_left = kept.spare.put(shared);
                if is_left && kept.given_up.load(Ordering::Relaxed) != 0 && kept.spare.take_away(shared) {
                    let_go(&kept);
                }
            })
        };
        kept.given_up.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if kept.spare.take_away(shared) {
            let_go(&kept);
        }
        let_go(&kept);
        guard.join().unwrap();
        assert!(kept.spare.get().is_none());
        assert_eq!(kept.shares.load(Ordering::Acquire), 0);
        // SAFETY: the other thread has ended.
        assert_eq!(kept.contents.with(|contents| unsafe { *contents }), 1);
    });
}

/// A page is written and becomes clean while a sync begins. Whoever finds it clean finds what its redo needs.
#[test]
fn what_was_written_is_seen_until_it_is_synced() {
    model(|| {
        let shared = Arc::new((UnsyncedLsn::new(), AtomicU64::new(0)));
        let writing = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.0.note(5);
                shared.1.store(1, Ordering::Release);
            })
        };
        let syncing = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.0.begin_sync())
        };
        let is_clean = shared.1.load(Ordering::Acquire) == 1;
        let least = shared.0.least();
        assert!(!is_clean || least == Some(5), "{least:?}");
        writing.join().unwrap();
        syncing.join().unwrap();
        assert_eq!(shared.0.least(), Some(5));
    });
}
