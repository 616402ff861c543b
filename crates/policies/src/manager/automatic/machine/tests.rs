//! Goal: the orders are right with any expert followed, however often that changes; a stream answers for
//! mistakes while values choose.
//! Method: a small pool of which few pages are sampled, as in large ones; random accesses, and experts
//! followed at random.

use super::*;
use crate::ids::{ContextId, FileId, TenantId};
use crate::manager::automatic::learn;
use crate::manager::automatic::learn::kind::SOON;
use crate::random::SplitMix64;

const FRAMES: u32 = 120;

/// A manager that samples one page in four, and what is in its frames.
struct Pool {
    manager: Machine,
    pages: Vec<PageId>,
    /// Whether the next accesses give pages new contents.
    creates: bool,
}

impl Pool {
    fn new(seed: u64) -> Self {
        Self::with_sampling(seed, 4)
    }

    /// One page in `sampling` is sampled.
    fn with_sampling(seed: u64, sampling: u32) -> Self {
        let tuning = Tuning::default();
        let rates = Rates::with(FRAMES, sampling, sampling, &tuning);
        let recipe = Recipe { strategy: Strategy::Auto, pool_frames: FRAMES, seed, tuning };
        let manager = Machine::with_rates(&recipe, FRAMES, Numbers::default(), rates);
        Self { manager, pages: Vec::new(), creates: false }
    }

    /// Accesses `page`; the frame that `candidate` chooses goes if the manager does not overrule it.
    fn access(&mut self, page: u64, context: u32, candidate: impl FnOnce(u32) -> u32) {
        let (page, context, file) = (PageId(page), ContextId(context), FileId(0));
        let creates = self.creates;
        let access = Access { page, file, tenant: TenantId(0), context, creates };
        if let Some(frame) = self.pages.iter().position(|held| *held == page) {
            return self.manager.block_accessed(FrameId(frame as u32), &access);
        }
        let frame = if self.pages.len() < FRAMES as usize {
            self.pages.push(page);
            FrameId(self.pages.len() as u32 - 1)
        } else {
            let candidate = FrameId(candidate(FRAMES));
            let frame = self.manager.replace_block(candidate, Some(&access), &mut |_| false);
            self.manager.block_gone(frame, self.pages[frame.index()]);
            self.pages[frame.index()] = page;
            frame
        };
        self.manager.new_block(&Block { frame, page, file, context, created: creates });
    }

    fn follow(&mut self, expert: Expert) {
        let miniatures = &mut self.manager.miniatures;
        miniatures.judge.regret = [f32::MAX; 3];
        miniatures.judge.regret[expert as usize] = 0.0;
        miniatures.is_decided = false;
        self.manager.decide();
    }
}

#[test]
fn orders_are_right_whoever_is_followed() {
    let mut acted = [0; 3];
    for seed in 0..12 {
        let (mut random, mut pool) = (SplitMix64::new(seed), Pool::new(seed));
        for at in 0..4000u64 {
            let page = if random.below(2) == 0 { at / 2 % 150 } else { 200 + random.below(60) };
            pool.creates = random.below(8) == 0;
            pool.access(page, page as u32 / 100, |frames| random.below(u64::from(frames)) as u32);
            if at > 1000 && random.below(25) == 0 {
                pool.follow(Expert::ALL[random.below(3) as usize]);
            }
            acted[pool.manager.leader() as usize] += 1;
            pool.manager.check_invariants();
        }
    }
    assert!(acted.iter().all(|steps| *steps > 4000), "{acted:?}");
}

/// Otherwise a page that is used twice at once, and then not for long, would be valued as one that is used
/// all the time, while its class learns from samples of which both uses are one.
#[test]
fn uses_of_a_page_at_once_are_one() {
    let mut pool = Pool::new(3);
    let repeat_time = pool.manager.repeat_time;
    assert!(repeat_time > 10, "{repeat_time}");
    for page in 0..u64::from(FRAMES) {
        pool.access(page, 0, |_| 0);
        pool.access(page, 0, |_| 0);
    }
    for page in 0..u64::from(FRAMES) {
        let used = |pool: &Pool| pool.manager.held.get(page as u32).expect("an owned frame").used;
        pool.access(page, 0, |_| 0);
        let first = used(&pool);
        (0..5).for_each(|_| pool.access(page, 0, |_| 0));
        let last = used(&pool);
        assert_eq!((first.time, first.kind), (last.time, last.kind), "page {page}");
        assert_ne!(first.kind, Kind::once(SOON), "page {page} was not used for long");
        (0..repeat_time).for_each(|_| pool.access(page, 0, |_| 0));
        assert_ne!(used(&pool).time, first.time, "page {page} is used long afterwards");
    }
}

