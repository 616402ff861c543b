//! What functions return: statuses and texts of errors. How pointers of the caller become references.

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use bufpool::{Error, ErrorKind};

/// The result of a call. The numbers do not change from version to version; new ones may be added.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum bufpool_status {
    /// Done.
    BUFPOOL_OK = 0,
    /// A null pointer, text that is not UTF-8, or a value that is not allowed.
    BUFPOOL_INVALID_ARGUMENT = 1,
    /// A panic inside the library: a defect.
    BUFPOOL_PANICKED = 2,
    /// An error that has no number of its own yet.
    BUFPOOL_OTHER = 3,
    /// A page size that is no power of two, or out of range.
    BUFPOOL_PAGE_SIZE = 10,
    /// The page size is no multiple of what direct I/O on this file needs.
    BUFPOOL_ALIGNMENT = 11,
    /// Too few frames for the threads and floors, or more than a pool can have; or no memory for them.
    BUFPOOL_MEMORY = 12,
    /// Options that contradict each other, or a value out of its range.
    BUFPOOL_INVALID_OPTIONS = 13,
    /// The floors together are too large, or a floor is above its cap.
    BUFPOOL_FLOOR = 14,
    /// A length that the file cannot have: no multiple of the page size, or too many pages.
    BUFPOOL_FILE_LENGTH = 15,
    /// A page beyond the end of the file.
    BUFPOOL_PAGE_BEYOND_END = 16,
    /// A range that ends beyond the file, or before it begins.
    BUFPOOL_RANGE = 17,
    /// The file is open in this pool already.
    BUFPOOL_FILE_ALREADY_OPEN = 18,
    /// Another process, or another pool, has locked the file.
    BUFPOOL_FILE_LOCKED = 19,
    /// The file was closed or removed.
    BUFPOOL_FILE_CLOSED = 20,
    /// A write has failed; the file takes no more writes until it is reopened.
    BUFPOOL_FILE_POISONED = 21,
    /// The file was opened for reading only.
    BUFPOOL_READ_ONLY = 22,
    /// A page is pinned or latched, and must be released first.
    BUFPOOL_PAGE_BUSY = 23,
    /// A page stayed latched, or another thread was closing or resizing the file, for longer than 10 s.
    BUFPOOL_LATCH_TIMEOUT = 24,
    /// The thread would wait for a latch that it holds itself.
    BUFPOOL_SELF_DEADLOCK = 25,
    /// Every frame that could be taken is pinned.
    BUFPOOL_EXHAUSTED = 26,
    /// A priority that is out of range, or a directive for a tenant whose manager takes none.
    BUFPOOL_DIRECTIVE = 27,
    /// Priorities for more ranges of pages than the 4,096 that a tenant may have.
    BUFPOOL_DIRECTIVE_LIMIT = 28,
    /// A program that only privileged tenants may run, and tenants opened here are not privileged.
    BUFPOOL_PRIVILEGE = 29,
    /// The tenant runs no program.
    BUFPOOL_NO_PROGRAM = 30,
    /// The program has no `int` of that name.
    BUFPOOL_UNKNOWN_SLOT = 31,
    /// The text is no program; bufpool_last_error() names line and column.
    BUFPOOL_PROGRAM = 32,
    /// The tenant was closed.
    BUFPOOL_TENANT_CLOSED = 33,
    /// The pool was closed.
    BUFPOOL_POOL_CLOSED = 34,
    /// The process has forked, and this is the child.
    BUFPOOL_FORKED_CHILD = 35,
    /// Handles of different pools.
    BUFPOOL_WRONG_POOL = 36,
    /// The kind of I/O that was required is not available here.
    BUFPOOL_IO_UNAVAILABLE = 37,
    /// The device is full.
    BUFPOOL_NO_SPACE = 38,
    /// The file was shortened by something other than the pool.
    BUFPOOL_UNEXPECTED_EOF = 39,
    /// The engine's log failed.
    BUFPOOL_LOG = 40,
    /// The contents of a page failed verification.
    BUFPOOL_CORRUPT = 41,
    /// The file does not have its name any more: the name is gone, or another file has it.
    BUFPOOL_NAME_CHANGED = 42,
    /// The descriptor does not allow what the pool does with it.
    BUFPOOL_DESCRIPTOR = 43,
    /// Not possible with this kind of file, or with the default tenant.
    BUFPOOL_UNSUPPORTED = 44,
    /// The operating system reported an error.
    BUFPOOL_IO = 45,
    /// There is no file of that name.
    BUFPOOL_NOT_FOUND = 46,
    /// The system does not allow it to this process.
    BUFPOOL_PERMISSION_DENIED = 47,
    /// A writer of the page panicked.
    BUFPOOL_PAGE_POISONED = 48,
    /// There is a file of that name, and one was to be made.
    BUFPOOL_ALREADY_EXISTS = 49,
    /// A call with a limit of its own would have had to wait longer for others. Nothing is wrong.
    BUFPOOL_BUSY = 50,
}

