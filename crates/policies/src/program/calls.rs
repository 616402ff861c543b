//! Who calls whom, and what that adds up to.

use super::code::{Code, DEPTH_MAX, Event, Instruction, Op};
use super::lexer::quoted;
use super::verify::{Defect, Site, defect};

/// What is known of each event, with all that it calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CallGraph {
    pub events: Vec<Reach>,
}

/// What one event comes to, with all that it calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reach {
    /// Instructions, those of a called event once for each call of it.
    pub instructions: u32,
    pub has_loop: bool,
    /// The most fuel that the event can take; `None` with a loop.
    pub steps_max: Option<u32>,
    /// Calls that can be open at a time.
    pub depth: usize,
    /// Slots that the event and those it calls need at a time, those of the program left out.
    pub locals: usize,
    /// Whether a page may be released.
    pub releases: bool,
    /// Slots of the program that may be written, a bit each.
    pub writes: [u64; 4],
}

/// The graph of calls, unless events call each other in a circle, or too deep.
pub(super) fn call_graph(code: &Code) -> Result<CallGraph, Defect> {
    let mut walk = Walk { code, reached: vec![None; code.events.len()], open: Vec::new() };
    for event in 0..code.events.len() {
        walk.visit(event)?;
    }
    Ok(CallGraph { events: walk.reached.into_iter().map(|reach| reach.expect("all were visited")).collect() })
}

/// A walk over the events, callees first.
struct Walk<'a> {
    code: &'a Code,
    reached: Vec<Option<Reach>>,
    /// Events whose calls are being followed.
    open: Vec<usize>,
}

impl Walk<'_> {
    fn visit(&mut self, number: usize) -> Result<(), Defect> {
        if self.reached[number].is_some() {
            return Ok(());
        }
        self.open.push(number);
        let event = &self.code.events[number];
        for at in event.first..event.end {
            let Some(callee) = self.code.instructions[at].callee() else { continue };
            if let Some(start) = self.open.iter().position(|open| *open == callee) {
                let circle = self.open[start..].iter().chain([&callee]);
                let names: Vec<_> = circle.map(|event| self.code.events[*event].name.as_str()).collect();
                let expected = "calls that do not lead back to their own event";
                return Err(defect(Site::Operand(at, 0), expected, format!("`{}`", names.join(" -> "))));
            }
            self.visit(callee)?;
            let depth = self.reached[callee].as_ref().map_or(0, |reach| reach.depth) + 1;
            if depth > DEPTH_MAX {
                let expected = format!("at most {DEPTH_MAX} calls that are open at a time");
                let found = format!("{depth} with that of {}", quoted(&self.code.events[callee].name));
                return Err(defect(Site::Operand(at, 0), expected, found));
            }
        }
        self.open.pop();
        self.reached[number] = Some(self.reach(event));
        Ok(())
    }

    /// What an event comes to whose callees have been visited.
    fn reach(&self, event: &Event) -> Reach {
        let mut reach = Reach {
            instructions: (event.end - event.first) as u32,
            has_loop: false,
            steps_max: None,
            depth: 0,
            locals: event.locals.len(),
            releases: false,
            writes: [0; 4],
        };
        for instruction in &self.code.instructions[event.first..event.end] {
            reach.has_loop |= instruction.op == Op::Loop;
            reach.releases |= instruction.op == Op::Release;
            let written = instruction.operands().filter(|(operand, _)| operand.is_destination());
            for (_, slot) in written.filter(|(_, slot)| usize::from(*slot) < self.code.slots.len()) {
                reach.writes[usize::from(slot) / 64] |= 1 << (slot % 64);
            }
            let Some(called) = self.called(*instruction) else { continue };
            reach.instructions = reach.instructions.saturating_add(called.instructions);
            reach.has_loop |= called.has_loop;
            reach.releases |= called.releases;
            reach.depth = reach.depth.max(called.depth + 1);
            reach.locals = reach.locals.max(event.locals.len() + called.locals);
            reach.writes.iter_mut().zip(called.writes).for_each(|(word, called)| *word |= called);
        }
        reach.steps_max = if reach.has_loop { None } else { Some(self.longest_path(event)) };
        reach
    }

    fn called(&self, instruction: Instruction) -> Option<&Reach> {
        self.reached[instruction.callee()?].as_ref()
    }

    /// The most fuel from the first instruction of an event without loops to its end.
    fn longest_path(&self, event: &Event) -> u32 {
        let mut from = vec![0_u32; event.end - event.first + 1];
        for at in (event.first..event.end).rev() {
            let instruction = self.code.instructions[at];
            let here = at - event.first;
            let next = if instruction.op.falls_through() { from[here + 1] } else { 0 };
            let jumped = instruction.target().map_or(0, |target| from[usize::from(target) - event.first]);
            let called = self.called(instruction).and_then(|called| called.steps_max).unwrap_or(0);
            from[here] = next.max(jumped).saturating_add(instruction.op.cost()).saturating_add(called);
        }
        from[0]
    }
}
