//! Disclosed reads: a list of pages that a tenant will read, in order, from which the pool fetches ahead and
//! by which it replaces.
//!
//! The engine's iterator is run by the calls of its own handle only, on the caller's thread, with no lock of
//! the pool held, and a bounded number of items a call. What it yields goes into the handle's queue and into
//! the list that the directory keeps ([`bufpool_policies::hints`]); the pump, completions and questions about
//! victims see the list alone. So an iterator that blocks, reads pages of the same pool or panics holds up
//! nobody but its owner.
//!
//! A reader that calls `next` is where its handle says, and the directory hears of that at each pump. Where
//! the engine reads the pages by other calls, the directory matches accesses with the list, and the handle
//! follows.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bufpool_policies::hints::{HINTS_MAX, HintCounts, HintListId, HintPolicy};
use bufpool_policies::{ContextId, FileId, HintOptions, PageId};

use crate::access::futures::ReadFuture;
use crate::access::hit::TenantAccess;
use crate::access::owned::OwnedReadGuard;
use crate::engine::recorder::Event;
use crate::error::{Error, ErrorKind, Result};
use crate::files::word::OwnedWord;
use crate::handle::file::{File, Page};
use crate::handle::tenant::Tenant;
use crate::load::prefetch::Prefetch;
use crate::page::latch::Latch;
use crate::policy::ahead::Expectation;
use crate::policy::hint_lists::DroppedList;
use crate::policy::state::PolicyState;
use crate::state::waiting::{Limit, Purpose, Refused};
use crate::thread::site::{Origin, SiteRef};

const HINT: &str = "hint pages";
const NEXT: &str = "read hinted page";

/// Items asked of the iterator by one call.
const PULLED_MAX: usize = 256;
/// Hints ahead of a reader that has not read anything yet; with each read, [`AHEAD_A_READ`] more.
const AHEAD_AT_FIRST: u64 = 16;
const AHEAD_A_READ: u64 = 4;
/// Hints that the directory is told of under one hold of the policy lock, which take it some 100 us.
const TOLD_AT_ONCE: usize = 1024;
/// Reads after which the directory hears of the reader's progress at the latest.
const UNTOLD_MAX: u64 = 16;
/// The most files that a list keeps handles of, for lists that go through several files at a time.
const FILES_KEPT: usize = 4;

/// A page to be read, named without a borrow of its file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HintedPage {
    /// The file's number in the pool; see [`File::id`].
    pub file: FileId,
    /// The page's number within its file, from 0.
    pub number: u64,
}

impl HintedPage {
    /// The page's name in policies. A page that no file can have gets the name of the last possible page.
    fn id(self) -> PageId {
        let file = self.file.min(FileId::MAX);
        let number = self.number.min((1 << PageId::NUMBER_BITS) - 1);
        PageId::in_file(file, number)
    }
}

impl From<Page<'_>> for HintedPage {
    fn from(page: Page<'_>) -> Self {
        Self { file: page.file().id(), number: page.number() }
    }
}

