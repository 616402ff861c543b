//! The limits of directives, floors and caps: a refused call says why and changes nothing. And tenants that
//! are closed, and loads and writes that fail.

mod cache;

use bufpool_policies::{
    Access, Admission, Allocation, Claims, ContextId, DEFAULT_TENANT, DirectiveError, Directory,
    DirectoryError, DirectoryOptions, FileId, FrameId, ManagerKind, PageId, TenantId, classic::PolicyKind,
};
use cache::NothingBusy;

fn directory(frames: u32) -> Directory {
    Directory::new(DirectoryOptions {
        frames,
        allocation: Allocation::LruSp,
        revocation: true,
        shared_pages: true,
    })
    .unwrap()
}

fn access(tenant: TenantId, page: u64) -> Access {
    Access { page: PageId(page), file: FileId(0), tenant, context: ContextId(0), creates: false }
}

fn load(directory: &mut Directory, tenant: TenantId, page: u64) -> (FrameId, Option<u64>) {
    let (frame, gone) = match directory.admit(&access(tenant, page), &mut NothingBusy) {
        Admission::Free { frame, .. } => (frame, None),
        Admission::Evict { frame, page, .. } => (frame, Some(page.0)),
        Admission::Exhausted { .. } => panic!("nothing is busy"),
    };
    directory.loaded(frame);
    (frame, gone)
}

const NOWHERE: fn(PageId) -> Option<FrameId> = |_| None;

/// Claims of a driver whose claim on this frame fails, although the frame does not look busy.
struct Refused(FrameId);

impl Claims for Refused {
    fn is_busy(&mut self, _: FrameId) -> bool {
        false
    }

    fn claim(&mut self, frame: FrameId) -> bool {
        frame != self.0
    }
}

#[test]
fn a_choice_that_cannot_be_claimed_stays() {
    let mut directory = directory(4);
    directory.set_policy(DEFAULT_TENANT, 0, PolicyKind::Mru).unwrap();
    let frames: Vec<FrameId> = (0..4).map(|page| load(&mut directory, DEFAULT_TENANT, page).0).collect();
    let newest = frames[3];
    match directory.admit(&access(DEFAULT_TENANT, 4), &mut Refused(newest)) {
        Admission::Evict { frame, .. } => assert_ne!(frame, newest),
        _ => panic!("there is another frame"),
    }
}

/// The frame that a placeholder names is taken by a reader between the question and the claim: the page then
/// needs no frame of another one, as there is a free one.
#[test]
fn a_placeholder_whose_frame_cannot_be_claimed_leaves_the_page_a_free_frame() {
    for allocation in [Allocation::LruSp, Allocation::Fifo2Sp] {
        let options = DirectoryOptions { frames: 3, allocation, revocation: true, shared_pages: true };
        let mut directory = Directory::new(options).unwrap();
        directory.set_policy(DEFAULT_TENANT, 0, PolicyKind::Mru).unwrap();
        let [kept, freed, _] = [0, 1, 2].map(|page| load(&mut directory, DEFAULT_TENANT, page).0);
        assert_eq!(load(&mut directory, DEFAULT_TENANT, 3).1, Some(2), "an overrule");
        directory.set_policy(DEFAULT_TENANT, 0, PolicyKind::Lru).unwrap();
        directory.discard(freed);
        match directory.admit(&access(DEFAULT_TENANT, 2), &mut Refused(kept)) {
            Admission::Free { frame, decision } => {
                assert_eq!((frame, decision.mistake), (freed, Some(kept)), "{allocation:?}");
            }
            other => panic!("{allocation:?}: {other:?}"),
        }
        directory.loaded(freed);
        directory.check_invariants();
    }
}

