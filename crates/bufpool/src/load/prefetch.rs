//! Bringing pages in before anybody asks for them: by request ([`Tenant::prefetch`]), by what an access
//! pattern promises ([`ReadAhead`](bufpool_policies::planner::ReadAhead)), or because a tenant's manager
//! [wants](bufpool_policies::Manager::wants) them.
//!
//! Nobody waits for a prefetch. The caller wins the right to load the pages, gets frames for all of them
//! under one hold of the policy lock, and leaves the transfers to the backend; the completion publishes the
//! pages, unlatched. An access that comes earlier waits for the load like for any other.
//!
//! **What it may cost others.** A prefetch takes free frames and clean victims only, and looks at no more
//! than [`BUSY_MAX`](crate::policy::ahead::BUSY_MAX) frames that are neither; then clean frames are scarce,
//! and it ends and wakes the background writer. Pages that came in and were not accessed yet are at most
//! `prefetch_limit_percent` of the frames a tenant may own. Those that stay unused for long are demoted: they
//! are the next to go. No manager knows a page before its first access, unless it says that it
//! [does](bufpool_policies::Manager::knows_ahead); see
//! [`Directory::admit_ahead`](bufpool_policies::Directory::admit_ahead).
//!
//! **Failures are silent** and counted: the page stays absent, its frame is free again, and the next access
//! reads the page again and gets the error.

use std::cell::Cell;
use std::iter::Peekable;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bufpool_policies::{Access, ContextId, PageId, TenantId, contained};

use crate::files::shared::FileShared;
use crate::files::word::LoadingRun;
use crate::handle::file::Page;
use crate::handle::tenant::Tenant;
use crate::io::{IoError, Request, SourceRef};
use crate::load::page_read::PageRead;
use crate::memory::lease::FrameLease;
use crate::policy::ahead::{AheadCharge, Expectation, Wanted, Wants};
use crate::policy::claims::{Admitted, ClaimRules, Dirty};
use crate::state::shared::{PoolShared, drop_pool_elsewhere};
use crate::thread::site::SiteRef;
use crate::write::evict::{Emptied, Emptying, Eviction};
use crate::write::wishes::Wishes;

/// Pages whose frames are asked for under one hold of the policy lock.
const BATCH_PAGES: usize = 256;
/// Pages of a request that are looked at, resident ones included; the rest is left alone, so that a call
/// always returns soon.
const LOOK_MAX: usize = 1 << 16;

/// Rounds of plans that a thread carries out in one call. Others are left to the next access or completion.
const ROUNDS_MAX: usize = 64;

/// One measurement's share of a moving average is one part in this many.
const MEAN_SHARE: u64 = 16;

const OPERATION: &str = "prefetch page";

/// A tenant's own prefetches.
#[derive(Clone, Copy)]
pub(crate) struct TenantPrefetch<'g> {
    pub tenant: &'g Tenant,
}

impl<'g> TenantPrefetch<'g> {
    /// Of this tenant.
    #[inline(always)]
    pub fn of(tenant: &'g Tenant) -> Self {
        Self { tenant }
    }

    pub(crate) fn prefetch_all<'p>(self, pages: impl IntoIterator<Item = Page<'p>>, site: SiteRef) -> usize {
        let pool = &*self.tenant.pool;
        if pool.is_immediate {
            return 0;
        }
        let charge = {
            let Ok(mut policy) = self.tenant.lock_policy(OPERATION) else { return 0 };
            pool.drain_own_log_into(&mut policy);
            let tenant = self.tenant.tenant_id();
            let context = policy.context_of(tenant, site);
            policy.charge_ahead(tenant, context, Expectation::Guessed)
        };
        let mut pages = pages.into_iter().take(LOOK_MAX).peekable();
        let mut begun = 0;
        while let Some(file) = pages.peek().map(|page| page.file()) {
            if self.tenant.check_file(file, OPERATION).is_err() {
                pages.next();
                continue;
            }
            let same = |page: &Page<'p>| std::ptr::eq(page.file(), file);
            // The iterator yields all numbers before the first page is claimed: it may read pages itself, and
            // would wait for a page that its own thread has claimed.
            let next = std::iter::from_fn(|| pages.next_if(same)).map(Page::number);
            let numbers: Vec<u64> = next.take(BATCH_PAGES).collect();
            let outcome = Prefetch::of(pool).bring_ahead(charge, &file.shared, numbers.into_iter());
            begun += outcome.pages;
            if outcome.refused.is_some() {
                break;
            }
        }
        begun
    }
}

