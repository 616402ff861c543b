//! Goal: whatever call of the device fails, and whenever the power is cut, what was acknowledged by flush, checkpoint or close is there,
//! what is in memory stays readable, and no page is a mix of two versions unless a write of it was in flight.
//! Method: a scripted workload on the simulated device, run once for every call it makes, with that call failing in each of five ways (a sync: six),
//! and once for every call with the power cut there; then random workloads with a cut at a random call. What survives is compared,
//! byte for byte, with what a model was told. The counts are printed by every run.

mod common;

use std::io::Write;

use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::{File, FileOptions, IoOperation, Pool, PoolOptions, Result, Tenant};
use common::{PAGE_BYTES, deterministic, small, stamp};

const OPERATIONS: [IoOperation; 4] =
    [IoOperation::Read, IoOperation::Write, IoOperation::Sync, IoOperation::Allocate];
const EINTR: i32 = 4;
const FAILURES: [SimFailure; 5] =
    [SimFailure::Io, SimFailure::NoSpace, SimFailure::Torn, SimFailure::Short(1000), SimFailure::Os(EINTR)];
/// Of syncs alone: for other calls it is as the first.
const SYNC_FAILURE: SimFailure = SimFailure::Lost;
/// Pages of the file that stays as long as it is, and of the one that does not.
const PAGES: u64 = 48;
const SIDE_PAGES: u64 = 12;
/// Subsets of the unsynced writes that are tried for each power cut.
const IMAGES: u64 = 3;

/// What the engine has been told of a file, and what it has done to it.
#[derive(Clone, Default)]
struct Told {
    /// Lengths in pages that may be found: the last one acknowledged, and all later ones. None before the file is made.
    lengths: Vec<u64>,
    /// Of each page that the file ever had.
    pages: Vec<Versions>,
}

/// Versions of a page that may be found: the last one acknowledged, and all later ones. The last one is what memory has.
#[derive(Clone)]
struct Versions(Vec<u64>);

impl Told {
    fn set_length(&mut self, pages: u64) {
        let before = self.lengths.last().copied().unwrap_or(0);
        self.lengths.push(pages);
        self.pages.resize(self.pages.len().max(pages as usize), Versions(vec![]));
        // What is added is zero.
        self.pages[before.min(pages) as usize..pages as usize].iter_mut().for_each(|page| page.0.push(0));
    }

    /// The file has been made durable, and everything of it was written.
    fn acknowledge(&mut self) {
        self.acknowledge_length();
        self.pages.iter_mut().for_each(Versions::acknowledge);
    }

    fn acknowledge_length(&mut self) {
        self.lengths = self.lengths.split_off(self.lengths.len() - 1);
    }
}

impl Versions {
    fn acknowledge(&mut self) {
        self.0 = self.0.split_off(self.0.len() - 1);
    }
}

/// What was checked, for the line that is printed.
#[derive(Clone, Copy, Default)]
struct Tally {
    bytes: u64,
    /// Pages found as a mix of versions while a write of theirs was in flight.
    torn: u64,
}

/// A pool with two files under test.
struct World<'d> {
    device: &'d SimDevice,
    pool: Pool,
    tenant: Tenant,
    files: [Option<File>; 2],
    told: [Told; 2],
}

const NAMES: [&str; 2] = ["data", "side"];

impl<'d> World<'d> {
    fn new(options: PoolOptions, device: &'d SimDevice) -> Self {
        let pool = options.frame_wait_ms(20).latch_wait_ms(2_000).open_on(device).unwrap();
        let tenant = pool.default_tenant();
        Self { device, pool, tenant, files: [None, None], told: [Told::default(), Told::default()] }
    }

    fn file(&self, which: usize) -> &File {
        self.files[which].as_ref().expect("the script opens it first")
    }

    fn open(&mut self, which: usize, pages: u64) -> Result<()> {
        self.files[which] = Some(self.pool.open_file(NAMES[which], FileOptions::new().create(true))?);
        self.told[which].lengths = vec![0];
        self.extend(which, pages)
    }

    fn extend(&mut self, which: usize, pages: u64) -> Result<()> {
        let range = self.file(which).extend(pages)?;
        self.told[which].set_length(range.end);
        Ok(())
    }

    fn truncate(&mut self, which: usize, pages: u64) -> Result<()> {
        self.file(which).truncate(pages)?;
        self.told[which].set_length(pages);
        Ok(())
    }

    fn write(&mut self, which: usize, number: u64, version: u64) -> Result<()> {
        let mut page = self.tenant.write(self.files[which].as_ref().expect("open").page(number))?;
        stamp(&mut page, number, version);
        self.told[which].pages[number as usize].0.push(version);
        Ok(())
    }

