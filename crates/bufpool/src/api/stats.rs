//! What a pool can say about itself, as data; as text it is a [`Report`](crate::stats::Report).

use bufpool_policies::hints::HintCounts;
use bufpool_policies::{EventCalls, StreamReport, TenantId, Unloaded};

use crate::hits::contexts::Entry;
use crate::policy::hint_sites::HintSite;
use crate::policy::state::PolicyState;
use crate::state::shared::PoolShared;
use crate::sync::Ordering;
use crate::thread::site::SiteKey;
use crate::tier::TierStats;

/// Counts since the pool was opened. Totals are of one moment; the lists were taken a moment before, piece by
/// piece, so they may miss what other threads did meanwhile. Totals keep the counts of closed tenants, which
/// [`tenants`](Self::tenants) loses when their numbers are used again; from then on its sums are less.
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Guards granted (creations included, retries not), and futures that were dropped after they had begun
    /// to load their page.
    pub accesses: u64,
    /// Accesses whose page was resident, or was being loaded by another thread.
    pub hits: u64,
    /// Of the hits, those that were told to the directory one by one. The others were skipped, because a hit
    /// on the same page had been noted a moment ago.
    pub hits_noted: u64,
    /// Accesses whose page was not resident, creations included.
    pub misses: u64,
    /// Pages transferred from files.
    pub reads: u64,
    /// Pages transferred to files.
    pub writes: u64,
    /// Of these, pages that misses wrote themselves because the clean reserve had run out. In deterministic
    /// mode, every dirty victim of a miss.
    pub miss_writes: u64,
    /// Misses that made their page instead of reading it.
    pub creations: u64,
    /// Hits that waited for a load of the page, another thread's or one that was begun ahead.
    pub waited: u64,
    /// Pages whose read was begun before anybody asked for them, by
    /// [`Tenant::prefetch`](crate::Tenant::prefetch) or by read-ahead.
    pub prefetch_issued: u64,
    /// First accesses to prefetched pages.
    pub prefetch_used: u64,
    /// Prefetched pages that a thread slept for, or a future waited for, when they came.
    pub prefetch_late: u64,
    /// Prefetched pages that left memory before anybody accessed them.
    pub prefetch_wasted: u64,
    /// Prefetched pages that could not be read.
    pub prefetch_failed: u64,
    /// Prefetches that ended early because clean frames were scarce.
    pub prefetch_scarce: u64,
    /// Sequential or strided streams that were recognised and read ahead for.
    pub read_ahead_streams: u64,
    /// Of these, given up with more than a quarter of their pages unused.
    pub read_ahead_wasteful: u64,
    /// Pages that left memory as their file has them, without being written.
    pub left_clean: u64,
    /// Pages that left memory once they were written.
    pub left_written: u64,
    /// Pages that left memory because their file was closed, removed, reopened or shortened, or because they
    /// were discarded.
    pub left_dropped: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Reads of files that failed, each of a page or a run of pages; those that nobody waited for included.
    pub read_failures: u64,
    /// Writes and fsyncs that failed.
    pub write_failures: u64,
    /// Times the engine's log could not be advanced.
    pub log_failures: u64,
    /// Frames that policies fill.
    pub frames: u32,
    /// Frames of the clean reserve, on top of `frames`.
    pub reserve_frames: u32,
    /// Of `frames`, those that the clean reserve has borrowed, because dirty victims leave as fast as they
    /// can be written.
    pub borrowed_frames: u32,
    /// Frames whose page differs from the file.
    pub dirty_frames: u64,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Bytes of all page tables, outside the pool's memory.
    pub page_tables_bytes: u64,
    /// Bytes of what is known of frames, pages and accesses: frame tables, directory, managers, contexts,
    /// read-ahead.
    pub metadata_bytes: u64,
    /// Times that a thread held the lock under which victims are chosen, for a miss or a batch of hits.
    pub lock_holds: u64,
    /// Times that a thread slept because another one held that lock.
    pub lock_parks: u64,
    /// Nanoseconds of all these holds together, estimated from one in 61, the reading of the clock included.
    pub lock_held_ns: u64,
    /// Per tenant, in order of their ids; the default tenant is first.
    pub tenants: Vec<TenantStats>,
    /// Per context of each tenant, most accesses first. Those of a tenant add up to its accesses, misses and
    /// creations together with what its recycled contexts have counted, as in
    /// [`TenantStats::recycled_accesses`].
    pub contexts: Vec<ContextStats>,
    /// What managers know of the streams that they tell apart: those of the commons, then by tenant.
    pub streams: Vec<StreamStats>,
    /// Lists of disclosed reads, by tenant and context.
    pub hints: Vec<HintStats>,
    /// What the pool's tier is worth, if it has one.
    pub tier: Option<TierStats>,
}

