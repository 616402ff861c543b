//! Which pages an access pattern promises: sequential and strided streams, found by what is missed.
//!
//! A *stream* is what one context of one tenant reads of one file; up to [8](positions::HEADS) positions of
//! it are followed at once, for threads that share a context, and for accesses beside a scan. Only misses and
//! first accesses to pages that were brought in ahead are observed: other accesses are hits, which read-ahead
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
//! that one back, and [a quarter](stream::USE_EARNS) more. Plans are no larger than the credit, but for the
//! rest of a transfer at the end of the file.
//!
//! A position without credit is *on trial*: it brings nothing in, and is judged by what it would have
//! brought. A page that the reader comes to earns a quarter, one that it passes over takes a page, and
//! the end of the position a first window. So a stream stays without credit for as long as it is wasteful,
//! at no cost, and a scan has credit after 16 pages. Pages that are never used are no more than the first
//! credits (one window each), a quarter of the pages used, or of those that would have been, and a transfer.
//!
//! All of this is arithmetic on page numbers, under the policy lock. Most observed accesses are random: far
//! from all positions of their stream, none of which is believed. Such an access looks only at a summary of
//! the [positions](positions::Positions).
//!
//! Paper: Gill, Bathen, "AMP: Adaptive Multi-stream Prefetching in a Shared Cache", FAST '07, for windows
//! that follow what is used; the trigger inside the window is that of Linux (`mm/readahead.c`).

mod head;
mod positions;
mod stream;

use super::{Bounds, PLANS_MAX, Plan, Planner, Seen, StreamCounts, StreamKey, Stretch};
use crate::{
    ids::{Access, TenantId},
    random::mix64,
};
use head::{Limits, Pattern};
use stream::Stream;

/// Streams that are followed at a time; a power of two.
const STREAMS: usize = 256;
/// The window of a stream that keeps being right: eight transfers in flight, and one that is being read.
const WINDOW_BYTES: usize = 9 * (256 << 10);

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

impl ReadAhead {
    /// For a pool with pages of `page_bytes`, of which transfers have up to `run_pages`.
    pub fn new(page_bytes: usize, run_pages: usize) -> Self {
        Self {
            table: vec![Stream::vacant(); STREAMS].into(),
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
                *stream = Stream::new(key, &limits);
            }
        }
        let stream = &mut self.table[self.latest];
        stream.positions.observe();
        let believed = stream.positions.believed_for(number, seen);
        if seen == Seen::FoundAhead {
            stream.earn(believed, &limits);
        }
        if stream.positions.are_far_from(number) {
            stream.positions.begin_far(number);
            return None;
        }
        if let Some(at) = believed {
            stream.judge_trial(at, number, seen);
            self.counts.opened += u64::from(stream.positions.advance(at, number, seen));
            self.plan(key, &limits);
            return None;
        }
        stream.positions.note_outrun(number, limits.window_max);
        if let Some(at) = stream.positions.candidate_for(number) {
            if stream.positions.follow(at, number) {
                self.counts.opened += 1;
                self.plan(key, &limits);
            }
            return None;
        }
        let left = stream.positions.begin(number);
        stream.end_trial(&left);
        self.counts.wasteful += u64::from(left.window > 0 && left.used < left.planned - left.planned / 4);
        stream.positions.no_longer_expected(&left)
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

    /// Takes a step for each stream and plan.
    fn reused(&mut self, tenant: TenantId) {
        self.plans.retain(|plan| plan.key.tenant != tenant);
        let streams = self.table.iter_mut();
        streams
            .filter(|stream| stream.key.is_some_and(|key| key.tenant == tenant))
            .for_each(|stream| *stream = Stream::vacant());
    }

    fn awaited(&mut self, access: &Access) {
        let key = StreamKey::of(access);
        let stream = &mut self.table[slot_of(&key)];
        if stream.key == Some(key) {
            stream.positions.awaited(access.page.number());
        }
    }

    fn places(&self) -> [*const u8; 3] {
        self.table[self.latest].positions.addresses()
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
        let spared = plan.pages.count.saturating_sub(brought);
        stream.give_back(Pattern::of(plan.pages.step), spared);
        let Some(head) = stream.positions.planned_mut(plan.pages) else { return };
        head.planned = head.planned.saturating_sub(spared);
        if let Some(refused) = refused {
            head.plan_again(plan.pages, refused);
        }
    }
}

fn slot_of(key: &StreamKey) -> usize {
    let who = u64::from(key.tenant.0) << 32 | u64::from(key.context.0);
    mix64(who ^ mix64(u64::from(key.file.0))) as usize % STREAMS
}

#[cfg(test)]
mod tests;
