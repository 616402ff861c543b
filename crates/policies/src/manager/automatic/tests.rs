//! Goal: a tenant has a machine that is made for about as many pages as it holds, or none; one that holds
//! all frames decides as if it had had its machine from the first on.
//! Method: tenants that hold scattered frames of a larger pool, and one that is alone.

use super::*;
use crate::ids::{ContextId, FileId, TenantId};
use crate::random::SplitMix64;
use std::collections::HashMap;

/// Frames of the pool.
const POOL: u32 = 10_000;

/// A tenant, and which page is in which of its frames.
struct Tenant {
    manager: Automatic,
    pages: HashMap<u32, PageId>,
    /// How far apart its frames are.
    stride: u32,
}

struct Blocks<'a>(&'a HashMap<u32, PageId>);

impl Look for Blocks<'_> {
    fn is_busy(&mut self, _frame: FrameId) -> bool {
        false
    }

    fn is_modified(&mut self, _frame: FrameId) -> bool {
        false
    }

    fn frames_left(&self) -> u32 {
        POOL
    }

    fn block(&self, frame: FrameId) -> Option<Block> {
        let page = *self.0.get(&frame.0)?;
        Some(Block { frame, page, file: FileId(0), context: ContextId(0), created: false })
    }
}

fn access(page: u64) -> Access {
    Access {
        page: PageId(page),
        file: FileId(0),
        tenant: TenantId(0),
        context: ContextId(page as u32 / 300),
        creates: false,
    }
}

impl Tenant {
    fn new(stride: u32) -> Self {
        let manager = Automatic::new(Strategy::Auto, POOL, 1);
        Self { manager, pages: HashMap::new(), stride }
    }

    /// Accesses `page`, holding at most `frames` frames. Returns whether it was there.
    fn access(&mut self, page: u64, frames: usize) -> bool {
        let access = access(page);
        let held = self.pages.iter().find(|(_, held)| **held == access.page);
        if let Some(frame) = held.map(|(frame, _)| *frame) {
            self.manager.block_accessed(FrameId(frame), &access);
            return true;
        }
        while self.pages.len() >= frames {
            let candidate = FrameId(*self.pages.keys().min().expect("a frame"));
            let gone = self.manager.choose(candidate, Some(&access), &mut Blocks(&self.pages));
            let page = self.pages.remove(&gone.0).expect("one of the tenant's");
            self.manager.block_gone(gone, page);
        }
        let free = (0..).map(|at| at * self.stride).find(|frame| !self.pages.contains_key(frame));
        let frame = FrameId(free.expect("a frame"));
        self.pages.insert(frame.0, access.page);
        self.manager.new_block(&Block {
            frame,
            page: access.page,
            file: access.file,
            context: access.context,
            created: access.creates,
        });
        false
    }

    fn made_for(&self) -> Option<u32> {
        match &self.manager.state {
            State::Learning(machine) => Some(machine.made_for()),
            State::Few(_) | State::Waiting(_) => None,
        }
    }
}

#[test]
fn a_machine_is_made_for_what_the_tenant_holds() {
    let (mut tenant, mut random) = (Tenant::new(37), SplitMix64::new(1));
    for (frames, expected) in [
        (10, None),
        (31, None),
        (32, Some(32)),
        (60, Some(32)),
        (65, Some(128)),
        (33, Some(128)),
        (31, Some(32)),
        (9, Some(32)),
        (7, None),
        (40, Some(64)),
    ] {
        (0..frames as u64 * 8).for_each(|_| {
            tenant.access(random.below(3 * frames as u64), frames);
            tenant.manager.check_invariants();
        });
        assert_eq!(tenant.made_for(), expected, "{frames} frames");
    }
}

#[test]
fn who_had_few_pages_and_fills_free_frames_has_a_machine() {
    let mut tenant = Tenant::new(37);
    (0..40).for_each(|page| {
        tenant.access(page, 10);
    });
    assert_eq!(tenant.made_for(), None);
    (100..100 + u64::from(MANY)).for_each(|page| {
        tenant.access(page, POOL as usize);
        tenant.manager.check_invariants();
    });
    assert_eq!(tenant.made_for(), Some(MANY));
    for frame in tenant.pages.keys().copied().collect::<Vec<_>>() {
        let page = tenant.pages.remove(&frame).expect("held");
        tenant.manager.block_gone(FrameId(frame), page);
        tenant.manager.check_invariants();
    }
}

