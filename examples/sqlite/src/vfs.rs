//! The border to C: a VFS as SQLite calls it.
//!
//! Main databases are [`Connection`]s. All other files, such as journals, logs and temporary files, are
//! opened by SQLite's unix VFS in the memory that SQLite gives for the file. From then on SQLite calls the
//! functions of the unix VFS for them.
//!
//! No panic crosses the border; it becomes a result code. SQLite makes its calls on one file one after the
//! other.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::{ptr, slice};

use bufpool::Pool;
use libsqlite3_sys as ffi;

use crate::connection::Connection;
use crate::contexts::Contexts;
use crate::database::{Databases, Sharing};
use crate::failure::{Failure, Result};
use crate::locks::Level;
use crate::sqlite::Sqlite;
use crate::statements::Statements;

/// A VFS, with what its files share. It lives as long as the process.
#[repr(C)]
struct Vfs {
    /// SQLite has its address.
    base: ffi::sqlite3_vfs,
    unix: *mut ffi::sqlite3_vfs,
    sqlite: Sqlite,
    pool: Pool,
    sharing: Sharing,
    contexts: Contexts,
    databases: Databases,
    statements: Statements,
}

/// A main database, in memory that SQLite gives.
#[repr(C)]
struct MainFile {
    /// SQLite has its address.
    base: ffi::sqlite3_file,
    open: *mut OpenFile,
}

/// What belongs to a main database while it is open.
struct OpenFile {
    vfs: &'static Vfs,
    connection: Connection,
    /// The place where SQLite keeps the address of the connection that uses the file at present; null if
    /// SQLite has not named the place.
    user: *const *mut ffi::sqlite3,
}

/// How a VFS is registered.
#[derive(Clone, Copy, Debug, Default)]
pub struct VfsOptions {
    /// Whether connections that name no VFS use it.
    pub is_default: bool,
    /// Whether other processes can use its open databases.
    pub sharing: Sharing,
    /// What the contexts of accesses are made of.
    pub contexts: Contexts,
}

/// Registers a VFS called `name` over `pool` with `sqlite`.
///
/// # Errors
///
/// A result code: SQLITE_NOTFOUND if SQLite has no unix VFS.
pub(crate) fn register(sqlite: Sqlite, name: &'static CStr, pool: &Pool, options: VfsOptions) -> Result<()> {
    let unix = sqlite.find_vfs(c"unix");
    if unix.is_null() {
        return Err(Failure::code(ffi::SQLITE_NOTFOUND));
    }
    // SAFETY: a registered VFS stays where it is.
    let copied = unsafe { *unix };
    // Functions that are not replaced use only those fields of their VFS that are copied here.
    let base = ffi::sqlite3_vfs {
        zName: name.as_ptr(),
        pNext: ptr::null_mut(),
        szOsFile: copied.szOsFile.max(size_of::<MainFile>() as c_int),
        xOpen: Some(x_open),
        ..copied
    };
    let (databases, statements) = (Databases::default(), Statements::default());
    let vfs = Box::leak(Box::new(Vfs {
        base,
        unix,
        sqlite,
        pool: pool.clone(),
        sharing: options.sharing,
        contexts: options.contexts,
        databases,
        statements,
    }));
    // SAFETY: it is leaked, and its functions are those below.
    match unsafe { sqlite.register_vfs((&raw mut *vfs).cast(), options.is_default) } {
        ffi::SQLITE_OK => Ok(()),
        code => Err(Failure::code(code)),
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(x_close),
    xRead: Some(x_read),
    xWrite: Some(x_write),
    xTruncate: Some(x_truncate),
    xSync: Some(x_sync),
    xFileSize: Some(x_file_size),
    xLock: Some(x_lock),
    xUnlock: Some(x_unlock),
    xCheckReservedLock: Some(x_check_reserved_lock),
    xFileControl: Some(x_file_control),
    xSectorSize: Some(x_sector_size),
    xDeviceCharacteristics: Some(x_device_characteristics),
    xShmMap: Some(x_shm_map),
    xShmLock: Some(x_shm_lock),
    xShmBarrier: Some(x_shm_barrier),
    xShmUnmap: Some(x_shm_unmap),
    xFetch: Some(x_fetch),
    xUnfetch: Some(x_unfetch),
};

/// The result code of `work`. The text of a failure goes to SQLite's log.
fn at_border(sqlite: &Sqlite, work: impl FnOnce() -> Result<()>) -> c_int {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return ffi::SQLITE_OK,
        Ok(Err(failure)) => failure,
        Err(_) => Failure { code: ffi::SQLITE_INTERNAL, text: Some("bufpool: panic".to_owned()) },
    };
    if let Some(text) = failure.text {
        sqlite.log(failure.code, &text);
    }
    failure.code
}

