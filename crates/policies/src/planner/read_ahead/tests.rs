use std::collections::BTreeMap;
use std::ops::Range;

use super::head::{CREDIT_PAGE, WINDOW_FIRST, WINDOW_STRIDED};
use super::positions::{HEADS, IDLE, REACH};
use super::*;
use crate::ids::{ContextId, FileId, PageId, TenantId};

const KEY: StreamKey = StreamKey { tenant: TenantId(1), context: ContextId(2), file: FileId(3) };
const PAGES: u64 = 100_000;
const BOUNDS: Bounds = Bounds { pages: PAGES, limit: u64::MAX };

fn access(number: u64) -> Access {
    let StreamKey { tenant, context, file } = KEY;
    Access { tenant, context, file, page: PageId::in_file(file, number), creates: false }
}

fn read_ahead(page_bytes: usize) -> ReadAhead {
    ReadAhead::new(page_bytes, ((256 << 10) / page_bytes).max(1))
}

/// A pool without limits on what is ahead, whose pages leave in the order of their last use.
struct Pool {
    streams: ReadAhead,
    frames: usize,
    bounds: Bounds,
    clock: u64,
    /// Pages by their last use, and whether they were used since they came in.
    resident: BTreeMap<u64, (u64, bool)>,
    ages: BTreeMap<u64, u64>,
    missed: Vec<u64>,
    brought: u64,
    unused: u64,
}

impl Pool {
    fn new(page_bytes: usize, frames: usize) -> Self {
        let streams = read_ahead(page_bytes);
        let (resident, ages) = (BTreeMap::new(), BTreeMap::new());
        let (missed, bounds) = (Vec::new(), BOUNDS);
        Self { streams, frames, bounds, clock: 0, resident, ages, missed, brought: 0, unused: 0 }
    }

    fn place(&mut self, number: u64, is_used: bool) {
        if let Some((age, _)) = self.resident.insert(number, (self.clock, is_used)) {
            self.ages.remove(&age);
        }
        self.ages.insert(self.clock, number);
        self.clock += 1;
        if self.resident.len() > self.frames {
            let (_, leaves) = self.ages.pop_first().unwrap();
            self.unused += u64::from(!self.resident.remove(&leaves).unwrap().1);
        }
    }

    fn read(&mut self, number: u64) {
        let before = self.resident.get(&number).map(|(_, is_used)| *is_used);
        self.place(number, true);
        let seen = match before {
            Some(true) => return,
            Some(false) => Seen::FoundAhead,
            None => Seen::Missed,
        };
        if seen == Seen::Missed {
            self.missed.push(number);
        }
        self.streams.table[slot_of(&KEY)].positions.check(number, seen);
        let Some(pages) = plan_for(&mut self.streams, number, seen, self.bounds) else { return };
        assert!(pages.numbers().all(|number| number < PAGES));
        let absent: Vec<u64> = pages.numbers().filter(|page| !self.resident.contains_key(page)).collect();
        absent.iter().for_each(|page| self.place(*page, false));
        self.brought += absent.len() as u64;
        self.streams.carried_out(&Plan { key: KEY, pages }, absent.len() as u64, None);
    }

    fn read_all(&mut self, numbers: impl IntoIterator<Item = u64>) -> usize {
        let before = self.missed.len();
        numbers.into_iter().for_each(|number| self.read(number));
        self.missed.len() - before
    }
}

/// What an access makes the planner want.
fn plan_for(streams: &mut ReadAhead, number: u64, seen: Seen, bounds: Bounds) -> Option<Stretch> {
    streams.advise(KEY, number, seen, bounds);
    streams.plans.pop().map(|plan| plan.pages)
}

/// Lets a reader access `numbers` in a pool that is larger than the file. Returns the pages read ahead,
/// and those that were missed.
fn read(page_bytes: usize, numbers: impl IntoIterator<Item = u64>) -> (u64, Vec<u64>, StreamCounts) {
    let mut pool = Pool::new(page_bytes, PAGES as usize);
    pool.read_all(numbers);
    (pool.brought, pool.missed, pool.streams.counts)
}

fn random_pages(pages: u64) -> impl Iterator<Item = u64> {
    let mut state = 1_u64;
    std::iter::repeat_with(move || {
        state = mix64(state.wrapping_add(0x9e37_79b9));
        state % pages
    })
}

#[test]
fn a_scan_misses_its_first_pages_only() {
    for page_bytes in [512, 4096, 8192, 1 << 20] {
        let streams = read_ahead(page_bytes);
        let (ahead, missed, counts) = read(page_bytes, 0..5000);
        assert_eq!(missed, [0, 1, 2], "{page_bytes}");
        assert!(ahead <= 4997 + streams.window_max + streams.run_pages, "{page_bytes}");
        assert_eq!(counts, StreamCounts { opened: 1, wasteful: 0 });
    }
}

