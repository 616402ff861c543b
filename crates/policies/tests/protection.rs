//! The promises of LRU-SP to a tenant about other tenants, on thousands of seeded random mixes, beside plain
//! LRU of the same size; and that ALLOC-LRU and LRU-S break those of them that they are said to break.

mod cache;
mod naive;

use std::collections::{HashMap, VecDeque};

use bufpool_policies::{
    Access, Admission, Allocation, Block, ContextId, Directory, DirectoryOptions, FileId, FrameId, Manager,
    PageId, SplitMix64, TenantId,
    classic::{self, Departure, PolicyKind},
};
use cache::NothingBusy;
use naive::{Naive, Order};

const TENANTS: u64 = 3;
/// The kind of [`manage`] that puts a tenant into the commons.
const COMMONS: u64 = 4;

/// Plain LRU: its list has the least recently used page first.
struct PlainLru {
    frames: usize,
    list: VecDeque<u64>,
}

impl PlainLru {
    fn access(&mut self, page: u64) -> bool {
        let at = self.list.iter().position(|other| *other == page);
        if let Some(at) = at {
            self.list.remove(at);
        } else if self.list.len() == self.frames {
            self.list.pop_front();
        }
        self.list.push_back(page);
        at.is_some()
    }
}

/// A manager that gives up a random block.
struct RandomVictim {
    random: SplitMix64,
    held: Vec<FrameId>,
}

impl RandomVictim {
    fn new(seed: u64) -> Self {
        Self { random: SplitMix64::new(seed), held: Vec::new() }
    }
}

impl Manager for RandomVictim {
    fn new_block(&mut self, block: &Block) {
        self.held.push(block.frame);
    }
    fn block_gone(&mut self, frame: FrameId, _: PageId) {
        self.held.retain(|held| *held != frame);
    }
    fn block_accessed(&mut self, _: FrameId, _: &Access) {}
    fn replace_block(
        &mut self,
        candidate: FrameId,
        _: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        let choice = self.held[self.random.below(self.held.len() as u64) as usize];
        if busy(choice) { candidate } else { choice }
    }
    fn placeholder_used(&mut self, _: &Access, _: FrameId) {}
}

struct Pool {
    directory: Directory,
    frame_of: HashMap<u64, FrameId>,
}

impl Pool {
    fn new(frames: u64, allocation: Allocation, shared_pages: bool) -> Self {
        let frames = frames as u32;
        let mut directory =
            Directory::new(DirectoryOptions { frames, allocation, revocation: false, shared_pages }).unwrap();
        for _ in 1..TENANTS {
            directory.open_tenant(0, frames).unwrap();
        }
        Self { directory, frame_of: HashMap::new() }
    }

    fn access(&mut self, tenant: u64, page: u64) -> bool {
        let access = Access {
            page: PageId(page),
            file: FileId(0),
            tenant: TenantId(tenant as u32),
            context: ContextId(0),
            creates: false,
        };
        if let Some(frame) = self.frame_of.get(&page) {
            self.directory.hit(*frame, &access);
            return true;
        }
        let frame = match self.directory.admit(&access, &mut NothingBusy) {
            Admission::Free { frame, .. } => frame,
            Admission::Evict { frame, page, .. } => {
                self.frame_of.remove(&page.0);
                frame
            }
            Admission::Exhausted { .. } => panic!("nothing is busy"),
        };
        self.directory.loaded(frame);
        self.frame_of.insert(page, frame);
        false
    }

    fn vindications(&self) -> u64 {
        self.directory.stats().vindications
    }
}

/// Gives the tenant a manager: 0 none, 1 LRU by directive, 2 MRU by directive, 3 random victims, 4 the
/// commons, whose manager gives up random victims.
fn manage(pool: &mut Pool, tenant: u64, kind: u64, seed: u64) {
    let id = TenantId(tenant as u32);
    match kind {
        0 => {}
        1 => pool.directory.set_policy(id, 0, PolicyKind::Lru).unwrap(),
        2 => pool.directory.set_policy(id, 0, PolicyKind::Mru).unwrap(),
        3 => pool.directory.set_manager(id, Box::new(RandomVictim::new(seed)), true).unwrap(),
        COMMONS => pool.directory.join_commons(id, || Box::new(RandomVictim::new(seed))).unwrap(),
        _ => panic!("no manager {kind}"),
    }
}