/// A wish that a page leaves is ignored if the frame has another page by then, or a page of another tenant.
#[test]
fn a_page_leaves_by_a_wish_only_if_it_is_there_and_the_tenants_own() {
    let mut directory = directory(4);
    let (tenant, other) = (DEFAULT_TENANT, directory.open_tenant(0, 4).unwrap());
    let frame = load(&mut directory, tenant, 0).0;
    let others = load(&mut directory, other, 1).0;
    assert!(directory.evict_page(tenant, frame, PageId(0), &mut Refused(frame)).is_none());
    let mut evict = |tenant, frame, page| {
        directory
            .evict_page(tenant, frame, PageId(page), &mut NothingBusy)
            .map(|gone| (gone.frame, gone.page))
    };
    assert_eq!(evict(tenant, frame, 1), None);
    assert_eq!(evict(other, frame, 0), None);
    assert_eq!(evict(tenant, others, 1), None);
    assert_eq!(evict(tenant, frame, 0), Some((frame, PageId(0))));
    assert_eq!(evict(tenant, frame, 0), None, "it is on its way out");
    directory.release(frame);
    assert!(directory.evict_page(tenant, frame, PageId(0), &mut NothingBusy).is_none());
    directory.check_invariants();
}

/// As its choice would be refused, so is its wish, while the ledger has older pages.
#[test]
fn no_wish_takes_a_page_away_from_another_tenant_that_uses_it() {
    let mut directory = directory(4);
    let (tenant, other) = (DEFAULT_TENANT, directory.open_tenant(0, 4).unwrap());
    let [used, _, again] = [0, 1, 2].map(|page| load(&mut directory, tenant, page).0);
    directory.hit(used, &access(other, 0));
    directory.hit(again, &access(tenant, 2));
    assert!(directory.evict_page(tenant, used, PageId(0), &mut NothingBusy).is_none());
    let gone = directory.evict_page(tenant, again, PageId(2), &mut NothingBusy);
    assert_eq!(gone.map(|gone| gone.page), Some(PageId(2)), "nobody else uses it");
    directory.release(again);
    // All that is older than the other tenant's use leaves.
    directory.hit(used, &access(tenant, 0));
    (3..6).for_each(|page| assert_ne!(load(&mut directory, tenant, page).0, used));
    assert!(directory.evict_page(tenant, used, PageId(0), &mut NothingBusy).is_some());
    directory.check_invariants();
}

#[test]
fn directives_out_of_range_are_refused() {
    let mut directory = directory(4);
    let tenant = DEFAULT_TENANT;
    for priority in [-33, 32, i32::MIN, i32::MAX] {
        let expected = DirectiveError::PriorityOutOfRange { priority };
        assert_eq!(directory.set_policy(tenant, priority, PolicyKind::Mru), Err(expected));
        assert_eq!(directory.policy(tenant, priority), Err(expected));
        assert_eq!(directory.set_priority(tenant, PageId(0)..=PageId(1), priority, NOWHERE), Err(expected));
        assert_eq!(
            directory.set_temporary_priority(tenant, PageId(0)..=PageId(1), priority, NOWHERE),
            Err(expected)
        );
    }
    let inverted = DirectiveError::InvertedRange { first: PageId(2), last: PageId(1) };
    assert_eq!(directory.set_priority(tenant, PageId(2)..=PageId(1), 0, NOWHERE), Err(inverted));
    assert_eq!(directory.set_temporary_priority(tenant, PageId(2)..=PageId(1), 0, NOWHERE), Err(inverted));
    let unknown = TenantId(7);
    assert_eq!(
        directory.set_policy(unknown, 0, PolicyKind::Mru),
        Err(DirectiveError::UnknownTenant { tenant: unknown })
    );
    assert!(!directory.is_managed(tenant), "a refused directive does not make a tenant managed");
    for priority in [-32, 31] {
        directory.set_policy(tenant, priority, PolicyKind::Mru).unwrap();
        assert_eq!(directory.policy(tenant, priority), Ok(PolicyKind::Mru));
    }
}

#[test]
fn one_range_too_many_is_refused_and_the_others_stand() {
    let mut directory = directory(4);
    for n in 0..4096 {
        let page = PageId(2 * n);
        directory.set_priority(DEFAULT_TENANT, page..=page, 1, NOWHERE).unwrap();
    }
    let page = PageId(1_000_000);
    assert_eq!(
        directory.set_priority(DEFAULT_TENANT, page..=page, 1, NOWHERE),
        Err(DirectiveError::TooManyRanges { limit: 4096 })
    );
    assert_eq!(directory.priority(DEFAULT_TENANT, page), 0);
    assert_eq!(directory.priority(DEFAULT_TENANT, PageId(8190)), 1);
    directory.check_invariants();
}

