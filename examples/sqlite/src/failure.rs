//! Errors, as SQLite knows them: a result code, and what goes to its log.

use std::io;

use bufpool::ErrorKind;
use libsqlite3_sys as ffi;

use crate::locks::Busy;

/// A result code other than SQLITE_OK.
#[derive(Debug)]
pub(crate) struct Failure {
    pub code: i32,
    /// For SQLite's error log; none for what is no error, such as a lock that is in use.
    pub text: Option<String>,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A code that needs no text.
    pub fn code(code: i32) -> Self {
        Self { code, text: None }
    }

    /// An error of the pool about the database `name`: the code that SQLite has for such errors, otherwise
    /// `code`.
    pub fn of_pool(error: &bufpool::Error, code: i32, name: &str) -> Self {
        let code = match error.kind() {
            ErrorKind::NoSpace => ffi::SQLITE_FULL,
            ErrorKind::FileLocked => ffi::SQLITE_BUSY,
            ErrorKind::Exhausted => ffi::SQLITE_IOERR_NOMEM,
            ErrorKind::ReadOnly => ffi::SQLITE_READONLY,
            _ => code,
        };
        Self { code, text: Some(format!("{name}: {error}")) }
    }

    /// An error of the operating system in `operation` on the file `name`.
    pub fn of_system(error: &io::Error, code: i32, operation: &str, name: &str) -> Self {
        let code = if error.kind() == io::ErrorKind::StorageFull { ffi::SQLITE_FULL } else { code };
        Self { code, text: Some(format!("{operation}: {name}: {error}")) }
    }
}

impl From<Busy> for Failure {
    fn from(Busy: Busy) -> Self {
        Self::code(ffi::SQLITE_BUSY)
    }
}
