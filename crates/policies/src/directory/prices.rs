//! What frames and prefetches are worth, for drivers that fetch what tenants disclosed.

use super::Directory;
use crate::{
    allocation::{Allocate, CostBenefitOptions, LevelOne},
    hints::{
        HintList, HintListId,
        aggressive::NextUse,
        cost_benefit::{Supply, is_worth_fetching},
    },
    ids::{FrameId, PageId, TenantId},
    list::NIL,
};

/// What the next page of a tenant would be loaded into.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum NextFrame {
    /// A frame that holds nothing.
    Free,
    /// The frame of a page that would go.
    Taken {
        /// The frame.
        frame: FrameId,
        /// The page.
        page: PageId,
        /// What its account loses, in seconds a second: 0 where order alone decides.
        cost: f64,
    },
    /// None: there is no frame that the tenant may take.
    None,
}

impl Directory {
    /// A list of disclosed reads, while it is open.
    pub fn hint_list(&self, list: HintListId) -> Option<&HintList> {
        let account = self.ledger.tenants.get(list.tenant.index())?.account;
        self.ledger.accounts[account.index()].hints.as_ref()?.list(list.serial)
    }

    /// When `tenant` needs the page again that its lists would give up; `None` if they would give up none.
    pub fn next_use_of_victim(&mut self, tenant: TenantId) -> Option<NextUse> {
        let account = self.ledger.account(tenant);
        let frames = &self.ledger.frames;
        let hints = self.ledger.accounts[account.index()].hints.as_mut()?;
        hints.next_use_of_victim(&mut |frame| !frames.is_present(frame))
    }

    /// Frames that hold no page.
    pub fn free_frames(&self) -> u32 {
        self.ledger.frames.free_frames()
    }

    /// What the next page of `tenant` would be loaded into, as far as no manager is asked and no claim fails.
    /// Costs O(log accounts), under [`Allocation::CostBenefit`](crate::Allocation::CostBenefit) a step for
    /// each open list and its price. Under [`Allocation::Fifo2Sp`](crate::Allocation::Fifo2Sp) it gives the
    /// second chances that come first.
    pub fn next_frame(&mut self, tenant: TenantId) -> NextFrame {
        let account = self.ledger.account(tenant);
        if self.free_frames() > 0 && !self.ledger.accounts[account.index()].is_at_cap() {
            return NextFrame::Free;
        }
        let eligible = self.ledger.begin(account);
        let candidate = self.level_one.cheapest(&mut self.ledger, &eligible);
        self.ledger.end();
        if candidate == NIL {
            return NextFrame::None;
        }
        let cost = self.level_one.cost_to_give(&self.ledger, candidate);
        NextFrame::Taken { frame: FrameId(candidate), page: self.ledger.frames[candidate].page, cost }
    }

    /// `tenant` begins an access `gap_us` microseconds after its last one was done, time that it waited left
    /// out. Of use to [`Allocation::CostBenefit`](crate::Allocation::CostBenefit) only.
    pub fn note_gap(&mut self, tenant: TenantId, gap_us: f64) {
        if let LevelOne::CostBenefit(allocation) = &mut self.level_one {
            allocation.rate(tenant).gap(gap_us);
        }
    }

    /// `tenant` accesses nothing for now: it has no rate.
    pub fn forget_rate(&mut self, tenant: TenantId) {
        if let LevelOne::CostBenefit(allocation) = &mut self.level_one {
            *allocation.rate(tenant) = Default::default();
        }
    }

    /// How [`Allocation::CostBenefit`](crate::Allocation::CostBenefit) prices frames from here on; nothing
    /// under another allocation.
    pub fn price_by(&mut self, options: CostBenefitOptions) {
        if let LevelOne::CostBenefit(allocation) = &mut self.level_one {
            allocation.set_options(options);
        }
    }

    /// Whether, under [`Allocation::CostBenefit`](crate::Allocation::CostBenefit), the list should fetch the
    /// page of its hint at `position` now. The frame that [`admit_ahead`](Self::admit_ahead) then takes is
    /// the one that was weighed, if its claim succeeds.
    pub fn is_worth_fetching(&mut self, list: HintListId, position: u64) -> bool {
        let Some(hints) = self.hint_list(list) else { return false };
        let depth = (position + 1).saturating_sub(hints.position());
        let LevelOne::CostBenefit(allocation) = &self.level_one else { return false };
        let gain = allocation.prefetch_gain(list.tenant, depth);
        let growth = allocation.growth();
        let (cost, needed) = match self.next_frame(list.tenant) {
            NextFrame::Free => (0.0, None),
            NextFrame::Taken { page, cost, .. } => {
                let ahead = |list: &HintList| Some(list.next_use(page)? - list.position() + 1);
                (cost, self.hint_list(list).and_then(ahead))
            }
            NextFrame::None => return false,
        };
        let reserve_price =
            growth.filter(|(_, frames)| self.free_frames() <= *frames).map(|(price, _)| price);
        is_worth_fetching(gain, depth, &Supply { cost, needed, reserve_price })
    }
}
