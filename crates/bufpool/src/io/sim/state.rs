//! What a device contains, which faults are set, and what each call does.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::time::Duration;

use super::contents::{Change, Event, FileState, overwrite_some_sectors};
use super::fault::{SimFailure, SimFault};
use super::names::Names;
use super::random::Random;
use crate::io::error::IoOperation;
use crate::io::progress::{End, Next, Progress};
use crate::io::request::Action;

/// The unit in which a torn write is torn, unless set otherwise: what devices write atomically.
pub(super) const SECTOR_BYTES: usize = 512;

pub(super) struct DeviceState {
    pub(super) seed: u64,
    pub(super) random: Random,
    pub(super) sector_bytes: usize,
    pub(super) latency: Option<(Duration, Duration)>,
    pub(super) capacity_bytes: Option<u64>,
    pub(super) names: Names,
    pub(super) files: HashMap<u64, FileState>,
    pub(super) next_file: u64,
    pub(super) next_event: u64,
    pub(super) calls: BTreeMap<IoOperation, u64>,
    pub(super) faults: Vec<SimFault>,
    pub(super) power_cut_at: Option<u64>,
    pub(super) power_is_cut: bool,
}

impl DeviceState {
    /// The file's number, making the file if need be.
    pub(super) fn number_of(&mut self, path: &Path) -> u64 {
        if let Some(&number) = self.names.now.get(path) {
            return number;
        }
        let number = self.next_file;
        self.next_file += 1;
        self.names.set(path, Some(number));
        self.files.insert(number, FileState::default());
        number
    }

    pub(super) fn check_power(&self) -> io::Result<()> {
        if self.power_is_cut { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
    }

    /// Counts a call and decides its fate.
    pub(super) fn begin_call(&mut self, operation: IoOperation) -> Option<SimFailure> {
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
    pub(super) fn attempt(
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

    pub(super) fn write(
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
    pub(super) fn extend(&mut self, file: u64, end: usize, events: &mut Vec<u64>) -> Result<(), i32> {
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
    pub(super) fn record(&mut self, file: u64, change: Change, events: &mut Vec<u64>) {
        let id = self.next_event;
        self.next_event += 1;
        let state = self.files.get_mut(&file).expect("open files exist");
        change.apply(&mut state.now);
        state.unsynced.push(Event { id, change, completed: false });
        events.push(id);
    }

    /// Notes that the caller has been told of these changes.
    pub(super) fn mark_completed(&mut self, file: u64, events: &[u64]) {
        if let Some(state) = self.files.get_mut(&file) {
            for event in &mut state.unsynced {
                event.completed |= events.contains(&event.id);
            }
        }
    }

    /// How long the next operation takes.
    pub(super) fn latency(&mut self) -> Duration {
        let Some((least, most)) = self.latency else { return Duration::ZERO };
        let span_ns = u64::try_from((most - least).as_nanos()).unwrap_or(u64::MAX);
        least + Duration::from_nanos(self.random.below(span_ns.saturating_add(1)))
    }

    /// Makes durable which names there are in the folder of `path`.
    pub(super) fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
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
            match progress.advance(&sync, End { granule: 1, missing_bytes_max: 0 }, attempted) {
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
    pub(super) fn reclaim(&mut self, number: u64) {
        let unused = self.files.get(&number).is_some_and(|file| file.writers + file.readers == 0);
        if unused && !self.names.may_name(number) {
            self.files.remove(&number);
        }
    }
}
