//! Goal: an executor may do anything in its wakers: they run on a thread that nothing of the pool waits for,
//! no lock is held while they run, and they may panic. Method: wakers that use the pool, panic, or drop it;
//! hooks that hold up a transfer until the test has left its waker. A failure is a waker that is not run in
//! time, or by the wrong thread.

mod common;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::Duration;

use bufpool::engine::{PageHooks, PageName};
use bufpool::{ErrorKind, File, OwnedReadGuard, Pool};
use common::{
    deterministic, directory, kind, new_file, on_each_backend, open_on, small, stamp, stamped_device, version,
};

/// A waker that calls a function.
struct Calls<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn calling(function: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Calls(function)))
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// A waker that sends the name of its thread, and whether `try_read` of the page gave no error there.
fn trying(pool: &Pool, file: &File, number: u64) -> (Waker, Receiver<(String, bool)>) {
    let (sender, receiver) = channel();
    let (tenant, file) = (pool.default_tenant(), file.clone());
    let waker = calling(move || {
        let is_served = tenant.try_read(file.page(number)).is_ok();
        let _ = sender.send((thread_name(), is_served));
    });
    (waker, receiver)
}

fn thread_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

fn assert_run_by_the_waker_thread(receiver: &Receiver<(String, bool)>) {
    assert_eq!(heard(receiver), ("bufpool-waker".to_owned(), true));
}

/// Receives a message; fails after a minute.
fn heard<T>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(Duration::from_secs(60)).expect("a waker is run")
}

/// Holds up transfers of pages for which `holds_up` says so: says which it is, and waits.
struct Barrier {
    holds_up: fn(PageName, bool) -> bool,
    held_up: Mutex<Sender<u64>>,
    go: Mutex<Receiver<()>>,
}

impl Barrier {
    fn new(holds_up: fn(PageName, bool) -> bool) -> (Self, Receiver<u64>, Sender<()>) {
        let ((held_up, holds), (lets_go, go)) = (channel(), channel());
        (Self { holds_up, held_up: Mutex::new(held_up), go: Mutex::new(go) }, holds, lets_go)
    }

    fn pass(&self, page: PageName, is_write: bool) {
        if (self.holds_up)(page, is_write) {
            let _ = self.held_up.lock().unwrap().send(page.number);
            let _ = self.go.lock().unwrap().recv();
        }
    }
}

impl PageHooks for Barrier {
    fn on_read(&self, page: PageName, _: &mut [u8]) -> Result<(), String> {
        self.pass(page, false);
        Ok(())
    }

    fn before_write(&self, page: PageName, _: &mut [u8]) {
        self.pass(page, true);
    }
}

#[test]
fn a_waker_may_try_when_a_latch_is_let_go_of() {
    let (pool, file) = open_on(small(), &stamped_device(60));
    let tenant = pool.default_tenant();
    let guard = tenant.write(file.page(1)).unwrap();
    let mut future = pool.default_tenant().read_async(file.page(1));
    let (waker, woken) = trying(&pool, &file, 2);
    assert!(poll(&mut future, &waker).is_pending());
    drop(guard);
    assert_run_by_the_waker_thread(&woken);
    assert!(poll(&mut future, &waker).is_ready());
}

#[test]
fn a_waker_may_try_when_a_page_has_come_in() {
    on_each_backend(|io| {
        let directory = directory();
        let (barrier, held_up, go) = Barrier::new(|page, is_write| page.number == 7 && !is_write);
        let pool = small().io(io).hooks(Box::new(barrier)).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 60);
        let mut future = pool.default_tenant().read_async(file.page(7));
        let mut other = pool.default_tenant().read_async(file.page(7));
        let (waker, woken) = trying(&pool, &file, 20);
        let (other_waker, other_woken) = trying(&pool, &file, 21);
        assert!(poll(&mut future, &waker).is_pending());
        assert!(poll(&mut other, &other_waker).is_pending());
        assert_eq!(heard(&held_up), 7);
        go.send(()).unwrap();
        assert_run_by_the_waker_thread(&woken);
        assert_run_by_the_waker_thread(&other_woken);
        assert!(poll(&mut future, &waker).is_ready());
        assert!(poll(&mut other, &other_waker).is_ready());
    });
}

