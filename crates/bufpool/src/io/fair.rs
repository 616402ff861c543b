//! Whose read is next: deficit round robin by tenant, over the operations in flight.
//!
//! A tenant that reads more than the others, because it throws away what it needs next or because it is
//! greedy, must not fill the device's queue with its reads and make the others wait behind them. So the
//! number of reads in flight is watched. While it is below [`FairQueue::slots`], every read starts at once.
//! At that number the device is taken to be saturated: more reads in flight would only wait there, in an
//! order that nobody chooses. From then on reads queue here by tenant, and each slot that comes free goes to
//! the tenant whose turn it is (Shreedhar and Varghese, "Efficient Fair Queueing Using Deficit Round Robin",
//! SIGCOMM 1995).
//!
//! Two rules keep it work-conserving and prompt:
//!
//! * A tenant with fewer reads in flight than its share, `slots` divided by the tenants that are reading,
//!   does not begin to queue. So one that reads a page now and then is not held up by another's backlog at
//!   all.
//! * A tenant that reads alone does not queue either; it may use the whole depth of the ring.
//!
//! So reads in flight are at most twice `slots` (and one for each tenant), or what a lone reader had started
//! when another came. The queue is as long as the reads that wait, each of which owns a frame.

use std::collections::VecDeque;

use bufpool_policies::TenantId;

use super::source::Capabilities;

/// What a turn adds to a tenant's deficit: enough for one small read. Small, so that turns are short.
const QUANTUM: u32 = 1;
/// A transfer that is this many bytes longer costs a device about as much as one more operation.
const BYTES_PER_COST: u64 = 16 << 10;
/// The cost of a read of a mebibyte or more; bounds the turns that one read takes.
const COST_MAX: u32 = 64;

/// What a read of this many bytes takes from its tenant's deficit.
pub(super) fn cost_of(bytes: u64) -> u32 {
    (1 + bytes / BYTES_PER_COST).min(u64::from(COST_MAX)) as u32
}

/// Reads in flight and reads that wait. See the [module](self).
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    /// Reads in flight with which the device is saturated: the largest number that a source has given.
    slots: usize,
    /// A source has said how many.
    knows_source: bool,
    /// By tenant number. Numbers of closed tenants are used again, so this has no more entries than tenants
    /// were ever open at once.
    tenants: Vec<TenantQueue<T>>,
    /// Tenants with reads that wait, in the order of their turns.
    turns: VecDeque<TenantId>,
    in_flight: usize,
    queued: usize,
    /// Reads that have ever waited.
    queued_ever: u64,
    /// Tenants with reads in flight or waiting.
    readers: usize,
}

/// One tenant's reads.
#[derive(Debug)]
struct TenantQueue<T> {
    in_flight: usize,
    waiting: VecDeque<Waiting<T>>,
    deficit: u32,
}

#[derive(Debug)]
struct Waiting<T> {
    cost: u32,
    read: T,
}

impl<T> TenantQueue<T> {
    const EMPTY: Self = Self { in_flight: 0, waiting: VecDeque::new(), deficit: 0 };

    fn is_reading(&self) -> bool {
        self.in_flight > 0 || !self.waiting.is_empty()
    }
}

impl<T> FairQueue<T> {
    /// An empty queue. It allows one read at a time until it knows of a source.
    pub fn new() -> Self {
        Self {
            slots: 1,
            knows_source: false,
            tenants: Vec::new(),
            turns: VecDeque::new(),
            in_flight: 0,
            queued: 0,
            queued_ever: 0,
            readers: 0,
        }
    }

    /// Reads of one more source will come: from now on the device is saturated with at least the source's
    /// requests in flight.
    pub fn add_source(&mut self, capabilities: &Capabilities) {
        self.slots = self.slots.max(capabilities.requests_in_flight as usize);
        self.knows_source = true;
    }

    /// Reads that wait.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// One line for the backend's report.
    pub fn feature(&self) -> String {
        let Self { slots, queued_ever, .. } = self;
        if !self.knows_source {
            return "tenants taking turns (from how many reads in flight on, the first file says)".into();
        }
        format!("tenants taking turns from {slots} reads in flight on ({queued_ever} reads have waited)")
    }

    /// Starts up to `count` reads of `tenant` and returns how many; the others have to queue. They overtake
    /// no waiting read of the same tenant, and those of other tenants only within the tenant's share.
    pub fn start(&mut self, tenant: TenantId, count: usize) -> usize {
        let mut limit = self.below_share(tenant);
        if self.queued == 0 {
            limit = limit.max(self.free_slots());
        } else if !self.queue(tenant).waiting.is_empty() {
            limit = 0;
        }
        let started = count.min(limit);
        let queue = self.queue(tenant);
        let begins = started > 0 && !queue.is_reading();
        queue.in_flight += started;
        self.readers += usize::from(begins);
        self.in_flight += started;
        started
    }

