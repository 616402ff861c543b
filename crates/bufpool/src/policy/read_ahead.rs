//! Which pages an access pattern promises: sequential and strided streams, found by what is missed.
//!
//! A *stream* is what one context of one tenant reads of one file; up to [`HEADS`] positions of it are followed at once, for threads
//! that share a context. Observed are misses, and first accesses to pages that were brought in ahead: what costs nothing is not
//! worth looking at. After the same distance twice in a row the next pages are planned for; from then on the window doubles with each plan
//! that the reader reaches, up to [`WINDOW_BYTES`], in units that make transfers of [`RUN_BYTES`](crate::io::run::RUN_BYTES).
//!
//! A position that the reader left is closed: what was planned and not used is the next to go, and if that was more than a quarter, the
//! stream must repeat its distance twice as often before it is believed again ([`PATIENCE_MAX`] at most); a position that was
//! followed to its end takes that back.
//!
//! This is arithmetic on page numbers, under the policy lock; the plans are carried out by [`prefetch`](crate::load::prefetch) after it.
//!
//! Paper: Gill, Bathen, "AMP: Adaptive Multi-stream Prefetching in a Shared Cache", FAST '07, for windows that follow what
//! is used; the trigger inside the window is that of Linux (`mm/readahead.c`).

use bufpool_policies::{ContextId, FileId, TenantId, mix64};

use crate::io::run::run_pages;

/// Streams that are followed at a time; a power of two.
const STREAMS: usize = 256;
/// Positions of one stream.
const HEADS: usize = 4;
/// The window of a stream that keeps being right: eight transfers in flight, and one that is being read.
const WINDOW_BYTES: usize = 9 * (256 << 10);
/// The first window, in pages.
const WINDOW_FIRST: u64 = 4;
/// The largest window of a stream that leaves pages out, whose transfers are single pages.
const WINDOW_STRIDED: u64 = 32;
/// The largest distance between two pages of a stream.
const REACH: u64 = 1024;
/// How often the distance must repeat: at first, and at most.
const PATIENCE: u32 = 2;
const PATIENCE_MAX: u32 = 64;

/// What a stream is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StreamKey {
    pub tenant: TenantId,
    pub context: ContextId,
    pub file: FileId,
}

/// Evenly spaced pages of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    pub first: u64,
    /// Not 0.
    pub step: i64,
    pub count: u64,
}

impl Stretch {
    /// Adds `next`, if it goes on where this one ends.
    pub fn join(&mut self, next: Self) -> bool {
        let end = self.first.wrapping_add_signed(self.step.wrapping_mul(self.count as i64));
        let joins = self.step == next.step && end == next.first;
        self.count += if joins { next.count } else { 0 };
        joins
    }

    /// The page numbers, ascending.
    pub fn numbers(self) -> impl Iterator<Item = u64> + use<> {
        let last = self.first.wrapping_add_signed(self.step.wrapping_mul(self.count as i64 - 1));
        let lowest = if self.step < 0 { last } else { self.first };
        (0..self.count).map(move |at| lowest + at * self.step.unsigned_abs())
    }
}

/// Pages to bring in ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub key: StreamKey,
    pub pages: Stretch,
}

/// What an observation leads to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Advice {
    pub bring: Option<Stretch>,
    /// Planned for before, and not needed after all.
    pub demote: Option<Stretch>,
}

/// Counts of all streams.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct StreamCounts {
    /// Positions that were believed.
    pub opened: u64,
    /// Of these, given up with more than a quarter of their pages unused.
    pub wasteful: u64,
}

/// The streams of a pool.
pub(crate) struct Streams {
    table: Box<[Stream]>,
    run_pages: u64,
    window_max: u64,
    now: u64,
    pub counts: StreamCounts,
}

#[derive(Clone)]
struct Stream {
    key: Option<StreamKey>,
    patience: u32,
    heads: [Head; HEADS],
}

/// A position in a stream.
#[derive(Clone, Copy, Default)]
struct Head {
    /// When it last moved; 0 for none.
    moved: u64,
    /// The page accessed last.
    last: u64,
    /// From there to the next one; 0 if unknown.
    step: i64,
    /// How often the step was repeated.
    repeats: u32,
    /// Pages to be ahead, once the step is believed; before, 0.
    window: u64,
    /// The first page not planned for.
    next: u64,
    planned: u64,
    used: u64,
}

