//! A VFS without a cache: SQLite's unix VFS, except that main databases are read and written with O_DIRECT.
//!
//! The unix VFS opens the file and does its locks, lengths and syncs. The file's table of methods is replaced
//! by a copy of it with other functions for reading, writing and closing. What these need lies behind the
//! copy.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, ptr, slice};

use libsqlite3_sys as ffi;

/// Pages that were read.
pub static PAGES_READ: AtomicU64 = AtomicU64::new(0);

/// The table of methods of one main database, and what the functions of this file need.
#[repr(C)]
struct Direct {
    /// SQLite has its address.
    methods: ffi::sqlite3_io_methods,
    unix_close: unsafe extern "C" fn(*mut ffi::sqlite3_file) -> c_int,
    file: File,
    page: AlignedPage,
}

/// A buffer of one page, aligned for direct I/O.
#[repr(align(4096))]
struct AlignedPage([u8; PAGE_BYTES]);

const PAGE_BYTES: usize = 4096;

/// A VFS that was found.
struct Found(*mut ffi::sqlite3_vfs);

// SAFETY: a pointer to the unix VFS, which stays where it is and does not change once it is registered.
unsafe impl Send for Found {}
// SAFETY: as for `Send`: threads only read what it points to.
unsafe impl Sync for Found {}

static UNIX: OnceLock<Found> = OnceLock::new();

/// Registers the VFS under this name.
pub fn register(name: &'static CStr) {
    // SAFETY: the name is a C string.
    let unix = unsafe { ffi::sqlite3_vfs_find(c"unix".as_ptr()) };
    assert!(!UNIX.get_or_init(|| Found(unix)).0.is_null());
    // SAFETY: a registered VFS stays where it is.
    let copied = unsafe { *unix };
    let own =
        ffi::sqlite3_vfs { zName: name.as_ptr(), pNext: ptr::null_mut(), xOpen: Some(x_open), ..copied };
    // SAFETY: it is leaked, and its functions keep SQLite's rules.
    assert_eq!(unsafe { ffi::sqlite3_vfs_register(Box::leak(Box::new(own)), 0) }, ffi::SQLITE_OK);
}

unsafe extern "C" fn x_open(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let unix = UNIX.get().expect("set before this VFS was registered").0;
    // SAFETY: a registered VFS stays where it is.
    let open = unsafe { (*unix).xOpen }.expect("the unix VFS opens files");
    // SAFETY: the arguments are SQLite's, with room for a file of that VFS.
    let code = unsafe { open(unix, name, file, flags, out_flags) };
    if code != ffi::SQLITE_OK || flags & ffi::SQLITE_OPEN_MAIN_DB == 0 {
        return code;
    }
    // SAFETY: names of main databases are C strings.
    let name = unsafe { CStr::from_ptr(name) };
    let path = OsStr::from_bytes(name.to_bytes());
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path);
    // SAFETY: the file is open.
    let methods = unsafe { (*file).pMethods };
    // SAFETY: open files have methods.
    let methods = unsafe { *methods };
    let direct = Box::new(Direct {
        methods: ffi::sqlite3_io_methods {
            iVersion: 2,
            xClose: Some(x_close),
            xRead: Some(x_read),
            xWrite: Some(x_write),
            ..methods
        },
        unix_close: methods.xClose.expect("the unix VFS closes files"),
        file: opened.expect("direct I/O is possible here"),
        page: AlignedPage([0; PAGE_BYTES]),
    });
    // SAFETY: the file is open.
    unsafe { (*file).pMethods = Box::into_raw(direct).cast() };
    ffi::SQLITE_OK
}

/// # Safety
///
/// SQLite calls a function of this VFS with `file`.
unsafe fn direct(file: *mut ffi::sqlite3_file) -> *mut Direct {
    // SAFETY: the file is open; the table of methods is the first part of what `x_open` made.
    unsafe { (*file).pMethods }.cast_mut().cast()
}

unsafe extern "C" fn x_close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened.
    let direct = unsafe { direct(file) };
    // SAFETY: it was made of a box, and a file is closed once.
    let direct = unsafe { Box::from_raw(direct) };
    // SAFETY: the file is one of the unix VFS's.
    unsafe { (direct.unix_close)(file) }
}

unsafe extern "C" fn x_read(
    file: *mut ffi::sqlite3_file,
    into: *mut c_void,
    bytes: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened.
    let direct = unsafe { direct(file) };
    // SAFETY: it lives until the file is closed, and SQLite makes one call at a time.
    let direct = unsafe { &mut *direct };
    // SAFETY: SQLite has room for that many bytes.
    let into = unsafe { slice::from_raw_parts_mut(into.cast::<u8>(), bytes as usize) };
    match direct.read(offset as u64, into) {
        Ok(true) => ffi::SQLITE_OK,
        Ok(false) => ffi::SQLITE_IOERR_SHORT_READ,
        Err(_) => ffi::SQLITE_IOERR_READ,
    }
}

unsafe extern "C" fn x_write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    bytes: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite calls this for a file that `x_open` has opened.
    let direct = unsafe { direct(file) };
    // SAFETY: it lives until the file is closed, and SQLite makes one call at a time.
    let direct = unsafe { &mut *direct };
    // SAFETY: SQLite has that many bytes.
    let from = unsafe { slice::from_raw_parts(from.cast::<u8>(), bytes as usize) };
    match direct.write(offset as u64, from) {
        Ok(()) => ffi::SQLITE_OK,
        Err(_) => ffi::SQLITE_IOERR_WRITE,
    }
}

impl Direct {
    /// Reads part of one page. False if the file ends before; the rest is then zeros.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> io::Result<bool> {
        let start = offset as usize % PAGE_BYTES;
        let there = self.file.read_at(&mut self.page.0, offset - start as u64)?;
        self.page.0[there..].fill(0);
        into.copy_from_slice(&self.page.0[start..start + into.len()]);
        PAGES_READ.fetch_add(1, Ordering::Relaxed);
        Ok(there >= start + into.len())
    }

    /// Writes one whole page.
    fn write(&mut self, offset: u64, from: &[u8]) -> io::Result<()> {
        self.page.0.copy_from_slice(from);
        self.file.write_all_at(&self.page.0, offset)
    }
}
