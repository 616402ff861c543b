//! The page word: where a page is, who holds it, and how often it changed, in 64 bits.
//!
//! ```text
//!   63    62                             32   31    30      24 23                    0
//! +-------+---------------------------------+-------+----------+-----------------------+
//! | waits |             version             | write |   code   |         frame         |
//! +-------+---------------------------------+-------+----------+-----------------------+
//! ```
//!
//! | code | frame | state |
//! | --- | --- | --- |
//! | 0 | 0 | **absent**: not in memory |
//! | 1 | 0 | **loading**: one thread brings the page in; everybody else waits for it |
//! | 2 | f | latched exclusively by a guard; or **departing**: held by whoever evicts the page until the file has it |
//! | 4..=126 | f | **resident** in frame f, latched shared by `127 - code` holders |
//! | 127 | f | resident, unlatched |
//!
//! `write` (a writer waits) keeps new shared latches away, so that writers are not starved; `waits` (somebody
//! is parked) makes whoever lets go wake them. Both may be set in every state but absent. Waking clears
//! `waits`, and those woken set it again if they must; `write` stays until a writer has the latch or gives
//! up, except that an exclusive holder clears it when it lets go, so that readers are not starved either.
//! Zeroed memory is words of absent pages; so are the words in the child of a fork, where the kernel wipes
//! them, and a latch that was held then lets go of nothing.
//!
//! The order is one for few instructions: the lower half, as a number with a sign, is above a constant if and
//! only if a shared latch is to be had; whoever lets go of one adds, and one comparison of the whole, as a
//! number with a sign, says whether somebody waits, or a fork wiped it.
//!
//! | transition | from | to | version | by |
//! | --- | --- | --- | --- | --- |
//! | [`PageWord::try_shared`] | 5..=127 without `write` | code − 1 | | anyone |
//! | [`PageWord::release_shared`] | 4..=126 | code + 1 | | a holder |
//! | [`PageWord::try_exclusive`] | 127 | 2, `write` cleared | | anyone |
//! | [`PageWord::release_exclusive`] | 2 | 127 | + 1 if changed | the holder |
//! | [`PageWord::downgrade`] | 2 | 126 | + 1 if changed | the holder |
//! | [`PageWord::begin_load`] | 0 | 1 | | anyone |
//! | [`PageWord::publish_shared`], [`publish_exclusive`](PageWord::publish_exclusive) | 1 or 2 | 126 or 2, frame set | | the holder |
//! | [`PageWord::publish_unlatched`] | 1 or 2 | 127, frame set | | the holder |
//! | [`PageWord::depart`] | 1 or 2 | 0, frame and flags cleared | + 1 | the holder |
//! | [`PageWord::announce`] | not what the caller needs | `waits` and perhaps `write` set | | a thread about to park |
//!
//! The version changes whenever contents may have: at each exclusive unlock that wrote, and at each
//! departure. It has 31 bits, so a reader that looks twice is fooled only if exactly a multiple of 2^31
//! changes of that one page happen between its two looks: more than twenty seconds of nothing else at ten
//! nanoseconds a change.

use std::fmt;

use bufpool_policies::FrameId;

use crate::sync::{AtomicU64, Ordering, fence, relax};

const FRAME_MASK: u64 = (1 << 24) - 1;
const CODE_SHIFT: u32 = 24;
const CODE_ONE: u64 = 1 << CODE_SHIFT;
const CODE_MASK: u64 = 0x7f << CODE_SHIFT;
/// A writer waits. The sign bit of the lower half.
const WRITE: u64 = 1 << 31;
const VERSION_SHIFT: u32 = 32;
const VERSION_ONE: u64 = 1 << VERSION_SHIFT;
const VERSION_MASK: u64 = (WAITS - 1) & !(VERSION_ONE - 1);
/// Somebody is parked. The sign bit.
const WAITS: u64 = 1 << 63;

const ABSENT: u64 = 0;
const LOADING: u64 = 1;
const EXCLUSIVE: u64 = 2;
/// As many holders as there may be.
const SHARED_FULL: u64 = 4;
const UNLATCHED: u64 = 127;
/// So many holders leave room for more, and nobody waits for it.
const HOLDERS_ROOMY: u32 = (UNLATCHED - SHARED_FULL) as u32 / 2;

