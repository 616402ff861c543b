//! AMP's access recency at constant cost: the list of the stream's blocks is kept for sampled blocks only.

use super::{
    Class, Detector, Evidence,
    amp_exact::{LOOP_BELOW, TEMPORAL_ABOVE},
};
use crate::{PageId, mix64};

/// Entries of the sampled list: few enough to be looked through at a sampled access, and enough that a
/// position among them has a standard error of 0.06.
const SAMPLES_MAX: usize = 64;
/// A sweep that leaves fewer entries than this doubles the threshold, so that more blocks are sampled.
const SAMPLES_MIN: usize = 16;
/// Hashes are below this. A block is sampled if its hash is below the threshold.
const HASHES: u64 = 1 << 24;
/// Re-accesses of sampled blocks before a class is given.
const EVIDENCE_MIN: u32 = 16;
/// First accesses of sampled blocks, without a re-access, that make a stream one-shot.
const FIRST_ACCESSES_MIN: u32 = 128;
/// The first 64 re-accesses have a plain mean. After them it is a moving mean, to which a re-access
/// contributes 1/64.
const PLAIN_MEAN: u32 = 64;
/// How far the recency must pass a threshold to change a class.
const HYSTERESIS: f64 = 0.05;
/// Accesses between two looks at the class.
const EVALUATE_EVERY: u64 = 256;
/// Accesses between two sweeps for aged entries.
const SWEEP_EVERY: u64 = 64;

/// How a stream is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AmpOptions {
    /// A block is forgotten that the stream has not used for this number of its accesses, so that a loop
    /// that starts late is seen. A loop longer than that looks one-shot.
    /// [`for_frames`](AmpOptions::for_frames) takes four times the pool's frames, as a longer loop could not
    /// be held anyway.
    pub forget_after: u64,
    /// Whether the recency stays a plain mean, for comparison with the exact one.
    pub plain_mean: bool,
}

impl AmpOptions {
    /// For a pool of `frames` frames.
    pub fn for_frames(frames: u32) -> Self {
        Self { forget_after: 4 * u64::from(frames), plain_mean: false }
    }
}

/// The sampled mean access recency of a stream.
///
/// Sampling is by hash with a falling threshold ("SHARDS", Waldspurger and others, FAST '15): a sampled block
/// is always sampled, so order among the sampled blocks is order among all. When the list is full the
/// threshold falls to its largest hash; when aged entries have emptied it, the threshold doubles. O(1) an
/// access; a sampled one scans at most 64 entries.
#[derive(Clone, Debug)]
pub struct Amp {
    options: AmpOptions,
    /// Sampled blocks, oldest access first.
    entries: Vec<Entry>,
    /// Blocks whose hash is below this are sampled.
    threshold: u64,
    accesses: u64,
    recency: f64,
    /// Re-accesses of sampled blocks seen.
    samples: u32,
    /// First accesses of sampled blocks since the last re-access of one.
    first_accesses: u32,
    class: Class,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: PageId,
    last_access: u64,
}

impl Amp {
    /// A stream without accesses.
    pub fn new(options: AmpOptions) -> Self {
        Self {
            options,
            entries: Vec::new(),
            threshold: HASHES,
            accesses: 0,
            recency: 0.5,
            samples: 0,
            first_accesses: 0,
            class: Class::Other,
        }
    }

    /// The mean recency, and the number of re-accesses that it is of; `None` before the first.
    pub fn recency(&self) -> Option<(f64, u32)> {
        (self.samples > 0).then_some((self.recency, self.samples))
    }

    /// Panics unless the entries are sampled, distinct, and in order of access.
    pub fn check_invariants(&self) {
        assert!(self.entries.len() <= SAMPLES_MAX);
        assert!(self.entries.iter().all(|entry| hash(entry.page) < self.threshold));
        assert!(self.entries.windows(2).all(|pair| pair[0].last_access < pair[1].last_access));
        let mut pages: Vec<PageId> = self.entries.iter().map(|entry| entry.page).collect();
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), self.entries.len());
        assert!((0.0..=1.0).contains(&self.recency));
    }

    fn sample(&mut self, page: PageId) {
        let others = self.entries.len().saturating_sub(1);
        match self.entries.iter().position(|entry| entry.page == page) {
            Some(at) => {
                self.entries.remove(at);
                let recency = if others == 0 { 0.5 } else { at as f64 / others as f64 };
                self.average(recency);
                self.first_accesses = 0;
            }
            None => self.first_accesses = self.first_accesses.saturating_add(1),
        }
        self.entries.push(Entry { page, last_access: self.accesses });
        if self.entries.len() > SAMPLES_MAX {
            self.threshold = self.entries.iter().map(|entry| hash(entry.page)).max().expect("not empty");
            self.entries.retain(|entry| hash(entry.page) < self.threshold);
        }
    }

    fn average(&mut self, recency: f64) {
        self.samples = self.samples.saturating_add(1);
        let plain = self.options.plain_mean || self.samples <= PLAIN_MEAN;
        let weight = 1.0 / f64::from(if plain { self.samples } else { PLAIN_MEAN });
        self.recency += (recency - self.recency) * weight;
    }

    /// Drops entries that have not been used for long; samples more blocks if few are left.
    fn sweep(&mut self) {
        let oldest = self.accesses.saturating_sub(self.options.forget_after);
        let aged = self.entries.iter().take_while(|entry| entry.last_access < oldest).count();
        self.entries.drain(..aged);
        if self.entries.len() < SAMPLES_MIN && self.threshold < HASHES {
            self.threshold = (self.threshold * 2).min(HASHES);
        }
    }

    fn evaluate(&mut self) {
        if self.first_accesses >= FIRST_ACCESSES_MIN {
            self.class = Class::OneShot;
        } else if self.samples >= EVIDENCE_MIN {
            // A class is left only when the recency is clearly beyond its threshold.
            let slack = |class| if self.class == class { HYSTERESIS } else { 0.0 };
            self.class = if self.recency < LOOP_BELOW + slack(Class::Looping) {
                Class::Looping
            } else if self.recency > TEMPORAL_ABOVE - slack(Class::Temporal) {
                Class::Temporal
            } else {
                Class::Other
            };
        }
    }
}

impl Detector for Amp {
    fn access(&mut self, page: PageId) {
        self.accesses += 1;
        if hash(page) < self.threshold {
            self.sample(page);
        }
        if self.accesses.is_multiple_of(SWEEP_EVERY) {
            self.sweep();
        }
        if self.accesses.is_multiple_of(EVALUATE_EVERY) {
            self.evaluate();
        }
    }

    fn class(&self) -> Class {
        self.class
    }

    fn evidence(&self) -> Evidence {
        let recency = self.recency().map(|(recency, _)| recency);
        Evidence { samples: self.samples.max(self.first_accesses), recency }
    }

    fn metadata_bytes(&self) -> usize {
        size_of::<Self>() + self.entries.capacity() * size_of::<Entry>()
    }
}

fn hash(page: PageId) -> u64 {
    mix64(page.0 ^ 0x5851_f42d_4c95_7f2d) % HASHES
}
