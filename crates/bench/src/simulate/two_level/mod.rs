//! A trace against the directory: a ledger over all tenants, and their priority levels.

mod directives;
mod managers;

use std::collections::{BTreeMap, HashMap};

use bufpool_policies::hints::HintListId;
use bufpool_policies::{
    Access, Admission, Allocation, Claims, ContextId, DEFAULT_TENANT, Decision, Directory, DirectoryOptions,
    FileId, FrameId, PageId, ProgramStats, TenantId,
};

use super::lower::Below;
use super::one_level::ABSENT;
use super::pins::Pins;
use super::promises::Promises;
use super::run::Run;
use super::tally::{By, Counts, Tally};
use super::{Setup, SimError};
use crate::trace::{Act, Batch, FileRanges, Replay, Trace};

/// Accesses whose blocks and frames are brought into the processor's caches together.
const AHEAD: usize = 16;
/// With at most this many frames, all that is known of them stays in the processor's caches anyway.
const FRAMES_IN_CACHE: usize = 4096;

/// The driver that [`Directory`] describes.
pub struct TwoLevelRun<'a> {
    trace: &'a Trace,
    directory: Directory,
    /// Per tenant of the trace, by number.
    tenants: Vec<TenantId>,
    /// Per tenant of the directory: revocations booked so far.
    revocations: Vec<u64>,
    /// Per tenant of the directory: its number in the trace.
    tenant_numbers: Vec<u32>,
    /// Per block: its frame, or [`ABSENT`].
    frame_of: Vec<u32>,
    /// Per frame: its block.
    block_in: Vec<u32>,
    pins: Pins,
    /// The block that the next access creates, if it creates one.
    created: Option<u64>,
    seed: u64,
    program_fuel: Option<u32>,
    /// Per tenant of the trace, by name: its list of disclosed accesses.
    lists: HashMap<u32, HintListId>,
    /// The list that a tenant's new plan takes the place of: open until the plan is known, because pages go
    /// over from one to the other.
    replaced: Option<HintListId>,
    promises: Promises,
    /// Index in the trace of the access after the last batch.
    next_access: u64,
    ranges: FileRanges,
    /// Per block: its file. Empty if `ranges` is.
    files: Vec<FileId>,
    tally: Tally,
    below: Option<Below>,
}

impl Claims for &Pins {
    fn is_busy(&mut self, frame: FrameId) -> bool {
        Pins::is_busy(self, frame.0)
    }

    fn claim(&mut self, frame: FrameId) -> bool {
        !Pins::is_busy(self, frame.0)
    }
}

impl<'a> TwoLevelRun<'a> {
    /// An empty cache with the trace's tenants.
    ///
    /// # Errors
    ///
    /// If frames, floors and caps contradict each other, or name a tenant that the trace does not have.
    pub fn new(trace: &'a Trace, setup: &Setup, allocation: Allocation) -> Result<Self, SimError> {
        Self::build(trace, setup, allocation, trace.has_pins())
    }

    /// As [`TwoLevelRun::new`], for a driver that pins blocks itself.
    ///
    /// # Errors
    ///
    /// As [`TwoLevelRun::new`].
    pub fn with_pins(trace: &'a Trace, setup: &Setup, allocation: Allocation) -> Result<Self, SimError> {
        Self::build(trace, setup, allocation, true)
    }

    fn build(trace: &'a Trace, setup: &Setup, allocation: Allocation, pins: bool) -> Result<Self, SimError> {
        let Setup { frames, revocation, shared_pages, .. } = *setup;
        let mut directory =
            Directory::new(DirectoryOptions { frames, allocation, revocation, shared_pages })?;
        let tenants = open_tenants(&mut directory, trace, setup)?;
        let mut tenant_numbers = vec![0; tenants.iter().map(|tenant| tenant.index() + 1).max().unwrap_or(0)];
        for (number, tenant) in tenants.iter().enumerate() {
            tenant_numbers[tenant.index()] = number as u32;
        }
        let mut run = Self {
            trace,
            directory,
            tenants,
            revocations: vec![0; tenant_numbers.len()],
            tenant_numbers,
            frame_of: vec![ABSENT; trace.blocks().len()],
            block_in: vec![ABSENT; frames as usize],
            pins: Pins::new(pins, frames),
            seed: setup.seed,
            program_fuel: setup.program_fuel,
            lists: HashMap::new(),
            replaced: None,
            promises: Promises::default(),
            next_access: 0,
            created: None,
            ranges: FileRanges::new(),
            files: Vec::new(),
            tally: Tally::new(trace, setup.by, frames),
            below: None,
        };
        setup.programs.iter().try_for_each(|(named, program)| run.manage_one_by_program(*named, program))?;
        Ok(run)
    }

    /// Puts the cache above a lower one.
    pub fn put_above(&mut self, below: Option<Below>) {
        self.below = below;
    }

