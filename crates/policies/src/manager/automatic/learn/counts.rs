//! What became of the pages of one class, by age.

use super::ages::BUCKETS;
use super::intervals::ClassId;

/// A class's values are worked out anew when this share of its evidence is new, and more than `NEW_PAGES_MIN`
/// pages.
const NEW_SHARE: f32 = 1.0 / 8.0;
const NEW_PAGES_MIN: f32 = 4.0;

/// Counts of one class by age.
pub(super) struct Counts {
    /// Pages used again; ageing.
    pub reused: [f32; BUCKETS],
    /// Pages used again or forgotten; ageing.
    pub ended: [f32; BUCKETS],
    /// Pages still waiting, by their age when last looked at.
    pub waiting: [u32; BUCKETS],
    /// The tenant's class of the same kind; [`NONE`](super::intervals::NONE) for those themselves.
    pub parent: ClassId,
    /// Whether a stream, or the tenant, holds the class. Otherwise it ends with its last waiting page.
    pub held: bool,
    /// The sum of `ended`, and the part of it that was not young.
    pub ended_pages: f32,
    pub ended_old_pages: f32,
    /// Evidence since the values were worked out.
    pub new_pages: f32,
}

impl Counts {
    pub const fn new(parent: ClassId) -> Self {
        Self {
            reused: [0.0; BUCKETS],
            ended: [0.0; BUCKETS],
            waiting: [0; BUCKETS],
            parent,
            held: true,
            ended_pages: 0.0,
            ended_old_pages: 0.0,
            new_pages: 0.0,
        }
    }

    /// Pages still waiting.
    pub fn waiting_pages(&self) -> u32 {
        self.waiting.iter().sum()
    }

    #[inline]
    pub fn is_stale(&self) -> bool {
        self.new_pages > NEW_PAGES_MIN && self.new_pages > NEW_SHARE * self.ended_pages
    }

    /// Marks all evidence as worked in. Halves it if more than `memory_pages` ended pages were not young.
    pub fn forget(&mut self, memory_pages: f32) {
        self.new_pages = 0.0;
        if self.ended_old_pages > memory_pages {
            self.reused.iter_mut().chain(&mut self.ended).for_each(|count| *count *= 0.5);
            self.ended_pages *= 0.5;
            self.ended_old_pages *= 0.5;
        }
    }

    /// The hazard of each bucket, shrunk towards `prior` by a number of pages.
    pub fn hazard(&self, prior: &[f32; BUCKETS], prior_pages: f32) -> [f32; BUCKETS] {
        let mut hazard = [0.0; BUCKETS];
        let mut reached = 0.0;
        for bucket in (0..BUCKETS).rev() {
            let waiting = self.waiting[bucket] as f32;
            let at_risk = reached + self.ended[bucket] + 0.5 * waiting;
            reached += self.ended[bucket] + waiting;
            let reused = self.reused[bucket] + prior_pages * prior[bucket];
            hazard[bucket] = (reused / (at_risk + prior_pages)).min(0.9999);
        }
        hazard
    }
}

#[cfg(test)]
mod tests {
    use super::super::intervals::NONE;
    use super::*;

    #[test]
    fn evidence_that_was_worked_in_is_not_new() {
        let mut counts = Counts::new(NONE);
        (counts.ended_pages, counts.new_pages) = (20.0, 20.0);
        assert!(counts.is_stale());
        counts.forget(1000.0);
        assert!(!counts.is_stale());
        counts.new_pages += 5.0;
        assert!(counts.is_stale());
    }
}