/// Of random accesses, by whichever expert: the frame foretold is one of the tenant's, and the one that is
/// chosen once in five times at least; by chance it would be once in 120.
#[test]
fn the_likely_choice_is_often_made() {
    for expert in Expert::ALL {
        let (mut random, mut pool) = (SplitMix64::new(7), Pool::new(7));
        let (mut asked, mut right) = (0, 0);
        for _ in 0..6000 {
            let page = random.below(2 * u64::from(FRAMES));
            let is_full = pool.pages.len() == FRAMES as usize;
            let before = is_full.then(|| {
                pool.follow(expert);
                (pool.manager.likely_choice(FrameId(5)), pool.pages.clone())
            });
            pool.access(page, 0, |_| 5);
            let changed = before.and_then(|(likely, pages)| {
                let chosen = pages.iter().zip(&pool.pages).position(|(before, after)| before != after)?;
                Some((likely, FrameId(chosen as u32)))
            });
            if let Some((likely, chosen)) = changed {
                (asked, right) = (asked + 1, right + u32::from(likely == chosen));
                assert!(pool.manager.holds(likely), "{expert:?}: {likely:?}");
            }
        }
        assert!(asked > 1000 && right * 5 > asked, "{expert:?}: {right} of {asked}");
    }
}

/// As soon as values are followed, the page given up is worth no more than nearly all others.
#[test]
fn a_page_chosen_by_value_is_worth_little() {
    let (mut random, mut pool) = (SplitMix64::new(5), Pool::new(5));
    let mut step = |pool: &mut Pool, at: u64| {
        let page = if at.is_multiple_of(2) { at / 2 % 150 } else { 200 + random.below(60) };
        pool.access(page, page as u32 / 100, |_| 0);
    };
    (0..3000).for_each(|at| step(&mut pool, at));
    let mut worse = 0;
    for round in 0..20 {
        for at in 0..100 {
            pool.follow(Expert::Arc);
            step(&mut pool, 3000 + round * 100 + at);
        }
        pool.follow(Expert::Value);
        let manager = &mut pool.manager;
        let chosen = manager.replace_block(FrameId(0), None, &mut |_| false).0;
        let value = |frame: u32| {
            let LastUse { time, stream, kind, .. } = manager.held.get(frame).expect("an owned frame").used;
            let values = manager.streams.classes.values(manager.streams.class(stream, kind));
            manager.streams.classes.ages.value(values, manager.now.wrapping_sub(time))
        };
        worse += (0..FRAMES).filter(|frame| value(*frame) < 0.9 * value(chosen)).count();
    }
    assert!(worse <= 20, "{worse} pages in 20 choices were worth less than the one chosen");
}

/// The latest pages of scans are worth least, and scans hold them. Otherwise the ledger's oldest page would
/// go, which may be worth most.
#[test]
fn scans_that_hold_their_pages_do_not_cost_others_theirs() {
    let (mut pool, mut questions, mut wrong) = (Pool::with_sampling(5, 1), 0, 0);
    let scan_of = |page: PageId| page.0 / 1000;
    for round in 0..400 {
        (0..50).for_each(|page| pool.access(page, 0, |_| 0));
        (1..9).for_each(|scan| pool.access(1000 * scan + round, scan as u32, |_| 0));
        pool.follow(Expert::Value);
        // All but one of the scans hold their pages.
        for free in (1..9).filter(|_| round > 100) {
            let frame_of = |scan| pool.pages.iter().position(|page| scan_of(*page) == scan);
            let (Some(oldest), Some(_)) = (frame_of(0), frame_of(free)) else { continue };
            let (candidate, pages) = (FrameId(oldest as u32), &pool.pages);
            let is_held = |frame: FrameId| ![0, free].contains(&scan_of(pages[frame.index()]));
            let choice = pool.manager.replace_block(candidate, None, &mut |frame| is_held(frame));
            wrong += u32::from(scan_of(pages[choice.index()]) != free);
            questions += 1;
        }
    }
    assert!(questions > 1000 && wrong * 50 < questions, "{wrong} of {questions} choices were a loop's pages");
}