/// A driver may look for frames while pages come and go, and find one that has left where another is now.
#[test]
fn a_directive_moves_a_block_once_though_its_frame_is_named_for_two_pages() {
    for is_temporary in [true, false] {
        let mut directory = directory(4);
        let tenant = DEFAULT_TENANT;
        let frames = [5, 3, 7, 6].map(|page| load(&mut directory, tenant, page).0);
        directory.set_policy(tenant, 0, PolicyKind::Lru).unwrap();
        let (gone, there) = (PageId(2), PageId(3));
        let frame_of = |_| Some(frames[1]);
        let moved = match is_temporary {
            true => directory.set_temporary_priority(tenant, gone..=there, -1, frame_of),
            false => directory.set_priority(tenant, gone..=there, -1, frame_of),
        };
        assert_eq!(moved, Ok(1));
        directory.check_invariants();
        assert_eq!(load(&mut directory, tenant, 8).1, Some(there.0));
    }
}

#[test]
fn priorities_of_a_file_that_is_gone_for_good_end_for_all_tenants() {
    let mut directory = directory(4);
    let other = directory.open_tenant(0, 4).unwrap();
    let last = PageId(9);
    for tenant in [DEFAULT_TENANT, other] {
        directory.set_priority(tenant, PageId(0)..=PageId(19), 1, NOWHERE).unwrap();
    }
    directory.end_priorities(&(PageId(0)..=last));
    for tenant in [DEFAULT_TENANT, other] {
        let priorities = [0, 9, 10, 19].map(|page| directory.priority(tenant, PageId(page)));
        assert_eq!(priorities, [0, 0, 1, 1]);
    }
    directory.check_invariants();
}

#[test]
fn shares_are_checked() {
    assert_eq!(
        Directory::new(DirectoryOptions {
            frames: 0,
            allocation: Allocation::LruSp,
            revocation: false,
            shared_pages: false
        })
        .err(),
        Some(DirectoryError::FramesOutOfRange { frames: 0 })
    );
    let mut directory = directory(10);
    assert_eq!(
        directory.open_tenant(5, 4),
        Err(DirectoryError::CapBelowFloor { floor_frames: 5, cap_frames: 4 })
    );
    assert_eq!(
        directory.open_tenant(0, 0),
        Err(DirectoryError::CapBelowFloor { floor_frames: 0, cap_frames: 0 })
    );
    let tenant = directory.open_tenant(6, 10).unwrap();
    assert_eq!(
        directory.open_tenant(5, 10),
        Err(DirectoryError::FloorsTooLarge { floors_frames: 11, limit_frames: 10 })
    );
    assert_eq!(
        directory.set_cap(tenant, 5),
        Err(DirectoryError::CapBelowFloor { floor_frames: 6, cap_frames: 5 })
    );
    assert_eq!(directory.close_tenant(DEFAULT_TENANT), Err(DirectoryError::DefaultTenant));
    directory.close_tenant(tenant).unwrap();
    assert_eq!(directory.close_tenant(tenant), Err(DirectoryError::UnknownTenant { tenant }));
    assert_eq!(directory.open_tenant(10, 10), Ok(tenant), "the slot and the floor are free again");
}

/// The lowest free number is given first. The number of a closed tenant is free when the tenant has no blocks
/// left, however they left.
#[test]
fn numbers_of_closed_tenants_are_used_again() {
    let mut directory = directory(4);
    let open = |directory: &mut Directory| directory.open_tenant(0, 4).unwrap();
    let tenants: Vec<TenantId> = (0..6).map(|_| open(&mut directory)).collect();
    let frame = load(&mut directory, tenants[1], 7).0;
    for number in [4, 1, 3, 0] {
        directory.close_tenant(tenants[number]).unwrap();
        directory.check_invariants();
    }
    assert_eq!([open(&mut directory), open(&mut directory)], [tenants[0], tenants[3]]);
    directory.discard(frame);
    directory.check_invariants();
    assert_eq!([open(&mut directory), open(&mut directory)], [tenants[1], tenants[4]]);
    assert_eq!(open(&mut directory).0, 7, "a new one");
    // An access that was under way brings in a block of a tenant that is closed.
    for _ in 0..2 {
        directory.close_tenant(tenants[2]).unwrap();
        let frame = load(&mut directory, tenants[2], 8).0;
        assert_ne!(open(&mut directory), tenants[2]);
        directory.discard(frame);
        directory.check_invariants();
        assert_eq!(open(&mut directory), tenants[2]);
    }
    // Tenants that join the commons have no accounts of their own any more.
    let manager = || ManagerKind::Auto.build(4, 1, DEFAULT_TENANT);
    for tenant in &tenants[..3] {
        directory.join_commons(*tenant, manager).unwrap();
    }
    directory.check_invariants();
    assert_eq!(open(&mut directory).0, 10);
    directory.check_invariants();
}