/// Reads that a tenant has disclosed, and the reader of them; see [`Tenant::hint`].
///
/// Pages are fetched before [`next`](Self::next) asks for them, and those that the list names again are kept
/// in preference to others of the tenant. Only the page handed out is held: fetched pages are unpinned, and
/// one that has left before it is read is read again.
///
/// The handle does not own the scan. The engine may leave pages out with [`skip`](Self::skip), plan the rest
/// anew with [`replan`](Self::replan), and drop the handle at any time: that withdraws what is not reached.
/// It may also read all pages by other calls of the same tenant: until the first call of `next` or
/// `next_async`, each access is matched with the next hint of the list or one shortly after it. From that
/// call on, and from the beginning with [`Tenant::hint_to_read`](crate::Tenant::hint_to_read), only these
/// calls and `skip` move the reader: they return each page that is not skipped, and other accesses move
/// nothing.
///
/// # Limits
///
/// Fetched pages that nobody has read yet are at most
/// [`hint_limit_percent`](crate::PoolOptions::hint_limit_percent) of the frames the tenant may own, transfers
/// in flight for one list at most twice [`saturation_depth`](crate::PoolOptions::saturation_depth), and the
/// pool holds at most 65,536 hints ahead of a reader; the iterator is asked for more as the reader comes
/// near.
///
/// # Wrong hints
///
/// Pages beyond their file's end, and pages of a file that is closed or removed, are skipped and counted.
/// Once the reader has skipped more than a quarter of 256 successive hints, the pool fetches nothing more for
/// the list. What a list gives up wrongly costs its own tenant, as with every source of advice.
pub struct Hints<I = Box<dyn Iterator<Item = HintedPage> + Send>> {
    tenant: Tenant,
    pages: Option<I>,
    cursor: Cursor,
    /// The pages are read by [`next`](Self::next), and not by other calls.
    leads: bool,
    /// Reads since the directory heard of the position.
    untold: u64,
    /// The list in the directory; none if hints are off.
    list: Option<Disclosed>,
    /// Counts of earlier lists of this handle, which ended by a new plan, or as the tenant left the commons.
    ended: HintCounts,
    /// How far the pool looks ahead, when it said so last.
    depth: u32,
    depth_max: u32,
    rate: ReadRate,
    /// From where the reads were disclosed.
    site: SiteRef,
    /// From where all of them are made; None if from where [`next`](Self::next) is called.
    reads_at: Option<SiteRef>,
    /// Files of the pages read last, at most [`FILES_KEPT`], those named last coming first.
    files: Vec<Arc<File>>,
}

/// The reader's place in its list.
struct Cursor {
    /// What the iterator yielded and the reader has not reached.
    yielded: VecDeque<HintedPage>,
    /// Those at the front of `yielded` that the directory has.
    disclosed: usize,
    /// Hints consumed or skipped.
    position: u64,
}

/// How fast the reader goes when it does not wait.
struct ReadRate {
    /// When the directory last heard of reads, and how long the reader has waited for pages since then.
    since: Instant,
    waited: Duration,
    /// The time between two reads without waits; a moving average, 0 before the first.
    access_ns: u64,
}

impl ReadRate {
    /// `reads` were made. Returns how long they took, waits left out.
    fn lap(&mut self, reads: u64) -> Duration {
        let now = Instant::now();
        let busy = now.duration_since(self.since).saturating_sub(self.waited);
        (self.since, self.waited) = (now, Duration::ZERO);
        if let Some(each) = u64::try_from(busy.as_nanos()).ok().and_then(|busy| busy.checked_div(reads)) {
            self.access_ns =
                if self.access_ns == 0 { each } else { self.access_ns - self.access_ns / 8 + each / 8 };
        }
        busy
    }

    /// How far ahead a read that takes `read_ns` must be begun to be there in time.
    fn horizon(&self, read_ns: u64) -> Option<u32> {
        let during_a_read = read_ns.checked_div(self.access_ns)?;
        // A few more, because reads are begun a few at a time; and twice that, because reads sometimes take
        // longer.
        let horizon = during_a_read.saturating_add(UNTOLD_MAX).saturating_mul(2);
        (read_ns > 0).then(|| u32::try_from(horizon).unwrap_or(u32::MAX))
    }
}

/// A list in the directory.
#[derive(Clone, Copy)]
struct Disclosed {
    id: HintListId,
    /// The handle's position when the list was opened.
    opened_at: u64,
    context: ContextId,
}

impl TenantAccess<'_> {
    /// Discloses reads from `site`. They are made from `reads_at`, if the caller says so, and by the handle
    /// alone if it `leads`.
    pub(crate) fn open_hints<I>(
        self,
        pages: I,
        site: SiteRef,
        reads_at: Option<SiteRef>,
        leads: bool,
    ) -> Result<Hints<I>>
    where
        I: Iterator<Item = HintedPage>,
    {
        let mut hints = Hints {
            tenant: self.tenant.clone(),
            pages: Some(pages),
            cursor: Cursor { yielded: VecDeque::new(), disclosed: 0, position: 0 },
            leads,
            untold: 0,
            list: None,
            ended: HintCounts::default(),
            depth: 0,
            depth_max: 0,
            rate: ReadRate { since: Instant::now(), waited: Duration::ZERO, access_ns: 0 },
            site,
            reads_at,
            files: Vec::new(),
        };
        hints.list = hints.open_list(&mut *hints.tenant.lock_policy(HINT)?);
        hints.refill();
        // Fetches nothing yet: the reader reads its first page itself, sooner than a thread of the backend
        // would have it.
        hints.tell(false);
        Ok(hints)
    }
}

