//! Goal: a file that ends within a page has the bytes that were written, in memory, after a flush in the file
//! to the byte, and after a power cut at least what was flushed. Method: random reads, writes, changes of the
//! length, flushes and power cuts against a vector of bytes, on the simulated device and on each backend.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use bufpool::engine::{PageHooks, PageName};
use bufpool::sim::SimDevice;
use bufpool::{Direct, ErrorKind, File, FileOptions, IoOperation, Pool, Tenant};
use common::{PAGE_BYTES, Random, deterministic, directory, kind, new_file, on_each_backend, small};

const BYTES_MAX: u64 = 20 * PAGE_BYTES as u64;

fn of_bytes() -> FileOptions {
    FileOptions::new().create(true).bytes(true)
}

/// A few bytes, or some pages of them.
fn some_bytes(random: &mut Random) -> usize {
    let most = [8, 600, 3 * PAGE_BYTES as u64][random.below(3) as usize];
    random.below(most) as usize
}

/// A file and what it has to contain.
struct World {
    pool: Pool,
    file: File,
    tenant: Tenant,
    bytes: Vec<u8>,
}

impl World {
    fn new(pool: Pool, file: File, bytes: Vec<u8>) -> Self {
        Self { tenant: pool.default_tenant(), pool, file, bytes }
    }

    fn step(&mut self, random: &mut Random) {
        match random.below(16) {
            0..5 => {
                let (offset, mut into) = (random.below(BYTES_MAX), vec![1; some_bytes(random)]);
                let read = self.tenant.read_at(&self.file, offset, &mut into).unwrap();
                let there = self.bytes.get(offset as usize..).unwrap_or_default();
                let there = &there[..there.len().min(into.len())];
                assert_eq!(&into[..read], there, "at {offset}");
            }
            5..12 => {
                let (offset, value) = (random.below(BYTES_MAX / 2), random.below(255) as u8 + 1);
                let bytes = vec![value; some_bytes(random)];
                self.tenant.write_at(&self.file, offset, &bytes).unwrap();
                let end = offset as usize + bytes.len();
                if !bytes.is_empty() {
                    self.bytes.resize(self.bytes.len().max(end), 0);
                    self.bytes[offset as usize..end].copy_from_slice(&bytes);
                }
            }
            12 | 13 => {
                let bytes = random.below(BYTES_MAX);
                self.file.set_byte_len(bytes).unwrap();
                self.bytes.resize(bytes as usize, 0);
            }
            14 => self.pool.checkpoint().unwrap(),
            _ => {
                self.file.reopen().unwrap();
            }
        }
        assert_eq!(self.file.byte_len(), self.bytes.len() as u64);
        assert_eq!(self.file.pages(), self.bytes.len().div_ceil(PAGE_BYTES) as u64);
    }
}

#[test]
fn bytes_are_as_they_were_written_and_survive_power_cuts() {
    for seed in 1..40 {
        let mut random = Random(seed * 7919);
        let mut device = SimDevice::new(seed);
        let open = |device: &SimDevice| {
            let pool = deterministic().open_on(device).unwrap();
            let file = pool.open_file("data", of_bytes()).unwrap();
            (pool, file)
        };
        let (pool, file) = open(&device);
        let mut world = World::new(pool, file, Vec::new());
        for _ in 0..60 {
            for _ in 0..random.below(12) {
                world.step(&mut random);
            }
            world.pool.check_invariants();
            world.file.flush().unwrap();
            assert!(device.contents("data").unwrap() == world.bytes, "to the byte");
            if random.below(3) == 0 {
                device = device.crash_image(random.below(100));
                assert!(device.contents("data").unwrap() == world.bytes, "what was flushed is there");
                let (pool, file) = open(&device);
                world = World::new(pool, file, world.bytes);
            }
        }
        world.pool.close().unwrap();
        assert!(device.contents("data").unwrap() == world.bytes);
    }
}

/// Nobody sees a length between two that the file has been given, such as that of the pages it had before.
#[test]
fn the_length_is_at_any_time_one_that_was_set() {
    const LENGTHS: [u64; 2] = [100, 3 * PAGE_BYTES as u64 - 100];
    let pool = small().open_on(&SimDevice::new(1)).unwrap();
    let file = pool.open_file("data", of_bytes()).unwrap();
    file.set_byte_len(LENGTHS[0]).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let seen = file.byte_len();
                assert!(LENGTHS.contains(&seen), "{seen}");
            }
        });
        for _ in 0..10_000 {
            LENGTHS.iter().rev().for_each(|length| file.set_byte_len(*length).unwrap());
        }
        over.store(true, Ordering::Relaxed);
        looks.join().unwrap();
    });
}

