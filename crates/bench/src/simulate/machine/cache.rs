//! The machine's cache: the directory, and the blocks that are being read.

use std::collections::HashMap;

use bufpool_policies::hints::HintPolicy;
use bufpool_policies::hints::aggressive::{does_no_harm, has_room};
use bufpool_policies::{
    Access, Admission, Allocation, Claims, ContextId, CostBenefitOptions, DirectiveError, Directory,
    DirectoryOptions, FileId, FrameId, HintOptions, PageId, TenantId,
};

use super::options::{CacheOptions, MachinePolicy};
use super::process::Step;
use super::stream::Stream;
use crate::simulate::two_level::open_tenants;
use crate::simulate::{Setup, SimError};
use crate::trace::{Directive, Place, Trace, TraceError};

/// What an access finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The block is resident.
    Here,
    /// The block is being read.
    InFlight,
    /// The block is missing, and has a frame: its read has to be started.
    Missing,
    /// The block is missing, and there is no frame for it: every frame has a block that is being read.
    NoFrame,
}

/// A block that is being read.
struct Flight {
    frame: FrameId,
    /// The process that prefetches it; `None` for a demand miss.
    ahead_for: Option<usize>,
    is_awaited: bool,
}

/// A batch of prefetches whose last read has ended: the process may begin another one on the same disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedBatch {
    /// Whose batch it was.
    pub process: usize,
    lane: usize,
}

/// Counts of a process.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CacheCounts {
    /// Accesses.
    pub accesses: u64,
    /// Reads of blocks that were neither resident nor being read when the process accessed them.
    pub demand_misses: u64,
    /// Reads that were started ahead of need.
    pub prefetches: u64,
    /// Of these, those that a process had to wait for.
    pub late: u64,
    /// Blocks of its own that it gave up instead of those that the ledger named.
    pub overrules: u64,
    /// Of these, those that it accessed before the block that stayed.
    pub mistakes: u64,
    /// Of these, those where it accessed the block that stayed first.
    pub vindications: u64,
}

/// The cache. Processes are numbered as the trace's tenants are.
pub struct Cache<'a> {
    trace: &'a Trace,
    options: CacheOptions,
    directory: Directory,
    tenants: Vec<TenantId>,
    /// Where resident blocks are.
    frame_of: HashMap<u64, FrameId>,
    flights: HashMap<u64, Flight>,
    /// Per process.
    streams: Vec<Option<Stream>>,
    counts: Vec<CacheCounts>,
    disks: u32,
    /// What happened so far, in order; `None` if no log is kept.
    log: Option<Vec<Change>>,
}

/// Something that happened to a process or a block, for tests. Processes are numbered in the order in which
/// the trace names their tenants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The process gave hints.
    Hinted(usize),
    /// The process came to an access to the block.
    Asked(usize, u64),
    /// The read of the block was asked for, as the process missed it.
    Missed(usize, u64),
    /// The read of the block was asked for ahead of need.
    Prefetched(usize, u64),
    /// The block left.
    Evicted(u64),
    /// The block was read.
    Arrived(u64),
    /// The process ended.
    Ended(usize),
}

/// Frames are busy only while a block is read into them, and the directory knows these.
struct NothingBusy;

impl Claims for NothingBusy {
    fn is_busy(&mut self, _: FrameId) -> bool {
        false
    }

    fn claim(&mut self, _: FrameId) -> bool {
        true
    }
}

impl<'a> Cache<'a> {
    /// An empty cache for the trace's tenants, before a machine of `disks` disks.
    ///
    /// # Errors
    ///
    /// If the directory refuses the number of frames.
    pub fn new(trace: &'a Trace, options: &CacheOptions, disks: u32) -> Result<Self, SimError> {
        let allocation = match options.policy {
            MachinePolicy::Lru => Allocation::GlobalLru,
            MachinePolicy::Tip2 => Allocation::CostBenefit,
            MachinePolicy::LruSp | MachinePolicy::Aggressive | MachinePolicy::Horizon => Allocation::LruSp,
        };
        let CacheOptions { frames, revocation, costs, keep_read, reserve, .. } = *options;
        let shared_pages = false;
        let mut directory =
            Directory::new(DirectoryOptions { frames, allocation, revocation, shared_pages })?;
        directory.price_by(CostBenefitOptions { costs, keep_read, reserve });
        let tenants = open_tenants(&mut directory, trace, &Setup::frames(frames))?;
        Ok(Self {
            trace,
            options: *options,
            directory,
            streams: tenants.iter().map(|_| None).collect(),
            counts: vec![CacheCounts::default(); tenants.len()],
            tenants,
            frame_of: HashMap::new(),
            flights: HashMap::new(),
            disks,
            log: None,
        })
    }

