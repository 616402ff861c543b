//! A frame for a page that comes in: asked for under the policy lock, emptied without it, or waited for.
//!
//! A search asks as often as it takes; candidates that cannot be had without waiting are passed over. When
//! every frame that the tenant may take is busy, [`FrameSearch::next_look`] says when to look again, or that
//! it is time to give up. How to wait is the driver's affair: a thread [sleeps](FrameSearch::wait), a future
//! sets an alarm.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bufpool_policies::MissHint;

use crate::error::{Error, ErrorKind, Result};
use crate::handle::file::Page;
use crate::handle::tenant::Tenant;
use crate::load::page_load::Found;
use crate::page::latch::Patience;
use crate::page::readers;
use crate::policy::claims::{Admitted, Dirty};
use crate::policy::state::PolicyState;
use crate::state::shared::PoolShared;
use crate::state::waiting::{Purpose, Refused};
use crate::sys::fetch_to_write;
use crate::thread::site::SiteRef;
use crate::write::borrowed::Borrowing;
use crate::write::evict::{Emptied, Emptying, Eviction};
use crate::write::wishes::Wishes;

/// How long a search that found every frame busy sleeps before it looks again. A frame that is let go of ends
/// the sleep.
const FRAME_POLL: Duration = Duration::from_millis(1);
/// The same while frames are set aside: their optimistic readers wake nobody when they leave.
const ASIDE_POLL: Duration = Duration::from_micros(50);

/// Who searches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seeker {
    /// A thread, which knows what it holds itself.
    Thread,
    /// A future. Which latches and pins its task holds is not known.
    Task,
}

/// The search of one access.
pub(crate) struct FrameSearch<'a> {
    tenant: &'a Tenant,
    page: Page<'a>,
    purpose: Purpose,
    site: SiteRef,
    seeker: Seeker,
    /// The first error of writing a victim. It is returned only if no other frame can be had.
    failure: Option<Error>,
    has_looked: bool,
    /// The last census found nobody to wait for. A frame that was busy when the search asked, for example
    /// because it was being written, may have come free before the census; so the search asks once more
    /// before it gives up.
    is_hopeless: bool,
}

impl<'a> FrameSearch<'a> {
    /// For `page`, which the caller has the right to load.
    pub fn new(tenant: &'a Tenant, page: Page<'a>, purpose: Purpose, site: SiteRef, seeker: Seeker) -> Self {
        Self { tenant, page, purpose, site, seeker, failure: None, has_looked: false, is_hopeless: false }
    }

    /// Asks the directory for a frame, and for another one as long as the frame that it names cannot be had
    /// at once. None if every frame that the tenant may take is busy.
    ///
    /// A round that gives no frame either sets one aside or poisons a file. A frame can be set aside again
    /// only after another thread has loaded a page into it, and dirty pages of a poisoned file are passed
    /// over. So there are at most as many rounds as frames, open files, and pages that other threads load
    /// meanwhile.
    pub fn ask(&mut self, how: Emptying) -> Result<Option<Found>> {
        let pool = &*self.tenant.pool;
        let creation = self.purpose == Purpose::Create;
        let id = self.tenant.tenant_id();
        loop {
            pool.free_aside();
            let mut rules = pool.claim_rules();
            if how == Emptying::AtOnce {
                rules.dirty = Dirty::Exchanged;
            }
            let hint = self.touch_upcoming();
            let (admitted, is_entered, wishes, is_above_cap) = {
                let policy = self.tenant.lock_policy(self.purpose.operation());
                let mut policy = policy.map_err(|error| self.page.named_in(error))?;
                if let Some(hint) = hint {
                    policy.fetch_for_miss(id, hint);
                }
                pool.drain_own_log_into(&mut policy);
                pool.take_back_logs(&mut policy);
                let admitted = policy.admit(self.page.id(), id, self.site, creation, &rules);
                pool.note_plans(&mut policy);
                let is_entered = admitted.as_ref().is_some_and(|admitted| self.enters(admitted, &policy));
                if let Some(admitted) = admitted.as_ref().filter(|_| is_entered) {
                    policy.directory.loaded(admitted.frame());
                }
                policy.leave_hint(policy.directory.miss_hint(id));
                (admitted, is_entered, policy.take_wishes(), policy.directory.is_above_cap(id))
            };
            let Some(admitted) = admitted else { return Ok(None) };
            let vacated = Eviction::of(pool).vacate(admitted, id, self.site, creation, how);
            if !wishes.is_empty() {
                Wishes::of(pool).carry_out(wishes, how);
            }
            if is_above_cap {
                // Pages that could not leave when the cap was lowered. A failure is the affair of its file.
                let _ = Eviction::of(pool).shrink_to_cap(id, how);
            }
            match vacated {
                Ok(Emptied::Frame(lease)) => return Ok(Some(Found { lease, is_entered })),
                Ok(Emptied::SetAside) => {}
                Ok(Emptied::PutBack) => return Ok(None),
                // The next question passes over the dirty pages of that file.
                Err(error) => {
                    self.failure.get_or_insert(error);
                }
            }
        }
    }