/// What came of a request to bring pages ahead.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Prefetched {
    /// Pages on their way now.
    pub pages: usize,
    /// The first page for which the tenant's limit, or a lack of clean frames, left no room, or that was held
    /// off.
    pub refused: Option<u64>,
}

/// Brings pages in before anybody asks for them.
#[derive(Clone, Copy)]
pub(crate) struct Prefetch<'p> {
    pub pool: &'p PoolShared,
}

impl<'p> Prefetch<'p> {
    /// Of this pool.
    #[inline(always)]
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
    }

    /// Begins to read those of the pages that are absent, as far as limit and clean frames go. Never waits.
    pub(crate) fn bring_ahead(
        self,
        charge: AheadCharge,
        file: &Arc<FileShared>,
        numbers: impl Iterator<Item = u64>,
    ) -> Prefetched {
        let mut numbers = numbers.peekable();
        let mut begun = Prefetched::default();
        while numbers.peek().is_some() && begun.refused.is_none() {
            let runs = match self.claim_absent(file, &mut numbers) {
                Ok(runs) if runs.is_empty() => break,
                Ok(runs) => runs,
                Err(held_off) => {
                    begun.refused = Some(held_off);
                    break;
                }
            };
            let now = self.load_ahead(charge, file, runs);
            begun.pages += now.pages;
            begun.refused = now.refused;
        }
        begun
    }

    /// Wins the right to load the first absent ones of the pages. Fails with the first of them where an
    /// operation on the file that is not decided yet holds them off.
    fn claim_absent(
        self,
        file: &Arc<FileShared>,
        numbers: &mut Peekable<impl Iterator<Item = u64>>,
    ) -> Result<Vec<LoadingRun>, u64> {
        let pages = file.gate.pages();
        let (mut runs, mut claimed): (Vec<LoadingRun>, usize) = (Vec::new(), 0);
        while claimed < BATCH_PAGES
            && let Some(number) = numbers.next()
        {
            if number >= pages {
                continue;
            }
            let is_made = file.table.get(number).is_some();
            if !is_made && file.table.get_or_allocate(number, &self.pool.page_table_budget).is_err() {
                break;
            }
            if runs.last_mut().is_some_and(|run| run.try_extend(number)) {
                claimed += 1;
            } else if let Some(run) = LoadingRun::try_new(file, number) {
                claimed += 1;
                runs.push(run);
            }
        }
        // A thread that closes or shortens the file either sees these words, or is seen here (see
        // [`gate`](crate::files::gate)).
        let last = runs.iter().map(|run| run.numbers().end - 1).max().unwrap_or(0);
        match file.check_loadable(last, OPERATION) {
            Ok(true) => Ok(runs),
            Ok(false) => Err(runs.first().map_or(last, |run| run.numbers().start)),
            Err(_) => Ok(Vec::new()),
        }
    }

    /// Finds frames for pages and hands the transfers to the backend.
    fn load_ahead(self, charge: AheadCharge, file: &Arc<FileShared>, runs: Vec<LoadingRun>) -> Prefetched {
        let Ok(io) = file.io(OPERATION) else { return Prefetched::default() };
        let numbers = runs.iter().flat_map(LoadingRun::numbers);
        let admitted = self.admit_ahead(charge, file, numbers.clone());
        let refused = numbers.clone().nth(admitted.len());
        let begun = Instant::now();
        let mut arrivals = self.arrivals(charge, begun, runs, admitted);
        let pages = arrivals.iter().map(|arrival| arrival.leases.len()).sum();
        self.pool.counters.prefetch_issued.fetch_add(pages as u64, Ordering::Relaxed);
        let transfers = arrivals.len();
        let asks_tier = |arrival: &mut Arrival| self.pool.tier.is_some() && arrival.leases.len() == 1;
        let alone: Vec<Arrival> = arrivals.extract_if(.., asks_tier).collect();
        let request = |arrival: Arrival| arrival.into_request(self.pool, &io);
        let mut requests: Vec<Request> = arrivals.into_iter().map(request).collect();
        self.pool.backend.submit(&mut requests);
        alone.into_iter().for_each(|arrival| arrival.ask_tier(self.pool, &io));
        if let Some(each) = begun.elapsed().checked_div(transfers as u32) {
            move_mean(&self.pool.ahead_submission_ns, each);
        }
        Prefetched { pages, refused }
    }

    /// Empties frames for the first of the pages: for neighbours that get theirs, as many at a time as one
    /// transfer takes. The others are absent again.
    fn arrivals(
        self,
        charge: AheadCharge,
        begun: Instant,
        runs: Vec<LoadingRun>,
        admitted: Vec<Admitted>,
    ) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        let mut admitted = admitted.into_iter();
        for mut run in runs {
            while !run.is_empty() && admitted.len() > 0 {
                let pages_max = run.file().run_pages.min(run.len()).min(admitted.len());
                let mut leases = Vec::with_capacity(pages_max);
                let mut is_broken = false;
                for admitted in admitted.by_ref().take(pages_max) {
                    let emptied = Eviction::of(self.pool).empty(admitted, charge.tenant, Emptying::AtOnce);
                    let Ok(Emptied::Frame(lease)) = emptied else {
                        is_broken = true;
                        break;
                    };
                    leases.push(lease);
                }
                let mut behind = run.split_off(leases.len());
                if !leases.is_empty() {
                    arrivals.push(Arrival::new(self.pool, charge, begun, run, leases));
                }
                run = behind.split_off(usize::from(is_broken));
                behind.give_up();
            }
            run.give_up();
        }
        arrivals
    }

    /// Asks for frames; the answers are for the first pages.
    fn admit_ahead(
        self,
        charge: AheadCharge,
        file: &FileShared,
        numbers: impl Iterator<Item = u64> + Clone,
    ) -> Vec<Admitted> {
        let pages = numbers.map(|number| PageId::in_file(file.id, number));
        let count = pages.clone().count();
        self.pool.free_aside();
        let rules = ClaimRules {
            frames: &self.pool.frames,
            reserve: &self.pool.reserve,
            durable_lsn: 0,
            dirty: Dirty::Left,
            takes_optimistic: self.pool.aside.count() == 0,
        };
        let mut policy = self.pool.policy.lock();
        let room = policy.room_ahead(charge).min(count);
        policy.touch_upcoming(room, &self.pool.frames);
        let admit = |page| policy.admit_ahead(page, charge, &rules);
        let mut admitted = Vec::with_capacity(room);
        admitted.extend(pages.clone().take(room).map_while(admit));
        policy.line_up(&mut admitted);
        policy.note_ahead(charge.tenant, pages, &admitted);
        let wishes = policy.take_wishes();
        drop(policy);
        Wishes::of(self.pool).carry_out(wishes, Emptying::AtOnce);
        if admitted.len() < room {
            self.pool.counters.prefetch_scarce.fetch_add(1, Ordering::Relaxed);
            self.pool.write_back.kick();
        }
        admitted
    }
}

