//! Access as futures, for any executor.
//!
//! [`Tenant::read_async`] and [`Tenant::write_async`] are ordinary functions that return plain futures: site
//! and context are those of the call, and nothing happens before the first poll. A poll takes the latch if it
//! is free; wins the right to load an absent page, gets a frame and leaves the transfer to the backend; or
//! leaves its waker where threads park. It never waits itself (but in deterministic mode, where a dirty
//! victim is written on the spot).
//!
//! What dropping a future leaves behind, and what guards across awaits may do, is said at [`ReadFuture`].

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bufpool_policies::{FrameId, PageId, TenantId, contained};

use crate::access::hit::{TenantAccess, refused};
use crate::access::owned::{OwnedReadGuard, OwnedWriteGuard};
use crate::error::{Error, ErrorKind, Result};
use crate::files::shared::FileShared;
use crate::files::word::OwnedWord;
use crate::handle::file::Page;
use crate::handle::keeper::Keeper;
use crate::handle::tenant::Tenant;
use crate::io::{IoError, SourceRef};
use crate::landing::Landing;
use crate::load::frame_search::{FrameSearch, Next, Seeker};
use crate::load::page_load::{Charge, Load, Loads};
use crate::load::page_read::{Attempt, PageRead, Verdict};
use crate::load::prefetch::Prefetch;
use crate::memory::lease::FrameLease;
use crate::page::latch::{
    Exclusive, Latch, Loading, Mode, Refusal, Shared, look_again, park_future, unpark_future,
};
use crate::state::shared::{PoolShared, drop_pool_elsewhere};
use crate::state::waiting::{Limit, Purpose, Waits};
use crate::thread::site::SiteRef;
use crate::wakers::{Alarm, PoolWaker};
use crate::write::evict::Emptying;

/// A future of shared access to a page; see [`Tenant::read_async`].
///
/// # Dropping a future
///
/// A dropped future gives up interest and nothing else. A load in flight owns its frame and the page's word
/// until its completion, which publishes the page for the next access. A page that has arrived is pinned for
/// its future until that takes the latch or is dropped; a pin keeps nobody from the page, so nobody's
/// progress depends on an executor that does not poll. For the same reason a waiting write does not keep
/// readers away, as a waiting thread does.
///
/// # Guards across an await
///
/// Owned guards are `Send` and may be held across an await, which makes three things possible that threads do
/// not do:
///
/// * *Waiting for oneself.* A task that holds a write guard and awaits any guard of the same page waits until
///   `latch_wait_ms` is over. (Threads are told at once in debug builds; a task has no thread.) Two shared
///   guards of one page are fine.
/// * *Waiting in a circle.* Two tasks that hold one page each and await the other's wait until the limit. The
///   cure is that of threads: one order of pages for all, or drop what you hold first. Guards of a `join`
///   count as held together.
/// * *Holding up an executor.* A synchronous access by a thread that drives tasks waits for a guard held by a
///   task that only this thread could drive. Where tasks hold guards across awaits, access their pages
///   asynchronously.
///
/// An await of something that does not touch the pool is no problem, but as long as it lasts the page is
/// latched, its frame taken.
///
/// # What a waker may do
///
/// The pool clones a waker in the poll that is given it, drops it there or with the future, and runs it on a
/// thread of its own (`bufpool-waker`), started when a future of the pool first waits. The pool holds no lock
/// meanwhile. So a waker may access pages of any pool by calls that try, such as [`Tenant::try_read`], and
/// may drop guards, futures and the pool's last handle. It must not wait for a page or for another task: the
/// pool's other wakers, and the time limits of its futures, wait for it. A waker may be run once more after
/// its future is gone, and after its pool is.
///
/// A panic of a waker in `wake` or `drop` goes to the panic hook and no further. One in `clone` is that of
/// the poll; its future may be polled again or dropped. Nobody else who waits is forgotten.
///
/// Where no thread can be had for wakers, each poll that would wait wakes its task at once, so that it is
/// polled again and again.
#[must_use = "futures do nothing unless polled"]
pub struct ReadFuture(Acquiring<Shared>);

/// A future of exclusive access to a page; see [`Tenant::write_async`], and [`ReadFuture`] for what holds of
/// both.
#[must_use = "futures do nothing unless polled"]
pub struct WriteFuture(Acquiring<Exclusive>);

