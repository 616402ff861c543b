//! Goal: while the clean reserve has borrowed frames, no change and no frame is lost, and no thread waits for
//! ever, whatever is done with files, tenants and the pool, and whatever fails meanwhile. Method: a pool on a
//! simulated device whose writes take a while, so that dirty victims stream out and its reserve borrows
//! frames. Threads with a file each make random calls of files and tenants, calls of the device fail, and a
//! model knows which versions may be found; then each of the rarer cases by itself.

mod common;

use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::{ErrorKind, File, FileOptions, IoOperation, Pool, PoolOptions, Result, Tenant};
use common::{PAGE_BYTES, Random, kind, new_file, small, stamp, version};

const FRAMES: u32 = 192;
const FLOOR_FRAMES: u32 = 16;

fn options() -> PoolOptions {
    small().frames(FRAMES).manager(None).dirty_limit_percent(100).frame_wait_ms(200)
}

fn device() -> SimDevice {
    let device = SimDevice::new(1);
    // A page whose write fails is the old or the new one, never a mix.
    device.set_sector_bytes(PAGE_BYTES);
    device.set_latency(Duration::from_micros(200), Duration::from_micros(600));
    device
}

/// What happened, and the tenants in use.
#[derive(Default)]
struct Counts {
    most_borrowed: AtomicU32,
    /// The number of files that were reopened after a failure.
    reopened: AtomicU64,
    tenants: Mutex<Vec<Tenant>>,
}

/// A file that one thread uses, its tenant, and what is known of it.
struct Owner<'p> {
    pool: &'p Pool,
    device: &'p SimDevice,
    counts: &'p Counts,
    name: String,
    /// The place of its tenant among all tenants.
    at: usize,
    file: File,
    pages: Vec<Known>,
    next_version: u64,
    random: Random,
}

/// A page: the versions that may be found, and whether it must be the last of them.
struct Known {
    versions: Vec<u64>,
    is_sure: bool,
}

impl Known {
    #[track_caller]
    fn check(&mut self, bytes: &[u8], number: u64) {
        let found = if bytes.iter().all(|&byte| byte == 0) { 0 } else { version(bytes, number) };
        let Self { versions, is_sure } = self;
        let may_be = if *is_sure { versions.last() == Some(&found) } else { versions.contains(&found) };
        assert!(may_be, "page {number}: {found}, sure {is_sure}, {versions:?}");
        versions.retain(|version| *version != found);
        self.change(found);
    }

    fn change(&mut self, version: u64) {
        self.versions.push(version);
        self.is_sure = true;
    }

    fn acknowledge(&mut self) {
        if self.is_sure {
            self.versions.drain(..self.versions.len() - 1);
        }
    }
}

impl<'p> Owner<'p> {
    fn new(pool: &'p Pool, device: &'p SimDevice, counts: &'p Counts, seed: u64) -> Self {
        let name = format!("file {seed}");
        let file = pool.open_file(&name, FileOptions::new().create(true)).unwrap();
        let mut tenants = counts.tenants.lock().unwrap();
        let at = tenants.len();
        tenants.push(open_tenant(pool));
        let random = Random(2 * seed + 1);
        Self { pool, device, counts, name, at, file, pages: vec![], next_version: 1, random }
    }

    fn tenant(&self) -> Tenant {
        self.counts.tenants.lock().unwrap()[self.at].clone()
    }

    fn extend(&mut self, more: u64) -> Result<()> {
        self.file.extend(more)?;
        self.pages.extend((0..more).map(|_| Known { versions: vec![0], is_sure: true }));
        Ok(())
    }

    fn write(&mut self, number: u64) -> Result<()> {
        let tenant = self.tenant();
        let mut page = tenant.write(self.file.page(number))?;
        let known = &mut self.pages[number as usize];
        known.check(&page, number);
        stamp(&mut page, number, self.next_version);
        known.change(self.next_version);
        self.next_version += 1;
        Ok(())
    }

    fn create(&mut self, number: u64) -> Result<()> {
        let tenant = self.tenant();
        stamp(&mut tenant.create(self.file.page(number))?, number, self.next_version);
        self.pages[number as usize].change(self.next_version);
        self.next_version += 1;
        Ok(())
    }

    fn read(&mut self, number: u64) -> Result<()> {
        let tenant = self.tenant();
        let page = tenant.read(self.file.page(number))?;
        self.pages[number as usize].check(&page, number);
        Ok(())
    }

