//! Goal: features of a pool do not disturb each other. Method: random steps that combine open lists of hints,
//! tiers, managers that lie, panic and drop handles in the middle of a call, programs, directives, floors,
//! caps, tenants and files that come and go, guards, pins and futures that are held for long or dropped, and
//! failing calls. Contents are compared with a model; `check_invariants` after each step.

mod common;
mod tiers_below;

use std::any::Any;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bufpool::manager::{Access, Allocation, Block, FrameId, Manager, PageId, Want};
use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::{
    ErrorKind, File, FileOptions, HintPolicy, HintedPage, Hints, IoOperation, ManagerKind, OwnedPin,
    OwnedReadGuard, Policy, Pool, PoolOptions, Program, ReadFuture, Result, Tenant,
};
use common::{MRU, PAGE_BYTES, Random, WISHES, small, stamp, version};
use tiers_below::Below;

const TENANTS: usize = 4;
const PAGES_MAX: u64 = 90;

type Stash = Arc<Mutex<Vec<Box<dyn Any + Send>>>>;

/// Answers anything, panics at times, wants anything, and drops what is in the stash.
struct Liar {
    random: Random,
    file: bufpool::manager::FileId,
    panics_one_in: u64,
    knows_ahead: bool,
    stash: Stash,
    known: Vec<FrameId>,
}

impl Liar {
    fn anything(&mut self) {
        if self.random.below(3) == 0 {
            let dropped = self.stash.lock().unwrap().pop();
            drop(dropped);
        }
        if self.panics_one_in > 0 && self.random.below(self.panics_one_in) == 0 {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }
}

impl Manager for Liar {
    fn new_block(&mut self, block: &Block) {
        self.known.push(block.frame);
        self.anything();
    }

    fn block_gone(&mut self, frame: FrameId, _: PageId) {
        self.known.retain(|known| *known != frame);
        self.anything();
    }

    fn block_accessed(&mut self, _: FrameId, _: &Access) {
        self.anything();
    }

    fn replace_block(
        &mut self,
        candidate: FrameId,
        _: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        self.anything();
        match self.random.below(4) {
            0 => candidate,
            1 => FrameId(self.random.below(60) as u32),
            2 => FrameId(u32::MAX),
            _ => self.known.iter().rev().copied().find(|frame| !busy(*frame)).unwrap_or(candidate),
        }
    }

    fn placeholder_used(&mut self, _: &Access, _: FrameId) {
        self.anything();
    }

    fn knows_ahead(&self) -> bool {
        self.knows_ahead
    }

    fn wants(&mut self, frames_left: u32, out: &mut Vec<Want>) {
        self.anything();
        for position in 0..u64::from(frames_left) {
            let number = self.random.below(PAGES_MAX + 10);
            out.push(Want { page: PageId::in_file(self.file, number), position });
        }
    }
}

struct Open {
    file: File,
    is_bytes: bool,
    name: String,
    optimistic: bool,
    /// Of each page; none where it is not known.
    versions: Vec<Option<u64>>,
}

enum Held {
    Guard(usize, u64, OwnedReadGuard),
    Pin(usize, OwnedPin),
}

struct World {
    random: Random,
    device: SimDevice,
    pool: Pool,
    files: Vec<Open>,
    tenants: Vec<Tenant>,
    lists: Vec<Hints>,
    held: Vec<Held>,
    futures: Vec<Pin<Box<ReadFuture>>>,
    stash: Stash,
    with_faults: bool,
    next_version: u64,
    made: u64,
    mru: Program,
    wishes: Program,
}

fn options(random: &mut Random) -> PoolOptions {
    let allocations = [
        Allocation::LruSp,
        Allocation::LruSp,
        Allocation::LruS,
        Allocation::GlobalLru,
        Allocation::CostBenefit,
        Allocation::Fifo2Sp,
    ];
    let kinds = [None, Some(ManagerKind::Auto), Some(ManagerKind::AmpPlus), Some(ManagerKind::Auto)];
    let options = small()
        .allocation(allocations[random.below(6) as usize])
        .manager(kinds[random.below(4) as usize])
        .shared_pages(random.below(2) == 0)
        .revocation(random.below(2) == 0)
        .call_sites(random.below(2) == 0)
        .latch_wait_ms(1)
        .tier_wait_ms(1)
        .prefetch_limit_percent(50)
        .hint_limit_percent(50);
    let options = if random.below(2) == 0 {
        options.deterministic(1).frame_wait_ms(1)
    } else {
        options.read_ahead(true).frame_wait_ms(10).dirty_limit_percent(1 + random.below(60) as u8)
    };
    let below = if random.below(2) == 0 { Below::Nothing } else { Below::ALL[random.below(24) as usize] };
    below.a_pool(options, Path::new(""))
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..8).for_each(|_| _ = random.below(2));
        let device = SimDevice::new(seed);
        device.set_sector_bytes(PAGE_BYTES);
        let pool = options(&mut random).open_on(&device).unwrap();
        let tenants = vec![pool.default_tenant()];
        let with_faults = random.below(3) == 0;
        let mut world = Self {
            random,
            device,
            pool,
            files: Vec::new(),
            tenants,
            lists: Vec::new(),
            held: Vec::new(),
            futures: Vec::new(),
            stash: Stash::default(),
            with_faults,
            next_version: 1,
            made: 0,
            mru: Program::parse(MRU).unwrap(),
            wishes: Program::parse(WISHES).unwrap(),
        };
        world.new_file(false);
        world.new_file(true);
        while world.tenants.len() < TENANTS {
            let tenant = world.new_tenant();
            world.tenants.push(tenant);
        }
        world
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// Whether the call worked. If not, for a reason that there may be.
    #[track_caller]
    fn may_fail<T>(&mut self, result: Result<T>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let kind = error.kind();
        let is_fault = matches!(kind, ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::FilePoisoned);
        let is_held = matches!(
            kind,
            ErrorKind::LatchTimeout | ErrorKind::Exhausted | ErrorKind::PageBusy | ErrorKind::SelfDeadlock
        );
        assert!(is_held || is_fault && self.with_faults || kind == ErrorKind::PageBeyondEnd, "{error}");
        None
    }

