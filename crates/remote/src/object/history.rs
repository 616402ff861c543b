//! The manifests of a file: the newest is found, read, and followed by the next.

use bytes::Bytes;

use super::error::ObjectError;
use super::manifest::Manifest;
use super::store::{Put, Store};

/// How often the newest manifest is looked for, if others empty it meanwhile or the store does not have it
/// after all.
const TRIES_MAX: u32 = 8;

/// Number of the newest manifest; manifest `known` is known to be there. Numbers have no gaps, so about
/// twice the binary logarithm of the distance between the two are looked up.
pub(super) async fn newest_number(store: &Store, known: u64) -> Result<u64, ObjectError> {
    let is_there = async |number| store.look(&store.manifest(number)).await.map(|found| found.is_some());
    let (mut there, mut step) = (known, 1_u64);
    while is_there(there + step).await? {
        there += step;
        step *= 2;
    }
    let mut missing = there + step;
    while missing - there > 1 {
        let middle = there + (missing - there) / 2;
        if is_there(middle).await? {
            there = middle;
        } else {
            missing = middle;
        }
    }
    Ok(there)
}

/// The newest manifest. Manifest `known` has been there before, or is 1: then there may be no file.
pub(super) async fn newest(store: &Store, known: u64) -> Result<Manifest, ObjectError> {
    let first = store.manifest(known);
    if store.look(&first).await?.is_none() {
        return Err(ObjectError::NoFile { object: first.to_string() });
    }
    let mut number = known;
    for _ in 0..TRIES_MAX {
        number = newest_number(store, number).await?;
        if let Some(manifest) = read(store, number).await? {
            return Ok(manifest);
        }
    }
    Err(ObjectError::corrupt(store.manifest(number), None, "the newest manifest is empty"))
}

/// Manifest `number`. None if it has been emptied.
pub(super) async fn read(store: &Store, number: u64) -> Result<Option<Manifest>, ObjectError> {
    let object = store.manifest(number);
    let bytes = store.get(&object).await?;
    if bytes.is_empty() { Ok(None) } else { Manifest::decode(&bytes, number, object.as_ref()).map(Some) }
}

/// Makes `manifest` the next one, unless another one has its number.
///
/// An answer may be lost, and then the call is repeated, by this crate or by the store's client. So a
/// manifest that is there already is read, and known again by the random number of the commit.
pub(super) async fn commit(store: &Store, manifest: &Manifest) -> Result<(), ObjectError> {
    let object = store.manifest(manifest.number);
    let bytes = Bytes::from(manifest.encode());
    let mut outcome = store.create(&object, bytes.clone()).await;
    for _ in 0..TRIES_MAX {
        match outcome {
            Ok(Put::Created) => return Ok(()),
            Ok(Put::Exists) | Err(ObjectError::Store { .. } | ObjectError::TimedOut { .. }) => {}
            Err(other) => return Err(other),
        }
        match read(store, manifest.number).await {
            Ok(Some(found)) if found.commit == manifest.commit => return Ok(()),
            Ok(found) => {
                let writer = found.map(|found| found.writer);
                return Err(ObjectError::Superseded { manifest: object.to_string(), writer });
            }
            // Nobody has committed: the put has failed, or not arrived.
            Err(error) if error.is_not_found() => {
                if outcome.is_err() {
                    return outcome.map(drop);
                }
            }
            Err(error) => return Err(error),
        }
        outcome = store.create(&object, bytes.clone()).await;
    }
    Err(ObjectError::corrupt(object, None, "the store says that it exists, and does not have it"))
}