impl<'g> TenantAccess<'g> {
    pub(crate) fn read_future(self, page: Page<'_>, site: SiteRef) -> ReadFuture {
        ReadFuture(Acquiring::new(self.tenant, page, Purpose::Read, self.called(site)))
    }

    pub(crate) fn write_future(self, page: Page<'_>, site: SiteRef) -> WriteFuture {
        WriteFuture(Acquiring::new(self.tenant, page, Purpose::Write, self.called(site)))
    }
}

impl Future for ReadFuture {
    type Output = Result<OwnedReadGuard>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let acquired = self.0.poll(context.waker());
        acquired.map(|latch| {
            let (file, number) = (self.0.file.clone(), self.0.number);
            Ok(OwnedReadGuard::on_owned(file, number, latch?))
        })
    }
}

impl Future for WriteFuture {
    type Output = Result<OwnedWriteGuard>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let acquired = self.0.poll(context.waker());
        acquired.map(|latch| Ok(OwnedWriteGuard::new(self.0.file.clone(), self.0.number, latch?)))
    }
}

/// An access that has not been granted yet.
struct Acquiring<M: Mode> {
    tenant: Tenant,
    file: Keeper,
    number: u64,
    purpose: Purpose,
    site: SiteRef,
    /// Tells futures apart where they wait.
    id: u64,
    awaited: Awaited,
    /// The page was loaded for this access, which has been counted.
    loaded: Option<LandedPin>,
    /// Another access was loading the page.
    waited_for_load: bool,
    waits: Waits,
    mode: PhantomData<M>,
}

/// What an access waits for. An alarm wakes its future when the wait is over.
enum Awaited {
    /// Nothing, until the next poll.
    Nothing,
    /// The page's word changes: its latch is let go of, or another access has loaded the page.
    Word { _alarm: Option<Alarm> },
    /// The file's gate lets the page be loaded.
    Gate { _alarm: Option<Alarm> },
    /// A frame is free.
    Frame { _alarm: Option<Alarm> },
    /// The page is loaded for this access.
    Load(Arc<Landing<Result<LandedPin>>>),
    /// Nothing any more: the guard, or an error, was given out.
    Over,
}

/// Keeps a page in its frame that was loaded for a future, until that has latched it.
struct LandedPin {
    pool: Arc<PoolShared>,
    frame: FrameId,
}

impl LandedPin {
    /// The caller holds the page's word.
    fn new(pool: &Arc<PoolShared>, frame: FrameId) -> Self {
        pool.frames.get(frame).pin();
        Self { pool: Arc::clone(pool), frame }
    }
}

impl Drop for LandedPin {
    fn drop(&mut self) {
        self.pool.frames.get(self.frame).unpin();
        self.pool.frame_may_be_free();
    }
}

impl<M: Mode> Acquiring<M> {
    fn new(tenant: &Tenant, page: Page<'_>, purpose: Purpose, site: SiteRef) -> Self {
        // Relaxed: only that no two are the same counts.
        static IDS: AtomicU64 = AtomicU64::new(0);
        Self {
            tenant: tenant.clone(),
            file: page.file().keeper(),
            number: page.number(),
            purpose,
            site,
            id: IDS.fetch_add(1, Ordering::Relaxed),
            awaited: Awaited::Nothing,
            loaded: None,
            waited_for_load: false,
            waits: Waits::begin(&tenant.pool, Limit::Default),
            mode: PhantomData,
        }
    }

    fn poll(&mut self, waker: &Waker) -> Poll<Result<Latch<OwnedWord, M>>> {
        let outcome = self.advance(waker);
        if outcome.is_ready() {
            self.leave();
        }
        outcome
    }