    /// Keeps a log of what happens from here on.
    pub fn keep_log(&mut self) {
        self.log = Some(Vec::new());
    }

    /// Takes what has happened since the log is kept; empty if none is kept.
    pub fn take_log(&mut self) -> Vec<Change> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The counts of the process so far.
    pub fn counts(&self, process: usize) -> CacheCounts {
        let stats = self.directory.tenant_stats(self.tenants[process]);
        CacheCounts {
            overrules: stats.overrules,
            mistakes: stats.mistakes,
            vindications: stats.vindications,
            ..self.counts[process]
        }
    }

    /// Blocks that were prefetched and not accessed so far, resident or not.
    pub fn unread(&self, process: usize) -> u64 {
        let stats = self.directory.tenant_stats(self.tenants[process]);
        stats.prefetched - stats.prefetch_used
    }

    /// Frames that the process owns.
    pub fn frames_owned(&self, process: usize) -> u64 {
        u64::from(self.directory.resident(self.tenants[process]))
    }

    /// Carries out a directive of the process. `steps` are the process's steps; `next` is the index of the
    /// next one.
    ///
    /// # Errors
    ///
    /// If a directive is refused.
    pub fn say(
        &mut self,
        process: usize,
        directive: &Directive,
        place: Place,
        steps: &[Step],
        next: usize,
    ) -> Result<(), SimError> {
        let (tenant, frame_of) = (self.tenants[process], &self.frame_of);
        let resident = |page: PageId| frame_of.get(&page.0).copied();
        let directory = &mut self.directory;
        let said = match *directive {
            Directive::Policy { prio, policy, .. } => directory.set_policy(tenant, prio, policy),
            Directive::Priority { first, last, prio, .. } => {
                directory.set_priority(tenant, PageId(first)..=PageId(last), prio, resident).map(drop)
            }
            Directive::TemporaryPriority { first, last, prio, .. } => directory
                .set_temporary_priority(tenant, PageId(first)..=PageId(last), prio, resident)
                .map(drop),
            Directive::Hint { first, last, .. } => {
                self.stream(process, |stream| stream.hint(first, last), steps)?;
                Ok(())
            }
            Directive::HintsAll { .. } => {
                self.stream(process, |stream| stream.hint_all(next), steps)?;
                Ok(())
            }
            Directive::File { .. }
            | Directive::Pin(_)
            | Directive::Unpin(_)
            | Directive::Create(_)
            | Directive::HintsReplan { .. }
            | Directive::HintsEnd { .. }
            | Directive::Program { .. }
            | Directive::ProgramEnd { .. }
            | Directive::Send { .. }
            | Directive::Compute { .. } => Ok(()),
        };
        said.map_err(|refused: DirectiveError| {
            SimError::Trace(TraceError::refused(self.trace.path(), place, refused.to_string()))
        })
    }

    /// The process begins an access `gap_us` microseconds after its last one, time of waiting not counted.
    pub fn note_gap(&mut self, process: usize, gap_us: u64) {
        self.directory.note_gap(self.tenants[process], gap_us as f64);
    }

    /// The process comes to an access: its hints are used up to there, and the block is looked up.
    pub fn access(&mut self, process: usize, block: u64, steps: &[Step]) -> Found {
        self.note(Change::Asked(process, block));
        self.follow(process, block, steps);
        self.look_up(process, block)
    }

    /// Makes the access if the block is resident, else finds out what the process has to wait for.
    pub fn look_up(&mut self, process: usize, block: u64) -> Found {
        if let Some(flight) = self.flights.get_mut(&block) {
            let is_late = flight.ahead_for.is_some() && !std::mem::replace(&mut flight.is_awaited, true);
            self.counts[process].late += u64::from(is_late);
            Found::InFlight
        } else if let Some(&frame) = self.frame_of.get(&block) {
            self.hit(process, block, frame);
            Found::Here
        } else {
            self.miss(process, block)
        }
    }

    fn miss(&mut self, process: usize, block: u64) -> Found {
        let access = self.access_to(process, block);
        let admission = self.directory.admit(&access, &mut NothingBusy);
        let Some(frame) = self.admitted(admission) else { return Found::NoFrame };
        self.note(Change::Missed(process, block));
        self.flights.insert(block, Flight { frame, ahead_for: None, is_awaited: true });
        self.counts[process].accesses += 1;
        self.counts[process].demand_misses += 1;
        Found::Missing
    }

