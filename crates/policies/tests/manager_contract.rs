//! What holds for every manager in a directory. Whatever is accessed, discarded, busy or capped, the state
//! stays consistent, the same calls give the same decisions, and reports add up. An oblivious tenant hits
//! wherever it would under plain LRU.
//!
//! Method: random steps through a real directory, with a check of the invariants after each.

use std::collections::HashMap;

use bufpool_policies::{
    Access, Admission, Allocation, Claims, ContextId, Directory, DirectoryOptions, FileId, FrameId,
    ManagerKind, PageId, TenantId,
};
use proptest::prelude::*;

/// The tenant without a manager.
const OBLIVIOUS: TenantId = TenantId(0);
/// The tenant with a manager.
const MANAGED: TenantId = TenantId(1);

#[derive(Clone, Debug)]
enum Step {
    /// Accesses to `length` pages from `first` on, every `stride`-th page, around and around.
    Access {
        managed: bool,
        context: u32,
        file: u32,
        first: u64,
        length: u64,
        accesses: u64,
        stride: u64,
    },
    Discard {
        page: u64,
    },
    Cap {
        frames: u32,
    },
    /// From here on `frames` frames from `first` on are busy.
    Busy {
        first: u32,
        frames: u32,
    },
    /// The managed tenant gets a new manager.
    Adopt,
}

struct Busy {
    first: u32,
    frames: u32,
}

impl Claims for &Busy {
    fn is_busy(&mut self, frame: FrameId) -> bool {
        (self.first..self.first + self.frames).contains(&frame.0)
    }

    fn claim(&mut self, frame: FrameId) -> bool {
        !self.is_busy(frame)
    }
}

struct World {
    kind: Option<ManagerKind>,
    directory: Directory,
    frame_of: HashMap<PageId, FrameId>,
    busy: Busy,
    /// For each access of the oblivious tenant, in order, whether it was a hit.
    oblivious: Vec<bool>,
    misses: u64,
}

impl World {
    fn new(kind: Option<ManagerKind>, frames: u32, revocation: bool) -> Self {
        let options =
            DirectoryOptions { frames, allocation: Allocation::LruSp, revocation, shared_pages: false };
        let mut directory = Directory::new(options).unwrap();
        assert_eq!(directory.open_tenant(0, frames).unwrap(), MANAGED);
        let busy = Busy { first: 0, frames: 0 };
        let mut world =
            Self { kind, directory, frame_of: HashMap::new(), busy, oblivious: Vec::new(), misses: 0 };
        world.adopt();
        world
    }

    fn adopt(&mut self) {
        if let Some(kind) = self.kind {
            let manager = kind.build(self.directory.frames(), 7, MANAGED);
            self.directory.set_manager(MANAGED, manager, true).unwrap();
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Access { managed, context, file, first, length, accesses, stride } => {
                let tenant = if managed { MANAGED } else { OBLIVIOUS };
                // Tenants have pages of their own.
                let base = first + (u64::from(managed) << 32) + (u64::from(file) << 20);
                for at in 0..accesses {
                    let page = PageId(base + at * stride % length);
                    let (file, context) = (FileId(file), ContextId(context));
                    let creates = (at + first) % 7 == 0;
                    self.access(&Access { page, file, tenant, context, creates });
                }
            }
            Step::Discard { page } => {
                let page = PageId(page + (1 << 32));
                if let Some(frame) = self.frame_of.remove(&page) {
                    self.directory.discard(frame);
                }
            }
            Step::Cap { frames } => {
                self.directory.set_cap(MANAGED, frames).unwrap();
                while let Some(eviction) = self.directory.shrink(MANAGED, &mut &self.busy) {
                    self.frame_of.remove(&eviction.page).unwrap();
                    self.directory.release(eviction.frame);
                }
            }
            Step::Busy { first, frames } => self.busy = Busy { first, frames },
            Step::Adopt => self.adopt(),
        }
        self.check();
    }

    fn access(&mut self, access: &Access) {
        let found = self.frame_of.get(&access.page).copied();
        if access.tenant == OBLIVIOUS {
            self.oblivious.push(found.is_some());
        }
        let Some(frame) = found else { return self.miss(access) };
        self.directory.hit(frame, access);
    }

    fn miss(&mut self, access: &Access) {
        let frame = match self.directory.admit(access, &mut &self.busy) {
            Admission::Free { frame, .. } => frame,
            Admission::Evict { frame, page, .. } => {
                assert!(!(&mut &self.busy).is_busy(frame), "a busy frame was taken");
                self.frame_of.remove(&page).unwrap();
                frame
            }
            Admission::Exhausted { .. } => return,
        };
        self.misses += 1;
        self.directory.loaded(frame);
        self.frame_of.insert(access.page, frame);
    }

    fn check(&self) {
        self.directory.check_invariants();
        let mut frames = 0;
        self.directory.streams(MANAGED, &mut |stream| {
            frames += stream.frames;
            assert!(stream.recency.is_none_or(|recency| (0.0..=1.0).contains(&recency)));
        });
        assert!(frames <= self.directory.resident(MANAGED), "streams hold more frames than the tenant");
        assert_eq!(self.directory.tenant_stats(MANAGED).manager_panics, 0, "the manager panicked");
    }
}

fn steps(with_trouble: bool) -> impl Strategy<Value = Vec<Step>> {
    let access = (any::<bool>(), 0..6u32, 0..2u32, 0..50u64, 1..80u64, 1..150u64, 1..5u64).prop_map(
        |(managed, context, file, first, length, accesses, stride)| Step::Access {
            managed,
            context,
            file,
            first,
            length,
            accesses,
            stride,
        },
    );
    let trouble = prop_oneof![
        (0..100u64).prop_map(|page| Step::Discard { page }),
        (1..60u32).prop_map(|frames| Step::Cap { frames }),
        (0..60u32, 0..60u32).prop_map(|(first, frames)| Step::Busy { first, frames }),
        Just(Step::Adopt),
    ];
    prop::collection::vec(prop_oneof![8 => access, u32::from(with_trouble) * 3 => trouble], 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_happens_the_state_is_consistent_and_decisions_repeat(
        frames in 1..60u32,
        revocation: bool,
        steps in steps(true),
    ) {
        for kind in ManagerKind::ALL {
            let run = || {
                let mut world = World::new(Some(kind), frames, revocation);
                steps.iter().for_each(|step| world.step(step));
                let stats = world.directory.tenant_stats(MANAGED);
                (world.misses, world.oblivious, stats)
            };
            prop_assert_eq!(run(), run(), "{}", kind);
        }
    }

    #[test]
    fn an_oblivious_tenant_hits_wherever_it_would_under_lru(frames in 1..60u32, steps in steps(false)) {
        let mut plain = World::new(None, frames, true);
        steps.iter().for_each(|step| plain.step(step));
        for kind in ManagerKind::ALL {
            let mut world = World::new(Some(kind), frames, true);
            steps.iter().for_each(|step| world.step(step));
            let lost = world.oblivious.iter().zip(&plain.oblivious).filter(|(ours, lru)| **lru && !**ours);
            prop_assert_eq!(lost.count(), 0, "{} took hits from the oblivious tenant", kind);
        }
    }
}

#[test]
fn managers_are_found_by_name() {
    for kind in ManagerKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    let unknown = "lru".parse::<ManagerKind>().unwrap_err();
    assert_eq!(unknown.name, "lru");
    assert!(unknown.to_string().starts_with("expected one of the managers amp amp+ "), "{unknown}");
}
