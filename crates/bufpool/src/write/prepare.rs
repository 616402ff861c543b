//! What hooks make of a page for its file.

use bufpool_policies::contained;

use crate::error::{Error, ErrorKind};
use crate::files::shared::FileShared;
use crate::write::page_out::PageOut;

impl<'p> PageOut<'p> {
    /// Lets the hooks prepare contents for writing.
    pub(crate) fn prepare_for_write(self, file: &FileShared, number: u64, bytes: &mut [u8]) {
        let Some(hooks) = &self.pool.hooks else { return };
        let name = file.page_name(number);
        if contained(|| hooks.before_write(name, bytes)).is_none() {
            let error = Error::new(ErrorKind::Corrupt, "write page", "the hook before_write panicked");
            file.poison(error.in_file(&file.name).at_page(number));
        }
    }
}
