//! What the directory keeps of each tenant.

use crate::{
    allocation::revocation::Revocation,
    frame_table::{LEDGER, List},
    ids::TenantId,
    manager::Control,
};

/// Counts of one tenant since it was opened. Accesses, hits and misses are those it made; everything else concerns
/// the blocks it owns.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
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
    /// Questions on which the manager chose another block than the candidate, and it went.
    pub overrules: u64,
    /// Overrules that turned out wrong: the block that went was needed before the one that stayed.
    pub mistakes: u64,
    /// Overrules that turned out right: the block that stayed was needed first.
    pub vindications: u64,
    /// Overrules not yet decided: placeholders that point to blocks of the tenant.
    pub outstanding: u64,
    /// Times the manager lost its say.
    pub revocations: u64,
    /// Managers dropped because they panicked.
    pub manager_panics: u64,
    /// Blocks that came in ahead of their first access.
    pub prefetched: u64,
    /// Of these, blocks that were accessed.
    pub prefetch_used: u64,
    /// Of these, blocks that left before anybody accessed them.
    pub prefetch_wasted: u64,
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

/// One tenant.
pub(crate) struct Tenant {
    /// Its part of the ledger, by stamp.
    pub ledger: List<LEDGER>,
    pub control: Control,
    pub revocation: Revocation,
    pub stats: TenantStats,
    /// Frames that no other tenant can take.
    pub floor_frames: u32,
    /// Frames it may not exceed.
    pub cap_frames: u32,
    pub standing: Standing,
    /// Whose its pages are: another tenant's if it has joined that one.
    pub account: Option<TenantId>,
}

impl Tenant {
    pub fn new(floor_frames: u32, cap_frames: u32, revocation: Revocation) -> Self {
        Self {
            ledger: List::default(),
            control: Control::None,
            revocation,
            stats: TenantStats::default(),
            floor_frames,
            cap_frames,
            standing: Standing::Open,
            account: None,
        }
    }

    /// Whether the manager is asked when the tenant is to give up a frame.
    pub fn is_consulted(&self) -> bool {
        self.control.is_managed() && !self.revocation.is_revoked()
    }

    /// Whether other tenants may take a frame from it.
    pub fn is_above_floor(&self) -> bool {
        self.ledger.len > self.floor_frames
    }

    pub fn is_at_cap(&self) -> bool {
        self.ledger.len >= self.cap_frames
    }
}
