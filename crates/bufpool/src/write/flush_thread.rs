//! Flushes that the caller does not wait for, or not yet.
//!
//! A thread of the pool makes them, one after the other, and ends when there are none. Flushes of one file
//! that wait at the same time are one: it begins after all of them were asked for. In deterministic mode, and
//! where no thread is to be had, a flush is over when it is begun.

use std::sync::Arc;

use bufpool_policies::contained;

use crate::error::{Error, Result};
use crate::files::shared::FileShared;
use crate::landing::Landing;
use crate::state::flushes::FlushRequest;
use crate::state::shared::PoolShared;
use crate::write::checkpoint::Checkpoint;

/// Begins to flush the file.
pub(crate) fn begin(pool: &Arc<PoolShared>, file: &Arc<FileShared>) -> Arc<Landing<Result<()>>> {
    let (request, landing) = FlushRequest::new(Arc::clone(file));
    let checked = file.check_open("flush file");
    let refused = match checked {
        Ok(()) if !pool.is_immediate => pool.flushes.add(request, || spawn(pool)),
        _ => Some(request),
    };
    if let Some(request) = refused {
        let since = request.since;
        request.land(checked.and_then(|()| Checkpoint::of(pool).flush_file(file, since)));
    }
    landing
}

fn spawn(pool: &Arc<PoolShared>) -> Option<std::thread::JoinHandle<()>> {
    let weak = Arc::downgrade(pool);
    let work = move || {
        // The last handle of the pool waits for this thread before it goes.
        let Some(pool) = weak.upgrade() else { return };
        let flush_all = || {
            while let Some(requests) = pool.flushes.next() {
                let FlushRequest { file, since, .. } = &requests[0];
                let outcome = Checkpoint::of(&pool).flush_file(file, *since);
                requests.into_iter().for_each(|request| request.land(duplicate(&outcome)));
            }
        };
        if contained(flush_all).is_none() {
            pool.flushes.give_up();
        }
    };
    std::thread::Builder::new().name("bufpool-flush".into()).spawn(work).ok()
}

fn duplicate(outcome: &Result<()>) -> Result<()> {
    outcome.as_ref().map_err(Error::duplicate).copied()
}
