//! What a file has now: what is committed, and what was written since.

use std::sync::Arc;

use bufpool::PAGE_BYTES_MAX;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use super::chunk::Chunk;
use super::error::ObjectError;
use super::manifest::Manifest;
use super::map::PageMap;
use super::store::UPLOADS_MAX;

/// Chunks in memory, uploads in flight included, unless one write needs more.
const CHUNKS_IN_MEMORY: usize = 2 * UPLOADS_MAX;

/// Most chunks in memory. A write of the largest page of a pool has room beside the open chunk; else it would
/// wait for ever.
fn chunks_in_memory_max(page_bytes: u32, chunk_pages: u32) -> usize {
    let chunk_bytes = page_bytes as usize * chunk_pages as usize;
    CHUNKS_IN_MEMORY.max(PAGE_BYTES_MAX.div_ceil(chunk_bytes) + 1)
}

/// What a file has now. A chunk is in memory until its upload has succeeded, so reads see what was written.
#[derive(Debug)]
pub(super) struct State {
    /// Number of the manifest that the file began with, or that was committed last.
    pub base: u64,
    /// Length.
    pub pages: u64,
    pub map: PageMap,
    /// Something is not in manifest `base`.
    pub changed: bool,
    /// The chunk that takes written pages.
    pub open: Option<Filling>,
    /// Room for the chunks of a write that is being taken, or that a waiting write has got.
    pub spare: Option<OwnedSemaphorePermit>,
    /// The uploads since the last commit, under way or over.
    pub uploads: Vec<JoinHandle<Result<(), ObjectError>>>,
    /// A commit is under way. A chunk that was uploaded now would have the old base in its name, and not be
    /// in the manifest, so it would be garbage: uploads wait.
    pub committing: bool,
    /// Full chunks whose upload waits for the commit.
    pub deferred: Vec<Filling>,
    /// A permit for each chunk in memory. Closed once an upload or a commit has failed.
    pub room: Arc<Semaphore>,
    /// The failed upload or commit. Nothing more is taken until the file begins anew.
    pub failed: Option<ObjectError>,
}

/// A chunk in memory, with its room there.
#[derive(Debug)]
pub(super) struct Filling {
    pub chunk: Arc<Chunk>,
    pub room: OwnedSemaphorePermit,
}

impl State {
    /// What `manifest` says. Chunks of what is written will have `chunk_pages` pages at most.
    pub fn of(manifest: Manifest, chunk_pages: u32) -> Self {
        let room = chunks_in_memory_max(manifest.page_bytes, chunk_pages);
        Self {
            base: manifest.number,
            pages: manifest.pages,
            map: manifest.map,
            changed: false,
            open: None,
            spare: None,
            uploads: Vec::new(),
            committing: false,
            deferred: Vec::new(),
            room: Arc::new(Semaphore::new(room)),
            failed: None,
        }
    }

    pub fn set_pages(&mut self, pages: u64) {
        if pages < self.pages {
            self.map.remove(pages..self.pages);
        }
        self.changed |= pages != self.pages;
        self.pages = pages;
    }

    /// Takes no more writes.
    pub fn fail(&mut self, error: &ObjectError) {
        self.failed.get_or_insert_with(|| error.clone());
        self.room.close();
    }

    /// Reserves room for the new chunks that `pages` may need, each of `chunk_pages` at most. Returns how
    /// many there is no room for; then nothing more was reserved.
    pub fn reserve(&mut self, pages: usize, chunk_pages: usize) -> u32 {
        let left = self.open.as_ref().map_or(0, |open| chunk_pages.saturating_sub(open.chunk.len() as usize));
        let needed = pages.saturating_sub(left).div_ceil(chunk_pages);
        let lacking =
            needed.saturating_sub(self.spare.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)) as u32;
        match Arc::clone(&self.room).try_acquire_many_owned(lacking) {
            Ok(permit) => {
                self.add_spare(permit);
                0
            }
            Err(_) => lacking,
        }
    }

    /// Room that was reserved.
    pub fn add_spare(&mut self, permit: OwnedSemaphorePermit) {
        match &mut self.spare {
            Some(spare) => spare.merge(permit),
            None => self.spare = Some(permit),
        }
    }

    /// Takes a written page into the open chunk, or into a new one if none is open, for which there is
    /// [room](Self::reserve).
    pub fn take_page(&mut self, number: u64, page: &[u8]) {
        self.changed = true;
        if let Some(Filling { chunk, .. }) = &self.open {
            let found = self.map.find(number..number + 1).pop().and_then(|segment| segment.place);
            if let Some((there, at)) = found.filter(|(there, _)| Arc::ptr_eq(there, chunk)) {
                there.overwrite(at, page);
                return;
            }
        }
        let open = self.open.get_or_insert_with(|| {
            let room = self.spare.as_mut().and_then(|spare| spare.split(1));
            Filling {
                chunk: Arc::new(Chunk::new()),
                room: room.expect("reserved for all pages of the write"),
            }
        });
        let at = open.chunk.push(number, page);
        self.map.insert(number, 1, &open.chunk, at);
        self.pages = self.pages.max(number + 1);
    }
}
