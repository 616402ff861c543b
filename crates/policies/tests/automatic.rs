//! The automatic manager: it handles loops nearly as OPT does, stays with LRU where LRU is best, costs oblivious
//! tenants nothing, decides the same way twice, and never contradicts itself.
//! Method: streams with a known optimum and random mixes, through a real directory.

use std::collections::HashMap;

use bufpool_policies::classic::PolicyKind;
use bufpool_policies::{
    Access, Admission, Allocation, Automatic, Claims, ContextId, DEFAULT_TENANT, Directory, DirectoryError,
    DirectoryOptions, FileId, FrameId, PageId, SplitMix64, Strategy, TenantId,
};
use proptest::prelude::*;

/// Every frame can be taken.
struct Idle;

impl Claims for Idle {
    fn is_busy(&mut self, _frame: FrameId) -> bool {
        false
    }

    fn claim(&mut self, _frame: FrameId) -> bool {
        true
    }
}

/// A directory and the driver's map from page to frame.
struct Cache {
    directory: Directory,
    frame_of: HashMap<PageId, FrameId>,
}

impl Cache {
    fn new(frames: u32) -> Self {
        let options =
            DirectoryOptions { frames, allocation: Allocation::LruSp, revocation: true, shared_pages: false };
        Self { directory: Directory::new(options).unwrap(), frame_of: HashMap::new() }
    }

    fn manage(&mut self, tenant: TenantId, strategy: Strategy, seed: u64) {
        let manager = Automatic::new(strategy, self.directory.frames(), seed);
        self.directory.set_manager(tenant, Box::new(manager), true).unwrap();
    }

    /// Makes the access; true if it is a hit.
    fn access(&mut self, tenant: TenantId, context: u32, page: u64) -> bool {
        let page = PageId(page);
        let access = Access { page, file: FileId(0), tenant, context: ContextId(context) };
        if let Some(frame) = self.frame_of.get(&page) {
            self.directory.hit(*frame, &access);
            return true;
        }
        let frame = match self.directory.admit(&access, &mut Idle) {
            Admission::Free { frame, .. } => frame,
            Admission::Evict { frame, page, .. } => {
                self.frame_of.remove(&page);
                frame
            }
            Admission::Exhausted { .. } => unreachable!("nothing is busy"),
        };
        self.directory.loaded(frame);
        self.frame_of.insert(page, frame);
        false
    }
}

/// A cache managed for the default tenant alone.
fn managed(frames: u32, strategy: Strategy) -> Cache {
    let mut cache = Cache::new(frames);
    cache.manage(DEFAULT_TENANT, strategy, 1);
    cache
}

fn misses(cache: &mut Cache, pages: impl Iterator<Item = u64>) -> usize {
    pages.filter(|page| !cache.access(DEFAULT_TENANT, 1, *page)).count()
}

#[test]
fn loops_cost_little_more_than_the_optimum_after_the_second_pass() {
    for strategy in Strategy::ALL {
        for frames in [200u64, 500, 800] {
            let (length, passes) = (1000, 40);
            let mut cache = managed(frames as u32, strategy);
            misses(&mut cache, (0..2 * length).map(|at| at % length));
            let ours = misses(&mut cache, (0..passes * length).map(|at| at % length));
            // In a loop that goes on, OPT misses (length - frames) / (length - 1) of the accesses.
            let optimum = (passes * length * (length - frames)) as f64 / (length - 1) as f64;
            assert!(ours as f64 <= 1.05 * optimum, "{strategy:?}, {frames} frames: {ours}, OPT {optimum}");
        }
    }
}

#[test]
fn a_scan_by_another_context_does_not_displace_what_is_used_again() {
    let mut cache = managed(500, Strategy::Auto);
    let mut random = SplitMix64::new(3);
    let mut missed = 0;
    for at in 0..60_000 {
        let hot = !cache.access(DEFAULT_TENANT, 1, random.below(400));
        missed += usize::from(hot && at >= 20_000);
        cache.access(DEFAULT_TENANT, 2, 1000 + at);
    }
    // Under LRU each hot page, used every 400 rounds, would meet 400 pages of the scan in 500 frames.
    assert!(missed < 4_000, "{missed} of 40,000 accesses to the hot pages missed");
}