impl Streams {
    pub fn new(page_bytes: usize) -> Self {
        let empty = Stream { key: None, patience: PATIENCE, heads: [Head::default(); HEADS] };
        Self {
            table: vec![empty; STREAMS].into(),
            run_pages: run_pages(page_bytes) as u64,
            window_max: ((WINDOW_BYTES / page_bytes) as u64).max(2),
            now: 0,
            counts: StreamCounts::default(),
        }
    }

    /// Page `number` of a file with `pages` pages was missed, or accessed for the first time since it came in ahead. No more than
    /// `limit` pages may be ahead.
    pub fn observe(&mut self, key: StreamKey, number: u64, pages: u64, limit: u64) -> Advice {
        self.now += 1;
        let (now, run_pages, window_max) = (self.now, self.run_pages, self.window_max.min(limit));
        let stream = &mut self.table[slot_of(&key)];
        if stream.key != Some(key) {
            *stream = Stream { key: Some(key), patience: PATIENCE, heads: [Head::default(); HEADS] };
        }
        let mut advice = Advice::default();
        if let Some(head) = stream.heads.iter_mut().find(|head| head.expects(number)) {
            head.moved = now;
            head.last = number;
            head.used += 1;
            advice.bring = head.plan(pages, run_pages, window_max);
            return advice;
        }
        let patience = stream.patience;
        if let Some(head) = stream.nearest(number) {
            head.moved = now;
            if head.follow(number, patience) {
                self.counts.opened += 1;
                advice.bring = head.plan(pages, run_pages, window_max);
            }
            return advice;
        }
        let oldest = stream.heads.iter_mut().min_by_key(|head| head.moved).expect("there are some");
        let left = std::mem::replace(oldest, Head { moved: now, last: number, ..Head::default() });
        if left.window > 0 {
            let is_wasteful = left.planned - left.used.min(left.planned) > left.planned / 4;
            stream.patience = if is_wasteful { (patience * 2).min(PATIENCE_MAX) } else { PATIENCE };
            self.counts.wasteful += u64::from(is_wasteful);
            advice.demote = left.unused();
        }
        advice
    }

    /// A plan could not be carried out from page `refused` on, in ascending order.
    pub fn fell_short(&mut self, plan: &Plan, refused: u64) {
        let stream = &mut self.table[slot_of(&plan.key)];
        let Stretch { first, step, count } = plan.pages;
        let end = first.wrapping_add_signed(step.wrapping_mul(count as i64));
        let head = stream.heads.iter_mut().find(|head| head.step == step && head.next == end);
        if let Some(head) = head.filter(|_| stream.key == Some(plan.key)) {
            // A backward stretch is read from its far end, so it is planned again from the near one.
            head.next = if step > 0 { refused.clamp(first, end) } else { first };
            let missing = end.abs_diff(head.next) / step.unsigned_abs();
            head.planned = head.planned.saturating_sub(missing);
            head.window = (head.window / 2).max(WINDOW_FIRST);
        }
    }
}

impl Stream {
    /// The position, not believed yet, that is nearest to `number`, if it is within reach.
    fn nearest(&mut self, number: u64) -> Option<&mut Head> {
        let young = self.heads.iter_mut().filter(|head| head.moved > 0 && head.window == 0);
        let near = young.filter(|head| head.last != number && head.last.abs_diff(number) <= REACH);
        near.min_by_key(|head| head.last.abs_diff(number))
    }
}

impl Head {
    /// A believed position expects the pages up to the first that it has not planned for.
    fn expects(&self, number: u64) -> bool {
        if self.window == 0 {
            return false;
        }
        let distance = number.wrapping_sub(self.last).cast_signed();
        let steps = distance / self.step;
        distance % self.step == 0 && steps > 0 && steps as u64 <= self.ahead() + 1
    }