impl<'p> Prefetch<'p> {
    /// Begins to read what streams promise, for a reader that finds its pages in memory. Without the policy
    /// lock; the first thread to come does it for all. While enough transfers are in flight it is left to the
    /// next completion ([`PlansWaiting`](crate::state::plans::PlansWaiting)), which comes before the reader
    /// runs dry: so a scan shares the work with the backend's thread.
    pub(crate) fn carry_out_plans(self) {
        if self.pool.plans.are_due() {
            self.carry_out_plans_now();
        }
    }

    /// Whether reads ahead are to be begun.
    pub(crate) fn has_plans(self) -> bool {
        self.pool.plans.are_any()
    }

    /// As [`carry_out_plans`](Self::carry_out_plans), however many transfers are in flight. For a reader that
    /// has missed a page: transfers in flight may be for other readers, or for pages it needs later.
    pub(crate) fn carry_out_plans_now(self) {
        // In a manager's call this thread holds the policy lock. In the child of a fork the lock may be held
        // for good.
        if !self.has_plans() || !self.pool.owner.may_call() {
            return;
        }
        let Some(_carrying) = Carrying::begin(self.pool) else { return };
        for _ in 0..ROUNDS_MAX {
            if !self.has_plans() {
                return;
            }
            self.carry_out_round();
        }
    }

