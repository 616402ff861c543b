//! The interpreter.
//!
//! It trusts the verifier: slots have the types that instructions suppose and hold what they read, pages in
//! slots are resident. So the only fault is a division by zero. Nothing is allocated by a run, except for
//! ghosts when there are more than ever before.
//!
//! *Fuel* is charged by straight runs of code: where control leaves the sequence, the distance from where it
//! entered it. It is compared before a `loop`, a `call` and a `find`, so that straight code runs on by its
//! own length at most. A run that ends is the same under more fuel.
//!
//! *Slots* of an event lie behind those of the program, at the same places for each event, so an operand is
//! the place itself. A `call` sets the caller's slots aside. An instruction is told apart once: its arm is
//! all of it.

use std::collections::VecDeque;

use super::{
    code::{Code, GHOST_LISTS_MAX, Instruction, Op, SLOTS_MAX, SlotKind},
    pages::Pages,
};
use crate::{
    ghost::Ghosts,
    ids::{FrameId, PageId},
    list::NIL,
    manager::{Incident, Look, WISHES_MAX, Wish},
    random::SplitMix64,
};

/// Everything that a program keeps between events.
pub(super) struct Machine {
    /// Slots of the program.
    own: usize,
    /// The first page slot of the program, and the first int slot.
    first_page: usize,
    first_int: usize,
    /// Per slot, those of the event that runs behind those of the program; each array is used where the type
    /// fits.
    ints: Box<[i64; SLOTS_MAX]>,
    pages_in: Box<[u32; SLOTS_MAX]>,
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
pub(super) struct About {
    /// The parameter of the event, or [`NIL`].
    pub parameter: u32,
    /// A page of the file in which `find` looks.
    pub page: Option<PageId>,
    /// What `arg` gives.
    pub arguments: [i64; 4],
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
        let uses = |op: Op| code.instructions.iter().any(|instruction| instruction.op == op);
        let has_wishes = uses(Op::Flush) || uses(Op::SetMod) || uses(Op::Release);
        let (queues, first_page) = (code.first_of_rank(1), code.first_of_rank(2));
        let ghosts = (first_page - queues) as u32 * ghosts_max;
        let mut machine = Self {
            own,
            first_page,
            first_int: code.first_of_rank(3),
            ints: Box::new([0; SLOTS_MAX]),
            pages_in: Box::new([NIL; SLOTS_MAX]),
            aside: Vec::with_capacity(locals),
            pages: Pages::new(queues, uses(Op::Find)),
            ghosts: Ghosts::with_capacity(if ghosts > 0 { ghosts.saturating_add(1) } else { 0 }),
            first_ghosts: queues,
            ghosts_max,
            wishes: VecDeque::with_capacity(if has_wishes { WISHES_MAX } else { 0 }),
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
    pub fn run(
        &mut self,
        code: &Code,
        event: usize,
        about: &About,
        fuel: u64,
        look: Option<&mut dyn Look>,
    ) -> Ended {
        // Those that a run left which was stopped in a call.
        self.aside.clear();
        if code.events[event].has_parameter {
            self.pages_in[self.own] = about.parameter;
        }
        let mut run = Run { code, machine: self, about, look, fuel, spent: 0 };
        let answer = run.event(event);
        Ended { steps: run.spent, answer }
    }

    /// Sets an int slot of the program.
    pub fn set_int(&mut self, slot: usize, value: i64) {
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

    fn wish(&mut self, wish: Wish) {
        if self.wishes.len() < WISHES_MAX {
            self.wishes.push_back(wish);
        }
    }

    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.ints)
            + size_of_val(&*self.pages_in)
            + self.aside.capacity() * size_of::<(i64, u32)>()
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
    code: &'a Code,
    machine: &'a mut Machine,
    about: &'a About,
    look: Option<&'l mut dyn Look>,
    fuel: u64,
    spent: u64,
}

impl Run<'_, '_> {
    /// Runs to the event's `ret`; gives the page returned, or [`NIL`].
    fn event(&mut self, number: usize) -> Result<u32, Incident> {
        let code = self.code;
        let mut at = code.events[number].first;
        // Where control entered the straight code that it is in.
        let mut entered = at;
        loop {
            let instruction = code.instructions[at];
            let jumps = match instruction.op {
                Op::Jmp => true,
                Op::Jz => self.int(instruction.a) == 0,
                Op::Jnz => self.int(instruction.a) != 0,
                Op::Ret | Op::RetPage => {
                    self.spent += (at - entered + 1) as u64;
                    let gives_page = instruction.op == Op::RetPage;
                    return Ok(if gives_page { self.page(instruction.a) } else { NIL });
                }
                Op::Loop | Op::Call | Op::CallWith | Op::Find => {
                    self.spent += (at - entered) as u64;
                    entered = at;
                    self.guarded(number, instruction)?;
                    false
                }
                _ => {
                    if let Err(incident) = self.straight(instruction) {
                        self.spent += (at - entered + 1) as u64;
                        return Err(incident);
                    }
                    false
                }
            };
            at += 1;
            if jumps {
                self.spent += (at - entered) as u64;
                at = usize::from(instruction.wide());
                entered = at;
            }
        }
    }

