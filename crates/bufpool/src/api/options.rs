//! Every setting of a pool and of a file: unit, default, range, and what it trades.

use std::sync::Arc;

use bufpool_policies::{Allocation, FileId, ManagerKind};

use crate::engine::hooks::PageHooks;
use crate::engine::log::Log;
use crate::engine::recorder::Recorder;
use crate::error::{Error, ErrorKind, Result};
use crate::io::options::{Direct, FileLock, Io};
use crate::io::run::run_pages;
use crate::memory::arena::{PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use crate::state::pace::BATCH_PAGES;
use crate::state::shared::{FRAMES_SPARE, frames_without_floor};
use crate::tier::{Tier, TierAdmit, TierPolicy};

/// The largest number of frames of a pool that policies fill. A page word has 24 bits for the number of a
/// frame; 4,096 numbers are left for the clean reserve, and a larger reserve leaves the policies fewer.
pub const FRAMES_MAX: u32 = bufpool_policies::FRAMES_MAX + 1 - (1 << 12);
/// The largest clean reserve, in frames.
const RESERVE_MAX: u32 = 1 << 20;
/// Operations in flight at most, per ring.
const DEPTH_MAX: u32 = 4096;
/// The largest number of files opened in the life of a pool.
pub(crate) const FILES_MAX: u32 = FileId::MAX.0;

/// Options of a pool. `PoolOptions::new().memory_bytes(256 << 20).open()?` is enough for most.
///
/// ```
/// # fn main() -> bufpool::Result<()> {
/// let pool = bufpool::PoolOptions::new().memory_bytes(1 << 20).page_bytes(4096).open()?;
/// assert!(pool.frames() >= 200);
/// # Ok(())
/// # }
/// ```
pub struct PoolOptions {
    pub(crate) memory: Memory,
    pub(crate) page_bytes: usize,
    pub(crate) threads_max: u32,
    pub(crate) manager: Option<ManagerKind>,
    pub(crate) program_fuel_steps: Option<u32>,
    pub(crate) deterministic: Option<u64>,
    pub(crate) io: Io,
    pub(crate) io_depth: u32,
    pub(crate) saturation_depth: u32,
    pub(crate) sqpoll_idle_ms: Option<u32>,
    pub(crate) iopoll: bool,
    pub(crate) direct: Direct,
    pub(crate) recorder: Option<Box<dyn Recorder>>,
    pub(crate) log: Option<Box<dyn Log>>,
    pub(crate) hooks: Option<Box<dyn PageHooks>>,
    pub(crate) latch_wait_ms: u64,
    pub(crate) frame_wait_ms: u64,
    pub(crate) dirty_limit_percent: u8,
    pub(crate) reserve_high_frames: Option<u32>,
    pub(crate) reserve_low_frames: Option<u32>,
    pub(crate) tier: Option<(Arc<dyn Tier>, TierPolicy, TierAdmit)>,
    pub(crate) tier_bytes_per_second: Option<u64>,
    pub(crate) tier_wait_ms: u64,
    pub(crate) read_ahead: bool,
    pub(crate) prefetch_limit_percent: u8,
    pub(crate) hint_limit_percent: u8,
    pub(crate) page_tables_bytes_max: u64,
    // For experiments and comparisons.
    pub(crate) allocation: Allocation,
    pub(crate) revocation: bool,
    pub(crate) shared_pages: bool,
    pub(crate) notes_hits: bool,
    pub(crate) call_sites: bool,
}

/// What a pool's memory is divided into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemorySplit {
    /// For pages, as policies see them.
    pub frames: u32,
    /// The clean reserve.
    pub reserve: u32,
    /// The low mark of the reserve.
    pub reserve_low: u32,
    /// Frames that the reserve may borrow of those of policies.
    pub borrowed_max: u32,
    /// Buffers in which hooks prepare pages for writing.
    pub hook_buffers: u32,
}

