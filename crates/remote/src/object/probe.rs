//! Whether a store keeps its word: of several conditional puts of one name, one succeeds.

use bytes::Bytes;
use futures_util::future::join_all;

use super::error::ObjectError;
use super::store::{Put, Store, random};

/// Conditional puts at the same time.
const PUTS: u8 = 8;

/// Tries conditional puts of a name that nobody else has. Says why the store cannot be written to, if it
/// cannot: without them two writers would overwrite each other's commits.
pub(super) async fn why_not_writable(store: &Store) -> Result<Option<String>, ObjectError> {
    let object = store.scratch("probe", random()?);
    let puts = (0..PUTS).map(|put| store.try_create(&object, contents(put)));
    let outcomes = join_all(puts).await;
    let why = judge(store, &object, &outcomes).await;
    // An object that is left harms nobody.
    let _ = store.delete(&object).await;
    why
}

fn contents(put: u8) -> Bytes {
    Bytes::copy_from_slice(&[put; 16])
}

async fn judge(
    store: &Store,
    object: &object_store::path::Path,
    outcomes: &[Result<Put, ObjectError>],
) -> Result<Option<String>, ObjectError> {
    let mut created = Vec::new();
    for (put, outcome) in (0..).zip(outcomes) {
        match outcome {
            Ok(Put::Created) => created.push(contents(put)),
            // Without an answer it may have been done or not.
            Ok(Put::Exists) | Err(ObjectError::TimedOut { .. }) => {}
            Err(ObjectError::Store { error, .. }) => match **error {
                object_store::Error::Generic { .. } => {}
                _ => return Ok(Some(format!("conditional puts are refused: {error}"))),
            },
            Err(other) => return Err(other.clone()),
        }
    }
    if created.len() > 1 {
        let (count, put) = (created.len(), outcomes.len());
        return Ok(Some(format!("of {put} conditional puts of one name {count} have succeeded")));
    }
    // If no put is known to have succeeded, one more shows whether one has: then the name is taken.
    if created.is_empty() {
        let last = Bytes::from_static(b"last");
        if matches!(store.try_create(object, last.clone()).await, Ok(Put::Created)) {
            created.push(last);
        }
    }
    match store.get(object).await {
        Ok(found) if created.first().is_none_or(|created| found == *created) => {}
        Ok(_) => return Ok(Some("a conditional put was refused, and has overwritten the object".into())),
        Err(error) if error.is_not_found() => {
            return Ok(Some(format!("a conditional put has left nothing that can be read: {error}")));
        }
        // A store that is out of reach now may still keep its word.
        Err(error) => return Err(error),
    }
    match store.try_create(object, Bytes::from_static(b"late")).await {
        Ok(Put::Created) => Ok(Some("a conditional put has overwritten an object".into())),
        _ => Ok(None),
    }
}
