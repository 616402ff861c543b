//! Bringing a local file to a store.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStore;
use tokio::task::JoinSet;

use super::chunk::{Chunk, ChunkId};
use super::error::ObjectError;
use super::manifest::Manifest;
use super::map::PageMap;
use super::options::ObjectOptions;
use super::probe;
use super::source::{create_first, parts};
use super::store::{Store, UPLOADS_MAX, random};

/// Copies the local file at `path` to a new file under `prefix`, in chunks of [`ObjectOptions::chunk_pages`],
/// and returns how many pages it has. The file must not change meanwhile. Takes memory for 9 chunks. The file
/// is there once all of it is: a copy that fails leaves chunks and no file.
///
/// # Errors
///
/// [`ObjectError::FileExists`]; [`ObjectError::Local`] if the local file cannot be read;
/// [`ObjectError::Options`] if it is no regular file, or its length is no multiple of the page size;
/// [`ObjectError::ReadOnly`] if the store does not do conditional puts; [`ObjectError::Store`],
/// [`ObjectError::TimedOut`].
pub fn import(
    store: Arc<dyn ObjectStore>,
    prefix: &str,
    path: &Path,
    options: &ObjectOptions,
) -> Result<u64, ObjectError> {
    let (store, worker) = parts(store, prefix, options)?;
    let store = Arc::new(store);
    let local = |doing| move |error| ObjectError::local(doing, Some(path.to_owned()), error);
    // Before it is opened, which for a pipe without a writer would never end.
    if !std::fs::metadata(path).map_err(local("looking at"))?.is_file() {
        let what = format!("{} is a folder, a device or a pipe, expected a regular file", path.display());
        return Err(ObjectError::Options { what });
    }
    let mut file = std::fs::File::open(path).map_err(local("opening"))?;
    let length = file.metadata().map_err(local("looking at"))?.len();
    let page_bytes = u64::from(options.page_bytes);
    if !length.is_multiple_of(page_bytes) {
        let what = format!("{} has {length} bytes, expected a multiple of {page_bytes}", path.display());
        return Err(ObjectError::Options { what });
    }
    let probed = Arc::clone(&store);
    if let Some(why) = worker.run(async move { probe::why_not_writable(&probed).await })? {
        return Err(ObjectError::ReadOnly { why });
    }
    let (pages, chunk_pages) = (length / page_bytes, u64::from(options.chunk_pages));
    let (writer, identity, commit) = (random()?, random()?, random()?);
    let mut map = PageMap::default();
    // Chunks go to the thread of stores as they are read; it takes no more than it can upload.
    let (sender, receiver) = tokio::sync::mpsc::channel::<(ChunkId, Bytes)>(1);
    let uploading = Arc::clone(&store);
    let uploads = worker.spawn(async move { upload_all(&uploading, receiver).await });
    for (sequence, first) in (0..).zip((0..pages).step_by(chunk_pages as usize)) {
        let numbers: Vec<u64> = (first..pages.min(first + chunk_pages)).collect();
        let mut bytes = vec![0; numbers.len() * page_bytes as usize];
        file.read_exact(&mut bytes).map_err(local("reading"))?;
        let id = ChunkId { base: 0, writer, sequence };
        map.insert(first, numbers.len() as u64, &Arc::new(Chunk::stored(id)), 0);
        let (sender, chunk) = (sender.clone(), (id, id.encode(&numbers, &bytes).into()));
        // Sent by the thread of stores: this one may be a runtime's, which may not wait for a channel.
        if !worker.run(async move { Ok(sender.send(chunk).await.is_ok()) })? {
            // An upload has failed, which is told below.
            break;
        }
    }
    drop(sender);
    let first =
        Manifest { number: 1, page_bytes: options.page_bytes, pages, file: identity, writer, commit, map };
    worker.run(async move {
        uploads.await.unwrap_or_else(|error| {
            Err(ObjectError::local("uploading a chunk", None, std::io::Error::other(error.to_string())))
        })?;
        create_first(&store, &first).await
    })?;
    Ok(pages)
}

async fn upload_all(
    store: &Arc<Store>,
    mut chunks: tokio::sync::mpsc::Receiver<(ChunkId, Bytes)>,
) -> Result<(), ObjectError> {
    let mut uploads = JoinSet::new();
    while let Some((id, bytes)) = chunks.recv().await {
        if uploads.len() >= UPLOADS_MAX {
            ended(uploads.join_next().await)?;
        }
        let store = Arc::clone(store);
        uploads.spawn(async move { store.put(&store.chunk(&id), bytes).await });
    }
    while !uploads.is_empty() {
        ended(uploads.join_next().await)?;
    }
    Ok(())
}

fn ended(upload: Option<Result<Result<(), ObjectError>, tokio::task::JoinError>>) -> Result<(), ObjectError> {
    upload.transpose().map_or_else(
        |error| Err(ObjectError::local("uploading a chunk", None, std::io::Error::other(error.to_string()))),
        |ended| ended.unwrap_or(Ok(())),
    )
}
