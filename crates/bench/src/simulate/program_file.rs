//! Policy programs in files.

use std::fs;
use std::path::Path;

use bufpool_policies::program::Program;

/// Longer files are no programs.
const BYTES_MAX: u64 = 1 << 20;

/// The program in a text file.
///
/// # Errors
///
/// What is wrong with it: `FILE:LINE:COLUMN: expected ..., found ...`.
pub fn read_program(path: &Path) -> Result<Program, String> {
    let shown = path.display();
    let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
    if length > BYTES_MAX {
        return Err(format!("{shown}: expected a program of at most {BYTES_MAX} bytes, found {length}"));
    }
    let bytes = fs::read(path)
        .map_err(|error| format!("{shown}: cannot be read, expected the text of a program: {error}"))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| format!("{shown}: expected UTF-8 text, found bytes that are none"))?;
    Program::parse(&text).map_err(|error| format!("{shown}:{error}"))
}
