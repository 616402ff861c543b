//! The verifier: what a program has to be before it runs.
//!
//! It looks at the code as a whole (limits, names, which events there are), at each instruction by itself
//! (types of slots, targets of jumps), at the calls between events, and at the flow of control within each
//! event. What it lets through, the interpreter runs without a check: every slot that is read has a value, no
//! page that is read is nil, and between two comparisons with the fuel lies straight code.
//!
//! Code that could not be the assembler's output is refused as well: numbers in another order than that of
//! their first use, a `loop` that nothing jumps back to. So a program and its text say the same.

use std::collections::HashSet;

use super::calls::{CallGraph, call_graph};
use super::code::{
    ACCESS_MAX, Code, EVENTS_MAX, Event, GHOST_LISTS_MAX, INSTRUCTIONS_MAX, Instruction, Op, Operand,
    QUEUES_MAX, SLOTS_MAX, SlotKind, Standard, is_name,
};
use super::flow::check_flow;
use super::lexer::quoted;

/// The part of a program that is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Site {
    /// The program as a whole.
    Program,
    /// The program's name.
    Name,
    /// A slot of the program.
    Slot(usize),
    /// An event.
    Event(usize),
    /// Where an event ends.
    EventEnd(usize),
    /// A slot of an event.
    Local(usize, usize),
    /// An instruction.
    Instruction(usize),
    /// An operand of an instruction.
    Operand(usize, usize),
}

/// Why a program is refused.
#[derive(Debug)]
pub(super) struct Defect {
    pub site: Site,
    pub expected: String,
    pub found: String,
}

pub(super) fn defect(site: Site, expected: impl Into<String>, found: impl Into<String>) -> Defect {
    Defect { site, expected: expected.into(), found: found.into() }
}

/// Refuses code that may not run; otherwise says who calls whom.
pub(super) fn verify(code: &Code) -> Result<CallGraph, Defect> {
    check_limits(code)?;
    check_names(code)?;
    check_events(code)?;
    for number in 0..code.events.len() {
        check_instructions(code, number)?;
        check_loops(code, &code.events[number])?;
    }
    check_order(code)?;
    let calls = call_graph(code)?;
    check_access(code, &calls)?;
    for event in 0..code.events.len() {
        check_flow(code, event, &calls)?;
    }
    Ok(calls)
}

fn check_limits(code: &Code) -> Result<(), Defect> {
    let of_kind = |kind: SlotKind| {
        let numbers = code.slots.iter().enumerate().filter(move |(_, slot)| slot.kind == kind);
        numbers.map(|(number, _)| number)
    };
    if code.slots.len() > SLOTS_MAX {
        let found = format!("slot {}", SLOTS_MAX + 1);
        return Err(defect(Site::Slot(SLOTS_MAX), format!("at most {SLOTS_MAX} slots"), found));
    }
    for (kind, max, name) in
        [(SlotKind::Queue, QUEUES_MAX, "queues"), (SlotKind::Ghosts, GHOST_LISTS_MAX, "lists of ghosts")]
    {
        if let Some(number) = of_kind(kind).nth(max) {
            let found = format!("{}, number {}", quoted(&code.slots[number].name), max + 1);
            return Err(defect(Site::Slot(number), format!("at most {max} {name}"), found));
        }
    }
    if code.events.len() > EVENTS_MAX {
        let found = format!("event {}", EVENTS_MAX + 1);
        return Err(defect(Site::Event(EVENTS_MAX), format!("at most {EVENTS_MAX} events"), found));
    }
    for (number, event) in code.events.iter().enumerate() {
        let room = SLOTS_MAX - code.slots.len();
        if event.locals.len() > room {
            let expected = format!("at most {SLOTS_MAX} slots in an event, those of the program included");
            let found = format!("{}, number {}", quoted(&event.locals[room].name), SLOTS_MAX + 1);
            return Err(defect(Site::Local(number, room), expected, found));
        }
    }
    if code.instructions.len() > INSTRUCTIONS_MAX {
        let expected = format!("at most {INSTRUCTIONS_MAX} instructions in a program");
        let found = format!("instruction {}", INSTRUCTIONS_MAX + 1);
        return Err(defect(Site::Instruction(INSTRUCTIONS_MAX), expected, found));
    }
    Ok(())
}

