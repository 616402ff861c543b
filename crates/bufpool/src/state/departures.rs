//! Dirty victims on their way out, and what the background writer has to do.

use std::thread::JoinHandle;

use bufpool_policies::FileId;
use parking_lot::{Condvar, Mutex};

use crate::files::word::OwnedWord;
use crate::io::run::RUNS_TOGETHER;
use crate::memory::lease::FrameLease;
use crate::page::latch::Departing;

/// Waiting victims that are worth starting however busy the device is, if the reserve has room for eight times as many.
pub(crate) const GATHERED_PAGES: usize = 64;
/// So many runs in flight are enough to do for the device until [`RUNS_TOGETHER`] more have gathered.
pub(crate) const SUPPLIED_RUNS: usize = 4;
/// Pages that are written together where somebody waits for a batch of them, and that the background writer looks at together.
pub(crate) const BATCH_PAGES: usize = 256;

/// A dirty victim in a frame that counts to the reserve from here on. Its word is held until it is written.
pub(crate) struct Departure {
    pub departing: Departing<OwnedWord>,
    pub lease: FrameLease,
}

impl Departure {
    /// What departures are sorted by.
    pub fn place(&self) -> (FileId, u64) {
        let word = self.departing.word();
        (word.file().id, word.number())
    }
}

/// What the background writer has to do.
pub(crate) struct WriteBack {
    pub queue: Mutex<Queue>,
    pub work: Condvar,
    /// The background writer has nothing to do; for tests.
    pub idle: Condvar,
    pub thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub departures: Vec<Departure>,
    /// So many departures are a run worth starting; with twice as many pages in flight the device is busy.
    pub worthwhile: usize,
    /// Departures whose frames have not come back yet: about to wait, waiting, or in flight.
    pub leaving: usize,
    /// Departures since the writer looked ahead.
    pub unforeseen: usize,
    pub look_ahead: bool,
    /// The log did not allow the departures to be written.
    pub is_held_up: bool,
    pub is_working: bool,
    /// Pages that the background writer has begun to write.
    pub in_flight: usize,
    /// It waits for them, and for nothing else.
    pub waits_for_writes: bool,
    pub stop: bool,
}

impl Queue {
    pub fn is_busy(&self) -> bool {
        self.in_flight >= 2 * self.worthwhile
    }

    /// Departures wait for the background writer.
    pub fn has_departures(&self) -> bool {
        !self.departures.is_empty() && !self.is_held_up
    }

    /// They are worth starting now, rather than when they have more neighbours.
    pub fn has_gathered(&self) -> bool {
        let runs = if self.in_flight >= SUPPLIED_RUNS * self.worthwhile { RUNS_TOGETHER } else { 1 };
        self.has_departures() && (self.departures.len() >= runs * self.worthwhile || !self.is_busy())
    }

    /// Pages may be cleaned ahead now: the device has little to do, and no dirty victims to write.
    pub fn may_look_ahead(&self) -> bool {
        !self.is_busy() && self.may_clean()
    }

    /// No dirty victims are to be written. They are cleaned by leaving, which takes no copy, so as long as they come one after the other there
    /// is nothing to gain by being ahead of them.
    pub fn may_clean(&self) -> bool {
        self.leaving == 0 || self.is_held_up
    }

    pub fn has_work(&self) -> bool {
        self.has_gathered() || self.look_ahead && self.may_look_ahead()
    }
}

impl WriteBack {
    /// For a pool with `reserve` frames in its clean reserve.
    pub fn new(reserve: usize) -> Self {
        let worthwhile = (reserve / 8).clamp(1, GATHERED_PAGES);
        Self {
            queue: Mutex::new(Queue { worthwhile, ..Queue::default() }),
            work: Condvar::new(),
            idle: Condvar::new(),
            thread: Mutex::new(None),
        }
    }

    /// A miss leaves a page to be written.
    pub fn enqueue(&self, departure: Departure) {
        let mut queue = self.queue.lock();
        queue.leaving += 1;
        self.add(&mut queue, [departure]);
    }

    /// As [`enqueue`](Self::enqueue), for pages that [`leave`](Self::leave) has counted.
    pub fn enqueue_leaving(&self, departures: Vec<Departure>) {
        self.add(&mut self.queue.lock(), departures);
    }

