//! After warm-up an access allocates nothing, whatever the policy, and a directory reports how many bytes it
//! holds. Both are checked with the counts of the allocator.

mod cache;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use bufpool_policies::{
    Access, Admission, Allocation, ContextId, DEFAULT_TENANT, Directory, DirectoryOptions, FileId, FrameId,
    ManagerKind, PageId, SplitMix64, TenantId,
    classic::PolicyKind,
    tier::{Segments, TierKind, TierOrder, TierSetup},
};
use cache::NothingBusy;

thread_local! {
    /// Allocations of this thread. Those of the test runner's other threads do not count.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that this thread has allocated and not given back.
    static HELD_BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count_held(bytes: isize) {
    HELD_BYTES.with(|held| held.set(held.get() + bytes));
}

struct Counting;

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        count_held(layout.size() as isize);
        // SAFETY: the caller's duties are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count_held(-(layout.size() as isize));
        // SAFETY: the caller's duties are the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const FRAMES: usize = 200;
const PAGES: usize = 700;

/// A driver of a directory, which has the frame of each page.
struct Driver {
    directory: Directory,
    frame_of: Vec<Option<FrameId>>,
    random: SplitMix64,
    loop_at: u64,
}

impl Driver {
    fn run(&mut self, accesses: u32, tenants: &[TenantId]) {
        for n in 0..accesses {
            let tenant = tenants[n as usize % tenants.len()];
            let page = match self.random.below(3) {
                0 => {
                    self.loop_at += 1;
                    self.loop_at % 300
                }
                1 => self.random.below(50),
                _ => self.random.below(PAGES as u64),
            };
            let access = Access {
                page: PageId(page),
                file: FileId(0),
                tenant,
                context: ContextId(n % 7),
                creates: n % 11 == 0,
            };
            if let Some(frame) = self.frame_of[page as usize] {
                self.directory.hit(frame, &access);
                continue;
            }
            let frame = match self.directory.admit(&access, &mut NothingBusy) {
                Admission::Free { frame, .. } => frame,
                Admission::Evict { frame, page, .. } => {
                    self.frame_of[page.0 as usize] = None;
                    frame
                }
                Admission::Exhausted { .. } => panic!("nothing is busy"),
            };
            self.directory.loaded(frame);
            self.frame_of[page as usize] = Some(frame);
        }
    }
}

#[test]
fn accesses_allocate_nothing_after_warm_up() {
    for policy in PolicyKind::ALL {
        allocates_nothing(Allocation::LruSp, policy);
    }
    allocates_nothing(Allocation::Fifo2Sp, PolicyKind::Lru);
}

fn allocates_nothing(allocation: Allocation, policy: PolicyKind) {
    let options =
        DirectoryOptions { frames: FRAMES as u32, allocation, revocation: true, shared_pages: true };
    let mut directory = Directory::new(options).unwrap();
    let guest = directory.open_tenant(20, 100).unwrap();
    let other = directory.open_tenant(0, 150).unwrap();
    directory.set_policy(DEFAULT_TENANT, 0, PolicyKind::Mru).unwrap();
    directory.set_policy(guest, 0, policy).unwrap();
    let mut driver =
        Driver { directory, frame_of: vec![None; PAGES], random: SplitMix64::new(1), loop_at: 0 };
    // A level's arrays grow to its largest number of blocks, which is the cap.
    driver.run(10_000, &[guest]);
    assert_eq!(driver.directory.resident(guest), 100);
    driver.run(60_000, &[DEFAULT_TENANT, guest, other]);
    let before = ALLOCATIONS.with(Cell::get);
    driver.run(60_000, &[DEFAULT_TENANT, guest, other]);
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0, "allocations with {policy} under {allocation:?}");
    assert!(driver.directory.stats().overrules > 1000);
}

/// The bytes that it reports are those that are freed when it is dropped.
#[test]
fn a_directory_says_how_many_bytes_it_holds() {
    use Allocation::{AllocLru, CostBenefit, Fifo2Sp, GlobalLru, LruS, LruSp};
    for allocation in [GlobalLru, AllocLru, LruS, LruSp, CostBenefit, Fifo2Sp] {
        let options =
            DirectoryOptions { frames: FRAMES as u32, allocation, revocation: true, shared_pages: true };
        let mut directory = Directory::new(options).unwrap();
        let tenants: Vec<_> = (0..20).map(|_| directory.open_tenant(0, 100).unwrap()).collect();
        directory.set_policy(tenants[0], 0, PolicyKind::Mru).unwrap();
        let mut driver =
            Driver { directory, frame_of: vec![None; PAGES], random: SplitMix64::new(1), loop_at: 0 };
        driver.run(20_000, &tenants);
        let Driver { directory, .. } = driver;
        let said = directory.metadata_bytes() as isize;
        let before = HELD_BYTES.with(Cell::get);
        drop(directory);
        let held = before - HELD_BYTES.with(Cell::get);
        // A hash map has more room than its capacity says; boxes of single values are not counted.
        let uncounted = if allocation == CostBenefit { held / 7 } else { held / 100 };
        let expected = held - uncounted..=held;
        assert!(expected.contains(&said), "{said} bytes of {held} under {allocation:?}");
    }
}

#[test]
fn automatic_managers_say_how_many_bytes_they_hold() {
    let mut directory = Directory::new(DirectoryOptions {
        frames: FRAMES as u32,
        allocation: Allocation::LruSp,
        revocation: true,
        shared_pages: true,
    })
    .unwrap();
    let manager = ManagerKind::Auto.build(FRAMES as u32, 1, DEFAULT_TENANT);
    directory.set_manager(DEFAULT_TENANT, manager, true).unwrap();
    let mut driver =
        Driver { directory, frame_of: vec![None; PAGES], random: SplitMix64::new(1), loop_at: 0 };
    driver.run(20_000, &[DEFAULT_TENANT]);
    let Driver { directory, .. } = driver;
    let said = directory.metadata_bytes() as isize;
    let before = HELD_BYTES.with(Cell::get);
    drop(directory);
    let held = before - HELD_BYTES.with(Cell::get);
    assert!((held - held / 100..=held).contains(&said), "{said} bytes of {held}");
}

/// Random calls to a tier: reads, fills, demotions, and pages that are taken or forgotten.
fn call_tier(tier: &mut dyn TierOrder, random: &mut SplitMix64, calls: u64) {
    for now in 0..calls {
        let page = PageId(random.below(5000));
        match random.below(10) {
            0 => drop(tier.take(page)),
            1 => drop(tier.forget(page)),
            2..5 => drop(tier.demote(page)),
            _ => {
                if tier.read(page).is_none() {
                    tier.fill(page);
                }
            }
        }
        tier.hear_age(now, random.below(4000));
    }
}

#[test]
fn tiers_allocate_nothing_after_warm_up() {
    for name in TierKind::NAMES.map(|name| name.replace("PERCENT", "50")) {
        let kind: TierKind = name.parse().unwrap();
        let frames = Segments::Exponential.capacity_min();
        let mut tier = kind.build(TierSetup { frames, client_frames: frames, seed: 1 });
        let mut random = SplitMix64::new(1);
        // Every page comes in. In the calls after that, pages that are used become protected.
        for page in 0..20_000 {
            tier.demote(PageId(page % 5000));
        }
        call_tier(&mut *tier, &mut random, 60_000);
        let before = ALLOCATIONS.with(Cell::get);
        call_tier(&mut *tier, &mut random, 60_000);
        assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0, "allocations of {kind}");
        assert!(tier.len() > frames / 4, "{kind} has {} pages", tier.len());
    }
}