/// The power is cut while bytes are written, cut off and flushed. What was flushed last is there, and the
/// length is one that the file has had since, or such a length rounded up to whole pages.
#[test]
fn a_power_cut_leaves_what_was_flushed() {
    for seed in 1..60 {
        let mut random = Random(seed * 104_729);
        let device = SimDevice::new(seed);
        let pool = deterministic().open_on(&device).unwrap();
        let file = pool.open_file("data", of_bytes()).unwrap();
        let tenant = pool.default_tenant();
        let flushed = vec![7_u8; random.below(BYTES_MAX) as usize];
        tenant.write_at(&file, 0, &flushed).unwrap();
        file.flush().unwrap();
        device.cut_power_at(device.calls_total() + 1 + random.below(8));
        let mut lengths = vec![flushed.len()];
        for _ in 0..6 {
            // Only bytes behind the flushed ones change.
            let more = some_bytes(&mut random);
            lengths.push(flushed.len() + more);
            let written = tenant.write_at(&file, flushed.len() as u64, &vec![9; more]);
            if written.and_then(|()| file.flush()).is_err() {
                break;
            }
        }
        let image = device.crash_image(seed).contents("data").unwrap();
        assert!(image.starts_with(&flushed));
        let is_one = |found: usize| {
            let most = lengths.iter().max().unwrap().next_multiple_of(PAGE_BYTES);
            found >= flushed.len() && found <= most
        };
        assert!(is_one(image.len()), "{} bytes, {lengths:?}", image.len());
        let pool = deterministic().open_on(&device.crash_image(seed)).unwrap();
        let file = pool.open_file("data", of_bytes()).unwrap();
        assert_eq!(file.byte_len(), image.len() as u64);
    }
}

#[test]
fn real_files_end_within_a_page_on_each_backend() {
    on_each_backend(|io| {
        for direct in [Direct::Prefer, Direct::Off] {
            let folder = directory();
            let path = folder.path().join("data");
            let open = || {
                let pool = small().io(io).direct(direct).open().unwrap();
                let file = pool.open_file(&path, of_bytes()).unwrap();
                (pool, file)
            };
            let mut random = Random(3);
            let (pool, file) = open();
            let mut world = World::new(pool, file, Vec::new());
            for _ in 0..20 {
                (0..10).for_each(|_| world.step(&mut random));
                world.file.flush().unwrap();
                assert!(std::fs::read(&path).unwrap() == world.bytes);
                let World { pool, file, tenant, bytes } = world;
                drop((file, tenant));
                pool.close().unwrap();
                assert!(std::fs::read(&path).unwrap() == bytes);
                let (pool, file) = open();
                world = World::new(pool, file, bytes);
            }
        }
    });
}

/// A file of any length that another program wrote.
#[test]
fn any_file_can_be_read() {
    let folder = directory();
    let path = folder.path().join("notes");
    let text: Vec<u8> = (0..3 * PAGE_BYTES + 17).map(|at| at as u8).collect();
    std::fs::write(&path, &text).unwrap();
    let pool = small().open().unwrap();
    let whole = FileOptions::new().read_only(true);
    assert_eq!(kind(pool.open_file(&path, whole)), ErrorKind::FileLength);
    let file = pool.open_file(&path, whole.bytes(true)).unwrap();
    assert_eq!((file.byte_len(), file.pages()), (text.len() as u64, 4));
    let mut found = vec![0; text.len() + 100];
    assert_eq!(pool.default_tenant().read_at(&file, 0, &mut found).unwrap(), text.len());
    assert_eq!(found[..text.len()], text);
    let page = pool.default_tenant().read(file.page(3)).unwrap().to_vec();
    assert!(page[..17] == text[3 * PAGE_BYTES..] && page[17..].iter().all(|byte| *byte == 0));
    assert_eq!(kind(pool.default_tenant().write_at(&file, 0, b"x")), ErrorKind::ReadOnly);
    assert_eq!(kind(file.set_byte_len(5)), ErrorKind::ReadOnly);
}

