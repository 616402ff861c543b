//! One connection's view of its database: what SQLite calls a file.

use std::ops::Range;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bufpool::{At, Context, ErrorKind, File, OwnedPin, Pool, Tenant, site};
use libsqlite3_sys as ffi;

use crate::contexts::Contexts;
use crate::database::{Database, Databases};
use crate::failure::{Failure, Result};
use crate::locks::Level;
use crate::wal_index::{WalIndex, WalUser};

/// A connection has at most one frame in this many fetched, and all together one in
/// [`FETCHED_SHARE_TOGETHER`], so that pins leave frames to everybody.
const FETCHED_SHARE: u32 = 16;
const FETCHED_SHARE_TOGETHER: u32 = 4;

/// How long, and at which intervals, a file that is to be shortened waits for pins beyond its new end. In WAL
/// mode a writer may fetch a page there for a moment, which it finds in its cache then.
const PIN_WAIT: Duration = Duration::from_secs(2);
const PIN_PAUSE: Duration = Duration::from_micros(100);

/// A connection to a database. It is a tenant of the pool, and its accesses are made in the context of the
/// statement that it runs.
pub(crate) struct Connection {
    pool: Pool,
    database: Arc<Database>,
    tenant: Tenant,
    /// Whether it may not change the database, though others may.
    read_only: bool,
    level: Level,
    /// The file in the pool, while the connection has a lock.
    file: Option<File>,
    /// Pins of the pages that SQLite reads in their frames.
    fetched: Vec<OwnedPin>,
    /// The number of such pins of all connections.
    fetched_together: Arc<AtomicU32>,
    wal_user: WalUser,
    statement: Context,
    has_page_classes: bool,
    /// Whether the log is kept when the last connection leaves.
    pub keeps_wal: bool,
    /// When SQLite sets the database's length, or says what it will be, the length is rounded up to a
    /// multiple of this number of bytes. 0: any length.
    pub chunk_bytes: u64,
    /// What SQLite calls the limit of the mapped part of the file. More than 0: pages are read in their
    /// frames.
    mapped_bytes_max: i64,
}

impl Connection {
    /// Opens a connection to `database`, which `databases` has open.
    pub fn open(
        pool: &Pool,
        databases: &Databases,
        database: Arc<Database>,
        read_only: bool,
        contexts: Contexts,
    ) -> Result<Self> {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let tenant = pool.tenant(format!("{} #{serial}", database.name()));
        let tenant = tenant.stack_contexts(contexts.stack_depth).open();
        let tenant = match tenant {
            Ok(tenant) => tenant,
            Err(error) => {
                let failure = database.pool_error(&error, ffi::SQLITE_CANTOPEN);
                let _ = databases.close(database);
                return Err(failure);
            }
        };
        Ok(Self {
            pool: pool.clone(),
            database,
            tenant,
            read_only,
            level: Level::None,
            file: None,
            fetched: Vec::new(),
            fetched_together: Arc::clone(&databases.fetched),
            wal_user: WalUser::default(),
            statement: Context::NONE,
            has_page_classes: contexts.page_classes,
            keeps_wal: false,
            chunk_bytes: 0,
            mapped_bytes_max: 0,
        })
    }

    /// Closes the connection; `databases` has the database open.
    pub fn close(mut self, databases: &Databases) -> Result<()> {
        self.fetched_together.fetch_sub(self.fetched.len() as u32, Ordering::Relaxed);
        self.fetched.clear();
        let unlocked = self.unlock(Level::None);
        self.leave_wal();
        let _ = self.tenant.close();
        databases.close(self.database).and(unlocked)
    }

    pub fn database(&self) -> &Database {
        &self.database
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    pub fn level(&self) -> Level {
        self.level
    }

    /// Sets the context of the accesses from here on.
    pub fn set_statement(&mut self, statement: Context) {
        self.statement = statement;
    }

    fn access(&self) -> At<'_> {
        self.tenant.in_context(self.statement)
    }

