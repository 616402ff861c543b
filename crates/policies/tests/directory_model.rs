//! The directory against the naive LRU-SP, access by access: several tenants, directives in mid-stream, pins, floors,
//! caps, shared pages, pages that end. After every step residency, ledger order, every count and the directory's own
//! invariants are compared.

mod naive;

use std::collections::{BTreeSet, HashMap};

use bufpool_policies::{
    Access, Admission, Allocation, Claims, ContextId, Directory, DirectoryOptions, FileId, FrameId, PageId,
    TenantId, classic::PolicyKind,
};
use naive::{Naive, Order, Outcome};
use proptest::prelude::*;

const TENANTS: usize = 3;
/// Pages of each tenant, or of all of them together when they are shared.
const PAGES: u64 = 24;

#[derive(Clone, Debug)]
enum Op {
    Access { tenant: usize, page: u64 },
    Pin { page: u64 },
    Unpin,
    Policy { tenant: usize, priority: i32, mru: bool },
    Priority { tenant: usize, first: u64, pages: u64, priority: i32 },
    Temporary { tenant: usize, first: u64, pages: u64, priority: i32 },
    Floor { tenant: usize, frames: usize },
    Cap { tenant: usize, frames: usize },
    End { page: u64 },
}

/// Which of the operations beyond accesses and directives a case may use.
#[derive(Clone, Copy, Debug)]
struct Kind {
    shared: bool,
    pins: bool,
    shares: bool,
    ends: bool,
}

fn op(kind: Kind) -> impl Strategy<Value = Op> {
    let tenant = 0..TENANTS;
    let page = move |tenant: usize, page: u64| if kind.shared { page } else { tenant as u64 * 1000 + page };
    let range = (0..TENANTS, 0..PAGES, 1..PAGES, -2..3i32);
    prop_oneof![
        40 => (tenant.clone(), 0..PAGES).prop_map(move |(t, p)| Op::Access { tenant: t, page: page(t, p) }),
        // Loops and small hot sets make placeholders come and go.
        20 => (tenant.clone(), 0..6u64).prop_map(move |(t, p)| Op::Access { tenant: t, page: page(t, p) }),
        2 => (tenant.clone(), -2..3i32, any::<bool>())
            .prop_map(|(tenant, priority, mru)| Op::Policy { tenant, priority, mru }),
        2 => range.clone().prop_map(move |(tenant, first, pages, priority)| Op::Priority {
            tenant, first: page(tenant, first), pages, priority
        }),
        2 => range.prop_map(move |(tenant, first, pages, priority)| Op::Temporary {
            tenant, first: page(tenant, first), pages, priority
        }),
        if kind.pins { 4 } else { 0 } => (tenant.clone(), 0..PAGES).prop_map(move |(t, p)| Op::Pin { page: page(t, p) }),
        if kind.pins { 4 } else { 0 } => Just(Op::Unpin),
        if kind.shares { 1 } else { 0 } => (tenant.clone(), 0..6usize).prop_map(|(tenant, frames)| Op::Floor { tenant, frames }),
        if kind.shares { 2 } else { 0 } => (tenant.clone(), 1..30usize).prop_map(|(tenant, frames)| Op::Cap { tenant, frames }),
        if kind.ends { 2 } else { 0 } => (tenant, 0..PAGES).prop_map(move |(t, p)| Op::End { page: page(t, p) }),
    ]
}

/// A driver of the directory: page to frame, and pins.
struct Driver {
    directory: Directory,
    frame_of: HashMap<u64, FrameId>,
    page_in: HashMap<FrameId, u64>,
    pinned: BTreeSet<u64>,
}

struct Pins<'a>(&'a HashMap<FrameId, u64>, &'a BTreeSet<u64>);

impl Claims for Pins<'_> {
    fn is_busy(&mut self, frame: FrameId) -> bool {
        self.1.contains(&self.0[&frame])
    }
    fn claim(&mut self, frame: FrameId) -> bool {
        !self.is_busy(frame)
    }
}

fn access_of(tenant: usize, page: u64) -> Access {
    Access { page: PageId(page), file: FileId(0), tenant: TenantId(tenant as u32), context: ContextId(0) }
}