    /// Makes the access to a block that the process waited for while another read was bringing it in.
    pub fn access_late(&mut self, process: usize, block: u64) {
        let frame = self.frame_of[&block];
        self.hit(process, block, frame);
    }

    /// The read of `block` has ended. Returns the batch that it ends, if any.
    pub fn arrived(&mut self, block: u64) -> Option<EndedBatch> {
        let flight = self.flights.remove(&block).expect("what was read was on its way");
        self.note(Change::Arrived(block));
        self.directory.loaded(flight.frame);
        self.frame_of.insert(block, flight.frame);
        let process = flight.ahead_for?;
        let stream = self.streams[process].as_mut()?;
        stream.in_flight -= 1;
        let lane = stream.lane(block);
        let is_over = stream.batches.complete(lane);
        (is_over && self.options.policy == MachinePolicy::Aggressive).then_some(EndedBatch { process, lane })
    }

    /// The process has ended: its hints are withdrawn.
    pub fn ended(&mut self, process: usize) {
        self.note(Change::Ended(process));
        if let Some(stream) = &self.streams[process] {
            self.directory.close_hints(stream.list);
        }
        self.directory.forget_rate(self.tenants[process]);
    }

    /// Begins the next batch after `ended`: gets frames for its blocks and appends them to `out`.
    pub fn prefetch_next(&mut self, ended: EndedBatch, out: &mut Vec<u64>) {
        let Some(mut stream) = self.streams[ended.process].take() else { return };
        self.fetch_batch(ended.process, &mut stream, ended.lane, out);
        self.streams[ended.process] = Some(stream);
    }

    /// Gets frames for the blocks that the process should fetch now, and appends them to `out`.
    pub fn prefetch(&mut self, process: usize, out: &mut Vec<u64>) {
        let Some(mut stream) = self.streams[process].take() else { return };
        match self.options.policy {
            MachinePolicy::Lru | MachinePolicy::LruSp => {}
            MachinePolicy::Tip2 => self.fetch_what_pays(process, &mut stream, out),
            MachinePolicy::Aggressive => {
                (0..stream.lanes()).for_each(|lane| self.fetch_batch(process, &mut stream, lane, out));
            }
            MachinePolicy::Horizon => self.fetch_to_horizon(process, &mut stream, out),
        }
        self.streams[process] = Some(stream);
    }

    fn fetch_what_pays(&mut self, process: usize, stream: &mut Stream, out: &mut Vec<u64>) {
        while let Some((position, block)) = self.next_missing(stream, 0) {
            if self.depth(stream, position) >= self.options.costs.horizon()
                || !self.directory.is_worth_fetching(stream.list, position)
                || !self.fetch(process, stream, block, out)
            {
                return;
            }
        }
    }

    fn fetch_batch(&mut self, process: usize, stream: &mut Stream, lane: usize, out: &mut Vec<u64>) {
        let (room, before) = (stream.batches.room(lane), out.len());
        let reads = |out: &Vec<u64>| (out.len() - before) as u32;
        while reads(out) < room
            && let Some((position, block)) = self.next_missing(stream, lane)
        {
            let depth = self.depth(stream, position);
            if !self.may_have_more_unread(process, stream)
                || !self.has_frame_for(process, depth)
                || !self.fetch(process, stream, block, out)
            {
                break;
            }
        }
        if reads(out) > 0 {
            stream.batches.begin(lane, reads(out));
        }
    }

    fn fetch_to_horizon(&mut self, process: usize, stream: &mut Stream, out: &mut Vec<u64>) {
        while let Some((position, block)) = self.next_missing(stream, 0) {
            let depth = self.depth(stream, position);
            if depth >= self.options.costs.horizon()
                || !self.has_frame_for(process, depth)
                || !self.fetch(process, stream, block, out)
            {
                return;
            }
        }
    }

    fn next_missing(&self, stream: &mut Stream, lane: usize) -> Option<(u64, u64)> {
        let (frame_of, flights) = (&self.frame_of, &self.flights);
        stream.next_missing(&self.directory, lane, |block| {
            frame_of.contains_key(&block) || flights.contains_key(&block)
        })
    }

    /// How many accesses ahead the hint at `position` is; the next one is 1 ahead.
    fn depth(&self, stream: &Stream, position: u64) -> u64 {
        self.directory.hint_list(stream.list).map_or(0, |list| position + 1 - list.position())
    }

