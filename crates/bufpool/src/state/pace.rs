//! When the background writer writes what. A state machine without lock, clock, thread or device: it is told
//! what happens, and says what to do.

use crate::io::run::RUNS_TOGETHER;

/// The most departures that are waited for to start a run; fewer in a small reserve.
pub(crate) const GATHERED_PAGES: usize = 64;
/// With this many runs in flight the device has enough to do until [`RUNS_TOGETHER`] more have gathered.
const SUPPLIED_RUNS: usize = 4;
/// The most pages of a batch that somebody waits for, and the fewest frames that a scan looks at.
pub(crate) const BATCH_PAGES: usize = 256;

/// What the background writer starts, what it lets gather, when it sleeps, and when it cleans ahead.
///
/// A *departure* is a page on its way out, in a frame that counts to the reserve. A *scan* looks for dirty
/// pages near the ledger's head, and cleans them ahead of their eviction. `run_pages_min` is a run worth
/// starting, and the device is *busy* while at least twice as many pages are in flight.
///
/// Rules; `check_invariants` asserts those that it can see in the fields, which are marked so:
///
/// 1. *Who waits leaves*: a departure counts as leaving from when it is announced until its frame is given
///    back, so `waiting <= leaving`. (checked)
/// 2. *A run, or an idle device*: departures are started when there are `run_pages_min` of them, or, with
///    [`SUPPLIED_RUNS`] runs in flight, [`RUNS_TOGETHER`] times as many; and at once while the device is not
///    busy. What is beyond whole runs stays, for neighbours that come after it.
/// 3. *Departures before scans*: a scan begins only while nothing leaves, or what leaves is held up, and the
///    device is not busy. A page that leaves is written without a copy, so while dirty ones leave one after
///    the other, being ahead of them gains nothing. While too many pages are dirty, a scan that has begun
///    goes on on a busy device.
/// 4. *The log rests*: departures that the log does not allow are held up, and start nothing until the writer
///    has slept for a limited time. It sleeps without a limit only when none are held up. (checked)
/// 5. *Victims ought to be clean*: `run_pages_min` departures since the last scan call for the next.
///    (checked)
/// 6. *The writer sees the end of its writes*: it sleeps only while nothing of its own is in flight.
///    (checked)
/// 7. *No wake-up is missed*: a writer that sleeps without a limit has no work, and one that waits for writes
///    has still to wait, or has been woken. (checked)
pub(crate) struct Pace {
    run_pages_min: usize,
    /// Departures in the queue.
    waiting: usize,
    /// Departures whose frames have not come back: announced, waiting, or being written.
    leaving: usize,
    /// Pages that the background writer is writing.
    in_flight: usize,
    departures_since_scan: usize,
    wants_scan: bool,
    /// The log did not allow the waiting departures to be written.
    is_held_up: bool,
    is_stopped: bool,
    writer: Activity,
}

/// What the background writer does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Activity {
    /// It is in a round.
    Works,
    /// It is in a round, and waits for writes or to be woken.
    WaitsForWrites(Until),
    /// It waits to be woken.
    Sleeps,
    /// It waits to be woken, for a limited time.
    SleepsBriefly,
    /// It has been woken from its sleep, has not started yet, or has ended.
    Awake,
}

/// What a writer with pages in flight waits for. Each of these waits also ends when nothing is in flight any
/// more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    /// There is more to start.
    MoreWork,
    /// No more than this many pages are in flight, or departures are worth starting.
    Room { in_flight_max: usize },
    /// Nothing is in flight.
    AllWritten,
}

/// What the writer does when nothing of its own is in flight.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Next {
    Round,
    /// Wait to be woken, and ask again.
    Sleep,
    /// As `Sleep`, for the time after which the log is worth asking again.
    SleepBriefly,
    Stop,
}

/// What the writer does at the end of a round.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum AfterRound {
    /// One more round.
    GoOn,
    /// Wait for writes until there is [`MoreWork`](Until::MoreWork), and ask again.
    Wait,
    /// Nothing is in flight.
    Over,
}

/// What follows a look at the pages near the ledger's head.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Scanned {
    Again,
    /// Once there is room in the reserve.
    AgainWithRoom,
    Over,
}

/// How far from the ledger's head a scan looks.
pub(crate) struct Scan {
    depth: usize,
    frames: usize,
}

impl Scan {
    /// Of a pool with `frames` frames.
    pub fn new(frames: usize) -> Self {
        Self { depth: (frames / 16).max(BATCH_PAGES), frames }
    }

