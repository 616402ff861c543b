//! Dirty victims that wait for the background writer, and where it and others wait for each other. [`Pace`]
//! decides what it does, and when.
//!
//! The frame of a departure counts to the reserve, and its word is held until it is written.

use std::thread::JoinHandle;
use std::time::Duration;

use bufpool_policies::PageId;
use parking_lot::{Condvar, MappedMutexGuard, Mutex, MutexGuard};

use crate::state::departing::Departing;
use crate::state::pace::{Next, Pace, Until};

/// Pause before the background writer asks again a log that could not be advanced.
const LOG_RETRY: Duration = Duration::from_millis(10);

/// Pages that are wished to be written and wait for the background writer, at most.
const WISHED_MAX: usize = 1024;

/// What the background writer has to do.
pub(crate) struct WriteBack {
    queue: Mutex<Queue>,
    /// The background writer waits here.
    work: Condvar,
    /// The background writer has nothing to do; for tests.
    idle: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Queue {
    pace: Pace,
    /// Oldest first; their number is what `pace` counts as waiting.
    departures: Vec<Departing>,
    /// Pages that stay, and that programs wish to be written.
    wished: Vec<PageId>,
}

impl WriteBack {
    /// For a pool with `reserve` frames in its clean reserve.
    pub fn new(reserve: usize) -> Self {
        Self {
            queue: Mutex::new(Queue { pace: Pace::new(reserve), departures: Vec::new(), wished: Vec::new() }),
            work: Condvar::new(),
            idle: Condvar::new(),
            thread: Mutex::new(None),
        }
    }

    /// For questions, and for what wakes nobody and leaves the queue as it is.
    pub fn pace(&self) -> MappedMutexGuard<'_, Pace> {
        MutexGuard::map(self.queue.lock(), |queue| &mut queue.pace)
    }

    fn wake_if(&self, wakes: bool) {
        if wakes {
            self.work.notify_one();
        }
    }

    /// A miss leaves a page to be written.
    pub fn enqueue(&self, departure: Departing) {
        let mut queue = self.queue.lock();
        queue.pace.leave(1);
        queue.departures.push(departure);
        self.wake_if(queue.pace.enqueued(1));
    }

    /// As [`enqueue`](Self::enqueue), for pages that were counted when they began to [leave](Pace::leave).
    pub fn enqueue_leaving(&self, departures: Vec<Departing>) {
        let mut queue = self.queue.lock();
        let pages = departures.len();
        queue.departures.extend(departures);
        self.wake_if(queue.pace.enqueued(pages));
    }

    /// See [`Pace::put_back`].
    pub fn put_back(&self, departures: Vec<Departing>) {
        let mut queue = self.queue.lock();
        queue.pace.put_back(departures.len());
        queue.departures.extend(departures);
    }

    /// See [`Pace::left`]. The frames have been given back, or could not.
    pub fn left(&self, departures: usize) {
        let wakes = self.pace().left(departures);
        self.wake_if(wakes);
    }

    /// See [`Pace::end`].
    pub fn end(&self, pages: usize) {
        let wakes = self.pace().end(pages);
        self.wake_if(wakes);
    }

    /// A page is to be written though it stays. Forgotten if too many wait.
    pub fn wish(&self, page: PageId) {
        let mut queue = self.queue.lock();
        if queue.wished.len() < WISHED_MAX {
            queue.wished.push(page);
        }
        self.wake_if(queue.pace.kick());
    }

    /// The pages that are wished to be written.
    pub fn take_wished(&self) -> Vec<PageId> {
        std::mem::take(&mut self.queue.lock().wished)
    }

    /// See [`Pace::kick`].
    pub fn kick(&self) {
        let wakes = self.pace().kick();
        self.wake_if(wakes);
    }

    /// All departures that wait.
    pub fn take_all(&self) -> Vec<Departing> {
        self.take_some(usize::MAX, |_| true)
    }

    /// At most `most` departures that `allows` lets pass.
    pub fn take_some(&self, most: usize, allows: impl Fn(&Departing) -> bool) -> Vec<Departing> {
        let mut queue = self.queue.lock();
        let allowed = queue.departures.extract_if(.., |departure| allows(departure));
        let taken: Vec<_> = allowed.take(most).collect();
        queue.pace.taken(taken.len());
        taken
    }

    /// See [`Pace::start_gathered`].
    pub fn take_gathered(&self) -> Vec<Departing> {
        let mut queue = self.queue.lock();
        let start = queue.pace.start_gathered();
        queue.departures.drain(..start).collect()
    }

    /// The background writer is `thread`.
    pub fn run_by(&self, thread: JoinHandle<()>) {
        *self.thread.lock() = Some(thread);
    }

    /// The background writer, which has nothing in flight, waits until there is something to do. False if it
    /// has to stop.
    pub fn wait_for_work(&self) -> bool {
        let mut queue = self.queue.lock();
        queue.pace.rest();
        self.idle.notify_all();
        loop {
            match queue.pace.next() {
                Next::Round => return true,
                Next::Stop => return false,
                Next::Sleep => self.work.wait(&mut queue),
                Next::SleepBriefly => {
                    self.work.wait_for(&mut queue, LOG_RETRY);
                }
            }
        }
    }

    /// The background writer waits until it is woken, unless `until` is reached.
    pub fn wait_for_writes(&self, until: Until) {
        let mut queue = self.queue.lock();
        if queue.pace.wait(until) {
            self.work.wait(&mut queue);
            queue.pace.waited();
        }
    }

    /// Ends the background writer, after the round it is in. Whatever is queued stays.
    pub fn stop(&self) {
        let wakes = self.pace().stop();
        self.wake_if(wakes);
        let thread = self.thread.lock().take();
        // The writer may be the one that drops the pool's last handle.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }

    /// Waits until the background writer, if there is one, has nothing to do.
    pub fn wait_until_idle(&self) {
        if self.thread.lock().is_none() {
            return;
        }
        let mut queue = self.queue.lock();
        while !queue.pace.is_idle() {
            self.idle.wait(&mut queue);
        }
    }
}
