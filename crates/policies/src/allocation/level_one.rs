//! The ways of allocating frames by name, and the one that a directory has.

use super::alloc_lru::AllocLru;
use super::allocate::{Allocate, Arrival};
use super::cost_benefit::CostBenefit;
use super::fifo2_sp::Fifo2Sp;
use super::global_lru::GlobalLru;
use super::ledger::{Eligible, Ledger};
use super::lru_s::LruS;
use super::lru_sp::LruSp;
use crate::ids::{AccountId, PageId, TenantId};

/// How frames are allocated to tenants: who gives one up, and what a manager's overrule costs.
///
/// Paper: Cao, Felten, Li, "Implementation and Performance of Application-Controlled File Caching", OSDI '94.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Allocation {
    /// Managers are not asked: one LRU list over all tenants.
    GlobalLru,
    /// Overruled candidates keep their place, so the same tenant is charged again at once.
    AllocLru,
    /// Swapping without placeholders: foolish tenants take the frames of others.
    LruS,
    /// Swapping and placeholders: an overrule costs nobody but the tenant that made it.
    #[default]
    LruSp,
    /// Frames go where they save most time, as far as hints and hits tell (TIP2: Patterson, Gibson, Ginting,
    /// Stodolsky, Zelenka, "Informed Prefetching and Caching", SOSP '95). Managers are not asked, and nobody
    /// is protected: for tenants that trust each other's hints, and for comparison. Prices need the rates
    /// that [`Directory::note_gap`](crate::Directory::note_gap) is told: the pool of `bufpool` measures them.
    CostBenefit,
    /// As [`LruSp`](Self::LruSp), over two queues with reference bits (FIFO2) in place of the order of use
    /// (HiPEC). A tenant whose floor is its cap gives up frames for its own misses alone. For comparison:
    /// what an overrule costs other tenants is not exactly nothing, and a question may take a step for each
    /// frame that a floor or a cap forbids.
    Fifo2Sp,
}

/// The ways to choose from. An enum and not a `Box<dyn Allocate>`, so that what a way has by default is
/// inlined.
pub(crate) enum LevelOne {
    GlobalLru(GlobalLru),
    AllocLru(AllocLru),
    LruS(LruS),
    LruSp(LruSp),
    CostBenefit(Box<CostBenefit>),
    Fifo2Sp(Box<Fifo2Sp>),
}

impl LevelOne {
    /// For a pool of `frames`; `revocation` says whether a manager that keeps being wrong loses its say.
    pub fn new(allocation: Allocation, frames: u32, revocation: bool) -> Self {
        match allocation {
            Allocation::GlobalLru => Self::GlobalLru(GlobalLru),
            Allocation::AllocLru => Self::AllocLru(AllocLru),
            Allocation::LruS => Self::LruS(LruS),
            Allocation::LruSp => Self::LruSp(LruSp::new(frames, revocation)),
            Allocation::CostBenefit => Self::CostBenefit(Box::new(CostBenefit::new(frames))),
            Allocation::Fifo2Sp => Self::Fifo2Sp(Box::new(Fifo2Sp::new(frames, revocation))),
        }
    }
}

/// Evaluates an expression for the way that a [`LevelOne`] holds.
macro_rules! with_way {
    ($level_one:expr, $way:ident => $answer:expr) => {
        match $level_one {
            LevelOne::GlobalLru($way) => $answer,
            LevelOne::AllocLru($way) => $answer,
            LevelOne::LruS($way) => $answer,
            LevelOne::LruSp($way) => $answer,
            LevelOne::CostBenefit($way) => $answer,
            LevelOne::Fifo2Sp($way) => $answer,
        }
    };
}

impl Allocate for LevelOne {
    #[inline]
    fn asks_managers(&self) -> bool {
        with_way!(self, way => way.asks_managers())
    }

    #[inline]
    fn cheapest(&mut self, ledger: &mut Ledger, eligible: &Eligible) -> u32 {
        with_way!(self, way => way.cheapest(ledger, eligible))
    }

    #[inline]
    fn passed_over(&mut self, ledger: &mut Ledger, eligible: &mut Eligible, candidate: u32) {
        with_way!(self, way => way.passed_over(ledger, eligible, candidate));
    }

    fn cost_to_give(&self, ledger: &Ledger, candidate: u32) -> f64 {
        with_way!(self, way => way.cost_to_give(ledger, candidate))
    }

    #[inline(always)]
    fn orders_by_use(&self) -> bool {
        with_way!(self, way => way.orders_by_use())
    }

    fn referenced(&mut self, ledger: &mut Ledger, tenant: TenantId, frame: u32, is_named: bool) {
        with_way!(self, way => way.referenced(ledger, tenant, frame, is_named));
    }

    #[inline]
    fn accessed(&mut self, ledger: &mut Ledger, account: AccountId, accesses: u64) {
        with_way!(self, way => way.accessed(ledger, account, accesses));
    }

    #[inline]
    fn entered(&mut self, ledger: &mut Ledger, account: AccountId, frame: u32, arrival: Arrival) {
        with_way!(self, way => way.entered(ledger, account, frame, arrival));
    }

    fn overruled(&mut self, ledger: &mut Ledger, account: AccountId, candidate: u32, victim: u32) {
        with_way!(self, way => way.overruled(ledger, account, candidate, victim));
    }

    #[inline]
    fn departed(&mut self, ledger: &mut Ledger, frame: u32, makes_room: bool) {
        with_way!(self, way => way.departed(ledger, frame, makes_room));
    }

    fn demoted(&mut self, ledger: &mut Ledger, frame: u32) {
        with_way!(self, way => way.demoted(ledger, frame));
    }

    fn exchanged(&mut self, a: u32, b: u32) {
        with_way!(self, way => way.exchanged(a, b));
    }

    #[inline]
    fn placeholder(&self, ledger: &Ledger, absent: PageId) -> Option<u32> {
        with_way!(self, way => way.placeholder(ledger, absent))
    }

    #[inline]
    fn touch(&self, absent: PageId) -> u32 {
        with_way!(self, way => way.touch(absent))
    }

    fn placeholder_met(&mut self, ledger: &mut Ledger, frame: u32, arrival: Arrival) -> bool {
        with_way!(self, way => way.placeholder_met(ledger, frame, arrival))
    }

    fn asks_about_placeholders(&self) -> bool {
        with_way!(self, way => way.asks_about_placeholders())
    }

    fn vindicated(&mut self, ledger: &mut Ledger, frame: u32) {
        with_way!(self, way => way.vindicated(ledger, frame));
    }

    fn claim_ended(&mut self, ledger: &mut Ledger, frame: u32) {
        with_way!(self, way => way.claim_ended(ledger, frame));
    }

    fn account_opened(&mut self, account: AccountId) {
        with_way!(self, way => way.account_opened(account));
    }

    fn manager_changed(&mut self, ledger: &mut Ledger, account: AccountId, judges_itself: bool) {
        with_way!(self, way => way.manager_changed(ledger, account, judges_itself));
    }

    fn share_changed(&mut self, ledger: &mut Ledger, account: AccountId) {
        with_way!(self, way => way.share_changed(ledger, account));
    }

    fn placeholders(&self) -> u32 {
        with_way!(self, way => way.placeholders())
    }

    fn metadata_bytes(&self) -> usize {
        with_way!(self, way => way.metadata_bytes())
    }

    fn check_invariants(&self, ledger: &Ledger) {
        with_way!(self, way => way.check_invariants(ledger));
    }
}
