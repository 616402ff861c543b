//! Everything under the policy lock: the directory, the leases of free frames, and what statistics and
//! recordings need.
//!
//! The lock is held for a decision or a batch of hits, never across I/O, and no latch is waited for under it;
//! so a thread may take it while it holds latches.

use std::sync::Arc;
use std::time::Duration;

use bufpool_policies::hints::{HintCounts, HintListId, HintPolicy};
use bufpool_policies::planner::{Bounds, Plan, Planner, Seen, StreamCounts};
use bufpool_policies::program::{NeedsPrivilege, Program, ProgramOptions};
use bufpool_policies::{
    Access, Admission, ContextId, DEFAULT_TENANT, Decision, Directory, DirectoryError, FileId, FrameId,
    HintOptions, ManagerKind, MissHint, PageId, PageWorth, SharedLearning, TenantId, Tuning, WISHES_MAX,
    Want, Wish,
};

use crate::engine::recorder::{Event, Recorder};
use crate::files::open::OpenFiles;
use crate::files::shared::FileShared;
use crate::files::word::OwnedWord;
use crate::hits::contexts::{ContextSlot, Contexts};
use crate::hits::filter::{Epochs, HitFilter};
use crate::memory::frame::{Below, FrameTable};
use crate::memory::lease::{FrameLease, FreeLeases};
use crate::page::latch::Latch;
use crate::policy::ahead::{AheadCharge, AheadPages, Expectation, Wanted, Wants};
use crate::policy::claims::{Admitted, ClaimRules, Dirty, PoolClaims, Victim};
use crate::policy::pricing::Pricing;
use crate::policy::programs::LiveProgram;
use crate::policy::recording::Recording;
use crate::sys::fetch_to_write;
use crate::thread::keys::KEYS;
use crate::thread::ring::{Hit, HitRing, Skipped};
use crate::thread::site::SiteRef;
use crate::thread::stack::StackContexts;
use crate::tier::Life;
use crate::tier::link::TierLink;

/// Contexts of a tenant whose lists of reads are counted apart; those of later ones count as the first one's.
const HINT_SITES_MAX: usize = 1024;

/// What the policy lock protects.
pub(crate) struct PolicyState {
    pub directory: Directory,
    /// The lease of each frame that holds no page and is not on its way to one.
    pub free: FreeLeases,
    pub files: OpenFiles,
    /// Tenants by number, closed ones until their number is used again.
    pub tenants: Vec<TenantEntry>,
    pub contexts: Contexts,
    /// What manages tenants that do not say.
    pub default_manager: Option<ManagerKind>,
    /// What tenants with automatic managers of their own and few pages learn together.
    pub shared_learning: SharedLearning,
    /// Seed of what managers draw at random.
    pub seed: u64,
    /// Steps that an event of a program may take; `None` for the programs' own limit.
    pub program_fuel_steps: Option<u32>,
    /// The tier, if it is told how long pages live here.
    pub promotes_from: Option<Arc<TierLink>>,
    /// None where nothing is read ahead.
    pub planner: Option<Box<dyn Planner>>,
    /// Pages that managers and disclosed reads want, in their order; at most one answer of each kind and
    /// tenant.
    wanted: Vec<(TenantId, Expectation, Vec<Want>)>,
    /// What programs wish, in their order, with their tenants.
    wishes: Vec<Wished>,
    /// Whose access came last.
    last_accessor: TenantId,
    pub prefetch_limit_percent: u8,
    pub hint_limit_percent: u8,
    /// Reads in flight for a list of disclosed reads at most.
    pub hints_in_flight_max: u32,
    /// None where frames have no prices.
    pub pricing: Option<Pricing>,
    /// 0 if sites are not told apart, otherwise all ones.
    pub site_mask: u64,
    filter: HitFilter,
    epochs: Epochs,
    /// Hits that were noted one by one.
    pub hits_noted: u64,
    /// [`TenantEntry::hits_unlisted`] of tenants whose numbers have been reused.
    pub departed_unlisted: u64,
    /// Scratch space of `count_skipped`, kept to save allocations; empty between calls.
    skipped: Vec<(TenantId, u64)>,
    /// Of the threads of the process that have ended, the first so many have no log left in the pool.
    pub ended_seen: u64,
    recording: Option<Recording>,
}

