//! The options of the machine and of its cache.

use std::str::FromStr;

use bufpool_policies::UnknownName;
use bufpool_policies::hints::CostModel;

use super::disk::{Queue, ServiceTimes};
use crate::trace::microseconds;

/// Most disks of a machine.
const DISKS_MAX: u32 = 1024;

/// A machine: one processor, and disks over which blocks are striped one by one.
///
/// Written as `disks=1,sequential_ms=5,random_ms=22`, which are required; the other keys are optional, and
/// keys may come in any order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MachineOptions {
    /// Disks: block b is on disk b mod `disks`. 1 to 1,024.
    pub disks: u32,
    /// The times of reads: `sequential_ms` and `random_ms`, above 0.
    pub times: ServiceTimes,
    /// The order in which a disk serves what waits: `queue=scan` or `fifo`.
    pub queue: Queue,
    /// How long a process may run while others wait, in microseconds: `quantum_ms`, above 0.
    pub quantum_us: u64,
    /// Processor time to start a read, in microseconds: `driver_us`.
    pub driver_us: u64,
    /// Processor time to access a resident block, in microseconds, beyond what the process computes:
    /// `hit_us`.
    pub hit_us: u64,
}

impl Default for MachineOptions {
    fn default() -> Self {
        Self {
            disks: 1,
            times: ServiceTimes { sequential_us: 5_000, random_us: 22_000 },
            queue: Queue::Scan,
            quantum_us: 100_000,
            driver_us: 500,
            hit_us: 425,
        }
    }
}

impl FromStr for MachineOptions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut options = Self::default();
        let mut is_set = Vec::new();
        for assignment in text.split(',') {
            let wrong = |expected: &str| format!("expected {expected}, found `{assignment}`");
            let (key, value) = assignment.split_once('=').ok_or_else(|| wrong("KEY=VALUE"))?;
            let ms = || {
                let us = microseconds(value).filter(|us| *us > 0).map(u64::from);
                us.ok_or_else(|| {
                    wrong(&format!("{key} a number of milliseconds above 0 with at most three decimals"))
                })
            };
            let us = || {
                let us = value.parse::<u32>().map(u64::from);
                us.map_err(|_| wrong(&format!("{key} a whole number of microseconds below 2^32")))
            };
            match key {
                "disks" => {
                    let disks = value.parse().ok().filter(|disks| (1..=DISKS_MAX).contains(disks));
                    options.disks = disks.ok_or_else(|| wrong("disks a whole number in 1..=1024"))?;
                }
                "sequential_ms" => options.times.sequential_us = ms()?,
                "random_ms" => options.times.random_us = ms()?,
                "quantum_ms" => options.quantum_us = ms()?,
                "driver_us" => options.driver_us = us()?,
                "hit_us" => options.hit_us = us()?,
                "queue" => {
                    options.queue = match value {
                        "scan" => Queue::Scan,
                        "fifo" => Queue::Fifo,
                        _ => return Err(wrong("queue scan or fifo")),
                    };
                }
                _ => {
                    return Err(wrong(
                        "one of the keys disks, sequential_ms, random_ms, queue, quantum_ms, driver_us, hit_us",
                    ));
                }
            }
            if is_set.contains(&key) {
                return Err(wrong("each key once"));
            }
            is_set.push(key);
        }
        match ["disks", "sequential_ms", "random_ms"].iter().find(|key| !is_set.contains(key)) {
            Some(missing) => {
                Err(format!("expected disks, sequential_ms and random_ms, {missing} is missing"))
            }
            None => Ok(options),
        }
    }
}

/// The policies of the machine's cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MachinePolicy {
    /// One LRU list over all processes; hints are ignored.
    Lru,
    /// LRU-SP; hints say which of its blocks a process gives up, and nothing is prefetched.
    LruSp,
    /// TIP2: cost-benefit allocation and prefetching.
    Tip2,
    /// LRU-SP, and controlled-aggressive prefetching.
    Aggressive,
    /// LRU-SP, and prefetching of the blocks within the horizon.
    Horizon,
}

impl MachinePolicy {
    /// All of them, as users list them.
    pub const ALL: [Self; 5] = [Self::Lru, Self::LruSp, Self::Tip2, Self::Aggressive, Self::Horizon];

    /// What users call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::LruSp => "lru-sp",
            Self::Tip2 => "tip2",
            Self::Aggressive => "aggressive",
            Self::Horizon => "horizon",
        }
    }
}

impl FromStr for MachinePolicy {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|policy| policy.name() == name).ok_or_else(|| UnknownName {
            name: name.to_owned(),
            kind: "policies of a machine:",
            known: Self::ALL.map(Self::name).into(),
        })
    }
}

/// The cache of a machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CacheOptions {
    /// Frames, at least 1.
    pub frames: u32,
    /// The policy.
    pub policy: MachinePolicy,
    /// Whether managers that keep being wrong are revoked.
    pub revocation: bool,
    /// The times that TIP2's estimates and the prefetch horizon assume. The machine's own times are in
    /// [`MachineOptions`].
    pub costs: CostModel,
    /// Under `tip2`: whether a block that was read and has no further hint enters the LRU queue (variant B).
    pub keep_read: bool,
    /// Under `tip2`: whether frames are kept free for the LRU queue while it pays to let it grow.
    pub reserve: bool,
    /// Under `aggressive`: reads of a batch.
    pub batch_reads: u32,
    /// Under `aggressive`: whether no more than half of a process's frames may hold unread blocks.
    pub limits_unread: bool,
}

impl CacheOptions {
    /// The defaults, for `frames` frames under `policy`: no revocation, `keep_read` and `reserve` off,
    /// `limits_unread` on.
    pub fn new(frames: u32, policy: MachinePolicy) -> Self {
        Self {
            frames,
            policy,
            revocation: false,
            costs: CostModel::default(),
            keep_read: false,
            reserve: false,
            batch_reads: bufpool_policies::hints::aggressive::BATCH_READS,
            limits_unread: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_read_and_refused() {
        let machine: MachineOptions = "disks=2,sequential_ms=3,random_ms=12.5".parse().unwrap();
        let times = ServiceTimes { sequential_us: 3_000, random_us: 12_500 };
        assert_eq!(machine, MachineOptions { disks: 2, times, ..MachineOptions::default() });
        let all = "disks=1,sequential_ms=5,random_ms=22,queue=fifo,quantum_ms=20,driver_us=0,hit_us=0";
        let machine: MachineOptions = all.parse().unwrap();
        assert_eq!((machine.queue, machine.quantum_us), (Queue::Fifo, 20_000));
        for (text, expected) in [
            ("", "KEY=VALUE"),
            ("disks=1", "sequential_ms is missing"),
            ("disks=0,sequential_ms=5,random_ms=22", "disks a whole number in 1..=1024"),
            ("disks=1,sequential_ms=0,random_ms=22", "sequential_ms a number of milliseconds above 0"),
            ("disks=1,disks=2", "each key once"),
            ("disks=1,queue=lifo", "queue scan or fifo"),
            ("disk=1", "one of the keys disks"),
            ("driver_us=-1", "driver_us a whole number of microseconds"),
        ] {
            let message = text.parse::<MachineOptions>().unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
        let unknown = "opt".parse::<MachinePolicy>().unwrap_err();
        assert_eq!(unknown.known, ["lru", "lru-sp", "tip2", "aggressive", "horizon"]);
    }
}
