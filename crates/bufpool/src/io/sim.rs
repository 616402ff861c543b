//! A simulated storage device: in memory, deterministic, with faults and power cuts.
//!
//! For engines that want to test themselves as this crate tests itself (cargo feature `sim`). Open a
//! pool on a [`SimDevice`] instead of a directory; let calls fail when you say so; cut the power; take
//! what survived as a new device, open it, and see whether what was acknowledged is there.
//!
//! # Model
//!
//! * A device has files by name. That a name was made or removed is durable once its **folder**, the path without
//!   its last part, is synced. The pool syncs the folder when it opens a file that may be new and when it removes
//!   one; that is a call as any other sync. Folders need not be made.
//! * Every attempt to read, write, sync or allocate is a **call**; calls are numbered from 1, over the
//!   device and per kind of operation. A [`SimFault`] says what happens to one of them.
//! * A write is **synced** when a sync of its file succeeds that began after the write was completed.
//!   The same holds for a change of length (allocation, truncation, a write past the end).
//! * After a power cut, **what survives is what was synced plus any subset of what was not**: of each
//!   unsynced write any subset of its sectors (512 bytes by default, [`SimDevice::set_sector_bytes`]),
//!   so writes are torn and, among each other, reordered; of the changes of length, and of the changes of each name,
//!   a first part, in order.
//! * Everything random comes from the seed, and faults and effects happen in the order of the calls, so
//!   a run that makes the same calls sees the same results. A batch is executed in a random order.
//!
//! * A sync that fails with [`SimFailure::Lost`] forgets what it was to make durable, and reads do not show it.
//!
//! Time passes only if [`SimDevice::set_latency`] says so.
//!
//! ```
//! use bufpool::sim::{SimDevice, SimFailure, SimFault};
//! use bufpool::{ErrorKind, FileOptions, IoOperation, PoolOptions};
//!
//! # fn main() -> bufpool::Result<()> {
//! let device = SimDevice::new(1);
//! let options = || PoolOptions::new().frames(64).page_bytes(4096);
//! let pool = options().open_on(&device)?;
//! let table = pool.open_file("table", FileOptions::new().create(true))?;
//! table.extend(10)?;
//! let tenant = pool.default_tenant();
//! tenant.write(table.page(7))?[..5].copy_from_slice(b"first");
//! table.flush()?;
//!
//! // The next write reaches the device in part, and fails.
//! tenant.write(table.page(7))?[..6].copy_from_slice(b"second");
//! let nth = device.calls(IoOperation::Write) + 1;
//! device.fail(SimFault { operation: IoOperation::Write, nth, failure: SimFailure::Torn });
//! assert_eq!(table.flush().unwrap_err().kind(), ErrorKind::Io);
//!
//! // The power goes. Whatever became of the second version, the page is not lost: it is one or the other, or a mix.
//! let survived = device.crash_image(7);
//! let pool = options().open_on(&survived)?;
//! let table = pool.open_file("table", FileOptions::new())?;
//! let page = pool.default_tenant().read(table.page(7))?.to_vec();
//! assert!(page.starts_with(b"first") || page.starts_with(b"second"));
//! # Ok(())
//! # }
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::file::Alignment;
use super::transfer::{Next, Progress};
use super::{
    Action, Backend, Buffer, FileIdentity, FileOpen, Group, IoError, IoFile, IoOperation, IoReport,
    NameError, OpenError, Request,
};

/// The unit in which a torn write is torn, unless set otherwise: what devices write atomically.
const SECTOR_BYTES: usize = 512;

