//! The automatic manager: it learns when pages come back, and gives up those worth least.
//!
//! `README.md` beside this file states the idea, and is part of [`Automatic`]'s documentation. What accesses
//! tell is in [`learn`], which page is worth least in [`rank`], and whether to follow that, LRU, or ARC, in
//! [`compare`]. A [`Machine`] tells them of events, in their order. This file sees to it that a tenant
//! has a machine that is made for about as many pages as it holds, or none.

mod compare;
mod learn;
mod machine;
mod numbers;
mod rank;
mod shared;
#[cfg(test)]
mod tests;
mod tuning;

use super::{Block, Look, Manager, StreamReport};
use crate::ids::{Access, FrameId, PageId};
use machine::Machine;
use numbers::Numbers;
pub use shared::SharedLearning;
pub use tuning::{Tuning, TuningConstant};

/// Events kept before it is decided whether the tenant gets a machine: several times the accesses after which
/// a stream gets classes of its own.
const EVENTS_MAX: usize = 64;
/// Pages from which on a tenant in a larger pool has a machine: as many as make one cost less than 300 bytes
/// a page. Below, there is little to choose from, and nearly all samples would be of pages that left.
const PAGES_MIN: u32 = 32;
/// One part in this many. A tenant loses its machine below that share of [`PAGES_MIN`], gets a smaller one
/// below that share of the pages that its machine is made for, and never counts as having few pages if it has
/// that share of the pool.
const FEW_SHARE: u32 = 4;
/// Pages from which on a tenant that had few gets a machine even if no victim was asked for. That happens
/// while the pool has free frames.
const MANY: u32 = 4 * PAGES_MIN;
/// Pages of a tenant up to which its machine is made anew for about as many. To refit larger machines again
/// and again would hold up whoever waits for a decision, so a tenant with more pages has a machine for all
/// frames.
const REFITTED_MAX: u32 = 8192;

/// How the automatic manager decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// By what was learned of reuse intervals, always.
    Reuse,
    /// By one of that, LRU and ARC: the one whose shadow cache is least behind.
    Auto,
}

/// What makes a machine, of whatever size.
#[derive(Clone, Copy)]
struct Recipe {
    strategy: Strategy,
    pool_frames: u32,
    seed: u64,
    tuning: Tuning,
}

/// Something that happened. Kept until it shows whether the tenant is to have a machine.
#[derive(Clone, Copy)]
enum Event {
    Loaded(Block),
    Used(FrameId, Access),
    Left(FrameId, PageId),
}

impl Event {
    #[inline]
    fn tell(&self, machine: &mut Machine) {
        match self {
            Self::Loaded(block) => machine.new_block(block),
            Self::Used(frame, access) => machine.block_accessed(*frame, access),
            Self::Left(frame, page) => machine.block_gone(*frame, *page),
        }
    }

    /// Keeps `blocks`, those that are there, in the order in which they came in.
    fn note(&self, blocks: &mut Vec<Block>) {
        match self {
            Self::Loaded(block) => blocks.push(*block),
            Self::Used(..) => {}
            Self::Left(left, _) => blocks.retain(|block| block.frame != *left),
        }
    }
}

/// What a tenant has.
enum State {
    /// Nothing was asked yet, and little happened.
    Waiting(Vec<Event>),
    /// Few pages in a larger pool, in the order in which they came in. What goes is decided by what is
    /// learned [together](SharedLearning), or else by the ledger.
    Few(Vec<Block>),
    Learning(Box<Machine>),
}

#[doc = include_str!("README.md")]
///
/// # Memory
///
/// Nothing until something happens, and 24 bytes a page, rounded up to a power of two, for a tenant that has
/// no more than a few pages of a larger pool. What such tenants learn together costs once what the manager
/// of all their pages would. For others 16 KB, and by page held: 36 bytes (20 for what is known of it, 16 for
/// departed pages) and 18 for its places in the orders of use; 15 for samples from 8,192 pages on, 30 from
/// 4,096 on, and 236 below, where every page is sampled; 5 for classes, at most 170 KB below 32,768 pages;
/// and 112 bytes a stream remembered, at most 4,096. Frames that lie scattered among those of others need 9
/// to 17 bytes more each.
///
/// A machine is made anew, in time proportional to the pages held, when the tenant is to give up a page and
/// holds more than twice as many as its machine is made for, or less than a quarter and no more than 8,192.
/// It learns anew then. A machine for more than 8,192 pages is made for all frames of the pool.
pub struct Automatic {
    recipe: Recipe,
    /// What it learns together with others as long as it has few pages.
    shared: Option<SharedLearning>,
    state: State,
}

impl Automatic {
    /// A manager for a tenant of a pool of `pool_frames`.
    pub fn new(strategy: Strategy, pool_frames: u32, seed: u64) -> Self {
        Self::with_tuning(strategy, pool_frames, seed, &Tuning::default())
    }

