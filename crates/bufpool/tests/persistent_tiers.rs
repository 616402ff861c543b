//! Goal: the pages of a persistent tier are there for the next pool if the last one was closed, and for none
//! if it was not; and whatever has become of its file, no page is served that its own file does not have.
//! Method: two pools one after the other on a simulated device, with the power cut at each call between the
//! first one's last read and the second one's first, and with each part of the tier's file damaged.

mod common;

use std::sync::Arc;

use bufpool::manager::Allocation;
use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::tier::{FileTier, Tier, TierAdmit, TierPolicy};
use bufpool::{File, FileOptions, IoOperation, Pool, PoolOptions, Result};
use common::{PAGE_BYTES, deterministic, directory, on_each_backend, small, stamped_device, version};

const FRAMES: u32 = 32;
const PAGES: u64 = 100;
const TIER_PAGES: u32 = 40;
const TIER: &str = "below";

/// Options of a pool over a persistent tier in that file.
fn over(options: PoolOptions, path: impl AsRef<std::path::Path>, pages: u32) -> PoolOptions {
    over_tier(options, Arc::new(FileTier::new(path, pages).persistent(true)))
}

fn over_tier(options: PoolOptions, tier: Arc<FileTier>) -> PoolOptions {
    let options = options.frames(FRAMES).allocation(Allocation::GlobalLru).manager(None);
    options.tier(tier, TierPolicy::Demote, TierAdmit::All).tier_wait_ms(10_000)
}

fn reader() -> FileOptions {
    FileOptions::new().read_only(true).tag(5).epoch(1)
}

fn read_all(pool: &Pool, file: &File) -> Result<()> {
    (0..PAGES).try_for_each(|number| {
        assert_eq!(version(&pool.default_tenant().read(file.page(number))?, number), 1);
        Ok(())
    })
}

/// A pool that reads all pages in turn. Returns how many the tier had at the beginning, and how many it
/// served.
fn turn(device: &SimDevice, how: FileOptions, pages: u32, closes: bool) -> Result<(u64, u64)> {
    let pool = over(deterministic(), TIER, pages).open_on(device)?;
    let found = pool.stats().tier.unwrap().report.pages;
    let file = pool.open_file("data", how)?;
    read_all(&pool, &file)?;
    pool.check_invariants();
    let tier = pool.stats().tier.unwrap();
    assert_eq!(tier.wrong, 0, "{tier:?}");
    if closes {
        pool.close()?;
    } else {
        device.cut_power();
    }
    Ok((found, tier.hits))
}

#[test]
fn pages_are_there_for_the_next_pool_if_the_last_one_was_closed() {
    let device = stamped_device(PAGES);
    let turn = |device: &SimDevice| turn(device, reader(), TIER_PAGES, true).unwrap();
    assert_eq!(turn(&device), (0, 0));
    // A page that is taken from the tier makes room for one that leaves memory, so the tier gives up none
    // before it is read.
    assert_eq!(turn(&device), (TIER_PAGES.into(), TIER_PAGES.into()));
    assert_eq!(turn(&device), (TIER_PAGES.into(), TIER_PAGES.into()), "and again");
}

#[test]
fn only_copies_that_mean_the_same_to_both_are_served() {
    let hits = |first: FileOptions, second: FileOptions| {
        let device = stamped_device(PAGES);
        // The tier has room for all pages, so that each page is served that can be.
        turn(&device, first, PAGES as u32, true).unwrap();
        turn(&device, second, PAGES as u32, true).unwrap().1
    };
    let below = PAGES - u64::from(FRAMES);
    assert_eq!(hits(reader(), reader()), below);
    assert_eq!(hits(reader(), reader().epoch(2)), 0, "another epoch");
    assert_eq!(hits(reader(), reader().tag(6)), 0, "another file");
    assert_eq!(hits(reader().tag(0), reader().tag(0)), 0, "who knows which file");
    let unnamed = || FileOptions::new().read_only(true).tag(5);
    assert_eq!(hits(unnamed(), unnamed()), 0, "no epoch");
    assert_eq!(hits(FileOptions::new().tag(5), reader()), 0, "of a file that was open for writing");
    assert_eq!(hits(reader(), FileOptions::new().tag(5).epoch(1)), 0, "for a file that is");
}