fn path(name: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(name.to_bytes()))
}

impl Vfs {
    /// The answer to a pragma, if it is one of ours.
    fn pragma(&self, name: &CStr) -> Option<String> {
        let is_report = name.to_bytes().eq_ignore_ascii_case(b"bufpool_report");
        is_report.then(|| format!("{}\n{}", self.pool.report(), self.statements.list()))
    }
}

impl OpenFile {
    /// The main database that SQLite means.
    ///
    /// # Safety
    ///
    /// SQLite calls a function of [`METHODS`] with this `file`. What is returned is not used beyond the call.
    unsafe fn of<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Self {
        // SAFETY: only files that `x_open` has opened have these functions.
        let open = unsafe { (*file.cast::<MainFile>()).open };
        // SAFETY: it lives until `x_close`, and SQLite makes one call at a time.
        unsafe { &mut *open }
    }

    /// The result code of `work` on the connection.
    fn at_border(&mut self, work: impl FnOnce(&mut Connection) -> Result<()>) -> c_int {
        at_border(&self.vfs.sqlite, || work(&mut self.connection))
    }

    /// The answer to a file control that asks for a number and changes nothing.
    fn number(&self, operation: c_int) -> Option<c_int> {
        match operation {
            ffi::SQLITE_FCNTL_LOCKSTATE => Some(self.connection.level().number()),
            // No other process reads the log. Errors of the system are in SQLite's log, with their operation.
            ffi::SQLITE_FCNTL_EXTERNAL_READER | ffi::SQLITE_FCNTL_LAST_ERRNO => Some(0),
            ffi::SQLITE_FCNTL_HAS_MOVED => Some(self.connection.database().has_moved().into()),
            _ => None,
        }
    }

    /// Sets the context to the statement that runs, when a transaction begins to read. A transaction of
    /// several statements has the context of the first.
    fn note_statement(&mut self) {
        if self.user.is_null() || !self.vfs.contexts.statements {
            return;
        }
        // SAFETY: SQLite keeps the place as long as it has the file open, and has the connection there that
        // makes the present call.
        let connection = unsafe { *self.user };
        // SAFETY: the call is on this connection.
        if let Some(text) = unsafe { self.vfs.sqlite.running_statement(connection) } {
            self.connection.set_statement(self.vfs.statements.context(text.to_bytes()));
        }
    }
}

unsafe extern "C" fn x_open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite has the address of a `Vfs` that was leaked.
    let vfs: &'static Vfs = unsafe { &*vfs.cast::<Vfs>() };
    if flags & ffi::SQLITE_OPEN_MAIN_DB == 0 || name.is_null() {
        // SAFETY: the unix VFS stays where it is.
        let open = unsafe { (*vfs.unix).xOpen }.expect("the unix VFS opens files");
        // SAFETY: the arguments are SQLite's, with room for a file of that VFS.
        return unsafe { open(vfs.unix, name, file, flags, out_flags) };
    }
    // SAFETY: there is room for a `MainFile`; SQLite does not close a file without methods.
    unsafe { (*file).pMethods = ptr::null() };
    at_border(&vfs.sqlite, || {
        let uri = (flags & ffi::SQLITE_OPEN_URI != 0).then_some(name);
        // SAFETY: the name is SQLite's, and the value is used here only.
        let mode_of = uri.and_then(|name| unsafe { vfs.sqlite.uri_parameter(name, c"modeof") });
        // SAFETY: SQLite gives the names of main databases as C strings, which stay until the file is closed.
        let name = unsafe { CStr::from_ptr(name) };
        let database = vfs.databases.open(path(name), flags, mode_of.map(path), vfs.sharing)?;
        let is_read_only = database.is_read_only() || flags & ffi::SQLITE_OPEN_READONLY != 0;
        let opened = if is_read_only {
            let writable = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
            flags & !writable | ffi::SQLITE_OPEN_READONLY
        } else {
            flags
        };
        let connection = Connection::open(&vfs.pool, &vfs.databases, database, is_read_only, vfs.contexts)?;
        if !out_flags.is_null() {
            // SAFETY: not null, so SQLite has a place for the flags there.
            unsafe { *out_flags = opened };
        }
        let open = Box::into_raw(Box::new(OpenFile { vfs, connection, user: ptr::null() }));
        let main_file = MainFile { base: ffi::sqlite3_file { pMethods: &raw const METHODS }, open };
        // SAFETY: there is room for it, and it is aligned for pointers.
        unsafe { file.cast::<MainFile>().write(main_file) };
        Ok(())
    })
}