#[test]
fn plans_of_a_long_scan_are_whole_transfers() {
    for (waits, transfers) in [(false, 2), (true, 9)] {
        let mut streams = read_ahead(8192);
        let mut plans = Vec::new();
        for number in 0..2000 {
            if waits && number % 32 == 0 {
                streams.awaited(&access(number));
            }
            plans.extend(plan_for(&mut streams, number, Seen::FoundAhead, BOUNDS));
        }
        let long = &plans[plans.len() - 20..];
        assert!(long.iter().all(|plan| plan.first % 32 == 0 && plan.count % 32 == 0), "{long:?}");
        let last = plans.last().unwrap();
        let ahead = last.first + last.count - 1999;
        assert!(((transfers - 1) * 32..=transfers * 32 + 1).contains(&ahead), "{last:?}");
    }
}

/// One wait makes the window twice as long, once that many pages were used.
#[test]
fn a_window_follows_the_waits_of_its_reader() {
    let mut streams = read_ahead(8192);
    let mut windows = Vec::new();
    for number in 0..2000 {
        if number == 1000 || number == 1500 {
            streams.awaited(&access(number));
        }
        plan_for(&mut streams, number, Seen::FoundAhead, BOUNDS);
        let head = streams.table[slot_of(&KEY)].positions.head(0);
        assert!(head.window <= WINDOW_FIRST.max(2 * head.used), "{number}");
        windows.push(head.window);
    }
    windows.dedup();
    assert_eq!(windows, [0, 4, 8, 16, 32, 64, 128, 256]);
}

/// A run that breaks off has wasted no more than twice what was used of it, and the first windows.
#[test]
fn a_run_that_breaks_off_wastes_at_most_twice_its_length() {
    for length in 4..400 {
        let mut pool = Pool::new(8192, PAGES as usize);
        pool.read_all(0..length);
        let used = length - pool.missed.len() as u64;
        let wasted = pool.brought - used;
        assert!(wasted <= 2 * used.max(WINDOW_FIRST), "length {length}: {wasted}");
    }
}

#[test]
fn strides_and_backward_scans_are_followed() {
    for step in [2_i64, 7, 100, -1, -3] {
        let first = if step < 0 { 60_000_u64 } else { 50 };
        let (ahead, missed, _) = read(8192, (0..500).map(|at| first.wrapping_add_signed(at * step)));
        assert_eq!(missed.len(), 4, "step {step}: {missed:?}");
        assert!(ahead as usize <= 500 + WINDOW_BYTES / 8192, "step {step}");
    }
}

#[test]
fn a_scan_ends_with_the_file() {
    let (ahead, missed, _) = read(4096, PAGES - 1000..PAGES);
    assert_eq!((ahead, missed.len()), (997, 3));
    let (ahead, missed, _) = read(4096, (0..1000).rev());
    assert_eq!((ahead, missed.len()), (996, 4));
}

#[test]
fn random_accesses_bring_next_to_nothing() {
    let mut pool = Pool::new(8192, 200);
    pool.read_all(random_pages(2000).take(20_000));
    assert!(pool.brought < 100, "{} of 20,000", pool.brought);
}

#[test]
fn several_readers_share_a_context() {
    let numbers = (0..2000).flat_map(|at| [at, 20_000 + at, 40_000 + at, 60_000 + at]);
    let (_, missed, _) = read(8192, numbers);
    assert_eq!(missed.len(), 4 * 3);
}

#[test]
fn readers_that_take_turns_by_chunks_share_a_position() {
    let chunk = |first: u64| (0..16).flat_map(move |at| [first + at, first + 16 + at]);
    let (_, missed, _) = read(8192, (0..3200).step_by(32).flat_map(chunk));
    assert!(missed.len() <= 32, "{missed:?}");
}

/// Every `gap` leaves of a file that is larger than the pool have an inner page somewhere, for eight
/// rounds.
#[test]
fn inner_pages_do_not_end_a_scan() {
    const PAGES_READ: u64 = 4000;
    type Inner = fn(u64, u64) -> Vec<u64>;
    let ways: [(&str, Inner); 6] = [
        ("skipped", |first, gap| (first + 1..first + gap).collect()),
        ("first", |first, gap| (first..first + gap).collect()),
        ("last page first", |first, gap| {
            std::iter::once(first + gap - 1).chain(first..first + gap - 1).collect()
        }),
        ("first page last", |first, gap| (first + 1..first + gap).chain([first]).collect()),
        ("at the end", |first, gap| {
            std::iter::once(90_000 + first / gap % 50).chain(first..first + gap).collect()
        }),
        ("anywhere", |first, gap| {
            std::iter::once(mix64(first) % PAGES_READ).chain(first..first + gap).collect()
        }),
    ];
    for gap in [10, 20, 50, 70, 200] {
        for (name, inner) in ways {
            let mut pool = Pool::new(8192, 800);
            for round in 0..8 {
                let missed =
                    pool.read_all((0..PAGES_READ).step_by(gap as usize).flat_map(|at| inner(at, gap)));
                // A page that lies anywhere is missed, and the leaf there when it is that page's turn has
                // been read.
                let strays =
                    if matches!(name, "anywhere" | "at the end") { (PAGES_READ / gap) as usize } else { 0 };
                assert!(missed <= 20 + strays * 11 / 10, "gap {gap}, {name}, round {round}: {missed} missed");
            }
        }
    }
}