    fn flush_page(&mut self, which: usize, number: u64) -> Result<()> {
        self.file(which).flush_page(number)?;
        self.told[which].acknowledge_length();
        self.told[which].pages[number as usize].acknowledge();
        Ok(())
    }

    fn flush(&mut self, which: usize) -> Result<()> {
        self.file(which).flush()?;
        self.told[which].acknowledge();
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.pool.checkpoint()?;
        for (told, file) in self.told.iter_mut().zip(&self.files) {
            if file.is_some() {
                told.acknowledge();
            }
        }
        Ok(())
    }

    fn close(&mut self, which: usize) -> Result<()> {
        self.files[which].take().expect("open").close()?;
        self.told[which].acknowledge();
        Ok(())
    }

    /// The workload of the sweeps. Stops at the first error.
    fn script(&mut self) -> Result<()> {
        self.open(0, PAGES)?;
        self.flush(0)?;
        self.open(1, SIDE_PAGES)?;
        for round in 1..4_u64 {
            for number in (0..PAGES).filter(|number| number % round == 0) {
                self.write(0, number, round)?;
                if number % 11 == 3 {
                    self.flush_page(0, number)?;
                }
                if number % 8 == 5 {
                    self.write(1, number % SIDE_PAGES, round)?;
                }
            }
            match round {
                1 => self.checkpoint()?,
                2 => self.flush(0)?,
                _ => self.close(0)?,
            }
            // Reads that nobody waits for may fail unheard.
            self.tenant.prefetch((3..9).map(|number| self.file(1).page(number)));
            let pages = [0, 1, 2, 9].map(|number| self.file(1).page(number));
            for guard in self.tenant.read_many(&pages) {
                guard?;
            }
        }
        self.truncate(1, 7)?;
        self.extend(1, 3)?;
        self.write(1, 8, 7)?;
        self.flush(1)?;
        self.write(1, 2, 8)?;
        self.close(1)
    }

    /// A random workload, as short or long as the script.
    fn random_script(&mut self, random: &mut Random) -> Result<()> {
        self.open(0, PAGES)?;
        self.open(1, SIDE_PAGES)?;
        for step in 1..300 {
            let which = usize::from(random.below(4) == 0);
            let pages = self.file(which).pages();
            match random.below(40) {
                0 => self.flush(which)?,
                1 => self.checkpoint()?,
                2 | 3 => self.flush_page(which, random.below(pages))?,
                4 if which == 1 && pages < 40 => self.extend(1, 1 + random.below(5))?,
                5 if which == 1 && pages > 4 => self.truncate(1, pages - random.below(3))?,
                6..12 => drop(self.tenant.read(self.file(which).page(random.below(pages)))?),
                _ => self.write(which, random.below(pages), step)?,
            }
        }
        self.close(0)?;
        self.close(1)
    }

    /// Pages that can still be read are as they were last changed: a failure loses nothing that is in memory.
    fn check_memory(&self, tally: &mut Tally) {
        for (file, told) in self.files.iter().zip(&self.told) {
            let Some(file) = file else { continue };
            for (number, versions) in (0..file.pages()).zip(&told.pages) {
                if let Ok(page) = self.tenant.read(file.page(number)) {
                    let last = versions.0.last().copied();
                    assert_eq!(found(&page, number), last, "page {number} of {} in memory", file.name());
                    tally.bytes += PAGE_BYTES as u64;
                }
            }
        }
        self.pool.check_invariants();
    }

    fn calls(&self) -> [u64; 4] {
        OPERATIONS.map(|operation| self.device.calls(operation))
    }
}

/// The version of a page, or none if it is a mix of several.
fn found(bytes: &[u8], number: u64) -> Option<u64> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Some(0);
    }
    let first = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
    let whole = bytes.chunks_exact(16).all(|part| part == common::pattern(number, first));
    whole.then_some(first)
}

/// Opens a new pool on what is left, and checks every byte against what was told.
fn check(device: &SimDevice, told: &[Told; 2], tally: &mut Tally) {
    let pool = small().open_on(device).unwrap();
    let tenant = pool.default_tenant();
    for (name, told) in NAMES.iter().zip(told) {
        if told.lengths.is_empty() {
            continue;
        }
        let file = pool.open_file(name, FileOptions::new()).unwrap();
        assert!(
            told.lengths.contains(&file.pages()),
            "{} pages of {name}, not {:?}",
            file.pages(),
            told.lengths
        );
        for (number, Versions(versions)) in (0..file.pages()).zip(&told.pages) {
            let page = tenant.read(file.page(number)).unwrap();
            tally.bytes += PAGE_BYTES as u64;
            match found(&page, number) {
                Some(version) => {
                    let may_be = versions.contains(&version);
                    assert!(may_be, "page {number} of {name}: {version}, not one of {versions:?}");
                }
                // A page may be a mix only while a newer version than the acknowledged one is on its way.
                None if versions.len() > 1 => tally.torn += 1,
                None => {
                    panic!("page {number} of {name} was acknowledged as version {versions:?} and is a mix")
                }
            }
        }
    }
    pool.close().unwrap();
}

