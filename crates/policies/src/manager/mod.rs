//! Level two: which of a tenant's pages goes.
//!
//! A manager only advises. The directory asks it when its tenant is to give up a frame, validates the
//! answer, and makes the tenant bear the cost of a wrong one.

use std::cell::Cell;

use crate::{
    contained::contained,
    frame_table::{FrameTable, Origin},
    ids::{Access, ContextId, FileId, FrameId, PageId},
};

pub(crate) mod automatic;
mod kind;
pub(crate) mod partitioned;
pub(crate) mod priority_pools;
mod program_stats;
mod ranges;
mod stream_report;

pub use kind::ManagerKind;
pub(crate) use priority_pools::PriorityPools;
pub use program_stats::{EventCalls, Incident, ProgramStats, SendError, Unloaded};
pub use stream_report::StreamReport;

/// A block that came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Where it is. Numbers may be above those of the frames that pages fill at a time: the pool exchanges
    /// frames with its reserve.
    pub frame: FrameId,
    /// Which page it is.
    pub page: PageId,
    /// The file of the page.
    pub file: FileId,
    /// The context of the access that loaded it.
    pub context: ContextId,
    /// Whether that access [gave it new contents](Access::creates).
    pub created: bool,
}

/// A page that a manager would have brought in before its first access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// Which page.
    pub page: PageId,
    /// When it is needed: a number of the manager's own, larger for pages that are needed later.
    pub position: u64,
}

/// The most pages of one answer of [`Manager::wants`] that are looked at.
pub const WANTS_MAX: usize = 256;

/// What a manager may look at while it answers a question.
pub trait Look {
    /// Whether the frame could not be taken now: pinned, latched, in I/O, or not the tenant's. Costs a few
    /// loads.
    fn is_busy(&mut self, frame: FrameId) -> bool;

    /// Whether the page in the frame has changes that its file does not have. False where the driver does
    /// not know.
    fn is_modified(&mut self, frame: FrameId) -> bool;

    /// Frames that the tenant may take before it is at its cap.
    fn frames_left(&self) -> u32;

    /// The block of the tenant in `frame`, if there is one. Its context is that of the access that loaded it.
    /// `None` also where the driver does not tell.
    fn block(&self, _frame: FrameId) -> Option<Block> {
        None
    }
}

/// Something that a manager would have the driver do. The page may have left by the time that the driver
/// looks at it; then the wish is void. A driver may leave any wish undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// The page is to be written, if it is modified. Nobody waits for it.
    Flush {
        /// Where the page is.
        frame: FrameId,
        /// The page.
        page: PageId,
    },
    /// The page is to count as modified.
    SetModified {
        /// Where the page is.
        frame: FrameId,
        /// The page.
        page: PageId,
    },
    /// The page is to leave.
    Release {
        /// Where the page is.
        frame: FrameId,
        /// The page.
        page: PageId,
    },
}

/// Wishes that a manager keeps at most; what it would wish beyond is dropped.
pub const WISHES_MAX: usize = 64;

/// A way of choosing: the five calls of the LRU-SP paper (section 4, "BUF/ACM interface"), which each manager
/// implements, and others, which have defaults.
///
/// Calls come in the order of events, under the pool's policy lock: they must not block, and should state a
/// bound on their steps. A manager sees only the blocks of its own tenant and has no handle to the pool. It
/// may panic: the panic is caught and counted, and the tenant is unmanaged from then on.
pub trait Manager: Send {
    /// `block` has been loaded. When the manager becomes a tenant's, this is called for each of its resident
    /// blocks, in the order in which they would be replaced.
    fn new_block(&mut self, block: &Block);

    /// The block in `frame` has left: evicted, discarded, or its file is gone.
    fn block_gone(&mut self, frame: FrameId, page: PageId);

    /// The block in `frame` was found by `access`, perhaps one of another tenant. (The paper also passes
    /// offset and size; an access here is to the whole page.)
    fn block_accessed(&mut self, frame: FrameId, access: &Access);