/// A page of the tenant: the next page of a loop, or a random page of a small or a large set.
fn next_page(random: &mut SplitMix64, loops: &mut u64, private: bool, tenant: u64) -> u64 {
    let base = if private { tenant * 1000 } else { 0 };
    base + match random.below(3) {
        0 => {
            *loops += 1;
            *loops % 20
        }
        1 => random.below(6),
        _ => random.below(40),
    }
}

/// What the random mixes showed, summed up.
#[derive(Default)]
struct Verdicts {
    /// Accesses of unmanaged tenants that missed, and hit under plain LRU.
    lost_hits: u32,
    /// Accesses of unmanaged tenants before the first vindication that hit or missed other than under plain
    /// LRU.
    differences: u32,
    overrules: u64,
}

/// Runs random mixes. With `commons` the managed tenants begin in the commons, and may leave it in
/// mid-stream.
fn random_mixes(allocation: Allocation, runs: u64, commons: bool) -> Verdicts {
    let mut verdicts = Verdicts::default();
    for run in 0..runs {
        let mut random = SplitMix64::new(run);
        let frames = 4 + random.below(25);
        let mut pool = Pool::new(frames, allocation, false);
        let mut plain = PlainLru { frames: frames as usize, list: VecDeque::new() };
        // Tenant 0 is oblivious, so that there is always a tenant to protect.
        let kinds = if commons { [0, COMMONS, COMMONS] } else { [0, 1 + random.below(3), random.below(4)] };
        let leaves_at = if commons { [1, 2].map(|_| random.below(600)) } else { [u64::MAX; 2] };
        (0..TENANTS).for_each(|tenant| manage(&mut pool, tenant, kinds[tenant as usize], run));
        let mut loops = [0; TENANTS as usize];
        for step in 0..400 {
            for (tenant, _) in (1..).zip(leaves_at).filter(|(_, at)| *at == step) {
                manage(&mut pool, tenant, 1 + random.below(3), run);
            }
            let tenant = random.below(TENANTS);
            let page = next_page(&mut random, &mut loops[tenant as usize], true, tenant);
            let exact = pool.vindications() == 0;
            let (expected, ours) = (plain.access(page), pool.access(tenant, page));
            if kinds[tenant as usize] == 0 {
                verdicts.lost_hits += u32::from(expected && !ours);
                verdicts.differences += u32::from(exact && expected != ours);
            }
        }
        verdicts.overrules += pool.directory.stats().overrules;
    }
    verdicts
}

#[test]
fn lru_sp_takes_no_hit_from_an_oblivious_tenant() {
    let verdicts = random_mixes(Allocation::LruSp, 3000, false);
    assert!(verdicts.overrules > 10_000, "the mixes must overrule: {}", verdicts.overrules);
    assert_eq!(verdicts.lost_hits, 0);
    assert_eq!(verdicts.differences, 0);
}

/// The other tenants are in the commons or leave it, and its manager gives up random victims.
#[test]
fn the_commons_takes_no_hit_from_an_oblivious_tenant() {
    let verdicts = random_mixes(Allocation::LruSp, 3000, true);
    assert!(verdicts.overrules > 10_000, "the mixes must overrule: {}", verdicts.overrules);
    assert_eq!((verdicts.lost_hits, verdicts.differences), (0, 0));
}

#[test]
fn alloc_lru_breaks_the_equality_and_never_the_protection() {
    let verdicts = random_mixes(Allocation::AllocLru, 1000, false);
    assert_eq!(verdicts.lost_hits, 0);
    assert!(verdicts.differences > 0);
}

#[test]
fn lru_s_breaks_both() {
    let verdicts = random_mixes(Allocation::LruS, 1000, false);
    assert!(verdicts.lost_hits > 0);
    assert!(verdicts.differences > 0);
}

/// The paper's ReadN with a fixed interleaving: three accesses of the foreground, in groups of 500 blocks
/// that are each read five times, then two of a foolish background, in groups of 300. There are 819 frames.
#[test]
fn lru_s_fails_read_500_where_lru_sp_equals_oblivious() {
    let foreground_misses = |allocation, foolish: bool| {
        let mut pool = Pool::new(819, allocation, false);
        if foolish {
            pool.directory.set_policy(TenantId(1), 0, PolicyKind::Mru).unwrap();
        }
        let stream = |blocks: u64, group: u64| {
            let firsts = (0..blocks).step_by(group as usize);
            let groups = firsts.map(move |first| first..(first + group).min(blocks));
            groups.flat_map(|group| std::iter::repeat_n(group, 5).flatten())
        };
        let mut background = stream(1310, 300).map(|block| block + 1_000_000);
        for (n, block) in stream(1170, 500).enumerate() {
            pool.access(0, block);
            if n % 3 == 2 {
                for block in background.by_ref().take(2) {
                    pool.access(1, block);
                }
            }
        }
        pool.directory.tenant_stats(TenantId(0)).misses
    };
    assert_eq!(foreground_misses(Allocation::LruSp, false), 1833);
    assert_eq!(foreground_misses(Allocation::LruSp, true), 1833);
    assert_eq!(foreground_misses(Allocation::LruS, true), 3345);
}