/// Names are names, and each means one thing.
fn check_names(code: &Code) -> Result<(), Defect> {
    let check = |name: &str, site: Site| {
        if is_name(name) && name.len() <= usize::from(u8::MAX) {
            return Ok(());
        }
        Err(defect(site, "a name of at most 255 letters, digits and `_`, no digit first", quoted(name)))
    };
    check(&code.name, Site::Name)?;
    let mut names = HashSet::new();
    for (number, slot) in code.slots.iter().enumerate() {
        check(&slot.name, Site::Slot(number))?;
        if !names.insert(slot.name.as_str()) {
            let expected = "a name that no other slot of the program has";
            return Err(defect(Site::Slot(number), expected, quoted(&slot.name)));
        }
    }
    if !code.slots.is_sorted_by_key(|slot| slot.kind.rank()) {
        let expected = "slots in the order queues, lists of ghosts, pages, ints and constants";
        return Err(defect(Site::Program, expected, "another order"));
    }
    let mut events = HashSet::new();
    for (number, event) in code.events.iter().enumerate() {
        check(&event.name, Site::Event(number))?;
        if !events.insert(event.name.as_str()) {
            return Err(defect(Site::Event(number), "one event of each name", quoted(&event.name)));
        }
        let mut own = HashSet::new();
        for (local, slot) in event.locals.iter().enumerate() {
            check(&slot.name, Site::Local(number, local))?;
            if names.contains(slot.name.as_str()) || !own.insert(slot.name.as_str()) {
                let expected = "a name that no other slot of the program or the event has";
                return Err(defect(Site::Local(number, local), expected, quoted(&slot.name)));
            }
        }
    }
    Ok(())
}

