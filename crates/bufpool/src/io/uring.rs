//! The `uring` backend: io_uring, with direct I/O wherever files allow it.
//!
//! # Who drives which ring
//!
//! | operation | done by |
//! | --- | --- |
//! | one, waited for ([`Backend::run`], or a batch of one) | the caller, with one positioned system call |
//! | a batch, waited for ([`Backend::submit_and_wait`], [`Backend::stream`]) | the caller, on a ring leased for the batch |
//! | those of the background writer ([`Backend::lane`]) | the background writer, on a ring of its own |
//! | those of a flush ([`Backend::leased_lane`]) | the caller, on a ring leased until the flush is over |
//! | not waited for ([`Backend::submit`]) | the I/O thread, on a ring of its own ([`driver`]) |
//!
//! A thread never returns to its own work while a ring has operations that it submitted itself. Otherwise
//! others might wait: the kernel completes an operation in the context of the task that submitted it, and
//! that task may be asleep in a file system or stopped. The task's own system calls would be interrupted as
//! well (`epoll_wait` with EINTR). So operations that outlive the call belong to the I/O thread, whose ring
//! can then use SINGLE_ISSUER, DEFER_TASKRUN and COOP_TASKRUN.
//!
//! A leased ring is its holder's alone, so there is no lock around submission or reaping, and no
//! thread has to be woken because another reaped its completion. Rings are made when first needed, at
//! most [`LEASES_MAX`]; a batch that finds none free goes to the I/O thread.
//!
//! # Why not one shared ring, or the I/O thread for everything
//!
//! The I/O thread costs two changes of threads a read where nobody else reads; that is the price of a future,
//! whose caller does not wait. `crates/bench/README.md` ("Random misses") has figures of both.
//!
//! One ring shared by all threads, of which each that waits reaps for all, took more processor time a read of
//! one thread than leased rings at every depth.
//!
//! The I/O thread wins where many threads wait for small batches on a saturated device, since it collects
//! them.
//!
//! So where tenants compete for a saturated device, their reads go to the I/O thread, which starts them in
//! [turns](super::fair).

mod driver;
mod ring;
mod setup;

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bufpool_policies::TenantId;
use parking_lot::{Condvar, Mutex};

use self::driver::Driver;
use self::ring::{Outcome, Region, Ring};
use self::setup::Notes;
use super::backend::{Backend, Feed, Lane};
use super::error::IoError;
use super::group::{Group, run_one};
use super::local::LocalFile;
use super::local::registration::{Registration, Registry};
use super::options::IoOptions;
use super::report::IoReport;
use super::request::{Action, Request, SourceRef};
use super::source::Source;
use super::threads::Threads;
use super::{elsewhere, transfer};
use crate::sys;

/// A leased ring is filled up again when one of this many equal parts of its operations is done.
const REFILLS: usize = 8;
/// Operations that are kept prepared for a leased ring, but no more than the ring takes: the operations of
/// small rings come back from the device all together.
const STOCK_MIN: usize = 16;

/// Most rings that are leased at the same time.
pub(crate) const LEASES_MAX: usize = 16;

/// See the [module](self).
pub(crate) struct Uring {
    options: IoOptions,
    shared: Arc<Rings>,
    notes: Mutex<Notes>,
}

/// What the places of registered files refer back to.
struct Rings {
    driver: Driver,
    leases: Mutex<Leases>,
    /// No ring is leased.
    all_returned: Condvar,
    /// Does the operations that rings cannot do.
    helper: Arc<Threads>,
    region: OnceLock<Region>,
    /// Free places in the tables of registered files.
    places: Mutex<Vec<u32>>,
    serials: AtomicU64,
    /// Calls of io_uring_enter on all rings.
    calls: Arc<AtomicU64>,
}

/// Rings between leases.
#[derive(Default)]
struct Leases {
    idle: Vec<Ring>,
    /// The first ring made, whose registered memory the others share.
    first: Option<RawFd>,
    made: usize,
    out: usize,
    /// Places released while rings are out; each ring forgets these files when it comes back.
    released: Vec<u32>,
}

