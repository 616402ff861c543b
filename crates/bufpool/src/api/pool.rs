//! The pool: frames shared by files and tenants.

use std::fmt;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bufpool_policies::planner::ReadAhead;
use bufpool_policies::{Allocation, DEFAULT_TENANT, Directory, DirectoryOptions};
use crossbeam::utils::CachePadded;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::api::file_stats::FileStats;
use crate::api::options::{FILES_MAX, FileOptions, MemorySplit, PoolOptions, check_dirty_limit};
use crate::api::report::{Report, on_one_line};
use crate::api::stats::Stats;
use crate::api::tenant_options::TenantOptions;
use crate::api::{file_stats, invariants, stats};
use crate::engine::log::LogLink;
use crate::engine::recorder::Event;
use crate::error::{Error, ErrorKind, Result};
use crate::files::shared::{FileParts, FileShared};
use crate::handle::file::File;
use crate::handle::pool::PoolHandle;
use crate::handle::tenant::Tenant;
use crate::hits::fast_path::{FastPool, PoolTag};
use crate::hits::filter::HitFilter;
use crate::io::run::run_pages;
use crate::io::{
    self, Alignment, Backend, Capabilities, FileIdentity, FileOpen, Foreign, IoOptions, IoReport, Source,
    Started,
};
use crate::memory::arena::Arena;
use crate::memory::frame::FrameTable;
use crate::memory::lease::FrameLease;
use crate::memory::reserve::{HookBuffers, Reserve};
use crate::owner::Owner;
use crate::page::table::PageTableBudget;
use crate::policy::ahead::{Ahead, AheadLimits};
use crate::policy::engine_code::EngineCode;
use crate::policy::hint_lists::DroppedLists;
use crate::policy::mutex::PolicyMutex;
use crate::policy::pricing::Pricing;
use crate::policy::state::{PolicyParts, PolicyState};
use crate::policy::tenant_entry::Managers;
use crate::state::aside::AsideFrames;
use crate::state::flushes::Flushes;
use crate::state::plans::PlansWaiting;
use crate::state::shared::PoolShared;
use crate::state::write_back::WriteBack;
use crate::sync::deadline_after;
use crate::thread::holds::HoldsPlace;
use crate::tier::Attachment;
use crate::tier::admission::Admission;
use crate::tier::link::TierLink;
use crate::wakers::WakerThread;
use crate::write::checkpoint::Checkpoint;
use crate::write::closing::Closing;
use crate::write::victims::Victims;
use crate::write::writer;

/// A pool of page frames. Cloning gives another handle to the same pool.
///
/// Files and tenants keep their pool alive too. When the last of all handles is dropped without
/// [`close`](Pool::close), dirty pages are written as by a checkpoint, but errors are not reported; a thread
/// that is panicking writes nothing.
///
/// # In the child of a fork
///
/// A pool belongs to the process that opened it. In a child that is forked from it, every call on the pool's
/// handles that can fail fails with [`ErrorKind::ForkedChild`], futures included. [`stats`](Pool::stats) and
/// [`report`](Pool::report) have sizes and no counts, [`io`](Pool::io) says why,
/// [`min_dirty_lsn`](Pool::min_dirty_lsn) is none, [`Tenant::still`] is false, a prefetch begins nothing.
/// Guards that were held when the process forked show zeros, and what is written through them stays with the
/// child. Dropping guards, pins, futures and handles does nothing: the memory goes when the child ends or
/// executes another program. So do the descriptors that it has inherited, which after the parent's death
/// would still hold the locks of files.
///
/// The child may open a pool of its own if no other thread of the parent was in a call of this crate when it
/// forked. A fork from within a call, that is by a hook, a log, a recorder or a manager, may be followed only
/// by executing another program or `_exit`. All this takes Linux 4.14; before, an access in the child may end
/// it by a signal. Where the system promises no more memory than it has (`vm.overcommit_memory` 2), a fork
/// counts the pool's memory once more; spawning by `vfork` or `posix_spawn` does not.
#[derive(Clone)]
pub struct Pool {
    shared: PoolHandle,
}

impl PoolOptions {
    /// Opens the pool: maps its memory, chooses the I/O backend, starts the background writer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PageSize`], [`ErrorKind::Memory`], [`ErrorKind::InvalidOptions`] for the values given;
    /// [`ErrorKind::IoUnavailable`] if a required backend is not available; [`ErrorKind::Io`] if memory
    /// cannot be mapped or the background writer cannot be started; those of the tier.
    pub fn open(self) -> Result<Pool> {
        self.check()?;
        let io = IoOptions {
            io: self.io,
            depth: self.io_depth,
            saturation_depth: self.saturation_depth,
            sqpoll_idle_ms: self.sqpoll_idle_ms,
            iopoll: self.iopoll,
            ..IoOptions::default()
        };
        let started = io::start(&io).map_err(|error| {
            let error = Error::with_source(ErrorKind::IoUnavailable, "open pool", error);
            error.with_prefix("io_uring, which Io::Require asks for, is not available")
        })?;
        Pool::open_on(self, started)
    }