/// A closed tenant's blocks stay where they are in the ledger, and are evicted in its order.
#[test]
fn a_closed_tenant_leaves_its_blocks() {
    let mut directory = directory(4);
    let tenant = directory.open_tenant(2, 4).unwrap();
    directory.set_policy(tenant, 0, PolicyKind::Mru).unwrap();
    for page in 1..=4 {
        load(&mut directory, tenant, page);
    }
    // MRU gives up page 4, and page 1 stays, to which a placeholder points.
    assert_eq!(load(&mut directory, tenant, 5).1, Some(4));
    assert_eq!(directory.stats().outstanding, 1);
    directory.close_tenant(tenant).unwrap();
    directory.check_invariants();
    assert_eq!((directory.resident(tenant), directory.stats().outstanding), (4, 0));
    let gone: Vec<_> = (11..=14).map(|page| load(&mut directory, DEFAULT_TENANT, page).1.unwrap()).collect();
    assert_eq!(gone, [1, 2, 3, 5]);
    assert_eq!(directory.open_tenant(0, 4), Ok(tenant), "the slot is free once the last block has gone");
    assert_eq!(directory.stats().misses, 9, "counts of departed tenants stay in the sum");
    directory.check_invariants();
}

#[test]
fn frames_that_there_are_not_are_passed_over_by_a_touch() {
    let mut directory = directory(4);
    let there = load(&mut directory, DEFAULT_TENANT, 1).0;
    directory.touch([there, FrameId(4), FrameId(u32::MAX)].into_iter());
}

/// A load that fails is no access. A victim that cannot be written is restored to its frame.
#[test]
fn failures_leave_no_trace() {
    let mut directory = directory(2);
    let a = directory.open_tenant(0, 2).unwrap();
    directory.set_policy(a, 0, PolicyKind::Mru).unwrap();
    let Admission::Free { frame, .. } = directory.admit(&access(a, 1), &mut NothingBusy) else { panic!() };
    directory.failed(frame, a);
    directory.check_invariants();
    assert_eq!((directory.tenant_stats(a).accesses, directory.resident(a)), (0, 0));
    load(&mut directory, a, 1);
    load(&mut directory, a, 2);
    let Admission::Evict { frame, page, tenant, .. } =
        directory.admit(&access(DEFAULT_TENANT, 9), &mut NothingBusy)
    else {
        panic!()
    };
    assert_eq!((page, tenant), (PageId(2), a));
    directory.restore(frame, page, FileId(0), tenant, DEFAULT_TENANT);
    directory.check_invariants();
    assert_eq!(directory.page(frame), Some(PageId(2)));
    assert_eq!(directory.owner(frame), Some(a));
    assert_eq!(directory.tenant_stats(DEFAULT_TENANT).accesses, 0);
    directory.discard(frame);
    directory.check_invariants();
    assert_eq!(directory.resident(a), 1);
}

/// A driver may report a page as loaded before it has been read. If it cannot be read, that is no access, and
/// its owner's manager forgets it.
#[test]
fn a_load_that_was_told_too_early_leaves_no_trace() {
    let mut directory = directory(2);
    let a = directory.open_tenant(0, 2).unwrap();
    directory.set_policy(a, 0, PolicyKind::Mru).unwrap();
    load(&mut directory, a, 1);
    let (frame, _) = load(&mut directory, a, 2);
    directory.failed(frame, a);
    directory.check_invariants();
    let stats = directory.tenant_stats(a);
    assert_eq!((stats.accesses, stats.misses, directory.resident(a)), (1, 1, 1));
    assert_eq!(directory.page(frame), None);
    assert_eq!(load(&mut directory, a, 3), (frame, None), "its frame is free");
    directory.set_aside(frame, a);
    directory.check_invariants();
    assert_eq!(directory.tenant_stats(a).misses, 1);
    directory.release(frame);
    load(&mut directory, a, 4);
    // MRU gives up page 4: 2 and 3, which came after 1, are not there.
    assert_eq!(load(&mut directory, a, 5).1, Some(4));
    assert_eq!(load(&mut directory, a, 6).1, Some(5));
    directory.check_invariants();
}

