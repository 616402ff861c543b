//! The rules of the machine's cache, by search: which block is evicted for which, and what is fetched when.
//!
//! What depends on time is taken from the log: when a process asks for a block, and when blocks arrive. All
//! other entries of the log have to follow from these.
//!
//! `lru` replaces by the ledger, which has the blocks in the order of their last uses. `lru-sp`, `aggressive`
//! and `horizon` replace by the ledger, a manager that knows its process's hints, swapping and placeholders.
//! `tip2` replaces by prices.

use std::collections::VecDeque;

use bufpool_bench::simulate::machine::{CacheOptions, Change, MachineOptions, MachinePolicy};
use bufpool_policies::hints::aggressive::BATCH_READS;

use super::Program;

/// A process, as the rules see it.
struct Process {
    blocks: Vec<u64>,
    is_hinted: bool,
    /// Whether it has given its hints, and has not ended.
    gives_hints: bool,
    position: usize,
    /// Accesses a microsecond, and whether it has made an access and has not ended.
    rate: f64,
    is_running: bool,
    /// For each disk: prefetches of the batch that have not arrived.
    left: Vec<u32>,
    /// The block that it accesses, if that is on its way.
    waits_for: Option<u64>,
}

/// A block in memory, or on its way there.
struct Held {
    block: u64,
    owner: usize,
    /// The number of its last use, counted over all blocks.
    last_use: u64,
    /// Whether it was prefetched, and not read so far.
    is_unread: bool,
    is_in_flight: bool,
}

/// A process's overrules, and how they turned out.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Verdicts {
    pub overrules: u64,
    pub mistakes: u64,
    pub vindications: u64,
}