    /// As [`open`](Self::open), on a simulated device: files are the device's, and [`io`](Self::io) is of no
    /// effect.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[cfg(any(test, feature = "sim"))]
    pub fn open_on(self, device: &crate::io::sim::SimDevice) -> Result<Pool> {
        self.check()?;
        Pool::open_on(self, io::start_sim(device))
    }
}

impl Pool {
    /// A pool of files that `started` opens.
    pub(crate) fn open_on(mut options: PoolOptions, started: Started) -> Result<Self> {
        const OPERATION: &str = "open pool";
        let split = options.split_memory()?;
        let owner = Owner::new().map_err(|error| Error::from_io(OPERATION, error))?;
        let (memory, free) = PoolMemory::new(&split, options.page_bytes, &*started.backend)?;
        let (frames, spares) = (split.frames, memory.reserve.frames() as u32);
        let filter = HitFilter::new(frames + spares);
        let is_recording = options.recorder.is_some();
        let recorder = options.recorder.take();
        let recorder = recorder.map(|recorder| Box::new(EngineCode::new(owner.clone(), recorder)) as _);
        let mut directory = directory_of(&options, frames, spares)?;
        let tier = open_tier(&mut options, frames, &started)?;
        if tier.is_some() {
            directory.watch_departures();
        }
        let policy = PolicyState::new(PolicyParts {
            directory,
            free,
            spares,
            filter: filter.clone(),
            managers: managers_of(&options),
            tells_sites_apart: options.call_sites,
            ahead: ahead_of(&options),
            promotes_from: tier.clone().filter(|tier| tier.promotes()),
            pricing: pricing_of(&options),
            recorder,
        });
        let parts = PoolParts { owner, memory, filter, is_recording, policy, tier };
        let shared = parts.into_shared(options, started);
        if !shared.is_immediate {
            let started = writer::start(&shared);
            started.map_err(|error| Error::from_io(OPERATION, error))?;
        }
        Ok(Self { shared: PoolHandle::new(shared) })
    }

    /// Opens the file at `path`, a regular file or a block device, and locks it: exclusively for writing,
    /// shared for reading. A file whose handles were all dropped is still open in the pool, and a caller
    /// that opens it with the same options gets it back with its cached pages. [`File`] says what else
    /// counts as a handle.
    ///
    /// The path is looked up once. Whatever happens to the path, the file's name or the working directory
    /// later, the pool keeps to the file that was opened. It takes two descriptors, one of the file and one
    /// of its folder. If the file may be new, its folder is synced.
    ///
    /// # Errors
    /// [`ErrorKind::FileAlreadyOpen`] if the same inode is open in this pool, with handles or with other
    /// options; [`ErrorKind::NotFound`], [`ErrorKind::PermissionDenied`]; [`ErrorKind::AlreadyExists`] with
    /// [`FileOptions::create_new`], and [`ErrorKind::InvalidOptions`] with that and `read_only`;
    /// [`ErrorKind::FileLocked`] if a conflicting lock is held, in this process or another, for a fifth of a
    /// second;
    /// [`ErrorKind::LatchTimeout`] if other files are being opened for longer than `latch_wait_ms`;
    /// [`ErrorKind::FileLength`] if the length is not a multiple of the page size; [`ErrorKind::Alignment`]
    /// if direct I/O on the file needs larger pages; [`ErrorKind::IoUnavailable`] if direct I/O is required
    /// and impossible; [`ErrorKind::Unsupported`] for a directory, FIFO, socket or character device, which
    /// are not waited for; [`ErrorKind::NameChanged`] if the file may be new, and its path leads to no entry
    /// of a folder that could be synced or no longer to the file; [`ErrorKind::PoolClosed`],
    /// [`ErrorKind::Io`].
    pub fn open_file(&self, path: impl AsRef<Path>, options: FileOptions) -> Result<File> {
        const OPERATION: &str = "open file";
        let path = path.as_ref();
        let name = path.display().to_string();
        let _one_at_a_time = self.lock_opening(OPERATION, &name)?;
        if let Some(file) = self.open_already(path, &options, &name, Sharing::WithNobody)? {
            return Ok(file);
        }
        self.open_new(path, &options, name)
    }

