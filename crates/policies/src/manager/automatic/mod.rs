//! The automatic manager: it learns when pages come back, and gives up those worth least.
//!
//! `README.md` beside this file states the idea, and is part of [`Automatic`]'s documentation. What accesses
//! tell is in [`learn`], which page is worth least in [`rank`], and how far to follow that, LRU, or ARC, in
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
use shared::Recipe;
pub use shared::SharedLearning;
pub use tuning::{Tuning, TuningConstant};

/// Events that are kept until it shows whether the tenant is to have a machine: as many as a stream has
/// before it has classes of its own, several times over.
const EVENTS_MAX: usize = 64;
/// Pages from which on a tenant in a larger pool has a machine: as many as make one cost less than 300 bytes
/// a page. Below, there is little to choose from, and nearly all samples would be of pages that left.
const PAGES_MIN: u32 = 32;
/// The share of that below which it loses the machine again, and of the pages that a machine is made for
/// below which it gets a lesser one.
const FEW_SHARE: u32 = 4;
/// Pages from which on a tenant that had few has a machine although it was not asked: frames are free.
const MANY: u32 = 4 * PAGES_MIN;
/// Pages of a tenant up to which its machine is made anew for about as many. To make one for more would hold
/// up whoever waits for a decision; such a tenant has one that is made for all frames.
const REFITTED_MAX: u32 = 8192;

/// How the automatic manager decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// By what was learned of reuse intervals, always.
    Reuse,
    /// By that, by LRU or by ARC: each has a share of the cache that falls with the misses of its shadow
    /// cache.
    Auto,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Self; 2] = [Self::Reuse, Self::Auto];

    /// Its name in commands and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reuse => "reuse",
            Self::Auto => "auto",
        }
    }
}

/// Something that happened before a tenant had a machine.
#[derive(Clone, Copy)]
enum Event {
    Loaded(Block),
    Used(FrameId, Access),
    Left(FrameId, PageId),
}

/// A machine, and its numbers for the tenant's frames.
struct Numbered {
    machine: Machine,
    numbers: Numbers,
}

/// What a tenant has.
enum State {
    /// Nothing was asked yet, and little happened.
    Waiting(Vec<Event>),
    /// Few pages in a larger pool, in the order in which they came in. What goes is decided by what is
    /// learned [together](SharedLearning), or else by the ledger.
    Few(Vec<Block>),
    Learning(Box<Numbered>),
}