    /// The same, with other constants.
    pub fn with_tuning(strategy: Strategy, pool_frames: u32, seed: u64, tuning: &Tuning) -> Self {
        let recipe = Recipe { strategy, pool_frames: pool_frames.max(1), seed, tuning: *tuning };
        Self { recipe, shared: None, state: State::Waiting(Vec::new()) }
    }

    /// One that learns together with others as long as its tenant has few pages.
    pub fn sharing(mut self, shared: &SharedLearning) -> Self {
        self.shared = Some(shared.clone());
        self
    }

    /// An event of a tenant without a machine, from which is learned together.
    fn tell_shared(&self, event: &Event) {
        if let Some(shared) = &self.shared {
            shared.tell(event, &self.recipe);
        }
    }

    /// The tenant learns by itself from now on.
    fn leave_shared(&self, blocks: &[Block]) {
        blocks.iter().for_each(|block| self.tell_shared(&Event::Left(block.frame, block.page)));
    }

    /// A machine that knows what happened so far, for a tenant that may come to hold all frames.
    #[cold]
    fn replayed(&self, events: &[Event]) -> Box<Machine> {
        let mut machine = Box::new(Machine::new(&self.recipe, self.recipe.pool_frames, Numbers::default()));
        events.iter().for_each(|event| event.tell(&mut machine));
        machine
    }

    #[inline]
    fn tell(&mut self, event: Event) {
        match &mut self.state {
            State::Learning(machine) => event.tell(machine),
            State::Few(_) | State::Waiting(_) => self.keep(event),
        }
    }

    /// An event of a tenant without a machine, which may have one then.
    fn keep(&mut self, event: Event) {
        self.tell_shared(&event);
        match &mut self.state {
            State::Waiting(events) => {
                events.push(event);
                if events.len() >= EVENTS_MAX {
                    self.end_wait(self.shared.is_some());
                }
            }
            State::Few(blocks) => {
                event.note(blocks);
                if blocks.len() as u32 >= MANY {
                    self.learn_alone();
                }
            }
            State::Learning(_) => {}
        }
    }

    /// Has a machine of what happened so far, or none if the tenant has few pages and `may_be_few`.
    #[cold]
    fn end_wait(&mut self, may_be_few: bool) {
        let State::Waiting(events) = &mut self.state else { return };
        let events = std::mem::take(events);
        let blocks = blocks_after(&events);
        self.state = if may_be_few && self.are_few(blocks.len() as u32, PAGES_MIN) {
            State::Few(blocks)
        } else {
            self.leave_shared(&blocks);
            State::Learning(self.replayed(&events))
        };
    }

    /// The tenant has too many pages to have no machine.
    fn learn_alone(&mut self) {
        let State::Few(blocks) = &mut self.state else { return };
        let blocks = std::mem::take(blocks);
        self.leave_shared(&blocks);
        self.start_anew(&blocks);
    }

    /// Whether `pages` are few: fewer than `few`, and less than a [share](FEW_SHARE) of the pool.
    fn are_few(&self, pages: u32, few: u32) -> bool {
        pages < few && pages < self.recipe.pool_frames / FEW_SHARE
    }

    /// Called before the tenant gives up a page. Makes the machine anew, or the first one, if what the tenant
    /// has does not fit the number of its pages.
    fn fit(&mut self, look: &dyn Look) {
        if matches!(self.state, State::Waiting(_)) {
            self.end_wait(true);
        }
        match &self.state {
            State::Learning(machine) => {
                let (pages, made_for) = (machine.own().len() as u32, machine.made_for());
                let is_small = made_for < self.recipe.pool_frames && pages > made_for.saturating_mul(2);
                let is_large = pages <= REFITTED_MAX && pages < made_for / FEW_SHARE;
                if is_small || is_large {
                    self.refit(look);
                }
            }
            State::Few(blocks) if !self.are_few(blocks.len() as u32, PAGES_MIN) => self.learn_alone(),
            State::Few(_) | State::Waiting(_) => {}
        }
    }

    #[cold]
    fn refit(&mut self, look: &dyn Look) {
        let State::Learning(machine) = &self.state else { return };
        let blocks: Vec<Block> =
            machine.frames_by_use().into_iter().filter_map(|frame| look.block(frame)).collect();
        let pages = blocks.len() as u32;
        if self.are_few(pages, PAGES_MIN / FEW_SHARE) {
            blocks.iter().for_each(|block| self.tell_shared(&Event::Loaded(*block)));
            self.state = State::Few(blocks);
        } else {
            self.start_anew(&blocks);
        }
    }

    /// A machine that knows nothing but these blocks, which it takes for used in their order.
    fn start_anew(&mut self, blocks: &[Block]) {
        let pool_frames = self.recipe.pool_frames;
        let made_for = match blocks.len() as u32 {
            pages if pages <= REFITTED_MAX => pages.next_power_of_two().max(PAGES_MIN),
            _ => pool_frames,
        };
        let numbers = Numbers::anew(blocks.len() as u32, pool_frames);
        let mut machine = Box::new(Machine::new(&self.recipe, made_for.min(pool_frames), numbers));
        blocks.iter().for_each(|block| machine.new_block(block));
        self.state = State::Learning(machine);
    }
}

