//! Files.

use std::ffi::c_char;

use bufpool::{File, FileOptions};

use crate::pool::{bufpool_pool, free};
use crate::status::{bufpool_status, guarded, of, of_and_out, path};

/// An open file of a pool.
pub struct bufpool_file {
    pub(crate) file: File,
}

/// How a file is opened. All zeros are the defaults: a file that exists, for reading and writing.
#[repr(C)]
pub struct bufpool_file_options {
    /// Makes an empty file if there is none of this name.
    pub create: bool,
    /// Opens the file for reading only.
    pub read_only: bool,
    /// The file may have any length in bytes, and may end within a page.
    pub bytes: bool,
    /// Makes an empty file, and opens none that is there: BUFPOOL_ALREADY_EXISTS. One step, so of several
    /// processes that try one succeeds.
    pub create_new: bool,
    /// The engine's own number for the file.
    pub tag: u64,
}

/// Opens a file of the pool. The handle has to be freed by bufpool_file_free. Null options are the defaults.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_file_open(
    pool: *const bufpool_pool,
    name: *const c_char,
    options: *const bufpool_file_options,
    file: *mut *mut bufpool_file,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or a live handle, and null, or room for the output.
        let (pool, place) = unsafe { of_and_out(pool, "pool", file, "file") }?;
        // SAFETY: the header asks the caller for null, or text that ends in a zero.
        let path = unsafe { path(name) }?;
        // SAFETY: the header asks the caller for null, or options.
        let how = unsafe { options.as_ref() }.map_or_else(FileOptions::new, |options| {
            let how = FileOptions::new().create(options.create).read_only(options.read_only);
            how.create_new(options.create_new).bytes(options.bytes).tag(options.tag)
        });
        let file = pool.pool.open_file(path, how)?;
        place.write(Box::into_raw(Box::new(bufpool_file { file })));
        Ok(())
    })
}

/// Frees a handle. The file stays open in its pool. Does nothing with null.
///
/// # Safety
///
/// The handle was given by this library, is not used again, and no guard or pin of its pages is left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_file_free(file: *mut bufpool_file) {
    guarded(|| {
        // SAFETY: this function asks the caller for null, or a handle that is not used again.
        unsafe { free(file) };
        Ok(())
    });
}

/// Flushes the file and closes it; other handles find it closed. If that fails, the file stays open, unless
/// it was poisoned: then it is closed and its dirty pages are lost. The handle has to be freed in any case.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_file_close(file: *const bufpool_file) -> bufpool_status {
    // SAFETY: the header asks the caller for null, or a live handle.
    guarded(|| Ok(unsafe { of(file, "file") }?.file.clone().close()?))
}

/// Writes the pages of the file that are dirty when the call begins, and makes the file durable. Waits for
/// the device. If it fails, pages that were not written stay dirty.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_file_flush(file: *const bufpool_file) -> bufpool_status {
    // SAFETY: the header asks the caller for null, or a live handle.
    guarded(|| Ok(unsafe { of(file, "file") }?.file.flush()?))
}

/// Adds pages of zeros at the end of the file. `first`, which may be null, gets the number of the first new
/// page.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_file_extend(
    file: *const bufpool_file,
    pages: u64,
    first: *mut u64,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or a live handle.
        let file = unsafe { of(file, "file") }?;
        let added = file.file.extend(pages)?;
        if !first.is_null() {
            // SAFETY: not null, for which the header asks the caller for room for the output.
            unsafe { first.write(added.start) };
        }
        Ok(())
    })
}

/// Shortens the file to `pages` pages. Dirty pages behind them are not written.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_file_truncate(file: *const bufpool_file, pages: u64) -> bufpool_status {
    // SAFETY: the header asks the caller for null, or a live handle.
    guarded(|| Ok(unsafe { of(file, "file") }?.file.truncate(pages)?))
}

/// The number of pages of the file; 0 for a null handle.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_file_pages(file: *const bufpool_file) -> u64 {
    // SAFETY: the header asks the caller for null, or a live handle.
    unsafe { file.as_ref() }.map_or(0, |file| file.file.pages())
}

/// The length of the file in bytes; 0 for a null handle.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_file_bytes(file: *const bufpool_file) -> u64 {
    // SAFETY: the header asks the caller for null, or a live handle.
    unsafe { file.as_ref() }.map_or(0, |file| file.file.byte_len())
}

/// Sets the length of a file that was opened with the option `bytes`. What it grows by is zeros.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_file_set_bytes(file: *const bufpool_file, bytes: u64) -> bufpool_status {
    // SAFETY: the header asks the caller for null, or a live handle.
    guarded(|| Ok(unsafe { of(file, "file") }?.file.set_byte_len(bytes)?))
}
