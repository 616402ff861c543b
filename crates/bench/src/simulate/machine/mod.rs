//! A machine in time: processes that compute, wait for their reads and share one processor, disks and a
//! cache.
//!
//! Each tenant of a trace is a process. Before an access it computes for the time that `!compute` gives, and
//! for the time of a hit. A block that is not in the cache is read from its disk, and the process sleeps
//! until the read ends. Hints have blocks prefetched. Starting a read takes processor time. All times are
//! whole microseconds, and events of the same time happen in the order in which they were caused, so runs
//! repeat exactly.
//!
//! The directory, which the live pool uses too, decides which block is evicted. What is prefetched, and when,
//! is decided in `cache.rs`.
//!
//! The machine stands for the one simulated in Tomkins, Patterson, Gibson, "A Trace-Driven Comparison of
//! Algorithms for Multi-Process Prefetching and Caching", CMU-CS-96-174.

mod cache;
mod disk;
mod events;
mod options;
mod process;
mod processor;
mod stream;

pub use cache::{CacheCounts, Change};
pub use disk::{Disk, DiskCounts, Queue, ServiceTimes, Urgency};
pub use events::Events;
pub use options::{CacheOptions, MachineOptions, MachinePolicy};

use std::collections::HashMap;

use cache::{Cache, EndedBatch, Found};
use process::{Processes, Step};
use processor::{Done, Processor, Start};

use super::SimError;
use crate::trace::{Directive, Trace};

/// The result of a process, or of all together.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Ran {
    /// Its counts.
    pub counts: CacheCounts,
    /// Time from the start of the run to its end, in microseconds; of all together, to the end of the last
    /// one.
    pub elapsed_us: u64,
    /// Time that it waited for reads and for frames, in microseconds.
    pub stall_us: u64,
    /// Processor time in microseconds, that of starting its reads included.
    pub cpu_us: u64,
    /// Prefetched blocks that were never accessed.
    pub wasted: u64,
    /// Frames that it owned at its end; of all together, at the end of the last one.
    pub frames_owned: u64,
}

/// The result of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct MachineOutcome {
    /// The result of each process, by ascending tenant.
    pub processes: Vec<(u32, Ran)>,
    /// The result of all processes together.
    pub all: Ran,
    /// The counts of all disks together.
    pub disks: DiskCounts,
    /// As `processes`, at the moment at which the first process ended: up to then all of them ran.
    pub until_first_end: Vec<(u32, Ran)>,
    /// What happened to processes and blocks, in order; empty if no log was asked for.
    pub log: Vec<Change>,
}

impl MachineOutcome {
    /// The result of a tenant.
    ///
    /// # Panics
    ///
    /// If the trace does not have it.
    pub fn of(&self, tenant: u32) -> &Ran {
        of(&self.processes, tenant)
    }

    /// The result of a tenant up to the moment at which the first process ended.
    ///
    /// # Panics
    ///
    /// If the trace does not have it.
    pub fn of_until_first_end(&self, tenant: u32) -> &Ran {
        of(&self.until_first_end, tenant)
    }
}

fn of(processes: &[(u32, Ran)], tenant: u32) -> &Ran {
    let found = processes.iter().find(|(number, _)| *number == tenant);
    &found.expect("a tenant of the trace").1
}

/// Plays the trace on the machine; the cache is empty at first.
///
/// # Errors
///
/// If the trace cannot be read again, pins blocks or loads programs, or gives a directive that is refused.
pub fn run(
    trace: &Trace,
    machine: &MachineOptions,
    cache: &CacheOptions,
) -> Result<MachineOutcome, SimError> {
    Machine::new(trace, machine, cache)?.run()
}

/// As [`run`], with a log of what happens to processes and blocks.
///
/// # Errors
///
/// As [`run`].
pub fn run_logged(
    trace: &Trace,
    machine: &MachineOptions,
    cache: &CacheOptions,
) -> Result<MachineOutcome, SimError> {
    let mut machine = Machine::new(trace, machine, cache)?;
    machine.cache.keep_log();
    machine.run()
}

/// An event of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Happening {
    /// The processor has done the stretch of work with this number.
    Worked(u64),
    /// The disk with this number has read a block.
    Read(usize),
}

/// What a process does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It computes, or waits for the processor.
    Computing,
    /// It waits for a block or a frame, since this time in microseconds.
    Waiting(u64),
    /// It is over.
    Over,
}

struct Process {
    steps: Vec<Step>,
    /// The step that comes next.
    next: usize,
    compute_us: u64,
    state: State,
    stall_us: u64,
    /// When it ended, in microseconds, and the frames that it owned then.
    end: Option<(u64, u64)>,
}

/// A process that waits for a block.
#[derive(Clone, Copy)]
struct Waiting {
    process: usize,
    /// Whether its access was a miss; the cache counted that access when the read began.
    is_miss: bool,
}

