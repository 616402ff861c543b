//! Pools.

use std::ffi::{CString, c_char, c_void};

use bufpool::{Direct, Io, IoBackend, Pool, PoolOptions};

use crate::status::{Failure, Outcome, bufpool_status, give_text, guarded, null, of, of_and_out, out};

/// A pool of page frames.
pub struct bufpool_pool {
    pub(crate) pool: Pool,
}

/// Options of a pool. All zeros are the defaults.
#[repr(C)]
pub struct bufpool_pool_options {
    /// Frames for pages, without the clean reserve; 0: as many as `memory_bytes` has room for.
    pub frames: u32,
    /// Bytes of a page, a power of two from 512 to 1048576; 0: 8192.
    pub page_bytes: u32,
    /// Bytes of memory for frames and the clean reserve together, if `frames` is 0; 0: 128 MiB.
    pub memory_bytes: u64,
    /// Most threads that access pages at the same time; 0: 16.
    pub threads_max: u32,
    /// Direct I/O, which bypasses the system's page cache. 0: where it is possible; 1: always, or opening
    /// fails; 2: never.
    pub direct: u32,
    /// 0: io_uring if there is one, else threads; 1: threads; 2: io_uring, or opening fails.
    pub io: u32,
    /// Deterministic mode: the same calls by one thread give the same decisions. For tests.
    pub deterministic: bool,
    /// The seed of random numbers in deterministic mode.
    pub seed: u64,
    /// The pool reads nothing ahead by itself.
    pub no_read_ahead: bool,
}

/// Counts of a pool since it was opened.
#[repr(C)]
#[derive(Default)]
pub struct bufpool_stats {
    /// Guards and pins granted.
    pub accesses: u64,
    /// Accesses that found their page in memory or being read.
    pub hits: u64,
    /// Accesses that did not.
    pub misses: u64,
    /// Misses that made their page instead of reading it.
    pub creations: u64,
    /// Pages read from files.
    pub reads: u64,
    /// Pages written to files.
    pub writes: u64,
    /// Pages that left memory to give up their frame.
    pub evictions: u64,
    /// Frames of the pool, without the clean reserve.
    pub frames: u32,
}

fn options_of(options: &bufpool_pool_options) -> Outcome<PoolOptions> {
    let mut pool = PoolOptions::new();
    if options.memory_bytes > 0 {
        pool = pool.memory_bytes(options.memory_bytes);
    }
    if options.frames > 0 {
        pool = pool.frames(options.frames);
    }
    if options.page_bytes > 0 {
        pool = pool.page_bytes(options.page_bytes as usize);
    }
    if options.threads_max > 0 {
        pool = pool.threads_max(options.threads_max);
    }
    if options.deterministic {
        pool = pool.deterministic(options.seed);
    }
    if options.no_read_ahead {
        pool = pool.read_ahead(false);
    }
    pool = pool.io(match options.io {
        0 => Io::Auto,
        1 => Io::Require(IoBackend::Threads),
        2 => Io::Require(IoBackend::Uring),
        other => return Err(Failure::argument(format!("io is {other}, expected 0, 1 or 2"))),
    });
    Ok(pool.direct(match options.direct {
        0 => Direct::Prefer,
        1 => Direct::Require,
        2 => Direct::Off,
        other => return Err(Failure::argument(format!("direct is {other}, expected 0, 1 or 2"))),
    }))
}

/// Opens a pool. The handle has to be freed by bufpool_pool_free.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_pool_open(
    options: *const bufpool_pool_options,
    pool: *mut *mut bufpool_pool,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or options.
        let options = unsafe { of(options, "options") }?;
        // SAFETY: the header asks the caller for null, or room for the output.
        let place = unsafe { out(pool, "pool") }?;
        let opened = options_of(options)?.open()?;
        place.write(Box::into_raw(Box::new(bufpool_pool { pool: opened })));
        Ok(())
    })
}

/// Writes all dirty pages, makes them durable and closes the pool. A poisoned file makes this fail, and the
/// pool is closed all the same. After any other failure, such as a page that stays latched or pinned, the
/// pool stays open with all of its files. The handle has to be freed in any case.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_pool_close(pool: *const bufpool_pool) -> bufpool_status {
    // SAFETY: the header asks the caller for null, or a live handle.
    guarded(|| Ok(unsafe { of(pool, "pool") }?.pool.clone().close()?))
}

