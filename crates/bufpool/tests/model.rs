//! Goal: a pool is a set of files of pages, whatever goes on underneath.
//! Method: random operations on a pool and on a model of two vectors, with the directory's and the pool's invariants checked after each
//! step; on the simulated device, with and without the background writer, and with failing calls. What a dropped dirty page reads
//! as afterwards is not determined, but it is one of the versions it had since it was last known to be in the file.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::{ErrorKind, File, FileOptions, IoOperation, Policy, Pool, PoolOptions, Tenant};
use common::{PAGE_BYTES, deterministic, directory, kind, on_each_backend, small, stamp, version};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Operation {
    Read {
        tenant: usize,
        number: u64,
    },
    Write {
        tenant: usize,
        number: u64,
    },
    Create {
        tenant: usize,
        number: u64,
    },
    Pin {
        tenant: usize,
        number: u64,
    },
    FlushPage(u64),
    Flush,
    Checkpoint,
    Extend(u64),
    Truncate(u64),
    Discard {
        first: u64,
        count: u64,
    },
    Policy {
        tenant: usize,
        priority: i32,
        policy: Policy,
    },
    Priority {
        tenant: usize,
        priority: i32,
    },
    TemporaryPriority {
        tenant: usize,
        first: u64,
        count: u64,
        priority: i32,
    },
    Cap {
        tenant: usize,
        frames: u32,
    },
    CloseFile,
    /// A call of the device fails; only where the device is simulated.
    Fault {
        operation: IoOperation,
        after: u64,
    },
}

fn operations(with_faults: bool) -> impl Strategy<Value = Vec<Operation>> {
    use Operation::*;
    let (tenant, number) = (0..3_usize, 0..120_u64);
    let pages = (tenant.clone(), number.clone());
    let kinds = prop::sample::select(vec![IoOperation::Read, IoOperation::Write, IoOperation::Sync]);
    let operation = prop_oneof![
        20 => pages.clone().prop_map(|(tenant, number)| Read { tenant, number }),
        15 => pages.clone().prop_map(|(tenant, number)| Write { tenant, number }),
        5 => pages.clone().prop_map(|(tenant, number)| Create { tenant, number }),
        4 => pages.prop_map(|(tenant, number)| Pin { tenant, number }),
        3 => number.clone().prop_map(FlushPage),
        1 => Just(Flush),
        1 => Just(Checkpoint),
        2 => (0..20_u64).prop_map(Extend),
        1 => number.clone().prop_map(Truncate),
        2 => (number.clone(), 0..10_u64).prop_map(|(first, count)| Discard { first, count }),
        1 => (tenant.clone(), -1..2_i32, prop::sample::select(bufpool::Policy::ALL.to_vec()))
            .prop_map(|(tenant, priority, policy)| Policy { tenant, priority, policy }),
        1 => (tenant.clone(), -1..2_i32).prop_map(|(tenant, priority)| Priority { tenant, priority }),
        2 => (tenant.clone(), number, 0..10_u64, -1..2_i32).prop_map(|(tenant, first, count, priority)| {
            TemporaryPriority { tenant, first, count, priority }
        }),
        1 => (tenant, 1..40_u32).prop_map(|(tenant, frames)| Cap { tenant, frames }),
        1 => Just(CloseFile),
        2 => (kinds, 1..20_u64).prop_map(move |(operation, after)| match with_faults {
            true => Fault { operation, after },
            false => Flush,
        }),
    ];
    prop::collection::vec(operation, 1..250)
}

/// A page as the model knows it.
#[derive(Clone, Default)]
struct Known {
    current: u64,
    /// Versions that the file may have: the last one known to be there, and all later ones.
    in_file: Vec<u64>,
}

struct Model {
    pages: Vec<Known>,
    next_version: u64,
    /// The file was poisoned: changes fail until it is reopened.
    poisoned: bool,
}

struct World {
    pool: Pool,
    file: Option<File>,
    tenants: Vec<Tenant>,
    device: Option<SimDevice>,
    path: std::path::PathBuf,
    model: Model,
}

/// Failures that injected faults may cause anywhere.
fn is_fault(error: &bufpool::Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::FilePoisoned | ErrorKind::Exhausted)
}

impl World {
    fn new(options: PoolOptions, device: Option<SimDevice>, directory: &Path) -> Self {
        let pool = match &device {
            Some(device) => options.open_on(device).unwrap(),
            None => options.open().unwrap(),
        };
        let tenants = vec![
            pool.default_tenant(),
            pool.tenant("one").open().unwrap(),
            pool.tenant("two").floor_frames(4).open().unwrap(),
        ];
        let path = directory.join("data");
        let file = Some(pool.open_file(&path, FileOptions::new().create(true)).unwrap());
        let model = Model { pages: Vec::new(), next_version: 1, poisoned: false };
        Self { pool, file, tenants, device, path, model }
    }

