//! The smallest stamp among the heads of the accounts' ledger lists, in O(log accounts).

use crate::ids::AccountId;

/// A stamp no frame has: the account offers no candidate.
pub(crate) const NO_STAMP: i64 = i64::MAX;

/// A winner tree over accounts: `winners[1]` is the account with the least stamp.
///
/// `set` costs one comparison a level, so a pool with a single account pays nothing.
#[derive(Default)]
pub(crate) struct Heads {
    /// One stamp an account, padded with [`NO_STAMP`] to a power of two.
    stamps: Vec<i64>,
    /// Inner nodes: node `n` has the children `2n` and `2n + 1`; leaf `a` is node `stamps.len() + a`.
    winners: Vec<u32>,
}

impl Heads {
    /// Makes room for `accounts`; the new ones offer nothing.
    pub fn grow(&mut self, accounts: usize) {
        let leaves = accounts.next_power_of_two();
        if leaves <= self.stamps.len() {
            return;
        }
        self.stamps.resize(leaves, NO_STAMP);
        self.winners = vec![0; leaves.max(2)];
        for node in (1..leaves).rev() {
            self.winners[node] = self.winner_below(node);
        }
    }

    /// Where the stamps are.
    pub fn place(&self) -> *const u8 {
        self.stamps.as_ptr().cast()
    }

    pub fn stamp(&self, account: AccountId) -> i64 {
        self.stamps[account.index()]
    }

    /// The account says that its head has `stamp` from now on.
    #[inline]
    pub fn set(&mut self, account: AccountId, stamp: i64) {
        if self.stamps[account.index()] == stamp {
            return;
        }
        self.stamps[account.index()] = stamp;
        let mut node = (self.stamps.len() + account.index()) / 2;
        while node >= 1 {
            self.winners[node] = self.winner_below(node);
            node /= 2;
        }
    }

    /// The account whose head has the least stamp, unless none offers one.
    #[inline]
    pub fn least(&self) -> Option<AccountId> {
        let account = if self.stamps.len() > 1 { self.winners[1] } else { 0 };
        (self.stamps[account as usize] != NO_STAMP).then_some(AccountId(account))
    }

    /// The least stamp, or [`NO_STAMP`].
    pub fn least_stamp(&self) -> i64 {
        self.least().map_or(NO_STAMP, |account| self.stamp(account))
    }

    pub fn metadata_bytes(&self) -> usize {
        self.stamps.capacity() * size_of::<i64>() + self.winners.capacity() * size_of::<u32>()
    }

    fn winner_below(&self, node: usize) -> u32 {
        let of = |child: usize| {
            if child >= self.stamps.len() { (child - self.stamps.len()) as u32 } else { self.winners[child] }
        };
        let (left, right) = (of(2 * node), of(2 * node + 1));
        if self.stamps[right as usize] < self.stamps[left as usize] { right } else { left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_equals_a_scan() {
        let mut heads = Heads::default();
        let mut model: Vec<i64> = Vec::new();
        let mut random = crate::random::SplitMix64::new(7);
        for step in 0..5000 {
            if step % 100 == 0 {
                model.push(NO_STAMP);
                heads.grow(model.len());
            }
            let account = random.below(model.len() as u64) as usize;
            model[account] = if random.below(4) == 0 { NO_STAMP } else { random.below(1 << 40) as i64 };
            heads.set(AccountId(account as u32), model[account]);
            assert_eq!(heads.least_stamp(), *model.iter().min().unwrap());
        }
    }
}
