//! What an engine does to pages on their way between memory and file: verification, checksums, encryption.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bufpool_policies::{FileId, TenantId};

use crate::api::file::FileShared;
use crate::api::pool::PoolShared;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::arena::FrameLease;

/// Which page it is, for [`PageHooks`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PageName {
    /// The file's number in the pool, different after each opening.
    pub file: FileId,
    /// The engine's own number for the file, from [`FileOptions::tag`](crate::FileOptions::tag).
    pub file_tag: u64,
    /// The page's number within the file.
    pub number: u64,
}

/// Called for every page read and every page written, of all files of a pool.
///
/// Called by any thread, without the pool's locks; page latches may be held. Hooks must not call into the pool.
pub trait PageHooks: Send + Sync {
    /// A page has been read and nobody has seen it yet. An error makes the pool read it once more; a second one becomes
    /// [`ErrorKind::Corrupt`] with this message, and the page stays absent. A panic counts as an error.
    ///
    /// # Errors
    ///
    /// Why the contents cannot be right.
    fn on_read(&self, page: PageName, bytes: &mut [u8]) -> std::result::Result<(), String>;

    /// A page is about to be written: `bytes` are a copy, what is in memory stays as it is. A panic poisons the file, since the page
    /// cannot be written as it should be.
    fn before_write(&self, page: PageName, bytes: &mut [u8]);
}

impl FileShared {
    fn page_name(&self, number: u64) -> PageName {
        PageName { file: self.id, file_tag: self.tag, number }
    }
}

impl PoolShared {
    /// Reads a page into a frame for `tenant` and lets the hooks verify it.
    pub(crate) fn read_verified(
        &self,
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
        &self,
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
        &self,
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
        &self,
        file: &FileShared,
        number: u64,
        lease: &mut FrameLease,
        tenant: TenantId,
        operation: &'static str,
    ) -> Result<()> {
        let read = self.arena.read(&*self.backend, &file.io(operation)?, number, lease, tenant);
        read.map_err(|error| file.io_error(operation, error).at_page(number))?;
        self.count_reads(1);
        Ok(())
    }

    /// Lets the hooks verify what was read into a frame.
    pub(crate) fn verify(
        &self,
        file: &FileShared,
        number: u64,
        lease: &mut FrameLease,
    ) -> std::result::Result<(), String> {
        let Some(hooks) = &self.hooks else { return Ok(()) };
        let bytes = self.arena.bytes_mut(lease);
        let checked = catch_unwind(AssertUnwindSafe(|| hooks.on_read(file.page_name(number), bytes)));
        checked.unwrap_or_else(|_| Err("the hook panicked".into()))
    }

    /// Lets the hooks prepare contents for writing.
    pub(crate) fn prepare_for_write(&self, file: &FileShared, number: u64, bytes: &mut [u8]) {
        let Some(hooks) = &self.hooks else { return };
        let name = file.page_name(number);
        if catch_unwind(AssertUnwindSafe(|| hooks.before_write(name, bytes))).is_err() {
            let error = Error::new(ErrorKind::Corrupt, "write page", "the hook before_write panicked");
            file.poison(error.in_file(&file.name).at_page(number));
        }
    }
}
