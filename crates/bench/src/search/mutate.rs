//! Random changes of programs: of a constant, or of an instruction.
//!
//! Most changes of an instruction give no valid program. The parser refuses those, and the caller tries
//! again.

use bufpool_policies::program::{ARGUMENTS, InstructionForm, Operand, instruction_set};

use super::draft::{Code, Draft, Event, Kind, Line, Slot};
use crate::random::Random;

/// Instructions that the search does not insert. `request` and `release` need a privileged tenant; `flush`
/// and `setmod` concern the driver, and change no miss; `find` and `call` take many steps.
const LEFT_OUT: [&str; 6] = ["request", "release", "flush", "setmod", "find", "call"];

/// What may be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A value: of an `int` or a `const`, or that which an `ldc` loads.
    Constant,
    /// An instruction: one is inserted, deleted, replaced, exchanged with another, or gets another operand.
    Instruction,
}

/// Changes the draft in one place. A constant cannot be changed in a program that has none; then an
/// instruction is.
pub fn mutate(draft: &mut Draft, change: Change, random: &mut Random) {
    if change == Change::Constant && change_constant(draft, random) {
        return;
    }
    if random.chance(0.05) {
        declare_int(draft, random);
    }
    let event = random.below(draft.events.len() as u64) as usize;
    match random.below(8) {
        0 => insert(draft, event, random),
        1 | 2 => insert_guarded(draft, event, random),
        3 => delete(&mut draft.events[event], random),
        4 => {
            delete(&mut draft.events[event], random);
            insert(draft, event, random);
        }
        5 => swap(&mut draft.events[event], random),
        _ => change_operand(draft, event, random),
    }
}

/// Changes a constant of the program. Returns false if it has none.
fn change_constant(draft: &mut Draft, random: &mut Random) -> bool {
    let mut slots = Vec::new();
    for slot in &mut draft.slots {
        if let Kind::Int(value) | Kind::Const(value) = &mut slot.kind {
            slots.push(value);
        }
    }
    let mut words = Vec::new();
    for line in draft.events.iter_mut().flat_map(|event| &mut event.lines) {
        if let Line::Code(Code { row: [.., Operand::Constant], words: written, .. }) = line {
            words.extend(written.last_mut());
        }
    }
    let sites = (slots.len() + words.len()) as u64;
    if sites == 0 {
        return false;
    }
    let site = random.below(sites) as usize;
    match slots.get_mut(site) {
        Some(value) => **value = near(**value, random),
        None => {
            let word = &mut words[site - slots.len()];
            let value = word.parse().unwrap_or(0);
            **word = near(value, random).to_string();
        }
    }
    true
}

/// A random value, mostly one near `value`.
fn near(value: i64, random: &mut Random) -> i64 {
    let quarter = (value.unsigned_abs() / 4).clamp(1, 1 << 32);
    let step = random.below(quarter) as i64 + 1;
    match random.below(8) {
        0 => value.wrapping_add(1),
        1 => value.wrapping_sub(1),
        2 => value.wrapping_mul(2),
        3 => value / 2,
        4 => random.below(17) as i64,
        5 => 1 << random.below(12),
        6 => value.wrapping_add(step),
        _ => value.wrapping_sub(step),
    }
}

/// Declares an `int` or a `const` that nothing uses yet.
fn declare_int(draft: &mut Draft, random: &mut Random) {
    let value = near(1 << random.below(8), random);
    let (letter, kind) = if random.chance(0.5) { ("k", Kind::Const(value)) } else { ("i", Kind::Int(value)) };
    let name = fresh(letter, |name| is_used(draft, name));
    draft.slots.push(Slot { name, kind });
}

/// Inserts a random instruction at a random place in the event.
fn insert(draft: &mut Draft, event: usize, random: &mut Random) {
    let at = place(&draft.events[event], random);
    if let Some(code) = instruction(draft, event, random, |_| true) {
        draft.events[event].lines.insert(at, Line::Code(code));
    }
}

/// Inserts a test and a conditional jump at a random place in the event. The jump skips one or two lines, or
/// a new instruction.
fn insert_guarded(draft: &mut Draft, event: usize, random: &mut Random) {
    let at = place(&draft.events[event], random);
    let is_test = |row: &[Operand]| row.first() == Some(&Operand::IntOut);
    let Some(mut test) = instruction(draft, event, random, is_test) else { return };
    let flag = fresh("t", |name| is_used(draft, name));
    test.words[0].clone_from(&flag);
    let action = if random.chance(0.6) { instruction(draft, event, random, |_| true) } else { None };
    let passed = if action.is_some() { 0 } else { 1 + random.below(2) as usize };
    let lines = &mut draft.events[event].lines;
    let label = fresh("M", |name| lines.iter().any(|line| matches!(line, Line::Label(own) if own == name)));
    lines.insert((at + passed).min(lines.len()), Line::Label(label.clone()));
    let jump = if random.chance(0.5) { "jz" } else { "jnz" };
    let jump = Code { name: jump.to_owned(), row: &[Operand::Int, Operand::Label], words: vec![flag, label] };
    let new = [test, jump].into_iter().chain(action).map(Line::Code);
    lines.splice(at..at, new);
}

fn delete(event: &mut Event, random: &mut Random) {
    if let Some(at) = pick(&event.code_lines(), random) {
        event.lines.remove(at);
    }
}