impl<I> Hints<I> {
    /// Hints consumed or skipped so far.
    pub fn position(&self) -> u64 {
        self.cursor.position
    }

    /// What became of the hints of this list so far. What it names while hints are off is not counted. All
    /// zero once the tenant or the pool is closed. Applies the hits that the calling thread has noted, under
    /// a lock of the pool.
    pub fn counts(&self) -> HintCounts {
        let Ok(mut policy) = self.tenant.lock_policy(HINT) else { return HintCounts::default() };
        let mut counts = self.ended;
        if let Some(list) = self.list {
            self.sync(&mut policy, list);
            counts.add(&policy.directory.hint_counts(list.id).unwrap_or_default());
        }
        counts
    }

    /// How many hints ahead of the reader the pool fetches now; 0 where it fetches nothing. Takes a lock of
    /// the pool.
    pub fn depth(&self) -> u32 {
        let Ok(policy) = self.tenant.lock_policy(HINT) else { return 0 };
        self.list.and_then(|list| policy.directory.hint_state(list.id)).map_or(0, |state| state.depth)
    }

    /// What the calling thread has read is in the directory from here on: hits that were noted, and how far
    /// the handle has come, if it moves the list.
    fn sync(&self, policy: &mut PolicyState, list: Disclosed) {
        self.tenant.pool.drain_own_log_into(policy);
        if let Some(position) = self.position_in(list) {
            policy.directory.hints_consumed(list.id, position);
        }
    }

    /// How far the handle has come in the directory's list, if it moves that.
    fn position_in(&self, list: Disclosed) -> Option<u64> {
        self.leads.then(|| self.cursor.position - list.opened_at)
    }

    /// Opens a list in the directory for what comes from the position on; none if hints are off.
    fn open_list(&self, policy: &mut PolicyState) -> Option<Disclosed> {
        let tenant = self.tenant.tenant_id();
        let how = policy.tenants[tenant.index()].hint_policy;
        let depth_max = policy.limit_ahead(tenant, Expectation::Disclosed) as u32;
        if how == HintPolicy::Off || depth_max == 0 {
            return None;
        }
        let in_flight_max = policy.ahead.hints_in_flight_max();
        let options = HintOptions { policy: how, depth_max, in_flight_max };
        // What is in the logs came before the hints.
        self.tenant.pool.drain_own_log_into(policy);
        let context = policy.context_of(tenant, self.site);
        let id = policy.open_hints(tenant, context, options);
        Some(Disclosed { id, opened_at: self.cursor.position, context })
    }

    /// Tells the directory how far the reader has come and what it will read, and begins to fetch.
    fn pump(&mut self) {
        let fetches = !self.tenant.pool.is_immediate;
        self.tell(fetches);
        if fetches {
            Prefetch::of(&self.tenant.pool).carry_out_plans_now();
        }
    }

