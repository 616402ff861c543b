//! A frame for a page that comes in: asked for under the policy lock, emptied without it, or waited for.
//!
//! A search asks as often as it takes; candidates that cannot be had without waiting are passed over. When
//! every frame that the tenant may take is busy, [`FrameSearch::next_look`] says when to look again, or that
//! it is time to give up. How to wait is the driver's affair: a thread [sleeps](FrameSearch::wait), a future
//! sets an alarm.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bufpool_policies::{NextMiss, PageId};

use crate::error::{Error, ErrorKind, Result};
use crate::handle::file::Page;
use crate::handle::tenant::Tenant;
use crate::load::census::Census;
use crate::load::page_load::Found;
use crate::page::latch::Patience;
use crate::page::readers;
use crate::policy::claims::Admitted;
use crate::policy::mutex::PolicyGuard;
use crate::policy::state::PolicyState;
use crate::state::waiting::{Purpose, Refused};
use crate::sys::fetch_to_write;
use crate::thread::site::SiteRef;
use crate::write::borrowing::Borrowing;
use crate::write::cap::shrink_to_cap;
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
    look: Look,
}

/// Which look at frames that are all busy comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    First,
    Another,
    /// The last census found nobody to wait for. A frame that was busy when the search asked, for example
    /// because it was being written, may have come free before the census; so the search asks once more
    /// before it gives up.
    Last,
}

/// When a search that found every frame busy is to ask again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    AtOnce,
    /// Then at the latest; before, if a frame may have become free.
    At(Instant),
}