    /// Lets a read wait for its tenant's turn.
    pub fn push(&mut self, tenant: TenantId, cost: u32, read: T) {
        let queue = self.queue(tenant);
        let (was_reading, was_waiting) = (queue.is_reading(), !queue.waiting.is_empty());
        queue.waiting.push_back(Waiting { cost, read });
        if !was_waiting {
            queue.deficit = QUANTUM;
            self.turns.push_back(tenant);
        }
        self.readers += usize::from(!was_reading);
        self.queued += 1;
        self.queued_ever += 1;
    }

    /// The next read to start, with its tenant, if one may start. It counts as in flight from now on.
    ///
    /// The number of rounds over the waiting tenants is at most the cost of the cheapest read that is first
    /// in its tenant's queue.
    pub fn pop(&mut self) -> Option<(TenantId, T)> {
        if self.free_slots() == 0 && self.readers > 1 {
            return None;
        }
        while let Some(&tenant) = self.turns.front() {
            let queue = self.queue(tenant);
            let cost = queue.waiting.front().expect("a tenant has its turn because its reads wait").cost;
            if queue.deficit >= cost {
                return Some((tenant, self.take_first(tenant)));
            }
            queue.deficit += QUANTUM;
            self.turns.rotate_left(1);
        }
        None
    }

    /// `count` reads of `tenant` that had been started are over, however they ended.
    pub fn finish(&mut self, tenant: TenantId, count: usize) {
        let queue = self.queue(tenant);
        queue.in_flight = queue.in_flight.checked_sub(count).expect("only what was started is finished");
        let stopped = count > 0 && !queue.is_reading();
        self.readers -= usize::from(stopped);
        self.in_flight -= count;
    }

    /// Reads that may be started before the device is saturated.
    fn free_slots(&self) -> usize {
        self.slots.saturating_sub(self.in_flight)
    }

    /// How many reads `tenant` may start whatever the others do: up to its share, or without limit if it
    /// reads alone.
    fn below_share(&mut self, tenant: TenantId) -> usize {
        let (reading, slots) = (self.readers, self.slots);
        let queue = self.queue(tenant);
        let readers = reading + usize::from(!queue.is_reading());
        if readers == 1 { usize::MAX } else { (slots / readers).max(1).saturating_sub(queue.in_flight) }
    }

    fn take_first(&mut self, tenant: TenantId) -> T {
        let queue = self.queue(tenant);
        let first = queue.waiting.pop_front().expect("the caller has seen it");
        queue.deficit -= first.cost;
        if queue.waiting.is_empty() {
            queue.deficit = 0;
            let left = self.turns.pop_front();
            debug_assert_eq!(left, Some(tenant));
        }
        self.queued -= 1;
        // `readers` stays the same: the tenant is reading before and after.
        self.queue(tenant).in_flight += 1;
        self.in_flight += 1;
        first.read
    }

    fn queue(&mut self, tenant: TenantId) -> &mut TenantQueue<T> {
        if self.tenants.len() <= tenant.index() {
            self.tenants.resize_with(tenant.index() + 1, || TenantQueue::EMPTY);
        }
        &mut self.tenants[tenant.index()]
    }
}

#[cfg(test)]
impl<T> FairQueue<T> {
    /// Recounts everything and panics where the counts contradict each other.
    fn check_invariants(&self) {
        let sum = |count: fn(&TenantQueue<T>) -> usize| self.tenants.iter().map(count).sum::<usize>();
        assert_eq!(self.in_flight, sum(|queue| queue.in_flight));
        assert_eq!(self.queued, sum(|queue| queue.waiting.len()));
        assert_eq!(self.readers, sum(|queue| usize::from(queue.is_reading())));
        let mut turns: Vec<_> = self.turns.iter().map(|tenant| tenant.index()).collect();
        turns.sort_unstable();
        let waiting = self.tenants.iter().enumerate().filter(|(_, queue)| !queue.waiting.is_empty());
        assert_eq!(turns, waiting.map(|(index, _)| index).collect::<Vec<_>>(), "one turn for each who waits");
        assert!(self.tenants.iter().all(|queue| queue.deficit == 0 || !queue.waiting.is_empty()));
    }
}

#[cfg(test)]
mod tests;
