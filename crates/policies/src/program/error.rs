//! Why a program is refused.

use std::fmt;

/// Where in a program something is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProgramPlace {
    /// In its text. Lines and columns count from 1, columns in characters.
    Text {
        /// The line where the defect begins.
        line: u32,
        /// The column where it begins.
        column: u32,
    },
    /// At a byte of its binary form, counted from 0.
    Byte(usize),
    /// In the code of its binary form.
    Code {
        /// The name of the event.
        event: String,
        /// The number of the instruction in the event, from 0.
        instruction: usize,
    },
}

impl fmt::Display for ProgramPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { line, column } => write!(f, "{line}:{column}"),
            Self::Byte(offset) => write!(f, "byte {offset}"),
            Self::Code { event, instruction } => write!(f, "event {event}, instruction {instruction}"),
        }
    }
}

/// A program that is refused: where, what was expected there, and what was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramError {
    /// Where.
    pub place: ProgramPlace,
    /// What was expected.
    pub expected: String,
    /// What was found instead.
    pub found: String,
}

impl fmt::Display for ProgramError {
    /// `LINE:COLUMN: expected ..., found ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, found {}", self.place, self.expected, self.found)
    }
}

impl std::error::Error for ProgramError {}
