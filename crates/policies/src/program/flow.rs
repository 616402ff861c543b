//! The flow of control within an event: every slot that is read has a value, and no page that is read may be
//! nil.
//!
//! Abstract interpretation: what is known before each instruction is the intersection of what is known on all
//! paths to it. What is known only shrinks, so it settles. A page is known not to be nil after `isnil t, v`
//! and a `jz` or `jnz` on that `t`, on the path where `t` is 0, as long as neither is written, nothing is
//! released, and, for a slot of the program, no event is called.

use super::calls::CallGraph;
use super::code::{Code, Event, Instruction, Op, Operand, SLOTS_MAX};
use super::lexer::quoted;
use super::verify::{Defect, Site, defect};

/// Refuses an event that reads what may not be there.
pub(super) fn check_flow(code: &Code, number: usize, calls: &CallGraph) -> Result<(), Defect> {
    let event = &code.events[number];
    let flow = Flow { code, event, calls };
    let known = flow.settle();
    for (at, known) in (event.first..).zip(&known) {
        // Instructions that no path leads to may read what they like.
        if let Some(known) = known {
            flow.check(at, known)?;
        }
    }
    Ok(())
}

/// A set of slots.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Slots([u64; 4]);

impl Slots {
    const NONE: Self = Self([0; 4]);

    fn contains(&self, slot: u8) -> bool {
        self.0[usize::from(slot) / 64] >> (slot % 64) & 1 == 1
    }

    fn insert(&mut self, slot: u8) {
        self.0[usize::from(slot) / 64] |= 1 << (slot % 64);
    }

    fn remove(&mut self, slot: u8) {
        self.0[usize::from(slot) / 64] &= !(1 << (slot % 64));
    }

    fn intersect(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
    }
}

/// What is known before an instruction.
#[derive(Clone, PartialEq, Eq)]
struct Known {
    /// Slots of the event that have a value.
    assigned: Slots,
    /// Page slots that are not nil.
    present: Slots,
    /// By int: the page slot of which it says whether it is nil. An array, because a program may have as many
    /// tests as slots, and loops in which each of them is lost by itself.
    tests: [Option<u8>; SLOTS_MAX],
}

impl Known {
    const NOTHING: Self = Self { assigned: Slots::NONE, present: Slots::NONE, tests: [None; SLOTS_MAX] };

    fn tested_by(&self, int: u8) -> Option<u8> {
        self.tests[usize::from(int)]
    }

    /// A slot is written: what was known of it does not hold any more.
    fn write(&mut self, slot: u8) {
        self.assigned.insert(slot);
        self.present.remove(slot);
        self.tests[usize::from(slot)] = None;
        self.forget_tests(|_, page| page == slot);
    }

    fn forget_tests(&mut self, is_void: impl Fn(u8, u8) -> bool) {
        for (int, test) in (0..=u8::MAX).zip(&mut self.tests) {
            *test = test.filter(|page| !is_void(int, *page));
        }
    }

    /// Keeps what holds on both paths. Returns whether anything was lost.
    fn meet(&mut self, other: &Self) -> bool {
        let before = (self.assigned, self.present);
        self.assigned.intersect(&other.assigned);
        self.present.intersect(&other.present);
        let mut is_less = before != (self.assigned, self.present);
        for (test, other) in self.tests.iter_mut().zip(other.tests) {
            is_less |= test.is_some() && *test != other;
            *test = test.filter(|_| *test == other);
        }
        is_less
    }
}

struct Flow<'a> {
    code: &'a Code,
    event: &'a Event,
    calls: &'a CallGraph,
}

impl Flow<'_> {
    /// What is known before each instruction of the event; `None` where no path leads.
    fn settle(&self) -> Vec<Option<Known>> {
        let mut known = vec![None; self.event.end - self.event.first];
        let mut start = Known::NOTHING;
        if self.event.has_parameter {
            // The parameter is the first slot of the event.
            start.write(self.code.slots.len() as u8);
            start.present.insert(self.code.slots.len() as u8);
        }
        known[0] = Some(start);
        let mut changed = vec![self.event.first];
        while let Some(at) = changed.pop() {
            let Some(before) = &known[at - self.event.first] else { continue };
            let edges = self.edges(at, before);
            for (to, after) in edges.into_iter().flatten() {
                let there = &mut known[to - self.event.first];
                let is_news = match there {
                    Some(there) => there.meet(&after),
                    None => {
                        *there = Some(after);
                        true
                    }
                };
                if is_news {
                    changed.push(to);
                }
            }
        }
        known
    }

    /// Where the instruction leads, and what is known there.
    fn edges(&self, at: usize, before: &Known) -> [Option<(usize, Known)>; 2] {
        let instruction = self.code.instructions[at];
        let mut after = before.clone();
        self.apply(instruction, &mut after);
        // On the path where the test gave 0, the page is there.
        let mut shown = after.clone();
        if let Some(page) = before.tested_by(instruction.a) {
            shown.present.insert(page);
        }
        let target = instruction.target().map(usize::from);
        let (next, jumped) = match instruction.op {
            Op::Jz => (after, shown),
            Op::Jnz => (shown, after),
            _ => (after.clone(), after),
        };
        let next = instruction.op.falls_through().then_some((at + 1, next));
        [next, target.map(|target| (target, jumped))]
    }

    /// What the instruction changes of what is known.
    fn apply(&self, instruction: Instruction, known: &mut Known) {
        let own = self.code.slots.len();
        match instruction.op {
            Op::IsNil => {
                known.write(instruction.a);
                known.tests[usize::from(instruction.a)] = Some(instruction.b);
            }
            Op::Copy => {
                known.write(instruction.a);
                known.present.insert(instruction.a);
            }
            Op::Release => {
                known.present = Slots::NONE;
                known.tests = [None; SLOTS_MAX];
                known.assigned.remove(instruction.a);
            }
            Op::Call | Op::CallWith => {
                let callee = &self.calls.events[usize::from(instruction.a)];
                if callee.releases {
                    known.present = Slots::NONE;
                    known.tests = [None; SLOTS_MAX];
                    return;
                }
                (0..own).for_each(|slot| known.present.remove(slot as u8));
                let written = Slots(callee.writes);
                known.forget_tests(|test, page| usize::from(page) < own || written.contains(test));
            }
            _ => {
                for (_, slot) in instruction.operands().filter(|(operand, _)| operand.is_destination()) {
                    known.write(slot as u8);
                }
            }
        }
    }

    /// Whether the instruction reads only what is there.
    fn check(&self, at: usize, known: &Known) -> Result<(), Defect> {
        for (position, (operand, slot)) in self.code.instructions[at].operands().enumerate() {
            if !matches!(operand, Operand::Int | Operand::Page | Operand::PageOrNil) {
                continue;
            }
            let name = self.code.slot(self.event, usize::from(slot)).map_or("", |(name, _)| name);
            let site = Site::Operand(at, position);
            let is_own = usize::from(slot) >= self.code.slots.len();
            if is_own && !known.assigned.contains(slot as u8) {
                let expected = "a slot that has a value on every path to here";
                return Err(defect(site, expected, format!("{}, which may have none", quoted(name))));
            }
            if operand == Operand::Page && !known.present.contains(slot as u8) {
                let expected = "a page that `isnil` and a jump have shown not to be nil";
                return Err(defect(site, expected, format!("{}, which may be nil", quoted(name))));
            }
        }
        Ok(())
    }
}
