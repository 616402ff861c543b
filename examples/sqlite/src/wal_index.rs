//! The index of a write-ahead log, which the connections of this process share.
//!
//! It is ordinary memory, because other processes are locked out of the database. So there is no `-shm` file,
//! and SQLite makes the index anew from the log when the first connection opens it.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use libsqlite3_sys::SQLITE_SHM_NLOCK;

use crate::locks::Busy;

const SLOTS: usize = SQLITE_SHM_NLOCK as usize;
/// The index begins with two copies of its header, of 48 bytes each: section 2.1 of SQLite's WAL format.
const HEADER_WORDS: usize = 2 * 48 / size_of::<AtomicU64>();

/// The index of one database.
#[derive(Default)]
pub(crate) struct WalIndex {
    /// Pieces of the index. They do not move, because connections have their addresses.
    regions: Vec<Box<[AtomicU64]>>,
    slots: [Slot; SLOTS],
    /// Connections that use it.
    users: u32,
}

/// One of the locks that SQLite numbers.
#[derive(Clone, Copy, Default)]
struct Slot {
    readers: u32,
    is_exclusive: bool,
}

/// What one connection has of the index.
#[derive(Default)]
pub(crate) struct WalUser {
    is_user: bool,
    held: [Held; SLOTS],
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Held {
    #[default]
    Nothing,
    Shared,
    Exclusive,
}

impl WalIndex {
    /// The address of region `number`, which is made if `extend` says so; none if there is no such region. It
    /// stays valid until the last user [leaves](Self::leave).
    pub fn region(
        &mut self,
        user: &mut WalUser,
        number: usize,
        region_bytes: usize,
        extend: bool,
    ) -> Option<*const AtomicU64> {
        if !user.is_user {
            user.is_user = true;
            self.users += 1;
        }
        while extend && self.regions.len() <= number {
            let words = region_bytes.div_ceil(size_of::<AtomicU64>());
            self.regions.push((0..words).map(|_| AtomicU64::new(0)).collect());
        }
        self.regions.get(number).map(|region| region.as_ptr())
    }

    /// Takes the locks of `slots` for reading or for writing, all or none.
    pub fn lock(&mut self, user: &mut WalUser, slots: Range<usize>, exclusive: bool) -> Result<(), Busy> {
        for (slot, held) in self.slots[slots.clone()].iter().zip(&user.held[slots.clone()]) {
            let is_free = match held {
                Held::Exclusive => true,
                Held::Shared => !exclusive,
                Held::Nothing => !slot.is_exclusive && (!exclusive || slot.readers == 0),
            };
            if !is_free {
                return Err(Busy);
            }
        }
        for number in slots {
            if user.held[number] != Held::Nothing {
                continue;
            }
            let slot = &mut self.slots[number];
            if exclusive {
                slot.is_exclusive = true;
                user.held[number] = Held::Exclusive;
            } else {
                slot.readers += 1;
                user.held[number] = Held::Shared;
            }
        }
        Ok(())
    }

    /// Gives back those of the locks that the caller has.
    pub fn unlock(&mut self, user: &mut WalUser, slots: Range<usize>) {
        for number in slots {
            match std::mem::take(&mut user.held[number]) {
                Held::Nothing => {}
                Held::Shared => self.slots[number].readers -= 1,
                Held::Exclusive => self.slots[number].is_exclusive = false,
            }
        }
    }

    /// Whether a connection has a lock.
    pub fn is_locked(&self) -> bool {
        self.slots.iter().any(|slot| slot.is_exclusive || slot.readers > 0)
    }

    /// Has SQLite make the index anew from the log, as after a crash. Nobody has a lock.
    pub fn invalidate(&mut self) {
        for word in self.regions.iter().take(1).flat_map(|region| &region[..HEADER_WORDS]) {
            // Relaxed: a connection that takes a lock after this sees it by the mutex around the index. One
            // that has read the header before compares it again once it has its lock.
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Makes what other connections wrote to the index before visible to the caller, and the other way round.
    pub fn barrier() {
        fence(Ordering::SeqCst);
    }

    /// Ends the caller's use of the index, and its locks. With the last user the index is dropped.
    pub fn leave(&mut self, user: &mut WalUser) {
        self.unlock(user, 0..SLOTS);
        if std::mem::take(&mut user.is_user) {
            self.users -= 1;
            if self.users == 0 {
                self.regions.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Busy, WalIndex, WalUser};

    #[test]
    fn locks_are_taken_all_or_none_and_leave_with_their_connection() {
        let mut index = WalIndex::default();
        let (mut one, mut two) = (WalUser::default(), WalUser::default());
        assert!(index.region(&mut one, 0, 32768, false).is_none());
        let at = index.region(&mut one, 1, 32768, true).unwrap();
        assert_eq!(index.region(&mut two, 1, 32768, false), Some(at));
        index.lock(&mut one, 3..4, false).unwrap();
        index.lock(&mut two, 3..4, false).unwrap();
        assert_eq!(index.lock(&mut two, 2..5, true), Err(Busy));
        index.lock(&mut one, 2..3, true).unwrap();
        index.unlock(&mut one, 2..4);
        index.leave(&mut two);
        assert_eq!(index.lock(&mut one, 0..8, true), Ok(()));
        assert_eq!(index.lock(&mut two, 0..1, false), Err(Busy));
        index.leave(&mut one);
        index.lock(&mut two, 0..8, true).unwrap();
        assert!(index.region(&mut two, 1, 32768, false).is_none());
    }
}
