//! An open list: how far ahead of its reader it fetches, and how well its hints turn out.

use super::{DEPTH_MIN, Depth, HintCounts, HintList, HintPolicy, NEVER, position_set::PositionSet};
use crate::{
    ids::{FileId, PageId, TenantId},
    manager::Want,
};

/// Hints after which it is judged whether too many were skipped: more than a quarter.
const SKIP_WINDOW: u32 = 256;
/// Pages brought in after which it is judged whether too many were wasted: more than a quarter.
const WASTE_WINDOW: u32 = 64;
/// The published prefetch horizon. A list has it until its own is measured, and an access is looked for
/// among at least twice as many hints.
const HORIZON: u32 = 68;
/// Hints that one call looks at to find pages to bring in.
const WANTS_SCANNED: usize = 1024;
/// Pages in flight that keep a device busy, in transfers of neighbours.
const IN_FLIGHT_PAGES: u32 = 256;
/// A run of neighbours that is shorter than this may be put off until more of them can be in one transfer.
const RUN_PAGES: usize = 32;
/// How far ahead a page that is read once may take the frame of one that is named: just far enough to have
/// one transfer in flight.
const ONCE_HORIZON: u32 = RUN_PAGES as u32;
/// How far ahead a loop exchanges pages: as far as it takes to have two transfers in flight, of runs of which
/// every other is in memory. What it gives up moves towards its beginning by as much a round, and once there
/// a round more is read of it.
const LOOP_HORIZON: u32 = 4 * RUN_PAGES as u32;
/// A list is a loop if at least this many pages in a row, up to the last one, were named again after equally
/// many reads.
const LOOP_EVIDENCE: u64 = 2 * RUN_PAGES as u64;
/// After this many reads, a list tries one page farther ahead than pages are known to stay until they are
/// read. So at most one page for as many reads comes in without staying.
const READS_PER_TRY: u64 = 8;
/// Pages that came in for a list which are noted before any is looked for that is not there any more.
const BROUGHT_MIN: usize = 64;
/// A list's estimate of the directory's time between two of its accesses moves by this part of the
/// difference.
const PACE_SHARE: f64 = 1.0 / 64.0;

/// What may come in ahead now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Pages that the driver has room for.
    pub pages: u32,
    /// Frames whose use costs nothing: free ones, and those of the account whose pages no list names.
    pub harmless: u32,
}

/// What a list would say if it was asked again what it wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    /// Nobody knows: it may want something.
    Unknown,
    /// Nothing, before it changes or a frame's use costs nothing.
    LacksFrames,
    /// Nothing, before it changes.
    Idle,
}

impl Rest {
    /// Whether the list need not be asked, with so much room.
    pub fn holds(self, room: Room) -> bool {
        match self {
            Self::Unknown => false,
            Self::LacksFrames => room.harmless == 0,
            Self::Idle => true,
        }
    }
}

/// The positions from which on nothing comes in.
struct Reach {
    end: u64,
    /// Up to here, a page that is named again takes the frame of a page that is needed later. In a list that
    /// goes round, an early exchange of one page for another costs nothing.
    again_until: u64,
    /// The same for a page that is read once, which is nearer: until it is read, the others lack the frame
    /// that it takes, and one of them has to be read once more.
    once_until: u64,
}

impl Reach {
    /// Whether the page of `want`, whose use after that is `again`, may come in in exchange for one that is
    /// needed later. `before` are the pages that come in before it. A transfer that begins within reach may
    /// go on beyond it, with neighbours that are named again.
    fn exchanges(&self, want: Want, again: u64, before: &[Want]) -> bool {
        if again == NEVER {
            return want.position < self.once_until;
        }
        let begun_at = || {
            let run = before.chunk_by(continues).next_back()?;
            continues(run.last()?, &want).then_some(run[0].position)
        };
        let joins = |start| start < self.again_until && want.position - start < RUN_PAGES as u64;
        want.position < self.again_until || begun_at().is_some_and(joins)
    }
}

/// How many more pages batches may have.
struct BatchRoom {
    /// For a batch that begins.
    pages: u32,
    /// For those that have begun, by file.
    left: Vec<(FileId, u32)>,
}

impl BatchRoom {
    /// Whether the file's batch takes one more page; it is counted then.
    fn take_room(&mut self, file: FileId) -> bool {
        let at = self.left.iter().position(|(of, _)| *of == file).unwrap_or_else(|| {
            self.left.push((file, self.pages));
            self.left.len() - 1
        });
        let left = &mut self.left[at].1;
        let has_room = *left > 0;
        *left -= u32::from(has_room);
        has_room
    }
}

