//! Call sites that C code names.

use std::borrow::Cow;
use std::ffi::c_char;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use bufpool::Site;

use crate::status::{Outcome, bytes_of, text};

/// A call site. Made by BUFPOOL_SITE. It is static, and its texts are literals.
#[repr(C)]
pub struct bufpool_site {
    /// The engine's name for the call site.
    pub name: *const c_char,
    /// The source file.
    pub file: *const c_char,
    /// The line in it.
    pub line: u32,
    /// Used by the library; null at first.
    pub made: *mut std::ffi::c_void,
}

/// The site of accesses that name none.
static NOWHERE: Site = Site::new("C", "", 0, 0);

/// The site as the pool knows it, if it was made already.
///
/// # Safety
///
/// The pointer is null, or one to a site as [`bufpool_site`] says.
#[inline(always)]
pub(crate) unsafe fn made_site(site: *mut bufpool_site) -> Option<&'static Site> {
    if site.is_null() {
        return Some(&NOWHERE);
    }
    // Acquire: pairs with the release in `make`, so the site that the pointer leads to is complete.
    // SAFETY: not null, so to a static site: this function's own condition.
    let made = unsafe { made_field(site) }.load(Ordering::Acquire);
    // SAFETY: null, or a box of `make`'s, which is never freed.
    unsafe { made.as_ref() }
}

/// # Safety
///
/// The pointer is one to a site as [`bufpool_site`] says.
#[inline(always)]
unsafe fn made_field<'a>(site: *mut bufpool_site) -> &'a AtomicPtr<Site> {
    // SAFETY: to a static site: this function's own condition. No reference to it is made.
    let field = unsafe { &raw mut (*site).made };
    // SAFETY: the field is as large and aligned as an atomic pointer, and all uses of it are atomic.
    unsafe { AtomicPtr::from_ptr(field.cast::<*mut Site>()) }
}

/// The site as the pool knows it, which is made when it is first used and stays.
///
/// # Safety
///
/// The pointer is null, or one to a site as [`bufpool_site`] says.
#[inline(always)]
pub(crate) unsafe fn site(site: *mut bufpool_site) -> Outcome<&'static Site> {
    // SAFETY: null, or to a static site: this function's own condition.
    match unsafe { made_site(site) } {
        Some(site) => Ok(site),
        None => {
            // SAFETY: a null pointer has its site, so this one is to a static site.
            let made = unsafe { made_field(site) };
            // SAFETY: to a static site, whose field `made` is.
            unsafe { make(site, made) }
        }
    }
}

/// # Safety
///
/// The pointer is one to a site as [`bufpool_site`] says; `made` is the site's field.
#[cold]
unsafe fn make(site: *const bufpool_site, made: &AtomicPtr<Site>) -> Outcome<&'static Site> {
    // Fields are read one by one: no reference to the site is made, because other threads may write `made`.
    // SAFETY: to a static site: this function's own condition. Nobody changes its `name`.
    let name = unsafe { (*site).name };
    // SAFETY: to a static site. Nobody changes its `file`.
    let file = unsafe { (*site).file };
    // SAFETY: to a static site. Nobody changes its `line`.
    let line = unsafe { (*site).line };
    // SAFETY: null, or a literal, as `bufpool_site` says.
    let name = unsafe { text(name, "the site's name") }?;
    // SAFETY: null, or a literal, as `bufpool_site` says.
    let file = match String::from_utf8_lossy(unsafe { bytes_of(file, "the site's file") }?) {
        Cow::Borrowed(file) => file,
        // Never freed, like the site.
        Cow::Owned(file) => Box::leak(file.into_boxed_str()),
    };
    let new = Box::into_raw(Box::new(Site::new(name, file, line, 0)));
    // Release: who finds the site in `made_site` finds it complete. Acquire: so does this thread one that
    // another has made meanwhile.
    match made.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: a box made above, which from here on is shared and never freed.
        Ok(_) => Ok(unsafe { &*new }),
        Err(first) => {
            // SAFETY: a box made above, of which no other thread knows, as the exchange has failed.
            drop(unsafe { Box::from_raw(new) });
            // SAFETY: not null, as the exchange has failed; so a box of another thread's, which is never
            // freed.
            Ok(unsafe { &*first })
        }
    }
}
