//! Guards and pins: values in the caller's memory.

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::time::Duration;

use bufpool::{At, ClassedPage, OwnedReadGuard, PassingGuard, Pin, ReadGuard, WriteGuard};

use crate::file::bufpool_file;
use crate::site::{bufpool_site, made_site, site};
use crate::status::{Failure, Outcome, both, bufpool_status, guarded, out};
use crate::tenant::bufpool_tenant;

/// Bits of a page's number below its class. Numbers of pages have at most 40 bits.
const CLASS_SHIFT: u32 = 56;

/// Words of a guard that only the library uses.
pub const BUFPOOL_GUARD_WORDS: usize = 12;

/// A latch on a page, or a pin that keeps a page in memory. The caller has the memory for it, and must not
/// move it from the call that grants it until the same thread calls bufpool_release. The handles of the file
/// and the tenant, and the pin of bufpool_latch, must not be freed or released before. A guard that was
/// released, or is all zeros, holds nothing; to release it again does nothing.
#[repr(C)]
pub struct bufpool_guard {
    /// The page's bytes, for reading; null in a pin.
    pub bytes: *const u8,
    /// The number of these bytes, the size of a page; 0 in a pin.
    pub len: usize,
    /// Used by the library: the kind of guard.
    pub kind: usize,
    /// Used by the library: the guard.
    pub held: [MaybeUninit<usize>; BUFPOOL_GUARD_WORDS],
}

/// What is in `held`, as `kind` says.
const NOTHING: usize = 0;
const READ: usize = 1;
const WRITE: usize = 2;
const PIN: usize = 3;
const OWNED: usize = 4;
const PASSING: usize = 5;

/// A guard or a pin that a `bufpool_guard` can hold.
pub(crate) trait Held: Sized {
    const KIND: usize;

    /// The page's bytes; none for a pin.
    fn bytes(&self) -> Option<NonNull<[u8]>> {
        None
    }

    /// Moves it into the caller's memory.
    fn give(self, place: &mut MaybeUninit<bufpool_guard>) {
        let bytes = self.bytes();
        self.give_with(bytes, place);
    }

    /// As [`give`](Self::give), with the page's bytes.
    #[inline(always)]
    fn give_with(self, bytes: Option<NonNull<[u8]>>, place: &mut MaybeUninit<bufpool_guard>) {
        const { assert!(size_of::<Self>() <= size_of::<[usize; BUFPOOL_GUARD_WORDS]>()) };
        const { assert!(align_of::<Self>() <= align_of::<usize>()) };
        let (bytes, len) = bytes.map_or((ptr::null(), 0), |bytes| {
            let first: *mut u8 = bytes.as_ptr().cast();
            (first.cast_const(), bytes.len())
        });
        let place = place.write(bufpool_guard {
            bytes,
            len,
            kind: Self::KIND,
            held: [MaybeUninit::uninit(); BUFPOOL_GUARD_WORDS],
        });
        // SAFETY: `held` is large and aligned enough for it, as checked above, and nobody else refers to it.
        unsafe { place.held.as_mut_ptr().cast::<Self>().write(self) };
    }
}

impl Held for ReadGuard<'_> {
    const KIND: usize = READ;

    fn bytes(&self) -> Option<NonNull<[u8]>> {
        Some(NonNull::from(&**self))
    }
}

impl Held for WriteGuard<'_> {
    const KIND: usize = WRITE;

    fn bytes(&self) -> Option<NonNull<[u8]>> {
        Some(NonNull::from(&**self))
    }
}

impl Held for OwnedReadGuard {
    const KIND: usize = OWNED;

    fn bytes(&self) -> Option<NonNull<[u8]>> {
        Some(NonNull::from(&**self))
    }
}

impl Held for Pin<'_> {
    const KIND: usize = PIN;
}

impl Held for PassingGuard<'_> {
    const KIND: usize = PASSING;
}

impl bufpool_guard {
    /// Takes out what the guard holds, to be dropped. The guard is then none.
    ///
    /// # Safety
    ///
    /// `kind` is `H`'s, and what is held is not used again by anybody else.
    #[inline(always)]
    unsafe fn take<H: Held>(&mut self) -> H {
        self.kind = NOTHING;
        self.bytes = ptr::null();
        // SAFETY: written by `give`, where it still is, and taken once.
        unsafe { self.held.as_mut_ptr().cast::<H>().read() }
    }

    /// What the guard holds, in place.
    ///
    /// # Safety
    ///
    /// `kind` is `H`'s.
    unsafe fn held<H: Held>(&mut self) -> &mut H {
        let held = self.held.as_mut_ptr().cast::<H>();
        // SAFETY: written by `give`, and there until it is taken.
        unsafe { &mut *held }
    }
}