#[test]
fn a_stream_that_keeps_breaking_off_wastes_a_bounded_share() {
    for length in [3, 4, 6, 10, 40] {
        let mut pool = Pool::new(8192, 2000);
        let first_credits = pool.streams.window_max + WINDOW_STRIDED;
        let runs = 20_000 / length;
        let mut read = 0;
        for run in 0..runs {
            let first = run * 2000 % (PAGES - length) + run * length % 2000;
            pool.read_all(first..first + length);
            read += length;
            let wasted = pool.unused;
            let used = pool.brought - wasted;
            // On trial, a run has at most all of its pages but three judged as used.
            let would_be_used = (run + 1) * length.saturating_sub(3);
            assert!(
                wasted <= first_credits + (read * 17 / 128 + used / 4).min(used.max(would_be_used) / 4),
                "length {length}: {wasted} of {read}"
            );
        }
        assert!(pool.brought > 0);
    }
}

/// What a stream may waste before it is known follows what its tenant may have ahead.
#[test]
fn a_stream_that_keeps_breaking_off_wastes_less_in_a_small_pool() {
    const LIMIT: u64 = 16;
    let mut pool = Pool::new(8192, 200);
    pool.bounds.limit = LIMIT;
    assert!(pool.streams.window_max > 10 * LIMIT);
    let runs = 200;
    for run in 0..runs {
        let first = run * 400;
        pool.read_all(first..first + 3);
    }
    let first_credits = 2 * LIMIT;
    assert!(pool.unused <= first_credits + 3 * runs * 17 / 128, "{} unused", pool.unused);
    assert!(pool.brought > 0);
}

/// As lookups do that follow the order in which pages were made, some of them in between: on from page to
/// page, and five of six passed over. What would be used of what is ahead does not pay for the rest.
#[test]
fn positions_that_pass_most_pages_over_are_not_read_ahead() {
    let mut pool = Pool::new(8192, 2000);
    let mut gaps = random_pages(11).map(|gap| gap + 1);
    let mut next = 0;
    for _ in 0..200 {
        // A position is believed, and followed for a while.
        let begin = next..next + 3;
        next += 3;
        pool.read_all(begin);
        for _ in 0..20 {
            next += gaps.next().unwrap();
            pool.read_all([next]);
        }
        next += 40;
    }
    let first_credits = pool.streams.window_max + WINDOW_STRIDED;
    let used = pool.brought - pool.unused;
    assert!(pool.unused <= first_credits + used / 4, "{} unused, {used} used", pool.unused);
    assert!(pool.brought > 0);
}

/// As a join does that scans one table and looks rows of another up in an order that repeats its distance
/// a few times.
#[test]
fn a_scan_does_not_pay_for_strides_beside_it() {
    let lookup = |at: u64| 10_000 + (at / 5 * 7919 + at % 5 * 100) % 80_000;
    let mut pool = Pool::new(8192, 2000);
    let read = 2 * 8000;
    pool.read_all((0..8000).flat_map(|at| [at, lookup(at)]));
    let wasted = pool.unused;
    assert!((1..=WINDOW_STRIDED + read / 128 + pool.streams.window_max).contains(&wasted), "{wasted}");
}

/// As a join that scans one table slowly, and looks others up all the time.
#[test]
fn what_is_ahead_of_a_slow_scan_does_not_leave_before_its_use() {
    let mut pool = Pool::new(8192, 300);
    pool.bounds.limit = 96;
    let lookups: Vec<u64> = random_pages(80_000).take(3 * 1000).collect();
    pool.read_all((0..1000).flat_map(|page| {
        let beside = &lookups[page * 3..][..3];
        std::iter::once(page as u64).chain(beside.iter().map(|number| 10_000 + number))
    }));
    let missed = pool.missed.iter().filter(|number| **number < 10_000).count();
    assert!(missed < 10, "{missed} missed");
    assert!(pool.unused < 50, "{} unused", pool.unused);
}

