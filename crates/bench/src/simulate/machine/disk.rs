//! A disk that serves one read at a time, and its queue.

use std::collections::{BTreeSet, VecDeque};

/// In which order a disk serves the reads that wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queue {
    /// Demand reads before prefetches, and each of the two in sweeps over ascending addresses (SCAN in one
    /// direction, so that consecutive blocks are read one after the other). A prefetch stays a prefetch when
    /// a process waits for it.
    Scan,
    /// First in, first out.
    Fifo,
}

/// The times of a disk's reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceTimes {
    /// Of the block that follows the one that the disk read last, in microseconds.
    pub sequential_us: u64,
    /// Of any other block, in microseconds.
    pub random_us: u64,
}

/// What disks have done.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct DiskCounts {
    /// Reads.
    pub reads: u64,
    /// Of these, those of a block that does not follow the one read last.
    pub seeks: u64,
    /// Time that they took, in microseconds.
    pub busy_us: u64,
}

impl DiskCounts {
    /// Adds the counts of another disk.
    pub fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.seeks += other.seeks;
        self.busy_us += other.busy_us;
    }
}

/// Why a block is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// A process missed it.
    Demand,
    /// It is expected to be needed.
    Ahead,
}

/// A read that waits: where the block is on the disk, and which block it is.
type Waiting = (u64, u64);

/// One disk.
pub struct Disk {
    order: Queue,
    times: ServiceTimes,
    first_come: VecDeque<Waiting>,
    demand: BTreeSet<Waiting>,
    ahead: BTreeSet<Waiting>,
    /// The address read last, or being read.
    head: Option<u64>,
    /// The block being read.
    reading: Option<u64>,
    counts: DiskCounts,
}

impl Disk {
    /// An idle disk.
    pub fn new(order: Queue, times: ServiceTimes) -> Self {
        Self {
            order,
            times,
            first_come: VecDeque::new(),
            demand: BTreeSet::new(),
            ahead: BTreeSet::new(),
            head: None,
            reading: None,
            counts: DiskCounts::default(),
        }
    }

    /// What it has done so far, the read under way included.
    pub fn counts(&self) -> DiskCounts {
        self.counts
    }

    /// `block`, at `address`, is to be read.
    pub fn push(&mut self, block: u64, address: u64, urgency: Urgency) {
        match (self.order, urgency) {
            (Queue::Fifo, _) => self.first_come.push_back((address, block)),
            (Queue::Scan, Urgency::Demand) => drop(self.demand.insert((address, block))),
            (Queue::Scan, Urgency::Ahead) => drop(self.ahead.insert((address, block))),
        }
    }

    /// If the disk is idle and a read waits, it begins; returns how long it takes in microseconds.
    pub fn begin(&mut self) -> Option<u64> {
        if self.reading.is_some() {
            return None;
        }
        let (address, block) = match self.order {
            Queue::Fifo => self.first_come.pop_front()?,
            Queue::Scan => self.next_in_scan()?,
        };
        let follows = self.head.is_some_and(|head| head + 1 == address);
        self.head = Some(address);
        self.reading = Some(block);
        let takes_us = if follows { self.times.sequential_us } else { self.times.random_us };
        self.counts.add(&DiskCounts { reads: 1, seeks: u64::from(!follows), busy_us: takes_us });
        Some(takes_us)
    }

    /// The read that was under way is over; returns its block.
    pub fn complete(&mut self) -> u64 {
        self.reading.take().expect("a read was under way")
    }

    /// The lowest address at or above the head; the lowest of all if there is none.
    fn next_in_scan(&mut self) -> Option<Waiting> {
        let waiting = if self.demand.is_empty() { &mut self.ahead } else { &mut self.demand };
        let above = waiting.range((self.head.unwrap_or(0), 0)..).next().copied();
        let next = above.or_else(|| waiting.first().copied())?;
        waiting.remove(&next);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: ServiceTimes = ServiceTimes { sequential_us: 5, random_us: 22 };

    fn served(disk: &mut Disk) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| disk.begin().map(|us| (disk.complete(), us))).collect()
    }

    #[test]
    fn scan_serves_demand_first_in_upward_sweeps() {
        let mut disk = Disk::new(Queue::Scan, TIMES);
        disk.push(10, 10, Urgency::Demand);
        assert_eq!(disk.begin(), Some(22));
        for block in [12, 11, 3, 5] {
            disk.push(block, block, Urgency::Ahead);
        }
        disk.push(30, 30, Urgency::Demand);
        disk.push(9, 9, Urgency::Demand);
        assert_eq!(disk.begin(), None, "one read at a time");
        assert_eq!(disk.complete(), 10);
        let expected = [(30, 22), (9, 22), (11, 22), (12, 5), (3, 22), (5, 22)];
        assert_eq!(served(&mut disk), expected);
    }

    #[test]
    fn fifo_knows_no_urgency() {
        let mut disk = Disk::new(Queue::Fifo, TIMES);
        disk.push(7, 7, Urgency::Ahead);
        disk.push(3, 3, Urgency::Ahead);
        disk.push(4, 4, Urgency::Demand);
        assert_eq!(served(&mut disk), [(7, 22), (3, 22), (4, 5)]);
        assert_eq!(disk.counts(), DiskCounts { reads: 3, seeks: 2, busy_us: 49 });
    }
}
