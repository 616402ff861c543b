//! A lower cache below the simulated caches, and how a miss goes through it.

use std::cell::RefCell;
use std::rc::Rc;

use bufpool_policies::PageId;
use bufpool_policies::tier::{Arrival, TierKind, TierOrder, TierSetup};

use super::tally::Counts;

/// A lower cache, and who its clients are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LowerCache {
    /// Its scheme.
    pub kind: TierKind,
    /// Its frames, at least 1.
    pub frames: u32,
    /// Whether each tenant of the trace is a client with an equal share of the frames of
    /// [`Setup`](super::Setup) for itself; else all tenants together are one client.
    pub client_per_tenant: bool,
}

/// A client's connection to a lower cache, which several clients may share.
#[derive(Clone)]
pub struct Below {
    kind: TierKind,
    order: Rc<RefCell<Box<dyn TierOrder>>>,
    /// Per block: the number of the client's last access to it. Empty if the scheme does not use it.
    used_at: Vec<u64>,
}

impl Below {
    /// A connection to a new, empty lower cache; clones are connections of other clients to the same one.
    /// `client_frames` are the frames of all clients together, `blocks` is the number of distinct blocks.
    pub fn new(lower: &LowerCache, client_frames: u32, seed: u64, blocks: usize) -> Self {
        let order = lower.kind.build(TierSetup { frames: lower.frames, client_frames, seed });
        let used_at = if order.keeps_alone() { vec![0; blocks] } else { Vec::new() };
        Self { kind: lower.kind, order: Rc::new(RefCell::new(order)), used_at }
    }

    /// Whether the client must not keep a page that stays in the lower cache. The client then reads the page
    /// before it evicts another, because it may not need the frame.
    pub fn keeps_alone(&self) -> bool {
        self.order.borrow().keeps_alone()
    }

    /// The client's access number `access` is to `block`.
    #[inline]
    pub fn used(&mut self, block: u32, access: u64) {
        if let Some(used_at) = self.used_at.get_mut(block as usize) {
            *used_at = access;
        }
    }

    /// The client evicts `block`, whose page is `page`, at access number `access`, and demotes it if the
    /// scheme has demotions. `counts` are those of the block's owner.
    pub fn ejected(&mut self, block: u32, page: PageId, access: u64, counts: &mut Counts) {
        let mut order = self.order.borrow_mut();
        if let Some(used_at) = self.used_at.get(block as usize) {
            order.hear_age(access, access - used_at);
        }
        if self.kind.demotes() {
            counts.demotions += 1;
            counts.aborted += u64::from(matches!(order.demote(page), Arrival::Present(_)));
        }
    }

    /// The client reads `page` from the lower cache, or from the source through the lower cache. `counts` are
    /// those of the tenant or site that accesses. Returns whether the client may keep the page.
    pub fn read(&mut self, page: PageId, counts: &mut Counts) -> bool {
        let mut order = self.order.borrow_mut();
        let stays = match order.read(page) {
            Some(found) => {
                counts.tier_hits += 1;
                found.stays
            }
            None => order.fill(page) != Arrival::NotKept,
        };
        !(stays && order.keeps_alone())
    }

    /// Ends the warm-up: the scheme forgets what it has learned about reads and demotions.
    pub fn end_warm_up(&mut self) {
        self.order.borrow_mut().reset_ratios();
    }
}
