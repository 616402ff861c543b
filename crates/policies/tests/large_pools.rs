//! Goal: in large pools, whose metadata does not fit in a processor's cache, the directory prefetches the
//! memory that a decision will read. Decisions are the same as without these prefetches.
//!
//! Method: an automatic manager, and the same manager behind one that passes on all calls except the
//! prefetches.

use bufpool_policies::{
    Access, Admission, Block, ContextId, FileId, FrameId, Look, Manager, ManagerKind, PageId, TenantId,
};

mod cache;
use cache::{Cache, NothingBusy};

const FRAMES: u32 = 1 << 15;
const DEFAULT: TenantId = TenantId(0);

/// A manager that passes on all calls except those that prefetch memory.
struct Untouched(Box<dyn Manager>);

impl Manager for Untouched {
    fn new_block(&mut self, block: &Block) {
        self.0.new_block(block);
    }

    fn block_gone(&mut self, frame: FrameId, page: PageId) {
        self.0.block_gone(frame, page);
    }

    fn block_accessed(&mut self, frame: FrameId, access: &Access) {
        self.0.block_accessed(frame, access);
    }

    fn choose(&mut self, candidate: FrameId, missing: Option<&Access>, look: &mut dyn Look) -> FrameId {
        self.0.choose(candidate, missing, look)
    }

    fn replace_block(
        &mut self,
        candidate: FrameId,
        missing: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        self.0.replace_block(candidate, missing, busy)
    }

    fn placeholder_used(&mut self, missing: &Access, placeholder: FrameId) {
        self.0.placeholder_used(missing, placeholder);
    }

    fn judges_itself(&self) -> bool {
        self.0.judges_itself()
    }
}

fn by_values() -> Box<dyn Manager> {
    ManagerKind::Reuse.build(FRAMES, 1, DEFAULT)
}

/// A loop that does not fit, and between its accesses those of another call site, whose pages come back
/// sooner.
fn accesses() -> impl Iterator<Item = (u32, u64)> {
    let looped = (0..160_000u64).map(|at| (1, at % 40_000));
    looped.flat_map(|access| [access, (2, 100_000 + access.1 * 7919 % 5_000)])
}

#[test]
fn what_is_touched_ahead_of_a_question_changes_no_decision() {
    let mut caches = [(); 2].map(|()| Cache::new(FRAMES, false));
    let [touched, untouched] = &mut caches;
    touched.directory.set_manager(DEFAULT, by_values(), true).unwrap();
    untouched.directory.set_manager(DEFAULT, Box::new(Untouched(by_values())), true).unwrap();
    for (context, page) in accesses() {
        let hits = [&mut *touched, &mut *untouched].map(|cache| cache.access(DEFAULT, context, 0, page));
        assert_eq!(hits[0], hits[1], "page {page}");
    }
    assert_eq!(touched.frame_of, untouched.frame_of);
    let stats = touched.directory.tenant_stats(DEFAULT);
    assert!(stats.overrules > 10_000, "values choose");
    assert_eq!(stats.manager_panics, 0);
}

/// The candidate is a page that came in ahead and was not accessed yet, which its manager does not know.
#[test]
fn a_manager_that_knows_no_page_has_nothing_to_touch() {
    let mut cache = Cache::new(FRAMES, false);
    cache.directory.set_manager(DEFAULT, by_values(), true).unwrap();
    accesses().for_each(|(context, page)| {
        cache.access(DEFAULT, context, 0, page);
    });
    for (_, frame) in cache.frame_of.drain() {
        cache.directory.discard(frame);
    }
    let access = |page| Access {
        page: PageId(page),
        file: FileId(0),
        tenant: DEFAULT,
        context: ContextId(1),
        creates: false,
    };
    for page in 0..u64::from(FRAMES) {
        let admission = cache.directory.admit_ahead(&access(200_000 + page), &mut NothingBusy);
        let Admission::Free { frame, .. } = admission else { panic!("all frames are free: {admission:?}") };
        cache.directory.loaded(frame);
    }
    let admission = cache.directory.admit(&access(300_000), &mut NothingBusy);
    let Admission::Evict { frame, page: PageId(200_000), .. } = admission else { panic!("{admission:?}") };
    cache.directory.loaded(frame);
    assert_eq!(cache.directory.tenant_stats(DEFAULT).manager_panics, 0);
}
