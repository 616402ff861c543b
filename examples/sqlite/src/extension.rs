//! The entry point of the loadable extension.
//!
//! `.load target/release/libbufpool_sqlite` registers a VFS `bufpool` for the life of the process, over a
//! pool of `BUFPOOL_MEMORY_BYTES` (128 MiB) with pages of `BUFPOOL_PAGE_BYTES` (4,096, as SQLite's). With
//! `BUFPOOL_SHARED=1` other processes get at its databases between transactions ([`Sharing`]).

use std::env;
use std::ffi::{c_char, c_int};

use bufpool::{Direct, Pool, PoolOptions};
use libsqlite3_sys as ffi;

use crate::database::Sharing;
use crate::sqlite::Sqlite;
use crate::vfs::{self, VfsOptions};

/// What SQLite calls when it loads the library. The library is never unloaded, because the VFS needs it.
///
/// # Safety
///
/// SQLite 3.8.7 or newer calls it, with a place for a message and its table of functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    _connection: *mut ffi::sqlite3,
    message: *mut *mut c_char,
    routines: *const ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: SQLite's table of functions, as this function's own condition says.
    let sqlite = unsafe { Sqlite::loading(routines) };
    if !sqlite.find_vfs(c"bufpool").is_null() {
        return ffi::SQLITE_OK_LOAD_PERMANENTLY;
    }
    let opened = std::panic::catch_unwind(open_pool).unwrap_or_else(|_| Err("panic".to_owned()));
    let registered = opened.and_then(|pool| {
        let registered = vfs::register(sqlite, c"bufpool", &pool, options());
        registered.map_err(|failure| format!("result code {}", failure.code))
    });
    match registered {
        Ok(()) => ffi::SQLITE_OK_LOAD_PERMANENTLY,
        Err(text) => {
            // SAFETY: SQLite has a place for a message, which it frees.
            unsafe { *message = sqlite.copy(&format!("bufpool: {text}")) };
            ffi::SQLITE_ERROR
        }
    }
}

fn options() -> VfsOptions {
    let is_shared = env::var_os("BUFPOOL_SHARED").is_some_and(|value| value == "1");
    let sharing = if is_shared { Sharing::BetweenTransactions } else { Sharing::Never };
    VfsOptions { sharing, ..VfsOptions::default() }
}

fn open_pool() -> Result<Pool, String> {
    let memory_bytes = number("BUFPOOL_MEMORY_BYTES", 128 << 20)?;
    let page_bytes = number("BUFPOOL_PAGE_BYTES", 4096)?;
    // On some file systems direct I/O takes no pages of less than 4,096 bytes.
    let direct = if page_bytes < 4096 { Direct::Off } else { Direct::Prefer };
    let options = PoolOptions::new().memory_bytes(memory_bytes).page_bytes(page_bytes as usize);
    // SQLite writes when it syncs, so few dirty victims need a frame of the reserve at a time.
    let frames = u32::try_from(memory_bytes / page_bytes.max(1)).unwrap_or(u32::MAX);
    options
        .direct(direct)
        .reserve_high_frames((frames / 64).clamp(8, 2048))
        .open()
        .map_err(|error| error.to_string())
}

/// The number that the environment has under `name`, or `default`.
fn number(name: &str, default: u64) -> Result<u64, String> {
    match env::var(name) {
        Ok(text) => text.parse().map_err(|_| format!("{name}={text}, expected a number")),
        Err(_) => Ok(default),
    }
}
