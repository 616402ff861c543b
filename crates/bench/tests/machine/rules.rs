//! The rules of the machine's cache, by search: who is evicted for what, and what is fetched when.
//!
//! What takes time is taken from the log: who asks for what when, and when blocks arrive. Everything else in
//! the log has to follow from that.

use std::collections::VecDeque;

use bufpool_bench::simulate::machine::{CacheOptions, Change, MachineOptions, MachinePolicy};
use bufpool_policies::hints::aggressive::BATCH_READS;

use super::Program;

/// A process, as the rules see it.
struct Process {
    blocks: Vec<u64>,
    is_hinted: bool,
    /// It gave its hints, and is not over.
    gives_hints: bool,
    position: usize,
    /// Accesses a microsecond, and whether it made any and is not over.
    rate: f64,
    is_running: bool,
    /// Per disk: prefetches of a batch that have not arrived.
    left: Vec<u32>,
    /// The block of its access, if that is on its way ahead.
    waits_for: Option<u64>,
}

/// A block in memory.
struct Held {
    block: u64,
    /// Whose it is, for a prefetch that has not been read.
    unread_of: Option<usize>,
    is_in_flight: bool,
}

pub struct Rules {
    options: CacheOptions,
    disks: u64,
    processes: Vec<Process>,
    held: Vec<Held>,
    /// Unhinted blocks, by last use.
    queue: Vec<u64>,
    /// Blocks that were read from hints and are hinted no further, in order.
    worthless: Vec<u64>,
    /// Unhinted accesses: an LRU stack, hits by segment, accesses, and how many since they were halved.
    stack: Vec<u64>,
    hits: Vec<f64>,
    accesses: f64,
    since_halved: u64,
    /// What has to follow in the log.
    expected: VecDeque<Change>,
}

impl Rules {
    pub fn new(programs: &[Program], machine: &MachineOptions, options: &CacheOptions) -> Self {
        let process = |(number, program): (u64, &Program)| Process {
            blocks: program.blocks.iter().map(|block| (number << 20) + block).collect(),
            is_hinted: program.is_hinted,
            gives_hints: false,
            position: 0,
            rate: 1.0 / (u64::from(program.compute_us) + machine.hit_us) as f64,
            is_running: false,
            left: vec![0; machine.disks as usize],
            waits_for: None,
        };
        Self {
            options: *options,
            disks: u64::from(machine.disks),
            processes: (0..).zip(programs).map(process).collect(),
            held: Vec::new(),
            queue: Vec::new(),
            worthless: Vec::new(),
            stack: Vec::new(),
            hits: vec![0.0; options.frames as usize],
            accesses: 0.0,
            since_halved: 0,
            expected: VecDeque::new(),
        }
    }

    /// Panics where the log is not what the rules say.
    pub fn replay(&mut self, log: &[Change], what: &str) {
        for (at, change) in log.iter().enumerate() {
            let is_given = matches!(
                change,
                Change::Hinted(_) | Change::Asked(..) | Change::Arrived(_) | Change::Ended(_)
            );
            if is_given {
                assert_eq!(self.expected.pop_front(), None, "{what}: {at} is {change:?}");
                self.happened(*change);
            } else {
                assert_eq!(self.expected.pop_front(), Some(*change), "{what}: {at}");
            }
        }
        assert_eq!(self.expected.pop_front(), None, "{what}: at the end");
    }

    fn happened(&mut self, change: Change) {
        match change {
            Change::Hinted(process) => {
                self.processes[process].gives_hints = true;
                self.prefetch(process);
            }
            Change::Asked(process, block) => {
                self.asked(process, block);
                self.prefetch(process);
            }
            Change::Arrived(block) => self.arrived(block),
            Change::Ended(process) => {
                self.processes[process].gives_hints = false;
                self.processes[process].is_running = false;
            }
            Change::Missed(..) | Change::Prefetched(..) | Change::Evicted(_) => unreachable!(),
        }
    }

