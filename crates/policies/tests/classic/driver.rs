//! A driver of one policy, or of several policies that must agree, as a cache drives one.

use std::collections::{BTreeMap, BTreeSet};

use bufpool_policies::{
    FrameId, PageId,
    classic::{Departure, OneLevel},
};
use proptest::prelude::*;

/// Pages of a case: more than frames, so that evicted pages come back.
pub const PAGES: u64 = 24;

#[derive(Clone, Debug)]
pub enum Step {
    /// An access. If it misses, the driver refuses `refusals` proposed victims before it takes one.
    Access {
        page: u64,
        refusals: usize,
    },
    /// Two misses whose victims leave before either page comes in.
    TwoMisses {
        first: u64,
        second: u64,
    },
    Pin(u64),
    UnpinAll,
    /// The page moves to another level, or ceases to exist.
    MoveOut(u64),
    Resize(u32),
}

/// The number of frames of a cache, and the steps.
pub fn cases() -> impl Strategy<Value = (u32, Vec<Step>)> {
    let step = prop_oneof![
        30 => (0..PAGES, 0..10usize).prop_map(|(page, r)| Step::Access { page, refusals: r.saturating_sub(7) }),
        // A hot set, and half of the pages, so that ghosts are found again.
        20 => (0..6u64).prop_map(|page| Step::Access { page, refusals: 0 }),
        20 => (0..PAGES / 2).prop_map(|page| Step::Access { page: 2 * page, refusals: 0 }),
        4 => (0..PAGES, 0..PAGES).prop_map(|(first, second)| Step::TwoMisses { first, second }),
        3 => (0..PAGES).prop_map(Step::Pin),
        3 => Just(Step::UnpinAll),
        3 => (0..PAGES).prop_map(Step::MoveOut),
        1 => (0..16u32).prop_map(Step::Resize),
    ];
    (1..12u32, prop::collection::vec(step, 1..400))
}

/// A cache of few frames, whose numbers have gaps, and any number of policies, which must agree.
pub struct Driver {
    policies: Vec<Box<dyn OneLevel>>,
    pub resident: BTreeMap<u64, FrameId>,
    free: Vec<FrameId>,
    pinned: BTreeSet<FrameId>,
}

impl Driver {
    pub fn new(frames: u32, policies: Vec<Box<dyn OneLevel>>) -> Self {
        let free = (0..frames).rev().map(|number| FrameId(3 * number + 2)).collect();
        Self { policies, resident: BTreeMap::new(), free, pinned: BTreeSet::new() }
    }

    pub fn step(&mut self, step: &Step) {
        match *step {
            Step::Access { page, refusals } => match self.resident.get(&page) {
                Some(&frame) => self.each(|policy| policy.hit(frame, PageId(page))),
                None => {
                    if self.make_room(page, refusals) {
                        self.bring_in(page);
                    }
                }
            },
            Step::TwoMisses { first, second } => {
                let absent = |page| !self.resident.contains_key(page);
                if first != second && [first, second].iter().all(absent) && self.make_room(first, 0) {
                    let frame = self.free.pop().expect("there is room for the first");
                    if self.make_room(second, 0) {
                        self.bring_in(second);
                    }
                    self.free.push(frame);
                    self.bring_in(first);
                }
            }
            Step::Pin(page) => self.pinned.extend(self.resident.get(&page)),
            Step::UnpinAll => self.pinned.clear(),
            Step::MoveOut(page) => {
                if let Some(frame) = self.resident.remove(&page) {
                    self.pinned.remove(&frame);
                    self.each(|policy| policy.remove(frame, PageId(page), Departure::Moved));
                    self.free.push(frame);
                }
            }
            Step::Resize(capacity) => self.each(|policy| policy.resize(capacity)),
        }
    }

    fn each(&mut self, event: impl Fn(&mut dyn OneLevel)) {
        for policy in &mut self.policies {
            event(policy.as_mut());
            policy.check_invariants();
        }
    }

    fn bring_in(&mut self, page: u64) {
        let frame = self.free.pop().expect("there is room");
        self.resident.insert(page, frame);
        self.each(|policy| policy.insert(frame, PageId(page)));
    }

    /// Evicts a page unless a frame is free. False if every page is pinned.
    fn make_room(&mut self, missing: u64, refusals: usize) -> bool {
        if !self.free.is_empty() {
            return true;
        }
        let mut busy = self.pinned.clone();
        let mut proposals = (0..=refusals).map_while(|_| {
            let victim = self.victim(missing, &busy)?;
            busy.insert(victim);
            Some(victim)
        });
        // If there is no victim after a refused one, the refused one is taken.
        let Some(victim) = proposals.by_ref().last() else { return false };
        self.evict(victim);
        true
    }

    /// The victim that all policies propose.
    pub fn victim(&mut self, missing: u64, busy: &BTreeSet<FrameId>) -> Option<FrameId> {
        let mut agreed = None;
        for policy in &mut self.policies {
            let victim = policy.victim(PageId(missing), &mut |frame| busy.contains(&frame));
            policy.check_invariants();
            let is_resident = |frame| self.resident.values().any(|&resident| resident == frame);
            assert!(victim.is_none_or(is_resident), "{}: {victim:?} is not resident", policy.name());
            assert!(victim.is_none_or(|frame| !busy.contains(&frame)), "{}: busy victim", policy.name());
            let all_busy = self.resident.values().all(|frame| busy.contains(frame));
            assert_eq!(victim.is_none(), all_busy, "{}: none if and only if all are busy", policy.name());
            let agreed = *agreed.get_or_insert(victim);
            assert_eq!(victim, agreed, "{}: another victim than its twin", policy.name());
        }
        agreed.flatten()
    }

    pub fn evict(&mut self, victim: FrameId) {
        let (&page, _) =
            self.resident.iter().find(|&(_, &frame)| frame == victim).expect("victims are resident");
        self.resident.remove(&page);
        self.pinned.remove(&victim);
        self.each(|policy| policy.remove(victim, PageId(page), Departure::Evicted));
        self.free.push(victim);
    }
}
