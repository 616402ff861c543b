//! A page is read into a frame, and the hooks verify it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bufpool_policies::TenantId;

use crate::error::{ErrorKind, Result};
use crate::files::shared::FileShared;
use crate::memory::lease::FrameLease;
use crate::state::shared::PoolShared;

/// Reads pages and lets hooks verify them.
#[derive(Clone, Copy)]
pub(crate) struct PageRead<'p> {
    pub pool: &'p PoolShared,
}

impl<'p> PageRead<'p> {
    /// Of this pool.
    #[inline(always)]
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
    }

    /// Reads a page into a frame for `tenant` and lets the hooks verify it.
    pub(crate) fn read_verified(
        self,
        file: &FileShared,
        number: u64,
        lease: &mut FrameLease,
        tenant: TenantId,
        operation: &'static str,
    ) -> Result<()> {
        self.read_unverified(file, number, lease, tenant, operation)?;
        self.verify_or_read_again(file, number, lease, tenant, operation)
    }

    /// Lets the hooks verify a page that was read into a frame. A transfer may have gone wrong on the way, so what they reject
    /// is read once more; what is on the device is the same the second time.
    pub(crate) fn verify_or_read_again(
        self,
        file: &FileShared,
        number: u64,
        lease: &mut FrameLease,
        tenant: TenantId,
        operation: &'static str,
    ) -> Result<()> {
        if self.verify(file, number, lease).is_ok() {
            return Ok(());
        }
        self.read_again(file, number, lease, tenant, operation)
    }

    /// Reads a page once more that the hooks have rejected.
    pub(crate) fn read_again(
        self,
        file: &FileShared,
        number: u64,
        lease: &mut FrameLease,
        tenant: TenantId,
        operation: &'static str,
    ) -> Result<()> {
        self.read_unverified(file, number, lease, tenant, operation)?;
        self.verify(file, number, lease).map_err(|message| {
            let message = format!("contents failed verification twice: {message}");
            file.error(ErrorKind::Corrupt, operation, message).at_page(number)
        })
    }

    fn read_unverified(
        self,
        file: &FileShared,
        number: u64,
        lease: &mut FrameLease,
        tenant: TenantId,
        operation: &'static str,
    ) -> Result<()> {
        let read = self.pool.arena.read(&*self.pool.backend, &file.io(operation)?, number, lease, tenant);
        read.map_err(|error| file.io_error(operation, error).at_page(number))?;
        self.pool.count_reads(1);
        Ok(())
    }

    /// Lets the hooks verify what was read into a frame.
    pub(crate) fn verify(
        self,
        file: &FileShared,
        number: u64,
        lease: &mut FrameLease,
    ) -> std::result::Result<(), String> {
        let Some(hooks) = &self.pool.hooks else { return Ok(()) };
        let bytes = self.pool.arena.bytes_mut(lease);
        let checked = catch_unwind(AssertUnwindSafe(|| hooks.on_read(file.page_name(number), bytes)));
        checked.unwrap_or_else(|_| Err("the hook panicked".into()))
    }
}