/// How the number of frames was given.
#[derive(Clone, Copy)]
pub(crate) enum Memory {
    /// Frames and reserve together.
    Bytes(u64),
    /// Exactly this many frames; the reserve comes on top.
    Frames(u32),
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            memory: Memory::Bytes(128 << 20),
            page_bytes: 8192,
            threads_max: 16,
            manager: Some(ManagerKind::Auto),
            program_fuel_steps: None,
            deterministic: None,
            io: Io::Auto,
            io_depth: 256,
            saturation_depth: 32,
            sqpoll_idle_ms: None,
            iopoll: false,
            direct: Direct::Prefer,
            recorder: None,
            log: None,
            hooks: None,
            latch_wait_ms: 10_000,
            frame_wait_ms: 1_000,
            dirty_limit_percent: 50,
            reserve_high_frames: None,
            reserve_low_frames: None,
            tier: None,
            tier_bytes_per_second: None,
            tier_wait_ms: 50,
            read_ahead: true,
            prefetch_limit_percent: 12,
            hint_limit_percent: 50,
            page_tables_bytes_max: 4 << 30,
            allocation: Allocation::LruSp,
            revocation: true,
            shared_pages: true,
            notes_hits: true,
            call_sites: true,
        }
    }
}

impl PoolOptions {
    /// The defaults: 128 MiB of memory, 8 KiB pages, 16 threads, LRU-SP, automatic managers, I/O chosen by
    /// probing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Memory for page frames, the clean reserve and, if there are [`hooks`](Self::hooks), their buffers
    /// together, in bytes; page tables and metadata come on top and are reported. What is left for frames
    /// must be a number that [`frames`](Self::frames) allows. Default 128 MiB. Overrides `frames`.
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory = Memory::Bytes(bytes);
        self
    }

    /// The exact number of frames that policies fill, from `2 * threads_max + 8` to [`FRAMES_MAX`]; the
    /// clean reserve and buffers of hooks come on top. Overrides [`memory_bytes`](Self::memory_bytes).
    pub fn frames(mut self, frames: u32) -> Self {
        self.memory = Memory::Frames(frames);
        self
    }

    /// Bytes of a page: a power of two from [`PAGE_BYTES_MIN`] to [`PAGE_BYTES_MAX`]. Default 8,192.
    pub fn page_bytes(mut self, bytes: usize) -> Self {
        self.page_bytes = bytes;
        self
    }

    /// How many threads use the pool at once, at least 1; each may need two frames, so frames must be at
    /// least `2 * threads_max + floors + 8`. Default 16.
    pub fn threads_max(mut self, threads: u32) -> Self {
        self.threads_max = threads;
        self
    }

    /// What manages tenants that say nothing else when they are opened, until their first directive; the
    /// default tenant is one of them. `None` leaves them to plain LRU order. Default [`ManagerKind::Auto`],
    /// which such tenants [share](crate::TenantOptions). The other kinds are for comparison; with them each
    /// tenant has its own manager.
    pub fn manager(mut self, manager: Option<ManagerKind>) -> Self {
        self.manager = manager;
        self
    }

    /// Steps that an event of a policy program may take, at least 1; see [`Program`](crate::Program). More:
    /// programs may search longer, and each search holds the policy lock for longer. Default: 4,096, and for
    /// questions 16 for each page of the tenant, if that is more.
    pub fn program_fuel(mut self, steps: u32) -> Self {
        self.program_fuel_steps = Some(steps);
        self
    }

    /// Deterministic mode, for tests, recordings and comparisons with the simulator. Every access reaches the
    /// directory at once, nothing runs in the background, a miss writes its dirty victim itself and waits,
    /// there is no clean reserve and no read-ahead, and random numbers come from `seed`. Hits are slower,
    /// since each takes the policy lock. Default off.
    pub fn deterministic(mut self, seed: u64) -> Self {
        self.deterministic = Some(seed);
        self
    }

    /// The I/O backend. Default [`Io::Auto`].
    pub fn io(mut self, io: Io) -> Self {
        self.io = io;
        self
    }

    /// The most operations in flight in the kernel, per ring, from 1 to 4,096; more are queued. Default 256.
    pub fn io_depth(mut self, operations: u32) -> Self {
        self.io_depth = operations;
        self
    }

    /// The number of reads in flight from which the device counts as saturated, from 1 to 4,096. While
    /// tenants compete, each may have its share of that number in flight, and further reads wait for their
    /// tenant's turn, so a tenant that reads a lot delays itself. A tenant that reads alone is not limited.
    /// Lower: small readers wait less beside greedy ones. Too low: the device does not reach its full speed.
    /// `bufbench io` shows from which depth on more brings little. Default 32.
    pub fn saturation_depth(mut self, reads: u32) -> Self {
        self.saturation_depth = reads;
        self
    }

    /// With io_uring, lets a kernel thread pick up submissions, which saves system calls and costs a core
    /// while there is I/O; it sleeps after this many idle milliseconds. Off by default.
    pub fn sqpoll_idle_ms(mut self, idle_ms: u32) -> Self {
        self.sqpoll_idle_ms = Some(idle_ms);
        self
    }

    /// With io_uring, polls the device for completions instead of taking interrupts, where files are direct
    /// and the device's driver has queues for it. Default false.
    pub fn iopoll(mut self, polls: bool) -> Self {
        self.iopoll = polls;
        self
    }

    /// Direct I/O for files that do not choose themselves. Default [`Direct::Prefer`].
    pub fn direct(mut self, direct: Direct) -> Self {
        self.direct = direct;
        self
    }

    /// Receives the trace of the run. Needs deterministic mode. Default none.
    pub fn recorder(mut self, recorder: Box<dyn Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// The engine's log: no page is written before its log records are durable. Default none.
    pub fn log(mut self, log: Box<dyn Log>) -> Self {
        self.log = Some(log);
        self
    }

    /// What is done to pages after they are read and before they are written. Default: nothing.
    pub fn hooks(mut self, hooks: Box<dyn PageHooks>) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// A second place for pages that leave memory, and which pages go there: see [`tier`](crate::tier). The
    /// tier's own memory is not part of the pool's, nor are its buffers, for at most 256 pages and 8 MiB, or
    /// for 8 pages if that is more. Default none.
    pub fn tier(mut self, tier: Arc<dyn Tier>, policy: TierPolicy, admit: TierAdmit) -> Self {
        self.tier = Some((tier, policy, admit));
        self
    }

    /// The most bytes a second that are offered to the tier, averaged over a tenth of a second. A limit
    /// leaves room for the tier's other users, or spares a drive that wears. In deterministic mode, where no
    /// time passes, nothing is offered under a limit. Default no limit.
    pub fn tier_bytes_per_second(mut self, bytes: u64) -> Self {
        self.tier_bytes_per_second = Some(bytes);
        self
    }

    /// The longest wait of a miss for the tier, in milliseconds; after that the page is read from its file.
    /// Default 50.
    pub fn tier_wait_ms(mut self, ms: u64) -> Self {
        self.tier_wait_ms = ms;
        self
    }

    /// The longest wait for a latch before it becomes an error, in milliseconds. Default 10,000.
    pub fn latch_wait_ms(mut self, ms: u64) -> Self {
        self.latch_wait_ms = ms;
        self
    }

    /// The longest wait for a frame when all are pinned, in milliseconds; the `_timeout` forms of access
    /// bring their own limit, and the `try_` forms do not wait. Default 1,000.
    pub fn frame_wait_ms(mut self, ms: u64) -> Self {
        self.frame_wait_ms = ms;
        self
    }

    /// The share of dirty frames, in per cent from 1 to 100, above which the background writer cleans pages
    /// even if no frame is needed. Lower: shorter checkpoints and evictions. Higher: fewer writes of pages
    /// that change often. Default 50.
    pub fn dirty_limit_percent(mut self, percent: u8) -> Self {
        self.dirty_limit_percent = percent;
        self
    }

    /// The size of the clean reserve, from 1 to 2^20 frames on top of [`frames`](Self::frames). A page that
    /// comes in takes a frame of the reserve in exchange for that of a dirty victim, so the miss does not
    /// wait for the victim's write. The background writer works until all of the reserve is free again. More:
    /// longer bursts of misses with dirty victims without a wait. Not in deterministic mode, which has no
    /// reserve.
    ///
    /// Default: one frame in 32, at least 4 and at most 2,048. Small pools have more: one frame in 16, as
    /// long as that is no more than twelve transfers of 256 KiB. While dirty victims leave as fast as they
    /// can be written, the reserve borrows frames of the pool, up to those of 24 transfers or an eighth of
    /// all frames.
    pub fn reserve_high_frames(mut self, frames: u32) -> Self {
        self.reserve_high_frames = Some(frames);
        self
    }

    /// The frames of the reserve that are kept for victims. The background writer's copies of pages ahead of
    /// their eviction, and the copies of flushes, take only what is free above this number. Below
    /// [`reserve_high_frames`](Self::reserve_high_frames). Default: a quarter of it.
    pub fn reserve_low_frames(mut self, frames: u32) -> Self {
        self.reserve_low_frames = Some(frames);
        self
    }

    /// Whether sequential and strided reads are recognised, per context, tenant and file, and read ahead.
    /// Never in deterministic mode. Default true.
    pub fn read_ahead(mut self, on: bool) -> Self {
        self.read_ahead = on;
        self
    }

    /// The share of the frames a tenant may own, in per cent from 0 to 50, for pages that came in ahead and
    /// were not accessed yet; 0 turns prefetching and read-ahead off. Higher: more and larger transfers in
    /// flight, and more to lose where the expectation is wrong. Default 12.
    pub fn prefetch_limit_percent(mut self, percent: u8) -> Self {
        self.prefetch_limit_percent = percent;
        self
    }

    /// The share of the frames a tenant may own, in per cent from 0 to 90, for pages that came in for lists
    /// of [disclosed reads](crate::Tenant::hint) and were not read yet; 0 turns hints off. Default 50.
    pub fn hint_limit_percent(mut self, percent: u8) -> Self {
        self.hint_limit_percent = percent;
        self
    }

    /// The most memory of all page tables together, in bytes: 8 for each page of each file, up to the highest
    /// page that is touched. [`ErrorKind::FileLength`] beyond. Default 4 GiB,
    /// enough for 4 TiB of 8 KiB pages.
    ///
    /// Each file reserves 1 GiB of addresses besides. Under a limit on the process's addresses (`RLIMIT_AS`)
    /// it reserves at most a quarter of what is left, so that all files leave a quarter of the limit to the
    /// rest of the process. It takes more as its pages are touched, down to a sixteenth of the limit.
    pub fn page_tables_bytes_max(mut self, bytes: u64) -> Self {
        self.page_tables_bytes_max = bytes;
        self
    }
}