impl Driver {
    fn new(frames: usize, allocation: Allocation, shared_pages: bool) -> Self {
        let options = DirectoryOptions { frames: frames as u32, allocation, revocation: false, shared_pages };
        let mut directory = Directory::new(options).unwrap();
        for tenant in 1..TENANTS {
            assert_eq!(directory.open_tenant(0, frames as u32).unwrap(), TenantId(tenant as u32));
        }
        Self { directory, frame_of: HashMap::new(), page_in: HashMap::new(), pinned: BTreeSet::new() }
    }

    fn access(&mut self, tenant: usize, page: u64) -> Outcome {
        let access = access_of(tenant, page);
        if let Some(frame) = self.frame_of.get(&page) {
            self.directory.hit(*frame, &access);
            return Outcome::Hit;
        }
        let (frame, evicted) = match self.directory.admit(&access, &mut Pins(&self.page_in, &self.pinned)) {
            Admission::Free { frame, .. } => (frame, None),
            Admission::Evict { frame, page, .. } => (frame, Some(page.0)),
            Admission::Exhausted { .. } => return Outcome::Exhausted,
        };
        if let Some(gone) = evicted {
            assert_eq!(self.frame_of.remove(&gone), Some(frame));
        }
        self.frame_of.insert(page, frame);
        self.page_in.insert(frame, page);
        self.directory.loaded(frame);
        Outcome::Loaded { evicted }
    }

    fn set_cap(&mut self, tenant: usize, cap: usize) -> Vec<u64> {
        let tenant = TenantId(tenant as u32);
        self.directory.set_cap(tenant, cap as u32).unwrap();
        let mut gone = Vec::new();
        while let Some(out) = self.directory.shrink(tenant, &mut Pins(&self.page_in, &self.pinned)) {
            self.frame_of.remove(&out.page.0);
            self.page_in.remove(&out.frame);
            self.directory.release(out.frame);
            gone.push(out.page.0);
        }
        gone
    }

    fn end(&mut self, page: u64) {
        match self.frame_of.remove(&page) {
            Some(frame) => {
                self.page_in.remove(&frame);
                self.directory.discard(frame);
            }
            None => self.directory.forget(&(PageId(page)..=PageId(page))),
        }
    }

    fn ledger(&self) -> Vec<u64> {
        let mut frames = Vec::new();
        self.directory.coldest(usize::MAX / 2, &mut frames);
        frames.into_iter().map(|frame| self.page_in[&frame]).collect()
    }
}

fn run(
    frames: usize,
    allocation: Allocation,
    shared_pages: bool,
    ops: &[Op],
) -> Result<(Driver, Naive), TestCaseError> {
    let mut driver = Driver::new(frames, allocation, shared_pages);
    let mut naive = Naive::new(frames, TENANTS, allocation, shared_pages);
    for (step, op) in ops.iter().enumerate() {
        apply(&mut driver, &mut naive, op)?;
        driver.directory.check_invariants();
        let ledger: Vec<u64> = naive.ledger.iter().map(|block| block.page).collect();
        prop_assert_eq!(driver.ledger(), ledger, "ledger after step {} {:?}", step, op);
        for tenant in 0..TENANTS {
            let mut ours = driver.directory.tenant_stats(TenantId(tenant as u32));
            ours.outstanding = 0;
            prop_assert_eq!(ours, naive.stats[tenant], "tenant {} after step {} {:?}", tenant, step, op);
        }
        prop_assert_eq!(driver.directory.stats().outstanding, naive.placeholders.len() as u64);
    }
    Ok((driver, naive))
}

