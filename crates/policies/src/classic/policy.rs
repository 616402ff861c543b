//! What a single-level policy is, and what several of them need.

use crate::{FrameId, PageId};

/// A single-level replacement policy: a set of events and one question.
///
/// Deterministic: the same calls give the same answers. Per-frame arrays grow to the largest frame number
/// seen, so an instance that owns few frames of a large pool is made by
/// [`build_for_level`](super::build_for_level).
///
/// # Panics
///
/// A call about a frame that is not in the state it supposes (a hit on an absent frame, an insertion into an
/// occupied one) is a bug of the driver. Debug builds panic; release builds may panic or decide badly, never
/// worse.
pub trait OneLevel: Send {
    /// The policy's name as users write it, for example `2q`.
    fn name(&self) -> &'static str;

    /// Sets the number of frames the policy reckons with, from which it derives its internal targets and the
    /// number of ghosts. It may differ from the number of resident pages at any time, in both directions.
    ///
    /// O(1) for a change by one; O(change) where ghosts have to go. New instances have the capacity given to
    /// their constructor.
    fn resize(&mut self, capacity: u32);

    /// The resident `page` in `frame` was referenced.
    fn hit(&mut self, frame: FrameId, page: PageId);

    /// Names the frame to evict so that `missing` can come in, among the frames for which `busy` is false.
    /// `None` if all are busy, or none is resident. Nothing is removed.
    ///
    /// The driver may refuse the answer, and ask again with a `busy` that knows more. What has happened to
    /// the state by then is said in each policy's file; it is always valid, and no page is lost from it.
    fn victim(&mut self, missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId>;

    /// `page` left `frame`, proposed by [`victim`](Self::victim) or not.
    fn remove(&mut self, frame: FrameId, page: PageId, why: Departure);

    /// `page` came into `frame`: a miss was served, or the block was moved in from another level.
    fn insert(&mut self, frame: FrameId, page: PageId);

    /// Recounts everything from scratch. O(n).
    ///
    /// # Panics
    ///
    /// With a message that says which invariant does not hold.
    fn check_invariants(&self);

    /// Bytes of memory held for frames and ghosts.
    fn metadata_bytes(&self) -> usize;
}

/// Why a page leaves a policy's frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// To make room. The policy may remember it as a ghost.
    Evicted,
    /// To another level, or because it ceased to exist. The policy forgets it.
    Moved,
}

/// The first frame that is not busy, walking `frames` in the order given.
pub(super) fn first_free(
    mut frames: impl Iterator<Item = u32>,
    busy: &mut dyn FnMut(FrameId) -> bool,
) -> Option<FrameId> {
    frames.find_map(|frame| (!busy(FrameId(frame))).then_some(FrameId(frame)))
}

/// Makes `array` long enough for an entry of `frame`. Amortised O(1).
pub(super) fn grow<T: Clone + Default>(array: &mut Vec<T>, frame: FrameId) {
    if frame.index() >= array.len() {
        array.resize(frame.index() + 1, T::default());
    }
}

/// `percent` of `capacity`, rounded down; `u32::MAX` if it is more.
pub(super) fn percent_of(percent: u32, capacity: u32) -> u32 {
    u32::try_from(u64::from(percent) * u64::from(capacity) / 100).unwrap_or(u32::MAX)
}