impl Stats {
    /// Hits per access, creations left out: a page that is made could not have been in memory. 0 before the
    /// first access.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits, self.accesses.saturating_sub(self.creations))
    }
}

/// One tenant's part of [`Stats`]. A closed tenant has one until its number is used again, which may be as
/// soon as it owns no frames; from then on its counts are in the totals only.
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub struct TenantStats {
    /// The tenant's number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Whether it was closed.
    pub closed: bool,
    /// Its floor, in frames.
    pub floor_frames: u32,
    /// Its cap, in frames; that of a new tenant once it is closed and owns no frames.
    pub cap_frames: u32,
    /// What manages it: `none`, `directives`, `program`, `custom`, or the name of a
    /// [`ManagerKind`](crate::ManagerKind).
    pub manager: &'static str,
    /// What its policy program did, if it has one.
    pub program: Option<ProgramStats>,
    /// Whether it is in the commons, which has one manager and counts as one tenant when frames are given
    /// up; see [`TenantOptions`](crate::TenantOptions).
    pub in_commons: bool,
    /// Whether its manager is not asked now, because it was wrong too often.
    pub revoked: bool,
    /// Frames it owns.
    pub resident_frames: u32,
    /// Guards granted to it.
    pub accesses: u64,
    /// Of these, hits.
    pub hits: u64,
    /// Of these, misses, creations included.
    pub misses: u64,
    /// Misses that made their page instead of reading it.
    pub creations: u64,
    /// Times its manager was asked for a victim.
    pub decisions: u64,
    /// Times its manager named another page than the candidate.
    pub overrules: u64,
    /// Overrules that turned out wrong: the evicted page was needed before the one kept.
    pub mistakes: u64,
    /// Overrules that turned out right.
    pub vindications: u64,
    /// Times its manager was revoked.
    pub revocations: u64,
    /// Managers of it that panicked, each of which was dropped.
    pub manager_panics: u64,
    /// Its pages that came in before anybody accessed them.
    pub prefetched: u64,
    /// Of these, pages accessed since.
    pub prefetch_used: u64,
    /// Of these, pages that left before anybody accessed them.
    pub prefetch_wasted: u64,
    /// What became of the reads that it disclosed; see [`Tenant::hint`](crate::Tenant::hint).
    pub hints: HintCounts,
    /// Contexts that were recycled because the tenant had too many. They are no longer in
    /// [`Stats::contexts`].
    pub contexts_recycled: u64,
    /// Accesses from contexts that were recycled.
    pub recycled_accesses: u64,
    /// Of these, misses, creations included.
    pub recycled_misses: u64,
    /// Misses from recycled contexts that made their page instead of reading it.
    pub recycled_creations: u64,
    /// Mistakes that misses from recycled contexts brought to light.
    pub recycled_mistakes: u64,
}

/// What a tenant's policy program did since it was given to the tenant; part of [`TenantStats`].
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub struct ProgramStats {
    /// The name that its text gives it.
    pub name: String,
    /// How often each of its events ran.
    pub calls: EventCalls,
    /// Instructions that the events took; `find` counts as 4.
    pub steps: u64,
    /// Nanoseconds that the events took, together: an estimate. The clock is read for one event in 61, which
    /// stands for all of them, so the estimate says little before some thousand calls.
    pub spent_ns: u64,
    /// Events that divided by zero.
    pub faults: u64,
    /// Events that took more steps than [`program_fuel`](crate::PoolOptions::program_fuel) lets them.
    pub out_of_fuel: u64,
    /// Answers that were no page of the tenant, or a page that could not be taken.
    pub invalid_answers: u64,
    /// Whether, and why, the program runs no more: too many of these three within 1,024 calls. The tenant's
    /// pages go in LRU order then, until it is given a program again.
    pub unloaded: Option<Unloaded>,
}