/// What the pool adds to the directory's knowledge of a tenant.
pub(crate) struct TenantEntry {
    pub name: Arc<str>,
    pub floor_frames: u32,
    pub cap_frames: u32,
    pub closed: bool,
    /// What manages it until it gives a directive, if not the commons.
    pub manager: &'static str,
    /// Its floor is its cap, from its opening on.
    pub is_privileged: bool,
    /// Its automatic manager learns from it alone.
    pub learns_alone: bool,
    /// The program that is its manager.
    pub program: Option<Program>,
    /// Hits on pages that had moved on, or were outside the directory, when the hit was applied.
    pub hits_unlisted: u64,
    /// How the call stack is part of its contexts; None if it is not.
    pub stacks: Option<StackContexts>,
    /// Misses that made their page.
    pub creations: u64,
    /// Pages brought in ahead for it.
    pub ahead: AheadPages,
    /// What is done with the reads that it discloses.
    pub hint_policy: HintPolicy,
    /// What became of the hints of lists by the context that they were opened in.
    pub hint_sites: Vec<HintSite>,
}

/// Lists of disclosed reads that were opened in one context of a tenant.
pub(crate) struct HintSite {
    pub context: ContextId,
    /// Of lists that are closed.
    pub counts: HintCounts,
    pub open: Vec<HintListId>,
    /// How far ahead the pool looked at most, as far as it was noted.
    pub depth_max: u32,
}

impl TenantEntry {
    pub fn new(name: Arc<str>, floor_frames: u32, cap_frames: u32) -> Self {
        Self {
            name,
            floor_frames,
            cap_frames,
            manager: "none",
            is_privileged: false,
            learns_alone: false,
            program: None,
            closed: false,
            hits_unlisted: 0,
            stacks: None,
            creations: 0,
            ahead: AheadPages::default(),
            hint_policy: HintPolicy::default(),
            hint_sites: Vec::new(),
        }
    }
}

/// A wish of a tenant's program, about a page of the file.
pub(crate) struct Wished {
    pub tenant: TenantId,
    pub wish: Wish,
    pub file: Arc<FileShared>,
}

impl PolicyState {
    /// For frames of which `free` hold no page, and `spares` more are the reserve's.
    pub fn new(
        directory: Directory,
        free: Vec<FrameLease>,
        spares: u32,
        filter: HitFilter,
        recorder: Option<Box<dyn Recorder>>,
    ) -> Self {
        let frames = directory.frames();
        let epochs = Epochs::new(frames);
        Self {
            directory,
            free: FreeLeases::new(frames + spares, free),
            files: OpenFiles::default(),
            tenants: Vec::new(),
            contexts: Contexts::new(),
            default_manager: None,
            shared_learning: SharedLearning::default(),
            seed: 0,
            program_fuel_steps: None,
            wishes: Vec::new(),
            promotes_from: None,
            planner: None,
            wanted: Vec::new(),
            last_accessor: DEFAULT_TENANT,
            prefetch_limit_percent: 0,
            hint_limit_percent: 0,
            hints_in_flight_max: 1,
            pricing: None,
            site_mask: u64::MAX,
            filter,
            epochs,
            hits_noted: 0,
            departed_unlisted: 0,
            skipped: Vec::with_capacity(KEYS),
            ended_seen: 0,
            recording: recorder.map(Recording::new),
        }
    }

    /// A tenant was opened; its number may have been another's.
    pub fn add_tenant(&mut self, id: TenantId, entry: TenantEntry) {
        self.contexts.open_tenant(id);
        if id.index() < self.tenants.len() {
            let before = std::mem::replace(&mut self.tenants[id.index()], entry);
            self.departed_unlisted += before.hits_unlisted;
        } else {
            self.tenants.push(entry);
        }
    }

    /// A tenant wants what the pool has for those that say nothing: under `auto` that is a place in the
    /// commons, unless it has a floor or a cap.
    pub fn manage_as_default(&mut self, id: TenantId, has_limits: bool) {
        match self.default_manager {
            Some(kind @ ManagerKind::Auto) if !has_limits => {
                let (frames, seed) = (self.directory.frames(), self.seed);
                let joined = self.directory.join_commons(id, || kind.build(frames, seed, DEFAULT_TENANT));
                joined.expect("the tenant is new");
            }
            Some(kind) => self.manage(id, kind),
            None => {}
        }
    }

    /// Changes an open tenant's floor or cap. One that thereby leaves the commons gets a manager like the one
    /// it had there.
    pub fn set_limit(
        &mut self,
        id: TenantId,
        set: impl FnOnce(&mut Directory) -> Result<(), DirectoryError>,
    ) -> Result<(), DirectoryError> {
        let was_common = self.directory.is_in_commons(id);
        set(&mut self.directory)?;
        if was_common && !self.directory.is_in_commons(id) {
            self.manage_as_default(id, true);
        }
        Ok(())
    }