struct Machine<'a> {
    options: MachineOptions,
    trace: &'a Trace,
    cache: Cache<'a>,
    events: Events<Happening>,
    processor: Processor,
    disks: Vec<Disk>,
    processes: Vec<Process>,
    /// Per block: the processes that wait for it.
    waiting: HashMap<u64, Vec<Waiting>>,
    /// Processes that wait for any frame, and the block that each needs it for.
    starved: Vec<(usize, u64)>,
    now_us: u64,
    until_first_end: Vec<(u32, Ran)>,
    /// Blocks to fetch. Empty between events; kept to save allocations.
    fetched: Vec<u64>,
}

impl<'a> Machine<'a> {
    fn new(trace: &'a Trace, options: &MachineOptions, cache: &CacheOptions) -> Result<Self, SimError> {
        let processes = Processes::of(trace)?.steps.into_iter().map(|steps| Process {
            steps,
            next: 0,
            compute_us: 0,
            state: State::Computing,
            stall_us: 0,
            end: None,
        });
        let processes: Vec<Process> = processes.collect();
        Ok(Self {
            options: *options,
            trace,
            cache: Cache::new(trace, cache, options.disks)?,
            events: Events::default(),
            processor: Processor::new(processes.len(), options.quantum_us, options.driver_us),
            disks: (0..options.disks).map(|_| Disk::new(options.queue, options.times)).collect(),
            processes,
            waiting: HashMap::new(),
            starved: Vec::new(),
            now_us: 0,
            until_first_end: Vec::new(),
            fetched: Vec::new(),
        })
    }

    fn run(mut self) -> Result<MachineOutcome, SimError> {
        (0..self.processes.len()).try_for_each(|process| self.proceed(process))?;
        self.go_on();
        while let Some((at_us, happening)) = self.events.pop() {
            self.now_us = at_us;
            match happening {
                Happening::Worked(number) => self.worked(number)?,
                Happening::Read(disk) => self.read(disk)?,
            }
            self.go_on();
        }
        Ok(self.outcome())
    }

    /// The processor has come to the end of a stretch of work.
    fn worked(&mut self, number: u64) -> Result<(), SimError> {
        match self.processor.complete(number, self.now_us) {
            None | Some(Done::Ran(_)) => Ok(()),
            Some(Done::Started(start, urgency)) => {
                let (disk, address) = self.place(start.block);
                self.disks[disk].push(start.block, address, urgency);
                self.serve(disk);
                Ok(())
            }
            Some(Done::Worked(process)) => self.access(process),
        }
    }

    /// The process has computed and makes its next access.
    fn access(&mut self, process: usize) -> Result<(), SimError> {
        let state = &mut self.processes[process];
        let Step::Access(block) = state.steps[state.next] else {
            unreachable!("a process says what it has to say before it computes");
        };
        self.cache.note_gap(process, state.compute_us + self.options.hit_us);
        let found = self.cache.access(process, block, &state.steps);
        self.prefetch(process);
        self.go_on_with(process, block, found)
    }

    /// The process goes on if its block is resident, and waits otherwise.
    fn go_on_with(&mut self, process: usize, block: u64, found: Found) -> Result<(), SimError> {
        let state = &mut self.processes[process];
        if found == Found::Here {
            state.next += 1;
            return self.proceed(process);
        }
        state.state = State::Waiting(self.now_us);
        self.processor.give_up(process);
        match found {
            Found::Here => {}
            Found::InFlight => {
                self.waiting.entry(block).or_default().push(Waiting { process, is_miss: false });
            }
            Found::Missing => {
                self.processor.start(Start { block, process }, Urgency::Demand);
                self.waiting.entry(block).or_default().push(Waiting { process, is_miss: true });
            }
            Found::NoFrame => self.starved.push((process, block)),
        }
        Ok(())
    }

    /// Carries out the process's directives up to its next access; then the process computes, or ends.
    fn proceed(&mut self, process: usize) -> Result<(), SimError> {
        let state = &mut self.processes[process];
        let said = state.next;
        while let Some(Step::Say(directive, place)) = state.steps.get(state.next) {
            if let Directive::Compute { compute_us, .. } = directive {
                state.compute_us = u64::from(*compute_us);
            }
            state.next += 1;
            self.cache.say(process, directive, *place, &state.steps, state.next)?;
        }
        if state.next < state.steps.len() {
            state.state = State::Computing;
            self.processor.work(process, state.compute_us + self.options.hit_us);
            if state.next > said {
                self.prefetch(process);
            }
        } else {
            state.state = State::Over;
            self.processor.give_up(process);
            state.end = Some((self.now_us, self.cache.frames_owned(process)));
            if self.until_first_end.is_empty() {
                self.until_first_end = self.so_far();
            }
            self.cache.ended(process);
        }
        Ok(())
    }