#[test]
fn a_file_of_pages_has_bytes_within_them() {
    let folder = directory();
    let pool = small().open().unwrap();
    let file = pool.open_file(folder.path().join("data"), FileOptions::new().create(true)).unwrap();
    file.extend(3).unwrap();
    let tenant = pool.default_tenant();
    let end = 3 * PAGE_BYTES as u64;
    assert_eq!(file.byte_len(), end);
    tenant.write_at(&file, PAGE_BYTES as u64 - 2, b"over").unwrap();
    let mut found = [0; 6];
    assert_eq!(tenant.read_at(&file, PAGE_BYTES as u64 - 3, &mut found).unwrap(), 6);
    assert_eq!(&found, b"\0over\0");
    assert_eq!(kind(tenant.write_at(&file, end - 1, b"ab")), ErrorKind::Range);
    assert_eq!(kind(tenant.write_at(&file, u64::MAX, b"ab")), ErrorKind::Range);
    assert_eq!(tenant.read_at(&file, u64::MAX, &mut found).unwrap(), 0);
    assert_eq!(tenant.read_at(&file, end - 1, &mut found).unwrap(), 1);
    assert_eq!(kind(file.set_byte_len(5)), ErrorKind::Unsupported);
    let bytes = pool.open_file(folder.path().join("other"), of_bytes()).unwrap();
    assert_eq!(kind(bytes.set_byte_len(u64::MAX)), ErrorKind::FileLength);
    tenant.write_at(&bytes, 0, b"x").unwrap();
    for offset in [1 << 62, u64::MAX - 1, u64::MAX] {
        let refused = tenant.write_at(&bytes, offset, b"ab").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::FileLength, "{refused}");
        let expected =
            format!("2 bytes at byte {offset}, expected an end within 2^40 pages of {PAGE_BYTES} bytes");
        assert!(refused.to_string().ends_with(&expected), "{refused}");
    }
    assert_eq!(bytes.byte_len(), 1);
}

/// An optimistic file takes no writes of bytes, and its length cannot be set in bytes.
#[test]
fn an_optimistic_file_is_refused_before_it_changes() {
    let folder = directory();
    let pool = small().open().unwrap();
    let file = pool.open_file(folder.path().join("data"), of_bytes().optimistic(true)).unwrap();
    file.extend(2).unwrap();
    assert_eq!(kind(pool.default_tenant().write_at(&file, 9_000, b"x")), ErrorKind::Unsupported);
    assert_eq!(kind(file.set_byte_len(5)), ErrorKind::Unsupported);
    assert_eq!((file.byte_len(), file.pages()), (2 * PAGE_BYTES as u64, 2));
}

/// A run of pages is read in one transfer, and pages that are overwritten as a whole are not read.
#[test]
fn many_bytes_are_few_transfers() {
    let device = SimDevice::new(1);
    device.put("data", &vec![5; 16 * PAGE_BYTES + 9]);
    let pool = small().frames(256).open_on(&device).unwrap();
    let file = pool.open_file("data", of_bytes()).unwrap();
    let tenant = pool.default_tenant();
    tenant.write_at(&file, 0, &vec![6; 4 * PAGE_BYTES]).unwrap();
    assert_eq!(device.calls(IoOperation::Read), 0);
    let mut found = vec![0; 12 * PAGE_BYTES + 9];
    assert_eq!(tenant.read_at(&file, 4 * PAGE_BYTES as u64, &mut found).unwrap(), found.len());
    assert!(found.iter().all(|byte| *byte == 5));
    assert!(device.calls(IoOperation::Read) <= 2, "{}", device.calls(IoOperation::Read));
}

/// Sets the flag when it is dropped, also if the thread panics.
struct Over<'a>(&'a AtomicBool);

impl Over<'_> {
    fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One thread appends, others flush and read: what was appended is not cut off.