    /// Fills `into` from `offset` on. If the database ends before, the rest is zeros and the failure is
    /// SQLITE_IOERR_SHORT_READ.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let access = self.access().at(site!("xRead"));
        let there = match &self.file {
            Some(file) => self.in_pool(access.read_at(file, offset, into), ffi::SQLITE_IOERR_READ)?,
            None => self.database.read_unlocked(access, offset, into)?,
        };
        if there == into.len() {
            return Ok(());
        }
        into[there..].fill(0);
        Err(Failure::code(ffi::SQLITE_IOERR_SHORT_READ))
    }

    /// Sets how many bytes of the file may be mapped, unless `wanted` is negative or pages are fetched now.
    /// Returns the number before.
    pub fn map(&mut self, wanted: i64) -> i64 {
        let before = self.mapped_bytes_max;
        if wanted >= 0 && self.fetched.is_empty() {
            self.mapped_bytes_max = wanted;
        }
        before
    }

    /// The address of these bytes, for reading without a copy. None without a lock, with an `mmap_size` of 0,
    /// if the bytes are not all in one page of the pool and before the end of the file, or if many pages are
    /// fetched already. The page is pinned until [`unfetch`](Self::unfetch).
    ///
    /// SQLite's locks keep other connections from writing to the page while it is read. SQLite may read up to
    /// 256 bytes behind the end of a page; behind a pinned page they can be read.
    pub fn fetch(&mut self, offset: u64, bytes: usize) -> Result<Option<NonNull<u8>>> {
        let Some(file) = self.file.as_ref().filter(|_| self.mapped_bytes_max > 0) else { return Ok(None) };
        let start = (offset % file.page_bytes() as u64) as usize;
        let is_there = offset + bytes as u64 <= file.byte_len() && start + bytes <= file.page_bytes();
        let frames = self.pool.frames();
        let are_many = self.fetched.len() as u32 >= frames / FETCHED_SHARE
            || self.fetched_together.load(Ordering::Relaxed) >= frames / FETCHED_SHARE_TOGETHER;
        if !is_there || are_many {
            return Ok(None);
        }
        let page = file.page(offset / file.page_bytes() as u64);
        let classes = Some(&self.database.classes).filter(|_| self.has_page_classes);
        let class = classes.map_or(0, |classes| classes.get(page.number()));
        let pin = match self.access().at(site!("xFetch")).pin_owned(page.class(class)) {
            // Another connection's checkpoint has shortened the file meanwhile: SQLite asks for pages that a
            // writer has in its cache, too.
            Err(error) if error.kind() == ErrorKind::PageBeyondEnd => return Ok(None),
            pin => self.in_pool(pin, ffi::SQLITE_IOERR_READ)?,
        };
        let place = pin.as_ptr().cast::<u8>();
        if let Some(classes) = classes {
            // SAFETY: the pin keeps the page where it is, and SQLite's locks keep other connections from
            // writing to it.
            classes.see(page.number(), unsafe { slice::from_raw_parts(place.as_ptr(), file.page_bytes()) });
        }
        self.fetched_together.fetch_add(1, Ordering::Relaxed);
        self.fetched.push(pin);
        Ok(place.addr().checked_add(start).map(|address| place.with_addr(address)))
    }

    /// The bytes at `offset`, which were fetched, are not read any more.
    pub fn unfetch(&mut self, offset: u64) {
        let number = offset / self.pool.page_bytes() as u64;
        if let Some(at) = self.fetched.iter().rposition(|pin| pin.page().number() == number) {
            self.fetched.swap_remove(at);
            self.fetched_together.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub fn write(&mut self, offset: u64, from: &[u8]) -> Result<()> {
        let file = self.file_to_change()?;
        let written = self.access().at(site!("xWrite")).write_at(&file, offset, from);
        self.in_pool(written, ffi::SQLITE_IOERR_WRITE)
    }

    pub fn set_len(&mut self, bytes: u64) -> Result<()> {
        let chunk_bytes = self.chunk_bytes.max(1);
        let bytes = bytes.checked_next_multiple_of(chunk_bytes).unwrap_or(bytes);
        let file = self.file_to_change()?;
        let until = Instant::now() + PIN_WAIT;
        let set = loop {
            match file.set_byte_len(bytes) {
                Err(error) if error.kind() == ErrorKind::PageBusy && Instant::now() < until => {
                    thread::sleep(PIN_PAUSE);
                }
                set => break set,
            }
        };
        self.in_pool(set, ffi::SQLITE_IOERR_TRUNCATE)
    }

    /// The database is about to have `bytes`: their space is allocated at once.
    pub fn expect_length(&mut self, bytes: i64) -> Result<()> {
        let bytes = u64::try_from(bytes).unwrap_or(0);
        if bytes > self.length_bytes()? { self.set_len(bytes) } else { Ok(()) }
    }

    /// Returns when everything written before is on the device.
    pub fn sync(&self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        // A file that has left the pool was written then.
        let file = self.file.clone().or_else(|| self.database.pooled());
        self.in_pool(file.map_or(Ok(()), |file| file.flush()), ffi::SQLITE_IOERR_FSYNC)
    }

    pub fn length_bytes(&self) -> Result<u64> {
        let file = self.file.as_ref();
        file.map_or_else(|| self.database.length_bytes_unlocked(), |file| Ok(file.byte_len()))
    }

    /// The file in the pool, also for a connection without a lock, which the user has told SQLite to do
    /// without. Such a connection asks for the file each time, because the file may leave the pool with the
    /// last lock of other connections.
    fn file_to_change(&mut self) -> Result<File> {
        if self.read_only {
            return Err(Failure::code(ffi::SQLITE_READONLY));
        }
        self.file.clone().map_or_else(|| self.database.attach_unlocked(&self.pool), Ok)
    }

    fn in_pool<T>(&self, result: bufpool::Result<T>, code: i32) -> Result<T> {
        result.map_err(|error| self.database.pool_error(&error, code))
    }

    /// Raises the connection's lock to `wanted`. SQLITE_READONLY for more than a shared lock, if the
    /// connection may only read: so it does not write the log to the database when it is closed.
    pub fn lock(&mut self, wanted: Level) -> Result<()> {
        if self.read_only && wanted > Level::Shared {
            return Err(Failure::code(ffi::SQLITE_READONLY));
        }
        if wanted > self.level {
            self.file = Some(self.database.raise(&self.pool, &mut self.level, wanted)?);
        }
        Ok(())
    }

    pub fn unlock(&mut self, wanted: Level) -> Result<()> {
        if wanted == Level::None {
            self.file = None;
        }
        self.database.lower(&mut self.level, wanted)
    }

    /// The address of a region of the log's index; none if there is none and `extend` is false.
    pub fn wal_region(&mut self, number: usize, bytes: usize, extend: bool) -> Option<*const AtomicU64> {
        self.database.wal_index.lock().region(&mut self.wal_user, number, bytes, extend)
    }

    pub fn lock_wal(&mut self, slots: Range<usize>, exclusive: bool) -> Result<()> {
        Ok(self.database.wal_index.lock().lock(&mut self.wal_user, slots, exclusive)?)
    }

    /// Gives back locks of the log. Once nobody has any, a file that is poisoned because a checkpoint has
    /// failed is taken into use again as the device has it. The pages that are lost are in the log: SQLite
    /// does not begin the log anew before the file was flushed, and takes nothing in it for checkpointed once
    /// it has made the index anew.
    pub fn unlock_wal(&mut self, slots: Range<usize>) {
        let mut index = self.database.wal_index.lock();
        index.unlock(&mut self.wal_user, slots);
        let poisoned = self.file.as_ref().filter(|file| file.is_poisoned() && !index.is_locked());
        // If it fails, the next one who leaves tries again.
        if poisoned.is_some_and(|file| file.reopen().is_ok()) {
            index.invalidate();
        }
    }

    pub fn leave_wal(&mut self) {
        self.database.wal_index.lock().leave(&mut self.wal_user);
    }

    pub fn wal_barrier() {
        WalIndex::barrier();
    }
}

#[cfg(test)]
mod tests {
    use bufpool::PoolOptions;

    use super::*;
    use crate::database::Sharing;

    /// In WAL mode a writer asks for pages that it has in its cache while another connection's checkpoint
    /// shortens the file. Neither is an error.
    #[test]
    fn a_page_is_fetched_while_another_connection_shortens_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let pool = PoolOptions::new().frames(256).page_bytes(4096).open().unwrap();
        let databases = Databases::default();
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
        let connect = || {
            let path = folder.path().join("x.db");
            let database = databases.open(&path, flags, None, Sharing::Never).unwrap();
            let mut connection =
                Connection::open(&pool, &databases, database, false, Contexts::NONE).unwrap();
            connection.lock(Level::Shared).unwrap();
            connection.map(1 << 30);
            connection
        };
        let (mut writer, mut checkpoint) = (connect(), connect());
        let mut failures = Vec::new();
        std::thread::scope(|scope| {
            let shortens = scope.spawn(|| {
                let mut failures = Vec::new();
                for _ in 0..2000 {
                    for pages in [16, 2] {
                        failures.extend(checkpoint.set_len(pages * 4096).err());
                    }
                }
                failures
            });
            while !shortens.is_finished() {
                match writer.fetch(10 * 4096, 4096) {
                    Ok(Some(_)) => writer.unfetch(10 * 4096),
                    Ok(None) => {}
                    Err(failure) => failures.push(failure),
                }
            }
            failures.extend(shortens.join().unwrap());
        });
        writer.close(&databases).unwrap();
        checkpoint.close(&databases).unwrap();
        assert!(failures.is_empty(), "{failures:?}");
    }

    /// SQLite passes on what a program says, and a length is made one of whole chunks.
    #[test]
    fn a_length_that_cannot_be_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let pool = PoolOptions::new().frames(64).page_bytes(4096).open().unwrap();
        let databases = Databases::default();
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
        let database = databases.open(&folder.path().join("x.db"), flags, None, Sharing::Never).unwrap();
        let mut connection = Connection::open(&pool, &databases, database, false, Contexts::NONE).unwrap();
        connection.lock(Level::Exclusive).unwrap();
        connection.set_len(8192).unwrap();
        connection.chunk_bytes = 65536;
        connection.expect_length(-1).unwrap();
        assert_eq!(connection.length_bytes().unwrap(), 8192);
        assert!(connection.set_len(u64::MAX).is_err());
        assert_eq!(connection.length_bytes().unwrap(), 8192);
        connection.close(&databases).unwrap();
    }
}