    fn advance(&mut self, waker: &Waker) -> Poll<Result<Latch<OwnedWord, M>>> {
        if let Err(error) = self.file.pool.owner.check(self.purpose.operation()) {
            return Poll::Ready(Err(self.file.page(self.number).named_in(error)));
        }
        if let Awaited::Load(landing) = &self.awaited {
            match landing.poll(|| self.file.pool.waker_thread.adopt(waker)) {
                None => return Poll::Pending,
                Some(Err(error)) => return Poll::Ready(Err(error)),
                Some(Ok(pin)) => (self.loaded, self.awaited) = (Some(pin), Awaited::Nothing),
            }
        }
        assert!(!matches!(self.awaited, Awaited::Over), "polled after it was ready");
        self.stop_waiting(Awaited::Nothing);
        let operation = self.purpose.operation();
        let checked =
            TenantAccess::of(&self.tenant).checked_word(self.file.page(self.number), self.purpose, operation);
        // A write guard lends its bytes mutably, which pages that are read without a latch do not allow.
        let checked = match self.purpose {
            Purpose::Read => checked.map(drop),
            _ => checked.and_then(|_| self.file.page(self.number).check_optimistic(false, operation)),
        };
        if let Err(error) = checked {
            return Poll::Ready(Err(error));
        }
        loop {
            let word = OwnedWord::new(Arc::clone(&self.file.shared), self.number);
            let state = match Latch::try_new(word.clone()) {
                Ok(latch) => return Poll::Ready(Ok(self.granted(latch.detached()))),
                Err(state) => state,
            };
            if state.is_absent() {
                match Loading::try_new_detached(word) {
                    Ok(loading) => return self.begin_load(loading, waker),
                    Err(_) => continue,
                }
            }
            self.waited_for_load |= state.is_loading();
            let deadline = match self.latch_deadline() {
                Ok(deadline) => deadline,
                Err(error) => return Poll::Ready(Err(error)),
            };
            let Some(parked) = self.file.pool.waker_thread.adopt(waker) else { return Poll::Pending };
            // Before it is parked: the waker's code may panic.
            let _alarm = self.file.pool.waker_thread.wake_at(look_again(state, deadline), waker);
            if park_future(&word, state, M::WANT, self.id, parked) {
                self.awaited = Awaited::Word { _alarm };
                return Poll::Pending;
            }
        }
    }

    /// When the wait for the latch, which begins now or has begun before, is over; an error if it is.
    fn latch_deadline(&mut self) -> Result<Instant> {
        let deadline = self.waits.latch.deadline();
        if let Some(deadline) = deadline.filter(|deadline| Instant::now() < *deadline) {
            return Ok(deadline);
        }
        let (page, operation) = (self.file.page(self.number), self.purpose.operation());
        Err(refused(&self.file.pool, page, Refusal::TimedOut, false, operation).into_error())
    }

