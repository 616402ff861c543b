//! Time for counts: programs that compute, wait for their reads, and share a processor and disks.
//!
//! The simulator counts in accesses; to tell who waits for whom, accesses have to take time. Each program
//! runs `compute_ms` on the one processor before each access. A miss then queues for the program's disk
//! (first in, first out) and the program sleeps until its block is there; the block's frame cannot be taken
//! meanwhile. A disk serves a request in [`SEQUENTIAL_MS`] if its block follows the one it served before,
//! else in [`RANDOM_MS`].
//!
//! The two times are fitted to the published ones: Read300 alone on its disk takes 20 s, two ReadN on one
//! disk take 53 s (Cao, Felten, Li, OSDI '94).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::simulate::{Counts, Policy, Setup, SimError, Stepper};
use crate::trace::{Directive, Item, Reference, Trace};

/// Time to serve a request whose block follows the one served before, in milliseconds.
pub const SEQUENTIAL_MS: f64 = 10.0;

/// Time to serve any other request, in milliseconds.
pub const RANDOM_MS: f64 = 20.0;

/// A program: what it does, how long it computes, and where its files are.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its accesses and directives, as of a single tenant 0 with blocks of its own from 0 on.
    pub items: Vec<Item>,
    /// Time on the processor before each access, in milliseconds.
    pub compute_ms: f64,
    /// The disk with its files.
    pub disk: usize,
}

/// What became of a program.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// Its counts.
    pub counts: Counts,
    /// From the common start to its end, in seconds.
    pub elapsed_s: f64,
}

/// Blocks a program may have: program p's block b is block p * 2^32 + b of the whole.
const BLOCKS_MAX: u64 = 1 << 32;

/// Runs the programs together in one cache that is empty at first; program p is tenant p.
///
/// # Errors
///
/// If the simulator refuses a directive or finds every frame in use.
///
/// # Panics
///
/// If `policy` is not a two-level policy.
pub fn run(programs: &[Program], policy: Policy, setup: &Setup) -> Result<Vec<Ran>, SimError> {
    let items: Vec<Vec<Item>> =
        (0..).zip(programs).map(|(tenant, program)| placed(&program.items, tenant)).collect();
    let trace = Trace::of("programs", items.iter().flatten().cloned());
    let mut office = Office::new(programs, &items, Stepper::new(&trace, policy, setup)?);
    (0..programs.len()).try_for_each(|program| office.compute(program, 0.0))?;
    while let Some(Reverse(event)) = office.events.pop() {
        office.happen(event)?;
    }
    let counts = (0..).zip(office.ended_ms);
    Ok(counts
        .map(|(tenant, ended_ms)| Ran { counts: office.cache.counts(tenant), elapsed_s: ended_ms / 1000.0 })
        .collect())
}

/// The items as tenant `tenant`'s, with its blocks.
fn placed(items: &[Item], tenant: u32) -> Vec<Item> {
    let base = u64::from(tenant) * BLOCKS_MAX;
    let mut placed = items.to_vec();
    for item in &mut placed {
        match item {
            Item::Access(reference) => {
                *reference = Reference { block: base + reference.block, tenant, ..*reference };
            }
            Item::Directive(Directive::Policy { tenant: whose, .. }) => *whose = tenant,
            Item::Directive(
                Directive::Priority { tenant: whose, first, last, .. }
                | Directive::TemporaryPriority { tenant: whose, first, last, .. },
            ) => {
                *whose = tenant;
                (*first, *last) = (base + *first, base + *last);
            }
            Item::Directive(Directive::File { first, last, name }) => {
                (*first, *last) = (base + *first, base + *last);
                *name = format!("{tenant}:{name}");
            }
            Item::Directive(Directive::Pin(block) | Directive::Unpin(block)) => *block += base,
        }
    }
    placed
}

/// Something that will happen. Ordered by time, then by order of creation, so that runs repeat exactly.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Event {
    at_ms: f64,
    number: u64,
    program: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// The program has computed and makes its next access.
    Access,
    /// The program's block has been read.
    Read,
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at_ms.total_cmp(&other.at_ms).then(self.number.cmp(&other.number))
    }
}

#[derive(Default)]
struct Disk {
    /// Programs and blocks to serve, the first being served.
    queue: VecDeque<(usize, u64)>,
    /// The block served last.
    head: Option<u64>,
}

struct Office<'a> {
    programs: &'a [Program],
    items: Vec<VecDeque<&'a Item>>,
    cache: Stepper<'a>,
    disks: Vec<Disk>,
    events: BinaryHeap<Reverse<Event>>,
    events_made: u64,
    /// When the processor is free again.
    processor_free_ms: f64,
    ended_ms: Vec<f64>,
}