/// Grants what `access` returns, and moves it into the caller's memory.
///
/// # Safety
///
/// See the header and bufpool_guard.
#[inline(always)]
unsafe fn grant<'a, H: Held>(
    tenant: *const bufpool_tenant,
    file: *const bufpool_file,
    page: u64,
    from: *mut bufpool_site,
    guard: *mut bufpool_guard,
    access: impl FnOnce(At<'a>, ClassedPage<'a>) -> Outcome<H>,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or live handles, and `bufpool_guard` that these stay
        // until the guard is released, which is `'a`.
        let (tenant, file): (&'a bufpool_tenant, &'a bufpool_file) =
            unsafe { both(tenant, "tenant", file, "file") }?;
        // SAFETY: the header asks the caller for null, or a static site of `BUFPOOL_SITE`.
        let site = unsafe { site(from) }?;
        // SAFETY: the header asks the caller for null, or room for a guard.
        let place = unsafe { out(guard, "guard") }?;
        access(tenant.tenant.at(site), classed(file, page))?.give(place);
        Ok(())
    })
}

/// What an access with a limit comes to, which does not wait at all if that is 0.
fn granted_in_time<H>(
    limit_ms: u64,
    at_once: impl FnOnce() -> bufpool::Result<Option<H>>,
    within: impl FnOnce(Duration) -> bufpool::Result<Option<H>>,
) -> Outcome<H> {
    let granted = if limit_ms == 0 { at_once() } else { within(Duration::from_millis(limit_ms)) };
    granted?.ok_or_else(|| Box::new(Failure::Busy))
}

/// The page of a number that BUFPOOL_PAGE may have put together with a class.
#[inline(always)]
fn classed(file: &bufpool_file, page: u64) -> ClassedPage<'_> {
    file.file.page(page & ((1 << CLASS_SHIFT) - 1)).class((page >> CLASS_SHIFT) as u8)
}

/// Latches a page for reading; other readers may have it too. The page is read from the file if it is not in
/// memory. `from` is the call site, and may be null. May wait for the device and for writers of the page.
///
/// # Safety
///
/// See the header and bufpool_guard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_read(
    tenant: *const bufpool_tenant,
    file: *const bufpool_file,
    page: u64,
    from: *mut bufpool_site,
    guard: *mut bufpool_guard,
) -> bufpool_status {
    // SAFETY: what it asks of its pointers this function asks of the caller.
    match unsafe { read_in_passing(tenant, file, page, from, guard) } {
        Some(()) => bufpool_status::BUFPOOL_OK,
        // SAFETY: what it asks of its pointers this function asks of the caller.
        None => unsafe { read(tenant, file, page, from, guard) },
    }
}

/// A hit that needs nothing special. None if the access needs more, such as a read; nothing is done then.
///
/// # Safety
///
/// See the header and bufpool_guard.
#[inline(always)]
unsafe fn read_in_passing(
    tenant: *const bufpool_tenant,
    file: *const bufpool_file,
    page: u64,
    from: *mut bufpool_site,
    guard: *mut bufpool_guard,
) -> Option<()> {
    // SAFETY: the header asks the caller for null, or live handles, and `bufpool_guard` that these stay until
    // the guard is released.
    let (tenant, file) = (unsafe { tenant.as_ref() }?, unsafe { file.as_ref() }?);
    // SAFETY: the header asks the caller for null, or a static site of `BUFPOOL_SITE`.
    let site = unsafe { made_site(from) }?;
    // SAFETY: the header asks the caller for null, or room for a guard. Any contents are valid.
    let place = unsafe { guard.cast::<MaybeUninit<bufpool_guard>>().as_mut() }?;
    let (bytes, held) = tenant.tenant.at(site).read_in_passing(classed(file, page))?;
    held.give_with(Some(bytes), place);
    Some(())
}

/// Any access for reading. Not inlined, so that `bufpool_read` needs little room on the stack.
///
/// # Safety
///
/// See the header and bufpool_guard.
#[inline(never)]
unsafe fn read(
    tenant: *const bufpool_tenant,
    file: *const bufpool_file,
    page: u64,
    from: *mut bufpool_site,
    guard: *mut bufpool_guard,
) -> bufpool_status {
    // SAFETY: what `grant` asks of its pointers this function asks of the caller.
    unsafe { grant(tenant, file, page, from, guard, |at, page| Ok(at.read(page)?)) }
}

/// Latches a page exclusively. The page is read from the file if it is not in memory. `from` is the call
/// site, and may be null. bufpool_bytes gives the bytes for writing.
///
/// # Safety
///
/// See the header and bufpool_guard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_write(
    tenant: *const bufpool_tenant,
    file: *const bufpool_file,
    page: u64,
    from: *mut bufpool_site,
    guard: *mut bufpool_guard,
) -> bufpool_status {
    // SAFETY: what `grant` asks of its pointers this function asks of the caller.
    unsafe { grant(tenant, file, page, from, guard, |at, page| Ok(at.write(page)?)) }
}

