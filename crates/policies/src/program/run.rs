//! The interpreter.
//!
//! It trusts the verifier: slots have the types that instructions suppose and hold what they read, pages in
//! slots are resident. So the only fault is a division by zero. Nothing is allocated by a run, except for
//! ghosts when there are more than ever before.
//!
//! *Fuel* is charged for each straight run of code: where control leaves the sequence, the distance from
//! where it entered it is added. It is compared before a `loop`, a `call` and a `find`, so that straight
//! code runs on by its own length at most; a `call` and a `find` are charged before they are done. A run
//! that ends by itself does the same under more fuel.
//!
//! *Slots* of an event lie behind those of the program, at the same places for each event, so an operand is
//! the place itself. A `call` sets the caller's slots aside.
//!
//! *A step has a single `match`*, which leads to what it does and to where control goes next. It stands for
//! one instruction, or for several that often follow each other (`steps`). What few programs need at each
//! question is a function of its own, so that the other arms are short. `cargo bench -p bufpool-bench
//! --bench programs -- instructions` measures it.

use std::collections::VecDeque;

use super::{
    code::{Act, Code, GHOST_LISTS_MAX, Op, SLOTS_MAX, SlotKind},
    pages::Pages,
    steps::{Step, Steps},
};
use crate::{
    ghost::Ghosts,
    ids::{Access, ContextId, FrameId, PageId, TenantId},
    list::NIL,
    manager::{Incident, Look, WISHES_MAX, Wish},
    random::SplitMix64,
};

/// Ghosts that one instruction forgets at most, so that each takes a bounded time.
const FORGOTTEN_MAX: usize = 64;

/// Everything that a program keeps between events.
pub(super) struct Machine {
    /// Slots of the program.
    own: usize,
    /// The first page slot of the program, and the first int slot.
    first_page: usize,
    first_int: usize,
    /// Per slot, those of the event that runs behind those of the program; each array is used where the type
    /// fits.
    ints: [i64; SLOTS_MAX],
    pages_in: [u32; SLOTS_MAX],
    /// The slots of events that wait for one that they called, the first caller's first.
    aside: Vec<(i64, u32)>,
    pub pages: Pages,
    /// Pages that left; the first list is that of the slot after the queues.
    ghosts: Ghosts<GHOST_LISTS_MAX>,
    first_ghosts: usize,
    ghosts_max: u32,
    wishes: VecDeque<Wish>,
    random: SplitMix64,
    /// Accesses that the program's manager was told of.
    pub now: u64,
    /// Frames that were granted to a privileged tenant.
    pub granted_frames: u32,
}

/// What an event is about.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    /// The parameter of the event, or [`NIL`]; in a question the candidate.
    pub parameter: u32,
    pub cause: Cause<'a>,
}