    /// As [`open_file`](Self::open_file), but returns another handle if the file is open in this pool with
    /// the same options. Any number of threads may do this at a time.
    ///
    /// # Errors
    ///
    /// As [`open_file`](Self::open_file); [`ErrorKind::FileAlreadyOpen`] only if the file is open with other
    /// options, and the error names one.
    pub fn open_or_share(&self, path: impl AsRef<Path>, options: FileOptions) -> Result<File> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let _one_at_a_time = self.lock_opening("open file", &name)?;
        match self.open_already(path, &options, &name, Sharing::WithAll)? {
            Some(file) => Ok(file),
            None => self.open_new(path, &options, name),
        }
    }

    /// Makes opens take turns. Otherwise one could find the file locked by another open of this pool that has
    /// not yet registered it.
    fn lock_opening(&self, operation: &'static str, name: &str) -> Result<MutexGuard<'_, ()>> {
        self.shared.check_open(operation)?;
        let until = deadline_after(self.shared.latch_wait);
        self.shared.opening.try_lock_until(until).ok_or_else(|| {
            let limit = self.shared.latch_wait.as_millis();
            let message = format!("other files were being opened for longer than latch_wait_ms = {limit}");
            Error::new(ErrorKind::LatchTimeout, operation, message).in_file(name)
        })
    }

    fn open_new(&self, path: &Path, options: &FileOptions, name: String) -> Result<File> {
        const OPERATION: &str = "open file";
        let how = how_to_open(&self.shared, options);
        if how.create_new && how.read_only {
            let message = "a new file that is read only would stay empty, expected create_new or read_only";
            return Err(Error::new(ErrorKind::InvalidOptions, OPERATION, message).in_file(&name));
        }
        let io = self.shared.opener.open(path, &how);
        let io = io.map_err(|error| error.into_error(OPERATION, &name))?;
        let registered = self.register(Arc::clone(&io), name, options);
        if registered.is_err()
            && how.create_new
            && let Some(made) = io.entry()
        {
            // The first failure is the one to tell of.
            let _ = made.remove().and_then(|()| made.sync_folder());
        }
        registered
    }

    /// Takes over an open file, as [`open_file`](Self::open_file). The descriptor must allow reading, and
    /// writing unless the options say read-only, and must not append. Its O_DIRECT is set as the options say,
    /// and its O_NONBLOCK is cleared; others that share it must not change its flags.
    ///
    /// The file has no name that the pool knows: [`File::remove`] is refused, and [`File::reopen`] keeps to
    /// the descriptor. Of the options, `create` and `create_new` are of no effect.
    ///
    /// # Errors
    ///
    /// As [`open_file`](Self::open_file), and [`ErrorKind::Descriptor`] if the descriptor was opened with
    /// O_PATH, with O_APPEND, or without O_RDWR; for reading only, O_RDONLY is allowed as well.
    pub fn open_fd(&self, fd: OwnedFd, options: FileOptions) -> Result<File> {
        const OPERATION: &str = "open file";
        let name = format!("fd {}", std::os::fd::AsRawFd::as_raw_fd(&fd));
        let _one_at_a_time = self.lock_opening(OPERATION, &name)?;
        let how = how_to_open(&self.shared, &options);
        let fd = std::fs::File::from(fd);
        if let Ok(metadata) = fd.metadata() {
            // The file of a pool is locked by the pool itself, so its lock would be refused.
            let identity = FileIdentity::of(&metadata);
            let policy = self.wait_for_leaving(identity);
            if let Some(open) = policy.files.iter().find(|file| file.identity == identity) {
                return Err(already_open(&name, &open.name));
            }
        }
        let io = self.shared.opener.adopt(fd.into(), &how);
        let io = io.map_err(|error| error.into_error(OPERATION, &name))?;
        self.register(io, name, &options)
    }

    /// Opens a file whose pages live in an engine's own [`Source`]. Errors call it by the source's
    /// [`note`](Source::note). Of the options, `create`, `create_new` and `direct` are of no effect.
    ///
    /// It behaves as any other file. [`File::truncate`] sets the source's length, and [`File::extend`]
    /// allocates. [`File::reopen`] drops what the source caches and takes the length that it then has.
    /// [`File::close`] lets go of the source. [`File::remove`] is refused, as for a file without a name:
    /// what the source stores is its maker's to remove. A file whose handles were all dropped is still open
    /// in the pool, and a caller that opens the same source (the same `Arc`) with the same options gets it
    /// back.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::FileAlreadyOpen`] if a source with this identity is open in this pool;
    /// [`ErrorKind::ReadOnly`] if it takes no writes and the options do not say read-only;
    /// [`ErrorKind::FileLength`] if its length is no multiple of the page size; [`ErrorKind::Unsupported`]
    /// with [`FileOptions::bytes`], because a source has whole pages; [`ErrorKind::Alignment`] if it needs
    /// larger pages; [`ErrorKind::Io`] if its length cannot be told; [`ErrorKind::PoolClosed`].
    ///
    /// # Panics
    ///
    /// If the source's `identity`, `capabilities` or `note` panics.
    pub fn open_source(&self, source: Arc<dyn Source>, options: FileOptions) -> Result<File> {
        self.shared.check_open("open file")?;
        let foreign = Foreign::new(source);
        let name = foreign.note();
        if options.bytes {
            let message = "a source has whole pages, expected no FileOptions::bytes";
            return Err(Error::new(ErrorKind::Unsupported, "open file", message).in_file(&name));
        }
        let is_it = |open: &FileShared| open.io("open file").is_ok_and(|io| foreign.is_in(&*io));
        // Of no effect on a source.
        let options = FileOptions { direct: None, ..options };
        if let Some(found) = self.find_open(foreign.identity(), &options, Sharing::WithNobody, is_it) {
            return found.map_err(|open_as| already_open(&name, &open_as));
        }
        self.register(Arc::new(foreign), name, &options)
    }

    /// Options of a new tenant, to be opened by [`TenantOptions::open`]. The name is for reports, and need
    /// not be unique.
    pub fn tenant(&self, name: impl Into<String>) -> TenantOptions {
        TenantOptions::new(self.shared.clone(), name.into())
    }

    /// The tenant for engines without tenants of their own: number 0, without floor or cap, managed as the
    /// pool's options say.
    pub fn default_tenant(&self) -> Tenant {
        Tenant::new(self.shared.clone(), DEFAULT_TENANT, "default".into(), None)
    }

    /// Makes durable, in all files, what was dirty when the call began. Waits for the writes and syncs.
    /// Concurrent writers go on; what they change meanwhile may or may not be written.
    ///
    /// # Errors
    ///
    /// The first failure; other files are written all the same. As [`File::flush`].
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.check_open("checkpoint")?;
        Checkpoint::of(&self.shared).checkpoint()
    }

    /// Changes the limit of [`PoolOptions::dirty_limit_percent`], and returns at once. Lowered before a
    /// planned shutdown, or before a checkpoint that should be short, it has the background writer clean most
    /// of what [`close`](Self::close) or [`checkpoint`](Self::checkpoint) would have to write. Of no effect
    /// in deterministic mode, which has no background writer.
    ///
    /// # Errors
    ///
    /// If `percent` is not from 1 to 100, or the pool is closed.
    pub fn set_dirty_limit_percent(&self, percent: u8) -> Result<()> {
        const OPERATION: &str = "set dirty limit";
        self.shared.check_open(OPERATION)?;
        check_dirty_limit(percent, OPERATION)?;
        let limit = percent_of(self.frames(), percent);
        self.shared.dirty_limit.store(limit, Ordering::Relaxed);
        if self.shared.counters.dirty_frames.load(Ordering::Relaxed) > limit {
            self.shared.write_back.kick();
        }
        Ok(())
    }

    /// A log sequence number at which the engine's redo must begin: no change that may be missing on the
    /// device was logged before it. None if nothing is dirty or written and not synced, and without a log. It
    /// covers changes that are logged during the call, too, except if it is none: that says nothing of them,
    /// and redo begins where the log ended before the call. Looks at every frame, under the policy lock for
    /// about a thousand of them at a time.
    ///
    /// Pages that are latched exclusively count, because their record may have been appended already. Changes
    /// that were written when pages left count until their file is synced, as by [`File::flush`],
    /// [`File::flush_page`] of any page, or [`checkpoint`](Self::checkpoint). Those that a failed write or
    /// sync may have lost count until the file is reopened, so an engine asks before it does that.
    pub fn min_dirty_lsn(&self) -> Option<u64> {
        self.shared.min_dirty_lsn()
    }

    /// Writes everything, makes it durable, closes all files and stops the pool's threads. Other handles
    /// find the pool closed.
    ///
    /// # Errors
    ///
    /// The first failure. A poisoned file is closed all the same. After any other failure, as that of a page
    /// which stays latched or is pinned, no file is closed and the pool stays open; other threads may have
    /// had to wait, but notice nothing else; as [`File::close`]. [`ErrorKind::LatchTimeout`] also if another
    /// thread is closing the pool for longer than `latch_wait_ms`; [`ErrorKind::PoolClosed`].
    pub fn close(self) -> Result<()> {
        close(&self.shared)
    }

    /// Counts, as data. Costs a look at each tenant, context, stream and thread, and allocates. The policy
    /// lock is held for a few of them at a time, so that no miss waits long.
    pub fn stats(&self) -> Stats {
        stats::take(&self.shared)
    }

    /// Counts, as text, whose tables and columns [`Report`] explains; costs as much as
    /// [`stats`](Self::stats) and [`files`](Self::files).
    pub fn report(&self) -> Report {
        Report { stats: stats::take(&self.shared), files: self.files() }
    }

    /// The open files, in the order in which they were opened: those that nobody has a handle of, too. Costs
    /// a look at each frame, without a lock, so counts of frames may miss what other threads did meanwhile.
    /// The policy lock is held for a step per file. Empty in the child of a fork.
    ///
    /// ```
    /// # fn run(pool: &bufpool::Pool) {
    /// for file in pool.files().iter().filter(|file| file.handles == 0 && file.dirty_frames > 0) {
    ///     println!("{}: nobody uses it, {} dirty pages", file.name, file.dirty_frames);
    /// }
    /// # }
    /// ```
    pub fn files(&self) -> Vec<FileStats> {
        file_stats::take(&self.shared)
    }

    /// The I/O backend, its flags, and the reason for each step down; and how each open file is accessed.
    pub fn io(&self) -> IoReport {
        if !self.shared.owner.may_call() {
            let steps_down = vec![self.shared.owner.refusal()];
            return IoReport { backend: "none", steps_down, ..IoReport::default() };
        }
        let mut report = self.shared.backend.report();
        // A source may be the engine's code, which is not called under the policy lock.
        let files: Vec<_> = self.shared.policy.lock().files.iter().cloned().collect();
        for file in files {
            if let Ok(io) = file.io("report") {
                let Capabilities { alignment, run_bytes, requests_in_flight, .. } = io.capabilities();
                let Alignment { offset_bytes, memory_bytes } = alignment;
                let multiples =
                    format!("offsets in multiples of {offset_bytes} bytes, memory of {memory_bytes}");
                let transfers = format!("transfers of {run_bytes} bytes, {requests_in_flight} at a time");
                let file = format!("file {}: {}, {multiples}; {transfers}", file.name, io.note());
                report.features.push(on_one_line(&file));
            }
        }
        report
    }

    /// How many frames pages may take; the frames of the clean reserve come on top.
    pub fn frames(&self) -> u32 {
        self.shared.frames_count
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.shared.page_bytes
    }

    /// For unit tests.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> &PoolShared {
        &self.shared
    }

    /// Recounts the pool's state and panics where it contradicts itself. For tests, while no other thread
    /// uses the pool.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        invariants::check(&self.shared);
    }

    /// The file at `path`, if it is open in this pool. None if the options want a new one.
    fn open_already(
        &self,
        path: &Path,
        options: &FileOptions,
        name: &str,
        sharing: Sharing,
    ) -> Result<Option<File>> {
        if options.create_new {
            return Ok(None);
        }
        let Some(identity) = self.shared.opener.identify(path) else { return Ok(None) };
        let found = self.find_open(identity, options, sharing, |_| true);
        found.transpose().map_err(|open_as| already_open(name, &open_as))
    }

    /// The file of this identity, if one is open in this pool. It is returned if nobody else has a handle of
    /// it or `sharing` allows that, if it was opened with the same options, and if `is_it` holds. Otherwise
    /// the error says what it is open as.
    fn find_open(
        &self,
        identity: FileIdentity,
        options: &FileOptions,
        sharing: Sharing,
        is_it: impl FnOnce(&FileShared) -> bool,
    ) -> Option<Result<File, String>> {
        let policy = self.wait_for_leaving(identity);
        let open = policy.files.iter().find(|file| file.identity == identity)?;
        if open.is_closed() {
            return Some(Err(format!("{}, which is being closed", open.name)));
        }
        let difference = difference(open, options);
        let may_share = sharing == Sharing::WithAll || !open.has_handles();
        Some(match difference {
            None if may_share && is_it(open) => Ok(File::new(self.shared.clone(), Arc::clone(open))),
            Some(option) if may_share => Err(format!("{}, with another option `{option}`", open.name)),
            _ => Err(open.name.clone()),
        })
    }

    /// Waits until no file of this identity is on its way out of the pool, at most for `latch_wait_ms`.
    /// Returns with the policy lock.
    fn wait_for_leaving(&self, identity: FileIdentity) -> impl Deref<Target = PolicyState> {
        let until = deadline_after(self.shared.latch_wait);
        loop {
            let policy = self.shared.policy.lock();
            let leaving = policy.files.iter().find(|file| file.identity == identity && file.is_closed());
            let Some(leaving) = leaving.filter(|_| Instant::now() < until).map(Arc::clone) else {
                return policy;
            };
            drop(policy);
            leaving.wait_for_operation(until);
        }
    }

    fn register(&self, io: Arc<dyn Source>, name: String, options: &FileOptions) -> Result<File> {
        let (pages, bytes) = self.shared.check_file(&*io, &name, options.bytes, "open file")?;
        if options.bytes && self.shared.hooks.as_ref().is_some_and(|hooks| hooks.changes_bytes()) {
            let message = "hooks change pages as they are written, of which the last one is cut at the file's end; expected no FileOptions::bytes";
            return Err(Error::new(ErrorKind::Unsupported, "open file", message).in_file(&name));
        }
        let (identity, capabilities) = (io.identity(), io.capabilities());
        if !options.read_only && !capabilities.writable {
            let message = "its source takes no writes, expected FileOptions::read_only(true)";
            return Err(Error::new(ErrorKind::ReadOnly, "open file", message).in_file(&name));
        }
        let end = check_end(options, &capabilities, bytes, self.page_bytes() as u64);
        end.map_err(|message| Error::new(ErrorKind::FileLength, "open file", message).in_file(&name))?;
        let mut policy = self.shared.policy.lock();
        self.shared.check_open("open file")?;
        if let Some(open) = policy.files.iter().find(|file| file.identity == identity) {
            return Err(already_open(&name, &open.name));
        }
        let id = policy.files.next_id();
        if id.0 >= FILES_MAX {
            let message = format!("{FILES_MAX} files were opened in the life of this pool, expected no more");
            return Err(Error::new(ErrorKind::Unsupported, "open file", message).in_file(&name));
        }
        let shared = Arc::new(FileShared::new(FileParts {
            id,
            name,
            identity,
            fixed_length: capabilities.fixed_length,
            run_pages: capabilities.run_pages(self.page_bytes()),
            read_only: options.read_only,
            optimistic: options.optimistic,
            tag: options.tag,
            direct: options.direct,
            poison_on_panic: options.poison_on_panic,
            lock: options.lock,
            epoch: epoch_of(options),
            pages,
            byte_length: options.bytes.then_some(bytes),
            io,
            frames: self.shared.arena.map(),
            owner: self.shared.owner.clone(),
        }));
        policy.record(Event::File { id: shared.id, name: &shared.name });
        policy.files.add(&shared);
        drop(policy);
        Ok(File::new(self.shared.clone(), shared))
    }
}

