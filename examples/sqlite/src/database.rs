//! A database file that is open, shared by its connections, and the databases of one VFS.
//!
//! The pool takes a file in when a connection first locks it or writes to it, and keeps it until the last one closes
//! it; so long no other process can have it. Before, the few bytes that SQLite looks at without a lock are
//! read from the file itself.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bufpool::{At, Pool};
use libsqlite3_sys as ffi;
use parking_lot::Mutex;

use crate::failure::{Failure, Result};
use crate::locks::{Busy, Locks};
use crate::pages::Pages;
use crate::process_lock;
use crate::wal_index::WalIndex;

/// Device and inode: a file may have several names.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Identity(u64, u64);

/// One open database file.
pub(crate) struct Database {
    path: PathBuf,
    identity: Identity,
    /// Has the lock that keeps other processes out.
    file: File,
    read_only: bool,
    /// Of the pool, once a connection has locked the database.
    pages: OnceLock<Pages>,
    attaching: Mutex<()>,
    pub locks: Mutex<Locks>,
    pub wal_index: Mutex<WalIndex>,
}

/// The open databases of one VFS. An entry goes with its last connection.
#[derive(Default)]
pub(crate) struct Databases {
    open: Mutex<HashMap<Identity, Arc<Database>>>,
}

impl Databases {
    /// The database at `path`, opened as SQLite's `flags` say if no connection has it open.
    pub fn open(&self, path: &Path, flags: i32) -> Result<Arc<Database>> {
        let mut open = self.open.lock();
        let (file, read_only) = open_file(path, flags)?;
        let metadata = file.metadata().map_err(|error| cannot_open(path, &error))?;
        if !metadata.is_file() {
            return Err(Failure::code(ffi::SQLITE_CANTOPEN));
        }
        let identity = Identity::of(&metadata);
        let database = open.entry(identity).or_insert_with(|| {
            Arc::new(Database {
                path: path.to_owned(),
                identity,
                file,
                read_only,
                pages: OnceLock::new(),
                attaching: Mutex::default(),
                locks: Mutex::default(),
                wal_index: Mutex::default(),
            })
        });
        Ok(Arc::clone(database))
    }

    /// A connection is over. With the last one the file leaves the pool, and its lock ends.
    pub fn close(&self, database: Arc<Database>) -> Result<()> {
        // Held until the file is closed, so that nobody opens it anew meanwhile and finds it locked.
        let mut open = self.open.lock();
        // One is in the table.
        if Arc::strong_count(&database) > 2 {
            drop(database);
            return Ok(());
        }
        open.remove(&database.identity);
        let detached = database.detach();
        drop(database);
        detached
    }
}

