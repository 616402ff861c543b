//! One connection's view of its database: what SQLite calls a file.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bufpool::{At, Context, Pool, Tenant, site};
use libsqlite3_sys as ffi;

use crate::database::{Database, Databases};
use crate::failure::{Failure, Result};
use crate::locks::Level;
use crate::pages::Pages;
use crate::wal_index::{WalIndex, WalUser};

/// A connection to a database. It is a tenant of the pool, and its accesses are made in the context of the
/// statement that it runs.
pub(crate) struct Connection {
    pool: Pool,
    database: Arc<Database>,
    tenant: Tenant,
    level: Level,
    /// While the connection has a lock, unless the file is read past the pool.
    pages: Option<Arc<Pages>>,
    wal_user: WalUser,
    statement: Context,
    /// Whether the log is kept when the last connection leaves.
    pub keeps_wal: bool,
}

impl Connection {
    /// To `database`.
    pub fn open(pool: &Pool, database: Arc<Database>) -> Result<Self> {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let tenant = pool.tenant(format!("{} #{serial}", database.name())).open();
        let tenant = tenant.map_err(|error| database.pool_error(&error, ffi::SQLITE_CANTOPEN))?;
        Ok(Self {
            pool: pool.clone(),
            database,
            tenant,
            level: Level::None,
            pages: None,
            wal_user: WalUser::default(),
            statement: Context::NONE,
            keeps_wal: false,
        })
    }

    /// Ends it; `databases` has the database open.
    pub fn close(mut self, databases: &Databases) -> Result<()> {
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

    /// What accesses are made for, from here on.
    pub fn set_statement(&mut self, statement: Context) {
        self.statement = statement;
    }

    fn access(&self) -> At<'_> {
        self.tenant.in_context(self.statement)
    }

    /// Fills `into` from `offset` on; SQLITE_IOERR_SHORT_READ if the database ends before, and the rest is
    /// zeros.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let access = self.access().at(site!("xRead"));
        let there = match &self.pages {
            Some(pages) => self.in_pool(pages.read(access, offset, into), ffi::SQLITE_IOERR_READ)?,
            None => self.database.read_unlocked(access, offset, into)?,
        };
        if there == into.len() { Ok(()) } else { Err(Failure::code(ffi::SQLITE_IOERR_SHORT_READ)) }
    }

    pub fn write(&mut self, offset: u64, from: &[u8]) -> Result<()> {
        let pages = self.pages_to_change()?;
        let written = pages.write(self.access().at(site!("xWrite")), offset, from);
        self.in_pool(written, ffi::SQLITE_IOERR_WRITE)
    }

    pub fn set_len(&mut self, bytes: u64) -> Result<()> {
        let pages = self.pages_to_change()?;
        let set = pages.set_len(self.access().at(site!("xTruncate")), bytes);
        self.in_pool(set, ffi::SQLITE_IOERR_TRUNCATE)
    }

    /// The database will have `bytes` soon: their space is allocated at once.
    pub fn expect_length(&mut self, bytes: u64) -> Result<()> {
        let pages = self.pages_to_change()?;
        self.in_pool(pages.reserve(bytes), ffi::SQLITE_IOERR_WRITE)
    }

    /// Returns when everything written before is on the device.
    pub fn sync(&self) -> Result<()> {
        let synced = self
            .pages
            .as_ref()
            .filter(|_| !self.database.is_read_only())
            .map_or(Ok(()), |pages| pages.sync());
        self.in_pool(synced, ffi::SQLITE_IOERR_FSYNC)
    }

    pub fn length_bytes(&self) -> Result<u64> {
        self.pages
            .as_ref()
            .map_or_else(|| self.database.length_bytes_unlocked(), |pages| Ok(pages.length_bytes()))
    }

    fn pages_to_change(&mut self) -> Result<Arc<Pages>> {
        if self.pages.is_none() {
            self.pages = Some(self.database.pages_unlocked(&self.pool)?);
        }
        self.pages.clone().ok_or_else(|| Failure::code(ffi::SQLITE_READONLY))
    }

    fn in_pool<T>(&self, result: bufpool::Result<T>, code: i32) -> Result<T> {
        result.map_err(|error| self.database.pool_error(&error, code))
    }

    pub fn lock(&mut self, wanted: Level) -> Result<()> {
        if wanted > self.level {
            self.pages = self.database.raise(&self.pool, &mut self.level, wanted)?;
        }
        Ok(())
    }

    pub fn unlock(&mut self, wanted: Level) -> Result<()> {
        if wanted == Level::None {
            self.pages = None;
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

    pub fn unlock_wal(&mut self, slots: Range<usize>) {
        self.database.wal_index.lock().unlock(&mut self.wal_user, slots);
    }

    pub fn leave_wal(&mut self) {
        self.database.wal_index.lock().leave(&mut self.wal_user);
    }

    pub fn wal_barrier() {
        WalIndex::barrier();
    }
}
