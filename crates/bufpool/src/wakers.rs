//! Futures' wakers: lists of them, and the thread that runs them.
//!
//! A waker is code of an executor: it may use the pool, and it may panic. So no lock of a pool is held while
//! a waker is cloned, run or dropped. A poll clones it before it takes any lock. A future that gives up drops
//! it after its lock. Whatever ends a future's wait hands the waker to its pool's [`WakerThread`], for which
//! nothing of a pool waits; so latches may be let go of on any thread and under any lock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};

use bufpool_policies::contained;

use crate::owner::Owner;

/// A thread that runs wakers, at once or at a given time. One for each pool, started when a future of the
/// pool first waits.
pub(crate) struct WakerThread {
    shared: Arc<WakerQueue>,
}

struct WakerQueue {
    owner: Owner,
    state: Mutex<WakeSchedule>,
    /// A waker is due, there is an earlier alarm than before, or the thread is to end.
    changed: Condvar,
}

#[derive(Default)]
struct WakeSchedule {
    /// To be run now.
    due: Vec<PoolWaker>,
    /// To be run at a given time. The number tells alarms of the same moment apart.
    alarms: BTreeMap<(Instant, u64), PoolWaker>,
    /// Number of the latest alarm.
    serial: u64,
    /// How many [`PoolWaker`]s there are.
    adopted: usize,
    is_running: bool,
    /// The pool is gone. The thread ends when no waker is left that could be handed to it.
    stop: bool,
}

/// A waker of a future that waits for something in a pool.
///
/// Code that may hold locks, or run on a backend's thread, neither drops nor runs it, but hands it over.
pub(crate) struct PoolWaker {
    /// None once it is being run.
    waker: Option<Waker>,
    thread: Arc<WakerQueue>,
}

/// Wakes a future at a given time, unless the alarm is dropped before.
pub(crate) struct Alarm {
    shared: Arc<WakerQueue>,
    key: (Instant, u64),
}

/// Futures that wait at one place, each with a number of its own. Lies under the place's lock.
#[derive(Default)]
pub(crate) struct Wakers {
    waiting: Vec<(u64, PoolWaker)>,
}

impl WakerThread {
    /// For the pool of `owner`.
    pub fn new(owner: Owner) -> Self {
        Self { shared: Arc::new(WakerQueue { owner, state: Mutex::default(), changed: Condvar::new() }) }
    }

    /// A clone of `waker` that can be handed to this thread. The caller holds no lock.
    ///
    /// None if no thread can be had. The waker has then been run here, so that its future is polled again
    /// instead of waiting for ever.
    #[must_use]
    pub fn adopt(&self, waker: &Waker) -> Option<PoolWaker> {
        let waker = waker.clone();
        if self.shared.count_one_more() {
            return Some(PoolWaker { waker: Some(waker), thread: Arc::clone(&self.shared) });
        }
        waker.wake();
        None
    }

    /// Runs a clone of `waker` at time `at`, unless the alarm is dropped before. If no thread can be had,
    /// runs it now and returns None, as [`adopt`](Self::adopt) does.
    #[must_use]
    pub fn wake_at(&self, at: Instant, waker: &Waker) -> Option<Alarm> {
        let waker = self.adopt(waker)?;
        let mut state = self.shared.state.lock();
        state.serial += 1;
        let key = (at, state.serial);
        state.alarms.insert(key, waker);
        let is_first = state.alarms.first_key_value().is_some_and(|(first, _)| *first == key);
        drop(state);
        if is_first {
            self.shared.changed.notify_one();
        }
        Some(Alarm { shared: Arc::clone(&self.shared), key })
    }
}

impl Drop for WakerThread {
    /// Does not wait for the thread: it may be the one that drops the pool, in a waker, or be in a waker that
    /// waits for a lock that the thread dropping the pool holds.
    fn drop(&mut self) {
        self.shared.state.lock().stop = true;
        self.shared.changed.notify_one();
    }
}

impl WakerQueue {
    /// Counts one more waker, which the thread will be there for. False if no thread can be had.
    fn count_one_more(self: &Arc<Self>) -> bool {
        let mut state = self.state.lock();
        // Loom's wakers run where they are handed over.
        if !state.is_running && !cfg!(bufpool_loom) {
            let shared = Arc::clone(self);
            let thread = std::thread::Builder::new().name("bufpool-waker".into()).spawn(move || shared.run());
            if thread.is_err() {
                return false;
            }
            state.is_running = true;
        }
        state.adopted += 1;
        true
    }

