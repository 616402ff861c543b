//! Which pages an access pattern promises: sequential and strided streams, found by what is missed.
//!
//! A *stream* is what one context of one tenant reads of one file; up to [`HEADS`] positions of it are
//! followed at once, for threads that share a context, and for accesses beside a scan. Only misses and first
//! accesses to pages that were brought in ahead are observed: other accesses are hits, which read-ahead
//! cannot make cheaper. A position is *believed* after the same distance twice in a row (three times unless
//! it is +1). Then the next pages are planned for, in units that make transfers of the length that the pool
//! gives.
//!
//! **Windows.** A window doubles when as many pages were used as it has: how far a run will go is not known,
//! so it is taken to go on for as long as it has lasted, and wastes no more than twice what it used. Beyond
//! two transfers, one being read and one on its way, it doubles only if the reader had to wait, or accessed a
//! page too far ahead, up to [`WINDOW_BYTES`]. So a slow scan that ends early leaves little behind, and a
//! fast one keeps the device busy. A window is smaller where other accesses of the stream come between: a
//! page ahead then waits for its use no longer than until as many pages have been observed as may be ahead.
//! So the positions of a stream share what may be ahead, and the pages that a join looks up do not displace
//! those that its scan will need.
//!
//! **Stray accesses.** Few scans are pure: the reader of a B-tree passes over the inner pages among its
//! leaves, or reads them before or after their neighbours. A position passes over a few pages, and
//! accepts pages that far behind. It moves farther ahead within its window only when the access there is
//! followed by the next one. Any other access is the beginning of another position, which displaces no
//! believed one while half of the positions are not believed.
//!
//! **Waste.** A stream has a *credit* of pages for its sequential positions, and one for the strided ones: a
//! scan does not pay for strides that chance repeats beside it. A page brought in takes one; its use gives
//! that one back, and [`USE_EARNS`] more. Plans are no larger than the credit, but for the rest of a transfer
//! at the end of the file.
//!
//! A position without credit is *on trial*: it brings nothing in, and is judged by what it would have
//! brought. A page that the reader comes to earns [`USE_EARNS`], one that it passes over takes a page, and
//! the end of the position a first window. So a stream stays without credit for as long as it is wasteful,
//! at no cost, and a scan has credit after 16 pages. Pages that are never used are no more than the first
//! credits (one window each), a quarter of the pages used, or of those that would have been, and a transfer.
//!
//! All of this is arithmetic on page numbers, under the policy lock. Most observed accesses are random: far
//! from all positions of their stream, none of which is believed. Such an access looks only at a summary of
//! the positions ([`Places`]).
//!
//! Paper: Gill, Bathen, "AMP: Adaptive Multi-stream Prefetching in a Shared Cache", FAST '07, for windows
//! that follow what is used; the trigger inside the window is that of Linux (`mm/readahead.c`).

use std::cmp::Reverse;

use super::head::{CREDIT_PAGE, Head, Limits, Pattern, WINDOW_FIRST};
use super::{Bounds, PLANS_MAX, Plan, Planner, Seen, StreamCounts, StreamKey, Stretch};
use crate::{ids::Access, random::mix64};

/// Streams that are followed at a time; a power of two.
const STREAMS: usize = 256;
/// Positions of one stream. Half of them are for positions that are not believed.
const HEADS: usize = 8;
/// The window of a stream that keeps being right: eight transfers in flight, and one that is being read.
const WINDOW_BYTES: usize = 9 * (256 << 10);
/// The longest step of a position, in pages.
const REACH: u64 = 1024;
/// A believed position that has not moved for this many observed accesses may lose its place to another.
const IDLE: u64 = 32;
/// What the first use of a page that was brought in earns, besides the page itself.
const USE_EARNS: i64 = CREDIT_PAGE / 4;
/// The most credit of a kind of positions, in windows.
const CREDIT_WINDOWS: u64 = 4;

/// Plans for sequential and strided streams. A call, [`carried_out`](Planner::carried_out) included, takes a
/// step for each of the up to 8 positions of a stream.
pub struct ReadAhead {
    table: Box<[Stream]>,
    plans: Vec<Plan>,
    run_pages: u64,
    window_max: u64,
    /// Where the stream that was observed last is: most often the next access is part of it, too.
    latest: usize,
    counts: StreamCounts,
}

