//! FIFOs (named pipes), opened without waiting for ever for the program at the other end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Cursor, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long nobody may have the other end open: the program there may start at the same time.
const PEER_WAIT: Duration = Duration::from_secs(1);
/// How long to sleep before a pipe is asked again.
const NAP: Duration = Duration::from_millis(1);

/// Whether opening the file waits for the other end. It does not where the path stands for the descriptor of
/// a pipe that has no name, as in `<(...)` of a shell.
pub fn is_named(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) && fs::canonicalize(path).is_ok()
}

/// Opens a FIFO for reading.
///
/// # Errors
///
/// Those of the operating system; if nobody has it open for writing.
pub fn open(path: &Path) -> io::Result<impl Read + Send + use<>> {
    let mut pipe = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let (until, mut first) = (Instant::now() + PEER_WAIT, [0]);
    let there = loop {
        match pipe.read(&mut first) {
            // Nobody has it open for writing.
            Ok(0) if Instant::now() < until => thread::sleep(NAP),
            Ok(0) => return Err(no_peer("writing")),
            Ok(there) => break there,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break 0,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    };
    Ok(Cursor::new(first).take(there as u64).chain(Patient(pipe)))
}

/// Opens a FIFO for writing.
///
/// # Errors
///
/// Those of the operating system; if nobody has it open for reading.
pub fn create(path: &Path) -> io::Result<File> {
    let until = Instant::now() + PEER_WAIT;
    loop {
        match OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                if Instant::now() >= until {
                    return Err(no_peer("reading"));
                }
                thread::sleep(NAP);
            }
            Err(error) => return Err(error),
            // A second one, whose writes wait for room. Opening it does not wait, as there is a reader.
            Ok(_first) => return OpenOptions::new().write(true).open(path),
        }
    }
}

fn no_peer(doing: &str) -> io::Error {
    let message = format!("it is a FIFO (named pipe), expected a program that has it open for {doing}");
    io::Error::new(io::ErrorKind::NotConnected, message)
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
