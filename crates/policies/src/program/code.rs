//! The instruction set, and what a program consists of once its names are numbers.
//!
//! An instruction is 32 bits: opcode, and three bytes *a*, *b*, *c*. Slots take the bytes in the order in
//! which they are written. A constant and a label take *b* and *c* together, *b* being the higher byte; a bit
//! and the name of an argument take *c*. Bytes without a meaning are 0.

use std::fmt;

/// Slots of an event at most, those of the program included.
pub(super) const SLOTS_MAX: usize = 256;
/// Queues of a program at most.
pub(super) const QUEUES_MAX: usize = 32;
/// Lists of ghosts of a program at most.
pub(super) const GHOST_LISTS_MAX: usize = 4;
/// Events of a program at most.
pub(super) const EVENTS_MAX: usize = 256;
/// Instructions of a program at most.
pub(super) const INSTRUCTIONS_MAX: usize = 4096;
/// Calls that may be open at a time.
pub(super) const DEPTH_MAX: usize = 8;
/// Instructions of `access` at most, with those of the events that it calls.
pub(super) const ACCESS_MAX: u32 = 32;

/// What an operand of an instruction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// An int slot that is written.
    IntOut,
    /// An int slot that is read.
    Int,
    /// A page slot that is written.
    PageOut,
    /// A page slot that is read and not nil.
    Page,
    /// A page slot that may be nil.
    PageOrNil,
    /// A queue.
    Queue,
    /// A list of ghosts.
    Ghosts,
    /// The number of a constant, written as its value.
    Constant,
    /// The number of an instruction, written as a label.
    Label,
    /// The number of an event, written as its name.
    Event,
    /// 0 or 1.
    Bit,
    /// What `arg` gives: one of [`ARGUMENTS`].
    Argument,
}

/// The type of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    Queue,
    Ghosts,
    Page,
    Int,
}

impl Operand {
    /// The type of the slot that the operand names, if it names one.
    pub(super) fn slot_type(self) -> Option<Type> {
        match self {
            Self::IntOut | Self::Int => Some(Type::Int),
            Self::PageOut | Self::Page | Self::PageOrNil => Some(Type::Page),
            Self::Queue => Some(Type::Queue),
            Self::Ghosts => Some(Type::Ghosts),
            Self::Constant | Self::Label | Self::Event | Self::Bit | Self::Argument => None,
        }
    }

    /// Whether the operand gives its slot a value.
    pub fn is_destination(self) -> bool {
        matches!(self, Self::IntOut | Self::PageOut)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queue => "a queue",
            Self::Ghosts => "a list of ghosts",
            Self::Page => "a page slot",
            Self::Int => "an int slot",
        })
    }
}

/// A row of the instruction set.
pub(super) struct Row {
    pub op: Op,
    /// The name in the text; two rows may share it if their numbers of operands differ.
    pub name: &'static str,
    pub operands: &'static [Operand],
}

/// The rows of what a text may have: `loop` is the assembler's own.
pub(super) fn written() -> impl Iterator<Item = &'static Row> {
    INSTRUCTION_SET.iter().filter(|row| row.op != Op::Loop)
}

macro_rules! instruction_set {
    ($($op:ident $name:literal [$($operand:ident)*])*) => {
        /// Operations; the number of each is its opcode.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub(super) enum Op { $($op),* }

        /// What the interpreter tells apart: an operation by itself, or several that follow each other.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub(super) enum Act {
            $($op,)*
            /// `loop`, `isnil`.
            LoopIsNil,
            /// `peekh`, `isnil`.
            PeekHIsNil,
            /// `peekt`, `isnil`.
            PeekTIsNil,
            /// `peekh`, `loop`, `isnil`.
            PeekHLoopIsNil,
            /// `peekt`, `loop`, `isnil`.
            PeekTLoopIsNil,
            /// `loop`, `peekh`, `isnil`.
            LoopPeekHIsNil,
            /// `loop`, `lt`.
            LoopLt,
            /// `enqt`, `ret`.
            EnqTRet,
            /// `len`, `len`.
            LenLen,
        }

        impl From<Op> for Act {
            fn from(op: Op) -> Self {
                match op { $(Op::$op => Self::$op),* }
            }
        }

        /// The instruction set, by opcode.
        pub(super) const INSTRUCTION_SET: &[Row] =
            &[$(Row { op: Op::$op, name: $name, operands: &[$(Operand::$operand),*] }),*];
    };
}

