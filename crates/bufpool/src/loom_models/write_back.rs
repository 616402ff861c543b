//! Dirty pages on their way to their files: marks, write ends, the reserve and departing pages.

use bufpool_policies::PageId;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::{PATIENT, Page, latch, lease, model};
use crate::memory::arena::Arena;
use crate::memory::frame::WriteEnds;
use crate::memory::reserve::Reserve;
use crate::page::latch::{Acquired, Exclusive, Latch, Shared, acquire, acquire_resident};
use crate::page::word::PageWord;
use crate::sync::Mutex;

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
