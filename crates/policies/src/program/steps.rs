//! A program as the interpreter has it: a step for each instruction, at the same number.
//!
//! Instructions that often follow each other are one step, at the number of the first: a test and the jump by
//! its result, the look at an end of a queue and whether there is a page, and a few more. Each of them keeps
//! a step of its own, which runs where a jump leads to it. Numbers of instructions, and with them distances
//! and fuel, are those of the program.

use super::code::{Act, Code, Instruction, Op};

/// No test has this result. It marks a step to which no jump is joined.
const NEVER: u8 = 2;

/// One instruction, and those joined to it. 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub act: Act,
    pub a: u8,
    pub b: u8,
    pub c: u8,
    /// The number of an instruction to which the step may jump, or that of a constant; or two more operands.
    pub wide: u16,
    /// The result of the step's test, 0 or 1, by which it jumps.
    pub jumps_if: u8,
    /// The number of instructions that it stands for.
    pub length: u8,
}

/// Where an event begins, and what a call of it needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub first: usize,
    pub locals: usize,
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
        let entry = |event: &super::code::Event| Entry { first: event.first, locals: event.locals.len() };
        let own = code.slots.len();
        Self {
            steps: (0..code.instructions.len()).map(|at| step(&code.instructions[at..], own)).collect(),
            constants: code.constants.clone().into(),
            events: code.events.iter().map(entry).collect(),
        }
    }
}

/// The step of the first of these instructions, which go on to the end of the program; slots from `own` on
/// are the event's. The last instruction of an event is a `ret` or a `jmp`, behind which nothing is joined.
fn step(instructions: &[Instruction], own: usize) -> Step {
    let first = instructions[0];
    let step = Step {
        act: first.op.into(),
        a: first.a,
        b: first.b,
        c: first.c,
        wide: first.wide(),
        jumps_if: NEVER,
        length: 1,
    };
    if let Some(joined) = look_and_test(step, instructions, own) {
        return joined;
    }
    let second = instructions.get(1);
    if let (Op::Loop, Some(&Instruction { op: Op::Lt, a, b, c })) = (first.op, second) {
        return with_jump(Step { act: Act::LoopLt, a, b, c, length: 2, ..step }, &instructions[2..]);
    }
    match (first.op, second.map(|second| second.op)) {
        (test, _) if test.is_test() => with_jump(step, &instructions[1..]),
        (Op::EnqT, Some(Op::Ret)) => Step { act: Act::EnqTRet, length: 2, ..step },
        (Op::Len, Some(Op::Len)) => {
            let wide = second.map_or(0, |second| u16::from_be_bytes([second.a, second.b]));
            Step { act: Act::LenLen, wide, length: 2, ..step }
        }
        _ => step,
    }
}

/// Joins an `isnil` to a `peekh` or `peekt` before it, or to a `loop`, or to both. In the joined step *a* is
/// the int, *b* the page and *c* the queue.
///
/// A `loop` compares the fuel, and the run may stop there. So a `peekh` behind a `loop` is joined only if
/// its page is in a slot of the event, where no later run can see that it was set.
fn look_and_test(step: Step, instructions: &[Instruction], own: usize) -> Option<Step> {
    let ops = instructions.iter().map(|instruction| instruction.op);
    let ops: Vec<Op> = ops.take(3).collect();
    let (act, length, peek) = match *ops.as_slice() {
        [Op::Loop, Op::IsNil, ..] => (Act::LoopIsNil, 2, None),
        [Op::PeekH, Op::IsNil, ..] => (Act::PeekHIsNil, 2, Some(0)),
        [Op::PeekT, Op::IsNil, ..] => (Act::PeekTIsNil, 2, Some(0)),
        [Op::PeekH, Op::Loop, Op::IsNil] => (Act::PeekHLoopIsNil, 3, Some(0)),
        [Op::PeekT, Op::Loop, Op::IsNil] => (Act::PeekTLoopIsNil, 3, Some(0)),
        [Op::Loop, Op::PeekH, Op::IsNil] if usize::from(instructions[1].a) >= own => {
            (Act::LoopPeekHIsNil, 3, Some(1))
        }
        _ => return None,
    };
    let (test, peek) = (instructions[length - 1], peek.map(|at: usize| instructions[at]));
    if peek.is_some_and(|peek| peek.a != test.b) {
        return None;
    }
    let queue = peek.map_or(0, |peek| peek.b);
    let joined = Step { act, a: test.a, b: test.b, c: queue, length: length as u8, ..step };
    Some(with_jump(joined, &instructions[length..]))
}

/// A test, joined with the jump by its result if that follows it.
fn with_jump(test: Step, rest: &[Instruction]) -> Step {
    let Some(jump) = rest.first().filter(|next| next.a == test.a) else { return test };
    let jumps_if = match jump.op {
        Op::Jz => 0,
        Op::Jnz => 1,
        _ => return test,
    };
    Step { wide: jump.wide(), jumps_if, length: test.length + 1, ..test }
}