/// What led to an event.
#[derive(Clone, Copy)]
pub(super) enum Cause<'a> {
    /// No access that the program is told of.
    Untold,
    /// The page came in.
    Load(ContextId, TenantId),
    /// The page was accessed.
    Hit(&'a Access),
    /// A page has to go, for that of the access, if any.
    Question(Option<&'a Access>),
    /// The page of the access was given up, and is missing now.
    Mistake(&'a Access),
}

impl<'a> Cause<'a> {
    /// The page that was missing.
    fn missing(self) -> Option<PageId> {
        match self {
            Self::Question(access) => access.map(|access| access.page),
            Self::Mistake(access) => Some(access.page),
            Self::Untold | Self::Load(..) | Self::Hit(_) => None,
        }
    }

    /// Who accesses.
    fn accessor(self) -> Option<(ContextId, TenantId)> {
        match self {
            Self::Untold => None,
            Self::Load(context, tenant) => Some((context, tenant)),
            Self::Hit(access) | Self::Mistake(access) => Some((access.context, access.tenant)),
            Self::Question(access) => access.map(|access| (access.context, access.tenant)),
        }
    }
}

/// How a run ended.
pub(super) struct Ended {
    /// Instructions done, `find` counted as 4.
    pub steps: u64,
    /// The page that the event gave, [`NIL`] if none; or why it stopped.
    pub answer: Result<u32, Incident>,
}

impl Machine {
    /// With slots for events that need `locals` at a time, and lists of at most `ghosts_max` ghosts.
    pub fn new(code: &Code, locals: usize, ghosts_max: u32, random: SplitMix64) -> Self {
        let own = code.slots.len();
        let (queues, first_page) = (code.first_of_rank(1), code.first_of_rank(2));
        let ghosts = (first_page - queues) as u32 * ghosts_max;
        let mut machine = Self {
            own,
            first_page,
            first_int: code.first_of_rank(3),
            ints: [0; SLOTS_MAX],
            pages_in: [NIL; SLOTS_MAX],
            aside: Vec::with_capacity(locals),
            pages: Pages::new(code.uses(Op::Find)),
            ghosts: Ghosts::with_capacity(if ghosts > 0 { ghosts.saturating_add(1) } else { 0 }),
            first_ghosts: queues,
            ghosts_max,
            wishes: VecDeque::with_capacity(if code.has_wishes() { WISHES_MAX } else { 0 }),
            random,
            now: 0,
            granted_frames: 0,
        };
        for (slot, int) in code.slots.iter().zip(machine.ints.iter_mut()) {
            if let SlotKind::Int(value) | SlotKind::Const(value) = slot.kind {
                *int = value;
            }
        }
        machine
    }

    /// Runs an event with this fuel.
    #[inline]
    pub fn run(
        &mut self,
        steps: &Steps,
        event: usize,
        about: About<'_>,
        fuel: u64,
        look: Option<&mut dyn Look>,
    ) -> Ended {
        // A run that was stopped in a call has left its callers' slots here.
        self.aside.clear();
        // An event without a parameter may have no slot of its own.
        if let Some(slot) = self.pages_in.get_mut(self.own) {
            *slot = about.parameter;
        }
        let mut run = Run { steps, about, look, fuel, spent: 0 };
        let answer = self.event(&mut run, event);
        Ended { steps: run.spent, answer }
    }

    /// Sets an int slot of the program.
    pub fn send(&mut self, slot: usize, value: i64) {
        self.ints[slot] = value;
    }

    /// The page in `frame` has left.
    pub fn gone(&mut self, frame: FrameId) {
        self.pages.leave(frame);
        let slots = &mut self.pages_in[self.first_page..self.first_int];
        slots.iter_mut().filter(|slot| **slot == frame.0).for_each(|slot| *slot = NIL);
    }

    pub fn take_wish(&mut self) -> Option<Wish> {
        self.wishes.pop_front()
    }

    #[cfg(test)]
    pub fn int_slot(&self, slot: usize) -> i64 {
        self.ints[slot]
    }

    #[cfg(test)]
    pub fn page_slot(&self, slot: usize) -> u32 {
        self.pages_in[slot]
    }

    pub fn memory_bytes(&self) -> usize {
        self.aside.capacity() * size_of::<(i64, u32)>()
            + self.pages.memory_bytes()
            + self.ghosts.memory_bytes()
            + self.wishes.capacity() * size_of::<Wish>()
    }

    /// Panics if the state contradicts itself. For tests.
    pub fn check_invariants(&self) {
        self.pages.check_invariants();
        self.ghosts.check_invariants();
        for list in 0..GHOST_LISTS_MAX {
            assert!(self.ghosts.len(list) <= self.ghosts_max, "ghosts of list {list}");
        }
        for slot in &self.pages_in[self.first_page..self.first_int] {
            assert!(*slot == NIL || self.pages.has(FrameId(*slot)), "a slot has a page that left");
        }
    }
}

/// One run of an event and of those it calls.
struct Run<'a, 'l> {
    steps: &'a Steps,
    about: About<'a>,
    look: Option<&'l mut dyn Look>,
    fuel: u64,
    /// Fuel of the straight runs of code that control has left.
    spent: u64,
}

impl Run<'_, '_> {
    /// Stops the run if this much is spent before a `loop` and there is no fuel for it.
    #[inline(always)]
    fn check_fuel(&mut self, spent: u64) -> Result<(), Incident> {
        if spent < self.fuel {
            return Ok(());
        }
        self.spent = spent;
        Err(Incident::OutOfFuel)
    }
}

/// What follows a step.
enum Next {
    /// The one after it, which stands for one instruction.
    Follows,
    /// The one after all that it stands for.
    FollowsAll,
    /// The one after all that it stands for, or where it jumps by this result.
    Tested(bool),
    /// As [`Tested`](Self::Tested), if there is fuel for a `loop` behind this number of its instructions.
    TestedInLoop(bool, usize),
    /// The one that it names.
    Jumps,
    /// The one after it, if there is fuel for a `loop`.
    FollowsInLoop,
    /// It is a `call` or a `find`, and not done yet.
    Guarded,
    /// Nothing: the event gives this page, or [`NIL`].
    Returns(u32),
    /// Nothing: it divides by zero.
    Faults,
}

impl Machine {
    /// Runs to the event's `ret`; gives the page returned, or [`NIL`].
    fn event(&mut self, run: &mut Run<'_, '_>, number: usize) -> Result<u32, Incident> {
        let steps = &*run.steps.steps;
        let mut at = run.steps.events[number].first;
        // The fuel spent is this plus the number of the next instruction. So it changes only where control
        // leaves the sequence.
        let mut spent = run.spent.wrapping_sub(at as u64);
        loop {
            let step = &steps[at];
            match self.perform(run, step) {
                Next::Follows => {
                    at += 1;
                    continue;
                }
                Next::FollowsAll => {
                    at += usize::from(step.length);
                    continue;
                }
                Next::Tested(holds) => {
                    at += usize::from(step.length);
                    if !self.jumps(step, holds) {
                        continue;
                    }
                }
                Next::TestedInLoop(holds, before) => {
                    run.check_fuel(spent.wrapping_add((at + before) as u64))?;
                    at += usize::from(step.length);
                    if !self.jumps(step, holds) {
                        continue;
                    }
                }
                Next::Jumps => at += 1,
                Next::FollowsInLoop => {
                    run.check_fuel(spent.wrapping_add(at as u64))?;
                    at += 1;
                    continue;
                }
                Next::Guarded => {
                    run.spent = spent.wrapping_add(at as u64);
                    at += 1;
                    self.guarded(run, number, step)?;
                    spent = run.spent.wrapping_sub(at as u64);
                    continue;
                }
                Next::Returns(page) => {
                    run.spent = spent.wrapping_add((at + usize::from(step.length)) as u64);
                    return Ok(page);
                }
                Next::Faults => {
                    run.spent = spent.wrapping_add(at as u64 + 1);
                    return Err(Incident::DivisionByZero);
                }
            }
            spent = spent.wrapping_add(at as u64);
            at = usize::from(step.wide);
            spent = spent.wrapping_sub(at as u64);
        }
    }

    /// Sets the int slot of a test. Returns whether control jumps by it.
    #[inline(always)]
    fn jumps(&mut self, step: &Step, holds: bool) -> bool {
        self.set_int(step.a, i64::from(holds));
        u8::from(holds) == step.jumps_if
    }

    /// Does a step, and returns where control goes. A step that needs fuel is not done but left to
    /// [`guarded`](Self::guarded). All steps are arms of one `match`, so that a step is told apart once.
    #[inline(always)]
    fn perform(&mut self, run: &mut Run<'_, '_>, step: &Step) -> Next {
        match step.act {
            Act::Loop => return Next::FollowsInLoop,
            Act::Call | Act::CallWith | Act::Find => return Next::Guarded,
            Act::Ret => return Next::Returns(NIL),
            Act::RetPage => return Next::Returns(self.page(step.a)),
            Act::Jmp => return Next::Jumps,
            Act::Jz => return if self.int(step.a) == 0 { Next::Jumps } else { Next::Follows },
            Act::Jnz => return if self.int(step.a) != 0 { Next::Jumps } else { Next::Follows },
            Act::Lt => return Next::Tested(self.int(step.b) < self.int(step.c)),
            Act::Le => return Next::Tested(self.int(step.b) <= self.int(step.c)),
            Act::Eq => return Next::Tested(self.int(step.b) == self.int(step.c)),
            Act::Ne => return Next::Tested(self.int(step.b) != self.int(step.c)),
            Act::Empty => return Next::Tested(self.pages.len(step.b) == 0),
            Act::InQ => return Next::Tested(self.pages.is_in(self.page(step.b), step.c)),
            Act::Same => return Next::Tested(self.page(step.b) == self.page(step.c)),
            Act::IsNil => return Next::Tested(self.page(step.b) == NIL),
            Act::LoopIsNil => return Next::TestedInLoop(self.page(step.b) == NIL, 0),
            Act::LoopLt => return Next::TestedInLoop(self.int(step.b) < self.int(step.c), 0),
            Act::PeekHIsNil => return Next::Tested(self.look(step, self.pages.head(step.c))),
            Act::PeekTIsNil => return Next::Tested(self.look(step, self.pages.tail(step.c))),
            // The page slot is set even where there is no fuel: it is the event's own, and the run stops
            // then.
            Act::LoopPeekHIsNil => return Next::TestedInLoop(self.look(step, self.pages.head(step.c)), 0),
            Act::PeekHLoopIsNil => return Next::TestedInLoop(self.look(step, self.pages.head(step.c)), 1),
            Act::PeekTLoopIsNil => return Next::TestedInLoop(self.look(step, self.pages.tail(step.c)), 1),
            Act::Ref => return Next::Tested(self.pages.is_referenced(self.page(step.b))),
            Act::Pinned => return Next::Tested(self.ask(run, step.b, |look, frame| look.is_busy(frame))),
            Act::Mod => return Next::Tested(self.ask(run, step.b, |look, frame| look.is_modified(frame))),
            Act::Recall => return Next::Tested(self.recall(step.b, step.c)),
            Act::Div | Act::Rem if self.int(step.c) == 0 => return Next::Faults,
            // The least int divided by -1 wraps.
            Act::Div => self.set_int(step.a, self.int(step.b).wrapping_div(self.int(step.c))),
            Act::Rem => self.set_int(step.a, self.int(step.b).wrapping_rem(self.int(step.c))),
            Act::Ldc => self.set_int(step.a, run.steps.constants[usize::from(step.wide)]),
            Act::Not => self.set_int(step.a, !self.int(step.b)),
            Act::Add => self.set_int(step.a, self.int(step.b).wrapping_add(self.int(step.c))),
            Act::Sub => self.set_int(step.a, self.int(step.b).wrapping_sub(self.int(step.c))),
            Act::Mul => self.set_int(step.a, self.int(step.b).wrapping_mul(self.int(step.c))),
            Act::Min => self.set_int(step.a, self.int(step.b).min(self.int(step.c))),
            Act::Max => self.set_int(step.a, self.int(step.b).max(self.int(step.c))),
            Act::And => self.set_int(step.a, self.int(step.b) & self.int(step.c)),
            Act::Or => self.set_int(step.a, self.int(step.b) | self.int(step.c)),
            Act::Xor => self.set_int(step.a, self.int(step.b) ^ self.int(step.c)),
            // Shift counts are modulo 64.
            Act::Shl => self.set_int(step.a, self.int(step.b).wrapping_shl(self.int(step.c) as u32)),
            Act::Shr => self.set_int(step.a, self.int(step.b).wrapping_shr(self.int(step.c) as u32)),
            Act::Len => self.set_int(step.a, i64::from(self.pages.len(step.b))),
            Act::LenLen => {
                self.set_int(step.a, i64::from(self.pages.len(step.b)));
                let [int, queue] = step.wide.to_be_bytes();
                self.set_int(int, i64::from(self.pages.len(queue)));
                return Next::FollowsAll;
            }
            Act::Meta => self.set_int(step.a, self.pages.meta(self.page(step.b))),
            Act::SetMeta => self.pages.set_meta(self.page(step.a), self.int(step.b)),
            Act::SetRef => self.pages.set_referenced(self.page(step.a), step.c == 1),
            Act::PeekH => self.set_page(step.a, self.pages.head(step.b)),
            Act::PeekT => self.set_page(step.a, self.pages.tail(step.b)),
            Act::Copy => self.set_page(step.a, self.page(step.b)),
            Act::Next => self.set_page(step.a, self.pages.next(self.page(step.b))),
            Act::Prev => self.set_page(step.a, self.pages.prev(self.page(step.b))),
            Act::EnqH => self.pages.push_head(step.a, self.page(step.b)),
            Act::EnqT => self.pages.push_tail(step.a, self.page(step.b)),
            Act::EnqTRet => {
                self.pages.push_tail(step.a, self.page(step.b));
                return Next::Returns(NIL);
            }
            Act::DeqH | Act::DeqT | Act::Unlink => self.take_out(step),
            Act::Flush | Act::SetMod | Act::Release => self.wish(step),
            Act::Remember => self.remember(step.a, self.page(step.b)),
            Act::Trim => self.trim(step.a, self.int(step.b)),
            Act::Block | Act::Arg | Act::Now | Act::Rand | Act::Request | Act::Ghosts | Act::Prio => {
                let value = self.look_up(run, step);
                self.set_int(step.a, value);
            }
        }
        Next::Follows
    }

    /// Sets the page slot of a look at an end of a queue. Returns whether no page is there.
    #[inline(always)]
    fn look(&mut self, step: &Step, frame: u32) -> bool {
        self.set_page(step.b, frame);
        frame == NIL
    }

    /// Does a `call` or a `find` if there is fuel for it, which is charged before.
    #[inline(never)]
    fn guarded(&mut self, run: &mut Run<'_, '_>, event: usize, step: &Step) -> Result<(), Incident> {
        let cost = u64::from(if step.act == Act::Find { Op::Find.cost() } else { Op::Call.cost() });
        if run.spent + cost > run.fuel {
            return Err(Incident::OutOfFuel);
        }
        run.spent += cost;
        match step.act {
            Act::Call => self.call(run, event, usize::from(step.a), None),
            Act::CallWith => self.call(run, event, usize::from(step.a), Some(self.page(step.b))),
            _ => {
                let number = self.int(step.b);
                let found = self.page_of(&run.about).and_then(|page| beside(page, number));
                let frame = found.map_or(NIL, |page| self.pages.find(page));
                self.set_page(step.a, frame);
                Ok(())
            }
        }
    }

    /// Runs an event of the program's own, with the slots of the caller set aside.
    fn call(
        &mut self,
        run: &mut Run<'_, '_>,
        caller: usize,
        callee: usize,
        parameter: Option<u32>,
    ) -> Result<(), Incident> {
        let locals = self.own..self.own + run.steps.events[caller].locals;
        let waiting = self.aside.len();
        let (ints, pages) = (&self.ints[locals.clone()], &self.pages_in[locals.clone()]);
        self.aside.extend(ints.iter().copied().zip(pages.iter().copied()));
        if let Some(page) = parameter {
            self.pages_in[self.own] = page;
        }
        self.event(run, callee)?;
        for (slot, (int, page)) in locals.zip(self.aside.drain(waiting..)) {
            (self.ints[slot], self.pages_in[slot]) = (int, page);
        }
        Ok(())
    }

    /// Instructions that take a page out of its queue, if there is one.
    #[inline(never)]
    fn take_out(&mut self, step: &Step) {
        let frame = match step.act {
            Act::DeqH => self.pages.head(step.b),
            Act::DeqT => self.pages.tail(step.b),
            _ => return self.pages.unlink(self.page(step.a)),
        };
        if frame != NIL {
            self.pages.unlink(frame);
        }
        self.set_page(step.a, frame);
    }

    /// Instructions that give an int and change nothing else that a program sees, and that few programs need
    /// at each question.
    #[inline(never)]
    fn look_up(&mut self, run: &Run<'_, '_>, step: &Step) -> i64 {
        let Step { act, b, c, .. } = *step;
        match act {
            Act::Block => block_number(self.pages.page(self.page(b))),
            Act::Arg => self.argument(&run.about, c),
            Act::Now => self.now as i64,
            Act::Rand => (self.random.next_u64() >> 1) as i64,
            Act::Request => {
                let told_left = self.granted_frames.saturating_sub(self.pages.resident());
                let left = run.look.as_ref().map_or(told_left, |look| look.frames_left());
                self.int(b).clamp(0, i64::from(left))
            }
            Act::Ghosts => i64::from(self.ghosts.len(self.ghost_list(b))),
            // A tenant with a program has no priorities.
            _ => 0,
        }
    }

    /// A page of the file in which `find` looks: in a question the missing one.
    fn page_of(&self, about: &About<'_>) -> Option<PageId> {
        let of_parameter = || (about.parameter != NIL).then(|| self.pages.page(about.parameter));
        match about.cause {
            Cause::Question(Some(access)) => Some(access.page),
            _ => of_parameter(),
        }
    }

    /// What `arg` gives: one of [`ARGUMENTS`](super::ARGUMENTS).
    fn argument(&self, about: &About<'_>, number: u8) -> i64 {
        let found = match number {
            0 => about.cause.missing().map(block_number),
            1 => match about.cause {
                Cause::Question(_) => Some(block_number(self.pages.page(about.parameter))),
                _ => None,
            },
            2 => about.cause.accessor().map(|(context, _)| i64::from(context.0)),
            _ => about.cause.accessor().map(|(_, tenant)| i64::from(tenant.0)),
        };
        found.unwrap_or(-1)
    }

    /// Asks about a page; outside of a question the answer is no.
    fn ask(&self, run: &mut Run<'_, '_>, page: u8, ask: impl FnOnce(&mut dyn Look, FrameId) -> bool) -> bool {
        let frame = FrameId(self.page(page));
        run.look.as_mut().is_some_and(|look| ask(*look, frame))
    }

    /// Instructions that the driver carries out.
    #[inline(never)]
    fn wish(&mut self, step: &Step) {
        let frame = self.page(step.a);
        let (at, page) = (FrameId(frame), self.pages.page(frame));
        let wish = match step.act {
            Act::Flush => Wish::Flush { frame: at, page },
            Act::SetMod => Wish::SetModified { frame: at, page },
            _ => Wish::Release { frame: at, page },
        };
        if self.wishes.len() < WISHES_MAX {
            self.wishes.push_back(wish);
        }
        if step.act == Act::Release {
            self.pages.unlink(frame);
            let waiting = self.aside.iter_mut().map(|(_, page)| page);
            let slots = self.pages_in.iter_mut().chain(waiting);
            slots.filter(|slot| **slot == frame).for_each(|slot| *slot = NIL);
        }
    }

    // ---- ghosts

    fn ghost_list(&self, slot: u8) -> usize {
        usize::from(slot) - self.first_ghosts
    }

    /// A page that is known to be no ghost is not looked for.
    #[inline(never)]
    fn remember(&mut self, slot: u8, frame: u32) {
        let (list, page) = (self.ghost_list(slot), self.pages.page(frame));
        if self.pages.may_be_ghost(frame) {
            self.ghosts.take(page);
        }
        while self.ghosts.len(list) >= self.ghosts_max {
            self.ghosts.pop_oldest(list);
        }
        self.ghosts.push(list, page);
        self.pages.set_may_be_ghost(frame, true);
    }

    #[inline(never)]
    fn recall(&mut self, slot: u8, page: u8) -> bool {
        let (list, frame) = (self.ghost_list(slot), self.page(page));
        if !self.pages.may_be_ghost(frame) {
            return false;
        }
        let page = self.pages.page(frame);
        let found = self.ghosts.find(page);
        if found == Some(list) {
            self.ghosts.take(page);
        }
        self.pages.set_may_be_ghost(frame, found.is_some_and(|found| found != list));
        found == Some(list)
    }

    #[inline]
    fn trim(&mut self, slot: u8, ghosts_max: i64) {
        let list = self.ghost_list(slot) % GHOST_LISTS_MAX;
        if i64::from(self.ghosts.len(list)) > ghosts_max {
            self.forget(list, ghosts_max);
        }
    }

    #[inline(never)]
    fn forget(&mut self, list: usize, ghosts_max: i64) {
        for _ in 0..FORGOTTEN_MAX {
            if i64::from(self.ghosts.len(list)) <= ghosts_max.max(0) {
                break;
            }
            self.ghosts.pop_oldest(list);
        }
    }

    // ---- slots

    #[inline]
    fn int(&self, slot: u8) -> i64 {
        self.ints[usize::from(slot)]
    }

    #[inline]
    fn set_int(&mut self, slot: u8, value: i64) {
        self.ints[usize::from(slot)] = value;
    }

    #[inline]
    fn page(&self, slot: u8) -> u32 {
        self.pages_in[usize::from(slot)]
    }

    #[inline]
    fn set_page(&mut self, slot: u8, frame: u32) {
        self.pages_in[usize::from(slot)] = frame;
    }
}

/// The number of a page in its file, as programs see it.
pub(super) fn block_number(page: PageId) -> i64 {
    page.number() as i64
}

/// The page with this number in the file of another one.
fn beside(page: PageId, number: i64) -> Option<PageId> {
    let number = u64::try_from(number).ok().filter(|number| number >> PageId::NUMBER_BITS == 0)?;
    Some(PageId::in_file(page.file(), number))
}
