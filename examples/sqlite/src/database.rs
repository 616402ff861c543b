//! A database file that is open, shared by its connections, and the databases of one VFS.
//!
//! The file is opened in the pool when a connection first locks it. From then on the database is locked
//! against other processes, until the last connection closes it or, as [`Sharing`] says, until no connection
//! has a lock. The few bytes that SQLite reads without a lock come from the file itself while the pool does
//! not have it.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::Duration;

use bufpool::{At, ErrorKind, FileOptions, Pool};
use libsqlite3_sys as ffi;
use parking_lot::Mutex;

use crate::contexts::PageClasses;
use crate::failure::{Failure, Result};
use crate::locks::{Busy, Level, Locks};
use crate::process_lock;
use crate::wal_index::WalIndex;

/// How often, and after which pauses, the file is opened in the pool while the pool of another process has
/// locked it. When a process is killed, its pool's lock ends a moment after SQLite's, with its io_uring.
const LOCK_TRIES: u32 = 1000;
const LOCK_PAUSE: Duration = Duration::from_millis(2);

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
    sharing: Sharing,
    state: Mutex<State>,
    pub wal_index: Mutex<WalIndex>,
    pub classes: PageClasses,
}

/// Whether other processes can use a database that connections of this process have open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sharing {
    /// They cannot: the database is locked from its first transaction until the last connection closes it,
    /// and its pages stay in the pool.
    #[default]
    Never,
    /// They can while no connection of this process has a lock, so not in WAL mode. A transaction that begins
    /// finds none of the database's pages in the pool. For tools, and for tests.
    BetweenTransactions,
}

/// What changes with the locks of connections.
#[derive(Default)]
struct State {
    locks: Locks,
    /// The file in the pool, while it is open there.
    pooled: Option<bufpool::File>,
}

/// The open databases of one VFS. An entry goes with its last connection.
#[derive(Default)]
pub(crate) struct Databases {
    open: Mutex<HashMap<Identity, Arc<Database>>>,
    /// The number of pages that all connections have fetched.
    pub fetched: Arc<AtomicU32>,
}

impl Databases {
    /// The database at `path`, opened as SQLite's `flags` say if no connection has it open. An empty file
    /// gets the permissions of the file at `mode_of`.
    pub fn open(
        &self,
        path: &Path,
        flags: i32,
        mode_of: Option<&Path>,
        sharing: Sharing,
    ) -> Result<Arc<Database>> {
        let mut open = self.open.lock();
        let (file, read_only) = open_file(path, flags, mode_of)?;
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
                sharing,
                state: Mutex::default(),
                wal_index: Mutex::default(),
                classes: PageClasses::default(),
            })
        });
        Ok(Arc::clone(database))
    }

    /// A connection is over. With the last one the file leaves the pool, and its lock ends.
    pub fn close(&self, database: Arc<Database>) -> Result<()> {
        // Held until the file is closed, so that nobody opens it anew meanwhile and finds it locked.
        let mut open = self.open.lock();
        // Two references: one in the table, and this one.
        if Arc::strong_count(&database) > 2 {
            drop(database);
            return Ok(());
        }
        open.remove(&database.identity);
        let detached = database.detach(&mut database.state.lock());
        drop(database);
        detached
    }
}

impl Database {
    /// The name of its file, for messages.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    /// Whether no connection can write to it.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Raises a connection's `level` to `wanted`, and has the pool take the file in.
    ///
    /// SQLITE_BUSY if another connection, or another process, has a lock in the way.
    pub fn raise(&self, pool: &Pool, level: &mut Level, wanted: Level) -> Result<bufpool::File> {
        let mut state = self.state.lock();
        let file = self.attach(&mut state, pool)?;
        match state.locks.raise(level, wanted) {
            Ok(()) => Ok(file),
            Err(busy) => {
                self.detach_if_idle(&mut state)?;
                Err(busy.into())
            }
        }
    }

    /// Lowers a connection's `level` to `wanted`. Once no connection has a lock, a file that is poisoned, as
    /// a write has failed, leaves the pool. The connection that locks it next has SQLite restore it from the
    /// journal or log.
    pub fn lower(&self, level: &mut Level, wanted: Level) -> Result<()> {
        let mut state = self.state.lock();
        state.locks.lower(level, wanted);
        self.detach_if_idle(&mut state)
    }

    /// Whether a connection means to write.
    pub fn is_reserved(&self) -> bool {
        self.state.lock().locks.is_reserved()
    }

