//! What is known of pages when they leave, for a driver that may keep some of them elsewhere.

use crate::ids::FrameId;

/// Whether a page that leaves memory is likely to be missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageWorth {
    /// It was not accessed again after it came in.
    Once,
    /// It was.
    Again,
    /// It is of a stream that [reads its pages once](crate::Manager::reads_once).
    Never,
}

/// Which pages were accessed again, and what the page was worth that left last.
pub(super) struct Departures {
    /// One bit a frame.
    again: Vec<u64>,
    last: PageWorth,
    /// For how long it had not been used.
    last_age: u64,
}

impl Departures {
    pub fn new() -> Self {
        Self { again: Vec::new(), last: PageWorth::Once, last_age: 0 }
    }

    /// The page in the frame was accessed after it came in.
    pub fn accessed(&mut self, frame: FrameId) {
        let word = frame.index() / 64;
        if word >= self.again.len() {
            self.again.resize(word + 1, 0);
        }
        self.again[word] |= 1 << (frame.index() % 64);
    }

    /// The page in the frame leaves, which was not used for `age`.
    pub fn left(&mut self, frame: FrameId, reads_once: bool, age: u64) {
        self.last_age = age;
        let bit = 1 << (frame.index() % 64);
        let word = self.again.get_mut(frame.index() / 64);
        let was_accessed = word.is_some_and(|word| std::mem::replace(word, *word & !bit) & bit != 0);
        self.last = match (reads_once, was_accessed) {
            (true, _) => PageWorth::Never,
            (false, true) => PageWorth::Again,
            (false, false) => PageWorth::Once,
        };
    }

    /// What the page was worth that left last.
    pub fn last(&self) -> PageWorth {
        self.last
    }

    /// For how long the page that left last had not been used.
    pub fn last_age(&self) -> u64 {
        self.last_age
    }

    pub fn metadata_bytes(&self) -> usize {
        self.again.capacity() * size_of::<u64>()
    }
}
