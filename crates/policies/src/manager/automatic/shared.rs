//! What tenants with few pages learn together.
//!
//! A tenant of a dozen pages sees too little to learn by, and a machine of its own costs as much as they do.
//! Such tenants have one machine for all, which learns when the pages of a stream come back, whoever's they
//! are; each of them gives up its own page that is worth least by that. What one learned helps the next one
//! that runs the same code on the same file. Frames are not shared: a tenant never gives up another's page.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::machine::Machine;
use super::numbers::Numbers;
use super::tuning::Tuning;
use super::{Numbered, Strategy};
use crate::ids::{Access, FrameId, PageId};
use crate::manager::{Block, Manager};

/// What the tenants of a pool that have few pages learn together. Clones are the same.
///
/// The lock is taken for each event of such a tenant, and never waited for where all events come under a lock
/// of the pool's. Nothing is made before the first event; then it costs as the manager of all their pages
/// together does.
#[derive(Clone, Default)]
pub struct SharedLearning(Arc<Mutex<Option<Box<Numbered>>>>);

/// What makes a machine.
pub(super) struct Recipe<'a> {
    pub strategy: Strategy,
    pub pool_frames: u32,
    pub seed: u64,
    pub tuning: &'a Tuning,
}

impl SharedLearning {
    /// A manager's panic leaves it as it is.
    fn lock(&self) -> MutexGuard<'_, Option<Box<Numbered>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn new_block(&self, block: &Block, recipe: &Recipe<'_>) {
        let made = || {
            let Recipe { strategy, pool_frames, seed, tuning } = *recipe;
            let machine = Machine::new(strategy, pool_frames, seed, tuning).without_orders();
            Box::new(Numbered { machine, numbers: Numbers::anew(1, pool_frames) })
        };
        self.lock().get_or_insert_with(made).new_block(block);
    }

    pub(super) fn block_accessed(&self, frame: FrameId, access: &Access) {
        if let Some(learning) = &mut *self.lock() {
            learning.block_accessed(frame, access);
        }
    }

    pub(super) fn block_gone(&self, frame: FrameId, page: PageId) {
        if let Some(learning) = &mut *self.lock() {
            learning.block_gone(frame, page);
        }
    }

    /// Bytes of memory held, beside those of the managers that share it.
    pub fn metadata_bytes(&self) -> usize {
        let bytes = |learning: &Numbered| learning.metadata_bytes();
        self.lock().as_deref().map_or(0, bytes)
    }

    /// Panics if what is known is at odds with itself, or does not have these blocks.
    pub(super) fn check_invariants(&self, mut blocks: impl Iterator<Item = FrameId>) {
        let locked = self.lock();
        let Some(learning) = &*locked else { return assert!(blocks.next().is_none(), "blocks of a member") };
        learning.check_invariants();
        let has = |frame: FrameId| {
            let number = learning.numbers.find(frame.0);
            number.is_some_and(|number| learning.machine.own().contains(&number))
        };
        assert!(blocks.all(has), "blocks of a member");
    }

    pub(super) fn placeholder_used(&self, missing: &Access, placeholder: FrameId) {
        if let Some(learning) = &mut *self.lock() {
            learning.machine.placeholder_used(missing, placeholder);
        }
    }

    /// Which of the tenant's `frames` goes: `candidate`, unless values lead.
    pub(super) fn least_of(
        &self,
        frames: impl Iterator<Item = FrameId>,
        candidate: FrameId,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        let mut locked = self.lock();
        let Some(learning) = &mut *locked else { return candidate };
        let Numbered { machine, numbers } = &mut **learning;
        let Some(number) = numbers.find(candidate.0) else { return candidate };
        let mut own = frames.filter_map(|frame| numbers.find(frame.0));
        let mut is_busy = |number: u32| busy(FrameId(numbers.frame(number)));
        FrameId(numbers.frame(machine.least_of(&mut own, number, &mut is_busy)))
    }
}
