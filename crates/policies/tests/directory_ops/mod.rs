//! Operations on a directory, and their execution beside the naive LRU-SP.
//!
//! The random tests make cases by strategies, the fuzz target `directory_ops` makes them from bytes.
#![allow(dead_code, reason = "the tests and the fuzz target use a part each")]

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::RangeInclusive;

use arbitrary::{Arbitrary, Unstructured};
use bufpool_policies::{
    Access, Admission, Allocation, Block, Claims, ContextId, Directory, DirectoryOptions, FileId, FrameId,
    Manager, PageId, TenantId, classic::PolicyKind,
};

use super::naive::{Naive, Order, Outcome};

pub const TENANTS: usize = 3;
/// Pages of each tenant or, if pages are shared, of all tenants together.
pub const PAGES: u64 = 24;
/// The most frames of a directory.
pub const FRAMES_MAX: usize = 40;
/// Spare frames of the directory, which come on top.
const SPARES: u32 = 3;

/// One run: the options of a directory, and the operations on it.
#[derive(Clone, Debug)]
pub struct Case {
    pub frames: usize,
    pub allocation: Allocation,
    /// Whether the directory applies the rule for pages that several tenants use.
    pub shared_pages: bool,
    /// Whether the tenants use the same pages; otherwise each has pages of its own.
    pub common: bool,
    /// The tenants that begin in the commons, one bit for each.
    pub members: u8,
    pub operations: Vec<Op>,
}

#[derive(Clone, Debug, Arbitrary)]
pub enum Op {
    Access {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = page)]
        page: u64,
    },
    Pin {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = page)]
        page: u64,
    },
    /// The pinned page with the lowest number is unpinned.
    Unpin,
    Policy {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = priority)]
        priority: i32,
        mru: bool,
    },
    Priority {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = page)]
        first: u64,
        #[arbitrary(with = page)]
        more: u64,
        #[arbitrary(with = priority)]
        priority: i32,
    },
    Temporary {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = page)]
        first: u64,
        #[arbitrary(with = page)]
        more: u64,
        #[arbitrary(with = priority)]
        priority: i32,
    },
    Floor {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = |u: &mut Unstructured| u.int_in_range(0..=FRAMES_MAX))]
        frames: usize,
    },
    Cap {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = |u: &mut Unstructured| u.int_in_range(1..=FRAMES_MAX))]
        frames: usize,
    },
    /// The page's identity ends, whether it is resident or not.
    End {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = page)]
        page: u64,
    },
    Close {
        #[arbitrary(with = tenant)]
        tenant: usize,
    },
    /// The driver borrows a frame on behalf of the tenant.
    Borrow {
        #[arbitrary(with = tenant)]
        tenant: usize,
    },
    /// The driver gives a borrowed frame back, if it has one.
    Repay,
    /// The page comes in ahead of its first access. A fuzzer's input does not stand for it, so that the
    /// recorded inputs keep their meaning.
    #[arbitrary(skip)]
    BringAhead { tenant: usize, page: u64 },
}

impl Op {
    /// The tenant whose directive, floor or cap it is.
    fn of(&self) -> Option<usize> {
        match *self {
            Self::Policy { tenant, .. }
            | Self::Priority { tenant, .. }
            | Self::Temporary { tenant, .. }
            | Self::Floor { tenant, .. }
            | Self::Cap { tenant, .. } => Some(tenant),
            _ => None,
        }
    }
}

fn tenant(u: &mut Unstructured<'_>) -> arbitrary::Result<usize> {
    u.int_in_range(0..=TENANTS - 1)
}

fn page(u: &mut Unstructured<'_>) -> arbitrary::Result<u64> {
    u.int_in_range(0..=PAGES - 1)
}

fn priority(u: &mut Unstructured<'_>) -> arbitrary::Result<i32> {
    u.int_in_range(-2..=2)
}

impl Case {
    /// The case that a fuzzer's input stands for.
    ///
    /// # Errors
    ///
    /// If the input is too short for a case.
    pub fn from_bytes(bytes: &[u8]) -> arbitrary::Result<Self> {
        let mut u = Unstructured::new(bytes);
        let allocations = [Allocation::LruSp, Allocation::LruS, Allocation::AllocLru, Allocation::GlobalLru];
        let mut case = Self {
            frames: u.int_in_range(1..=FRAMES_MAX)?,
            allocation: *u.choose(&allocations)?,
            shared_pages: u.arbitrary()?,
            common: false,
            members: 0,
            operations: Vec::new(),
        };
        let bits: u8 = u.arbitrary()?;
        (case.common, case.members) = (bits & 1 == 1, bits >> 1);
        while !u.is_empty() {
            case.operations.push(u.arbitrary()?);
        }
        Ok(case)
    }