unsafe extern "C" fn x_close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: only files of `x_open` have this function.
    let file = unsafe { &mut *file.cast::<MainFile>() };
    file.base.pMethods = ptr::null();
    // SAFETY: `x_open` made it so, and SQLite closes a file once.
    let open = unsafe { Box::from_raw(file.open) };
    at_border(&open.vfs.sqlite, || open.connection.close(&open.vfs.databases))
}

unsafe extern "C" fn x_read(
    file: *mut ffi::sqlite3_file,
    into: *mut c_void,
    bytes: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened, and makes one call for it at a time.
    let open = unsafe { OpenFile::of(file) };
    // SAFETY: SQLite has room for that many bytes.
    let into = unsafe { slice::from_raw_parts_mut(into.cast::<u8>(), bytes as usize) };
    open.at_border(|connection| connection.read(offset as u64, into))
}

unsafe extern "C" fn x_write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    bytes: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened, and makes one call for it at a time.
    let open = unsafe { OpenFile::of(file) };
    // SAFETY: SQLite has that many bytes.
    let from = unsafe { slice::from_raw_parts(from.cast::<u8>(), bytes as usize) };
    open.at_border(|connection| connection.write(offset as u64, from))
}

unsafe extern "C" fn x_truncate(file: *mut ffi::sqlite3_file, bytes: ffi::sqlite3_int64) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened, and makes one call for it at a time.
    let open = unsafe { OpenFile::of(file) };
    open.at_border(|connection| connection.set_len(bytes as u64))
}

unsafe extern "C" fn x_sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened, and makes one call for it at a time.
    let open = unsafe { OpenFile::of(file) };
    open.at_border(|connection| connection.sync())
}

unsafe extern "C" fn x_file_size(file: *mut ffi::sqlite3_file, bytes: *mut ffi::sqlite3_int64) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened, and makes one call for it at a time.
    let open = unsafe { OpenFile::of(file) };
    open.at_border(|connection| {
        let length_bytes = connection.length_bytes()?;
        // SAFETY: SQLite has a place for the length there.
        unsafe { *bytes = length_bytes as i64 };
        Ok(())
    })
}

unsafe extern "C" fn x_lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened, and makes one call for it at a time.
    let open = unsafe { OpenFile::of(file) };
    let level = Level::of_number(level);
    let code = open.at_border(|connection| connection.lock(level));
    if code == ffi::SQLITE_OK && level == Level::Shared {
        open.note_statement();
    }
    code
}

unsafe extern "C" fn x_unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened, and makes one call for it at a time.
    let open = unsafe { OpenFile::of(file) };
    open.at_border(|connection| connection.unlock(Level::of_number(level)))
}

unsafe extern "C" fn x_check_reserved_lock(file: *mut ffi::sqlite3_file, is_reserved: *mut c_int) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened, and makes one call for it at a time.
    let open = unsafe { OpenFile::of(file) };
    open.at_border(|connection| {
        let reserved = connection.database().is_reserved();
        // SAFETY: SQLite has a place for the answer there.
        unsafe { *is_reserved = reserved.into() };
        Ok(())
    })
}

