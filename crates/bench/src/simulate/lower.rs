//! A lower cache below the caches that are simulated, and the way of a miss through it.

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
    /// Whether each tenant of the trace is a client, with an equal share of the frames above for itself; else
    /// all of them are one client.
    pub client_per_tenant: bool,
}

/// A client's way to a lower cache, which it may share with others.
#[derive(Clone)]
pub struct Below {
    kind: TierKind,
    order: Rc<RefCell<Box<dyn TierOrder>>>,
    /// Per block: the number of the client's last access to it. Empty unless the tier wants to know.
    used_at: Vec<u64>,
}

impl Below {
    /// The way to an empty lower cache; clones lead to the same one. `client_frames` are those of all
    /// clients, `blocks` is the number of distinct ones.
    pub fn new(lower: &LowerCache, client_frames: u32, seed: u64, blocks: usize) -> Self {
        let order = lower.kind.build(TierSetup { frames: lower.frames, client_frames, seed });
        let used_at = if order.keeps_alone() { vec![0; blocks] } else { Vec::new() };
        Self { kind: lower.kind, order: Rc::new(RefCell::new(order)), used_at }
    }

    /// Whether the reply to a READ says that the client does not get the page to keep: then the client reads
    /// before it ejects another page, which it does not demote.
    pub fn keeps_alone(&self) -> bool {
        self.order.borrow().keeps_alone()
    }

    /// The client's access with this number is to `block`.
    #[inline]
    pub fn used(&mut self, block: u32, access: u64) {
        if let Some(used_at) = self.used_at.get_mut(block as usize) {
            *used_at = access;
        }
    }

    /// The client ejects `block`, whose page is `page`, at the access with this number, and demotes it where
    /// the scheme has demotions.
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

    /// The client reads `page`, through the lower cache from the source if it is not there. Returns whether
    /// the client gets it to keep.
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

    /// The warm-up is over.
    pub fn end_warm_up(&mut self) {
        self.order.borrow_mut().reset_ratios();
    }
}
