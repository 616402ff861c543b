//! Many pages in one call: hits are latched, and the misses are read together.
//!
//! A call takes what it can without waiting for anybody: pages in memory whose shared latch is free, and the
//! right to load pages that nobody loads yet. The misses then come in as a stream: a few at a time ask for
//! frames under one hold of the policy lock, neighbours become one transfer of up to
//! [`RUN_BYTES`](crate::io::run::RUN_BYTES), and while these are in flight the next few get their frames and
//! those that have arrived are published; so the device has work from the first pages of a list to its last.
//! Then the call waits for pages that read-ahead, hints or prefetches were bringing in before it. At the end,
//! what was refused at first is tried once more.
//!
//! **Why this cannot deadlock.** A call that holds a latch, or the right to load a page, waits for nothing
//! but the device: not for latches, not for frames, and not for loads of other threads, which may wait for
//! frames. A load [ahead](crate::load::prefetch) waits for the device only, and ends without any thread that
//! may wait for this call. So a thread that waits for a page
//! of the batch waits for the device at most. Only a call that came away with nothing at all waits, for the
//! first page of its list, as [`Tenant::read`] does; it holds nothing of its own then.

use std::sync::mpsc;
use std::time::Instant;

use bufpool_policies::PageId;

use crate::access::guard::ReadGuard;
use crate::access::hit::TenantAccess;
use crate::error::{Error, ErrorKind, Result};
use crate::handle::file::{ClassedPage, Page};
use crate::handle::tenant::Tenant;
use crate::io::IoError;
use crate::load::miss::Miss;
use crate::load::page_load::{Charge, Load, Loads};
use crate::load::page_read::{Attempt, PageRead, Verdict};
use crate::memory::lease::FrameLease;
use crate::memory::request::{NextReads, ReadSource};
use crate::page::latch::{Latch, Loading, Patience, Shared, wait_while_ahead};
use crate::page::word::PageWord;
use crate::state::waiting::{Limit, Purpose, Refused, Waits};
use crate::thread::site::{Origin, SiteRef};
use crate::tier::link::Taken;
use crate::write::evict::{Emptied, Emptying, Eviction};

/// Pages that get frames under one hold of the policy lock; more only to complete a transfer.
const STEP_PAGES: usize = 16;

/// Pages whose words are fetched together.
const TOUCHED_PAGES: usize = 16;

const OPERATION: &str = "read page";

/// What became of each page of a list, in its order: a guard, an error, or none where that would have meant
/// waiting.
type Guards<'g> = Vec<Result<Option<ReadGuard<'g>>>>;

