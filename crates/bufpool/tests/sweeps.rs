//! Goal: whatever call of the device fails, and whenever the power is cut, what was acknowledged by flush,
//! checkpoint or close is there, what is in memory stays readable, no page is a mix of two versions unless a
//! write of it was in flight, the other file goes on, and once the one that failed is reopened all frames can
//! be used; a file that was made is there, and one that was removed is not. Method: a scripted workload on
//! the simulated device, run once for every call it makes, with that call failing in each of five ways (a
//! sync: six), and once for every call with the power cut there; then random workloads with a cut at a random
//! call. What survives is compared, byte for byte, with what a model was told. All that in pools that work
//! differently: in one, writes take a while and dirty victims stream out, so that its clean reserve borrows
//! frames. The counts are printed by every run.

mod common;
mod sweep_world;
mod tiers_below;

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::tier::TierPolicy;
use bufpool::{IoOperation, PoolOptions, Result};
use common::{PAGE_BYTES, Random, deterministic, small};
use sweep_world::{OPERATIONS, Tally, World, check};
use tiers_below::Below;

const EINTR: i32 = 4;
const FAILURES: [SimFailure; 5] =
    [SimFailure::Io, SimFailure::NoSpace, SimFailure::Torn, SimFailure::Short(1000), SimFailure::Os(EINTR)];
/// A failure that is tried for syncs only. For other calls it has the effect of the first of [`FAILURES`].
const SYNC_FAILURE: SimFailure = SimFailure::Lost;
/// Subsets of the unsynced writes that are tried for each power cut.
const IMAGES: u64 = 3;