#[test]
fn a_smaller_tier_has_what_has_room_in_it() {
    for pages in [0, 1, 20, 60] {
        let device = stamped_device(PAGES);
        turn(&device, reader(), PAGES as u32, true).unwrap();
        let (found, _) = turn(&device, reader(), pages, true).unwrap();
        assert_eq!(found, u64::from(pages));
    }
}

#[test]
fn after_a_crash_a_tier_is_empty() {
    let device = stamped_device(PAGES);
    turn(&device, reader(), PAGES as u32, true).unwrap();
    turn(&device, reader(), PAGES as u32, false).unwrap();
    assert_eq!(turn(&device.crash_image(1), reader(), PAGES as u32, true).unwrap(), (0, 0));
}

/// The power is cut at each call of two pools, one after the other. The tier then has all pages of the last
/// clean close, or none.
#[test]
fn a_power_cut_leaves_all_or_nothing() {
    let calls_of = |device: &SimDevice| {
        let before = device.calls_total();
        turn(device, reader(), TIER_PAGES, true).unwrap();
        device.calls_total() - before
    };
    let device = stamped_device(PAGES);
    let (first, second) = (calls_of(&device), calls_of(&device));
    let mut found_some = 0;
    for call in 1..=first + second {
        let device = stamped_device(PAGES);
        device.cut_power_at(call);
        let is_second = call > first;
        if is_second {
            turn(&device, reader(), TIER_PAGES, true).unwrap();
        }
        // A tier's own calls may fail without its pool's noticing.
        let _ = turn(&device, reader(), TIER_PAGES, true);
        assert!(device.power_is_cut(), "call {call}");
        for seed in 0..4 {
            let (found, _) = turn(&device.crash_image(seed), reader(), TIER_PAGES, true).unwrap();
            assert!([0, TIER_PAGES.into()].contains(&found), "call {call}: {found}");
            found_some += u64::from(found > 0);
        }
    }
    assert!(found_some > 0);
}

/// Bytes of its file change between two pools.
#[test]
fn a_damaged_tier_serves_nothing_wrong() {
    let device = stamped_device(PAGES);
    turn(&device, reader(), PAGES as u32, true).unwrap();
    let sound = device.contents(TIER).unwrap();
    let places = (PAGES as usize + 128 + 1) * PAGE_BYTES;
    let damaged = |contents: &[u8]| {
        device.put(TIER, contents);
        let pool = over(deterministic(), TIER, PAGES as u32).open_on(&device).unwrap();
        let file = pool.open_file("data", reader()).unwrap();
        read_all(&pool, &file).unwrap();
        let tier = pool.stats().tier.unwrap();
        drop(pool);
        (tier.hits, tier.wrong)
    };
    let below = PAGES - u64::from(FRAMES);
    assert_eq!(damaged(&sound), (below, 0));
    let flip = |at: usize| {
        let mut contents = sound.clone();
        contents[at] ^= 1;
        contents
    };
    for at in (16..56).chain([places, places + 47, places + 48 * 30 + 41]) {
        assert_eq!(damaged(&flip(at)), (0, 0), "byte {at} of the header or the directory");
    }
    let (hits, wrong) = damaged(&flip(PAGE_BYTES + 100));
    assert_eq!((hits + wrong, wrong), (below, 1), "a byte of a page");
    for bytes in [places, places + 4096, PAGE_BYTES] {
        assert_eq!(damaged(&sound[..bytes]), (0, 0), "cut to {bytes}");
    }
}

/// The directory of the tier has several blocks, the last of which is not full.
#[test]
fn a_tier_of_many_pages_is_there_for_the_next_pool() {
    const MANY: u32 = 12_000;
    let device = SimDevice::new(1);
    device.put("data", &vec![0; (MANY + FRAMES) as usize * 512]);
    let found = || {
        let pool = over(deterministic().page_bytes(512), TIER, MANY).open_on(&device).unwrap();
        let found = pool.stats().tier.unwrap().report.pages;
        let file = pool.open_file("data", reader()).unwrap();
        let tenant = pool.default_tenant();
        (0..file.pages()).for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
        pool.close().unwrap();
        found
    };
    assert_eq!([(); 2].map(|()| found()), [0, MANY.into()]);
}