/// What an access at random looks at and changes comes first, in three cache lines.
#[derive(Clone)]
#[repr(C, align(64))]
struct Stream {
    places: Places,
    /// Accesses observed.
    now: u64,
    /// Heads that are believed: random accesses have none, and are most of what is observed.
    believed: u32,
    /// The believed head that moved last.
    latest: u32,
    /// A bit for each head that is noted in `places` only: [`settle`](Stream::settle) makes these heads
    /// before one is looked at. 0 while a head is believed.
    fresh: u32,
    key: Option<StreamKey>,
    /// By [`Pattern`], in quarters of a page; see [`CREDIT_PAGE`].
    credit: [i64; 2],
    heads: [Head; HEADS],
}

/// The pages and times of the positions of a stream, side by side, so that an access that is far from all of
/// them looks at none of the heads.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Places {
    /// [`Head::last`] of each.
    last: [u64; HEADS],
    /// [`Head::moved`] of each.
    moved: [u64; HEADS],
}

impl Places {
    /// Notes where a head is now.
    fn note(&mut self, at: usize, head: &Head) {
        (self.last[at], self.moved[at]) = (head.last, head.moved);
    }

    /// The head of a position that has only begun.
    fn head(&self, at: usize) -> Head {
        Head::new(self.moved[at], self.last[at])
    }

    /// Whether a page is farther than [`REACH`] from all positions. Then it continues none that is not
    /// believed, because their steps are no longer than that.
    fn are_far_from(&self, number: u64) -> bool {
        let is_near = |last: &u64| last.wrapping_sub(number).wrapping_add(REACH) <= 2 * REACH;
        !self.last.iter().fold(false, |any, last| any | is_near(last))
    }

    /// The position that moved longest ago.
    fn oldest(&self) -> usize {
        let oldest = |oldest, at| if self.moved[at] < self.moved[oldest] { at } else { oldest };
        (1..HEADS).fold(0, oldest)
    }
}

impl ReadAhead {
    /// For a pool with pages of `page_bytes`, of which transfers have up to `run_pages`.
    pub fn new(page_bytes: usize, run_pages: usize) -> Self {
        Self {
            table: vec![Stream::new(None, [0; 2]); STREAMS].into(),
            plans: Vec::new(),
            run_pages: run_pages as u64,
            window_max: ((WINDOW_BYTES / page_bytes) as u64).max(2),
            latest: 0,
            counts: StreamCounts::default(),
        }
    }

    /// Page `number` was accessed. Returns what was planned for before, and is not needed after all.
    fn advise(&mut self, key: StreamKey, number: u64, seen: Seen, bounds: Bounds) -> Option<Stretch> {
        let window_max = self.window_max.min(bounds.limit);
        let limits =
            Limits { pages: bounds.pages, run_pages: self.run_pages, window_max, ahead_max: bounds.limit };
        if self.table[self.latest].key != Some(key) {
            self.latest = slot_of(&key);
            let stream = &mut self.table[self.latest];
            if stream.key != Some(key) {
                *stream = Stream::new(Some(key), Pattern::ALL.map(|pattern| limits.credit(pattern, 1)));
            }
        }
        let stream = &mut self.table[self.latest];
        stream.now += 1;
        let now = stream.now;
        let believed = stream.believed_for(number, seen);
        let pattern = believed.map_or(Pattern::Sequential, |at| Pattern::of(stream.heads[at].step));
        if seen == Seen::FoundAhead {
            stream.earn(pattern, &limits);
        }
        if stream.believed == 0 && stream.places.are_far_from(number) {
            stream.begin_far(now, number);
            return None;
        }
        stream.settle();
        if let Some(at) = believed {
            stream.judge_trial(at, number, seen);
            let head = &mut stream.heads[at];
            head.move_at(now);
            head.advance(number);
            head.note(seen);
            stream.places.note(at, head);
            // A strided position must not hide from a sequential one, not believed yet, the pages that are on
            // both their ways.
            let sequential = if pattern == Pattern::Strided { stream.neighbour_of(number) } else { None };
            let opened = sequential.filter(|at| stream.follow(*at, number));
            self.counts.opened += u64::from(opened.is_some());
            stream.latest = opened.unwrap_or(at) as u32;
            self.plan(key, &limits);
            return None;
        }
        stream.note_outrun(number, limits.window_max);
        if let Some(at) = stream.candidate_for(number) {
            if stream.follow(at, number) {
                stream.latest = at as u32;
                self.counts.opened += 1;
                self.plan(key, &limits);
            }
            return None;
        }
        let left = stream.begin(Head::new(now, number));
        stream.end_trial(&left);
        self.counts.wasteful += u64::from(left.window > 0 && left.used < left.planned - left.planned / 4);
        stream.no_longer_expected(&left)
    }