    /// Carries out the plans that wait now.
    fn carry_out_round(self) {
        let Wants { plans, wanted } = {
            let mut policy = self.pool.policy.lock();
            self.pool.plans.take();
            policy.take_wants()
        };
        wanted.into_iter().for_each(|wanted| self.bring_wanted(wanted));
        for (plan, charge, file) in plans {
            let begun = match file {
                Some(file) => self.bring_ahead(charge, &file, plan.pages.numbers()),
                None => Prefetched::default(),
            };
            // The planner hears only of pages that were not brought in.
            if (begun.pages as u64) < plan.pages.count {
                self.pool.policy.lock().plan_carried_out(&plan, charge, begun.pages, begun.refused);
            }
        }
    }

    /// Begins to read what a manager, or a list of reads, wants. What finds no room is dropped: the manager
    /// or list is asked again later.
    fn bring_wanted(self, Wanted { charge, pages }: Wanted) {
        for pages in pages.chunk_by(|a, b| Arc::ptr_eq(&a.0, &b.0)) {
            let numbers = pages.iter().map(|(_, number)| *number);
            if self.bring_ahead(charge, &pages[0].0, numbers).refused.is_some() {
                break;
            }
        }
    }
}

thread_local! {
    /// The pool whose plans this thread is carrying out.
    static CARRYING: Cell<*const PoolShared> = const { Cell::new(ptr::null()) };
}

/// Marks that the thread carries out plans of a pool, which keeps this from recursing. A page may arrive
/// within the call that asks for it (from a tier, or a source in memory), and its arrival makes new plans.
/// They wait for the thread's next round: carried out within the call they would use ever more stack.
struct Carrying {
    before: *const PoolShared,
}

impl Carrying {
    /// None if the thread carries out this pool's plans already.
    fn begin(pool: &PoolShared) -> Option<Self> {
        let pool: *const PoolShared = pool;
        let before = CARRYING.get();
        (before != pool).then(|| {
            CARRYING.set(pool);
            Self { before }
        })
    }
}

impl Drop for Carrying {
    fn drop(&mut self) {
        CARRYING.set(self.before);
    }
}

/// Lets a moving average in nanoseconds follow a measurement. Two threads may overwrite each other; losing a
/// measurement does not matter.
fn move_mean(mean_ns: &AtomicU64, sample: Duration) {
    let now = u64::try_from(sample.as_nanos()).unwrap_or(u64::MAX);
    let before = mean_ns.load(Ordering::Relaxed);
    let next = if before == 0 { now } else { before - before / MEAN_SHARE + now / MEAN_SHARE };
    mean_ns.store(next, Ordering::Relaxed);
}

/// Neighbouring pages of a file on their way in, with nobody waiting for them. One of the pool's
/// runs ahead. Dropped on the way, by a panic, it gives the pages up.
struct Arrival {
    pool: Weak<PoolShared>,
    run: LoadingRun,
    tenant: TenantId,
    /// From where the accesses are expected.
    context: ContextId,
    begun: Instant,
    /// The last transfer was made then.
    submitted: Instant,
    /// Of the pages' frames, while no transfer has them.
    leases: Vec<FrameLease>,
}

impl Arrival {
    /// The pages of `run`, in the frames of `leases`.
    fn new(
        pool: &PoolShared,
        charge: AheadCharge,
        begun: Instant,
        run: LoadingRun,
        leases: Vec<FrameLease>,
    ) -> Self {
        pool.plans.begin_run();
        let AheadCharge { tenant, context, .. } = charge;
        Self { pool: pool.me.clone(), run, tenant, context, begun, submitted: begun, leases }
    }

    fn first(&self) -> u64 {
        self.run.numbers().start
    }

    fn into_request(mut self, pool: &PoolShared, io: &SourceRef) -> Request {
        self.submitted = Instant::now();
        let (first, leases, tenant) = (self.first(), std::mem::take(&mut self.leases), self.tenant);
        pool.arena.read_request(io.clone(), first, leases, tenant, move |leases, result| {
            self.leases = leases;
            self.complete(&result);
        })
    }

    /// Looks for the page, a single one, in the tier, and reads it from the file if it is not there.
    fn ask_tier(mut self, pool: &PoolShared, io: &SourceRef) {
        let (io, first) = (io.clone(), self.first());
        let Some((tier, name, version)) = PageRead::of(pool).in_tier(self.run.file(), first) else {
            return pool.backend.submit(&mut vec![self.into_request(pool, &io)]);
        };
        tier.take_later(name, version, move |copy| {
            let Some(pool) = self.pool.upgrade() else { return };
            let lease = &mut self.leases[0];
            let is_good = copy
                .is_some_and(|copy| PageRead::of(&pool).accept_copy(self.run.file(), first, lease, &copy));
            if is_good {
                self.arrive(&pool, &[]);
            } else {
                pool.backend.submit(&mut vec![self.into_request(&pool, &io)]);
            }
            drop_pool_elsewhere(pool);
        });
    }

