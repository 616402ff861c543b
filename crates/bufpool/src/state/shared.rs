//! What all handles of a pool share: data, with what can be asked of it alone. The work is done in the rooms
//! above.

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bufpool_policies::{PageId, contained};
use crossbeam::utils::CachePadded;
use parking_lot::{Condvar, Mutex};

use crate::engine::hooks::{PageHooks, PageName};
use crate::engine::log::LogLink;
use crate::error::{Error, ErrorKind, Result};
use crate::files::shared::FileShared;
use crate::hits::fast_path::FastPool;
use crate::hits::log::{Logs, existing_ring, threads_ended};
use crate::io::options::Direct;
use crate::io::{Backend, Opener, Source};
use crate::memory::arena::Arena;
use crate::memory::frame::{FrameTable, WriteEnds};
use crate::memory::reserve::{HookBuffers, Reserve};
use crate::owner::Owner;
use crate::page::latch::Refusal;
use crate::page::table::PageTableBudget;
use crate::policy::claims::{ClaimRules, Dirty};
use crate::policy::hint_lists::DroppedLists;
use crate::policy::mutex::PolicyMutex;
use crate::policy::state::PolicyState;
use crate::state::aside::AsideFrames;
use crate::state::counters::Counters;
use crate::state::flushes::Flushes;
use crate::state::plans::PlansWaiting;
use crate::state::write_back::WriteBack;
use crate::thread::holds::HoldsPlace;
use crate::tier::TierRange;
use crate::tier::link::TierLink;
use crate::wakers::WakerThread;

/// Frames that belong to nobody's floor, beside those that threads need.
pub(crate) const FRAMES_SPARE: u32 = 8;

/// Frames that belong to nobody's floor: two for each thread, and [`FRAMES_SPARE`]. No pool has fewer.
pub(crate) fn frames_without_floor(threads_max: u32) -> u64 {
    2 * u64::from(threads_max) + u64::from(FRAMES_SPARE)
}

/// Logs that one miss, or one thread that begins, looks at in search of those of ended threads. More than
/// one, so that they are taken back faster than they are left.
const LOGS_LOOKED_AT: usize = 4;

/// What all handles of a pool share.
pub(crate) struct PoolShared {
    /// For operations that outlive the call that began them.
    pub me: Weak<PoolShared>,
    pub hot: FastPool,
    /// Where threads count their guards and pins.
    pub holds: HoldsPlace,
    pub owner: Owner,
    pub page_bytes: usize,
    /// Hits are applied at once: deterministic mode.
    pub is_immediate: bool,
    pub is_recording: bool,
    pub arena: Arena,
    pub frames: FrameTable,
    // Written by many threads, so away from what each access reads.
    pub policy: CachePadded<PolicyMutex<PolicyState>>,
    /// What is to be read ahead, and transfers of prefetched pages in flight.
    pub plans: PlansWaiting,
    /// How long such a transfer takes, queueing included; a moving average.
    pub ahead_latency_ns: AtomicU64,
    /// How long it takes to submit such a transfer; a moving average.
    pub ahead_submission_ns: AtomicU64,
    /// The hits of all threads. Locked after `policy`, if both.
    pub logs: CachePadded<Mutex<Logs>>,
    /// Lists of disclosed reads that are to be closed. Locked after `policy`.
    pub dropped_lists: DroppedLists,

    pub frames_count: u32,
    pub reserve: CachePadded<Reserve>,
    pub hook_buffers: Arc<HookBuffers>,
    pub log: LogLink,
    pub hooks: Option<Box<dyn PageHooks>>,
    pub tier: Option<Arc<TierLink>>,
    /// Opens files, whose bytes the backend moves.
    pub opener: Arc<dyn Opener>,
    pub backend: Arc<dyn Backend>,
    pub write_back: Arc<WriteBack>,
    pub flushes: Flushes,
    pub page_table_budget: PageTableBudget,
    pub counters: CachePadded<Counters>,
    pub latch_wait: Duration,
    pub frame_wait: Duration,
    /// Dirty frames above which the background writer does not rest.
    pub dirty_limit: AtomicU64,
    pub threads_max: u32,
    pub direct: Direct,
    /// Set under the policy lock, so that no file is opened afterwards.
    pub closed: AtomicBool,
    /// Held by the thread that closes the pool.
    pub closing: Mutex<()>,
    /// Held by the thread that opens a file by its path.
    pub opening: Mutex<()>,
    /// Writes what is dirty when the pool goes without having been closed.
    pub write_rest: fn(&PoolShared),
    /// How many [`PoolHandle`](crate::handle::pool::PoolHandle)s there are.
    pub handles: AtomicUsize,
    /// The last of them went with a panic, so nothing more is written.
    pub is_given_up: AtomicBool,