#[test]
fn a_flush_does_not_cut_off_what_is_appended_meanwhile() {
    on_each_backend(|io| {
        let folder = directory();
        let path = folder.path().join("data");
        let pool = small().io(io).open().unwrap();
        let file = pool.open_file(&path, of_bytes()).unwrap();
        let is_over = AtomicBool::new(false);
        const RECORD: usize = 700;
        const RECORDS: usize = 400;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let over = Over(&is_over);
                while !over.is_over() {
                    file.flush().unwrap();
                }
            });
            scope.spawn(|| {
                let (tenant, over) = (pool.default_tenant(), Over(&is_over));
                while !over.is_over() {
                    let records = file.byte_len() as usize / RECORD;
                    let mut last = [0; RECORD];
                    if records > 1 {
                        let at = ((records - 2) * RECORD) as u64;
                        assert_eq!(tenant.read_at(&file, at, &mut last).unwrap(), RECORD);
                        assert!(last.iter().all(|byte| *byte == (records - 2) as u8), "record {records}");
                    }
                }
            });
            let (tenant, _over) = (pool.default_tenant(), Over(&is_over));
            for record in 0..RECORDS {
                tenant.write_at(&file, (record * RECORD) as u64, &[record as u8; RECORD]).unwrap();
            }
        });
        pool.close().unwrap();
        let found = std::fs::read(&path).unwrap();
        assert_eq!(found.len(), RECORDS * RECORD);
        for (record, bytes) in found.chunks(RECORD).enumerate() {
            assert!(bytes.iter().all(|byte| *byte == record as u8), "record {record}");
        }
    });
}

/// Two threads change the length at a time, in each order. The length on the device is then one that the file
/// was given, and what was flushed is there.
#[test]
fn lengths_that_are_changed_at_a_time_come_one_after_the_other() {
    const PAGE: u64 = PAGE_BYTES as u64;
    for round in 0..400 {
        let device = SimDevice::new(round);
        let pool = small().open_on(&device).unwrap();
        let file = pool.open_file("data", of_bytes()).unwrap();
        let tenant = pool.default_tenant();
        tenant.write_at(&file, 0, &[7; 4 * PAGE_BYTES]).unwrap();
        file.flush().unwrap();
        let begin = Barrier::new(2);
        let extended = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                begin.wait();
                if round % 2 == 0 {
                    return file.extend(8).unwrap();
                }
                file.truncate(0).unwrap();
                0..0
            });
            begin.wait();
            // This makes the file shorter or longer, as the other thread comes first or last.
            file.set_byte_len(2 * PAGE - 100 * (round % 3)).unwrap();
            other.join().unwrap()
        });
        let pages = file.pages();
        assert_eq!(file.byte_len().div_ceil(PAGE), pages, "round {round}: {} bytes", file.byte_len());
        for number in extended.filter(|number| *number < pages) {
            tenant.create(file.page(number)).unwrap()[0] = 9;
        }
        file.flush().unwrap();
        assert_eq!(device.contents("data").unwrap().len() as u64, file.byte_len(), "round {round}");
        file.discard(0..pages).unwrap();
        (0..pages).for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
    }
}

#[test]
fn a_length_that_cannot_be_set_changes_nothing() {
    let device = SimDevice::new(1);
    let pool = small().latch_wait_ms(30).open_on(&device).unwrap();
    let file = pool.open_file("data", of_bytes()).unwrap();
    let (tenant, bytes) = (pool.default_tenant(), vec![7; 2 * PAGE_BYTES + 900]);
    tenant.write_at(&file, 0, &bytes).unwrap();
    for busy in [1, 2] {
        let guard = tenant.read_owned(file.page(busy)).unwrap();
        let refused = std::thread::scope(|scope| {
            scope.spawn(|| kind(file.set_byte_len(PAGE_BYTES as u64 + 100))).join().unwrap()
        });
        assert_eq!(refused, ErrorKind::LatchTimeout, "page {busy}");
        drop(guard);
        let mut found = vec![0; bytes.len() + 1];
        assert_eq!(tenant.read_at(&file, 0, &mut found).unwrap(), bytes.len());
        assert_eq!(found[..bytes.len()], bytes);
    }
    file.set_byte_len(PAGE_BYTES as u64 + 100).unwrap();
    file.set_byte_len(bytes.len() as u64).unwrap();
    let mut found = vec![1; bytes.len()];
    assert_eq!(tenant.read_at(&file, 0, &mut found).unwrap(), bytes.len());
    assert!(found[PAGE_BYTES + 100..].iter().all(|byte| *byte == 0), "what is new is zeros");
}