/// That pages come back which ARC gave up says nothing of values.
#[test]
fn a_stream_answers_while_values_choose() {
    let wrong = |leader: Expert| {
        let mut pool = Pool::new(1);
        let mut at = 0u64;
        // A loop of which values keep what fits, and pages that come once.
        let mut run = |pool: &mut Pool, steps: u64| {
            for _ in 0..steps {
                at += 1;
                pool.access(
                    if at.is_multiple_of(4) { 1000 + at } else { at % 150 },
                    u32::from(at.is_multiple_of(4)),
                    |_| 0,
                );
            }
            at
        };
        run(&mut pool, 3000);
        pool.follow(Expert::Value);
        run(&mut pool, 1000);
        let at = run(&mut pool, 0);
        pool.follow(leader);
        let count = |pool: &Pool| {
            let sum = |count: fn(&learn::stream::Stream) -> u32| {
                pool.manager.streams.iter().map(count).sum::<u32>()
            };
            (sum(|stream| stream.mistakes), sum(|stream| u32::from(stream.verdict.wrong)))
        };
        let before = count(&pool);
        for page in (0..150).chain(1000..1000 + at) {
            let (page, context, file) = (PageId(page), ContextId(0), FileId(0));
            pool.manager.placeholder_used(
                &Access { page, file, tenant: TenantId(0), context, creates: false },
                FrameId(0),
            );
        }
        let after = count(&pool);
        assert_eq!(pool.manager.leader(), leader);
        assert!(after.0 > before.0 + 50, "mistakes are reported, whichever expert chose");
        after.1 - before.1
    };
    assert!(wrong(Expert::Value) > 30);
    assert_eq!(wrong(Expert::Arc), 0);
}

/// The shadow by value finds the page worth least more surely than a cache of many more pages does.
#[test]
fn what_the_cache_gives_up_by_value_counts_as_missed_by_value() {
    let regret_after_giving_up_under = |leader: Expert| {
        let mut pool = Pool::with_sampling(1, 1);
        (0..u64::from(FRAMES)).for_each(|page| pool.access(page, 0, |_| 0));
        pool.follow(leader);
        pool.manager.miniatures.judge.regret = [0.0; 3];
        // All shadows have room for it.
        let (page, frame) = (PageId(7), FrameId(7));
        pool.manager.block_gone(frame, page);
        let (context, file) = (ContextId(0), FileId(0));
        pool.manager.new_block(&Block { frame, page, file, context, created: false });
        pool.manager.check_invariants();
        pool.manager.miniatures.judge.regret
    };
    assert_eq!(regret_after_giving_up_under(Expert::Value), [0.0, 0.0, 1.0]);
    assert_eq!(regret_after_giving_up_under(Expert::Lru), [0.0; 3]);
}

/// ARC remembers as many ghosts of pages used once as those that are resident leave room for.
#[test]
fn what_arc_has_forgotten_comes_back_as_new() {
    let twice = |pool: &Pool, pages: std::ops::Range<u64>| {
        let frames = (0..).zip(&pool.pages).filter(|(_, page)| pages.contains(&page.0));
        let twice = |frame| pool.manager.held.get(frame).is_some_and(|frame| frame.used.twice);
        frames.filter(|(frame, _)| twice(*frame)).count()
    };
    let mut pool = Pool::new(1);
    // A loop that is longer than the cache leaves no ghosts, though what departed is known for two turnovers.
    (0..230).for_each(|at| pool.access(at % 200, 0, |_| (at % u64::from(FRAMES)) as u32));
    assert_eq!(twice(&pool, 0..200), 0);

    let mut pool = Pool::new(1);
    for page in (0..60).chain(0..60).chain(100..160) {
        pool.access(page, 0, |_| 0);
    }
    assert_eq!(twice(&pool, 0..60), 60);
    // As many more leave ghosts of those used once, of which the latest come back.
    for page in (200..250).chain(140..150) {
        pool.access(page, 0, |_| 0);
        pool.follow(Expert::Arc);
    }
    assert!(twice(&pool, 140..150) >= 9, "ARC remembers the latest ghosts");
}