fn apply(driver: &mut Driver, naive: &mut Naive, op: &Op) -> Result<(), TestCaseError> {
    let id = |tenant: usize| TenantId(tenant as u32);
    match *op {
        Op::Access { tenant, page } => {
            prop_assert_eq!(driver.access(tenant, page), naive.access(tenant, page), "{:?}", op);
        }
        Op::Pin { page } => {
            if naive.position(page).is_some() {
                driver.pinned.insert(page);
                naive.pinned.insert(page);
            }
        }
        Op::Unpin => {
            driver.pinned.pop_first();
            naive.pinned.pop_first();
        }
        Op::Policy { tenant, priority, mru } => {
            let (kind, order) =
                if mru { (PolicyKind::Mru, Order::Mru) } else { (PolicyKind::Lru, Order::Lru) };
            driver.directory.set_policy(id(tenant), priority, kind).unwrap();
            naive.set_policy(tenant, priority, order);
        }
        Op::Priority { tenant, first, pages, priority } => {
            let range = PageId(first)..=PageId(first + pages);
            let frame_of = |page: PageId| driver.frame_of.get(&page.0).copied();
            let moved = driver.directory.set_priority(id(tenant), range, priority, frame_of).unwrap();
            prop_assert_eq!(moved, naive.set_priority(tenant, first, first + pages, priority));
        }
        Op::Temporary { tenant, first, pages, priority } => {
            let range = PageId(first)..=PageId(first + pages);
            let frame_of = |page: PageId| driver.frame_of.get(&page.0).copied();
            let marked =
                driver.directory.set_temporary_priority(id(tenant), range, priority, frame_of).unwrap();
            prop_assert_eq!(marked, naive.set_temporary(tenant, first, first + pages, priority));
        }
        Op::Floor { tenant, frames } => {
            let others: usize = (0..TENANTS).filter(|t| *t != tenant).map(|t| naive.floors[t]).sum();
            let legal = frames <= naive.caps[tenant] && others + frames <= naive.frames;
            let result = driver.directory.set_floor(id(tenant), frames as u32);
            prop_assert_eq!(result.is_ok(), legal);
            if legal {
                naive.floors[tenant] = frames;
            }
        }
        Op::Cap { tenant, frames } => {
            let frames = frames.min(naive.frames).max(naive.floors[tenant]).max(1);
            prop_assert_eq!(driver.set_cap(tenant, frames), naive.set_cap(tenant, frames));
        }
        Op::End { page } => {
            if !naive.pinned.contains(&page) {
                driver.end(page);
                match naive.position(page) {
                    Some(_) => naive.discard(page),
                    None => naive.forget(page),
                }
            }
        }
    }
    Ok(())
}

fn allocation() -> impl Strategy<Value = Allocation> {
    prop_oneof![
        Just(Allocation::LruSp),
        Just(Allocation::LruS),
        Just(Allocation::AllocLru),
        Just(Allocation::GlobalLru)
    ]
}

/// The cases must reach what they are about: overrules that prove wrong, that prove right, and retargeted claims.
#[test]
fn cases_reach_every_count() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let kind = Kind { shared: true, pins: true, shares: true, ends: true };
    let strategy = prop::collection::vec(op(kind), 400);
    let mut sum = bufpool_policies::TenantStats::default();
    for _ in 0..20 {
        let ops = strategy.new_tree(&mut runner).unwrap().current();
        let (driver, _) = run(20, Allocation::LruSp, true, &ops).unwrap();
        sum.add(&driver.directory.stats());
    }
    assert!(sum.overrules > 100 && sum.mistakes > 20 && sum.vindications > 20, "{sum:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn private_pages(
        frames in 1..30usize,
        allocation in allocation(),
        ops in prop::collection::vec(op(Kind { shared: false, pins: false, shares: false, ends: false }), 1..400),
    ) {
        run(frames, allocation, false, &ops)?;
    }

    #[test]
    fn shared_pages(
        frames in 1..30usize,
        allocation in allocation(),
        rule in any::<bool>(),
        ops in prop::collection::vec(op(Kind { shared: true, pins: false, shares: false, ends: false }), 1..400),
    ) {
        run(frames, allocation, rule, &ops)?;
    }

    #[test]
    fn everything_at_once(
        frames in 18..40usize,
        allocation in allocation(),
        rule in any::<bool>(),
        ops in any::<bool>().prop_flat_map(|shared| {
            prop::collection::vec(op(Kind { shared, pins: true, shares: true, ends: true }), 1..400)
        }),
    ) {
        run(frames, allocation, rule, &ops)?;
    }
}

/// A pool of one frame, and one whose frames are all pinned.
#[test]
fn edge_of_exhaustion() {
    let access = |tenant, page| Op::Access { tenant, page };
    let ops = [
        access(0, 1),
        access(1, 2),
        Op::Policy { tenant: 1, priority: 0, mru: true },
        access(1, 3),
        access(1, 2),
        Op::Pin { page: 2 },
        access(0, 1),
        access(1, 2),
        Op::Unpin,
        access(0, 1),
    ];
    let (driver, _) = run(1, Allocation::LruSp, false, &ops).unwrap();
    assert_eq!(driver.directory.stats().accesses, 6, "an exhausted access is none");
}
