//! What a replacement by a policy program costs, against the same policy in Rust, and against asking the
//! kernel, another thread or another process.
//!
//! The program and the policy in Rust give up the same pages. The policy in Rust is measured twice in each
//! round; the difference of the two shows how exact the measurement is.

mod crossings;
mod faults;
mod neighbour;

use std::path::Path;

use anyhow::Result;
use bufpool::Direct;
use bufpool_policies::classic::PolicyKind;
use bufpool_policies::program::Program;

use crate::rounds::{self, Spread};

pub use crossings::{Answers, Crossing, compare_crossings};
pub use faults::{FILE_PAGES, FRAMES, Faults, Replacements, build_file};
pub use neighbour::{Beside, compare_neighbours};

/// A policy in both forms: in Rust and as a program.
#[derive(Clone, Debug)]
pub struct Twin {
    /// The policy in Rust.
    pub native: PolicyKind,
    /// The program that decides the same.
    pub program: Program,
}

/// Which form of a twin chooses victims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The policy in Rust, as that of the tenant's priority level 0.
    Native,
    /// The program as the tenant's manager.
    Program,
}

impl Twin {
    /// The twins that are measured: FIFO2, and S3-FIFO, which also remembers pages that it gave up.
    ///
    /// # Panics
    /// If a text in `examples/programs` is no program.
    pub fn all() -> [Self; 2] {
        let twin =
            |native, text| Self { native, program: Program::parse(text).expect("the examples are programs") };
        [
            twin(PolicyKind::Fifo2, include_str!("../../../../../examples/programs/fifo2.policy")),
            twin(PolicyKind::S3Fifo, include_str!("../../../../../examples/programs/s3-fifo.policy")),
        ]
    }
}

/// A twin's two sides over the rounds.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The policy's name.
    pub name: &'static str,
    /// Nanoseconds a fault, decided by the policy in Rust.
    pub native_ns: Spread,
    /// Nanoseconds a fault, decided by the program.
    pub program_ns: Spread,
    /// The program's time, divided by the mean of the two of the policy in Rust in the same round.
    pub ratio: Spread,
    /// The program's nanoseconds less the mean of the two of the policy in Rust in the same round.
    pub more_ns: Spread,
    /// The second time of the policy in Rust, divided by its first in the same round.
    pub noise: Spread,
}

/// The clock that faults are timed by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Processor time of the process, for faults that wait for nothing.
    Processor,
    /// Elapsed time.
    Elapsed,
}

/// Turns that each side takes in a round with I/O. Turns are short because a device's latency drifts from one
/// round to the next by more than a program costs.
const TURNS_WITH_IO: u32 = 80;

/// Compares faults of a pool on the file of [`build_file`] at `path`. In each round either side has about
/// `count` faults; the policy in Rust has them twice.
///
/// # Errors
/// As the pool's.
pub fn compare_faults(path: &Path, direct: Direct, clock: Clock, count: u64) -> Result<Vec<Compared>> {
    let turns = if direct == Direct::Require { TURNS_WITH_IO } else { 1 };
    Twin::all()
        .iter()
        .map(|twin| {
            let open = |side| Faults::new(path, direct, twin, side);
            let (mut native, mut program) = (open(Side::Native)?, open(Side::Program)?);
            compare(twin, turns, |side| {
                let faults = if side == Side::Native { &mut native } else { &mut program };
                let time = faults.run(count / u64::from(turns))?;
                let spent = if clock == Clock::Processor { time.cpu } else { time.elapsed };
                Ok(spent.as_nanos() as f64 / time.operations as f64)
            })
        })
        .collect()
}

/// Compares replacements of the directory alone. In each round either side has `count` replacements; the
/// policy in Rust has them twice.
///
/// # Errors
/// As the simulator's.
pub fn compare_replacements(count: u64) -> Result<Vec<Compared>> {
    Twin::all()
        .iter()
        .map(|twin| {
            let sides = [Side::Native, Side::Program].map(|side| Replacements::new(twin, side, count));
            compare(twin, 1, |side| sides[side as usize].run())
        })
        .collect()
}

/// Makes alternating rounds of `turns` turns each: the policy in Rust, the program, the policy in Rust again.
/// A round's figure is the mean of its turns.
fn compare(twin: &Twin, turns: u32, mut nanoseconds: impl FnMut(Side) -> Result<f64>) -> Result<Compared> {
    let rounds = rounds::alternate(twin.native.name(), || {
        let mut mean = [0.0; 3];
        for _ in 0..turns {
            for (sum, side) in mean.iter_mut().zip([Side::Native, Side::Program, Side::Native]) {
                *sum += nanoseconds(side)? / f64::from(turns);
            }
        }
        Ok(mean)
    })?;
    let spread = |of: fn(&[f64; 3]) -> f64| Spread::of(rounds.iter().map(of));
    Ok(Compared {
        name: twin.native.name(),
        native_ns: spread(|[native, ..]| *native),
        program_ns: spread(|[_, program, _]| *program),
        ratio: spread(|[native, program, again]| program / native.midpoint(*again)),
        more_ns: spread(|[native, program, again]| program - native.midpoint(*again)),
        noise: spread(|[native, _, again]| again / native),
    })
}