instruction_set! {
    Loop "loop" []
    Ret "ret" []
    RetPage "ret" [Page]
    Jmp "jmp" [Label]
    Jz "jz" [Int Label]
    Jnz "jnz" [Int Label]
    Call "call" [Event]
    CallWith "call" [Event Page]
    Ldc "ldc" [IntOut Constant]
    Add "add" [IntOut Int Int]
    Sub "sub" [IntOut Int Int]
    Mul "mul" [IntOut Int Int]
    Div "div" [IntOut Int Int]
    Rem "rem" [IntOut Int Int]
    Min "min" [IntOut Int Int]
    Max "max" [IntOut Int Int]
    And "and" [IntOut Int Int]
    Or "or" [IntOut Int Int]
    Xor "xor" [IntOut Int Int]
    Not "not" [IntOut Int]
    Shl "shl" [IntOut Int Int]
    Shr "shr" [IntOut Int Int]
    Lt "lt" [IntOut Int Int]
    Le "le" [IntOut Int Int]
    Eq "eq" [IntOut Int Int]
    Ne "ne" [IntOut Int Int]
    Empty "empty" [IntOut Queue]
    InQ "inq" [IntOut Page Queue]
    Len "len" [IntOut Queue]
    Same "same" [IntOut Page Page]
    DeqH "deqh" [PageOut Queue]
    DeqT "deqt" [PageOut Queue]
    Unlink "unlink" [Page]
    EnqH "enqh" [Queue Page]
    EnqT "enqt" [Queue Page]
    PeekH "peekh" [PageOut Queue]
    PeekT "peekt" [PageOut Queue]
    Copy "copy" [PageOut Page]
    Next "next" [PageOut Page]
    Prev "prev" [PageOut Page]
    IsNil "isnil" [IntOut PageOrNil]
    Pinned "pinned" [IntOut Page]
    Request "request" [IntOut Int]
    Release "release" [Page]
    Flush "flush" [Page]
    SetRef "setref" [Page Bit]
    SetMod "setmod" [Page]
    Ref "ref" [IntOut Page]
    Mod "mod" [IntOut Page]
    Find "find" [PageOut Int]
    Arg "arg" [IntOut Argument]
    Meta "meta" [IntOut Page]
    SetMeta "setmeta" [Page Int]
    Now "now" [IntOut]
    Rand "rand" [IntOut]
    Prio "prio" [IntOut Page]
    Block "block" [IntOut Page]
    Remember "remember" [Ghosts Page]
    Recall "recall" [IntOut Ghosts Page]
    Trim "trim" [Ghosts Int]
    Ghosts "ghosts" [IntOut Ghosts]
}

/// What the instruction `arg` gives, by number.
pub const ARGUMENTS: [&str; 4] = ["missing", "candidate", "context", "tenant"];

impl Op {
    pub fn row(self) -> &'static Row {
        &INSTRUCTION_SET[self as usize]
    }

    /// Fuel that the instruction takes.
    pub fn cost(self) -> u32 {
        if self == Self::Find { 4 } else { 1 }
    }

    /// Whether the instruction gives 0 or 1, so that a jump by its result can be joined to it.
    pub fn is_test(self) -> bool {
        use Op::*;
        matches!(self, Lt | Le | Eq | Ne | Empty | InQ | Same | IsNil | Pinned | Ref | Mod | Recall)
    }

    /// Whether the next instruction may follow.
    pub fn falls_through(self) -> bool {
        !matches!(self, Self::Ret | Self::RetPage | Self::Jmp)
    }
}

/// One instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Instruction {
    pub op: Op,
    pub a: u8,
    pub b: u8,
    pub c: u8,
}

impl Instruction {
    /// With operands as they are written.
    pub fn new(op: Op, values: &[u16]) -> Self {
        let mut instruction = Self { op, a: 0, b: 0, c: 0 };
        for (position, (operand, value)) in op.row().operands.iter().zip(values).enumerate() {
            let [high, low] = value.to_be_bytes();
            match operand {
                Operand::Constant | Operand::Label => (instruction.b, instruction.c) = (high, low),
                Operand::Bit | Operand::Argument => instruction.c = low,
                _ => match position {
                    0 => instruction.a = low,
                    1 => instruction.b = low,
                    _ => instruction.c = low,
                },
            }
        }
        instruction
    }

    /// The operands and their values, as they are written.
    pub fn operands(self) -> impl Iterator<Item = (Operand, u16)> {
        self.op.row().operands.iter().enumerate().map(move |(position, operand)| {
            let value = match operand {
                Operand::Constant | Operand::Label => self.wide(),
                Operand::Bit | Operand::Argument => u16::from(self.c),
                _ => u16::from([self.a, self.b, self.c][position]),
            };
            (*operand, value)
        })
    }

    /// *b* and *c* as one number.
    #[inline]
    pub fn wide(self) -> u16 {
        u16::from_be_bytes([self.b, self.c])
    }

    /// The instruction that this one may jump to.
    pub fn target(self) -> Option<u16> {
        matches!(self.op, Op::Jmp | Op::Jz | Op::Jnz).then(|| self.wide())
    }

