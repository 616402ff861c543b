//! Who gives up a frame, and which page goes.
//!
//! No I/O, no threads, no clock, no unsafe code: every event, every number that grows with time and every
//! random seed is passed in, so the same inputs always give the same decisions.
//!
//! Two levels decide. [`Directory`] picks the *tenant* that gives up a frame (LRU-SP, [`Allocation`]); that
//! tenant's [`Manager`] may pick another of its pages than the one the ledger names. [`classic`] has the
//! well-known single-level policies: opponents, and policies of a tenant's priority levels. [`program`] has
//! the language in which engines and their users write managers. [`tier`] has the directories of lower
//! caches, which pages go to when they leave the pool.
#![forbid(unsafe_code)]

mod allocation;
pub mod classic;
mod contained;
pub mod detect;
pub mod directory;
mod error;
mod frame_table;
mod ghost;
pub mod hints;
mod history;
mod ids;
mod list;
mod manager;
pub mod planner;
pub mod program;
mod random;
mod sketch;
mod slot_index;
mod tenant;
pub mod tier;

pub use allocation::{Allocation, CostBenefitOptions};
pub use contained::contained;
pub use directory::{
    Admission, Claims, DEFAULT_TENANT, Decision, Directory, DirectoryOptions, Eviction, HintOptions,
    HitOutcome, MissHint, NextFrame, PageWorth,
};
pub use error::{DirectiveError, DirectoryError};
pub use ids::{Access, ContextId, FRAMES_MAX, FileId, FrameId, PRIORITIES, PageId, TenantId};
pub use manager::{
    Block, EventCalls, Incident, Look, Manager, ManagerKind, ProgramStats, SendError, StreamReport, Unloaded,
    WANTS_MAX, WISHES_MAX, Want, Wish,
    automatic::{Automatic, SharedLearning, Strategy, Tuning, TuningConstant},
    partitioned::Partitioned,
};
pub use random::{SplitMix64, mix64};
pub use tenant::TenantStats;
