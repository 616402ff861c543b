//! Wakes futures that wait for something with a limit. One thread a pool, started when it is first needed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Timer {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is an earlier entry than before, or the end has come.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<(Instant, u64), Waker>,
    /// Tells entries of the same moment apart.
    serial: u64,
    thread: Option<JoinHandle<()>>,
    stop: bool,
}

/// An entry; dropping it takes it back.
pub(crate) struct Alarm {
    shared: Arc<Shared>,
    key: (Instant, u64),
}

impl Timer {
    /// Wakes `waker` at a time, unless the alarm is dropped before. Without a thread to be had, at once.
    pub fn wake_at(&self, at: Instant, waker: &Waker) -> Alarm {
        let mut state = self.shared.state.lock();
        state.serial += 1;
        let key = (at, state.serial);
        let is_first = state.entries.first_key_value().is_none_or(|(first, _)| key < *first);
        state.entries.insert(key, waker.clone());
        if state.thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("bufpool-timer".into()).spawn(move || shared.run());
            state.thread = thread.ok();
            if state.thread.is_none() {
                waker.wake_by_ref();
            }
        } else if is_first {
            self.shared.changed.notify_one();
        }
        Alarm { shared: Arc::clone(&self.shared), key }
    }
}

impl Shared {
    fn run(&self) {
        let mut state = self.state.lock();
        while !state.stop {
            let Some((&(at, serial), _)) = state.entries.first_key_value() else {
                self.changed.wait(&mut state);
                continue;
            };
            if Instant::now() < at {
                self.changed.wait_until(&mut state, at);
                continue;
            }
            if let Some(waker) = state.entries.remove(&(at, serial)) {
                parking_lot::MutexGuard::unlocked(&mut state, || waker.wake());
            }
        }
    }
}

impl Drop for Timer {
    /// The timer's own thread may be the one that lets go of the pool, in a waker.
    fn drop(&mut self) {
        let thread = {
            let mut state = self.shared.state.lock();
            state.stop = true;
            state.thread.take()
        };
        self.shared.changed.notify_one();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // Outside the lock: a waker's drop is its executor's code.
        let waker = self.shared.state.lock().entries.remove(&self.key);
        drop(waker);
    }
}