/// The parts of a pool, besides its options and its backend.
struct PoolParts {
    owner: Owner,
    memory: PoolMemory,
    filter: HitFilter,
    is_recording: bool,
    policy: PolicyState,
    tier: Option<Arc<TierLink>>,
}

impl PoolParts {
    /// Puts them together as what all handles of the pool share.
    fn into_shared(self, options: PoolOptions, started: Started) -> Arc<PoolShared> {
        let Self { owner, memory, filter, is_recording, policy, tier } = self;
        let PoolMemory { arena, reserve, hook_buffers } = memory;
        let Started { opener, backend } = started;
        let frames = policy.directory.frames();
        let spares = reserve.frames() as u32;
        let holds = HoldsPlace::take(is_recording);
        let waker_thread = WakerThread::new(owner.clone());
        let is_immediate = options.deterministic.is_some();
        let notes_hits = is_immediate || options.notes_hits;
        let write_back = Arc::new(WriteBack::new(reserve.frames()));
        Arc::new_cyclic(|me| PoolShared {
            me: Weak::clone(me),
            hot: FastPool::new(PoolTag::new(&arena.map(), holds.slot(), notes_hits), filter),
            holds,
            owner,
            page_bytes: options.page_bytes,
            is_immediate,
            is_recording,
            arena,
            frames: FrameTable::new(frames + spares),
            policy: CachePadded::new(PolicyMutex::new(policy)),
            logs: CachePadded::default(),
            dropped_lists: DroppedLists::default(),
            plans: PlansWaiting::new(),
            ahead_latency_ns: AtomicU64::new(0),
            ahead_submission_ns: AtomicU64::new(0),
            frames_count: frames,
            reserve: CachePadded::new(reserve),
            hook_buffers,
            log: LogLink::new(options.log),
            hooks: options.hooks,
            tier,
            opener,
            backend,
            write_back,
            flushes: Flushes::default(),
            page_table_budget: PageTableBudget::new(options.page_tables_bytes_max),
            counters: CachePadded::default(),
            latch_wait: Duration::from_millis(options.latch_wait_ms),
            frame_wait: Duration::from_millis(options.frame_wait_ms),
            dirty_limit: AtomicU64::new(percent_of(frames, options.dirty_limit_percent)),
            threads_max: options.threads_max,
            direct: options.direct,
            write_rest,
            closed: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            closing: Mutex::new(()),
            opening: Mutex::new(()),
            handles: AtomicUsize::new(0),
            aside: AsideFrames::default(),
            frame_waiters: AtomicU32::new(0),
            frame_lock: Mutex::new(()),
            waker_thread,
            frame_freed: Condvar::new(),
            write_ends: CachePadded::default(),
        })
    }
}