impl<'a> Office<'a> {
    fn new(programs: &'a [Program], items: &'a [Vec<Item>], cache: Stepper<'a>) -> Self {
        let disks = programs.iter().map(|program| program.disk + 1).max().unwrap_or(0);
        Self {
            programs,
            items: items.iter().map(|items| items.iter().collect()).collect(),
            cache,
            disks: (0..disks).map(|_| Disk::default()).collect(),
            events: BinaryHeap::new(),
            events_made: 0,
            processor_free_ms: 0.0,
            ended_ms: vec![0.0; programs.len()],
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), SimError> {
        match event.kind {
            Kind::Access => self.access(event.program, event.at_ms),
            Kind::Read => self.read(event.program, event.at_ms),
        }
    }

    /// The program waits for the processor and computes until its next access; directives take no time.
    fn compute(&mut self, program: usize, now_ms: f64) -> Result<(), SimError> {
        while let Some(Item::Directive(directive)) = self.items[program].front() {
            self.cache.direct(directive)?;
            self.items[program].pop_front();
        }
        if self.items[program].is_empty() {
            self.ended_ms[program] = now_ms;
            return Ok(());
        }
        self.processor_free_ms = self.processor_free_ms.max(now_ms) + self.programs[program].compute_ms;
        self.schedule(self.processor_free_ms, program, Kind::Access);
        Ok(())
    }

    fn access(&mut self, program: usize, now_ms: f64) -> Result<(), SimError> {
        let Some(Item::Access(reference)) = self.items[program].pop_front() else {
            unreachable!("directives are carried out before a program computes");
        };
        if self.cache.access(reference)? {
            return self.compute(program, now_ms);
        }
        self.cache.pin(reference.block);
        let disk = &mut self.disks[self.programs[program].disk];
        disk.queue.push_back((program, reference.block));
        if disk.queue.len() == 1 {
            self.serve(self.programs[program].disk, now_ms);
        }
        Ok(())
    }

    /// The disk begins with the first request of its queue.
    fn serve(&mut self, disk: usize, now_ms: f64) {
        let disk = &mut self.disks[disk];
        let Some(&(program, block)) = disk.queue.front() else { return };
        let is_next = disk.head.is_some_and(|head| head + 1 == block);
        disk.head = Some(block);
        self.schedule(now_ms + if is_next { SEQUENTIAL_MS } else { RANDOM_MS }, program, Kind::Read);
    }

    fn read(&mut self, program: usize, now_ms: f64) -> Result<(), SimError> {
        let disk = self.programs[program].disk;
        let (_, block) = self.disks[disk].queue.pop_front().expect("what was read was queued");
        self.cache.unpin(block);
        self.serve(disk, now_ms);
        self.compute(program, now_ms)
    }

    fn schedule(&mut self, at_ms: f64, program: usize, kind: Kind) {
        self.events.push(Reverse(Event { at_ms, number: self.events_made, program, kind }));
        self.events_made += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bufpool_policies::Allocation;

    fn program(blocks: &[u64], compute_ms: f64, disk: usize) -> Program {
        let items =
            blocks.iter().map(|&block| Item::Access(Reference { block, site: 0, tenant: 0 })).collect();
        Program { items, compute_ms, disk }
    }

    fn elapsed_s(programs: &[Program]) -> Vec<f64> {
        let ran = run(programs, Policy::TwoLevel(Allocation::LruSp), &Setup::frames(10)).unwrap();
        ran.iter().map(|ran| ran.elapsed_s).collect()
    }

    #[test]
    fn one_program_computes_and_waits_in_turn() {
        // Four accesses of 1 ms; the first read is random, the second sequential, the third random; one hit.
        assert_eq!(elapsed_s(&[program(&[5, 6, 8, 5], 1.0, 0)]), [0.054]);
    }

    #[test]
    fn programs_queue_for_one_disk_and_not_for_two() {
        // Both compute for 1 ms, one after the other; on one disk the second read waits for the first.
        let two = |disk| [program(&[5], 1.0, 0), program(&[5], 1.0, disk)];
        assert_eq!(elapsed_s(&two(0)), [0.021, 0.041]);
        assert_eq!(elapsed_s(&two(1)), [0.021, 0.022]);
    }

    #[test]
    fn programs_share_nothing_but_frames() {
        let ran = run(
            &[program(&[1, 1], 1.0, 0), program(&[1, 1], 1.0, 0)],
            Policy::TwoLevel(Allocation::LruSp),
            &Setup::frames(10),
        )
        .unwrap();
        assert!(ran.iter().all(|ran| ran.counts.hits == 1 && ran.counts.misses() == 1));
    }
}
