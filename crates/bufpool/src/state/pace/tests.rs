//! Goal: each rule of [`Pace`] and each of its transitions, and no rule is broken by any sequence of events.
//! Method: events by hand, and at random with a naive count of what is where.

use proptest::prelude::*;

use super::*;

/// A run is two pages; the device is busy with four, supplied with eight.
fn pace() -> Pace {
    let pace = Pace::new(16);
    assert_eq!(pace.run_pages_min, 2);
    pace
}

/// A writer that sleeps and has nothing to do.
fn asleep() -> Pace {
    let mut pace = pace();
    pace.rest();
    assert_eq!(pace.next(), Next::Sleep);
    pace
}

/// A writer in a round with `pages` in flight.
fn writing(pages: usize) -> Pace {
    let mut pace = pace();
    pace.writer = Activity::Works;
    assert!(pace.begin(pages));
    pace
}

fn depart(pace: &mut Pace, pages: usize) -> bool {
    pace.leave(pages);
    let wakes = pace.enqueued(pages);
    pace.check_invariants();
    wakes
}

#[test]
fn a_run_is_an_eighth_of_the_reserve_within_bounds() {
    let run_pages_min = |reserve| Pace::new(reserve).run_pages_min;
    assert_eq!([0, 7, 15, 16, 511, 512, 9_999].map(run_pages_min), [1, 1, 1, 2, 63, 64, 64]);
}

#[test]
fn departures_start_at_once_while_the_device_is_not_busy() {
    let mut pace = asleep();
    assert!(depart(&mut pace, 1), "one page is enough for an idle device");
    assert_eq!((pace.next(), pace.start_gathered()), (Next::Round, 1));
    let mut pace = writing(3);
    assert!(!depart(&mut pace, 1), "the writer does not sleep");
    assert_eq!(pace.start_gathered(), 1);
}

#[test]
fn a_busy_device_gets_whole_runs_and_a_supplied_one_several() {
    let mut pace = writing(4);
    depart(&mut pace, 1);
    assert_eq!(pace.start_gathered(), 0, "less than a run");
    depart(&mut pace, 4);
    assert_eq!(pace.start_gathered(), 4, "what is beyond whole runs stays");
    assert!(!pace.begin(4));
    depart(&mut pace, 4);
    assert_eq!(pace.start_gathered(), 0, "five pages, and three runs are six");
    depart(&mut pace, 1);
    assert_eq!(pace.start_gathered(), 6);
    assert!(!pace.has_departures());
    pace.check_invariants();
}

#[test]
fn who_helps_takes_departures_from_the_queue() {
    let mut pace = asleep();
    assert!(depart(&mut pace, 3));
    pace.taken(3);
    assert!(pace.is_leaving() && !pace.has_departures());
    assert_eq!(pace.start_gathered(), 0);
    pace.rest();
    assert_eq!(pace.next(), Next::Sleep, "a scan waits for what leaves");
    pace.check_invariants();
    assert!(pace.left(3), "and begins after it");
    assert_eq!(pace.next(), Next::Round);
    assert!(pace.begin_scan());
}

#[test]
fn what_the_log_holds_up_is_tried_again_after_a_limited_sleep() {
    let mut pace = asleep();
    assert!(depart(&mut pace, 1));
    assert_eq!((pace.next(), pace.start_gathered()), (Next::Round, 1));
    pace.put_back(1);
    assert!(!pace.has_departures());
    assert_eq!(pace.start_gathered(), 0);
    pace.rest();
    assert!(pace.is_idle());
    assert_eq!(pace.next(), Next::SleepBriefly);
    pace.check_invariants();
    // The sleep is over: nobody had to wake the writer.
    assert_eq!((pace.next(), pace.start_gathered()), (Next::Round, 1));
    pace.put_back(0);
    assert!(pace.begin(1) && !pace.left(1) && !pace.end(1));
    pace.rest();
    assert_eq!(pace.next(), Next::Sleep);
    pace.check_invariants();
}

