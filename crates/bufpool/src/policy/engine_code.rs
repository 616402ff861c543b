//! Code of the engine that runs under the policy lock: managers of its own, and recorders. It must not call
//! back into the pool, which would wait for the lock that its own thread holds; a call that does is refused.

use bufpool_policies::{
    Access, Block, FrameId, Look, Manager, PageId, ProgramStats, SendError, StreamReport, Want, Wish,
    contained,
};

use crate::engine::recorder::{Event, Recorder};
use crate::owner::Owner;

/// A manager of the engine's own, or a recorder. While the pool calls it, the pool refuses the calls that it
/// makes.
pub(crate) struct EngineCode<C: ?Sized> {
    owner: Owner,
    /// None once it is being dropped, which runs the engine's code, too.
    code: Option<Box<C>>,
}

impl<C: ?Sized> EngineCode<C> {
    /// For a pool of this owner.
    pub fn new(owner: Owner, code: Box<C>) -> Self {
        Self { owner, code: Some(code) }
    }

    #[inline]
    fn ask<R>(&self, ask: impl FnOnce(&C) -> R) -> R {
        let _inside = self.owner.enter();
        ask(self.code.as_deref().expect("it is not being dropped"))
    }

    #[inline]
    fn tell<R>(&mut self, tell: impl FnOnce(&mut C) -> R) -> R {
        let _inside = self.owner.enter();
        tell(self.code.as_deref_mut().expect("it is not being dropped"))
    }
}

impl<C: ?Sized> Drop for EngineCode<C> {
    fn drop(&mut self) {
        let _inside = self.owner.enter();
        contained(|| drop(self.code.take()));
    }
}

impl Recorder for EngineCode<dyn Recorder> {
    fn record(&mut self, event: Event<'_>) {
        self.tell(|recorder| recorder.record(event));
    }
}

impl Manager for EngineCode<dyn Manager> {
    fn new_block(&mut self, block: &Block) {
        self.tell(|manager| manager.new_block(block));
    }

    fn block_gone(&mut self, frame: FrameId, page: PageId) {
        self.tell(|manager| manager.block_gone(frame, page));
    }

    fn block_accessed(&mut self, frame: FrameId, access: &Access) {
        self.tell(|manager| manager.block_accessed(frame, access));
    }

    fn replace_block(
        &mut self,
        candidate: FrameId,
        missing: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        self.tell(|manager| manager.replace_block(candidate, missing, busy))
    }

    fn choose(&mut self, candidate: FrameId, missing: Option<&Access>, look: &mut dyn Look) -> FrameId {
        self.tell(|manager| manager.choose(candidate, missing, look))
    }

    fn answer_refused(&mut self) {
        self.tell(Manager::answer_refused);
    }

    fn placeholder_used(&mut self, missing: &Access, placeholder: FrameId) {
        self.tell(|manager| manager.placeholder_used(missing, placeholder));
    }

    fn streams(&self, first: usize, show: &mut dyn FnMut(&StreamReport) -> bool) {
        self.ask(|manager| manager.streams(first, show));
    }

    fn needs_every_hit(&self, page: PageId) -> bool {
        self.ask(|manager| manager.needs_every_hit(page))
    }

    fn touch(&self, frames: &mut dyn Iterator<Item = FrameId>) {
        self.ask(|manager| manager.touch(frames));
    }

    fn touch_pages(&self, pages: &[PageId]) {
        self.ask(|manager| manager.touch_pages(pages));
    }

    fn touch_question(&self, missing: PageId) {
        self.ask(|manager| manager.touch_question(missing));
    }

    fn places(
        &self,
        pages: &[PageId],
        frames: &mut dyn Iterator<Item = FrameId>,
        show: &mut dyn FnMut(*const u8),
    ) {
        self.ask(|manager| manager.places(pages, frames, show));
    }

    fn likely_choice(&self, candidate: FrameId) -> FrameId {
        self.ask(|manager| manager.likely_choice(candidate))
    }

    fn judges_itself(&self) -> bool {
        self.ask(Manager::judges_itself)
    }

    fn knows_ahead(&self) -> bool {
        self.ask(Manager::knows_ahead)
    }

    fn block_ahead(&mut self, block: &Block) {
        self.tell(|manager| manager.block_ahead(block));
    }

    fn wants(&mut self, frames_left: u32, out: &mut Vec<Want>) {
        self.tell(|manager| manager.wants(frames_left, out));
    }

    fn take_wish(&mut self) -> Option<Wish> {
        self.tell(Manager::take_wish)
    }

    fn send(&mut self, slot: &str, value: i64) -> Result<(), SendError> {
        self.tell(|manager| manager.send(slot, value))
    }

    fn reads_once(&self, frame: FrameId) -> bool {
        self.ask(|manager| manager.reads_once(frame))
    }

    fn program_stats(&self) -> Option<ProgramStats> {
        self.ask(Manager::program_stats)
    }

    fn metadata_bytes(&self) -> usize {
        self.ask(Manager::metadata_bytes)
    }

    fn check_invariants(&self) {
        self.ask(Manager::check_invariants);
    }
}
