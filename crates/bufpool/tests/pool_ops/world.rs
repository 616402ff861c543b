//! The pool under test beside its model: what each operation does to both.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::{
    ErrorKind, File, FileOptions, HintedPage, Hints, IoOperation, OwnedReadGuard, Page, Pool, PoolOptions,
    Program, Tenant,
};

use super::super::common::{PAGE_BYTES, kind, stamp, version};
use super::{Operation, PROGRAMS, TENANTS};

/// Guards that are kept at a time.
const KEPT_MAX: usize = 3;
/// The file grows no further.
const PAGES_MAX: u64 = 200;
/// A version that will be known once the page is read.
const UNKNOWN: u64 = u64::MAX;

/// Floors at the beginning.
const FLOORS: [u32; TENANTS] = [0, 0, 4];
/// The greatest sum of floors: 32 frames, less 2 for each of 8 threads and 8 more.
const FLOORS_MAX: u32 = 8;

/// Runs operations; `is_quiet` says that nothing works in the background, so that invariants can be checked
/// after each. Returns the most frames that were borrowed.
pub fn run(mut world: World, operations: &[Operation], is_quiet: bool) -> u32 {
    for operation in operations {
        world.step(operation);
        if is_quiet {
            world.pool.check_invariants();
        }
    }
    world.kept.clear();
    world.hints = None;
    world.set_latency(Duration::ZERO);
    world.pool.checkpoint().ok();
    world.pool.check_invariants();
    let stats = world.pool.stats();
    let accesses: u64 = stats.tenants.iter().map(|tenant| tenant.accesses).sum();
    if world.model.closed_tenants {
        assert!(accesses <= stats.accesses);
    } else {
        assert_eq!(accesses, stats.accesses);
    }
    let most_borrowed = world.most_borrowed;
    world.finish();
    most_borrowed
}

/// A page as the model knows it.
#[derive(Clone)]
struct Known {
    current: u64,
    /// Versions that the file may have: the last one known to be there, and all later ones.
    in_file: Vec<u64>,
}

struct Model {
    /// One entry for each page that the file may ever have.
    pages: Vec<Known>,
    /// Pages of the file.
    len: u64,
    /// Pages that the file may have after a power cut: those last known to be durable, and all later ones.
    lengths: Vec<u64>,
    next_version: u64,
    floors: [u32; TENANTS],
    caps: [u32; TENANTS],
    /// The program of each tenant, by its place in [`PROGRAMS`]; none without a program.
    programs: [Option<usize>; TENANTS],
    privileged: [bool; TENANTS],
    /// A tenant was closed in this pool, so its counts may be in the total only.
    closed_tenants: bool,
}

/// A list of reads.
struct Hinted {
    hints: Hints,
    /// The pages that it has yet to give.
    numbers: VecDeque<u64>,
}

/// A pool with one file, and what is known of it.
pub struct World {
    options: Box<dyn Fn() -> PoolOptions>,
    optimistic: bool,
    pub(super) keeps_guards: bool,
    kept: VecDeque<(u64, OwnedReadGuard)>,
    hints: Option<Hinted>,
    pool: Pool,
    file: Option<File>,
    tenants: Vec<Tenant>,
    device: Option<SimDevice>,
    path: PathBuf,
    model: Model,
    /// The longest that the simulated device takes for an operation.
    latency: Duration,
    most_borrowed: u32,
}

/// Failures that injected faults may cause anywhere.
fn is_fault(error: &bufpool::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::FilePoisoned | ErrorKind::Exhausted
    )
}

impl World {
    /// An empty file `data` in `directory`, or on `device`.
    pub fn new(
        options: impl Fn() -> PoolOptions + 'static,
        optimistic: bool,
        device: Option<SimDevice>,
        directory: &Path,
    ) -> Self {
        let path = directory.join("data");
        let (pool, tenants, file) = open(options(), optimistic, device.as_ref(), &path);
        let frames = pool.frames();
        let model = Model {
            pages: vec![Known { current: 0, in_file: vec![0] }; PAGES_MAX as usize],
            len: 0,
            lengths: vec![0],
            next_version: 1,
            floors: FLOORS,
            caps: [frames; TENANTS],
            programs: [None; TENANTS],
            privileged: [false; TENANTS],
            closed_tenants: false,
        };
        Self {
            options: Box::new(options),
            optimistic,
            keeps_guards: false,
            kept: VecDeque::new(),
            hints: None,
            pool,
            file: Some(file),
            tenants,
            device,
            path,
            model,
            latency: Duration::ZERO,
            most_borrowed: 0,
        }
    }