    /// The tenant must give up a frame, and the pool would take `candidate`: names the frame to take.
    ///
    /// `missing` is the access that needs a frame; none when the tenant shrinks to a smaller cap, or frames
    /// leave ahead of need. `busy` tells whether a frame could not be taken now; it costs a few loads. Any
    /// answer that is not one of the tenant's own free-to-take blocks counts as `candidate`.
    fn replace_block(
        &mut self,
        candidate: FrameId,
        missing: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId;

    /// As [`replace_block`](Self::replace_block), for managers that look at more than whether a frame is
    /// busy. This is what the directory calls.
    fn choose(&mut self, candidate: FrameId, missing: Option<&Access>, look: &mut dyn Look) -> FrameId {
        self.replace_block(candidate, missing, &mut |frame| look.is_busy(frame))
    }

    /// The answer to the last question named no block of the tenant, or one that could not be taken. The
    /// candidate goes instead.
    fn answer_refused(&mut self) {}

    /// `missing` was evicted by this manager's choice while the candidate, now in `placeholder`, stayed and
    /// was not used since: the overrule was a mistake. A question with `placeholder` as its candidate
    /// follows.
    fn placeholder_used(&mut self, missing: &Access, placeholder: FrameId);

    /// Shows what the manager knows of each stream it remembers, in an order of its own, from the stream with
    /// number `first` on and for as long as `show` answers true. What is shown costs O(1) a stream, because
    /// drivers ask for a few at a time. A manager that does not tell streams apart shows none.
    fn streams(&self, _first: usize, _show: &mut dyn FnMut(&StreamReport) -> bool) {}

    /// Whether `block_accessed` has to be called for each hit on `page`. If not, a hit may be left out that
    /// comes shortly after another one on the same page; "shortly" is a fraction of the time that an unused
    /// page stays in memory. The first two hits after a load are never left out.
    fn needs_every_hit(&self, _page: PageId) -> bool {
        true
    }

    /// Hits on the blocks in `frames` follow shortly: touches what [`block_accessed`](Self::block_accessed)
    /// will touch, so that it comes from memory side by side and not one after the other. Frames may hold no
    /// block, or another tenant's. Changes nothing.
    fn touch(&self, _frames: &mut dyn Iterator<Item = FrameId>) {}

    /// `pages` come or go shortly: touches what [`new_block`](Self::new_block) and
    /// [`block_gone`](Self::block_gone) will look up by page, as [`touch`](Self::touch) does for hits.
    /// Pages may be another tenant's. Changes nothing.
    fn touch_pages(&self, _pages: &[PageId]) {}

    /// A question for `missing` follows: touches what [`choose`](Self::choose) will look at, and what
    /// [`new_block`](Self::new_block) will look up by page. Changes nothing.
    fn touch_question(&self, _missing: PageId) {}

    /// The block that [`choose`](Self::choose) would probably name now, for drivers that fetch what they know
    /// of it beforehand. No decision depends on it. Called after each question, so it should look at little.
    fn likely_choice(&self, candidate: FrameId) -> FrameId {
        candidate
    }

    /// Shows the addresses of what the manager looks up when `pages` come or go, and when the blocks in
    /// `frames` are used or go, for drivers that can fetch memory without waiting for it. The addresses are
    /// found without reading what is there, and may be any where nothing is. Frames may hold no block, or
    /// another tenant's.
    fn places(
        &self,
        _pages: &[PageId],
        _frames: &mut dyn Iterator<Item = FrameId>,
        _show: &mut dyn FnMut(*const u8),
    ) {
    }

    /// Whether the manager itself finds out when it does worse than the ledger, and follows the ledger then.
    /// Such a manager is not revoked, because the misses that it compares say more than single mistakes do.
    /// Other tenants are protected from it as from any manager.
    fn judges_itself(&self) -> bool {
        false
    }

    /// Whether the manager takes part in what happens before a page's first access: it is told of blocks that
    /// came in ahead ([`block_ahead`](Self::block_ahead)), is asked when the candidate is one, may name one,
    /// and may [want](Self::wants) pages. Asked once, when it becomes a tenant's manager.
    fn knows_ahead(&self) -> bool {
        false
    }

    /// `block` has been loaded before its first access, in the context that is expected to make it, if one is
    /// known. Only for managers that [know](Self::knows_ahead). The first access is told as
    /// [`new_block`](Self::new_block); if the block leaves before it, [`block_gone`](Self::block_gone) is
    /// called.
    fn block_ahead(&mut self, _block: &Block) {}

    /// Appends pages that the manager would have brought in to `out`, the one needed first coming first.
    ///
    /// `frames_left` pages may come in now. No more than [`WANTS_MAX`] wants are looked at; those that are
    /// resident, on their way, repeated, or beyond the end of an open file are left out. Only for managers
    /// that [know](Self::knows_ahead), after misses of the tenant, and after some of its hits. The same wants
    /// may be given again.
    fn wants(&mut self, _frames_left: u32, _out: &mut Vec<Want>) {}

    /// The oldest wish that was not taken yet. The driver asks after questions, until there is none.
    fn take_wish(&mut self) -> Option<Wish> {
        None
    }

    /// Sets a parameter that the manager's program calls `slot`.
    fn send(&mut self, _slot: &str, _value: i64) -> Result<(), SendError> {
        Err(SendError::NoProgram)
    }

    /// Whether the block in `frame` is of a stream that reads its pages once, so that nobody will miss it.
    /// Asked when it leaves, to keep scans out of a tier below.
    fn reads_once(&self, _frame: FrameId) -> bool {
        false
    }

    /// What the manager's program did, if it runs one.
    fn program_stats(&self) -> Option<ProgramStats> {
        None
    }

    /// Bytes of memory held.
    fn metadata_bytes(&self) -> usize {
        0
    }

    /// Panics if the state contradicts itself. For tests.
    fn check_invariants(&self) {}
}

/// How a tenant's blocks are managed.
#[derive(Default)]
pub(crate) enum Control {
    /// Not at all: the tenant gives up its candidates.
    #[default]
    None,
    /// By directives.
    Pools(Box<PriorityPools>),
    /// By a manager; directives replace it if `yields_to_directives`.
    Manager(Managed),
}

/// A manager of this crate's or of the engine's own.
pub(crate) struct Managed {
    manager: Box<dyn Manager>,
    pub yields_to_directives: bool,
    /// It has panicked in a call that returns no error. The next [`new_block`](Control::new_block) or
    /// [`replace_block`](Control::replace_block) returns one.
    has_panicked: Cell<bool>,
}

impl Managed {
    /// What `ask` returns, or `otherwise` if it panics, which is noted.
    #[inline(always)]
    fn ask<R>(&self, otherwise: R, ask: impl FnOnce(&dyn Manager) -> R) -> R {
        contained(|| ask(&*self.manager)).unwrap_or_else(|| {
            self.has_panicked.set(true);
            otherwise
        })
    }

