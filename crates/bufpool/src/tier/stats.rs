//! What a tier and its pool count.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::tier::PassedBy;

/// What a tier has and what it did, as it says itself; part of [`TierStats`].
#[derive(Clone, Default, PartialEq, Debug)]
#[non_exhaustive]
pub struct TierReport {
    /// What it is, in a few words: where, how large, and whatever limits it.
    pub note: String,
    /// Pages that it has.
    pub pages: u64,
    /// Pages that it has room for; 0 if it does not know.
    pub pages_max: u64,
    /// Bytes that these pages take there.
    pub bytes: u64,
    /// Bytes of memory that it takes besides.
    pub metadata_bytes: u64,
    /// Pages that were asked for while they were on their way down, and served from there.
    pub rescues: u64,
    /// Requests of its own that failed.
    pub failures: u64,
}

impl TierReport {
    /// A report that says nothing but what the tier is; the fields are public.
    pub fn new(note: impl Into<String>) -> Self {
        Self { note: note.into(), ..Self::default() }
    }
}

/// What a pool's tier is worth; part of [`Stats`](crate::stats::Stats).
///
/// `demotions` without `present`, `refused` and `passed_up` are pages that the tier stored anew.
#[derive(Clone, Default, PartialEq, Debug)]
#[non_exhaustive]
pub struct TierStats {
    /// Pages offered to the tier, with those that it refused and those that were not sent because it is
    /// passed by. Under [`TierPolicy::Promote`](crate::tier::TierPolicy::Promote), pages that come from
    /// their files, and pages that the tier keeps when they leave memory with another version.
    pub demotions: u64,
    /// Of these, pages that it had (*aborted* demotions).
    pub present: u64,
    /// Of these, pages that it had no room for at once, or that were not sent because it is passed by.
    pub refused: u64,
    /// Of these, pages that it left to the pool.
    pub passed_up: u64,
    /// Pages that were admitted and not offered, and questions that were not asked, because all buffers were
    /// in use.
    pub skipped: u64,
    /// Pages that the admission kept from it.
    pub not_admitted: u64,
    /// Misses that it served.
    pub hits: u64,
    /// Questions that it answered without a copy, with a wrong one, or with one for which no frame was left.
    pub absent: u64,
    /// Questions that it did not answer in time.
    pub timed_out: u64,
    /// Copies that were not what was asked for: other bytes, another page or version, or contents that the
    /// engine's hooks rejected.
    pub wrong: u64,
    /// Calls in which it panicked.
    pub panics: u64,
    /// Buffers that it has, or that are on their way to it.
    pub buffers_lent: u64,
    /// Bytes of memory of all buffers.
    pub buffers_bytes: u64,
    /// Why it is passed by now, if it is.
    pub passed_by: Option<PassedBy>,
    /// How often it began to be passed by.
    pub times_passed_by: u64,
    /// What a read of a page from its file takes, in microseconds: a moving average.
    pub source_latency_us: f64,
    /// What the tier says.
    pub report: TierReport,
}

/// The pool's counts.
#[derive(Default)]
pub(super) struct Counts {
    pub demotions: AtomicU64,
    pub present: AtomicU64,
    pub refused: AtomicU64,
    pub passed_up: AtomicU64,
    pub skipped: AtomicU64,
    pub not_admitted: AtomicU64,
    pub hits: AtomicU64,
    pub absent: AtomicU64,
    pub timed_out: AtomicU64,
    pub wrong: AtomicU64,
    pub panics: AtomicU64,
    pub times_passed_by: AtomicU64,
}

impl Counts {
    /// Adds one.
    pub fn count(of: &AtomicU64) {
        of.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts as they are now. Other fields are left at their defaults.
    pub fn stats(&self) -> TierStats {
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TierStats {
            demotions: now(&self.demotions),
            present: now(&self.present),
            refused: now(&self.refused),
            passed_up: now(&self.passed_up),
            skipped: now(&self.skipped),
            not_admitted: now(&self.not_admitted),
            hits: now(&self.hits),
            absent: now(&self.absent),
            timed_out: now(&self.timed_out),
            wrong: now(&self.wrong),
            panics: now(&self.panics),
            times_passed_by: now(&self.times_passed_by),
            ..TierStats::default()
        }
    }
}