impl<'g> TenantAccess<'g> {
    pub(crate) fn guard_many(self, pages: &[ClassedPage<'g>], site: SiteRef) -> Guards<'g> {
        let mut waits = Waits::begin(&self.tenant.pool, Limit::Default);
        let granted = if self.tenant.pool.is_immediate {
            self.read_in_turn(pages, site)
        } else {
            self.read_together(pages, site, &mut waits.latch)
        };
        debug_assert_eq!(granted.len(), pages.len());
        if pages.is_empty() || granted.iter().any(|page| !matches!(page, Ok(None))) {
            return granted;
        }
        let mut granted = granted;
        // The wait for pages on their way counts, too.
        let (page, site) = (pages[0].page(), self.called(site).in_class(pages[0].class()));
        let waited = self.latch_or_load_within(page, Purpose::Read, site, waits);
        let guard = waited.map(|latch| Some(ReadGuard::new(self.tenant, page, latch)));
        granted[0] = guard.map_err(Refused::into_error);
        granted
    }

    /// One page after the other, as deterministic mode has it.
    fn read_in_turn(self, pages: &[ClassedPage<'g>], site: SiteRef) -> Guards<'g> {
        let most = self.tenant.pool.batch_pages_max();
        let mut taken = 0;
        let read = |page: &ClassedPage<'g>| {
            if taken == most {
                return Ok(None);
            }
            let origin = Origin::from(site).in_class(page.class());
            let guard = none_if_not_now(self.guard_shared(page.page(), origin, Limit::Now));
            taken += usize::from(matches!(guard, Ok(Some(_))));
            guard
        };
        pages.iter().map(read).collect()
    }

    fn read_together(self, pages: &[ClassedPage<'g>], site: SiteRef, patience: &mut Patience) -> Guards<'g> {
        let mut batch = Batch {
            tenant: self.tenant,
            pages,
            site: self.called(site),
            granted: pages.iter().map(|_| Ok(None)).collect(),
            taken: 0,
            loads: Vec::new(),
            busy: Vec::new(),
        };
        batch.take();
        if !batch.loads.is_empty() {
            batch.load();
        }
        batch.take_ahead(patience);
        batch.try_again();
        batch.granted
    }
}

/// A page that cannot be had while the call holds others is passed over, too.
fn none_if_not_now<G>(granted: std::result::Result<G, Refused>) -> Result<Option<G>> {
    match granted {
        Ok(guard) => Ok(Some(guard)),
        Err(Refused::Busy) => Ok(None),
        Err(Refused::Failed(error)) => match error.kind() {
            ErrorKind::SelfDeadlock | ErrorKind::Exhausted => Ok(None),
            _ => Err(error),
        },
    }
}

/// A call in progress.
struct Batch<'a, 'g> {
    tenant: &'g Tenant,
    pages: &'a [ClassedPage<'g>],
    /// From where pages without a class are accessed.
    site: SiteRef,
    granted: Guards<'g>,
    /// Pages that are latched or being loaded by this call.
    taken: usize,
    loads: Vec<Entry<'g>>,
    busy: Vec<Busy>,
}

/// A page that this call brings in.
struct Entry<'g> {
    /// Where it is in the list.
    index: usize,
    page: Page<'g>,
    site: SiteRef,
    load: Load<&'g PageWord>,
}

/// A page that could not be latched at once.
struct Busy {
    index: usize,
    cause: Cause,
}

/// Why a page could not be latched at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// A latch on it; a load of this call, if the page is twice in the list; or an operation that holds off
    /// loads.
    Held,
    /// Another thread brings it in.
    Loading,
    /// It is brought in ahead, for no thread that waits.
    Ahead,
}

impl<'g> Batch<'_, 'g> {
    /// Latches what is there, and wins the right to load what nobody loads.
    fn take(&mut self) {
        let most = self.tenant.pool.batch_pages_max();
        for index in 0..self.pages.len() {
            if self.taken == most {
                return;
            }
            if index % TOUCHED_PAGES == 0 {
                self.touch(&self.pages[index..]);
            }
            self.take_at(index);
        }
    }

    /// Latches a page of the list, or wins the right to load it, or notes that it is busy, or why it cannot
    /// be had.
    fn take_at(&mut self, index: usize) {
        match self.take_one(index, self.pages[index]) {
            Ok(true) => self.taken += 1,
            Ok(false) => {}
            Err(error) => self.granted[index] = Err(error),
        }
    }

    /// Fetches what the next pages will need, if they are there.
    fn touch(&self, pages: &[ClassedPage<'g>]) {
        let (filter, watched) = (&self.tenant.pool.hot.filter, self.tenant.tag().watched);
        let frames = words_of(pages.iter().take(TOUCHED_PAGES).map(|page| page.page()))
            .filter_map(|word| word.state().resident_frame());
        std::hint::black_box(frames.filter(|frame| filter.skips(filter.marked(*frame), watched)).count());
    }

    /// As [`take_at`](Self::take_at). Returns whether the page is latched or loaded by this call.
    fn take_one(&mut self, index: usize, page: ClassedPage<'g>) -> Result<bool> {
        let (page, site) = self.accessed(page);
        let word = TenantAccess::of(self.tenant).checked_word(page, Purpose::Read, OPERATION)?;
        // A page may come or go between two looks, but not often.
        for _ in 0..4 {
            match Latch::try_new(word) {
                Ok(latch) => {
                    self.grant_hit(index, page, site, latch);
                    return Ok(true);
                }
                Err(state) if state.is_absent() => {}
                Err(state) => {
                    let is_ours = || self.loads.iter().any(|entry| entry.page.id() == page.id());
                    let cause = match () {
                        () if state.is_loading_ahead() => Cause::Ahead,
                        () if state.is_loading() && !is_ours() => Cause::Loading,
                        () => Cause::Held,
                    };
                    self.busy.push(Busy { index, cause });
                    return Ok(false);
                }
            }
            if let Ok(loading) = Loading::try_new(word) {
                let charge = Charge { tenant: self.tenant.tenant_id(), site };
                let begun = Load::begin(loading, page.id(), &page.file().shared, charge, OPERATION)?;
                let Some(load) = begun else {
                    self.busy.push(Busy { index, cause: Cause::Held });
                    return Ok(false);
                };
                self.loads.push(Entry { index, page, site, load });
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A page of the list, and from where it is accessed.
    fn accessed(&self, page: ClassedPage<'g>) -> (Page<'g>, SiteRef) {
        (page.page(), self.site.in_class(page.class()))
    }

    fn grant_hit(&mut self, index: usize, page: Page<'g>, site: SiteRef, latch: Latch<&'g PageWord, Shared>) {
        let tenant = self.tenant;
        let frame = TenantAccess::of(tenant).marked(latch.frame());
        TenantAccess::of(tenant).note_hit_at(tenant.pool.hot.tag, page, frame, site, false);
        self.granted[index] = Ok(Some(ReadGuard::new(tenant, page, latch)));
    }

    /// Brings in the misses.
    fn load(&mut self) {
        let (pool, tenant) = (&*self.tenant.pool, self.tenant.tenant_id());
        let waiting = std::mem::take(&mut self.loads).into_iter();
        let mut stream =
            Stream { batch: self, waiting, flying: Vec::new(), arrived: Vec::new(), again: Vec::new() };
        stream.take_from_tier();
        pool.arena.read_stream(&*pool.backend, tenant, &mut stream);
        stream.read_again();
    }

    /// Waits for the pages that are on their way already, and latches them; brings in those whose load has
    /// failed. The device is all that such a load waits for.
    fn take_ahead(&mut self, patience: &mut Patience) {
        let ahead: Vec<Busy> = self.busy.extract_if(.., |busy| busy.cause == Cause::Ahead).collect();
        for Busy { index, .. } in ahead {
            if self.taken == self.tenant.pool.batch_pages_max() {
                break;
            }
            let page = self.pages[index].page();
            let word = page.file().shared.table.get(page.number());
            let has_waited = word.is_some_and(|word| wait_while_ahead(word, patience));
            self.take_at(index);
            // One that is not there yet is counted when it is granted. One that this call brings in is no
            // hit.
            self.tenant.pool.count_waited(has_waited && matches!(self.granted[index], Ok(Some(_))));
        }
        if !self.loads.is_empty() {
            self.load();
        }
    }

    /// Latches what was busy at first: a page twice in the list, or one that another thread has let go of
    /// meanwhile.
    fn try_again(&mut self) {
        for Busy { index, cause } in std::mem::take(&mut self.busy) {
            let (page, site) = self.accessed(self.pages[index]);
            let word = page.file().shared.table.get(page.number());
            if let Some(Ok(latch)) = word.map(Latch::try_new) {
                self.tenant.pool.count_waited(matches!(cause, Cause::Loading | Cause::Ahead));
                self.grant_hit(index, page, site, latch);
            }
        }
    }
}

/// A page whose frame is being read into, and when it was given that.
struct Flying<'g> {
    entry: Entry<'g>,
    begun: Instant,
}

/// The misses of a call on their way in.
struct Stream<'s, 'a, 'g> {
    batch: &'s mut Batch<'a, 'g>,
    /// Without frames, in the order of the list.
    waiting: std::vec::IntoIter<Entry<'g>>,
    /// With frames that are being read, in the order of the frames in the stream of reads.
    flying: Vec<Option<Flying<'g>>>,
    /// Read and verified.
    arrived: Vec<(Entry<'g>, FrameLease)>,
    /// To be read by themselves at the end.
    again: Vec<(Entry<'g>, FrameLease, Attempt)>,
}

impl<'g> ReadSource for Stream<'_, '_, 'g> {
    /// Frames for the next few pages. If there are not as many, the rest of the list is given up: the caller
    /// reads such a page by itself, and waits or is told why.
    fn next(&mut self, reads: &mut NextReads) {
        let tenant = self.batch.tenant;
        let pool = &*tenant.pool;
        while reads.is_empty() && !self.waiting.as_slice().is_empty() {
            let count = self.step_len();
            let pages = self.waiting.as_slice()[..count].iter().map(|entry| (entry.page.id(), entry.site));
            let admitted = Miss::of(pool).admit_all(tenant, pages);
            let is_short = admitted.len() < count;
            for admitted in admitted {
                let entry = self.waiting.next().expect("a page for each answer");
                let (id, how) = (tenant.tenant_id(), Emptying::Waiting(None));
                match Eviction::of(pool).vacate(admitted, id, entry.site, false, how) {
                    Ok(Emptied::Frame(lease)) => self.begin(entry, lease, reads),
                    // The victim cannot leave, so this page gets no guard.
                    Ok(_) | Err(_) => entry.load.give_up(),
                }
            }
            if is_short {
                std::mem::take(&mut self.waiting).for_each(|entry| entry.load.give_up());
            }
        }
    }

    fn landed(
        &mut self,
        first: usize,
        leases: &mut [Option<FrameLease>],
        result: std::result::Result<(), IoError>,
    ) {
        let pool = &*self.batch.tenant.pool;
        let pages = leases.len();
        if let Some(Flying { entry, begun }) = &self.flying[first] {
            let (file, number) = (&entry.page.file().shared, entry.page.number());
            PageRead::of(pool).transferred(file, number, pages, *begun, result.is_ok());
        }
        for (at, lease) in leases.iter_mut().enumerate() {
            let Flying { entry, .. } = self.flying[first + at].take().expect("a page arrives once");
            let mut lease = lease.take().expect("a page arrives in its frame");
            let (file, number) = (&entry.page.file().shared, entry.page.number());
            let attempt = if pages > 1 { Attempt::Together } else { Attempt::First };
            match PageRead::of(pool).judge(file, number, &mut lease, result.clone(), attempt, OPERATION) {
                Verdict::Good => {
                    if pages == 1 {
                        PageRead::of(pool).offer(file, number, &mut lease);
                    }
                    self.arrived.push((entry, lease));
                }
                Verdict::Again(attempt) => self.again.push((entry, lease, attempt)),
                Verdict::Failed(error) => self.refuse(entry, lease, error),
            }
        }
    }

    fn publish(&mut self) {
        let tenant = self.batch.tenant;
        let words = words_of(self.arrived.iter().map(|(entry, _)| entry.page));
        std::hint::black_box(words.filter(|word| word.state().is_loading()).count());
        let arrived = self.arrived.iter().map(|(entry, lease)| (&entry.load, lease.frame()));
        Loads::of(&tenant.pool).enter_all(arrived);
        for (Entry { index, page, load, .. }, lease) in self.arrived.drain(..) {
            let latch = load.publish(lease);
            self.batch.granted[index] = Ok(Some(ReadGuard::new(tenant, page, latch)));
        }
    }
}

impl<'g> Stream<'_, '_, 'g> {
    /// Asks the tier, if there is one, for all pages that have no neighbours in the list: runs are read from
    /// the file whole. Waits for the answers, and gives the pages that there are their frames.
    fn take_from_tier(&mut self) {
        let tenant = self.batch.tenant;
        let pool = &*tenant.pool;
        if pool.tier.is_none() {
            return;
        }
        let (sender, answers) = mpsc::channel();
        let mut copies: Vec<Option<Taken>> = Vec::new();
        let waiting = self.waiting.as_slice();
        for (at, Entry { page, .. }) in waiting.iter().enumerate() {
            copies.push(None);
            let follows_last = at > 0 && follows(waiting[at - 1].page, *page);
            let is_followed = waiting.get(at + 1).is_some_and(|next| follows(*page, next.page));
            let asked = PageRead::of(pool).in_tier(&page.file().shared, page.number());
            let Some((tier, name, version)) = asked.filter(|_| !follows_last && !is_followed) else {
                continue;
            };
            let sender = sender.clone();
            tier.take_later(name, version, move |copy| {
                // Cannot fail: the receiver waits for all answers.
                let _ = sender.send((at, copy));
            });
        }
        drop(sender);
        answers.into_iter().for_each(|(at, copy)| copies[at] = copy);
        let mut rest = Vec::new();
        for (entry, copy) in std::mem::take(&mut self.waiting).zip(copies) {
            match copy {
                Some(copy) => self.land_copy(entry, &copy),
                None => rest.push(entry),
            }
        }
        self.waiting = rest.into_iter();
        if !self.arrived.is_empty() {
            self.publish();
        }
    }

    /// The tier gave the page. Without a frame at once it is given up: the caller reads it by itself, and
    /// waits or is told why.
    fn land_copy(&mut self, entry: Entry<'g>, copy: &Taken) {
        let (tenant, site) = (self.batch.tenant, entry.site);
        let pool = &*tenant.pool;
        let admitted = Miss::of(pool).admit_all(tenant, std::iter::once((entry.page.id(), site)));
        let empty = |admitted| {
            Eviction::of(pool).vacate(admitted, tenant.tenant_id(), site, false, Emptying::Waiting(None))
        };
        let Some(Ok(Emptied::Frame(mut lease))) = admitted.into_iter().next().map(empty) else {
            pool.tier.iter().for_each(|tier| tier.served_no_miss());
            return entry.load.give_up();
        };
        let (file, number) = (&entry.page.file().shared, entry.page.number());
        if PageRead::of(pool).accept_copy(file, number, &mut lease, copy) {
            self.arrived.push((entry, lease));
        } else {
            self.again.push((entry, lease, Attempt::First));
        }
    }

    /// How many pages get frames next: [`STEP_PAGES`], and those with which they are one transfer.
    fn step_len(&self) -> usize {
        let waiting = self.waiting.as_slice();
        let mut run = 0;
        for (at, entry) in waiting.iter().enumerate() {
            let run_pages = entry.page.file().shared.run_pages;
            let goes_on = at > 0 && run < run_pages && follows(waiting[at - 1].page, entry.page);
            if !goes_on && at >= STEP_PAGES {
                return at;
            }
            run = if goes_on { run + 1 } else { 1 };
        }
        waiting.len()
    }

    /// Adds a page, whose frame is empty, to what is read next.
    fn begin(&mut self, entry: Entry<'g>, lease: FrameLease, reads: &mut NextReads) {
        let page = entry.page;
        let before = self.flying.last().and_then(Option::as_ref).filter(|_| !reads.is_empty());
        let goes_on = reads.last_pages() < page.file().shared.run_pages
            && before.is_some_and(|before| follows(before.entry.page, page));
        if goes_on {
            reads.extend(lease);
        } else {
            match page.file().shared.io(OPERATION) {
                Ok(file) => reads.begin(file, page.number(), lease),
                Err(error) => return self.refuse(entry, lease, page.named_in(error)),
            }
        }
        self.flying.push(Some(Flying { entry, begun: Instant::now() }));
    }

    /// The page does not come in.
    fn refuse(&mut self, entry: Entry<'g>, lease: FrameLease, error: Error) {
        Loads::of(&self.batch.tenant.pool).abandon(entry.load, lease);
        self.batch.granted[entry.index] = Err(error);
    }

    /// Reads what went wrong once more, page by page.
    fn read_again(&mut self) {
        let tenant = self.batch.tenant;
        let (pool, id) = (&*tenant.pool, tenant.tenant_id());
        let mut again = std::mem::take(&mut self.again);
        again.sort_unstable_by_key(|(entry, ..)| entry.index);
        for (entry, mut lease, attempt) in again {
            let (file, number) = (&entry.page.file().shared, entry.page.number());
            match PageRead::of(pool).read(file, number, &mut lease, id, attempt, OPERATION) {
                Ok(()) => self.arrived.push((entry, lease)),
                Err(error) => self.refuse(entry, lease, error),
            }
        }
        if !self.arrived.is_empty() {
            self.publish();
        }
    }
}

/// The words of pages. Callers load all of them first, so that the cache misses overlap: no load overtakes
/// the atomic operations that follow.
fn words_of<'g>(pages: impl Iterator<Item = Page<'g>>) -> impl Iterator<Item = &'g PageWord> {
    pages.filter_map(|page| page.file().shared.table.get(page.number()))
}

/// `b` is the next page of the same file.
fn follows(a: Page<'_>, b: Page<'_>) -> bool {
    PageId(a.id().0 + 1) == b.id()
}