    /// An instruction before which the fuel is looked at; it is charged with the straight code it begins.
    fn guarded(&mut self, event: usize, instruction: Instruction) -> Result<(), Incident> {
        if self.spent + u64::from(instruction.op.cost()) > self.fuel {
            return Err(Incident::OutOfFuel);
        }
        match instruction.op {
            Op::Call => self.call(event, usize::from(instruction.a), None),
            Op::CallWith => {
                let page = self.page(instruction.b);
                self.call(event, usize::from(instruction.a), Some(page))
            }
            Op::Find => {
                self.spent += u64::from(Op::Find.cost() - 1);
                let number = self.int(instruction.b);
                let found = self.about.page.and_then(|page| beside(page, number));
                let frame = found.map_or(NIL, |page| self.machine.pages.find(page));
                self.set_page(instruction.a, frame);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Runs an event of the program's own, with the slots of the caller set aside.
    fn call(&mut self, caller: usize, callee: usize, parameter: Option<u32>) -> Result<(), Incident> {
        let machine = &mut *self.machine;
        let locals = machine.own..machine.own + self.code.events[caller].locals.len();
        let waiting = machine.aside.len();
        let (ints, pages) = (&machine.ints[locals.clone()], &machine.pages_in[locals.clone()]);
        machine.aside.extend(ints.iter().copied().zip(pages.iter().copied()));
        if let Some(page) = parameter {
            machine.pages_in[machine.own] = page;
        }
        self.event(callee)?;
        let machine = &mut *self.machine;
        for (slot, (int, page)) in locals.zip(machine.aside.drain(waiting..)) {
            (machine.ints[slot], machine.pages_in[slot]) = (int, page);
        }
        Ok(())
    }

    /// An instruction that control passes through.
    #[inline(always)]
    fn straight(&mut self, instruction: Instruction) -> Result<(), Incident> {
        let Instruction { op, a, b, c } = instruction;
        match op {
            Op::Ldc => self.set_int(a, self.code.constants[usize::from(instruction.wide())]),
            Op::Not => self.set_int(a, !self.int(b)),
            Op::Add => self.set_int(a, self.int(b).wrapping_add(self.int(c))),
            Op::Sub => self.set_int(a, self.int(b).wrapping_sub(self.int(c))),
            Op::Mul => self.set_int(a, self.int(b).wrapping_mul(self.int(c))),
            Op::Div => {
                let divisor = self.divisor(c)?;
                self.set_int(a, self.int(b).wrapping_div(divisor));
            }
            Op::Rem => {
                let divisor = self.divisor(c)?;
                self.set_int(a, self.int(b).wrapping_rem(divisor));
            }
            Op::Min => self.set_int(a, self.int(b).min(self.int(c))),
            Op::Max => self.set_int(a, self.int(b).max(self.int(c))),
            Op::And => self.set_int(a, self.int(b) & self.int(c)),
            Op::Or => self.set_int(a, self.int(b) | self.int(c)),
            Op::Xor => self.set_int(a, self.int(b) ^ self.int(c)),
            // Counts are modulo 64.
            Op::Shl => self.set_int(a, self.int(b).wrapping_shl(self.int(c) as u32)),
            Op::Shr => self.set_int(a, self.int(b).wrapping_shr(self.int(c) as u32)),
            Op::Lt => self.set_int(a, i64::from(self.int(b) < self.int(c))),
            Op::Le => self.set_int(a, i64::from(self.int(b) <= self.int(c))),
            Op::Eq => self.set_int(a, i64::from(self.int(b) == self.int(c))),
            Op::Ne => self.set_int(a, i64::from(self.int(b) != self.int(c))),
            Op::PeekH => self.set_page(a, self.machine.pages.head(b)),
            Op::PeekT => self.set_page(a, self.machine.pages.tail(b)),
            Op::DeqH => self.dequeue(a, self.machine.pages.head(b)),
            Op::DeqT => self.dequeue(a, self.machine.pages.tail(b)),
            Op::Copy => self.set_page(a, self.page(b)),
            Op::Next => self.set_page(a, self.machine.pages.next(self.page(b))),
            Op::Prev => self.set_page(a, self.machine.pages.prev(self.page(b))),
            Op::EnqH => self.machine.pages.push_head(a, self.page(b)),
            Op::EnqT => self.machine.pages.push_tail(a, self.page(b)),
            Op::Unlink => self.machine.pages.unlink(self.page(a)),
            Op::SetRef => self.machine.pages.set_referenced(self.page(a), c == 1),
            Op::SetMeta => self.machine.pages.set_meta(self.page(a), self.int(b)),
            Op::Flush | Op::SetMod | Op::Release => self.wish(op, a),
            Op::Remember => self.remember(a, self.page(b)),
            Op::Trim => self.trim(a, self.int(b)),
            Op::Empty => self.set_int(a, i64::from(self.machine.pages.len(b) == 0)),
            Op::Len => self.set_int(a, i64::from(self.machine.pages.len(b))),
            Op::InQ => self.set_int(a, i64::from(self.machine.pages.is_in(self.page(b), c))),
            Op::Same => self.set_int(a, i64::from(self.page(b) == self.page(c))),
            Op::IsNil => self.set_int(a, i64::from(self.page(b) == NIL)),
            Op::Ref => self.set_int(a, i64::from(self.machine.pages.is_referenced(self.page(b)))),
            Op::Meta => self.set_int(a, self.machine.pages.meta(self.page(b))),
            Op::Pinned => {
                let is_pinned = self.ask(b, |look, frame| look.is_busy(frame));
                self.set_int(a, is_pinned);
            }
            _ => {
                let value = self.look_up(instruction);
                self.set_int(a, value);
            }
        }
        Ok(())
    }

    /// The int in a slot, unless it is 0.
    #[inline]
    fn divisor(&self, slot: u8) -> Result<i64, Incident> {
        let divisor = self.int(slot);
        if divisor == 0 { Err(Incident::DivisionByZero) } else { Ok(divisor) }
    }

    /// Takes a page out of its queue, if there is one.
    fn dequeue(&mut self, slot: u8, frame: u32) {
        if frame != NIL {
            self.machine.pages.unlink(frame);
        }
        self.set_page(slot, frame);
    }

    /// Instructions that give an int and change nothing else that a program sees, and that few programs need
    /// at each question.
    #[inline(never)]
    fn look_up(&mut self, Instruction { op, b, c, .. }: Instruction) -> i64 {
        let pages = &self.machine.pages;
        match op {
            Op::Block => block_number(pages.page(self.page(b))),
            Op::Arg => self.about.arguments[usize::from(c)],
            Op::Now => self.machine.now as i64,
            Op::Rand => (self.machine.random.next_u64() >> 1) as i64,
            Op::Mod => self.ask(b, |look, frame| look.is_modified(frame)),
            Op::Request => {
                let told_left = self.machine.granted_frames.saturating_sub(pages.resident());
                let left = self.look.as_ref().map_or(told_left, |look| look.frames_left());
                self.int(b).clamp(0, i64::from(left))
            }
            Op::Recall => i64::from(self.recall(b, c)),
            Op::Ghosts => i64::from(self.machine.ghosts.len(self.ghost_list(b))),
            // A tenant with a program has no priorities.
            _ => 0,
        }
    }

    /// Asks about a page; outside of a question the answer is no.
    fn ask(&mut self, page: u8, ask: impl FnOnce(&mut dyn Look, FrameId) -> bool) -> i64 {
        let frame = FrameId(self.page(page));
        self.look.as_mut().map_or(0, |look| i64::from(ask(*look, frame)))
    }

    fn wish(&mut self, op: Op, slot: u8) {
        let frame = self.page(slot);
        let (at, page) = (FrameId(frame), self.machine.pages.page(frame));
        match op {
            Op::Flush => self.machine.wish(Wish::Flush { frame: at, page }),
            Op::SetMod => self.machine.wish(Wish::SetModified { frame: at, page }),
            _ => {
                self.machine.wish(Wish::Release { frame: at, page });
                self.machine.pages.unlink(frame);
                let waiting = self.machine.aside.iter_mut().map(|(_, page)| page);
                let slots = self.machine.pages_in.iter_mut().chain(waiting);
                slots.filter(|slot| **slot == frame).for_each(|slot| *slot = NIL);
            }
        }
    }

    // ---- ghosts

    fn ghost_list(&self, slot: u8) -> usize {
        usize::from(slot) - self.machine.first_ghosts
    }

    fn remember(&mut self, slot: u8, frame: u32) {
        let (list, page) = (self.ghost_list(slot), self.machine.pages.page(frame));
        let ghosts = &mut self.machine.ghosts;
        ghosts.take(page);
        while ghosts.len(list) >= self.machine.ghosts_max {
            ghosts.pop_oldest(list);
        }
        ghosts.push(list, page);
    }

    fn recall(&mut self, slot: u8, page: u8) -> bool {
        let (list, page) = (self.ghost_list(slot), self.machine.pages.page(self.page(page)));
        let ghosts = &mut self.machine.ghosts;
        let is_known = ghosts.find(page) == Some(list);
        if is_known {
            ghosts.take(page);
        }
        is_known
    }

    fn trim(&mut self, slot: u8, ghosts_max: i64) {
        let list = self.ghost_list(slot);
        while i64::from(self.machine.ghosts.len(list)) > ghosts_max.max(0) {
            self.machine.ghosts.pop_oldest(list);
        }
    }

    // ---- slots

    #[inline]
    fn int(&self, slot: u8) -> i64 {
        self.machine.ints[usize::from(slot)]
    }

    #[inline]
    fn set_int(&mut self, slot: u8, value: i64) {
        self.machine.ints[usize::from(slot)] = value;
    }

    #[inline]
    fn page(&self, slot: u8) -> u32 {
        self.machine.pages_in[usize::from(slot)]
    }

    #[inline]
    fn set_page(&mut self, slot: u8, frame: u32) {
        self.machine.pages_in[usize::from(slot)] = frame;
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