#[test]
fn a_waker_may_try_when_a_page_has_left() {
    let (barrier, held_up, go) = Barrier::new(|_, is_write| is_write);
    // No background writer cleans the pages, so those that leave are dirty.
    let (pool, file) = open_on(deterministic().hooks(Box::new(barrier)), &stamped_device(60));
    let tenant = pool.default_tenant();
    (0..32).for_each(|number| stamp(&mut tenant.write(file.page(number)).unwrap(), number, 2));
    let misses = {
        let (tenant, file) = (tenant.clone(), file.clone());
        std::thread::spawn(move || (40..50).for_each(|number| drop(tenant.read(file.page(number)).unwrap())))
    };
    let mut future = tenant.read_async(file.page(heard(&held_up)));
    let (waker, woken) = trying(&pool, &file, 59);
    assert!(poll(&mut future, &waker).is_pending());
    // No transfer is held up any more.
    drop(go);
    assert_run_by_the_waker_thread(&woken);
    misses.join().unwrap();
}

#[test]
fn a_waker_may_try_when_its_time_has_come() {
    let (pool, file) = open_on(small().latch_wait_ms(200), &stamped_device(60));
    let tenant = pool.default_tenant();
    let guard = tenant.write(file.page(1)).unwrap();
    let mut future = pool.default_tenant().read_async(file.page(1));
    let (waker, woken) = trying(&pool, &file, 2);
    // Releases of latches by other tests of the process may wake it before.
    let polled = loop {
        match poll(&mut future, &waker) {
            Poll::Ready(polled) => break polled,
            Poll::Pending => assert_run_by_the_waker_thread(&woken),
        }
    };
    assert_eq!(kind(polled), ErrorKind::LatchTimeout);
    drop(guard);
}

#[test]
fn a_waker_that_panics_makes_nobody_forgotten() {
    let (pool, file) = open_on(small(), &stamped_device(60));
    let tenant = pool.default_tenant();
    let guard = tenant.write(file.page(1)).unwrap();
    let mut futures = [(); 3].map(|()| pool.default_tenant().read_async(file.page(1)));
    let panicking = calling(|| std::panic::panic_any(common::Bomb));
    let (waker, woken) = trying(&pool, &file, 1);
    assert!(poll(&mut futures[0], &panicking).is_pending());
    assert!(poll(&mut futures[1], &waker).is_pending());
    assert!(poll(&mut futures[2], &panicking).is_pending());
    drop(guard);
    assert_run_by_the_waker_thread(&woken);
    for future in &mut futures {
        assert!(poll(future, &panicking).is_ready());
    }
}

#[test]
fn a_waker_that_panics_stops_no_clock() {
    let (pool, file) = open_on(small().latch_wait_ms(200), &stamped_device(60));
    let tenant = pool.default_tenant();
    let guard = tenant.write(file.page(1)).unwrap();
    for _ in 0..2 {
        let mut future = pool.default_tenant().read_async(file.page(1));
        let (sender, woken) = channel();
        let sender = Mutex::new(sender);
        let panicking = calling(move || {
            let _ = sender.lock().unwrap().send(());
            std::panic::resume_unwind(Box::new("a waker that panics"));
        });
        while poll(&mut future, &panicking).is_pending() {
            heard(&woken);
        }
    }
    drop(guard);
}

#[test]
fn a_waker_that_panics_when_it_is_dropped_harms_nobody() {
    struct PanicsAtLast;
    impl Wake for PanicsAtLast {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for PanicsAtLast {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("a waker whose drop panics"));
        }
    }
    let poll_and_leave = |future: &mut bufpool::ReadFuture| {
        let waker = Waker::from(Arc::new(PanicsAtLast));
        let polled = poll(future, &waker);
        // The pool's clones are the last ones.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(waker)));
        polled.is_pending()
    };
    let (pool, file) = open_on(small(), &stamped_device(60));
    let tenant = pool.default_tenant();
    let guard = tenant.write(file.page(1)).unwrap();
    let mut futures = [(); 3].map(|()| pool.default_tenant().read_async(file.page(1)));
    let (waker, woken) = trying(&pool, &file, 1);
    // Its waker is displaced by another; it is dropped with the future; it is dropped after it has been run.
    assert!(poll_and_leave(&mut futures[0]) && poll_and_leave(&mut futures[0]));
    assert!(poll_and_leave(&mut futures[1]));
    assert!(poll(&mut futures[2], &waker).is_pending());
    let [first, second, mut third] = futures;
    drop(second);
    drop(guard);
    assert_run_by_the_waker_thread(&woken);
    drop(first);
    assert!(poll(&mut third, &waker).is_ready());
}

