//! Level one: which tenant gives up a frame.
//!
//! The *ledger* is not a replacement order but an allocation order: a block's position in it is its tenant's
//! entitlement to a frame. [`ledger`] keeps it, with what all ways of allocating frames have in common: the
//! lists of the accounts, the winner tree over their heads ([`heads`]), floors and caps, and what a question
//! has passed over.
//!
//! [`Allocate`] is what the ways differ in, and each is a file: [`lru_sp`], its ablations [`lru_s`] and
//! [`alloc_lru`], [`global_lru`], [`cost_benefit`], and [`fifo2_sp`]. The directory asks whichever its
//! [`Allocation`] names; [`LevelOne`] holds it.

mod alloc_lru;
mod allocate;
mod cost_benefit;
mod fifo2_sp;
mod global_lru;
pub(crate) mod heads;
pub(crate) mod ledger;
mod level_one;
mod lru_s;
mod lru_sp;
mod overrules;
mod placeholders;
mod revocation;

pub(crate) use allocate::{Allocate, Arrival};
pub use cost_benefit::CostBenefitOptions;
pub(crate) use ledger::Ledger;
pub use level_one::Allocation;
pub(crate) use level_one::LevelOne;
