//! One LRU list over all tenants: managers are not asked.

use super::{allocate::Allocate, ledger::Ledger};
use crate::ids::AccountId;

pub(crate) struct GlobalLru;

impl Allocate for GlobalLru {
    fn asks_managers(&self) -> bool {
        false
    }

    fn overruled(&mut self, _ledger: &mut Ledger, _account: AccountId, _candidate: u32, _victim: u32) {
        unreachable!("no manager is asked");
    }
}
