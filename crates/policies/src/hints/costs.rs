//! What a frame is worth, in time that I/O takes a process: the formulas of cost-benefit allocation.
//!
//! All are in microseconds of I/O service time for each access and buffer. Multiplied by a rate, in accesses
//! a microsecond, they are comparable: seconds saved in a second by one buffer. None is negative or infinite.
//!
//! Paper: Patterson and others, "Informed Prefetching and Caching", SOSP '95.

/// What an access costs. Times in microseconds, above 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CostModel {
    /// Reading a block that is in memory.
    pub hit_us: f64,
    /// Starting a read of the device, on the processor.
    pub driver_us: f64,
    /// The read itself, until the block is there.
    pub disk_us: f64,
}

/// The times of CMU-CS-96-174.
impl Default for CostModel {
    fn default() -> Self {
        Self { hit_us: 425.0, driver_us: 500.0, disk_us: 29_000.0 }
    }
}

impl CostModel {
    /// The *prefetch horizon*: a block that is fetched this many accesses ahead is there in time, even if no
    /// access takes longer than a hit. To fetch it earlier gains nothing. At least 1.
    pub fn horizon(&self) -> u64 {
        (self.disk_us / self.hit_us).round().max(1.0) as u64
    }

    /// What it gains an access to give one more buffer to the fetch of the block needed `depth` accesses
    /// ahead; the next access is 1 ahead. With `depth` buffers the process stalls once every `depth`
    /// accesses, for at most the disk's time. The gain is the difference to the stalls with one buffer more.
    pub fn prefetch_gain_us(&self, depth: u64) -> f64 {
        if depth >= self.horizon() {
            return 0.0;
        }
        let depth = depth.max(1) as f64;
        self.disk_us / (depth * (depth + 1.0))
    }

    /// What it costs an access to give up a block that is needed `distance` accesses ahead: it has to be
    /// fetched again, at the horizon at the latest, and its buffer is free until then.
    pub fn ejection_cost_us(&self, distance: u64) -> f64 {
        let horizon = self.horizon();
        if distance > horizon {
            return self.driver_us / (distance - horizon) as f64;
        }
        let distance = distance.max(1) as f64;
        let stall = (self.disk_us - (distance - 1.0) * self.hit_us).max(0.0);
        (self.driver_us + stall) / distance
    }

    /// What it costs an unhinted access to take a buffer off a queue that would then miss `lost_hits` more
    /// often an access.
    pub fn shrinking_cost_us(&self, lost_hits: f64) -> f64 {
        lost_hits * (self.driver_us + self.disk_us)
    }
}

/// The bound on the time of aggressive prefetching against the best schedule: one disk, one stream, a fetch
/// of `fetch` accesses, `frames` frames.
///
/// Paper: Cao, Felten, Karlin, Li, "A Study of Integrated Prefetching and Caching Strategies", SIGMETRICS
/// '95.
pub fn aggressive_bound(fetch: u32, frames: u32) -> f64 {
    1.0 + f64::from(fetch) / f64::from(frames.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_horizon_is_the_papers() {
        assert_eq!(CostModel::default().horizon(), 68);
        let tip = CostModel { hit_us: 243.0, driver_us: 580.0, disk_us: 15_000.0 };
        assert_eq!(tip.horizon(), 62);
        assert!((aggressive_bound(50, 1500) - 1.0333).abs() < 1e-4);
    }

    #[test]
    fn gains_and_costs_are_finite_and_fall_with_distance() {
        let costs = CostModel::default();
        let gains: Vec<f64> = (0..200).map(|depth| costs.prefetch_gain_us(depth)).collect();
        assert!(gains.iter().all(|gain| gain.is_finite() && *gain >= 0.0));
        assert!(gains[1..68].windows(2).all(|pair| pair[0] > pair[1]));
        assert!(gains[67] > 0.0 && gains[68..].iter().all(|gain| *gain == 0.0));
        let ejections: Vec<f64> = (0..500).map(|distance| costs.ejection_cost_us(distance)).collect();
        assert!(ejections.iter().all(|cost| cost.is_finite() && *cost > 0.0));
        assert!(ejections[1..=68].windows(2).all(|pair| pair[0] > pair[1]));
        assert!(ejections[69..].windows(2).all(|pair| pair[0] > pair[1]));
        assert_eq!((ejections[69], ejections[118]), (500.0, 10.0));
    }
}
