//! Frames whose pages have left while somebody may still read them without a latch.
//!
//! Such a frame gets its next page only when those reads are over ([`readers`](crate::page::readers)). Nobody
//! waits for them: the frame is set aside, and the miss looks for another one. A later search that finds the
//! reads over gives the frame back to the pool. While [`ASIDE_MAX`] frames are aside no page of an optimistic
//! file is taken as a victim, so that one long read costs no more pages than that.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::memory::lease::FrameLease;
use crate::page::readers::Reads;

/// With this many frames aside, no more pages of optimistic files are chosen as victims. Victims that were
/// chosen before still leave, so there may be a few more.
const ASIDE_MAX: usize = 4;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct AsideFrames {
    frames: Mutex<Vec<AsideFrame>>,
    /// How many there are, for a look without the lock.
    count: AtomicUsize,
}

struct AsideFrame {
    lease: FrameLease,
    /// Those that were going on when its page had left.
    reads: Reads,
}

impl AsideFrames {
    /// Pages of optimistic files may be evicted.
    pub fn has_room(&self) -> bool {
        self.count() < ASIDE_MAX
    }

    /// How many frames were aside a moment ago.
    pub fn count(&self) -> usize {
        // Relaxed: a frame that is missed is found by the next look.
        self.count.load(Ordering::Relaxed)
    }

    /// One more, which is read by `reads`.
    pub fn add(&self, lease: FrameLease, reads: Reads) {
        let mut frames = self.frames.lock();
        frames.push(AsideFrame { lease, reads });
        self.count.store(frames.len(), Ordering::Relaxed);
    }

    /// Takes those that nobody reads any more.
    pub fn take_free(&self) -> Vec<FrameLease> {
        if self.count() == 0 {
            return Vec::new();
        }
        let mut frames = self.frames.lock();
        let free = frames.extract_if(.., |frame| frame.reads.are_over()).map(|frame| frame.lease).collect();
        self.count.store(frames.len(), Ordering::Relaxed);
        free
    }
}
