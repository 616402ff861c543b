//! The queue against a naive one that keeps lists and counts them anew for each question; and what it
//! promises.

use proptest::prelude::*;

use super::*;
use crate::io::source::Alignment;

fn source(requests_in_flight: u32) -> Capabilities {
    let alignment = Alignment::NONE;
    Capabilities { writable: true, fixed_length: false, run_bytes: 1, requests_in_flight, alignment }
}

/// A queue before a device that is saturated with this many reads in flight.
fn saturated_at<T>(slots: usize) -> FairQueue<T> {
    let mut queue = FairQueue::new();
    queue.add_source(&source(slots as u32));
    queue
}

/// The same rules over plain lists, counted anew for each question.
struct Naive {
    slots: usize,
    /// The tenant of each read in flight.
    in_flight: Vec<u32>,
    /// Tenant, cost and name of each read that waits, in order of arrival.
    waiting: Vec<(u32, u32, u64)>,
    /// Tenants that wait and their deficits, in the order of their turns.
    turns: Vec<(u32, u32)>,
}

impl Naive {
    fn flying(&self, tenant: u32) -> usize {
        self.in_flight.iter().filter(|other| **other == tenant).count()
    }

    fn has_waiting(&self, tenant: u32) -> bool {
        self.waiting.iter().any(|read| read.0 == tenant)
    }

    fn readers_with(&self, tenant: u32) -> usize {
        let reading = |other: &u32| *other == tenant || self.flying(*other) > 0 || self.has_waiting(*other);
        (0..TENANTS).filter(reading).count()
    }

    fn may_start_whatever_others_do(&self, tenant: u32) -> bool {
        let readers = self.readers_with(tenant);
        readers == 1 || self.flying(tenant) < (self.slots / readers).max(1)
    }

    fn has_free_slot(&self) -> bool {
        self.in_flight.len() < self.slots
    }

    fn start(&mut self, tenant: u32) -> bool {
        let starts = if self.waiting.is_empty() {
            self.has_free_slot() || self.may_start_whatever_others_do(tenant)
        } else {
            !self.has_waiting(tenant) && self.may_start_whatever_others_do(tenant)
        };
        if starts {
            self.in_flight.push(tenant);
        }
        starts
    }

    fn push(&mut self, tenant: u32, cost: u32, name: u64) {
        if !self.has_waiting(tenant) {
            self.turns.push((tenant, QUANTUM));
        }
        self.waiting.push((tenant, cost, name));
    }

    fn pop(&mut self) -> Option<(u32, u64)> {
        let reading = (0..TENANTS).filter(|&tenant| self.flying(tenant) > 0 || self.has_waiting(tenant));
        if self.turns.is_empty() || !self.has_free_slot() && reading.count() > 1 {
            return None;
        }
        loop {
            let (tenant, deficit) = self.turns[0];
            let first = self.waiting.iter().position(|read| read.0 == tenant).unwrap();
            let cost = self.waiting[first].1;
            if deficit < cost {
                self.turns.remove(0);
                self.turns.push((tenant, deficit + QUANTUM));
                continue;
            }
            let (_, _, name) = self.waiting.remove(first);
            self.in_flight.push(tenant);
            self.turns[0].1 -= cost;
            if !self.has_waiting(tenant) {
                self.turns.remove(0);
            }
            return Some((tenant, name));
        }
    }

    fn finish(&mut self, tenant: u32) {
        let index = self.in_flight.iter().position(|other| *other == tenant).unwrap();
        self.in_flight.remove(index);
    }
}

const TENANTS: u32 = 5;

proptest! {
    #[test]
    fn decides_as_the_naive_queue_does(
        slots in 1..9_usize,
        steps in proptest::collection::vec((0..4_u8, 0..TENANTS, 1..20_u32), 1..300),
    ) {
        let mut naive =
            Naive { slots, in_flight: Vec::new(), waiting: Vec::new(), turns: Vec::new() };
        let mut queue = saturated_at(slots);
        for (name, (step, tenant, cost)) in (0..).zip(steps) {
            match step {
                0 => {
                    let started = queue.start(TenantId(tenant), 1) == 1;
                    prop_assert_eq!(started, naive.start(tenant));
                    if !started {
                        queue.push(TenantId(tenant), cost, name);
                        naive.push(tenant, cost, name);
                    }
                }
                1 => {
                    queue.push(TenantId(tenant), cost, name);
                    naive.push(tenant, cost, name);
                }
                2 => {
                    let popped = queue.pop().map(|(tenant, name)| (tenant.0, name));
                    prop_assert_eq!(popped, naive.pop());
                }
                _ => {
                    if let Some(&tenant) = naive.in_flight.get(cost as usize % naive.in_flight.len().max(1)) {
                        queue.finish(TenantId(tenant), 1);
                        naive.finish(tenant);
                    }
                }
            }
            queue.check_invariants();
            prop_assert_eq!(queue.queued(), naive.waiting.len());
        }
        // Closing: everything that waits is started once slots come free, and nothing is left.
        while queue.queued() > 0 || !naive.in_flight.is_empty() {
            let popped = queue.pop().map(|(tenant, name)| (tenant.0, name));
            prop_assert_eq!(popped, naive.pop());
            if popped.is_none() {
                let tenant = naive.in_flight[0];
                queue.finish(TenantId(tenant), 1);
                naive.finish(tenant);
            }
            queue.check_invariants();
        }
    }

    /// Starting several reads at once gives the same as starting them one by one.
    #[test]
    fn a_batch_starts_as_many_as_its_reads_one_by_one(
        slots in 1..20_usize,
        others in proptest::collection::vec(0..TENANTS, 0..30),
        count in 0..40_usize,
    ) {
        let queues = || {
            let mut queue = saturated_at::<u64>(slots);
            for &tenant in &others {
                if queue.start(TenantId(tenant), 1) == 0 {
                    queue.push(TenantId(tenant), 1, 0);
                }
            }
            queue
        };
        let (mut batch, mut single) = (queues(), queues());
        let started = batch.start(TenantId(0), count);
        let one_by_one = (0..count).take_while(|_| single.start(TenantId(0), 1) == 1).count();
        prop_assert_eq!(started, one_by_one);
        batch.check_invariants();
    }
}