    /// Tries again until no fault is left.
    fn open(&mut self, name: &str, options: &FileOptions) -> File {
        loop {
            let opened = self.pool.open_file(name, *options);
            if let Some(file) = self.may_fail(opened) {
                return file;
            }
        }
    }

    fn new_file(&mut self, is_bytes: bool) {
        self.made += 1;
        let name = format!("file {}", self.made);
        let optimistic = !is_bytes && self.below(2) == 0;
        let options = FileOptions::new().create(true).bytes(is_bytes).optimistic(optimistic);
        let file = self.open(&name, &options);
        let mut open = Open { file, is_bytes, name, optimistic, versions: Vec::new() };
        let pages = 20 + self.below(60);
        let grown = open.file.extend(pages);
        if self.may_fail(grown).is_some() {
            open.versions = vec![Some(0); pages as usize];
        }
        self.files.push(open);
    }

    fn new_tenant(&mut self) -> Tenant {
        let (floor, cap) = (self.below(4) as u32, 4 + self.below(28) as u32);
        let hints = match self.below(6) {
            0 => HintPolicy::Off,
            1 => HintPolicy::Aggressive { batch: 4 },
            2 => HintPolicy::CostBenefit,
            3 => HintPolicy::Horizon,
            _ => HintPolicy::Auto,
        };
        let options = self.pool.tenant("one of many").hints(hints);
        let options = if self.below(3) == 0 { options.floor_frames(floor).cap_frames(cap) } else { options };
        let options = match self.below(6) {
            0 => options.custom_manager(Box::new(self.liar())),
            1 => options.program(&self.wishes),
            2 => options.program(&self.mru),
            3 => options.manager(Some(ManagerKind::ALL[self.below(9) as usize])),
            _ => options,
        };
        match options.open() {
            Ok(tenant) => tenant,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Floor);
                self.pool.tenant("plain").hints(hints).open().unwrap()
            }
        }
    }

    fn liar(&mut self) -> Liar {
        Liar {
            random: Random(self.random.below(u64::MAX) | 1),
            file: self.files[0].file.id(),
            panics_one_in: [0, 0, 30, 300][self.below(4) as usize],
            knows_ahead: self.below(2) == 0,
            stash: Arc::clone(&self.stash),
            known: Vec::new(),
        }
    }

    fn check(&mut self, file: usize, number: u64, bytes: &[u8]) {
        let open = &mut self.files[file];
        let found = if bytes.iter().all(|&byte| byte == 0) { 0 } else { version(bytes, number) };
        let known = &mut open.versions[number as usize];
        assert!(known.is_none_or(|known| known == found), "page {number} is {found}, not {known:?}");
        *known = Some(found);
    }

    fn forget(&mut self, file: usize) {
        self.files[file].versions.iter_mut().for_each(|version| *version = None);
    }

    fn read(&mut self, tenant: usize, file: usize, number: u64) {
        let (tenant, open) = (self.tenants[tenant].clone(), self.files[file].file.clone());
        if self.files[file].optimistic && self.below(2) == 0 {
            let mut bytes = vec![0; PAGE_BYTES];
            let read = tenant.optimistic(open.page(number), |view| view.read_at(0, &mut bytes));
            if self.may_fail(read).is_some() {
                self.check(file, number, &bytes);
            }
        } else {
            let read = tenant.read(open.page(number));
            if let Some(guard) = self.may_fail(read) {
                self.check(file, number, &guard);
            }
        }
    }

    fn write(&mut self, tenant: usize, file: usize, number: u64) {
        let (tenant, open) = (self.tenants[tenant].clone(), self.files[file].file.clone());
        let creates = self.below(4) == 0;
        let new = self.next_version;
        self.next_version += 1;
        let page = open.page(number);
        if self.files[file].optimistic {
            let written =
                if creates { tenant.create_optimistic(page) } else { tenant.write_optimistic(page) };
            let Some(mut guard) = self.may_fail(written) else { return };
            guard.edit(0..PAGE_BYTES, |bytes| stamp(bytes, number, new));
        } else {
            let written = if creates { tenant.create(page) } else { tenant.write(page) };
            let Some(mut guard) = self.may_fail(written) else { return };
            stamp(&mut guard, number, new);
        }
        self.files[file].versions[number as usize] = Some(new);
    }

    fn hold(&mut self, tenant: usize, file: usize, number: u64) {
        let (tenant, open) = (self.tenants[tenant].clone(), self.files[file].file.clone());
        match self.below(3) {
            0 if self.held.len() < 6 => {
                let guard = tenant.read_owned(open.page(number));
                if let Some(guard) = self.may_fail(guard) {
                    self.check(file, number, &guard);
                    self.held.push(Held::Guard(file, number, guard));
                }
            }
            1 if self.held.len() < 6 => {
                let pin = tenant.pin_owned(open.page(number));
                if let Some(pin) = self.may_fail(pin) {
                    self.held.push(Held::Pin(file, pin));
                }
            }
            _ if self.futures.len() < 4 => {
                let mut future = Box::pin(tenant.read_async(open.page(number)));
                match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Pending => self.futures.push(future),
                    Poll::Ready(read) => {
                        if let Some(guard) = self.may_fail(read) {
                            self.check(file, number, &guard);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn let_go(&mut self) {
        if !self.held.is_empty() {
            let at = self.below(self.held.len() as u64) as usize;
            let held = self.held.swap_remove(at);
            if let Held::Guard(file, number, guard) = &held {
                self.check(*file, *number, guard);
            }
            if self.below(4) == 0 {
                self.stash.lock().unwrap().push(match held {
                    Held::Guard(.., guard) => Box::new(guard),
                    Held::Pin(_, pin) => Box::new(pin),
                });
            }
        }
        if !self.futures.is_empty() && self.below(2) == 0 {
            let at = self.below(self.futures.len() as u64) as usize;
            let mut future = self.futures.swap_remove(at);
            match self.below(3) {
                0 => drop(future),
                1 => self.stash.lock().unwrap().push(Box::new(future)),
                _ => {
                    if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                        self.futures.push(future);
                    }
                }
            }
        }
    }

    fn let_all_go(&mut self) {
        self.held.clear();
        self.futures.clear();
        let stashed = std::mem::take(&mut *self.stash.lock().unwrap());
        drop(stashed);
    }

    fn some_pages(&mut self) -> Vec<HintedPage> {
        let mut pages = Vec::new();
        for _ in 0..1 + self.below(3) {
            let file = self.below(self.files.len() as u64) as usize;
            let (first, count) = (self.below(PAGES_MAX), self.below(30));
            let id = self.files[file].file.id();
            let step = 1 + self.below(2);
            for _ in 0..1 + self.below(3) {
                pages.extend((0..count).map(|n| HintedPage { file: id, number: first + n * step }));
            }
        }
        pages
    }

    fn with_list(&mut self) {
        if self.lists.is_empty() {
            return;
        }
        let at = self.below(self.lists.len() as u64) as usize;
        let mut list = self.lists.swap_remove(at);
        match self.below(9) {
            0..=3 => {
                for _ in 0..self.below(20) {
                    let next = list.next();
                    if next.as_ref().is_err_and(|error| error.kind() == ErrorKind::TenantClosed) {
                        return;
                    }
                    let Some(Some(guard)) = self.may_fail(next) else { break };
                    self.check_hinted(&guard);
                }
            }
            4 => {
                let mut future = Box::pin(list.next_async());
                let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                drop(future);
                match polled {
                    Poll::Ready(Err(error)) if error.kind() == ErrorKind::TenantClosed => return,
                    Poll::Ready(read) => {
                        if let Some(Some(guard)) = self.may_fail(read) {
                            self.check_hinted(&guard);
                        }
                    }
                    Poll::Pending => {}
                }
            }
            5 => list.skip(self.below(12) as usize),
            6 => {
                let pages = self.some_pages();
                let planned = list.replan(pages);
                if planned.as_ref().is_err_and(|error| error.kind() == ErrorKind::TenantClosed) {
                    return;
                }
                planned.unwrap();
            }
            7 => list.extend(self.some_pages()),
            _ if self.below(2) == 0 => return self.stash.lock().unwrap().push(Box::new(list)),
            _ => return,
        }
        let counts = list.counts();
        assert!(counts.used + counts.skipped <= counts.given, "{counts:?}");
        assert!(counts.lost + counts.wasted <= counts.prefetched, "{counts:?}");
        list.depth();
        self.lists.push(list);
    }

    fn check_hinted(&mut self, guard: &OwnedReadGuard) {
        let (id, number) = (guard.page().file().id(), guard.page().number());
        if let Some(file) = self.files.iter().position(|open| open.file.id() == id) {
            self.check(file, number, guard);
        }
    }

    fn resize(&mut self, file: usize) {
        let open = self.files[file].file.clone();
        let pages = open.pages();
        assert_eq!(pages, self.files[file].versions.len() as u64);
        let to = self.below(PAGES_MAX);
        let done = match self.below(3) {
            0 if pages + 10 < PAGES_MAX => open.extend(self.below(10)).map(drop),
            1 if self.files[file].is_bytes => open.set_byte_len(to * PAGE_BYTES as u64),
            2 if to < pages => open.truncate(to),
            _ => return,
        };
        self.may_fail(done);
        self.files[file].versions.resize(open.pages() as usize, Some(0));
    }

    fn close_file(&mut self, file: usize) {
        let held_by = |held: &Held| matches!(held, Held::Guard(of, ..) | Held::Pin(of, _) if *of == file);
        if self.held.iter().any(held_by) || self.below(2) == 0 {
            self.let_all_go();
        }
        match self.below(3) {
            0 => {
                let open = self.files[file].file.clone();
                let removed = open.clone().remove();
                self.may_fail(removed);
                if open.is_closed() {
                    let is_bytes = self.files[file].is_bytes;
                    self.new_file(is_bytes);
                    self.files.swap_remove(file);
                }
            }
            1 => {
                let reopened = self.files[file].file.reopen();
                if self.may_fail(reopened).is_none_or(|lost| lost > 0) {
                    self.forget(file);
                }
            }
            _ => {
                let Open { is_bytes, name, optimistic, .. } = &self.files[file];
                let options = FileOptions::new().bytes(*is_bytes).optimistic(*optimistic);
                let (name, old) = (name.clone(), self.files[file].file.clone());
                let closed = old.clone().close();
                if self.may_fail(closed).is_none() {
                    self.forget(file);
                }
                if old.is_closed() {
                    self.files[file].file = self.open(&name, &options);
                }
            }
        }
    }

    fn direct(&mut self, tenant: usize, file: usize, number: u64) {
        let tenant = self.tenants[tenant].clone();
        let open = self.files[file].file.clone();
        let priority = self.below(3) as i32 - 1;
        let directed = match self.below(7) {
            0 => tenant.set_policy(priority, Policy::ALL[self.below(Policy::ALL.len() as u64) as usize]),
            1 => tenant.set_priority(&open, priority).map(drop),
            2 => tenant.set_temporary_priority(&open, number..number + 1, priority).map(drop),
            3 => tenant.set_program(&self.wishes),
            4 => tenant.set_program(&self.mru),
            5 => tenant.clear_program(),
            _ => tenant.send("wish", self.below(3) as i64),
        };
        if let Err(error) = directed {
            let kind = error.kind();
            let refused = [ErrorKind::Directive, ErrorKind::NoProgram, ErrorKind::UnknownSlot];
            assert!(refused.contains(&kind) || kind == ErrorKind::PageBeyondEnd, "{error}");
        }
    }

    fn limit(&mut self, tenant: usize) {
        let tenant = self.tenants[tenant].clone();
        let frames = self.below(20) as u32;
        let set = if self.below(2) == 0 {
            tenant.set_floor_frames(frames)
        } else {
            tenant.set_cap_frames(frames + 2)
        };
        if set.as_ref().is_err_and(|error| error.kind() == ErrorKind::Floor) {
            return;
        }
        self.may_fail(set);
    }

    fn step(&mut self) {
        let tenant = self.below(TENANTS as u64) as usize;
        let file = self.below(self.files.len() as u64) as usize;
        let pages = self.files[file].file.pages();
        let number = self.below(pages.max(1));
        let open = self.files[file].file.clone();
        match self.below(50) {
            _ if pages == 0 => self.resize(file),
            0..=11 => self.read(tenant, file, number),
            12..=17 => self.write(tenant, file, number),
            18 | 19 => self.hold(tenant, file, number),
            20..=22 => self.let_go(),
            23 | 24 if self.lists.len() < 6 => {
                let pages = self.some_pages();
                let list = self.tenants[tenant].hint(pages).unwrap();
                self.lists.push(list);
            }
            25..=33 => self.with_list(),
            34 | 35 => {
                let last = (number + self.below(20)).min(pages);
                self.tenants[tenant].prefetch((number..last).map(|number| open.page(number)));
            }
            36 | 37 => self.resize(file),
            38 => {
                let last = (number + self.below(8)).min(pages);
                let discarded = open.discard(number..last);
                self.may_fail(discarded);
                (number..last).for_each(|number| self.files[file].versions[number as usize] = None);
            }
            39 if self.below(3) == 0 => self.close_file(file),
            40 => {
                let flushed = match self.below(3) {
                    0 => open.flush(),
                    1 => open.flush_page(number),
                    _ => self.pool.checkpoint(),
                };
                self.may_fail(flushed);
            }
            41 => {
                let flushed = open.begin_flush().wait();
                self.may_fail(flushed);
            }
            42 => self.direct(tenant, file, number),
            43 => self.limit(tenant),
            44 if tenant > 0 && self.below(2) == 0 => {
                self.tenants[tenant].clone().close().unwrap();
                self.tenants[tenant] = self.new_tenant();
            }
            45 if self.with_faults => {
                let failing =
                    [IoOperation::Read, IoOperation::Write, IoOperation::Sync, IoOperation::Allocate];
                let operation = failing[self.below(4) as usize];
                let nth = self.device.calls(operation) + 1 + self.below(10);
                let failure =
                    [SimFailure::Io, SimFailure::NoSpace, SimFailure::Os(4)][self.below(3) as usize];
                self.device.fail(SimFault { operation, nth, failure });
            }
            46 => {
                let last = (number + self.below(12)).min(pages);
                let list: Vec<_> = (number..last).map(|number| open.page(number)).collect();
                let tenant = self.tenants[tenant].clone();
                for (number, granted) in (number..).zip(tenant.read_many(&list)) {
                    if let Some(Some(guard)) = self.may_fail(granted) {
                        self.check(file, number, &guard);
                    }
                }
            }
            47 => {
                let stats = self.pool.stats();
                let accesses: u64 = stats.tenants.iter().map(|tenant| tenant.accesses).sum();
                assert!(accesses <= stats.accesses);
                self.pool.report().to_string();
            }
            _ => self.read(tenant, file, number),
        }
        for file in 0..self.files.len() {
            if self.files[file].file.is_poisoned() {
                assert!(self.with_faults, "poisoned");
                self.let_all_go();
                let reopened = self.files[file].file.reopen();
                self.may_fail(reopened);
                self.forget(file);
                let pages = self.files[file].file.pages() as usize;
                self.files[file].versions.resize(pages, None);
            }
        }
    }

    fn finish(mut self) {
        self.let_all_go();
        self.lists.clear();
        self.pool.check_invariants();
        let frames = self.pool.frames() as u64;
        self.tenants.drain(1..).for_each(|tenant| tenant.close().unwrap());
        // No frame is lost.
        let options = FileOptions::new().create(true);
        if !self.with_faults {
            let file = self.pool.open_file("last", options).unwrap();
            file.extend(frames).unwrap();
            let tenant = self.tenants[0].clone();
            tenant.set_cap_frames(frames as u32).unwrap();
            self.pool.checkpoint().unwrap();
            // A read that came ahead may take longer than a reader waits.
            let read = |number| loop {
                match tenant.read(file.page(number)) {
                    Err(error) if error.kind() == ErrorKind::LatchTimeout => {}
                    read => break read.unwrap(),
                }
            };
            let guards: Vec<_> = (0..frames).map(read).collect();
            drop(guards);
        }
        self.pool.check_invariants();
        self.files.clear();
        self.stash.lock().unwrap().clear();
        let closed = self.pool.clone().close();
        assert!(closed.is_ok() || self.with_faults);
    }
}

#[test]
fn features_in_random_steps() {
    for seed in 1..60 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step();
            world.pool.check_invariants();
        }
        world.finish();
    }
}
