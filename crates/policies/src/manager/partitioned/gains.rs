//! Marginal gains: which partition loses the fewest hits by giving up a frame.
//!
//! This is the allocation of UBM, which PCC took over. Paper: Kim and others, "A Low-Overhead,
//! High-Performance Unified Buffer Management Scheme That Exploits Sequential and Looping References", OSDI
//! '00; not checked against the paper's text.
//!
//! A frame of a loop of period t is hit once in t accesses, however many frames the loop has. A frame of the
//! default partition brings H(n) - H(n - 1) hits an access, where H(n) are the hits with n frames. This is
//! estimated from hits on its ghosts: the pages that it would hold with as many more frames as there are
//! ghosts. Each of these frames counts for an equal share of the hits.

/// What a frame more would bring the default partition.
pub(super) struct GhostGain {
    /// Ghosts that are remembered.
    ghosts: f64,
    /// Accesses over which hits on ghosts are averaged.
    window: f64,
    /// Hits on ghosts an access, as of `updated`.
    rate: f64,
    updated: u64,
}

impl GhostGain {
    /// For a pool of `pool_frames` frames, of which `ghosts` pages are remembered.
    pub fn new(pool_frames: u32, ghosts: u32) -> Self {
        let window = f64::from(WINDOW_POOLS) * f64::from(pool_frames);
        Self { ghosts: f64::from(ghosts), window, rate: 0.0, updated: 0 }
    }

    /// A ghost was hit.
    pub fn hit(&mut self, now: u64) {
        self.rate = self.rate_at(now) + 1.0 / self.window;
        self.updated = now;
    }

    /// Hits an access that one frame more would bring.
    pub fn at(&self, now: u64) -> f64 {
        self.rate_at(now) / self.ghosts
    }

    fn rate_at(&self, now: u64) -> f64 {
        self.rate * (-((now - self.updated) as f64) / self.window).exp()
    }
}

/// Pool sizes of accesses over which hits on ghosts are averaged.
const WINDOW_POOLS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gain_is_hits_an_access_and_ghost() {
        let mut gain = GhostGain::new(100, 50);
        assert_eq!(gain.at(0), 0.0);
        // Every tenth access is a hit on one of 50 ghosts.
        (1..=1000).for_each(|hit| gain.hit(10 * hit));
        assert!((gain.at(10_000) / (0.1 / 50.0) - 1.0).abs() < 0.02, "{}", gain.at(10_000));
        assert!(gain.at(14_000) < gain.at(10_000) / 1000.0, "it ages");
    }
}