/// Calls that would find nothing to do are refused as all others.
#[test]
fn a_call_that_is_refused_leaves_the_length_as_it_is() {
    let folder = directory();
    let pool = small().open().unwrap();
    let file = pool.open_file(folder.path().join("data"), of_bytes()).unwrap();
    let (tenant, closed) = (pool.default_tenant(), pool.tenant("closed").open().unwrap());
    tenant.write_at(&file, 0, &[7; 100]).unwrap();
    closed.clone().close().unwrap();
    let elsewhere = deterministic().open().unwrap();
    for (other, expected) in
        [(&elsewhere.default_tenant(), ErrorKind::WrongPool), (&closed, ErrorKind::TenantClosed)]
    {
        assert_eq!(kind(other.write_at(&file, 100_000, &[1])), expected);
        assert_eq!(kind(other.write_at(&file, 0, &[])), expected);
        assert_eq!(kind(other.read_at(&file, 100_000, &mut [0])), expected);
        assert_eq!(file.byte_len(), 100);
    }
    let other = file.clone();
    file.close().unwrap();
    assert_eq!(kind(tenant.write_at(&other, 0, &[])), ErrorKind::FileClosed);
    assert_eq!(kind(tenant.read_at(&other, 100_000, &mut [0])), ErrorKind::FileClosed);
    assert_eq!(kind(other.set_byte_len(100)), ErrorKind::FileClosed);
}

/// Space that a flush has cut off is allocated again when the file grows.
#[test]
fn a_file_that_grows_after_a_flush_has_its_space() {
    use std::os::unix::fs::MetadataExt;
    const PAGE: u64 = 65_536;
    let folder = directory();
    let path = folder.path().join("data");
    let pool = small().page_bytes(PAGE as usize).open().unwrap();
    let file = pool.open_file(&path, of_bytes()).unwrap();
    for bytes in [5000, PAGE, PAGE + 1] {
        file.set_byte_len(bytes).unwrap();
        let allocated = std::fs::metadata(&path).unwrap().blocks() * 512;
        assert!(allocated >= bytes.next_multiple_of(PAGE), "{allocated} bytes for {bytes}");
        file.flush().unwrap();
    }
}

/// Hooks that leave bytes as they are, or not.
struct Hooks {
    changes_bytes: bool,
}

impl PageHooks for Hooks {
    fn on_read(&self, _: PageName, _: &mut [u8]) -> Result<(), String> {
        Ok(())
    }

    fn before_write(&self, _: PageName, _: &mut [u8]) {}

    fn changes_bytes(&self) -> bool {
        self.changes_bytes
    }
}

/// If hooks put something behind the end of a file, such as a checksum, it would be cut off, and the page
/// could not be read any more.
#[test]
fn hooks_that_change_pages_are_refused() {
    for changes_bytes in [true, false] {
        let pool = small().hooks(Box::new(Hooks { changes_bytes })).open_on(&SimDevice::new(1)).unwrap();
        let opened = pool.open_file("data", of_bytes());
        if changes_bytes {
            assert_eq!(kind(opened), ErrorKind::Unsupported);
            pool.open_file("data", FileOptions::new().create(true)).unwrap();
        } else {
            let (file, tenant) = (opened.unwrap(), pool.default_tenant());
            tenant.write_at(&file, 0, &[7; 100]).unwrap();
            file.close().unwrap();
        }
    }
}

/// Bytes that a guard has written behind the end of the file are zeros, in memory and in the file, once the
/// file grows.
#[test]
fn what_is_behind_the_end_is_zeros_when_the_file_grows() {
    type Grow = fn(&World);
    let ways: [Grow; 3] = [
        |world| world.file.set_byte_len(300).unwrap(),
        |world| world.tenant.write_at(&world.file, 299, &[0]).unwrap(),
        |world| assert_eq!(world.file.extend(1).unwrap(), 1..2),
    ];
    for grow in ways {
        let device = SimDevice::new(1);
        let pool = deterministic().open_on(&device).unwrap();
        let file = pool.open_file("data", of_bytes()).unwrap();
        let world = World::new(pool, file, Vec::new());
        world.tenant.write_at(&world.file, 0, &[1; 100]).unwrap();
        world.tenant.write(world.file.page(0)).unwrap()[200] = 9;
        world.file.flush().unwrap();
        grow(&world);
        let mut bytes = [2; 300];
        world.tenant.read_at(&world.file, 0, &mut bytes).unwrap();
        assert!(bytes[..100] == [1; 100] && bytes[100..300] == [0; 200]);
        world.file.flush().unwrap();
        assert_eq!(device.contents("data").unwrap()[..300], bytes);
    }
}

