//! Shares that a thread keeps in hand, so that taking a reference and dropping it costs no locked operation.
//!
//! A share is one of an `Arc`'s counts, and a place holds one share or none. The thread of the place takes
//! the share out and puts one in by plain loads and stores. Other threads only take shares away, by
//! exchanges, and only shares of a value that has been *given up*; the thread of the place takes no share of
//! such a value. A thread that puts a share in checks afterwards whether anything has been given up. A thread
//! that gives a value up announces that before it looks into the places. So one of the two sees the other
//! (see [`barrier_if_asked`]).

use std::ptr::{null_mut, without_provenance_mut};

use crate::sync::{AtomicPtr, Ordering, barrier_if_asked, const_unless_loom};

/// Places of one thread, and how many of them are for the same shares; powers of two.
pub(crate) const SPARES: usize = 16;
const WAYS: usize = 4;

/// A thread's places.
pub(crate) type Spares = [Spare; SPARES];

/// What is shared, by its address.
pub(crate) type Shared = *mut ();

/// A place for one share.
pub(crate) struct Spare(AtomicPtr<()>);

/// What is in the place of a thread whose places others do not know, which takes no share. Nobody's address.
const SHUT: usize = 1;

impl Spare {
    const_unless_loom! {
        /// That takes no share until it is [opened](Self::open).
        pub fn shut() -> Self {
            Self(AtomicPtr::new(without_provenance_mut(SHUT)))
        }
    }

    /// Where a thread has its shares of `shared`.
    #[inline(always)]
    pub fn among(spares: &Spares, shared: Shared) -> &[Self; WAYS] {
        let hash = (shared.addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let set = (hash >> (u64::BITS - (SPARES / WAYS).ilog2())) as usize;
        &spares.as_chunks::<WAYS>().0[set]
    }

    /// For the thread itself, when others know the place.
    pub fn open(&self) {
        self.0.store(null_mut(), Ordering::Relaxed);
    }

    /// What share is there, for the thread itself. None if the place is shut, too.
    pub fn get(&self) -> Option<Shared> {
        let there = self.0.load(Ordering::Relaxed);
        (there.addr() > SHUT).then_some(there)
    }

    pub fn is_shut(&self) -> bool {
        self.0.load(Ordering::Relaxed).addr() == SHUT
    }

    /// The share of `shared`, which has not been given up, for the thread itself. False if it is not there.
    #[inline(always)]
    pub fn take(&self, shared: Shared) -> bool {
        if self.0.load(Ordering::Relaxed) != shared {
            return false;
        }
        // Relaxed: threads that may take `shared` have done so before it is given up, and other threads look
        // for it only after that.
        self.0.store(null_mut(), Ordering::Relaxed);
        true
    }

    /// Leaves a share of `shared`, for the thread itself; false if there is no room. The caller then looks
    /// whether something has been given up, and if so [takes away](Self::take_away) what it has left.
    #[inline(always)]
    pub fn put(&self, shared: Shared) -> bool {
        if !self.0.load(Ordering::Relaxed).is_null() {
            return false;
        }
        // Release: all that was done with the share comes before what is done by who takes it away.
        self.0.store(shared, Ordering::Release);
        barrier_if_asked();
        true
    }

    /// The share of `shared`, which has been given up, or that of a thread for itself. False if it is not
    /// there.
    pub fn take_away(&self, shared: Shared) -> bool {
        // Acquire pairs with the release in `put`.
        self.0.compare_exchange(shared, null_mut(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// What is there, for the thread itself; nothing more is put there.
    pub fn shut_up(&self) -> Option<Shared> {
        let there = self.0.swap(without_provenance_mut(SHUT), Ordering::Relaxed);
        (there.addr() > SHUT).then_some(there)
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_place_holds_one_share() {
        let (one, other) = (without_provenance_mut(64), without_provenance_mut(128));
        let spare = Spare::shut();
        assert!(spare.is_shut() && !spare.put(one) && spare.get().is_none());
        spare.open();
        assert!(!spare.is_shut() && !spare.take(one));
        assert!(spare.put(one) && !spare.put(one) && !spare.put(other));
        assert!(!spare.take(other) && !spare.take_away(other));
        assert_eq!(spare.get(), Some(one));
        assert!(spare.take(one) && !spare.take(one));
        assert!(spare.put(other) && spare.take_away(other) && !spare.take_away(other));
        assert!(spare.put(one));
        assert_eq!((spare.shut_up(), spare.shut_up()), (Some(one), None));
        assert!(!spare.put(one));
    }

    #[test]
    fn all_places_are_used() {
        let spares: Spares = [const { Spare::shut() }; SPARES];
        let mut used: Vec<*const [Spare; WAYS]> = (1..1000)
            .map(|at| Spare::among(&spares, without_provenance_mut(at * 64)))
            .map(std::ptr::from_ref)
            .collect();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len() * WAYS, SPARES);
    }
}
