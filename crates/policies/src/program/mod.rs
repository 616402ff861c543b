//! Policy programs: managers as text, verified before they run and bounded while they do.
//!
//! An engine, or a user of it, writes which page a tenant gives up, in a small language; the pool loads the
//! program, and need not trust it. The commands are those of HiPEC (Lee, Chen, Chang: "In-Kernel Policy
//! Interpretation for Application-Specific Memory Caching Management"); the checks before the run are ours.
//!
//! ```text
//! policy mru {
//!   queue all
//!   event initial     { ret }
//!   event fault(p)    { enqt all, p ; ret }
//!   event access(p)   { enqt all, p ; ret }
//!   event replace(c)  { peekt v, all
//!                 L:    isnil t, v ; jnz t, none      # a page is read only where it cannot be nil
//!                       pinned t, v ; jz t, take
//!                       prev v, v ; jmp L
//!                 take: ret v
//!                 none: ret c }
//! }
//! ```
//!
//! # Events
//!
//! `initial` runs when the program is loaded, `fault(p)` when page *p* has come in, `replace(c)` when the
//! tenant must give up a page and the pool would take *c*: it returns the page to take. These three are
//! mandatory. `access(p)` runs at each hit, `gone(p)` when *p* leaves (it still is in its queue then),
//! `mistake(p)` when a page is missed that the program gave up although the pool would have taken *p*. A
//! program without `access` costs a hit one bit at most. The `fault` of a privileged program also answers
//! questions, see [`ProgramManager::privileged`]. Other events are the program's own; `call` runs
//! them.
//!
//! # The language
//!
//! Slots, instructions, grammar and limits are in `bufpool::docs::programs`, the reference, and as data in
//! [`instruction_set`]. Slots declared for the program (`queue`, `ghost`, `page`, `int`, `const`) keep their
//! values between events, and [`Manager::send`](crate::Manager::send) sets an `int`; any other name belongs
//! to one run of its event. A `page` is nil once its page has left.
//!
//! The commands of HiPEC know resident pages only, so that policies which remember what they gave up (2Q,
//! S3-FIFO, ARC, LIRS) could not be written: `ghost` and its four instructions are for them. Nor could a
//! search keep the best page found so far, as LFU has to: that is `copy`.
//!
//! # Before the run
//!
//! Every slot that is read has a value on every path, and every page that is read is known not to be nil:
//! `isnil t, v` and a `jz` or `jnz` on that `t` show it. So nothing has to be checked during the run but
//! divisions. `access` has at most 32 instructions and no loop, with all that it calls.
//!
//! # During the run
//!
//! An instruction takes one unit of fuel, `find` four. See [`ProgramManager`] for what happens to a program
//! that takes too long, or answers what cannot be taken.

mod assemble;
mod bytes;
mod calls;
mod code;
mod error;
mod flow;
mod lexer;
mod manager;
mod pages;
mod print;
mod run;
mod steps;
#[cfg(test)]
mod tests;
mod text;
mod verify;

use std::{fmt, sync::Arc};

use assemble::Positions;
use calls::CallGraph;
pub use code::{ARGUMENTS, Operand};
use code::{Code, Standard};
pub use error::{ProgramError, ProgramPlace};
use lexer::Position;
pub use manager::{NeedsPrivilege, ProgramManager, ProgramOptions};
use steps::Steps;
use verify::{Defect, Site, verify};

/// A verified program. Immutable; clones share it.
#[derive(Clone, Debug)]
pub struct Program {
    loaded: Arc<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    code: Code,
    steps: Steps,
    calls: CallGraph,
    /// The numbers of the events that the pool tells of, by [`Standard`].
    standard: [Option<usize>; Standard::ALL.len()],
    has_wishes: bool,
}

/// What is known of one event of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventSummary {
    /// Its name.
    pub name: String,
    /// The number of its instructions, with a `loop` for each label that is jumped back to, and without
    /// those of events it calls.
    pub instructions: u32,
    /// The most steps that it can take, with those of the events it calls; `None` with a loop.
    pub steps_max: Option<u32>,
}

impl Program {
    /// The program that `text` says. See the [module](self).
    ///
    /// # Errors
    ///
    /// If the text is no program, or one that the checks before the run refuse. The error has the line and
    /// column.
    pub fn parse(text: &str) -> Result<Self, ProgramError> {
        let source = text::read(text)?;
        let (code, positions) = assemble::assemble(&source)?;
        Self::load(code).map_err(|defect| {
            let at = match defect.site {
                Site::Name => source.name.at,
                site => position_of(&positions, site).unwrap_or(source.end),
            };
            at.error(defect.expected, defect.found)
        })
    }

