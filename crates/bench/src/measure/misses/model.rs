//! Predicts misses a second on machines with more processors, with a closed queueing network.
//!
//! A miss visits *stations*, each of which serves one miss at a time: the policy lock, and drives if there
//! are any. For the rest of its time it is *away*; other misses do not lengthen that time. Service times are
//! taken to be exponential. Those under a lock are not, and real queues at a station that is busy part of the
//! time are shorter.
//!
//! Papers: Muntz, Wong, "Asymptotic Properties of Closed Queueing Network Models", Princeton Conference on
//! Information Sciences and Systems '74, for the bounds; Reiser, Lavenberg, "Mean-Value Analysis of Closed
//! Multichain Queuing Networks", JACM 27 (1980).

/// A closed network of threads, each of which makes one miss at a time.
#[derive(Clone, PartialEq, Debug)]
pub struct Network {
    /// Nanoseconds of a miss outside of all stations.
    pub away_ns: f64,
    /// Nanoseconds of a miss at each station, without waiting. A station that serves a share of the misses
    /// has that share of its service time.
    pub stations_ns: Vec<f64>,
}

impl Network {
    /// The network of a miss that takes one thread alone `elapsed_ns`, of which `held_ns` are under the lock.
    /// The lock is the only station.
    pub fn of_lock(elapsed_ns: f64, held_ns: f64) -> Self {
        // The time under the lock is an estimate, and may exceed the whole.
        let held_ns = held_ns.min(elapsed_ns);
        Self { away_ns: elapsed_ns - held_ns, stations_ns: vec![held_ns] }
    }

    /// The network in which the time away is spent at `processors` more stations, each of which serves an
    /// equal share of the misses: for more misses in flight than processors.
    #[must_use]
    pub fn on_processors(mut self, processors: usize) -> Self {
        let share_ns = std::mem::take(&mut self.away_ns) / processors as f64;
        self.stations_ns.extend(vec![share_ns; processors]);
        self
    }

    /// The network with `drives` more stations, each of which makes at most `reads_per_s` reads a second and
    /// serves an equal share of the misses. A read without waiting takes `latency_ns`.
    #[must_use]
    pub fn with_drives(mut self, drives: usize, reads_per_s: f64, latency_ns: f64) -> Self {
        let service_ns = 1e9 / reads_per_s;
        self.away_ns += (latency_ns - service_ns).max(0.0);
        self.stations_ns.extend(vec![service_ns / drives as f64; drives]);
        self
    }

    /// The network in which the first station, the lock, is replaced by `parts` locks, each of which serves
    /// an equal share of the misses.
    #[must_use]
    pub fn with_lock_in_parts(mut self, parts: usize) -> Self {
        let held_ns = self.stations_ns.remove(0);
        self.stations_ns.extend(vec![held_ns / parts as f64; parts]);
        self
    }

    /// Misses a second of `threads` threads, by mean value analysis: a thread that arrives at a station finds
    /// the queue that is there on average with one thread less. Costs a step for each thread and station.
    pub fn misses_per_s(&self, threads: u32) -> f64 {
        let mut queues = vec![0.0; self.stations_ns.len()];
        let mut per_ns = 0.0;
        for thread in 1..=threads {
            let stays: Vec<f64> = self
                .stations_ns
                .iter()
                .zip(&queues)
                .map(|(service, queue)| service * (1.0 + queue))
                .collect();
            per_ns = f64::from(thread) / (self.away_ns + stays.iter().sum::<f64>());
            queues = stays.into_iter().map(|stay| per_ns * stay).collect();
        }
        per_ns * 1e9
    }

    /// An upper bound of misses a second of `threads` threads: no thread ever waits, or the busiest station
    /// is never idle.
    pub fn bound_per_s(&self, threads: u32) -> f64 {
        let alone = self.away_ns + self.stations_ns.iter().sum::<f64>();
        let busiest = self.stations_ns.iter().copied().fold(0.0, f64::max);
        (f64::from(threads) / alone).min(1.0 / busiest) * 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(a: f64, b: f64) {
        assert!((a / b - 1.0).abs() < 1e-9, "{a} is not {b}");
    }

    /// Misses a second by the states of the machine repairman's model, which are the numbers of threads at
    /// the lock.
    fn by_states(away_ns: f64, held_ns: f64, threads: u32) -> f64 {
        let weights = (0..threads).scan(1.0, |weight, waiting| {
            *weight *= f64::from(threads - waiting) * held_ns / away_ns;
            Some(*weight)
        });
        let idle = 1.0 / (1.0 + weights.sum::<f64>());
        (1.0 - idle) / held_ns * 1e9
    }

    #[test]
    fn mean_values_are_those_of_the_states() {
        for threads in [1, 2, 4, 16, 64] {
            for (elapsed_ns, held_ns) in [(1000.0, 10.0), (1000.0, 200.0), (3000.0, 1500.0)] {
                let network = Network::of_lock(elapsed_ns, held_ns);
                let expected = by_states(elapsed_ns - held_ns, held_ns, threads);
                assert_near(network.misses_per_s(threads), expected);
                assert!(network.misses_per_s(threads) <= network.bound_per_s(threads) * (1.0 + 1e-9));
            }
        }
    }

    #[test]
    fn stations_alike_share_what_there_is() {
        // Without a delay, n threads at m equal stations reach n / (n + m - 1) of the stations' capacity.
        let network = Network { away_ns: 0.0, stations_ns: vec![1e3; 3] };
        for threads in [1, 2, 5, 20] {
            let n = f64::from(threads);
            assert_near(network.misses_per_s(threads), n / (n + 2.0) * 1e6);
        }
    }

    #[test]
    fn one_thread_takes_what_a_miss_takes() {
        assert_near(Network::of_lock(100.0, 150.0).misses_per_s(1), 1e7);
        let network = Network::of_lock(2_000.0, 300.0).with_drives(8, 1.5e6, 80_000.0);
        assert_near(network.misses_per_s(1), 1e9 / 82_000.0);
        assert_eq!(network.stations_ns.len(), 9);
        assert_near(network.clone().with_lock_in_parts(4).misses_per_s(1), 1e9 / 82_000.0);
        let busy = Network::of_lock(2_000.0, 300.0).on_processors(16).with_drives(8, 1.5e6, 80_000.0);
        assert_near(busy.misses_per_s(1), 1e9 / 82_000.0);
        assert_near(busy.bound_per_s(1 << 20), 1e9 / 300.0);
    }

    #[test]
    fn the_lock_or_the_drive_is_the_bound() {
        let lock = Network::of_lock(2_000.0, 250.0);
        assert_near(lock.bound_per_s(128), 4e6);
        assert_near(lock.clone().with_lock_in_parts(2).bound_per_s(128), 8e6);
        assert_near(lock.with_drives(1, 1e6, 80_000.0).bound_per_s(1 << 10), 1e6);
    }
}