    /// Frames that optimistic readers have yet to leave.
    pub aside: AsideFrames,
    /// Misses that wait for a frame; see [`PoolShared::frame_may_be_free`]. A wake-up that comes between a
    /// miss's last look and its sleep is lost: no such sleep is longer than a poll of the search.
    pub frame_waiters: AtomicU32,
    pub frame_lock: Mutex<()>,
    /// Wakes futures.
    pub waker_thread: WakerThread,
    pub frame_freed: Condvar,
    // Locked at the end of each write, so away from what each access reads.
    pub write_ends: CachePadded<WriteEnds>,
}

impl PoolShared {
    /// Checks a file against the page size. Returns its numbers of pages and bytes.
    pub(crate) fn check_file(
        &self,
        io: &dyn Source,
        name: &str,
        ends_within_page: bool,
        operation: &'static str,
    ) -> Result<(u64, u64)> {
        let page_bytes = self.page_bytes as u64;
        let capabilities = io.capabilities();
        let alignment = capabilities.alignment;
        let needed = u64::from(alignment.offset_bytes.max(alignment.memory_bytes));
        if !page_bytes.is_multiple_of(needed) {
            let message = format!(
                "direct I/O on this file needs pages of a multiple of {needed} bytes, and the pool's have {page_bytes}; open it with Direct::Off or use larger pages"
            );
            return Err(Error::new(ErrorKind::Alignment, operation, message).in_file(name));
        }
        let bytes = io.len_bytes().map_err(|error| Error::from_io(operation, error).in_file(name))?;
        if !bytes.is_multiple_of(page_bytes) && !capabilities.fixed_length && !ends_within_page {
            let message = format!(
                "its length is {bytes} bytes, expected a multiple of the page size {page_bytes}, or FileOptions::bytes(true)"
            );
            return Err(Error::new(ErrorKind::FileLength, operation, message).in_file(name));
        }
        if bytes == 0 && capabilities.fixed_length {
            let message = "the block device has no bytes now, as one that is gone or has no medium";
            return Err(Error::new(ErrorKind::FileLength, operation, message).in_file(name));
        }
        let pages = if ends_within_page { bytes.div_ceil(page_bytes) } else { bytes / page_bytes };
        if pages > 1 << PageId::NUMBER_BITS {
            let message = format!("it has {pages} pages, expected at most 2^{}", PageId::NUMBER_BITS);
            return Err(Error::new(ErrorKind::FileLength, operation, message).in_file(name));
        }
        Ok((pages, bytes))
    }