    fn asked(&mut self, process: usize, block: u64) {
        self.processes[process].position += 1;
        self.processes[process].is_running = true;
        match self.held.iter().position(|held| held.block == block) {
            Some(at) if self.held[at].is_in_flight => self.processes[process].waits_for = Some(block),
            Some(_) => self.used(process, block),
            None => {
                if !self.make_room() {
                    // It gets the next frame that it can have.
                    self.processes[process].waits_for = Some(block);
                    return;
                }
                self.missed(process, block);
            }
        }
    }

    fn missed(&mut self, process: usize, block: u64) {
        self.expected.push_back(Change::Missed(process, block));
        self.held.push(Held { block, unread_of: None, is_in_flight: true });
        self.used(process, block);
    }

    fn arrived(&mut self, block: u64) {
        let held = self.held.iter_mut().find(|held| held.block == block).expect("it was on its way");
        held.is_in_flight = false;
        let owner = held.unread_of;
        let waiting: Vec<usize> = (0..self.processes.len())
            .filter(|process| self.processes[*process].waits_for == Some(block))
            .collect();
        let lane = (block % self.disks) as usize;
        let ends_batch = owner.is_some_and(|owner| {
            let left = &mut self.processes[owner].left[lane];
            *left -= u32::from(*left > 0);
            *left == 0
        });
        for process in waiting {
            self.processes[process].waits_for = None;
            self.used(process, block);
        }
        for process in 0..self.processes.len() {
            if let Some(starved) = self.processes[process].waits_for
                && !self.held.iter().any(|held| held.block == starved)
                && self.make_room()
            {
                self.processes[process].waits_for = None;
                self.missed(process, starved);
            }
        }
        if let (Some(owner), true, MachinePolicy::Aggressive) = (owner, ends_batch, self.options.policy) {
            self.prefetch(owner);
        }
    }

    /// The process accesses a block that is there, or that it missed.
    fn used(&mut self, process: usize, block: u64) {
        if let Some(held) = self.held.iter_mut().find(|held| held.block == block) {
            held.unread_of = None;
        }
        let is_hinted = self.processes[process].is_hinted && self.options.policy != MachinePolicy::Lru;
        let was_queued = self.queue.contains(&block);
        self.worthless.retain(|other| *other != block);
        if !is_hinted {
            self.count(block);
        } else if self.is_named(block) || was_queued && !self.options.keep_read {
            return;
        } else if self.options.keep_read && self.options.policy == MachinePolicy::Tip2 {
            self.raise(block);
        } else {
            self.worthless.push(block);
            return;
        }
        self.queue.retain(|other| *other != block);
        self.queue.push(block);
    }

    /// An unhinted access, for the curve of hits.
    fn count(&mut self, block: u64) {
        self.accesses += 1.0;
        self.since_halved += 1;
        if let Some(at) = self.raise(block) {
            let segment = self.segment();
            self.hits[at / segment] += 1.0;
        }
        if self.since_halved == 8 * u64::from(self.options.frames) {
            self.since_halved = 0;
            self.accesses /= 2.0;
            self.hits.iter_mut().for_each(|hits| *hits /= 2.0);
        }
    }

    fn raise(&mut self, block: u64) -> Option<usize> {
        let at = self.stack.iter().position(|other| *other == block);
        self.stack.retain(|other| *other != block);
        self.stack.insert(0, block);
        self.stack.truncate(self.options.frames as usize);
        at
    }

    fn segment(&self) -> usize {
        (self.options.frames as usize / 64).max(1)
    }

    fn has_free(&self) -> bool {
        self.held.len() < self.options.frames as usize
    }

    /// False if everything is on its way.
    fn make_room(&mut self) -> bool {
        if self.has_free() {
            return true;
        }
        let Some(victim) = self.victim() else { return false };
        self.held.retain(|held| held.block != victim);
        self.queue.retain(|block| *block != victim);
        self.worthless.retain(|block| *block != victim);
        self.expected.push_back(Change::Evicted(victim));
        true
    }

