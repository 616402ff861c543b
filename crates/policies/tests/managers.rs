//! A custom manager that panics, or names a frame that does not exist or that another tenant has, harms no
//! other tenant. The directory stays consistent, and other tenants hit wherever they would beside an
//! oblivious tenant.

mod cache;

use std::collections::HashMap;

use bufpool_policies::{
    Access, Admission, Allocation, Block, ContextId, Directory, DirectoryOptions, FileId, FrameId, Manager,
    PageId, SplitMix64, TenantId, TenantStats,
};
use cache::NothingBusy;

/// How a manager misbehaves.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Trick {
    Nothing,
    PanicOnNew,
    PanicOnGone,
    PanicOnAccess,
    PanicOnReplace,
    PanicOnMistake,
    PanicOnDrop,
    /// It names a frame number beyond the pool.
    OutOfRange,
    /// It names any frame, mostly one of another tenant.
    AnyFrame,
    /// It names its newest block, so that there are mistakes.
    Newest,
    PanicWhenAsked,
}

struct Trickster {
    trick: Trick,
    calls: u32,
    newest: FrameId,
    random: SplitMix64,
}

impl Trickster {
    fn maybe_panic(&mut self, trick: Trick) {
        self.calls += 1;
        if self.trick == trick && self.calls > 50 {
            std::panic::panic_any(Loud);
        }
    }
}

/// A panic payload whose own drop panics.
struct Loud;

impl Drop for Loud {
    fn drop(&mut self) {
        panic!("dropping the payload");
    }
}

impl Drop for Trickster {
    fn drop(&mut self) {
        if self.trick == Trick::PanicOnDrop {
            panic!("dropping the manager");
        }
    }
}

impl Manager for Trickster {
    fn new_block(&mut self, block: &Block) {
        self.newest = block.frame;
        self.maybe_panic(Trick::PanicOnNew);
    }
    fn metadata_bytes(&self) -> usize {
        if self.trick == Trick::PanicWhenAsked && self.calls > 50 {
            std::panic::panic_any(Loud);
        }
        usize::MAX
    }

    fn block_gone(&mut self, _: FrameId, _: PageId) {
        self.maybe_panic(Trick::PanicOnGone);
    }
    fn block_accessed(&mut self, _: FrameId, _: &Access) {
        self.maybe_panic(Trick::PanicOnAccess);
    }
    fn replace_block(
        &mut self,
        candidate: FrameId,
        _: Option<&Access>,
        _: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        self.maybe_panic(Trick::PanicOnReplace);
        match self.trick {
            Trick::OutOfRange => FrameId(u32::MAX - self.random.below(2) as u32),
            Trick::AnyFrame => FrameId(self.random.below(70) as u32),
            Trick::Newest | Trick::PanicOnMistake => self.newest,
            _ => candidate,
        }
    }
    fn likely_choice(&self, candidate: FrameId) -> FrameId {
        match self.trick {
            Trick::OutOfRange => FrameId(u32::MAX),
            _ => candidate,
        }
    }

    fn placeholder_used(&mut self, _: &Access, _: FrameId) {
        self.maybe_panic(Trick::PanicOnMistake);
    }
}

/// Tenant 0 is oblivious, tenant 1 has the manager. Returns for each access of tenant 0 whether it was a hit,
/// and the counts of tenant 1.
fn run(trick: Trick) -> (Vec<bool>, TenantStats) {
    let options = DirectoryOptions {
        frames: 64,
        allocation: Allocation::LruSp,
        revocation: false,
        shared_pages: false,
    };
    let mut directory = Directory::new(options).unwrap();
    let guest = directory.open_tenant(0, 64).unwrap();
    let manager = Trickster { trick, calls: 0, newest: FrameId(0), random: SplitMix64::new(9) };
    directory.set_manager(guest, Box::new(manager), false).unwrap();
    let mut frame_of: HashMap<u64, FrameId> = HashMap::new();
    let mut random = SplitMix64::new(4);
    let mut hits = Vec::new();
    for step in 0..4000u64 {
        let tenant = TenantId((step % 2) as u32);
        let page = PageId(if tenant == guest { 1000 + random.below(60) } else { random.below(50) });
        let access = Access { page, file: FileId(0), tenant, context: ContextId(0), creates: false };
        let found = frame_of.get(&page.0).copied();
        match found {
            Some(frame) => {
                directory.hit(frame, &access);
            }
            None => {
                let frame = match directory.admit(&access, &mut NothingBusy) {
                    Admission::Free { frame, .. } => frame,
                    Admission::Evict { frame, page, .. } => {
                        frame_of.remove(&page.0);
                        frame
                    }
                    Admission::Exhausted { .. } => panic!("nothing is busy"),
                };
                directory.loaded(frame);
                frame_of.insert(page.0, frame);
            }
        }
        directory.check_invariants();
        assert!(directory.metadata_bytes() > 0);
        assert!(directory.next_miss(guest).is_none_or(|next_miss| next_miss.choice.0 < 64), "a frame");
        if tenant != guest {
            hits.push(found.is_some());
        }
    }
    let stats = directory.tenant_stats(guest);
    directory.clear_manager(guest).unwrap();
    (hits, stats)
}

#[test]
fn tricks_cost_only_the_tenant_that_plays_them() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let (oblivious, _) = run(Trick::Nothing);
    let mut results = Vec::new();
    for trick in [
        Trick::PanicOnNew,
        Trick::PanicOnGone,
        Trick::PanicOnAccess,
        Trick::PanicOnReplace,
        Trick::PanicOnMistake,
        Trick::PanicOnDrop,
        Trick::OutOfRange,
        Trick::AnyFrame,
        Trick::Newest,
        Trick::PanicWhenAsked,
    ] {
        results.push((trick, run(trick)));
    }
    std::panic::set_hook(quiet);
    for (trick, (hits, stats)) in results {
        let lost = hits.iter().zip(&oblivious).filter(|(ours, theirs)| **theirs && !**ours).count();
        assert_eq!(lost, 0, "{trick:?} took hits from the oblivious tenant");
        let panics = matches!(
            trick,
            Trick::PanicOnNew
                | Trick::PanicOnGone
                | Trick::PanicOnAccess
                | Trick::PanicOnReplace
                | Trick::PanicOnMistake
                | Trick::PanicWhenAsked
        );
        assert_eq!(stats.manager_panics, u64::from(panics), "{trick:?}");
        match trick {
            Trick::OutOfRange => assert_eq!((stats.overrules, stats.decisions > 100), (0, true)),
            Trick::AnyFrame => assert!(stats.overrules > 100 && stats.overrules < stats.decisions),
            Trick::Newest => assert!(stats.mistakes > 100),
            _ => {}
        }
    }
}
