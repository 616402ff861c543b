//! Controlled-aggressive prefetching: in batches, at the earliest moment that does no harm.
//!
//! Four properties of every optimal schedule for one disk: fetch the missing block that is needed first;
//! give up the block needed last; do so only if it is needed later than the one fetched; do it as early as
//! that allows. *Aggressive* prefetching follows them. *Controlled*, a stream also adds nothing to a batch
//! that runs, and leaves half of its frames to blocks that were read.
//!
//! Papers: Cao, Felten, Karlin, Li, "A Study of Integrated Prefetching and Caching Strategies", SIGMETRICS
//! '95; the batches are those of CMU-CS-96-174.

use super::policy::AGGRESSIVE_BATCH;

/// Reads of a batch, where the list does not say.
pub const BATCH_READS: u32 = AGGRESSIVE_BATCH as u32;

/// The batches of one stream, one a device.
#[derive(Clone, Debug)]
pub struct Batches {
    reads: u32,
    /// Per device: reads of its batch that are not completed.
    left: Vec<u32>,
}

impl Batches {
    /// No batch is under way; each will have at most `reads` reads. Device numbers are below `devices`.
    pub fn new(devices: usize, reads: u32) -> Self {
        Self { reads, left: vec![0; devices] }
    }

    /// How many reads a batch that begins now may have: none while the device's last one runs.
    pub fn room(&self, device: usize) -> u32 {
        if self.left[device] == 0 { self.reads } else { 0 }
    }

    /// A batch of `reads` reads begins.
    pub fn begin(&mut self, device: usize, reads: u32) {
        debug_assert!(reads <= self.room(device));
        self.left[device] = reads;
    }

    /// A read of the device's batch is over. Returns whether it was the last one.
    pub fn complete(&mut self, device: usize) -> bool {
        self.left[device] = self.left[device].saturating_sub(1);
        self.left[device] == 0
    }
}

/// When an account needs the block again that it would give up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextUse {
    /// Not as far as it knows.
    Never,
    /// This many accesses ahead.
    Ahead(u64),
}

/// Whether giving up a block does no harm to the fetch of one that is needed `depth` accesses ahead.
pub fn does_no_harm(given_up: NextUse, depth: u64) -> bool {
    match given_up {
        NextUse::Never => true,
        NextUse::Ahead(distance) => distance > depth,
    }
}

/// Whether a stream of `frames` frames, `unread` of them with blocks that came in ahead and were not read
/// yet, may fetch one more: no more than half are unread.
pub fn has_room(unread: u32, frames: u32) -> bool {
    2 * (u64::from(unread) + 1) <= u64::from(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_runs_does_not_grow() {
        let mut batches = Batches::new(2, 3);
        assert_eq!((batches.room(0), batches.room(1)), (3, 3));
        batches.begin(0, 2);
        assert_eq!((batches.room(0), batches.room(1)), (0, 3));
        assert!(!batches.complete(0));
        assert_eq!(batches.room(0), 0);
        assert!(batches.complete(0));
        assert_eq!(batches.room(0), 3);
    }

    #[test]
    fn nothing_is_given_up_for_what_is_needed_later_or_at_once() {
        assert!(does_no_harm(NextUse::Never, 1) && does_no_harm(NextUse::Ahead(5), 4));
        assert!(!does_no_harm(NextUse::Ahead(5), 5) && !does_no_harm(NextUse::Ahead(5), 6));
        assert!(has_room(0, 2) && has_room(4, 10) && !has_room(5, 10) && !has_room(0, 1));
    }
}
