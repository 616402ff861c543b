//! Pools.

use std::ffi::c_char;

use bufpool::{Direct, Io, IoBackend, Pool, PoolOptions};

use crate::status::{Failure, Outcome, bufpool_status, give_text, guarded, of, of_and_out, out};

/// A pool of frames. Several handles of one pool are the same to it.
pub struct bufpool_pool {
    pub(crate) pool: Pool,
}

/// Options of a pool: all zeros are the defaults.
#[repr(C)]
pub struct bufpool_pool_options {
    /// Frames for pages.
    pub frames: u32,
    /// Bytes of a page: a power of two; 0: 8192.
    pub page_bytes: u32,
    /// Memory in all, instead of `frames`.
    pub memory_bytes: u64,
    /// Most threads that access pages at the same time; 0: the library's default.
    pub threads_max: u32,
    /// 0: bypass the system's cache of pages where that is possible, 1: always, or fail, 2: never.
    pub direct: u32,
    /// 0: io_uring if there is one, else threads; 1: threads; 2: io_uring, or fail.
    pub io: u32,
    /// Same calls, same decisions; for tests, with one thread.
    pub deterministic: bool,
    /// For that mode.
    pub seed: u64,
    /// Leave it to the engine what is read ahead.
    pub no_read_ahead: bool,
}

/// Counts of a pool since it was opened.
#[repr(C)]
#[derive(Default)]
pub struct bufpool_stats {
    /// Guards and pins granted.
    pub accesses: u64,
    /// Accesses that found their page.
    pub hits: u64,
    /// Accesses that did not.
    pub misses: u64,
    /// Of these, pages that were made instead of read.
    pub creations: u64,
    /// Pages read.
    pub reads: u64,
    /// Pages written.
    pub writes: u64,
    /// Pages that left memory.
    pub evictions: u64,
    /// Frames of the pool.
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

/// Opens a pool, to be freed by bufpool_pool_free.
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

/// Writes all that is dirty, makes it durable and closes the pool. If that fails, it is open as before. The
/// handle is to be freed in either case.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_pool_close(pool: *const bufpool_pool) -> bufpool_status {
    // SAFETY: the header asks the caller for null, or a live handle.
    guarded(|| Ok(unsafe { of(pool, "pool") }?.pool.clone().close()?))
}

/// Gives up a handle. The pool goes with the last of its handles, those of files, tenants and lists included;
/// one that was not closed is closed then, and what fails is lost. Null is left alone.
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

/// Drops what a handle is.
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

/// Makes durable what is dirty when the call begins, in all files.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_checkpoint(pool: *const bufpool_pool) -> bufpool_status {
    // SAFETY: the header asks the caller for null, or a live handle.
    guarded(|| Ok(unsafe { of(pool, "pool") }?.pool.checkpoint()?))
}

/// Counts what the pool has done.
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

/// What the pool says about tenants and call sites, for people. To be freed by bufpool_text_free.
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
