//! One connection's view of its database: what SQLite calls a file.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bufpool::{At, Context, Pool, Tenant, site};
use libsqlite3_sys as ffi;

use crate::database::{Database, Databases};
use crate::failure::{Failure, Result};
use crate::locks::Level;
use crate::wal_index::{WalIndex, WalUser};

/// A connection to a database. It is a tenant of the pool, and its accesses are made in the context of the
/// statement that it runs.
pub(crate) struct Connection {
    pool: Pool,
    database: Arc<Database>,
    tenant: Tenant,
    level: Level,
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
            wal_user: WalUser::default(),
            statement: Context::NONE,
            keeps_wal: false,
        })
    }

    /// Ends it; `databases` has the database open.
    pub fn close(mut self, databases: &Databases) -> Result<()> {
        self.unlock(Level::None);
        self.leave_wal();
        let _ = self.tenant.close();
        databases.close(self.database)
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

    /// Fills `into` from `offset` on; SQLITE_IOERR_SHORT_READ if the database ends before.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let is_whole = self.database.read(self.access().at(site!("xRead")), offset, into)?;
        if is_whole { Ok(()) } else { Err(Failure::code(ffi::SQLITE_IOERR_SHORT_READ)) }
    }

    pub fn write(&self, offset: u64, from: &[u8]) -> Result<()> {
        let written = self.database.pages(&self.pool)?.write(self.access().at(site!("xWrite")), offset, from);
        written.map_err(|error| self.database.pool_error(&error, ffi::SQLITE_IOERR_WRITE))
    }

    pub fn set_len(&self, bytes: u64) -> Result<()> {
        let set = self.database.pages(&self.pool)?.set_len(self.access().at(site!("xTruncate")), bytes);
        set.map_err(|error| self.database.pool_error(&error, ffi::SQLITE_IOERR_TRUNCATE))
    }

    /// The database will have `bytes` soon: their space is allocated at once.
    pub fn expect_length(&self, bytes: u64) -> Result<()> {
        let reserved = self.database.pages(&self.pool)?.reserve(bytes);
        reserved.map_err(|error| self.database.pool_error(&error, ffi::SQLITE_IOERR_WRITE))
    }

    pub fn lock(&mut self, wanted: Level) -> Result<()> {
        if self.level == Level::None && wanted > Level::None {
            self.database.attach(&self.pool)?;
        }
        Ok(self.database.locks.lock().raise(&mut self.level, wanted)?)
    }

    pub fn unlock(&mut self, wanted: Level) {
        self.database.locks.lock().lower(&mut self.level, wanted);
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
