//! The page word: where a page is, who holds it, and how often it changed, in 64 bits.
//!
//! ```text
//!   63    62                             32   31    30      24 23                    0
//! +-------+---------------------------------+------+----------+-----------------------+
//! | waits |             version             | open |   code   |         frame         |
//! +-------+---------------------------------+------+----------+-----------------------+
//! ```
//!
//! | code | frame | state |
//! | --- | --- | --- |
//! | 0 | 0 | **absent**: not in memory |
//! | 1 | 0 | **loading**: one thread brings the page in; all others wait for it |
//! | 1 | 1 | **loading ahead**: the page is on its way, and no thread waits for a frame or a latch to bring it in |
//! | 2 | f | latched exclusively by a guard; or **departing**: held by the evicting thread until the file has the page |
//! | 3 | f | **resident** in frame f, unlatched |
//! | 4..=126 | f | resident, latched shared by `code - 3` holders |
//! | 127 | | what a release makes of a wiped word, for a moment (see below) |
//!
//! `open` is set where the page is resident and no writer waits for it. Its absence keeps new shared latches
//! away, so that writers are not starved. It comes back when a writer gives up, and when an exclusive holder
//! lets go, although other writers may wait, so that readers are not starved either.
//!
//! `waits` says that a thread is parked on the word, which the next release that can help it has to wake. It
//! may be set in every state but absent. Waking clears it, and the woken threads set it again if they have
//! to wait again.
//!
//! Zeroed memory is words of absent pages. Before a page is brought in for the first time, its word gets the
//! [first version](crate::page::table) of its table.
//!
//! In the child of a fork the kernel wipes all words to zero, while the child's copies of guards still exist.
//! A release that finds its word wiped takes its own step back, so that the word is zero again. Two threads
//! of the child must not release latches on one word at the same time.
//!
//! The encoding saves instructions in three places:
//!
//! * A shared latch is to be had if and only if the lower half, as a signed number, is below a constant.
//! * A release of a shared latch takes one from the code. The whole word is then negative, as a signed
//!   number, if and only if `waits` is set or the word was wiped, so the processor's sign flag is the test.
//! * A page may be read without a latch if and only if the lower half, as an unsigned number, is at least a
//!   constant.
//!
//! | transition | from | to | version | by |
//! | --- | --- | --- | --- | --- |
//! | [`PageWord::try_shared`] | 3..=125 with `open` | code + 1 | | anyone |
//! | [`PageWord::release_shared`] | 4..=126 | code − 1 | | a holder |
//! | [`PageWord::try_exclusive`] | 3 | 2, `open` cleared | | anyone |
//! | [`PageWord::release_exclusive`] | 2 | 3, `open` set | + 1 if changed | the holder |
//! | [`PageWord::downgrade`] | 2 | 4, `open` set | + 1 if changed | the holder |
//! | [`PageWord::begin_load`] | 0 | 1 | | anyone |
//! | [`PageWord::begin_load_ahead`] | 0 | 1, frame 1 | | anyone |
//! | [`PageWord::publish_shared`] | 1 or 2 | 4, `open` and frame set | | the holder |
//! | [`PageWord::publish_exclusive`] | 1 or 2 | 2, frame set | | the holder |
//! | [`PageWord::publish_unlatched`] | 1 or 2 | 3, `open` and frame set | | the holder |
//! | [`PageWord::depart`] | 1 or 2 | 0, frame and `waits` cleared | + 1 | the holder |
//! | [`PageWord::set_first_version`] | a word of zeros | 0 | the first | anyone |
//! | [`PageWord::renew_absent`] | 0 | 0 | + 1 | a truncation |
//! | [`PageWord::announce`] | not what the caller needs | `waits` set, and `open` cleared for a writer | | a thread about to park |
//! | [`PageWord::withdraw_writer`] | any | `waits` cleared, and `open` set from 3 on | | a writer that gives up |
//!
//! The version changes whenever contents may have: at each exclusive unlock that wrote, at each departure,
//! and when the file ends before the page for a while. It has 31 bits, and comes round after at least 2^30
//! changes: after the last version, to 0, or to the first one if the page has just left memory. So a reader
//! that looks twice is fooled only if the changes of that one page between its two looks are exactly a round
//! of at least 2^30: more than ten seconds of nothing else at ten nanoseconds a change.

use std::fmt;

use bufpool_policies::FrameId;

use crate::sync::{AtomicU64, Ordering, fence, relax};