    /// An operation that is not decided yet holds off the load.
    fn wait_at_gate(&mut self, waker: &Waker) -> Poll<Result<Latch<OwnedWord, M>>> {
        let deadline = match self.latch_deadline() {
            Ok(deadline) => deadline,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let Some(parked) = self.file.pool.waker_thread.adopt(waker) else { return Poll::Pending };
        let _alarm = self.file.pool.waker_thread.wake_at(deadline, waker);
        if !self.file.shared.gate.park_future(self.number, self.id, parked) {
            return self.advance(waker);
        }
        self.awaited = Awaited::Gate { _alarm };
        Poll::Pending
    }

    /// The access is granted: a hit, unless the page was loaded for it.
    fn granted(&mut self, latch: Latch<OwnedWord, M>) -> Latch<OwnedWord, M> {
        let pool = &self.file.pool;
        if self.loaded.is_none() {
            pool.count_waited(self.waited_for_load);
            let frame = TenantAccess::of(&self.tenant).marked(latch.frame());
            TenantAccess::of(&self.tenant).note_hit_at(
                pool.hot.tag,
                self.file.page(self.number),
                frame,
                self.site,
                false,
            );
        }
        latch
    }

    /// Gets a frame for the page and begins to read it.
    fn begin_load(
        &mut self,
        loading: Loading<OwnedWord>,
        waker: &Waker,
    ) -> Poll<Result<Latch<OwnedWord, M>>> {
        let operation = self.purpose.operation();
        let pool = Arc::clone(self.file.pool.shared());
        let page = PageId::in_file(self.file.id(), self.number);
        let charge = Charge { tenant: self.tenant.tenant_id(), site: self.site };
        let load = match Load::begin(loading, page, &self.file.shared, charge, operation) {
            Ok(Some(load)) => load,
            Ok(None) => return self.wait_at_gate(waker),
            Err(error) => return Poll::Ready(Err(error)),
        };
        let io = match self.file.shared.io(operation) {
            Ok(io) => io,
            Err(error) => return Poll::Ready(Err(error.at_page(self.number))),
        };
        let how = if pool.is_immediate { Emptying::Waiting(None) } else { Emptying::AtOnce };
        let page = self.file.page(self.number);
        let mut search = FrameSearch::new(&self.tenant, page, self.purpose, self.site, Seeker::Task);
        let found = match search.ask(how) {
            Err(error) => return Poll::Ready(Err(error)),
            Ok(Some(found)) => found,
            Ok(None) => {
                // The page becomes absent again: another access may find a frame for it, and nobody has to
                // wait for this load.
                load.give_up();
                return match search.next_look(&mut self.waits.frame, false) {
                    Err(refused) => Poll::Ready(Err(refused.into_error())),
                    Ok(next) => {
                        let at = match next {
                            Next::AtOnce => Instant::now(),
                            Next::At(at) => at,
                        };
                        let _alarm = pool.waker_thread.wake_at(at, waker);
                        self.awaited = Awaited::Frame { _alarm };
                        Poll::Pending
                    }
                };
            }
        };
        let landing = Arc::new(Landing::new());
        let flight = Flight {
            pool: Arc::downgrade(&pool),
            file: Arc::clone(&self.file.shared),
            tenant: self.tenant.tenant_id(),
            operation,
            number: self.number,
            load: Some(load),
            lease: Some(found.lease),
            attempt: Attempt::First,
            begun: Instant::now(),
            landing: Arc::clone(&landing),
        };
        self.awaited = Awaited::Load(landing);
        flight.begin(&pool, &io);
        Prefetch::of(&pool).carry_out_plans_now();
        // It may have landed already, on a backend that does the work at once.
        self.advance(waker)
    }

    /// Gives up whatever is held and waited for.
    fn leave(&mut self) {
        if self.file.pool.owner.is_here() {
            self.stop_waiting(Awaited::Over);
        } else {
            // Nobody waits for it in the child of a fork, where other threads may have left locks behind.
            std::mem::forget(std::mem::replace(&mut self.awaited, Awaited::Over));
        }
        self.loaded = None;
    }

    /// No longer waits for what it has waited for.
    fn stop_waiting(&mut self, now: Awaited) {
        match std::mem::replace(&mut self.awaited, now) {
            Awaited::Word { .. } => {
                if let Some(word) = self.file.shared.table.get(self.number) {
                    unpark_future(word, self.id);
                }
            }
            Awaited::Gate { .. } => self.file.shared.gate.unpark_future(self.id),
            Awaited::Load(landing) => landing.abandon(),
            Awaited::Nothing | Awaited::Frame { .. } | Awaited::Over => {}
        }
    }
}

impl<M: Mode> Drop for Acquiring<M> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A page on its way in for one access, which may have lost interest. Dropped on the way, by a panic, it
/// gives the page up.
struct Flight {
    pool: std::sync::Weak<PoolShared>,
    file: Arc<FileShared>,
    tenant: TenantId,
    operation: &'static str,
    number: u64,
    /// None once the page has come in, or was given up.
    load: Option<Load<OwnedWord>>,
    /// Of the page's frame; none while a transfer has it.
    lease: Option<FrameLease>,
    attempt: Attempt,
    /// When its transfer was submitted.
    begun: Instant,
    landing: Arc<Landing<Result<LandedPin>>>,
}

impl Flight {
    /// Asks the tier, if there is one, and reads the page from its file otherwise.
    fn begin(mut self, pool: &PoolShared, io: &SourceRef) {
        let read = PageRead::of(pool);
        let Some((tier, name, version)) = read.in_tier(&self.file, self.number) else {
            return self.submit(pool, io);
        };
        if pool.is_immediate {
            if read.take_from_tier(&self.file, self.number, lent(&mut self.lease)) {
                return self.complete_taken();
            }
            return self.submit(pool, io);
        }
        let io = io.clone();
        tier.take_later(name, version, move |taken| {
            let Some(pool) = self.pool.upgrade() else { return };
            let is_good = taken.is_some_and(|taken| {
                PageRead::of(&pool).accept_copy(&self.file, self.number, lent(&mut self.lease), &taken)
            });
            if is_good {
                self.complete_taken();
            } else {
                self.submit(&pool, &io);
            }
            drop_pool_elsewhere(pool);
        });
    }

    /// The tier had the page.
    fn complete_taken(self) {
        let Some(pool) = self.pool.upgrade() else { return };
        self.publish(&pool);
        drop_pool_elsewhere(pool);
    }