    pub fn add(&self, queue: &mut Queue, departures: impl IntoIterator<Item = Departure>) {
        let before = queue.departures.len();
        queue.departures.extend(departures);
        queue.unforeseen += queue.departures.len() - before;
        // Victims ought to be clean.
        queue.look_ahead |= queue.unforeseen >= queue.worthwhile;
        if queue.has_work() {
            self.work.notify_one();
        }
    }

    /// The background writer is about to hand pages to the device. True if it has no others there.
    pub fn begin(&self, pages: usize) -> bool {
        let mut queue = self.queue.lock();
        queue.in_flight += pages;
        queue.in_flight == pages
    }

    /// They are written, or could not be.
    pub fn end(&self, pages: usize) {
        let mut queue = self.queue.lock();
        queue.in_flight -= pages;
        if queue.waits_for_writes {
            self.work.notify_one();
        }
    }

    /// So many pages count as departures, until they have [`left`](Self::left): their frames are about to be the reserve's, or free.
    pub fn leave(&self, pages: usize) {
        self.queue.lock().leaving += pages;
    }

    /// Departures have left, and their frames have been given back, or could not.
    pub fn left(&self, departures: usize) {
        let mut queue = self.queue.lock();
        queue.leaving -= departures;
        if queue.leaving == 0 && queue.look_ahead {
            self.work.notify_one();
        }
    }

    /// Whether pages are in flight that may give back frames of the reserve.
    pub fn is_writing(&self) -> bool {
        self.queue.lock().in_flight > 0
    }

    /// Whether there are departures whose frames have not come back yet.
    pub fn is_leaving(&self) -> bool {
        self.queue.lock().leaving > 0
    }

    /// Puts back what the log does not allow to be written yet.
    pub fn hold_up(&self, departures: Vec<Departure>) {
        let mut queue = self.queue.lock();
        queue.is_held_up = !departures.is_empty();
        queue.departures.extend(departures);
    }

    /// There may be pages worth writing ahead of their eviction.
    pub fn kick(&self) {
        let mut queue = self.queue.lock();
        if !std::mem::replace(&mut queue.look_ahead, true) {
            self.work.notify_one();
        }
    }

    /// Ends the background writer, after the round it is in. Whatever is queued stays.
    pub fn stop(&self) {
        self.queue.lock().stop = true;
        self.work.notify_one();
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
        while queue.is_working || queue.look_ahead || !queue.departures.is_empty() && !queue.is_held_up {
            self.idle.wait(&mut queue);
        }
    }

    pub fn take_departures(&self) -> Vec<Departure> {
        std::mem::take(&mut self.queue.lock().departures)
    }

    /// Those that are worth starting. The latest stay, for neighbours that come after them, if there are enough others.
    pub fn take_gathered(&self) -> Vec<Departure> {
        let mut queue = self.queue.lock();
        if !queue.has_gathered() {
            return Vec::new();
        }
        let waiting = queue.departures.len();
        let stay = if waiting >= queue.worthwhile { waiting % queue.worthwhile } else { 0 };
        queue.departures.drain(..waiting - stay).collect()
    }

    /// At most `most` departures that `allows` lets pass.
    pub fn take_some(&self, most: usize, allows: impl Fn(&Departure) -> bool) -> Vec<Departure> {
        let mut queue = self.queue.lock();
        let allowed = queue.departures.extract_if(.., |departure| allows(departure));
        allowed.take(most).collect()
    }

    /// True if the writer may not look on now: it does so again, if it has found something, when it may. While too many pages are dirty a busy
    /// device is no reason to rest.
    pub fn postpone_look_ahead(&self, found_some: bool, over_limit: bool) -> bool {
        let mut queue = self.queue.lock();
        let may = !queue.stop && if over_limit { queue.may_clean() } else { queue.may_look_ahead() };
        queue.look_ahead |= !may && (found_some || over_limit);
        !may
    }

    /// Whether to look ahead now. Later if it may not now.
    pub fn take_look_ahead(&self) -> bool {
        let mut queue = self.queue.lock();
        if !queue.may_look_ahead() {
            return false;
        }
        queue.unforeseen = 0;
        std::mem::take(&mut queue.look_ahead)
    }
}