/// Each call between one pool and the next fails once. Only pages of the tier are lost.
#[test]
fn a_call_that_fails_costs_the_tier_its_pages() {
    let mut lost = [0, 0];
    for (at, operation) in [IoOperation::Read, IoOperation::Write].into_iter().enumerate() {
        for late in 1.. {
            let device = stamped_device(PAGES);
            turn(&device, reader(), TIER_PAGES, true).unwrap();
            let nth = device.calls(operation) + late;
            device.fail(SimFault { operation, nth, failure: SimFailure::Io });
            // The pool's own reads and the opening of the tier may fail.
            let _ = turn(&device, reader(), TIER_PAGES, true);
            let is_over = device.calls(operation) < nth;
            device.forget_faults();
            let (found, _) = turn(&device, reader(), TIER_PAGES, true).unwrap();
            assert!(found <= TIER_PAGES.into());
            lost[at] += u64::from(found < TIER_PAGES.into());
            if is_over {
                break;
            }
        }
    }
    assert!(lost.iter().all(|lost| *lost > 0), "{lost:?}");
}

#[test]
fn real_files_keep_a_tier_on_each_backend() {
    on_each_backend(|io| {
        let folder = directory();
        let path = folder.path().join("data");
        std::fs::write(&path, stamped_device(PAGES).contents("data").unwrap()).unwrap();
        let turn = || {
            let options = over(small().io(io), folder.path().join(TIER), PAGES as u32);
            let pool = options.open().unwrap();
            let found = pool.stats().tier.unwrap().report.pages;
            let file = pool.open_file(&path, reader()).unwrap();
            read_all(&pool, &file).unwrap();
            pool.close().unwrap();
            found
        };
        assert_eq!(turn(), 0);
        // On a drive that is busy the tier may look too slow for a while, and is offered few pages then.
        assert!((0..20).any(|_| turn() > 0));
    });
}

/// A directory without pages has no block.
#[test]
fn a_tier_without_pages_is_saved_by_its_header_alone() {
    let device = stamped_device(PAGES);
    let pool = over(deterministic(), TIER, TIER_PAGES).open_on(&device).unwrap();
    let before = device.calls(IoOperation::Write);
    pool.close().unwrap();
    assert_eq!(device.calls(IoOperation::Write), before + 1);
}

/// Pages are read from their file only, so all writes of the device are the tier's.
#[test]
fn a_tier_in_use_says_how_much_it_keeps_and_what_failed() {
    let device = stamped_device(PAGES);
    let tier = Arc::new(FileTier::new(TIER, TIER_PAGES));
    let pool = over_tier(deterministic(), Arc::clone(&tier)).open_on(&device).unwrap();
    let file = pool.open_file("data", reader()).unwrap();
    let nth = device.calls(IoOperation::Write) + 1;
    device.fail(SimFault { operation: IoOperation::Write, nth, failure: SimFailure::Io });
    read_all(&pool, &file).unwrap();
    let report = tier.report();
    assert_eq!((report.failures, report.pages), (1, TIER_PAGES.into()));
    assert_eq!(report.bytes, report.pages * PAGE_BYTES as u64);
}

#[test]
fn a_tier_that_was_not_saved_says_so() {
    let device = stamped_device(PAGES);
    let tier = Arc::new(FileTier::new(TIER, TIER_PAGES).persistent(true));
    let pool = over_tier(deterministic(), Arc::clone(&tier)).open_on(&device).unwrap();
    let file = pool.open_file("data", reader()).unwrap();
    read_all(&pool, &file).unwrap();
    assert_eq!(tier.report().failures, 0);
    let nth = device.calls(IoOperation::Sync) + 1;
    device.fail(SimFault { operation: IoOperation::Sync, nth, failure: SimFailure::Io });
    pool.close().unwrap();
    assert_eq!(tier.report().failures, 1);
    assert_eq!(turn(&device, reader(), TIER_PAGES, true).unwrap().0, 0, "the next pool finds nothing");
}