/// What a pool makes of its memory.
struct PoolMemory {
    arena: Arena,
    reserve: Reserve,
    hook_buffers: Arc<HookBuffers>,
}

impl PoolMemory {
    /// The memory of this split, and the frames that policies fill.
    fn new(split: &MemorySplit, page_bytes: usize, backend: &dyn Backend) -> Result<(Self, Vec<FrameLease>)> {
        let MemorySplit { frames, reserve, reserve_low, borrowed_max, hook_buffers } = *split;
        let all = frames + reserve + hook_buffers;
        let (arena, mut free) = Arena::new(all, page_bytes).map_err(|error| {
            let bytes = u64::from(all) * page_bytes as u64;
            let what = format!("mapping {bytes} bytes of memory for {all} frames failed");
            Error::from_io("open pool", error).with_prefix(what)
        })?;
        arena.register(backend);
        let hook_buffers = Arc::new(HookBuffers::new(free.split_off((frames + reserve) as usize)));
        let spares = free.split_off(frames as usize);
        let reserve = Reserve::new(frames + reserve, spares, reserve_low as usize, borrowed_max as usize);
        Ok((Self { arena, reserve, hook_buffers }, free))
    }
}

/// A directory of `frames` frames that policies fill and `spares` frames of the reserve.
fn directory_of(options: &PoolOptions, frames: u32, spares: u32) -> Result<Directory> {
    let directory = Directory::new(DirectoryOptions {
        frames,
        allocation: options.allocation,
        revocation: options.revocation,
        shared_pages: options.shared_pages,
    });
    let with_spares = directory.and_then(|mut directory| {
        directory.add_spares(spares)?;
        Ok(directory)
    });
    with_spares.map_err(|error| Error::new(ErrorKind::Memory, "open pool", error.to_string()))
}

