//! A program as the interpreter has it: a step for each instruction, at the same number.
//!
//! A test and a jump by its result are one step. The jump keeps its own, which runs where another jump leads
//! to it. Numbers of instructions, and with them distances and fuel, are those of the program.

use super::code::{Code, Instruction, Op};

/// What a step does after its own instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Then {
    /// The next step follows, or the one that the instruction itself names.
    Nothing,
    /// The next instruction jumps if the test was false.
    JumpIfFalse,
    /// The next instruction jumps if the test was true.
    JumpIfTrue,
}

/// One instruction, with what follows from its neighbours. 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub op: Op,
    pub a: u8,
    pub b: u8,
    pub c: u8,
    /// The number of an instruction to which the step may jump, or that of a constant.
    pub wide: u16,
    pub then: Then,
}

/// Where an event begins, and what a call of it needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub first: usize,
    pub locals: usize,
    pub has_parameter: bool,
}

/// The steps of a program.
#[derive(Debug)]
pub(super) struct Steps {
    pub steps: Box<[Step]>,
    /// Values of `ldc`.
    pub constants: Box<[i64]>,
    pub events: Box<[Entry]>,
}

impl Steps {
    /// The steps of code that has been verified.
    pub fn of(code: &Code) -> Self {
        let entry = |event: &super::code::Event| Entry {
            first: event.first,
            locals: event.locals.len(),
            has_parameter: event.has_parameter,
        };
        Self {
            steps: (0..code.instructions.len()).map(|at| step(&code.instructions, at)).collect(),
            constants: code.constants.clone().into(),
            events: code.events.iter().map(entry).collect(),
        }
    }
}

fn step(instructions: &[Instruction], at: usize) -> Step {
    let instruction = instructions[at];
    let Instruction { op, a, b, c } = instruction;
    let plain = Step { op, a, b, c, wide: instruction.wide(), then: Then::Nothing };
    // The last instruction of an event is no test.
    let Some(jump) = instructions.get(at + 1).filter(|next| op.is_test() && next.a == a) else {
        return plain;
    };
    match jump.op {
        Op::Jz => Step { wide: jump.wide(), then: Then::JumpIfFalse, ..plain },
        Op::Jnz => Step { wide: jump.wide(), then: Then::JumpIfTrue, ..plain },
        _ => plain,
    }
}
