//! What the order of a lower cache is.

use crate::PageId;
use crate::ghost::Ghosts;

/// Where a lower cache has a page: an index into what a driver keeps for each page.
///
/// A page keeps its slot until it leaves. Slots are below the largest capacity that the tier ever had. A page
/// that comes in takes the slot that became free last, which is that of the page it ejects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TierSlot(pub u32);

impl TierSlot {
    /// The slot as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A page that left to make room, and the slot that it had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ejected {
    /// The page.
    pub page: PageId,
    /// Its slot, which another page may have by now.
    pub slot: TierSlot,
}

/// What became of a page that was offered to a lower cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// It came in.
    Stored {
        /// Its slot.
        slot: TierSlot,
        /// The page that left for it.
        ejected: Option<Ejected>,
    },
    /// It was there, and counts as used: the transfer can be aborted.
    Present(TierSlot),
    /// It does not stay.
    NotKept,
}

/// A page that was found by a READ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its slot, where its bytes are until another page comes in.
    pub slot: TierSlot,
    /// Whether it is still there after the READ.
    pub stays: bool,
}

/// The pages of a lower cache in the order in which they go.
///
/// Deterministic: the same calls give the same answers.
pub trait TierOrder: Send {
    /// The number of pages that there is room for.
    fn capacity(&self) -> u32;

    /// The number of pages.
    fn len(&self) -> u32;

    /// Whether there is no page.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where `page` is. Changes nothing.
    fn find(&self, page: PageId) -> Option<TierSlot>;

    /// A client reads `page`. `None` if it is not there: then the client reads it from the source, and the
    /// driver calls [`fill`](Self::fill).
    fn read(&mut self, page: PageId) -> Option<Found>;

    /// `page`, which was not there when it was read, passes on its way from the source to the client.
    fn fill(&mut self, page: PageId) -> Arrival;

    /// A client has ejected `page` and offers it.
    fn demote(&mut self, page: PageId) -> Arrival;

    /// A client reads `page` to have the only copy: as [`read`](Self::read), but the page leaves, except
    /// from an inclusive cache. Returns the slot that it has or had.
    fn take(&mut self, page: PageId) -> Option<TierSlot> {
        let found = self.read(page)?;
        if found.stays {
            self.forget(page);
        }
        Some(found.slot)
    }

    /// `page` ceases to exist, or is not to be served from here any more. Returns the slot that it had.
    fn forget(&mut self, page: PageId) -> Option<TierSlot>;

    /// Changes the capacity. Pages for which there is no room any more are ejected, the next to go first. A
    /// step for each page that is ejected, or moved between parts of the order.
    fn resize(&mut self, capacity: u32, ejected: &mut dyn FnMut(Ejected));

    /// Whether a client must not keep a page that stays here when it is read.
    fn keeps_alone(&self) -> bool {
        false
    }

    /// A client ejects a page that had not been used for `age`, at the time `now`. Both are in the same
    /// unit, any in which time never goes back. Only [`PromoteTier`](super::PromoteTier) listens.
    fn hear_age(&mut self, _now: u64, _age: u64) {}

    /// Forgets what was learned about reads and demotions, as the published simulations did when their
    /// warm-up ended. Only [`AdaptTier`](super::AdaptTier) learns anything.
    fn reset_ratios(&mut self) {}

    /// Calls `visit` with each page, next to go first. O(n).
    fn for_each(&self, visit: &mut dyn FnMut(PageId, TierSlot));

    /// Recounts everything from scratch. O(n).
    ///
    /// # Panics
    ///
    /// With a message that says which invariant does not hold.
    fn check_invariants(&self);

    /// Bytes of memory held.
    fn metadata_bytes(&self) -> usize;
}

/// Tables have room for this many pages at most from the start; larger ones grow as they fill.
const ROOM_MAX: u32 = 1 << 20;

/// The room for pages that the tables of a tier of `capacity` begin with.
pub(super) fn room(capacity: u32) -> u32 {
    capacity.min(ROOM_MAX)
}

/// Forgets the page that is next to go in `list`.
pub(super) fn eject_oldest<const LISTS: usize>(pages: &mut Ghosts<LISTS>, list: usize) -> Option<Ejected> {
    let (slot, page) = pages.oldest(list)?;
    pages.take(page);
    Some(Ejected { page, slot: TierSlot(slot) })
}

/// Forgets `page`, and returns the slot that it had.
pub(super) fn forget<const LISTS: usize>(pages: &mut Ghosts<LISTS>, page: PageId) -> Option<TierSlot> {
    let slot = pages.slot(page)?;
    pages.take(page);
    Some(TierSlot(slot))
}