use bufpool_status::*;

/// Why a call fails.
pub(crate) enum Failure {
    Argument(String),
    Program(String),
    Busy,
    Pool(Error),
}

/// The failure is in a box, so that a success is returned in registers.
pub(crate) type Outcome<T = ()> = Result<T, Box<Failure>>;

impl From<Error> for Box<Failure> {
    #[cold]
    fn from(error: Error) -> Self {
        Box::new(Failure::Pool(error))
    }
}

impl Failure {
    /// An argument of the caller that is not allowed.
    #[cold]
    pub fn argument(text: impl Into<String>) -> Box<Self> {
        Box::new(Self::Argument(text.into()))
    }

    fn status(&self) -> bufpool_status {
        match self {
            Self::Argument(_) => BUFPOOL_INVALID_ARGUMENT,
            Self::Program(_) => BUFPOOL_PROGRAM,
            Self::Busy => BUFPOOL_BUSY,
            Self::Pool(error) => status_of(error.kind()),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Argument(text) | Self::Program(text) => text.clone(),
            Self::Busy => "the page was not granted within the limit of the call".into(),
            Self::Pool(error) => error.to_string(),
        }
    }
}

fn status_of(kind: ErrorKind) -> bufpool_status {
    match kind {
        ErrorKind::PageSize => BUFPOOL_PAGE_SIZE,
        ErrorKind::Alignment => BUFPOOL_ALIGNMENT,
        ErrorKind::Memory => BUFPOOL_MEMORY,
        ErrorKind::InvalidOptions => BUFPOOL_INVALID_OPTIONS,
        ErrorKind::Floor => BUFPOOL_FLOOR,
        ErrorKind::FileLength => BUFPOOL_FILE_LENGTH,
        ErrorKind::PageBeyondEnd => BUFPOOL_PAGE_BEYOND_END,
        ErrorKind::Range => BUFPOOL_RANGE,
        ErrorKind::FileAlreadyOpen => BUFPOOL_FILE_ALREADY_OPEN,
        ErrorKind::FileLocked => BUFPOOL_FILE_LOCKED,
        ErrorKind::FileClosed => BUFPOOL_FILE_CLOSED,
        ErrorKind::FilePoisoned => BUFPOOL_FILE_POISONED,
        ErrorKind::ReadOnly => BUFPOOL_READ_ONLY,
        ErrorKind::PageBusy => BUFPOOL_PAGE_BUSY,
        ErrorKind::LatchTimeout => BUFPOOL_LATCH_TIMEOUT,
        ErrorKind::SelfDeadlock => BUFPOOL_SELF_DEADLOCK,
        ErrorKind::Exhausted => BUFPOOL_EXHAUSTED,
        ErrorKind::Directive => BUFPOOL_DIRECTIVE,
        ErrorKind::DirectiveLimit => BUFPOOL_DIRECTIVE_LIMIT,
        ErrorKind::Privilege => BUFPOOL_PRIVILEGE,
        ErrorKind::NoProgram => BUFPOOL_NO_PROGRAM,
        ErrorKind::UnknownSlot => BUFPOOL_UNKNOWN_SLOT,
        ErrorKind::TenantClosed => BUFPOOL_TENANT_CLOSED,
        ErrorKind::PoolClosed => BUFPOOL_POOL_CLOSED,
        ErrorKind::ForkedChild => BUFPOOL_FORKED_CHILD,
        ErrorKind::WrongPool => BUFPOOL_WRONG_POOL,
        ErrorKind::IoUnavailable => BUFPOOL_IO_UNAVAILABLE,
        ErrorKind::NoSpace => BUFPOOL_NO_SPACE,
        ErrorKind::UnexpectedEof => BUFPOOL_UNEXPECTED_EOF,
        ErrorKind::Log => BUFPOOL_LOG,
        ErrorKind::Corrupt => BUFPOOL_CORRUPT,
        ErrorKind::NameChanged => BUFPOOL_NAME_CHANGED,
        ErrorKind::Descriptor => BUFPOOL_DESCRIPTOR,
        ErrorKind::Unsupported => BUFPOOL_UNSUPPORTED,
        ErrorKind::Io => BUFPOOL_IO,
        ErrorKind::NotFound => BUFPOOL_NOT_FOUND,
        ErrorKind::PermissionDenied => BUFPOOL_PERMISSION_DENIED,
        ErrorKind::PagePoisoned => BUFPOOL_PAGE_POISONED,
        ErrorKind::AlreadyExists => BUFPOOL_ALREADY_EXISTS,
        _ => BUFPOOL_OTHER,
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// The text of the last call of this thread that failed: file, page, operation and what was expected. Valid
/// until the next call of this thread that fails. Never null; empty if no call has failed. In a destructor of
/// thread-local data the text may be gone; another text says so.
#[unsafe(no_mangle)]
pub extern "C" fn bufpool_last_error() -> *const c_char {
    // The text itself may have been destroyed before the thread-local data whose destructor calls this.
    LAST_ERROR.try_with(|text| text.borrow().as_ptr()).unwrap_or(c"the thread is ending".as_ptr())
}

/// Runs the body of a call. A failure, or a panic, becomes a status and the text of the last error.
#[inline(always)]
pub(crate) fn guarded(call: impl FnOnce() -> Outcome) -> bufpool_status {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => BUFPOOL_OK,
        Ok(Err(failure)) => refused(&failure),
        Err(_) => panicked(),
    }
}

#[cold]
#[inline(never)]
fn refused(failure: &Failure) -> bufpool_status {
    failed(failure.status(), &failure.text())
}

#[cold]
#[inline(never)]
fn panicked() -> bufpool_status {
    failed(BUFPOOL_PANICKED, "a panic; its message was written to standard error")
}

fn failed(status: bufpool_status, text: &str) -> bufpool_status {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    let _ = LAST_ERROR.try_with(|last| last.replace(text));
    status
}

/// The object of a handle.
///
/// # Safety
///
/// The pointer is null, or one to such an object that lives during `'a`.
#[inline(always)]
pub(crate) unsafe fn of<'a, T>(handle: *const T, name: &str) -> Outcome<&'a T> {
    // SAFETY: null, or to an object that lives during `'a`: this function's own condition.
    unsafe { handle.as_ref() }.ok_or_else(|| null(name))
}

/// The place of an output.
///
/// # Safety
///
/// The pointer is null, or one to room for such an object, which nobody else uses during `'a`.
#[inline(always)]
pub(crate) unsafe fn out<'a, T>(place: *mut T, name: &str) -> Outcome<&'a mut MaybeUninit<T>> {
    // SAFETY: null, or to room that nobody else uses during `'a`: this function's own condition. Any contents
    // are valid.
    unsafe { place.cast::<MaybeUninit<T>>().as_mut() }.ok_or_else(|| null(name))
}

/// Two objects.
///
/// # Safety
///
/// As of [`of`], for both.
#[inline(always)]
pub(crate) unsafe fn both<'a, T, U>(
    first: *const T,
    first_name: &str,
    second: *const U,
    second_name: &str,
) -> Outcome<(&'a T, &'a U)> {
    // SAFETY: what `of` asks of the first pointer is this function's own condition.
    let first = unsafe { of(first, first_name) }?;
    // SAFETY: what `of` asks of the second pointer is, too.
    Ok((first, unsafe { of(second, second_name) }?))
}