fn managers_of(options: &PoolOptions) -> Managers {
    Managers {
        default: options.manager,
        seed: options.deterministic.unwrap_or(0),
        program_fuel_steps: options.program_fuel_steps,
        ..Managers::default()
    }
}

/// What comes in ahead. The deterministic mode guesses nothing from the pattern of accesses.
fn ahead_of(options: &PoolOptions) -> Ahead {
    let reads_ahead =
        options.read_ahead && options.prefetch_limit_percent > 0 && options.deterministic.is_none();
    let planner = || Box::new(ReadAhead::new(options.page_bytes, run_pages(options.page_bytes))) as _;
    let limits = AheadLimits {
        prefetch_percent: options.prefetch_limit_percent,
        hint_percent: options.hint_limit_percent,
        hints_in_flight: 2 * options.saturation_depth,
    };
    Ahead::new(reads_ahead.then(planner), limits)
}

fn pricing_of(options: &PoolOptions) -> Option<Pricing> {
    let has_prices = options.allocation == Allocation::CostBenefit;
    has_prices.then(|| Pricing::new(options.deterministic.is_some()))
}

/// The options' tier, which serves this pool from now on, if they name one.
fn open_tier(options: &mut PoolOptions, frames: u32, started: &Started) -> Result<Option<Arc<TierLink>>> {
    let Some((tier, policy, admit)) = options.tier.take() else { return Ok(None) };
    let attachment = Attachment {
        page_bytes: options.page_bytes,
        policy,
        frames,
        is_deterministic: options.deterministic.is_some(),
        seed: options.deterministic.unwrap_or(0),
        opener: Arc::clone(&started.opener),
        backend: Arc::clone(&started.backend),
    };
    let wait = Duration::from_millis(options.tier_wait_ms);
    let admission = Admission::new(admit, options.tier_bytes_per_second, frames);
    TierLink::open(tier, &attachment, frames, admission, wait).map(Some)
}