/// One context's part of [`Stats`]: a call site with the scopes around it and the class of its pages, for one
/// tenant.
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub struct ContextStats {
    /// The context's number, as in recorded traces; the same for all tenants that have it.
    pub id: u32,
    /// The number of the tenant that accesses from it.
    pub tenant: u32,
    /// Names of the scopes, outermost first, `Q6 > plan node 3`; empty if there are none.
    pub scopes: String,
    /// What [`Page::class`](crate::Page::class) said of the pages; 0 if nothing.
    pub class: u8,
    /// Name given with `site!`, if any.
    pub name: Option<String>,
    /// Source file of the call.
    pub file: String,
    /// Line of the call.
    pub line: u32,
    /// Column of the call.
    pub column: u32,
    /// Guards granted from here.
    pub accesses: u64,
    /// Of these, misses, creations included.
    pub misses: u64,
    /// Misses that made their page instead of reading it.
    pub creations: u64,
    /// Mistakes that misses from here brought to light.
    pub mistakes: u64,
}

impl ContextStats {
    /// Hits per access, creations left out.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.accesses - self.misses, self.accesses.saturating_sub(self.creations))
    }

    /// Scopes, name, place and class in one line: `Q6 > plan node 3 > inner scan (scan.rs:12:9), class 2`.
    pub fn label(&self) -> String {
        let place = format!("{}:{}:{}", self.file, self.line, self.column);
        let site = self.name.as_ref().map_or(place.clone(), |name| format!("{name} ({place})"));
        let site = if self.class == 0 { site } else { format!("{site}, class {}", self.class) };
        if self.scopes.is_empty() { site } else { format!("{} > {site}", self.scopes) }
    }
}

/// The lists of disclosed reads that were opened from one context of a tenant; part of [`Stats`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HintStats {
    /// The number of the tenant.
    pub tenant: u32,
    /// The number of the context of [`Tenant::hint`](crate::Tenant::hint); see [`ContextStats::id`].
    pub context: u32,
    /// Lists that are open now.
    pub open: u32,
    /// How many hints ahead of its reader the pool fetches now, for the open list where that is most.
    pub depth: u32,
    /// The greatest depth so far, of any list.
    pub depth_max: u32,
    /// What became of the hints.
    pub counts: HintCounts,
}

/// What a manager knows of one stream, that is one context's accesses to one file; part of [`Stats`]. The
/// manager is not told of every access: hits on a page that was hit a moment ago may be missing. Its misses
/// include pages that came in ahead, unlike those of [`ContextStats`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StreamStats {
    /// The number of the tenant that the manager decides for; none for the commons, whose tenants have their
    /// streams together.
    pub tenant: Option<u32>,
    /// Name of the file.
    pub file: String,
    /// What the manager has seen of the stream.
    pub seen: StreamReport,
}

pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Tenants, contexts, streams or lists that are looked at under one hold of the policy lock.
const PIECE: usize = 64;
/// Logs of hits that are drained under one hold of the policy lock.
const LOGS_A_PIECE: usize = 4;

/// A pool whose counts are taken piece by piece, so that nobody waits long for the policy lock.
struct Pieces<'p> {
    pool: &'p PoolShared,
    /// Holds of the policy lock so far, and the most that was found under one of them.
    #[cfg(test)]
    holds: std::cell::Cell<(usize, usize)>,
}

impl<'p> Pieces<'p> {
    fn of(pool: &'p PoolShared) -> Self {
        Self {
            pool,
            #[cfg(test)]
            holds: std::cell::Cell::default(),
        }
    }

    /// Calls `look` with the number of the first of [`PIECE`] things, until it says that there are no more,
    /// and returns what it has found.
    fn collect<T>(&self, mut look: impl FnMut(&mut PolicyState, usize, &mut Vec<T>) -> bool) -> Vec<T> {
        let mut found = Vec::new();
        let mut first = 0;
        loop {
            // Not under the lock.
            found.reserve(PIECE);
            let has_more = {
                let before = found.len();
                let has_more = look(&mut self.pool.policy.lock(), first, &mut found);
                self.note(found.len() - before);
                has_more
            };
            if !has_more {
                return found;
            }
            first += PIECE;
        }
    }

