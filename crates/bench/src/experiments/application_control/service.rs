//! A model of time: programs that compute, wait for their reads, and share a processor and disks.
//!
//! The simulator has no time; the order in which programs access blocks depends on how long each computes and
//! waits. Here each program computes for `compute_ms` on the one processor before each access. A miss then
//! queues for the program's disk (first in, first out), and the program sleeps until the read ends; the
//! block's frame cannot be taken meanwhile. A disk serves a request in [`SEQUENTIAL_MS`] if its block follows
//! the one it served before, else in [`RANDOM_MS`].
//!
//! The two times are fitted to the published ones: Read300 alone on its disk takes 20 s, two ReadN on one
//! disk take 53 s (Cao, Felten, Li, OSDI '94).

use std::collections::VecDeque;

use crate::simulate::machine::{Disk, Events, Queue, ServiceTimes, Urgency};
use crate::simulate::{Counts, Policy, Setup, SimError, Stepper};
use crate::trace::{Directive, Item, Reference, Trace};

/// Time to serve a request whose block follows the one served before, in milliseconds.
pub const SEQUENTIAL_MS: f64 = 10.0;

/// Time to serve any other request, in milliseconds.
pub const RANDOM_MS: f64 = 20.0;

/// A program: its accesses, how long it computes, and where its files are.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its accesses and directives, as those of tenant 0, with blocks numbered from 0 on.
    pub items: Vec<Item>,
    /// Time on the processor before each access, in milliseconds.
    pub compute_ms: f64,
    /// The number of the disk with its files.
    pub disk: usize,
    /// The least time from one access to the next, in milliseconds, for a program with a fixed pace, such as
    /// a player; 0 for others. It leaves the processor to others until its next access is due.
    pub period_ms: f64,
}

/// The result of a program.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// Its counts.
    pub counts: Counts,
    /// From the common start to its end, in seconds.
    pub elapsed_s: f64,
}

/// Most blocks of a program: block b of program p is block p * 2^32 + b of the trace.
pub(in crate::experiments) const BLOCKS_MAX: u64 = 1 << 32;

/// Runs the programs together in one cache that is empty at first; program p is tenant p. All disks have the
/// times above.
///
/// # Errors
///
/// If the simulator refuses a directive or finds every frame in use.
///
/// # Panics
///
/// If `policy` is not a two-level policy.
pub fn run(programs: &[Program], policy: Policy, setup: &Setup) -> Result<Vec<Ran>, SimError> {
    let times =
        ServiceTimes { sequential_us: microseconds(SEQUENTIAL_MS), random_us: microseconds(RANDOM_MS) };
    run_on(&[times], programs, policy, setup)
}

/// As [`run`], on disks with other times: one for each disk, the last one for all disks from there on.
///
/// # Errors
///
/// As [`run`].
///
/// # Panics
///
/// As [`run`]; and if there are no times.
pub fn run_on(
    times: &[ServiceTimes],
    programs: &[Program],
    policy: Policy,
    setup: &Setup,
) -> Result<Vec<Ran>, SimError> {
    let items: Vec<Vec<Item>> =
        (0..).zip(programs).map(|(tenant, program)| placed(&program.items, tenant)).collect();
    let trace = Trace::of("programs", items.iter().flatten().cloned());
    let mut office = Office::new(times, programs, &items, Stepper::new(&trace, policy, setup)?);
    (0..programs.len()).try_for_each(|program| office.go_on(program, 0))?;
    while let Some((now_us, kind)) = office.events.pop() {
        office.happen(kind, now_us)?;
    }
    let counts = (0..).zip(office.ended_us);
    Ok(counts
        .map(|(tenant, ended_us)| Ran {
            counts: office.cache.counts(tenant),
            elapsed_s: ended_us as f64 / 1e6,
        })
        .collect())
}

/// The items as those of tenant `tenant`, with blocks of its own.
pub(in crate::experiments) fn placed(items: &[Item], tenant: u32) -> Vec<Item> {
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
            Item::Directive(Directive::Pin(block) | Directive::Unpin(block) | Directive::Create(block)) => {
                *block += base;
            }
            Item::Directive(Directive::Hint { tenant: whose, first, last }) => {
                (*whose, *first, *last) = (tenant, base + *first, base + *last);
            }
            Item::Directive(
                Directive::HintsAll { tenant: whose }
                | Directive::HintsReplan { tenant: whose }
                | Directive::HintsEnd { tenant: whose }
                | Directive::Program { tenant: whose, .. }
                | Directive::ProgramEnd { tenant: whose }
                | Directive::Send { tenant: whose, .. }
                | Directive::Compute { tenant: whose, .. },
            ) => {
                *whose = tenant;
            }
        }
    }
    placed
}

/// An event of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The program's next access is due.
    Beat(usize),
    /// The program has computed and makes its next access.
    Access(usize),
    /// The disk with this number has read a block.
    Read(usize),
}