/// Latches a page exclusively, filled with zeros and not read from the file. `from` is the call site, and may
/// be null.
///
/// # Safety
///
/// See the header and bufpool_guard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_create(
    tenant: *const bufpool_tenant,
    file: *const bufpool_file,
    page: u64,
    from: *mut bufpool_site,
    guard: *mut bufpool_guard,
) -> bufpool_status {
    // SAFETY: what `grant` asks of its pointers this function asks of the caller.
    unsafe { grant(tenant, file, page, from, guard, |at, page| Ok(at.create(page)?)) }
}

/// Keeps a page in memory without latching it. The page is read from the file if it is not in memory. `from`
/// is the call site, and may be null.
///
/// # Safety
///
/// See the header and bufpool_guard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_pin(
    tenant: *const bufpool_tenant,
    file: *const bufpool_file,
    page: u64,
    from: *mut bufpool_site,
    pin: *mut bufpool_guard,
) -> bufpool_status {
    // SAFETY: what `grant` asks of its pointers this function asks of the caller.
    unsafe { grant(tenant, file, page, from, pin, |at, page| Ok(at.pin(page)?)) }
}

/// As bufpool_read, but BUFPOOL_BUSY once it has waited for other threads for `limit_ms` milliseconds; at
/// once if that is 0. The time of its own read of the page is not limited.
///
/// # Safety
///
/// See the header and bufpool_guard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_read_timeout(
    tenant: *const bufpool_tenant,
    file: *const bufpool_file,
    page: u64,
    from: *mut bufpool_site,
    limit_ms: u64,
    guard: *mut bufpool_guard,
) -> bufpool_status {
    // SAFETY: what `grant` asks of its pointers this function asks of the caller.
    unsafe {
        grant(tenant, file, page, from, guard, |at, page| {
            granted_in_time(limit_ms, || at.try_read(page), |limit| at.read_timeout(page, limit))
        })
    }
}

/// As bufpool_write, with the limit of bufpool_read_timeout.
///
/// # Safety
///
/// See the header and bufpool_guard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_write_timeout(
    tenant: *const bufpool_tenant,
    file: *const bufpool_file,
    page: u64,
    from: *mut bufpool_site,
    limit_ms: u64,
    guard: *mut bufpool_guard,
) -> bufpool_status {
    // SAFETY: what `grant` asks of its pointers this function asks of the caller.
    unsafe {
        grant(tenant, file, page, from, guard, |at, page| {
            granted_in_time(limit_ms, || at.try_write(page), |limit| at.write_timeout(page, limit))
        })
    }
}

/// As bufpool_create, with the limit of bufpool_read_timeout.
///
/// # Safety
///
/// See the header and bufpool_guard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_create_timeout(
    tenant: *const bufpool_tenant,
    file: *const bufpool_file,
    page: u64,
    from: *mut bufpool_site,
    limit_ms: u64,
    guard: *mut bufpool_guard,
) -> bufpool_status {
    // SAFETY: what `grant` asks of its pointers this function asks of the caller.
    unsafe {
        grant(tenant, file, page, from, guard, |at, page| {
            granted_in_time(limit_ms, || at.try_create(page), |limit| at.create_timeout(page, limit))
        })
    }
}

/// As bufpool_pin, with the limit of bufpool_read_timeout.
///
/// # Safety
///
/// See the header and bufpool_guard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_pin_timeout(
    tenant: *const bufpool_tenant,
    file: *const bufpool_file,
    page: u64,
    from: *mut bufpool_site,
    limit_ms: u64,
    pin: *mut bufpool_guard,
) -> bufpool_status {
    // SAFETY: what `grant` asks of its pointers this function asks of the caller.
    unsafe {
        grant(tenant, file, page, from, pin, |at, page| {
            granted_in_time(limit_ms, || at.try_pin(page), |limit| at.pin_timeout(page, limit))
        })
    }
}

/// Latches a pinned page, exclusively or for reading. `pin` and `guard` must be two objects.
///
/// # Safety
///
/// See the header and bufpool_guard; the pin is released after the guard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_latch(
    pin: *mut bufpool_guard,
    exclusive: bool,
    guard: *mut bufpool_guard,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: what it asks of its pointers this function asks of the caller.
        let (pin, place) = unsafe { pin_and_out(pin, guard) }?;
        if exclusive {
            pin.write()?.give(place);
        } else {
            pin.read()?.give(place);
        }
        Ok(())
    })
}