    fn read_many(&mut self, numbers: Range<u64>) -> Result<()> {
        let tenant = self.tenant();
        let pages: Vec<_> = numbers.clone().map(|number| self.file.page(number)).collect();
        for (number, page) in numbers.zip(tenant.read_many(&pages)) {
            if let Some(page) = page? {
                self.pages[number as usize].check(&page, number);
            }
        }
        Ok(())
    }

    /// From now on a read may find any of the versions that may be in the file, not just the last one.
    fn forget(&mut self, pages: Range<u64>) {
        self.pages[pages.start as usize..pages.end as usize]
            .iter_mut()
            .for_each(|known| known.is_sure = false);
    }

    fn acknowledge(&mut self) {
        self.pages.iter_mut().for_each(Known::acknowledge);
    }

    fn step(&mut self) -> Result<()> {
        let pages = self.pages.len() as u64;
        if pages < 40 {
            return self.extend(200);
        }
        let first = self.random.below(pages);
        let end = pages.min(first + 1 + self.random.below(80));
        match self.random.below(60) {
            0 => self.file.flush().map(|()| self.acknowledge())?,
            1 => self.pool.checkpoint().map(|()| self.acknowledge())?,
            2 | 3 => self.file.flush_page(first).map(|()| self.pages[first as usize].acknowledge())?,
            4 => self.extend(end - first)?,
            5 | 6 => self.file.truncate(first).map(|()| self.pages.truncate(first as usize))?,
            7 | 8 => self.file.discard(first..end).map(|()| self.forget(first..end))?,
            9 => self.remove_and_make()?,
            10 => self.close_and_open()?,
            11 => self.close_tenant(),
            12 => {
                assert_eq!(self.file.reopen()?, 0);
                self.acknowledge();
            }
            13..17 => self.let_a_call_fail(),
            17..22 => self.read(first)?,
            22..25 => self.read_many(first..end)?,
            25 => drop(self.tenant().prefetch((first..end).map(|number| self.file.page(number)))),
            26..32 => (first..end).step_by(3).try_for_each(|number| self.write(number))?,
            _ => (first..end).try_for_each(|number| self.create(number))?,
        }
        Ok(())
    }

    /// If a sync of the folder fails, the file is removed, or made, all the same.
    fn remove_and_make(&mut self) -> Result<()> {
        let removed = self.file.clone().remove();
        if removed.as_ref().is_err_and(|error| error.kind() != ErrorKind::Io) {
            return removed;
        }
        self.pages.clear();
        let made = self.pool.open_file(&self.name, FileOptions::new().create(true));
        self.file = made.or_else(|_| self.pool.open_file(&self.name, FileOptions::new()))?;
        assert_eq!(self.file.pages(), 0);
        removed
    }

    fn close_and_open(&mut self) -> Result<()> {
        let closed = self.file.clone().close();
        self.file = self.pool.open_file(&self.name, FileOptions::new())?;
        match closed {
            Ok(()) => self.acknowledge(),
            Err(_) => self.forget(0..self.pages.len() as u64),
        }
        closed
    }

    /// Closes any thread's tenant, and opens another one in its place.
    fn close_tenant(&mut self) {
        let mut tenants = self.counts.tenants.lock().unwrap();
        let at = self.random.below(tenants.len() as u64) as usize;
        tenants[at].clone().close().unwrap();
        tenants[at] = open_tenant(self.pool);
    }

    fn let_a_call_fail(&mut self) {
        let operation = if self.random.below(4) == 0 { IoOperation::Sync } else { IoOperation::Write };
        let nth = self.device.calls(operation) + 1 + self.random.below(30);
        let failure = [SimFailure::Io, SimFailure::NoSpace, SimFailure::Torn][self.random.below(3) as usize];
        self.device.fail(SimFault { operation, nth, failure });
    }

    /// If the file is poisoned, checks that each page is readable or in the file, and reopens the file.
    fn recover(&mut self) {
        if self.file.extend(0).is_ok() {
            return;
        }
        for number in 0..self.pages.len() as u64 {
            if let Err(error) = self.read(number) {
                let expected = [ErrorKind::Exhausted, ErrorKind::TenantClosed];
                assert!(expected.contains(&error.kind()), "{error}");
                if error.kind() == ErrorKind::Exhausted {
                    let contents = self.device.contents(&self.name).unwrap();
                    let page = &contents[number as usize * PAGE_BYTES..][..PAGE_BYTES];
                    self.pages[number as usize].check(page, number);
                }
            }
        }
        self.file.reopen().unwrap();
        assert_eq!(self.file.pages(), self.pages.len() as u64);
        self.forget(0..self.pages.len() as u64);
        self.counts.reopened.fetch_add(1, Ordering::Relaxed);
    }

    fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            if let Err(error) = self.step() {
                let expected = [
                    ErrorKind::Io,
                    ErrorKind::NoSpace,
                    ErrorKind::FilePoisoned,
                    ErrorKind::TenantClosed,
                    ErrorKind::Exhausted,
                ];
                assert!(expected.contains(&error.kind()), "{error}");
            }
            self.counts.most_borrowed.fetch_max(self.pool.stats().borrowed_frames, Ordering::Relaxed);
            self.recover();
        }
    }

    /// After the last failure.
    fn finish(mut self) {
        self.recover();
        (0..self.pages.len() as u64).step_by(2).for_each(|number| self.write(number).unwrap());
        self.close_and_open().unwrap();
        (0..self.pages.len() as u64).for_each(|number| self.read(number).unwrap());
        self.file.close().unwrap();
        self.counts.tenants.lock().unwrap()[self.at].clone().close().unwrap();
    }
}

fn open_tenant(pool: &Pool) -> Tenant {
    pool.tenant("owner").floor_frames(FLOOR_FRAMES).open().unwrap()
}

/// A pool, a file of which dirty pages are streaming out, and another one.
struct Streaming {
    device: SimDevice,
    pool: Pool,
    file: File,
    other: File,
    /// Pages that were made, all as version 1.
    made: u64,
}

impl Streaming {
    /// A pool that has borrowed at least eight frames.
    fn new() -> Self {
        let device = device();
        let pool = options().frame_wait_ms(20).open_on(&device).unwrap();
        let [file, other] = ["data", "other"].map(|name| new_file(&pool, Path::new(""), name, 2000));
        let tenant = pool.default_tenant();
        let mut made = 0;
        while pool.stats().borrowed_frames < 8 {
            stamp(&mut tenant.create(file.page(made)).unwrap(), made, 1);
            made += 1;
        }
        Self { device, pool, file, other, made }
    }

    /// The same, in which pages were created until there was no frame, because no page could be written. On a
    /// busy machine all borrowed frames may have come back before the first write fails; then it tries again.
    fn stuck(after: u64) -> Self {
        let mut attempts = std::iter::repeat_with(|| Self::filled(after)).take(100);
        attempts.find(|streaming| streaming.pool.stats().borrowed_frames > 0).expect("frames stay borrowed")
    }

    /// The same, whether any frame is still borrowed or not.
    fn filled(after: u64) -> Self {
        let mut streaming = Self::new();
        streaming.let_writes_fail(after);
        let tenant = streaming.pool.default_tenant();
        loop {
            let Ok(mut page) = tenant.create(streaming.file.page(streaming.made)) else { break };
            stamp(&mut page, streaming.made, 1);
            streaming.made += 1;
        }
        streaming.device.forget_faults();
        streaming.pool.check_invariants();
        streaming
    }

    /// Makes 1,000 writes fail, from the `after`th one on, counted from the last write so far.
    fn let_writes_fail(&self, after: u64) {
        let first = self.device.calls(IoOperation::Write) + after;
        for nth in first..first + 1000 {
            self.device.fail(SimFault { operation: IoOperation::Write, nth, failure: SimFailure::Io });
        }
    }

    /// No frame is lost: as many pages as there are frames are held at once.
    fn assert_all_frames_can_be_held(&self) {
        hold_all_frames(&self.pool, &self.other);
    }
}

fn hold_all_frames(pool: &Pool, file: &File) {
    pool.check_invariants();
    assert_eq!(pool.stats().borrowed_frames, 0);
    let tenant = pool.default_tenant();
    let guards: Vec<_> =
        (0..u64::from(FRAMES)).map(|number| tenant.create(file.page(number)).unwrap()).collect();
    drop(guards);
}

#[test]
fn everything_at_once_while_calls_fail() {
    for seed in 0..2 {
        let device = device();
        let pool = options().open_on(&device).unwrap();
        let counts = Counts::default();
        let mut owners: Vec<_> =
            (0..4).map(|number| Owner::new(&pool, &device, &counts, number + 4 * seed)).collect();
        std::thread::scope(|scope| {
            for owner in &mut owners {
                scope.spawn(|| owner.run(300));
            }
        });
        device.forget_faults();
        device.set_latency(Duration::ZERO, Duration::ZERO);
        // What is in flight may still fail.
        pool.check_invariants();
        for owner in owners {
            owner.finish();
        }
        hold_all_frames(&pool, &new_file(&pool, Path::new(""), "all", u64::from(FRAMES)));
        pool.close().unwrap();
        let Counts { most_borrowed, reopened, .. } = counts;
        let (most_borrowed, reopened) = (most_borrowed.into_inner(), reopened.into_inner());
        println!("up to {most_borrowed} frames borrowed, {reopened} files reopened after a failure");
        assert!(most_borrowed > 0 && reopened > 0);
    }
}