    fn is_here(&self, block: u64) -> bool {
        self.held.iter().any(|held| held.block == block && !held.is_in_flight)
    }

    /// The next block to go.
    fn victim(&self) -> Option<u64> {
        let worthless = self.worthless.iter().copied().find(|block| self.is_here(*block));
        let oldest = self.queue.iter().copied().find(|block| self.is_here(*block));
        let farthest = (0..self.processes.len()).filter_map(|process| self.farthest(process));
        if self.options.policy != MachinePolicy::Tip2 {
            return worthless.or(farthest.into_iter().next()).or(oldest);
        }
        let mut best: Option<u64> = worthless;
        if best.is_none() {
            for offer in oldest.into_iter().chain(farthest) {
                if best.is_none_or(|best| self.price(offer) < self.price(best)) {
                    best = Some(offer);
                }
            }
        }
        best
    }

    /// The block that the process needs last, of those that are there and hinted.
    fn farthest(&self, process: usize) -> Option<u64> {
        let here = self.held.iter().filter(|held| !held.is_in_flight).map(|held| held.block);
        here.filter(|block| self.depth_of(process, *block).is_some())
            .max_by_key(|block| self.depth_of(process, *block))
    }

    /// In how many of its reads the process needs the block; the next one is 1.
    fn depth_of(&self, process: usize, block: u64) -> Option<u64> {
        let Process { blocks, gives_hints, position, .. } = &self.processes[process];
        let next = blocks[*position..].iter().position(|next| *next == block)?;
        gives_hints.then_some(next as u64 + 1)
    }

    fn is_named(&self, block: u64) -> bool {
        (0..self.processes.len()).any(|process| self.depth_of(process, block).is_some())
    }

    /// What the block is worth.
    fn price(&self, block: u64) -> f64 {
        let mut price = if self.queue.contains(&block) { self.queue_price() } else { 0.0 };
        for process in 0..self.processes.len() {
            if let Some(distance) = self.depth_of(process, block) {
                price = price.max(ejection_us(distance) * self.processes[process].rate);
            }
        }
        price
    }

    fn queue_price(&self) -> f64 {
        let (length, segment) = (self.queue.len(), self.segment());
        let (mut slope, mut hits) = (0.0_f64, 0.0);
        if self.accesses > 0.0 {
            let frames = self.options.frames as usize;
            if length > 0 {
                let at = (length - 1) / segment;
                let buffers = segment.min(frames - at * segment);
                slope = self.hits[at] / (buffers as f64 * self.accesses);
            }
            for (at, first) in (0..frames).step_by(segment).enumerate() {
                let end = (first + segment).min(frames);
                if end > length {
                    hits += self.hits[at] * (end - first.max(length)) as f64 / (end - first) as f64;
                    slope = slope.max(hits / ((end - length) as f64 * self.accesses));
                }
            }
        }
        slope * (500.0 + 29_000.0) * self.unhinted_rate()
    }

    /// What it gains to let the queue grow, and by how many buffers.
    fn growth(&self) -> Option<(f64, usize)> {
        let (length, segment, frames) = (self.queue.len(), self.segment(), self.options.frames as usize);
        let (mut best, mut hits) = (None::<(f64, usize)>, 0.0);
        for (at, first) in (0..frames).step_by(segment).enumerate() {
            let end = (first + segment).min(frames);
            if end > length && self.accesses > 0.0 {
                hits += self.hits[at] * (end - first.max(length)) as f64 / (end - first) as f64;
                let slope = hits / ((end - length) as f64 * self.accesses);
                if slope > best.map_or(0.0, |(slope, _)| slope) {
                    best = Some((slope, end - length));
                }
            }
        }
        let priced = |(slope, buffers)| (slope * (500.0 + 29_000.0) * self.unhinted_rate(), buffers);
        best.filter(|_| self.options.reserve).map(priced)
    }

