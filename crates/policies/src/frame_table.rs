//! What the directory knows of each frame, and the lists threaded through it.
//!
//! A slot of 32 bytes and two links of 8 hold everything that an access to an oblivious tenant's block touches, so that a hit
//! costs the slot, the links of the frame and of its list neighbours, and the tenant. The links lie apart because those of
//! neighbours are all that is touched of them: eight share a cache line. 8 bytes more say who has a claim on the frame, 8
//! where a page came from, and 8 thread the levels of priority pools, from the first directive on. Nothing else is allocated
//! after construction.

use crate::ids::{ContextId, FileId, FrameId, PageId, TenantId};

/// No frame: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// The two lists a frame can be in. They are different orders: swapping permutes the ledger, never the pools.
pub(crate) const LEDGER: usize = 0;
/// See [`LEDGER`].
pub(crate) const POOL: usize = 1;

/// The frames before and after in a list, or [`NONE`].
type Links = [u32; 2];

/// What a frame holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Nothing; in no list.
    Free,
    /// A page on its way in: in the ledger, in no pool, busy.
    InFlight,
    /// As in flight, for a page that nobody asked for yet.
    AheadInFlight,
    /// A page: in the ledger, and in a pool if its owner has priority pools.
    Resident,
    /// A page that was brought in ahead of its first access: in the ledger, in no pool, unknown to its owner's manager.
    Ahead,
    /// The driver's: a spare frame, or one evicted ahead of need or for a smaller cap and not yet given back. In no list.
    Limbo,
}

/// Whether an absent page has a claim on a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// None has.
    None,
    /// One has, by an overrule of whoever manages the frame's block now.
    Judged,
    /// One has, by an overrule of an earlier manager: nobody answers for it.
    Inherited,
}

impl Claim {
    /// The claim under a new manager.
    pub fn inherited(self) -> Self {
        if self == Self::None { Self::None } else { Self::Inherited }
    }
}

/// One frame; never in two cache lines.
#[derive(Clone, Debug)]
#[repr(align(32))]
pub(crate) struct Slot {
    /// The page held or on its way in.
    pub page: PageId,
    /// Position in the ledger: frames with smaller stamps are replaced first. A swap exchanges stamps.
    pub stamp: i64,
    /// When the page was last referenced or loaded, in references to the directory.
    pub last_reference: u64,
    /// Who loaded the page.
    pub owner: TenantId,
    /// Whether a placeholder points here.
    pub claim: Claim,
    /// Whether `level` is temporary.
    pub temporary: bool,
    /// The pool the frame is in now.
    pub level: i8,
    pub state: State,
}

/// The file of a page and the context of the access that loaded it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    pub file: FileId,
    pub context: ContextId,
}

/// The slots of all frames.
pub(crate) struct FrameTable {
    slots: Vec<Slot>,
    /// Per frame: its place in the ledger, or in the list of free frames.
    ledger_links: Vec<Links>,
    /// Per frame: the absent page whose placeholder points there; meaningful while there is a claim.
    claimants: Vec<PageId>,
    /// Where each page came from; outside the slot because hits do not read it.
    origins: Vec<Origin>,
    /// Per frame: its place in a level of its owner's priority pools. Empty until there are such pools.
    pool_links: Vec<Links>,
}

impl FrameTable {
    pub fn new(frames: u32) -> Self {
        let mut table = Self {
            slots: Vec::new(),
            ledger_links: Vec::new(),
            claimants: Vec::new(),
            origins: Vec::new(),
            pool_links: Vec::new(),
        };
        table.add(frames, State::Free);
        table
    }

    /// Adds frames in this state, after those there are.
    pub fn add(&mut self, frames: u32, state: State) {
        let empty = Slot {
            page: PageId(0),
            stamp: 0,
            last_reference: 0,
            owner: TenantId(0),
            claim: Claim::None,
            temporary: false,
            level: 0,
            state,
        };
        add(&mut self.slots, frames, empty);
        add(&mut self.ledger_links, frames, [NONE; 2]);
        add(&mut self.claimants, frames, PageId(0));
        add(&mut self.origins, frames, Origin { file: FileId(0), context: ContextId(0) });
        if !self.pool_links.is_empty() {
            self.add_pool_links();
        }
    }

    /// Makes room for the levels of priority pools, unless there is.
    pub fn add_pool_links(&mut self) {
        self.pool_links.resize(self.slots.len(), [NONE; 2]);
    }

    pub fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    pub fn origin(&self, frame: u32) -> Origin {
        self.origins[frame as usize]
    }

    pub fn set_origin(&mut self, frame: u32, origin: Origin) {
        self.origins[frame as usize] = origin;
    }