/// The blocks that are there after `events`, in the order in which they were used last.
fn blocks_after(events: &[Event]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for event in events {
        event.note(&mut blocks);
        if let Event::Used(used, _) = event
            && let Some(at) = blocks.iter().position(|block| block.frame == *used)
        {
            blocks[at..].rotate_left(1);
        }
    }
    blocks
}

impl Drop for Automatic {
    /// Takes the blocks out of the shared machine, since their frames may next hold blocks of another tenant
    /// that shares it.
    fn drop(&mut self) {
        match &self.state {
            State::Waiting(events) => self.leave_shared(&blocks_after(events)),
            State::Few(blocks) => self.leave_shared(blocks),
            State::Learning(_) => {}
        }
    }
}

impl Manager for Automatic {
    fn new_block(&mut self, block: &Block) {
        self.tell(Event::Loaded(*block));
    }

    fn block_gone(&mut self, frame: FrameId, page: PageId) {
        self.tell(Event::Left(frame, page));
    }

    #[inline]
    fn block_accessed(&mut self, frame: FrameId, access: &Access) {
        self.tell(Event::Used(frame, *access));
    }

    fn choose(&mut self, candidate: FrameId, missing: Option<&Access>, look: &mut dyn Look) -> FrameId {
        self.fit(look);
        self.replace_block(candidate, missing, &mut |frame| look.is_busy(frame))
    }

    /// Looks at 20 blocks or so, and asks whether one is busy only if it would be given up.
    fn replace_block(
        &mut self,
        candidate: FrameId,
        missing: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        if matches!(self.state, State::Waiting(_)) {
            self.end_wait(false);
        }
        match (&mut self.state, &self.shared) {
            (State::Learning(machine), _) => machine.replace_block(candidate, missing, busy),
            (State::Few(blocks), Some(shared)) => {
                shared.least_of(blocks.iter().map(|block| block.frame), candidate, busy)
            }
            (State::Few(_) | State::Waiting(_), _) => candidate,
        }
    }

    fn touch(&self, frames: &mut dyn Iterator<Item = FrameId>) {
        if let State::Learning(machine) = &self.state {
            machine.touch(frames);
        }
    }

    fn touch_pages(&self, pages: &[PageId]) {
        if let State::Learning(machine) = &self.state {
            machine.touch_pages(pages);
        }
    }

    fn touch_question(&self, missing: PageId) {
        if let State::Learning(machine) = &self.state {
            machine.touch_question(missing);
        }
    }

    fn places(
        &self,
        pages: &[PageId],
        frames: &mut dyn Iterator<Item = FrameId>,
        show: &mut dyn FnMut(*const u8),
    ) {
        if let State::Learning(machine) = &self.state {
            machine.places(pages, frames, show);
        }
    }

    fn likely_choice(&self, candidate: FrameId) -> FrameId {
        match &self.state {
            State::Learning(machine) => machine.likely_choice(candidate),
            State::Few(_) | State::Waiting(_) => candidate,
        }
    }

    /// Intervals that are short compared to the time in memory say nothing about when a page may go.
    fn needs_every_hit(&self, _page: PageId) -> bool {
        false
    }

    fn placeholder_used(&mut self, missing: &Access, placeholder: FrameId) {
        match (&mut self.state, &self.shared) {
            (State::Learning(machine), _) => machine.placeholder_used(missing, placeholder),
            (_, Some(shared)) => shared.placeholder_used(missing, placeholder),
            _ => {}
        }
    }

    fn reads_once(&self, frame: FrameId) -> bool {
        matches!(&self.state, State::Learning(machine) if machine.reads_once(frame))
    }

    fn judges_itself(&self) -> bool {
        self.recipe.strategy == Strategy::Auto
    }

    fn streams(&self, first: usize, show: &mut dyn FnMut(&StreamReport) -> bool) {
        match &self.state {
            State::Learning(machine) => machine.streams(first, show),
            State::Waiting(events) => self.replayed(events).streams(first, show),
            State::Few(_) => {}
        }
    }

    fn metadata_bytes(&self) -> usize {
        match &self.state {
            State::Waiting(events) => events.capacity() * size_of::<Event>(),
            State::Few(blocks) => blocks.capacity() * size_of::<Block>(),
            State::Learning(machine) => machine.metadata_bytes(),
        }
    }

    fn check_invariants(&self) {
        let blocks = match &self.state {
            State::Learning(machine) => return machine.check_invariants(),
            State::Waiting(events) => &blocks_after(events),
            State::Few(blocks) => blocks,
        };
        if let Some(shared) = &self.shared {
            shared.check_invariants(blocks.iter().map(|block| block.frame));
        }
    }
}