/// Pauses after the first try to change a word that others are changing, and the most after a later one.
const PAUSES_MIN: u32 = if cfg!(bufpool_loom) { 1 } else { 4 };
const PAUSES_MAX: u32 = if cfg!(bufpool_loom) { 1 } else { 256 };

/// One value of a [`PageWord`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageState(u64);

impl PageState {
    fn code(self) -> u64 {
        (self.0 & CODE_MASK) >> CODE_SHIFT
    }

    fn frame(self) -> FrameId {
        FrameId((self.0 & FRAME_MASK) as u32)
    }

    /// The version, which only grows (and wraps).
    pub fn version(self) -> u32 {
        ((self.0 & VERSION_MASK) >> VERSION_SHIFT) as u32
    }

    pub fn is_absent(self) -> bool {
        self.code() == ABSENT
    }

    pub fn is_loading(self) -> bool {
        self.code() == LOADING
    }

    pub fn is_exclusive(self) -> bool {
        self.code() == EXCLUSIVE
    }

    /// Resident and held by nobody.
    pub fn is_unlatched(self) -> bool {
        self.code() == UNLATCHED
    }

    /// How many latches are held on it.
    pub fn holders(self) -> u32 {
        match self.code() {
            ABSENT | LOADING => 0,
            EXCLUSIVE => 1,
            shared => (UNLATCHED - shared) as u32,
        }
    }

    /// The frame, if the page has one: resident, or departing.
    pub fn resident_frame(self) -> Option<FrameId> {
        (!matches!(self.code(), ABSENT | LOADING)).then(|| self.frame())
    }

    /// A shared latch could be had now.
    #[inline(always)]
    pub fn allows_shared(self) -> bool {
        self.0 as i32 >= ((SHARED_FULL + 1) << CODE_SHIFT) as i32
    }

    /// The page is there, and no writer holds it.
    #[inline(always)]
    fn allows_optimistic(self) -> bool {
        self.0 & CODE_MASK >= SHARED_FULL << CODE_SHIFT
    }

    /// Where the page is, and how often it changed.
    #[inline(always)]
    fn version_and_frame(self) -> Version {
        Version(self.0 & !(CODE_MASK | WRITE | WAITS))
    }

    #[inline(always)]
    fn is_of(self, version: Version) -> bool {
        self.allows_optimistic() && self.version_and_frame() == version
    }

    fn with_code(self, code: u64) -> u64 {
        (self.0 & !CODE_MASK) | (code << CODE_SHIFT)
    }
}

impl fmt::Debug for PageState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code() {
            ABSENT => f.write_str("absent")?,
            UNLATCHED => write!(f, "in frame {}", self.frame().0)?,
            LOADING => f.write_str("loading")?,
            EXCLUSIVE => write!(f, "in frame {}, exclusive", self.frame().0)?,
            _ => write!(f, "in frame {}, shared by {}", self.frame().0, self.holders())?,
        }
        if self.0 & WRITE != 0 {
            f.write_str(", a writer waits")?;
        }
        if self.0 & WAITS != 0 {
            f.write_str(", waited for")?;
        }
        write!(f, ", version {}", self.version())
    }
}

/// The version after `version`, both in their place.
fn next_version(version: u64) -> u64 {
    version.wrapping_add(VERSION_ONE) & VERSION_MASK
}

/// What a releasing thread has to do afterwards.
#[must_use = "threads stay parked unless they are woken"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wake {
    /// Nobody is parked.
    Nobody,
    /// Wake all that are parked on this word.
    All,
}

impl Wake {
    fn from(before: u64) -> Self {
        if before & WAITS == 0 { Self::Nobody } else { Self::All }
    }
}

/// What a waiting thread is after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Want {
    /// A shared latch.
    Shared,
    /// An exclusive latch.
    Exclusive,
}

/// A page as an optimistic read found it: which of its versions, and where in memory it was.
///
/// Of use for [`Tenant::still`](crate::Tenant::still). It stops being the page's version when somebody has
/// written the page, and when the page has left memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Version(u64);

impl Version {
    #[inline(always)]
    pub(crate) fn frame(self) -> FrameId {
        PageState(self.0).frame()
    }

    /// How often the page had changed.
    #[cfg(bufpool_loom)]
    pub(crate) fn changes(self) -> u32 {
        PageState(self.0).version()
    }
}