    fn submit(mut self, pool: &PoolShared, io: &SourceRef) {
        self.begun = Instant::now();
        let (number, tenant) = (self.number, self.tenant);
        let leases = self.lease.take().into_iter().collect();
        let request =
            pool.arena.read_request(io.clone(), number, leases, tenant, move |mut leases, result| {
                self.lease = leases.pop();
                self.complete(result);
            });
        pool.backend.submit(&mut vec![request]);
    }

    /// The transfer is over. Runs in a thread of the backend, or in the one that has submitted it.
    fn complete(mut self, result: Result<(), IoError>) {
        // A pool that is gone has no use for the frame, and nobody waits: futures keep their pool.
        let Some(pool) = self.pool.upgrade() else { return };
        let read = PageRead::of(&pool);
        read.transferred(&self.file, self.number, 1, self.begun, result.is_ok());
        let (number, lease) = (self.number, lent(&mut self.lease));
        match read.judge(&self.file, number, lease, result, self.attempt, self.operation) {
            Verdict::Good => {
                read.offer(&self.file, number, lease);
                self.publish(&pool);
            }
            Verdict::Failed(error) => self.give_up(&pool, error),
            Verdict::Again(attempt) => {
                self.attempt = attempt;
                match self.file.io(self.operation) {
                    Ok(io) => self.submit(&pool, &io),
                    Err(error) => self.give_up(&pool, error.at_page(number)),
                }
            }
        }
        drop_pool_elsewhere(pool);
    }

    fn publish(mut self, pool: &Arc<PoolShared>) {
        let frame = lent(&mut self.lease).frame();
        Loads::of(pool).enter_all(self.load.iter().map(|load| (load, frame)));
        // Pinned while the word is still held, so that nobody evicts the page before its future has seen it.
        let waker = self.landing.land(|| Ok(LandedPin::new(pool, frame)));
        if let Some((load, lease)) = self.load.take().zip(self.lease.take()) {
            load.publish_unlatched(lease);
        }
        waker.into_iter().for_each(PoolWaker::hand_over);
    }

    fn give_up(mut self, pool: &PoolShared, error: Error) {
        if let Some((load, lease)) = self.load.take().zip(self.lease.take()) {
            Loads::of(pool).abandon(load, lease);
        }
        self.fail(error);
    }

    fn fail(&self, error: Error) {
        self.landing.land(|| Err(error)).into_iter().for_each(PoolWaker::hand_over);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        // A pool that is gone has no use for the frame.
        let (Some(load), Some(pool)) = (self.load.take(), self.pool.upgrade()) else { return };
        match self.lease.take() {
            // After a panic the state may be anything. If giving up panics as well, the frame is lost.
            Some(lease) => drop(contained(|| Loads::of(&pool).abandon(load, lease))),
            None => drop(load),
        }
        let message = "a panic has ended the load of the page, expected none";
        self.fail(self.file.error(ErrorKind::Io, self.operation, message).at_page(self.number));
        drop_pool_elsewhere(pool);
    }
}

/// The lease of a flight's frame, between its transfers.
fn lent(lease: &mut Option<FrameLease>) -> &mut FrameLease {
    lease.as_mut().expect("no transfer has the frame")
}

impl fmt::Debug for ReadFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadFuture({:?})", self.0.file.page(self.0.number))
    }
}

impl fmt::Debug for WriteFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriteFuture({:?})", self.0.file.page(self.0.number))
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;
    use crate::tier::loses::pool_that_loses;

    #[test]
    fn a_future_whose_load_is_lost_ends_with_an_error_and_its_frame_is_free() {
        let (pool, file) = pool_that_loses(60);
        let tenant = pool.default_tenant();
        let free = pool.shared().policy.lock().free.len();
        for number in 0..60 {
            let mut future = tenant.read_async(file.page(number));
            let Poll::Ready(outcome) = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()))
            else {
                panic!("nothing would wake it");
            };
            let error = outcome.expect_err("the page is not there");
            assert_eq!((error.kind(), error.page()), (ErrorKind::Io, Some(number)));
        }
        assert_eq!(pool.shared().policy.lock().free.len(), free);
        assert_eq!(pool.stats().misses, 0);
        pool.check_invariants();
    }
}