/// The last block of a closed tenant is evicted, cannot be written, and is restored. So the tenant's number
/// is not free.
#[test]
fn a_closed_tenant_gets_its_last_block_back() {
    let mut directory = directory(1);
    let a = directory.open_tenant(0, 1).unwrap();
    load(&mut directory, a, 1);
    directory.close_tenant(a).unwrap();
    let Admission::Evict { frame, page, tenant, .. } =
        directory.admit(&access(DEFAULT_TENANT, 9), &mut NothingBusy)
    else {
        panic!()
    };
    assert_eq!((page, tenant), (PageId(1), a));
    directory.restore(frame, page, FileId(0), tenant, DEFAULT_TENANT);
    directory.check_invariants();
    assert_eq!(directory.resident(a), 1);
    let b = directory.open_tenant(0, 1).unwrap();
    assert_ne!(a, b);
    assert_eq!(load(&mut directory, b, 2).1, Some(1));
    directory.check_invariants();
}

/// An access was under way when its tenant, which had no blocks, was closed. The tenant's number is not free
/// while the block of that access is resident.
#[test]
fn a_closed_tenant_that_gets_its_first_block_keeps_its_number() {
    for frames in [1, 2] {
        let mut directory = directory(frames);
        load(&mut directory, DEFAULT_TENANT, 9);
        let a = directory.open_tenant(0, frames).unwrap();
        directory.close_tenant(a).unwrap();
        let (frame, _) = load(&mut directory, a, 1);
        directory.check_invariants();
        let b = directory.open_tenant(0, frames).unwrap();
        assert_ne!(a, b);
        assert_eq!((directory.owner(frame), directory.resident(a)), (Some(a), 1));
        directory.discard(frame);
        directory.check_invariants();
        assert_eq!(directory.open_tenant(0, frames).unwrap(), a);
    }
}

/// As in the test before, but no frame can be had for the access.
#[test]
fn a_closed_tenant_that_gets_no_block_leaves_its_number() {
    let mut directory = directory(1);
    let a = directory.open_tenant(0, 1).unwrap();
    directory.close_tenant(a).unwrap();
    let loading = directory.admit(&access(DEFAULT_TENANT, 9), &mut NothingBusy);
    assert!(matches!(loading, Admission::Free { .. }));
    assert!(matches!(directory.admit(&access(a, 1), &mut NothingBusy), Admission::Exhausted { .. }));
    directory.check_invariants();
    assert_eq!(directory.open_tenant(0, 1).unwrap(), a);
}

/// The last block of a closed tenant of the commons makes room for the absent page of its placeholder, which
/// then belongs to the closed tenant.
#[test]
fn a_closed_tenant_inherits_the_page_its_last_block_makes_room_for() {
    let mut directory = directory(2);
    let [a, b] = [0, 0].map(|floor| directory.open_tenant(floor, 2).unwrap());
    directory.join_commons(a, || Box::new(Newest(FrameId(0)))).unwrap();
    directory.join_commons(b, || panic!("the commons has a manager")).unwrap();
    load(&mut directory, b, 1);
    directory.close_tenant(b).unwrap();
    load(&mut directory, a, 2);
    assert_eq!(load(&mut directory, DEFAULT_TENANT, 9).1, Some(2), "the commons gives up its newest page");
    let (frame, gone) = load(&mut directory, DEFAULT_TENANT, 2);
    assert_eq!((gone, directory.owner(frame)), (Some(1), Some(b)));
    directory.check_invariants();
    assert_ne!(directory.open_tenant(0, 2).unwrap(), b);
    directory.check_invariants();
}