#[test]
fn what_is_held_up_does_not_keep_a_scan_from_beginning() {
    let mut pace = asleep();
    assert!(depart(&mut pace, 2));
    assert_eq!((pace.next(), pace.start_gathered()), (Next::Round, 2));
    assert!(!pace.begin_scan(), "departures come first");
    pace.put_back(2);
    assert!(pace.begin_scan());
    assert!(!pace.begin_scan(), "one scan for one call");
    pace.check_invariants();
}

#[test]
fn departures_call_for_a_scan_once_they_are_a_run() {
    let mut pace = writing(4);
    depart(&mut pace, 1);
    assert!(!pace.wants_scan);
    depart(&mut pace, 1);
    assert!(pace.wants_scan);
    assert_eq!(pace.start_gathered(), 2);
    assert!(!pace.left(2));
    assert!(!pace.begin_scan(), "the device is busy");
    assert!(!pace.end(4));
    assert!(pace.begin_scan());
    assert_eq!(pace.departures_since_scan, 0);
}

#[test]
fn a_kick_wakes_a_sleeping_writer_once() {
    let mut pace = asleep();
    assert!(pace.kick() && !pace.kick());
    assert!(!pace.is_idle());
    assert_eq!(pace.next(), Next::Round);
    assert!(pace.begin_scan());
    pace.rest();
    assert!(pace.is_idle());
    assert_eq!(pace.next(), Next::Sleep);
    // With departures on their way the kick waits for them.
    pace.leave(1);
    assert!(pace.kick());
    assert_eq!(pace.next(), Next::Sleep);
    pace.check_invariants();
    assert!(pace.left(1));
    assert_eq!(pace.next(), Next::Round);
}

#[test]
fn a_scan_ends_for_departures_and_is_made_up_for() {
    let (mut pace, mut scan) = (writing(1), Scan::new(1_000));
    assert_eq!(pace.scanned(&mut scan, 9, 9, false), Scanned::Again);
    assert_eq!(pace.scanned(&mut scan, 9, 0, false), Scanned::Over, "there is nothing to clean");
    assert!(!pace.wants_scan);
    depart(&mut pace, 1);
    assert_eq!(pace.scanned(&mut scan, 9, 0, false), Scanned::Over);
    assert!(!pace.wants_scan, "it has found nothing");
    assert_eq!(pace.scanned(&mut scan, 9, 1, false), Scanned::Over);
    assert!(std::mem::take(&mut pace.wants_scan), "it has found something");
    assert_eq!(pace.scanned(&mut scan, 0, 0, true), Scanned::Over);
    assert!(pace.wants_scan, "too many are dirty");
}

#[test]
fn a_busy_device_ends_a_scan_unless_too_many_pages_are_dirty() {
    let (mut pace, mut scan) = (writing(4), Scan::new(1_000));
    assert_eq!(pace.scanned(&mut scan, 300, 4, true), Scanned::Again);
    assert_eq!(pace.scanned(&mut scan, 300, 0, true), Scanned::AgainWithRoom);
    assert_eq!(pace.scanned(&mut scan, 300, 4, false), Scanned::Over);
    assert!(pace.wants_scan);
}

#[test]
fn a_scan_looks_farther_where_it_finds_little_and_too_many_are_dirty() {
    let (mut pace, mut scan) = (writing(1), Scan::new(1_000));
    assert_eq!((scan.depth(), Scan::new(16_000).depth()), (256, 1_000));
    for depth in [512, 1_000] {
        assert_eq!(pace.scanned(&mut scan, 255, 0, true), Scanned::Again);
        assert_eq!(scan.depth(), depth);
    }
    assert_eq!(pace.scanned(&mut scan, 255, 0, true), Scanned::AgainWithRoom, "there is no farther");
    let mut scan = Scan::new(1_000);
    assert_eq!(pace.scanned(&mut scan, 256, 1, true), Scanned::Again);
    assert_eq!(pace.scanned(&mut scan, 255, 1, false), Scanned::Again);
    assert_eq!(scan.depth(), 256);
}