/// If another program has shortened the file, a flush fails and does not fill the file up with zeros.
#[test]
fn a_file_cut_short_by_others_is_an_error() {
    let directory = directory();
    let path = directory.path().join("data");
    let pool = small().direct(Direct::Prefer).open().unwrap();
    let (file, tenant) = (pool.open_file(&path, of_bytes()).unwrap(), pool.default_tenant());
    let bytes = vec![1; 100 * PAGE_BYTES];
    tenant.write_at(&file, 0, &bytes).unwrap();
    file.flush().unwrap();
    let short = 10 * PAGE_BYTES as u64 + 100;
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(short).unwrap();
    tenant.write_at(&file, 0, &[2]).unwrap();
    let error = file.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), short);
    assert_eq!(kind(tenant.write_at(&file, 0, &[3])), ErrorKind::FilePoisoned);
}

/// As the documentation of `FileOptions::bytes` says of a file that another program has shortened.
#[test]
fn what_others_cut_off_reads_as_zeros_in_its_page_and_not_at_all_beyond() {
    const CUT: usize = 10 * PAGE_BYTES + 100;
    for writes_the_end in [false, true] {
        let directory = directory();
        let path = directory.path().join("data");
        let pool = small().direct(Direct::Prefer).open().unwrap();
        let (file, tenant) = (pool.open_file(&path, of_bytes()).unwrap(), pool.default_tenant());
        let end = if writes_the_end { CUT + 900 } else { CUT + 2 * PAGE_BYTES };
        tenant.write_at(&file, 0, &vec![1; end]).unwrap();
        file.flush().unwrap();
        // None of its pages is in memory any more.
        let other = new_file(&pool, directory.path(), "other", 100);
        (0..100).for_each(|number| drop(tenant.read(other.page(number)).unwrap()));
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(CUT as u64).unwrap();
        let mut read = [7; 300];
        tenant.read_at(&file, CUT as u64 - 100, &mut read).unwrap();
        assert_eq!((&read[..100], &read[100..]), (&[1; 100][..], &[0; 200][..]));
        file.flush().unwrap();
        if writes_the_end {
            tenant.write_at(&file, end as u64 - 1, &[2]).unwrap();
            file.flush().unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().len(), end as u64);
        } else {
            let beyond = tenant.read_at(&file, CUT as u64 + PAGE_BYTES as u64, &mut read);
            assert_eq!(kind(beyond), ErrorKind::UnexpectedEof);
            tenant.write_at(&file, 0, &[2]).unwrap();
            assert_eq!(kind(file.flush()), ErrorKind::UnexpectedEof);
            assert_eq!(kind(file.flush()), ErrorKind::FilePoisoned);
        }
    }
}

/// A thread that makes a file longer waits for another one that does, for at most `latch_wait_ms`.
#[test]
fn a_wait_for_one_who_makes_the_file_longer_has_a_limit() {
    const WAIT: Duration = Duration::from_secs(1);
    for end in [0, PAGE_BYTES as u64, 100] {
        for waits_long_enough in [false, true] {
            let device = SimDevice::new(1);
            let latch_wait_ms = if waits_long_enough { 60_000 } else { 20 };
            let pool = small().latch_wait_ms(latch_wait_ms).open_on(&device).unwrap();
            let file = pool.open_file("data", of_bytes()).unwrap();
            file.set_byte_len(end).unwrap();
            let before = device.calls(IoOperation::Allocate);
            device.set_latency(WAIT, WAIT);
            std::thread::scope(|scope| {
                let first = scope.spawn(|| file.extend(3).unwrap());
                while device.calls(IoOperation::Allocate) == before {
                    std::thread::yield_now();
                }
                let second = file.extend(2);
                if waits_long_enough {
                    assert_eq!(second.unwrap().start, first.join().unwrap().end);
                } else {
                    assert_eq!(kind(second), ErrorKind::LatchTimeout);
                    first.join().unwrap();
                }
            });
        }
    }
}

/// Hooks that hold up the load of the next page, once.
struct HoldsUp {
    is_next: Arc<AtomicBool>,
    reached: Sender<()>,
    let_go: Mutex<Receiver<()>>,
}

impl PageHooks for HoldsUp {
    fn on_read(&self, _: PageName, _: &mut [u8]) -> Result<(), String> {
        if self.is_next.swap(false, Ordering::SeqCst) {
            self.reached.send(()).unwrap();
            self.let_go.lock().unwrap().recv().unwrap();
        }
        Ok(())
    }

    fn before_write(&self, _: PageName, _: &mut [u8]) {}