/// A manager that gives up the page that came in last.
struct Newest(FrameId);

impl bufpool_policies::Manager for Newest {
    fn new_block(&mut self, block: &bufpool_policies::Block) {
        self.0 = block.frame;
    }
    fn block_gone(&mut self, _: FrameId, _: PageId) {}
    fn block_accessed(&mut self, _: FrameId, _: &Access) {}
    fn replace_block(
        &mut self,
        _: FrameId,
        _: Option<&Access>,
        _: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        self.0
    }
    fn placeholder_used(&mut self, _: &Access, _: FrameId) {}
}

/// Directives are not judged by the overrules of the manager before them: its mistakes are counted, and
/// revoke nothing.
#[test]
fn directives_do_not_answer_for_the_manager_before_them() {
    let mut directory = directory(300);
    directory.set_manager(DEFAULT_TENANT, Box::new(Newest(FrameId(0))), true).unwrap();
    let gone: Vec<u64> = (0..500).filter_map(|page| load(&mut directory, DEFAULT_TENANT, page).1).collect();
    assert_eq!((gone.len(), directory.stats().outstanding), (200, 200));
    directory.set_policy(DEFAULT_TENANT, 0, PolicyKind::Lru).unwrap();
    for page in gone {
        load(&mut directory, DEFAULT_TENANT, page);
        directory.check_invariants();
    }
    assert!(directory.stats().mistakes > 150, "{:?}", directory.stats());
    assert_eq!(directory.stats().revocations, 0);
}

/// Gives the tenant a manager whose every choice is wrong. Returns how many of them cost it its say.
fn mistakes_until_revoked(directory: &mut Directory, tenant: TenantId) -> Option<usize> {
    directory.set_manager(tenant, Box::new(Newest(FrameId(0))), false).unwrap();
    let gone: Vec<u64> = (0..500).filter_map(|page| load(directory, tenant, page).1).collect();
    let mut loads = gone.into_iter().map(|page| {
        load(directory, tenant, page);
        directory.check_invariants();
        directory.tenant_stats(tenant).revocations
    });
    loads.position(|revocations| revocations > 0)
}

#[test]
fn a_tenant_does_not_answer_for_the_closed_tenant_whose_number_it_has() {
    let mut directory = directory(300);
    let fool = directory.open_tenant(0, 300).unwrap();
    let until_revoked = mistakes_until_revoked(&mut directory, fool);
    assert!(until_revoked.is_some());
    directory.close_tenant(fool).unwrap();
    (0..300).for_each(|frame| directory.discard(FrameId(frame)));
    directory.check_invariants();
    assert_eq!(directory.open_tenant(0, 300), Ok(fool));
    assert_eq!(mistakes_until_revoked(&mut directory, fool), until_revoked);
}

/// The first directive replaces a default manager, and a manager of the engine's own takes none.
#[test]
fn directives_and_managers() {
    struct Agree;
    impl bufpool_policies::Manager for Agree {
        fn new_block(&mut self, _: &bufpool_policies::Block) {}
        fn block_gone(&mut self, _: FrameId, _: PageId) {}
        fn block_accessed(&mut self, _: FrameId, _: &Access) {}
        fn replace_block(
            &mut self,
            candidate: FrameId,
            _: Option<&Access>,
            _: &mut dyn FnMut(FrameId) -> bool,
        ) -> FrameId {
            candidate
        }
        fn placeholder_used(&mut self, _: &Access, _: FrameId) {}
    }
    let mut directory = directory(4);
    directory.set_manager(DEFAULT_TENANT, Box::new(Agree), false).unwrap();
    assert_eq!(
        directory.set_policy(DEFAULT_TENANT, 0, PolicyKind::Mru),
        Err(DirectiveError::HasManager { tenant: DEFAULT_TENANT })
    );
    directory.set_manager(DEFAULT_TENANT, Box::new(Agree), true).unwrap();
    for page in 1..=4 {
        load(&mut directory, DEFAULT_TENANT, page);
    }
    directory.set_policy(DEFAULT_TENANT, 0, PolicyKind::Mru).unwrap();
    assert_eq!(load(&mut directory, DEFAULT_TENANT, 5).1, Some(4));
    directory.check_invariants();
}