    /// The event that this one calls.
    pub fn callee(self) -> Option<usize> {
        matches!(self.op, Op::Call | Op::CallWith).then_some(self.a as usize)
    }

    pub fn to_bytes(self) -> [u8; 4] {
        [self.op as u8, self.a, self.b, self.c]
    }

    /// `None` if there is no such opcode, or a byte without a meaning is not 0.
    pub fn from_bytes([opcode, a, b, c]: [u8; 4]) -> Option<Self> {
        let op = INSTRUCTION_SET.get(opcode as usize)?.op;
        let instruction = Self { op, a, b, c };
        let values: Vec<u16> = instruction.operands().map(|(_, value)| value).collect();
        (Self::new(op, &values) == instruction).then_some(instruction)
    }
}

/// A slot of the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    pub name: String,
    pub kind: SlotKind,
}

/// What a slot of the program holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SlotKind {
    Queue,
    Ghosts,
    Page,
    /// With its first value.
    Int(i64),
    /// With its value.
    Const(i64),
}

impl SlotKind {
    pub fn slot_type(self) -> Type {
        match self {
            Self::Queue => Type::Queue,
            Self::Ghosts => Type::Ghosts,
            Self::Page => Type::Page,
            Self::Int(_) | Self::Const(_) => Type::Int,
        }
    }

    /// Slots of a program are in the order of these numbers.
    pub fn rank(self) -> u8 {
        match self {
            Self::Queue => 0,
            Self::Ghosts => 1,
            Self::Page => 2,
            Self::Int(_) | Self::Const(_) => 3,
        }
    }
}

/// A slot of one event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Local {
    pub name: String,
    /// Whether it holds a page; otherwise it holds an int.
    pub is_page: bool,
}

impl Local {
    pub fn slot_type(&self) -> Type {
        if self.is_page { Type::Page } else { Type::Int }
    }
}

/// An event of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Event {
    pub name: String,
    /// Whether the event has a parameter, a page, which is its first local then.
    pub has_parameter: bool,
    /// Slots of its own, whose numbers follow those of the program.
    pub locals: Vec<Local>,
    /// The number of its first instruction.
    pub first: usize,
    /// The number after its last one.
    pub end: usize,
}

/// An event that the pool tells of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standard {
    Initial,
    Fault,
    Replace,
    Access,
    Gone,
    Mistake,
}

impl Standard {
    pub const ALL: [Self; 6] =
        [Self::Initial, Self::Fault, Self::Replace, Self::Access, Self::Gone, Self::Mistake];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Fault => "fault",
            Self::Replace => "replace",
            Self::Access => "access",
            Self::Gone => "gone",
            Self::Mistake => "mistake",
        }
    }

    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    pub fn is_mandatory(self) -> bool {
        matches!(self, Self::Initial | Self::Fault | Self::Replace)
    }

    pub fn has_parameter(self) -> bool {
        self != Self::Initial
    }
}

/// A program whose names are numbers. It is immutable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Code {
    pub name: String,
    pub is_privileged: bool,
    /// Values of `ldc`, each once, in the order of their first use.
    pub constants: Vec<i64>,
    /// Queues, then ghosts, then pages, then ints and constants, each in the order of the text.
    pub slots: Vec<Slot>,
    pub events: Vec<Event>,
    pub instructions: Vec<Instruction>,
}

impl Code {
    /// The number of the event of that name.
    pub fn event(&self, name: &str) -> Option<usize> {
        self.events.iter().position(|event| event.name == name)
    }

    /// Whether it has an instruction with this operation.
    pub fn uses(&self, op: Op) -> bool {
        self.instructions.iter().any(|instruction| instruction.op == op)
    }

    /// Whether it may wish something of the driver.
    pub fn has_wishes(&self) -> bool {
        self.uses(Op::Flush) || self.uses(Op::SetMod) || self.uses(Op::Release)
    }

    /// The name and type of a slot of an event.
    pub fn slot<'a>(&'a self, event: &'a Event, number: usize) -> Option<(&'a str, Type)> {
        match self.slots.get(number) {
            Some(slot) => Some((&slot.name, slot.kind.slot_type())),
            None => {
                let local = event.locals.get(number - self.slots.len())?;
                Some((&local.name, local.slot_type()))
            }
        }
    }

    /// Whether `ret` of the event gives a page.
    pub fn returns_page(&self, event: &Event) -> bool {
        match Standard::find(&event.name) {
            Some(Standard::Replace) => true,
            Some(Standard::Fault) => self.is_privileged,
            _ => false,
        }
    }

    /// Slots of this kind come first at this number.
    pub fn first_of_rank(&self, rank: u8) -> usize {
        self.slots.partition_point(|slot| slot.kind.rank() < rank)
    }
}

/// Whether `text` may be the name of something: `[A-Za-z_][A-Za-z0-9_]*`.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(|next| next.is_ascii_alphanumeric() || next == '_')
}