/// More pages than a machine is made anew for: one step to a machine for all frames, which stays.
#[test]
fn who_holds_very_many_pages_has_a_machine_for_all_frames() {
    let mut manager = Automatic::new(Strategy::Auto, 10 * REFITTED_MAX, 1);
    let mut pages = HashMap::new();
    let load = |manager: &mut Automatic, pages: &mut HashMap<u32, PageId>, number: u32| {
        let frame = FrameId(3 * number);
        pages.insert(frame.0, PageId(u64::from(number)));
        let block = Block {
            frame,
            page: PageId(u64::from(number)),
            file: FileId(0),
            context: ContextId(0),
            created: false,
        };
        manager.new_block(&block);
    };
    let made_for = |manager: &Automatic| match &manager.state {
        State::Learning(machine) => machine.made_for(),
        State::Few(_) | State::Waiting(_) => 0,
    };
    (0..100).for_each(|number| load(&mut manager, &mut pages, number));
    manager.choose(FrameId(0), None, &mut Blocks(&pages));
    assert_eq!(made_for(&manager), 128);
    (100..REFITTED_MAX + 1).for_each(|number| load(&mut manager, &mut pages, number));
    manager.choose(FrameId(0), None, &mut Blocks(&pages));
    assert_eq!(made_for(&manager), 10 * REFITTED_MAX);
    (REFITTED_MAX + 1..REFITTED_MAX + 10).for_each(|number| load(&mut manager, &mut pages, number));
    manager.choose(FrameId(0), None, &mut Blocks(&pages));
    assert_eq!(made_for(&manager), 10 * REFITTED_MAX, "a tenth of the pool, but more than is made anew");
    manager.check_invariants();
}

#[test]
fn memory_follows_the_pages_held() {
    let bytes = |frames: usize| {
        let (mut tenant, mut random) = (Tenant::new(37), SplitMix64::new(1));
        (0..frames as u64 * 20).for_each(|_| {
            tenant.access(random.below(3 * frames as u64), frames);
        });
        tenant.manager.metadata_bytes()
    };
    assert!(bytes(2) <= 100, "{}", bytes(2));
    for frames in [32, 100, 250] {
        assert!(bytes(frames) <= 20_000 + 600 * frames, "{frames} frames: {}", bytes(frames));
    }
}

/// A loop that is a little longer than the cache: a tenant of a large pool finds that out as well as one of a
/// small one.
#[test]
fn a_tenant_of_a_larger_pool_learns() {
    let mut tenant = Tenant::new(37);
    let hits = (0..20_000).filter(|at| tenant.access(at % 120, 100)).count();
    assert!(hits > 12_000, "{hits} hits, of which LRU has none");
}

#[test]
fn who_holds_all_frames_decides_as_from_the_first_on() {
    let (frames, mut random) = (500, SplitMix64::new(3));
    for at_once in [false, true] {
        let mut automatic = Automatic::new(Strategy::Auto, frames, 1);
        let mut machine = Machine::new(&automatic.recipe, frames, Numbers::default());
        let mut pages: Vec<u64> = Vec::new();
        let mut overruled = 0;
        for at in 0..20_000u64 {
            let page = if at % 2 == 0 { at / 2 % 700 } else { random.below(400) };
            let access = access(page);
            if let Some(frame) = pages.iter().position(|held| *held == page) {
                automatic.block_accessed(FrameId(frame as u32), &access);
                machine.block_accessed(FrameId(frame as u32), &access);
                continue;
            }
            let mut frame = FrameId(pages.len() as u32);
            if pages.len() < frames as usize {
                pages.push(page);
            } else {
                let candidate = FrameId(at as u32 % frames);
                frame = machine.replace_block(candidate, Some(&access), &mut |_| false);
                let held: HashMap<u32, PageId> = (0..).zip(pages.iter().copied().map(PageId)).collect();
                let chosen = match at_once {
                    true => automatic.replace_block(candidate, Some(&access), &mut |_| false),
                    false => automatic.choose(candidate, Some(&access), &mut Blocks(&held)),
                };
                assert_eq!(chosen, frame);
                overruled += u32::from(frame != candidate);
                let gone = PageId(std::mem::replace(&mut pages[frame.index()], page));
                automatic.block_gone(frame, gone);
                machine.block_gone(frame, gone);
            }
            let block = Block {
                frame,
                page: access.page,
                file: access.file,
                context: access.context,
                created: access.creates,
            };
            automatic.new_block(&block);
            machine.new_block(&block);
        }
        assert!(overruled > 1000, "{overruled}");
    }
}

#[test]
fn pages_are_drawn_by_the_seed() {
    let choices = |seed: u64| {
        let (frames, mut random) = (200, SplitMix64::new(1));
        let mut manager = Automatic::new(Strategy::Reuse, frames, seed);
        let (mut pages, mut choices) = (Vec::new(), Vec::new());
        for _ in 0..10_000 {
            let access = access(random.below(1200));
            if let Some(frame) = pages.iter().position(|page| *page == access.page) {
                manager.block_accessed(FrameId(frame as u32), &access);
                continue;
            }
            let mut frame = FrameId(pages.len() as u32);
            if pages.len() < frames as usize {
                pages.push(access.page);
            } else {
                frame = manager.replace_block(FrameId(0), Some(&access), &mut |_| false);
                choices.push(frame);
                manager.block_gone(frame, std::mem::replace(&mut pages[frame.index()], access.page));
            }
            let Access { page, file, context, .. } = access;
            manager.new_block(&Block { frame, page, file, context, created: false });
        }
        choices
    };
    assert_eq!(choices(1), choices(1));
    assert_ne!(choices(1), choices(2));
}