    /// How many frames to look at.
    pub fn depth(&self) -> usize {
        self.depth
    }
}

impl Pace {
    /// For a pool with `reserve` frames in its clean reserve.
    pub fn new(reserve: usize) -> Self {
        Self {
            run_pages_min: (reserve / 8).clamp(1, GATHERED_PAGES),
            waiting: 0,
            leaving: 0,
            in_flight: 0,
            departures_since_scan: 0,
            wants_scan: false,
            is_held_up: false,
            is_stopped: false,
            writer: Activity::Awake,
        }
    }

    /// Pages count as departures until they have [`left`](Self::left).
    pub fn leave(&mut self, pages: usize) {
        self.leaving += pages;
    }

    /// Pages that leave wait for the writer. True if it is to be woken, as for all events.
    #[must_use]
    pub fn enqueued(&mut self, pages: usize) -> bool {
        self.waiting += pages;
        self.departures_since_scan += pages;
        // Rule 5.
        self.wants_scan |= self.departures_since_scan >= self.run_pages_min;
        self.has_work() && self.wake()
    }

    /// Waiting departures that the writer starts now, the oldest; they do not wait any more.
    pub fn start_gathered(&mut self) -> usize {
        if !self.has_gathered() {
            return 0;
        }
        // Rule 2.
        let stay = if self.waiting >= self.run_pages_min { self.waiting % self.run_pages_min } else { 0 };
        let start = self.waiting - stay;
        self.waiting -= start;
        start
    }

    /// Waiting departures are written by somebody else.
    pub fn taken(&mut self, pages: usize) {
        self.waiting -= pages;
    }

    /// Departures that were taken wait again, because the log does not allow them to be written yet.
    pub fn put_back(&mut self, pages: usize) {
        self.is_held_up = pages > 0;
        self.waiting += pages;
    }

    /// Departures have left, or could not be written.
    #[must_use]
    pub fn left(&mut self, pages: usize) -> bool {
        self.leaving -= pages;
        self.leaving == 0 && self.wants_scan && self.wake()
    }

    /// The writer hands pages to the device. True if it has no others there.
    pub fn begin(&mut self, pages: usize) -> bool {
        self.in_flight += pages;
        self.in_flight == pages
    }

    /// Pages are written, or could not be.
    #[must_use]
    pub fn end(&mut self, pages: usize) -> bool {
        self.in_flight -= pages;
        matches!(self.writer, Activity::WaitsForWrites(_)) && self.wake()
    }

    /// There may be pages worth cleaning ahead.
    #[must_use]
    pub fn kick(&mut self) -> bool {
        !std::mem::replace(&mut self.wants_scan, true) && self.wake()
    }

    /// The writer ends, once nothing of its own is in flight. What waits stays.
    #[must_use]
    pub fn stop(&mut self) -> bool {
        self.is_stopped = true;
        self.wake()
    }

    /// The writer has ended its rounds.
    pub fn rest(&mut self) {
        debug_assert_eq!(self.in_flight, 0, "Rule 6");
        self.writer = Activity::Awake;
    }

    /// What the writer does between rounds.
    pub fn next(&mut self) -> Next {
        let (next, writer) = if self.is_stopped {
            (Next::Stop, Activity::Awake)
        } else if self.has_work() {
            (Next::Round, Activity::Works)
        } else if std::mem::take(&mut self.is_held_up) {
            // Rule 4.
            (Next::SleepBriefly, Activity::SleepsBriefly)
        } else {
            (Next::Sleep, Activity::Sleeps)
        };
        self.writer = writer;
        next
    }

    /// What the writer does at the end of a round.
    pub fn after_round(&self) -> AfterRound {
        if self.in_flight == 0 {
            AfterRound::Over
        } else if self.must_wait(Until::MoreWork) {
            AfterRound::Wait
        } else {
            AfterRound::GoOn
        }
    }

    /// What to wait for until a quarter of what is in flight has given back its frames. None if nothing is in
    /// flight.
    pub fn room(&self) -> Option<Until> {
        (self.in_flight > 0).then_some(Until::Room { in_flight_max: self.in_flight * 3 / 4 })
    }

    /// Whether the writer has to go on waiting.
    pub fn must_wait(&self, until: Until) -> bool {
        self.in_flight > 0
            && match until {
                Until::MoreWork => !self.has_work() || self.is_stopped,
                Until::Room { in_flight_max } => {
                    self.in_flight > in_flight_max && !self.has_gathered() && !self.is_stopped
                }
                Until::AllWritten => true,
            }
    }