/// A pool and what is done with it.
struct Mode {
    name: &'static str,
    options: fn() -> PoolOptions,
    /// The shortest and the longest time of each operation of the device; none for no delay.
    latency: Option<(Duration, Duration)>,
    script: fn(&mut World<'_>) -> Result<()>,
    random_script: fn(&mut World<'_>, &mut Random) -> Result<()>,
    /// The power is cut at a random call before this one.
    random_calls: u64,
}

const DETERMINISTIC: Mode = Mode {
    name: "deterministic",
    options: deterministic,
    latency: None,
    script: few_frames::script,
    random_script: few_frames::random_script,
    random_calls: 240,
};

const BACKGROUND_WRITER: Mode =
    Mode { name: "background writer", options: || small().dirty_limit_percent(20), ..DETERMINISTIC };

const FEW_FRAMES: [Mode; 2] = [DETERMINISTIC, BACKGROUND_WRITER];

/// The tier is on the device that fails. What it loses must not matter.
const TIERED: [Mode; 3] = [
    Mode {
        name: "deterministic, over a tier",
        options: || Below::File(TierPolicy::Demote).a_pool(deterministic(), Path::new("")),
        ..DETERMINISTIC
    },
    Mode {
        name: "deterministic, over a tier that promotes",
        options: || Below::File(TierPolicy::Promote).a_pool(deterministic(), Path::new("")),
        ..DETERMINISTIC
    },
    Mode {
        name: "background writer, over a tier",
        options: || Below::File(TierPolicy::Demote).a_pool(small().dirty_limit_percent(20), Path::new("")),
        ..DETERMINISTIC
    },
];

/// Its reserve has 12 frames, and borrows up to 13 because dirty victims come faster than they are written.
const BORROWING: Mode = Mode {
    name: "borrowing",
    options: || small().frames(192).manager(None).dirty_limit_percent(100),
    latency: Some((Duration::from_micros(200), Duration::from_micros(600))),
    script: streams::script,
    random_script: streams::random_script,
    random_calls: 300,
};

/// Workloads whose pages are few, in a pool with fewer frames.
mod few_frames {
    use super::{Random, Result, World};

    /// Pages of the file whose length does not change, and of the one whose length does.
    const PAGES: u64 = 48;
    const SIDE_PAGES: u64 = 12;

    /// Stops at the first error.
    pub fn script(world: &mut World<'_>) -> Result<()> {
        world.open(0, PAGES)?;
        world.flush(0)?;
        world.open(1, SIDE_PAGES)?;
        for round in 1..4_u64 {
            for number in (0..PAGES).filter(|number| number % round == 0) {
                world.write(0, number, round)?;
                if number % 11 == 3 {
                    world.flush_page(0, number)?;
                }
                if number % 8 == 5 {
                    world.write(1, number % SIDE_PAGES, round)?;
                }
            }
            match round {
                1 => world.checkpoint()?,
                2 => {
                    world.remove(1)?;
                    world.flush(0)?;
                    world.open(1, SIDE_PAGES)?;
                }
                _ => world.close(0)?,
            }
            world.prefetch(1, 3..9);
            world.read_many(1, &[0, 1, 2, 9])?;
        }
        world.truncate(1, 7)?;
        world.extend(1, 3)?;
        world.write(1, 8, 7)?;
        world.flush(1)?;
        world.write(1, 2, 8)?;
        world.close(1)
    }

    /// As short or long as the script.
    pub fn random_script(world: &mut World<'_>, random: &mut Random) -> Result<()> {
        world.open(0, PAGES)?;
        world.open(1, SIDE_PAGES)?;
        for step in 1..300 {
            let which = usize::from(random.below(4) == 0);
            let pages = world.file(which).pages();
            match random.below(40) {
                0 => world.flush(which)?,
                1 => world.checkpoint()?,
                2 | 3 => world.flush_page(which, random.below(pages))?,
                4 if which == 1 && pages < 40 => world.extend(1, 1 + random.below(5))?,
                5 if which == 1 && pages > 4 => world.truncate(1, pages - random.below(3))?,
                6..12 => world.read(which, random.below(pages))?,
                _ => world.write(which, random.below(pages), step)?,
            }
        }
        world.close(0)?;
        world.close(1)
    }
}

/// Workloads in which dirty victims stream out.
mod streams {
    use super::{Random, Result, World};

    const PAGES: u64 = 360;
    const SIDE_PAGES: u64 = 24;

    /// Stops at the first error.
    pub fn script(world: &mut World<'_>) -> Result<()> {
        world.open(1, SIDE_PAGES)?;
        for number in 0..SIDE_PAGES {
            world.write(1, number, 1)?;
        }
        world.open(0, PAGES)?;
        for round in 1..3_u64 {
            for number in 0..PAGES {
                world.create(0, number, round)?;
                match number % 72 {
                    30 => world.write(1, number % SIDE_PAGES, round)?,
                    // Gone, or on its way.
                    45 => world.write(0, number - number % 72, round + 10)?,
                    60 => world.flush_page(0, number - 50)?,
                    _ => {}
                }
                if number == PAGES - 40 {
                    world.flush(1)?;
                }
            }
            match round {
                1 => world.checkpoint()?,
                _ => world.flush(0)?,
            }
        }
        for number in 0..PAGES / 2 {
            world.create(0, number, 20)?;
        }
        world.truncate(0, PAGES - 64)?;
        world.read_many(1, &[0, 1, 2, 9])?;
        world.write(1, 5, 20)?;
        world.close(0)?;
        world.close(1)
    }

    /// As short or long as the script.
    pub fn random_script(world: &mut World<'_>, random: &mut Random) -> Result<()> {
        world.open(0, PAGES)?;
        world.open(1, SIDE_PAGES)?;
        for step in 1..60 {
            let which = usize::from(random.below(5) == 0);
            let pages = world.file(which).pages();
            let first = random.below(pages);
            match random.below(20) {
                0 => world.flush(which)?,
                1 => world.checkpoint()?,
                2 | 3 => world.flush_page(which, first)?,
                4 if pages < PAGES => world.extend(which, 1 + random.below(20))?,
                5 if pages > 4 => world.truncate(which, pages - random.below(pages / 4))?,
                6 | 7 => world.read(which, first)?,
                8 | 9 => world.write(which, first, step)?,
                _ => {
                    for number in first..pages.min(first + 40 + random.below(60)) {
                        world.create(which, number, step)?;
                    }
                }
            }
        }
        world.close(0)?;
        world.close(1)
    }
}

impl Mode {
    fn device(&self, seed: u64) -> SimDevice {
        let device = SimDevice::new(seed);
        // A pool whose tier cannot be made does not open, so that it is there.
        let mut tier = vec![0; PAGE_BYTES];
        tier[..15].copy_from_slice(b"bufpool tier 1\n");
        device.put("tier", &tier);
        if let Some((least, most)) = self.latency {
            device.set_latency(least, most);
        }
        device
    }

    /// The counts of a run whose pool did not open: nothing was acknowledged, and nothing is lost.
    fn not_opened(&self) -> Counts {
        assert!(TIERED.iter().any(|tiered| tiered.name == self.name), "there is nothing to be read");
        Counts { runs: 1, hit: 1, refused: 1, ..Counts::default() }
    }

    /// The greatest numbers of device calls of each kind in a few runs in which nothing fails.
    fn run_undisturbed(&self) -> [u64; 4] {
        let mut calls = [0; 4];
        for seed in 0..3 {
            let device = self.device(seed);
            let mut world = World::open_pool((self.options)(), &device).unwrap();
            (self.script)(&mut world).unwrap();
            world.check_memory(&mut Tally::default());
            assert_eq!(world.borrowed(), 0, "all were given back");
            assert_eq!(
                world.most_borrowed > 0,
                self.latency.is_some(),
                "{} frames borrowed",
                world.most_borrowed
            );
            calls = std::array::from_fn(|at| calls[at].max(world.calls()[at]));
        }
        calls
    }
}

/// Counts of runs, for the line that is printed.
#[derive(Clone, Copy, Default)]
struct Counts {
    runs: u64,
    /// Calls that failed, or at which the power was cut.
    hit: u64,
    /// Scripts that ended with an error.
    refused: u64,
    /// Scripts that ended with an error while frames were borrowed.
    refused_borrowing: u64,
    most_borrowed: u32,
    tally: Tally,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.hit += other.hit;
        self.refused += other.refused;
        self.refused_borrowing += other.refused_borrowing;
        self.most_borrowed = self.most_borrowed.max(other.most_borrowed);
        self.tally.bytes += other.tally.bytes;
        self.tally.torn += other.tally.torn;
    }

    /// One run of a script, whose outcome was found when its pool was in this state.
    fn of(world: &World<'_>, outcome: &Result<()>, hit: bool) -> Self {
        let refused = u64::from(outcome.is_err());
        Self {
            runs: 1,
            hit: u64::from(hit),
            refused,
            refused_borrowing: refused.min(u64::from(world.borrowed())),
            most_borrowed: world.most_borrowed,
            tally: Tally::default(),
        }
    }
}

/// Runs all cases, several at a time, since most of the time they wait.
fn run_all<C: std::fmt::Debug + Sync>(mode: &Mode, cases: &[C], run: fn(&Mode, &C) -> Counts) -> Counts {
    /// Says which case it was that went wrong.
    struct Running<'c, C: std::fmt::Debug>(&'static str, &'c C);
    impl<C: std::fmt::Debug> Drop for Running<'_, C> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("{}: {:?}", self.0, self.1);
            }
        }
    }
    let next = AtomicU64::new(0);
    let all = Mutex::new(Counts::default());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let _running = Running(mode.name, case);
                    let counts = run(mode, case);
                    all.lock().unwrap().add(counts);
                }
            });
        }
    });
    all.into_inner().unwrap()
}

