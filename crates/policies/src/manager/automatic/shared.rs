//! What tenants with few pages learn together.
//!
//! A tenant of a dozen pages sees too little to learn by, and a machine of its own costs as much as they do.
//! Such tenants have one machine for all, which learns when the pages of a stream come back, whoever's they
//! are; each of them gives up its own page that is worth least by that. What one learned helps the next one
//! that runs the same code on the same file. Frames are not shared: a tenant never gives up another's page.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::machine::Machine;
use super::numbers::Numbers;
use super::{Event, Recipe};
use crate::ids::{Access, FrameId};
use crate::manager::Manager;

/// What the tenants of a pool that have few pages learn together. Clones are the same.
///
/// The lock is taken for each event of such a tenant, and never waited for where all events come under a lock
/// of the pool's. Nothing is made before the first event; then it costs as the manager of all their pages
/// together does.
#[derive(Clone, Default)]
pub struct SharedLearning(Arc<Mutex<Option<Box<Machine>>>>);

impl SharedLearning {
    /// A manager that panicked while it held the lock does not stop the others: the lock's poisoning is
    /// ignored.
    fn lock(&self) -> MutexGuard<'_, Option<Box<Machine>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, event: &Event, recipe: &Recipe) {
        let mut locked = self.lock();
        if locked.is_none() && matches!(event, Event::Loaded(_)) {
            let numbers = Numbers::anew(1, recipe.pool_frames);
            *locked = Some(Box::new(Machine::new(recipe, recipe.pool_frames, numbers).without_orders()));
        }
        if let Some(machine) = &mut *locked {
            event.tell(machine);
        }
    }

    /// Bytes of memory held, beside those of the managers that share it.
    pub fn metadata_bytes(&self) -> usize {
        self.lock().as_ref().map_or(0, |machine| machine.metadata_bytes())
    }

    /// Panics if what is known is at odds with itself, or does not have these blocks.
    pub(super) fn check_invariants(&self, mut blocks: impl Iterator<Item = FrameId>) {
        let locked = self.lock();
        let Some(machine) = &*locked else { return assert!(blocks.next().is_none(), "blocks of a member") };
        machine.check_invariants();
        assert!(blocks.all(|frame| machine.holds(frame)), "blocks of a member");
    }

    pub(super) fn placeholder_used(&self, missing: &Access, placeholder: FrameId) {
        if let Some(machine) = &mut *self.lock() {
            machine.placeholder_used(missing, placeholder);
        }
    }

    /// Which of the tenant's `frames` goes: the one worth least, or `candidate` where LRU leads.
    pub(super) fn least_of(
        &self,
        frames: impl Iterator<Item = FrameId>,
        candidate: FrameId,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        match &mut *self.lock() {
            Some(machine) => machine.least_of(frames, candidate, busy),
            None => candidate,
        }
    }
}