/// Who may have handles of a file that is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    WithNobody,
    WithAll,
}

/// An option with which the open file would not have been opened, if there is one.
fn difference(open: &FileShared, options: &FileOptions) -> Option<&'static str> {
    let epoch = epoch_of(options);
    let differences = [
        (open.is_read_only() != options.read_only, "read_only"),
        (open.optimistic != options.optimistic, "optimistic"),
        (open.byte_length.is_some() != options.bytes, "bytes"),
        (open.lock != options.lock, "lock"),
        (open.tag != options.tag, "tag"),
        (open.poison_on_panic != options.poison_on_panic, "poison_on_panic"),
        (open.direct != options.direct, "direct"),
        (open.own_epoch() != epoch, "epoch"),
    ];
    differences.into_iter().find_map(|(differs, option)| differs.then_some(option))
}

/// The engine's epoch, where it counts.
fn epoch_of(options: &FileOptions) -> Option<u64> {
    options.epoch.filter(|_| options.read_only && options.tag != 0)
}

fn how_to_open(pool: &PoolShared, options: &FileOptions) -> FileOpen {
    FileOpen {
        read_only: options.read_only,
        create: options.create,
        create_new: options.create_new,
        direct: options.direct.unwrap_or(pool.direct),
        page_bytes: pool.page_bytes,
        missing_bytes_max: if options.bytes { pool.page_bytes - 1 } else { 0 },
        lock: options.lock,
    }
}