    /// Plans for the position that moved last, of the stream that was observed last.
    #[inline(always)]
    fn plan(&mut self, key: StreamKey, limits: &Limits) {
        let stream = &mut self.table[self.latest];
        if stream.may_plan(limits)
            && let Some(pages) = stream.plan(limits)
        {
            self.note(Plan { key, pages });
        }
    }

    /// Lets a plan wait for [`wants`](Planner::wants). A batch of hits makes many small plans that follow
    /// upon one another.
    fn note(&mut self, plan: Plan) {
        let last = self.plans.last_mut().filter(|last| last.key == plan.key);
        if last.is_some_and(|last| last.pages.join(plan.pages)) {
            return;
        }
        if self.plans.len() < PLANS_MAX {
            self.plans.push(plan);
        } else {
            self.carried_out(&plan, 0, Some(plan.pages.first));
        }
    }
}

impl Planner for ReadAhead {
    fn observe(&mut self, access: &Access, seen: Seen, bounds: Bounds) -> Option<Stretch> {
        self.advise(StreamKey::of(access), access.page.number(), seen, bounds)
    }

    fn awaited(&mut self, access: &Access) {
        let key = StreamKey::of(access);
        let stream = &mut self.table[slot_of(&key)];
        stream.settle();
        if stream.key == Some(key)
            && let Some(at) = stream.best_for(access.page.number(), Seen::FoundAhead)
        {
            stream.heads[at].is_late = true;
        }
    }

    fn places(&self) -> [*const u8; 3] {
        let Stream { places, now, .. } = &self.table[self.latest];
        let last: *const u8 = std::ptr::from_ref(&places.last).cast();
        [last, std::ptr::from_ref(&places.moved).cast(), std::ptr::from_ref(now).cast()]
    }

    fn has_wants(&self) -> bool {
        !self.plans.is_empty()
    }

    fn wants(&mut self, out: &mut Vec<Plan>) {
        out.append(&mut self.plans);
    }

    fn counts(&self) -> StreamCounts {
        self.counts
    }

    fn metadata_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.table) + self.plans.capacity() * size_of::<Plan>()
    }

    fn carried_out(&mut self, plan: &Plan, brought: u64, refused: Option<u64>) {
        let stream = &mut self.table[slot_of(&plan.key)];
        if stream.key != Some(plan.key) {
            return;
        }
        stream.settle();
        let step = plan.pages.step;
        let spared = plan.pages.count.saturating_sub(brought);
        stream.credit[Pattern::of(step) as usize] += spared as i64 * CREDIT_PAGE;
        let Some(head) =
            stream.heads.iter_mut().find(|head| head.step == step && head.has_planned(plan.pages))
        else {
            return;
        };
        head.planned = head.planned.saturating_sub(spared);
        if let Some(refused) = refused {
            head.plan_again(plan.pages, refused);
        }
    }
}

impl Stream {
    fn new(key: Option<StreamKey>, credit: [i64; 2]) -> Self {
        let (places, heads) = (Places::default(), [Head::default(); HEADS]);
        Self { places, now: 0, believed: 0, latest: 0, fresh: 0, key, credit, heads }
    }

    /// Begins a position in place of the oldest one. No position may be believed.
    fn begin_far(&mut self, now: u64, number: u64) {
        let at = self.places.oldest();
        (self.places.last[at], self.places.moved[at]) = (number, now);
        self.fresh |= 1 << at;
    }

    /// Makes the heads that are noted in `places` only.
    #[inline]
    fn settle(&mut self) {
        while self.fresh != 0 {
            let at = self.fresh.trailing_zeros() as usize;
            self.heads[at] = self.places.head(at);
            self.fresh &= self.fresh - 1;
        }
    }

    /// A page that was brought in for a position of `pattern` is used.
    fn earn(&mut self, pattern: Pattern, limits: &Limits) {
        let credit = &mut self.credit[pattern as usize];
        *credit = (*credit + CREDIT_PAGE + USE_EARNS).min(limits.credit(pattern, CREDIT_WINDOWS));
    }