#[doc = include_str!("README.md")]
///
/// # Memory
///
/// Nothing until something happens, and 24 bytes a page, rounded up to a power of two, for a tenant that has
/// no more than a few pages of a larger pool. What such tenants learn together costs once what the manager
/// of all their pages would. For others 9 KB, and by page held: 36 bytes (20 for what is known of it, 16 for
/// departed pages) and 18 for its places in the orders of use; 15 for samples from 8,192 pages on (30 from
/// 4,096). Below, where every page is sampled, samples need 252 bytes, and nothing else keeps an order. 5
/// for classes, at most 170 KB below 32,768 pages; and 96 bytes a stream remembered, at most 4,096. Frames
/// that lie scattered among those of others need 9 to 17 bytes more each.
///
/// A machine is made anew, in time proportional to the pages held, when the tenant is to give up a page and
/// holds more than twice as many as its machine is made for, or less than a quarter and no more than 8,192.
/// It learns anew then. One for more than 8,192 pages is made for all frames of the pool, and stays.
pub struct Automatic {
    strategy: Strategy,
    pool_frames: u32,
    seed: u64,
    tuning: Tuning,
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
        let state = State::Waiting(Vec::new());
        Self { strategy, pool_frames: pool_frames.max(1), seed, tuning: *tuning, shared: None, state }
    }

    /// One that learns together with others as long as its tenant has few pages.
    pub fn sharing(mut self, shared: &SharedLearning) -> Self {
        self.shared = Some(shared.clone());
        self
    }

    /// An event of a tenant without a machine, from which is learned together.
    #[inline]
    fn tell_shared(&self, event: Event) {
        let Some(shared) = &self.shared else { return };
        match event {
            Event::Loaded(block) => {
                let Self { strategy, pool_frames, seed, ref tuning, .. } = *self;
                shared.new_block(&block, &Recipe { strategy, pool_frames, seed, tuning });
            }
            Event::Used(frame, access) => shared.block_accessed(frame, &access),
            Event::Left(frame, page) => shared.block_gone(frame, page),
        }
    }

    /// The tenant learns by itself from now on.
    fn leave_shared(&self, blocks: &[Block]) {
        blocks.iter().for_each(|block| self.tell_shared(Event::Left(block.frame, block.page)));
    }

    /// For a tenant that holds about `frames` frames.
    fn machine(&self, frames: u32, numbers: Numbers) -> Numbered {
        Numbered { machine: Machine::new(self.strategy, frames, self.seed, &self.tuning), numbers }
    }

    /// A machine that knows what happened so far, for a tenant that may come to hold all frames.
    #[cold]
    fn replayed(&self, events: &[Event]) -> Box<Numbered> {
        let mut machine = Box::new(self.machine(self.pool_frames, Numbers::default()));
        for event in events {
            match event {
                Event::Loaded(block) => machine.new_block(block),
                Event::Used(frame, access) => machine.block_accessed(*frame, access),
                Event::Left(frame, page) => machine.block_gone(*frame, *page),
            }
        }
        machine
    }

    /// Keeps an event, or makes a machine of those kept.
    fn wait(&mut self, event: Event) {
        self.tell_shared(event);
        let State::Waiting(events) = &mut self.state else { return };
        events.push(event);
        if events.len() >= EVENTS_MAX {
            let events = std::mem::take(events);
            let blocks = blocks_after(&events);
            self.state = match self.shared.is_some() && self.are_few(blocks.len() as u32, PAGES_MIN) {
                true => State::Few(blocks),
                false => {
                    self.leave_shared(&blocks);
                    State::Learning(self.replayed(&events))
                }
            };
        }
    }

    /// Whether a tenant with that many `pages` has few, of which `few` is the number for the case that those
    /// are not much of the pool.
    fn are_few(&self, pages: u32, few: u32) -> bool {
        pages < few && pages < self.pool_frames / FEW_SHARE
    }

    /// The tenant is to give up a page: it is time to see whether what it has is made for as many as it
    /// holds.
    fn fit(&mut self, look: &dyn Look) {
        match &self.state {
            State::Waiting(events) => {
                let blocks = blocks_after(events);
                self.state = match self.are_few(blocks.len() as u32, PAGES_MIN) {
                    true => State::Few(blocks),
                    false => {
                        self.leave_shared(&blocks);
                        State::Learning(self.replayed(events))
                    }
                };
                self.refit(look);
            }
            State::Few(blocks) if !self.are_few(blocks.len() as u32, PAGES_MIN) => {
                let blocks = blocks.clone();
                self.leave_shared(&blocks);
                self.start_anew(&blocks);
            }
            State::Few(_) => {}
            State::Learning(_) => self.refit(look),
        }
    }

    /// The same of a tenant that has a machine.
    #[inline]
    fn refit(&mut self, look: &dyn Look) {
        let State::Learning(learning) = &self.state else { return };
        let (pages, made_for) = (learning.machine.own().len() as u32, learning.machine.made_for());
        let is_small = made_for < self.pool_frames && pages > made_for.saturating_mul(2);
        let is_large = pages <= REFITTED_MAX && pages < made_for / FEW_SHARE;
        if is_small || is_large {
            self.refit_cold(look);
        }
    }

    #[cold]
    fn refit_cold(&mut self, look: &dyn Look) {
        let State::Learning(learning) = &self.state else { return };
        let made_for = learning.machine.made_for();
        let blocks = blocks_in(&learning.frames(), look);
        let pages = blocks.len() as u32;
        if self.are_few(pages, PAGES_MIN / FEW_SHARE) {
            blocks.iter().for_each(|block| self.tell_shared(Event::Loaded(*block)));
            self.state = State::Few(blocks);
        } else if pages > PAGES_MIN || made_for > PAGES_MIN {
            self.start_anew(&blocks);
        }
    }

    /// A machine that knows nothing but these blocks, which it takes for used in their order.
    fn start_anew(&mut self, blocks: &[Block]) {
        let made_for = match blocks.len() as u32 {
            pages if pages <= REFITTED_MAX => pages.next_power_of_two().max(PAGES_MIN),
            _ => self.pool_frames,
        };
        let mut learning = self
            .machine(made_for.min(self.pool_frames), Numbers::anew(blocks.len() as u32, self.pool_frames));
        blocks.iter().for_each(|block| learning.new_block(block));
        self.state = State::Learning(Box::new(learning));
    }
}

/// The blocks in `frames`, in their order.
fn blocks_in(frames: &[FrameId], look: &dyn Look) -> Vec<Block> {
    frames.iter().filter_map(|frame| look.block(*frame)).collect()
}

/// The blocks that are there after `events`, in the order in which they were used last.
fn blocks_after(events: &[Event]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for event in events {
        match event {
            Event::Loaded(block) => blocks.push(*block),
            Event::Used(used, _) => {
                if let Some(at) = blocks.iter().position(|block| block.frame == *used) {
                    blocks[at..].rotate_left(1);
                }
            }
            Event::Left(left, _) => blocks.retain(|block| block.frame != *left),
        }
    }
    blocks
}

impl Numbered {
    #[inline]
    fn new_block(&mut self, block: &Block) {
        let number = self.numbers.add(block.frame.0, self.machine.own());
        self.machine.new_block(&Block { frame: FrameId(number), ..*block });
    }

    #[inline]
    fn block_accessed(&mut self, frame: FrameId, access: &Access) {
        if let Some(number) = self.numbers.find(frame.0) {
            self.machine.block_accessed(FrameId(number), access);
        }
    }

    #[inline]
    fn block_gone(&mut self, frame: FrameId, page: PageId) {
        if let Some(number) = self.numbers.remove(frame.0) {
            self.machine.block_gone(FrameId(number), page);
        }
    }