/// LRU is optimal on a stream that turns back at both ends.
#[test]
fn auto_stays_near_lru_where_lru_is_optimal() {
    let (length, frames) = (2000u64, 1000);
    let zigzag = |at: u64| {
        let at = at % (2 * length);
        if at < length { at } else { 2 * length - 1 - at }
    };
    let mut lru = Cache::new(frames);
    let mut auto = managed(frames, Strategy::Auto);
    let [lru, auto] = [&mut lru, &mut auto].map(|cache| misses(cache, (0..60 * length).map(zigzag)));
    assert!(auto as f64 <= 1.06 * lru as f64, "auto {auto}, LRU {lru}");
}

/// A context loops until it is known for it, then turns local: the oblivious tenant hits wherever it would without it.
#[test]
fn a_context_that_changes_costs_an_oblivious_tenant_no_hit() {
    let frames = 300;
    let mut plain = Cache::new(frames);
    let mut next_to_auto = Cache::new(frames);
    let [other, _] =
        [&mut plain, &mut next_to_auto].map(|cache| cache.directory.open_tenant(0, 300).unwrap());
    next_to_auto.manage(other, Strategy::Auto, 5);
    let mut random = SplitMix64::new(4);
    let mut local = 10_000u64;
    for at in 0..40_000u64 {
        let page = if at < 20_000 {
            1000 + at % 400
        } else {
            local += u64::from(at % 10 == 0);
            local + random.below(10)
        };
        plain.access(other, 7, page);
        next_to_auto.access(other, 7, page);
        let own = random.below(150) * random.below(2);
        let hits = [&mut plain, &mut next_to_auto].map(|cache| cache.access(DEFAULT_TENANT, 1, own));
        assert!(hits[1] || !hits[0], "access {at}: LRU hits page {own}, next to the manager it misses");
    }
}