    /// Whether the block with this number is resident.
    pub fn is_resident(&self, block: u32) -> bool {
        self.frame_of[block as usize] != ABSENT
    }

    /// The counts of a key so far.
    pub fn counts(&self, key: u32) -> Counts {
        self.tally.counts(key)
    }

    fn hit(&mut self, frame: u32, access: &Access) {
        if self.directory.hit(FrameId(frame), access).vindicated {
            self.tally.holder(frame).vindications += 1;
        }
    }

    /// Loads a block. `key` is the tenant or site that the access counts for.
    fn miss(&mut self, index: u64, block: u32, site: u32, key: u32, access: &Access) -> Result<(), SimError> {
        let reads_first = self.below.as_ref().is_some_and(Below::keeps_alone);
        if reads_first && !self.read_below(access.page, key) {
            return Ok(());
        }
        match self.directory.admit(access, &mut &self.pins) {
            Admission::Free { frame, decision } => {
                self.count(&decision);
                self.load(frame.0, block, site);
            }
            Admission::Evict { frame, tenant, decision, .. } => {
                self.count(&decision);
                self.count_revocations(&decision, tenant);
                // The eviction counts for the candidate's owner, also if another block was evicted.
                self.tally.holder(decision.candidate.unwrap_or(frame).0).evictions += 1;
                let gone = self.block_in[frame.index()];
                self.frame_of[gone as usize] = ABSENT;
                if let Some(below) = &mut self.below {
                    let page = PageId(self.trace.blocks()[gone as usize]);
                    below.ejected(gone, page, index, self.tally.holder(frame.0));
                }
                self.load(frame.0, block, site);
            }
            Admission::Exhausted { .. } => {
                return Err(SimError::all_pinned(self.trace, index, block, self.directory.frames()));
            }
        }
        if !reads_first {
            self.read_below(access.page, key);
        }
        Ok(())
    }

    /// Reads the missing page through the lower cache, if there is one. Returns whether the cache may keep
    /// it.
    fn read_below(&mut self, page: PageId, key: u32) -> bool {
        let Some(below) = &mut self.below else { return true };
        below.read(page, self.tally.accessor(key))
    }

    fn load(&mut self, frame: u32, block: u32, site: u32) {
        self.directory.loaded(FrameId(frame));
        self.block_in[frame as usize] = block;
        self.frame_of[block as usize] = frame;
        self.pins.loaded(block, frame);
        match self.tally.by() {
            By::Trace => {}
            By::Site => self.tally.hold(frame, site),
            By::Tenant => {
                // A block that came in through a placeholder may belong to another tenant than the one that
                // loads it.
                let owner = self.directory.owner(FrameId(frame)).expect("just loaded");
                self.tally.hold(frame, self.tenant_numbers[owner.index()]);
            }
        }
    }

    /// Counts what the decision says. Frames still count for the owners that they had before it.
    fn count(&mut self, decision: &Decision) {
        if let Some(frame) = decision.mistake {
            self.tally.holder(frame.0).mistakes += 1;
        }
        if let Some(frame) = decision.vindicated {
            self.tally.holder(frame.0).vindications += 1;
        }
        if let Some(candidate) = decision.candidate {
            let counts = self.tally.holder(candidate.0);
            counts.decisions += u64::from(decision.decisions);
            counts.overrules += u64::from(decision.overruled);
        }
    }

    /// Counts the revocation of `tenant`'s manager, if the decision's overrule or mistake led to one.
    fn count_revocations(&mut self, decision: &Decision, tenant: TenantId) {
        if !decision.overruled && decision.mistake.is_none() {
            return;
        }
        let revocations = self.directory.tenant_stats(tenant).revocations;
        let booked = &mut self.revocations[tenant.index()];
        if let Some(candidate) = decision.candidate {
            self.tally.holder(candidate.0).revocations += revocations - *booked;
            *booked = revocations;
        }
    }

    /// The number of the tenant that the trace calls `named`.
    fn tenant_number(&self, named: u32) -> u32 {
        self.trace.tenant_number(named).expect("numbered by the loader")
    }

    fn tenant(&self, named: u32) -> TenantId {
        self.tenants[self.tenant_number(named) as usize]
    }

    /// Finds the file of every block, once the ranges of files have changed.
    #[cold]
    fn find_files(&mut self) {
        self.files.extend(self.trace.blocks().iter().map(|&block| self.ranges.file(block)));
    }

    fn frame(&self, block: u32) -> Option<u32> {
        let frame = self.frame_of[block as usize];
        (frame != ABSENT).then_some(frame)
    }

    /// Whether what is known of blocks and frames does not fit into the processor's caches.
    fn is_large(&self) -> bool {
        self.block_in.len() > FRAMES_IN_CACHE
    }