/// What [`OnClone`] does when it is cloned.
type CloneAction = Box<dyn Fn() + Send + Sync>;

/// A waker that acts when it is cloned; its clones are wakers that do nothing.
struct OnClone(CloneAction);

impl OnClone {
    const TABLE: RawWakerVTable = RawWakerVTable::new(Self::clone, |_| {}, |_| {}, |_| {});

    fn clone(data: *const ()) -> RawWaker {
        // SAFETY: `data` is that of `waker`, which borrows it longer than the waker lasts.
        let action = unsafe { &*data.cast::<OnClone>() };
        (action.0)();
        let noop = Waker::noop();
        RawWaker::new(noop.data(), noop.vtable())
    }

    /// Calls `function` with a waker that borrows this.
    fn waker<R>(&self, function: impl FnOnce(&Waker) -> R) -> R {
        let raw = RawWaker::new(std::ptr::from_ref(self).cast(), &Self::TABLE);
        // SAFETY: the table's functions do what it demands, and the borrow outlasts the waker; clones do not
        // use it.
        let waker = unsafe { Waker::from_raw(raw) };
        function(&waker)
    }
}

#[test]
fn a_waker_may_let_go_of_the_page_when_it_is_cloned() {
    let (pool, file) = open_on(small(), &stamped_device(60));
    let tenant = pool.default_tenant();
    let mut write = tenant.write_async(file.page(1));
    while poll(&mut write, Waker::noop()).is_pending() {
        std::thread::yield_now();
    }
    let mut write = tenant.write_async(file.page(1));
    let Poll::Ready(Ok(guard)) = poll(&mut write, Waker::noop()) else { panic!("the page is free") };
    let held = Mutex::new(Some(guard));
    let action = OnClone(Box::new(move || drop(held.lock().unwrap().take())));
    let mut future = tenant.read_async(file.page(1));
    assert!(action.waker(|waker| poll(&mut future, waker)).is_ready());
}

#[test]
fn a_waker_that_panics_when_it_is_cloned_harms_nobody() {
    let (pool, file) = open_on(small(), &stamped_device(60));
    let tenant = pool.default_tenant();
    let guard = tenant.write(file.page(1)).unwrap();
    let mut futures = [(); 2].map(|()| pool.default_tenant().read_async(file.page(1)));
    let (waker, woken) = trying(&pool, &file, 1);
    let panics = OnClone(Box::new(|| std::panic::resume_unwind(Box::new("a waker whose clone panics"))));
    assert!(poll(&mut futures[1], &waker).is_pending());
    let polled = catch_unwind(AssertUnwindSafe(|| panics.waker(|waker| poll(&mut futures[0], waker))));
    assert!(polled.is_err(), "the panic is that of who polls");
    drop(guard);
    assert_run_by_the_waker_thread(&woken);
    for future in &mut futures {
        assert!(poll(future, &waker).is_ready());
    }
}

/// What a waker drops when it is run: the last handles of the pool, and the future that it is to wake.
type Everything = Mutex<Option<(Pool, File, bufpool::ReadFuture)>>;

#[test]
fn a_pool_may_be_dropped_in_a_waker() {
    on_each_backend(|io| {
        let directory = directory();
        let (barrier, held_up, go) = Barrier::new(|page, is_write| page.number == 7 && !is_write);
        let pool = small().io(io).hooks(Box::new(barrier)).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 60);
        let mut future = pool.default_tenant().read_async(file.page(7));
        let (sender, dropped) = channel();
        let everything = Arc::new(Everything::default());
        let waker = {
            let everything = Arc::clone(&everything);
            calling(move || {
                drop(everything.lock().unwrap().take());
                let _ = sender.send(thread_name());
            })
        };
        assert!(poll(&mut future, &waker).is_pending());
        assert_eq!(heard(&held_up), 7);
        *everything.lock().unwrap() = Some((pool, file, future));
        go.send(()).unwrap();
        assert_eq!(heard(&dropped), "bufpool-waker");
    });
}

