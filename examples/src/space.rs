//! New pages for a growing file, a chunk at a time.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bufpool::File;

/// Pages asked of the file at once.
const CHUNK_PAGES: u64 = 32;

/// Pages that a file has been extended by and that nobody uses yet.
///
/// Those that are left when the file is closed stay in it as pages of zeros that nobody uses: fewer than one
/// chunk each time that the file is open.
pub(crate) struct Space {
    spare: Mutex<Range<u64>>,
}

impl Space {
    pub fn new() -> Self {
        Self { spare: Mutex::new(0..0) }
    }

    /// Takes a page that nobody uses; extends the file if there is none.
    pub fn take(&self, file: &File) -> bufpool::Result<u64> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.is_empty() {
            *spare = file.extend(CHUNK_PAGES)?;
        }
        Ok(spare.next().expect("a chunk is not empty"))
    }

    /// Truncates the file by the pages that were not used, if they are its last ones.
    pub fn give_back(&self, file: &File) -> bufpool::Result<()> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if !spare.is_empty() && spare.end == file.pages() {
            file.truncate(spare.start)?;
            *spare = 0..0;
        }
        Ok(())
    }
}
