//! What an engine does to pages on their way between memory and file: verification, checksums, encryption.

use bufpool_policies::FileId;

/// The name of a page, for [`PageHooks`].
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
/// Called by any thread, without the pool's locks; page latches may be held. A thread that reads or writes a
/// page waits for the hook. Hooks must not call into the pool.
pub trait PageHooks: Send + Sync {
    /// Called when a page has been read and nobody has seen it yet. An error makes the pool read the page
    /// once more; a second error becomes [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) with this
    /// message, and the page stays absent. A panic counts as an error.
    ///
    /// # Errors
    ///
    /// Why the contents cannot be right.
    fn on_read(&self, page: PageName, bytes: &mut [u8]) -> std::result::Result<(), String>;

    /// Called when a page is about to be written. `bytes` are a copy, so the page in memory does not change.
    /// A panic poisons the file, because the page cannot be written as it should be.
    fn before_write(&self, page: PageName, bytes: &mut [u8]);

    /// Whether [`before_write`](Self::before_write) may change the bytes. If so, files of
    /// [bytes](crate::FileOptions::bytes) are refused, because such a file is cut at its end: changes beyond
    /// it, on the last page, would be lost.
    fn changes_bytes(&self) -> bool {
        true
    }
}