    pub(super) fn set_latency(&mut self, latency: Duration) {
        self.latency = latency;
        if let Some(device) = &self.device {
            device.set_latency(latency / 2, latency);
        }
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

    /// The version that a page gets now.
    fn next_version(&mut self, number: u64) -> u64 {
        let next = self.model.next_version;
        self.model.next_version += 1;
        let known = &mut self.model.pages[number as usize];
        known.current = next;
        known.in_file.push(next);
        next
    }

    fn change(&mut self, number: u64, bytes: &mut [u8]) {
        stamp(bytes, number, self.next_version(number));
    }

    /// Reads a page of the file.
    fn read(&mut self, tenant: &Tenant, page: Page<'_>) -> bufpool::Result<()> {
        if !self.optimistic {
            let guard = tenant.read(page)?;
            self.check(page.number(), &guard);
            return Ok(());
        }
        let mut bytes = vec![0; PAGE_BYTES];
        let (_, version) = tenant.optimistic(page, |view| view.read_at(0, &mut bytes))?;
        self.check(page.number(), &bytes);
        assert!(tenant.still(page, version));
        Ok(())
    }

    /// Writes a page of the file, or makes it anew.
    fn write(&mut self, tenant: &Tenant, page: Page<'_>, is_creation: bool) -> bufpool::Result<()> {
        let number = page.number();
        let check = |world: &mut Self, bytes: &[u8]| {
            if is_creation {
                assert!(bytes.iter().all(|&byte| byte == 0));
            } else {
                world.check(number, bytes);
            }
        };
        if self.optimistic {
            let guard =
                if is_creation { tenant.create_optimistic(page) } else { tenant.write_optimistic(page) };
            let mut guard = guard?;
            check(self, &guard);
            guard.edit(0..PAGE_BYTES, |bytes| self.change(number, bytes));
            self.check(number, &guard.downgrade());
        } else {
            let mut guard = if is_creation { tenant.create(page) } else { tenant.write(page) }?;
            check(self, &guard);
            self.change(number, &mut guard);
            self.check(number, &guard.downgrade());
        }
        Ok(())
    }

    /// The model learns that a flush succeeded, of page `number` or of all pages.
    fn flushed(&mut self, number: Option<u64>) {
        self.model.lengths = vec![self.model.len];
        let all = 0..self.model.len as usize;
        for number in number.map_or(all, |number| number as usize..number as usize + 1) {
            let known = &mut self.model.pages[number];
            if known.current != UNKNOWN {
                known.in_file = vec![known.current];
            }
        }
    }

    /// The value of an operation that may fail because of an injected fault; none if it failed.
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
        let pages = self.model.len;
        let file = self.file().clone();
        let in_range = |number: u64| number < pages;
        match *operation {
            Operation::Read { tenant, number } => {
                let tenant = self.tenants[tenant].clone();
                let read = self.read(&tenant, file.page(number));
                if in_range(number) {
                    self.may_fail(read);
                } else {
                    assert_eq!(kind(read), ErrorKind::PageBeyondEnd);
                }
            }
            Operation::Write { tenant, number } | Operation::Create { tenant, number } => {
                let tenant = self.tenants[tenant].clone();
                let is_creation = matches!(operation, Operation::Create { .. });
                let written = self.write(&tenant, file.page(number), is_creation);
                if !in_range(number) {
                    assert!(matches!(kind(written), ErrorKind::PageBeyondEnd | ErrorKind::FilePoisoned));
                } else if self.keeps(number..=number) {
                    assert_eq!(kind(written), ErrorKind::LatchTimeout);
                } else {
                    self.may_fail(written);
                }
                self.most_borrowed = self.most_borrowed.max(self.pool.stats().borrowed_frames);
            }
            Operation::CreateMany { tenant, first, count } => {
                (first..first + count).for_each(|number| self.step(&Operation::Create { tenant, number }));
            }
            Operation::ReadMany { tenant, first, count } => {
                let tenant = self.tenants[tenant].clone();
                let numbers: Vec<u64> =
                    (first..first + count).flat_map(|n| vec![n; 1 + usize::from(n % 3 == 0)]).collect();
                let list: Vec<_> = numbers.iter().map(|&number| file.page(number)).collect();
                for (number, granted) in numbers.into_iter().zip(tenant.read_many(&list)) {
                    if !in_range(number) {
                        // A page may be left out where the list is longer than one call may hold.
                        assert!(granted.map_or_else(
                            |error| error.kind() == ErrorKind::PageBeyondEnd,
                            |guard| guard.is_none()
                        ));
                    } else if let Some(Some(guard)) = self.may_fail(granted) {
                        self.check(number, &guard);
                    }
                }
            }
            Operation::Prefetch { tenant, first, count } => {
                self.tenants[tenant].prefetch((first..first + count).map(|number| file.page(number)));
            }
            Operation::Hint { tenant, first, count } => {
                let numbers: VecDeque<u64> = (first..first + count).chain(first..first + count).collect();
                let pages: Vec<HintedPage> = numbers.iter().map(|n| file.page(*n).into()).collect();
                let hints = self.tenants[tenant].hint(pages).unwrap();
                self.hints = Some(Hinted { hints, numbers });
                // From here on no other read moves the list.
                self.read_hinted();
            }
            Operation::ReadHinted { count } => (0..count).for_each(|_| self.read_hinted()),
            Operation::SkipHints { count } => {
                if let Some(hinted) = &mut self.hints {
                    hinted.hints.skip(count as usize);
                    hinted.numbers.drain(..(count as usize).min(hinted.numbers.len()));
                }
            }
            Operation::ReplanHints { first, count } => {
                if let Some(hinted) = &mut self.hints {
                    hinted.numbers = hinted.numbers.drain(..).rev().chain(first..first + count).collect();
                    let pages = hinted.numbers.iter().map(|number| file.page(*number).into());
                    match hinted.hints.replan(pages) {
                        Err(error) if error.kind() == ErrorKind::TenantClosed => self.hints = None,
                        planned => planned.unwrap(),
                    }
                }
            }
            Operation::DropHints => self.hints = None,
            Operation::Pin { tenant, number } if in_range(number) && !self.keeps(number..=number) => {
                let tenant = self.tenants[tenant].clone();
                if let Some(pin) = self.may_fail(tenant.pin(file.page(number))) {
                    self.check(number, &pin.read().unwrap());
                    assert_eq!(kind(file.discard(number..number + 1)), ErrorKind::PageBusy);
                    if self.optimistic {
                        assert_eq!(kind(pin.write()), ErrorKind::Unsupported);
                    } else if let Some(mut guard) = self.may_fail(pin.write()) {
                        self.change(number, &mut guard);
                    }
                }
            }
            Operation::Poll { tenant, number } if in_range(number) => drop(self.poll(tenant, number)),
            Operation::Keep { tenant, number } if self.keeps_guards && in_range(number) => {
                let guard = self.poll(tenant, number);
                self.kept.extend(guard.map(|guard| (number, guard)));
                self.kept.truncate(KEPT_MAX);
            }
            Operation::LetGo => drop(self.kept.pop_front()),
            Operation::FlushPage { number } if in_range(number) => {
                self.on_success(file.flush_page(number), |world, ()| world.flushed(Some(number)));
            }
            Operation::Flush => {
                self.on_success(file.flush(), |world, ()| world.flushed(None));
            }
            Operation::Checkpoint => {
                self.on_success(self.pool.checkpoint(), |world, ()| world.flushed(None));
            }
            Operation::Extend { more } if pages + more <= PAGES_MAX => {
                self.on_success(file.extend(more), |world, range| {
                    assert_eq!(range, pages..pages + more);
                    world.model.set_len(pages + more);
                });
            }
            Operation::Truncate { to } if to <= pages && self.keeps(to..=pages) => {
                assert_eq!(kind(file.truncate(to)), ErrorKind::LatchTimeout);
                assert_eq!(file.pages(), pages);
            }
            Operation::Truncate { to } if to <= pages => {
                self.on_success(file.truncate(to), |world, ()| world.model.set_len(to));
            }
            Operation::Discard { first, count }
                if first + count <= pages && count > 0 && self.keeps(first..=first + count - 1) =>
            {
                assert_eq!(kind(file.discard(first..first + count)), ErrorKind::LatchTimeout);
            }
            Operation::Discard { first, count } if first + count <= pages => {
                file.discard(first..first + count).unwrap();
                for known in &mut self.model.pages[first as usize..(first + count) as usize] {
                    known.current = UNKNOWN;
                }
            }
            Operation::Policy { tenant, priority, policy } => {
                self.directed(tenant, self.tenants[tenant].set_policy(priority, policy));
            }
            Operation::Priority { tenant, priority } => {
                self.directed(tenant, self.tenants[tenant].set_priority(&file, priority));
            }
            Operation::TemporaryPriority { tenant, first, count, priority } if first + count <= pages => {
                let numbers = first..first + count;
                let set = self.tenants[tenant].set_temporary_priority(&file, numbers, priority);
                if count == 0 { assert_eq!(set.unwrap(), 0) } else { self.directed(tenant, set) }
            }
            Operation::Program { tenant, program } => self.set_program(tenant, program),
            Operation::Send { tenant, value } => {
                let sent = self.tenants[tenant].send("wish", i64::from(value));
                match self.model.programs[tenant] {
                    None => assert_eq!(kind(sent), ErrorKind::NoProgram),
                    Some(program) if PROGRAMS[program].contains("int wish") => sent.unwrap(),
                    Some(_) => assert_eq!(kind(sent), ErrorKind::UnknownSlot),
                }
            }
            Operation::ClearProgram { tenant } => {
                self.tenants[tenant].clear_program().unwrap();
                self.model.programs[tenant] = None;
            }
            Operation::OpenPrivileged { tenant, frames } => self.open_privileged(tenant, frames),
            Operation::Floor { tenant, frames } => self.set_floor(tenant, frames),
            Operation::Cap { tenant, frames } => self.set_cap(tenant, frames),
            Operation::CloseTenant { tenant } => self.close_tenant(tenant),
            Operation::CloseFile => {
                self.kept.clear();
                // The list leaves out the pages of a closed file.
                self.hints.iter_mut().for_each(|hinted| hinted.numbers.clear());
                drop(file);
                self.close_and_open();
            }
            Operation::Reopen if !self.kept.is_empty() => {
                let reopened = file.reopen();
                assert!(
                    reopened.is_err_and(|error| error.kind() == ErrorKind::LatchTimeout || is_fault(&error))
                );
            }
            Operation::Reopen => {
                self.on_success(file.reopen(), |world, lost| {
                    assert_eq!(lost, 0);
                    world.flushed(None);
                });
            }
            Operation::Fault { operation, after, failure } => {
                if let Some(device) = &self.device {
                    // Short writes end between pages, so that no page is torn by a power cut.
                    let failure = match (operation, failure) {
                        (IoOperation::Read, SimFailure::Short(_)) => SimFailure::Short(512),
                        _ => failure,
                    };
                    device.fail(SimFault { operation, nth: device.calls(operation) + after, failure });
                }
            }
            Operation::PowerCut { seed } => {
                drop(file);
                self.kept.clear();
                self.hints = None;
                if let Some(device) = self.device.take() {
                    self.cut_power(&device, u64::from(seed));
                }
            }
            _ => {}
        }
        self.heal();
    }

