//! How far ahead of the reader lists of disclosed reads fetch during a run.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use bufpool::Pool;

/// Time between two samples. A sample costs a call of [`Pool::stats`], tens of microseconds.
const INTERVAL: Duration = Duration::from_millis(10);

/// Does `work`, and samples the depths of the lists on another thread. Returns the result of `work` and, for
/// each sample at which a list was open, the time since the beginning and the depth of the deepest list, in
/// reads.
pub(super) fn watched<R>(pool: &Pool, work: impl FnOnce() -> R) -> (R, Vec<(Duration, u32)>) {
    let (over, is_over) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(move || {
            let (start, mut depths) = (Instant::now(), Vec::new());
            while is_over.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let stats = pool.stats();
                let deepest = stats.hints.iter().filter(|of| of.open > 0).map(|of| of.depth).max();
                depths.extend(deepest.map(|depth| (start.elapsed(), depth)));
            }
            depths
        });
        let done = work();
        drop(over);
        (done, watcher.join().expect("looking at statistics does not fail"))
    })
}
