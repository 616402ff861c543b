//! Goal: a miss waits for no write while the clean reserve has a free frame; when it has none, the miss
//! writes a few of the waiting victims itself. A reserve that is too small for the victims borrows frames,
//! loses none of them and gives them back. Method: the background writer is held up in the engine's log, so
//! that the reserve fills with the victims of misses; or the device is slow.

mod common;

use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bufpool::engine::Log;
use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::{Error, ErrorKind, File, IoOperation, Pool, PoolOptions, Tenant};
use common::{new_file, small, stamp, version};

const PAGES: u64 = 200;
const RESERVE: u32 = 12;
/// A test that waits longer has failed.
const LONG: Duration = Duration::from_secs(60);

/// A log that is durable up to 0 and cannot be advanced; the first attempt lasts until the test lets it go
/// on.
struct Slow {
    entered: Sender<()>,
    /// Taken by the first attempt.
    leave: Mutex<Option<Receiver<()>>>,
}

impl Log for Slow {
    fn end(&self) -> u64 {
        2
    }

    fn durable(&self) -> u64 {
        0
    }

    fn advance(&self, _: u64) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        // The lock is not held while this waits, because a flush advances the log, too.
        let leave = self.leave.lock().unwrap().take();
        if let Some(leave) = leave {
            self.entered.send(())?;
            leave.recv_timeout(LONG)?;
        }
        Err("as the test wants it".into())
    }
}

struct World {
    device: SimDevice,
    pool: Pool,
    file: File,
    tenant: Tenant,
    /// Lets the background writer go on.
    leave: Sender<()>,
}

impl World {
    /// A pool whose victims are all dirty, and whose background writer waits for the log with the first one
    /// in the reserve.
    fn held_up() -> Self {
        let device = SimDevice::new(1);
        let (entered, has_entered) = channel();
        let (leave, may_leave) = channel();
        let log = Slow { entered, leave: Mutex::new(Some(may_leave)) };
        // Plain LRU, so that victims go in the order in which they came.
        let options = small().manager(None).dirty_limit_percent(100).log(Box::new(log));
        let options = options.reserve_high_frames(RESERVE).reserve_low_frames(RESERVE - 1);
        let pool = options.open_on(&device).unwrap();
        let file = new_file(&pool, Path::new(""), "data", PAGES);
        let tenant = pool.default_tenant();
        // One less than the dirty limit, at which the background writer would begin by itself.
        for number in 0..31 {
            let mut page = tenant.create(file.page(number)).unwrap();
            stamp(&mut page, number, 1);
            if number == 0 {
                page.set_lsn(1);
            }
        }
        tenant.read(file.page(99)).unwrap();
        tenant.read(file.page(100)).unwrap();
        has_entered.recv_timeout(LONG).unwrap();
        Self { device, pool, file, tenant, leave }
    }

    /// Pages that misses have written so far, and all writes of the device.
    fn writes(&self) -> (u64, u64) {
        (self.pool.stats().miss_writes, self.device.calls(IoOperation::Write))
    }

    /// Lets the background writer go on, and checks the contents of all pages.
    fn finish(self) {
        self.leave.send(()).unwrap();
        for number in 1..31 {
            assert_eq!(version(&self.tenant.read(self.file.page(number)).unwrap(), number), 1);
        }
    }
}

#[test]
fn a_miss_waits_for_no_write_while_the_reserve_has_a_frame() {
    let world = World::held_up();
    for number in 101..100 + u64::from(RESERVE) {
        world.tenant.read(world.file.page(number)).unwrap();
        assert_eq!(world.writes(), (0, 0));
    }
    world.finish();
}

#[test]
fn a_miss_without_a_reserve_frame_writes_at_most_eight_waiting_victims() {
    let world = World::held_up();
    let waiting = u64::from(RESERVE) - 1;
    for number in 101..101 + waiting {
        world.tenant.read(world.file.page(number)).unwrap();
    }
    world.tenant.read(world.file.page(150)).unwrap();
    // The miss has written eight neighbouring victims in one write, and has taken one of their frames.
    assert_eq!(world.writes(), (8, 1));
    for number in 151..158 {
        world.tenant.read(world.file.page(number)).unwrap();
        assert_eq!(world.writes(), (8, 1), "seven frames are left");
    }
    world.tenant.read(world.file.page(158)).unwrap();
    assert_eq!(world.writes().0, 16);
    world.finish();
}