    fn changes_bytes(&self) -> bool {
        false
    }
}

/// A file of 100 bytes in a pool; `first` is in the middle of loading its page when `second` begins.
fn while_the_last_page_is_loaded(
    first: impl FnOnce(&File) + Send,
    second: impl FnOnce(&File, &Tenant) + Send,
) {
    let device = SimDevice::new(1);
    device.put("data", &[7; 100]);
    let ((reached, arrivals), (let_go, lets_go)) = (channel(), channel());
    let is_next = Arc::new(AtomicBool::new(true));
    let hooks = HoldsUp { is_next, reached, let_go: Mutex::new(lets_go) };
    let pool = small().latch_wait_ms(5_000).hooks(Box::new(hooks)).open_on(&device).unwrap();
    let (file, tenant) = (pool.open_file("data", of_bytes()).unwrap(), pool.default_tenant());
    std::thread::scope(|scope| {
        scope.spawn(|| first(&file));
        arrivals.recv().unwrap();
        scope.spawn(|| second(&file, &tenant));
        // By then the second thread waits for the page.
        std::thread::sleep(Duration::from_millis(200));
        let_go.send(()).unwrap();
    });
}

/// A thread that sets the length holds the last page and needs the lock of the length. A thread that reopens
/// the file holds that lock and needs the page. They do not deadlock.
#[test]
fn a_file_grows_beside_one_who_opens_it_again() {
    while_the_last_page_is_loaded(
        |file| file.set_byte_len(200).unwrap(),
        |file, _| assert_eq!(file.reopen().unwrap(), 0, "no page was lost"),
    );
}

/// A read beside a change of the length returns the whole file as it was before, or what is left after it.
#[test]
fn a_read_ends_where_a_file_ends_that_becomes_shorter() {
    while_the_last_page_is_loaded(
        |file| file.set_byte_len(50).unwrap(),
        |file, tenant| {
            let mut bytes = [1; 100];
            let there = tenant.read_at(file, 0, &mut bytes).unwrap();
            assert!([50, 100].contains(&there));
            assert!(bytes[..there].iter().all(|byte| *byte == 7), "{there} bytes, {bytes:?}");
        },
    );
}

/// An optimistic file grows by whole pages. What was behind its end in the last page is zeros then.
#[test]
fn an_optimistic_file_is_extended() {
    let device = SimDevice::new(1);
    device.put("data", &[7; 100]);
    let pool = small().open_on(&device).unwrap();
    let file = pool.open_file("data", of_bytes().optimistic(true)).unwrap();
    let tenant = pool.default_tenant();
    tenant.write_optimistic(file.page(0)).unwrap().write_at(200, &[9]);
    assert_eq!(file.extend(1).unwrap(), 1..2);
    assert_eq!(file.byte_len(), 2 * PAGE_BYTES as u64);
    let mut bytes = [1; 300];
    tenant.read_at(&file, 0, &mut bytes).unwrap();
    assert!(bytes[..100] == [7; 100] && bytes[100..] == [0; 200]);
}

/// A change of length may have to look at the last page. That is an access of the engine's line, or of the
/// site and context that it names.
#[test]
fn a_change_of_length_comes_from_where_the_engine_made_it() {
    let device = SimDevice::new(1);
    let pool = deterministic().open_on(&device).unwrap();
    let file = pool.open_file("data", of_bytes()).unwrap();
    let tenant = pool.default_tenant();
    tenant.write_at(&file, 0, b"a part of a page").unwrap();
    tenant.write_at(&file, 2 * PAGE_BYTES as u64 + 5, b"more").unwrap();
    let context = bufpool::context!("log writer").context();
    tenant.in_context(context).write_at(&file, 4 * PAGE_BYTES as u64 + 5, b"more").unwrap();
    tenant.at(bufpool::site!("append")).write_at(&file, 6 * PAGE_BYTES as u64 + 5, b"more").unwrap();
    file.set_byte_len(3 * PAGE_BYTES as u64 + 7).unwrap();
    file.extend(1).unwrap();
    let contexts = pool.stats().contexts;
    let elsewhere: Vec<_> = contexts.iter().filter(|context| context.file != file!()).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    let named = |name: &str| contexts.iter().filter(|context| context.label().contains(name)).count();
    assert_eq!((named("log writer"), named("append"), contexts.len()), (1, 1, 6), "{contexts:?}");
}