    pub fn check_invariants(&self) {
        self.manager.check_invariants();
    }

    /// Fails if it has panicked.
    fn check(&self) -> Result<(), Panicked> {
        if self.has_panicked.get() { Err(Panicked) } else { Ok(()) }
    }
}

/// A manager panicked; it must not be called again.
pub(crate) struct Panicked;

impl Control {
    /// By `manager`.
    pub fn by(manager: Box<dyn Manager>, yields_to_directives: bool) -> Self {
        Self::Manager(Managed { manager, yields_to_directives, has_panicked: Cell::new(false) })
    }

    pub fn is_managed(&self) -> bool {
        !matches!(self, Control::None)
    }

    pub fn new_block(&mut self, frames: &mut FrameTable, frame: u32) -> Result<(), Panicked> {
        match self {
            Control::None => Ok(()),
            Control::Pools(pools) => {
                pools.new_block(frames, frame);
                Ok(())
            }
            Control::Manager(managed) => {
                managed.check()?;
                let block = block_in(frames, frame);
                call(|| managed.manager.new_block(&block))
            }
        }
    }

    pub fn knows_ahead(&self) -> bool {
        match self {
            Control::None | Control::Pools(_) => false,
            Control::Manager(managed) => managed.ask(false, |manager| manager.knows_ahead()),
        }
    }

