//! From the text of a program to its code: names become numbers, labels become `loop` instructions and
//! targets.
//!
//! Types of slots, limits, which events there are, and everything about the flow of control are left to the
//! verifier, because code that comes as bytes has to be checked for them as well.

use std::collections::HashMap;

use super::code::{ARGUMENTS, Code, Event, Instruction, Local, Op, Operand, Row, Slot, Type, written};
use super::error::ProgramError;
use super::lexer::{Position, quoted};
use super::text::{EventSource, Line, Name, Source, Word};

/// Where in the text the parts of the code stand.
#[derive(Default)]
pub(super) struct Positions {
    /// Per slot of the program.
    pub slots: Vec<Position>,
    /// Per event: its name, its locals, and the brace that ends it.
    pub events: Vec<(Position, Vec<Position>, Position)>,
    /// Per instruction: its name, and its operands.
    pub instructions: Vec<(Position, Vec<Position>)>,
}

/// The code of a program, and where its parts stand in the text.
pub(super) fn assemble(source: &Source) -> Result<(Code, Positions), ProgramError> {
    let mut slots: Vec<_> = source.slots.iter().collect();
    slots.sort_by_key(|(_, kind)| kind.rank());
    let mut assembler = Assembler {
        code: Code {
            name: source.name.text.clone(),
            is_privileged: source.is_privileged,
            constants: Vec::new(),
            slots: slots.iter().map(|(name, kind)| Slot { name: name.text.clone(), kind: *kind }).collect(),
            events: Vec::new(),
            instructions: Vec::new(),
        },
        positions: Positions::default(),
        slots: slots.iter().enumerate().map(|(number, (name, _))| (name.text.as_str(), number)).collect(),
        events: HashMap::new(),
        constants: HashMap::new(),
    };
    assembler.positions.slots = slots.iter().map(|(name, _)| name.at).collect();
    let names = source.slots.iter().map(|(name, _)| name);
    refuse_repeated(names, "a name that no other slot of the program has")?;
    refuse_repeated(source.events.iter().map(|event| &event.name), "one event of each name")?;
    let events = source.events.iter().enumerate();
    assembler.events = events.map(|(number, event)| (event.name.text.as_str(), number)).collect();
    for event in &source.events {
        assembler.event(event)?;
    }
    Ok((assembler.code, assembler.positions))
}

fn refuse_repeated<'a>(names: impl Iterator<Item = &'a Name>, expected: &str) -> Result<(), ProgramError> {
    let mut lines = HashMap::new();
    for name in names {
        if let Some(line) = lines.insert(name.text.as_str(), name.at.line) {
            let found = format!("{} again, which line {line} has", quoted(&name.text));
            return Err(name.at.error(expected, found));
        }
    }
    Ok(())
}

struct Assembler<'a> {
    code: Code,
    positions: Positions,
    /// Numbers of the program's slots, and of its events.
    slots: HashMap<&'a str, usize>,
    events: HashMap<&'a str, usize>,
    /// Numbers of the constants.
    constants: HashMap<i64, usize>,
}

/// What names mean in one event.
struct Scope<'a> {
    /// Numbers of the event's own slots.
    locals: HashMap<&'a str, usize>,
    /// Numbers of the instructions that labels stand for.
    labels: HashMap<&'a str, usize>,
}

impl<'a> Assembler<'a> {
    fn event(&mut self, event: &'a EventSource) -> Result<(), ProgramError> {
        let rows: Vec<&Row> = event.lines.iter().map(row).collect::<Result<_, _>>()?;
        let (locals, local_positions) = self.locals(event, &rows);
        let numbers = locals.iter().zip(self.code.slots.len()..);
        let numbers = numbers.map(|((name, _), number)| (*name, number)).collect();
        let first = self.code.instructions.len();
        let loops = loops(event, &rows)?;
        // The number of the first instruction of each line.
        let firsts: Vec<usize> = loops
            .iter()
            .scan(first, |next, is_loop| Some(std::mem::replace(next, *next + 1 + usize::from(*is_loop))))
            .collect();
        let labels = event.labels.iter().map(|(label, line)| (label.text.as_str(), firsts[*line]));
        let scope = Scope { locals: numbers, labels: labels.collect() };
        for ((line, row), is_loop) in event.lines.iter().zip(rows).zip(loops) {
            if is_loop {
                self.push(Instruction::new(Op::Loop, &[]), line.op.at, Vec::new());
            }
            self.line(line, row, &scope)?;
        }
        let locals = locals.into_iter().map(|(name, is_page)| Local { name: name.to_owned(), is_page });
        self.code.events.push(Event {
            name: event.name.text.clone(),
            has_parameter: event.parameter.is_some(),
            locals: locals.collect(),
            first,
            end: self.code.instructions.len(),
        });
        self.positions.events.push((event.name.at, local_positions, event.end));
        Ok(())
    }

