//! Files that are read, which may be pipes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::machine::fifo;

/// Opens a file for reading.
///
/// # Errors
///
/// Those of the operating system; if the path is a folder, or a named FIFO that nobody has open for writing.
pub fn open_input(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if fifo::is_named(path) {
        return Ok(Box::new(fifo::open(path)?));
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(Box::new(file))
}