    /// An access fits no believed position. The reader outruns those whose windows would have had the page if
    /// they were longer.
    fn note_outrun(&mut self, number: u64, window_max: u64) {
        for head in self.heads.iter_mut().filter(|head| head.window > 0) {
            let steps = head.steps_in(number.wrapping_sub(head.last).cast_signed());
            head.is_late |= steps > 0 && steps as u64 <= window_max;
        }
    }

    /// An access to a page is about to move a believed position. If that is on trial, the page would have
    /// been used, and those passed over wasted.
    fn judge_trial(&mut self, at: usize, number: u64, seen: Seen) {
        let head = &self.heads[at];
        let steps = head.steps_in(number.wrapping_sub(head.last).cast_signed());
        if head.is_on_trial && seen == Seen::Missed && steps > 0 {
            let credit = &mut self.credit[Pattern::of(head.step) as usize];
            *credit += USE_EARNS;
            Self::charge(credit, steps as u64 - 1);
        }
    }

    /// A position was given up. If it was on trial, the first window from its last page on would have been
    /// wasted.
    fn end_trial(&mut self, left: &Head) {
        if left.is_on_trial {
            Self::charge(&mut self.credit[Pattern::of(left.step) as usize], WINDOW_FIRST);
        }
    }

    /// Takes pages that a trial would have wasted from a credit, but no more than there is: what was not read
    /// makes no debts.
    fn charge(credit: &mut i64, pages: u64) {
        *credit = (*credit - pages as i64 * CREDIT_PAGE).max(0.min(*credit));
    }

    /// The believed position that an access belongs to.
    fn believed_for(&self, number: u64, seen: Seen) -> Option<usize> {
        if self.believed == 0 {
            return None;
        }
        let latest = &self.heads[self.latest as usize];
        if latest.is_first_for(number) && latest.moved + 1 == self.now {
            return Some(self.latest as usize);
        }
        self.best_for(number, seen)
    }

    /// As [`believed_for`](Self::believed_for), by a look at all positions.
    #[inline(never)]
    fn best_for(&self, number: u64, seen: Seen) -> Option<usize> {
        let rank = |at: usize| {
            let head = &self.heads[at];
            Some((head.fit(number, seen)?, head.step.unsigned_abs(), Reverse(head.moved)))
        };
        let ranked = (0..HEADS).filter_map(|at| Some((rank(at)?, at)));
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, at)| at)
    }

    /// A position, not believed yet, that is beside a page.
    fn neighbour_of(&self, number: u64) -> Option<usize> {
        self.heads.iter().position(|head| head.is_young() && head.last.abs_diff(number) == 1)
    }

    /// The position, not believed yet, that an access belongs to: one that it continues, or else the nearest
    /// one, unless that has found a smaller distance.
    fn candidate_for(&self, number: u64) -> Option<usize> {
        let mut nearest = (u64::MAX, None);
        for (at, head) in self.heads.iter().enumerate().filter(|(_, head)| head.is_young()) {
            if head.is_continued_by(number) {
                return Some(at);
            }
            let distance = head.last.abs_diff(number);
            if distance < nearest.0 {
                nearest = (distance, Some(at));
            }
        }
        let (distance, Some(at)) = nearest else { return None };
        let Head { step, repeats, .. } = self.heads[at];
        let is_open = step == 0 || repeats == 1 && distance <= step.unsigned_abs();
        (distance <= REACH && is_open).then_some(at)
    }

    /// Moves a position that is not believed yet. True if it is now.
    fn follow(&mut self, at: usize, number: u64) -> bool {
        let head = &mut self.heads[at];
        head.move_at(self.now);
        let is_believed = head.follow(number);
        self.places.note(at, head);
        self.believed += u32::from(is_believed);
        is_believed
    }

    /// Begins another position. Returns the one that had its place.
    fn begin(&mut self, head: Head) -> Head {
        let idle = self.now.saturating_sub(IDLE);
        let keeps_place = |head: &Head| head.window > 0 && head.moved >= idle;
        let replaces_kept = self.believed as usize > HEADS / 2
            && self.heads.iter().filter(|head| keeps_place(head)).count() > HEADS / 2;
        let places = self.heads.iter().enumerate().filter(|(_, head)| keeps_place(head) == replaces_kept);
        let oldest = places.min_by_key(|(_, head)| head.moved);
        let left = self.put(oldest.expect("there are some of either kind").0, head);
        self.believed -= u32::from(left.window > 0);
        left
    }

    /// Puts a position in a place. Returns the one that had it.
    fn put(&mut self, at: usize, head: Head) -> Head {
        self.places.note(at, &head);
        std::mem::replace(&mut self.heads[at], head)
    }

    /// Whether there is credit for the position that moved last, and perhaps something to plan. Without
    /// credit the position is on trial.
    #[inline]
    fn may_plan(&mut self, limits: &Limits) -> bool {
        let head = &mut self.heads[self.latest as usize];
        head.is_on_trial = self.credit[Pattern::of(head.step) as usize] < WINDOW_FIRST as i64 * CREDIT_PAGE;
        !head.is_on_trial && head.may_plan(limits)
    }

    /// What to bring in for the position that moved last, which has credit, as far as that goes.
    #[inline(never)]
    fn plan(&mut self, limits: &Limits) -> Option<Stretch> {
        let head = &mut self.heads[self.latest as usize];
        let credit = &mut self.credit[Pattern::of(head.step) as usize];
        let plan = head.plan(limits, (*credit / CREDIT_PAGE) as u64)?;
        *credit -= plan.count as i64 * CREDIT_PAGE;
        Some(plan)
    }

    /// What was planned for a position that was given up, unless another one is about to use some of it.
    fn no_longer_expected(&self, left: &Head) -> Option<Stretch> {
        let unused = left.unused()?;
        let of_others = self.heads.iter().filter_map(Head::unused);
        let is_disjoint =
            |other: Stretch| other.highest() < unused.lowest() || unused.highest() < other.lowest();
        Some(unused).filter(|_| of_others.into_iter().all(is_disjoint))
    }
}