    /// The writer waits to be woken, if this is true; then [`waited`](Self::waited) ends the wait.
    pub fn wait(&mut self, until: Until) -> bool {
        let must_wait = self.must_wait(until);
        if must_wait {
            self.writer = Activity::WaitsForWrites(until);
        }
        must_wait
    }

    /// The writer goes on after a wait.
    pub fn waited(&mut self) {
        self.writer = Activity::Works;
    }

    /// Whether to scan now. A scan that has to wait is begun later.
    pub fn begin_scan(&mut self) -> bool {
        // Rule 3.
        if self.is_busy() || !self.may_clean() {
            return false;
        }
        self.departures_since_scan = 0;
        std::mem::take(&mut self.wants_scan)
    }

    /// A look at the pages near the ledger's head has found dirty ones and started writing some of them.
    /// `over_limit` says that too many pages of the pool were dirty.
    pub fn scanned(&mut self, scan: &mut Scan, found: usize, started: usize, over_limit: bool) -> Scanned {
        // Rule 3.
        let may = !self.is_stopped && self.may_clean() && (over_limit || !self.is_busy());
        if !may {
            self.wants_scan |= started > 0 || over_limit;
            return Scanned::Over;
        }
        // Farther from the head only where there is little to do near it: looking takes the policy lock.
        if over_limit && found < BATCH_PAGES && scan.depth < scan.frames {
            scan.depth = (scan.depth * 2).min(scan.frames);
            Scanned::Again
        } else if started > 0 {
            Scanned::Again
        } else if over_limit {
            Scanned::AgainWithRoom
        } else {
            Scanned::Over
        }
    }

    /// Departures wait, and are not held up.
    pub fn has_departures(&self) -> bool {
        self.waiting > 0 && !self.is_held_up
    }

    /// Whether pages are in flight that may give back frames of the reserve.
    pub fn is_writing(&self) -> bool {
        self.in_flight > 0
    }

    /// Whether there are departures whose frames have not come back.
    pub fn is_leaving(&self) -> bool {
        self.leaving > 0
    }

    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// The writer is in no round, and there is nothing to start.
    pub fn is_idle(&self) -> bool {
        let is_in_round = matches!(self.writer, Activity::Works | Activity::WaitsForWrites(_));
        !is_in_round && !self.wants_scan && !self.has_departures()
    }

    fn is_busy(&self) -> bool {
        self.in_flight >= 2 * self.run_pages_min
    }

    /// Departures are worth starting now, rather than when they have more neighbours.
    fn has_gathered(&self) -> bool {
        let is_supplied = self.in_flight >= SUPPLIED_RUNS * self.run_pages_min;
        let runs = if is_supplied { RUNS_TOGETHER } else { 1 };
        // Rule 2.
        self.has_departures() && (self.waiting >= runs * self.run_pages_min || !self.is_busy())
    }

    /// No dirty victims are to be written.
    fn may_clean(&self) -> bool {
        self.leaving == 0 || self.is_held_up
    }

    fn has_work(&self) -> bool {
        self.has_gathered() || self.wants_scan && !self.is_busy() && self.may_clean()
    }

    /// Ends the wait or sleep of the writer. False if it neither waits nor sleeps.
    fn wake(&mut self) -> bool {
        self.writer = match self.writer {
            Activity::Works | Activity::Awake => return false,
            Activity::WaitsForWrites(_) => Activity::Works,
            Activity::Sleeps | Activity::SleepsBriefly => Activity::Awake,
        };
        true
    }

    /// Panics if a rule is broken.
    #[cfg(all(test, not(bufpool_loom)))]
    pub fn check_invariants(&self) {
        assert!(self.run_pages_min > 0);
        assert!(self.waiting <= self.leaving, "Rule 1: {} wait, {} leave", self.waiting, self.leaving);
        let calls_for_scan = self.departures_since_scan >= self.run_pages_min;
        assert!(self.wants_scan || !calls_for_scan, "Rule 5: {} departures", self.departures_since_scan);
        match self.writer {
            Activity::Sleeps => {
                assert!(!self.is_held_up, "Rule 4");
                assert_eq!(self.in_flight, 0, "Rule 6");
                assert!(!self.has_work() && !self.is_stopped, "Rule 7");
            }
            Activity::SleepsBriefly => {
                assert_eq!(self.in_flight, 0, "Rule 6");
                assert!(!self.is_stopped, "Rule 7");
            }
            Activity::WaitsForWrites(until) => assert!(self.must_wait(until), "Rule 7: {until:?}"),
            Activity::Works | Activity::Awake => {}
        }
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests;