/// The events that every program has are there, and each is given what it is to be given.
fn check_events(code: &Code) -> Result<(), Defect> {
    for standard in Standard::ALL {
        let name = standard.name();
        let Some(number) = code.event(name) else {
            if standard.is_mandatory() {
                let expected = format!("the event `{name}`");
                return Err(defect(Site::Program, expected, "the end of the program"));
            }
            continue;
        };
        let event = &code.events[number];
        let forms = [format!("`event {name}` without a parameter"), format!("`event {name}(p)` with a page")];
        let [bare, given] = if standard.has_parameter() { [1, 0] } else { [0, 1] };
        if event.has_parameter != standard.has_parameter() {
            return Err(defect(Site::Event(number), forms[bare].clone(), forms[given].clone()));
        }
    }
    for (number, event) in code.events.iter().enumerate() {
        if event.has_parameter && !event.locals.first().is_some_and(|local| local.is_page) {
            return Err(defect(Site::Event(number), "a page as parameter", "something else"));
        }
        let last = code.instructions[event.first..event.end].last();
        match last.map(|last| last.op) {
            None => {
                return Err(defect(Site::EventEnd(number), "an instruction", "the end of the event"));
            }
            Some(op) if op.falls_through() => {
                let expected = "`ret` or `jmp` as the last instruction of an event";
                return Err(defect(Site::Instruction(event.end - 1), expected, quoted(op.row().name)));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Each instruction by itself.
fn check_instructions(code: &Code, number: usize) -> Result<(), Defect> {
    let event = &code.events[number];
    for (at, instruction) in (event.first..).zip(&code.instructions[event.first..event.end]) {
        let name = instruction.op.row().name;
        if matches!(instruction.op, Op::Request | Op::Release) && !code.is_privileged {
            let expected = "an instruction that a program without `privileged` may use";
            return Err(defect(Site::Instruction(at), expected, quoted(name)));
        }
        let gives_page = instruction.op == Op::RetPage;
        if matches!(instruction.op, Op::Ret | Op::RetPage) && gives_page != code.returns_page(event) {
            let forms = ["`ret` alone", "`ret` with a page"];
            let [expected, found] = if gives_page { forms } else { [forms[1], forms[0]] };
            return Err(defect(
                Site::Instruction(at),
                format!("{expected} in the event `{}`", event.name),
                found,
            ));
        }
        for (position, (operand, value)) in instruction.operands().enumerate() {
            let site = Site::Operand(at, position);
            check_operand(code, event, *instruction, operand, usize::from(value))
                .map_err(|(expected, found)| defect(site, expected, found))?;
        }
    }
    Ok(())
}

/// What was expected of an operand, and what was found.
fn check_operand(
    code: &Code,
    event: &Event,
    instruction: Instruction,
    operand: Operand,
    value: usize,
) -> Result<(), (String, String)> {
    let number = || format!("number {value}");
    match operand {
        Operand::Constant if value < code.constants.len() => Ok(()),
        Operand::Constant => Err((format!("one of {} constants", code.constants.len()), number())),
        Operand::Label if (event.first..event.end).contains(&value) => Ok(()),
        Operand::Label => Err(("an instruction of the same event".to_owned(), number())),
        Operand::Bit if value <= 1 => Ok(()),
        Operand::Bit => Err(("0 or 1".to_owned(), number())),
        Operand::Argument if value < super::code::ARGUMENTS.len() => Ok(()),
        Operand::Argument => Err(("the number of an argument, 0 to 3".to_owned(), number())),
        Operand::Event => {
            let Some(callee) = code.events.get(value) else {
                return Err((format!("one of {} events", code.events.len()), number()));
            };
            if Standard::find(&callee.name).is_some() {
                return Err(("an event of the program's own".to_owned(), quoted(&callee.name)));
            }
            let is_given = instruction.op == Op::CallWith;
            if callee.has_parameter != is_given {
                let forms = ["an event without a parameter", "an event with a parameter"];
                let expected = forms[usize::from(is_given)].to_owned();
                return Err((expected, quoted(&callee.name)));
            }
            Ok(())
        }
        _ => {
            let wanted = operand.slot_type().expect("all other operands are slots");
            let Some((name, found)) = code.slot(event, value) else {
                return Err((wanted.to_string(), number()));
            };
            if wanted != found {
                return Err((wanted.to_string(), format!("{}, {found}", quoted(name))));
            }
            let is_const = code.slots.get(value).is_some_and(|slot| matches!(slot.kind, SlotKind::Const(_)));
            if operand.is_destination() && is_const {
                return Err(("an int slot to write".to_owned(), format!("{}, a constant", quoted(name))));
            }
            Ok(())
        }
    }
}

/// Jumps back lead to a `loop`, each `loop` is jumped back to, and nothing jumps past one.
fn check_loops(code: &Code, event: &Event) -> Result<(), Defect> {
    let mut unused: HashSet<usize> =
        (event.first..event.end).filter(|at| code.instructions[*at].op == Op::Loop).collect();
    let loops = unused.clone();
    for at in event.first..event.end {
        let Some(target) = code.instructions[at].target().map(usize::from) else { continue };
        // A label is the last operand.
        let site = Site::Operand(at, code.instructions[at].op.row().operands.len() - 1);
        if target <= at && !unused.remove(&target) && !loops.contains(&target) {
            let found = quoted(code.instructions[target].op.row().name);
            return Err(defect(site, "`loop` where a jump leads back to", found));
        }
        if target > event.first && loops.contains(&(target - 1)) {
            return Err(defect(site, "a jump to `loop`", "one to the instruction after it"));
        }
    }
    match unused.into_iter().min() {
        Some(at) => Err(defect(Site::Instruction(at), "a jump back to each `loop`", "none")),
        None => Ok(()),
    }
}

/// Constants and slots of events are numbered by their first use, as by the assembler.
fn check_order(code: &Code) -> Result<(), Defect> {
    let mut constants = 0;
    for (at, instruction) in code.instructions.iter().enumerate() {
        let constant = usize::from(instruction.wide());
        if instruction.op == Op::Ldc && constant >= constants {
            if constant > constants {
                let expected = "constants numbered by their first use";
                return Err(defect(Site::Instruction(at), expected, format!("number {constant}")));
            }
            constants += 1;
        }
    }
    let distinct: HashSet<_> = code.constants.iter().collect();
    if constants < code.constants.len() || distinct.len() < code.constants.len() {
        return Err(defect(Site::Program, "constants that are used, each value once", "another one"));
    }
    for (number, event) in code.events.iter().enumerate() {
        let mut locals = usize::from(event.has_parameter);
        let instructions = code.instructions[event.first..event.end].iter();
        let destinations =
            instructions.flat_map(|next| next.operands()).filter(|(operand, _)| operand.is_destination());
        for (_, slot) in destinations {
            let Some(local) = usize::from(slot).checked_sub(code.slots.len()) else { continue };
            if local > locals {
                let expected = "slots of an event numbered by their first use as a destination";
                return Err(defect(Site::Local(number, local), expected, "another order"));
            }
            locals += usize::from(local == locals);
        }
        if locals < event.locals.len() {
            let found = quoted(&event.locals[locals].name);
            return Err(defect(Site::Local(number, locals), "a slot that an instruction writes", found));
        }
    }
    Ok(())
}

/// A hit has to be cheap: `access` is short and without loops, with all that it calls.
fn check_access(code: &Code, calls: &CallGraph) -> Result<(), Defect> {
    let Some(number) = code.event(Standard::Access.name()) else { return Ok(()) };
    let event = &code.events[number];
    for at in event.first..event.end {
        let instruction = code.instructions[at];
        let callee = instruction.callee().filter(|callee| calls.events[*callee].has_loop);
        if instruction.op == Op::Loop || callee.is_some() {
            let found = callee.map_or_else(
                || "a jump back to here".to_owned(),
                |callee| format!("a call of {}, which has one", quoted(&code.events[callee].name)),
            );
            return Err(defect(Site::Instruction(at), "no loop in the event `access`", found));
        }
    }
    let instructions = calls.events[number].instructions;
    if instructions > ACCESS_MAX {
        let expected = format!("at most {ACCESS_MAX} instructions in the event `access`, with what it calls");
        return Err(defect(Site::Event(number), expected, instructions.to_string()));
    }
    Ok(())
}
