//! What a pool can say about its open files.

use std::collections::HashMap;
use std::sync::Arc;

use bufpool_policies::FileId;

use crate::files::shared::FileShared;
use crate::state::shared::PoolShared;
use crate::sync::Ordering;

/// An open file, as [`Pool::files`](crate::Pool::files) lists it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileStats {
    /// Its number, as in [`File::id`](crate::File::id).
    pub id: FileId,
    /// The path that it was opened by, `fd` and a number, or the note of its source.
    pub name: String,
    /// Its length in pages.
    pub pages: u64,
    /// Handles: each [`File`](crate::File) counts, as long as it or one of the owned guards, pins and futures
    /// that it has given is left; and each [`Hints`](crate::Hints) that has read of the file lately. 0 if the
    /// file is open in the pool only.
    pub handles: usize,
    /// It was opened for reading only.
    pub read_only: bool,
    /// Pages in memory, those that wait to be written before they leave included.
    pub resident_frames: u64,
    /// Of these, pages that differ from the file.
    pub dirty_frames: u64,
    /// A flush would sync it: pages were written since the last sync, or it was opened or reopened since.
    pub unsynced: bool,
    /// It takes no writes until it is reopened, because a write or a sync failed.
    pub poisoned: bool,
    /// Why it is poisoned, and which pages have a writer that panicked, each in a sentence. Empty if nothing
    /// is wrong.
    pub notes: Vec<String>,
}

/// See [`Pool::files`](crate::Pool::files). Frames are looked at without a lock.
pub(crate) fn take(pool: &PoolShared) -> Vec<FileStats> {
    if !pool.owner.may_call() {
        return Vec::new();
    }
    let files: Vec<_> = pool.policy.lock().files.iter().cloned().collect();
    let mut frames: HashMap<FileId, (u64, u64)> = HashMap::new();
    for (_, frame) in pool.frames.iter() {
        if let Some(page) = frame.page() {
            let (resident, dirty) = frames.entry(page.file()).or_default();
            *resident += 1;
            *dirty += u64::from(frame.is_dirty());
        }
    }
    let of = |file: Arc<FileShared>| {
        let (resident_frames, dirty_frames) = frames.get(&file.id).copied().unwrap_or_default();
        FileStats {
            id: file.id,
            pages: file.gate.pages(),
            handles: file.handles.load(Ordering::Acquire),
            read_only: file.is_read_only(),
            resident_frames,
            dirty_frames,
            unsynced: file.unsynced.is_any(),
            poisoned: file.is_poisoned(),
            notes: file.poison_notes(),
            name: file.name.clone(),
        }
    };
    files.into_iter().filter(|file| !file.is_closed()).map(of).collect()
}
