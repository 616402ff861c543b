//! What the directory keeps of each tenant, and of each account: a part of the ledger with a manager and a
//! share.
//!
//! A tenant has an account of its own, or is a member of the *commons*, the account of tenants without a
//! manager, floor or cap of their own.

use crate::{
    hints::{AccountHints, HintCounts},
    ids::AccountId,
    list::List,
    manager::Control,
};

/// Counts of one tenant since it was opened. Accesses, hits and misses are those it made; everything else
/// concerns the blocks it owns.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct TenantStats {
    /// Accesses made.
    pub accesses: u64,
    /// Accesses that found their page resident.
    pub hits: u64,
    /// Accesses that did not.
    pub misses: u64,
    /// Blocks evicted to make room.
    pub evictions: u64,
    /// Questions put to the manager.
    pub decisions: u64,
    /// Questions to which the manager answered another block than the candidate, and that block went.
    pub overrules: u64,
    /// Overrules that turned out wrong: the block that went was needed before the one that stayed.
    pub mistakes: u64,
    /// Overrules that turned out right: the block that stayed was needed first.
    pub vindications: u64,
    /// Overrules not yet decided: placeholders that point to blocks of the tenant.
    pub outstanding: u64,
    /// Times that the manager was no longer asked, because of a mistake with one of the tenant's blocks.
    pub revocations: u64,
    /// Managers dropped because they panicked.
    pub manager_panics: u64,
    /// Blocks that came in ahead of their first access.
    pub prefetched: u64,
    /// Of the blocks that came in ahead, those that were accessed.
    pub prefetch_used: u64,
    /// Of the blocks that came in ahead, those that left before anybody accessed them.
    pub prefetch_wasted: u64,
    /// What became of its hints, without those of lists that are still open.
    pub hints: HintCounts,
}

impl TenantStats {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &TenantStats) {
        self.accesses += other.accesses;
        self.hits += other.hits;
        self.misses += other.misses;
        self.evictions += other.evictions;
        self.decisions += other.decisions;
        self.overrules += other.overrules;
        self.mistakes += other.mistakes;
        self.vindications += other.vindications;
        self.outstanding += other.outstanding;
        self.revocations += other.revocations;
        self.manager_panics += other.manager_panics;
        self.prefetched += other.prefetched;
        self.prefetch_used += other.prefetch_used;
        self.prefetch_wasted += other.prefetch_wasted;
        self.hints.add(&other.hints);
    }
}

/// Whether a tenant slot is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Open.
    Open,
    /// Closed, but its blocks are still there, unmanaged.
    Closed,
    /// Free for the next tenant.
    Vacant,
}

/// One tenant. What each miss changes is in one cache line.
#[repr(C, align(64))]
pub(crate) struct Tenant {
    /// Frames with blocks it owns, those in flight included.
    pub frames: u32,
    /// The account that its blocks are in; without meaning while the tenant is vacant.
    pub account: AccountId,
    pub standing: Standing,
    /// Its number is in the list of numbers for the next tenants. It must not be entered there twice.
    pub is_in_vacant: bool,
    pub stats: TenantStats,
}

impl Tenant {
    pub fn new(account: AccountId) -> Self {
        Self {
            stats: TenantStats::default(),
            frames: 0,
            standing: Standing::Open,
            is_in_vacant: false,
            account,
        }
    }
}

/// One account, in one cache line.
#[repr(align(64))]
pub(crate) struct Account {
    /// Its part of the ledger, by stamp.
    pub ledger: List,
    pub control: Control,
    /// The open lists of disclosed reads, if there are any.
    pub hints: Option<Box<AccountHints>>,
    /// Its manager is not asked for now, because it was wrong too often.
    pub is_revoked: bool,
    /// Whether the manager [knows](crate::Manager::knows_ahead) of blocks before their first access.
    pub knows_ahead: bool,
    /// Frames that no other account can take.
    pub floor_frames: u32,
    /// Frames it may not exceed.
    pub cap_frames: u32,
    /// Its tenant was opened as privileged: no placeholder points to its frames.
    pub is_granted: bool,
    /// It belongs to nobody and is free for the next tenant.
    pub is_vacant: bool,
}

impl Account {
    pub fn new(cap_frames: u32) -> Self {
        Self {
            ledger: List::default(),
            control: Control::None,
            hints: None,
            is_revoked: false,
            knows_ahead: false,
            floor_frames: 0,
            cap_frames,
            is_granted: false,
            is_vacant: false,
        }
    }

    /// Whether the manager, or the hints, are asked when the account is to give up a frame.
    pub fn is_consulted(&self) -> bool {
        (self.control.is_managed() || self.hints.is_some()) && !self.is_revoked
    }

    /// Whether other accounts may take a frame from it.
    pub fn is_above_floor(&self) -> bool {
        self.ledger.len() > self.floor_frames
    }

    /// Whether its floor is its cap: its frames are its own alone.
    pub fn is_privileged(&self) -> bool {
        self.floor_frames == self.cap_frames
    }

    pub fn is_at_cap(&self) -> bool {
        self.ledger.len() >= self.cap_frames
    }
}