    /// Runs the case on a directory and on the naive one, and panics if they differ.
    pub fn run(&self) -> (Driver, Naive) {
        let mut driver = Driver::new(self.frames, self.allocation, self.shared_pages);
        let mut naive = Naive::new(self.frames, TENANTS, self.allocation, self.shared_pages).revoking();
        for tenant in (0..TENANTS).filter(|tenant| self.members >> tenant & 1 == 1) {
            driver.directory.join_commons(TenantId(tenant as u32), || Box::new(Mru::default())).unwrap();
            naive.join_commons(tenant);
        }
        for (step, op) in self.operations.iter().enumerate() {
            self.apply(&mut driver, &mut naive, op);
            driver.directory.check_invariants();
            let known = naive.ledger.iter().filter(|block| !block.ahead);
            let ledger: Vec<u64> = known.map(|block| block.page).collect();
            assert_eq!(driver.ledger(), ledger, "ledger after step {step} {op:?}");
            for tenant in 0..TENANTS {
                let mut ours = driver.directory.tenant_stats(TenantId(tenant as u32));
                ours.outstanding = 0;
                assert_eq!(ours, naive.stats[tenant], "tenant {tenant} after step {step} {op:?}");
                let owned = naive.ledger.iter().filter(|block| block.owner == tenant).count();
                assert_eq!(
                    driver.directory.resident(TenantId(tenant as u32)),
                    owned as u32,
                    "step {step} {op:?}"
                );
            }
            assert_eq!(driver.directory.stats().outstanding, naive.placeholders.len() as u64);
        }
        (driver, naive)
    }

    /// The number of a tenant's page.
    fn page(&self, tenant: usize, page: u64) -> u64 {
        if self.common { page } else { tenant as u64 * 1000 + page }
    }

    fn range(&self, tenant: usize, first: u64, more: u64) -> RangeInclusive<PageId> {
        let first = self.page(tenant, first);
        PageId(first)..=PageId(first + more)
    }

    /// Does one operation on both. Their results must be the same.
    fn apply(&self, driver: &mut Driver, naive: &mut Naive, op: &Op) {
        let id = |tenant: usize| TenantId(tenant as u32);
        if let Some(tenant) = op.of().filter(|tenant| naive.closed[*tenant]) {
            assert!(driver.directory.set_policy(id(tenant), 0, PolicyKind::Lru).is_err());
            assert!(driver.directory.set_floor(id(tenant), 0).is_err());
            assert!(driver.directory.set_cap(id(tenant), 1).is_err());
            return;
        }
        match *op {
            Op::Access { tenant, page } => {
                let page = self.page(tenant, page);
                assert_eq!(driver.access(tenant, page), naive.access(tenant, page), "{op:?}");
            }
            Op::BringAhead { tenant, page } => {
                let page = self.page(tenant, page);
                assert_eq!(driver.bring_ahead(tenant, page), naive.bring_ahead(tenant, page), "{op:?}");
            }
            Op::Pin { tenant, page } => {
                let page = self.page(tenant, page);
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
            Op::Priority { tenant, first, more, priority } => {
                let range = self.range(tenant, first, more);
                let frame_of = |page: PageId| driver.frame_of.get(&page.0).copied();
                let moved =
                    driver.directory.set_priority(id(tenant), range.clone(), priority, frame_of).unwrap();
                assert_eq!(moved, naive.set_priority(tenant, range.start().0, range.end().0, priority));
            }
            Op::Temporary { tenant, first, more, priority } => {
                let range = self.range(tenant, first, more);
                let frame_of = |page: PageId| driver.frame_of.get(&page.0).copied();
                let marked = driver
                    .directory
                    .set_temporary_priority(id(tenant), range.clone(), priority, frame_of)
                    .unwrap();
                assert_eq!(marked, naive.set_temporary(tenant, range.start().0, range.end().0, priority));
            }
            Op::Floor { tenant, frames } => {
                let others: usize = (0..TENANTS).filter(|t| *t != tenant).map(|t| naive.floors[t]).sum();
                let legal = frames <= naive.caps[tenant] && others + frames <= naive.frames;
                let result = driver.directory.set_floor(id(tenant), frames as u32);
                assert_eq!(result.is_ok(), legal);
                if legal {
                    naive.set_floor(tenant, frames);
                }
            }
            Op::Cap { tenant, frames } => {
                let frames = frames.min(naive.frames).max(naive.floors[tenant]).max(1);
                assert_eq!(driver.set_cap(tenant, frames), naive.set_cap(tenant, frames));
            }
            Op::Borrow { tenant } => {
                assert_eq!(driver.borrow_frame(tenant), naive.evict_next(tenant), "{op:?}");
            }
            Op::Repay => {
                if naive.lent > 0 {
                    driver.repay_frame();
                    naive.lent -= 1;
                }
            }
            Op::Close { tenant } => {
                let closed = driver.directory.close_tenant(id(tenant));
                assert_eq!(closed.is_ok(), tenant > 0 && !naive.closed[tenant]);
                if closed.is_ok() {
                    naive.close(tenant);
                }
            }
            Op::End { tenant, page } => {
                let page = self.page(tenant, page);
                if !naive.pinned.contains(&page) {
                    driver.end(page);
                    match naive.position(page) {
                        Some(_) => naive.discard(page),
                        None => naive.forget(page),
                    }
                }
            }
        }
    }
}

/// The manager of the commons, which gives up the most recently used page.
#[derive(Default)]
struct Mru {
    blocks: Vec<FrameId>,
}

impl Manager for Mru {
    fn new_block(&mut self, block: &Block) {
        self.blocks.push(block.frame);
    }