    fn unhinted_rate(&self) -> f64 {
        let unhinted = self.processes.iter().filter(|process| process.is_running && !process.is_hinted);
        unhinted.map(|process| process.rate).sum()
    }

    fn prefetch(&mut self, process: usize) {
        match self.options.policy {
            MachinePolicy::Lru | MachinePolicy::LruSp => {}
            MachinePolicy::Tip2 => while self.fetch_one(process, None, Self::is_worth_it) {},
            MachinePolicy::Horizon => {
                while self.fetch_one(process, None, |rules, process, _, depth| {
                    depth < 68 && rules.does_no_harm(process, depth)
                }) {}
            }
            MachinePolicy::Aggressive => {
                for disk in 0..self.disks {
                    self.fetch_batch(process, disk);
                }
            }
        }
    }

    fn fetch_batch(&mut self, process: usize, disk: u64) {
        if self.processes[process].left[disk as usize] > 0 {
            return;
        }
        let mut reads = 0;
        while reads < BATCH_READS
            && self.fetch_one(process, Some(disk), |rules, process, _, depth| {
                let unread = rules.held.iter().filter(|held| held.unread_of == Some(process)).count();
                2 * (unread + 1) <= rules.options.frames as usize && rules.does_no_harm(process, depth)
            })
        {
            reads += 1;
        }
        self.processes[process].left[disk as usize] = reads;
    }

    /// Fetches the first missing block of the process, or of those on a disk, if `may` says so.
    fn fetch_one(
        &mut self,
        process: usize,
        disk: Option<u64>,
        may: impl Fn(&Self, usize, u64, u64) -> bool,
    ) -> bool {
        let Process { blocks, gives_hints, position, .. } = &self.processes[process];
        if !gives_hints {
            return false;
        }
        let is_missing = |block: &u64| {
            disk.is_none_or(|disk| block % self.disks == disk)
                && !self.held.iter().any(|held| held.block == *block)
        };
        let Some(ahead) = blocks[*position..].iter().position(is_missing) else { return false };
        let block = blocks[*position + ahead];
        if !may(self, process, block, ahead as u64 + 1) || !self.make_room() {
            return false;
        }
        self.expected.push_back(Change::Prefetched(process, block));
        self.held.push(Held { block, unread_of: Some(process), is_in_flight: true });
        true
    }

    fn is_worth_it(&self, process: usize, _: u64, depth: u64) -> bool {
        if depth >= 68 {
            return false;
        }
        // A process that has made no access has no rate.
        let rate = if self.processes[process].is_running { self.processes[process].rate } else { 0.0 };
        let gain = 29_000.0 / (depth as f64 * (depth as f64 + 1.0)) * rate;
        let free = self.options.frames as usize - self.held.len();
        let victim = if free > 0 { None } else { self.victim() };
        if free == 0 && victim.is_none() {
            return false;
        }
        let is_worthless = |block: u64| self.worthless.contains(&block);
        let mut price = victim.map_or(0.0, |block| if is_worthless(block) { 0.0 } else { self.price(block) });
        if let Some((growth, _)) = self.growth().filter(|(_, buffers)| free <= *buffers) {
            price = price.max(growth);
        }
        let needed = victim.and_then(|block| self.depth_of(process, block));
        gain > price && needed.is_none_or(|needed| needed > depth)
    }

    /// Whether a frame is free, or what the process would give up is needed later.
    fn does_no_harm(&self, process: usize, depth: u64) -> bool {
        self.has_free()
            || self.worthless.iter().any(|block| self.is_here(*block))
            || self
                .farthest(process)
                .and_then(|block| self.depth_of(process, block))
                .is_some_and(|needed| needed > depth)
    }
}

fn ejection_us(distance: u64) -> f64 {
    if distance > 68 {
        500.0 / (distance - 68) as f64
    } else {
        (500.0 + (29_000.0 - (distance as f64 - 1.0) * 425.0).max(0.0)) / distance as f64
    }
}
