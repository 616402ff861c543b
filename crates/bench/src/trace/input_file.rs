//! Files that are read, which may be pipes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Cursor, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long a named FIFO may be without a writer, which may be a program that starts at the same time.
const WRITER_WAIT: Duration = Duration::from_secs(1);
/// How long to sleep before a pipe is asked again.
const NAP: Duration = Duration::from_millis(1);

/// Opens a file for reading.
///
/// # Errors
///
/// Those of the operating system; if the path is a folder, or a named FIFO that nobody has open for writing.
pub fn open_input(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if is_named_fifo(path) {
        return open_fifo(path);
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(Box::new(file))
}

/// Whether opening the file waits for a writer. It does not where the path stands for the descriptor of a
/// pipe that has no name, as in `<(...)` of a shell.
fn is_named_fifo(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) && fs::canonicalize(path).is_ok()
}

fn open_fifo(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    let mut pipe = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let (until, mut first) = (Instant::now() + WRITER_WAIT, [0]);
    loop {
        match pipe.read(&mut first) {
            // Nobody has it open for writing.
            Ok(0) if Instant::now() < until => thread::sleep(NAP),
            Ok(0) => {
                let message = "it is a FIFO (named pipe), expected a program that has it open for writing";
                return Err(io::Error::new(io::ErrorKind::NotConnected, message));
            }
            Ok(_) => return Ok(Box::new(Cursor::new(first).chain(Patient(pipe)))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Box::new(Patient(pipe))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A pipe that was opened without waiting, and that waits for what its writers have not written yet.
struct Patient(File);

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(NAP),
                read => return read,
            }
        }
    }
}