    /// A disk has read a block: processes that wait for it go on, and those that wait for a frame try again.
    fn read(&mut self, disk: usize) -> Result<(), SimError> {
        let block = self.disks[disk].complete();
        let ended_batch = self.cache.arrived(block);
        for waiting in self.waiting.remove(&block).unwrap_or_default() {
            self.wake(waiting, block)?;
        }
        for (process, block) in std::mem::take(&mut self.starved) {
            self.awake(process);
            let found = self.cache.look_up(process, block);
            self.go_on_with(process, block, found)?;
        }
        self.serve(disk);
        if let Some(ended) = ended_batch {
            self.prefetch_next(ended);
        }
        Ok(())
    }

    /// The block that the process waited for is resident.
    fn wake(&mut self, Waiting { process, is_miss }: Waiting, block: u64) -> Result<(), SimError> {
        self.awake(process);
        let state = &mut self.processes[process];
        if !is_miss {
            self.cache.access_late(process, block);
        }
        state.next += 1;
        self.proceed(process)
    }

    fn awake(&mut self, process: usize) {
        if let State::Waiting(since_us) = self.processes[process].state {
            self.processes[process].stall_us += self.now_us - since_us;
            self.processes[process].state = State::Computing;
        }
    }

    /// The process fetches what it should fetch now.
    fn prefetch(&mut self, process: usize) {
        let mut fetched = std::mem::take(&mut self.fetched);
        self.cache.prefetch(process, &mut fetched);
        self.start_ahead(process, fetched);
    }

    /// The process fetches its next batch on the disk of the one that has ended.
    fn prefetch_next(&mut self, ended: EndedBatch) {
        let mut fetched = std::mem::take(&mut self.fetched);
        self.cache.prefetch_next(ended, &mut fetched);
        self.start_ahead(ended.process, fetched);
    }

    fn start_ahead(&mut self, process: usize, mut fetched: Vec<u64>) {
        for block in fetched.drain(..) {
            self.processor.start(Start { block, process }, Urgency::Ahead);
        }
        self.fetched = fetched;
    }

    fn serve(&mut self, disk: usize) {
        if let Some(takes_us) = self.disks[disk].begin() {
            self.events.add(self.now_us + takes_us, Happening::Read(disk));
        }
    }

    fn go_on(&mut self) {
        if let Some((takes_us, number)) = self.processor.go_on(self.now_us) {
            self.events.add(self.now_us + takes_us, Happening::Worked(number));
        }
    }

    /// The disk of a block, and its address on the disk: blocks are striped one by one.
    fn place(&self, block: u64) -> (usize, u64) {
        let disks = u64::from(self.options.disks);
        ((block % disks) as usize, block / disks)
    }

    fn outcome(mut self) -> MachineOutcome {
        let mut all = Ran::default();
        let processes = self.so_far();
        processes.iter().for_each(|(_, ran)| all.add(ran));
        all.frames_owned = (0..processes.len()).map(|process| self.cache.frames_owned(process)).sum();
        let mut disks = DiskCounts::default();
        self.disks.iter().for_each(|disk| disks.add(&disk.counts()));
        let until_first_end = self.until_first_end;
        MachineOutcome { processes, all, disks, until_first_end, log: self.cache.take_log() }
    }

    /// The results of the processes so far, by ascending tenant.
    fn so_far(&self) -> Vec<(u32, Ran)> {
        let tenants = self.trace.tenants().iter().map(|tenant| *tenant as u32);
        let mut processes: Vec<(u32, Ran)> = tenants
            .zip(0..)
            .map(|(tenant, process)| {
                let state = &self.processes[process];
                let owned = || (self.now_us, self.cache.frames_owned(process));
                let (elapsed_us, frames_owned) = state.end.unwrap_or_else(owned);
                let ran = Ran {
                    counts: self.cache.counts(process),
                    elapsed_us,
                    stall_us: state.stall_us,
                    cpu_us: self.processor.used_us(process),
                    wasted: self.cache.unread(process),
                    frames_owned,
                };
                (tenant, ran)
            })
            .collect();
        processes.sort_by_key(|(tenant, _)| *tenant);
        processes
    }
}

impl Ran {
    /// Adds counts and times; the elapsed time is the greater of the two. Frames owned are left alone.
    fn add(&mut self, other: &Ran) {
        self.counts.accesses += other.counts.accesses;
        self.counts.demand_misses += other.counts.demand_misses;
        self.counts.prefetches += other.counts.prefetches;
        self.counts.late += other.counts.late;
        self.counts.overrules += other.counts.overrules;
        self.counts.mistakes += other.counts.mistakes;
        self.counts.vindications += other.counts.vindications;
        self.elapsed_us = self.elapsed_us.max(other.elapsed_us);
        self.stall_us += other.stall_us;
        self.cpu_us += other.cpu_us;
        self.wasted += other.wasted;
    }
}