    /// The transfer is over. Runs in a thread of the backend, or in whichever submitted it.
    fn complete(mut self, result: &Result<(), IoError>) {
        // A pool that is gone has no use for frames; the words become absent.
        let Some(pool) = self.pool.upgrade() else { return };
        move_mean(&pool.ahead_latency_ns, self.begun.elapsed());
        let (file, pages) = (self.run.file(), self.run.len());
        PageRead::of(&pool).transferred(file, self.first(), pages, self.submitted, result.is_ok());
        let refused = match result {
            Err(_) => (0..pages).collect(),
            Ok(()) => self.verify(&pool),
        };
        self.arrive(&pool, &refused);
        drop_pool_elsewhere(pool);
    }

    /// The places of the pages that hooks refuse. A single page that they do not refuse is offered to the
    /// tier.
    fn verify(&mut self, pool: &PoolShared) -> Vec<usize> {
        let (read, is_alone) = (PageRead::of(pool), self.leases.len() == 1);
        let mut refused = Vec::new();
        if pool.hooks.is_none() && !is_alone {
            return refused;
        }
        let file = self.run.file();
        for (at, (number, lease)) in self.run.numbers().zip(&mut self.leases).enumerate() {
            if read.verify(file, number, lease).is_err() {
                refused.push(at);
            } else if is_alone {
                read.offer(file, number, lease);
            }
        }
        refused
    }

    /// All pages are in their frames, except for those at the places `refused` (in ascending order), which do
    /// not come in.
    fn arrive(mut self, pool: &PoolShared, refused: &[usize]) {
        self.land(pool, refused);
        // It is in flight no longer.
        drop(self);
        Prefetch::of(pool).carry_out_plans_now();
    }

    /// Publishes the pages, and gives up the frames of those at the places `refused`.
    fn land(&mut self, pool: &PoolShared, refused: &[usize]) {
        let mut failed = Vec::new();
        // Pages that come in, between those refused, the last ones first.
        let mut parts = Vec::with_capacity(refused.len() + 1);
        let (file, tenant) = (self.run.file().id, self.tenant);
        {
            let mut policy = pool.policy.lock();
            let submitting = Duration::from_nanos(pool.ahead_submission_ns.load(Ordering::Relaxed));
            policy.note_read_ahead(self.begun.elapsed(), submitting);
            if let Some(number) = self.run.awaited().next() {
                let (context, page) = (self.context, PageId::in_file(file, number));
                policy.ahead_is_awaited(&Access { tenant, context, file, page, creates: false });
            }
            for at in refused.iter().rev() {
                parts.push((self.run.split_off(at + 1), self.leases.split_off(at + 1)));
                failed.push(self.run.split_off(*at));
                policy.give_up_frame(self.leases.pop().expect("a frame for each page"), tenant);
            }
            parts.push((self.run.split_off(0), std::mem::take(&mut self.leases)));
            for (run, leases) in parts.iter().rev() {
                let late = run.awaited().count() as u64;
                pool.counters.prefetch_late.fetch_add(late, Ordering::Relaxed);
                for (number, lease) in run.numbers().zip(leases) {
                    let frame = lease.frame();
                    pool.frames.get(frame).occupy(PageId::in_file(file, number));
                    policy.directory.loaded(frame);
                }
            }
            if policy.directory.has_hints(tenant) {
                policy.ask_for_disclosed(tenant);
                pool.note_plans_made(&policy);
            }
        }
        parts.into_iter().for_each(|(run, leases)| run.publish(leases));
        if !failed.is_empty() {
            pool.counters.prefetch_failed.fetch_add(failed.len() as u64, Ordering::Relaxed);
        }
        // Outside the lock, since threads that wait for these pages are woken.
        drop(failed);
        pool.frame_may_be_free();
    }

