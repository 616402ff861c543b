//! Page words reached through their file, for pages that no thread's stack refers to.

use std::ops::Deref;
use std::sync::Arc;

use crate::files::shared::FileShared;
use crate::page::latch::Latch;
use crate::page::word::PageWord;

/// A page word reached through its file, for pages that nobody's stack refers to.
#[derive(Clone)]
pub(crate) struct OwnedWord {
    file: Arc<FileShared>,
    number: u64,
}

impl OwnedWord {
    /// The word of a page, which was made.
    pub fn new(file: Arc<FileShared>, number: u64) -> Self {
        Self { file, number }
    }

    /// The page's file.
    pub fn file(&self) -> &Arc<FileShared> {
        &self.file
    }

    /// The page's number.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Deref for OwnedWord {
    type Target = PageWord;

    fn deref(&self) -> &PageWord {
        self.file.table.get(self.number).expect("words stay as long as their file")
    }
}

/// A page that its holder is about to drop or write: number and exclusive latch.
pub(crate) struct Seized {
    pub number: u64,
    pub latch: Latch<OwnedWord>,
}
