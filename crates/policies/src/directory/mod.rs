//! The directory: one deterministic state machine that holds residency, the allocation ledger, placeholders,
//! tenants, managers and statistics.
//!
//! It is driven by events and answers one question, [`Directory::admit`]: a page must come in, so which frame
//! does it get? The driver (the live pool, or the simulator) knows where pages are, moves the bytes, and says
//! what became of them. Methods are of four kinds:
//!
//! * *events*: [`hit`](Directory::hit), [`loaded`](Directory::loaded), [`failed`](Directory::failed),
//!   [`restore`](Directory::restore), [`discard`](Directory::discard), [`forget`](Directory::forget);
//! * *questions*, answered with a decision that the driver carries out: [`admit`](Directory::admit),
//!   [`admit_ahead`](Directory::admit_ahead), [`shrink`](Directory::shrink);
//! * *tenants*: opening, closing, floors, caps, managers and directives;
//! * *looking*, which changes nothing.
//!
//! Blocks are owned by tenants, and lie in *accounts*: an account is a list of the ledger with a manager, a
//! floor and a cap. A tenant has an account of its own, unless it is in the
//! [*commons*](Directory::join_commons). For other accounts the commons is one tenant with the sum of its
//! members' blocks; its members are not protected from each other.
//!
//! Nothing is allocated by events and questions, directives apart. A hit costs O(1), plus O(log accounts)
//! when the block was its account's next candidate; a miss the same, plus a step for each busy frame passed
//! and the manager's choice.

mod checks;
mod departures;
mod disclosed;
mod events;
mod looking;
mod managers;
mod prices;
mod question;
mod tenants;
mod touch;

use std::{cmp::Reverse, collections::BinaryHeap};

pub use crate::ids::FRAMES_MAX;
use departures::Departures;
pub use departures::PageWorth;
pub use disclosed::HintOptions;
pub use events::HitOutcome;
pub use prices::NextFrame;
pub use question::{Admission, Claims, Decision, Eviction};
pub use touch::NextMiss;

use crate::{
    allocation::{Allocation, Ledger, LevelOne},
    error::DirectoryError,
    frame_table::FrameState,
    hints::{HintListId, ListState},
    ids::{AccountId, TenantId},
    tenant::TenantStats,
};

/// The tenant that is always open: unmanaged until it gives a directive, no floor, no cap.
pub const DEFAULT_TENANT: TenantId = TenantId(0);

/// What a directory is built with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryOptions {
    /// Frames to fill: 1 to [`FRAMES_MAX`].
    pub frames: u32,
    /// How frames are allocated to tenants.
    pub allocation: Allocation,
    /// Whether a manager that keeps being wrong loses its say.
    pub revocation: bool,
    /// Whether pages that another tenant uses are protected from the owner's manager. Costs 8 bytes a frame.
    pub shared_pages: bool,
}

/// The state machine. See the [module](self).
///
/// Invariants, checked by [`check_invariants`](Self::check_invariants):
///
/// 1. Each frame is free, in flight, resident or in limbo (the driver's); those in flight or resident are in
///    exactly one ledger list, that of their owner's account, whose stamps increase from head to tail.
/// 2. A resident block of an account with priority pools is in exactly one of its levels; a block that came
///    in ahead and was not accessed yet is in none.
/// 3. The placeholder index and the frames' claims are inverse maps; no resident page has a placeholder.
/// 4. `all_heads` has the stamp of each account's ledger head; `open_heads` the same for accounts above their
///    floor.
pub struct Directory {
    /// Frames, accounts and tenants, and the order in which they give up frames.
    ledger: Ledger,
    /// Which of them does, and what their managers' overrules come to.
    level_one: LevelOne,
    /// Frames that pages may fill at a time; the table has the spare ones too.
    capacity: u32,
    /// The account that tenants have in common, from the first one that joins on.
    commons: Option<AccountId>,
    /// Pages that tenants share are protected.
    shared_pages: bool,
    /// Per frame, when a tenant of another account last referenced it; empty unless shared pages are
    /// protected and there is a second tenant.
    foreign: Vec<i64>,
    /// Accounts with open lists of disclosed reads.
    hinted: u32,
    /// Lists opened so far: the serial number of the latest.
    hint_lists: u64,
    /// Lists that ended because their tenants left the commons, as long as their readers have not closed
    /// them.
    ended_hints: Vec<(HintListId, ListState)>,
    /// Whether it matters who accesses a block: shared pages are protected, or there are open lists.
    watches_accessors: bool,
    /// Numbers for the next tenants, the lowest first: all slots that are vacant, and some that were. Has
    /// room for all tenants.
    vacant_tenants: BinaryHeap<Reverse<TenantId>>,
    /// The accounts that are vacant, the lowest first.
    vacant_accounts: BinaryHeap<Reverse<AccountId>>,
    /// Counts of tenants whose slots have been reused.
    departed: TenantStats,
    /// What pages that leave are worth; none unless a driver asks for it.
    departures: Option<Box<Departures>>,
}

impl Directory {
    /// A directory of empty frames with the default tenant. Allocates for all frames.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::FramesOutOfRange`] for 0 frames or more than [`FRAMES_MAX`].
    pub fn new(options: DirectoryOptions) -> Result<Self, DirectoryError> {
        let DirectoryOptions { frames, allocation, revocation, shared_pages } = options;
        if !(1..=FRAMES_MAX).contains(&frames) {
            return Err(DirectoryError::FramesOutOfRange { frames });
        }
        let mut directory = Self {
            ledger: Ledger::new(frames),
            level_one: LevelOne::new(allocation, frames, revocation),
            capacity: frames,
            commons: None,
            shared_pages,
            foreign: Vec::new(),
            hinted: 0,
            hint_lists: 0,
            ended_hints: Vec::new(),
            watches_accessors: false,
            vacant_tenants: BinaryHeap::new(),
            vacant_accounts: BinaryHeap::new(),
            departed: TenantStats::default(),
            departures: None,
        };
        directory.add_tenant(0, frames);
        Ok(directory)
    }

    /// Adds frames that hold no page and are the driver's, for [`relocate`](Self::relocate). They follow
    /// those there are, and change nothing of how many pages fit.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::FramesOutOfRange`] if that makes more than [`FRAMES_MAX`].
    pub fn add_spares(&mut self, spares: u32) -> Result<(), DirectoryError> {
        let frames = self.ledger.frames.len().saturating_add(spares);
        if frames > FRAMES_MAX {
            return Err(DirectoryError::FramesOutOfRange { frames });
        }
        self.ledger.frames.add(spares, FrameState::Limbo);
        if !self.foreign.is_empty() {
            self.foreign.reserve_exact(spares as usize);
            self.foreign.resize(frames as usize, i64::MIN);
        }
        Ok(())
    }

    /// From here on [`worth_of_last`](Self::worth_of_last) is to be known. One bit a frame.
    pub fn watch_departures(&mut self) {
        self.departures.get_or_insert_with(|| Box::new(Departures::new()));
    }
}