/// A simulated device; clones are the same device. See the [module](self) for the model.
#[derive(Clone)]
pub struct SimDevice {
    state: Arc<Mutex<State>>,
}

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimFault {
    /// The kind of call.
    pub operation: IoOperation,
    /// The how manieth of its kind, from 1, counted from the making of the device.
    pub nth: u64,
    /// What becomes of it.
    pub failure: SimFailure,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimFailure {
    /// EIO, without effect.
    Io,
    /// ENOSPC, without effect.
    NoSpace,
    /// Any other error number, without effect. EINTR, EAGAIN and ECANCELED are tried again by the pool.
    Os(i32),
    /// A read or write moves at most this many bytes and reports how many. Does nothing to other calls.
    Short(usize),
    /// EIO, after a random subset of the sectors of a write has been written. As `Io` for other calls.
    Torn,
    /// EIO of a sync that loses what it was to make durable, as Linux does with a buffered file: any part of it is on the device, no
    /// later sync writes the rest, and until the cache of the file is dropped, as [`File::reopen`](crate::File::reopen) does, all of it
    /// reads as it was written. As `Io` for other calls.
    Lost,
}

struct State {
    seed: u64,
    random: Random,
    sector_bytes: usize,
    latency: Option<(Duration, Duration)>,
    capacity_bytes: Option<u64>,
    names: Names,
    files: HashMap<u64, FileState>,
    next_file: u64,
    next_event: u64,
    calls: BTreeMap<IoOperation, u64>,
    faults: Vec<SimFault>,
    power_cut_at: Option<u64>,
    power_is_cut: bool,
}

/// Which file each name means: now, when its folder was last synced, and what happened in between, in order;
/// none where it was removed.
#[derive(Clone, Debug, Default)]
struct Names {
    now: BTreeMap<PathBuf, u64>,
    durable: BTreeMap<PathBuf, u64>,
    unsynced: Vec<(PathBuf, Option<u64>)>,
}

impl Names {
    /// Makes the name `path` mean a file, or nothing.
    fn set(&mut self, path: &Path, file: Option<u64>) {
        set(&mut self.now, path, file);
        self.unsynced.push((path.to_owned(), file));
    }

    /// Makes durable what `path` means now.
    fn make_durable(&mut self, path: &Path) {
        self.unsynced.retain(|(changed, _)| changed != path);
        set(&mut self.durable, path, self.now.get(path).copied());
    }

    /// Makes durable what happened in a folder. Returns the files that lost a name by that.
    fn sync_folder(&mut self, folder: Option<&Path>) -> Vec<u64> {
        let Self { durable, unsynced, .. } = self;
        let mut released = Vec::new();
        unsynced.retain(|(path, file)| {
            let synced = path.parent() == folder;
            if synced {
                released.extend(set(durable, path, *file));
            }
            !synced
        });
        released
    }

    /// What is left if the power is cut now.
    fn after_power_cut(&self, random: &mut Random) -> BTreeMap<PathBuf, u64> {
        let mut survived = self.durable.clone();
        let mut changes: BTreeMap<&Path, Vec<Option<u64>>> = BTreeMap::new();
        for (path, file) in &self.unsynced {
            changes.entry(path).or_default().push(*file);
        }
        for (path, files) in changes {
            if let Some(last) = random.below(files.len() as u64 + 1).checked_sub(1) {
                set(&mut survived, path, files[last as usize]);
            }
        }
        survived
    }

    /// True if a name means this file, or may do so after a power cut.
    fn may_name(&self, file: u64) -> bool {
        let mut named = self.now.values().chain(self.durable.values());
        named.any(|&named| named == file) || self.unsynced.iter().any(|(_, named)| *named == Some(file))
    }
}

/// Makes the name `path` mean a file, or nothing. Returns what it meant before.
fn set(names: &mut BTreeMap<PathBuf, u64>, path: &Path, file: Option<u64>) -> Option<u64> {
    match file {
        Some(number) => names.insert(path.to_owned(), number),
        None => names.remove(path),
    }
}

/// One file: as it reads now, as it was when last synced, and what happened in between.
#[derive(Clone, Debug, Default)]
struct FileState {
    now: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Event>,
    /// Some of `now` is neither durable nor unsynced.
    has_lost: bool,
    /// Open for writing once, or for reading any number of times.
    writers: u32,
    readers: u32,
}

/// Something that the next sync makes durable.
#[derive(Clone, Debug)]
struct Event {
    id: u64,
    change: Change,
    /// Its completion has been told, so a sync that begins now covers it.
    completed: bool,
}

#[derive(Clone, Debug)]
enum Change {
    Bytes { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

impl SimDevice {
    /// An empty device. All randomness comes from `seed`.
    pub fn new(seed: u64) -> Self {
        let state = State {
            seed,
            random: Random(seed),
            sector_bytes: SECTOR_BYTES,
            latency: None,
            capacity_bytes: None,
            names: Names::default(),
            files: HashMap::new(),
            next_file: 1,
            next_event: 1,
            calls: BTreeMap::new(),
            faults: Vec::new(),
            power_cut_at: None,
            power_is_cut: false,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Makes every operation take a random time from `least` to `most`. Default: no time.
    pub fn set_latency(&self, least: Duration, most: Duration) {
        self.state.lock().latency = (!most.is_zero()).then_some((least, most.max(least)));
    }

    /// Limits the sum of the files' lengths: more is ENOSPC. Default: no limit.
    pub fn set_capacity_bytes(&self, bytes: u64) {
        self.state.lock().capacity_bytes = Some(bytes);
    }

    /// The unit in which writes are torn, in bytes (at least 1). Default 512. Set it to the page size for a
    /// device whose page writes are atomic.
    pub fn set_sector_bytes(&self, bytes: usize) {
        self.state.lock().sector_bytes = bytes.max(1);
    }

    /// Lets a call to come fail.
    pub fn fail(&self, fault: SimFault) {
        self.state.lock().faults.push(fault);
    }

    /// Lets calls to come succeed that were to [`fail`](Self::fail).
    pub fn forget_faults(&self) {
        self.state.lock().faults.clear();
    }

    /// How many calls of this kind have been made, the failed ones included.
    pub fn calls(&self, operation: IoOperation) -> u64 {
        self.state.lock().calls.get(&operation).copied().unwrap_or(0)
    }

    /// How many calls have been made in all.
    pub fn calls_total(&self) -> u64 {
        self.state.lock().calls.values().sum()
    }

    /// Cuts the power during call number `call` (of all kinds, from 1): it fails with EIO, a write after
    /// it may have been written in part, and everything later fails with EIO.
    pub fn cut_power_at(&self, call: u64) {
        self.state.lock().power_cut_at = Some(call);
    }

    /// Cuts the power now: everything from here on fails with EIO.
    pub fn cut_power(&self) {
        self.state.lock().power_is_cut = true;
    }

    /// True if the power has been cut.
    pub fn power_is_cut(&self) -> bool {
        self.state.lock().power_is_cut
    }

    /// What a power cut at this moment leaves, as a new device with power, without faults: see the model
    /// in the [module documentation](self). Different seeds leave different subsets. This device goes on.
    pub fn crash_image(&self, seed: u64) -> Self {
        let state = self.state.lock();
        let image = Self::new(seed);
        {
            let mut copy = image.state.lock();
            let mut random = Random(seed ^ state.seed.rotate_left(32));
            copy.sector_bytes = state.sector_bytes;
            copy.capacity_bytes = state.capacity_bytes;
            copy.next_file = state.next_file;
            let names = state.names.after_power_cut(&mut random);
            copy.names = Names { now: names.clone(), durable: names.clone(), unsynced: Vec::new() };
            // By name, because the order of a hash map is not the same in every run.
            for number in names.values() {
                let survived = state.files[number].after_power_cut(&mut random, state.sector_bytes);
                let file = FileState { now: survived.clone(), durable: survived, ..FileState::default() };
                copy.files.insert(*number, file);
            }
        }
        image
    }

    /// The contents of a file as they read now. `None` if there is no such file.
    pub fn contents(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let number = state.names.now.get(path.as_ref())?;
        Some(state.files[number].now.clone())
    }

    /// Makes or replaces a file, durably. For preparing a test; files that are open see the change.
    pub fn put(&self, path: impl AsRef<Path>, contents: &[u8]) {
        let mut state = self.state.lock();
        let number = state.number_of(path.as_ref());
        state.names.make_durable(path.as_ref());
        let file = state.files.entry(number).or_default();
        file.now = contents.to_vec();
        file.durable = contents.to_vec();
        file.unsynced.clear();
        file.has_lost = false;
    }
}

impl fmt::Debug for SimDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        let files = state.names.now.len();
        f.debug_struct("SimDevice").field("seed", &state.seed).field("files", &files).finish_non_exhaustive()
    }
}

impl State {
    /// The file's number, making the file if need be.
    fn number_of(&mut self, path: &Path) -> u64 {
        if let Some(&number) = self.names.now.get(path) {
            return number;
        }
        let number = self.next_file;
        self.next_file += 1;
        self.names.set(path, Some(number));
        self.files.insert(number, FileState::default());
        number
    }

    fn check_power(&self) -> io::Result<()> {
        if self.power_is_cut { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
    }

    /// Counts a call and decides its fate.
    fn begin_call(&mut self, operation: IoOperation) -> Option<SimFailure> {
        let count = self.calls.entry(operation).or_default();
        *count += 1;
        let nth = *count;
        if self.power_is_cut {
            return Some(SimFailure::Io);
        }
        if self.power_cut_at.is_some_and(|call| self.calls.values().sum::<u64>() >= call) {
            self.power_is_cut = true;
            return Some(SimFailure::Torn);
        }
        let fault = self.faults.iter().find(|fault| fault.operation == operation && fault.nth == nth);
        fault.map(|fault| fault.failure)
    }

    /// One attempt at what is left of `action` after `done` bytes. Returns the number of bytes moved or an
    /// error number, and adds what has to be synced to `events`.
    fn attempt(
        &mut self,
        file: u64,
        action: &Action,
        done: usize,
        events: &mut Vec<u64>,
    ) -> Result<usize, i32> {
        let failure = self.begin_call(action.operation());
        match failure {
            Some(SimFailure::Io) => return Err(libc::EIO),
            Some(SimFailure::NoSpace) => return Err(libc::ENOSPC),
            Some(SimFailure::Os(errno)) => return Err(errno),
            Some(SimFailure::Torn) if action.operation() != IoOperation::Write => return Err(libc::EIO),
            Some(SimFailure::Lost) => {
                if action.operation() == IoOperation::Sync {
                    let state = self.files.get_mut(&file).expect("open files exist");
                    state.lose(&mut self.random, self.sector_bytes);
                }
                return Err(libc::EIO);
            }
            Some(SimFailure::Torn | SimFailure::Short(_)) | None => {}
        }
        let most = match failure {
            Some(SimFailure::Short(bytes)) => bytes,
            _ => usize::MAX,
        };
        match action {
            Action::Read { offset, buffers } => {
                Ok(self.files[&file].read(*offset as usize + done, buffers.rest(done), most))
            }
            Action::Write { offset, buffers } => {
                let mut bytes = Vec::new();
                buffers.rest(done).for_each(|piece| piece.append_to(&mut bytes));
                bytes.truncate(most);
                self.write(file, *offset as usize + done, bytes, failure, events)
            }
            Action::Sync { .. } => {
                self.files.get_mut(&file).expect("open files exist").sync();
                Ok(0)
            }
            Action::Allocate { offset, bytes } => {
                let end = offset.checked_add(*bytes).ok_or(libc::EFBIG)? as usize;
                self.extend(file, end, events).map(|()| *bytes as usize)
            }
        }
    }

    fn write(
        &mut self,
        file: u64,
        offset: usize,
        bytes: Vec<u8>,
        failure: Option<SimFailure>,
        events: &mut Vec<u64>,
    ) -> Result<usize, i32> {
        let count = bytes.len();
        let torn = failure == Some(SimFailure::Torn);
        if !torn {
            self.extend(file, offset + count, events)?;
        }
        let sector_bytes = self.sector_bytes;
        let state = self.files.get_mut(&file).expect("open files exist");
        if torn {
            // What was not written reads as before; past the end nothing is written.
            let room = state.now.len().saturating_sub(offset).min(count);
            let mut mixed = state.now[offset.min(state.now.len())..][..room].to_vec();
            overwrite_some_sectors(&mut mixed, 0, &bytes[..room], sector_bytes, &mut self.random);
            self.record(file, Change::Bytes { offset, bytes: mixed }, events);
            return Err(libc::EIO);
        }
        self.record(file, Change::Bytes { offset, bytes }, events);
        Ok(count)
    }

    /// Makes the file at least `end` bytes long.
    fn extend(&mut self, file: u64, end: usize, events: &mut Vec<u64>) -> Result<(), i32> {
        let len = self.files[&file].now.len();
        if end <= len {
            return Ok(());
        }
        let used: u64 = self.files.values().map(|file| file.now.len() as u64).sum();
        if self.capacity_bytes.is_some_and(|capacity| used + (end - len) as u64 > capacity) {
            return Err(libc::ENOSPC);
        }
        self.record(file, Change::Length(end), events);
        Ok(())
    }

    /// Applies a change to the file as it reads now, and notes it for the next sync.
    fn record(&mut self, file: u64, change: Change, events: &mut Vec<u64>) {
        let id = self.next_event;
        self.next_event += 1;
        let state = self.files.get_mut(&file).expect("open files exist");
        change.apply(&mut state.now);
        state.unsynced.push(Event { id, change, completed: false });
        events.push(id);
    }

    /// Notes that the caller has been told of these changes.
    fn mark_completed(&mut self, file: u64, events: &[u64]) {
        if let Some(state) = self.files.get_mut(&file) {
            for event in &mut state.unsynced {
                event.completed |= events.contains(&event.id);
            }
        }
    }

    /// How long the next operation takes.
    fn latency(&mut self) -> Duration {
        let Some((least, most)) = self.latency else { return Duration::ZERO };
        let span_ns = u64::try_from((most - least).as_nanos()).unwrap_or(u64::MAX);
        least + Duration::from_nanos(self.random.below(span_ns.saturating_add(1)))
    }

    /// Makes durable which names there are in the folder of `path`.
    fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        let mut progress = Progress::default();
        let sync = Action::Sync { all_metadata: true };
        loop {
            let attempted = match self.begin_call(IoOperation::Sync) {
                Some(SimFailure::NoSpace) => Err(libc::ENOSPC),
                Some(SimFailure::Os(errno)) => Err(errno),
                Some(SimFailure::Io | SimFailure::Torn | SimFailure::Lost) => Err(libc::EIO),
                Some(SimFailure::Short(_)) | None => Ok(0),
            };
            // Syncs are of no length, so that no granule matters.
            match progress.advance(&sync, 1, attempted) {
                Next::Continue => {}
                Next::Finished => break,
                Next::Fail(cause) => return Err(io::Error::other(sync.failed(cause))),
            }
        }
        let released = self.names.sync_folder(path.parent());
        released.into_iter().for_each(|number| self.reclaim(number));
        Ok(())
    }

    /// Forgets a file that has no name, now or after a power cut, and that nobody has open.
    fn reclaim(&mut self, number: u64) {
        let unused = self.files.get(&number).is_some_and(|file| file.writers + file.readers == 0);
        if unused && !self.names.may_name(number) {
            self.files.remove(&number);
        }
    }
}

impl Change {
    fn apply(&self, contents: &mut Vec<u8>) {
        match self {
            Self::Length(bytes) => contents.resize(*bytes, 0),
            Self::Bytes { offset, bytes } => {
                let end = (offset + bytes.len()).min(contents.len());
                if *offset < end {
                    contents[*offset..end].copy_from_slice(&bytes[..end - offset]);
                }
            }
        }
    }
}

impl FileState {
    /// Fills `pieces` from `offset` on, with at most `most` bytes; 0 at the end of the file.
    fn read(&self, offset: usize, pieces: impl Iterator<Item = Buffer>, most: usize) -> usize {
        let mut left = self.now.get(offset..).unwrap_or_default();
        left = &left[..left.len().min(most)];
        let available = left.len();
        for piece in pieces {
            let (now, later) = left.split_at(piece.len().min(left.len()));
            piece.fill(now);
            left = later;
        }
        available - left.len()
    }

    /// Makes durable what was completed; what is still being written stays unsynced.
    fn sync(&mut self) {
        let Self { durable, unsynced, .. } = self;
        unsynced.retain(|event| {
            if event.completed {
                event.change.apply(durable);
            }
            !event.completed
        });
    }

    /// What was completed is on the device in part, and the rest never will be. A change of length is not lost: it is the file system's.
    fn lose(&mut self, random: &mut Random, sector_bytes: usize) {
        let Self { durable, unsynced, has_lost, .. } = self;
        unsynced.retain(|event| match &event.change {
            Change::Bytes { offset, bytes } if event.completed => {
                let end = (offset + bytes.len()).min(durable.len());
                if *offset < end {
                    overwrite_some_sectors(durable, *offset, &bytes[..end - offset], sector_bytes, random);
                }
                *has_lost = true;
                false
            }
            _ => true,
        });
    }

    /// What was lost reads as the device has it.
    fn drop_cache(&mut self) {
        if std::mem::take(&mut self.has_lost) {
            self.now.clone_from(&self.durable);
            self.unsynced.iter().for_each(|event| event.change.apply(&mut self.now));
        }
    }

    /// What is left if the power is cut now.
    fn after_power_cut(&self, random: &mut Random, sector_bytes: usize) -> Vec<u8> {
        let mut survived = self.durable.clone();
        let lengths = self.unsynced.iter().filter(|event| matches!(event.change, Change::Length(_))).count();
        let mut lengths_left = random.below(lengths as u64 + 1);
        for event in &self.unsynced {
            match &event.change {
                Change::Length(_) if lengths_left > 0 => {
                    lengths_left -= 1;
                    event.change.apply(&mut survived);
                }
                Change::Length(_) => {}
                Change::Bytes { offset, bytes } => {
                    let end = (offset + bytes.len()).min(survived.len());
                    if *offset < end {
                        let bytes = &bytes[..end - offset];
                        overwrite_some_sectors(&mut survived, *offset, bytes, sector_bytes, random);
                    }
                }
            }
        }
        survived
    }
}

/// Writes `bytes` at `offset`: all sectors, none, or a random half of them, each with the same chance.
fn overwrite_some_sectors(
    contents: &mut [u8],
    offset: usize,
    bytes: &[u8],
    sector_bytes: usize,
    random: &mut Random,
) {
    let fate = random.below(3);
    for (index, sector) in bytes.chunks(sector_bytes).enumerate() {
        let written = match fate {
            0 => false,
            1 => true,
            _ => random.below(2) == 0,
        };
        if written {
            contents[offset + index * sector_bytes..][..sector.len()].copy_from_slice(sector);
        }
    }
}

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound` (at least 1), close enough to uniform for choosing faults.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound.max(1))) >> 64) as u64
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// A file of a device, open.
pub(super) struct SimFile {
    device: SimDevice,
    number: u64,
    /// The name that it was opened by.
    path: PathBuf,
    read_only: bool,
}

impl SimFile {
    pub(super) fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.device.state.lock().files[&self.number].now.len() as u64)
    }

    pub(super) fn truncate(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.device.state.lock();
        state.check_power()?;
        let mut events = Vec::new();
        state.record(self.number, Change::Length(bytes as usize), &mut events);
        state.mark_completed(self.number, &events);
        Ok(())
    }

    pub(super) fn drop_cache(&self) -> io::Result<()> {
        let mut state = self.device.state.lock();
        state.check_power()?;
        state.files.get_mut(&self.number).expect("open files exist").drop_cache();
        Ok(())
    }

    /// As [`IoFile::remove_name`].
    pub(super) fn remove_name(&self, expected: FileIdentity) -> Result<(), NameError> {
        let mut state = self.device.state.lock();
        state.check_power().map_err(NameError::os("unlink"))?;
        let found = state.names.now.get(&self.path).copied();
        if found != Some(self.number) {
            let found = found.map(|inode| FileIdentity { inode, ..expected });
            return Err(NameError::Changed { found, expected });
        }
        state.names.set(&self.path, None);
        Ok(())
    }

    /// As [`IoFile::sync_folder`].
    pub(super) fn sync_folder(&self) -> io::Result<()> {
        self.device.state.lock().sync_folder(&self.path)
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimFile").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.device.state.lock();
        if let Some(file) = state.files.get_mut(&self.number) {
            let count = if self.read_only { &mut file.readers } else { &mut file.writers };
            *count -= 1;
        }
        state.reclaim(self.number);
    }
}

/// The backend on a [`SimDevice`].
///
/// Effects happen when a request is submitted, in the submitting thread. Results of requests that
/// nobody waits for are told by a thread of the device, after their latency.
pub(crate) struct Sim {
    device: SimDevice,
    alignment: Alignment,
    teller: Arc<Teller>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Requests that are done and whose completion is not called yet.
struct Teller {
    state: Mutex<TellerState>,
    work: Condvar,
    idle: Condvar,
}

#[derive(Default)]
struct TellerState {
    done: Vec<Done>,
    telling: bool,
    closing: bool,
}

/// An executed request with what has to become of it.
struct Done {
    request: Request,
    result: Result<(), IoError>,
    events: Vec<u64>,
    latency: Duration,
}

impl Sim {
    /// Opens the device with the alignment that direct I/O on it demands.
    pub(crate) fn new(device: &SimDevice) -> Self {
        let teller = Arc::new(Teller { state: Mutex::default(), work: Condvar::new(), idle: Condvar::new() });
        let bytes = SECTOR_BYTES as u32;
        Self {
            device: device.clone(),
            alignment: Alignment { memory_bytes: bytes, offset_bytes: bytes },
            teller,
            thread: Mutex::new(None),
        }
    }

    /// Executes one action to its end, as the other backends do: attempt after attempt.
    fn execute(
        &self,
        file: &IoFile,
        action: &Action,
        events: &mut Vec<u64>,
    ) -> (Result<(), IoError>, Duration) {
        let number = file.sim().number;
        let granule = self.alignment.offset_bytes as usize;
        let mut state = self.device.state.lock();
        let mut progress = Progress::default();
        loop {
            let attempted = state.attempt(number, action, progress.done(), events);
            let result = match progress.advance(action, granule, attempted) {
                Next::Continue => continue,
                Next::Finished => Ok(()),
                Next::Fail(cause) => Err(action.failed(cause)),
            };
            return (result, state.latency());
        }
    }

    /// Executes a batch in a random order.
    fn execute_all(&self, requests: &mut Vec<Request>) -> Vec<Done> {
        self.device.state.lock().random.shuffle(requests);
        let execute = |request: Request| {
            let mut events = Vec::new();
            let (result, latency) = self.execute(&request.file, &request.action, &mut events);
            Done { request, result, events, latency }
        };
        requests.drain(..).map(execute).collect()
    }

    /// Starts the thread that tells results, once.
    fn ensure_thread(&self) {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (teller, device) = (Arc::clone(&self.teller), self.device.clone());
            *thread = std::thread::Builder::new()
                .name("bufpool-sim".into())
                .spawn(move || teller.run(&device))
                .ok();
        }
    }
}

impl Teller {
    /// Tells results, the ones with the least latency first among those that are there.
    fn run(&self, device: &SimDevice) {
        let mut state = self.state.lock();
        loop {
            let mut batch = std::mem::take(&mut state.done);
            if batch.is_empty() {
                state.telling = false;
                self.idle.notify_all();
                if state.closing {
                    return;
                }
                self.work.wait(&mut state);
                continue;
            }
            state.telling = true;
            parking_lot::MutexGuard::unlocked(&mut state, || {
                batch.sort_by_key(|done| done.latency);
                let mut waited = Duration::ZERO;
                for done in batch {
                    std::thread::sleep(done.latency - waited);
                    waited = done.latency;
                    done.tell(device);
                }
            });
        }
    }
}

impl Done {
    fn tell(self, device: &SimDevice) {
        device.state.lock().mark_completed(self.request.file.sim().number, &self.events);
        self.request.complete(self.result);
    }
}

impl Backend for Sim {
    fn open(&self, path: &Path, how: &FileOpen) -> Result<Arc<IoFile>, OpenError> {
        let os = |doing| move |error| OpenError::Os { doing, error };
        let mut state = self.device.state.lock();
        state.check_power().map_err(os("opening"))?;
        let creates = how.create && !how.read_only;
        if !state.names.now.contains_key(path) && !creates {
            return Err(os("opening")(io::Error::from_raw_os_error(libc::ENOENT)));
        }
        let number = state.number_of(path);
        if creates {
            state.sync_folder(path).map_err(os("making the file's name durable"))?;
        }
        let file = state.files.get_mut(&number).expect("named files exist");
        if file.writers > 0 || (!how.read_only && file.readers > 0) {
            return Err(OpenError::Locked);
        }
        *(if how.read_only { &mut file.readers } else { &mut file.writers }) += 1;
        let device = Arc::as_ptr(&self.device.state) as usize as u64;
        let (path, read_only) = (path.to_owned(), how.read_only);
        let file = SimFile { device: self.device.clone(), number, path, read_only };
        let identity = FileIdentity { device, inode: number };
        Ok(Arc::new(IoFile::simulated(file, identity, self.alignment)))
    }

    fn adopt(&self, _fd: OwnedFd, _how: &FileOpen) -> Result<Arc<IoFile>, OpenError> {
        let error = io::Error::from(io::ErrorKind::Unsupported);
        Err(OpenError::Os { doing: "taking over a descriptor on the simulated device", error })
    }

    fn register_memory(&self, _start: NonNull<u8>, _bytes: usize) {}

    fn submit(&self, requests: &mut Vec<Request>) {
        if requests.is_empty() {
            return;
        }
        self.ensure_thread();
        let done = self.execute_all(requests);
        self.teller.state.lock().done.extend(done);
        self.teller.work.notify_one();
    }

    fn submit_and_wait(&self, requests: &mut Vec<Request>, group: &Group) {
        let done = self.execute_all(requests);
        // They overlap, so together they take as long as the slowest.
        std::thread::sleep(done.iter().map(|done| done.latency).max().unwrap_or_default());
        done.into_iter().for_each(|done| done.tell(&self.device));
        group.wait();
    }

    fn run(&self, file: &Arc<IoFile>, action: Action) -> Result<(), IoError> {
        let mut events = Vec::new();
        let (result, latency) = self.execute(file, &action, &mut events);
        std::thread::sleep(latency);
        self.device.state.lock().mark_completed(file.sim().number, &events);
        result
    }

    fn drain(&self) {
        let mut state = self.teller.state.lock();
        while state.telling || !state.done.is_empty() {
            self.teller.idle.wait(&mut state);
        }
    }

    fn report(&self) -> IoReport {
        IoReport { backend: "sim", features: vec![format!("{:?}", self.device)], steps_down: Vec::new() }
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Drop for Sim {
    /// Tells what is not told yet. The telling thread itself may be the one that drops the backend.
    fn drop(&mut self) {
        self.teller.state.lock().closing = true;
        self.teller.work.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