/// An object, and the place of an output.
///
/// # Safety
///
/// As of [`of`] and [`out`].
pub(crate) unsafe fn of_and_out<'a, T, U>(
    handle: *const T,
    name: &str,
    place: *mut U,
    place_name: &str,
) -> Outcome<(&'a T, &'a mut MaybeUninit<U>)> {
    // SAFETY: what `of` asks of the handle is this function's own condition.
    let object = unsafe { of(handle, name) }?;
    // SAFETY: what `out` asks of the place is, too.
    Ok((object, unsafe { out(place, place_name) }?))
}

/// An object and text.
///
/// # Safety
///
/// As of [`of`] and [`text`].
pub(crate) unsafe fn of_and_text<'a, T>(
    handle: *const T,
    name: &str,
    characters: *const c_char,
    text_name: &str,
) -> Outcome<(&'a T, &'a str)> {
    // SAFETY: what `of` asks of the handle is this function's own condition.
    let object = unsafe { of(handle, name) }?;
    // SAFETY: what `text` asks of the characters is, too.
    Ok((object, unsafe { text(characters, text_name) }?))
}

#[cold]
pub(crate) fn null(name: &str) -> Box<Failure> {
    Failure::argument(format!("{name} is a null pointer"))
}

/// Text of the caller's.
///
/// # Safety
///
/// The pointer is null, or one to characters that end with a zero and stay as they are during `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Outcome<&'a str> {
    // SAFETY: null, or characters that end with a zero and stay during `'a`: this function's own condition.
    let bytes = unsafe { bytes_of(text, name) }?;
    std::str::from_utf8(bytes).map_err(|error| Failure::argument(format!("{name} is not UTF-8: {error}")))
}