impl Uring {
    /// Starts the I/O thread and its ring.
    ///
    /// # Errors
    /// The reason why no ring can be made.
    pub(crate) fn new(options: &IoOptions) -> io::Result<Self> {
        let helper = Arc::new(Threads::new(options, Vec::new()));
        let calls = Arc::default();
        let (driver, notes) = Driver::start(options, &helper, &calls)?;
        let shared = Rings {
            driver,
            leases: Mutex::default(),
            all_returned: Condvar::new(),
            helper,
            region: OnceLock::new(),
            places: Mutex::new((0..setup::file_places()).rev().collect()),
            serials: AtomicU64::new(0),
            calls,
        };
        Ok(Self { options: options.clone(), shared: Arc::new(shared), notes: Mutex::new(notes) })
    }
}

impl Backend for Uring {
    fn register_memory(&self, start: NonNull<u8>, bytes: usize) {
        let region = Region { start, bytes };
        let registered = self.shared.driver.register_region(region);
        let mut notes = self.notes.lock();
        match registered {
            Ok(vectors) => {
                notes.features.push(format!("registered buffers ({} KiB)", bytes >> 10));
                if !vectors {
                    let what = "registered buffers for vectored transfers: this kernel's io_uring has none (Linux 6.15 has them)";
                    notes.steps_down.push(what.to_owned());
                }
                self.shared.region.get_or_init(|| region);
            }
            Err(error) => notes.steps_down.push(refused_registration(bytes, &error)),
        }
    }

    /// Gives the file a place in the tables of registered files, while there are any.
    fn register_file(&self, file: &LocalFile) {
        self.shared.driver.add_source(&file.capabilities());
        self.shared.helper.register_file(file);
        if let Some(place) = self.shared.places.lock().pop() {
            let serial = self.shared.serials.fetch_add(1, Ordering::Relaxed);
            let shared: Arc<dyn Registry> = Arc::clone(&self.shared) as _;
            file.set_registration(Registration { place, serial, registry: Arc::downgrade(&shared) });
        }
    }

    fn submit(&self, requests: &mut Vec<Request>) {
        if !requests.is_empty() {
            self.shared.driver.submit(requests);
        }
    }

    fn submit_and_wait(&self, requests: &mut Vec<Request>, group: &Group) {
        if requests.len() <= 1 {
            match requests.pop_if(|request| self.shared.driver.begin(request)) {
                Some(request) => self.shared.execute(request),
                None => self.submit(requests),
            }
        } else if let Some(mut lease) = Lease::take(&self.shared, &self.options) {
            lease.run(requests, &mut NoMore);
        } else {
            self.submit(requests);
        }
        group.wait();
    }

    fn stream(&self, feed: &mut dyn Feed, group: &Group) {
        let mut requests = Vec::new();
        // The second request is asked for only to see whether the first is the only one.
        let several = feed.prepare(&mut requests) && (requests.len() > 1 || feed.prepare(&mut requests));
        let lease = if several { Lease::take(&self.shared, &self.options) } else { None };
        match lease {
            Some(mut lease) => {
                lease.run(&mut requests, feed);
                drop(lease);
                // Waits for reads that queued for their tenant's turn, and for operations that the ring
                // refused.
                group.wait();
            }
            None => {
                while several && feed.prepare(&mut requests) {}
                self.submit_and_wait(&mut requests, group);
            }
        }
        feed.land();
    }

    fn lane(&self) -> Option<Box<dyn Lane>> {
        let shared = Arc::clone(&self.shared);
        let driver = shared.driver.ring_fd();
        let mut ring = setup::lane_ring(&self.options, driver, &shared.calls).ok()?;
        if let Some(&region) = shared.region.get() {
            // A failure is ignored: without the registration this ring only costs a little more.
            let _ = ring.register_region(region, Some(driver));
        }
        Some(Box::new(RingLane::new(shared, ring)))
    }