/// Over any time in which two tenants wait, what they got differs by at most two turns and the dearest read.
#[test]
fn tenants_that_always_wait_get_the_same_whatever_their_reads_cost() {
    let costs = [1, 3, 17];
    let mut queue = saturated_at(4);
    let mut served = [0_u64; 3];
    let backlog = |queue: &mut FairQueue<u32>, tenant: usize| {
        (0..3).for_each(|_| queue.push(TenantId(tenant as u32), costs[tenant], costs[tenant]));
    };
    (0..3).for_each(|tenant| backlog(&mut queue, tenant));
    let mut in_flight = VecDeque::new();
    for _ in 0..30_000 {
        while let Some((tenant, cost)) = queue.pop() {
            served[tenant.index()] += u64::from(cost);
            queue.push(tenant, cost, cost);
            in_flight.push_back(tenant);
        }
        queue.finish(in_flight.pop_front().unwrap(), 1);
        queue.check_invariants();
        let (least, most) = (served.iter().min().unwrap(), served.iter().max().unwrap());
        assert!(most - least <= 2 * u64::from(QUANTUM) + 2 * 17, "{served:?}");
    }
}

#[test]
fn the_source_that_takes_most_reads_says_when_the_device_is_saturated() {
    let mut queue = FairQueue::<()>::new();
    for (requests_in_flight, slots) in [(1, 1), (4, 4), (2, 4), (9, 9)] {
        queue.add_source(&source(requests_in_flight));
        assert_eq!(queue.slots, slots);
    }
}

#[test]
fn a_lone_reader_never_queues() {
    let mut queue = saturated_at::<()>(4);
    assert_eq!(queue.start(TenantId(3), 1000), 1000);
    queue.finish(TenantId(3), 1000);
    assert_eq!(queue.start(TenantId(2), 1000), 1000);
    queue.check_invariants();
}

/// However long the greedy one's backlog, the other starts its reads at once, up to half of the slots.
#[test]
fn a_tenant_below_its_share_does_not_queue_behind_a_greedy_one() {
    let mut queue = saturated_at(8);
    assert_eq!(queue.start(TenantId(1), 100), 100);
    assert_eq!(queue.start(TenantId(2), 3), 3);
    (0..50).for_each(|name| queue.push(TenantId(1), 1, name));
    assert_eq!(queue.pop(), None);
    assert_eq!(queue.start(TenantId(2), 3), 1, "the fourth is its share");
    queue.push(TenantId(2), 1, 1000);
    queue.push(TenantId(2), 1, 1001);
    // The greedy one's excess ends; then both get every other slot.
    queue.finish(TenantId(1), 96);
    assert_eq!(queue.pop(), None);
    let mut order = Vec::new();
    for _ in 0..4 {
        queue.finish(TenantId(1), 1);
        order.extend(queue.pop().map(|(tenant, _)| tenant.0));
        queue.finish(TenantId(2), 1);
        order.extend(queue.pop().map(|(tenant, _)| tenant.0));
        queue.check_invariants();
    }
    assert_eq!(order, [1, 2, 1, 2, 1, 1, 1, 1]);
}

/// A tenant whose reads fail, or whose requesters are gone, frees its slots like any other: nothing else is
/// asked of them.
#[test]
fn every_waiting_read_is_started_after_at_most_so_many_others() {
    let tenants = 16_u32;
    let mut queue = saturated_at(2);
    for tenant in 0..tenants {
        (0..200).for_each(|_| queue.push(TenantId(tenant), 1, ()));
    }
    queue.push(TenantId(tenants), 17, ());
    let mut turns = 0;
    loop {
        let Some((tenant, ())) = queue.pop() else { panic!("a slot is free") };
        queue.finish(tenant, 1);
        turns += 1;
        if tenant.0 == tenants {
            break;
        }
    }
    assert_eq!(turns, 17 * tenants + 1, "it has to save for 17 turns");
}

#[test]
fn longer_reads_cost_more() {
    assert_eq!(cost_of(4096), 1);
    assert_eq!(cost_of(16 << 10), 2);
    assert_eq!(cost_of(256 << 10), 17);
    assert_eq!(cost_of(u64::MAX), COST_MAX);
}
