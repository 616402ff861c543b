//! Goal: a pool releases its tier, and files, when all calls and answers of the tier are over, and not
//! before. Method: tiers that answer late, forget slowly, or are asked while the pool closes.

mod common;
mod tiers_below;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bufpool::engine::{PageHooks, PageName};
use bufpool::sim::SimDevice;
use bufpool::tier::{
    Attachment, Demoted, MemoryTier, Tier, TierAdmit, TierBuffer, TierDone, TierPage, TierPolicy, TierRange,
    TierReport, Version,
};
use bufpool::{File, FileOptions, Pool, PoolOptions};
use common::{
    PAGE_BYTES, deterministic, directory, new_file, open_on, small, stamp, stamped_device, version,
};
use tiers_below::over;

/// A pool detaches its tier when it is closed, and not again when its last handle is dropped: another pool
/// may have the tier by then.
#[test]
fn a_closed_pool_leaves_the_tier_to_the_next() {
    let tier = Arc::new(MemoryTier::new(40));
    let options = || deterministic().tier(tier.clone(), TierPolicy::Demote, TierAdmit::All);
    let (first, _) = open_on(options(), &stamped_device(60));
    let kept = first.default_tenant();
    first.close().unwrap();
    let (second, file) = open_on(options(), &stamped_device(60));
    drop(kept);
    let tenant = second.default_tenant();
    for number in (0..3).flat_map(|_| 0..60) {
        drop(tenant.read(file.page(number)).unwrap());
    }
    let tier_stats = second.stats().tier.unwrap();
    assert_eq!(tier_stats.refused, 0);
    assert!(second.stats().tier.unwrap().hits > 0);
    assert!(options().open_on(&SimDevice::new(1)).is_err(), "it has a pool");
}

const TIER_THREAD: &str = "tier";

/// A tier in memory that answers in threads of its own, and takes its time to forget.
struct Slowly {
    tier: Arc<MemoryTier>,
    forgets_in: Duration,
}

impl Tier for Slowly {
    fn attach(&self, to: &Attachment) -> bufpool::Result<()> {
        self.tier.attach(to)
    }

    fn demote(&self, page: PageName, version: Version, copy: TierPage) -> Demoted {
        self.tier.demote(page, version, copy)
    }

    fn take(&self, page: PageName, version: Version, into: TierBuffer, done: TierDone) {
        let tier = Arc::clone(&self.tier);
        let answer = move || tier.take(page, version, into, done);
        std::thread::Builder::new().name(TIER_THREAD.into()).spawn(answer).unwrap();
    }

    fn forget(&self, pages: TierRange) {
        std::thread::sleep(self.forgets_in);
        self.tier.forget(pages);
    }

    fn report(&self) -> TierReport {
        self.tier.report()
    }

    fn detach(&self) {
        self.tier.detach();
    }
}

/// A pool over such a tier.
fn over_slow_tier(options: PoolOptions, forgets_in: Duration) -> PoolOptions {
    let tier = Slowly { tier: Arc::new(MemoryTier::new(200)), forgets_in };
    options.tier(Arc::new(tier), TierPolicy::Demote, TierAdmit::All).tier_wait_ms(10_000)
}

/// Hooks that keep the next page waiting that comes from such a tier.
struct Slow {
    is_next: Arc<AtomicBool>,
    reached: Sender<()>,
}

impl PageHooks for Slow {
    fn on_read(&self, _: PageName, _: &mut [u8]) -> Result<(), String> {
        let is_from_tier = std::thread::current().name() == Some(TIER_THREAD);
        if is_from_tier && self.is_next.swap(false, Ordering::SeqCst) {
            self.reached.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(300));
        }
        Ok(())
    }

    fn before_write(&self, _: PageName, _: &mut [u8]) {}
}