    fn run(&self) {
        let mut batch = Vec::new();
        let mut state = self.state.lock();
        loop {
            std::mem::swap(&mut state.due, &mut batch);
            let now = Instant::now();
            while let Some(alarm) = state.alarms.first_entry()
                && alarm.key().0 <= now
            {
                batch.push(alarm.remove());
            }
            if !batch.is_empty() {
                MutexGuard::unlocked(&mut state, || batch.drain(..).for_each(PoolWaker::run));
                continue;
            }
            match state.alarms.first_key_value() {
                Some((&(at, _), _)) => drop(self.changed.wait_until(&mut state, at)),
                None if state.stop && state.adopted == 0 => return,
                None => self.changed.wait(&mut state),
            }
        }
    }
}

impl PoolWaker {
    /// Has the waker run by its pool's thread. Takes a leaf lock for a moment, so the caller may hold others.
    pub fn hand_over(self) {
        if cfg!(bufpool_loom) {
            return self.run();
        }
        // A child of a fork has inherited wakers of tasks that its threads do not drive.
        if !self.thread.owner.is_here() {
            return;
        }
        let thread = Arc::clone(&self.thread);
        thread.state.lock().due.push(self);
        thread.changed.notify_one();
    }

    fn run(mut self) {
        if let Some(waker) = self.waker.take() {
            contained(|| waker.wake());
        }
    }
}

impl Drop for PoolWaker {
    fn drop(&mut self) {
        if !self.thread.owner.is_here() {
            // The locks of the executor, and the thread's, may be held by threads that a forked child does
            // not have.
            std::mem::forget(self.waker.take());
            return;
        }
        if let Some(waker) = self.waker.take() {
            contained(|| drop(waker));
        }
        let mut state = self.thread.state.lock();
        state.adopted -= 1;
        if state.stop && state.adopted == 0 {
            self.thread.changed.notify_one();
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let waker = self.shared.state.lock().alarms.remove(&self.key);
        // Dropped after the lock, because dropping a waker runs code of its executor.
        drop(waker);
    }
}

impl Wakers {
    /// Future number `id` waits here. Returns the waker that it had here, which is dropped after the place's
    /// lock.
    #[must_use = "dropped after the place's lock"]
    pub fn park(&mut self, id: u64, waker: PoolWaker) -> Option<PoolWaker> {
        match self.waiting.iter_mut().find(|(other, _)| *other == id) {
            Some((_, known)) => Some(std::mem::replace(known, waker)),
            None => {
                self.waiting.push((id, waker));
                None
            }
        }
    }

    /// Future number `id` no longer waits. Returns the waker that it had here, which is dropped after the
    /// place's lock.
    #[must_use = "dropped after the place's lock"]
    pub fn unpark(&mut self, id: u64) -> Option<PoolWaker> {
        let at = self.waiting.iter().position(|(other, _)| *other == id)?;
        Some(self.waiting.swap_remove(at).1)
    }

    /// All who wait, and none from now on.
    #[must_use = "they wait"]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Wakes all, after the place's lock.
    pub fn hand_over(self) {
        self.waiting.into_iter().for_each(|(_, waker)| waker.hand_over());
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::mpsc::channel;
    use std::task::{Context, Wake};

    use super::*;
    use crate::files::word::OwnedWord;
    use crate::io::sim::SimDevice;
    use crate::page::latch::{Exclusive, Latch};
    use crate::{FileOptions, PoolOptions};

    struct Calls<F>(F);

    impl<F: Fn() + Send + Sync + 'static> Wake for Calls<F> {
        fn wake(self: Arc<Self>) {
            (self.0)();
        }
    }

    /// A claim that fails lets go of the latch that it tried, under the policy lock.
    #[test]
    fn a_waker_may_try_when_a_claim_has_failed() {
        let device = SimDevice::new(1);
        device.put("data", &[0; 60 * 4096]);
        let pool = PoolOptions::new().frames(32).page_bytes(4096).threads_max(8).open_on(&device).unwrap();
        let file = pool.open_file("data", FileOptions::new()).unwrap();
        let tenant = pool.default_tenant();
        drop(tenant.read(file.page(1)).unwrap());

        let (sender, woken) = channel();
        let waker = {
            let (tenant, file) = (tenant.clone(), file.clone());
            Waker::from(Arc::new(Calls(move || {
                let is_served = tenant.try_read(file.page(2)).is_ok();
                let _ = sender.send(is_served);
            })))
        };
        let mut future = tenant.read_async(file.page(1));
        let policy = pool.shared().policy.lock();
        let claimed = Latch::<_, Exclusive>::try_new(OwnedWord::new(Arc::clone(&file.shared), 1));
        let claimed = claimed.expect("the page is free");
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_pending());
        drop(claimed);
        drop(policy);
        assert_eq!(woken.recv(), Ok(true));
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_ready());
    }
}