/// A line that `cargo test` shows.
fn print(line: &str) {
    writeln!(std::io::stdout().lock(), "{line}").unwrap();
}

/// A name, and options of a pool.
type Mode = (&'static str, fn() -> PoolOptions);

fn modes() -> [Mode; 2] {
    [("deterministic", deterministic), ("background writer", || small().dirty_limit_percent(20))]
}

#[test]
fn nothing_is_lost_when_any_call_fails() {
    for (name, options) in modes() {
        let device = SimDevice::new(1);
        let mut world = World::new(options(), &device);
        world.script().unwrap();
        let calls = world.calls();
        drop(world);
        let (mut runs, mut failed, mut refused, mut tally) = (0, 0, 0, Tally::default());
        for (operation, calls) in OPERATIONS.into_iter().zip(calls) {
            let loses = (operation == IoOperation::Sync).then_some(SYNC_FAILURE);
            let failures = FAILURES.into_iter().chain(loses);
            for (nth, failure) in
                (1..=calls).flat_map(|nth| failures.clone().map(move |failure| (nth, failure)))
            {
                let device = SimDevice::new(nth);
                device.fail(SimFault { operation, nth, failure });
                let mut world = World::new(options(), &device);
                let outcome = world.script();
                runs += 1;
                failed += u64::from(device.calls(operation) >= nth);
                refused += u64::from(outcome.is_err());
                if matches!(failure, SimFailure::Short(_) | SimFailure::Os(_)) {
                    outcome.unwrap();
                }
                device.forget_faults();
                world.check_memory(&mut tally);
                check(&device.crash_image(nth), &world.told, &mut tally);
                let told = world.told.clone();
                drop(world);
                check(&device, &told, &mut tally);
            }
        }
        let Tally { bytes, torn } = tally;
        print(&format!(
            "fail at every call, {name}: {} calls, {runs} runs, {failed} calls failed, {refused} errors returned, \
             {bytes} bytes checked, {torn} pages torn in flight, losses 0",
            calls.iter().sum::<u64>()
        ));
    }
}

#[test]
fn nothing_is_lost_when_the_power_is_cut_at_any_call() {
    for (name, options) in modes() {
        let device = SimDevice::new(1);
        let mut world = World::new(options(), &device);
        world.script().unwrap();
        let (calls, syncs) = (device.calls_total(), device.calls(IoOperation::Sync));
        drop(world);
        let (mut cuts, mut tally) = (0, Tally::default());
        for call in 1..=calls + 1 {
            let device = SimDevice::new(call);
            device.cut_power_at(call);
            let mut world = World::new(options(), &device);
            let outcome = world.script();
            world.check_memory(&mut tally);
            cuts += u64::from(device.power_is_cut());
            assert!(
                !device.power_is_cut() || outcome.is_err() || device.calls_total() == call,
                "call {call}"
            );
            for image in 0..IMAGES {
                check(&device.crash_image(image), &world.told, &mut tally);
            }
        }
        let Tally { bytes, torn } = tally;
        print(&format!(
            "power cut at every call, {name}: {cuts} cuts ({syncs} at sync boundaries), {IMAGES} images each, \
             {bytes} bytes checked, {torn} pages torn in flight, losses 0"
        ));
    }
}

#[test]
fn nothing_is_lost_when_the_power_is_cut_at_random() {
    for (name, options) in modes() {
        let (mut cuts, mut tally) = (0, Tally::default());
        for seed in 0..100 {
            let mut random = Random(seed * 2 + 1);
            let device = SimDevice::new(seed);
            device.cut_power_at(1 + random.below(240));
            let mut world = World::new(options(), &device);
            let _ = world.random_script(&mut random);
            world.check_memory(&mut tally);
            cuts += u64::from(device.power_is_cut());
            for image in 0..IMAGES {
                check(&device.crash_image(image), &world.told, &mut tally);
            }
        }
        let Tally { bytes, torn } = tally;
        print(&format!(
            "power cut at random, {name}: {cuts} cuts in 100 workloads, {IMAGES} images each, {bytes} bytes checked, \
             {torn} pages torn in flight, losses 0"
        ));
    }
}

/// xorshift64 (Marsaglia).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        for shift in [13, -7, 17] {
            self.0 ^= if shift > 0 { self.0 << shift } else { self.0 >> -shift };
        }
        self.0 % bound
    }
}