/// A list of disclosed reads with its reader, and how well it does.
#[derive(Clone)]
pub(super) struct OpenList {
    pub serial: u64,
    pub tenant: TenantId,
    pub policy: HintPolicy,
    pub list: HintList,
    pub depth: Depth,
    /// Hints that the reader consumes during a read, as the driver measured.
    pub horizon: u32,
    /// Hints ahead of the reader within which pages that come in stay until they are read.
    stays_within: u64,
    /// Reads made since `stays_within` was changed last.
    untried: u64,
    /// The next uses in the list of the blocks that it names and that are present.
    present: PositionSet,
    /// Of these, the blocks that a loop gives up before the others.
    yielding: PositionSet,
    /// No page below this position, from the reader's on, is missing.
    pub frontier: u64,
    /// Pages of the list on their way in ahead, by file; files without any are left out.
    pub in_flight: Vec<(FileId, u32)>,
    /// Transfers in flight at most.
    pub in_flight_max: u32,
    /// Pages of a transfer, a moving mean.
    pub run_pages: f64,
    /// Where the reader says itself where it is (see
    /// [`AccountHints::consumed_to`](super::AccountHints::consumed_to)): the pages that it has reached and
    /// whose accesses are told next. `None` as long as accesses are matched with the list.
    pub led: Option<Vec<PageId>>,
    /// The pages that came in for the list, and others, which came in for it once.
    brought: Vec<PageId>,
    /// `brought` is looked through when it is as long as this.
    brought_max: usize,
    /// The directory's time at the last access; and `pace`, the mean of that from one access to the next.
    pub last_access: Option<u64>,
    pub pace: f64,
    /// Hints passed, and skipped among them, since they were judged.
    pub passed: u32,
    pub skipped: u32,
    /// Pages brought in, and wasted among them, since they were judged.
    pub fetched: u32,
    pub wasted: u32,
    /// More than a quarter was skipped: nothing is fetched for the list any more, and no page goes because of
    /// where the list names it.
    pub has_strayed: bool,
    pub counts: HintCounts,
}

/// Whether a loop gives up the page before others, as it does with every other run of [`RUN_PAGES`] pages.
fn yields_first(page: PageId) -> bool {
    page.0 / RUN_PAGES as u64 % 2 == 1
}

/// Whether one page follows another in the list and in its file, so that one transfer can have both.
fn continues(one: &Want, other: &Want) -> bool {
    one.position + 1 == other.position && one.page.0.wrapping_add(1) == other.page.0
}

impl OpenList {
    /// A list without hints, whose reader is at position 0. `in_flight` transfers for it may be under way.
    pub fn new(serial: u64, tenant: TenantId, policy: HintPolicy, depth: Depth, in_flight: u32) -> Self {
        Self {
            serial,
            tenant,
            policy,
            list: HintList::new(),
            depth,
            horizon: HORIZON,
            stays_within: NEVER,
            untried: 0,
            present: PositionSet::new(),
            yielding: PositionSet::new(),
            frontier: 0,
            in_flight: Vec::new(),
            in_flight_max: in_flight.max(1),
            run_pages: 1.0,
            led: None,
            brought: Vec::new(),
            brought_max: BROUGHT_MIN,
            last_access: None,
            pace: 1.0,
            passed: 0,
            skipped: 0,
            fetched: 0,
            wasted: 0,
            has_strayed: false,
            counts: HintCounts { lists: 1, ..HintCounts::default() },
        }
    }

    /// In how many steps of the directory's time the hint at `position` is reached.
    pub fn distance(&self, position: u64) -> f64 {
        (position - self.list.position()) as f64 * self.pace
    }

    /// A page comes in for the list. `is_its` tells of pages whether they came in for it and are there, or on
    /// their way; the list notes others of at most the same number, and a few.
    pub fn note_brought(&mut self, page: PageId, is_its: impl Fn(PageId) -> bool) {
        if self.brought.len() >= self.brought_max {
            self.brought.retain(|page| is_its(*page));
            self.brought.sort_unstable();
            self.brought.dedup();
            self.brought_max = BROUGHT_MIN.max(2 * self.brought.len());
        }
        self.brought.push(page);
    }