    /// The absent page whose placeholder points to `frame`, which has a claim.
    #[inline]
    pub fn claimant(&self, frame: u32) -> PageId {
        self.claimants[frame as usize]
    }

    /// The placeholder of `page` points to `frame`, which has no claim.
    pub fn set_claim(&mut self, frame: u32, page: PageId, claim: Claim) {
        debug_assert!(!self[frame].has_claim() && claim != Claim::None);
        self.claimants[frame as usize] = page;
        self[frame].claim = claim;
    }

    /// Exchanges the pages of two frames that nobody has a claim on, with who loaded them, when, and from where.
    pub fn exchange_pages(&mut self, a: u32, b: u32) {
        debug_assert!(!self[a].has_claim() && !self[b].has_claim());
        let of_page = |slot: &Slot| (slot.page, slot.owner, slot.last_reference);
        let (in_a, in_b) = (of_page(&self[a]), of_page(&self[b]));
        for (frame, (page, owner, last_reference)) in [(a, in_b), (b, in_a)] {
            let slot = &mut self[frame];
            (slot.page, slot.owner, slot.last_reference) = (page, owner, last_reference);
        }
        self.origins.swap(a as usize, b as usize);
    }

    /// Where the frame after `frame` towards the tail of its `CHAIN` list is, or [`NONE`].
    #[inline]
    pub fn next<const CHAIN: usize>(&self, frame: u32) -> u32 {
        self.links::<CHAIN>()[frame as usize][1]
    }

    /// Where the frame before `frame` towards the head of its `CHAIN` list is, or [`NONE`].
    #[inline]
    pub fn previous<const CHAIN: usize>(&self, frame: u32) -> u32 {
        self.links::<CHAIN>()[frame as usize][0]
    }

    #[inline]
    fn links<const CHAIN: usize>(&self) -> &[Links] {
        if CHAIN == LEDGER { &self.ledger_links } else { &self.pool_links }
    }

    #[inline]
    fn links_mut<const CHAIN: usize>(&mut self) -> &mut [Links] {
        if CHAIN == LEDGER { &mut self.ledger_links } else { &mut self.pool_links }
    }

    /// Whether a page is there that its owner's manager knows.
    pub fn is_resident(&self, frame: FrameId) -> bool {
        self.slots.get(frame.index()).is_some_and(|slot| slot.state == State::Resident)
    }

    /// Whether a page is there, known to its owner's manager or not.
    pub fn is_present(&self, frame: FrameId) -> bool {
        let state = self.slots.get(frame.index()).map(|slot| slot.state);
        matches!(state, Some(State::Resident | State::Ahead))
    }

    pub fn metadata_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + (self.ledger_links.capacity() + self.pool_links.capacity()) * size_of::<Links>()
            + self.claimants.capacity() * size_of::<PageId>()
            + self.origins.capacity() * size_of::<Origin>()
    }
}

/// Lengthens a table by exactly so many `rows`.
fn add<T: Clone>(table: &mut Vec<T>, rows: u32, row: T) {
    table.reserve_exact(rows as usize);
    table.resize(table.len() + rows as usize, row);
}

impl Slot {
    /// Whether a placeholder points here.
    #[inline]
    pub fn has_claim(&self) -> bool {
        self.claim != Claim::None
    }
}

impl std::ops::Index<u32> for FrameTable {
    type Output = Slot;

    #[inline]
    fn index(&self, frame: u32) -> &Slot {
        &self.slots[frame as usize]
    }
}

impl std::ops::IndexMut<u32> for FrameTable {
    #[inline]
    fn index_mut(&mut self, frame: u32) -> &mut Slot {
        &mut self.slots[frame as usize]
    }
}

/// A doubly linked list through the slots. Head: the end that LRU replaces first; tail: most recently used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<const CHAIN: usize> {
    pub head: u32,
    pub tail: u32,
    pub len: u32,
}

impl<const CHAIN: usize> Default for List<CHAIN> {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

impl<const CHAIN: usize> List<CHAIN> {
    #[inline]
    pub fn push_tail(&mut self, frames: &mut FrameTable, frame: u32) {
        let links = frames.links_mut::<CHAIN>();
        links[frame as usize] = [self.tail, NONE];
        match self.tail {
            NONE => self.head = frame,
            tail => links[tail as usize][1] = frame,
        }
        self.tail = frame;
        self.len += 1;
    }

    pub fn push_head(&mut self, frames: &mut FrameTable, frame: u32) {
        let links = frames.links_mut::<CHAIN>();
        links[frame as usize] = [NONE, self.head];
        match self.head {
            NONE => self.tail = frame,
            head => links[head as usize][0] = frame,
        }
        self.head = frame;
        self.len += 1;
    }

