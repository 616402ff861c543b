//! Reads without a latch, against writers and against eviction.

use loom::sync::Arc;
use loom::thread;

use super::{Page, latch, model};
use crate::page::latch::Exclusive;
use crate::page::word::{Begun, PageWord};
use crate::sync::{AtomicU64, Ordering, fence, relax};
use crate::thread::reader::Reader;

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