const FRAME_MASK: u64 = (1 << 24) - 1;
const CODE_SHIFT: u32 = 24;
const CODE_ONE: u64 = 1 << CODE_SHIFT;
const CODE_MASK: u64 = 0x7f << CODE_SHIFT;
/// The page is resident, and no writer waits for it. The sign bit of the lower half.
const OPEN: u64 = 1 << 31;
const VERSION_SHIFT: u32 = 32;
const VERSION_ONE: u64 = 1 << VERSION_SHIFT;
const VERSION_MASK: u64 = (WAITS - 1) & !(VERSION_ONE - 1);
/// A thread is parked on the word. The sign bit.
const WAITS: u64 = 1 << 63;

const ABSENT: u64 = 0;
const LOADING: u64 = 1;
const EXCLUSIVE: u64 = 2;
const UNLATCHED: u64 = 3;
const SHARED_BY_ONE: u64 = UNLATCHED + 1;
/// In the place of the frame, of a page that is loading ahead.
const AHEAD: u64 = 1;
/// The most holders of a shared latch.
const SHARED_FULL: u64 = 126;
/// What a holder of a shared latch adds when it lets go: −1 to the code. It is added, not subtracted: of an
/// atomic addition the compiler takes the sign of the result from the processor's flags, of a subtraction it
/// does not.
const HOLDER_LEAVES: u64 = CODE_ONE.wrapping_neg();
/// A word that a fork has wiped.
const WIPED: u64 = 0;
/// A wiped word that a shared latch was released from.
const WIPED_AND_RELEASED: u64 = WIPED.wrapping_add(HOLDER_LEAVES);
/// With at most this many holders left, a release wakes nobody who waits for room among them: the releases
/// before have. If so many let go at once that each finds no more left, none has; so a wait for room is a
/// short one (see [`look_again`](crate::page::latch::look_again)).
const HOLDERS_ROOMY: u32 = (SHARED_FULL - UNLATCHED) as u32 / 2;

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

    /// The version that the page gets if it leaves memory without another change.
    pub fn version_departed(self) -> u32 {
        PageState(next_version(self.0 & VERSION_MASK)).version()
    }

    pub fn is_absent(self) -> bool {
        self.code() == ABSENT
    }

    pub fn is_loading(self) -> bool {
        self.code() == LOADING
    }

    /// The page is on its way, and its load waits for nothing but what brings its contents.
    pub fn is_loading_ahead(self) -> bool {
        self.is_loading() && self.0 & FRAME_MASK == AHEAD
    }

    /// A thread is parked on the word.
    pub fn is_awaited(self) -> bool {
        self.0 & WAITS != 0
    }

    pub fn is_exclusive(self) -> bool {
        self.code() == EXCLUSIVE
    }

    /// Shared by as many as there may be.
    pub fn is_full(self) -> bool {
        self.code() == SHARED_FULL
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
            shared => (shared - UNLATCHED) as u32,
        }
    }

    /// The frame, if the page has one: resident, or departing.
    pub fn resident_frame(self) -> Option<FrameId> {
        (!matches!(self.code(), ABSENT | LOADING)).then(|| self.frame())
    }

    /// A shared latch could be had now.
    #[inline(always)]
    pub fn allows_shared(self) -> bool {
        (self.0 as i32) < (OPEN | SHARED_FULL << CODE_SHIFT) as i32
    }

    /// Who wants this latch has to wait: it cannot be had now, and the page is not absent.
    pub fn refuses(self, want: Want) -> bool {
        let is_to_be_had = match want {
            Want::Shared => self.allows_shared(),
            Want::Exclusive => self.is_unlatched(),
        };
        !is_to_be_had && !self.is_absent()
    }

    /// The page is there, and no writer holds it.
    #[inline(always)]
    fn allows_optimistic(self) -> bool {
        self.0 as u32 >= (UNLATCHED << CODE_SHIFT) as u32
    }

    /// Where the page is, and how often it changed.
    #[inline(always)]
    fn version_and_frame(self) -> Version {
        Version(self.0 & !(CODE_MASK | OPEN | WAITS))
    }

    #[inline(always)]
    fn is_of(self, version: Version) -> bool {
        self.allows_optimistic() && self.version_and_frame() == version
    }

    /// The same with this code, as if no writer waited.
    fn with_code(self, code: u64) -> u64 {
        self.0 & !(CODE_MASK | OPEN) | opened(code)
    }
}

