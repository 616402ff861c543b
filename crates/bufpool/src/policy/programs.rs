//! Policy programs as a pool runs them: with a clock now and then, which the deciding core does not have, and
//! with wishes that the pool carries out.

use std::sync::Arc;
use std::time::Instant;

use bufpool_policies::program::{Program, ProgramManager, ProgramOptions};
use bufpool_policies::{
    Access, Block, FrameId, Look, Manager, PageId, ProgramStats, SendError, TenantId, Wish,
};

use crate::files::shared::FileShared;

/// One event in this number is timed, and stands for the others. A prime, so that events that alternate are
/// timed alike.
const TIMED_EVERY: u64 = 61;

/// A program that manages a tenant of a pool.
pub(crate) struct LiveProgram {
    manager: ProgramManager,
    /// Events that the manager was told of, or asked about.
    told: u64,
    /// Time of those that were timed.
    timed_ns: u64,
}

impl LiveProgram {
    /// For a tenant that may run it: a privileged one, to which frames were granted, if the program is.
    pub fn new(program: &Program, options: ProgramOptions, granted_frames: u32) -> Self {
        let manager = ProgramManager::privileged(program, options, granted_frames);
        Self { manager, told: 0, timed_ns: 0 }
    }

    #[inline]
    fn timed<R>(&mut self, event: impl FnOnce(&mut ProgramManager) -> R) -> R {
        self.told += 1;
        if !self.told.is_multiple_of(TIMED_EVERY) {
            return event(&mut self.manager);
        }
        let start = Instant::now();
        let result = event(&mut self.manager);
        self.timed_ns += start.elapsed().as_nanos() as u64;
        result
    }
}

impl Manager for LiveProgram {
    fn new_block(&mut self, block: &Block) {
        self.timed(|manager| manager.new_block(block));
    }

    fn block_gone(&mut self, frame: FrameId, page: PageId) {
        self.timed(|manager| manager.block_gone(frame, page));
    }

    fn block_accessed(&mut self, frame: FrameId, access: &Access) {
        self.timed(|manager| manager.block_accessed(frame, access));
    }

    fn replace_block(
        &mut self,
        candidate: FrameId,
        missing: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        self.timed(|manager| manager.replace_block(candidate, missing, busy))
    }

    fn choose(&mut self, candidate: FrameId, missing: Option<&Access>, look: &mut dyn Look) -> FrameId {
        self.timed(|manager| manager.choose(candidate, missing, look))
    }

    fn answer_refused(&mut self) {
        self.manager.answer_refused();
    }

    fn placeholder_used(&mut self, missing: &Access, placeholder: FrameId) {
        self.timed(|manager| manager.placeholder_used(missing, placeholder));
    }

    fn needs_every_hit(&self, page: PageId) -> bool {
        self.manager.needs_every_hit(page)
    }

    fn take_wish(&mut self) -> Option<Wish> {
        self.manager.take_wish()
    }

    fn send(&mut self, slot: &str, value: i64) -> Result<(), SendError> {
        self.manager.send(slot, value)
    }

    fn program_stats(&self) -> Option<ProgramStats> {
        Some(ProgramStats { spent_ns: self.timed_ns * TIMED_EVERY, ..self.manager.stats() })
    }

    fn metadata_bytes(&self) -> usize {
        size_of::<Self>() - size_of::<ProgramManager>() + self.manager.metadata_bytes()
    }

    fn check_invariants(&self) {
        self.manager.check_invariants();
    }
}

/// A wish of a tenant's program, about a page of the file.
pub(crate) struct Wished {
    pub tenant: TenantId,
    /// The tenant's [`serial`](crate::policy::tenant_entry::TenantEntry::serial): its number may be another's
    /// before the wish is carried out.
    pub serial: u64,
    pub wish: Wish,
    pub file: Arc<FileShared>,
}
