//! UBM: a file is what its runs of consecutive blocks make it.

use super::{Class, Detector, Evidence};
use crate::PageId;

/// Consecutive blocks that make a run a sequence.
const RUN_MIN: u64 = 8;

/// Unified buffer management (Kim and others, "A Low-Overhead, High-Performance Unified Buffer Management
/// Scheme That Exploits Sequential and Looping References", OSDI '00). Not checked against the paper's text.
///
/// A run of at least 8 consecutive blocks is a sequence, and makes the file one-shot. When the latest
/// sequence is entered again at its start, the file is looping, with the accesses since the last entry as
/// its period. When a run begins elsewhere, the file is other. Loops over blocks that are not consecutive
/// are not seen. O(1) an access and in memory.
#[derive(Clone, Debug, Default)]
pub struct Ubm {
    accesses: u64,
    /// First and last block of the run at hand.
    run: Option<(u64, u64)>,
    /// First and last block of the sequence, and when it was last entered at its start.
    sequence: Option<(u64, u64, u64)>,
    /// When the run at hand began.
    run_began: u64,
    period: Option<u64>,
    class: Class,
}

impl Ubm {
    /// A file without accesses.
    pub fn new() -> Self {
        Self::default()
    }

    fn begin_run(&mut self, block: u64) {
        self.run = Some((block, block));
        self.run_began = self.accesses;
        match &mut self.sequence {
            Some((first, _, entered)) if *first == block => {
                self.period = Some(self.accesses - *entered);
                *entered = self.accesses;
                self.class = Class::Looping;
            }
            // Elsewhere in the sequence, or outside it: no pattern of this kind.
            Some(_) => {
                self.class = Class::Other;
                self.period = None;
            }
            None => {}
        }
    }

    fn extend_run(&mut self, first: u64, last: u64) {
        self.run = Some((first, last));
        if last - first + 1 < RUN_MIN {
            return;
        }
        match &mut self.sequence {
            Some((known_first, known_last, _)) if *known_first == first => {
                *known_last = last.max(*known_last);
                if self.class == Class::Other {
                    self.class = Class::OneShot;
                }
            }
            _ => {
                self.sequence = Some((first, last, self.run_began));
                self.class = Class::OneShot;
            }
        }
    }
}

impl Detector for Ubm {
    fn access(&mut self, page: PageId) {
        self.accesses += 1;
        match self.run {
            // Immediate repetition is one reference.
            Some((_, last)) if last == page.0 => {}
            Some((first, last)) if last.checked_add(1) == Some(page.0) => self.extend_run(first, page.0),
            _ => self.begin_run(page.0),
        }
    }

    fn class(&self) -> Class {
        self.class
    }

    /// From one pass of a loop to the next, once it loops.
    fn period(&self) -> Option<f64> {
        self.period.map(|period| period as f64)
    }

    fn evidence(&self) -> Evidence {
        Evidence { samples: u32::try_from(self.accesses).unwrap_or(u32::MAX), recency: None }
    }

    fn metadata_bytes(&self) -> usize {
        size_of::<Self>()
    }
}
