//! LRU-S, LRU-SP's ablation without placeholders: an overruled candidate takes the victim's place.
//!
//! Paper: Cao, Felten, Li, "Implementation and Performance of Application-Controlled File Caching", OSDI '94.

use super::{allocate::Allocate, ledger::Ledger};
use crate::ids::AccountId;

pub(crate) struct LruS;

impl Allocate for LruS {
    fn overruled(&mut self, ledger: &mut Ledger, account: AccountId, candidate: u32, victim: u32) {
        ledger.swap(account, candidate, victim);
    }
}
