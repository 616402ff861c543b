//! Reports of a manager that runs a program, and why a value could not be sent to one.

use std::fmt;

/// What a manager's program did, since it became the tenant's manager.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ProgramStats {
    /// Events run.
    pub calls: u64,
    /// Events run, by event.
    pub calls_of: EventCalls,
    /// Instructions done by them; `find` counts as 4.
    pub steps: u64,
    /// Events that ended with a division by zero.
    pub faults: u64,
    /// Events that ended because they took too long.
    pub out_of_fuel: u64,
    /// Answers that named no block of the tenant, or one that could not be taken.
    pub invalid_answers: u64,
    /// Nanoseconds that the events took, as far as the driver measures it; otherwise 0.
    pub spent_ns: u64,
    /// Why the program does not run any more; `None` while it runs. The blocks of a tenant whose program
    /// does not run go in the ledger's order.
    pub unloaded: Option<Unloaded>,
}

/// How often each event of a program ran, without those that it calls itself.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EventCalls {
    /// `initial`: 1.
    pub initial: u64,
    /// `fault`: pages that came in, and of a privileged program the questions that it answered.
    pub fault: u64,
    /// `replace`: questions.
    pub replace: u64,
    /// `access`: hits.
    pub access: u64,
    /// `gone`: pages that left.
    pub gone: u64,
    /// `mistake`: pages that were missed because of the program's answers.
    pub mistake: u64,
}

/// Something that a program should not have done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Incident {
    /// An event took more instructions than it may.
    OutOfFuel,
    /// An event divided by zero.
    DivisionByZero,
    /// The answer to a question was no block of the tenant, or one that could not be taken.
    InvalidAnswer,
}

/// The last of the incidents that a program was unloaded for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unloaded {
    /// What happened.
    pub incident: Incident,
    /// The name of the event that ran.
    pub event: &'static str,
}

impl fmt::Display for Unloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let incident = match self.incident {
            Incident::OutOfFuel => "ran out of fuel",
            Incident::DivisionByZero => "divided by zero",
            Incident::InvalidAnswer => "named a page that could not be taken",
        };
        write!(f, "too many incidents, the last of them: event {} {incident}", self.event)
    }
}

/// A value that was not sent to a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// The tenant has no program, or is not open.
    NoProgram,
    /// The program has no int of that name, or it is a constant.
    UnknownSlot,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoProgram => "expected a tenant that is open and has a program as its manager",
            Self::UnknownSlot => "expected the name of an `int` of the program",
        })
    }
}

impl std::error::Error for SendError {}
