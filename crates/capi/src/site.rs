//! Call sites that C code names.

use std::borrow::Cow;
use std::ffi::c_char;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use bufpool::Site;

use crate::status::{Outcome, bytes_of, of, text};

/// A call site. Made by `BUFPOOL_SITE`; it is static, and its texts are literals.
#[repr(C)]
pub struct bufpool_site {
    /// What the engine calls it.
    pub name: *const c_char,
    /// The source file.
    pub file: *const c_char,
    /// The line in it.
    pub line: u32,
    /// Null at first. The library's.
    pub made: *mut std::ffi::c_void,
}

/// Where accesses come from that name no site.
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
    // Acquire: who made it has written it before.
    // SAFETY: the caller's promise.
    let made = unsafe { made_field(site) }.load(Ordering::Acquire);
    // SAFETY: null, or made by `make` and never freed.
    unsafe { made.as_ref() }
}

/// # Safety
///
/// The pointer is one to a site as [`bufpool_site`] says.
#[inline(always)]
unsafe fn made_field<'a>(site: *mut bufpool_site) -> &'a AtomicPtr<Site> {
    // SAFETY: the caller's promise.
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
    // SAFETY: the caller's promise.
    match unsafe { made_site(site) } {
        Some(site) => Ok(site),
        None => {
            // SAFETY: as before; it is not null.
            let made = unsafe { made_field(site) };
            // SAFETY: as before.
            unsafe { make(site, made) }
        }
    }
}

/// # Safety
///
/// As of [`site`]; `made` is the site's field.
#[cold]
unsafe fn make(site: *const bufpool_site, made: &AtomicPtr<Site>) -> Outcome<&'static Site> {
    // SAFETY: the caller's promise.
    let site = unsafe { of(site, "site") }?;
    // SAFETY: literals, which nobody changes.
    let name = unsafe { text(site.name, "the site's name") }?;
    // SAFETY: as before.
    let file = match String::from_utf8_lossy(unsafe { bytes_of(site.file, "the site's file") }?) {
        Cow::Borrowed(file) => file,
        // Stays, as the site does.
        Cow::Owned(file) => Box::leak(file.into_boxed_str()),
    };
    let new = Box::into_raw(Box::new(Site::new(name, file, site.line, 0)));
    match made.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: just made, and never freed from here on.
        Ok(_) => Ok(unsafe { &*new }),
        Err(first) => {
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(new) });
            // SAFETY: another thread's, which is never freed.
            Ok(unsafe { &*first })
        }
    }
}