    /// Touches what the next accesses will touch, so that cache misses of the processor overlap.
    fn fetch(&self, blocks: &[u32], pages: &[u64]) {
        let (mut frames, mut resident) = ([FrameId(0); AHEAD], 0);
        let mut touched = 0;
        for block in blocks.iter().take(AHEAD) {
            touched ^= pages[*block as usize];
            if let Some(frame) = self.frame(*block) {
                frames[resident] = FrameId(frame);
                resident += 1;
            }
        }
        std::hint::black_box(touched);
        let frames = frames[..resident].iter().copied();
        self.directory.touch(frames.clone());
        self.directory.touch_managed(frames);
    }
}

impl Replay for TwoLevelRun<'_> {
    type Error = SimError;

    fn batch(&mut self, batch: Batch<'_>) -> Result<(), SimError> {
        self.end_replaced();
        if self.files.is_empty() && !self.ranges.is_empty() {
            self.find_files();
        }
        let (keys, blocks) = (self.tally.keys(&batch), self.trace.blocks());
        for (at, &block) in batch.blocks.iter().enumerate() {
            if at % AHEAD == 0 && self.is_large() {
                self.fetch(&batch.blocks[at..], blocks);
            }
            let number = |column: &[u32]| column.get(at).copied().unwrap_or(0);
            let access = Access {
                page: PageId(blocks[block as usize]),
                file: self.files.get(block as usize).copied().unwrap_or(FileId(0)),
                tenant: self.tenants[number(batch.tenants) as usize],
                context: ContextId(number(batch.sites)),
                // A `!create` stands right before its access, which begins a batch.
                creates: at == 0 && self.created.take() == Some(blocks[block as usize]),
            };
            if !self.promises.is_empty() {
                if self.promises.untold(number(batch.tenants)).is_some() {
                    self.disclose_promised(number(batch.tenants));
                }
                self.promises.access(number(batch.tenants));
            }
            let counts = self.tally.accessor(number(keys));
            counts.accesses += 1;
            let index = batch.first + at as u64;
            if let Some(below) = &mut self.below {
                below.used(block, index);
            }
            match self.frame_of[block as usize] {
                ABSENT => self.miss(index, block, number(batch.sites), number(keys), &access)?,
                frame => {
                    counts.hits += 1;
                    self.hit(frame, &access);
                }
            }
        }
        self.next_access = batch.first + batch.blocks.len() as u64;
        Ok(())
    }

    fn act(&mut self, act: Act<'_>) -> Result<(), SimError> {
        match act {
            Act::Pin(block) => self.pins.pin(block, self.frame(block)),
            Act::Unpin(block) => self.pins.unpin(block, self.frame(block)),
            Act::Directive(directive, place) => self.direct(directive, place)?,
        }
        Ok(())
    }
}

impl Run for TwoLevelRun<'_> {
    fn end_warm_up(&mut self) {
        self.tally.clear();
        self.below.iter_mut().for_each(Below::end_warm_up);
    }

    fn end(self) -> (Tally, BTreeMap<u32, ProgramStats>) {
        let named = self.trace.tenants().iter().zip(&self.tenants);
        let stats = |tenant: &TenantId| self.directory.program_stats(*tenant);
        let programs = named.filter_map(|(named, tenant)| Some((*named as u32, stats(tenant)?))).collect();
        (self.tally, programs)
    }
}

/// Opens every tenant of the trace; the trace's tenant 0 is the default tenant. Returns the tenants by their
/// numbers in the trace.
///
/// # Errors
///
/// If frames, floors and caps contradict each other, or name a tenant that the trace does not have.
pub fn open_tenants(
    directory: &mut Directory,
    trace: &Trace,
    setup: &Setup,
) -> Result<Vec<TenantId>, SimError> {
    let named = setup.floors.keys().chain(setup.caps.keys());
    if let Some(&tenant) = named.into_iter().find(|&&tenant| trace.tenant_number(tenant).is_none()) {
        return Err(SimError::UnknownTenant { trace: trace.name().to_owned(), tenant });
    }
    let mut tenants = Vec::with_capacity(trace.tenants().len());
    for &named in trace.tenants() {
        let floor = setup.floors.get(&(named as u32)).copied().unwrap_or(0);
        let cap = setup.caps.get(&(named as u32)).copied().unwrap_or(setup.frames);
        let opened = if named == u64::from(DEFAULT_TENANT.0) {
            let limited = directory.set_cap(DEFAULT_TENANT, cap);
            limited.and_then(|()| directory.set_floor(DEFAULT_TENANT, floor)).map(|()| DEFAULT_TENANT)
        } else {
            directory.open_tenant(floor, cap)
        };
        tenants.push(opened.map_err(|why| SimError::Limits { tenant: named, why })?);
    }
    Ok(tenants)
}