    /// Pages planned for and not accessed yet, as far as the last access tells.
    fn ahead(&self) -> u64 {
        let distance = self.next.wrapping_sub(self.last).cast_signed();
        (distance / self.step - 1).max(0) as u64
    }

    /// Moves a position that is not believed yet. True if it is now.
    fn follow(&mut self, number: u64, patience: u32) -> bool {
        let step = number.wrapping_sub(self.last).cast_signed();
        self.repeats = if step == self.step { self.repeats + 1 } else { 1 };
        self.step = step;
        self.last = number;
        // Neighbours are told from chance sooner than other distances.
        let needed = if step == 1 { patience } else { patience + 1 };
        let is_believed = self.repeats >= needed;
        if is_believed {
            self.window = WINDOW_FIRST;
            self.next = number.wrapping_add_signed(step);
        }
        is_believed
    }

    /// What to bring in next, once a good part of the window has been used up.
    fn plan(&mut self, pages: u64, run_pages: u64, window_max: u64) -> Option<Stretch> {
        let is_sequential = self.step.unsigned_abs() == 1;
        let window_max = if is_sequential { window_max } else { window_max.min(WINDOW_STRIDED) };
        let ahead = self.ahead();
        if ahead == 0 {
            // The reader has caught up with the plan, or overtaken it.
            self.next = self.last.wrapping_add_signed(self.step);
        }
        let unit = run_pages.min((self.window / 2).max(1));
        let mut count = (self.window.min(window_max)).saturating_sub(ahead) / unit * unit;
        count = count.min(self.left_in_file(pages));
        if self.step == 1 && unit == run_pages && (self.next + count) / run_pages * run_pages > self.next {
            // Transfers begin and end at multiples of their length.
            count = (self.next + count) / run_pages * run_pages - self.next;
            if self.next + count + run_pages > pages {
                count = count.max(pages.saturating_sub(self.next).min(count + run_pages));
            }
        }
        if count == 0 {
            return None;
        }
        let stretch = Stretch { first: self.next, step: self.step, count };
        self.next = self.next.wrapping_add_signed(self.step.wrapping_mul(count as i64));
        self.planned += count;
        self.window = (self.window * 2).min(window_max);
        Some(stretch)
    }

    /// Pages from `next` on, a step apart, that the file has.
    fn left_in_file(&self, pages: u64) -> u64 {
        if self.next >= pages {
            // Beyond the end, or below page 0, which wraps around.
            return 0;
        }
        let distance = self.step.unsigned_abs();
        if self.step > 0 { (pages - 1 - self.next) / distance + 1 } else { self.next / distance + 1 }
    }

    /// What was planned for behind the last access.
    fn unused(&self) -> Option<Stretch> {
        let first = self.last.wrapping_add_signed(self.step);
        let count = self.ahead().min(self.planned);
        (count > 0).then_some(Stretch { first, step: self.step, count })
    }
}