#[test]
fn a_wait_for_room_ends_with_a_quarter_written_or_with_departures() {
    assert_eq!(pace().room(), None);
    let mut pace = writing(8);
    let room = pace.room().unwrap();
    assert_eq!(room, Until::Room { in_flight_max: 6 });
    assert!(pace.wait(room));
    assert!(pace.end(1), "each end wakes who waits for writes");
    pace.waited();
    assert!(pace.wait(room));
    assert!(pace.end(1));
    assert!(!pace.must_wait(room));
    let mut pace = writing(4);
    let room = pace.room().unwrap();
    assert!(pace.wait(room));
    assert!(!depart(&mut pace, 1), "less than a run");
    assert!(depart(&mut pace, 1));
    assert!(!pace.must_wait(room));
}

#[test]
fn rounds_go_on_while_there_is_more_to_start_and_end_with_the_writes() {
    let mut pace = writing(4);
    assert_eq!(pace.after_round(), AfterRound::Wait);
    assert!(pace.wait(Until::MoreWork));
    assert!(depart(&mut pace, 2));
    assert_eq!(pace.after_round(), AfterRound::GoOn);
    pace.taken(2);
    assert_eq!(pace.after_round(), AfterRound::Wait, "a miss was faster");
    assert!(!pace.left(2) && !pace.end(4), "nobody waits");
    assert_eq!(pace.after_round(), AfterRound::Over);
    assert!(!pace.must_wait(Until::AllWritten));
}

#[test]
fn a_stop_ends_every_wait_and_starts_nothing() {
    let mut pace = asleep();
    assert!(pace.stop());
    assert_eq!(pace.next(), Next::Stop);
    assert!(!depart(&mut pace, 5));
    assert_eq!(pace.next(), Next::Stop);
    let mut pace = writing(4);
    let room = pace.room().unwrap();
    assert!(pace.wait(room));
    assert!(pace.stop());
    assert!(!pace.must_wait(room));
    depart(&mut pace, 5);
    assert_eq!(pace.after_round(), AfterRound::Wait, "only what is in flight is waited for");
    let mut scan = Scan::new(1_000);
    assert_eq!(pace.scanned(&mut scan, 1, 1, true), Scanned::Over);
    assert!(!pace.end(4));
    assert_eq!(pace.after_round(), AfterRound::Over);
    pace.rest();
    assert_eq!(pace.next(), Next::Stop);
    pace.check_invariants();
}

/// Where pages are, and a writer that does what it is told, one step at a time.
struct World {
    pace: Pace,
    announced: usize,
    waiting: usize,
    /// Taken by those who help.
    helped: usize,
    /// In flight: runs, with how many of their pages leave.
    runs: Vec<(usize, bool)>,
    scan: Option<Scan>,
}

impl World {
    fn new(reserve: usize) -> Self {
        let mut pace = Pace::new(reserve);
        pace.rest();
        Self { pace, announced: 0, waiting: 0, helped: 0, runs: Vec::new(), scan: None }
    }

    fn launch(&mut self, pages: usize, leaves: bool) {
        if pages > 0 {
            assert_eq!(self.pace.begin(pages), self.runs.is_empty());
            self.runs.push((pages, leaves));
        }
    }

    /// The oldest run ends.
    fn end_run(&mut self) {
        if self.runs.is_empty() {
            return;
        }
        let (pages, leaves) = self.runs.remove(0);
        let _ = leaves && self.pace.left(pages);
        let _ = self.pace.end(pages);
    }

    /// The writer starts what it may, of which the log holds up some.
    fn start(&mut self, held_up: usize) {
        let start = self.pace.start_gathered();
        self.waiting -= start;
        let held_up = held_up.min(start);
        if start > 0 {
            self.pace.put_back(held_up);
            self.waiting += held_up;
        }
        self.launch(start - held_up, true);
    }

