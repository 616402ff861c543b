//! What is wrong with a trace, and where.

use std::path::{Path, PathBuf};
use std::{error, fmt, io};

/// Where in a trace something is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A line; the first is 1.
    Line(u64),
    /// A byte of a binary format, counted after decompression; the first is 0.
    Byte(u64),
}

/// A trace that cannot be used. The message names file, place, and what was expected there.
#[derive(Debug)]
pub struct TraceError {
    path: PathBuf,
    place: Place,
    message: String,
    source: Option<io::Error>,
}

impl TraceError {
    /// An error at `place`, whose message says what was `expected` there.
    pub fn malformed(path: &Path, place: Place, expected: impl Into<String>) -> Self {
        Self { path: path.to_owned(), place, message: format!("expected {}", expected.into()), source: None }
    }

    /// An error at `place`: the trace is well formed there, but cannot be used. `message` says why.
    pub fn refused(path: &Path, place: Place, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), place, message: message.into(), source: None }
    }

    /// An error at `place`: the operating system or a decoder failed while doing `what`.
    pub fn io(path: &Path, place: Place, what: &str, source: io::Error) -> Self {
        Self { path: path.to_owned(), place, message: what.to_owned(), source: Some(source) }
    }

    /// Where the error is.
    pub fn place(&self) -> Place {
        self.place
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match self.place {
            Place::File => {}
            Place::Line(line) => write!(f, "line {line}: ")?,
            Place::Byte(byte) => write!(f, "byte {byte}: ")?,
        }
        f.write_str(&self.message)
    }
}

impl error::Error for TraceError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