/// With shared pages the rule keeps every page that an unmanaged tenant used itself while fewer distinct
/// blocks than there are frames were used since, by any tenant.
#[test]
fn shared_pages_stay_for_whoever_uses_them() {
    let lost = |rule: bool| {
        let mut lost = 0;
        for run in 0..1500 {
            let mut random = SplitMix64::new(run);
            let frames = 4 + random.below(25);
            let mut pool = Pool::new(frames, Allocation::LruSp, rule);
            let mut plain = PlainLru { frames: frames as usize, list: VecDeque::new() };
            let kinds = [0, 1 + random.below(3), random.below(4)];
            (0..TENANTS).for_each(|tenant| manage(&mut pool, tenant, kinds[tenant as usize], run));
            let mut loops = [0; TENANTS as usize];
            // Distinct blocks referenced by anybody since each page's last use by each tenant.
            let mut since: HashMap<(u64, u64), std::collections::HashSet<u64>> = HashMap::new();
            for _ in 0..400 {
                let tenant = random.below(TENANTS);
                let page = next_page(&mut random, &mut loops[tenant as usize], false, tenant);
                plain.access(page);
                let hit = pool.access(tenant, page);
                let recent = since.get(&(tenant, page)).is_some_and(|others| (others.len() as u64) < frames);
                lost += u32::from(kinds[tenant as usize] == 0 && recent && !hit);
                for others in since.values_mut() {
                    others.insert(page);
                }
                since.insert((tenant, page), std::iter::once(page).collect());
            }
        }
        lost
    };
    assert_eq!(lost(true), 0);
    assert!(lost(false) > 0, "without the rule the guarantee must be seen to fail");
}

/// With managers that always agree, and without managers, misses are those of plain LRU, and nothing is
/// overruled.
#[test]
fn agreeing_managers_are_plain_lru() {
    for kind in [0, 1] {
        let mut random = SplitMix64::new(5);
        let mut pool = Pool::new(17, Allocation::LruSp, false);
        let mut plain = PlainLru { frames: 17, list: VecDeque::new() };
        (0..TENANTS).for_each(|tenant| manage(&mut pool, tenant, kind, 0));
        for _ in 0..5000 {
            let tenant = random.below(TENANTS);
            let page = tenant * 1000 + random.below(12);
            assert_eq!(pool.access(tenant, page), plain.access(page));
            assert!(plain.list.iter().all(|page| pool.frame_of.contains_key(page)));
        }
        assert_eq!(pool.directory.stats().overrules, 0);
        assert!(pool.directory.stats().misses > 100);
    }
}

/// A single smart tenant misses as often as its policy alone: P passes of a loop of L blocks under MRU with C
/// frames, P at most C, miss L + (P - 1)(L - C) times.
#[test]
fn a_lone_smart_tenant_pays_nothing_for_the_ledger() {
    for (blocks, passes, frames, expected) in [
        (1073, 8, 819, 2851),
        (1073, 8, 1024, 1416),
        (2462, 4, 1536, 5240),
        (1280, 4, 819, 2663),
        (1024, 9, 819, 2664),
    ] {
        let mut pool = Pool::new(frames, Allocation::LruSp, false);
        pool.directory.set_policy(TenantId(0), 0, PolicyKind::Mru).unwrap();
        for block in (0..passes).flat_map(|_| 0..blocks) {
            pool.access(0, block);
        }
        let stats = pool.directory.tenant_stats(TenantId(0));
        assert_eq!(stats.misses, expected, "{blocks} x {passes} in {frames}");
        assert_eq!(stats.mistakes, 0);
    }
}

