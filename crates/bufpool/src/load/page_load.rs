//! One page on its way in: begun, then completed or abandoned.
//!
//! A load is begun by the thread that wins the right to bring the page in ([`Loading`]), if the file allows
//! it. It gets a frame ([`frame_search`](super::frame_search)), and a transfer fills that. Then it is
//! *completed*: the frame has the page, the directory is told under the policy lock, and the word is
//! published. Or it is *abandoned*: the frame is free again and no access is counted. Three drivers do this,
//! each in its own way of waiting: a [miss](super::miss), a [batch](crate::access::batch), a
//! [future](crate::access::futures). A [prefetch](super::prefetch) does it for many pages at a time that
//! nobody accesses yet.
//!
//! A load that is dropped before it has a frame leaves the page absent.

use std::ops::Deref;

use bufpool_policies::{FrameId, PageId, TenantId};

use crate::error::Result;
use crate::files::shared::FileShared;
use crate::memory::frame::{Below, FrameTable};
use crate::memory::lease::FrameLease;
use crate::page::latch::{Latch, Loading, Mode};
use crate::page::word::PageWord;
use crate::policy::state::PolicyState;
use crate::state::shared::PoolShared;
use crate::thread::site::SiteRef;

/// See the [module](self).
pub(crate) struct Load<W: Deref<Target = PageWord>> {
    loading: Loading<W>,
    page: PageId,
    charge: Charge,
}

/// Whom a load is charged to: a tenant's access from a call site. The access is counted as a miss when the
/// load gets its frame.
#[derive(Clone, Copy)]
pub(crate) struct Charge {
    pub tenant: TenantId,
    pub site: SiteRef,
}

impl<W: Deref<Target = PageWord>> Load<W> {
    /// Begins the load of a page of `file`. None while loads of the page are held off by an operation that is
    /// not decided yet, such as a close or a truncation. Then, and on an error, the page is absent again.
    pub fn begin(
        loading: Loading<W>,
        page: PageId,
        file: &FileShared,
        charge: Charge,
        operation: &'static str,
    ) -> Result<Option<Self>> {
        let may_load = file.check_loadable(page.number(), operation)?;
        Ok(may_load.then_some(Self { loading, page, charge }))
    }

    /// Under the policy lock: the page is in the frame, clean.
    pub fn enter(&self, frame: FrameId, frames: &FrameTable, policy: &mut PolicyState) {
        let entry = frames.get(frame);
        entry.occupy(self.page);
        policy.directory.loaded(frame);
        policy.wait_ended(self.charge.tenant);
        if entry.below() == Below::Page {
            policy.directory.put_first(frame);
        }
    }

    /// After [`enter`](Self::enter): others find the page, and the caller has a latch on it.
    pub fn publish<M: Mode>(self, lease: FrameLease) -> Latch<W, M> {
        self.loading.publish(lease)
    }

    /// As [`publish`](Self::publish), without a latch.
    pub fn publish_unlatched(self, lease: FrameLease) {
        self.loading.publish_unlatched(lease);
    }

    /// No frame was found for the page.
    pub fn give_up(self) {
        self.loading.give_up();
    }

    /// Under the policy lock: the page does not come in. Its frame is free, and the access that it was
    /// charged to is not counted. The page is absent for others once the result is dropped, which wakes them,
    /// and is not to be done under the lock.
    #[must_use = "threads that wait for the page are woken when it is dropped"]
    pub fn abandon(self, lease: FrameLease, policy: &mut PolicyState) -> Loading<W> {
        let Charge { tenant, site } = self.charge;
        // Not a creation: a created page is not read, so its load does not fail.
        policy.take_back_miss(tenant, site, false);
        policy.wait_ended(tenant);
        policy.give_up_frame(lease, tenant);
        self.loading
    }
}

/// An empty frame for a page. The directory knows that the page comes in there.
pub(crate) struct Found {
    pub lease: FrameLease,
    /// The directory was already told that the page is loaded.
    pub is_entered: bool,
}

/// Ends loads of a pool.
#[derive(Clone, Copy)]
pub(crate) struct Loads<'p> {
    pool: &'p PoolShared,
}

