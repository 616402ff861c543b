//! What holds of a pool whenever nothing is under way, counted from scratch; for tests.

use bufpool_policies::PageId;

use crate::api::file_stats;
use crate::state::shared::PoolShared;
use crate::sync::Ordering;

/// See [`Pool::check_invariants`](crate::Pool::check_invariants).
pub(crate) fn check(pool: &PoolShared) {
    // Pages that come in ahead may still be on their way in the backend.
    pool.backend.drain();
    pool.write_back.wait_until_idle();
    pool.free_aside();
    let listed: u64 = file_stats::take(pool).iter().map(|file| file.dirty_frames).sum();
    let mut policy = pool.policy.lock();
    pool.drain_logs(&mut policy);
    policy.directory.check_invariants();
    policy.contexts.check_invariants();
    let (mut dirty, mut left_behind) = (0, 0_usize);
    for (frame, entry) in pool.frames.iter() {
        dirty += u64::from(entry.is_dirty());
        assert!(!entry.is_writing(), "a write of frame {} is in flight", frame.0);
        match policy.directory.page(frame) {
            None => left_behind += usize::from(entry.page().is_some()),
            listed => assert_eq!(entry.page(), listed, "frame {}", frame.0),
        }
        let Some(page) = entry.page() else {
            assert!(!entry.is_dirty(), "frame {} is dirty and empty", frame.0);
            continue;
        };
        let file = policy.file(page.file()).expect("pages of closed files have left");
        let state = file.table.get(page.number()).expect("a resident page has a word").state();
        assert_eq!(state.resident_frame(), Some(frame), "{page:?} is {state:?}");
    }
    // A frame that is left behind holds a victim that could not be written.
    let (free, own, borrowed) = (pool.reserve.free(), pool.reserve.frames(), pool.reserve.borrowed());
    assert_eq!(free + left_behind, own + borrowed, "the reserve");
    assert!(free <= own || borrowed == 0, "{borrowed} frames are borrowed, and {free} of {own} are free");
    assert_eq!(dirty, pool.counters.dirty_frames.load(Ordering::Relaxed));
    assert_eq!(dirty, listed, "dirty pages of the open files");
    for file in policy.files.iter() {
        for (number, word) in file.table.words(0, u64::MAX) {
            if let Some(frame) = word.state().resident_frame() {
                assert_eq!(pool.frames.get(frame).page(), Some(PageId::in_file(file.id, number)));
            }
        }
    }
}
