//! The files of a pool that are open, by their numbers.

use std::collections::BTreeSet;
use std::sync::Arc;

use bufpool_policies::{FileId, FrameId, PageId};

use crate::files::shared::FileShared;
use crate::sharded::{Shard, Sharded};

/// Numbers rise as files are opened and never come again. 8 bytes for each file that was ever opened.
#[derive(Default)]
pub(crate) struct OpenFiles {
    by_number: Vec<Option<Box<Sharded<Arc<FileShared>>>>>,
    /// Of those that are open.
    numbers: BTreeSet<u32>,
}

impl OpenFiles {
    /// The file with a number, if it is open.
    #[inline]
    pub fn get(&self, id: FileId) -> Option<&Arc<FileShared>> {
        Some(self.by_number.get(id.index())?.as_ref()?.value())
    }

    /// A reference to an open file, to be taken and dropped by the calling thread.
    #[inline]
    pub fn shard(&self, id: FileId) -> Option<&Shard<Arc<FileShared>>> {
        Some(self.by_number.get(id.index())?.as_ref()?.own())
    }

    /// The frame of a page that is in memory.
    pub fn frame_of(&self, page: PageId) -> Option<FrameId> {
        self.get(page.file())?.table.get(page.number())?.state().resident_frame()
    }

    /// In the order of their numbers. A step for each open file, however many were closed.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<FileShared>> {
        self.numbers.iter().filter_map(|number| self.get(FileId(*number)))
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The number of the file that is opened next.
    pub fn next_id(&self) -> FileId {
        FileId(self.by_number.len() as u32)
    }

    /// Adds a file, which has the [next number](Self::next_id).
    pub fn add(&mut self, file: &Arc<FileShared>) {
        assert_eq!(file.id, self.next_id(), "files are numbered as they are opened");
        self.numbers.insert(file.id.0);
        self.by_number.push(Some(Box::new(Sharded::new(file))));
    }

    /// The file is closed for good.
    pub fn remove(&mut self, id: FileId) {
        self.numbers.remove(&id.0);
        self.by_number[id.index()] = None;
    }
}