impl<'p> Loads<'p> {
    /// Of this pool.
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
    }

    /// The page is in the frame that was found for it. Returns a latch on it.
    pub fn complete<W, M: Mode>(self, load: Load<W>, found: Found) -> Latch<W, M>
    where
        W: Deref<Target = PageWord>,
    {
        let Found { lease, is_entered } = found;
        if is_entered {
            let frame = self.pool.frames.get(lease.frame());
            frame.occupy(load.page);
            if frame.below() == Below::Page {
                self.pool.policy.lock().directory.put_first(lease.frame());
            }
        } else {
            load.enter(lease.frame(), &self.pool.frames, &mut self.pool.policy.lock());
        }
        load.publish(lease)
    }

    /// The pages are in their frames, and are to be published; under one hold of the policy lock.
    pub fn enter_all<'l, W>(self, loads: impl Iterator<Item = (&'l Load<W>, FrameId)>)
    where
        W: Deref<Target = PageWord> + 'l,
    {
        let mut policy = self.pool.policy.lock();
        loads.for_each(|(load, frame)| load.enter(frame, &self.pool.frames, &mut policy));
    }

    /// The page does not come in.
    pub fn abandon<W: Deref<Target = PageWord>>(self, load: Load<W>, lease: FrameLease) {
        let loading = load.abandon(lease, &mut self.pool.policy.lock());
        self.pool.frame_may_be_free();
        drop(loading);
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use bufpool_policies::{
        Access, Admission, Allocation, Claims, ContextId, DEFAULT_TENANT, Directory, DirectoryOptions, FileId,
    };

    use super::*;
    use crate::hits::filter::HitFilter;
    use crate::memory::arena::Arena;
    use crate::page::latch::{Exclusive, Shared};
    use crate::policy::ahead::{Ahead, AheadLimits};
    use crate::policy::state::PolicyParts;
    use crate::policy::tenant_entry::Managers;
    use crate::thread::site::Origin;

    const PAGE: PageId = PageId(7);

    /// No page may leave; frames are free.
    struct AllBusy;

    impl Claims for AllBusy {
        fn is_busy(&mut self, _: FrameId) -> bool {
            true
        }

        fn claim(&mut self, _: FrameId) -> bool {
            false
        }
    }

    fn charge() -> Charge {
        Charge { tenant: DEFAULT_TENANT, site: Origin::caller().site() }
    }

    /// A directory, its frames and one page word: all that a load touches, without threads and without a
    /// device.
    struct Bench {
        policy: PolicyState,
        frames: FrameTable,
        word: &'static PageWord,
    }

    impl Bench {
        fn new() -> Self {
            let frames = 16;
            let allocation = Allocation::LruSp;
            let options = DirectoryOptions { frames, allocation, revocation: true, shared_pages: true };
            let directory = Directory::new(options).unwrap();
            let leases = Arena::new(frames, 4096).unwrap().1;
            let limits = AheadLimits { prefetch_percent: 0, hint_percent: 0, hints_in_flight: 1 };
            let policy = PolicyState::new(PolicyParts {
                directory,
                free: leases,
                spares: 0,
                filter: HitFilter::new(frames),
                managers: Managers::default(),
                tells_sites_apart: true,
                ahead: Ahead::new(None, limits),
                promotes_from: None,
                pricing: None,
                recorder: None,
            });
            Self { policy, frames: FrameTable::new(frames), word: Box::leak(Box::new(PageWord::new())) }
        }

        /// A load that has won its page and has a frame.
        fn begin(&mut self) -> (Load<&'static PageWord>, FrameLease) {
            let access = Access {
                page: PAGE,
                file: FileId(0),
                tenant: DEFAULT_TENANT,
                context: ContextId(0),
                creates: false,
            };
            let admission = self.policy.directory.admit(&access, &mut AllBusy);
            let Admission::Free { frame, .. } = admission else { panic!("{admission:?}") };
            let lease = self.policy.free.take_of(frame).unwrap();
            let loading = Loading::try_new(self.word).ok().unwrap();
            (Load { loading, page: PAGE, charge: charge() }, lease)
        }
    }

    #[test]
    fn a_completed_load_is_in_its_frame_and_latched_as_wanted() {
        let mut bench = Bench::new();
        let free = bench.policy.free.len();
        let (load, lease) = bench.begin();
        let frame = lease.frame();
        assert!(Latch::<_, Shared>::try_new(bench.word).is_err(), "others wait");
        load.enter(frame, &bench.frames, &mut bench.policy);
        let latch = load.publish::<Exclusive>(lease);
        assert_eq!((latch.frame(), bench.frames.get(frame).page()), (frame, Some(PAGE)));
        assert!(!bench.frames.get(frame).is_dirty());
        assert_eq!((bench.policy.directory.page(frame), bench.policy.free.len()), (Some(PAGE), free - 1));
        drop(latch);
        assert_eq!(bench.word.state().resident_frame(), Some(frame));
        bench.policy.directory.check_invariants();
    }

    #[test]
    fn an_abandoned_load_leaves_nothing_behind() {
        let mut bench = Bench::new();
        let (free, misses) = (bench.policy.free.len(), bench.policy.directory.stats().misses);
        let (load, lease) = bench.begin();
        let frame = lease.frame();
        let loading = load.abandon(lease, &mut bench.policy);
        assert!(bench.word.state().is_loading(), "nobody is woken under the lock");
        drop(loading);
        assert!(bench.word.state().is_absent());
        assert_eq!((bench.policy.free.len(), bench.policy.directory.page(frame)), (free, None));
        assert_eq!(bench.policy.directory.stats().misses, misses);
        bench.policy.directory.check_invariants();
    }

    #[test]
    fn a_load_that_is_dropped_makes_the_page_absent() {
        let word = PageWord::new();
        let loading = Loading::try_new(&word).ok().unwrap();
        let load = Load { loading, page: PAGE, charge: charge() };
        assert!(Loading::try_new(&word).is_err(), "one load at a time");
        drop(load);
        assert!(word.state().is_absent());
    }
}