    /// Applies all hits that have been noted by now, and closes lists whose handles were dropped under the
    /// lock.
    fn drain_logs(&self) {
        let mut left = self.pool.logs.lock().len();
        while left > 0 {
            let mut policy = self.pool.policy.lock();
            let end = left.min(self.pool.logs.lock().len());
            left = self.pool.logs.lock().drain_before(end, LOGS_A_PIECE, |ring| policy.apply(ring));
            self.note(end - left);
        }
        self.pool.dropped_lists.close(&mut self.pool.policy.lock());
    }

    #[cfg(test)]
    fn note(&self, found: usize) {
        let (holds, most) = self.holds.get();
        self.holds.set((holds + 1, most.max(found)));
    }

    #[cfg(not(test))]
    fn note(&self, _: usize) {}

    fn tenants(&self) -> Vec<TenantStats> {
        self.collect(|policy, first, found| {
            let end = policy.tenants.len().min(first + PIECE);
            found.extend((first..end).map(|id| tenant_stats(policy, TenantId(id as u32))));
            end < policy.tenants.len()
        })
    }

    fn contexts(&self, tenants: &[TenantStats]) -> Vec<ContextStats> {
        let of_tenant = |tenant: &TenantStats| {
            self.collect(|policy, first, found| {
                let Some(contexts) = policy.contexts.of(TenantId(tenant.id), first, PIECE) else {
                    return false;
                };
                found.extend(contexts.map(|(entry, site)| context_stats(tenant.id, entry, site)));
                true
            })
        };
        let mut contexts: Vec<ContextStats> = tenants.iter().flat_map(of_tenant).collect();
        contexts.sort_by_key(|context| (std::cmp::Reverse(context.accesses), context.tenant, context.id));
        contexts
    }

    fn streams(&self, tenants: &[TenantStats]) -> Vec<StreamStats> {
        let managed = std::iter::once(None).chain(tenants.iter().map(|tenant| Some(tenant.id)));
        let of_tenant = |tenant: Option<u32>| {
            self.collect(|policy, first, found| {
                let mut show = |stream: &StreamReport| {
                    let file = policy.file(stream.file);
                    let file = file
                        .map_or_else(|| format!("closed file {}", stream.file.0), |file| file.name.clone());
                    found.push(StreamStats { tenant, file, seen: *stream });
                };
                policy.directory.streams_from(tenant.map(TenantId), first, PIECE, &mut show)
            })
        };
        managed.flat_map(of_tenant).collect()
    }

    fn hints(&self, tenants: &[TenantStats]) -> Vec<HintStats> {
        let of_tenant = |tenant: &TenantStats| {
            self.collect(|policy, first, found| {
                let sites = policy.tenants[tenant.id as usize].hint_sites.from(first);
                found.extend(sites.iter().take(PIECE).map(|site| hint_stats(policy, tenant.id, site)));
                sites.len() > PIECE
            })
        };
        tenants.iter().flat_map(of_tenant).collect()
    }
}

/// The counts of a pool now. Takes the policy lock for a short time again and again, and applies all hits
/// that were noted.
pub(crate) fn take(pool: &PoolShared) -> Stats {
    if !pool.owner.may_call() {
        return Stats { frames: pool.frames_count, page_bytes: pool.page_bytes, ..Stats::default() };
    }
    take_from(&Pieces::of(pool))
}

fn take_from(pieces: &Pieces<'_>) -> Stats {
    let pool = pieces.pool;
    // Not under the lock: the tier has its own.
    let tier = pool.tier.as_ref().map(|tier| tier.stats());
    pieces.drain_logs();
    let tenants = pieces.tenants();
    let contexts = pieces.contexts(&tenants);
    let streams = pieces.streams(&tenants);
    let hints = pieces.hints(&tenants);
    Stats { tenants, contexts, streams, hints, tier, ..totals(pool) }
}

