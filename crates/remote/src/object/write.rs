//! Writes, uploads and commits.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bufpool::source::{Done, WriteRequest};
use tokio::sync::Mutex;

use super::chunk::ChunkId;
use super::error::ObjectError;
use super::history;
use super::manifest::Manifest;
use super::source::Inner;
use super::state::{Filling, State};
use super::store::random;

/// What writes need beside the state.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// Names of chunks that were given out. Only that no two are the same counts.
    sequence: AtomicU64,
    /// One commit at a time, and none while the file begins anew.
    pub commit: Mutex<()>,
}

/// Whether a request has room in memory.
enum Room {
    Enough,
    /// It needs so many chunks more.
    Lacks(u32),
}

impl Inner {
    /// Takes the pages into memory, at once if there is room.
    pub fn begin_write(self: &Arc<Self>, request: WriteRequest) {
        if let Err(error) = self.check_writable() {
            return request.finish(Err(error.into()));
        }
        match self.take(&request) {
            Err(error) => request.finish(Err(error.into())),
            Ok(Room::Enough) => request.finish(Ok(())),
            Ok(Room::Lacks(_)) => {
                let inner = Arc::clone(self);
                self.worker.spawn(async move {
                    let written = inner.take_when_there_is_room(&request).await;
                    request.finish(written.map_err(io::Error::from));
                });
            }
        }
    }

    /// Takes the pages of the request if there is room for all of them. A commit finds all or none: a page of
    /// the pool may have several of the file.
    fn take(self: &Arc<Self>, request: &WriteRequest) -> Result<Room, ObjectError> {
        let page_bytes = self.page_bytes as usize;
        let first = self.pages_of(request.offset(), request.len()).start;
        let pages = request.pieces().flat_map(|piece| piece.chunks_exact(page_bytes));
        let mut state = self.state.lock();
        if let Some(failed) = &state.failed {
            return Err(failed.clone());
        }
        let lacking = state.reserve(request.len() / page_bytes, self.options.chunk_pages as usize);
        if lacking > 0 {
            return Ok(Room::Lacks(lacking));
        }
        for (number, page) in (first..).zip(pages) {
            state.take_page(number, page);
            let is_full = |open: &Filling| open.chunk.len() >= self.options.chunk_pages;
            if let Some(full) = state.open.take_if(|open| is_full(open)) {
                self.upload(&mut state, full);
            }
        }
        // Pages of the open chunk that were written again took no room.
        state.spare = None;
        Ok(Room::Enough)
    }

    async fn take_when_there_is_room(self: &Arc<Self>, request: &WriteRequest) -> Result<(), ObjectError> {
        while let Room::Lacks(chunks) = self.take(request)? {
            let room = Arc::clone(&self.state.lock().room);
            // The room is closed after a failure, which `take` returns.
            if let Ok(permit) = Arc::clone(&room).acquire_many_owned(chunks).await {
                let mut state = self.state.lock();
                // If the file began anew meanwhile, the permit is of the room that it had before.
                if Arc::ptr_eq(&state.room, &room) {
                    state.add_spare(permit);
                }
            }
        }
        Ok(())
    }

    /// Begins the upload of a chunk that takes no more pages, or lets it wait for a commit.
    fn upload(self: &Arc<Self>, state: &mut State, full: Filling) {
        if state.committing {
            state.deferred.push(full);
            return;
        }
        let sequence = self.writes.sequence.fetch_add(1, Ordering::Relaxed);
        let id = ChunkId { base: state.base, writer: self.writer, sequence };
        let (inner, room) = (Arc::clone(self), Arc::clone(&state.room));
        state.uploads.push(self.worker.spawn(async move {
            let Filling { chunk, room: permit } = full;
            let put = inner.store.put(&inner.store.chunk(&id), chunk.encode(&id)).await;
            match &put {
                Ok(()) => chunk.set_stored(id),
                Err(error) => {
                    let mut state = inner.state.lock();
                    if Arc::ptr_eq(&state.room, &room) {
                        state.fail(error);
                    }
                }
            }
            drop(permit);
            put
        }));
    }

    pub fn begin_sync(self: &Arc<Self>, done: Done) {
        let inner = Arc::clone(self);
        self.worker.spawn(async move {
            let synced = inner.sync().await;
            done.finish(synced.map_err(io::Error::from));
        });
    }

    /// Commits what was written before.
    async fn sync(self: &Arc<Self>) -> Result<(), ObjectError> {
        self.check_writable()?;
        let _one_at_a_time = self.writes.commit.lock().await;
        let commit = random()?;
        let Some((next, uploads)) = self.next_manifest(commit)? else { return Ok(()) };
        let committed = async {
            for upload in uploads {
                upload.await.unwrap_or_else(|error| {
                    Err(ObjectError::local("uploading a chunk", None, io::Error::other(error.to_string())))
                })?;
            }
            history::commit(&self.store, &next).await
        }
        .await;
        let mut state = self.state.lock();
        state.committing = false;
        match &committed {
            Ok(()) => state.base = next.number,
            Err(error) => state.fail(error),
        }
        let deferred = std::mem::take(&mut state.deferred);
        if committed.is_ok() {
            deferred.into_iter().for_each(|full| self.upload(&mut state, full));
        }
        committed
    }

    /// The manifest to be committed, and the uploads that it needs. None if there is nothing to commit.
    #[allow(clippy::type_complexity, reason = "used once")]
    fn next_manifest(
        self: &Arc<Self>,
        commit: u128,
    ) -> Result<Option<(Manifest, Vec<tokio::task::JoinHandle<Result<(), ObjectError>>>)>, ObjectError> {
        let mut state = self.state.lock();
        if let Some(failed) = &state.failed {
            return Err(failed.clone());
        }
        if !std::mem::replace(&mut state.changed, false) {
            return Ok(None);
        }
        if let Some(open) = state.open.take() {
            self.upload(&mut state, open);
        }
        state.committing = true;
        let next = Manifest {
            number: state.base + 1,
            page_bytes: self.page_bytes,
            pages: state.pages,
            file: self.file,
            writer: self.writer,
            commit,
            map: state.map.clone(),
        };
        Ok(Some((next, std::mem::take(&mut state.uploads))))
    }
}
