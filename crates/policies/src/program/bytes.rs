//! The binary form of a program.
//!
//! All numbers are little-endian, a name is its length in one byte and its characters:
//!
//! | part | bytes |
//! | --- | --- |
//! | `bufprog`, version 1 | 8 |
//! | 1 if privileged | 1 |
//! | name | 1 + length |
//! | number of constants, each constant | 2, 8 each |
//! | number of slots; each: kind (0 queue, 1 ghost, 2 page, 3 int, 4 const), name, value of an int or const | 2; 1, 1 + length, 0 or 8 |
//! | number of events; each: name, 1 if it has a parameter, number of locals, each local's type (0 int, 1 page) and name, number of instructions | 2; 1 + length, 1, 2, 1 and 1 + length, 2 |
//! | the instructions of all events: opcode, a, b, c | 4 each |

use super::code::{Code, EVENTS_MAX, Event, INSTRUCTIONS_MAX, Instruction, Local, SLOTS_MAX, Slot, SlotKind};
use super::error::{ProgramError, ProgramPlace};

const MAGIC: &[u8; 8] = b"bufprog\x01";

/// The binary form.
pub(super) fn write(code: &Code) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.push(u8::from(code.is_privileged));
    write_name(&mut out, &code.name);
    write_count(&mut out, code.constants.len());
    code.constants.iter().for_each(|constant| out.extend(constant.to_le_bytes()));
    write_count(&mut out, code.slots.len());
    for Slot { name, kind } in &code.slots {
        let (number, value) = match kind {
            SlotKind::Queue => (0, None),
            SlotKind::Ghosts => (1, None),
            SlotKind::Page => (2, None),
            SlotKind::Int(value) => (3, Some(value)),
            SlotKind::Const(value) => (4, Some(value)),
        };
        out.push(number);
        write_name(&mut out, name);
        value.into_iter().for_each(|value| out.extend(value.to_le_bytes()));
    }
    write_count(&mut out, code.events.len());
    for event in &code.events {
        write_name(&mut out, &event.name);
        out.push(u8::from(event.has_parameter));
        write_count(&mut out, event.locals.len());
        for local in &event.locals {
            out.push(u8::from(local.is_page));
            write_name(&mut out, &local.name);
        }
        write_count(&mut out, event.end - event.first);
    }
    code.instructions.iter().for_each(|instruction| out.extend(instruction.to_bytes()));
    out
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    out.push(name.len() as u8);
    out.extend(name.as_bytes());
}

fn write_count(out: &mut Vec<u8>, count: usize) {
    out.extend((count as u16).to_le_bytes());
}

/// The code that a binary form stands for, not verified.
pub(super) fn read(bytes: &[u8]) -> Result<Code, ProgramError> {
    let mut reader = Reader { bytes, at: 0 };
    let magic = reader.take(MAGIC.len(), "a program, which begins with `bufprog` and its version 1")?;
    if magic != MAGIC {
        return Err(wrong(0, "a program, which begins with `bufprog` and its version 1", "other bytes"));
    }
    let is_privileged = reader.flag("0 or 1 for a privileged program")?;
    let name = reader.name()?;
    let constants = reader.count(INSTRUCTIONS_MAX, "constants")?;
    let constants = (0..constants).map(|_| reader.value()).collect::<Result<_, _>>()?;
    let slots = reader.count(SLOTS_MAX, "slots")?;
    let slots = (0..slots).map(|_| reader.slot()).collect::<Result<_, _>>()?;
    let count = reader.count(EVENTS_MAX, "events")?;
    let mut events: Vec<Event> = Vec::with_capacity(count);
    for _ in 0..count {
        let first = events.last().map_or(0, |event| event.end);
        events.push(reader.event(first)?);
    }
    let instructions = events.last().map_or(0, |event| event.end);
    let instructions = (0..instructions).map(|_| reader.instruction()).collect::<Result<_, _>>()?;
    if reader.at < bytes.len() {
        let found = format!("{} bytes more", bytes.len() - reader.at);
        return Err(wrong(reader.at, "the end of the program", &found));
    }
    Ok(Code { name, is_privileged, constants, slots, events, instructions })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize, expected: &str) -> Result<&'a [u8], ProgramError> {
        let rest = &self.bytes[self.at..];
        let Some(taken) = rest.get(..count) else {
            return Err(wrong(self.bytes.len(), expected, "the end of the bytes"));
        };
        self.at += count;
        Ok(taken)
    }

    fn byte(&mut self, expected: &str) -> Result<u8, ProgramError> {
        Ok(self.take(1, expected)?[0])
    }

    fn flag(&mut self, expected: &str) -> Result<bool, ProgramError> {
        let at = self.at;
        match self.byte(expected)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(wrong(at, expected, &other.to_string())),
        }
    }

    fn count(&mut self, max: usize, of: &str) -> Result<usize, ProgramError> {
        let (at, expected) = (self.at, format!("at most {max} {of}"));
        let bytes = self.take(2, &expected)?;
        let count = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        if count > max {
            return Err(wrong(at, &expected, &count.to_string()));
        }
        Ok(count)
    }

    fn value(&mut self) -> Result<i64, ProgramError> {
        let mut value = [0; 8];
        value.copy_from_slice(self.take(8, "a number of 8 bytes")?);
        Ok(i64::from_le_bytes(value))
    }

    fn name(&mut self) -> Result<String, ProgramError> {
        let at = self.at;
        let length = self.byte("the length of a name")?;
        let name = self.take(usize::from(length), "the characters of a name")?;
        let name = std::str::from_utf8(name);
        name.map(str::to_owned).map_err(|_| wrong(at, "a name of letters, digits and `_`", "other bytes"))
    }

    fn slot(&mut self) -> Result<Slot, ProgramError> {
        const EXPECTED: &str = "the kind of a slot, 0 to 4";
        let at = self.at;
        let kind = self.byte(EXPECTED)?;
        let name = self.name()?;
        let kind = match kind {
            0 => SlotKind::Queue,
            1 => SlotKind::Ghosts,
            2 => SlotKind::Page,
            3 => SlotKind::Int(self.value()?),
            4 => SlotKind::Const(self.value()?),
            other => return Err(wrong(at, EXPECTED, &other.to_string())),
        };
        Ok(Slot { name, kind })
    }

    fn event(&mut self, first: usize) -> Result<Event, ProgramError> {
        let name = self.name()?;
        let has_parameter = self.flag("0 or 1 for an event with a parameter")?;
        let locals = self.count(SLOTS_MAX, "slots of an event")?;
        let mut local = || {
            let is_page = self.flag("0 for an int slot or 1 for a page slot")?;
            Ok(Local { is_page, name: self.name()? })
        };
        let locals = (0..locals).map(|_| local()).collect::<Result<_, _>>()?;
        let end = first + self.count(INSTRUCTIONS_MAX - first, "instructions left of those of a program")?;
        Ok(Event { name, has_parameter, locals, first, end })
    }

    fn instruction(&mut self) -> Result<Instruction, ProgramError> {
        const EXPECTED: &str =
            "an instruction, an opcode and three bytes that are 0 where they have no meaning";
        let at = self.at;
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4, EXPECTED)?);
        Instruction::from_bytes(bytes).ok_or_else(|| wrong(at, EXPECTED, &format!("{bytes:02x?}")))
    }
}

fn wrong(at: usize, expected: &str, found: &str) -> ProgramError {
    ProgramError { place: ProgramPlace::Byte(at), expected: expected.to_owned(), found: found.to_owned() }
}
