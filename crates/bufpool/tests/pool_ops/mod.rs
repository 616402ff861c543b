//! Operations on a pool, and their execution on a pool and on a model of it.
//!
//! The random tests and the fuzz target `pool_ops` use these definitions: the tests draw operations by
//! strategies, the fuzz target from bytes.
#![allow(dead_code, reason = "the tests and the fuzz target use a part each")]

mod operation;
mod world;

use std::path::Path;
use std::time::Duration;

use arbitrary::Unstructured;
use bufpool::sim::SimDevice;

pub use operation::{FAILING, FAILURES, NUMBERS, Operation, PROGRAMS, TENANTS};
pub use world::{World, run};

use super::common::{PAGE_BYTES, deterministic, small};
use super::tiers_below::Below;

/// How long an operation takes on a device on which dirty victims leave faster than they are written.
const LATENCY: Duration = Duration::from_micros(200);

/// One run on a simulated device.
#[derive(Clone, Debug)]
pub struct Case {
    pub mode: Mode,
    /// The file is read without latches.
    pub optimistic: bool,
    pub below: Below,
    pub seed: u64,
    pub operations: Vec<Operation>,
}

#[derive(Clone, Copy, Debug)]
pub enum Mode {
    Deterministic,
    BackgroundWriter {
        dirty_limit_percent: u8,
    },
    /// Writes take a while, and the clean reserve has one frame, and borrows up to three.
    Borrowing,
}

impl Case {
    /// The case that a fuzzer's input stands for.
    ///
    /// # Errors
    ///
    /// None for any bytes; the type is that of the generators.
    pub fn from_bytes(bytes: &[u8]) -> arbitrary::Result<Self> {
        let mut u = Unstructured::new(bytes);
        let mode = if u.ratio(3, 4)? {
            Mode::Deterministic
        } else if u.arbitrary()? {
            Mode::BackgroundWriter { dirty_limit_percent: u.int_in_range(1..=100)? }
        } else {
            Mode::Borrowing
        };
        let (optimistic, below) = (u.arbitrary()?, *u.choose(&Below::ALL)?);
        let mut case = Self { mode, optimistic, below, seed: u.arbitrary()?, operations: Vec::new() };
        while !u.is_empty() {
            case.operations.push(u.arbitrary()?);
        }
        Ok(case)
    }

    /// Runs it on a pool and on the model, and panics where they differ. Returns the most frames that were
    /// borrowed.
    pub fn run(&self) -> u32 {
        let device = SimDevice::new(self.seed);
        // A page that was being written when the power was cut is the old or the new one, never a mix.
        device.set_sector_bytes(PAGE_BYTES);
        let (mode, below) = (self.mode, self.below);
        let options = move || {
            let options = match mode {
                Mode::Deterministic => deterministic().latch_wait_ms(1).frame_wait_ms(1),
                Mode::BackgroundWriter { dirty_limit_percent } => {
                    small().dirty_limit_percent(dirty_limit_percent).frame_wait_ms(20)
                }
                Mode::Borrowing => small().reserve_high_frames(1).dirty_limit_percent(100).frame_wait_ms(20),
            };
            below.a_pool(options, Path::new(""))
        };
        let is_quiet = matches!(mode, Mode::Deterministic);
        let mut world = World::new(options, self.optimistic, Some(device), Path::new(""));
        world.keeps_guards = is_quiet;
        if matches!(mode, Mode::Borrowing) {
            world.set_latency(LATENCY);
        }
        run(world, &self.operations, is_quiet)
    }
}