    /// Gives an open tenant a manager of its own, which its first directive replaces.
    pub fn manage(&mut self, id: TenantId, kind: ManagerKind) {
        let (frames, tuning) = (self.directory.frames(), Tuning::default());
        let shared = Some(&self.shared_learning).filter(|_| !self.tenants[id.index()].learns_alone);
        let manager = kind.build_with(frames, self.seed, id, &tuning, shared);
        self.directory.set_manager(id, manager, true).expect("the tenant is open");
        self.tenants[id.index()].manager = kind.name();
    }

    /// Gives an open tenant a program as its manager, which refuses directives.
    ///
    /// # Errors
    ///
    /// [`NeedsPrivilege`], and nothing has changed.
    pub fn manage_by_program(&mut self, id: TenantId, program: &Program) -> Result<(), NeedsPrivilege> {
        let entry = &mut self.tenants[id.index()];
        if program.is_privileged() && !entry.is_privileged {
            return Err(NeedsPrivilege);
        }
        let options = ProgramOptions {
            pool_frames: self.directory.frames(),
            seed: self.seed,
            tenant: id,
            fuel_steps: self.program_fuel_steps,
        };
        let granted_frames = if entry.is_privileged { entry.cap_frames } else { 0 };
        entry.manager = "program";
        entry.program = Some(program.clone());
        let manager = Box::new(LiveProgram::new(program, options, granted_frames));
        self.directory.set_manager(id, manager, false).expect("the tenant is open");
        if self.is_recording() {
            self.record(Event::Program { tenant: id.0, name: program.name(), text: &program.to_text() });
        }
        Ok(())
    }

    /// An open tenant's pages go in the ledger's order from now on, if it has a program.
    pub fn clear_program(&mut self, id: TenantId) {
        let entry = &mut self.tenants[id.index()];
        if entry.program.take().is_some() {
            entry.manager = "none";
            self.directory.clear_manager(id).expect("the tenant is open");
            self.record(Event::ProgramEnd { tenant: id.0 });
        }
    }