fn slot_of(key: &StreamKey) -> usize {
    let who = u64::from(key.tenant.0) << 32 | u64::from(key.context.0);
    mix64(who ^ mix64(u64::from(key.file.0))) as usize % STREAMS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Range;

    use super::*;
    use crate::ids::{ContextId, FileId, PageId, TenantId};
    use crate::planner::head::WINDOW_STRIDED;

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
            check(&self.streams.table[slot_of(&KEY)], number, seen);
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

    /// Holds what is left out for speed against the plain way.
    fn check(stream: &Stream, number: u64, seen: Seen) {
        let is_far = stream.places.are_far_from(number);
        assert!(stream.fresh == 0 || stream.believed == 0);
        let mut stream = stream.clone();
        stream.settle();
        let believed = stream.heads.iter().filter(|head| head.window > 0);
        assert_eq!(stream.believed as usize, believed.count());
        assert!(stream.believed > 0 || stream.heads.iter().all(|head| head.fit(number, seen).is_none()));
        let distance = |at: &usize| stream.heads[*at].last.abs_diff(number);
        let young = (0..HEADS).filter(|at| stream.heads[*at].is_young());
        let mut continued = young.clone().filter(|at| stream.heads[*at].is_continued_by(number));
        let plain = continued.next().or_else(|| {
            let nearest = young.min_by_key(distance)?;
            let Head { step, repeats, .. } = stream.heads[nearest];
            let is_open = step == 0 || repeats == 1 && distance(&nearest) <= step.unsigned_abs();
            (distance(&nearest) <= REACH && is_open).then_some(nearest)
        });
        assert_eq!(stream.candidate_for(number), plain);
        for (at, head) in stream.heads.iter().enumerate() {
            assert_eq!((stream.places.last[at], stream.places.moved[at]), (head.last, head.moved));
        }
        assert!(plain.is_none() || !is_far, "page {number} continues a position");
        assert_eq!(
            stream.heads[stream.places.oldest()].moved,
            stream.places.moved.into_iter().min().unwrap()
        );
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
            let head = &streams.table[slot_of(&KEY)].heads[0];
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
                    let strays = if matches!(name, "anywhere" | "at the end") {
                        (PAGES_READ / gap) as usize
                    } else {
                        0
                    };
                    assert!(
                        missed <= 20 + strays * 11 / 10,
                        "gap {gap}, {name}, round {round}: {missed} missed"
                    );
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
            let mut stream = streams.table[slot_of(&KEY)].clone();
            stream.now += 1;
            if stream.believed > 0 {
                let found = stream.believed_for(number, seen);
                assert_eq!(found, stream.best_for(number, seen));
                taken += u32::from(found == Some(stream.latest as usize));
            }
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
}