/// Options for experiments and comparisons. An engine seldom has a reason to change them.
impl PoolOptions {
    /// How tenants share the frames. Default [`Allocation::LruSp`]; the others are for comparison.
    pub fn allocation(mut self, allocation: Allocation) -> Self {
        self.allocation = allocation;
        self
    }

    /// Whether a manager that keeps being wrong is suspended for a while, with its tenant's pages in LRU
    /// order meanwhile. This concerns directives, policy programs and managers of the engine's own. The
    /// automatic manager judges itself and is left alone. Default true.
    pub fn revocation(mut self, on: bool) -> Self {
        self.revocation = on;
        self
    }

    /// Whether a manager is kept from evicting a page that another tenant uses, and a page that comes back
    /// because of a wrong overrule belongs to the tenant whose manager made it. If not, such a page takes the
    /// frame that stayed in its place for the tenant that reads it, whatever floors and caps say. Default
    /// true.
    pub fn shared_pages(mut self, on: bool) -> Self {
        self.shared_pages = on;
        self
    }

    /// Whether hits are noted. If not, pages are replaced in the order in which they came in, and statistics
    /// count misses only. For measuring what noting costs, and for data that always fits. Deterministic mode
    /// notes all hits. Default true.
    pub fn note_hits(mut self, on: bool) -> Self {
        self.notes_hits = on;
        self
    }