    /// Tells the directory how far the reader has come and what it will read, and perhaps asks what it wants.
    fn tell(&mut self, asks: bool) {
        let reads = std::mem::take(&mut self.untold);
        let Some(mut list) = self.list else { return };
        let pool = &*self.tenant.pool;
        let busy = self.rate.lap(reads);
        let horizon = self.rate.horizon(pool.ahead_latency_ns.load(Ordering::Relaxed));
        let Ok(mut policy) = self.tenant.lock_policy(HINT) else { return };
        self.sync(&mut policy, list);
        match policy.directory.hint_state(list.id) {
            Some(_) if self.leads => {}
            Some(state) => self.cursor.follow(state.position + list.opened_at),
            None => {
                // The tenant has left the commons, which ended its lists.
                if let Some(ended) = policy.directory.hints_ended(list.id).filter(|_| !self.leads) {
                    self.cursor.follow(ended.position + list.opened_at);
                }
                self.ended.add(&policy.close_hints(list.id, list.context, self.depth_max));
                self.cursor.disclosed = 0;
                self.list = self.open_list(&mut policy);
                let Some(anew) = self.list else { return };
                list = anew;
            }
        }
        let has_more = self.cursor.disclose(&mut policy, list);
        if let Some(horizon) = horizon {
            policy.directory.set_hint_horizon(list.id, horizon);
        }
        policy.note_pace(self.tenant.tenant_id(), reads, busy);
        self.depth = policy.directory.hint_state(list.id).map_or(0, |state| state.depth);
        self.depth_max = self.depth_max.max(self.depth);
        if asks {
            policy.ask_for_disclosed(self.tenant.tenant_id());
            pool.note_plans_made(&policy);
        }
        drop(policy);
        if has_more {
            self.disclose_rest(list);
        }
    }

    /// Tells the directory of the hints that it does not know yet, without keeping others from the policy
    /// lock for long.
    fn disclose_rest(&mut self, list: Disclosed) {
        while let Ok(mut policy) = self.tenant.lock_policy(HINT)
            && self.cursor.disclose(&mut policy, list)
        {}
    }
}

impl Cursor {
    /// The directory has found that hints up to this position were used.
    fn follow(&mut self, followed: u64) {
        let ahead = followed.saturating_sub(self.position).min(self.disclosed as u64);
        self.yielded.drain(..ahead as usize);
        self.disclosed -= ahead as usize;
        self.position += ahead;
    }

    /// Takes the next hint out.
    fn take(&mut self) {
        self.yielded.pop_front();
        self.disclosed = self.disclosed.saturating_sub(1);
    }

    /// Tells the directory of the next hints, at most [`TOLD_AT_ONCE`].
    /// Returns whether it is to hear of more.
    fn disclose(&mut self, policy: &mut PolicyState, list: Disclosed) -> bool {
        let first = self.disclosed;
        let next = self.yielded.iter().skip(first).take(TOLD_AT_ONCE);
        let told = next.take_while(|hint| tell(policy, list, hint.id())).count();
        self.disclosed += told;
        if policy.is_recording() {
            self.record(first, policy, list);
        }
        told == TOLD_AT_ONCE
    }

    /// Tells the recorder of the hints from `first` on that were disclosed, in runs of neighbours.
    fn record(&self, first: usize, policy: &mut PolicyState, list: Disclosed) {
        let pages: Vec<PageId> = self.yielded.range(first..self.disclosed).map(|hint| hint.id()).collect();
        for run in pages.chunk_by(|one, other| one.0.checked_add(1) == Some(other.0)) {
            let (tenant, first, last) = (list.id.tenant().0, run[0], run[run.len() - 1]);
            policy.record(Event::Hint { tenant, first, last });
        }
    }
}

/// Tells the directory of a hint. Returns whether the list has it.
fn tell(policy: &mut PolicyState, list: Disclosed, page: PageId) -> bool {
    let frame = policy.files.frame_of(page);
    let is_told = policy.directory.hint(list.id, page, frame).is_some();
    // Hits on it are to be matched with the list from now on.
    frame.into_iter().filter(|_| is_told).for_each(|frame| policy.note_next_hit(frame));
    is_told
}

/// Whether the error says that the list names a page that its file does not have, or a closed file.
fn is_vain(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::PageBeyondEnd | ErrorKind::FileClosed)
}

