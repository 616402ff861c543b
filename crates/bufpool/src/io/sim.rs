//! A simulated storage device: in memory, deterministic, with faults and power cuts.
//!
//! For engines that want to test themselves as this crate tests itself (cargo feature `sim`). Open a
//! pool on a [`SimDevice`] instead of a directory; let calls fail when you say so; cut the power; take
//! what survived as a new device, open it, and see whether what was acknowledged is there.
//!
//! # Model
//!
//! * A device has files by name. That a name was made or removed is durable once its **folder**, the path
//!   without its last part, is synced. The pool syncs the folder when it opens a file that may be new and
//!   when it removes one; that is a call as any other sync. Folders need not be made.
//! * Every attempt to read, write, sync or allocate is a **call**. Calls are numbered from 1, over the whole
//!   device and for each kind of operation. A [`SimFault`] says what happens to one of them.
//! * A write is **synced** when a sync of its file succeeds that began after the write was completed. The
//!   same holds for a change of length (allocation, truncation, a write past the end).
//! * After a power cut, **what survives is what was synced plus any subset of what was not**: of each
//!   unsynced write any subset of its sectors (512 bytes by default, [`SimDevice::set_sector_bytes`]), so
//!   writes are torn and, among each other, reordered; of the changes of length, and of the changes of each
//!   name, a first part, in order.
//! * Everything random comes from the seed, and faults and effects happen in the order of the calls, so
//!   a run that makes the same calls sees the same results. A batch is executed in a random order.
//!
//! * A sync that fails with [`SimFailure::Lost`] forgets what it was to make durable, and reads do not show
//!   that.
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
//! // The power goes. Whatever became of the second version, the page is not lost: it is one or the other,
//! // or a mix.
//! let survived = device.crash_image(7);
//! let pool = options().open_on(&survived)?;
//! let table = pool.open_file("table", FileOptions::new())?;
//! let page = pool.default_tenant().read(table.page(7))?.to_vec();
//! assert!(page.starts_with(b"first") || page.starts_with(b"second"));
//! # Ok(())
//! # }
//! ```

pub(super) mod backend;
mod contents;
mod fault;
mod file;
mod names;
mod random;
mod state;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use self::contents::FileState;
pub use self::fault::{SimFailure, SimFault};
use self::names::Names;
use self::random::Random;
use self::state::{DeviceState, SECTOR_BYTES};
use super::error::IoOperation;

/// A simulated device; clones are the same device. See the [module](self) for the model.
#[derive(Clone)]
pub struct SimDevice {
    state: Arc<Mutex<DeviceState>>,
}

impl SimDevice {
    /// An empty device. All randomness comes from `seed`.
    pub fn new(seed: u64) -> Self {
        let state = DeviceState {
            seed,
            random: Random::new(seed),
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

    /// Limits the sum of the files' lengths, in bytes; a call that would exceed it fails with ENOSPC.
    /// Default: no limit.
    pub fn set_capacity_bytes(&self, bytes: u64) {
        self.state.lock().capacity_bytes = Some(bytes);
    }

    /// The unit in which writes are torn, in bytes (at least 1). Default 512. Set it to the page size for a
    /// device whose page writes are atomic.
    pub fn set_sector_bytes(&self, bytes: usize) {
        self.state.lock().sector_bytes = bytes.max(1);
    }

    /// Makes a later call fail.
    pub fn fail(&self, fault: SimFault) {
        self.state.lock().faults.push(fault);
    }

    /// Forgets all faults that were set with [`fail`](Self::fail).
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

    /// Cuts the power during call number `call` (of all kinds, from 1). That call and all later ones fail
    /// with EIO. If it is a write, any subset of its sectors may have been written.
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
            let mut random = Random::new(seed ^ state.seed.rotate_left(32));
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

#[cfg(test)]
mod tests;
