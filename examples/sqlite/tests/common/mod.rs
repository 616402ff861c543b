//! SQLite for tests and examples: connections, statements and their rows.

#![allow(dead_code, reason = "no test uses everything")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

use bufpool::{Pool, PoolOptions};
use bufpool_sqlite::VfsOptions;
use libsqlite3_sys as ffi;

/// The VFS of the pool, and SQLite's own.
pub const BUFPOOL: &CStr = c"bufpool";
pub const UNIX: &CStr = c"unix";

/// The pool of the VFS [`BUFPOOL`], which the first call registers. It is much smaller than most of the
/// tests' databases.
pub fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| {
        let print: unsafe extern "C" fn(*mut c_void, c_int, *const c_char) = print_log;
        // SAFETY: nobody has called SQLite before, and the log is a function of this kind.
        unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_LOG, print, ptr::null_mut::<c_void>()) };
        let pool = PoolOptions::new().frames(64).page_bytes(4096).open().unwrap();
        bufpool_sqlite::register(BUFPOOL, &pool, VfsOptions::default()).unwrap();
        pool
    })
}

unsafe extern "C" fn print_log(_: *mut c_void, code: c_int, text: *const c_char) {
    // SAFETY: SQLite gives a C string.
    let text = unsafe { CStr::from_ptr(text) };
    if code & 0xff == ffi::SQLITE_ERROR {
        return;
    }
    println!("sqlite: {code}: {}", text.to_string_lossy());
}

/// A connection.
pub struct Db(*mut ffi::sqlite3);

// SAFETY: a connection may go from one thread to another, because SQLite is compiled to be serialized.
unsafe impl Send for Db {}

/// A result code, with SQLite's message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqlError {
    /// The primary result code, without the bits that extend it.
    pub code: i32,
    pub message: String,
}

pub type Row = Vec<Option<String>>;

impl Db {
    pub fn open(path: impl AsRef<Path>, vfs: &CStr) -> Self {
        Self::try_open(path, vfs).unwrap()
    }

    pub fn try_open(path: impl AsRef<Path>, vfs: &CStr) -> Result<Self, SqlError> {
        let path = CString::new(path.as_ref().to_str().unwrap()).unwrap();
        let mut db = ptr::null_mut();
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE | ffi::SQLITE_OPEN_URI;
        // SAFETY: both names are C strings, and the connection has a place.
        let code = unsafe { ffi::sqlite3_open_v2(path.as_ptr(), &raw mut db, flags, vfs.as_ptr()) };
        let db = Self(db);
        if code == ffi::SQLITE_OK { Ok(db) } else { Err(db.error(code)) }
    }

    /// Runs statements, and returns the rows of all of them.
    pub fn try_rows(&self, sql: &str) -> Result<Vec<Row>, SqlError> {
        let sql = CString::new(sql).unwrap();
        let mut rows: Vec<Row> = Vec::new();
        let context = (&raw mut rows).cast();
        // SAFETY: `add_row` is given the vector, which lives.
        let code =
            unsafe { ffi::sqlite3_exec(self.0, sql.as_ptr(), Some(add_row), context, ptr::null_mut()) };
        if code == ffi::SQLITE_OK { Ok(rows) } else { Err(self.error(code)) }
    }

    pub fn rows(&self, sql: &str) -> Vec<Row> {
        self.try_rows(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    pub fn run(&self, sql: &str) {
        self.rows(sql);
    }

    /// The first column of the only row.
    pub fn value(&self, sql: &str) -> String {
        match self.rows(sql).as_slice() {
            [row] => row[0].clone().unwrap_or_default(),
            rows => panic!("{sql}: {} rows", rows.len()),
        }
    }

    /// A statement at its first row.
    pub fn cursor(&self, sql: &str) -> Cursor<'_> {
        let sql = CString::new(sql).unwrap();
        let mut statement = ptr::null_mut();
        // SAFETY: the text is a C string, and the statement has a place.
        let code =
            unsafe { ffi::sqlite3_prepare_v2(self.0, sql.as_ptr(), -1, &raw mut statement, ptr::null_mut()) };
        assert_eq!(code, ffi::SQLITE_OK, "{:?}", self.error(code));
        let cursor = Cursor { statement, _db: self };
        // SAFETY: it was just made.
        let code = unsafe { ffi::sqlite3_step(statement) };
        assert_eq!(code, ffi::SQLITE_ROW, "{:?}", self.error(code));
        cursor
    }

    fn error(&self, code: c_int) -> SqlError {
        // SAFETY: the connection is open, or null, which is allowed.
        let message = unsafe { ffi::sqlite3_errmsg(self.0) };
        // SAFETY: it is a C string, which is copied at once.
        let message = unsafe { CStr::from_ptr(message) };
        SqlError { code: code & 0xff, message: message.to_string_lossy().into_owned() }
    }
}

/// A statement that has begun and not ended, and keeps its lock.
pub struct Cursor<'db> {
    statement: *mut ffi::sqlite3_stmt,
    _db: &'db Db,
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: nobody else has the statement.
        unsafe { ffi::sqlite3_finalize(self.statement) };
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // SAFETY: nobody else has the connection, and it has no statements left.
        assert_eq!(unsafe { ffi::sqlite3_close(self.0) }, ffi::SQLITE_OK);
    }
}

unsafe extern "C" fn add_row(
    rows: *mut c_void,
    columns: c_int,
    values: *mut *mut c_char,
    _names: *mut *mut c_char,
) -> c_int {
    // SAFETY: `try_rows` has given its vector.
    let rows = unsafe { &mut *rows.cast::<Vec<Row>>() };
    // SAFETY: SQLite gives an array of that many strings.
    let values = unsafe { std::slice::from_raw_parts(values, columns as usize) };
    let text = |&value: &*mut c_char| {
        // SAFETY: it is a C string, or null for NULL.
        (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
    };
    rows.push(values.iter().map(text).collect());
    0
}

/// A sequence of numbers, the same for the same seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