impl<I: Iterator<Item = HintedPage>> Hints<I> {
    /// Shared access to the next page of the list, `None` behind its last. Waits as
    /// [`Tenant::read`](crate::Tenant::read) does. One access.
    ///
    /// # Errors
    ///
    /// As [`Tenant::read`](crate::Tenant::read), but that pages beyond their file's end and pages of files
    /// that are closed are skipped. The hint of a page that could not be read is consumed.
    ///
    /// # Panics
    ///
    /// With the iterator's panic. The list ends there; the hints it had yielded before stay.
    #[track_caller]
    #[expect(clippy::should_implement_trait, reason = "an Iterator cannot say from where it is called")]
    pub fn next(&mut self) -> Result<Option<OwnedReadGuard>> {
        let caller = Origin::caller();
        let origin = self.reads_at.map_or(caller, Origin::from);
        self.lead();
        loop {
            self.keep_ahead();
            let Some((hint, file)) = self.peek()? else { return Ok(None) };
            let read = match file {
                Some(file) => self.read(&file, hint.number, origin),
                None => {
                    let error = Error::new(ErrorKind::FileClosed, NEXT, "the file is not open");
                    Err(error.at_page(hint.number))
                }
            };
            match read {
                Err(error) if is_vain(&error) => self.pass_over(1),
                outcome => {
                    self.consume();
                    return outcome.map(Some);
                }
            }
        }
    }