/// A path of the caller's.
///
/// # Safety
///
/// As of [`text`].
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Outcome<&'a Path> {
    // SAFETY: null, or characters that end with a zero and stay during `'a`: this function's own condition.
    let bytes = unsafe { bytes_of(path, "path") }?;
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// # Safety
///
/// As of [`text`].
pub(crate) unsafe fn bytes_of<'a>(text: *const c_char, name: &str) -> Outcome<&'a [u8]> {
    if text.is_null() {
        return Err(null(name));
    }
    // SAFETY: not null, so characters that end with a zero and stay during `'a`: this function's own
    // condition.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// `items` of the caller's, which may be null if there are none.
///
/// # Safety
///
/// The pointer is null, or one to that many objects that stay as they are during `'a`.
pub(crate) unsafe fn slice<'a, T>(items: *const T, len: usize, name: &str) -> Outcome<&'a [T]> {
    if !holds_any(items, len, name)? {
        return Ok(&[]);
    }
    // SAFETY: not null, so `len` objects that stay during `'a`: this function's own condition. Memory can
    // have that many.
    Ok(unsafe { std::slice::from_raw_parts(items, len) })
}

/// Whether there are items; an error if there are, and the pointer is null, or if they are more than memory
/// can hold.
pub(crate) fn holds_any<T>(items: *const T, len: usize, name: &str) -> Outcome<bool> {
    if items.is_null() && len > 0 {
        return Err(null(name));
    }
    let most = isize::MAX as usize / size_of::<T>();
    if len > most {
        return Err(Failure::argument(format!("{name}: a length of {len}, expected at most {most}")));
    }
    Ok(len > 0)
}

/// Text for the caller, who has to free it by `bufpool_text_free`.
pub(crate) fn give_text(text: &str) -> *mut c_char {
    CString::new(text.replace('\0', " ")).unwrap_or_default().into_raw()
}

/// Frees text that a function of this library gave. Does nothing with null.
///
/// # Safety
///
/// The text was given by this library and not freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_text_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: made by `CString::into_raw`, and freed once: this function asks that of the caller.
        drop(unsafe { CString::from_raw(text) });
    }
}