    pub fn block_ahead(&mut self, frames: &FrameTable, frame: u32) -> Result<(), Panicked> {
        match self {
            Control::None | Control::Pools(_) => Ok(()),
            Control::Manager(Managed { manager, .. }) => {
                let block = block_in(frames, frame);
                call(|| manager.block_ahead(&block))
            }
        }
    }

    /// Appends at most [`WANTS_MAX`] wants.
    pub fn wants(&mut self, frames_left: u32, out: &mut Vec<Want>) -> Result<(), Panicked> {
        match self {
            Control::None | Control::Pools(_) => Ok(()),
            Control::Manager(Managed { manager, .. }) => {
                // Not `out` itself, so that a manager that panics or removes wants leaves those of others.
                let mut wants = Vec::new();
                call(|| manager.wants(frames_left, &mut wants))?;
                out.extend(wants.into_iter().take(WANTS_MAX));
                Ok(())
            }
        }
    }

    pub fn block_gone(&mut self, frames: &mut FrameTable, frame: u32, evicted: bool) -> Result<(), Panicked> {
        match self {
            Control::None => Ok(()),
            Control::Pools(pools) => {
                pools.block_gone(frames, frame, evicted);
                Ok(())
            }
            Control::Manager(Managed { manager, .. }) => {
                call(|| manager.block_gone(FrameId(frame), frames[frame].page))
            }
        }
    }

    // Inlined because it has only two callers, one of which runs for every hit.
    #[inline(always)]
    pub fn block_accessed(
        &mut self,
        frames: &mut FrameTable,
        frame: u32,
        access: &Access,
    ) -> Result<(), Panicked> {
        match self {
            Control::None => Ok(()),
            Control::Pools(pools) => {
                pools.block_accessed(frames, frame);
                Ok(())
            }
            Control::Manager(Managed { manager, .. }) => {
                call(|| manager.block_accessed(FrameId(frame), access))
            }
        }
    }

    pub fn replace_block(
        &mut self,
        frames: &FrameTable,
        candidate: u32,
        missing: Option<&Access>,
        look: &mut dyn Look,
    ) -> Result<u32, Panicked> {
        match self {
            Control::None => Ok(candidate),
            Control::Pools(pools) => {
                Ok(pools.replace_block(frames, candidate, missing, &mut |frame| look.is_busy(frame)))
            }
            Control::Manager(managed) => {
                managed.check()?;
                call(|| managed.manager.choose(FrameId(candidate), missing, look)).map(|frame| frame.0)
            }
        }
    }

    pub fn answer_refused(&mut self) -> Result<(), Panicked> {
        match self {
            Control::None | Control::Pools(_) => Ok(()),
            Control::Manager(Managed { manager, .. }) => call(|| manager.answer_refused()),
        }
    }

    pub fn take_wish(&mut self) -> Result<Option<Wish>, Panicked> {
        match self {
            Control::None | Control::Pools(_) => Ok(None),
            Control::Manager(Managed { manager, .. }) => call(|| manager.take_wish()),
        }
    }

    pub fn send(&mut self, slot: &str, value: i64) -> Result<Result<(), SendError>, Panicked> {
        match self {
            Control::None | Control::Pools(_) => Ok(Err(SendError::NoProgram)),
            Control::Manager(Managed { manager, .. }) => call(|| manager.send(slot, value)),
        }
    }