    /// Whether accesses are told apart by call site and scope. If not, statistics have one context for each
    /// tenant and [class](crate::Page::class) of pages, and managers see one stream for each file and class.
    /// Default true.
    pub fn call_sites(mut self, on: bool) -> Self {
        self.call_sites = on;
        self
    }
}

impl PoolOptions {
    /// Whether each value is one of those allowed.
    pub(super) fn check(&self) -> Result<()> {
        let page_bytes = self.page_bytes;
        if !page_bytes.is_power_of_two() || !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes) {
            return Err(Error::new(
                ErrorKind::PageSize,
                "open pool",
                format!(
                    "page_bytes is {page_bytes}, expected a power of two from {PAGE_BYTES_MIN} to {PAGE_BYTES_MAX}"
                ),
            ));
        }
        let invalid = |message: &str| Err(Error::new(ErrorKind::InvalidOptions, "open pool", message));
        check_dirty_limit(self.dirty_limit_percent, "open pool")?;
        let limits = [
            ("prefetch_limit_percent", self.prefetch_limit_percent, 50),
            ("hint_limit_percent", self.hint_limit_percent, 90),
        ];
        for (name, percent, most) in limits {
            if percent > most {
                return invalid(&format!("{name} is {percent}, expected from 0 to {most}"));
            }
        }
        if self.threads_max == 0 {
            return invalid("threads_max is 0, expected at least 1");
        }
        if self.program_fuel_steps == Some(0) {
            return invalid("program_fuel is 0, expected at least 1 step");
        }
        for (name, depth) in [("io_depth", self.io_depth), ("saturation_depth", self.saturation_depth)] {
            if !(1..=DEPTH_MAX).contains(&depth) {
                return invalid(&format!("{name} is {depth}, expected from 1 to {DEPTH_MAX}"));
            }
        }
        if let Some(high) = self.reserve_high_frames
            && !(1..=RESERVE_MAX).contains(&high)
        {
            return invalid(&format!("reserve_high_frames is {high}, expected from 1 to {RESERVE_MAX}"));
        }
        if self.deterministic.is_some() && self.reserve_high_frames.or(self.reserve_low_frames).is_some() {
            return invalid("deterministic mode has no clean reserve, so its marks cannot be set");
        }
        if self.recorder.is_some() && self.deterministic.is_none() {
            return invalid("a recorder needs deterministic mode, since only there accesses have one order");
        }
        Ok(())
    }

    /// How these options divide the pool's memory.
    pub(crate) fn split_memory(&self) -> Result<MemorySplit> {
        let (frames, reserve, hook_buffers) = match self.memory {
            Memory::Frames(frames) => {
                let reserve = self.reserve_for(u64::from(frames));
                (u64::from(frames), reserve, self.hook_buffers_for(reserve))
            }
            Memory::Bytes(bytes) => {
                let total = bytes / self.page_bytes as u64;
                let reserve = self.reserve_for(total);
                let hook_buffers = self.hook_buffers_for(reserve);
                (total.saturating_sub(reserve + hook_buffers), reserve, hook_buffers)
            }
        };
        let needed = frames_without_floor(self.threads_max);
        if frames < needed || frames > u64::from(FRAMES_MAX) {
            return Err(Error::new(
                ErrorKind::Memory,
                "open pool",
                format!(
                    "{frames} frames of {} bytes, expected from {needed} (2 for each of threads_max = {} and {FRAMES_SPARE} more) to {FRAMES_MAX}",
                    self.page_bytes, self.threads_max
                ),
            ));
        }
        // Frames of the reserve need numbers, too.
        if frames + reserve > u64::from(bufpool_policies::FRAMES_MAX) {
            let message = format!(
                "reserve_high_frames is {reserve}, expected at most {} beside {frames} frames",
                u64::from(bufpool_policies::FRAMES_MAX) - frames
            );
            return Err(Error::new(ErrorKind::InvalidOptions, "open pool", message));
        }
        let reserve = reserve as u32;
        let reserve_low = self.reserve_low_frames.unwrap_or(reserve / 4);
        if reserve_low > 0 && reserve_low >= reserve {
            let message = format!(
                "reserve_low_frames is {reserve_low}, expected less than reserve_high_frames = {reserve}"
            );
            return Err(Error::new(ErrorKind::InvalidOptions, "open pool", message));
        }
        let (frames, hook_buffers) = (frames as u32, hook_buffers as u32);
        let borrowed_max =
            if reserve > 0 { self.reserve_limit(frames + reserve).saturating_sub(reserve) } else { 0 };
        Ok(MemorySplit { frames, reserve, reserve_low, borrowed_max, hook_buffers })
    }

    /// One clean frame in 32, at least 4 and at most 2,048. A small pool has up to twice as many, but no
    /// more than it takes to keep the device busy with runs of adjacent pages: eight transfers in flight,
    /// and four on their way between the device and misses. None in deterministic mode.
    fn reserve_for(&self, frames: u64) -> u64 {
        match self.reserve_high_frames {
            _ if self.deterministic.is_some() => 0,
            Some(high) => u64::from(high),
            None => {
                let transfers = 12 * run_pages(self.page_bytes) as u64;
                (frames / 32).max(transfers.min(frames / 16)).clamp(4, 2048)
            }
        }
    }

    /// The most frames that a reserve has together with those that it borrows, if the pool has `all` frames
    /// with the reserve. Twice the transfers of [`reserve_for`](Self::reserve_for), for devices that join
    /// neighbouring writes, but no more than an eighth of the frames.
    fn reserve_limit(&self, all: u32) -> u32 {
        (24 * run_pages(self.page_bytes) as u32).min(all / 8)
    }

    /// Buffers of hooks: one for each frame of the reserve, at least 4, and no more than pages are written
    /// together. None without hooks.
    fn hook_buffers_for(&self, reserve: u64) -> u64 {
        if self.hooks.is_some() { reserve.clamp(4, BATCH_PAGES as u64) } else { 0 }
    }
}