fn swap(event: &mut Event, random: &mut Random) {
    let lines = event.code_lines();
    if let (Some(one), Some(other)) = (pick(&lines, random), pick(&lines, random)) {
        event.lines.swap(one, other);
    }
}

fn change_operand(draft: &mut Draft, event: usize, random: &mut Random) {
    let Some(at) = pick(&draft.events[event].code_lines(), random) else { return };
    let Line::Code(code) = &draft.events[event].lines[at] else { return };
    let row = code.row;
    if row.is_empty() {
        return;
    }
    let position = random.below(row.len() as u64) as usize;
    if let Some(word) = word(draft, event, row[position], random)
        && let Line::Code(code) = &mut draft.events[event].lines[at]
    {
        code.words[position] = word;
    }
}

/// A random instruction whose kinds of operands `fits` accepts, with operands that exist in the event. `None`
/// if the event has no operand of a kind that is needed.
fn instruction(
    draft: &Draft,
    event: usize,
    random: &mut Random,
    fits: impl Fn(&[Operand]) -> bool,
) -> Option<Code> {
    let may_be = |form: &InstructionForm| !LEFT_OUT.contains(&form.name) && fits(form.operands);
    let forms: Vec<_> = instruction_set().filter(may_be).collect();
    let form = pick(&forms, random)?;
    let words = form.operands.iter().map(|operand| word(draft, event, *operand, random));
    Some(Code { name: form.name.to_owned(), row: form.operands, words: words.collect::<Option<_>>()? })
}

/// A random word for an operand of this kind; `None` if nothing in the event fits.
fn word(draft: &Draft, event: usize, operand: Operand, random: &mut Random) -> Option<String> {
    let own = &draft.events[event];
    let slots = |fits: fn(&Kind) -> bool| {
        draft.slots.iter().filter(move |slot| fits(&slot.kind)).map(|slot| slot.name.clone())
    };
    let written = |destination: Operand| {
        own.code()
            .flat_map(|code| code.row.iter().zip(&code.words))
            .filter(move |(operand, _)| **operand == destination)
            .map(|(_, word)| word.clone())
    };
    let names: Vec<String> = match operand {
        Operand::Queue => slots(|kind| *kind == Kind::Queue).collect(),
        Operand::Ghosts => slots(|kind| *kind == Kind::Ghosts).collect(),
        Operand::Int => {
            let declared = slots(|kind| matches!(kind, Kind::Int(_) | Kind::Const(_)));
            declared.chain(written(Operand::IntOut)).collect()
        }
        Operand::IntOut => {
            let declared = slots(|kind| matches!(kind, Kind::Int(_)));
            let new = fresh("n", |name| is_used(draft, name));
            declared.chain(written(Operand::IntOut)).chain([new]).collect()
        }
        Operand::Page | Operand::PageOrNil => {
            let declared = slots(|kind| *kind == Kind::Page).chain(own.parameter.clone());
            declared.chain(written(Operand::PageOut)).collect()
        }
        Operand::PageOut => {
            let new = fresh("v", |name| is_used(draft, name));
            slots(|kind| *kind == Kind::Page).chain(written(Operand::PageOut)).chain([new]).collect()
        }
        Operand::Label => own.labels().cloned().collect(),
        Operand::Bit => vec!["0".to_owned(), "1".to_owned()],
        Operand::Argument => ARGUMENTS.map(str::to_owned).to_vec(),
        Operand::Constant => vec![near(1 << random.below(8), random).to_string()],
        Operand::Event => Vec::new(),
    };
    pick(&names, random)
}

/// A random place before, between or behind the lines of the event.
fn place(event: &Event, random: &mut Random) -> usize {
    random.below(event.lines.len() as u64 + 1) as usize
}

fn pick<T: Clone>(of: &[T], random: &mut Random) -> Option<T> {
    if of.is_empty() {
        return None;
    }
    Some(of[random.below(of.len() as u64) as usize].clone())
}

/// Whether a slot or an operand of the program has this name.
fn is_used(draft: &Draft, name: &str) -> bool {
    let mut code = draft.events.iter().flat_map(Event::code);
    let is_parameter = |event: &Event| event.parameter.as_deref() == Some(name);
    draft.slots.iter().any(|slot| slot.name == name)
        || draft.events.iter().any(is_parameter)
        || code.any(|code| code.words.iter().any(|word| word == name))
}

/// The first of the names `LETTER_1`, `LETTER_2` and so on that is not taken.
fn fresh(letter: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut names = (1_u32..).map(|number| format!("{letter}_{number}"));
    names.find(|name| !is_taken(name)).expect("there are more numbers than names")
}

#[cfg(test)]
mod tests {
    use bufpool_policies::program::Program;

    use super::*;
    use crate::search::library;

    #[test]
    fn each_change_leads_to_programs_that_are_others() {
        let mut random = Random::new(7);
        for (name, program) in library() {
            let draft = Draft::of(&program);
            let has_values =
                draft.slots.iter().any(|slot| matches!(slot.kind, Kind::Int(_) | Kind::Const(_)));
            for change in [Change::Constant, Change::Instruction] {
                if change == Change::Constant && !has_values {
                    continue;
                }
                let mut others = 0;
                for _ in 0..300 {
                    let mut child = draft.clone();
                    mutate(&mut child, change, &mut random);
                    let child = Program::parse(&child.text(program.name()));
                    others += u32::from(child.is_ok_and(|child| child.to_bytes() != program.to_bytes()));
                }
                assert!(others > 10, "{name}, {change:?}: {others} of 300");
            }
        }
    }
}