fn slot_of(key: &StreamKey) -> usize {
    let who = u64::from(key.tenant.0) << 32 | u64::from(key.context.0);
    mix64(who ^ mix64(u64::from(key.file.0))) as usize % STREAMS
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: StreamKey = StreamKey { tenant: TenantId(1), context: ContextId(2), file: FileId(3) };
    const PAGES: u64 = 100_000;

    /// Lets a reader access `numbers`, with all plans carried out. Returns the pages read ahead, and those that were missed.
    fn read(
        streams: &mut Streams,
        numbers: impl IntoIterator<Item = u64>,
    ) -> (std::collections::BTreeSet<u64>, Vec<u64>) {
        let mut ahead = std::collections::BTreeSet::new();
        let mut missed = Vec::new();
        for number in numbers {
            if !ahead.contains(&number) {
                missed.push(number);
            }
            let advice = streams.observe(KEY, number, PAGES, u64::MAX);
            ahead.extend(advice.bring.into_iter().flat_map(Stretch::numbers));
        }
        assert!(ahead.iter().all(|number| *number < PAGES));
        (ahead, missed)
    }

    #[test]
    fn a_scan_misses_its_first_pages_only() {
        for page_bytes in [512, 4096, 8192, 1 << 20] {
            let mut streams = Streams::new(page_bytes);
            let (ahead, missed) = read(&mut streams, 0..5000);
            assert_eq!(missed, [0, 1, 2], "{page_bytes}");
            assert!(ahead.len() as u64 <= 4997 + streams.window_max + streams.run_pages, "{page_bytes}");
            assert_eq!(streams.counts, StreamCounts { opened: 1, wasteful: 0 });
        }
    }

    #[test]
    fn plans_of_a_long_scan_are_whole_transfers() {
        let mut streams = Streams::new(8192);
        let mut plans = Vec::new();
        for number in 0..2000 {
            plans.extend(streams.observe(KEY, number, PAGES, u64::MAX).bring);
        }
        let long = &plans[plans.len() - 20..];
        assert!(long.iter().all(|plan| plan.first % 32 == 0 && plan.count % 32 == 0), "{long:?}");
        let ahead = plans.last().unwrap();
        assert!((8 * 32..=9 * 32 + 1).contains(&(ahead.first + ahead.count - 1999)), "{ahead:?}");
    }

    #[test]
    fn strides_and_backward_scans_are_followed() {
        for step in [2_i64, 7, 100, -1, -3] {
            let mut streams = Streams::new(8192);
            let first = if step < 0 { 60_000_u64 } else { 50 };
            let numbers = (0..500).map(|at| first.wrapping_add_signed(at * step));
            let (ahead, missed) = read(&mut streams, numbers);
            assert_eq!(missed.len(), 4, "step {step}: {missed:?}");
            assert!(ahead.len() <= 500 + WINDOW_BYTES / 8192, "step {step}");
        }
    }

    #[test]
    fn a_scan_ends_with_the_file() {
        let mut streams = Streams::new(4096);
        let (ahead, missed) = read(&mut streams, PAGES - 1000..PAGES);
        assert_eq!((ahead.len(), missed.len()), (997, 3));
        let mut streams = Streams::new(4096);
        let (ahead, missed) = read(&mut streams, (0..1000).rev());
        assert_eq!((ahead.len(), missed.len()), (996, 4));
    }

    #[test]
    fn random_accesses_bring_next_to_nothing() {
        let mut streams = Streams::new(8192);
        let mut state = 1_u64;
        let numbers = std::iter::repeat_with(|| {
            state = mix64(state.wrapping_add(0x9e37_79b9));
            state % 2000
        });
        let (ahead, _) = read(&mut streams, numbers.take(20_000));
        assert!(ahead.len() < 200, "{} of 20,000", ahead.len());
    }

    #[test]
    fn several_readers_share_a_context() {
        let mut streams = Streams::new(8192);
        let numbers = (0..2000).flat_map(|at| [at, 20_000 + at, 40_000 + at, 60_000 + at]);
        let (_, missed) = read(&mut streams, numbers);
        assert_eq!(missed.len(), 4 * 3);
    }

    #[test]
    fn a_stream_that_keeps_breaking_off_is_believed_later_each_time() {
        let mut streams = Streams::new(8192);
        let mut brought = Vec::new();
        let mut demoted = 0;
        for round in 0..40_u64 {
            let mut count = 0;
            for number in 0..4 {
                let advice = streams.observe(KEY, round * 2000 + number, PAGES, u64::MAX);
                count += advice.bring.map_or(0, |pages| pages.count);
                demoted += advice.demote.map_or(0, |pages| pages.count);
            }
            brought.push(count);
        }
        assert!(brought[0] > 0 && brought[39] == 0, "{brought:?}");
        assert!(demoted > 0 && demoted <= brought.iter().sum());
        assert!(streams.counts.wasteful >= 1);
    }

    #[test]
    fn a_plan_that_fell_short_is_made_again() {
        let mut streams = Streams::new(8192);
        let advice =
            (0..3).filter_map(|number| streams.observe(KEY, number, PAGES, u64::MAX).bring).last().unwrap();
        assert_eq!(advice, Stretch { first: 3, step: 1, count: 4 });
        streams.fell_short(&Plan { key: KEY, pages: advice }, 4);
        let again = streams.observe(KEY, 3, PAGES, u64::MAX).bring.unwrap();
        assert_eq!(again.first, 4);
    }
}