/// Frees a handle. When the last handle of a pool is freed, those of its files, tenants and lists included,
/// the pool ends. If it was not closed, its dirty pages are written then, and failures are not reported. Does
/// nothing with null.
///
/// # Safety
///
/// The handle was given by this library, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_pool_free(pool: *mut bufpool_pool) {
    guarded(|| {
        // SAFETY: this function asks the caller for null, or a handle that is not used again.
        unsafe { free(pool) };
        Ok(())
    });
}

/// Drops the object of a handle.
///
/// # Safety
///
/// The handle is null, or one that came from a box and is not used again.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: not null, so made by `Box::into_raw`, and not used again: this function's own condition.
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// Writes the pages of all files that are dirty when the call begins, and makes them durable. Waits for the
/// device.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_checkpoint(pool: *const bufpool_pool) -> bufpool_status {
    // SAFETY: the header asks the caller for null, or a live handle.
    guarded(|| Ok(unsafe { of(pool, "pool") }?.pool.checkpoint()?))
}

/// Writes the pool's counts to `stats`.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_pool_stats(
    pool: *const bufpool_pool,
    stats: *mut bufpool_stats,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or a live handle, and null, or room for the output.
        let (pool, place) = unsafe { of_and_out(pool, "pool", stats, "stats") }?;
        let stats = pool.pool.stats();
        place.write(bufpool_stats {
            accesses: stats.accesses,
            hits: stats.hits,
            misses: stats.misses,
            creations: stats.creations,
            reads: stats.reads,
            writes: stats.writes,
            evictions: stats.evictions,
            frames: stats.frames,
        });
        Ok(())
    })
}

/// An open file of a pool, as bufpool_pool_files lists it.
#[repr(C)]
pub struct bufpool_file_stats {
    /// The path that it was opened by. Valid until the function that is told of the file returns.
    pub name: *const c_char,
    /// Its length in pages.
    pub pages: u64,
    /// Its handles that are not freed, those that lists of hints have included; 0 if it is open in the pool
    /// only.
    pub handles: u64,
    /// Pages in memory.
    pub resident_frames: u64,
    /// Of these, pages that differ from the file.
    pub dirty_frames: u64,
    /// It was opened for reading only.
    pub read_only: bool,
    /// Pages were written since the last sync.
    pub unsynced: bool,
    /// A write has failed; the file takes no more writes until it is reopened.
    pub poisoned: bool,
}

/// Calls `each` for each open file of the pool, in the order in which they were opened, with `context`. Looks
/// at each frame, without a lock. `each` may call functions of this library, and must return.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_pool_files(
    pool: *const bufpool_pool,
    each: Option<unsafe extern "C" fn(file: *const bufpool_file_stats, context: *mut c_void)>,
    context: *mut c_void,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or a live handle.
        let pool = unsafe { of(pool, "pool") }?;
        let each = each.ok_or_else(|| null("each"))?;
        for file in pool.pool.files() {
            let name = CString::new(file.name.replace('\0', " ")).unwrap_or_default();
            let stats = bufpool_file_stats {
                name: name.as_ptr(),
                pages: file.pages,
                handles: file.handles as u64,
                resident_frames: file.resident_frames,
                dirty_frames: file.dirty_frames,
                read_only: file.read_only,
                unsynced: file.unsynced,
                poisoned: file.poisoned,
            };
            // SAFETY: a function of the caller's, which takes a file during the call, and its own context.
            unsafe { each(&raw const stats, context) };
        }
        Ok(())
    })
}

/// The pool's report about tenants and call sites, as text for people. The text has to be freed by
/// bufpool_text_free.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_pool_report(
    pool: *const bufpool_pool,
    text: *mut *mut c_char,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or a live handle, and null, or room for the output.
        let (pool, place) = unsafe { of_and_out(pool, "pool", text, "text") }?;
        place.write(give_text(&pool.pool.report().to_string()));
        Ok(())
    })
}
