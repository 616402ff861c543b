//! The blocks of an account that its lists concern, and which of them are spent.

use std::collections::VecDeque;

use super::page_map::PageMap;
use crate::ids::PageId;

/// Blocks that one question looks at.
pub(super) const OFFERS_TRIED: usize = 8;

/// Blocks of an account, in flight or present, that a list names or brought in.
#[derive(Default)]
pub(super) struct Blocks {
    by_page: PageMap<Block>,
    /// The number of the block that was spent last. Spent blocks are numbered in order.
    last_spent: u64,
    /// Spent blocks by number; those whose number has changed are left in until they reach the front.
    order: VecDeque<(u64, PageId)>,
    /// Blocks that are spent.
    spent: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub place: Place,
    stake: Stake,
    /// It was counted as wasted, so nothing else is counted of it until it leaves.
    was_wasted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// A process waits for it.
    InFlight,
    /// It is brought in ahead.
    AheadInFlight,
    /// It is brought in ahead, and the reader has passed it over meanwhile.
    PassedInFlight,
    Ahead(u32),
    Resident(u32),
}

/// Why lists concern a block. Lists are given by their serial numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stake {
    /// One names it. It did not come in for any.
    Named,
    /// It came in for this list.
    CameFor(u64),
    /// It came in for this list, and none names it any more. It has a number among those spent.
    Spent(u64, u64),
}

impl Place {
    pub fn frame(self) -> Option<u32> {
        match self {
            Self::Ahead(frame) | Self::Resident(frame) => Some(frame),
            Self::InFlight | Self::AheadInFlight | Self::PassedInFlight => None,
        }
    }

    /// Whether it is brought in ahead, and not there yet.
    pub fn is_ahead_in_flight(self) -> bool {
        matches!(self, Self::AheadInFlight | Self::PassedInFlight)
    }
}

impl Block {
    /// The list that it came in for.
    pub fn came_for(&self) -> Option<u64> {
        match self.stake {
            Stake::Named => None,
            Stake::CameFor(list) | Stake::Spent(list, _) => Some(list),
        }
    }

    pub fn is_spent(&self) -> bool {
        self.spent_as().is_some()
    }

    /// Whether it was counted as wasted, when no list named it.
    pub fn was_wasted(&self) -> bool {
        self.was_wasted
    }

    /// The number that it has among those spent.
    fn spent_as(&self) -> Option<u64> {
        if let Stake::Spent(_, number) = self.stake { Some(number) } else { None }
    }
}

impl Blocks {
    pub fn get(&self, page: PageId) -> Option<Block> {
        self.by_page.get(&page).copied()
    }

    pub fn contains(&self, page: PageId) -> bool {
        self.by_page.contains_key(&page)
    }

    /// Where the page is, if it is there.
    pub fn frame(&self, page: PageId) -> Option<u32> {
        self.get(page)?.place.frame()
    }

    pub fn is_spent(&self, page: PageId) -> bool {
        self.get(page).is_some_and(|block| block.is_spent())
    }

    /// Adds the block of a page, which is named, or has come in for a list.
    pub fn add(&mut self, page: PageId, place: Place, came_for: Option<u64>) {
        let stake = came_for.map_or(Stake::Named, Stake::CameFor);
        let before = self.by_page.insert(page, Block { place, stake, was_wasted: false });
        debug_assert!(before.is_none(), "{page:?} has a block");
    }

    /// The block of the page, if there is one, is at `place` now.
    pub fn set_place(&mut self, page: PageId, place: Place) {
        if let Some(block) = self.by_page.get_mut(&page) {
            block.place = place;
        }
    }

    /// The block of the page counts as wasted. False if it does already.
    pub fn waste(&mut self, page: PageId) -> bool {
        let block = self.by_page.get_mut(&page);
        block.is_some_and(|block| !std::mem::replace(&mut block.was_wasted, true))
    }

    /// A list names the page, so it is not spent any more.
    pub fn named(&mut self, page: PageId) {
        if let Some(block) = self.by_page.get_mut(&page)
            && let Stake::Spent(list, _) = block.stake
        {
            block.stake = Stake::CameFor(list);
            self.spent -= 1;
        }
    }

    /// No list names the page any more. If it came in for one, it is spent: it goes before all others.
    pub fn spend(&mut self, page: PageId) {
        let Some(block) = self.by_page.get_mut(&page) else { return };
        let Stake::CameFor(list) = block.stake else { return };
        self.last_spent += 1;
        self.spent += 1;
        block.stake = Stake::Spent(list, self.last_spent);
        self.order.push_back((self.last_spent, page));
        // No more than half of the order is out of date.
        if self.order.len() > 2 * self.spent as usize + 64 {
            let blocks = &self.by_page;
            self.order.retain(|entry| spent_block(blocks, *entry).is_some());
        }
    }

    /// The list that the page came in for ends, and `heir` names the page. Returns the block, if any.
    pub fn go_over_to(&mut self, page: PageId, heir: u64) -> Option<Block> {
        let block = self.by_page.get_mut(&page)?;
        debug_assert!(!block.is_spent(), "a list names {page:?}");
        block.stake = Stake::CameFor(heir);
        Some(*block)
    }

    /// The block concerns no list any more.
    pub fn forget(&mut self, page: PageId) {
        if let Some(block) = self.by_page.remove(&page) {
            self.spent -= u32::from(block.is_spent());
        }
    }

    /// The frame of the first spent block that is not busy, of the first few.
    pub fn first_spent(&mut self, mut busy: impl FnMut(u32) -> bool) -> Option<u32> {
        let frame_of = |blocks: &PageMap<Block>, entry| spent_block(blocks, entry)?.place.frame();
        while let Some(entry) = self.order.front()
            && frame_of(&self.by_page, *entry).is_none()
        {
            self.order.pop_front();
        }
        let spent = self.order.iter().filter_map(|entry| frame_of(&self.by_page, *entry));
        spent.take(OFFERS_TRIED).find(|frame| !busy(*frame))
    }

    /// How many blocks are spent.
    pub fn spent(&self) -> u32 {
        self.spent
    }

    pub fn len(&self) -> u32 {
        self.by_page.len() as u32
    }

    pub fn iter(&self) -> impl Iterator<Item = (PageId, Block)> {
        self.by_page.iter().map(|(page, block)| (*page, *block))
    }

    /// Bytes of memory held.
    pub fn metadata_bytes(&self) -> usize {
        self.by_page.capacity() * size_of::<(PageId, Block)>()
            + self.order.capacity() * size_of::<(u64, PageId)>()
    }

    /// Panics unless as many blocks are spent as are counted. For tests.
    pub fn check_invariants(&self) {
        assert_eq!(self.iter().filter(|(_, block)| block.is_spent()).count(), self.spent as usize, "spent");
    }
}

/// The block of an entry of the order, unless that is out of date.
fn spent_block(blocks: &PageMap<Block>, (number, page): (u64, PageId)) -> Option<&Block> {
    blocks.get(&page).filter(|block| block.spent_as() == Some(number))
}