/// When the last handle of a pool has been dropped, all pages are written and the files are free, although an
/// answer of the tier was under way. If that drop is part of a panic, nothing is written.
#[test]
fn the_last_handle_waits_for_the_tiers_answers() {
    for panics in [false, true] {
        let device = stamped_device(60);
        // The device is slow, because a tier is passed by over a device that is as fast.
        let latency = Duration::from_millis(20);
        device.set_latency(latency, latency);
        let (reached, arrivals) = channel();
        let is_next = Arc::new(AtomicBool::new(false));
        let hooks = Box::new(Slow { is_next: Arc::clone(&is_next), reached });
        let options = over_slow_tier(small().manager(None).hooks(hooks), Duration::ZERO);
        let (pool, file) = open_on(options, &device);
        let tenant = pool.default_tenant();
        for number in (0..2).flat_map(|_| 0..60) {
            drop(tenant.read(file.page(number)).unwrap());
        }
        file.flush().unwrap();
        stamp(&mut tenant.write(file.page(59)).unwrap(), 59, 2);
        is_next.store(true, Ordering::SeqCst);
        assert!(tenant.prefetch((0..28).step_by(2).map(|number| file.page(number))) > 0);
        arrivals.recv_timeout(Duration::from_secs(10)).expect("a page comes from the tier");
        let gone = catch_unwind(AssertUnwindSafe(move || {
            let _all = (tenant, file, pool);
            assert!(!panics, "with all handles");
        }));
        assert_eq!(gone.is_err(), panics);
        let written = |device: &SimDevice| version(&device.contents("data").unwrap()[59 * PAGE_BYTES..], 59);
        assert_eq!(written(&device), if panics { 1 } else { 2 });
        drop(open_on(small(), &device));
        assert_eq!(written(&device), if panics { 1 } else { 2 });
    }
}

/// Once an access was refused because the file is closed, the file can be opened again, although the tier has
/// not forgotten its pages yet.
#[test]
fn a_file_that_is_closed_is_not_given_out_again() {
    type Open = fn(&Pool, &Path) -> bufpool::Result<File>;
    let ways: [Open; 2] = [
        |pool, path| pool.open_or_share(path, FileOptions::new()),
        |pool, path| {
            let opened = std::fs::File::options().read(true).write(true).open(path).unwrap();
            pool.open_fd(opened.into(), FileOptions::new())
        },
    ];
    for open in ways {
        let directory = directory();
        let pool = over_slow_tier(small(), Duration::from_millis(300)).open().unwrap();
        let (file, tenant) = (new_file(&pool, directory.path(), "data", 8), pool.default_tenant());
        let other = file.clone();
        let closing = std::thread::spawn(move || file.close());
        while tenant.try_read(other.page(0)).is_ok() {}
        drop(other);
        let file = open(&pool, &directory.path().join("data")).unwrap();
        drop(tenant.read(file.page(0)).unwrap());
        closing.join().unwrap().unwrap();
        drop(tenant.read(file.page(1)).unwrap());
    }
}

/// A tier that takes the first page only when it is told to, and notes when it is let go of.
struct TakesLater {
    reached: Sender<()>,
    let_go: Mutex<Receiver<()>>,
    is_taken: AtomicBool,
    was_taken_when_detached: AtomicBool,
}

impl Tier for TakesLater {
    fn attach(&self, _: &Attachment) -> bufpool::Result<()> {
        Ok(())
    }

    fn demote(&self, _: PageName, _: Version, _: TierPage) -> Demoted {
        if !self.is_taken.load(Ordering::SeqCst) {
            self.reached.send(()).unwrap();
            self.let_go.lock().unwrap().recv().unwrap();
            self.is_taken.store(true, Ordering::SeqCst);
        }
        Demoted::Refused
    }

    fn take(&self, _: PageName, _: Version, into: TierBuffer, done: TierDone) {
        done.absent(into);
    }

    fn forget(&self, _: TierRange) {}

    fn report(&self) -> TierReport {
        TierReport::new("takes later")
    }

    fn detach(&self) {
        self.was_taken_when_detached.store(self.is_taken.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

/// A pool detaches its tier only when no thread of the pool offers it pages any more. Then another pool may
/// have it.
#[test]
fn a_tier_is_let_go_of_when_its_calls_are_over() {
    let ((reached, arrivals), (let_go, lets_go)) = (channel(), channel());
    let tier = Arc::new(TakesLater {
        reached,
        let_go: Mutex::new(lets_go),
        is_taken: AtomicBool::new(false),
        was_taken_when_detached: AtomicBool::new(false),
    });
    let options = over(small().manager(None), tier.clone(), TierPolicy::Demote).tier_wait_ms(10_000);
    let (pool, file) = open_on(options, &stamped_device(60));
    let tenant = pool.tenant("capped").open().unwrap();
    (0..20).for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
    std::thread::scope(|scope| {
        // Gives pages up that nobody waits for; not all of them where the pool is closed meanwhile.
        scope.spawn(|| drop(tenant.set_cap_frames(1)));
        arrivals.recv().unwrap();
        let closing = scope.spawn(|| pool.clone().close());
        std::thread::sleep(Duration::from_millis(200));
        let_go.send(()).unwrap();
        closing.join().unwrap().unwrap();
    });
    assert!(tier.was_taken_when_detached.load(Ordering::SeqCst));
}