    fn leased_lane(&self) -> Option<Box<dyn Lane>> {
        let lease = Lease::take(&self.shared, &self.options)?;
        Some(Box::new(RingLane::new(Arc::clone(&self.shared), lease)))
    }

    fn read_for(&self, tenant: TenantId, source: &SourceRef, read: Action) -> Result<(), IoError> {
        let Some(file) = LocalFile::of(&**source) else { return elsewhere::run(source, read) };
        if self.shared.driver.start_reads(tenant, 1) == 0 {
            return run_one(source, read, Some(tenant), |request| self.submit(&mut vec![request]));
        }
        let result = transfer::run(file, &read);
        self.shared.driver.finish(Some(tenant), 1);
        result
    }

    fn drain(&self) {
        {
            let mut leases = self.shared.leases.lock();
            while leases.out > 0 {
                self.shared.all_returned.wait(&mut leases);
            }
        }
        self.shared.driver.drain();
        // Last, because the others hand it the operations that rings refuse, and requests for other sources.
        self.shared.helper.drain();
    }

    fn report(&self) -> IoReport {
        let Notes { mut features, mut steps_down } = self.notes.lock().clone();
        let by_threads = self.shared.helper.queued();
        if by_threads > 0 {
            steps_down
                .push(format!("io_uring for {by_threads} operations: allocations, or refused by the ring"));
        }
        features.push(format!("at most {LEASES_MAX} rings for batches"));
        features.push(self.shared.driver.turns());
        features
            .push(format!("{} calls of io_uring_enter so far", self.shared.calls.load(Ordering::Relaxed)));
        IoReport { backend: "uring", features, steps_down }
    }
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring").field("notes", &self.notes).finish_non_exhaustive()
    }
}

impl Rings {
    /// Does a request whose turn it is, in the calling thread if it is for a local file.
    fn execute(&self, request: Request) {
        let reader = request.tenant;
        match LocalFile::of(&*request.source) {
            Some(file) => {
                let result = transfer::run(file, &request.action);
                self.driver.finish(reader, 1);
                request.complete(result);
            }
            None => {
                self.driver.finish(reader, 1);
                self.helper.submit(&mut vec![request]);
            }
        }
    }
}

impl Registry for Rings {
    fn release(&self, place: u32) {
        {
            let mut leases = self.leases.lock();
            leases.idle.iter_mut().for_each(|ring| ring.forget_file(place));
            if leases.out > 0 && !leases.released.contains(&place) {
                leases.released.push(place);
            }
        }
        self.driver.forget_file(place);
        self.places.lock().push(place);
    }
}

/// A ring that is the holder's alone until it is dropped.
struct Lease {
    shared: Arc<Rings>,
    ring: Option<Ring>,
}

impl Lease {
    /// An idle ring, or a new one. `None` if all are leased or the kernel makes no more.
    fn take(shared: &Arc<Rings>, options: &IoOptions) -> Option<Self> {
        let lease = |ring| Self { shared: Arc::clone(shared), ring };
        let first = {
            let mut leases = shared.leases.lock();
            if let Some(ring) = leases.idle.pop() {
                leases.out += 1;
                return Some(lease(Some(ring)));
            }
            if leases.made == LEASES_MAX {
                return None;
            }
            leases.made += 1;
            leases.out += 1;
            leases.first
        };
        // Made without the lock. If this fails, dropping the lease corrects the numbers.
        let mut lease = lease(None);
        let mut ring = setup::lease_ring(options, shared.driver.ring_fd(), &shared.calls).ok()?;
        if let Some(&region) = shared.region.get() {
            // A failure is ignored: without the registration this ring only costs a little more.
            let _ = ring.register_region(region, first);
        }
        shared.leases.lock().first.get_or_insert(ring.fd());
        lease.ring = Some(ring);
        Some(lease)
    }