impl fmt::Debug for PageState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code() {
            ABSENT => f.write_str("absent")?,
            UNLATCHED => write!(f, "in frame {}", self.frame().0)?,
            LOADING if self.is_loading_ahead() => f.write_str("loading ahead")?,
            LOADING => f.write_str("loading")?,
            EXCLUSIVE => write!(f, "in frame {}, exclusive", self.frame().0)?,
            _ => write!(f, "in frame {}, shared by {}", self.frame().0, self.holders())?,
        }
        if self.allows_optimistic() && self.0 & OPEN == 0 {
            f.write_str(", a writer waits")?;
        }
        if self.0 & WAITS != 0 {
            f.write_str(", waited for")?;
        }
        write!(f, ", version {}", self.version())
    }
}

/// A code in its place, with `open` if the page is resident and not latched exclusively then.
const fn opened(code: u64) -> u64 {
    code << CODE_SHIFT | if code >= UNLATCHED { OPEN } else { 0 }
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

/// The latch that a waiting thread wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Want {
    /// A shared latch.
    Shared,
    /// An exclusive latch.
    Exclusive,
}

/// A page as an optimistic read found it: its version, and where in memory it was.
///
/// Of use for [`Tenant::still`](crate::Tenant::still). It stops being the page's version when somebody has
/// written the page, and when the page has left memory. It does not come again when the file is closed and
/// opened anew.
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

    /// The value now. Acquire, so that what the last holder did is visible to the caller.
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

    /// The word is the same as at [`begin_optimistic`](Self::begin_optimistic). Cheaper than
    /// [`still`](Self::still), but also false where a shared latch has come or gone and what was read is
    /// good.
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

    /// As [`try_shared`](Self::try_shared), and returns what `near` makes of the frame. `near` is called
    /// before the latch is taken, so that what it fetches arrives during the compare-and-swap, which no
    /// later load may overtake.
    #[inline(always)]
    pub fn try_shared_near<T>(&self, near: impl Fn(FrameId) -> T) -> Result<T, PageState> {
        let state = PageState(self.0.load(Ordering::Relaxed));
        if !state.allows_shared() {
            return Err(state);
        }
        let found = near(state.frame());
        if self.add_holder(state) { Ok(found) } else { self.try_shared_again().map(near) }
    }

    /// As [`try_shared`](Self::try_shared), once: also an `Err` if another thread changes the word meanwhile.
    /// `may_take` is asked about the frame before.
    #[inline(always)]
    pub fn try_shared_once(&self, may_take: impl FnOnce(FrameId) -> bool) -> Result<FrameId, PageState> {
        let state = PageState(self.0.load(Ordering::Relaxed));
        if state.allows_shared() && may_take(state.frame()) && self.add_holder(state) {
            return Ok(state.frame());
        }
        Err(state)
    }

    #[inline(always)]
    fn add_holder(&self, state: PageState) -> bool {
        let more = state.0 + CODE_ONE;
        // Acquire pairs with the release of the last exclusive holder.
        self.0.compare_exchange(state.0, more, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Tries again, after another thread has changed the word between the look and the change. Each failure
    /// waits a little longer than the last: a processor that keeps asking for the word's line takes it away
    /// from those that are about to change it.
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
        if self.leave_shared() { self.left_shared_rarely() } else { Wake::Nobody }
    }

    /// The first part of [`release_shared`](Self::release_shared). True if
    /// [`left_shared_rarely`](Self::left_shared_rarely) is to be called then.
    #[inline]
    #[must_use = "others may wait"]
    pub fn leave_shared(&self) -> bool {
        // Release pairs with the acquire of the next exclusive holder: it must not write before this holder
        // has read.
        let before = self.0.fetch_add(HOLDER_LEAVES, Ordering::Release);
        debug_assert!(
            before == WIPED || (SHARED_BY_ONE..=SHARED_FULL).contains(&PageState(before).code()),
            "{:?}",
            PageState(before)
        );
        // `before` is used for nothing else, so that the addition needs no register for it.
        (before.wrapping_add(HOLDER_LEAVES) as i64) < 0
    }

    /// The second part, if somebody waits, or the word was wiped.
    #[cold]
    pub fn left_shared_rarely(&self) -> Wake {
        if self.0.load(Ordering::Relaxed) == WIPED_AND_RELEASED {
            return self.was_wiped(HOLDER_LEAVES);
        }
        self.wake_after_shared()
    }

    /// The word was wiped by a fork, in this process, the child. The release that found it so has added
    /// `step`.
    fn was_wiped(&self, step: u64) -> Wake {
        self.0.fetch_sub(step, Ordering::Relaxed);
        Wake::Nobody
    }

    /// The last holder to leave wakes the waiters. So do holders that leave while many others stay, because a
    /// thread may wait for room among the holders.
    ///
    /// Loads the word again, because the caller's fast path does not keep its value. If the word has changed
    /// since, the thread that changed it last has seen `waits` and wakes, or the waiters have been woken.
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
            let taken = state.with_code(EXCLUSIVE);
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
        self.leave_exclusive(SHARED_BY_ONE, changed)
    }

    #[inline]
    fn leave_exclusive(&self, code: u64, changed: bool) -> Wake {
        // Others can only set `waits` now, so one addition does it, without a loop.
        let mut step = opened(code) - opened(EXCLUSIVE);
        if changed {
            let version = self.0.load(Ordering::Relaxed) & VERSION_MASK;
            step = step.wrapping_add(next_version(version)).wrapping_sub(version);
        }
        let before = self.0.fetch_add(step, Ordering::Release);
        debug_assert!(before == WIPED || PageState(before).is_exclusive(), "{:?}", PageState(before));
        // As signed numbers, words with `waits` and a wiped word are below every other word with this code.
        let is_rare = (before as i64) < opened(EXCLUSIVE) as i64;
        if is_rare { self.left_exclusive_rarely(before, step) } else { Wake::Nobody }
    }

    #[cold]
    fn left_exclusive_rarely(&self, before: u64, step: u64) -> Wake {
        if before == WIPED { self.was_wiped(step) } else { self.withdraw_writer() }
    }

    /// Gives a page that has never been in memory its first version, which is not 0.
    pub fn set_first_version(&self, version: u32) {
        if self.0.load(Ordering::Relaxed) == 0 {
            let first = u64::from(version) << VERSION_SHIFT & VERSION_MASK;
            let _ = self.0.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Wins the right to bring the page in, if it is absent.
    pub fn begin_load(&self) -> Result<(), PageState> {
        self.begin(opened(LOADING))
    }

    /// As [`begin_load`](Self::begin_load), for a load that never waits for a frame or a latch. So a thread
    /// may wait for it whatever it holds.
    pub fn begin_load_ahead(&self) -> Result<(), PageState> {
        self.begin(opened(LOADING) | AHEAD)
    }

    /// `loading` is the lower half of the word from then on.
    fn begin(&self, loading: u64) -> Result<(), PageState> {
        let mut state = PageState(self.0.load(Ordering::Relaxed));
        while state.is_absent() {
            let loading = state.0 & VERSION_MASK | loading;
            match self.0.compare_exchange_weak(state.0, loading, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => state = PageState(now),
            }
        }
        Err(state)
    }

    /// The page is in `frame`; the caller keeps a shared latch.
    pub fn publish_shared(&self, frame: FrameId) -> Wake {
        self.publish(frame, SHARED_BY_ONE)
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
        self.replace(|state| state.0 & VERSION_MASK | opened(code) | u64::from(frame.0))
    }

    /// The page is in memory no more.
    pub fn depart(&self) -> Wake {
        self.replace(|state| next_version(state.0 & VERSION_MASK))
    }

    /// The page does not come in, though it may: it is absent as before. Not for a load that an operation on
    /// the file holds off: that operation relies on the version to change.
    pub fn give_up_load(&self) -> Wake {
        debug_assert!(self.state().is_loading());
        self.replace(|state| state.0 & VERSION_MASK)
    }

    /// The absent page has other contents from here on than those it had. Does nothing to one that a thread
    /// tries to bring in: it fails, or that was seen to. Nor to one that gets its first version when it is
    /// brought in.
    pub fn renew_absent(&self) {
        let mut state = PageState(self.0.load(Ordering::Relaxed));
        while state.is_absent() && state.0 != 0 {
            let renewed = next_version(state.0 & VERSION_MASK);
            match self.0.compare_exchange_weak(state.0, renewed, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => state = PageState(now),
            }
        }
    }

    /// Replaces the whole word. Only for the thread that loads the page (code 1) or holds it exclusively
    /// (code 2): others can only set `waits` meanwhile.
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

    /// Tells holders that the caller is about to park, unless the word no longer has what the caller waits
    /// for the end of. `state` is what it was a moment ago. The caller holds the lock of the place it parks
    /// at, and parks only if there is a result: the state that it waits for the end of.
    pub fn announce(
        &self,
        state: PageState,
        want: Want,
        awaits: impl Fn(PageState) -> bool,
    ) -> Option<PageState> {
        let mut state = state;
        // Tried again if it has changed to another such state, as that of a page that is read all the time
        // does.
        while awaits(state) {
            let announced = match want {
                Want::Shared => state.0 | WAITS,
                Want::Exclusive => (state.0 | WAITS) & !OPEN,
            };
            match self.0.compare_exchange_weak(state.0, announced, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(state),
                Err(now) => state = PageState(now),
            }
        }
        None
    }

    /// Lets readers in again, after a writer gave up waiting or had the latch. Writers that still wait are
    /// woken, and announce themselves again.
    #[cold]
    pub fn withdraw_writer(&self) -> Wake {
        let mut before = PageState(self.0.load(Ordering::Relaxed));
        loop {
            let opened = if before.allows_optimistic() { OPEN } else { 0 };
            let after = before.0 & !WAITS | opened;
            match self.0.compare_exchange_weak(before.0, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Wake::from(before.0),
                Err(now) => before = PageState(now),
            }
        }
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
        PageWord(AtomicU64::new(version << VERSION_SHIFT | opened(UNLATCHED) | u64::from(FRAME.0)))
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
    fn comparisons_of_the_halves_agree_with_the_table() {
        for (code, open, waits) in (0..128).flat_map(|code| {
            [(false, false), (false, true), (true, false), (true, true)]
                .map(|(open, waits)| (code, open, waits))
        }) {
            if open && code < UNLATCHED {
                continue;
            }
            let word = code << CODE_SHIFT | u64::from(FRAME.0) | VERSION_MASK;
            let state = PageState(word | if open { OPEN } else { 0 } | if waits { WAITS } else { 0 });
            assert_eq!(state.allows_shared(), open && (UNLATCHED..SHARED_FULL).contains(&code), "{state:?}");
            assert_eq!(state.allows_optimistic(), code >= UNLATCHED, "{state:?}");
        }
    }

    #[test]
    fn a_writer_that_gives_up_opens_only_what_readers_may_have() {
        let word = PageWord::new();
        assert_eq!(word.withdraw_writer(), Wake::Nobody);
        assert_eq!(word.state(), PageState(0));
        assert_eq!(word.begin_load(), Ok(()));
        assert!(word.announce(word.state(), Want::Exclusive, |_| true).is_some());
        assert_eq!(word.withdraw_writer(), Wake::All);
        assert!(word.state().is_loading() && !word.state().allows_shared());
        assert_eq!(word.publish_exclusive(FRAME), Wake::Nobody);
        assert!(word.announce(word.state(), Want::Exclusive, |_| true).is_some());
        assert_eq!(word.withdraw_writer(), Wake::All);
        assert!(word.state().is_exclusive() && !word.state().allows_shared());
        assert_eq!(word.downgrade(false), Wake::Nobody);
        assert!(
            word.announce(word.state(), Want::Exclusive, |_| true).is_some() && !word.state().allows_shared()
        );
        assert_eq!(word.withdraw_writer(), Wake::All);
        assert_eq!(word.state(), PageState(opened(SHARED_BY_ONE) | u64::from(FRAME.0)));
    }

    #[test]
    fn versions_come_round_beside_flags_and_frame() {
        let last = VERSION_MASK >> VERSION_SHIFT;
        let word = resident(last);
        assert_eq!(word.try_exclusive(), Ok(FRAME));
        assert!(word.announce(word.state(), Want::Exclusive, |_| true).is_some());
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
        let (word, holders_max) = (resident(7), SHARED_FULL - UNLATCHED);
        for holders in 0..holders_max {
            assert_eq!(u64::from(word.state().holders()), holders);
            assert_eq!(word.try_shared(), Ok(FRAME));
        }
        let full = word.try_shared().unwrap_err();
        assert!(word.begin_optimistic().is_some() && word.announce(full, Want::Shared, |_| true).is_some());
        assert_eq!(word.release_shared(), Wake::All);
        assert_eq!(word.try_shared(), Ok(FRAME));
        // A writer has to wait for the last.
        while u64::from(word.state().holders()) > 10 {
            let _ = word.release_shared();
        }
        assert!(word.announce(word.state(), Want::Exclusive, |_| true).is_some());
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
