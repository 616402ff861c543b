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
    /// How long that page had not been used, in references and loads.
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

    /// How long the page that left last had not been used, in references and loads.
    pub fn last_age(&self) -> u64 {
        self.last_age
    }

    pub fn metadata_bytes(&self) -> usize {
        self.again.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::random::SplitMix64;

    /// Against a plain set of frames.
    #[test]
    fn a_page_that_leaves_was_worth_what_a_set_says() {
        const FRAMES: u64 = 200;
        let mut departures = Departures::new();
        assert_eq!(departures.metadata_bytes(), 0);
        let (mut random, mut again) = (SplitMix64::new(1), BTreeSet::new());
        for age in 0..5_000 {
            let frame = FrameId(random.below(FRAMES) as u32);
            if random.below(2) == 0 {
                departures.accessed(frame);
                again.insert(frame);
            } else {
                departures.left(frame, false, age);
                let worth = if again.remove(&frame) { PageWorth::Again } else { PageWorth::Once };
                assert_eq!((departures.last(), departures.last_age()), (worth, age));
            }
        }
        departures.accessed(FrameId(0));
        departures.left(FrameId(0), true, 7);
        assert_eq!((departures.last(), departures.last_age()), (PageWorth::Never, 7));
        departures.left(FrameId(0), false, 8);
        assert_eq!(departures.last(), PageWorth::Once, "a mark is of one stay in memory");
        // One bit a frame, and what a vector has to spare.
        let bytes = FRAMES.div_ceil(64) as usize * size_of::<u64>();
        assert!((bytes..=2 * bytes).contains(&departures.metadata_bytes()));
    }
}