#[test]
fn who_is_trusted_first_depends_on_who_uses_how_many_pages_again() {
    for (reused, others, expected) in
        [(20, 0, Expert::Value), (20, 1, Expert::Arc), (80, 0, Expert::Lru), (80, 1, Expert::Lru)]
    {
        let mut pool = Pool::with_sampling(1, 1);
        for at in 0..100 + reused {
            // Two contexts use 100 pages, and use some of them again, or two others do.
            pool.access(at % 100, (at / 50 % 2 + at / 100 * 2 * others) as u32, |_| 0);
        }
        (1000..1021).for_each(|page| pool.access(page, 9, |_| 0));
        assert_eq!(pool.manager.leader(), expected, "{reused} of 100 pages used again");
    }
}

#[test]
fn streams_are_named_by_what_becomes_of_their_pages() {
    let mut pool = Pool::new(3);
    for at in 0..6000u64 {
        pool.access(at % 150, 1, |frames| at as u32 % frames);
        pool.access(1000 + at, 2, |frames| at as u32 % frames);
    }
    let mut named = Vec::new();
    pool.manager.streams(0, &mut |stream| {
        named.push((stream.context.0, stream.class));
        true
    });
    assert_eq!(named, [(1, Class::Looping), (2, Class::OneShot)]);
}

#[test]
fn choices_by_arc_are_no_overrules_of_a_stream() {
    let (mut random, mut pool) = (SplitMix64::new(1), Pool::new(1));
    let mut overruled = 0;
    for at in 0..1500u64 {
        pool.follow(Expert::Arc);
        let page = if at.is_multiple_of(2) { at / 2 % 150 } else { 200 + random.below(60) };
        let newest = pool.pages.last().copied();
        pool.access(page, 1, |frames| frames - 1);
        overruled += u32::from(pool.pages.len() == FRAMES as usize && pool.pages.last().copied() == newest);
    }
    assert!(overruled > 500, "{overruled}");
    let stream = pool.manager.streams.find(ContextId(1), FileId(0), pool.manager.now);
    pool.manager.streams.mistaken(stream, true);
    assert_eq!(pool.manager.streams[stream].verdict.wrong, 0, "there is no overrule that could be wrong");
}

#[test]
fn frames_are_named_in_their_order_of_use() {
    let mut pool = Pool::new(1);
    (0..60).for_each(|page| pool.access(page, 0, |_| 0));
    (0..30).rev().for_each(|page| pool.access(page, 0, |_| 0));
    let by_use: Vec<u32> = pool.manager.frames_by_use().into_iter().map(|frame| frame.0).collect();
    assert!(by_use.into_iter().eq((30..60).chain((0..30).rev())));
}

#[test]
fn a_page_with_new_contents_counts_as_used_once() {
    let mut pool = Pool::new(1);
    let twice = |pool: &Pool| pool.manager.held.get(0).expect("an owned frame").used.twice;
    for (creates, expected) in [(false, false), (false, true), (true, false), (false, true)] {
        pool.creates = creates;
        pool.access(7, 0, |_| 0);
        assert_eq!(twice(&pool), expected);
    }
}

#[test]
fn uses_within_a_thirty_second_of_a_turnover_are_one() {
    let mut pool = Pool::new(1);
    let period = pool.manager.turnover() / 32;
    let time = |pool: &Pool| pool.manager.held.get(0).expect("an owned frame").used.time;
    (0..2).for_each(|_| pool.access(7, 0, |_| 0));
    let first = time(&pool);
    (1..period).for_each(|_| pool.access(7, 0, |_| 0));
    assert_eq!(time(&pool), first);
    pool.access(7, 0, |_| 0);
    assert_ne!(time(&pool), first);
}
