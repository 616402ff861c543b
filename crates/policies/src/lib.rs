//! Who gives up a frame, and which page goes.
//!
//! No I/O, no threads, no clock, no unsafe code: every event, every number that grows with time and every
//! random seed is passed in, so the same inputs always give the same decisions.
//!
//! Two levels decide. [`Directory`] picks the *tenant* that gives up a frame (LRU-SP, [`Allocation`]); that
//! tenant's [`Manager`] may pick another of its pages than the one the ledger names. [`classic`] has the
//! well-known single-level policies, for comparison and for a tenant's priority levels. [`program`] has the
//! language in which engines and their users write managers. [`tier`] has the directories of lower caches,
//! which pages go to when they leave the pool.
//!
//! # Vocabulary
//!
//! | word | meaning |
//! | --- | --- |
//! | *page*, *frame*, *block* | a page is a number; a frame has room for one page; a block is a page in a frame, the word of the LRU-SP paper |
//! | *driver* | who drives a [`Directory`], the live pool or the simulator: it knows where pages are, and moves their bytes |
//! | *account* | a part of the ledger with a manager, a floor and a cap; it is one tenant's, or the *commons*, which is shared by tenants that want none of their own |
//! | *ledger* | the order in which frames are given up: by last use, except that an overrule exchanges the places of two frames |
//! | *candidate* | the frame that the ledger, or a placeholder, names to be given up |
//! | *overrule* | the candidate's manager chooses another block of the same account, and that block goes instead of the candidate |
//! | *placeholder* | the record that an absent page, which went by an overrule, has a *claim* on the frame of the candidate that stayed |
//! | *mistake*, *vindication* | the two outcomes of an overrule: the page that went is needed first (*mistake*), or the block that stayed is (*vindication*) |
//! | *revocation* | a manager that makes too many mistakes is not asked for a while |
//! | *ahead* | of a page: brought in before its first access |
//! | *in flight*, *limbo* | of a frame: its page is on its way in (*in flight*), or the driver has it and no page is in it or on its way (*limbo*) |
//! | *context*, *stream* | from where an access is made; the accesses of one context to one file |
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
    HitOutcome, NextFrame, NextMiss, PageWorth,
};
pub use error::{DirectiveError, DirectoryError, UnknownName};
pub use ids::{Access, ContextId, FRAMES_MAX, FileId, FrameId, PRIORITIES, PageId, TenantId};
pub use manager::{
    Block, EventCalls, Incident, Look, Manager, ManagerKind, ProgramStats, SendError, StreamReport, Unloaded,
    WANTS_MAX, WISHES_MAX, Want, Wish,
    automatic::{Automatic, SharedLearning, Strategy, Tuning, TuningConstant},
    partitioned::Partitioned,
};
pub use random::{SplitMix64, mix64};
pub use tenant::TenantStats;
