//! What the sweeps share: a pool with two files on a simulated device, and what its engine has been told of
//! them.

use bufpool::sim::SimDevice;
use bufpool::{ErrorKind, File, FileOptions, IoOperation, Page, Pool, PoolOptions, Result, Tenant};

use super::common::{PAGE_BYTES, pattern, small, stamp};

pub const OPERATIONS: [IoOperation; 4] =
    [IoOperation::Read, IoOperation::Write, IoOperation::Sync, IoOperation::Allocate];
const NAMES: [&str; 2] = ["data", "side"];
/// Frames of the second file's tenant that the first file's cannot take.
const FLOOR_FRAMES: u32 = 8;

/// What the engine has been told of a file, and what it has done to it.
#[derive(Clone, Default)]
pub struct Told {
    /// Whether there is such a file.
    presence: Presence,
    /// Lengths in pages that may be found: the last one acknowledged, and all later ones. None before the
    /// file is made.
    lengths: Vec<u64>,
    /// One entry for each page that the file ever had.
    pages: Vec<Versions>,
}

/// Whether a file may be found. A name that the pool made or removed is durable when the call returns.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Presence {
    #[default]
    Absent,
    /// Being made: it may be found, and has not been acknowledged.
    Perhaps,
    Present,
    /// Being removed: it is as it was, or not there.
    PresentOrAbsent,
}

/// Versions of a page that may be found: the last one acknowledged, and all later ones. The last one is what
/// memory has.
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

    /// The version that is in memory.
    fn last(&self) -> Option<u64> {
        self.0.last().copied()
    }
}

/// What was checked, for the line that is printed.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    pub bytes: u64,
    /// Pages found as a mix of versions while a write of theirs was in flight.
    pub torn: u64,
}

/// A pool with two files under test, and a tenant for each.
pub struct World<'d> {
    device: &'d SimDevice,
    pool: Pool,
    tenants: [Tenant; 2],
    files: [Option<File>; 2],
    pub told: [Told; 2],
    /// The most frames that were borrowed after any creation of a page.
    pub most_borrowed: u32,
}

impl<'d> World<'d> {
    /// Opens the pool. That may fail if the file of its tier cannot be read.
    pub fn open_pool(options: PoolOptions, device: &'d SimDevice) -> Result<Self> {
        let pool = options.frame_wait_ms(20).latch_wait_ms(2_000).open_on(device)?;
        let side = pool.tenant(NAMES[1]).floor_frames(FLOOR_FRAMES).open().unwrap();
        let tenants = [pool.default_tenant(), side];
        let (files, told) = ([None, None], [Told::default(), Told::default()]);
        Ok(Self { device, pool, tenants, files, told, most_borrowed: 0 })
    }

    pub fn file(&self, which: usize) -> &File {
        self.files[which].as_ref().expect("the script opens it first")
    }

    pub fn borrowed(&self) -> u32 {
        self.pool.stats().borrowed_frames
    }

    pub fn open(&mut self, which: usize, pages: u64) -> Result<()> {
        self.told[which].presence = Presence::Perhaps;
        self.files[which] = Some(self.pool.open_file(NAMES[which], FileOptions::new().create(true))?);
        self.told[which].presence = Presence::Present;
        self.told[which].lengths = vec![0];
        self.extend(which, pages)
    }

    pub fn extend(&mut self, which: usize, pages: u64) -> Result<()> {
        let range = self.file(which).extend(pages)?;
        self.told[which].set_length(range.end);
        Ok(())
    }

    pub fn truncate(&mut self, which: usize, pages: u64) -> Result<()> {
        self.file(which).truncate(pages)?;
        self.told[which].set_length(pages);
        Ok(())
    }

    pub fn read(&self, which: usize, number: u64) -> Result<()> {
        self.tenants[which].read(self.file(which).page(number)).map(drop)
    }