/// Without frames for copies, a flush does not wait for any, and writes runs of pages from their frames.
#[test]
fn a_flush_without_a_frame_for_copies_writes_a_run_from_where_it_is() {
    let world = World::held_up();
    for number in 101..100 + u64::from(RESERVE) {
        world.tenant.read(world.file.page(number)).unwrap();
    }
    let dirty = world.pool.stats().dirty_frames;
    // The flush fails, because the log cannot be advanced for the first victim. The other victims in the
    // reserve are left to the background writer.
    let error = world.file.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Log, "{error}");
    assert_eq!(world.writes(), (0, 1));
    let left = world.pool.stats().dirty_frames;
    assert_eq!((dirty, left), (31, u64::from(RESERVE)), "only what is in the reserve is left");
    world.finish();
}

/// Options whose reserve is 32 frames and may borrow 36 of the pool's 512.
fn borrowing() -> PoolOptions {
    small().frames(512).manager(None).dirty_limit_percent(100)
}

/// A device on which writes take a while.
fn slow_device() -> SimDevice {
    let device = SimDevice::new(1);
    device.set_latency(Duration::from_micros(500), Duration::from_millis(1));
    device
}

/// Creates pages, of version 1, until there is a reason to stop. Returns the error, if that was it, and the
/// most frames borrowed meanwhile.
fn stream(pool: &Pool, file: &File, pages: Range<u64>) -> (Option<Error>, u32) {
    let (tenant, mut most) = (pool.default_tenant(), 0);
    for number in pages {
        match tenant.create(file.page(number)) {
            Ok(mut page) => stamp(&mut page, number, 1),
            Err(error) => return (Some(error), most),
        }
        most = most.max(pool.stats().borrowed_frames);
    }
    (None, most)
}

#[test]
fn a_stream_of_dirty_victims_borrows_frames_and_gives_them_back() {
    let pool = borrowing().open_on(&slow_device()).unwrap();
    let file = new_file(&pool, Path::new(""), "data", 4096);
    assert_eq!(pool.stats().reserve_frames, 32);
    // No page leaves memory yet.
    assert_eq!(stream(&pool, &file, 0..512).1, 0);
    let (error, most) = stream(&pool, &file, 512..4096);
    assert!(error.is_none() && (1..=36).contains(&most), "{error:?}, {most} frames borrowed");
    pool.check_invariants();
    assert_eq!(pool.stats().borrowed_frames, 0);
    let tenant = pool.default_tenant();
    for number in 0..4096 {
        assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), 1);
    }
    // All frames have been given back: the last pages, as many as there are frames, are in memory.
    let before = pool.stats().misses;
    (4096 - 512..4096).for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
    assert_eq!(pool.stats().misses, before);
    pool.close().unwrap();
}

/// The reserve does not borrow frames that floors and threads have a right to.
#[test]
fn promised_frames_are_not_borrowed() {
    let pool = borrowing().open_on(&slow_device()).unwrap();
    let file = new_file(&pool, Path::new(""), "data", 4096);
    // 2 frames for each of 8 threads, and 8 more, cannot be part of a floor.
    let kept = pool.tenant("kept").floor_frames(512 - 24).open().unwrap();
    assert_eq!(stream(&pool, &file, 0..4096).1, 0);
    kept.set_floor_frames(0).unwrap();
    assert!(stream(&pool, &file, 0..4096).1 > 0);
    pool.check_invariants();
    // For a tenant with a cap, no frames of other tenants are borrowed.
    let capped = pool.tenant("capped").cap_frames(100).open().unwrap();
    for number in 0..2048 {
        stamp(&mut capped.create(file.page(number)).unwrap(), number, 2);
        assert_eq!(pool.stats().borrowed_frames, 0);
    }
    pool.close().unwrap();
}