    pub(crate) fn check_open(&self, operation: &'static str) -> Result<()> {
        self.owner.check(operation)?;
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::PoolClosed, operation, "the pool was closed"));
        }
        Ok(())
    }

    /// Applies the calling thread's hits, for a caller that holds the policy lock.
    pub(crate) fn drain_own_log_into(&self, policy: &mut PolicyState) {
        // A thread without a ring has no hits to drain, and the lock order forbids registering one here.
        if let Some(ring) = existing_ring(self.hot.serial) {
            policy.apply(ring);
        }
        self.dropped_lists.close(policy);
    }

    /// Applies all threads' hits, and forgets the logs of threads that have ended.
    pub(crate) fn drain_logs(&self, policy: &mut PolicyState) {
        self.logs.lock().drain(|ring| policy.apply(ring));
        self.dropped_lists.close(policy);
    }

    /// Takes back a few logs of threads that have ended.
    pub(crate) fn take_back_logs(&self, policy: &mut PolicyState) {
        if policy.hits.threads_ended != threads_ended() {
            let mut logs = self.logs.lock();
            logs.take_back(LOGS_LOOKED_AT, |ring| policy.apply(ring));
            policy.hits.threads_ended = logs.ended_seen();
        }
    }

    /// Notes, under the policy lock, whether there is something to read ahead.
    pub(crate) fn note_plans(&self, policy: &mut PolicyState) {
        if !self.is_immediate {
            policy.ask_for_wants();
        }
        self.note_plans_made(policy);
    }

    /// As [`note_plans`](Self::note_plans), without asking managers and lists of reads what they want.
    pub(crate) fn note_plans_made(&self, policy: &PolicyState) {
        if policy.has_wants() {
            self.plans.note();
        }
    }

    /// Gives back to the pool those of the frames set aside that nobody reads any more. Not under the policy
    /// lock.
    pub(crate) fn free_aside(&self) {
        let free = self.aside.take_free();
        if free.is_empty() {
            return;
        }
        let mut policy = self.policy.lock();
        for lease in free {
            self.frames.get(lease.frame()).readers_left();
            policy.directory.release(lease.frame());
            policy.free.put(lease);
        }
        drop(policy);
        self.frame_may_be_free();
    }

    /// Wakes the misses that wait for a frame, because one may have become free.
    pub(crate) fn frame_may_be_free(&self) {
        if self.frame_waiters.load(Ordering::Relaxed) > 0 && self.owner.is_here() {
            self.frame_freed.notify_all();
        }
    }

    /// Turns a page's contents in memory into what its file has, by the hook `before_write`, for the tier.
    /// False if the hook panics. Then only the tier's copy is lost, because the page is in its file.
    pub(crate) fn make_as_in_file(&self, name: PageName, bytes: &mut [u8]) -> bool {
        let Some(hooks) = &self.hooks else { return true };
        contained(|| hooks.before_write(name, bytes)).is_some()
    }

    /// Copies of absent pages in the tier are of no use any more. Not under locks and latches.
    pub(crate) fn forget_in_tier(&self, file: &FileShared, pages: Range<u64>) {
        if let Some(tier) = &self.tier {
            tier.forget(TierRange { file: file.id, file_tag: file.tag, pages });
        }
    }

    /// Rules for victims, of which dirty ones may be claimed as said. Asks the engine's log, so not under the
    /// policy lock.
    pub(crate) fn claim_rules(&self, dirty: Dirty) -> ClaimRules<'_> {
        ClaimRules {
            frames: &self.frames,
            reserve: &self.reserve,
            durable_lsn: self.log.durable(),
            dirty,
            takes_optimistic: self.aside.has_room(),
        }
    }

    /// Why there is no latch on a page: its writer panicked while others waited, or what `refusal` says.
    #[cold]
    pub(crate) fn latch_error(
        &self,
        file: &FileShared,
        number: u64,
        refusal: Refusal,
        operation: &'static str,
    ) -> Error {
        if let Err(error) = file.check_whole(number, operation) {
            return error;
        }
        let (kind, message) = match refusal {
            Refusal::Own => {
                let message = "the calling thread holds a latch on this page itself, and would wait for it";
                (ErrorKind::SelfDeadlock, message.to_owned())
            }
            Refusal::TimedOut => {
                let limit = self.latch_wait.as_millis();
                let message =
                    format!("the page was latched by others for longer than latch_wait_ms = {limit}");
                (ErrorKind::LatchTimeout, message)
            }
        };
        file.error(kind, operation, message).at_page(number)
    }

    /// Whether a floor of `before` may become `floor_frames`.
    pub(crate) fn check_floors(
        &self,
        policy: &PolicyState,
        before: u32,
        floor_frames: u32,
        operation: &'static str,
    ) -> Result<()> {
        let floors = policy.directory.floors_frames() - u64::from(before) + u64::from(floor_frames);
        let limit = self.floors_limit();
        if floors <= limit {
            return Ok(());
        }
        let message = format!(
            "all floors together would be {floors} frames, expected at most {limit}: {} frames without 2 for each of threads_max = {} and {FRAMES_SPARE} more",
            self.frames_count, self.threads_max
        );
        Err(Error::new(ErrorKind::Floor, operation, message))
    }

    /// The most that all floors together may be.
    pub(crate) fn floors_limit(&self) -> u64 {
        u64::from(self.frames_count) - frames_without_floor(self.threads_max)
    }

    /// Most pages that one call may hold at once: two frames for each other thread stay out of its reach.
    pub(crate) fn batch_pages_max(&self) -> usize {
        let others = 2 * (self.threads_max - 1);
        self.frames_count.saturating_sub(others).max(2) as usize
    }

    /// Some guard or pin was forgotten, at the pool's end. Costs a look at each frame.
    fn has_holds(&mut self) -> bool {
        let policy = self.policy.get_mut();
        self.frames.iter().any(|(_, entry)| {
            let file = entry.page().and_then(|page| Some((policy.file(page.file())?, page.number())));
            let word = file.and_then(|(file, number)| file.table.get(number));
            entry.pins() > 0 || word.is_some_and(|word| word.state().holders() > 0)
        })
    }

    pub(crate) fn count_reads(&self, pages: u64) {
        self.counters.reads.add(pages);
    }

    /// Counts a hit that found its page being loaded by another thread.
    pub(crate) fn count_waited(&self, waited: bool) {
        if waited {
            self.counters.waited.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for PoolShared {
    /// See [`Pool`](crate::Pool).
    fn drop(&mut self) {
        self.write_back.stop();
        if !self.closed.load(Ordering::Acquire) && !self.is_given_up.load(Ordering::Acquire) {
            (self.write_rest)(self);
        }
        self.tier.iter().for_each(|tier| tier.close());
        self.backend.drain();
        self.logs.get_mut().give_up();
        if self.has_holds() {
            self.holds.keep();
        }
    }
}

/// Lets go of a pool in a thread that its backend needs. If all other handles have gone meanwhile, closing
/// waits for this very thread, so another one does it.
pub(crate) fn drop_pool_elsewhere(pool: Arc<PoolShared>) {
    if let Some(pool) = Arc::into_inner(pool) {
        // If there is no thread to be had, the pool is never dropped, which beats waiting for ever.
        let pool = ManuallyDrop::new(pool);
        let close = move || drop(ManuallyDrop::into_inner(pool));
        let _ = std::thread::Builder::new().name("bufpool-close".into()).spawn(close);
    }
}