    /// Does all `requests` and what `feed` adds to them, completing each as it is done.
    ///
    /// While more operations wait than the ring takes, it is filled up again when an eighth is done. So the
    /// device stays busy at the cost of one or two system calls for every few operations. Work that can
    /// overlap with the device comes after that: taking in results, and preparing enough to fill up again.
    /// When nothing is left to start, each wait is for half of the operations in flight: pages that others
    /// may wait for are not held back until the last one is there.
    fn run(&mut self, requests: &mut Vec<Request>, feed: &mut dyn Feed) {
        let (shared, Some(ring)) = (&*self.shared, &mut self.ring) else { return };
        let stock = ring.slots().div_ceil(REFILLS).max(ring.slots().min(STOCK_MIN));
        let mut outcomes = Vec::new();
        let mut waiting = VecDeque::from(std::mem::take(requests));
        let mut more = true;
        loop {
            refill(ring, &mut waiting, shared);
            let is_low = more && waiting.len() < stock;
            if is_low || !outcomes.is_empty() {
                ring.submit();
                complete(&mut outcomes, shared);
                feed.land();
            }
            if is_low {
                more = feed.prepare(requests);
                waiting.extend(requests.drain(..));
                continue;
            }
            if ring.in_flight() == 0 {
                return;
            }
            let share = if waiting.is_empty() { 2 } else { REFILLS };
            collect(ring, ring.in_flight().div_ceil(share), &mut outcomes, shared);
        }
    }
}

impl AsMut<Ring> for Lease {
    fn as_mut(&mut self) -> &mut Ring {
        self.ring.as_mut().expect("a lease has its ring until it is dropped")
    }
}

/// A ring that one thread has for itself. Either it has the ring for good; then the ring registers no files,
/// because that would keep closed files open. Or it has the ring by a [`Lease`].
struct RingLane<R> {
    shared: Arc<Rings>,
    ring: R,
    /// Requests for which the ring had no room.
    waiting: VecDeque<Request>,
    /// Operations that are done and not completed.
    done: VecDeque<Outcome>,
    /// Operations that just came out of the ring; scratch space.
    outcomes: Vec<Outcome>,
}

impl<R: AsMut<Ring>> Lane for RingLane<R> {
    fn submit(&mut self, requests: &mut Vec<Request>) {
        self.waiting.extend(requests.drain(..));
        self.start();
    }

    fn wait(&mut self) -> bool {
        if !self.done.is_empty() {
            return true;
        }
        let in_flight = self.ring.as_mut().in_flight();
        if in_flight == 0 {
            return false;
        }
        // Waits for a part of many operations, so that one system call serves several of them.
        self.take_in(in_flight.div_ceil(REFILLS));
        self.start();
        true
    }

    fn complete(&mut self) -> bool {
        let next = self.done.pop_front();
        next.map(|outcome| complete_one(outcome, &self.shared)).is_some()
    }
}

impl<R: AsMut<Ring>> RingLane<R> {
    fn new(shared: Arc<Rings>, ring: R) -> Self {
        Self { shared, ring, waiting: VecDeque::new(), done: VecDeque::new(), outcomes: Vec::new() }
    }

    /// Starts waiting requests, until none waits or the ring is full.
    fn start(&mut self) {
        while self.ring.as_mut().has_room() && !self.waiting.is_empty() {
            fill(self.ring.as_mut(), usize::MAX, &mut self.waiting, &self.shared);
            self.take_in(0);
        }
    }

    /// Waits for `wanted` operations and notes what is done.
    fn take_in(&mut self, wanted: usize) {
        collect(self.ring.as_mut(), wanted, &mut self.outcomes, &self.shared);
        self.done.extend(self.outcomes.drain(..));
    }
}

/// Waits for `wanted` operations and completes what is done.
fn advance(ring: &mut Ring, wanted: usize, outcomes: &mut Vec<Outcome>, shared: &Rings) {
    collect(ring, wanted, outcomes, shared);
    complete(outcomes, shared);
}

