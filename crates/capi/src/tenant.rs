//! Tenants, their directives and programs, and accesses to bytes of files.

use std::ffi::c_char;

use bufpool::{ManagerKind, Policy, Program, Tenant};

use crate::file::bufpool_file;
use crate::pool::{bufpool_pool, free};
use crate::site::{bufpool_site, site};
use crate::status::{
    Failure, Outcome, both, bufpool_status, guarded, holds_any, of, of_and_out, of_and_text, slice, text,
};

/// A tenant: what owns pages, such as a table, a query, a connection or a thread.
pub struct bufpool_tenant {
    pub(crate) tenant: Tenant,
}

/// Options of a tenant. All zeros are the defaults.
#[repr(C)]
pub struct bufpool_tenant_options {
    /// Frames that other tenants cannot take.
    pub floor_frames: u32,
    /// Most frames that it may own; 0: no cap.
    pub cap_frames: u32,
    /// The name of a manager, "auto", "amp", "amp+", "pcc", "pcc-gain", "ubm", "ubm-gain", "dear" or "reuse",
    /// or "none"; null: the automatic manager that tenants share.
    pub manager: *const c_char,
    /// The text of a program that decides which pages go; null: none.
    pub program: *const c_char,
}

fn program_of(text: &str) -> Outcome<Program> {
    Program::parse(text).map_err(|error| Box::new(Failure::Program(error.to_string())))
}

/// One of `all` by its name.
fn named<T: Copy>(name: &str, what: &str, all: &[T], name_of: impl Fn(T) -> &'static str) -> Outcome<T> {
    let found = all.iter().copied().find(|one| name_of(*one) == name);
    found.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|one| name_of(*one)).collect();
        Failure::argument(format!("{what} is {name:?}, expected one of {}", names.join(", ")))
    })
}

/// Opens a tenant. The handle has to be freed by bufpool_tenant_free. The name is for reports. Null options
/// are the defaults.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_tenant_open(
    pool: *const bufpool_pool,
    name: *const c_char,
    options: *const bufpool_tenant_options,
    tenant: *mut *mut bufpool_tenant,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or a live handle, and null, or room for the output.
        let (pool, place) = unsafe { of_and_out(pool, "pool", tenant, "tenant") }?;
        // SAFETY: the header asks the caller for null, or text that ends in a zero.
        let mut opening = pool.pool.tenant(unsafe { text(name, "name") }?);
        // SAFETY: the header asks the caller for null, or options.
        if let Some(options) = unsafe { options.as_ref() } {
            opening = opening.floor_frames(options.floor_frames);
            if options.cap_frames > 0 {
                opening = opening.cap_frames(options.cap_frames);
            }
            if !options.manager.is_null() {
                // SAFETY: the header asks the caller for null, or text that ends in a zero.
                let name = unsafe { text(options.manager, "manager") }?;
                opening = opening.manager(match name {
                    "none" => None,
                    name => Some(named(name, "manager", &ManagerKind::ALL, ManagerKind::name)?),
                });
            }
            if !options.program.is_null() {
                // SAFETY: the header asks the caller for null, or text that ends in a zero.
                opening = opening.program(&program_of(unsafe { text(options.program, "program") }?)?);
            }
        }
        place.write(Box::into_raw(Box::new(bufpool_tenant { tenant: opening.open()? })));
        Ok(())
    })
}

/// The default tenant, for engines without tenants of their own. The handle has to be freed by
/// bufpool_tenant_free.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_tenant_default(
    pool: *const bufpool_pool,
    tenant: *mut *mut bufpool_tenant,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or a live handle, and null, or room for the output.
        let (pool, place) = unsafe { of_and_out(pool, "pool", tenant, "tenant") }?;
        place.write(Box::into_raw(Box::new(bufpool_tenant { tenant: pool.pool.default_tenant() })));
        Ok(())
    })
}

/// Frees a handle. The tenant stays in its pool until it is closed. Does nothing with null.
///
/// # Safety
///
/// The handle was given by this library, is not used again, and no guard or pin that it was granted is left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_tenant_free(tenant: *mut bufpool_tenant) {
    guarded(|| {
        // SAFETY: this function asks the caller for null, or a handle that is not used again.
        unsafe { free(tenant) };
        Ok(())
    });
}

/// Closes the tenant. Its pages stay in memory, without a manager of its own. Fails with BUFPOOL_UNSUPPORTED
/// for the default tenant. The handle has to be freed in any case.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_tenant_close(tenant: *const bufpool_tenant) -> bufpool_status {
    // SAFETY: the header asks the caller for null, or a live handle.
    guarded(|| Ok(unsafe { of(tenant, "tenant") }?.tenant.clone().close()?))
}