    /// The writer does the next thing, unless it sleeps.
    fn step(&mut self, pages: usize, held_up: usize, over_limit: bool) {
        match self.pace.writer {
            Activity::Sleeps | Activity::WaitsForWrites(_) => {}
            Activity::Awake | Activity::SleepsBriefly => {
                if self.pace.next() == Next::Round {
                    self.start(held_up);
                    self.scan = self.pace.begin_scan().then(|| Scan::new(1_000));
                }
            }
            Activity::Works => match self.scan.take() {
                Some(mut scan) => {
                    let before = self.runs.len();
                    self.launch(pages, false);
                    let started = if self.runs.len() > before { pages } else { 0 };
                    self.start(held_up);
                    match self.pace.scanned(&mut scan, pages, started, over_limit) {
                        Scanned::Over => {}
                        Scanned::AgainWithRoom
                            if self.pace.room().is_none_or(|until| self.pace.wait(until)) => {}
                        Scanned::Again | Scanned::AgainWithRoom => self.scan = Some(scan),
                    }
                }
                None => match self.pace.after_round() {
                    AfterRound::GoOn => {
                        self.start(held_up);
                        self.scan = self.pace.begin_scan().then(|| Scan::new(1_000));
                    }
                    AfterRound::Wait => assert!(self.pace.wait(Until::MoreWork)),
                    AfterRound::Over => self.pace.rest(),
                },
            },
        }
    }

    fn check(&self) {
        self.pace.check_invariants();
        let leaving: usize = self.runs.iter().filter(|(_, leaves)| *leaves).map(|(pages, _)| pages).sum();
        assert_eq!(self.pace.waiting, self.waiting);
        assert_eq!(self.pace.leaving, self.announced + self.waiting + self.helped + leaving);
        assert_eq!(self.pace.in_flight, self.runs.iter().map(|(pages, _)| pages).sum::<usize>());
    }
}

proptest! {
    #[test]
    fn no_sequence_of_events_breaks_a_rule(
        reserve in 0..80_usize,
        steps in proptest::collection::vec((0..12_u8, 0..12_usize, any::<bool>()), 1..400),
        stops in proptest::bool::weighted(0.2),
    ) {
        let mut world = World::new(reserve);
        for (step, pages, flag) in steps {
            match step {
                0 => {
                    world.pace.leave(pages);
                    world.announced += pages;
                }
                1 => {
                    let pages = pages.min(world.announced);
                    world.announced -= pages;
                    world.waiting += pages;
                    let _ = world.pace.enqueued(pages);
                }
                2 => {
                    let pages = pages.min(world.waiting);
                    world.pace.taken(pages);
                    world.waiting -= pages;
                    world.helped += pages;
                }
                3 => {
                    let pages = pages.min(world.helped);
                    world.helped -= pages;
                    let _ = world.pace.left(pages);
                }
                4 => {
                    let _ = world.pace.kick();
                }
                5..8 => world.end_run(),
                _ => world.step(pages, if flag { pages / 2 } else { 0 }, pages > 8),
            }
            world.check();
        }
        if stops {
            let _ = world.pace.stop();
        }
        // From here on everything goes well: all that leaves has left when the writer rests for good.
        let _ = world.pace.left(std::mem::take(&mut world.helped) + std::mem::take(&mut world.announced));
        world.check();
        for _ in 0..1_000 {
            world.step(0, 0, false);
            world.end_run();
            world.check();
        }
        prop_assert!(world.runs.is_empty());
        if stops {
            prop_assert_eq!(world.pace.next(), Next::Stop);
        } else {
            prop_assert!(world.pace.writer == Activity::Sleeps && world.pace.is_idle());
            prop_assert_eq!(world.pace.leaving, 0);
        }
    }
}