    /// Prefetches the frame that the next question is likely to name, and its page's word if the page is of
    /// the same file: cache misses under the policy lock would make other threads wait, too. Returns the hint
    /// for what is prefetched under the lock.
    #[inline]
    fn touch_upcoming(&self) -> Option<MissHint> {
        let (pool, file) = (&*self.tenant.pool, &self.page.file().shared);
        let hint = pool.policy.hint()?;
        fetch_to_write(pool.frames.get(hint.victim));
        if hint.page.file() == file.id
            && let Some(word) = file.table.get(hint.page.number())
        {
            fetch_to_write(word);
        }
        Some(hint)
    }

    /// Whether the directory is told now, before the page has arrived, that it is loaded, which saves a later
    /// hold of the policy lock. Nobody evicts the page before that, because its word says *loading*. If the
    /// read fails, the directory takes the load back.
    ///
    /// Not where the page may still get another frame, and not for a read by a future, whose driver tells the
    /// directory at the end of the read. Deterministic mode keeps the order of events, and prices need the
    /// time at which a wait ends.
    fn enters(&self, admitted: &Admitted, policy: &PolicyState) -> bool {
        let pool = &*self.tenant.pool;
        match self.purpose {
            Purpose::Create => admitted.is_settled(&pool.frames),
            _ => {
                self.seeker == Seeker::Thread
                    && !pool.is_immediate
                    && policy.pricing.is_none()
                    && admitted.keeps_frame(&pool.frames)
            }
        }
    }

    /// For a search that found every frame busy: when to look again at the latest (None: at once), or why to
    /// give up. Takes the policy lock, and looks at every frame, when it counts who holds them.
    #[cold]
    pub fn next_look(
        &mut self,
        patience: &mut Patience,
        own_limit: bool,
    ) -> std::result::Result<Option<Instant>, Refused> {
        let pool = &*self.tenant.pool;
        let now = Instant::now();
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        let until = patience.deadline().unwrap_or(now);
        // Other threads may take the repaid frames each time, so retries at once end with the time limit.
        let may_retry = is_first || now < until;
        if may_retry && pool.reserve.borrowed() > 0 && Borrowing::of(pool).repay_frames(0) {
            return Ok(None);
        }
        // Dirty pages may wait only for the log, which the background writer advances.
        pool.write_back.kick();
        let is_thread = self.seeker == Seeker::Thread;
        if is_thread && pool.aside.count() > 0 && readers::is_reading() {
            return Err(self.refuse(self.own_read_error()));
        }
        // Counting takes a look at each frame, so not every time.
        if is_thread && (is_first || self.is_hopeless) || now >= until {
            // The engine's log is asked before the policy lock is taken: it may wait for a thread that
            // misses.
            let durable_lsn = pool.log.durable();
            let census = Census::take(pool, &pool.policy.lock(), durable_lsn);
            let others_may_let_go = census.others_may_let_go || !is_thread;
            match others_may_let_go {
                false if !std::mem::replace(&mut self.is_hopeless, true) => return Ok(None),
                true if now < until => self.is_hopeless = false,
                true if own_limit && self.failure.is_none() => return Err(Refused::Busy),
                _ => {
                    let message = census.message(others_may_let_go, pool.frame_wait);
                    return Err(self.refuse(self.error(ErrorKind::Exhausted, message)));
                }
            }
        }
        let poll = if pool.aside.count() > 0 { ASIDE_POLL } else { FRAME_POLL };
        Ok(Some(until.min(now + poll)))
    }