fn run_with_fault(mode: &Mode, fault: &SimFault) -> Counts {
    let device = mode.device(fault.nth);
    device.fail(*fault);
    let Ok(mut world) = World::open_pool((mode.options)(), &device) else { return mode.not_opened() };
    let outcome = (mode.script)(&mut world);
    let mut counts = Counts::of(&world, &outcome, device.calls(fault.operation) >= fault.nth);
    if matches!(fault.failure, SimFailure::Short(_) | SimFailure::Os(_)) {
        outcome.unwrap();
    }
    device.forget_faults();
    device.set_latency(Duration::ZERO, Duration::ZERO);
    world.check_memory(&mut counts.tally);
    check(&device.crash_image(fault.nth), &world.told, &mut counts.tally);
    world.go_on(&mut counts.tally);
    let told = world.told.clone();
    drop(world);
    check(&device, &told, &mut counts.tally);
    counts
}

fn run_with_power_cut(mode: &Mode, call: &u64) -> Counts {
    let device = mode.device(*call);
    device.cut_power_at(*call);
    let Ok(mut world) = World::open_pool((mode.options)(), &device) else { return mode.not_opened() };
    let outcome = (mode.script)(&mut world);
    let counts = check_after_cut(&device, &world, &outcome);
    assert!(!device.power_is_cut() || outcome.is_err() || device.calls_total() == *call);
    counts
}