/// # Errors
///
/// If `percent` is not from 1 to 100.
pub(crate) fn check_dirty_limit(percent: u8, operation: &'static str) -> Result<()> {
    if (1..=100).contains(&percent) {
        return Ok(());
    }
    let message = format!("dirty_limit_percent is {percent}, expected from 1 to 100");
    Err(Error::new(ErrorKind::InvalidOptions, operation, message))
}

/// How a file is opened.
///
/// ```
/// let options = bufpool::FileOptions::new().create(true);
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Default, Debug)]
pub struct FileOptions {
    pub(crate) read_only: bool,
    pub(crate) create: bool,
    pub(crate) create_new: bool,
    pub(crate) direct: Option<Direct>,
    pub(crate) tag: u64,
    pub(crate) epoch: Option<u64>,
    pub(crate) optimistic: bool,
    pub(crate) bytes: bool,
    pub(crate) lock: FileLock,
    pub(crate) poison_on_panic: bool,
}

impl FileOptions {
    /// Opens an existing file for reading and writing, with direct I/O as the pool's options say.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens for reading only: the lock is shared, and every attempt to change a page is an error. Default
    /// false.
    pub fn read_only(mut self, on: bool) -> Self {
        self.read_only = on;
        self
    }

    /// Makes an empty file if there is none. Of no effect with [`read_only`](Self::read_only). Default false.
    pub fn create(mut self, on: bool) -> Self {
        self.create = on;
        self
    }

