//! How far ahead lists of disclosed reads look during a run.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use bufpool::Pool;

/// Between two looks. Each costs what [`Pool::stats`] costs, tens of microseconds.
const INTERVAL: Duration = Duration::from_millis(10);

/// Does `work` and looks at the lists meanwhile. Returns the time since the beginning of each look in which a
/// list was open, and the depth of the deepest one.
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