/// As bufpool_latch, with the limit of bufpool_read_timeout.
///
/// # Safety
///
/// See the header and bufpool_guard; the pin is released after the guard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_latch_timeout(
    pin: *mut bufpool_guard,
    exclusive: bool,
    limit_ms: u64,
    guard: *mut bufpool_guard,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: what it asks of its pointers this function asks of the caller.
        let (pin, place) = unsafe { pin_and_out(pin, guard) }?;
        if exclusive {
            granted_in_time(limit_ms, || pin.try_write(), |limit| pin.write_timeout(limit))?.give(place);
        } else {
            granted_in_time(limit_ms, || pin.try_read(), |limit| pin.read_timeout(limit))?.give(place);
        }
        Ok(())
    })
}

/// The pin that an object holds, and the place of a guard in another one.
///
/// # Safety
///
/// Each pointer is null, or `pin` is to a guard that no other thread uses, and `guard` to room for one. A pin
/// that is held stays where it is until it is released, and a guard that borrows it is released before.
unsafe fn pin_and_out<'a>(
    pin: *mut bufpool_guard,
    guard: *mut bufpool_guard,
) -> Outcome<(&'static Pin<'static>, &'a mut MaybeUninit<bufpool_guard>)> {
    if ptr::eq(pin, guard) {
        return Err(Failure::argument("pin and guard are one object, expected two"));
    }
    // SAFETY: null, or room for a guard: this function's own condition.
    let place = unsafe { out(guard, "guard") }?;
    // SAFETY: null, or a guard that no other thread uses: this function's own condition. `place` is another
    // object, as checked above.
    let pin = unsafe { pin.as_mut() }.filter(|pin| pin.kind == PIN);
    let pin = pin.ok_or_else(|| Failure::argument("pin is not one"))?;
    // SAFETY: the kind says that a pin is held. It stays until it is released, after the guard.
    let pin = unsafe { pin.held::<Pin<'static>>() };
    // SAFETY: the pin stays where it is until it is released, and the guard, which borrows it, is released
    // before: this function's own condition. Nobody changes the pin meanwhile.
    Ok((unsafe { &*ptr::from_ref(pin) }, place))
}

/// The page's bytes for writing, and makes the page dirty. Null if the guard is not for writing.
///
/// # Safety
///
/// See the header and bufpool_guard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_bytes(guard: *mut bufpool_guard) -> *mut u8 {
    // SAFETY: the header asks the caller for null, or a guard of this thread's, which no other thread uses.
    let Some(guard) = unsafe { guard.as_mut() }.filter(|guard| guard.kind == WRITE) else {
        return ptr::null_mut();
    };
    // SAFETY: the kind says that a write guard is held.
    unsafe { guard.held::<WriteGuard<'_>>() }.as_mut_ptr()
}

/// Sets the log sequence number of the change under an exclusive guard, for engines with a log.
///
/// # Safety
///
/// See the header and bufpool_guard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_set_lsn(guard: *mut bufpool_guard, lsn: u64) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or a guard of this thread's, which no other thread
        // uses.
        let guard = unsafe { guard.as_mut() }.filter(|guard| guard.kind == WRITE);
        let guard = guard.ok_or_else(|| Failure::argument("guard is not one for writing"))?;
        // SAFETY: the kind says that a write guard is held.
        unsafe { guard.held::<WriteGuard<'_>>() }.set_lsn(lsn);
        Ok(())
    })
}

/// Releases a guard or a pin. Does nothing with null, or with a guard that was released already.
///
/// # Safety
///
/// See bufpool_guard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_release(guard: *mut bufpool_guard) {
    // SAFETY: the header asks the caller for null, or a guard of this thread's, which no other thread uses.
    let Some(guard) = (unsafe { guard.as_mut() }) else { return };
    if guard.kind != PASSING {
        return release_other(guard);
    }
    // This cannot panic: it releases a count and the latch, and futures are woken by a thread of the pool.
    // SAFETY: the kind says that a passing guard is held. It is no guard from here on.
    drop(unsafe { guard.take::<PassingGuard<'_>>() });
}

/// Not inlined, so that `bufpool_release` needs no room on the stack for these guards.
#[inline(never)]
fn release_other(guard: &mut bufpool_guard) {
    guarded(move || {
        match guard.kind {
            // SAFETY: the kind says that a read guard is held. It is no guard from here on.
            READ => drop(unsafe { guard.take::<ReadGuard<'_>>() }),
            // SAFETY: the kind says that a write guard is held. It is no guard from here on.
            WRITE => drop(unsafe { guard.take::<WriteGuard<'_>>() }),
            // SAFETY: the kind says that a pin is held. It is none from here on.
            PIN => drop(unsafe { guard.take::<Pin<'_>>() }),
            // SAFETY: the kind says that an owned read guard is held. It is no guard from here on.
            OWNED => drop(unsafe { guard.take::<OwnedReadGuard>() }),
            _ => {}
        }
        Ok(())
    });
}
