//! DEAR: what the past of a block said about its future, checked a period at a time.

use std::collections::HashMap;

use super::{Class, Detector, Evidence};
use crate::PageId;

/// How a stream is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DearOptions {
    /// Accesses between two looks; each looks back one period.
    pub period: usize,
    /// Sublists that an order of blocks is cut into.
    pub groups: usize,
}

impl Default for DearOptions {
    /// The authors' own choice in their comparison.
    fn default() -> Self {
        Self { period: 500, groups: 5 }
    }
}

/// Choi, Noh, Min, Cho, "An Implementation Study of a Detection-Based Adaptive Block Replacement Scheme",
/// USENIX '99. The conditions were not checked against the paper's text.
///
/// After each period the blocks of the period before are ordered by backward distance and by frequency as
/// they stood then, each order is cut into sublists, and the sublists' mean forward distances are compared:
/// none referenced again is sequential; falling with growing backward distance is a loop; rising is temporal
/// clustering; falling with growing frequency is probabilistic.
#[derive(Clone, Debug)]
pub struct Dear {
    options: DearOptions,
    /// Accesses of the two latest periods, oldest first.
    history: Vec<PageId>,
    class: Class,
}

/// A block of the earlier period.
struct Seen {
    backward: usize,
    frequency: usize,
    /// Accesses from the end of that period to the next use; a whole period more where there was none.
    forward: usize,
}

impl Dear {
    /// A stream without accesses.
    pub fn new(options: DearOptions) -> Self {
        Self { options, history: Vec::with_capacity(2 * options.period), class: Class::Other }
    }

    fn evaluate(&mut self) {
        let period = self.options.period;
        let (past, future) = self.history.split_at(period);
        let mut seen: HashMap<PageId, Seen> = HashMap::new();
        for (at, page) in past.iter().enumerate() {
            let entry = seen.entry(*page).or_insert(Seen { backward: 0, frequency: 0, forward: 2 * period });
            entry.backward = period - at;
            entry.frequency += 1;
        }
        let mut again = 0;
        for (at, page) in future.iter().enumerate() {
            if let Some(entry) = seen.get_mut(page).filter(|entry| entry.forward == 2 * period) {
                entry.forward = at + 1;
                again += 1;
            }
        }
        self.class = if again == 0 { Class::OneShot } else { self.class_of(seen.into_values().collect()) };
        self.history.drain(..period);
    }

    fn class_of(&self, mut seen: Vec<Seen>) -> Class {
        seen.sort_by_key(|block| block.backward);
        let by_distance = self.means(&seen);
        seen.sort_by_key(|block| (block.frequency, block.backward));
        let by_frequency = self.means(&seen);
        let falls = |means: &[f64]| means.windows(2).all(|pair| pair[1] <= pair[0]);
        let rises = |means: &[f64]| means.windows(2).all(|pair| pair[1] >= pair[0]);
        if falls(&by_distance) {
            Class::Looping
        } else if rises(&by_distance) {
            Class::Temporal
        } else if falls(&by_frequency) {
            Class::Probabilistic
        } else {
            Class::Other
        }
    }

    /// The mean forward distance of each sublist.
    fn means(&self, seen: &[Seen]) -> Vec<f64> {
        let groups = self.options.groups.min(seen.len());
        let bounds = |group: usize| group * seen.len() / groups;
        (0..groups)
            .map(|group| {
                let part = &seen[bounds(group)..bounds(group + 1)];
                part.iter().map(|block| block.forward as f64).sum::<f64>() / part.len() as f64
            })
            .collect()
    }
}

impl Detector for Dear {
    fn access(&mut self, page: PageId) {
        self.history.push(page);
        if self.history.len() == 2 * self.options.period {
            self.evaluate();
        }
    }

    fn class(&self) -> Class {
        self.class
    }

    /// The accesses remembered: those of the last whole period, and those since.
    fn evidence(&self) -> Evidence {
        Evidence { samples: u32::try_from(self.history.len()).unwrap_or(u32::MAX), recency: None }
    }

    fn metadata_bytes(&self) -> usize {
        size_of::<Self>() + self.history.capacity() * size_of::<PageId>()
    }
}