    fn block_gone(&mut self, frame: FrameId, _page: PageId) {
        self.blocks.retain(|other| *other != frame);
    }

    fn block_accessed(&mut self, frame: FrameId, _access: &Access) {
        self.block_gone(frame, PageId(0));
        self.blocks.push(frame);
    }

    fn replace_block(
        &mut self,
        candidate: FrameId,
        _missing: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        self.blocks.iter().rev().copied().find(|frame| !busy(*frame)).unwrap_or(candidate)
    }

    fn placeholder_used(&mut self, _missing: &Access, _placeholder: FrameId) {}
}

/// A driver of the directory: the frames of pages, and pins.
pub struct Driver {
    pub directory: Directory,
    frame_of: HashMap<u64, FrameId>,
    page_in: HashMap<FrameId, u64>,
    /// Spare frames, into one of which a page may come instead of its victim's frame.
    spares: VecDeque<FrameId>,
    pub pinned: BTreeSet<u64>,
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
    Access {
        page: PageId(page),
        file: FileId(0),
        tenant: TenantId(tenant as u32),
        context: ContextId(0),
        creates: false,
    }
}

impl Driver {
    pub fn new(frames: usize, allocation: Allocation, shared_pages: bool) -> Self {
        let options = DirectoryOptions { frames: frames as u32, allocation, revocation: true, shared_pages };
        let mut directory = Directory::new(options).unwrap();
        directory.add_spares(SPARES).unwrap();
        let spares = (frames as u32..).map(FrameId).take(SPARES as usize).collect();
        for tenant in 1..TENANTS {
            assert_eq!(directory.open_tenant(0, frames as u32).unwrap(), TenantId(tenant as u32));
        }
        Self { directory, spares, frame_of: HashMap::new(), page_in: HashMap::new(), pinned: BTreeSet::new() }
    }

    pub fn access(&mut self, tenant: usize, page: u64) -> Outcome {
        let access = access_of(tenant, page);
        if let Some(frame) = self.frame_of.get(&page) {
            self.directory.hit(*frame, &access);
            return Outcome::Hit;
        }
        let admission = self.directory.admit(&access, &mut Pins(&self.page_in, &self.pinned));
        self.load(page, admission)
    }

    pub fn bring_ahead(&mut self, tenant: usize, page: u64) -> Outcome {
        if self.frame_of.contains_key(&page) {
            return Outcome::Hit;
        }
        let access = access_of(tenant, page);
        let admission = self.directory.admit_ahead(&access, &mut Pins(&self.page_in, &self.pinned));
        self.load(page, admission)
    }

    fn load(&mut self, page: u64, admission: Admission) -> Outcome {
        let (mut frame, evicted) = match admission {
            Admission::Free { frame, .. } => (frame, None),
            Admission::Evict { frame, page, .. } => (frame, Some(page.0)),
            Admission::Exhausted { .. } => return Outcome::Exhausted,
        };
        if let Some(gone) = evicted {
            assert_eq!(self.frame_of.remove(&gone), Some(frame));
            // A page with an odd number comes into a spare frame instead, which may change no decision.
            if page % 2 == 1 {
                let spare = self.spares.pop_front().expect("one comes back for each that goes");
                self.directory.relocate(frame, spare);
                self.page_in.remove(&frame);
                self.spares.push_back(std::mem::replace(&mut frame, spare));
            }
        }
        self.frame_of.insert(page, frame);
        self.page_in.insert(frame, page);
        self.directory.loaded(frame);
        Outcome::Loaded { evicted }
    }

    pub fn set_cap(&mut self, tenant: usize, cap: usize) -> Vec<u64> {
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

    /// Borrows a frame. Returns the page that is evicted for it, if one can be.
    pub fn borrow_frame(&mut self, tenant: usize) -> Option<u64> {
        let pins = &mut Pins(&self.page_in, &self.pinned);
        let out = self.directory.evict_next(TenantId(tenant as u32), pins)?;
        self.frame_of.remove(&out.page.0);
        self.page_in.remove(&out.frame);
        self.spares.push_back(out.frame);
        Some(out.page.0)
    }

    pub fn repay_frame(&mut self) {
        let frame = self.spares.pop_front().expect("there are always some");
        self.directory.release(frame);
    }

    pub fn end(&mut self, page: u64) {
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