    fn replace_block(
        &mut self,
        candidate: FrameId,
        missing: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        let Self { machine, numbers } = self;
        let Some(number) = numbers.find(candidate.0) else { return candidate };
        let mut is_busy = |number: FrameId| busy(FrameId(numbers.frame(number.0)));
        FrameId(numbers.frame(machine.replace_block(FrameId(number), missing, &mut is_busy).0))
    }

    fn metadata_bytes(&self) -> usize {
        size_of::<Self>() + self.machine.metadata_bytes() + self.numbers.metadata_bytes()
    }

    fn check_invariants(&self) {
        self.machine.check_invariants();
        self.numbers.check_invariants(self.machine.own());
    }

    /// The frames that the tenant holds, in the order in which they were used last.
    fn frames(&self) -> Vec<FrameId> {
        let mut own = self.machine.own().to_vec();
        own.sort_by_key(|number| std::cmp::Reverse(self.machine.age(*number)));
        own.into_iter().map(|number| FrameId(self.numbers.frame(number))).collect()
    }
}

impl Drop for Automatic {
    /// Its frames may be those of another that learns together with the same ones.
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
        match &mut self.state {
            State::Learning(learning) => learning.new_block(block),
            State::Few(blocks) => {
                blocks.push(*block);
                let many = (blocks.len() as u32 >= MANY).then(|| std::mem::take(blocks));
                self.tell_shared(Event::Loaded(*block));
                if let Some(blocks) = many {
                    self.leave_shared(&blocks);
                    self.start_anew(&blocks);
                }
            }
            State::Waiting(_) => self.wait(Event::Loaded(*block)),
        }
    }

    fn block_gone(&mut self, frame: FrameId, page: PageId) {
        match &mut self.state {
            State::Learning(learning) => learning.block_gone(frame, page),
            State::Few(blocks) => {
                blocks.retain(|held| held.frame != frame);
                self.tell_shared(Event::Left(frame, page));
            }
            State::Waiting(_) => self.wait(Event::Left(frame, page)),
        }
    }

    #[inline]
    fn block_accessed(&mut self, frame: FrameId, access: &Access) {
        match &mut self.state {
            State::Learning(learning) => learning.block_accessed(frame, access),
            State::Few(_) => self.tell_shared(Event::Used(frame, *access)),
            State::Waiting(_) => self.wait(Event::Used(frame, *access)),
        }
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
        if let State::Waiting(events) = &self.state {
            self.leave_shared(&blocks_after(events));
            self.state = State::Learning(self.replayed(events));
        }
        match (&mut self.state, &self.shared) {
            (State::Learning(learning), _) => learning.replace_block(candidate, missing, busy),
            (State::Few(blocks), Some(shared)) => {
                shared.least_of(blocks.iter().map(|block| block.frame), candidate, busy)
            }
            (State::Few(_) | State::Waiting(_), _) => candidate,
        }
    }

    fn prefetch(&self, frames: &mut dyn Iterator<Item = FrameId>) {
        if let State::Learning(learning) = &self.state {
            let Numbered { machine, numbers } = &**learning;
            machine.prefetch(&mut frames.filter_map(|frame| numbers.find(frame.0)).map(FrameId));
        }
    }

    fn prefetch_pages(&self, pages: &[PageId]) {
        if let State::Learning(learning) = &self.state {
            learning.machine.prefetch_pages(pages);
        }
    }

    /// Intervals that are short compared to the time in memory say nothing about when a page may go.
    fn needs_every_hit(&self, _page: PageId) -> bool {
        false
    }

    fn placeholder_used(&mut self, missing: &Access, placeholder: FrameId) {
        match (&mut self.state, &self.shared) {
            (State::Learning(learning), _) => learning.machine.placeholder_used(missing, placeholder),
            (_, Some(shared)) => shared.placeholder_used(missing, placeholder),
            _ => {}
        }
    }

    fn reads_once(&self, frame: FrameId) -> bool {
        let State::Learning(learning) = &self.state else { return false };
        learning.numbers.find(frame.0).is_some_and(|number| learning.machine.reads_once(FrameId(number)))
    }

    fn judges_itself(&self) -> bool {
        self.strategy == Strategy::Auto
    }

    fn streams(&self, first: usize, show: &mut dyn FnMut(&StreamReport) -> bool) {
        match &self.state {
            State::Learning(learning) => learning.machine.streams(first, show),
            State::Waiting(events) => self.replayed(events).machine.streams(first, show),
            State::Few(_) => {}
        }
    }

    fn metadata_bytes(&self) -> usize {
        match &self.state {
            State::Waiting(events) => events.capacity() * size_of::<Event>(),
            State::Few(blocks) => blocks.capacity() * size_of::<Block>(),
            State::Learning(learning) => learning.metadata_bytes(),
        }
    }

    fn check_invariants(&self) {
        let blocks = match &self.state {
            State::Learning(learning) => return learning.check_invariants(),
            State::Waiting(events) => &blocks_after(events),
            State::Few(blocks) => blocks,
        };
        if let Some(shared) = &self.shared {
            shared.check_invariants(blocks.iter().map(|block| block.frame));
        }
    }
}