#[test]
fn pages_on_their_way_out_are_truncated_discarded_and_removed() {
    let streaming = Streaming::new();
    let (file, tenant) = (&streaming.file, streaming.pool.default_tenant());
    // The oldest pages leave first, so these are on their way out.
    file.discard(0..10).unwrap();
    file.truncate(20).unwrap();
    streaming.pool.check_invariants();
    file.extend(streaming.made).unwrap();
    for number in 10..streaming.made {
        let page = tenant.read(file.page(number)).unwrap();
        if number < 20 {
            assert_eq!(version(&page, number), 1);
        } else {
            assert!(page.iter().all(|byte| *byte == 0), "page {number} is what it was before");
        }
    }
    streaming.assert_all_frames_can_be_held();
    let streaming = Streaming::new();
    streaming.file.clone().remove().unwrap();
    assert!(streaming.device.contents("data").is_none());
    streaming.assert_all_frames_can_be_held();
}

/// Whatever drops the pages of a poisoned file gives back what was borrowed for them.
#[test]
fn frames_of_a_poisoned_file_come_back_however_its_pages_go() {
    let ways: [fn(&Streaming) -> Result<()>; 3] = [
        |streaming| streaming.file.discard(0..streaming.file.pages()),
        |streaming| streaming.file.clone().remove(),
        |streaming| {
            let closed = streaming.file.clone().close();
            assert_eq!(kind(closed), ErrorKind::FilePoisoned);
            Ok(())
        },
    ];
    for way in ways {
        for after in [1, 3, 9] {
            let streaming = Streaming::stuck(after);
            way(&streaming).unwrap();
            assert_eq!(streaming.pool.stats().dirty_frames, 0);
            streaming.assert_all_frames_can_be_held();
        }
    }
}

/// A file whose reopening fails is closed and its pages are dropped. It can be opened once its contents are
/// right again.
#[test]
fn a_reopening_that_fails_gives_frames_back_too() {
    let streaming = Streaming::stuck(1);
    let report = streaming.pool.report();
    let borrowed = format!(" and {} borrowed frames, dirty", report.stats().borrowed_frames);
    assert!(report.to_string().contains(&borrowed), "{report}");
    let contents = streaming.device.contents("data").unwrap();
    streaming.device.put("data", &contents[..100]);
    assert_eq!(kind(streaming.file.reopen()), ErrorKind::FileLength);
    assert_eq!(kind(streaming.file.flush()), ErrorKind::FileClosed);
    assert_eq!(streaming.pool.stats().dirty_frames, 0);
    streaming.assert_all_frames_can_be_held();
    streaming.device.put("data", &contents);
    let file = streaming.pool.open_file("data", FileOptions::new()).unwrap();
    assert_eq!(file.pages(), 2000);
    streaming.pool.close().unwrap();
}

/// The pool ends, the file can be opened by another pool, and what was acknowledged is there.
#[test]
fn a_pool_ends_while_writes_fail() {
    let ways: [fn(Pool); 2] = [|pool| assert!(pool.close().is_err()), drop];
    for (end, after) in ways.into_iter().flat_map(|end| [1, 3, 9].map(|after| (end, after))) {
        let streaming = Streaming::new();
        streaming.file.flush().unwrap();
        streaming.let_writes_fail(after);
        let tenant = streaming.pool.default_tenant();
        // Until eight frames are borrowed, or there is no frame.
        let mut made = streaming.made;
        while streaming.pool.stats().borrowed_frames < 8 {
            let Ok(mut page) = tenant.create(streaming.file.page(made)) else { break };
            stamp(&mut page, made, 1);
            made += 1;
        }
        drop(tenant);
        let Streaming { device, pool, file, other, made: acknowledged } = streaming;
        drop((file, other));
        end(pool);
        device.forget_faults();
        let pool = options().open_on(&device).unwrap();
        let file = pool.open_file("data", FileOptions::new()).unwrap();
        for number in 0..acknowledged {
            assert_eq!(version(&pool.default_tenant().read(file.page(number)).unwrap(), number), 1);
        }
    }
}