    /// As [`next_look`](Self::next_look), for a thread, which sleeps until then or until a frame may be free.
    #[cold]
    pub fn wait(&mut self, patience: &mut Patience, own_limit: bool) -> std::result::Result<(), Refused> {
        if let Some(next) = self.next_look(patience, own_limit)? {
            let pool = &*self.tenant.pool;
            let mut guard = pool.frame_lock.lock();
            pool.frame_waiters.fetch_add(1, Ordering::Relaxed);
            pool.frame_freed.wait_until(&mut guard, next);
            pool.frame_waiters.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A victim's failure is the reason if there was one.
    fn refuse(&mut self, error: Error) -> Refused {
        Refused::Failed(self.failure.take().unwrap_or(error))
    }

    fn own_read_error(&self) -> Error {
        self.error(
            ErrorKind::SelfDeadlock,
            "the calling thread is within an optimistic read, which keeps frames from being used that are needed".into(),
        )
    }

    fn error(&self, kind: ErrorKind, message: String) -> Error {
        self.page.named_in(Error::new(kind, self.purpose.operation(), message))
    }
}

/// Who holds the frames, counted when there is none left.
struct Census {
    /// Guards and pins on pages of each tenant that has any.
    holds: Vec<(String, u64)>,
    /// Frames on their way in or out.
    in_flight: u32,
    /// Dirty pages of poisoned files.
    poisoned: u32,
    /// Dirty pages whose log records are not durable.
    unlogged: u32,
    /// Somebody other than the caller holds a frame, so waiting may help.
    others_may_let_go: bool,
}

impl Census {
    fn take(pool: &PoolShared, policy: &PolicyState, durable_lsn: u64) -> Self {
        let mut by_tenant = vec![0_u64; policy.tenants.len()];
        let mut census =
            Self { holds: Vec::new(), in_flight: 0, poisoned: 0, unlogged: 0, others_may_let_go: false };
        // Of the frames that policies fill, those that are neither free nor hold a page are on their way.
        census.in_flight = policy.directory.frames();
        if !pool.write_back.pace().is_leaving() {
            // Nothing is leaving, so no borrowed frame is in flight. Free ones were repaid before the count,
            // or will be at the next look; the others hold pages that cannot be written.
            census.in_flight -= pool.reserve.borrowed() as u32;
        }
        for (frame, entry) in pool.frames.iter() {
            let is_free = policy.free.has(frame);
            let (page, owner) = (entry.page(), policy.directory.owner(frame));
            census.in_flight -= u32::from(is_free || page.is_some() && owner.is_some());
            let (Some(page), Some(owner)) = (page, owner) else { continue };
            let Some(file) = policy.file(page.file()) else { continue };
            let holders = file.table.get(page.number()).map_or(0, |word| word.state().holders());
            by_tenant[owner.index()] += u64::from(holders) + entry.pins();
            census.in_flight += u32::from(entry.is_writing());
            census.poisoned += u32::from(entry.is_dirty() && file.is_poisoned());
            census.unlogged += u32::from(entry.is_dirty() && entry.page_lsn() > durable_lsn);
        }
        let holds: u64 = by_tenant.iter().sum();
        // Without holds and poisoned pages nothing explains why no frame was found, so it is worth looking
        // again.
        census.others_may_let_go = census.in_flight > 0
            || census.unlogged > 0
            || holds > pool.hot.tag.holds_slot().own_holds(pool.hot.serial)
            || holds == 0 && census.poisoned == 0;
        let named = policy.tenants.iter().map(|entry| entry.name.to_string()).zip(by_tenant);
        census.holds = named.filter(|(_, holds)| *holds > 0).collect();
        census
    }

    fn message(&self, others_may_let_go: bool, frame_wait: Duration) -> String {
        let mut message = String::from("every frame that could be taken is in use: ");
        for (tenant, holds) in &self.holds {
            message += &format!("{holds} guards and pins on pages of tenant {tenant}, ");
        }
        message += &format!(
            "{} frames in flight, {} dirty pages of poisoned files, {} dirty pages ahead of the durable log; ",
            self.in_flight, self.poisoned, self.unlogged
        );
        message += &match (others_may_let_go, self.poisoned) {
            (true, _) => format!("none came free within frame_wait_ms = {}", frame_wait.as_millis()),
            (false, 0) => "the calling thread holds them all itself, so waiting would not help".into(),
            (false, _) => "nobody but the calling thread holds any, so waiting would not help: reopen the poisoned files".into(),
        };
        message
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;
    use crate::io::sim::SimDevice;
    use crate::{File, FileOptions, Pool, PoolOptions};

    /// A pool with a file of `pages` pages on a simulated device.
    fn pool_with(pages: usize) -> (Pool, File) {
        let device = SimDevice::new(1);
        device.put("data", &vec![0; pages * 4096]);
        let options = PoolOptions::new().frames(64).page_bytes(4096).threads_max(8);
        let pool = options.open_on(&device).unwrap();
        let file = pool.open_file("data", FileOptions::new()).unwrap();
        (pool, file)
    }

    /// Optimistic readers of frames that are set aside wake nobody when they leave.
    #[test]
    fn a_search_looks_again_sooner_while_frames_are_aside() {
        let (pool, file) = pool_with(1);
        let tenant = pool.default_tenant();
        let next_look = || {
            let page = file.page(0);
            let mut search = FrameSearch::new(&tenant, page, Purpose::Read, SiteRef::caller(), Seeker::Task);
            let far = Instant::now() + Duration::from_secs(60);
            match search.next_look(&mut Patience::Until(far), false) {
                Ok(Some(next)) => next,
                _ => panic!("it is not to look at once, nor to give up"),
            }
        };
        let before = Instant::now();
        assert!(next_look() >= before + FRAME_POLL);
        let (reserve, aside) = (&tenant.pool.reserve, &tenant.pool.aside);
        aside.add(reserve.take().expect("nothing is written"), readers::going_on());
        let next = next_look();
        assert!(next <= Instant::now() + ASIDE_POLL);
        reserve.give_back(aside.take_free());
        pool.check_invariants();
    }

    /// A frame may have come free before the count.
    #[test]
    fn a_thread_that_holds_all_that_is_held_asks_once_more_and_gives_up() {
        let (pool, file) = pool_with(2);
        let tenant = pool.default_tenant();
        let _held = tenant.read(file.page(0)).unwrap();
        let mut search =
            FrameSearch::new(&tenant, file.page(1), Purpose::Read, SiteRef::caller(), Seeker::Thread);
        let mut patience = Patience::Until(Instant::now() + Duration::from_secs(60));
        assert!(matches!(search.next_look(&mut patience, false), Ok(None)));
        match search.next_look(&mut patience, false) {
            Err(Refused::Failed(error)) => assert_eq!(error.kind(), ErrorKind::Exhausted),
            _ => panic!("there is nobody to wait for"),
        }
    }
}