    /// As [`next`](Self::next), as a future for any executor; see [`ReadFuture`]. One that is dropped before
    /// it is ready has consumed nothing.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next), from the future.
    ///
    /// # Panics
    ///
    /// The future panics with the iterator's panic, and if it is polled again after it was ready.
    #[track_caller]
    pub fn next_async(&mut self) -> NextFuture<'_, I> {
        let caller = Origin::caller();
        let site = self.reads_at.unwrap_or_else(|| caller.site());
        self.lead();
        NextFuture { hints: self, site, reading: None, pending_since: None, is_over: false }
    }

    /// Appends reads, for engines that know them late. They come after all that the iterator has yielded so
    /// far, and before what it has not. All of `pages` is taken into the handle's memory at once, and told to
    /// the pool as far as its limits allow, the rest later.
    ///
    /// # Panics
    ///
    /// With the panic of `pages`.
    pub fn extend(&mut self, pages: impl IntoIterator<Item = HintedPage>) {
        self.cursor.yielded.extend(pages);
        self.pump();
    }

    /// Puts `pages` in the place of all that the reader has not reached, what the iterator has not yielded
    /// included: for engines that find out in which order they need pages, or that they need others. Pages
    /// that came in for the list, or were created while it named them, and that are named again are kept
    /// until they are read, and are the first to go when the list names them no further. All of `pages` is
    /// taken into the handle's memory at once. Counts and position go on.
    ///
    /// # Errors
    ///
    /// As [`Tenant::hint`](crate::Tenant::hint). The list is as it was then.
    ///
    /// # Panics
    ///
    /// With the panic of `pages`. The list is as it was then.
    pub fn replan(&mut self, pages: impl IntoIterator<Item = HintedPage>) -> Result<()> {
        let pages = pages.into_iter().collect();
        self.tell(false);
        let before = self.list;
        {
            let mut policy = self.tenant.lock_policy(HINT)?;
            self.list = self.open_list(&mut policy);
            self.cursor.yielded = pages;
            self.cursor.disclosed = 0;
            if let Some(before) = before {
                policy.record(Event::HintsReplan { tenant: before.id.tenant().0 });
            }
        }
        if let Some(list) = self.list {
            self.disclose_rest(list);
        }
        // The pages that both lists name go over to the new one when the other is closed.
        if let (Some(before), Ok(mut policy)) = (before, self.tenant.lock_policy(HINT)) {
            self.ended.add(&policy.end_hints(before.id, before.context, self.depth_max));
        }
        let replaced = self.pages.take();
        // Without the lock: the iterator may have guards and lists of its own, which end with it.
        drop(replaced);
        self.pump();
        Ok(())
    }

    /// Leaves out the next `pages` of the list, or all if there are fewer: the rest of a LIMIT, entries of an
    /// index that are dead. Asks the iterator for the pages that it leaves out: a step for each.
    ///
    /// # Panics
    ///
    /// With the iterator's panic. The list ends there.
    pub fn skip(&mut self, pages: usize) {
        self.pump();
        let mut left = pages;
        while left > 0 {
            if self.cursor.yielded.is_empty() {
                self.refill();
            }
            let now = left.min(self.cursor.yielded.len());
            if now == 0 {
                break;
            }
            self.pass_over(now);
            left -= now;
        }
        self.refill();
        self.pump();
    }

    /// From here on the handle moves the list. It goes on where other accesses have come to.
    fn lead(&mut self) {
        if !self.leads {
            self.tell(false);
            self.leads = true;
        }
    }

    /// Sees to it that the pool knows enough of what comes, before a read.
    fn keep_ahead(&mut self) {
        let due = u64::from(self.depth / 4).clamp(1, UNTOLD_MAX);
        if self.tenant.pool.is_immediate || self.untold >= due || self.cursor.yielded.is_empty() {
            self.refill();
            self.pump();
        }
    }

    /// Asks the iterator for more, as far as the reader's progress justifies.
    fn refill(&mut self) {
        let target = AHEAD_AT_FIRST.saturating_add(self.cursor.position.saturating_mul(AHEAD_A_READ));
        let target = target.min(HINTS_MAX as u64) as usize;
        let Some(mut pages) = self.pages.take() else { return };
        let mut pulled = 0;
        while self.cursor.yielded.len() < target && pulled < PULLED_MAX {
            // The list ends with an iterator that panics: it is not put back.
            let page = match catch_unwind(AssertUnwindSafe(|| pages.next())) {
                Ok(Some(page)) => page,
                Ok(None) => return,
                Err(panic) => resume_unwind(panic),
            };
            self.cursor.yielded.push_back(page);
            pulled += 1;
        }
        self.pages = Some(pages);
    }

    /// The next hint, with its file if that is open.
    fn peek(&mut self) -> Result<Option<(HintedPage, Option<Arc<File>>)>> {
        self.tenant.check_open(NEXT)?;
        let Some(hint) = self.cursor.yielded.front().copied() else { return Ok(None) };
        Ok(Some((hint, self.file(hint.file))))
    }

    fn file(&mut self, id: FileId) -> Option<Arc<File>> {
        match self.files.iter().position(|file| file.id() == id) {
            Some(0) => {}
            Some(at) => self.files[..=at].rotate_right(1),
            None => {
                let shared = Arc::clone(self.tenant.pool.policy.lock().file(id)?);
                self.files.retain(|file| file.shared.check_open(HINT).is_ok());
                self.files.truncate(FILES_KEPT - 1);
                self.files.insert(0, Arc::new(File::new(self.tenant.pool.clone(), shared)));
            }
        }
        Some(Arc::clone(&self.files[0]))
    }

    fn consume(&mut self) {
        self.cursor.take();
        self.cursor.position += 1;
        self.untold += 1;
        if self.tenant.pool.is_immediate {
            // The page goes before others from now on, whatever is accessed before the list's next page.
            self.tell(false);
        }
    }

    /// Passes over the next `hints`, which the iterator has yielded.
    fn pass_over(&mut self, hints: usize) {
        let told = hints.min(self.cursor.disclosed);
        self.cursor.yielded.drain(..hints);
        self.cursor.disclosed -= told;
        self.tell_skipped(told as u64);
        self.cursor.position += hints as u64;
        if let Some(list) = &mut self.list {
            // The directory never hears of the others: to it the list goes on without them.
            list.opened_at += (hints - told) as u64;
        }
    }

    /// The next hints that the directory has are passed over. The position is still that before them.
    fn tell_skipped(&self, hints: u64) {
        let (Some(list), Ok(mut policy)) = (self.list, self.tenant.lock_policy(HINT)) else { return };
        self.sync(&mut policy, list);
        policy.directory.skip_hints(list.id, hints);
    }

    fn read(&mut self, file: &Arc<File>, number: u64, origin: Origin) -> Result<OwnedReadGuard> {
        let page = file.page(number);
        TenantAccess::of(&self.tenant).checked_word(page, Purpose::Read, NEXT)?;
        let word = OwnedWord::new(Arc::clone(&file.shared), number);
        let state = match Latch::try_new(word) {
            Ok(latch) => {
                let access = TenantAccess::of(&self.tenant);
                let frame = access.marked(latch.frame());
                access.note_hit(self.tenant.pool.hot.tag, page, frame, origin, false);
                return Ok(OwnedReadGuard::on_owned(file.keeper(), number, latch));
            }
            Err(state) => state,
        };
        if state.is_loading() {
            self.waits();
        }
        let since = Instant::now();
        let access = TenantAccess::of(&self.tenant);
        let latch =
            access.latch_shared_slowly(page, origin.place, origin.scope(), origin.class, Limit::Default);
        self.rate.waited += since.elapsed();
        let latch = latch.map_err(Refused::into_error)?;
        Ok(OwnedReadGuard::on_latch(file.keeper(), number, latch))
    }

    /// The reader is about to wait for a page that is being fetched: more should have been, earlier.
    fn waits(&mut self) {
        if let Some(list) = self.list {
            self.tenant.pool.policy.lock().directory.hint_waited(list.id);
            self.pump();
        }
    }
}