    pub fn pop_head(&mut self, frames: &mut FrameTable) -> Option<u32> {
        let head = self.head;
        (head != NONE).then(|| {
            self.unlink(frames, head);
            head
        })
    }

    #[inline]
    pub fn unlink(&mut self, frames: &mut FrameTable, frame: u32) {
        let links = frames.links_mut::<CHAIN>();
        let [previous, next] = links[frame as usize];
        match previous {
            NONE => self.head = next,
            previous => links[previous as usize][1] = next,
        }
        match next {
            NONE => self.tail = previous,
            next => links[next as usize][0] = previous,
        }
        self.len -= 1;
    }

    /// `frame`, which is in no list, takes the place of `other`.
    pub fn replace(&mut self, frames: &mut FrameTable, other: u32, frame: u32) {
        let links = frames.links_mut::<CHAIN>();
        let sides @ [previous, next] = links[other as usize];
        links[frame as usize] = sides;
        match previous {
            NONE => self.head = frame,
            previous => links[previous as usize][1] = frame,
        }
        match next {
            NONE => self.tail = frame,
            next => links[next as usize][0] = frame,
        }
    }

    #[inline]
    pub fn move_to_tail(&mut self, frames: &mut FrameTable, frame: u32) {
        if self.tail == frame {
            return;
        }
        // It is not the last one, so it has one after it, and the list a tail.
        let links = frames.links_mut::<CHAIN>();
        let [previous, next] = links[frame as usize];
        links[next as usize][0] = previous;
        match previous {
            NONE => self.head = next,
            previous => links[previous as usize][1] = next,
        }
        links[self.tail as usize][1] = frame;
        links[frame as usize] = [self.tail, NONE];
        self.tail = frame;
    }

    /// Exchanges the positions of two different frames of this list.
    pub fn swap(&mut self, frames: &mut FrameTable, a: u32, b: u32) {
        debug_assert_ne!(a, b);
        if frames.next::<CHAIN>(b) == a {
            return self.swap(frames, b, a);
        }
        let adjacent = frames.next::<CHAIN>(a) == b;
        let before_a = frames.previous::<CHAIN>(a);
        let before_b = frames.previous::<CHAIN>(b);
        self.unlink(frames, a);
        self.unlink(frames, b);
        self.insert_after(frames, b, before_a);
        self.insert_after(frames, a, if adjacent { b } else { before_b });
    }

    /// Puts `frame` behind `before`, or at the head if `before` is [`NONE`].
    fn insert_after(&mut self, frames: &mut FrameTable, frame: u32, before: u32) {
        if before == NONE {
            return self.push_head(frames, frame);
        }
        let links = frames.links_mut::<CHAIN>();
        let next = links[before as usize][1];
        links[frame as usize] = [before, next];
        links[before as usize][1] = frame;
        match next {
            NONE => self.tail = frame,
            next => links[next as usize][0] = frame,
        }
        self.len += 1;
    }

    /// The frames from head to tail.
    pub fn iter<'a>(&self, frames: &'a FrameTable) -> impl Iterator<Item = u32> + use<'a, CHAIN> {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let frame = at;
            if frame == NONE {
                return None;
            }
            at = frames.next::<CHAIN>(frame);
            Some(frame)
        })
    }

    /// Panics unless both directions of the list agree with each other and with its length.
    pub fn check_invariants(&self, frames: &FrameTable) {
        let mut before = NONE;
        let mut count = 0;
        for frame in self.iter(frames) {
            assert_eq!(frames.previous::<CHAIN>(frame), before, "back link of frame {frame}");
            before = frame;
            count += 1;
            assert!(count <= self.len, "list longer than its length {}", self.len);
        }
        assert_eq!(before, self.tail, "tail of the list");
        assert_eq!(count, self.len, "length of the list");
    }
}

const _: () = assert!(size_of::<Slot>() == 32, "half a cache line");

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair of positions of a list of five, neighbours and ends included, against a vector.
    #[test]
    fn swap_exchanges_any_two_positions() {
        for a in 0..5 {
            for b in (0..5).filter(|b| *b != a) {
                let mut frames = FrameTable::new(5);
                let mut list = List::<LEDGER>::default();
                (0..5).for_each(|frame| list.push_tail(&mut frames, frame));
                let mut expected: Vec<u32> = (0..5).collect();
                expected.swap(a, b);
                list.swap(&mut frames, a as u32, b as u32);
                list.check_invariants(&frames);
                assert_eq!(list.iter(&frames).collect::<Vec<_>>(), expected);
            }
        }
    }
}