    /// Whether a frame is free, or the process's victim is needed later than the hint that is `depth`
    /// accesses ahead.
    fn has_frame_for(&mut self, process: usize, depth: u64) -> bool {
        let next_use = self.directory.next_use_of_victim(self.tenants[process]);
        self.directory.free_frames() > 0 || next_use.is_some_and(|next_use| does_no_harm(next_use, depth))
    }

    fn may_have_more_unread(&self, process: usize, stream: &Stream) -> bool {
        let tenant = self.tenants[process];
        let stats = self.directory.tenant_stats(tenant);
        let landed = stats.prefetched - stats.prefetch_used - stats.prefetch_wasted;
        let frames = self.directory.resident(tenant) + self.directory.free_frames();
        !self.options.limits_unread || has_room(landed as u32 + stream.in_flight, frames)
    }

    /// Gets a frame for the block and appends it to `out`. False if there is no frame.
    fn fetch(&mut self, process: usize, stream: &mut Stream, block: u64, out: &mut Vec<u64>) -> bool {
        let access = self.access_to(process, block);
        let admission = self.directory.admit_ahead(&access, &mut NothingBusy);
        let evicted = match admission {
            Admission::Evict { page, .. } => Some(page.0),
            _ => None,
        };
        let Some(frame) = self.admitted(admission) else { return false };
        if let Some(evicted) = evicted {
            stream.evicted(&self.directory, evicted);
        }
        self.note(Change::Prefetched(process, block));
        self.flights.insert(block, Flight { frame, ahead_for: Some(process), is_awaited: false });
        self.counts[process].prefetches += 1;
        stream.in_flight += 1;
        out.push(block);
        true
    }

    /// Carries out an eviction that the directory decided on; returns the frame, if there is one.
    fn admitted(&mut self, admission: Admission) -> Option<FrameId> {
        match admission {
            Admission::Free { frame, .. } => Some(frame),
            Admission::Evict { frame, page: PageId(evicted), .. } => {
                self.frame_of.remove(&evicted);
                self.note(Change::Evicted(evicted));
                let Self { streams, directory, .. } = self;
                streams.iter_mut().flatten().for_each(|stream| stream.evicted(directory, evicted));
                Some(frame)
            }
            Admission::Exhausted { .. } => None,
        }
    }

    fn hit(&mut self, process: usize, block: u64, frame: FrameId) {
        let access = self.access_to(process, block);
        self.directory.hit(frame, &access);
        self.counts[process].accesses += 1;
    }

    /// The process has come to an access. If the block is among the hints less than twice the horizon ahead,
    /// the list moves on to that hint and past it, also if the block is still being read.
    fn follow(&mut self, process: usize, block: u64, steps: &[Step]) {
        let Self { streams, directory, frame_of, options, .. } = self;
        let Some(stream) = &mut streams[process] else { return };
        if let Some(hints) = directory.hint_list(stream.list) {
            let position = hints.position();
            let next = hints.next_use(PageId(block));
            if let Some(next) = next.filter(|next| next - position < 2 * options.costs.horizon()) {
                if next > position {
                    directory.skip_hints(stream.list, next - position);
                }
                directory.hint_reached(stream.list);
            }
        }
        stream.feed(directory, steps, |block| frame_of.get(&block).copied());
    }

    /// Lets `tell` add hints to the process's stream, which is made at its first hint.
    fn stream(
        &mut self,
        process: usize,
        tell: impl FnOnce(&mut Stream),
        steps: &[Step],
    ) -> Result<(), SimError> {
        if self.options.policy == MachinePolicy::Lru {
            return Ok(());
        }
        self.note(Change::Hinted(process));
        if self.streams[process].is_none() {
            // The list's options do not matter: this file decides what to fetch, and when.
            let options = HintOptions { policy: HintPolicy::Horizon, depth_max: 1, in_flight_max: 1 };
            let list = self.directory.open_hints(self.tenants[process], options)?;
            let by_disk = self.options.policy == MachinePolicy::Aggressive;
            self.streams[process] = Some(Stream::new(list, self.disks, by_disk, self.options.batch_reads));
        }
        if let Some(stream) = &mut self.streams[process] {
            tell(stream);
            let frame_of = &self.frame_of;
            stream.feed(&mut self.directory, steps, |block| frame_of.get(&block).copied());
        }
        Ok(())
    }

    fn access_to(&self, process: usize, block: u64) -> Access {
        Access {
            page: PageId(block),
            file: FileId(0),
            tenant: self.tenants[process],
            context: ContextId(0),
            creates: false,
        }
    }

    fn note(&mut self, change: Change) {
        if let Some(log) = &mut self.log {
            log.push(change);
        }
    }
}