    /// The event's own slots: its parameter, and the names that are destinations and no slot of the program.
    /// Says for each whether it is a page, and where it stands first.
    fn locals(&self, event: &'a EventSource, rows: &[&Row]) -> (Vec<(&'a str, bool)>, Vec<Position>) {
        let parameter = event.parameter.iter().map(|name| (name.text.as_str(), true, name.at));
        let destinations = event.lines.iter().zip(rows).flat_map(|(line, row)| {
            let words = row.operands.iter().zip(&line.operands);
            words.filter_map(|(operand, (word, at))| match word {
                Word::Name(name) if operand.is_destination() => {
                    Some((name.as_str(), *operand == Operand::PageOut, *at))
                }
                _ => None,
            })
        });
        // A parameter with the name of a slot of the program is a local here; the verifier refuses it.
        let own = destinations.filter(|(name, ..)| !self.slots.contains_key(name));
        let mut known = HashMap::new();
        let (mut locals, mut positions) = (Vec::new(), Vec::new());
        for (name, is_page, at) in parameter.chain(own) {
            if known.insert(name, ()).is_none() {
                locals.push((name, is_page));
                positions.push(at);
            }
        }
        (locals, positions)
    }

    fn line(&mut self, line: &Line, row: &Row, scope: &Scope<'_>) -> Result<(), ProgramError> {
        let mut values = Vec::with_capacity(row.operands.len());
        for (operand, (word, at)) in row.operands.iter().zip(&line.operands) {
            values.push(self.value(*operand, word, *at, scope)? as u16);
        }
        let positions = line.operands.iter().map(|(_, at)| *at).collect();
        self.push(Instruction::new(row.op, &values), line.op.at, positions);
        Ok(())
    }

    fn push(&mut self, instruction: Instruction, at: Position, operands: Vec<Position>) {
        self.code.instructions.push(instruction);
        self.positions.instructions.push((at, operands));
    }

    /// The number that an operand stands for.
    fn value(
        &mut self,
        operand: Operand,
        word: &Word,
        at: Position,
        scope: &Scope<'_>,
    ) -> Result<usize, ProgramError> {
        let name = match (operand, word) {
            (Operand::Constant, Word::Number(value)) => return Ok(self.constant(*value)),
            (Operand::Bit, Word::Number(bit @ (0 | 1))) => return Ok(*bit as usize),
            (_, Word::Number(number)) => {
                return Err(at.error(described(operand), format!("the number `{number}`")));
            }
            (_, Word::Name(name)) => name.as_str(),
        };
        let found = match operand {
            Operand::Constant | Operand::Bit => None,
            Operand::Label => scope.labels.get(name).copied(),
            Operand::Event => self.events.get(name).copied(),
            Operand::Argument => ARGUMENTS.iter().position(|argument| *argument == name),
            _ => self.slots.get(name).or_else(|| scope.locals.get(name)).copied(),
        };
        found.ok_or_else(|| {
            let is_slot = operand.slot_type().is_some_and(|slot| matches!(slot, Type::Int | Type::Page));
            let why = if is_slot { ", which nothing in this event gives a value" } else { "" };
            at.error(described(operand), format!("{}{why}", quoted(name)))
        })
    }

    fn constant(&mut self, value: i64) -> usize {
        let next = self.code.constants.len();
        *self.constants.entry(value).or_insert_with(|| {
            self.code.constants.push(value);
            next
        })
    }
}

/// The row of the instruction set that a line means.
fn row(line: &Line) -> Result<&'static Row, ProgramError> {
    let name = line.op.text.as_str();
    let named: Vec<&Row> = written().filter(|row| row.name == name).collect();
    if named.is_empty() {
        let mut known: Vec<_> = written().map(|row| row.name).collect();
        known.dedup();
        let expected = format!("an instruction, one of {}", known.join(" "));
        return Err(line.op.at.error(expected, quoted(name)));
    }
    let count = line.operands.len();
    named.iter().find(|row| row.operands.len() == count).copied().ok_or_else(|| {
        let forms: Vec<_> = named.iter().map(|row| form(row)).collect();
        let found = format!("{count} operand{}", if count == 1 { "" } else { "s" });
        line.op.at.error(forms.join(" or "), found)
    })
}

/// An instruction as it may be written.
fn form(row: &Row) -> String {
    let operands: Vec<_> = row.operands.iter().map(|operand| described(*operand)).collect();
    match operands.as_slice() {
        [] => format!("`{}` alone", row.name),
        some => format!("`{}` with {}", row.name, some.join(", ")),
    }
}

/// What an operand has to be.
fn described(operand: Operand) -> String {
    match operand {
        Operand::IntOut => "an int slot to write".to_owned(),
        Operand::PageOut => "a page slot to write".to_owned(),
        Operand::Int => Type::Int.to_string(),
        Operand::Page | Operand::PageOrNil => Type::Page.to_string(),
        Operand::Queue => "a queue of the program".to_owned(),
        Operand::Ghosts => "a list of ghosts of the program".to_owned(),
        Operand::Constant => "a number".to_owned(),
        Operand::Label => "a label of this event".to_owned(),
        Operand::Event => "an event of the program".to_owned(),
        Operand::Bit => "`0` or `1`".to_owned(),
        Operand::Argument => format!("one of `{}`", ARGUMENTS.join("`, `")),
    }
}

/// Whether each line of an event begins with a `loop`: it does if a later line jumps to it, or it to itself.
fn loops(event: &EventSource, rows: &[&Row]) -> Result<Vec<bool>, ProgramError> {
    refuse_repeated(event.labels.iter().map(|(label, _)| label), "one label of each name in an event")?;
    if event.labels.iter().any(|(_, line)| *line == event.lines.len()) {
        return Err(event.end.error("an instruction after the label", "`}`"));
    }
    let lines: HashMap<&str, usize> =
        event.labels.iter().map(|(label, line)| (label.text.as_str(), *line)).collect();
    let mut loops = vec![false; event.lines.len()];
    for (at, (line, row)) in event.lines.iter().zip(rows).enumerate() {
        for (operand, (word, _)) in row.operands.iter().zip(&line.operands) {
            let Word::Name(name) = word else { continue };
            let target = lines.get(name.as_str()).filter(|_| *operand == Operand::Label);
            if let Some(target) = target.filter(|target| **target <= at) {
                loops[*target] = true;
            }
        }
    }
    Ok(loops)
}