    /// Prefetches pages. A failure of these reads is not reported.
    pub fn prefetch(&self, which: usize, numbers: impl IntoIterator<Item = u64>) {
        self.tenants[which].prefetch(numbers.into_iter().map(|number| self.file(which).page(number)));
    }

    pub fn read_many(&self, which: usize, numbers: &[u64]) -> Result<()> {
        let pages: Vec<Page<'_>> = numbers.iter().map(|number| self.file(which).page(*number)).collect();
        self.tenants[which].read_many(&pages).into_iter().try_for_each(|guard| guard.map(drop))
    }

    pub fn write(&mut self, which: usize, number: u64, version: u64) -> Result<()> {
        let file = self.files[which].as_ref().expect("open");
        let mut page = self.tenants[which].write(file.page(number))?;
        stamp(&mut page, number, version);
        self.told[which].pages[number as usize].0.push(version);
        Ok(())
    }

    /// As [`write`](Self::write), without reading the page first.
    pub fn create(&mut self, which: usize, number: u64, version: u64) -> Result<()> {
        let file = self.files[which].as_ref().expect("open");
        let mut page = self.tenants[which].create(file.page(number))?;
        stamp(&mut page, number, version);
        self.told[which].pages[number as usize].0.push(version);
        drop(page);
        self.most_borrowed = self.most_borrowed.max(self.borrowed());
        Ok(())
    }

    pub fn flush_page(&mut self, which: usize, number: u64) -> Result<()> {
        self.file(which).flush_page(number)?;
        self.told[which].acknowledge_length();
        self.told[which].pages[number as usize].acknowledge();
        Ok(())
    }

    pub fn flush(&mut self, which: usize) -> Result<()> {
        self.file(which).flush()?;
        self.told[which].acknowledge();
        Ok(())
    }

    pub fn checkpoint(&mut self) -> Result<()> {
        self.pool.checkpoint()?;
        for (told, file) in self.told.iter_mut().zip(&self.files) {
            if file.is_some() {
                told.acknowledge();
            }
        }
        Ok(())
    }

    pub fn close(&mut self, which: usize) -> Result<()> {
        self.files[which].take().expect("open").close()?;
        self.told[which].acknowledge();
        Ok(())
    }

    pub fn remove(&mut self, which: usize) -> Result<()> {
        self.told[which].presence = Presence::PresentOrAbsent;
        self.files[which].take().expect("open").remove()?;
        self.told[which] = Told::default();
        Ok(())
    }

    /// Checks that a failure has lost nothing that was in memory: each page is read with its last change,
    /// from memory or from the device.
    pub fn check_memory(&self, tally: &mut Tally) {
        for (file, told) in self.files.iter().zip(&self.told) {
            let Some(file) = file else { continue };
            let contents = self.device.contents(file.name()).expect("the file is open");
            for (number, versions) in (0..file.pages()).zip(&told.pages) {
                let seen = match self.tenants[0].read(file.page(number)) {
                    Ok(page) => found(&page, number),
                    Err(_) => found(&contents[number as usize * PAGE_BYTES..][..PAGE_BYTES], number),
                };
                assert_eq!(seen, versions.last(), "page {number} of {}", file.name());
                tally.bytes += PAGE_BYTES as u64;
            }
        }
        self.pool.check_invariants();
    }

    /// After the last failure: checks that a file which is not poisoned takes changes and keeps them,
    /// whatever became of the other file; that a poisoned file does so once it is reopened and the missing
    /// changes are repeated; and that no frame is lost.
    pub fn go_on(&mut self, tally: &mut Tally) {
        let is_poisoned = |file: &Option<File>| {
            let outcome = file.as_ref().map_or(Ok(0..0), |file| file.extend(0));
            outcome.is_err_and(|error| error.kind() == ErrorKind::FilePoisoned)
        };
        let poisoned = [0, 1].map(|which| is_poisoned(&self.files[which]));
        for which in [0, 1] {
            if self.files[which].is_some() && !poisoned[which] {
                self.change_some(which);
            }
        }
        for which in [0, 1] {
            if poisoned[which] {
                self.recover(which, tally);
                self.change_some(which);
            }
        }
        self.pool.check_invariants();
        assert_eq!(self.borrowed(), 0, "nothing is stuck");
        self.hold_all_frames();
        self.check_memory(tally);
    }

