//! Goal: a miss waits for no write while the clean reserve has a free frame; when it has none, the miss helps, and only a little.
//! Method: the background writer is held up in the engine's log, so that the reserve fills with the victims of misses.

mod common;

use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bufpool::sim::SimDevice;
use bufpool::{File, IoOperation, Log, Pool, Tenant};
use common::{new_file, small, stamp, version};

const PAGES: u64 = 200;
const RESERVE: u32 = 12;
/// Whoever waits longer has waited for something that does not come.
const LONG: Duration = Duration::from_secs(60);

/// A log that is durable up to 0 and cannot be advanced; the first attempt lasts until the test lets it go on.
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
        if let Some(leave) = self.leave.lock().unwrap().take() {
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
    /// A pool whose victims are all dirty, and whose background writer waits for the log with the first one in the reserve.
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

    /// Writes so far by misses, and by anybody.
    fn writes(&self) -> (u64, u64) {
        (self.pool.stats().miss_writes, self.device.calls(IoOperation::Write))
    }

    /// Lets go of the background writer, and checks that everything is as it was written.
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
    // Eight victims that are neighbours go in one write, and the miss took one of their frames for its own.
    assert_eq!(world.writes(), (8, 1));
    for number in 151..158 {
        world.tenant.read(world.file.page(number)).unwrap();
        assert_eq!(world.writes(), (8, 1), "seven frames are left");
    }
    world.tenant.read(world.file.page(158)).unwrap();
    assert_eq!(world.writes().0, 16);
    world.finish();
}