    /// Whether the page is noted as one that [came in](Self::note_brought). For tests: costs O(noted).
    pub fn has_noted(&self, page: PageId) -> bool {
        self.brought.contains(&page)
    }

    /// The pages that the list names ahead and that are there, and those that came in for it; others, too.
    /// Each is there once, in their order.
    pub fn pages_there(&self) -> Vec<PageId> {
        let named = self.present_by_use().map(|(_, page)| page);
        let mut pages: Vec<PageId> = named.chain(self.brought.iter().copied()).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// In how many steps of the directory's time the block that the list needs last is reached; `None` if no
    /// block that it names is present, or the list is not believed.
    pub fn farthest(&self) -> Option<f64> {
        let (position, _) = self.present_by_use().next().filter(|_| !self.has_strayed)?;
        Some(self.distance(position))
    }

    /// The pages that the reader has reached and whose accesses are told next, each once.
    pub fn awaited(&self) -> Vec<PageId> {
        let mut awaited = self.led.clone().unwrap_or_default();
        awaited.sort_unstable();
        awaited.dedup();
        awaited
    }

    /// The blocks that the list names and that are present, with their next uses. The one needed last comes
    /// first.
    pub fn present_by_use(&self) -> impl Iterator<Item = (u64, PageId)> + '_ {
        let page_at = |position| Some((position, self.list.page_at(position)?));
        self.present.descending().filter_map(page_at)
    }

    /// The page is in memory, and named next at `position`.
    pub fn note_present(&mut self, page: PageId, position: u64) {
        self.present.insert(position);
        if yields_first(page) {
            self.yielding.insert(position);
        }
    }

    /// The page is in memory no more, or named next at another position than this. Returns whether it was in
    /// memory.
    pub fn note_absent(&mut self, page: PageId, position: u64) -> bool {
        if yields_first(page) {
            self.yielding.remove(position);
        }
        self.present.remove(position)
    }

    /// Blocks that the list names and that are present.
    pub fn present_len(&self) -> usize {
        self.present.len()
    }

