//! The interpreter.
//!
//! It trusts the verifier: slots have the types that instructions suppose and hold what they read, pages in
//! slots are resident. So the only fault is a division by zero. Nothing is allocated by a run, except for
//! ghosts when there are more than ever before.
//!
//! *Fuel* is charged by straight runs of code: where control leaves the sequence, the distance from where it
//! entered it. It is compared before a `loop`, a `call` and a `find`, so that straight code runs on by its
//! own length at most. A run that ends is the same under more fuel.

use std::collections::VecDeque;

use super::{
    code::{Code, GHOST_LISTS_MAX, Instruction, Op, SlotKind},
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
    /// Per slot, the slots of events behind those of the program; each array is used where the type fits.
    ints: Vec<i64>,
    pages_in: Vec<u32>,
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
            ints: vec![0; own + locals],
            pages_in: vec![NIL; own + locals],
            pages: Pages::new(queues, uses(Op::Find)),
            ghosts: Ghosts::with_capacity(if ghosts > 0 { ghosts.saturating_add(1) } else { 0 }),
            first_ghosts: queues,
            ghosts_max,
            wishes: VecDeque::with_capacity(if has_wishes { WISHES_MAX } else { 0 }),
            random,
            now: 0,
            granted_frames: 0,
        };
        for (slot, int) in code.slots.iter().zip(&mut machine.ints) {
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
        let base = self.own;
        let mut run = Run { code, machine: self, about, look, fuel, spent: 0, base };
        if code.events[event].has_parameter {
            run.machine.pages_in[base] = about.parameter;
        }
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
        self.ints.capacity() * size_of::<i64>()
            + self.pages_in.capacity() * size_of::<u32>()
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
    /// The first slot of the event that runs.
    base: usize,
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

    /// Runs an event of the program's own; its slots lie behind those of the caller.
    fn call(&mut self, caller: usize, callee: usize, parameter: Option<u32>) -> Result<(), Incident> {
        let base = self.base;
        self.base += self.code.events[caller].locals.len();
        if let Some(page) = parameter {
            self.machine.pages_in[self.base] = page;
        }
        self.event(callee)?;
        self.base = base;
        Ok(())
    }

    /// An instruction that control passes through.
    fn straight(&mut self, instruction: Instruction) -> Result<(), Incident> {
        let Instruction { op, a, b, c } = instruction;
        match op {
            Op::Ldc => self.set_int(a, self.code.constants[usize::from(instruction.wide())]),
            Op::Not => self.set_int(a, !self.int(b)),
            Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Rem | Op::Min | Op::Max => {
                let result = arithmetic(op, self.int(b), self.int(c)).ok_or(Incident::DivisionByZero)?;
                self.set_int(a, result);
            }
            Op::And | Op::Or | Op::Xor | Op::Shl | Op::Shr | Op::Lt | Op::Le | Op::Eq | Op::Ne => {
                self.set_int(a, logic(op, self.int(b), self.int(c)));
            }
            Op::DeqH | Op::DeqT | Op::PeekH | Op::PeekT | Op::Copy | Op::Next | Op::Prev => {
                self.walk(op, a, b);
            }
            Op::EnqH => self.machine.pages.push_head(a, self.page(b)),
            Op::EnqT => self.machine.pages.push_tail(a, self.page(b)),
            Op::Unlink => self.machine.pages.unlink(self.page(a)),
            Op::SetRef => self.machine.pages.set_referenced(self.page(a), c == 1),
            Op::SetMeta => self.machine.pages.set_meta(self.page(a), self.int(b)),
            Op::Flush | Op::SetMod | Op::Release => self.wish(op, a),
            Op::Remember => self.remember(a, self.page(b)),
            Op::Trim => self.trim(a, self.int(b)),
            _ => {
                let value = self.look_up(instruction);
                self.set_int(a, value);
            }
        }
        Ok(())
    }

    /// Instructions that give a page.
    fn walk(&mut self, op: Op, a: u8, b: u8) {
        let pages = &self.machine.pages;
        let frame = match op {
            Op::PeekH | Op::DeqH => pages.head(b),
            Op::PeekT | Op::DeqT => pages.tail(b),
            Op::Copy => self.page(b),
            Op::Next => pages.next(self.page(b)),
            _ => pages.prev(self.page(b)),
        };
        if matches!(op, Op::DeqH | Op::DeqT) && frame != NIL {
            self.machine.pages.unlink(frame);
        }
        self.set_page(a, frame);
    }

    /// Instructions that give an int and change nothing else that a program sees.
    fn look_up(&mut self, Instruction { op, b, c, .. }: Instruction) -> i64 {
        let pages = &self.machine.pages;
        match op {
            Op::Empty => i64::from(pages.len(b) == 0),
            Op::Len => i64::from(pages.len(b)),
            Op::InQ => i64::from(pages.is_in(self.page(b), c)),
            Op::Same => i64::from(self.page(b) == self.page(c)),
            Op::IsNil => i64::from(self.page(b) == NIL),
            Op::Ref => i64::from(pages.is_referenced(self.page(b))),
            Op::Meta => pages.meta(self.page(b)),
            Op::Block => block_number(pages.page(self.page(b))),
            Op::Arg => self.about.arguments[usize::from(c)],
            Op::Now => self.machine.now as i64,
            Op::Rand => (self.machine.random.next_u64() >> 1) as i64,
            Op::Pinned => self.ask(b, |look, frame| look.is_busy(frame)),
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
                let slots = self.machine.pages_in.iter_mut().filter(|slot| **slot == frame);
                slots.for_each(|slot| *slot = NIL);
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
    fn place(&self, slot: u8) -> usize {
        let slot = usize::from(slot);
        if slot < self.machine.own { slot } else { slot - self.machine.own + self.base }
    }

    #[inline]
    fn int(&self, slot: u8) -> i64 {
        self.machine.ints[self.place(slot)]
    }

    #[inline]
    fn set_int(&mut self, slot: u8, value: i64) {
        let place = self.place(slot);
        self.machine.ints[place] = value;
    }

    #[inline]
    fn page(&self, slot: u8) -> u32 {
        self.machine.pages_in[self.place(slot)]
    }

    #[inline]
    fn set_page(&mut self, slot: u8, frame: u32) {
        let place = self.place(slot);
        self.machine.pages_in[place] = frame;
    }
}

/// Wrapping arithmetic; `None` for a division by zero.
fn arithmetic(op: Op, x: i64, y: i64) -> Option<i64> {
    Some(match op {
        Op::Add => x.wrapping_add(y),
        Op::Sub => x.wrapping_sub(y),
        Op::Mul => x.wrapping_mul(y),
        Op::Div if y == 0 => return None,
        Op::Div => x.wrapping_div(y),
        Op::Rem if y == 0 => return None,
        Op::Rem => x.wrapping_rem(y),
        Op::Min => x.min(y),
        _ => x.max(y),
    })
}

/// Bits, shifts by a count modulo 64, and comparisons of signed numbers.
fn logic(op: Op, x: i64, y: i64) -> i64 {
    match op {
        Op::And => x & y,
        Op::Or => x | y,
        Op::Xor => x ^ y,
        Op::Shl => x.wrapping_shl(y as u32),
        Op::Shr => x.wrapping_shr(y as u32),
        Op::Lt => i64::from(x < y),
        Op::Le => i64::from(x <= y),
        Op::Eq => i64::from(x == y),
        _ => i64::from(x != y),
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
