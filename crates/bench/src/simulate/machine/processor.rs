//! The processor, which starts reads and runs the processes in turn.

use std::collections::VecDeque;

use super::disk::Urgency;

/// A read that is to be started, for a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// Which block.
    pub block: u64,
    /// For which process.
    pub process: usize,
}

/// What the processor has done at the end of a stretch of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    /// A read was started.
    Started(Start, Urgency),
    /// The process has done all its work up to its next access.
    Worked(usize),
    /// The process's quantum has ended.
    Ran(usize),
}

/// A stretch of work under way.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    began_us: u64,
    what: Done,
}

/// The processor. It starts reads before anything else, those of misses first. Then processes run in turn,
/// each until it waits or its quantum has ended.
pub struct Processor {
    quantum_us: u64,
    driver_us: u64,
    demand: VecDeque<Start>,
    ahead: VecDeque<Start>,
    /// Processes that wait for the processor.
    ready: VecDeque<usize>,
    /// The process that runs, or that ran before the read that is being started.
    running: Option<usize>,
    quantum_left_us: u64,
    /// Per process: microseconds of work left until its next access.
    work_us: Vec<u64>,
    /// Per process: processor time so far in microseconds, that of starting its reads included.
    used_us: Vec<u64>,
    stretch: Option<Stretch>,
    /// Number of stretches so far. The number of a stretch shows whether it was broken off.
    stretches: u64,
}

impl Processor {
    /// An idle processor for `processes` processes.
    pub fn new(processes: usize, quantum_us: u64, driver_us: u64) -> Self {
        Self {
            quantum_us,
            driver_us,
            demand: VecDeque::new(),
            ahead: VecDeque::new(),
            ready: VecDeque::new(),
            running: None,
            quantum_left_us: 0,
            work_us: vec![0; processes],
            used_us: vec![0; processes],
            stretch: None,
            stretches: 0,
        }
    }

    /// Processor time of a process so far, in microseconds.
    pub fn used_us(&self, process: usize) -> u64 {
        self.used_us[process]
    }

    /// Queues a read to be started.
    pub fn start(&mut self, start: Start, urgency: Urgency) {
        match urgency {
            Urgency::Demand => self.demand.push_back(start),
            Urgency::Ahead => self.ahead.push_back(start),
        }
    }

    /// The process has `work_us` microseconds of work, and waits for its turn unless it has the processor.
    pub fn work(&mut self, process: usize, work_us: u64) {
        self.work_us[process] = work_us;
        if self.running != Some(process) {
            self.ready.push_back(process);
        }
    }

    /// The process waits or has ended; if it has the processor, it gives it up.
    pub fn give_up(&mut self, process: usize) {
        if self.running == Some(process) {
            self.running = None;
        }
    }

    /// Goes on at time `now_us`. Reads to be started break off the stretch of the process that runs. If a
    /// stretch of work begins, returns its length in microseconds and its number.
    pub fn go_on(&mut self, now_us: u64) -> Option<(u64, u64)> {
        let has_starts = !self.demand.is_empty() || !self.ahead.is_empty();
        match self.stretch {
            Some(Stretch { what: Done::Started(..), .. }) => return None,
            Some(_) if !has_starts => return None,
            Some(_) => self.account(now_us),
            None => {}
        }
        let demand = self.demand.pop_front().map(|start| (start, Urgency::Demand));
        let start = demand.or_else(|| self.ahead.pop_front().map(|start| (start, Urgency::Ahead)));
        let (what, takes_us) = match start {
            Some((start, urgency)) => (Done::Started(start, urgency), self.driver_us),
            None => self.turn()?,
        };
        self.stretch = Some(Stretch { began_us: now_us, what });
        self.stretches += 1;
        Some((takes_us, self.stretches))
    }

    /// The stretch with this number has ended; returns what was done in it, or `None` if it was broken off.
    pub fn complete(&mut self, number: u64, now_us: u64) -> Option<Done> {
        if number != self.stretches {
            return None;
        }
        let what = self.stretch.as_ref()?.what;
        self.account(now_us);
        Some(what)
    }

    /// The next stretch of a process, and its length in microseconds.
    fn turn(&mut self) -> Option<(Done, u64)> {
        if self.quantum_left_us == 0
            && !self.ready.is_empty()
            && let Some(ran) = self.running.take()
        {
            self.ready.push_back(ran);
        }
        if self.running.is_none() {
            self.running = self.ready.pop_front();
            self.quantum_left_us = 0;
        }
        let process = self.running?;
        if self.quantum_left_us == 0 {
            self.quantum_left_us = self.quantum_us;
        }
        let left_us = self.work_us[process];
        if left_us <= self.quantum_left_us {
            Some((Done::Worked(process), left_us))
        } else {
            Some((Done::Ran(process), self.quantum_left_us))
        }
    }

    /// Ends the stretch under way and adds its time to its process's.
    fn account(&mut self, now_us: u64) {
        let Some(Stretch { began_us, what }) = self.stretch.take() else { return };
        let took_us = now_us - began_us;
        match what {
            Done::Started(Start { process, .. }, _) => self.used_us[process] += took_us,
            Done::Worked(process) | Done::Ran(process) => {
                self.used_us[process] += took_us;
                self.work_us[process] -= took_us;
                self.quantum_left_us -= took_us;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is done until nothing is left, with the times.
    fn done(processor: &mut Processor, mut now_us: u64) -> Vec<(u64, Done)> {
        let mut all = Vec::new();
        while let Some((takes_us, number)) = processor.go_on(now_us) {
            now_us += takes_us;
            let done = processor.complete(number, now_us).unwrap();
            if let Done::Worked(process) = done {
                processor.give_up(process);
            }
            all.push((now_us, done));
        }
        all
    }

    #[test]
    fn processes_take_turns_by_quanta() {
        let mut processor = Processor::new(2, 100, 5);
        processor.work(0, 150);
        processor.work(1, 120);
        let expected =
            [(100, Done::Ran(0)), (200, Done::Ran(1)), (250, Done::Worked(0)), (270, Done::Worked(1))];
        assert_eq!(done(&mut processor, 0), expected);
        assert_eq!((processor.used_us(0), processor.used_us(1)), (150, 120));
    }

    #[test]
    fn reads_are_started_first_and_break_in() {
        let mut processor = Processor::new(2, 100, 5);
        processor.work(0, 50);
        assert_eq!(processor.go_on(0), Some((50, 1)));
        let start = |block| Start { block, process: 1 };
        processor.start(start(7), Urgency::Ahead);
        processor.start(start(8), Urgency::Demand);
        assert_eq!(processor.go_on(20), Some((5, 2)));
        assert_eq!(processor.complete(1, 25), None, "broken off");
        assert_eq!(processor.complete(2, 25), Some(Done::Started(start(8), Urgency::Demand)));
        let expected = [(30, Done::Started(start(7), Urgency::Ahead)), (60, Done::Worked(0))];
        assert_eq!(done(&mut processor, 25), expected);
        assert_eq!((processor.used_us(0), processor.used_us(1)), (50, 10));
    }
}