    /// In a list that is read ahead and goes round: the blocks that may go instead of the one that is needed
    /// last. Of these, the one needed last comes first. In other lists there are none.
    ///
    /// In a loop every block that is kept saves one read a round, whichever it is. Without this choice those
    /// given up follow each other, and the device idles while the reader passes over the others. Half of the
    /// runs yield before the rest, so that reads come between hits. Blocks that the list may fetch others for
    /// are left out: those are needed sooner.
    pub fn present_by_yield(&self) -> impl Iterator<Item = PageId> + '_ {
        let is_read_ahead = self.policy == HintPolicy::Auto;
        let end = if is_read_ahead && self.is_loop() { self.reach().end } else { NEVER };
        let beyond = self.yielding.descending().take_while(move |position| *position >= end);
        beyond.filter_map(|position| self.list.page_at(position))
    }

    /// # Panics
    /// If the list does not hold together, or other blocks yield than those of every other run.
    pub fn check_invariants(&self) {
        self.list.check_invariants();
        let yields = |(position, page)| yields_first(page).then_some(position);
        assert!(self.present_by_use().filter_map(yields).eq(self.yielding.descending()), "blocks that yield");
    }

    fn is_loop(&self) -> bool {
        self.list.periodic() >= LOOP_EVIDENCE
    }

    /// Bytes of memory held.
    pub fn metadata_bytes(&self) -> usize {
        let positions = self.present.metadata_bytes() + self.yielding.metadata_bytes();
        size_of::<Self>()
            + self.list.metadata_bytes()
            + self.brought.capacity() * size_of::<PageId>()
            + positions
    }

    /// Hints among which an access that is not the next one is looked for: twice the depth, or twice the
    /// published horizon if that is more.
    pub fn resync_window(&self) -> u64 {
        2 * u64::from(self.depth.get().max(HORIZON))
    }

    /// The reader has made `reads` accesses.
    pub fn went_on(&mut self, reads: u64, now: u64) {
        self.counts.used += reads;
        (0..reads).for_each(|_| self.depth.consumed());
        self.untried += reads;
        self.stays_within = self.stays_within.saturating_add(self.untried / READS_PER_TRY);
        self.untried %= READS_PER_TRY;
        if let Some(last) = self.last_access.replace(now) {
            let each = now.saturating_sub(last) as f64 / reads as f64;
            self.pace += (each - self.pace) * (PACE_SHARE * reads as f64).min(1.0);
            self.pace = self.pace.max(1.0);
        }
    }

    /// The reader waited for a page that the list names. With as many reads in flight as there may be it
    /// would have waited at any depth.
    pub fn waited(&mut self) {
        self.counts.late += 1;
        if f64::from(self.pages_in_flight()) < f64::from(self.in_flight_max) * self.run_pages {
            self.depth.waited();
        }
    }

    /// The page that the list names at `position` came in, or was to, and is gone before it was read: others
    /// need the frames, or it cannot be read. Nothing comes in from there on before the reader has gone on.
    /// Otherwise the lists of several tenants would take each other's pages for ever, though nobody reads.
    pub fn did_not_stay(&mut self, position: u64) {
        self.stays_within = self.stays_within.min(position.saturating_sub(self.list.position()));
        self.untried = 0;
    }

    /// Appends the pages to bring in now.
    ///
    /// `is_block` tells of the account's blocks, those in flight included, `passed_over` of other pages
    /// whether they are in memory or cannot be had. Each page takes a frame whose use costs nothing, or that
    /// of a page needed later than itself, so that a prefetch does no harm. Under [`HintPolicy::Auto`] it
    /// takes the latter only up to the horizon: a list that goes round would otherwise give up each page for
    /// the next one, and save no read.
    ///
    /// Returns what is known of the answer to the next call.
    pub fn wants(
        &mut self,
        is_block: impl Fn(PageId) -> bool,
        room: &mut Room,
        passed_over: &mut dyn FnMut(PageId) -> bool,
        out: &mut Vec<Want>,
    ) -> Rest {
        let (first, room_in_flight) = (out.len(), self.room_in_flight());
        if !self.policy.prefetches() || self.has_strayed || room_in_flight == 0 {
            return Rest::Idle;
        }
        self.frontier = self.frontier.max(self.list.position());
        let reach = self.reach();
        let mut rest = Rest::Idle;
        let mut batches = self.batches();
        let mut victims = self.present.descending();
        let (mut is_contiguous, mut frontier, mut stop) = (true, self.frontier, None);
        for (scanned, (position, page)) in self.list.from(self.frontier).enumerate() {
            if scanned == WANTS_SCANNED || out.len() - first >= room_in_flight as usize || room.pages == 0 {
                rest = Rest::Unknown;
                break;
            }
            if position >= reach.end {
                stop = Some(position);
                break;
            }
            if self.present.contains(position) || is_block(page) {
                frontier = if is_contiguous { position + 1 } else { frontier };
                continue;
            }
            is_contiguous = false;
            // A page named twice in the window comes in once.
            if self.list.next_use(page) != Some(position) {
                continue;
            }
            // From here on what the list gets depends on others.
            let is_first = rest == Rest::Idle;
            rest = Rest::Unknown;
            if passed_over(page) {
                continue;
            }
            if batches.as_mut().is_some_and(|batches| !batches.take_room(page.file())) {
                continue;
            }
            let want = Want { page, position };
            if room.harmless > 0 {
                room.harmless -= 1;
            } else if victims.next().is_none_or(|next| next <= position) {
                // Nor does any page behind this one get a frame, whatever becomes of this one.
                rest = if is_first { Rest::LacksFrames } else { Rest::Unknown };
                stop = Some(position);
                break;
            } else if !reach.exchanges(want, self.list.use_after(position), &out[first..]) {
                stop = Some(position);
                break;
            }
            out.push(want);
            room.pages -= 1;
        }
        self.frontier = frontier;
        if let Some(stop) = stop {
            self.put_off_cut_run(stop, first, out);
        }
        rest
    }

    /// Up to where pages come in.
    fn reach(&self) -> Reach {
        let from = self.list.position();
        let (depth, horizon) = (u64::from(self.depth.get()), u64::from(self.horizon));
        let stay_until = from.saturating_add(self.stays_within);
        let reach = |end: u64| Reach { end: end.min(stay_until), again_until: NEVER, once_until: NEVER };
        match self.policy {
            HintPolicy::Aggressive { .. } => reach(self.list.end()),
            HintPolicy::Horizon | HintPolicy::CostBenefit | HintPolicy::Off => {
                reach(from + depth.min(horizon.max(u64::from(DEPTH_MIN))))
            }
            HintPolicy::Auto => {
                // Where the device is busy all the time, reads that are begun earlier do not end earlier.
                let busy = if self.is_loop() { LOOP_HORIZON } else { self.in_flight_pages_max() };
                let horizon = horizon.min(u64::from(busy));
                let once = horizon.min(u64::from(ONCE_HORIZON));
                let end = stay_until.min(from + depth);
                Reach { end, again_until: from + horizon, once_until: from + once }
            }
        }
    }

    /// The batches that a call may begin, where reads are begun in batches: one for each file, if none is
    /// under way. What a device is given to do is a file's affair, and files may lie on several.
    fn batches(&self) -> Option<BatchRoom> {
        let HintPolicy::Aggressive { batch } = self.policy else { return None };
        let under_way = self.in_flight.iter().map(|(file, _)| (*file, 0)).collect();
        Some(BatchRoom { pages: u32::from(batch.max(1)), left: under_way })
    }

    /// How many pages may be asked for now. Reads are begun several at a time, since asking has a price.
    fn room_in_flight(&self) -> u32 {
        if let HintPolicy::Aggressive { .. } = self.policy {
            return u32::MAX;
        }
        let in_flight = self.pages_in_flight();
        let left = self.in_flight_max.saturating_sub((f64::from(in_flight) / self.run_pages) as u32);
        if left < self.in_flight_max.div_ceil(4) {
            return 0;
        }
        let pages = (f64::from(left) * self.run_pages) as u32;
        pages.min(self.in_flight_pages_max().saturating_sub(in_flight))
    }

    /// Pages on their way in ahead.
    pub fn pages_in_flight(&self) -> u32 {
        self.in_flight.iter().map(|(_, pages)| pages).sum()
    }

    /// A read of the page was begun ahead.
    pub fn begun(&mut self, page: PageId) {
        match self.in_flight.iter_mut().find(|(file, _)| *file == page.file()) {
            Some((_, pages)) => *pages += 1,
            None => self.in_flight.push((page.file(), 1)),
        }
    }

    /// A page in flight ahead is there, or does not come.
    pub fn landed(&mut self, page: PageId) {
        if let Some(at) = self.in_flight.iter().position(|(file, _)| *file == page.file()) {
            self.in_flight[at].1 -= 1;
            if self.in_flight[at].1 == 0 {
                self.in_flight.swap_remove(at);
            }
        }
    }

    /// Pages in flight at most, however long their transfers are.
    fn in_flight_pages_max(&self) -> u32 {
        self.in_flight_max.max(IN_FLIGHT_PAGES)
    }

    /// Leaves out the last pages asked for if more of their neighbours come into reach soon, and there is
    /// time for that: they are one transfer then.
    fn put_off_cut_run(&self, stop: u64, first: usize, out: &mut Vec<Want>) {
        let Some(last) = out[first..].last().copied() else { return };
        let goes_on = last.position + 1 == stop
            && self.list.page_at(stop).is_some_and(|page| page.0 == last.page.0.wrapping_add(1));
        let start = out[first..].chunk_by(continues).next_back().map_or(0, <[Want]>::len);
        let begin = &out[out.len() - start];
        let is_near = begin.position - self.list.position() <= (stop - self.list.position()) / 2;
        if goes_on && !is_near && start < RUN_PAGES {
            out.truncate(out.len() - start);
        }
    }

    /// Learns how many pages a transfer has.
    pub fn note_runs(&mut self, wants: &[Want]) {
        if !wants.is_empty() {
            let runs = wants.chunk_by(continues).count();
            let mean = (wants.len() as f64 / runs as f64).min(RUN_PAGES as f64);
            self.run_pages += (mean - self.run_pages) / 4.0;
        }
    }

    /// `passed` hints are behind the reader, `skipped` of them unread.
    pub fn judge_skips(&mut self, passed: u64, skipped: u64) {
        self.counts.skipped += skipped;
        self.passed = self.passed.saturating_add(passed.min(u64::from(u32::MAX)) as u32);
        self.skipped = self.skipped.saturating_add(skipped.min(u64::from(u32::MAX)) as u32);
        if self.passed >= SKIP_WINDOW {
            self.has_strayed |= self.skipped > self.passed / 4;
            (self.passed, self.skipped) = (0, 0);
        }
    }

    /// Looks less far ahead if much of what was fetched lately was not used.
    pub fn judge_waste(&mut self) {
        if self.fetched >= WASTE_WINDOW {
            if self.wasted > self.fetched / 4 {
                self.depth.wasted();
            }
            (self.fetched, self.wasted) = (0, 0);
        }
    }
}