/// With every policy that a level can have, the tenant misses exactly where the policy alone does: in a pool
/// of its own, and within a cap while other frames are free. The capacity of W-TinyLFU grows with the number
/// of pages.
#[test]
fn a_level_decides_as_its_policy_alone_would() {
    for kind in PolicyKind::ALL {
        for (frames, spare) in [(5u64, 0), (40, 0), (40, 100)] {
            let mut pool = Pool::new(frames + spare, Allocation::LruSp, false);
            pool.directory.set_cap(TenantId(0), frames as u32).unwrap();
            pool.directory.set_policy(TenantId(0), 0, kind).unwrap();
            let grows = kind == PolicyKind::WTinyLfu;
            let mut alone = classic::build(kind, if grows { 0 } else { frames as u32 });
            let (mut page_in, mut frame_of) = (Vec::new(), HashMap::new());
            let mut random = SplitMix64::new(frames);
            let mut loops = 0;
            for step in 0..6000 {
                let page = next_page(&mut random, &mut loops, true, 0) + random.below(3) * 10;
                let expected = frame_of.get(&page).copied();
                match expected {
                    Some(frame) => alone.hit(frame, PageId(page)),
                    None => {
                        let frame = if (page_in.len() as u64) < frames {
                            page_in.push(page);
                            if grows {
                                alone.resize(page_in.len() as u32);
                            }
                            FrameId(page_in.len() as u32 - 1)
                        } else {
                            let frame = alone.victim(PageId(page), &mut |_| false).unwrap();
                            let gone = std::mem::replace(&mut page_in[frame.index()], page);
                            frame_of.remove(&gone);
                            alone.remove(frame, PageId(gone), Departure::Evicted);
                            frame
                        };
                        alone.insert(frame, PageId(page));
                        frame_of.insert(page, frame);
                    }
                }
                assert_eq!(pool.access(0, page), expected.is_some(), "{kind} in {frames}, access {step}");
            }
            pool.directory.check_invariants();
        }
    }
}

/// The shadow ledger is the ledger with each block to which a placeholder points replaced by the
/// placeholder's absent block. It always has the C most recently referenced blocks, C being the number of
/// frames, without blocks whose placeholder was vindicated and that were not referenced since. This is
/// checked on the naive LRU-SP, with which the directory agrees.
#[test]
fn the_shadow_ledger_is_plain_lru_without_the_vindicated() {
    let mut vindications = 0;
    for run in 0..600 {
        let mut random = SplitMix64::new(run);
        let frames = 4 + random.below(25) as usize;
        let mut naive = Naive::new(frames, TENANTS as usize, Allocation::LruSp, false);
        for tenant in 0..2 {
            naive.set_policy(tenant, 0, [Order::Lru, Order::Mru][random.below(2) as usize]);
        }
        let mut history: Vec<u64> = Vec::new();
        let mut loops = [0; TENANTS as usize];
        for _ in 0..400 {
            let tenant = random.below(TENANTS);
            let page = next_page(&mut random, &mut loops[tenant as usize], true, tenant);
            if random.below(20) == 0 {
                naive.set_temporary(tenant as usize, page, page + 5, random.below(3) as i32 - 1);
            }
            naive.access(tenant as usize, page);
            history.retain(|other| *other != page);
            history.push(page);
            let kept = history.iter().rev().filter(|page| !naive.vindicated.contains(page));
            let mut expected: Vec<u64> = kept.take(frames).copied().collect();
            expected.reverse();
            assert_eq!(naive.shadow(), expected, "run {run}");
        }
        vindications += naive.stats.iter().map(|stats| stats.vindications).sum::<u64>();
    }
    assert!(vindications > 1000, "the runs must vindicate: {vindications}");
}

/// A tenant that leaves the commons does not answer for what the commons' manager did, whose claims on its
/// blocks it takes along. Nearly all of them turn out wrong here.
#[test]
fn a_tenant_that_leaves_the_commons_does_not_answer_for_its_manager() {
    let options = DirectoryOptions {
        frames: 400,
        allocation: Allocation::LruSp,
        revocation: true,
        shared_pages: false,
    };
    let mut pool = Pool { directory: Directory::new(options).unwrap(), frame_of: HashMap::new() };
    let tenant = pool.directory.open_tenant(0, 400).unwrap();
    manage(&mut pool, u64::from(tenant.0), COMMONS, 1);
    (0..700).for_each(|page| _ = pool.access(u64::from(tenant.0), page));
    assert!(pool.directory.stats().outstanding > 128, "{:?}", pool.directory.stats());
    pool.directory.set_floor(tenant, 1).unwrap();
    let gone: Vec<u64> = (0..700).filter(|page| !pool.frame_of.contains_key(page)).collect();
    gone.into_iter().rev().for_each(|page| _ = pool.access(u64::from(tenant.0), page));
    assert!(pool.directory.stats().mistakes > 128, "{:?}", pool.directory.stats());
    assert!(!pool.directory.is_revoked(tenant));
    pool.directory.check_invariants();
}