/// Waits for `wanted` operations and takes what is done out of the ring.
fn collect(ring: &mut Ring, wanted: usize, outcomes: &mut Vec<Outcome>, shared: &Rings) {
    if ring.enter(wanted).is_err() {
        // Nothing is known about what is in flight, so nothing may be given back; try again.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    ring.reap(outcomes);
    shared.driver.finish_all(outcomes);
}

/// Completes what came out of a ring.
fn complete(outcomes: &mut Vec<Outcome>, shared: &Rings) {
    outcomes.drain(..).for_each(|outcome| complete_one(outcome, shared));
}

fn complete_one(outcome: Outcome, shared: &Rings) {
    match outcome {
        Outcome::Finished(request, result) => request.complete(result),
        Outcome::Refused(request) => shared.helper.submit(&mut vec![request]),
    }
}

/// Starts what the ring has room for. An idle device gets a first part at once: operations in flight tend to
/// come back all together, and the device would otherwise wait until the kernel has taken the whole next
/// batch.
fn refill(ring: &mut Ring, waiting: &mut VecDeque<Request>, shared: &Rings) {
    if ring.in_flight() == 0 && waiting.len() > 1 {
        fill(ring, ring.slots().div_ceil(REFILLS), waiting, shared);
        ring.submit();
    }
    fill(ring, usize::MAX, waiting, shared);
}

/// Starts at most `most` operations, as far as the ring has room. Operations that the ring cannot do go to
/// the helper. As soon as a read has to wait for its tenant's turn, all that is left goes to the I/O thread.
fn fill(ring: &mut Ring, most: usize, waiting: &mut VecDeque<Request>, shared: &Rings) {
    let mut left = most;
    while let room = ring.room().min(left)
        && room > 0
        && let Some(first) = waiting.front()
    {
        let reader = first.tenant;
        let alike = waiting.iter().take(room).take_while(|next| next.tenant == reader).count();
        left -= alike;
        let started = reader.map_or(alike, |tenant| shared.driver.start_reads(tenant, alike));
        for request in waiting.drain(..started) {
            if let Err(request) = ring.start(request) {
                shared.driver.finish(reader, 1);
                shared.helper.submit(&mut vec![request]);
            }
        }
        if started < alike {
            shared.driver.submit(&mut waiting.drain(..).collect());
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(ring) = &mut self.ring {
            // Operations are in flight here only after a panic.
            let mut outcomes = Vec::new();
            while ring.in_flight() > 0 {
                advance(ring, 1, &mut outcomes, &self.shared);
            }
        }
        let mut leases = self.shared.leases.lock();
        leases.out -= 1;
        match self.ring.take() {
            Some(mut ring) => {
                leases.released.iter().for_each(|&place| ring.forget_file(place));
                leases.idle.push(ring);
            }
            None => leases.made -= 1,
        }
        if leases.out == 0 {
            leases.released.clear();
            self.shared.all_returned.notify_all();
        }
    }
}

/// The feed of a batch that is known from the beginning.
struct NoMore;

impl Feed for NoMore {
    fn prepare(&mut self, _: &mut Vec<Request>) -> bool {
        false
    }

    fn land(&mut self) {}
}

/// Why there is no ring, for the report. Rings count as locked memory.
pub(super) fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOMEM) => format!("io_uring: {error} (memlock limit {})", memlock_limit()),
        _ => format!("io_uring: {error}"),
    }
}

fn refused_registration(bytes: usize, error: &io::Error) -> String {
    let wanted = bytes >> 10;
    format!("registered buffers: {error} ({wanted} KiB wanted, memlock limit {})", memlock_limit())
}

fn memlock_limit() -> String {
    sys::memlock_limit_bytes().map_or_else(|| "unlimited".to_owned(), |limit| format!("{} KiB", limit >> 10))
}

#[cfg(test)]
mod tests;