/// A context loops until it is known for it, then turns local: 4 x frames accesses later it misses as under LRU.
#[test]
fn a_context_that_changes_recovers() {
    let frames = 300u64;
    let mut caches = [Cache::new(frames as u32), managed(frames as u32, Strategy::Auto)];
    let mut misses = [0; 2];
    let mut random = SplitMix64::new(4);
    for at in 0..40_000u64 {
        // From the half on: uniform over 200 pages, a new one of which comes in every 20 accesses.
        let page = if at < 20_000 { at % 400 } else { 10_000 + at / 20 + random.below(200) };
        for (cache, misses) in caches.iter_mut().zip(&mut misses) {
            let hit = cache.access(DEFAULT_TENANT, 1, page);
            *misses += u32::from(!hit && at >= 20_000 + 4 * frames);
        }
    }
    let [lru, auto] = misses;
    assert!(f64::from(auto) <= 1.02 * f64::from(lru), "auto {auto}, LRU {lru}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any mix of contexts and pages, more streams than samples; and the same decisions when repeated.
    #[test]
    fn state_is_consistent_and_decisions_repeat(
        frames in 1u32..40,
        seed in any::<u64>(),
        accesses in prop::collection::vec((0u32..30, 0u64..120), 1..400),
    ) {
        for strategy in Strategy::ALL {
            let mut runs = [Cache::new(frames), Cache::new(frames)];
            runs.iter_mut().for_each(|cache| cache.manage(DEFAULT_TENANT, strategy, seed));
            for (context, page) in &accesses {
                let hits = runs.each_mut().map(|cache| cache.access(DEFAULT_TENANT, *context, *page));
                prop_assert_eq!(hits[0], hits[1]);
                runs[0].directory.check_invariants();
            }
        }
    }

    /// Removing a block outright, not by replacement, leaves a consistent state.
    #[test]
    fn discarded_blocks_are_forgotten(
        accesses in prop::collection::vec((any::<bool>(), 0u64..60), 1..300),
    ) {
        let mut cache = managed(20, Strategy::Auto);
        for (discard, page) in accesses {
            match cache.frame_of.get(&PageId(page)).copied() {
                Some(frame) if discard => {
                    cache.directory.discard(frame);
                    cache.frame_of.remove(&PageId(page));
                }
                _ => {
                    cache.access(DEFAULT_TENANT, 1, page);
                }
            }
            cache.directory.check_invariants();
        }
    }
}

fn join(cache: &mut Cache, tenant: TenantId) {
    let frames = cache.directory.frames();
    cache.directory.join_commons(tenant, || Box::new(Automatic::new(Strategy::Auto, frames, 1))).unwrap();
}

/// Tenants in the commons are managed as one, and count for themselves.
#[test]
fn tenants_in_the_commons_share_its_manager() {
    let (mut alone, mut shared) = (managed(300, Strategy::Auto), Cache::new(300));
    let other = shared.directory.open_tenant(0, 300).unwrap();
    [DEFAULT_TENANT, other].into_iter().for_each(|tenant| join(&mut shared, tenant));
    let mut random = SplitMix64::new(9);
    let mut hits = 0;
    for at in 0..20_000u64 {
        let (tenant, page) =
            if at % 2 == 0 { (other, at / 2 % 400) } else { (DEFAULT_TENANT, 1000 + random.below(200)) };
        let context = tenant.0;
        let hit = shared.access(tenant, context, page);
        assert_eq!(hit, alone.access(DEFAULT_TENANT, context, page), "access {at}");
        hits += u64::from(hit && tenant == other);
    }
    shared.directory.check_invariants();
    let of = |tenant| shared.directory.tenant_stats(tenant);
    let whole = alone.directory.tenant_stats(DEFAULT_TENANT);
    assert_eq!(of(other).hits, hits);
    assert_eq!(of(other).overrules + of(DEFAULT_TENANT).overrules, whole.overrules);
    let held = [other, DEFAULT_TENANT].map(|tenant| shared.directory.resident(tenant));
    let pages =
        |tenant| shared.frame_of.keys().filter(|page| (page.0 < 1000) == (tenant == other)).count() as u32;
    assert_eq!(held, [other, DEFAULT_TENANT].map(pages));
    let mut streams = [0; 3];
    shared.directory.common_streams(&mut |_| streams[0] += 1);
    shared.directory.streams(other, &mut |_| streams[1] += 1);
    alone.directory.streams(DEFAULT_TENANT, &mut |_| streams[2] += 1);
    assert_eq!(streams, [2, 0, 2]);
}

/// A tenant leaves the commons with its first directive, share or manager, and with what it owns.
#[test]
fn advice_ends_the_sharing() {
    let mut cache = Cache::new(40);
    let tenants = [0; 4].map(|_| cache.directory.open_tenant(0, 40).unwrap());
    tenants.into_iter().for_each(|tenant| join(&mut cache, tenant));
    for page in 0..40 {
        cache.access(tenants[page as usize % 4], 1, page);
    }
    let [directs, floored, capped, managed] = tenants;
    assert!(cache.directory.set_policy(directs, 1_000, PolicyKind::Mru).is_err());
    assert!(cache.directory.set_cap(capped, 0).is_err());
    cache.directory.set_floor(floored, 0).unwrap();
    cache.directory.set_cap(capped, 40).unwrap();
    assert!(tenants.iter().all(|tenant| cache.directory.is_in_commons(*tenant)), "nothing of their own yet");
    let frame_of = cache.frame_of.clone();
    let marked = cache
        .directory
        .set_temporary_priority(directs, PageId(0)..=PageId(19), -1, |page| frame_of.get(&page).copied());
    assert_eq!(marked, Ok(5), "what it has loaded is its own");
    cache.directory.set_floor(floored, 3).unwrap();
    cache.directory.set_cap(capped, 10).unwrap();
    cache.manage(managed, Strategy::Auto, 2);
    cache.directory.check_invariants();
    for tenant in tenants {
        assert!(!cache.directory.is_in_commons(tenant));
        assert_eq!(cache.directory.resident(tenant), 10);
    }
    assert!(cache.directory.has_directives(directs) && !cache.directory.is_managed(floored));
    // The first miss of the tenant at its cap takes one of its own blocks.
    assert!(!cache.access(capped, 1, 100));
    assert_eq!(tenants.map(|tenant| cache.directory.resident(tenant)), [10; 4]);
    for tenant in [directs, floored, managed] {
        let refused = cache.directory.join_commons(tenant, || unreachable!("there is a manager"));
        assert_eq!(refused, Err(DirectoryError::NotCommon { tenant }));
    }
    cache.directory.check_invariants();
}

/// What a closed tenant leaves in the commons is managed with the rest, and its number is free when the last of it has gone.
#[test]
fn a_closed_tenant_leaves_its_blocks_in_the_commons() {
    let mut cache = Cache::new(10);
    let other = cache.directory.open_tenant(0, 10).unwrap();
    [DEFAULT_TENANT, other].into_iter().for_each(|tenant| join(&mut cache, tenant));
    for page in 0..10 {
        cache.access(if page < 5 { other } else { DEFAULT_TENANT }, 1, page);
    }
    cache.directory.close_tenant(other).unwrap();
    assert_eq!(cache.directory.resident(other), 5);
    for page in 10..40 {
        cache.access(DEFAULT_TENANT, 1, page);
        cache.directory.check_invariants();
    }
    assert_eq!(cache.directory.resident(other), 0);
    assert_eq!(cache.directory.open_tenant(0, 10), Ok(other));
    cache.directory.check_invariants();
}