/// The last handle is dropped under a lock that a waker needs, as by an executor that drops a task under its
/// own lock.
#[test]
fn a_pool_does_not_wait_for_its_wakers() {
    let (pool, file) = open_on(small(), &stamped_device(60));
    let tenant = pool.default_tenant();
    let guard = tenant.write(file.page(1)).unwrap();
    let mut future = pool.default_tenant().read_async(file.page(1));
    let (sender, woken) = channel();
    let is_over = Arc::new(AtomicBool::new(false));
    let executor = Arc::new(Mutex::new(()));
    let waker = {
        let (executor, is_over) = (Arc::clone(&executor), Arc::clone(&is_over));
        calling(move || {
            let _ = sender.send(());
            drop(executor.lock());
            is_over.store(true, Ordering::Release);
            let _ = sender.send(());
        })
    };
    let locked = executor.lock().unwrap();
    assert!(poll(&mut future, &waker).is_pending());
    drop(guard);
    heard(&woken);
    drop((future, tenant, file, pool));
    assert!(!is_over.load(Ordering::Acquire), "the waker waits for the executor's lock");
    drop(locked);
    heard(&woken);
    assert!(is_over.load(Ordering::Acquire));
}

/// Tasks that are polled again whenever they are woken get their pages, with too few frames and with wakers
/// that try to read a page.
#[test]
fn tasks_whose_wakers_try_come_to_their_end() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = small().io(io).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 80);
        let setup = pool.default_tenant();
        (0..80).for_each(|number| stamp(&mut setup.write(file.page(number)).unwrap(), number, 1));
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (pool, file) = (&pool, &file);
                scope.spawn(move || {
                    for step in 0..200 {
                        let number = (thread * 31 + step * 17) % 80;
                        let guard = block_on_trying(pool, file, number);
                        assert_eq!(version(&guard, number), 1);
                    }
                });
            }
            let (pool, file) = (&pool, &file);
            scope.spawn(move || {
                for number in (0..80).cycle().take(800) {
                    stamp(&mut pool.default_tenant().write(file.page(number)).unwrap(), number, 1);
                }
            });
        });
    });
}

fn block_on_trying(pool: &Pool, file: &File, number: u64) -> OwnedReadGuard {
    let mut future = pool.default_tenant().read_async(file.page(number));
    let (waker, woken) = trying(pool, file, (number + 40) % 80);
    loop {
        if let Poll::Ready(guard) = poll(&mut future, &waker) {
            return guard.unwrap();
        }
        assert_run_by_the_waker_thread(&woken);
    }
}

/// Futures of all kinds panic then, and have no other effect.
#[test]
fn a_future_that_is_polled_after_it_was_ready_panics() {
    let (pool, file) = open_on(small(), &stamped_device(60));
    let tenant = pool.default_tenant();
    let panics = |poll: &mut dyn FnMut()| {
        let payload = catch_unwind(AssertUnwindSafe(poll)).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"polled after it was ready"));
    };
    let mut read = std::pin::pin!(tenant.read_async(file.page(1)));
    drop(common::block_on(read.as_mut()).unwrap());
    panics(&mut || drop(common::block_on(read.as_mut())));
    let mut flush = std::pin::pin!(file.flush_async());
    common::block_on(flush.as_mut()).unwrap();
    panics(&mut || drop(common::block_on(flush.as_mut())));
    let mut hints = tenant.hint([0, 1, 2].map(|number| file.page(number).into())).unwrap();
    {
        let mut next = std::pin::pin!(hints.next_async());
        drop(common::block_on(next.as_mut()).unwrap());
        panics(&mut || drop(common::block_on(next.as_mut())));
    }
    assert_eq!(hints.position(), 1);
}