fn run_with_random_cut(mode: &Mode, seed: &u64) -> Counts {
    let mut random = Random(seed * 2 + 1);
    let device = mode.device(*seed);
    device.cut_power_at(1 + random.below(mode.random_calls));
    let Ok(mut world) = World::open_pool((mode.options)(), &device) else { return mode.not_opened() };
    let outcome = (mode.random_script)(&mut world, &mut random);
    check_after_cut(&device, &world, &outcome)
}

fn check_after_cut(device: &SimDevice, world: &World<'_>, outcome: &Result<()>) -> Counts {
    let mut counts = Counts::of(world, outcome, device.power_is_cut());
    device.set_latency(Duration::ZERO, Duration::ZERO);
    world.check_memory(&mut counts.tally);
    for image in 0..IMAGES {
        check(&device.crash_image(image), &world.told, &mut counts.tally);
    }
    counts
}

fn fail_at_every_call(mode: &Mode) -> Counts {
    let calls = mode.run_undisturbed();
    let mut faults = Vec::new();
    for (operation, calls) in OPERATIONS.into_iter().zip(calls) {
        let loses = (operation == IoOperation::Sync).then_some(SYNC_FAILURE);
        let failures = FAILURES.into_iter().chain(loses);
        let fail = |nth| failures.clone().map(move |failure| SimFault { operation, nth, failure });
        faults.extend((1..=calls).flat_map(fail));
    }
    let counts = run_all(mode, &faults, run_with_fault);
    let calls = calls.iter().sum::<u64>();
    let Counts { runs, hit, refused, .. } = counts;
    print(
        mode,
        "fail at every call",
        &format!("{calls} calls, {runs} runs, {hit} calls failed, {refused} errors returned"),
        &counts,
    );
    counts
}

fn cut_at_every_call(mode: &Mode) -> Counts {
    let calls = mode.run_undisturbed();
    let all: Vec<u64> = (1..=calls.iter().sum::<u64>() + 1).collect();
    let counts = run_all(mode, &all, run_with_power_cut);
    let syncs = calls[2];
    print(
        mode,
        "power cut at every call",
        &format!("{} cuts ({syncs} at sync boundaries), {IMAGES} images each", counts.hit),
        &counts,
    );
    counts
}

fn cut_at_random(mode: &Mode) -> Counts {
    let seeds: Vec<u64> = (0..100).collect();
    let counts = run_all(mode, &seeds, run_with_random_cut);
    print(
        mode,
        "power cut at random",
        &format!("{} cuts in {} workloads, {IMAGES} images each", counts.hit, counts.runs),
        &counts,
    );
    counts
}

/// A line that `cargo test` shows.
fn print(mode: &Mode, what: &str, text: &str, counts: &Counts) {
    let Counts { tally: Tally { bytes, torn }, most_borrowed, refused_borrowing, .. } = counts;
    let borrowed = match most_borrowed {
        0 => String::new(),
        most => format!("up to {most} frames borrowed, {refused_borrowing} errors meanwhile, "),
    };
    let name = mode.name;
    let line = format!(
        "{what}, {name}: {text}, {borrowed}{bytes} bytes checked, {torn} pages torn in flight, losses 0"
    );
    writeln!(std::io::stdout().lock(), "{line}").unwrap();
}

#[test]
fn nothing_is_lost_when_any_call_fails() {
    for mode in FEW_FRAMES {
        fail_at_every_call(&mode);
    }
}

#[test]
fn nothing_is_lost_when_the_power_is_cut_at_any_call() {
    for mode in FEW_FRAMES {
        cut_at_every_call(&mode);
    }
}

#[test]
fn nothing_is_lost_when_the_power_is_cut_at_random() {
    for mode in FEW_FRAMES {
        cut_at_random(&mode);
    }
}

#[test]
fn nothing_is_lost_over_a_tier() {
    for mode in TIERED {
        fail_at_every_call(&mode);
        cut_at_every_call(&mode);
        cut_at_random(&mode);
    }
}

#[test]
fn nothing_is_lost_when_any_call_fails_while_frames_are_borrowed() {
    assert!(fail_at_every_call(&BORROWING).refused_borrowing > 0);
}

#[test]
fn nothing_is_lost_when_the_power_is_cut_while_frames_are_borrowed() {
    assert!(cut_at_every_call(&BORROWING).refused_borrowing > 0);
    assert!(cut_at_random(&BORROWING).refused_borrowing > 0);
}