    /// The pages do not come in.
    fn give_up(&mut self, pool: &PoolShared) {
        pool.counters.prefetch_failed.fetch_add(self.run.len() as u64, Ordering::Relaxed);
        let mut policy = pool.policy.lock();
        self.leases.drain(..).for_each(|lease| policy.give_up_frame(lease, self.tenant));
        drop(policy);
        // Outside the lock, since threads that wait for these pages are woken.
        drop(self.run.split_off(0));
        pool.frame_may_be_free();
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        // A pool that is gone has no use for frames; the words become absent.
        let Some(pool) = self.pool.upgrade() else { return };
        if !self.run.is_empty() {
            // After a panic the state may be anything. If giving up panics as well, the frames are lost.
            contained(|| self.give_up(&pool));
        }
        pool.plans.end_run();
        drop_pool_elsewhere(pool);
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::sync::Mutex;

    use bufpool_policies::planner::{Bounds, Plan, Planner, Seen, StreamCounts, Stretch};

    use super::*;
    use crate::io::sim::SimDevice;
    use crate::tier::loses::pool_that_loses;
    use crate::{FileOptions, Pool, PoolOptions};

    /// Notes the pages that are awaited, and how often it is asked for plans.
    #[derive(Default)]
    struct Spy {
        awaited: Arc<Mutex<Vec<Access>>>,
        asked: Arc<AtomicU64>,
    }

    impl Planner for Spy {
        fn observe(&mut self, _: &Access, _: Seen, _: Bounds) -> Option<Stretch> {
            None
        }

        fn reused(&mut self, _: TenantId) {}

        fn awaited(&mut self, access: &Access) {
            self.awaited.lock().unwrap().push(*access);
        }

        fn has_wants(&self) -> bool {
            false
        }

        fn wants(&mut self, _: &mut Vec<Plan>) {
            self.asked.fetch_add(1, Ordering::Relaxed);
        }

        fn carried_out(&mut self, _: &Plan, _: u64, _: Option<u64>) {}

        fn counts(&self) -> StreamCounts {
            StreamCounts::default()
        }

        fn metadata_bytes(&self) -> usize {
            0
        }
    }

    #[test]
    fn the_planner_hears_of_pages_that_are_awaited() {
        let device = SimDevice::new(1);
        device.put("data", &vec![0; 16 * 4096]);
        let pool = PoolOptions::new().frames(32).page_bytes(4096).threads_max(8).open_on(&device).unwrap();
        let file = pool.open_file("data", FileOptions::new()).unwrap();
        let tenant = pool.default_tenant();
        let awaited = Arc::default();
        tenant.pool.policy.lock().ahead.planner =
            Some(Box::new(Spy { awaited: Arc::clone(&awaited), ..Spy::default() }));
        let prefetch = Prefetch::of(&tenant.pool);
        let charge =
            tenant.pool.policy.lock().charge_ahead(tenant.tenant_id(), ContextId(7), Expectation::Guessed);
        let arrival = |number: u64| {
            let runs = prefetch.claim_absent(&file.shared, &mut [number].into_iter().peekable());
            let admitted = prefetch.admit_ahead(charge, &file.shared, [number].into_iter()).remove(0);
            let emptied = Eviction::of(&tenant.pool).empty(admitted, charge.tenant, Emptying::AtOnce);
            let Ok(Emptied::Frame(lease)) = emptied else { panic!("frames are free") };
            Arrival::new(&tenant.pool, charge, Instant::now(), runs.unwrap().remove(0), vec![lease])
        };
        arrival(3).arrive(&tenant.pool, &[]);
        assert_eq!(*awaited.lock().unwrap(), []);
        let arrival = arrival(5);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| drop(tenant.read(file.page(5)).unwrap()));
            while arrival.run.awaited().next().is_none() {
                std::thread::yield_now();
            }
            arrival.arrive(&tenant.pool, &[]);
            reader.join().unwrap();
        });
        let page = PageId::in_file(file.shared.id, 5);
        let AheadCharge { tenant, context, .. } = charge;
        assert_eq!(
            *awaited.lock().unwrap(),
            [Access { tenant, context, file: file.shared.id, page, creates: false }]
        );
    }

    #[test]
    fn a_prefetch_that_is_lost_is_counted_as_failed_and_its_frame_is_free() {
        let (pool, file) = pool_that_loses(60);
        let free = pool.shared().policy.lock().free.len();
        for number in 0..60 {
            assert_eq!(pool.default_tenant().prefetch([file.page(number)]), 1);
        }
        assert_eq!(pool.shared().policy.lock().free.len(), free);
        assert_eq!(pool.shared().plans.runs(), 0);
        assert_eq!((pool.stats().prefetch_issued, pool.stats().prefetch_failed), (60, 60));
        pool.check_invariants();
    }

    /// Its number may be another tenant's by the time that somebody carries out what it wanted.
    #[test]
    fn what_a_closed_tenant_wanted_is_not_brought_in_for_the_next_one() {
        let device = SimDevice::new(1);
        device.put("data", &vec![0; 64 * 4096]);
        let options = PoolOptions::new().frames(64).page_bytes(4096).threads_max(8).read_ahead(false);
        let pool = options.open_on(&device).unwrap();
        let file = pool.open_file("data", FileOptions::new()).unwrap();
        let tenant = pool.tenant("closed").open().unwrap();
        let hints = tenant.hint((0..32).map(|number| file.page(number).into()).collect::<Vec<_>>()).unwrap();
        {
            let mut policy = pool.shared().policy.lock();
            policy.ask_for_disclosed(tenant.tenant_id());
            pool.shared().note_plans_made(&policy);
            assert!(policy.has_wants());
        }
        tenant.clone().close().unwrap();
        let next = pool.tenant("next").open().unwrap();
        assert_eq!(next.id(), tenant.id());
        Prefetch::of(pool.shared()).carry_out_plans_now();
        assert_eq!(pool.stats().prefetch_issued, 0);
        drop(hints);
        pool.check_invariants();
    }

    /// The number of a tenant may be another's before the frames for its plans are asked for.
    #[test]
    fn what_was_taken_for_a_closed_tenant_is_not_charged_to_the_next_one() {
        let device = SimDevice::new(1);
        device.put("data", &vec![0; 64 * 4096]);
        let options = PoolOptions::new().frames(64).page_bytes(4096).threads_max(8);
        let pool = options.open_on(&device).unwrap();
        let file = pool.open_file("data", FileOptions::new()).unwrap();
        let tenant = pool.tenant("closed").open().unwrap();
        let hints = tenant.hint((32..64).map(|number| file.page(number).into()).collect::<Vec<_>>()).unwrap();
        let shared = pool.shared();
        let Wants { plans, wanted } = {
            let mut policy = shared.policy.lock();
            policy.ask_for_disclosed(tenant.tenant_id());
            for number in 0..3 {
                let page = PageId::in_file(file.shared.id, number);
                policy.observe(page, tenant.tenant_id(), ContextId(1), Seen::Missed);
            }
            policy.take_wants()
        };
        assert!(plans.len() == 1 && wanted.len() == 1);
        tenant.clone().close().unwrap();
        let next = pool.tenant("next").open().unwrap();
        assert_eq!(next.id(), tenant.id());
        let charges = plans.iter().map(|plan| plan.1).chain(wanted.iter().map(|wanted| wanted.charge));
        for charge in charges {
            assert_eq!(Prefetch::of(shared).bring_ahead(charge, &file.shared, 8..16).pages, 0);
        }
        assert_eq!(pool.stats().prefetch_issued, 0);
        drop(hints);
        pool.check_invariants();
    }

    /// Carried out within each other, plans would want ever more stack.
    #[test]
    fn plans_that_are_made_while_plans_are_carried_out_wait() {
        let pools = [1, 2].map(|seed| {
            let options = PoolOptions::new().frames(32).page_bytes(4096).threads_max(8);
            options.open_on(&SimDevice::new(seed)).unwrap()
        });
        let tenants = pools.each_ref().map(Pool::default_tenant);
        let asked = tenants.each_ref().map(|tenant| {
            let spy = Spy::default();
            let asked = Arc::clone(&spy.asked);
            tenant.pool.policy.lock().ahead.planner = Some(Box::new(spy));
            asked
        });
        let carry_out = || {
            for tenant in &tenants {
                tenant.pool.plans.note();
                Prefetch::of(&tenant.pool).carry_out_plans_now();
            }
            asked.each_ref().map(|asked| asked.load(Ordering::Relaxed))
        };
        let carrying = Carrying::begin(&tenants[0].pool).expect("nothing is carried out");
        assert_eq!(carry_out(), [0, 1], "only the other pool's are carried out");
        assert!(Prefetch::of(&tenants[0].pool).has_plans(), "they are not lost");
        drop(carrying);
        assert_eq!(carry_out(), [1, 2]);
    }
}