/// A page that may be read without a latch, as it was found.
#[derive(Clone, Copy)]
pub(crate) struct Begun(PageState);

impl Begun {
    #[inline(always)]
    pub fn version(self) -> Version {
        self.0.version_and_frame()
    }
}

/// The word. All transitions are here; see the table in the module documentation.
pub(crate) struct PageWord(AtomicU64);

impl PageWord {
    /// An absent page that never was present. Words of a page table are made as zeroed memory instead.
    #[cfg(any(test, bufpool_loom))]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The value now. Acquire, so that what the last holder did is visible to whoever decides on it.
    #[inline]
    pub fn state(&self) -> PageState {
        PageState(self.0.load(Ordering::Acquire))
    }

    /// What may be read without a latch now, to be confirmed by [`still`](Self::still) when it has been read.
    #[inline(always)]
    pub fn begin_optimistic(&self) -> Option<Begun> {
        // Relaxed, as nothing else may look at a word that was perhaps never made; see `WordMap`.
        let state = PageState(self.0.load(Ordering::Relaxed));
        if !state.allows_optimistic() {
            return None;
        }
        // Acquire pairs with the release of the last writer: at least what it wrote is read.
        fence(Ordering::Acquire);
        Some(Begun(state))
    }

    /// Not even a latch has come or gone since [`begin_optimistic`](Self::begin_optimistic). Says less often
    /// than [`still`](Self::still) that what was read is good, with less work.
    #[inline(always)]
    pub fn is_as(&self, begun: Begun) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == begun.0.0
    }

    /// Nothing was written since the page had this version, and what was read before this call was of this
    /// version.
    pub fn still(&self, version: Version) -> bool {
        // Pairs with the writer's fence between taking the latch and writing: if a load before this fence saw
        // something written there, the load after it sees the latch.
        fence(Ordering::Acquire);
        PageState(self.0.load(Ordering::Relaxed)).is_of(version)
    }

    /// The version, for a holder of a latch.
    pub fn version_latched(&self) -> Version {
        self.state().version_and_frame()
    }

    /// Takes a shared latch if that is possible at once.
    #[inline]
    pub fn try_shared(&self) -> Result<FrameId, PageState> {
        self.try_shared_near(|frame| frame)
    }

    /// As [`try_shared`](Self::try_shared), and returns what `near` makes of the frame, called before the
    /// latch is taken: what is fetched there comes while the word is being changed, which no load behind it
    /// may overtake.
    #[inline(always)]
    pub fn try_shared_near<T>(&self, near: impl Fn(FrameId) -> T) -> Result<T, PageState> {
        let state = PageState(self.0.load(Ordering::Relaxed));
        if !state.allows_shared() {
            return Err(state);
        }
        let found = near(state.frame());
        if self.add_holder(state) { Ok(found) } else { self.try_shared_again().map(near) }
    }

    #[inline(always)]
    fn add_holder(&self, state: PageState) -> bool {
        let more = state.0 - CODE_ONE;
        // Acquire pairs with the release of the last exclusive holder.
        self.0.compare_exchange(state.0, more, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// After somebody else has changed the word between a look and the change. Others are at it just now, so
    /// each failure waits a little longer than the last: a processor that keeps asking for the word's line
    /// takes it away from those that are about to change it.
    #[cold]
    fn try_shared_again(&self) -> Result<FrameId, PageState> {
        let mut pauses = PAUSES_MIN;
        loop {
            (0..pauses).for_each(|_| relax());
            let state = PageState(self.0.load(Ordering::Relaxed));
            if !state.allows_shared() {
                return Err(state);
            }
            if self.add_holder(state) {
                return Ok(state.frame());
            }
            pauses = (2 * pauses).min(PAUSES_MAX);
        }
    }

    /// Gives up a shared latch.
    #[inline]
    pub fn release_shared(&self) -> Wake {
        // Release pairs with the acquire of the next exclusive holder: it must not write before we have read.
        let before = self.0.fetch_add(CODE_ONE, Ordering::Release);
        debug_assert!(
            matches!(PageState(before).code(), ABSENT | SHARED_FULL..UNLATCHED),
            "{:?}",
            PageState(before)
        );
        // Below all words with holders are those with `waits`, and those of absent pages.
        let is_rare = (before as i64) < (SHARED_FULL << CODE_SHIFT) as i64;
        if is_rare { self.released_shared_rarely(before) } else { Wake::Nobody }
    }

    #[cold]
    fn released_shared_rarely(&self, before: u64) -> Wake {
        if PageState(before).is_absent() {
            return self.was_wiped(CODE_ONE);
        }
        self.wake_after_shared()
    }

    /// The word was wiped by a fork, in this process, the child, and `step` was added to let go of what it
    /// said before.
    fn was_wiped(&self, step: u64) -> Wake {
        self.0.fetch_sub(step, Ordering::Relaxed);
        Wake::Nobody
    }

    /// The last holder wakes, and those that make room where all shared places were taken.
    ///
    /// Looks at the word again instead of taking the caller's value, which the caller would have to fetch. If
    /// the word has changed since, whoever changed it last has seen `waits` and wakes, or somebody has been
    /// woken.
    fn wake_after_shared(&self) -> Wake {
        let state = PageState(self.0.load(Ordering::Relaxed));
        if (1..=HOLDERS_ROOMY).contains(&state.holders()) {
            return Wake::Nobody;
        }
        self.0.fetch_and(!WAITS, Ordering::Relaxed);
        Wake::All
    }

    /// Takes the exclusive latch if that is possible at once.
    #[inline]
    pub fn try_exclusive(&self) -> Result<FrameId, PageState> {
        let mut state = PageState(self.0.load(Ordering::Relaxed));
        while state.is_unlatched() {
            let taken = state.with_code(EXCLUSIVE) & !WRITE;
            // Acquire pairs with the releases of all earlier holders.
            match self.0.compare_exchange_weak(state.0, taken, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(state.frame()),
                Err(now) => state = PageState(now),
            }
        }
        Err(state)
    }

    /// Gives up the exclusive latch; `changed` if the contents may have been.
    #[inline]
    pub fn release_exclusive(&self, changed: bool) -> Wake {
        self.leave_exclusive(UNLATCHED, changed)
    }

    /// Turns the exclusive latch into a shared one.
    pub fn downgrade(&self, changed: bool) -> Wake {
        self.leave_exclusive(UNLATCHED - 1, changed)
    }

    #[inline]
    fn leave_exclusive(&self, code: u64, changed: bool) -> Wake {
        // Nobody else touches code, frame or version now, so one addition does it, without a loop.
        let mut step = (code - EXCLUSIVE) << CODE_SHIFT;
        if changed {
            let version = self.0.load(Ordering::Relaxed) & VERSION_MASK;
            step = step.wrapping_add(next_version(version)).wrapping_sub(version);
        }
        let before = self.0.fetch_add(step, Ordering::Release);
        debug_assert!(matches!(PageState(before).code(), ABSENT | EXCLUSIVE), "{:?}", PageState(before));
        let is_plain = before & (WAITS | WRITE | CODE_MASK) == EXCLUSIVE << CODE_SHIFT;
        if is_plain { Wake::Nobody } else { self.left_exclusive_rarely(before, step) }
    }

    #[cold]
    fn left_exclusive_rarely(&self, before: u64, step: u64) -> Wake {
        if PageState(before).is_absent() { self.was_wiped(step) } else { self.withdraw_writer() }
    }

    /// Wins the right to bring the page in, if it is absent.
    pub fn begin_load(&self) -> Result<(), PageState> {
        let mut state = PageState(self.0.load(Ordering::Relaxed));
        while state.is_absent() {
            let loading = state.with_code(LOADING);
            match self.0.compare_exchange_weak(state.0, loading, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => state = PageState(now),
            }
        }
        Err(state)
    }

    /// The page is in `frame`; the caller keeps a shared latch.
    pub fn publish_shared(&self, frame: FrameId) -> Wake {
        self.publish(frame, UNLATCHED - 1)
    }

    /// The page is in `frame`; the caller keeps the exclusive latch.
    pub fn publish_exclusive(&self, frame: FrameId) -> Wake {
        self.publish(frame, EXCLUSIVE)
    }

    /// The page is in `frame`; the caller keeps nothing.
    pub fn publish_unlatched(&self, frame: FrameId) -> Wake {
        self.publish(frame, UNLATCHED)
    }

    fn publish(&self, frame: FrameId, code: u64) -> Wake {
        self.replace(|state| state.0 & VERSION_MASK | (code << CODE_SHIFT) | u64::from(frame.0))
    }

    /// The page is in memory no more.
    pub fn depart(&self) -> Wake {
        self.replace(|state| next_version(state.0 & VERSION_MASK))
    }

    /// Replaces everything. For the holder of 1 or 2; others can only set flags meanwhile.
    fn replace(&self, next: impl Fn(PageState) -> u64) -> Wake {
        let mut before = self.0.load(Ordering::Relaxed);
        debug_assert!(matches!(PageState(before).code(), LOADING | EXCLUSIVE), "{:?}", PageState(before));
        while let Err(now) = self.0.compare_exchange_weak(
            before,
            next(PageState(before)),
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            before = now;
        }
        Wake::from(before)
    }

    /// Tells holders that the caller is about to park, unless `state` is out of date. The caller holds the
    /// lock of the place it parks at, and parks only on `true`.
    pub fn announce(&self, state: PageState, want: Want) -> bool {
        let flags = if want == Want::Exclusive { WAITS | WRITE } else { WAITS };
        self.0.compare_exchange(state.0, state.0 | flags, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Nobody stands back for a writer any more: one gave up waiting, or had the latch. Waiting writers
    /// announce themselves again.
    #[cold]
    pub fn withdraw_writer(&self) -> Wake {
        Wake::from(self.0.fetch_and(!(WRITE | WAITS), Ordering::Relaxed))
    }
}

impl fmt::Debug for PageWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state().fmt(f)
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    const FRAME: FrameId = FrameId((1 << 24) - 1);

    fn resident(version: u64) -> PageWord {
        PageWord(AtomicU64::new(version << VERSION_SHIFT | UNLATCHED << CODE_SHIFT | u64::from(FRAME.0)))
    }

    /// As in the child of a fork, where latches are let go of that the word says nothing of.
    #[test]
    fn a_wiped_word_stays_absent() {
        let word = PageWord::new();
        for changed in [false, true] {
            (0..10).for_each(|_| assert_eq!(word.release_shared(), Wake::Nobody));
            assert_eq!(word.release_exclusive(changed), Wake::Nobody);
            assert_eq!(word.downgrade(changed), Wake::Nobody);
            assert_eq!(word.0.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn versions_come_round_beside_flags_and_frame() {
        let last = VERSION_MASK >> VERSION_SHIFT;
        let word = resident(last);
        assert_eq!(word.try_exclusive(), Ok(FRAME));
        assert!(word.announce(word.state(), Want::Exclusive));
        assert_eq!(word.release_exclusive(true), Wake::All);
        let state = word.state();
        assert_eq!((state.version(), state.resident_frame()), (0, Some(FRAME)));
        assert!(state.is_unlatched() && state.allows_shared(), "{state:?}");
        let word = resident(last);
        assert_eq!(word.try_exclusive(), Ok(FRAME));
        assert_eq!(word.depart(), Wake::Nobody);
        assert_eq!(word.state(), PageState(0));
    }

    #[test]
    fn who_waits_for_room_among_holders_is_woken() {
        let (word, holders_max) = (resident(7), UNLATCHED - SHARED_FULL);
        for holders in 0..holders_max {
            assert_eq!(u64::from(word.state().holders()), holders);
            assert_eq!(word.try_shared(), Ok(FRAME));
        }
        let full = word.try_shared().unwrap_err();
        assert!(word.begin_optimistic().is_some() && word.announce(full, Want::Shared));
        assert_eq!(word.release_shared(), Wake::All);
        assert_eq!(word.try_shared(), Ok(FRAME));
        // A writer has to wait for the last.
        while u64::from(word.state().holders()) > 10 {
            let _ = word.release_shared();
        }
        assert!(word.announce(word.state(), Want::Exclusive));
        assert!(word.try_shared().is_err());
        for holders in (1..10).rev() {
            assert_eq!(word.release_shared(), Wake::Nobody);
            assert_eq!(word.state().holders(), holders);
        }
        assert_eq!(word.release_shared(), Wake::All);
        assert_eq!(word.try_exclusive(), Ok(FRAME));
        assert!(word.begin_optimistic().is_none());
        assert_eq!(word.release_exclusive(false), Wake::Nobody);
        assert_eq!(word.state(), resident(7).state());
    }
}