    fn file(&self) -> &File {
        self.file.as_ref().unwrap()
    }

    /// What a page of the file must look like now.
    fn check(&mut self, number: u64, bytes: &[u8]) {
        let known = &mut self.model.pages[number as usize];
        let found = if bytes.iter().all(|&byte| byte == 0) { 0 } else { version(bytes, number) };
        assert!(
            found == known.current || known.current == UNKNOWN && known.in_file.contains(&found),
            "page {number} has version {found}, expected {} or one of {:?}",
            known.current,
            known.in_file
        );
        known.current = found;
    }

    fn change(&mut self, number: u64, bytes: &mut [u8]) {
        let next = self.model.next_version;
        self.model.next_version += 1;
        stamp(bytes, number, next);
        let known = &mut self.model.pages[number as usize];
        known.current = next;
        known.in_file.push(next);
    }

    /// Everything is in the file.
    fn flushed(&mut self, number: Option<u64>) {
        let all = 0..self.model.pages.len();
        for number in number.map_or(all, |number| number as usize..number as usize + 1) {
            let known = &mut self.model.pages[number];
            if known.current != UNKNOWN {
                known.in_file = vec![known.current];
            }
        }
    }

    /// The result of an operation that may fail because of an injected fault; true if it succeeded.
    fn may_fail<T>(&mut self, result: bufpool::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) if self.device.is_some() && is_fault(&error) => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn on_success<T>(&mut self, result: bufpool::Result<T>, then: impl FnOnce(&mut Self, T)) {
        if let Some(value) = self.may_fail(result) {
            then(self, value);
        }
    }

    fn step(&mut self, operation: &Operation) {
        let pages = self.model.pages.len() as u64;
        let file = self.file().clone();
        let in_range = |number: u64| number < pages;
        match *operation {
            Operation::Read { tenant, number } => {
                let tenant = self.tenants[tenant].clone();
                let read = tenant.read(file.page(number));
                if !in_range(number) {
                    assert_eq!(kind(read), ErrorKind::PageBeyondEnd);
                } else if let Some(guard) = self.may_fail(read) {
                    self.check(number, &guard);
                }
            }
            Operation::Write { tenant, number } => {
                let tenant = self.tenants[tenant].clone();
                let written = tenant.write(file.page(number));
                if !in_range(number) {
                    assert!(matches!(kind(written), ErrorKind::PageBeyondEnd | ErrorKind::FilePoisoned));
                } else if let Some(mut guard) = self.may_fail(written) {
                    self.check(number, &guard);
                    self.change(number, &mut guard);
                }
            }
            Operation::Create { tenant, number } => {
                let tenant = self.tenants[tenant].clone();
                let created = tenant.create(file.page(number));
                if !in_range(number) {
                    assert!(matches!(kind(created), ErrorKind::PageBeyondEnd | ErrorKind::FilePoisoned));
                } else if let Some(mut guard) = self.may_fail(created) {
                    assert!(guard.iter().all(|&byte| byte == 0));
                    self.change(number, &mut guard);
                    self.check(number, &guard.downgrade());
                }
            }
            Operation::Pin { tenant, number } if in_range(number) => {
                let tenant = self.tenants[tenant].clone();
                if let Some(pin) = self.may_fail(tenant.pin(file.page(number))) {
                    self.check(number, &pin.read().unwrap());
                    assert_eq!(kind(file.discard(number..number + 1)), ErrorKind::PageBusy);
                    if let Some(mut guard) = self.may_fail(pin.write()) {
                        self.change(number, &mut guard);
                    }
                }
            }
            Operation::FlushPage(number) if in_range(number) => {
                self.on_success(file.flush_page(number), |world, ()| world.flushed(Some(number)));
            }
            Operation::Flush => {
                self.on_success(file.flush(), |world, ()| world.flushed(None));
            }
            Operation::Checkpoint => {
                self.on_success(self.pool.checkpoint(), |world, ()| world.flushed(None));
            }
            Operation::Extend(more) if pages + more <= 200 => {
                self.on_success(file.extend(more), |world, range| {
                    assert_eq!(range, pages..pages + more);
                    let new = Known { current: 0, in_file: vec![0] };
                    world.model.pages.resize((pages + more) as usize, new);
                });
            }
            Operation::Truncate(to) if to <= pages => {
                self.on_success(file.truncate(to), |world, ()| world.model.pages.truncate(to as usize));
            }
            Operation::Discard { first, count } if first + count <= pages => {
                file.discard(first..first + count).unwrap();
                for known in &mut self.model.pages[first as usize..(first + count) as usize] {
                    known.current = UNKNOWN;
                }
            }
            Operation::Policy { tenant, priority, policy } => {
                self.tenants[tenant].set_policy(priority, policy).unwrap();
            }
            Operation::Priority { tenant, priority } => {
                self.tenants[tenant].set_priority(&file, priority).unwrap();
            }
            Operation::TemporaryPriority { tenant, first, count, priority } if first + count <= pages => {
                self.tenants[tenant].set_temporary_priority(&file, first..first + count, priority).unwrap();
            }
            Operation::Cap { tenant, frames } if frames >= 4 => {
                let set = self.tenants[tenant].set_cap_frames(frames);
                self.may_fail(set);
            }
            Operation::CloseFile => {
                drop(file);
                self.reopen();
            }
            Operation::Fault { operation, after } => {
                if let Some(device) = &self.device {
                    let nth = device.calls(operation) + after;
                    device.fail(SimFault { operation, nth, failure: SimFailure::Io });
                }
            }
            _ => {}
        }
        self.heal();
    }