/// Directive: the policy of one priority, from -32 to 31, by its name, such as "lru", "mru" or "fifo". With
/// another name the error lists all names.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_set_policy(
    tenant: *const bufpool_tenant,
    priority: i32,
    policy: *const c_char,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or a live handle, and null, or text that ends in a
        // zero.
        let (tenant, name) = unsafe { of_and_text(tenant, "tenant", policy, "policy") }?;
        let policy = named(name, "policy", &Policy::ALL, Policy::name)?;
        Ok(tenant.tenant.set_policy(priority, policy)?)
    })
}

/// Directive: the long-term priority of a file's pages, from -32 to 31. Pages of the lowest priority go
/// first.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_set_priority(
    tenant: *const bufpool_tenant,
    file: *const bufpool_file,
    priority: i32,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or live handles.
        let (tenant, file) = unsafe { both(tenant, "tenant", file, "file") }?;
        tenant.tenant.set_priority(&file.file, priority)?;
        Ok(())
    })
}

/// Directive: the priority of the pages from `first` to before `end` that are in memory and owned by the
/// tenant. It lasts until the next access to the page.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_set_temporary_priority(
    tenant: *const bufpool_tenant,
    file: *const bufpool_file,
    first: u64,
    end: u64,
    priority: i32,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or live handles.
        let (tenant, file) = unsafe { both(tenant, "tenant", file, "file") }?;
        tenant.tenant.set_temporary_priority(&file.file, first..end, priority)?;
        Ok(())
    })
}

/// Loads a program, which decides from then on which of the tenant's pages go.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_set_program(
    tenant: *const bufpool_tenant,
    program: *const c_char,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or a live handle, and null, or text that ends in a
        // zero.
        let (tenant, program) = unsafe { of_and_text(tenant, "tenant", program, "program") }?;
        Ok(tenant.tenant.set_program(&program_of(program)?)?)
    })
}

/// Sets an `int` of the tenant's program.
///
/// # Safety
///
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_send(
    tenant: *const bufpool_tenant,
    slot: *const c_char,
    value: i64,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or a live handle, and null, or text that ends in a
        // zero.
        let (tenant, slot) = unsafe { of_and_text(tenant, "tenant", slot, "slot") }?;
        Ok(tenant.tenant.send(slot, value)?)
    })
}

/// Copies bytes of the file from `offset` on to `into`. `read`, which may be null, gets the number of bytes
/// copied, which is less than `len` at the end of the file. If it fails, some bytes may have been copied.
/// `from` is the call site, and may be null.
///
/// # Safety
///
/// See the header; there is room for `len` bytes, which nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_read_at(
    tenant: *const bufpool_tenant,
    file: *const bufpool_file,
    offset: u64,
    into: *mut u8,
    len: usize,
    from: *mut bufpool_site,
    read: *mut usize,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or live handles.
        let (tenant, file) = unsafe { both(tenant, "tenant", file, "file") }?;
        // SAFETY: the header asks the caller for null, or a static site of `BUFPOOL_SITE`.
        let site = unsafe { site(from) }?;
        let into = match holds_any(into, len, "into")? {
            false => &mut [][..],
            // SAFETY: not null, so room for `len` bytes, as this function asks of the caller; any bytes are
            // valid.
            true => unsafe { std::slice::from_raw_parts_mut(into, len) },
        };
        let found = tenant.tenant.at(site).read_at(&file.file, offset, into)?;
        if !read.is_null() {
            // SAFETY: not null, for which the header asks the caller for room for the output.
            unsafe { read.write(found) };
        }
        Ok(())
    })
}

/// Writes bytes to the file from `offset` on. A file that was opened with the option `bytes` grows if they
/// end beyond its end. If it fails, the file may be longer, and the bytes before the page that failed are
/// written. `from` is the call site, and may be null.
///
/// # Safety
///
/// See the header; there are `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufpool_write_at(
    tenant: *const bufpool_tenant,
    file: *const bufpool_file,
    offset: u64,
    bytes: *const u8,
    len: usize,
    from: *mut bufpool_site,
) -> bufpool_status {
    guarded(|| {
        // SAFETY: the header asks the caller for null, or live handles.
        let (tenant, file) = unsafe { both(tenant, "tenant", file, "file") }?;
        // SAFETY: the header asks the caller for null, or a static site of `BUFPOOL_SITE`.
        let site = unsafe { site(from) }?;
        // SAFETY: this function asks the caller for null, or `len` bytes.
        let bytes = unsafe { slice(bytes, len, "bytes") }?;
        Ok(tenant.tenant.at(site).write_at(&file.file, offset, bytes)?)
    })
}