struct Office<'a> {
    programs: &'a [Program],
    items: Vec<VecDeque<&'a Item>>,
    cache: Stepper<'a>,
    disks: Vec<Disk>,
    events: Events<Kind>,
    /// The time at which the processor is free again.
    processor_free_us: u64,
    /// By program: the time at which its next access is due.
    beats_us: Vec<u64>,
    ended_us: Vec<u64>,
}

impl<'a> Office<'a> {
    fn new(
        times: &[ServiceTimes],
        programs: &'a [Program],
        items: &'a [Vec<Item>],
        cache: Stepper<'a>,
    ) -> Self {
        let disks = programs.iter().map(|program| program.disk + 1).max().unwrap_or(0);
        let times_of = |disk: usize| times[disk.min(times.len() - 1)];
        Self {
            programs,
            items: items.iter().map(|items| items.iter().collect()).collect(),
            cache,
            disks: (0..disks).map(|disk| Disk::new(Queue::Fifo, times_of(disk))).collect(),
            events: Events::default(),
            processor_free_us: 0,
            beats_us: vec![0; programs.len()],
            ended_us: vec![0; programs.len()],
        }
    }

    fn happen(&mut self, kind: Kind, now_us: u64) -> Result<(), SimError> {
        match kind {
            Kind::Beat(program) => {
                self.compute(program, now_us);
                Ok(())
            }
            Kind::Access(program) => self.access(program, now_us),
            Kind::Read(disk) => self.read(disk, now_us),
        }
    }

    /// Carries out the program's directives, which take no time. The program then waits until its next access
    /// is due and computes, or ends.
    fn go_on(&mut self, program: usize, now_us: u64) -> Result<(), SimError> {
        while let Some(Item::Directive(directive)) = self.items[program].front() {
            self.cache.direct(directive)?;
            self.items[program].pop_front();
        }
        if self.items[program].is_empty() {
            self.ended_us[program] = now_us;
            return Ok(());
        }
        let beat_us = self.beats_us[program];
        self.beats_us[program] = beat_us.max(now_us) + microseconds(self.programs[program].period_ms);
        if beat_us > now_us {
            self.events.add(beat_us, Kind::Beat(program));
        } else {
            self.compute(program, now_us);
        }
        Ok(())
    }

    /// The program waits for the processor and computes until its next access.
    fn compute(&mut self, program: usize, now_us: u64) {
        let compute_us = microseconds(self.programs[program].compute_ms);
        self.processor_free_us = self.processor_free_us.max(now_us) + compute_us;
        self.events.add(self.processor_free_us, Kind::Access(program));
    }

    fn access(&mut self, program: usize, now_us: u64) -> Result<(), SimError> {
        let Some(Item::Access(reference)) = self.items[program].pop_front() else {
            unreachable!("directives are carried out before a program computes");
        };
        if self.cache.access(reference)? {
            return self.go_on(program, now_us);
        }
        self.cache.pin(reference.block);
        let disk = self.programs[program].disk;
        self.disks[disk].push(reference.block, reference.block, Urgency::Demand);
        self.serve(disk, now_us);
        Ok(())
    }

    /// The disk begins with the first request of its queue, unless it is busy.
    fn serve(&mut self, disk: usize, now_us: u64) {
        if let Some(takes_us) = self.disks[disk].begin() {
            self.events.add(now_us + takes_us, Kind::Read(disk));
        }
    }

    fn read(&mut self, disk: usize, now_us: u64) -> Result<(), SimError> {
        let block = self.disks[disk].complete();
        self.cache.unpin(block);
        self.serve(disk, now_us);
        // Programs have blocks of their own, and each waits for one at a time.
        self.go_on((block / BLOCKS_MAX) as usize, now_us)
    }
}

fn microseconds(ms: f64) -> u64 {
    (ms * 1000.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use bufpool_policies::Allocation;

    fn program(blocks: &[u64], compute_ms: f64, disk: usize) -> Program {
        let items =
            blocks.iter().map(|&block| Item::Access(Reference { block, site: 0, tenant: 0 })).collect();
        Program { items, compute_ms, disk, period_ms: 0.0 }
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
    fn disks_have_times_of_their_own() {
        let times = [(1_000, 2_000), (10_000, 20_000)]
            .map(|(sequential_us, random_us)| ServiceTimes { sequential_us, random_us });
        let programs = [0, 1, 2].map(|disk| program(&[5, 6], 0.0, disk));
        let ran = run_on(&times, &programs, Policy::TwoLevel(Allocation::LruSp), &Setup::frames(10)).unwrap();
        assert_eq!(ran.iter().map(|ran| ran.elapsed_s).collect::<Vec<_>>(), [0.003, 0.030, 0.030]);
    }

    #[test]
    fn a_program_with_a_beat_leaves_the_processor_to_others_meanwhile() {
        // Reads at 0, 50 and 100 ms, each after 1 ms of computing; the last is sequential.
        let player = Program { period_ms: 50.0, ..program(&[5, 7, 8], 1.0, 0) };
        assert_eq!(elapsed_s(std::slice::from_ref(&player)), [0.111]);
        assert_eq!(elapsed_s(&[player, program(&[5, 5, 5, 5], 3.0, 1)])[1], 0.033);
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