    /// Closes the file and opens it again: clean, unless something failed.
    fn reopen(&mut self) {
        let file = self.file.take().unwrap();
        let closed = file.close();
        let opened = self.pool.open_file(&self.path, FileOptions::new());
        match (closed, opened) {
            (Ok(()), Ok(file)) => {
                self.flushed(None);
                self.file = Some(file);
            }
            (Err(error), Ok(file)) => {
                assert!(self.device.is_some() && is_fault(&error), "{error}");
                self.model.pages.iter_mut().for_each(|known| known.current = UNKNOWN);
                self.file = Some(file);
            }
            (_, Err(error)) => panic!("{error}"),
        }
    }

    /// A poisoned file is reopened: what was not known to be written may be lost.
    fn heal(&mut self) {
        let poisoned = self.device.is_some() && self.file().extend(0).is_err();
        if poisoned {
            self.model.poisoned = true;
            self.file().reopen().unwrap();
            self.model.pages.iter_mut().for_each(|known| known.current = UNKNOWN);
        }
    }

    fn finish(mut self) {
        for number in 0..self.model.pages.len() as u64 {
            let tenant = self.tenants[0].clone();
            let file = self.file().clone();
            if let Some(guard) = self.may_fail(tenant.read(file.page(number))) {
                self.check(number, &guard);
            }
            self.heal();
        }
        let closed = self.pool.clone().close();
        if self.may_fail(closed).is_none() {
            return;
        }
        let bytes = match &self.device {
            Some(device) => device.contents(&self.path).unwrap(),
            None => std::fs::read(&self.path).unwrap(),
        };
        for (number, page) in (0..).zip(bytes.chunks(PAGE_BYTES)) {
            self.check(number, page);
        }
    }
}

/// A version that will be known once the page is read.
const UNKNOWN: u64 = u64::MAX;

fn run(mut world: World, operations: &[Operation], is_quiet: bool) {
    for operation in operations {
        world.step(operation);
        if is_quiet {
            world.pool.check_invariants();
        }
    }
    world.pool.checkpoint().ok();
    world.pool.check_invariants();
    let stats: BTreeMap<u32, u64> =
        world.pool.stats().tenants.iter().map(|tenant| (tenant.id, tenant.accesses)).collect();
    assert_eq!(stats.values().sum::<u64>(), world.pool.stats().accesses);
    world.finish();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn in_deterministic_mode(operations in operations(false), seed: u64) {
        let device = SimDevice::new(seed);
        run(World::new(deterministic(), Some(device), Path::new("")), &operations, true);
    }

    #[test]
    fn in_deterministic_mode_with_faults(operations in operations(true), seed: u64) {
        let device = SimDevice::new(seed);
        run(World::new(deterministic(), Some(device), Path::new("")), &operations, true);
    }

    #[test]
    fn with_the_background_writer(operations in operations(false), seed: u64, dirty_limit_percent in 1..100_u8) {
        let device = SimDevice::new(seed);
        let options = small().dirty_limit_percent(dirty_limit_percent);
        run(World::new(options, Some(device), Path::new("")), &operations, false);
    }

    #[test]
    fn with_the_background_writer_and_faults(operations in operations(true), seed: u64) {
        let device = SimDevice::new(seed);
        let options = small().dirty_limit_percent(10).frame_wait_ms(20);
        run(World::new(options, Some(device), Path::new("")), &operations, false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn on_real_files(operations in operations(false)) {
        on_each_backend(|io| {
            let directory = directory();
            run(World::new(small().io(io), None, directory.path()), &operations, false);
        });
    }
}