    /// What manages a tenant now, for reports.
    pub fn manager_name(&self, id: TenantId) -> &'static str {
        match (self.directory.is_managed(id), self.directory.has_directives(id)) {
            (false, _) => "none",
            (true, true) => "directives",
            (true, false) if self.directory.is_in_commons(id) => ManagerKind::Auto.name(),
            (true, false) => self.tenants[id.index()].manager,
        }
    }

    /// The file of a page, if it is open.
    pub fn file(&self, id: FileId) -> Option<&Arc<FileShared>> {
        self.files.get(id)
    }

    /// Applies what a thread has noted.
    pub fn apply(&mut self, ring: &HitRing) {
        // Prefetches what the directory knows of all frames before the first is used, so that the cache
        // misses overlap.
        self.directory.prefetch(ring.frames());
        let mut latest = None;
        ring.drain(|hit, key| {
            self.hits_noted += 1;
            // Most hits come from where the one before came from.
            let found = match latest {
                Some((of, found)) if of == key => found,
                _ => self.context(hit.tenant, hit.site),
            };
            latest = Some((key, found));
            if self.hit_from(&hit, found) {
                let may_skip = self.directory.may_skip_hits(hit.frame);
                self.filter.noted(hit.frame, hit.tenant, may_skip);
                self.epochs.hit(1);
                self.end_epoch();
            }
        });
        self.count_skipped(ring);
        self.end_epoch();
    }

    /// Counts hits that were not noted one by one: first for the contexts of all tenants, then in the
    /// directory, so that cache misses of several tenants overlap.
    fn count_skipped(&mut self, ring: &HitRing) {
        for tenant in ring.tenants() {
            fetch_to_write(self.directory.place_of_tenant(tenant));
            if let Some(context) = self.contexts.latest(tenant) {
                fetch_to_write(context);
            }
        }
        let mut skipped = std::mem::take(&mut self.skipped);
        ring.drain_skipped(|Skipped { hits, tenant, site }| {
            let context = self.context(tenant, site);
            self.contexts.counts(tenant, context).accesses += hits;
            skipped.push((tenant, hits));
        });
        for (tenant, hits) in skipped.drain(..) {
            self.directory.hits_skipped(tenant, hits);
            self.epochs.hit(hits);
        }
        self.skipped = skipped;
    }

    /// Begins the filter's next epoch if it is time.
    #[inline]
    fn end_epoch(&mut self) {
        if self.epochs.are_over(self.directory.now(), self.directory.span()) {
            self.begin_epoch();
        }
    }

    /// The next hit on the page in `frame` is noted.
    pub fn note_next_hit(&self, frame: FrameId) {
        self.filter.reset(frame);
    }

    /// From here on the next hit on each page is noted.
    pub fn begin_epoch(&mut self) {
        self.epochs.begin(self.directory.now(), &self.filter);
    }

    /// Counts a hit, and tells the directory unless the page has left the frame meanwhile. Returns whether it
    /// was told.
    pub fn hit(&mut self, hit: &Hit) -> bool {
        let found = self.context(hit.tenant, hit.site);
        self.hit_from(hit, found)
    }

    /// As [`hit`](Self::hit), for one in a context that was found.
    #[inline]
    fn hit_from(&mut self, hit: &Hit, found: ContextSlot) -> bool {
        self.contexts.counts(hit.tenant, found).accesses += 1;
        let listed = self.directory.page(hit.frame) == Some(hit.page);
        let context = self.context_of_hit(hit, listed, ContextId(found.id));
        self.record_access(hit.page, context, hit.tenant, hit.creation);
        self.note_accessor(hit.tenant);
        if let Some(pricing) = &mut self.pricing {
            pricing.found(hit.tenant);
        }
        if listed {
            let is_disclosed = self.directory.is_ahead(hit.frame, hit.page)
                && self.directory.discloses(hit.tenant, hit.page);
            let outcome = self.directory.hit(hit.frame, &access(hit.page, hit.tenant, context, hit.creation));
            if outcome.first && !is_disclosed {
                self.observe(hit.page, hit.tenant, context, Seen::FoundAhead);
            }
        } else {
            self.tenants[hit.tenant.index()].hits_unlisted += 1;
        }
        listed
    }

    /// The latest access was the tenant's. Mostly the one before was, too, and nothing is written.
    #[inline]
    fn note_accessor(&mut self, tenant: TenantId) {
        if self.last_accessor != tenant {
            self.last_accessor = tenant;
        }
    }

    /// The context that the manager is told for a hit that was counted for `found`: the context of the page's
    /// load if the stack was not sampled for this hit, so that the page stays in its stream.
    fn context_of_hit(&self, hit: &Hit, listed: bool, found: ContextId) -> ContextId {
        match self.tenants[hit.tenant.index()].stacks {
            Some(stacks) if listed && !stacks.samples(hit.page) => self.directory.context(hit.frame),
            _ => found,
        }
    }

    /// Finds a frame for `page`. None if every frame that the tenant may take is busy.
    pub fn admit(
        &mut self,
        page: PageId,
        tenant: TenantId,
        site: SiteRef,
        creation: bool,
        rules: &ClaimRules<'_>,
    ) -> Option<Admitted> {
        let context = self.context(tenant, site);
        // Nothing has to be guessed of a stream whose reads are known.
        let is_disclosed = self.directory.discloses(tenant, page);
        let mut taken = None;
        let mut claims = PoolClaims::new(rules, &self.files, &mut taken);
        let admission =
            self.directory.admit(&access(page, tenant, ContextId(context.id), creation), &mut claims);
        let admitted = self.carry_out(&admission, taken, rules)?;
        self.note_accessor(tenant);
        self.record_access(page, ContextId(context.id), tenant, creation);
        self.count_miss(tenant, context, admission.decision(), creation);
        match &mut self.pricing {
            Some(pricing) if creation => pricing.found(tenant),
            Some(pricing) => pricing.missed(&mut self.directory, tenant),
            None => {}
        }
        if !creation && !is_disclosed {
            self.observe(page, tenant, ContextId(context.id), Seen::Missed);
        }
        Some(admitted)
    }

    /// Touches the words of the pages that are likely to make room for the next `count`, and what managers
    /// know of them, so that the cache misses overlap.
    pub fn touch_upcoming(&self, count: usize, frames: &FrameTable) {
        self.directory.prefetch_upcoming(count);
        let word_of = |frame| {
            let page = frames.get(frame).page()?;
            self.file(page.file())?.table.get(page.number())
        };
        let words = self.directory.upcoming().take(count).filter_map(word_of);
        std::hint::black_box(words.filter(|word| word.state().is_unlatched()).count());
    }

    /// Prefetches what a miss of a tenant is likely to change, so that the cache misses overlap: all of it is
    /// in the cache of the processor that had the lock last.
    #[inline]
    pub fn fetch_for_miss(&self, tenant: TenantId, hint: MissHint) {
        self.directory.places_of_miss(tenant, hint).iter().for_each(|place| fetch_to_write(*place));
        fetch_to_write(self.filter.marked(hint.victim).mark);
        if let Some(context) = self.contexts.latest(tenant) {
            fetch_to_write(context);
        }
        if let Some(planner) = &self.planner {
            planner.places().iter().for_each(|place| fetch_to_write(*place));
        }
    }

    /// Lets neighbouring pages come into frames that are neighbours as far as possible, which makes one piece
    /// of memory of a transfer: the admitted pages, in their order, get their frames in ascending order. The
    /// answers are rearranged likewise.
    pub fn line_up(&mut self, admitted: &mut [Admitted]) {
        if admitted.is_sorted_by_key(Admitted::frame) {
            return;
        }
        let mut order: Vec<usize> = (0..admitted.len()).collect();
        order.sort_unstable_by_key(|at| admitted[*at].frame());
        for to in 0..admitted.len() {
            let mut from = order[to];
            // An earlier exchange has moved what was there; follow it.
            while from < to {
                from = order[from];
            }
            if self.directory.exchange(admitted[to].frame(), admitted[from].frame()) {
                admitted.swap(to, from);
            }
        }
    }

    /// Finds a frame for a page that nobody has asked for yet: a free one, or one whose page is clean. None
    /// if there is none near the ledger's head.
    pub fn admit_ahead(
        &mut self,
        page: PageId,
        charge: AheadCharge,
        rules: &ClaimRules<'_>,
    ) -> Option<Admitted> {
        debug_assert_eq!(rules.dirty, Dirty::Left);
        let mut taken = None;
        let mut claims = PoolClaims::new(rules, &self.files, &mut taken);
        let AheadCharge { tenant, context, .. } = charge;
        let access = Access { page, file: page.file(), tenant, context, creates: false };
        let admission = self.directory.admit_ahead(&access, &mut claims);
        self.carry_out(&admission, taken, rules)
    }

    /// Notes pages that come in ahead, with their frames.
    pub fn note_ahead(
        &mut self,
        tenant: TenantId,
        pages: impl Iterator<Item = PageId>,
        admitted: &[Admitted],
    ) {
        let (ahead, directory) = (&mut self.tenants[tenant.index()].ahead, &self.directory);
        pages.zip(admitted).for_each(|(page, admitted)| ahead.push(admitted.frame(), page, directory));
    }

    /// How many pages may come in ahead for a tenant now; none once it is closed.
    pub fn room_ahead(&mut self, tenant: TenantId, expectation: Expectation) -> usize {
        if self.tenants[tenant.index()].closed {
            return 0;
        }
        let limit = self.limit_ahead(tenant, expectation);
        self.tenants[tenant.index()].ahead.room(&mut self.directory, limit)
    }

    /// The most pages of a tenant that may be unused since they came in ahead.
    pub fn limit_ahead(&self, tenant: TenantId, expectation: Expectation) -> usize {
        let frames = u64::from(self.tenants[tenant.index()].cap_frames.min(self.directory.frames()));
        let percent = match expectation {
            Expectation::Guessed => self.prefetch_limit_percent,
            Expectation::Disclosed => self.hint_limit_percent,
        };
        (frames * u64::from(percent) / 100) as usize
    }

    /// The directory's answer, with the lease or the claimed latch that goes with it.
    #[inline]
    fn carry_out(
        &mut self,
        admission: &Admission,
        taken: Option<Latch<OwnedWord>>,
        rules: &ClaimRules<'_>,
    ) -> Option<Admitted> {
        let admitted = match *admission {
            Admission::Exhausted { .. } => return None,
            Admission::Free { frame, .. } => {
                let lease = self.free.take_of(frame).expect("the directory hands out free frames only");
                Admitted::Free(lease)
            }
            Admission::Evict { frame, page, tenant: owner, .. } => {
                let latch = taken.expect("the directory evicts what it has claimed");
                assert_eq!(latch.frame(), frame, "the directory evicts the frame it claimed last");
                let spare = rules.spare_for(frame);
                if let Some(spare) = &spare {
                    self.directory.relocate(frame, spare.frame());
                }
                self.note_wishes(owner);
                self.note_worth(&latch, rules);
                Admitted::Evict(Victim { latch, page, owner, spare })
            }
        };
        self.filter.reset(admitted.frame());
        let decision = admission.decision();
        if let Some(candidate) = decision.candidate.filter(|_| decision.overruled) {
            self.filter.reset(candidate);
        }
        self.epochs.arrived();
        self.end_epoch();
        Some(admitted)
    }

    /// Tells the planner of a miss, or of the first access to a page that came in ahead, and demotes the
    /// pages ahead that the planner no longer expects.
    fn observe(&mut self, page: PageId, tenant: TenantId, context: ContextId, seen: Seen) {
        let limit = self.limit_ahead(tenant, Expectation::Guessed) as u64;
        let Some(planner) = &mut self.planner else { return };
        let Some(file) = self.files.get(page.file()) else { return };
        let access = access(page, tenant, context, false);
        let bounds = Bounds { pages: file.gate.pages(), limit };
        let Some(demote) = planner.observe(&access, seen, bounds) else { return };
        for number in demote.numbers() {
            if let Some(frame) = file.table.get(number).and_then(|word| word.state().resident_frame())
                && self.directory.is_ahead(frame, PageId::in_file(file.id, number))
            {
                self.directory.demote(frame);
            }
        }
    }

    /// Asks the manager and the lists of the tenant whose access came last what they want, unless their last
    /// answer still waits.
    pub fn ask_for_wants(&mut self) {
        let tenant = self.last_accessor;
        if self.directory.knows_ahead(tenant) {
            self.ask(tenant, Expectation::Guessed);
        }
        if self.directory.has_hints(tenant) {
            self.ask(tenant, Expectation::Disclosed);
        }
    }

    /// Opens a list of reads that a tenant discloses from a context.
    pub fn open_hints(&mut self, tenant: TenantId, context: ContextId, options: HintOptions) -> HintListId {
        let list = self.directory.open_hints(tenant, options).expect("the tenant is open");
        self.hint_site(tenant, context).open.push(list);
        list
    }

    /// Closes a list that was opened from the context, and notes what became of it. Returns that.
    pub fn close_hints(&mut self, list: HintListId, context: ContextId, depth_max: u32) -> HintCounts {
        self.record(Event::HintsEnd { tenant: list.tenant().0 });
        self.end_hints(list, context, depth_max)
    }

    /// As [`close_hints`](Self::close_hints), where the recorder has been told.
    pub fn end_hints(&mut self, list: HintListId, context: ContextId, depth_max: u32) -> HintCounts {
        let counts = self.directory.close_hints(list).unwrap_or_default();
        let site = self.hint_site(list.tenant(), context);
        site.counts.add(&counts);
        site.depth_max = site.depth_max.max(depth_max);
        site.open.retain(|open| *open != list);
        counts
    }

    /// Closes the tenant's lists, because the tenant is about to be closed.
    pub fn close_all_hints(&mut self, tenant: TenantId) {
        let sites = self.tenants[tenant.index()].hint_sites.iter();
        let open: Vec<(HintListId, ContextId)> =
            sites.flat_map(|site| site.open.iter().map(|list| (*list, site.context))).collect();
        for (list, context) in open {
            self.close_hints(list, context, 0);
        }
    }

    fn hint_site(&mut self, tenant: TenantId, context: ContextId) -> &mut HintSite {
        let sites = &mut self.tenants[tenant.index()].hint_sites;
        let found = sites.iter().position(|site| site.context == context);
        // Contexts are recycled, so there may be more in time than there are at a time.
        let at = found.or_else(|| (sites.len() >= HINT_SITES_MAX).then_some(0)).unwrap_or_else(|| {
            sites.push(HintSite { context, counts: HintCounts::default(), open: Vec::new(), depth_max: 0 });
            sites.len() - 1
        });
        &mut sites[at]
    }

    /// Asks the lists of a tenant.
    pub fn ask_for_disclosed(&mut self, tenant: TenantId) {
        self.ask(tenant, Expectation::Disclosed);
    }

    fn ask(&mut self, tenant: TenantId, expectation: Expectation) {
        if self.wanted.iter().any(|(of, kind, _)| (*of, *kind) == (tenant, expectation)) {
            return;
        }
        let frames_left = self.room_ahead(tenant, expectation) as u32;
        let mut wants = Vec::new();
        if frames_left == 0 {
            return;
        }
        match expectation {
            Expectation::Guessed => self.directory.wants(tenant, frames_left, &mut wants),
            Expectation::Disclosed => {
                let files = &self.files;
                let mut present = |page: PageId| {
                    let word = files.get(page.file()).and_then(|file| file.table.get(page.number()));
                    word.is_some_and(|word| !word.state().is_absent())
                };
                self.directory.hint_wants(tenant, frames_left, &mut present, &mut wants);
            }
        }
        if !wants.is_empty() {
            self.wanted.push((tenant, expectation, wants));
        }
    }

    /// Whether there is something to bring in ahead.
    pub fn has_wants(&self) -> bool {
        !self.wanted.is_empty() || self.planner.as_ref().is_some_and(|planner| planner.has_wants())
    }

    /// The planner's plans and the managers' wants, with their files. Wants of files that are not open are
    /// left out.
    pub fn take_wants(&mut self) -> Wants {
        let mut plans = Vec::new();
        if let Some(planner) = &mut self.planner {
            planner.wants(&mut plans);
        }
        let plans = plans.into_iter().map(|plan| (plan, self.file(plan.key.file).cloned())).collect();
        let answers = std::mem::take(&mut self.wanted).into_iter();
        let resolve = |page: PageId| Some((Arc::clone(self.file(page.file())?), page.number()));
        let wanted = answers.map(|(tenant, expectation, wants)| Wanted {
            tenant,
            expectation,
            pages: wants.into_iter().filter_map(|want| resolve(want.page)).collect(),
        });
        Wants { plans, wanted: wanted.collect() }
    }

    /// What became of a plan; see [`Planner::carried_out`].
    pub fn plan_carried_out(&mut self, plan: &Plan, brought: usize, refused: Option<u64>) {
        if let Some(planner) = &mut self.planner {
            planner.carried_out(plan, brought as u64, refused);
        }
    }

    /// A thread waits for a page that comes in ahead.
    pub fn ahead_is_awaited(&mut self, access: &Access) {
        if let Some(planner) = &mut self.planner {
            planner.awaited(access);
        }
    }

    pub fn stream_counts(&self) -> StreamCounts {
        self.planner.as_ref().map_or_else(StreamCounts::default, |planner| planner.counts())
    }

    /// The tenant's context at a call site, as managers know it.
    pub fn context_of(&mut self, tenant: TenantId, site: SiteRef) -> ContextId {
        ContextId(self.context(tenant, site).id)
    }

    fn count_miss(&mut self, tenant: TenantId, context: ContextSlot, decision: &Decision, creation: bool) {
        if creation {
            self.tenants[tenant.index()].creations += 1;
        }
        let counts = self.contexts.counts(tenant, context);
        counts.accesses += 1;
        counts.misses += 1;
        counts.creations += u64::from(creation);
        counts.mistakes += u64::from(decision.mistake.is_some());
    }

    /// Takes a miss back from the counts of its context, because the page did not come in. Callers tell the
    /// directory.
    pub fn take_back_miss(&mut self, tenant: TenantId, site: SiteRef, creation: bool) {
        let entry = &mut self.tenants[tenant.index()];
        entry.creations = entry.creations.saturating_sub(creation.into());
        let context = self.context(tenant, site);
        self.contexts.take_back_miss(tenant, context, creation);
    }

    /// The page that was admitted to the frame of this lease for a tenant does not come in: the frame is
    /// free.
    pub fn give_up_frame(&mut self, lease: FrameLease, tenant: TenantId) {
        self.directory.failed(lease.frame(), tenant);
        self.free.put(lease);
    }

    /// A page that was admitted to one frame comes in another, because its victim needs the first for longer.
    pub fn relocate(&mut self, from: FrameId, to: FrameId) {
        self.directory.relocate(from, to);
        self.filter.reset(to);
    }

    /// A page that must go because its tenant's cap fell below what it has. None if the tenant is within its
    /// cap, or none of its pages can be had.
    pub fn shrink(&mut self, tenant: TenantId, rules: &ClaimRules<'_>) -> Option<Victim> {
        let mut taken = None;
        let mut claims = PoolClaims::new(rules, &self.files, &mut taken);
        let eviction = self.directory.shrink(tenant, &mut claims)?;
        let latch = taken.expect("the directory evicts what it has claimed");
        let spare = rules.spare_for(eviction.frame);
        self.note_wishes(tenant);
        self.note_worth(&latch, rules);
        Some(Victim { latch, page: eviction.page, owner: tenant, spare })
    }

    /// Notes in the victim's frame what the directory knows of it, if there is somebody to ask for it.
    fn note_worth(&self, victim: &Latch<OwnedWord>, rules: &ClaimRules<'_>) {
        let Some(worth) = self.directory.worth_of_last() else { return };
        let frame = rules.frames.get(victim.frame());
        frame.set_worth(worth);
        let Some(tier) = &self.promotes_from else { return };
        // A page that the tier kept has not been here for as long as others are, unless it was used again.
        let has_lived = frame.below() != Below::Page || worth == PageWorth::Again;
        if let Some(age) = self.directory.age_of_last().filter(|_| has_lived) {
            tier.left(Life { now: self.directory.now(), age });
        }
    }

    /// A page of the tenant that its program wishes to leave; none if it has left, or cannot be had.
    pub fn release_page(
        &mut self,
        tenant: TenantId,
        frame: FrameId,
        page: PageId,
        rules: &ClaimRules<'_>,
    ) -> Option<Victim> {
        let mut taken = None;
        let mut claims = PoolClaims::new(rules, &self.files, &mut taken);
        self.directory.evict_page(tenant, frame, page, &mut claims)?;
        let latch = taken.expect("the directory evicts what it has claimed");
        self.note_worth(&latch, rules);
        Some(Victim { latch, page, owner: tenant, spare: rules.spare_for(frame) })
    }

    /// The tenant's manager was asked: notes what its program wishes, as long as there are no more than
    /// [`WISHES_MAX`] to be carried out.
    #[inline]
    fn note_wishes(&mut self, tenant: TenantId) {
        if self.tenants[tenant.index()].program.as_ref().is_some_and(Program::has_wishes) {
            self.note_wishes_of_program(tenant);
        }
    }

    #[cold]
    fn note_wishes_of_program(&mut self, tenant: TenantId) {
        while self.wishes.len() < WISHES_MAX
            && let Some(wish) = self.directory.take_wish(tenant)
        {
            let (Wish::Flush { page, .. } | Wish::SetModified { page, .. } | Wish::Release { page, .. }) =
                wish;
            if let Some(file) = self.file(page.file()) {
                let file = Arc::clone(file);
                self.wishes.push(Wished { tenant, wish, file });
            }
        }
    }

    /// What programs wish, to be carried out without the policy lock.
    pub fn take_wishes(&mut self) -> Vec<Wished> {
        if self.wishes.is_empty() { Vec::new() } else { std::mem::take(&mut self.wishes) }
    }

    /// The next page that would make room for one of the tenant, latched exclusively and out of the
    /// directory. Its frame is the reserve's.
    pub fn evict_next(&mut self, tenant: TenantId, rules: &ClaimRules<'_>) -> Option<Latch<OwnedWord>> {
        let mut taken = None;
        let mut claims = PoolClaims::new(rules, &self.files, &mut taken);
        self.directory.evict_next(tenant, &mut claims)?;
        taken.inspect(|latch| self.note_worth(latch, rules))
    }

    /// All floors together.
    pub fn floors_frames(&self) -> u64 {
        self.tenants.iter().map(|entry| u64::from(entry.floor_frames)).sum()
    }

    /// The tenant's context at a call site.
    #[inline]
    fn context(&mut self, tenant: TenantId, site: SiteRef) -> ContextSlot {
        let found = self.contexts.find(tenant, site.masked(self.site_mask));
        if found.is_new
            && let Some(recording) = &mut self.recording
        {
            let (entry, site) = self.contexts.describe(tenant, found);
            recording.recorder.record(Event::Site {
                id: found.id,
                scopes: &entry.scopes,
                class: entry.class().0,
                name: site.name,
                file: site.file,
                line: site.line,
            });
        }
        found
    }

    /// The page that a tenant waited for is there, or does not come.
    pub fn wait_ended(&mut self, tenant: TenantId) {
        if let Some(pricing) = &mut self.pricing {
            pricing.ended(&mut self.directory, tenant);
        }
    }

    /// A tenant made `accesses`, for which it took `busy`, waits left out.
    pub fn note_pace(&mut self, tenant: TenantId, accesses: u64, busy: Duration) {
        if let Some(pricing) = &mut self.pricing {
            pricing.accessed(&mut self.directory, tenant, accesses.min(u64::from(u32::MAX)) as u32, busy);
        }
    }

    /// A transfer ahead took that long, and its submission kept the processor that long.
    pub fn note_read_ahead(&mut self, took: Duration, submitting: Duration) {
        if let Some(pricing) = &mut self.pricing {
            pricing.read_ahead(&mut self.directory, took, submitting);
        }
    }

    /// Whether there is a recorder.
    pub fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    /// Tells the recorder, if there is one.
    pub fn record(&mut self, event: Event<'_>) {
        if let Some(recording) = &mut self.recording {
            recording.recorder.record(event);
        }
    }

    fn record_access(&mut self, page: PageId, context: ContextId, tenant: TenantId, creation: bool) {
        if let Some(recording) = &mut self.recording {
            recording.access(Event::Access { page, site: context.0, tenant: tenant.0, creation });
        }
    }

    /// A guard or pin on `page` begins.
    pub fn hold(&mut self, page: PageId) {
        if let Some(recording) = &mut self.recording {
            recording.hold(page);
        }
    }

    /// A guard or pin on `page` ends.
    pub fn let_go(&mut self, page: PageId) {
        if let Some(recording) = &mut self.recording {
            recording.let_go(page);
        }
    }
}

fn access(page: PageId, tenant: TenantId, context: ContextId, creates: bool) -> Access {
    Access { page, file: page.file(), tenant, context, creates }
}