    /// Makes an empty file, and opens none that is there: [`ErrorKind::AlreadyExists`]. Whether there is one
    /// and the making are one step (O_EXCL), so of several processes or threads that try one succeeds. A
    /// symbolic link counts as a file, wherever it leads. If the call fails, the file that it has made is
    /// removed again. With this option [`create`](Self::create) is of no effect. Default false.
    pub fn create_new(mut self, on: bool) -> Self {
        self.create_new = on;
        self
    }

    /// Lets pages be read without a latch ([`Tenant::optimistic`](crate::Tenant::optimistic)); such a read
    /// writes to no memory that threads share. In return pages are written word by word through
    /// [`OptimisticWriteGuard`](crate::OptimisticWriteGuard), and never through `&mut [u8]`. Default false.
    pub fn optimistic(mut self, on: bool) -> Self {
        self.optimistic = on;
        self
    }

    /// Lets the file end within a page, for engines whose files have lengths in bytes
    /// ([`Tenant::write_at`](crate::Tenant::write_at), [`File::set_byte_len`](crate::File::set_byte_len)).
    /// In memory the rest of the last page is zeros; of a page that was [discarded](crate::File::discard) it
    /// may be what the file had there. A flush cuts the file to its length in bytes before it makes it
    /// durable; between flushes, and after a power cut, the file may have the whole page. Default false: a
    /// file whose length is no multiple of the page size is not opened.
    ///
    /// The pool cannot tell such a rest from bytes that others cut off the file while it is open. Of a page
    /// within which they have cut, the missing bytes read as zeros; reads of pages beyond it fail with
    /// [`ErrorKind::UnexpectedEof`]. The next flush that has anything of this file to make durable finds it
    /// too short, fails with the same kind, and poisons it. There is one exception: if a page at the old end
    /// was written back before, the file is as long again, with zeros where the others have cut.
    ///
    /// A flush gives back the space behind the length in bytes. So a file system whose blocks are smaller
    /// than pages may refuse, when it is full, a write of bytes that the file has: the whole last page is
    /// written.
    pub fn bytes(mut self, on: bool) -> Self {
        self.bytes = on;
        self
    }