/// What is not a list.
fn totals(pool: &PoolShared) -> Stats {
    let policy = pool.policy.lock();
    let of_tenants: u64 = policy.tenants.iter().map(|entry| entry.hits_unlisted).sum();
    let unlisted = of_tenants + policy.departed_unlisted;
    let directory = &policy.directory;
    let total = directory.stats();
    let counters = &pool.counters;
    let metadata_bytes = pool.frames.metadata_bytes()
        + pool.hot.filter.metadata_bytes()
        + directory.metadata_bytes()
        + policy.managers.shared_learning.metadata_bytes()
        + policy.free.metadata_bytes()
        + pool.reserve.metadata_bytes()
        + policy.contexts.metadata_bytes()
        + policy.ahead.metadata_bytes();
    Stats {
        accesses: total.accesses + unlisted,
        hits: total.hits + unlisted,
        hits_noted: policy.hits.count,
        misses: total.misses,
        reads: counters.reads.load(),
        writes: counters.writes.load(Ordering::Relaxed),
        miss_writes: counters.miss_writes.load(Ordering::Relaxed),
        left_clean: counters.left_clean.load(),
        left_written: counters.left_written.load(Ordering::Relaxed),
        left_dropped: counters.left_dropped.load(Ordering::Relaxed),
        creations: counters.creations.load(Ordering::Relaxed),
        waited: counters.waited.load(Ordering::Relaxed),
        prefetch_issued: counters.prefetch_issued.load(Ordering::Relaxed),
        prefetch_used: total.prefetch_used,
        prefetch_wasted: total.prefetch_wasted,
        prefetch_failed: counters.prefetch_failed.load(Ordering::Relaxed),
        prefetch_late: counters.prefetch_late.load(Ordering::Relaxed),
        prefetch_scarce: counters.prefetch_scarce.load(Ordering::Relaxed),
        read_ahead_streams: policy.stream_counts().opened,
        read_ahead_wasteful: policy.stream_counts().wasteful,
        evictions: total.evictions,
        read_failures: counters.read_failures.load(Ordering::Relaxed),
        write_failures: counters.write_failures.load(Ordering::Relaxed),
        log_failures: counters.log_failures.load(Ordering::Relaxed),
        frames: pool.frames_count,
        reserve_frames: pool.reserve.frames() as u32,
        borrowed_frames: pool.reserve.borrowed() as u32,
        dirty_frames: counters.dirty_frames.load(Ordering::Relaxed),
        page_bytes: pool.page_bytes,
        page_tables_bytes: pool.page_table_budget.bytes(),
        metadata_bytes: metadata_bytes as u64,
        lock_holds: policy.counts().holds,
        lock_parks: policy.counts().parks,
        lock_held_ns: policy.counts().held_ns(),
        ..Stats::default()
    }
}

fn tenant_stats(policy: &PolicyState, id: TenantId) -> TenantStats {
    let entry = &policy.tenants[id.index()];
    let stats = policy.directory.tenant_stats(id);
    let (contexts_recycled, recycled_counts) = policy.contexts.recycled(id);
    TenantStats {
        id: id.0,
        name: entry.name.to_string(),
        closed: entry.closed,
        floor_frames: policy.directory.floor_frames(id),
        cap_frames: policy.directory.cap_frames(id),
        manager: policy.manager_name(id),
        program: program_stats(policy, id),
        in_commons: policy.directory.is_in_commons(id),
        revoked: policy.directory.is_managed(id) && policy.directory.is_revoked(id),
        resident_frames: policy.directory.resident(id),
        accesses: stats.accesses + entry.hits_unlisted,
        hits: stats.hits + entry.hits_unlisted,
        misses: stats.misses,
        creations: entry.creations,
        decisions: stats.decisions,
        overrules: stats.overrules,
        mistakes: stats.mistakes,
        vindications: stats.vindications,
        prefetched: stats.prefetched,
        prefetch_used: stats.prefetch_used,
        prefetch_wasted: stats.prefetch_wasted,
        revocations: stats.revocations,
        manager_panics: stats.manager_panics,
        hints: hint_counts(policy, id, stats.hints),
        contexts_recycled,
        recycled_accesses: recycled_counts.accesses,
        recycled_misses: recycled_counts.misses,
        recycled_creations: recycled_counts.creations,
        recycled_mistakes: recycled_counts.mistakes,
    }
}