    /// Reads the next page of the list that the file has.
    fn read_hinted(&mut self) {
        let Some(mut hinted) = self.hints.take() else { return };
        let (read, len) = (hinted.hints.next(), self.model.len);
        let numbers = &mut hinted.numbers;
        match read {
            Ok(None) => {
                assert!(numbers.iter().all(|number| *number >= len), "{numbers:?} of {len}");
                numbers.clear();
            }
            Ok(Some(guard)) => {
                let number = guard.page().number();
                let passed = numbers.iter().take_while(|next| **next >= len).count();
                assert_eq!(numbers.drain(..=passed).next_back(), Some(number));
                self.check(number, &guard);
            }
            Err(error) if error.kind() == ErrorKind::TenantClosed => return,
            Err(error) => {
                let passed = numbers.iter().take_while(|next| **next >= len).count();
                numbers.drain(..(passed + 1).min(numbers.len()));
                self.may_fail::<()>(Err(error));
            }
        }
        self.hints = Some(hinted);
    }

    /// The guard of a future that is polled once; none if it is not ready, or failed.
    fn poll(&mut self, tenant: usize, number: u64) -> Option<OwnedReadGuard> {
        let future = self.tenants[tenant].read_async(self.file().page(number));
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(read) => {
                let guard = self.may_fail(read)?;
                self.check(number, &guard);
                Some(guard)
            }
            Poll::Pending => None,
        }
    }

    /// Whether a guard of one of the pages is kept.
    fn keeps(&self, numbers: RangeInclusive<u64>) -> bool {
        self.kept.iter().any(|(number, _)| numbers.contains(number))
    }

    /// Checks the result of a directive, which is refused to a tenant with a program.
    fn directed<T>(&self, tenant: usize, given: bufpool::Result<T>) {
        match self.model.programs[tenant] {
            None => drop(given.unwrap()),
            Some(_) => assert_eq!(kind(given), ErrorKind::Directive),
        }
    }

    fn set_program(&mut self, tenant: usize, program: usize) {
        let parsed = Program::parse(PROGRAMS[program]).unwrap();
        let set = self.tenants[tenant].set_program(&parsed);
        if parsed.is_privileged() && !self.model.privileged[tenant] {
            assert_eq!(kind(set), ErrorKind::Privilege);
        } else {
            set.unwrap();
            self.model.programs[tenant] = Some(program);
        }
    }

    fn open_privileged(&mut self, tenant: usize, frames: u32) {
        if tenant == 0 {
            return;
        }
        self.close_tenant(tenant);
        let others = self.model.floors.iter().sum::<u32>() - self.model.floors[tenant];
        let opened = self.pool.tenant("privileged").privileged(frames).open();
        if frames == 0 || others + frames > FLOORS_MAX {
            assert_eq!(kind(opened), ErrorKind::Floor);
            return;
        }
        self.tenants[tenant].clone().close().unwrap();
        self.tenants[tenant] = opened.unwrap();
        let Model { floors, caps, privileged, .. } = &mut self.model;
        (floors[tenant], caps[tenant], privileged[tenant]) = (frames, frames, true);
        self.set_program(tenant, PROGRAMS.len() - 1);
    }

    fn set_floor(&mut self, tenant: usize, frames: u32) {
        if self.model.privileged[tenant] {
            return assert_eq!(kind(self.tenants[tenant].set_floor_frames(frames)), ErrorKind::Privilege);
        }
        let Model { floors, caps, .. } = &mut self.model;
        let others = floors.iter().sum::<u32>() - floors[tenant];
        let is_legal = frames <= caps[tenant] && others + frames <= FLOORS_MAX;
        match self.tenants[tenant].set_floor_frames(frames) {
            Ok(()) => floors[tenant] = frames,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Floor),
        }
        assert_eq!(is_legal, floors[tenant] == frames);
    }

    fn set_cap(&mut self, tenant: usize, frames: u32) {
        let set = self.tenants[tenant].set_cap_frames(frames);
        if self.model.privileged[tenant] {
            return assert_eq!(kind(set), ErrorKind::Privilege);
        }
        if frames < self.model.floors[tenant] {
            assert_eq!(kind(set), ErrorKind::Floor);
            return;
        }
        // The cap holds even if a page above it could not be written.
        self.model.caps[tenant] = frames;
        self.may_fail(set);
    }

    fn close_tenant(&mut self, tenant: usize) {
        let closing = self.tenants[tenant].clone();
        let closed = closing.clone().close();
        if tenant == 0 {
            assert_eq!(kind(closed), ErrorKind::Unsupported);
            return;
        }
        closed.unwrap();
        assert_eq!(kind(closing.read(self.file().page(0))), ErrorKind::TenantClosed);
        self.tenants[tenant] = self.pool.tenant("another").open().unwrap();
        (self.model.floors[tenant], self.model.caps[tenant]) = (0, self.pool.frames());
        (self.model.programs[tenant], self.model.privileged[tenant]) = (None, false);
        self.model.closed_tenants = true;
    }

    /// Goes on with a new pool on what a power cut leaves of the device.
    fn cut_power(&mut self, device: &SimDevice, seed: u64) {
        let image = device.crash_image(seed);
        device.cut_power();
        let (pool, tenants, file) = open((self.options)(), self.optimistic, Some(&image), &self.path);
        let model = &mut self.model;
        assert!(model.lengths.contains(&file.pages()), "{} pages, not {:?}", file.pages(), model.lengths);
        (model.len, model.lengths) = (file.pages(), vec![file.pages()]);
        (model.floors, model.caps, model.closed_tenants) = (FLOORS, [pool.frames(); TENANTS], false);
        (model.programs, model.privileged) = ([None; TENANTS], [false; TENANTS]);
        (self.pool, self.tenants, self.file, self.device) = (pool, tenants, Some(file), Some(image));
        for number in 0..self.model.len {
            self.model.pages[number as usize].current = UNKNOWN;
            let tenant = self.tenants[0].clone();
            let file = self.file().clone();
            // Optimistic reads of other tests of the process hold up frames of this pool, too.
            let page = loop {
                match tenant.read(file.page(number)) {
                    Err(error) if error.kind() == ErrorKind::Exhausted => {}
                    read => break read.unwrap(),
                }
            };
            self.check(number, &page);
        }
        self.flushed(None);
        for known in &mut self.model.pages[self.model.len as usize..] {
            known.in_file = vec![0];
        }
        self.set_latency(self.latency);
    }

    /// Closes the file and opens it again: clean, unless something failed.
    fn close_and_open(&mut self) {
        let file = self.file.take().unwrap();
        let closed = file.close();
        let opened = self.pool.open_file(&self.path, FileOptions::new().optimistic(self.optimistic));
        match (closed, opened) {
            (Ok(()), Ok(file)) => {
                self.flushed(None);
                self.file = Some(file);
            }
            (Err(error), Ok(file)) => {
                assert!(self.device.is_some() && is_fault(&error), "{error}");
                self.model.forget();
                self.file = Some(file);
            }
            (_, Err(error)) => panic!("{error}"),
        }
    }

    /// Reopens the file if it is poisoned. Changes that were not known to be written may then be lost.
    fn heal(&mut self) {
        let poisoned = self.device.is_some() && self.file().extend(0).is_err();
        if poisoned {
            self.kept.clear();
            self.file().reopen().unwrap();
            self.model.forget();
        }
    }

    fn finish(mut self) {
        for number in 0..self.model.len {
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

impl Model {
    fn set_len(&mut self, pages: u64) {
        for known in &mut self.pages[self.len.min(pages) as usize..pages as usize] {
            known.current = 0;
            known.in_file.push(0);
        }
        self.len = pages;
        self.lengths.push(pages);
    }

    /// The model learns that the pages in memory were dropped, since a write or a sync has failed.
    fn forget(&mut self) {
        self.pages.iter_mut().for_each(|known| known.current = UNKNOWN);
    }
}

/// A pool with its tenants and the file.
fn open(
    options: PoolOptions,
    optimistic: bool,
    device: Option<&SimDevice>,
    path: &Path,
) -> (Pool, Vec<Tenant>, File) {
    let pool = match device {
        Some(device) => options.open_on(device).unwrap(),
        None => options.open().unwrap(),
    };
    let tenants = vec![
        pool.default_tenant(),
        pool.tenant("one").floor_frames(FLOORS[1]).open().unwrap(),
        pool.tenant("two").floor_frames(FLOORS[2]).open().unwrap(),
    ];
    let file = pool.open_file(path, FileOptions::new().create(true).optimistic(optimistic)).unwrap();
    (pool, tenants, file)
}