    /// Changes pages of a file and makes them durable.
    fn change_some(&mut self, which: usize) {
        const VERSION: u64 = 1_000;
        for number in (0..self.file(which).pages()).step_by(3) {
            self.write(which, number, VERSION).unwrap();
        }
        self.flush(which).unwrap();
    }

    /// Reopens a file and repeats the changes that are not in it.
    fn recover(&mut self, which: usize, tally: &mut Tally) {
        self.file(which).reopen().unwrap();
        let told = self.told[which].clone();
        let is_there = check_file(self.file(which), &self.tenants[which], &told, tally);
        for (number, (is_there, versions)) in (0..).zip(is_there.into_iter().zip(&told.pages)) {
            if is_there != versions.last() {
                self.write(which, number, versions.last().expect("the file has the page")).unwrap();
            }
        }
        self.flush(which).unwrap();
    }

    /// Guards of as many pages as the pool has frames, at once.
    fn hold_all_frames(&self) {
        let frames = u64::from(self.pool.frames());
        let file = self.pool.open_file("frames", FileOptions::new().create(true)).unwrap();
        file.extend(frames).unwrap();
        let side = u64::from(FLOOR_FRAMES);
        let tenant = |number| &self.tenants[usize::from(number < side)];
        let guards: Vec<_> =
            (0..frames).map(|number| tenant(number).read(file.page(number)).unwrap()).collect();
        assert_eq!(self.borrowed(), 0);
        drop(guards);
        file.close().unwrap();
    }

    pub fn calls(&self) -> [u64; 4] {
        OPERATIONS.map(|operation| self.device.calls(operation))
    }
}

/// The version of a page, or none if it is a mix of several.
fn found(bytes: &[u8], number: u64) -> Option<u64> {
    let (first, rest) = bytes.split_at(16);
    let version = u64::from_le_bytes(first[8..].try_into().unwrap());
    let is_known = first == pattern(number, version) || first == [0; 16];
    // Each part is as the one before it.
    let whole = is_known && rest == &bytes[..rest.len()];
    whole.then_some(version)
}

/// Opens a new pool on what is left, and checks every byte against what was told.
pub fn check(device: &SimDevice, told: &[Told; 2], tally: &mut Tally) {
    let pool = small().open_on(device).unwrap();
    let tenant = pool.default_tenant();
    for (name, told) in NAMES.iter().zip(told) {
        let is_there = device.contents(name).is_some();
        match told.presence {
            Presence::Absent => assert!(!is_there, "{name} was removed, or not made"),
            Presence::Present => assert!(is_there, "{name} was made, and is gone"),
            Presence::Perhaps | Presence::PresentOrAbsent => {}
        }
        if is_there && told.presence != Presence::Perhaps {
            let file = pool.open_file(name, FileOptions::new()).unwrap();
            check_file(&file, &tenant, told, tally);
        }
    }
    pool.close().unwrap();
}

/// Checks what a file has after a failure. Returns the version of each page, or none where it is a mix.
fn check_file(file: &File, tenant: &Tenant, told: &Told, tally: &mut Tally) -> Vec<Option<u64>> {
    let name = file.name();
    let pages = file.pages();
    assert!(told.lengths.contains(&pages), "{pages} pages of {name}, not {:?}", told.lengths);
    let check_page = |(number, Versions(versions)): (u64, &Versions)| {
        let page = tenant.read(file.page(number)).unwrap();
        tally.bytes += PAGE_BYTES as u64;
        let found = found(&page, number);
        match found {
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
        found
    };
    (0..pages).zip(&told.pages).map(check_page).collect()
}