    /// The file in the pool, for a connection without a lock, as the user has told SQLite.
    pub fn attach_unlocked(&self, pool: &Pool) -> Result<bufpool::File> {
        self.attach(&mut self.state.lock(), pool)
    }

    /// Locks the database against other processes, and opens its file in the pool.
    fn attach(&self, state: &mut State, pool: &Pool) -> Result<bufpool::File> {
        if let Some(file) = &state.pooled {
            return Ok(file.clone());
        }
        let taken = process_lock::take(&self.file, self.read_only);
        if !taken.map_err(|error| self.system_error(&error, ffi::SQLITE_IOERR_LOCK, "lock"))? {
            return Err(Busy.into());
        }
        let file = self.open_in_pool(pool).inspect_err(|_| {
            let _ = process_lock::give_back(&self.file);
        });
        Ok(state.pooled.insert(file?).clone())
    }

    /// Opens the file in the pool, by an open file description of its own, because the pool changes the
    /// description's flags. Not by the path, which may lead to another file by now.
    fn open_in_pool(&self, pool: &Pool) -> Result<bufpool::File> {
        let mut tries = LOCK_TRIES;
        loop {
            tries -= 1;
            let mut options = OpenOptions::new();
            options.read(true).write(!self.read_only);
            let again = options.open(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
            let again = again.and_then(above_standard);
            let again = again
                .map_err(|error| self.system_error(&error, ffi::SQLITE_IOERR_LOCK, "open for the pool"))?;
            let options = FileOptions::new().bytes(true).read_only(self.read_only);
            match pool.open_fd(OwnedFd::from(again), options) {
                Err(error) if error.kind() == ErrorKind::FileLocked && tries > 0 => {
                    thread::sleep(LOCK_PAUSE);
                }
                file => return file.map_err(|error| self.pool_error(&error, ffi::SQLITE_IOERR_LOCK)),
            }
        }
    }

    fn detach_if_idle(&self, state: &mut State) -> Result<()> {
        if state.locks.is_locked() {
            return Ok(());
        }
        if state.pooled.as_ref().is_some_and(bufpool::File::is_poisoned) {
            // SQLite has been told of the failure.
            let _ = self.detach(state);
            return Ok(());
        }
        if self.sharing == Sharing::BetweenTransactions { self.detach(state) } else { Ok(()) }
    }

    /// Closes the file in the pool, and ends the lock against other processes. If dirty pages cannot be
    /// written, they are given up; SQLite's journal or log has what was committed.
    fn detach(&self, state: &mut State) -> Result<()> {
        let mut closed = Ok(());
        if let Some(pooled) = &state.pooled {
            closed = pooled.clone().close();
            if closed.is_err() {
                // The failure has poisoned the file, and a poisoned file is closed without being written.
                let _ = pooled.clone().close();
            }
            if !pooled.is_closed() {
                // A page of it is still latched, so it stays in the pool and locked.
                return closed.map_err(|error| self.pool_error(&error, ffi::SQLITE_IOERR_CLOSE));
            }
        }
        state.pooled = None;
        let unlocked = process_lock::give_back(&self.file);
        closed.map_err(|error| self.pool_error(&error, ffi::SQLITE_IOERR_CLOSE))?;
        unlocked.map_err(|error| self.system_error(&error, ffi::SQLITE_IOERR_UNLOCK, "unlock"))
    }

    /// The file in the pool, while it is open there.
    pub fn pooled(&self) -> Option<bufpool::File> {
        self.state.lock().pooled.clone()
    }

    /// Reads without a lock: as [`At::read_at`].
    pub fn read_unlocked(&self, access: At<'_>, offset: u64, into: &mut [u8]) -> Result<usize> {
        const CODE: i32 = ffi::SQLITE_IOERR_READ;
        match self.pooled().map(|file| access.read_at(&file, offset, into)) {
            // Another connection's transaction has ended, and the file has left the pool.
            Some(Err(error)) if error.kind() == ErrorKind::FileClosed => {}
            Some(read) => return read.map_err(|error| self.pool_error(&error, CODE)),
            None => {}
        }
        read_at_most(&self.file, offset, into).map_err(|error| self.system_error(&error, CODE, "read"))
    }

    /// The length without a lock.
    pub fn length_bytes_unlocked(&self) -> Result<u64> {
        if let Some(file) = self.pooled() {
            return Ok(file.byte_len());
        }
        let metadata = self.file.metadata();
        let metadata =
            metadata.map_err(|error| self.system_error(&error, ffi::SQLITE_IOERR_FSTAT, "look at"))?;
        Ok(metadata.len())
    }

    /// Whether its path leads to another file by now, or to none.
    pub fn has_moved(&self) -> bool {
        self.path.metadata().map(|metadata| Identity::of(&metadata)).ok() != Some(self.identity)
    }

    /// A failure with the database's path, since the pool knows the file by a descriptor only.
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

/// Opens the file, for writing if that is allowed, and returns whether it is for reading only. A connection
/// that only reads may share the file with one that writes, so its flags do not matter here.
fn open_file(path: &Path, flags: i32, mode_of: Option<&Path>) -> Result<(File, bool)> {
    let mode = mode_of.map(permissions_of).transpose()?;
    let has = |flag| flags & flag != 0;
    let is_exclusive = has(ffi::SQLITE_OPEN_CREATE) && has(ffi::SQLITE_OPEN_EXCLUSIVE);
    let mut options = OpenOptions::new();
    options.read(true).mode(mode.unwrap_or(0o644));
    if has(ffi::SQLITE_OPEN_NOFOLLOW) {
        options.custom_flags(libc::O_NOFOLLOW);
    }
    let mut for_writing = options.clone();
    for_writing.write(true).create(has(ffi::SQLITE_OPEN_CREATE)).create_new(is_exclusive);
    let (opened, read_only) = match for_writing.open(path) {
        Err(_) if !is_exclusive => (options.open(path), true),
        opened => (opened, false),
    };
    let file = opened.and_then(above_standard).map_err(|error| cannot_open(path, &error))?;
    if let Some(mode) = mode
        && file.metadata().is_ok_and(|metadata| metadata.len() == 0 && metadata.mode() & 0o777 != mode)
    {
        // The process's umask may have removed some. A failure to set them is ignored.
        let _ = file.set_permissions(Permissions::from_mode(mode));
    }
    Ok((file, read_only))
}

fn permissions_of(path: &Path) -> Result<u32> {
    let metadata = path.metadata();
    let metadata = metadata.map_err(|error| {
        Failure::of_system(&error, ffi::SQLITE_IOERR_FSTAT, "look at", &path.to_string_lossy())
    })?;
    Ok(metadata.mode() & 0o777)
}

/// The same file under a descriptor that is no standard stream's. Otherwise a program that has closed its
/// standard error and writes to it all the same would write to the database.
fn above_standard(file: File) -> io::Result<File> {
    const FIRST: libc::c_int = 3;
    if file.as_raw_fd() >= FIRST {
        return Ok(file);
    }
    // SAFETY: duplicates a descriptor that is open, and has no other effect.
    let number = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FIRST) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else has it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(number) }))
}

