//! Standard output and standard error.

use std::fmt;
use std::io::{self, Write};

/// What is said of a result that standard output does not take.
pub const UNPRINTABLE: &str = "standard output: cannot be written, expected room for the result";

/// Prints a line to standard error. A line that is not taken, by a full device or a reader that is gone, is
/// lost: the result is elsewhere.
pub fn note(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
