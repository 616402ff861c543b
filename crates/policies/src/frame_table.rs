//! What the directory knows of each frame, and the lists threaded through it.
//!
//! A frame has a slot of 32 bytes and ledger links of 8 bytes. A hit on an unmanaged tenant's block touches
//! the slot, the links of the frame and of its list neighbours, and the tenant. The links lie apart from the
//! slots, eight to a cache line, because a hit touches nothing else of the neighbours. Besides, a frame has
//! 8 bytes for the page that has a claim on it, 8 for where its page came from, and, from the first
//! directive on, 8 for its links in a level of priority pools. Apart from these last links, memory is
//! allocated only at construction and where frames are added.

use crate::{
    ids::{Access, ContextId, FileId, FrameId, PageId, TenantId},
    list::{Links, List},
};

/// What a frame holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameState {
    /// Nothing; in no list.
    Free,
    /// A page on its way in: in the ledger, in no priority pool, busy.
    InFlight,
    /// As [`InFlight`](Self::InFlight), for a page that no access has asked for yet.
    AheadInFlight,
    /// A page: in the ledger, and in a level of its owner's priority pools if the owner has any.
    Resident,
    /// A page that was brought in ahead of its first access: in the ledger, in no priority pool, unknown to
    /// its owner's manager.
    Ahead,
    /// The driver has the frame: a spare one, or one whose page was evicted ahead of need or for a smaller
    /// cap, and which was not given back yet. In no list.
    Limbo,
}

/// Whether an absent page has a claim on a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// None has.
    None,
    /// One has, by an overrule of the present manager of the frame's block.
    Judged,
    /// One has, by an overrule of an earlier manager. How it turns out does not count.
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
    /// The level of its owner's priority pools that the frame is in now.
    pub level: i8,
    pub state: FrameState,
}

/// The file of a page, the context of the access that loaded it, and whether that created it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    pub file: FileId,
    pub context: ContextId,
    pub created: bool,
}

impl From<&Access> for Origin {
    #[inline]
    fn from(access: &Access) -> Self {
        Self { file: access.file, context: access.context, created: access.creates }
    }
}

/// An origin in one number, so that it is stored and loaded as one word. A load soon after two smaller
/// stores would have to wait for both of them.
#[derive(Clone, Copy)]
struct PackedOrigin(u64);

impl PackedOrigin {
    /// The highest bit: numbers of files are below 2^24.
    const CREATED: u64 = 1 << 63;
}

impl From<Origin> for PackedOrigin {
    #[inline]
    fn from(Origin { file, context, created }: Origin) -> Self {
        let created = if created { Self::CREATED } else { 0 };
        Self(created | u64::from(file.0) << u32::BITS | u64::from(context.0))
    }
}

impl From<PackedOrigin> for Origin {
    #[inline]
    fn from(PackedOrigin(both): PackedOrigin) -> Self {
        let file = FileId(((both & !PackedOrigin::CREATED) >> u32::BITS) as u32);
        Self { file, context: ContextId(both as u32), created: both & PackedOrigin::CREATED != 0 }
    }
}

/// The slots of all frames.
pub(crate) struct FrameTable {
    slots: Vec<Slot>,
    /// Per frame: its place in the ledger, or in the list of free frames. A swap permutes these, never the
    /// pools'.
    pub ledger_links: Links,
    /// Free frames, threaded through the ledger's links, which they have no other use for.
    free: List,
    /// Per frame: the absent page whose placeholder points there; meaningful while there is a claim.
    claimants: Vec<PageId>,
    /// Where each page came from; outside the slot because hits do not read it.
    origins: Vec<PackedOrigin>,
    /// Per frame: its place in a level of its owner's priority pools. Empty until there are such pools.
    pub pool_links: Links,
}

impl FrameTable {
    pub fn new(frames: u32) -> Self {
        let mut table = Self {
            slots: Vec::new(),
            ledger_links: Links::default(),
            free: List::default(),
            claimants: Vec::new(),
            origins: Vec::new(),
            pool_links: Links::default(),
        };
        table.add(frames, FrameState::Free);
        (0..frames).for_each(|frame| table.free.push_tail(&mut table.ledger_links, frame));
        table
    }

    /// How many frames are free.
    #[inline]
    pub fn free_frames(&self) -> u32 {
        self.free.len()
    }

    /// Takes the free frame that is to be filled next off the list.
    #[inline]
    pub fn pop_free(&mut self) -> Option<u32> {
        self.free.pop_head(&mut self.ledger_links)
    }

    /// The frame, which is in limbo, is free, and the next to be filled.
    pub fn push_free(&mut self, frame: u32) {
        debug_assert_eq!(self[frame].state, FrameState::Limbo);
        self[frame].state = FrameState::Free;
        self.free.push_head(&mut self.ledger_links, frame);
    }

    pub fn check_free(&self) {
        self.free.check_invariants(&self.ledger_links);
        let free = self.slots.iter().filter(|slot| slot.state == FrameState::Free).count();
        assert_eq!(free, self.free.len() as usize, "free frames");
    }

    /// Adds frames in this state, after those there are.
    pub fn add(&mut self, frames: u32, state: FrameState) {
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
        self.ledger_links.add(frames);
        add(&mut self.claimants, frames, PageId(0));
        add(&mut self.origins, frames, PackedOrigin(0));
        if self.pool_links.len() > 0 {
            self.add_pool_links();
        }
    }

    /// Makes the links for the levels of priority pools, unless they are there.
    pub fn add_pool_links(&mut self) {
        self.pool_links.add((self.slots.len() - self.pool_links.len()) as u32);
    }

    pub fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The addresses of a frame's slot and ledger links, to be fetched; any if there is no such frame.
    pub fn places_of(&self, frame: u32) -> [*const u8; 2] {
        let slot = self.slots.as_ptr().wrapping_add(frame as usize);
        [slot.cast(), self.ledger_links.place_of(frame)]
    }

    pub fn origin(&self, frame: u32) -> Origin {
        self.origins[frame as usize].into()
    }

    pub fn set_origin(&mut self, frame: u32, origin: Origin) {
        self.origins[frame as usize] = origin.into();
    }

    /// The absent page whose placeholder points to `frame`, which has a claim.
    #[inline]
    pub fn claimant(&self, frame: u32) -> PageId {
        self.claimants[frame as usize]
    }

    /// Makes the placeholder of `page` point to `frame`, which nobody has a claim on yet.
    pub fn set_claim(&mut self, frame: u32, page: PageId, claim: Claim) {
        debug_assert!(!self[frame].has_claim() && claim != Claim::None);
        self.claimants[frame as usize] = page;
        self[frame].claim = claim;
    }

    /// Exchanges the pages of two frames that nobody has a claim on, each with its owner, the time of its
    /// last reference, and its origin.
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

    /// Whether a page is there that its owner's manager knows.
    pub fn is_resident(&self, frame: FrameId) -> bool {
        self.slots.get(frame.index()).is_some_and(|slot| slot.state == FrameState::Resident)
    }

    /// Whether a page is there, known to its owner's manager or not.
    pub fn is_present(&self, frame: FrameId) -> bool {
        let state = self.slots.get(frame.index()).map(|slot| slot.state);
        matches!(state, Some(FrameState::Resident | FrameState::Ahead))
    }

    pub fn metadata_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.ledger_links.memory_bytes()
            + self.pool_links.memory_bytes()
            + self.claimants.capacity() * size_of::<PageId>()
            + self.origins.capacity() * size_of::<PackedOrigin>()
    }
}

/// Lengthens a table by exactly `rows` rows.
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

const _: () = assert!(size_of::<Slot>() == 32, "half a cache line");
