//! What a policy program costs a replacement, against the same policy in Rust, and against asking somebody
//! who is not in the process.
//!
//! Both sides give up the same pages, and the native side is measured twice, which shows how much of a
//! difference is the machine.

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

/// A policy that is there twice: in Rust and as a program.
#[derive(Clone, Debug)]
pub struct Twin {
    /// In Rust.
    pub native: PolicyKind,
    /// The same as a program.
    pub program: Program,
}

/// What decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The policy of the tenant's priority level.
    Native,
    /// The program as the tenant's manager.
    Program,
}

impl Twin {
    /// Those that are measured: FIFO2, and S3-FIFO as one that remembers what it gave up.
    ///
    /// # Panics
    /// If the examples are no programs.
    pub fn all() -> [Self; 2] {
        let twin =
            |native, text| Self { native, program: Program::parse(text).expect("the examples are programs") };
        [
            twin(PolicyKind::Fifo2, include_str!("../../../../../examples/programs/fifo2.policy")),
            twin(PolicyKind::S3Fifo, include_str!("../../../../../examples/programs/s3-fifo.policy")),
        ]
    }
}

/// A twin's two sides over some rounds.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The policy.
    pub name: &'static str,
    /// Nanoseconds a fault, decided by the policy in Rust.
    pub native_ns: Spread,
    /// Nanoseconds a fault, decided by the program.
    pub program_ns: Spread,
    /// The program's time over the other's in the same round.
    pub ratio: Spread,
    /// The program's nanoseconds beyond the other's in the same round.
    pub more_ns: Spread,
    /// The native side over itself in the same round.
    pub noise: Spread,
}

/// What is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Processor time of the process: where nothing is waited for.
    Processor,
    /// Elapsed time.
    Elapsed,
}

/// Turns that each side takes in a round with I/O: a device's latency drifts by more, from one round to the
/// next, than a program costs.
const TURNS_WITH_IO: u32 = 80;

/// Faults of a pool on the file of [`build_file`] at `path`, `count` in each round of each side.
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

/// Replacements of the directory alone, `count` in each round of each side.
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

/// Alternating rounds: native, program, native again, as often as `turns` says. A round's figure is the mean
/// of its turns.
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
