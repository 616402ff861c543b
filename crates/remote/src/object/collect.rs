//! Garbage collection: chunks that no kept manifest has, and the contents of manifests that nobody needs.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use object_store::ObjectMeta;

use super::chunk::ChunkId;
use super::error::ObjectError;
use super::history;
use super::store::{Store, random};

/// What a collection has removed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Collected {
    /// Chunks removed.
    pub chunks: u64,
    /// Bytes that they had.
    pub chunk_bytes: u64,
    /// Manifests emptied.
    pub manifests: u64,
}

/// A manifest in a listing.
struct Listed {
    number: u64,
    meta: ObjectMeta,
}

/// See [`ObjectSource::collect_garbage`](super::ObjectSource::collect_garbage).
pub(super) async fn collect(store: &Store, grace: Duration) -> Result<Collected, ObjectError> {
    let manifests = list_manifests(store).await?;
    let Some(newest) = manifests.last().map(|listed| listed.number) else { return Ok(Collected::default()) };
    let is_old = clock(store, grace).await?;
    let (kept, dropped): (Vec<_>, Vec<_>) = (0..manifests.len()).partition(|&index| {
        // A manifest is kept that has no successor, or a young one.
        manifests.get(index + 1).is_none_or(|next| !is_old(&next.meta))
    });
    let mut wanted = HashSet::new();
    for index in kept {
        let Listed { number, .. } = manifests[index];
        if let Some(manifest) = history::read(store, number).await? {
            wanted.extend(manifest.map.iter().filter_map(|(_, extent)| extent.chunk.id()));
        } else if number == newest {
            return Err(ObjectError::corrupt(store.manifest(number), None, "the newest manifest is empty"));
        }
    }
    let mut collected = Collected::default();
    for meta in store.list("chunk").await? {
        let id = meta.location.filename().and_then(ChunkId::parse);
        // Others may be of a file whose place lies within this one's.
        let Some(id) = id.filter(|id| meta.location == store.chunk(id)) else { continue };
        // Its writer may commit manifest `base + 1`, or nothing.
        if id.base < newest && !wanted.contains(&id) && is_old(&meta) {
            store.delete(&meta.location).await?;
            collected.chunks += 1;
            collected.chunk_bytes += meta.size;
        }
    }
    // After their chunks, and in order: an empty one says that all before it are.
    for index in dropped {
        if manifests[index].meta.size > 0 {
            store.put(&manifests[index].meta.location, Bytes::new()).await?;
            collected.manifests += 1;
        }
    }
    Ok(collected)
}

/// All manifests, in order. Objects of other names among them are not the file's.
async fn list_manifests(store: &Store) -> Result<Vec<Listed>, ObjectError> {
    let listed = store.list("manifest").await?.into_iter().filter_map(|meta| {
        let number = u64::from_str_radix(meta.location.filename()?, 16).ok()?;
        (meta.location == store.manifest(number)).then_some(Listed { number, meta })
    });
    let mut listed: Vec<_> = listed.collect();
    listed.sort_unstable_by_key(|listed| listed.number);
    Ok(listed)
}

/// Tells what is older than `grace` by the store's clock, which is read from the time of a new object.
async fn clock(store: &Store, grace: Duration) -> Result<impl Fn(&ObjectMeta) -> bool, ObjectError> {
    let object = store.scratch("clock", random()?);
    store.put(&object, Bytes::from_static(b"now")).await?;
    let now = store.look(&object).await?.map(|meta| meta.last_modified);
    store.delete(&object).await?;
    let now = now.ok_or_else(|| ObjectError::corrupt(object, None, "it is gone just after it was put"))?;
    Ok(move |meta: &ObjectMeta| {
        let age = now.signed_duration_since(meta.last_modified);
        age.to_std().is_ok_and(|age| age >= grace)
    })
}