    pub fn reads_once(&self, frame: FrameId) -> bool {
        match self {
            Control::None | Control::Pools(_) => false,
            Control::Manager(managed) => managed.ask(false, |manager| manager.reads_once(frame)),
        }
    }

    pub fn program_stats(&self) -> Option<ProgramStats> {
        match self {
            Control::None | Control::Pools(_) => None,
            Control::Manager(managed) => managed.ask(None, |manager| manager.program_stats()),
        }
    }

    pub fn placeholder_used(&mut self, missing: &Access, placeholder: u32) -> Result<(), Panicked> {
        match self {
            Control::None | Control::Pools(_) => Ok(()),
            Control::Manager(Managed { manager, .. }) => {
                call(|| manager.placeholder_used(missing, FrameId(placeholder)))
            }
        }
    }

    pub fn streams(&self, first: usize, show: &mut dyn FnMut(&StreamReport) -> bool) -> Result<(), Panicked> {
        match self {
            Control::None | Control::Pools(_) => Ok(()),
            Control::Manager(Managed { manager, .. }) => call(|| manager.streams(first, show)),
        }
    }

    /// Whether each hit on a block that holds `page` matters.
    #[inline]
    pub fn needs_every_hit(&self, page: PageId) -> bool {
        match self {
            Control::None => false,
            Control::Pools(_) => true,
            // A manager that panics here is told every hit.
            Control::Manager(managed) => managed.ask(true, |manager| manager.needs_every_hit(page)),
        }
    }

    pub fn touch(&self, frames: &mut dyn Iterator<Item = FrameId>) {
        if let Control::Manager(managed) = self {
            managed.ask((), |manager| manager.touch(frames));
        }
    }

    pub fn touch_pages(&self, pages: &[PageId]) {
        if let Control::Manager(managed) = self {
            managed.ask((), |manager| manager.touch_pages(pages));
        }
    }

    pub fn touch_question(&self, missing: PageId) {
        if let Control::Manager(managed) = self {
            managed.ask((), |manager| manager.touch_question(missing));
        }
    }

    pub fn places(
        &self,
        pages: &[PageId],
        frames: &mut dyn Iterator<Item = FrameId>,
        show: &mut dyn FnMut(*const u8),
    ) {
        if let Control::Manager(managed) = self {
            managed.ask((), |manager| manager.places(pages, frames, show));
        }
    }

    pub fn likely_choice(&self, candidate: FrameId) -> FrameId {
        match self {
            Control::Manager(managed) => managed.ask(candidate, |manager| manager.likely_choice(candidate)),
            _ => candidate,
        }
    }

    pub fn judges_itself(&self) -> bool {
        match self {
            Control::None | Control::Pools(_) => false,
            Control::Manager(managed) => managed.ask(false, |manager| manager.judges_itself()),
        }
    }

    pub fn metadata_bytes(&self) -> usize {
        match self {
            Control::None => 0,
            Control::Pools(pools) => pools.metadata_bytes(),
            Control::Manager(managed) => managed.ask(0, |manager| manager.metadata_bytes()),
        }
    }
}

pub(crate) fn block_in(frames: &FrameTable, frame: u32) -> Block {
    let Origin { file, context, created } = frames.origin(frame);
    Block { frame: FrameId(frame), page: frames[frame].page, file, context, created }
}

/// Calls into a manager. Its state may be broken after a panic, which is why the directory drops it then.
#[inline(always)]
fn call<R>(call: impl FnOnce() -> R) -> Result<R, Panicked> {
    contained(call).ok_or(Panicked)
}

/// Takes the blocks out of the levels of priority pools, and drops the manager. The drop may run code of the
/// engine, so its panic is contained, too.
pub(crate) fn drop_control(mut control: Control, frames: &mut FrameTable) {
    if let Control::Pools(pools) = &mut control {
        pools.unlink_all(frames);
    }
    contained(|| drop(control));
}
