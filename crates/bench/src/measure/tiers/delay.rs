//! Tasks that are done after a fixed time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};

type Task = Box<dyn FnOnce() + Send>;

/// Does each task a fixed time after it is given, on a thread of its own, in the order in which tasks are
/// given. Dropping it drops the tasks that wait.
#[derive(Debug)]
pub struct Delay {
    by: Duration,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<(Instant, Task)>,
    is_over: bool,
}

impl Delay {
    /// A delay of `by`. Starts a thread.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn new(by: Duration) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let runner = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("delay".into());
        thread.spawn(move || runner.run()).context("a thread that delays answers")?;
        Ok(Self { by, shared })
    }

    /// Has `task` done when the time is over. Returns at once.
    pub fn run(&self, task: impl FnOnce() + Send + 'static) {
        let mut queue = self.shared.queue.lock();
        let was_empty = queue.tasks.is_empty();
        queue.tasks.push_back((Instant::now() + self.by, Box::new(task)));
        drop(queue);
        if was_empty {
            self.shared.changed.notify_one();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut queue = self.queue.lock();
        while !queue.is_over {
            match queue.tasks.front() {
                None => self.changed.wait(&mut queue),
                Some(&(due, _)) if due > Instant::now() => {
                    self.changed.wait_until(&mut queue, due);
                }
                Some(_) => {
                    let task = queue.tasks.pop_front();
                    MutexGuard::unlocked(&mut queue, || task.into_iter().for_each(|(_, task)| task()));
                }
            }
        }
        let rest = std::mem::take(&mut queue.tasks);
        drop(queue);
        drop(rest);
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        // Not joined: the last task may be what drops this.
        self.shared.queue.lock().is_over = true;
        self.shared.changed.notify_one();
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tasks", self.queue.lock().tasks.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn tasks_are_done_in_order_and_not_early() {
        let by = Duration::from_millis(2);
        let delay = Delay::new(by).unwrap();
        let (sender, done) = mpsc::channel();
        let begun = Instant::now();
        for number in 0..50 {
            let sender = sender.clone();
            delay.run(move || sender.send((number, begun.elapsed() >= by)).unwrap());
        }
        drop(sender);
        assert_eq!(
            done.into_iter().collect::<Vec<_>>(),
            (0..50).map(|number| (number, true)).collect::<Vec<_>>()
        );
    }
}