impl Database {
    /// Its file's name, for people.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    /// Whether no connection can write to it.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Keeps other processes out, and has the pool take the file in.
    ///
    /// SQLITE_BUSY if another process has a lock.
    pub fn attach(&self, pool: &Pool) -> Result<()> {
        let _attaching = self.attaching.lock();
        if self.pages.get().is_some() {
            return Ok(());
        }
        let failed =
            |operation| move |error: io::Error| self.system_error(&error, ffi::SQLITE_IOERR_LOCK, operation);
        if !process_lock::take(&self.file, self.read_only).map_err(failed("lock"))? {
            return Err(Busy.into());
        }
        let length_bytes = self.file.metadata().map_err(failed("look at"))?.len();
        let whole_bytes = length_bytes.next_multiple_of(pool.page_bytes() as u64);
        if whole_bytes != length_bytes {
            if self.read_only {
                // It cannot be lengthened to whole pages, and is read past the pool.
                return Ok(());
            }
            self.file.set_len(whole_bytes).map_err(failed("lengthen"))?;
        }
        // The same file under a description of its own, since the pool sets its flags; not by the path, which
        // may lead to another file by now.
        let again = OpenOptions::new()
            .read(true)
            .write(!self.read_only)
            .open(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        let again = OwnedFd::from(again.map_err(failed("open for the pool"))?);
        let pages = Pages::open(pool, again, length_bytes, self.read_only);
        let pages = pages.map_err(|error| self.pool_error(&error, ffi::SQLITE_IOERR_LOCK))?;
        self.pages.get_or_init(|| pages);
        Ok(())
    }

    fn detach(&self) -> Result<()> {
        let Some(pages) = self.pages.get() else { return Ok(()) };
        let closed = pages.close().map_err(|error| self.pool_error(&error, ffi::SQLITE_IOERR_CLOSE));
        if !self.read_only {
            let cut = self.file.set_len(pages.length_bytes());
            cut.map_err(|error| self.system_error(&error, ffi::SQLITE_IOERR_CLOSE, "cut"))?;
        }
        closed
    }

    /// Fills `into` from `offset` on; false if the file ends before, and the rest is zeros.
    pub fn read(&self, access: At<'_>, offset: u64, into: &mut [u8]) -> Result<bool> {
        let failure = ffi::SQLITE_IOERR_READ;
        let there = match self.pages.get() {
            Some(pages) => {
                pages.read(access, offset, into).map_err(|error| self.pool_error(&error, failure))?
            }
            None => read_at_most(&self.file, offset, into)
                .map_err(|error| self.system_error(&error, failure, "read"))?,
        };
        Ok(there == into.len())
    }

    /// Its length as SQLite knows it.
    pub fn length_bytes(&self) -> Result<u64> {
        match self.pages.get() {
            Some(pages) => Ok(pages.length_bytes()),
            None => {
                let metadata = self.file.metadata();
                metadata
                    .map(|metadata| metadata.len())
                    .map_err(|error| self.system_error(&error, ffi::SQLITE_IOERR_FSTAT, "look at"))
            }
        }
    }

    /// For changes, which are made through the pool.
    pub fn pages(&self, pool: &Pool) -> Result<&Pages> {
        if self.pages.get().is_none() {
            self.attach(pool)?;
        }
        self.pages.get().ok_or_else(|| Failure::code(ffi::SQLITE_READONLY))
    }

    /// Returns when everything written before is on the device.
    pub fn sync(&self) -> Result<()> {
        let Some(pages) = self.pages.get().filter(|_| !self.read_only) else { return Ok(()) };
        pages.sync().map_err(|error| self.pool_error(&error, ffi::SQLITE_IOERR_FSYNC))
    }

    /// Whether its path leads to another file by now, or to none.
    pub fn has_moved(&self) -> bool {
        self.path.metadata().map(|metadata| Identity::of(&metadata)).ok() != Some(self.identity)
    }

    /// The pool knows the file by a descriptor only, so the path is added.
    pub fn pool_error(&self, error: &bufpool::Error, code: i32) -> Failure {
        Failure::of_pool(error, code, &self.path.to_string_lossy())
    }

    fn system_error(&self, error: &io::Error, code: i32, operation: &str) -> Failure {
        Failure::of_system(error, code, operation, &self.path.to_string_lossy())
    }
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }
}

/// Opens the file, and says whether for reading only: if nothing else is allowed. A connection that only
/// reads may share the file with one that writes, so it is opened for writing all the same.
fn open_file(path: &Path, flags: i32) -> Result<(File, bool)> {
    let has = |flag| flags & flag != 0;
    let is_exclusive = has(ffi::SQLITE_OPEN_CREATE) && has(ffi::SQLITE_OPEN_EXCLUSIVE);
    let mut options = OpenOptions::new();
    options.read(true).mode(0o644);
    if has(ffi::SQLITE_OPEN_NOFOLLOW) {
        options.custom_flags(libc::O_NOFOLLOW);
    }
    let mut for_writing = options.clone();
    for_writing.write(true).create(has(ffi::SQLITE_OPEN_CREATE)).create_new(is_exclusive);
    match for_writing.open(path) {
        Ok(file) => Ok((file, false)),
        Err(error) if is_exclusive => Err(cannot_open(path, &error)),
        Err(_) => Ok((options.open(path).map_err(|error| cannot_open(path, &error))?, true)),
    }
}

fn cannot_open(path: &Path, error: &io::Error) -> Failure {
    Failure::of_system(error, ffi::SQLITE_CANTOPEN, "open", &path.to_string_lossy())
}

/// Fills `into` from `offset` on, with zeros behind the end, and returns how many bytes there are.
fn read_at_most(file: &File, offset: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut there = 0;
    while there < into.len() {
        match file.read_at(&mut into[there..], offset + there as u64) {
            Ok(0) => break,
            Ok(bytes) => there += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    into[there..].fill(0);
    Ok(there)
}