impl<I> Drop for Hints<I> {
    fn drop(&mut self) {
        let Some(list) = self.list else { return };
        let pool = &*self.tenant.pool;
        let dropped = DroppedList {
            id: list.id,
            context: list.context,
            depth_max: self.depth_max,
            position: self.position_in(list),
        };
        match self.tenant.lock_policy(HINT) {
            Ok(mut policy) => {
                pool.drain_own_log_into(&mut policy);
                policy.close_dropped(&dropped);
            }
            // The thread has the lock.
            Err(_) if pool.owner.is_here() && pool.owner.is_called_back() => pool.dropped_lists.push(dropped),
            Err(_) => {}
        }
    }
}

impl<I> fmt::Debug for Hints<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Hints({}, at {}, {} ahead)",
            self.tenant.name(),
            self.cursor.position,
            self.cursor.yielded.len()
        )
    }
}

/// A future of the next page of a list of hints; see [`Hints::next_async`].
#[must_use = "futures do nothing unless polled"]
pub struct NextFuture<'h, I> {
    hints: &'h mut Hints<I>,
    site: SiteRef,
    reading: Option<ReadFuture>,
    /// When it was pending first.
    pending_since: Option<Instant>,
    is_over: bool,
}

impl<I: Iterator<Item = HintedPage>> Future for NextFuture<'_, I> {
    type Output = Result<Option<OwnedReadGuard>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.is_over, "polled after it was ready");
        let polled = self.poll_next(context);
        self.is_over = polled.is_ready();
        polled
    }
}

impl<I: Iterator<Item = HintedPage>> NextFuture<'_, I> {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<OwnedReadGuard>>> {
        loop {
            if self.reading.is_none() {
                self.hints.keep_ahead();
                let (hint, file) = match self.hints.peek() {
                    Ok(Some(next)) => next,
                    Ok(None) => return Poll::Ready(Ok(None)),
                    Err(error) => return Poll::Ready(Err(error)),
                };
                let Some(file) = file else {
                    self.hints.pass_over(1);
                    continue;
                };
                let page = file.page(hint.number);
                if file.shared.table.get(hint.number).is_some_and(|word| word.state().is_loading()) {
                    self.hints.waits();
                }
                let reading = TenantAccess::of(&self.hints.tenant).read_future(page, self.site);
                self.reading = Some(reading);
            }
            let reading = self.reading.as_mut().expect("just begun");
            let Poll::Ready(read) = Pin::new(reading).poll(context) else {
                self.pending_since.get_or_insert_with(Instant::now);
                return Poll::Pending;
            };
            self.reading = None;
            if let Some(since) = self.pending_since.take() {
                self.hints.rate.waited += since.elapsed();
            }
            match read {
                Err(error) if is_vain(&error) => self.hints.pass_over(1),
                outcome => {
                    self.hints.consume();
                    return Poll::Ready(outcome.map(Some));
                }
            }
        }
    }
}

impl<I> fmt::Debug for NextFuture<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NextFuture({:?})", self.hints)
    }
}
