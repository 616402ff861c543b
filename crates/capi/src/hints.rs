//! Disclosed reads.

use bufpool::{HintedPage, Hints, Tenant};

use crate::file::bufpool_file;
use crate::guard::{Held, bufpool_guard};
use crate::pool::free;
use crate::status::{Outcome, bufpool_status, guarded, null, of, of_and_out, out, slice};
use crate::tenant::bufpool_tenant;

/// A list of the reads that a tenant has disclosed, in their order. Used by one thread at a time.
pub struct bufpool_hints {
    hints: Hints,
    tenant: Tenant,
}

/// A page of a file. Its number has no class.
#[repr(C)]
pub struct bufpool_page {
    /// The file.
    pub file: *const bufpool_file,
    /// The page's number in it.
    pub number: u64,
}

/// # Safety
///
/// Files are null, or of this library.
unsafe fn pages_of(tenant: &Tenant, pages: &[bufpool_page]) -> Outcome<Vec<HintedPage>> {
    let page = |page: &bufpool_page| {
        // SAFETY: this function's own condition is that the file is null, or a live handle.
        let file = unsafe { of(page.file, "a page's file") }?;
        tenant.check_pool_of(&file.file)?;
        Ok(HintedPage { file: file.file.id(), number: page.number })
    };
    pages.iter().map(page).collect()
}

/// Discloses the pages that the tenant will read, in this order. The array is copied. The list has to be
/// freed by bufpool_hints_free, at any time. `pages` may be null if `count` is 0.
///
/// # Safety
///
/// See the header; there are `count` pages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_hint(
    tenant: *const bufpool_tenant,
    pages: *const bufpool_page,
    count: usize,
    hints: *mut *mut bufpool_hints,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or a live handle, and null, or room for the output.
        let (tenant, place) = unsafe { of_and_out(tenant, "tenant", hints, "hints") }?;
        // SAFETY: this function asks the caller for null, or `count` pages.
        let pages = unsafe { slice(pages, count, "pages") }?;
        // SAFETY: the header asks the caller for files that are null, or live handles.
        let pages = unsafe { pages_of(&tenant.tenant, pages) }?;
        // Pages of an extension come before those that the iterator has not yielded yet. So that later
        // extensions come behind `pages`, these are an extension, too, of an empty iterator.
        let mut hints = tenant.tenant.hint(std::iter::empty::<HintedPage>())?;
        hints.extend(pages);
        place.write(Box::into_raw(Box::new(bufpool_hints { hints, tenant: tenant.tenant.clone() })));
        Ok(())
    })
}

/// Appends pages to the list. The array is copied.
///
/// # Safety
///
/// See the header; there are `count` pages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_hints_extend(
    hints: *mut bufpool_hints,
    pages: *const bufpool_page,
    count: usize,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: this function asks the caller for what the called one needs.
        let (list, pages) = unsafe { list_and_pages(hints, pages, count) }?;
        list.hints.extend(pages);
        Ok(())
    })
}

/// Puts pages in the place of all that the list has left. The array is copied. Pages that came in for the
/// list and are named again are kept until they are read. Changes nothing if it fails.
///
/// # Safety
///
/// See the header; there are `count` pages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_hints_replan(
    hints: *mut bufpool_hints,
    pages: *const bufpool_page,
    count: usize,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: this function asks the caller for what the called one needs.
        let (list, pages) = unsafe { list_and_pages(hints, pages, count) }?;
        Ok(list.hints.replan(pages)?)
    })
}

/// Latches the next page of the list for reading. Behind the last page it returns BUFPOOL_OK, and the guard
/// holds nothing (its `bytes` are null). Pages beyond the end of their file, and those of files that are
/// closed, are left out. So are pages that were given with a class, because such a number is beyond the end
/// of any file. If a page cannot be read, the next call goes on behind it.
///
/// # Safety
///
/// See the header and bufpool_guard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_hints_next(
    hints: *mut bufpool_hints,
    guard: *mut bufpool_guard,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or a live list that no other thread uses.
        let list = unsafe { list(hints) }?;
        // SAFETY: the header asks the caller for null, or room for a guard.
        let place = unsafe { out(guard, "guard") }?;
        match list.hints.next()? {
            Some(page) => page.give(place),
            // SAFETY: the place has room for a guard, all of whose fields may be zeros: then it is none.
            None => unsafe { place.as_mut_ptr().write_bytes(0, 1) },
        }
        Ok(())
    })
}

/// Leaves out the next `pages` pages of the list, or all if there are fewer.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_hints_skip(hints: *mut bufpool_hints, pages: usize) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or a live list that no other thread uses.
        unsafe { list(hints) }?.hints.skip(pages);
        Ok(())
    })
}

/// Withdraws the rest of a list and frees it. Does nothing with null.
///
/// # Safety
///
/// The handle was given by this library, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_hints_free(hints: *mut bufpool_hints) {
    guarded(|| {
        // SAFETY: this function asks the caller for null, or a handle that is not used again.
        unsafe { free(hints) };
        Ok(())
    });
}

/// # Safety
///
/// The list is null, or one that nobody else uses during `'a`. There are `count` pages, or the pointer is
/// null; their files are null, or live handles.
unsafe fn list_and_pages<'a>(
    hints: *mut bufpool_hints,
    pages: *const bufpool_page,
    count: usize,
) -> Outcome<(&'a mut bufpool_hints, Vec<HintedPage>)> {
    // SAFETY: null, or `count` pages, as this function's condition says.
    let pages = unsafe { slice(pages, count, "pages") }?;
    // SAFETY: null, or a list that nobody else uses during `'a`, as this function's condition says.
    let list = unsafe { list(hints) }?;
    // SAFETY: their files are null, or live handles, as this function's condition says.
    let pages = unsafe { pages_of(&list.tenant, pages) }?;
    Ok((list, pages))
}

/// # Safety
///
/// The pointer is null, or to a list that nobody else uses during `'a`.
unsafe fn list<'a>(hints: *mut bufpool_hints) -> Outcome<&'a mut bufpool_hints> {
    // SAFETY: null, or a list that nobody else uses during `'a`, as this function's condition says.
    unsafe { hints.as_mut() }.ok_or_else(|| null("hints"))
}
