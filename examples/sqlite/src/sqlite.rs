//! The functions of SQLite that the VFS calls.
//!
//! As a library, this crate is linked with them. As a loadable extension, it must call the functions of the
//! program that loads it, which hands it a table of them.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use libsqlite3_sys as ffi;

/// SQLite, as this VFS calls it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sqlite {
    malloc64: Malloc64,
    log: Log,
    next_stmt: NextStmt,
    sql: Sql,
    stmt_busy: StmtBusy,
    uri_parameter: UriParameter,
    vfs_find: VfsFind,
    vfs_register: VfsRegister,
}

type Malloc64 = unsafe extern "C" fn(u64) -> *mut c_void;
type Log = unsafe extern "C" fn(c_int, *const c_char, ...);
type NextStmt = unsafe extern "C" fn(*mut ffi::sqlite3, *mut ffi::sqlite3_stmt) -> *mut ffi::sqlite3_stmt;
type Sql = unsafe extern "C" fn(*mut ffi::sqlite3_stmt) -> *const c_char;
type StmtBusy = unsafe extern "C" fn(*mut ffi::sqlite3_stmt) -> c_int;
type UriParameter = unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char;
type VfsFind = unsafe extern "C" fn(*const c_char) -> *mut ffi::sqlite3_vfs;
type VfsRegister = unsafe extern "C" fn(*mut ffi::sqlite3_vfs, c_int) -> c_int;

impl Sqlite {
    /// The SQLite that this library is linked with.
    pub fn linked() -> Self {
        Self {
            malloc64: ffi::sqlite3_malloc64,
            log: ffi::sqlite3_log,
            next_stmt: ffi::sqlite3_next_stmt,
            sql: ffi::sqlite3_sql,
            stmt_busy: ffi::sqlite3_stmt_busy,
            uri_parameter: ffi::sqlite3_uri_parameter,
            vfs_find: ffi::sqlite3_vfs_find,
            vfs_register: ffi::sqlite3_vfs_register,
        }
    }

    /// The SQLite that loads this extension and hands it a table of pointers to functions. Later versions of
    /// SQLite add to the table at its end only.
    ///
    /// # Safety
    ///
    /// `routines` is what SQLite 3.8.7 or newer has handed to an extension's entry point.
    pub unsafe fn loading(routines: *const ffi::sqlite3_api_routines) -> Self {
        let routines = routines.cast::<*const c_void>();
        macro_rules! routine {
            ($place:literal, $function:ty) => {{
                // SAFETY: the table has that many entries, says the caller.
                let place = unsafe { routines.add($place) };
                // SAFETY: an entry of the table, which lives for ever and never changes.
                let routine = unsafe { *place };
                // SAFETY: `sqlite3ext.h` has a function of this type at this place.
                unsafe { std::mem::transmute::<*const c_void, $function>(routine) }
            }};
        }
        Self {
            malloc64: routine!(197, Malloc64),
            log: routine!(167, Log),
            next_stmt: routine!(152, NextStmt),
            sql: routine!(153, Sql),
            stmt_busy: routine!(184, StmtBusy),
            uri_parameter: routine!(189, UriParameter),
            vfs_find: routine!(141, VfsFind),
            vfs_register: routine!(142, VfsRegister),
        }
    }

    /// The VFS of that name, or null.
    pub fn find_vfs(&self, name: &CStr) -> *mut ffi::sqlite3_vfs {
        // SAFETY: the name is a C string.
        unsafe { (self.vfs_find)(name.as_ptr()) }
    }

    /// Adds a VFS to SQLite's list. Returns a result code.
    ///
    /// # Safety
    ///
    /// `vfs` stays where it is, and its functions keep SQLite's rules, as long as the process lives.
    pub unsafe fn register_vfs(&self, vfs: *mut ffi::sqlite3_vfs, is_default: bool) -> c_int {
        // SAFETY: what SQLite asks of a VFS is this function's own condition.
        unsafe { (self.vfs_register)(vfs, is_default.into()) }
    }