fn cannot_open(path: &Path, error: &io::Error) -> Failure {
    Failure::of_system(error, ffi::SQLITE_CANTOPEN, "open", &path.to_string_lossy())
}

/// Copies the file's bytes from `offset` on to `into`, and returns how many there were.
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
    Ok(there)
}

#[cfg(test)]
mod tests {
    use bufpool::PoolOptions;

    use super::*;

    /// While a page is latched for writing, the file stays in the pool and locked against other processes. It
    /// leaves the pool at the end of the next transaction.
    #[test]
    fn a_file_that_cannot_leave_the_pool_is_kept_there_until_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let pool = PoolOptions::new().frames(64).page_bytes(4096).latch_wait_ms(50).open().unwrap();
        let databases = Databases::default();
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
        let database = databases.open(&path, flags, None, Sharing::BetweenTransactions).unwrap();
        let mut level = Level::None;
        let file = database.raise(&pool, &mut level, Level::Shared).unwrap();
        let tenant = pool.default_tenant();
        tenant.write_at(&file, 0, &[1; 8192]).unwrap();
        let page = tenant.write(file.page(1)).unwrap();
        assert!(database.lower(&mut level, Level::None).is_err(), "a page is being written");
        assert!(database.pooled().is_some());
        let again = database.raise(&pool, &mut level, Level::Shared).unwrap();
        assert!(!again.is_closed() && again.id() == file.id());
        drop(page);
        database.lower(&mut level, Level::None).unwrap();
        assert!(database.pooled().is_none() && file.is_closed());
        assert_eq!(std::fs::read(&path).unwrap(), [1; 8192]);
        databases.close(database).unwrap();
        pool.close().unwrap();
    }
}