unsafe extern "C" fn x_file_control(
    file: *mut ffi::sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened, and makes one call for it at a time.
    let open = unsafe { OpenFile::of(file) };
    let (vfs, number) = (open.vfs, argument.cast::<c_int>());
    if let Some(answer) = open.number(operation) {
        // SAFETY: the argument of operations that ask for a number is one.
        unsafe { *number = answer };
        return ffi::SQLITE_OK;
    }
    match operation {
        ffi::SQLITE_FCNTL_PERSIST_WAL => {
            // SAFETY: the argument of this operation is a number.
            let keeps_wal = unsafe { &mut *number };
            if *keeps_wal >= 0 {
                open.connection.keeps_wal = *keeps_wal != 0;
            }
            *keeps_wal = open.connection.keeps_wal.into();
        }
        ffi::SQLITE_FCNTL_CHUNK_SIZE => {
            // SAFETY: the argument of this operation is a number.
            open.connection.chunk_bytes = unsafe { *number }.max(0) as u64;
        }
        ffi::SQLITE_FCNTL_MMAP_SIZE => {
            // SAFETY: the argument of this operation is a length.
            let wanted = unsafe { &mut *argument.cast::<i64>() };
            *wanted = open.connection.map(*wanted);
        }
        ffi::SQLITE_FCNTL_SIZE_HINT => {
            // SAFETY: the argument of this operation is a length.
            let bytes = unsafe { *argument.cast::<i64>() };
            return open.at_border(|connection| connection.expect_length(bytes));
        }
        ffi::SQLITE_FCNTL_VFSNAME => {
            // SAFETY: `register` was given a C string that lives for ever.
            let name = unsafe { CStr::from_ptr(vfs.base.zName) };
            // SAFETY: the argument of this operation is the address of a string.
            unsafe { *argument.cast() = vfs.sqlite.copy(&name.to_string_lossy()) };
        }
        ffi::SQLITE_FCNTL_PDB => open.user = argument.cast(),
        ffi::SQLITE_FCNTL_PRAGMA => {
            // SAFETY: the argument of this operation is an array of strings: answer, name, value.
            let [_, name, _] = unsafe { *argument.cast::<[*const c_char; 3]>() };
            // SAFETY: the second of the argument's strings is the pragma's name.
            let Some(answer) = vfs.pragma(unsafe { CStr::from_ptr(name) }) else {
                return ffi::SQLITE_NOTFOUND;
            };
            // SAFETY: the first of the argument's strings is a place for the answer, which SQLite frees.
            unsafe { *argument.cast() = vfs.sqlite.copy(&answer) };
        }
        _ => return ffi::SQLITE_NOTFOUND,
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened, and makes one call for it at a time.
    unsafe { OpenFile::of(file) }.connection.pool().page_bytes() as c_int
}

/// A write to a part of a sector changes nothing else of the sector, even if the power is cut.
unsafe extern "C" fn x_device_characteristics(_file: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn x_shm_map(
    file: *mut ffi::sqlite3_file,
    number: c_int,
    bytes: c_int,
    extend: c_int,
    address: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened, and makes one call for it at a time.
    let open = unsafe { OpenFile::of(file) };
    open.at_border(|connection| {
        // The index is in this process's memory. A process that may not write the file cannot lock out other
        // processes that write a log.
        if connection.database().is_read_only() {
            return Err(Failure::code(ffi::SQLITE_CANTOPEN));
        }
        let region = connection.wal_region(number as usize, bytes as usize, extend != 0);
        // SAFETY: SQLite has a place for an address there.
        unsafe { *address = region.map_or(ptr::null_mut(), |region| region.cast_mut().cast()) };
        Ok(())
    })
}

unsafe extern "C" fn x_shm_lock(
    file: *mut ffi::sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened, and makes one call for it at a time.
    let open = unsafe { OpenFile::of(file) };
    let slots = first as usize..(first + count) as usize;
    if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
        return open.at_border(|connection| {
            connection.unlock_wal(slots);
            Ok(())
        });
    }
    let is_exclusive = flags & ffi::SQLITE_SHM_EXCLUSIVE != 0;
    let code = open.at_border(|connection| connection.lock_wal(slots, is_exclusive));
    if code == ffi::SQLITE_OK && !is_exclusive {
        open.note_statement();
    }
    code
}

unsafe extern "C" fn x_shm_barrier(_file: *mut ffi::sqlite3_file) {
    Connection::wal_barrier();
}

unsafe extern "C" fn x_shm_unmap(file: *mut ffi::sqlite3_file, _delete: c_int) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened, and makes one call for it at a time.
    let open = unsafe { OpenFile::of(file) };
    open.at_border(|connection| {
        connection.leave_wal();
        Ok(())
    })
}

unsafe extern "C" fn x_fetch(
    file: *mut ffi::sqlite3_file,
    offset: ffi::sqlite3_int64,
    bytes: c_int,
    address: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened, and makes one call for it at a time.
    let open = unsafe { OpenFile::of(file) };
    open.at_border(|connection| {
        let place = connection.fetch(offset as u64, bytes as usize)?;
        // SAFETY: SQLite has a place for an address there.
        unsafe { *address = place.map_or(ptr::null_mut(), |place| place.as_ptr().cast()) };
        Ok(())
    })
}

/// With a null address SQLite says that a mapping of the file has become invalid. There is nothing to do
/// then, because pages that are pinned stay valid.
unsafe extern "C" fn x_unfetch(
    file: *mut ffi::sqlite3_file,
    offset: ffi::sqlite3_int64,
    address: *mut c_void,
) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened, and makes one call for it at a time.
    let open = unsafe { OpenFile::of(file) };
    open.at_border(|connection| {
        if !address.is_null() {
            connection.unfetch(offset as u64);
        }
        Ok(())
    })
}