impl<'a> FrameSearch<'a> {
    /// For `page`, which the caller has the right to load.
    pub fn new(tenant: &'a Tenant, page: Page<'a>, purpose: Purpose, site: SiteRef, seeker: Seeker) -> Self {
        Self { tenant, page, purpose, site, seeker, failure: None, look: Look::First }
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
        let creates = self.purpose.creates();
        let id = self.tenant.tenant_id();
        loop {
            pool.free_aside();
            let rules = pool.claim_rules(how.dirty());
            let next_miss = self.fetch_upcoming();
            let (admitted, is_entered, wishes, is_above_cap) = {
                let policy = self.tenant.lock_policy(self.purpose.operation());
                let mut policy = policy.map_err(|error| self.page.named_in(error))?;
                if let Some((next_miss, leaving)) = next_miss {
                    policy.fetch_for_miss(id, next_miss, &[self.page.id(), leaving]);
                }
                pool.drain_own_log_into(&mut policy);
                pool.take_back_logs(&mut policy);
                let admitted = policy.admit(self.page.id(), id, self.site, creates, &rules);
                pool.note_plans(&mut policy);
                let is_entered = admitted.as_ref().is_some_and(|admitted| self.enters(admitted, &policy));
                if let Some(admitted) = admitted.as_ref().filter(|_| is_entered) {
                    policy.directory.loaded(admitted.frame());
                }
                self.leave_next_miss(&policy);
                (admitted, is_entered, policy.take_wishes(), policy.directory.is_above_cap(id))
            };
            let Some(admitted) = admitted else { return Ok(None) };
            let vacated = Eviction::of(pool).vacate(admitted, id, self.site, creates, how);
            if !wishes.is_empty() {
                Wishes::of(pool).carry_out(wishes, how);
            }
            if is_above_cap {
                // Pages that could not leave when the cap was lowered. A failure is the affair of its file.
                let _ = shrink_to_cap(pool, id, how);
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

    /// Fetches the frames that the next question is likely to be about, and their pages' words as far as the
    /// pages are of the same file: cache misses under the policy lock would make other threads wait, too.
    /// Returns what is to be fetched under the lock, and the page that is likely to leave.
    #[inline]
    fn fetch_upcoming(&self) -> Option<(NextMiss, PageId)> {
        let (pool, file) = (&*self.tenant.pool, &self.page.file().shared);
        let next_miss = pool.policy.next_miss()?;
        let NextMiss { victim, page, choice, .. } = next_miss;
        let fetch_word = |page: PageId| {
            if page.file() == file.id
                && let Some(word) = file.table.get(page.number())
            {
                fetch_to_write(word);
            }
        };
        fetch_to_write(pool.frames.get(victim));
        fetch_word(page);
        let chosen = if choice == victim { None } else { pool.frames.get(choice).page() };
        chosen.into_iter().for_each(fetch_word);
        Some((next_miss, chosen.unwrap_or(page)))
    }

    /// Leaves beside the lock what the next question is likely to be about, and fetches the frame that
    /// [`fetch_upcoming`](Self::fetch_upcoming) reads then.
    #[inline]
    fn leave_next_miss(&self, policy: &PolicyGuard<'_, PolicyState>) {
        let next_miss = policy.directory.next_miss(self.tenant.tenant_id());
        if let Some(NextMiss { victim, choice, .. }) = next_miss
            && choice != victim
        {
            fetch_to_write(self.tenant.pool.frames.get(choice));
        }
        policy.leave_next_miss(next_miss);
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
            Purpose::Create | Purpose::Overwrite => admitted.is_settled(&pool.frames),
            _ => {
                self.seeker == Seeker::Thread
                    && !pool.is_immediate
                    && policy.pricing.is_none()
                    && admitted.keeps_frame(&pool.frames)
            }
        }
    }

    /// For a search that found every frame busy: when to look again, or why to give up. Takes the policy
    /// lock, and looks at every frame, when it counts who holds them.
    #[cold]
    pub fn next_look(
        &mut self,
        patience: &mut Patience,
        own_limit: bool,
    ) -> std::result::Result<Next, Refused> {
        let pool = &*self.tenant.pool;
        let now = Instant::now();
        let look = self.look;
        if look == Look::First {
            self.look = Look::Another;
        }
        let until = patience.deadline().unwrap_or(now);
        // Other threads may take the repaid frames each time, so retries at once end with the time limit.
        let may_retry = look == Look::First || now < until;
        if may_retry && pool.reserve.borrowed() > 0 && Borrowing::of(pool).repay_frames(0) {
            return Ok(Next::AtOnce);
        }
        // Dirty pages may wait only for the log, which the background writer advances.
        pool.write_back.kick();
        let is_thread = self.seeker == Seeker::Thread;
        if is_thread && pool.aside.count() > 0 && readers::is_reading() {
            return Err(self.refuse(self.own_read_error()));
        }
        // Counting takes a look at each frame, so not every time.
        if is_thread && look != Look::Another || now >= until {
            let census = Census::take(pool);
            if !is_thread || census.others_may_let_go {
                if now >= until {
                    let is_busy = own_limit && self.failure.is_none();
                    return Err(if is_busy { Refused::Busy } else { self.exhausted(&census, true) });
                }
                self.look = Look::Another;
            } else if look == Look::Last {
                return Err(self.exhausted(&census, false));
            } else {
                self.look = Look::Last;
                return Ok(Next::AtOnce);
            }
        }
        let poll = if pool.aside.count() > 0 { ASIDE_POLL } else { FRAME_POLL };
        Ok(Next::At(until.min(now + poll)))
    }

    fn exhausted(&mut self, census: &Census, others_may_let_go: bool) -> Refused {
        let message = census.message(others_may_let_go, self.tenant.pool.frame_wait);
        self.refuse(self.error(ErrorKind::Exhausted, message))
    }

    /// As [`next_look`](Self::next_look), for a thread, which sleeps until then or until a frame may be free.
    #[cold]
    pub fn wait(&mut self, patience: &mut Patience, own_limit: bool) -> std::result::Result<(), Refused> {
        if let Next::At(next) = self.next_look(patience, own_limit)? {
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
                Ok(Next::At(next)) => next,
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
        assert!(matches!(search.next_look(&mut patience, false), Ok(Next::AtOnce)));
        match search.next_look(&mut patience, false) {
            Err(Refused::Failed(error)) => assert_eq!(error.kind(), ErrorKind::Exhausted),
            _ => panic!("there is nobody to wait for"),
        }
    }
}