    /// The program whose [`to_bytes`](Self::to_bytes) are these. The bytes may come from anywhere.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse). The error has the byte, or the event and the instruction.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ProgramError> {
        let code = bytes::read(bytes)?;
        // `load` takes the code, so what an error needs of it is kept before.
        let places = places(&code);
        Self::load(code).map_err(|Defect { site, expected, found }| ProgramError {
            place: places(site),
            expected,
            found,
        })
    }

    fn load(code: Code) -> Result<Self, Defect> {
        let calls = verify(&code)?;
        let standard = Standard::ALL.map(|event| code.event(event.name()));
        let (steps, has_wishes) = (Steps::of(&code), code.has_wishes());
        Ok(Self { loaded: Arc::new(Loaded { code, steps, calls, standard, has_wishes }) })
    }

    /// The binary form, which does not depend on the machine.
    pub fn to_bytes(&self) -> Vec<u8> {
        bytes::write(self.code())
    }

    /// Text that parses to this program, with the same binary form.
    pub fn to_text(&self) -> String {
        print::print(self.code())
    }

    /// The program's name.
    pub fn name(&self) -> &str {
        &self.code().name
    }

    /// Whether it may `request` and `release` frames.
    pub fn is_privileged(&self) -> bool {
        self.code().is_privileged
    }

    /// Whether it may ever have a [`Wish`](crate::Wish): without `flush`, `setmod` and `release` a driver
    /// need not ask.
    pub fn has_wishes(&self) -> bool {
        self.loaded.has_wishes
    }

    /// The events, in the order of the text.
    pub fn events(&self) -> impl Iterator<Item = EventSummary> {
        self.code().events.iter().zip(&self.loaded.calls.events).map(|(event, reach)| EventSummary {
            name: event.name.clone(),
            instructions: (event.end - event.first) as u32,
            steps_max: reach.steps_max,
        })
    }

    /// The most steps that a run of the event takes, with those of the events it calls; `None` if it has a
    /// loop, or there is no such event.
    pub fn steps_max(&self, event: &str) -> Option<u32> {
        let number = self.code().event(event)?;
        self.loaded.calls.events[number].steps_max
    }

    fn code(&self) -> &Code {
        &self.loaded.code
    }

    fn steps(&self) -> &Steps {
        &self.loaded.steps
    }

    fn standard(&self, event: Standard) -> Option<usize> {
        self.loaded.standard[event as usize]
    }

    /// The most slots that a run needs besides those of the program.
    fn locals_max(&self) -> usize {
        self.loaded.calls.events.iter().map(|event| event.locals).max().unwrap_or(0)
    }
}

/// How an instruction is written. Shown as documentation has it: `add d, a, b`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InstructionForm {
    /// Its name. Two forms have the same one if their numbers of operands differ.
    pub name: &'static str,
    /// Its operands, in their order.
    pub operands: &'static [Operand],
    /// Steps that it takes of the fuel.
    pub fuel_steps: u32,
}

/// The instructions that a text may have.
pub fn instruction_set() -> impl Iterator<Item = InstructionForm> {
    code::written().map(|row| InstructionForm {
        name: row.name,
        operands: row.operands,
        fuel_steps: row.op.cost(),
    })
}

impl fmt::Display for InstructionForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut ints, mut pages) = (["a", "b"].into_iter(), ["p", "w"].into_iter());
        f.write_str(self.name)?;
        for (at, operand) in self.operands.iter().enumerate() {
            let name = match operand {
                Operand::IntOut => "d",
                Operand::Int => ints.next().expect("two ints at most"),
                Operand::PageOut => "v",
                Operand::Page | Operand::PageOrNil => pages.next().expect("two pages at most"),
                Operand::Queue => "q",
                Operand::Ghosts => "g",
                Operand::Constant => "NUMBER",
                Operand::Label => "L",
                Operand::Event => "e",
                Operand::Bit => "BIT",
                Operand::Argument => "NAME",
            };
            write!(f, "{} {name}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// Where in the text a part of the code stands.
fn position_of(positions: &Positions, site: Site) -> Option<Position> {
    match site {
        Site::Program | Site::Name => None,
        Site::Slot(slot) => positions.slots.get(slot).copied(),
        Site::Event(event) => positions.events.get(event).map(|(name, ..)| *name),
        Site::EventEnd(event) => positions.events.get(event).map(|(.., end)| *end),
        Site::Local(event, local) => positions.events.get(event)?.1.get(local).copied(),
        Site::Instruction(at) => positions.instructions.get(at).map(|(name, _)| *name),
        Site::Operand(at, operand) => positions.instructions.get(at)?.1.get(operand).copied(),
    }
}

/// Says where in a binary form a part of the code is.
fn places(code: &Code) -> impl Fn(Site) -> ProgramPlace + use<> {
    let events: Vec<_> =
        code.events.iter().map(|event| (event.name.clone(), event.first, event.end)).collect();
    move |site| {
        let (event, instruction) = match site {
            Site::Program | Site::Name | Site::Slot(_) => return ProgramPlace::Byte(0),
            Site::Event(event) | Site::Local(event, _) => (event, 0),
            Site::EventEnd(event) => (event, events[event].2 - events[event].1),
            Site::Instruction(at) | Site::Operand(at, _) => {
                let event = events.partition_point(|(.., end)| *end <= at);
                (event, at - events[event].1)
            }
        };
        ProgramPlace::Code { event: events[event].0.clone(), instruction }
    }
}