    /// Writes a line to SQLite's error log.
    pub fn log(&self, code: c_int, text: &str) {
        let Ok(text) = CString::new(text) else { return };
        // SAFETY: the format takes one C string.
        unsafe { (self.log)(code, c"%s".as_ptr(), text.as_ptr()) };
    }

    /// A copy of `text` in SQLite's own memory, which SQLite frees; null if there is no memory left.
    pub fn copy(&self, text: &str) -> *mut c_char {
        // SAFETY: it may be called with any number.
        let copy = unsafe { (self.malloc64)(text.len() as u64 + 1) }.cast::<u8>();
        if !copy.is_null() {
            // SAFETY: there is room for the text, and one byte more.
            unsafe { ptr::copy_nonoverlapping(text.as_ptr(), copy, text.len()) };
            // SAFETY: the byte after the text is in that room.
            let end = unsafe { copy.add(text.len()) };
            // SAFETY: that byte is nobody else's yet.
            unsafe { end.write(0) };
        }
        copy.cast()
    }

    /// The value that the URI of a main database gives a parameter.
    ///
    /// # Safety
    ///
    /// SQLite has handed `name` to a VFS's `xOpen`, and the value is not used after the file is closed.
    pub unsafe fn uri_parameter<'a>(&self, name: *const c_char, parameter: &CStr) -> Option<&'a CStr> {
        // SAFETY: the caller says so of the name; the other one is a C string.
        let value = unsafe { (self.uri_parameter)(name, parameter.as_ptr()) };
        // SAFETY: values are C strings, and lie where the name does.
        (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
    }

    /// The text of the statement that the connection runs, if no other statement of the connection has begun
    /// and not ended.
    ///
    /// # Safety
    ///
    /// The calling thread is in a call of SQLite's on this connection, and the text is not used beyond it.
    pub unsafe fn running_statement<'a>(&self, connection: *mut ffi::sqlite3) -> Option<&'a CStr> {
        let mut running = None;
        // SAFETY: the connection is open, and its mutex, held by this thread, can be taken once more.
        let mut statement = unsafe { (self.next_stmt)(connection, ptr::null_mut()) };
        while !statement.is_null() {
            // SAFETY: the statement lives: others are kept out by the mutex.
            if unsafe { (self.stmt_busy)(statement) } != 0 && running.replace(statement).is_some() {
                return None;
            }
            // SAFETY: as at the first one, and the statement before is one of this connection's.
            statement = unsafe { (self.next_stmt)(connection, statement) };
        }
        // SAFETY: a statement of this connection's, which lives: others are kept out by the mutex.
        let text = unsafe { (self.sql)(running?) };
        // SAFETY: the text of a statement lives as long as that.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    static LOADED: OnceLock<Sqlite> = OnceLock::new();

    unsafe extern "C" fn entry(
        _: *mut ffi::sqlite3,
        _: *mut *mut c_char,
        routines: *const ffi::sqlite3_api_routines,
    ) -> c_int {
        // SAFETY: SQLite calls this as an entry point.
        LOADED.get_or_init(|| unsafe { Sqlite::loading(routines) });
        ffi::SQLITE_OK
    }

    #[test]
    fn an_extension_finds_the_functions_that_a_library_is_linked_with() {
        // SAFETY: the entry point keeps SQLite's rules.
        assert_eq!(unsafe { ffi::sqlite3_auto_extension(Some(entry)) }, ffi::SQLITE_OK);
        let mut connection = ptr::null_mut();
        // SAFETY: the name is a C string, and the result has a place.
        let opened = unsafe { ffi::sqlite3_open(c":memory:".as_ptr(), &raw mut connection) };
        assert_eq!(opened, ffi::SQLITE_OK);
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_close(connection) };
        let names = |sqlite: &Sqlite| format!("{sqlite:?}");
        assert_eq!(LOADED.get().map(names), Some(names(&Sqlite::linked())));
    }
}