    /// Poisons a page whose writer panics: one whose write guard is dropped by an unwinding thread that has
    /// borrowed the bytes mutably. What the writer has changed so far may be half a change, so nobody sees
    /// it and it is not written. Accesses and flushes of the page fail with [`ErrorKind::PagePoisoned`],
    /// those that already wait for it once `latch_wait_ms` is over; other pages are not affected. The page
    /// keeps its frame, and file and pool cannot be closed, until [`File::discard`](crate::File::discard),
    /// `truncate` or `remove` drops it; after that the page is as its file has it. Default false: the change
    /// stays as it is, and is flushed.
    ///
    /// A guard that was downgraded has ended its change. A guard that is taken while the thread unwinds
    /// already poisons nothing.
    pub fn poison_on_panic(mut self, on: bool) -> Self {
        self.poison_on_panic = on;
        self
    }

    /// The engine's own number for the file, which [`PageHooks`] are told. Default 0.
    pub fn tag(mut self, tag: u64) -> Self {
        self.tag = tag;
        self
    }

    /// The engine's own number for the contents of a file that is opened for reading only: the same number
    /// and the same [`tag`](Self::tag) mean the same contents, in every pool and at every time. Copies of
    /// its pages in a [tier](crate::tier) are then of use to other pools and after a restart. Ignored if the
    /// file is opened for writing, or has no tag, because different files could be taken for each other.
    /// Default: none.
    pub fn epoch(mut self, epoch: u64) -> Self {
        self.epoch = Some(epoch);
        self
    }

    /// What keeps other programs from the file while it is open. Default [`FileLock::Flock`].
    pub fn lock(mut self, lock: FileLock) -> Self {
        self.lock = lock;
        self
    }

    /// Direct I/O for this file, instead of what the pool's options say.
    pub fn direct(mut self, direct: Direct) -> Self {
        self.direct = Some(direct);
        self
    }
}
