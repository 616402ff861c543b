//! ALLOC-LRU, LRU-SP's ablation without swapping: an overruled candidate keeps its place.
//!
//! Paper: Cao, Felten, Li, "Implementation and Performance of Application-Controlled File Caching", OSDI '94.

use super::{allocate::Allocate, ledger::Ledger};
use crate::ids::AccountId;

pub(crate) struct AllocLru;

impl Allocate for AllocLru {
    fn overruled(&mut self, _ledger: &mut Ledger, _account: AccountId, _candidate: u32, _victim: u32) {}
}