/// See [`Pool::close`].
fn close(pool: &PoolShared) -> Result<()> {
    const OPERATION: &str = "close pool";
    pool.owner.check(OPERATION)?;
    let _one_at_a_time = pool.closing.try_lock_until(deadline_after(pool.latch_wait)).ok_or_else(|| {
        let limit = pool.latch_wait.as_millis();
        let message = format!("another thread was closing it for longer than latch_wait_ms = {limit}");
        Error::new(ErrorKind::LatchTimeout, OPERATION, message)
    })?;
    pool.check_open(OPERATION)?;
    pool.flushes.finish();
    let decided = || pool.closed.store(true, Ordering::Release);
    let flushed = loop {
        if let Some(flushed) = Closing::of(pool).close_files(OPERATION, decided)? {
            break flushed;
        }
    };
    pool.write_back.stop();
    // Pages on their way down get there, so that a persistent tier has them.
    pool.backend.drain();
    pool.tier.iter().for_each(|tier| tier.close());
    pool.backend.drain();
    flushed
}

/// Writes what is dirty, for a pool whose last handle is gone without its being closed.
fn write_rest(pool: &PoolShared) {
    Victims::of(pool).write_departures();
    // Nobody is left to hear of a failure; engines that care close their pool.
    let _ = Checkpoint::of(pool).checkpoint();
}

fn percent_of(frames: u32, percent: u8) -> u64 {
    u64::from(frames) * u64::from(percent) / 100
}

/// Fails if the last page of a file that is to be written lies partly beyond its end, and the file cannot
/// grow.
fn check_end(
    options: &FileOptions,
    capabilities: &Capabilities,
    bytes: u64,
    page_bytes: u64,
) -> std::result::Result<(), String> {
    let can_be_cut = options.bytes && !options.read_only;
    if !can_be_cut || !capabilities.fixed_length || bytes.is_multiple_of(page_bytes) {
        return Ok(());
    }
    Err(format!(
        "it has {bytes} bytes and cannot grow, so its last page cannot be written; expected a multiple of the page size {page_bytes}, no FileOptions::bytes, or FileOptions::read_only(true)"
    ))
}

fn already_open(name: &str, open_as: &str) -> Error {
    let message = format!("the same file is open in this pool as {open_as}");
    Error::new(ErrorKind::FileAlreadyOpen, "open file", message).in_file(name)
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} frames of {} bytes)", self.frames(), self.page_bytes())
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    /// A block device, whose last bytes are less than a page.
    #[test]
    fn a_page_that_cannot_be_written_is_refused_when_its_file_is_opened() {
        let device = Capabilities { writable: true, fixed_length: true, ..Capabilities::default() };
        let check = |options: FileOptions, bytes| check_end(&options, &device, bytes, 4096).is_ok();
        assert!(!check(FileOptions::new().bytes(true), 8704));
        assert!(check(FileOptions::new().bytes(true), 8192));
        assert!(check(FileOptions::new().bytes(true).read_only(true), 8704));
        assert!(check(FileOptions::new(), 8704));
    }
}
