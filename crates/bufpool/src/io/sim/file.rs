//! Files of a device: opened, and as sources.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use super::SimDevice;
use super::contents::Change;
use super::state::SECTOR_BYTES;
use crate::io::done::{Done, ReadRequest, WriteRequest};
use crate::io::error::IoError;
use crate::io::identity::FileIdentity;
use crate::io::name::{Entry, NameError};
use crate::io::open::{FileOpen, OpenError, Opener};
use crate::io::progress::{End, Next, Progress};
use crate::io::request::Action;
use crate::io::run::RUN_BYTES;
use crate::io::source::{Alignment, Capabilities, Source};

impl Opener for SimDevice {
    fn identify(&self, path: &Path) -> Option<FileIdentity> {
        let number = self.state.lock().names.now.get(path).copied()?;
        Some(self.identity_of(number))
    }

    fn open(&self, path: &Path, how: &FileOpen) -> Result<Arc<dyn Source>, OpenError> {
        let mut state = self.state.lock();
        state.check_power().map_err(OpenError::os("opening"))?;
        let creates = (how.create || how.create_new) && !how.read_only;
        if how.create_new && state.names.now.contains_key(path) {
            return Err(OpenError::Exists);
        }
        if !state.names.now.contains_key(path) && !creates {
            return Err(OpenError::os("opening")(io::Error::from_raw_os_error(libc::ENOENT)));
        }
        let number = state.number_of(path);
        if creates {
            state.sync_folder(path).map_err(OpenError::os("making the file's name durable"))?;
        }
        let file = state.files.get_mut(&number).expect("named files exist");
        if file.writers > 0 || (!how.read_only && file.readers > 0) {
            return Err(OpenError::Locked);
        }
        *(if how.read_only { &mut file.readers } else { &mut file.writers }) += 1;
        let &FileOpen { read_only, missing_bytes_max, .. } = how;
        let (device, path) = (self.clone(), path.to_owned());
        Ok(Arc::new(SimFile { device, number, path, read_only, missing_bytes_max }))
    }

    fn adopt(&self, _fd: OwnedFd, _how: &FileOpen) -> Result<Arc<dyn Source>, OpenError> {
        let error = io::Error::from(io::ErrorKind::Unsupported);
        Err(OpenError::Os { doing: "taking over a descriptor on the simulated device", error })
    }
}

impl SimDevice {
    /// The file that has this number.
    fn identity_of(&self, number: u64) -> FileIdentity {
        FileIdentity::from_inode(Arc::as_ptr(&self.state) as usize as u64, number)
    }
}

/// A file of a device, open.
pub(super) struct SimFile {
    device: SimDevice,
    number: u64,
    /// The name that it was opened by.
    path: PathBuf,
    read_only: bool,
    missing_bytes_max: usize,
}

impl SimFile {
    /// The simulated file that a source is, if it is one.
    pub(super) fn of(source: &dyn Source) -> Option<&Self> {
        (source as &dyn Any).downcast_ref()
    }

    /// Executes one action to its end, as backends for real files do: attempt after attempt.
    pub(super) fn execute(&self, action: &Action) -> Executed {
        let mut state = self.device.state.lock();
        let (mut progress, mut events) = (Progress::default(), Vec::new());
        loop {
            let attempted = state.attempt(self.number, action, progress.done(), &mut events);
            let end = End { granule: SECTOR_BYTES, missing_bytes_max: self.missing_bytes_max };
            let result = match progress.advance(action, end, attempted) {
                Next::Continue => continue,
                Next::Finished => Ok(()),
                Next::Fail(cause) => Err(action.failed(cause)),
            };
            return Executed { result, events, latency: state.latency() };
        }
    }

    /// Notes that the caller has been told of the end of an action, so that later syncs cover its changes.
    pub(super) fn mark_completed(&self, events: &[u64]) {
        self.device.state.lock().mark_completed(self.number, events);
    }

    /// Executes an action for a backend that does not know the device: at once, in the calling thread,
    /// without latency.
    fn run(&self, action: &Action, done: Done) {
        let Executed { result, events, latency: _ } = self.execute(action);
        self.mark_completed(&events);
        done.end(result);
    }
}

impl Source for SimFile {
    fn identity(&self) -> FileIdentity {
        self.device.identity_of(self.number)
    }

    fn capabilities(&self) -> Capabilities {
        let bytes = SECTOR_BYTES as u32;
        Capabilities {
            writable: !self.read_only,
            fixed_length: false,
            run_bytes: RUN_BYTES,
            // The largest number that options allow, because requests are executed at once.
            requests_in_flight: 4096,
            alignment: Alignment { memory_bytes: bytes, offset_bytes: bytes },
        }
    }

    fn note(&self) -> String {
        "simulated".into()
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.device.state.lock().files[&self.number].now.len() as u64)
    }

    fn set_len_bytes(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.device.state.lock();
        state.check_power()?;
        let mut events = Vec::new();
        state.record(self.number, Change::Length(bytes as usize), &mut events);
        state.mark_completed(self.number, &events);
        Ok(())
    }

    fn read(&self, request: ReadRequest) {
        let (action, done) = request.into_parts();
        self.run(&action, done);
    }

    fn write(&self, request: WriteRequest) {
        let (action, done) = request.into_parts();
        self.run(&action, done);
    }

    fn sync(&self, all_metadata: bool, done: Done) {
        self.run(&Action::Sync { all_metadata }, done);
    }

    fn allocate(&self, offset: u64, bytes: u64, done: Done) {
        self.run(&Action::Allocate { offset, bytes }, done);
    }

    fn drop_cache(&self) -> io::Result<()> {
        let mut state = self.device.state.lock();
        state.check_power()?;
        state.files.get_mut(&self.number).expect("open files exist").drop_cache();
        Ok(())
    }

    fn entry(&self) -> Option<&dyn Entry> {
        Some(self)
    }
}

impl Entry for SimFile {
    fn remove(&self) -> Result<(), NameError> {
        let expected = self.identity();
        let mut state = self.device.state.lock();
        state.check_power().map_err(NameError::os("unlink"))?;
        let found = state.names.now.get(&self.path).copied();
        if found != Some(self.number) {
            let found = found.map(|number| self.device.identity_of(number));
            return Err(NameError::Changed { found, expected });
        }
        state.names.set(&self.path, None);
        Ok(())
    }

    fn sync_folder(&self) -> Result<(), NameError> {
        let synced = self.device.state.lock().sync_folder(&self.path);
        synced.map_err(NameError::os("syncing the folder"))
    }
}

/// An action that is done, and whose caller has not been told.
pub(super) struct Executed {
    pub(super) result: Result<(), IoError>,
    /// Changes that a sync covers once the caller has been told.
    pub(super) events: Vec<u64>,
    pub(super) latency: Duration,
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