/// After a failed write no dirty page can leave. Pages in memory stay readable, and reopening the file gives
/// back all frames, the borrowed ones included.
#[test]
fn borrowed_frames_of_a_poisoned_file_come_back_when_it_is_reopened() {
    for after in [1, 4, 20] {
        let device = slow_device();
        let pool = borrowing().frame_wait_ms(50).open_on(&device).unwrap();
        let file = new_file(&pool, Path::new(""), "data", 4096);
        let other = new_file(&pool, Path::new(""), "other", 512);
        stream(&pool, &file, 0..600);
        // The write fails while more than eight frames are borrowed.
        let tenant = pool.default_tenant();
        let borrows = |number: &u64| {
            stamp(&mut tenant.create(file.page(*number)).unwrap(), *number, 1);
            pool.stats().borrowed_frames > 8
        };
        let last = (600..4000).find(borrows).expect("it borrows");
        let nth = device.calls(IoOperation::Write) + after;
        device.fail(SimFault { operation: IoOperation::Write, nth, failure: SimFailure::Io });
        let (error, _) = stream(&pool, &file, last + 1..4096);
        assert!(error.is_some(), "nothing can leave");
        pool.check_invariants();
        for number in 0..last {
            if let Ok(page) = tenant.read(file.page(number)) {
                assert_eq!(version(&page, number), 1);
            }
        }
        file.reopen().unwrap();
        pool.check_invariants();
        assert_eq!((pool.stats().borrowed_frames, pool.stats().dirty_frames), (0, 0));
        let guards: Vec<_> = (0..512).map(|number| tenant.read(other.page(number)).unwrap()).collect();
        drop(guards);
        pool.close().unwrap();
    }
}

/// Threads that change pages of their own, of which a pool has room for few, and a neighbour that needs its
/// floor now and then.
#[test]
fn nothing_is_lost_while_frames_come_and_go() {
    const THREADS: u64 = 4;
    const EACH: u64 = 300;
    let device = slow_device();
    let pool = borrowing().frames(256).open_on(&device).unwrap();
    let file = new_file(&pool, Path::new(""), "data", THREADS * EACH);
    let floor = pool.tenant("floor").floor_frames(60).open().unwrap();
    let borrowed = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, file, floor, borrowed) = (&pool, &file, &floor, &borrowed);
            scope.spawn(move || {
                let mut versions = [0; EACH as usize];
                let tenant = if thread == 0 { floor.clone() } else { pool.default_tenant() };
                for step in 0..1500 {
                    let at = (step * step * 7 + step * 13 + thread) % EACH;
                    let at = if step / 300 % 2 == 0 { step % EACH } else { at };
                    let number = thread * EACH + at;
                    let last = &mut versions[at as usize];
                    borrowed.fetch_max(pool.stats().borrowed_frames, Ordering::Relaxed);
                    if *last == 0 || step % 5 == 0 {
                        *last += 1;
                        stamp(&mut tenant.create(file.page(number)).unwrap(), number, *last);
                    } else if step % 3 == 0 {
                        assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), *last);
                    } else {
                        let mut page = tenant.write(file.page(number)).unwrap();
                        assert_eq!(version(&page, number), *last);
                        *last += 1;
                        stamp(&mut page, number, *last);
                    }
                }
                (0..EACH).zip(versions).filter(|(_, last)| *last > 0).for_each(|(at, last)| {
                    let number = thread * EACH + at;
                    assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), last);
                });
            });
        }
    });
    pool.check_invariants();
    assert_eq!(pool.stats().borrowed_frames, 0);
    assert!(borrowed.into_inner() > 0);
    pool.close().unwrap();
}

/// A caller that needs all frames gets them, also those that were borrowed a moment ago.
#[test]
fn borrowed_frames_come_back_to_who_waits_for_them() {
    let pool = borrowing().open_on(&slow_device()).unwrap();
    let (file, other) =
        (new_file(&pool, Path::new(""), "data", 4096), new_file(&pool, Path::new(""), "other", 512));
    let tenant = pool.default_tenant();
    let borrows = |number: &u64| {
        stamp(&mut tenant.create(file.page(*number)).unwrap(), *number, 1);
        pool.stats().borrowed_frames > 8
    };
    assert!((0..4096).any(|number| borrows(&number)));
    let guards: Vec<_> = (0..512).map(|number| tenant.read(other.page(number)).unwrap()).collect();
    pool.check_invariants();
    assert_eq!((guards.len(), pool.stats().borrowed_frames), (512, 0));
}
