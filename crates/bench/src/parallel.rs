//! Independent tasks on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does `task` for each number below `tasks` on at most `jobs` threads, of which the calling thread is one.
/// Returns the results in the order of the numbers, whatever the number of threads. Blocks until all are
/// done.
///
/// # Panics
///
/// If a task panics.
pub fn map<T: Send>(tasks: usize, jobs: usize, task: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<T>>> = (0..tasks).map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            // Only the number itself is shared, so no order with other memory is needed.
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(result) = results.get(number) else { break };
            *result.lock().expect("one task a result") = Some(task(number));
        }
    };
    thread::scope(|scope| {
        for _ in 1..jobs.min(tasks) {
            scope.spawn(work);
        }
        work();
    });
    let done = |result: Mutex<Option<T>>| {
        result.into_inner().expect("no task panicked").expect("every task was done")
    };
    results.into_iter().map(done).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_in_order_whatever_the_number_of_threads() {
        for jobs in [1, 2, 7, 100] {
            assert_eq!(
                super::map(50, jobs, |number| number * number),
                (0..50).map(|n| n * n).collect::<Vec<_>>()
            );
        }
        assert!(super::map(0, 4, |number| number).is_empty());
    }
}