fn program_stats(policy: &PolicyState, id: TenantId) -> Option<ProgramStats> {
    let name = policy.tenants[id.index()].program()?.name();
    let did = policy.directory.program_stats(id)?;
    Some(ProgramStats {
        name: name.to_string(),
        calls: did.calls_of,
        steps: did.steps,
        spent_ns: did.spent_ns,
        faults: did.faults,
        out_of_fuel: did.out_of_fuel,
        invalid_answers: did.invalid_answers,
        unloaded: did.unloaded,
    })
}

/// Counts of all lists of the tenant, of which `closed` are those of closed ones.
fn hint_counts(policy: &PolicyState, id: TenantId, closed: HintCounts) -> HintCounts {
    let mut counts = closed;
    for list in policy.directory.open_lists(id) {
        counts.add(&policy.directory.hint_state(list).map_or_else(HintCounts::default, |open| open.counts));
    }
    counts
}

fn hint_stats(policy: &PolicyState, tenant: u32, site: &HintSite) -> HintStats {
    let (mut counts, mut open, mut depth, mut depth_max) = (site.counts, 0, 0, site.depth_max);
    site.open.iter().filter_map(|list| policy.directory.hint_counts(*list)).for_each(|of| counts.add(&of));
    for now in site.open.iter().filter_map(|list| policy.directory.hint_state(*list)) {
        open += 1;
        depth = depth.max(now.depth);
        depth_max = depth_max.max(now.depth);
    }
    HintStats { tenant, context: site.context.0, open, depth, depth_max, counts }
}

fn context_stats(tenant: u32, entry: &Entry, site: SiteKey) -> ContextStats {
    ContextStats {
        id: entry.id,
        tenant,
        scopes: entry.scopes.to_string(),
        class: entry.class().0,
        name: site.name.map(str::to_owned),
        file: site.file.to_owned(),
        line: site.line,
        column: site.column,
        accesses: entry.counts.accesses,
        misses: entry.counts.misses,
        creations: entry.counts.creations,
        mistakes: entry.counts.mistakes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::sim::SimDevice;
    use crate::{FileOptions, PoolOptions};

    /// However much there is to be counted. Each count is the same as with one hold.
    #[test]
    fn statistics_hold_the_policy_lock_for_a_few_things_at_a_time() {
        const TENANTS: usize = 200;
        const SCOPES: usize = 500;
        // What is promised, whatever the size of a piece.
        const FEW: usize = 100;
        let _names = crate::thread::scope::NAMES_IN_TESTS.lock();
        let device = SimDevice::new(1);
        device.put("data", &vec![0; 4096 * SCOPES]);
        let options = PoolOptions::new().page_bytes(4096).frames(64).threads_max(8).read_ahead(false);
        let pool = options.open_on(&device).unwrap();
        let file = pool.open_file("data", FileOptions::new()).unwrap();
        let tenant = pool.default_tenant();
        for _ in 1..TENANTS {
            drop(pool.tenant("another").open().unwrap().read(file.page(0)).unwrap());
        }
        for scope in 0..SCOPES {
            let _scope = crate::context!("scope", scope as u64);
            drop(tenant.read(file.page(scope as u64)).unwrap());
        }
        let ended = std::sync::Barrier::new(20);
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    drop(tenant.read(file.page(7)).unwrap());
                    ended.wait();
                });
            }
        });
        let pieces = Pieces::of(pool.shared());
        let stats = take_from(&pieces);
        let (holds, most) = pieces.holds.get();
        assert!(most <= FEW, "{most} things under one hold");
        assert!(holds >= (TENANTS + SCOPES) / FEW, "{holds} holds");
        assert_eq!(stats.accesses as usize, TENANTS - 1 + SCOPES + 20);
        assert_eq!(stats.tenants.len(), TENANTS);
        assert_eq!(stats.tenants.iter().map(|tenant| tenant.accesses).sum::<u64>(), stats.accesses);
        assert!(stats.contexts.len() >= SCOPES + TENANTS, "{} contexts", stats.contexts.len());
        assert_eq!(stats.contexts.iter().map(|context| context.accesses).sum::<u64>(), stats.accesses);
        assert!(stats.streams.len() >= SCOPES, "{} streams", stats.streams.len());
    }
}