pub struct Rules {
    options: CacheOptions,
    disks: u64,
    processes: Vec<Process>,
    /// The ledger, its head first.
    held: Vec<Held>,
    /// Placeholders: absent blocks, each with the block in memory that a manager kept instead.
    placeholders: Vec<(u64, u64)>,
    /// For each process.
    pub verdicts: Vec<Verdicts>,
    uses: u64,
    /// Processes that wait for a frame, in the order in which they began to wait.
    starved: Vec<usize>,
    /// Unhinted blocks, by last use.
    queue: Vec<u64>,
    /// Blocks that were read from hints and are hinted no further, in order.
    worthless: Vec<u64>,
    /// Unhinted accesses: an LRU stack, hits by segment, accesses, and how many since they were halved.
    stack: Vec<u64>,
    hits: Vec<f64>,
    accesses: f64,
    since_halved: u64,
    /// The entries that have to follow in the log.
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
            placeholders: Vec::new(),
            verdicts: vec![Verdicts::default(); programs.len()],
            uses: 0,
            starved: Vec::new(),
            queue: Vec::new(),
            worthless: Vec::new(),
            stack: Vec::new(),
            hits: vec![0.0; options.frames as usize],
            accesses: 0.0,
            since_halved: 0,
            expected: VecDeque::new(),
        }
    }

    /// Panics if the log is not what the rules say.
    pub fn replay(&mut self, log: &[Change], what: &str) {
        for (at, change) in log.iter().enumerate() {
            let is_given = matches!(change, Change::Hinted(_) | Change::Asked(..) | Change::Arrived(_));
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
                self.processes[process].position += 1;
                self.processes[process].is_running = true;
                let is_here = self.look_up(process, block);
                self.prefetch(process);
                self.end(process, is_here);
            }
            Change::Arrived(block) => self.arrived(block),
            Change::Missed(..) | Change::Prefetched(..) | Change::Evicted(_) | Change::Ended(_) => {
                unreachable!()
            }
        }
    }

    /// The process accesses the block. Returns whether the block is in memory and the process goes on.
    fn look_up(&mut self, process: usize, block: u64) -> bool {
        match self.held.iter().find(|held| held.block == block).map(|held| held.is_in_flight) {
            Some(true) => self.processes[process].waits_for = Some(block),
            Some(false) => {
                self.hit(process, block);
                return true;
            }
            None if self.make_room(block, true) => {
                self.expected.push_back(Change::Missed(process, block));
                self.enter(process, block, false);
                self.used(process, block);
                self.processes[process].waits_for = Some(block);
            }
            None => self.starved.push(process),
        }
        false
    }

    /// Puts a block that is on its way at the ledger's tail.
    fn enter(&mut self, owner: usize, block: u64, is_unread: bool) {
        self.held.push(Held { block, owner, last_use: 0, is_unread, is_in_flight: true });
    }

    /// Moves the block to the ledger's tail. If a placeholder points to the block, the overrule is
    /// vindicated: the block that stayed was used first.
    fn hit(&mut self, process: usize, block: u64) {
        let at = self.held.iter().position(|held| held.block == block).expect("a block in memory");
        let held = self.held.remove(at);
        self.held.push(held);
        self.verdicts[process].vindications += u64::from(self.end_claim_on(block).is_some());
        self.used(process, block);
    }

    /// Ends the process if it has its last block.
    fn end(&mut self, process: usize, has_block: bool) {
        let Process { blocks, position, .. } = &self.processes[process];
        if has_block && *position == blocks.len() {
            self.processes[process].gives_hints = false;
            self.processes[process].is_running = false;
            let is_unread = |held: &Held| held.owner == process && held.is_unread;
            assert!(!self.held.iter().any(is_unread), "what was right to fetch was read");
            self.expected.push_back(Change::Ended(process));
        }
    }

    fn arrived(&mut self, block: u64) {
        let held = self.held.iter_mut().find(|held| held.block == block).expect("it was on its way");
        held.is_in_flight = false;
        let (owner, is_ahead) = (held.owner, held.is_unread);
        let left = &mut self.processes[owner].left[(block % self.disks) as usize];
        *left -= u32::from(is_ahead && *left > 0);
        let ends_batch = is_ahead && *left == 0;
        if self.processes[owner].waits_for == Some(block) {
            self.processes[owner].waits_for = None;
            // A miss was the block's use.
            if is_ahead {
                self.hit(owner, block);
            }
            self.end(owner, true);
        }
        for process in std::mem::take(&mut self.starved) {
            self.find(process);
        }
        if ends_batch && self.options.policy == MachinePolicy::Aggressive {
            self.fetch_batch(owner, block % self.disks);
        }
    }

    /// A process that found no frame tries again.
    fn find(&mut self, process: usize) {
        let at = self.processes[process].position - 1;
        let block = self.processes[process].blocks[at];
        let is_here = self.look_up(process, block);
        self.end(process, is_here);
    }

    /// The process uses a block that is in memory, or that it missed.
    fn used(&mut self, process: usize, block: u64) {
        self.uses += 1;
        let held = self.held.iter_mut().find(|held| held.block == block).expect("a block in memory");
        (held.is_unread, held.last_use) = (false, self.uses);
        if self.options.policy == MachinePolicy::Tip2 {
            self.value(process, block);
        }
    }

    /// Under TIP2, decides whether a block that was used is hinted, in the queue, or worthless.
    fn value(&mut self, process: usize, block: u64) {
        let was_queued = self.queue.contains(&block);
        self.worthless.retain(|other| *other != block);
        if !self.processes[process].is_hinted {
            self.count(block);
        } else if self.is_named(block) || was_queued && !self.options.keep_read {
            return;
        } else if self.options.keep_read {
            self.raise(block);
        } else {
            self.worthless.push(block);
            return;
        }
        self.queue.retain(|other| *other != block);
        self.queue.push(block);
    }

    /// Counts an unhinted access for the curve of hits.
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

    /// Evicts a block unless a frame is free. Returns false if all blocks are on their way.
    fn make_room(&mut self, coming: u64, is_missed: bool) -> bool {
        let victim = if self.options.policy == MachinePolicy::Tip2 {
            if self.has_free() {
                return true;
            }
            self.cheapest()
        } else {
            let claimed = self.placeholders.iter().find(|(absent, _)| *absent == coming);
            let claimed = claimed.map(|(_, stayed)| *stayed);
            if claimed.is_none() && self.has_free() {
                return true;
            }
            if let Some(stayed) = claimed {
                // Only a miss of a process shows a mistake, not a prefetch.
                let owner = self.held[self.place(stayed)].owner;
                self.verdicts[owner].mistakes += u64::from(is_missed);
                self.end_claim_on(stayed);
            }
            let oldest = || self.held.iter().find(|held| !held.is_in_flight).map(|held| held.block);
            claimed.or_else(oldest).map(|candidate| self.overrule(candidate))
        };
        let Some(victim) = victim else { return false };
        self.held.retain(|held| held.block != victim);
        self.queue.retain(|block| *block != victim);
        self.worthless.retain(|block| *block != victim);
        self.expected.push_back(Change::Evicted(victim));
        true
    }

    /// The block that is evicted if the ledger, or a placeholder, names `candidate`: what its owner gives up.
    fn overrule(&mut self, candidate: u64) -> u64 {
        let place = self.place(candidate);
        let owner = self.held[place].owner;
        let victim = self.given_up_by(owner).unwrap_or(candidate);
        if victim == candidate {
            self.end_claim_on(candidate);
            return victim;
        }
        self.verdicts[owner].overrules += 1;
        let other = self.place(victim);
        self.held.swap(place, other);
        self.end_claim_on(candidate);
        // A placeholder that points to the victim now points to the block that stays.
        let absent = self.end_claim_on(victim).unwrap_or(victim);
        self.placeholders.push((absent, candidate));
        victim
    }

    /// The block that a process with hints gives up: of its blocks that it needs no more, the least recently
    /// used one; else the one that it needs last.
    fn given_up_by(&self, process: usize) -> Option<u64> {
        if !self.processes[process].gives_hints {
            return None;
        }
        self.unneeded(process).or_else(|| self.farthest(process))
    }

    fn unneeded(&self, process: usize) -> Option<u64> {
        let own = self.held.iter().filter(|held| held.owner == process && !held.is_in_flight);
        let unneeded = own.filter(|held| self.depth_of(process, held.block).is_none());
        unneeded.min_by_key(|held| held.last_use).map(|held| held.block)
    }

    /// Deletes the placeholder that points to a block in memory; returns the absent block.
    fn end_claim_on(&mut self, stayed: u64) -> Option<u64> {
        let at = self.placeholders.iter().position(|(_, block)| *block == stayed)?;
        Some(self.placeholders.remove(at).0)
    }

    fn place(&self, block: u64) -> usize {
        self.held.iter().position(|held| held.block == block).expect("a block in memory")
    }

    fn is_here(&self, block: u64) -> bool {
        self.held.iter().any(|held| held.block == block && !held.is_in_flight)
    }

    /// The next victim, by prices.
    fn cheapest(&self) -> Option<u64> {
        let worthless = self.worthless.iter().copied().find(|block| self.is_here(*block));
        let oldest = self.queue.iter().copied().find(|block| self.is_here(*block));
        let farthest = (0..self.processes.len()).filter_map(|process| self.farthest(process));
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

    /// The block that the process needs last, of its hinted blocks in memory.
    fn farthest(&self, process: usize) -> Option<u64> {
        let here = self.held.iter().filter(|held| !held.is_in_flight).map(|held| held.block);
        here.filter(|block| self.depth_of(process, *block).is_some())
            .max_by_key(|block| self.depth_of(process, *block))
    }

    /// After how many of its reads the process needs the block; 1 is the next read.
    fn depth_of(&self, process: usize, block: u64) -> Option<u64> {
        let Process { blocks, gives_hints, position, .. } = &self.processes[process];
        let next = blocks[*position..].iter().position(|next| *next == block)?;
        gives_hints.then_some(next as u64 + 1)
    }

    fn is_named(&self, block: u64) -> bool {
        (0..self.processes.len()).any(|process| self.depth_of(process, block).is_some())
    }

    /// The price of the block: what its eviction costs.
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

    /// The greatest gain from letting the queue grow, and by how many buffers.
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
                let own = || rules.held.iter().filter(|held| held.owner == process);
                let unread = own().filter(|held| held.is_unread).count();
                let frames = own().count() + rules.options.frames as usize - rules.held.len();
                2 * (unread + 1) <= frames && rules.does_no_harm(process, depth)
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
        if !may(self, process, block, ahead as u64 + 1) || !self.make_room(block, false) {
            return false;
        }
        self.expected.push_back(Change::Prefetched(process, block));
        self.enter(process, block, true);
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
        let victim = if free > 0 { None } else { self.cheapest() };
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

    /// Whether a frame is free, or the process can give up a block that it needs later than at `depth`, or no
    /// more.
    fn does_no_harm(&self, process: usize, depth: u64) -> bool {
        let given_up = self.given_up_by(process);
        let is_later = |block| self.depth_of(process, block).is_none_or(|needed| needed > depth);
        self.has_free() || given_up.is_some_and(is_later)
    }
}

fn ejection_us(distance: u64) -> f64 {
    if distance > 68 {
        500.0 / (distance - 68) as f64
    } else {
        (500.0 + (29_000.0 - (distance as f64 - 1.0) * 425.0).max(0.0)) / distance as f64
    }
}
