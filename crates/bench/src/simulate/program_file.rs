//! Policy programs in files.

use std::io::Read;
use std::path::Path;

use bufpool_policies::program::Program;

use crate::trace::open_input;

/// Most bytes of a program's text; a longer file is refused.
const BYTES_MAX: u64 = 1 << 20;

/// The program in a text file.
///
/// # Errors
///
/// What is wrong with it: `FILE:LINE:COLUMN: expected ..., found ...`.
pub fn read_program(path: &Path) -> Result<Program, String> {
    let shown = path.display();
    let mut bytes = Vec::new();
    // The length is not asked for, because a device such as /dev/zero has none, and no end.
    open_input(path)
        .and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("{shown}: cannot be read, expected the text of a program: {error}"))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("{shown}: expected a program of at most {BYTES_MAX} bytes, found more"));
    }
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let (line, column) = place_of(&bytes[..error.valid_up_to()]);
        format!("{shown}:{line}:{column}: expected UTF-8 text, found bytes that are none")
    })?;
    Program::parse(text).map_err(|error| format!("{shown}:{error}"))
}

/// Line and column of what comes behind `before`, both from 1; columns are characters, as in errors of
/// programs.
fn place_of(before: &[u8]) -> (usize, usize) {
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    (line, String::from_utf8_lossy(&before[start..]).chars().count() + 1)
}