#[test]
fn a_stream_that_was_wasteful_is_followed_again() {
    let mut pool = Pool::new(8192, 2000);
    let break_off = |pool: &mut Pool, runs: Range<u64>| {
        let first = runs.map(|run| run % 25 * 2000 + run / 25 * 20);
        first.for_each(|first| _ = pool.read_all(first..first + 4));
    };
    break_off(&mut pool, 0..1000);
    let brought = pool.brought;
    break_off(&mut pool, 1000..2000);
    assert_eq!(pool.brought, brought, "nothing more is read ahead");
    let missed = pool.read_all(60_000..60_100);
    assert!(missed < 25, "{missed} of 100 missed");
    assert_eq!(pool.read_all(60_100..70_000), 0);
}

#[test]
fn accesses_elsewhere_do_not_displace_a_scan() {
    let numbers = (0..5000).zip(random_pages(PAGES)).flat_map(|(number, stray)| [number, stray]);
    let (_, missed, _) = read(8192, numbers);
    assert!(missed.iter().filter(|number| **number < 5000).count() < 600, "{}", missed.len());
}

/// The position that moved last is asked first, and only if no other could be the one.
#[test]
fn the_position_that_moved_last_is_the_best_of_all_where_it_is_taken() {
    let (mut streams, mut random) = (read_ahead(8192), crate::random::SplitMix64::new(5));
    let mut readers = [(1000_i64, 1_i64), (1010, 1), (5000, -1), (3000, 3), (1500, -2)];
    let (mut at, mut taken) = (0, 0);
    for _ in 0..20_000 {
        if random.below(8) == 0 {
            at = random.below(readers.len() as u64) as usize;
        }
        let (page, step) = &mut readers[at];
        *page = (*page + *step).rem_euclid(PAGES as i64);
        let strays = random.below(16) == 0;
        let number = if strays { random.below(2 * REACH) } else { *page as u64 };
        let seen = if random.below(2) == 0 { Seen::Missed } else { Seen::FoundAhead };
        let mut positions = streams.table[slot_of(&KEY)].positions.clone();
        positions.observe();
        taken += u32::from(positions.check_latest(number, seen));
        streams.advise(KEY, number, seen, BOUNDS);
    }
    assert!(taken > 10_000, "{taken}");
}

/// The pages between those of the stride are the first of a scan.
#[test]
fn a_stride_does_not_hide_a_scan() {
    for step in [2, 3, 7] {
        let strided = (0..600).step_by(step);
        let (_, missed, _) = read(8192, strided.chain(601..3000));
        assert!(missed.len() <= 20, "step {step}: {missed:?}");
    }
}

#[test]
fn what_was_resident_or_refused_is_credited() {
    let mut streams = read_ahead(8192);
    let plans = (0..3).filter_map(|number| plan_for(&mut streams, number, Seen::Missed, BOUNDS));
    let pages = plans.last().unwrap();
    let before = streams.table[slot_of(&KEY)].credit[0];
    assert_eq!(pages, Stretch { first: 3, step: 1, count: 4 });
    streams.carried_out(&Plan { key: KEY, pages }, 1, Some(4));
    assert_eq!(streams.table[slot_of(&KEY)].credit[0], before + 3 * CREDIT_PAGE);
    let again = plan_for(&mut streams, 3, Seen::FoundAhead, BOUNDS).unwrap();
    assert_eq!(again.first, 4);
}

/// What was planned for a position and not read is told when the position is given up, but not while
/// another one is about to read some of it.
#[test]
fn what_a_position_leaves_unread_is_told_when_it_is_given_up() {
    // Returns the page behind what is planned.
    let scan = |streams: &mut ReadAhead, numbers: &mut dyn Iterator<Item = u64>| {
        let mut plans = Vec::new();
        for number in numbers {
            assert_eq!(streams.observe(&access(number), Seen::FoundAhead, BOUNDS), None);
            streams.wants(&mut plans);
        }
        plans.last().unwrap().pages.end()
    };
    for is_met in [false, true] {
        let mut streams = read_ahead(8192);
        let end = scan(&mut streams, &mut (0..100));
        let mut unread = Stretch { first: 100, step: 1, count: end - 100 };
        if is_met {
            let met = scan(&mut streams, &mut (end + 1..end + 20).rev());
            assert!(met < end - 1, "both are about to read page {}", end - 1);
            unread = Stretch { first: end, step: -1, count: end - met };
        }
        // Pages so far from each other that each begins a position.
        let far = (1..=IDLE + 2 * HEADS as u64).map(|at| at * 2 * REACH);
        let told = far.filter_map(|number| streams.observe(&access(number), Seen::Missed, BOUNDS));
        assert_eq!(told.collect::<Vec<_>>(), [unread]);
    }
}
