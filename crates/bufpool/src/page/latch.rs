//! Latches on page words: waiting for them, and the right they give to a frame's bytes.
//!
//! A held latch is a value; dropping it lets go. Whether it is shared or exclusive is part of its type. The
//! values are generic over how the word is reached: a reference into a page table for guards, an owned handle
//! for pages that depart while nobody's stack holds them.
//!
//! Threads wait in a table of [`PLACES`] places shared by all words of the process; a word's place is found
//! by hashing its address. A thread that releases a word with waiters wakes all waiters of the place. A
//! thread looks at a word at most [`SPINS`] times before it parks, however often the word changes meanwhile:
//! a page that many threads read changes all the time, and until a writer says that it waits, nobody makes
//! room for it.
//!
//! In debug builds and with the feature `deadlock-check`, each thread keeps a list of the words it has
//! latched, and a thread that would wait for itself gets [`Refusal::Own`] at once instead of waiting for the
//! time limit.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::time::{Duration, Instant};

use bufpool_policies::FrameId;

use crate::memory::arena::Arena;
use crate::memory::lease::FrameLease;
use crate::page::word::{PageState, PageWord, Wake, Want};
use crate::sync::{Condvar, Mutex, deadline_after, relax};
use crate::wakers::{PoolWaker, Wakers};

/// Looks at a word before a thread parks, in all waits of one access together.
const SPINS: u32 = if cfg!(bufpool_loom) { 0 } else { 64 };
/// How long one waits for room among the holders of a shared latch before one looks again: those who let go
/// do not always wake it.
const ROOM_POLL: Duration = Duration::from_millis(1);
/// Places to wait at; a power of two.
const PLACES: usize = if cfg!(bufpool_loom) { 1 } else { 256 };

/// How long all waits of one access together may last. The first wait turns a limit into a deadline, which
/// later waits share.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Not at all.
    None,
    /// At most this long from the first wait on.
    Limit(Duration),
    /// Until this moment.
    Until(Instant),
}

impl Patience {
    /// When the wait that begins now has to end. None if there may be none.
    pub fn deadline(&mut self) -> Option<Instant> {
        if let Self::Limit(limit) = *self {
            *self = Self::Until(deadline_after(limit));
        }
        match *self {
            Self::Until(deadline) => Some(deadline),
            _ => None,
        }
    }
}

/// Why there is no latch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The time was up.
    TimedOut,
    /// The calling thread holds a latch on the word itself.
    Own,
}

/// What a thread that wants a page comes to hold.
pub(crate) enum Acquired<W: Deref<Target = PageWord>, M: Mode> {
    /// The page is resident.
    Latched(Latch<W, M>),
    /// The page is absent, and the caller is the one to bring it in.
    Load(Loading<W>),
}

/// How a latch is held: [`Shared`] or [`Exclusive`].
pub(crate) trait Mode: Copy + Default {
    const WANT: Want;

    /// Lets go.
    fn release(self, word: &PageWord) -> Wake;
}

/// With others that read.
#[derive(Clone, Copy, Default)]
pub(crate) struct Shared;

/// By one alone, who may write.
#[derive(Clone, Copy, Default)]
pub(crate) struct Exclusive {
    /// The contents may have been changed.
    changed: bool,
    /// If a panic drops the latch, the page stays latched.
    kept_on_panic: bool,
}

impl Mode for Shared {
    const WANT: Want = Want::Shared;

    #[inline]
    fn release(self, word: &PageWord) -> Wake {
        word.release_shared()
    }
}

impl Mode for Exclusive {
    const WANT: Want = Want::Exclusive;

    #[inline]
    fn release(self, word: &PageWord) -> Wake {
        if self.kept_on_panic && std::thread::panicking() {
            return Wake::Nobody;
        }
        word.release_exclusive(self.changed)
    }
}

/// A latch on a resident page.
pub(crate) struct Latch<W: Deref<Target = PageWord>, M: Mode> {
    word: W,
    frame: FrameId,
    mode: M,
    mark: held::Mark,
}

impl<W: Deref<Target = PageWord>, M: Mode> Latch<W, M> {
    /// A latch without waiting.
    #[inline]
    pub fn try_new(word: W) -> Result<Self, PageState> {
        let frame = match M::WANT {
            Want::Shared => word.try_shared()?,
            Want::Exclusive => word.try_exclusive()?,
        };
        let mark = held::Mark::add(&word);
        Ok(Self { word, frame, mode: M::default(), mark })
    }

    /// The same latch, with the word reached in another way.
    pub fn through<V: Deref<Target = PageWord>>(self, word: V) -> Latch<V, M> {
        assert!(std::ptr::eq::<PageWord>(&*self.word, &*word), "the same word");
        let (_, frame, mode, mark) = self.into_parts();
        Latch { word, frame, mode, mark }
    }

    /// The latch goes on in its parts, which do not let go of it.
    fn into_parts(self) -> (W, FrameId, M, held::Mark) {
        let latch = ManuallyDrop::new(self);
        // SAFETY: `latch` is not dropped, so its word is moved out once.
        let word = unsafe { std::ptr::read(&raw const latch.word) };
        (word, latch.frame, latch.mode, latch.mark)
    }

    /// The same latch, for an owner that may let go of it on another thread.
    pub fn detached(mut self) -> Self {
        self.mark.remove(&self.word);
        self
    }

    #[inline]
    pub fn frame(&self) -> FrameId {
        self.frame
    }

    /// The word.
    pub fn word(&self) -> &W {
        &self.word
    }

    /// The frame's lease, to read from while the latch is held.
    pub fn lease(&self) -> FrameView<'_> {
        // SAFETY: the view gives out no more than a shared reference, and borrows the latch, which keeps
        // others from writing. The holder of an exclusive one writes through a borrow that excludes this.
        let lease = unsafe { FrameLease::from_word(self.frame) };
        FrameView { lease, _latch: std::marker::PhantomData }
    }

    /// The page's bytes, which nobody changes while the latch is borrowed.
    #[inline]
    pub fn bytes<'a>(&'a self, arena: &'a Arena) -> &'a [u8] {
        // SAFETY: the frame holds the page as long as the word is latched, and nobody else writes it
        // meanwhile: under a shared latch nobody, under the exclusive one only through this value, which is
        // borrowed.
        unsafe { arena.frame(self.frame).as_ref() }
    }
}

impl<W: Deref<Target = PageWord>> Latch<W, Exclusive> {
    /// Notes that the contents change.
    #[inline]
    pub fn set_changed(&mut self) {
        self.mode.changed = true;
    }

    /// If a panic drops the latch, the page stays latched until somebody [regains](Self::regain) the latch.
    pub fn keep_on_panic(&mut self) {
        self.mode.kept_on_panic = true;
    }

    /// The latch that a panic has dropped and not let go of.
    ///
    /// # Safety
    ///
    /// There was such a latch on the word, and nobody else has regained it.
    pub unsafe fn regain(word: W) -> Self {
        let frame = word.state().resident_frame().expect("a latched page is resident");
        let mark = held::Mark::add(&word);
        Self { word, frame, mode: Exclusive { changed: true, kept_on_panic: false }, mark }
    }

    /// Turns the latch into a shared one, without letting go.
    pub fn downgrade(self) -> Latch<W, Shared> {
        let (word, frame, Exclusive { changed, .. }, mark) = self.into_parts();
        wake(&word, word.downgrade(changed));
        Latch { word, frame, mode: Shared, mark }
    }

    /// Turns the latch into the right to take the page out of its frame: the frame's lease, and the word,
    /// which stays held.
    pub fn depart(self) -> (HeldWord<W>, FrameLease) {
        let (word, frame, _, mut mark) = self.into_parts();
        mark.remove(&word);
        // SAFETY: the latch is exclusive and ends here without letting go of the word, so this is the only
        // way to the bytes.
        let lease = unsafe { FrameLease::from_word(frame) };
        (HeldWord { word: Some(word) }, lease)
    }
}

impl<W: Deref<Target = PageWord>, M: Mode> Drop for Latch<W, M> {
    #[inline]
    fn drop(&mut self) {
        self.mark.remove(&self.word);
        wake(&self.word, self.mode.release(&self.word));
    }
}

/// A shared latch on a page of a file that its holder borrows: all that a read guard needs, in one register.
pub(crate) struct SharedLatch<'g> {
    word: &'g PageWord,
    mark: held::Mark,
}

impl<'g> SharedLatch<'g> {
    /// Takes the latch if that needs no wait. Also returns what `near` makes of the page's frame; `near` is
    /// called before the latch is taken.
    #[inline(always)]
    pub fn try_near<R>(word: &'g PageWord, near: impl Fn(FrameId) -> R) -> Option<(Self, R)> {
        let result = word.try_shared_near(near).ok()?;
        Some((Self { word, mark: held::Mark::add(word) }, result))
    }

    /// Takes the latch if the first try succeeds and `may_take` allows the page's frame. Also returns the
    /// frame.
    #[inline(always)]
    pub fn try_once(word: &'g PageWord, may_take: impl FnOnce(FrameId) -> bool) -> Option<(Self, FrameId)> {
        let frame = word.try_shared_once(may_take).ok()?;
        Some((Self { word, mark: held::Mark::add(word) }, frame))
    }

    /// The page's frame.
    pub fn frame(&self) -> FrameId {
        self.word.state().resident_frame().expect("a latched page is resident")
    }

    /// The word.
    #[inline]
    pub fn word(&self) -> &'g PageWord {
        self.word
    }

    /// The same latch, with the word reached in another way.
    #[inline]
    pub fn through(self, word: &PageWord) -> SharedLatch<'_> {
        debug_assert!(std::ptr::eq(self.word, word), "the same word");
        SharedLatch { word, mark: ManuallyDrop::new(self).mark }
    }

    /// The same latch, for an owner that may let go of it on another thread.
    #[inline]
    pub fn detached(mut self) -> Self {
        self.mark.remove(self.word);
        self
    }
}

impl<'g> From<Latch<&'g PageWord, Shared>> for SharedLatch<'g> {
    /// The same latch.
    fn from(latch: Latch<&'g PageWord, Shared>) -> Self {
        let (word, .., mark) = latch.into_parts();
        Self { word, mark }
    }
}

impl Drop for SharedLatch<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.mark.remove(self.word);
        if self.word.leave_shared() {
            left_shared_rarely(self.word);
        }
    }
}

/// Not inlined, and called last, so that callers save no registers for it.
#[cold]
#[inline(never)]
fn left_shared_rarely(word: &PageWord) {
    wake(word, word.left_shared_rarely());
}

/// The right to read a frame's bytes, lent by a latch.
pub(crate) struct FrameView<'a> {
    lease: FrameLease,
    _latch: std::marker::PhantomData<&'a ()>,
}

impl Deref for FrameView<'_> {
    type Target = FrameLease;

    fn deref(&self) -> &FrameLease {
        &self.lease
    }
}

/// The duty to bring an absent page in. Dropping it leaves the page absent.
pub(crate) struct Loading<W: Deref<Target = PageWord>> {
    word: Option<W>,
    mark: held::Mark,
}

impl<W: Deref<Target = PageWord>> Loading<W> {
    /// The right to load, if the page is absent now.
    pub fn try_new(word: W) -> Result<Self, PageState> {
        word.begin_load()?;
        let mark = held::Mark::add(&word);
        Ok(Self { word: Some(word), mark })
    }

    /// As [`try_new`](Self::try_new), for a load that another thread may end.
    pub fn try_new_detached(word: W) -> Result<Self, PageState> {
        word.begin_load()?;
        Ok(Self { word: Some(word), mark: held::Mark::default() })
    }

    /// The page does not come in, and stays as it was; see [`PageWord::give_up_load`].
    pub fn give_up(mut self) {
        if let Some(word) = self.word.take() {
            self.mark.remove(&word);
            wake(&word, word.give_up_load());
        }
    }

    /// The page is in the leased frame, and nobody holds it.
    pub fn publish_unlatched(mut self, lease: FrameLease) {
        let word = self.word.take().expect("published once");
        self.mark.remove(&word);
        wake(&word, word.publish_unlatched(lease.into_word()));
    }

    /// The page is in the leased frame, and latched.
    pub fn publish<M: Mode>(mut self, lease: FrameLease) -> Latch<W, M> {
        let word = self.word.take().expect("published once");
        let frame = lease.into_word();
        let wakes = match M::WANT {
            Want::Shared => word.publish_shared(frame),
            Want::Exclusive => word.publish_exclusive(frame),
        };
        wake(&word, wakes);
        Latch { word, frame, mode: M::default(), mark: self.mark }
    }
}

impl<W: Deref<Target = PageWord>> Drop for Loading<W> {
    fn drop(&mut self) {
        if let Some(word) = self.word.take() {
            self.mark.remove(&word);
            wake(&word, word.depart());
        }
    }
}

/// The word of a page on its way out: held exclusively until this is dropped, which makes the page absent, or
/// the page is [restored](Self::restore).
pub(crate) struct HeldWord<W: Deref<Target = PageWord>> {
    word: Option<W>,
}

impl<W: Deref<Target = PageWord>> HeldWord<W> {
    /// The word.
    pub fn word(&self) -> &W {
        self.word.as_ref().expect("not restored yet")
    }

    /// The page stays, in the leased frame.
    pub fn restore(mut self, lease: FrameLease) {
        let word = self.word.take().expect("restored once");
        wake(&word, word.publish_unlatched(lease.into_word()));
    }
}

impl<W: Deref<Target = PageWord>> Drop for HeldWord<W> {
    fn drop(&mut self) {
        if let Some(word) = self.word.take() {
            wake(&word, word.depart());
        }
    }
}

/// Latches the page, or wins the right to load it, waiting as long as `patience` allows. Also says whether
/// the caller waited for another thread to load the page.
#[cold]
pub(crate) fn acquire<W, M: Mode>(word: W, patience: &mut Patience) -> Result<(Acquired<W, M>, bool), Refusal>
where
    W: Deref<Target = PageWord> + Copy,
{
    let (mut waited_for_load, mut looks) = (false, SPINS);
    loop {
        let state = match Latch::try_new(word) {
            Ok(latch) => return Ok((Acquired::Latched(latch), waited_for_load)),
            Err(state) if state.is_absent() => match Loading::try_new(word) {
                Ok(loading) => return Ok((Acquired::Load(loading), waited_for_load)),
                // Another thread has begun the load, which may even be over.
                Err(_) => continue,
            },
            Err(state) => state,
        };
        waited_for_load |= state.is_loading();
        wait_for_change(&word, M::WANT, |state| state.refuses(M::WANT), patience, &mut looks)?;
    }
}

/// Latches the page if it is resident, waiting as long as `patience` allows. None if it is absent.
#[cold]
pub(crate) fn acquire_resident<W, M: Mode>(
    word: W,
    patience: &mut Patience,
) -> Result<Option<Latch<W, M>>, Refusal>
where
    W: Deref<Target = PageWord> + Clone,
{
    let mut looks = SPINS;
    loop {
        match Latch::try_new(word.clone()) {
            Ok(latch) => return Ok(Some(latch)),
            Err(state) if state.is_absent() => return Ok(None),
            Err(_) => wait_for_change(&word, M::WANT, |state| state.refuses(M::WANT), patience, &mut looks)?,
        }
    }
}

/// Waits until the page is not [loading ahead](PageState::is_loading_ahead), as long as `patience` allows.
/// Whether there was anything to wait for.
pub(crate) fn wait_while_ahead(word: &PageWord, patience: &mut Patience) -> bool {
    let (mut has_waited, mut looks) = (false, SPINS);
    loop {
        let awaits = PageState::is_loading_ahead;
        if !awaits(word.state()) || wait_for_change(word, Want::Shared, awaits, patience, &mut looks).is_err()
        {
            return has_waited;
        }
        has_waited = true;
    }
}

/// Waits until nobody holds the page, it is absent, or `until` is reached. Announces no writer, so that the
/// wait keeps nobody from the page.
pub(crate) fn wait_until_free(word: &PageWord, until: Instant) {
    let place = place_of(word);
    let mut guard = place.lock.lock();
    loop {
        let state = word.state();
        if state.is_unlatched() || state.is_absent() || Instant::now() >= until {
            return;
        }
        if word.announce(state, Want::Shared, |now| !now.is_unlatched() && !now.is_absent()).is_some() {
            guard = place.changed.wait(guard, Some(until));
        }
    }
}

/// Waits until the word may have a state that the caller does not wait for the end of. Spurious returns are
/// fine: callers look again. `looks` are those that are left of [`SPINS`]; a thread that was woken has all of
/// them again.
fn wait_for_change(
    word: &PageWord,
    want: Want,
    awaits: impl Fn(PageState) -> bool,
    patience: &mut Patience,
    looks: &mut u32,
) -> Result<(), Refusal> {
    // Before the look at the thread's own latches: who does not wait does not wait for itself.
    if matches!(patience, Patience::None) {
        return Err(Refusal::TimedOut);
    }
    if held::has(word) {
        return Err(Refusal::Own);
    }
    while *looks > 0 {
        *looks -= 1;
        if !awaits(word.state()) {
            return Ok(());
        }
        relax();
    }
    let Some(deadline) = patience.deadline() else { return Err(Refusal::TimedOut) };
    if !cfg!(bufpool_loom) && Instant::now() >= deadline {
        if want == Want::Exclusive {
            wake(word, word.withdraw_writer());
        }
        return Err(Refusal::TimedOut);
    }
    let place = place_of(word);
    let guard = place.lock.lock();
    // Announced under the place's lock, which a waking thread takes too: the notification cannot come before
    // this thread waits.
    if let Some(state) = word.announce(word.state(), want, awaits) {
        drop(place.changed.wait(guard, Some(look_again(state, deadline))));
        *looks = SPINS;
    }
    Ok(())
}

/// When a wait that begins in `state`, and may last until `deadline`, is to look again if nobody ends it.
pub(crate) fn look_again(state: PageState, deadline: Instant) -> Instant {
    if state.is_full() { deadline.min(Instant::now() + ROOM_POLL) } else { deadline }
}

/// Wakes all who wait for the word, if `wakes` says so.
#[inline]
pub(crate) fn wake(word: &PageWord, wakes: Wake) {
    if wakes == Wake::All {
        wake_all(word);
    }
}

#[cold]
fn wake_all(word: &PageWord) {
    let place = place_of(word);
    let futures = place.lock.lock().take();
    place.changed.notify_all();
    // Futures that wait for other words of the place are woken too; they look again, as threads do.
    futures.hand_over();
}

/// Where threads and futures wait.
#[derive(Default)]
struct WaitPlace {
    /// Futures that wait. Threads wait on `changed` with this lock.
    lock: Mutex<Wakers>,
    changed: Condvar,
}

/// Parks future number `id`: `waker` is woken when the latch that it wants may be had, or the page may be
/// absent. False if that is so already. `state` is what the word was a moment ago.
///
/// Futures never announce that they want to write: a future that is not polled would keep readers away.
pub(crate) fn park_future(word: &PageWord, state: PageState, want: Want, id: u64, waker: PoolWaker) -> bool {
    let place = place_of(word);
    let displaced = {
        let mut waiting = place.lock.lock();
        if word.announce(state, Want::Shared, |now| now.refuses(want)).is_none() {
            drop(waiting);
            return false;
        }
        waiting.park(id, waker)
    };
    drop(displaced);
    true
}

/// Future number `id` no longer waits for the word.
pub(crate) fn unpark_future(word: &PageWord, id: u64) {
    let waker = place_of(word).lock.lock().unpark(id);
    // Dropped after the lock, because dropping a waker runs code of its executor.
    drop(waker);
}

fn place_of(word: &PageWord) -> &'static WaitPlace {
    let address = std::ptr::from_ref(word).addr() / size_of::<PageWord>();
    let hash = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    &places()[hash as usize % PLACES]
}

#[cfg(not(bufpool_loom))]
fn places() -> &'static [WaitPlace] {
    use std::sync::LazyLock;
    static TABLE: LazyLock<Box<[WaitPlace]>> =
        LazyLock::new(|| (0..PLACES).map(|_| WaitPlace::default()).collect());
    &TABLE
}

#[cfg(bufpool_loom)]
fn places() -> &'static [WaitPlace] {
    loom::lazy_static! {
        static ref TABLE: [WaitPlace; PLACES] = [WaitPlace::default()];
    }
    &*TABLE
}

/// The words that the calling thread has latched.
#[cfg(any(debug_assertions, feature = "deadlock-check"))]
mod held {
    use std::cell::RefCell;

    use crate::page::word::PageWord;

    thread_local! {
        static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    fn address(word: &PageWord) -> usize {
        std::ptr::from_ref(word).addr()
    }

    /// Whether the latch is in the list of the thread that took it. Latches that any thread may let go of are
    /// in no list.
    #[derive(Clone, Copy, Default)]
    pub struct Mark(bool);

    impl Mark {
        pub fn add(word: &PageWord) -> Self {
            // A thread that is ending no longer has its list; it will not wait for itself either.
            Self(HELD.try_with(|held| held.borrow_mut().push(address(word))).is_ok())
        }

        pub fn remove(&mut self, word: &PageWord) {
            if !std::mem::take(&mut self.0) {
                return;
            }
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(at) = held.iter().rposition(|&other| other == address(word)) {
                    held.swap_remove(at);
                }
            });
        }
    }

    pub fn has(word: &PageWord) -> bool {
        HELD.try_with(|held| held.borrow().contains(&address(word))).unwrap_or(false)
    }
}

#[cfg(not(any(debug_assertions, feature = "deadlock-check")))]
mod held {
    use crate::page::word::PageWord;

    #[derive(Clone, Copy, Default)]
    pub struct Mark;

    impl Mark {
        #[inline(always)]
        pub fn add(_: &PageWord) -> Self {
            Self
        }

        #[inline(always)]
        pub fn remove(&mut self, _: &PageWord) {}
    }

    #[inline]
    pub fn has(_: &PageWord) -> bool {
        false
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::owner::Owner;
    use crate::wakers::WakerThread;

    const SHORT: Patience = Patience::Limit(Duration::from_millis(20));
    const LONG: Patience = Patience::Limit(Duration::from_secs(60));

    fn loaded(word: &PageWord, arena: &Arena, lease: FrameLease) {
        let Ok((Acquired::Load(loading), false)) = acquire::<_, Shared>(word, &mut { Patience::None }) else {
            panic!("{word:?}");
        };
        assert!(arena.bytes(&lease).iter().all(|&byte| byte == 0));
        drop(loading.publish::<Shared>(lease));
    }

    #[test]
    fn every_state_allows_what_the_table_says() {
        let (arena, mut leases) = Arena::new(1, 4096).unwrap();
        let word = PageWord::new();
        assert!(acquire_resident::<_, Shared>(&word, &mut { Patience::None }).unwrap().is_none());
        loaded(&word, &arena, leases.pop().unwrap());
        let one = Latch::<_, Shared>::try_new(&word).ok().unwrap();
        let two = Latch::<_, Shared>::try_new(&word).ok().unwrap();
        assert_eq!(word.state().holders(), 2);
        assert!(Latch::<_, Exclusive>::try_new(&word).is_err());
        drop((one, two));
        let before = word.state().version();
        let mut latch = Latch::<_, Exclusive>::try_new(&word).ok().unwrap();
        assert!(Latch::<_, Shared>::try_new(&word).is_err());
        latch.set_changed();
        let latch = latch.downgrade();
        assert_eq!(word.state().version(), before + 1);
        assert_eq!(word.state().holders(), 1);
        drop(latch);
        let latch = Latch::<_, Exclusive>::try_new(&word).ok().unwrap();
        let (departing, lease) = latch.depart();
        assert_eq!(lease.frame(), FrameId(0));
        drop(departing);
        assert!(word.state().is_absent());
        assert_eq!(word.state().version(), before + 2);
    }

    #[test]
    fn a_thread_that_waits_for_itself_is_told_at_once() {
        let (arena, mut leases) = Arena::new(1, 4096).unwrap();
        let word = PageWord::new();
        loaded(&word, &arena, leases.pop().unwrap());
        let latch = Latch::<_, Exclusive>::try_new(&word).ok().unwrap();
        if cfg!(debug_assertions) {
            assert_eq!(acquire::<_, Shared>(&word, &mut { LONG }).err(), Some(Refusal::Own));
        }
        drop(latch);
        assert!(acquire::<_, Shared>(&word, &mut { LONG }).is_ok());
    }

    #[test]
    fn a_wait_ends_at_its_limit_and_leaves_no_trace() {
        let (arena, mut leases) = Arena::new(1, 4096).unwrap();
        let word = PageWord::new();
        loaded(&word, &arena, leases.pop().unwrap());
        let latch = Latch::<_, Shared>::try_new(&word).ok().unwrap();
        std::thread::scope(|scope| {
            let refused =
                scope.spawn(|| acquire::<_, Exclusive>(&word, &mut { SHORT }).err()).join().unwrap();
            assert_eq!(refused, Some(Refusal::TimedOut));
        });
        assert!(word.state().allows_shared(), "{word:?}");
        drop(latch);
    }

    #[test]
    fn the_last_shared_latch_that_is_dropped_wakes_who_waits() {
        let (arena, mut leases) = Arena::new(1, 4096).unwrap();
        let word = PageWord::new();
        loaded(&word, &arena, leases.pop().unwrap());
        let threads = WakerThread::new(Owner::new().unwrap());
        let near = || SharedLatch::try_near(&word, |_| ()).unwrap().0;
        let (first, last) = (near(), near());
        let waker = threads.adopt(std::task::Waker::noop()).unwrap();
        assert!(park_future(&word, word.state(), Want::Exclusive, 1, waker));
        drop((first, last));
        assert!(word.state().is_unlatched(), "{word:?}");
        assert!(place_of(&word).lock.lock().unpark(1).is_none(), "it was woken");
    }

    /// All of them take their holds off before the first looks who waits.
    #[test]
    fn who_waits_for_room_gets_it_when_many_let_go_at_once() {
        let (arena, mut leases) = Arena::new(1, 4096).unwrap();
        let word = PageWord::new();
        loaded(&word, &arena, leases.pop().unwrap());
        let holders = (0..).take_while(|_| word.try_shared().is_ok()).count();
        assert!(word.state().is_full());
        let until = Instant::now() + Duration::from_secs(60);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                drop(acquire::<_, Shared>(&word, &mut Patience::Until(until)).ok().unwrap());
                Instant::now() < until
            });
            while !word.state().is_awaited() {
                std::thread::yield_now();
            }
            let left: Vec<bool> = (1..holders).map(|_| word.leave_shared()).collect();
            for is_rare in left {
                if is_rare {
                    assert_eq!(word.left_shared_rarely(), Wake::Nobody);
                }
            }
            assert!(waiting.join().unwrap(), "it got room when its time was up");
        });
        wake(&word, word.release_shared());
        assert!(word.state().is_unlatched(), "{word:?}");
    }

    /// A word that others change each time before it is looked at, and that always has a holder.
    #[derive(Clone, Copy)]
    struct Restless<'w> {
        word: &'w PageWord,
        looks: &'w Cell<u32>,
    }

    impl Deref for Restless<'_> {
        type Target = PageWord;

        fn deref(&self) -> &PageWord {
            let looks = self.looks.get();
            assert!(looks < 100_000, "it looks for ever");
            self.looks.set(looks + 1);
            if looks.is_multiple_of(2) {
                assert!(self.word.try_shared().is_ok());
            } else {
                assert_eq!(self.word.release_shared(), Wake::Nobody);
            }
            self.word
        }
    }

    #[test]
    fn a_wait_for_a_word_that_never_rests_ends_at_its_limit() {
        let (arena, mut leases) = Arena::new(1, 4096).unwrap();
        let (word, looks) = (PageWord::new(), Cell::new(0));
        loaded(&word, &arena, leases.pop().unwrap());
        // Not as a latch, so that the thread does not wait for itself.
        assert!(word.try_shared().is_ok());
        let restless = Restless { word: &word, looks: &looks };
        let over = Patience::Until(Instant::now());
        assert_eq!(acquire::<_, Exclusive>(restless, &mut { over }).err(), Some(Refusal::TimedOut));
        assert!(looks.get() > 1, "it changes");
        assert_eq!(acquire_resident::<_, Exclusive>(restless, &mut { over }).err(), Some(Refusal::TimedOut));
    }

    /// The page is read all the time, so that the word is another one whenever somebody looks.
    #[test]
    fn a_future_parks_though_the_word_has_changed_since_it_looked() {
        let (arena, mut leases) = Arena::new(1, 4096).unwrap();
        let word = PageWord::new();
        loaded(&word, &arena, leases.pop().unwrap());
        let threads = WakerThread::new(Owner::new().unwrap());
        let park = |state| {
            let waker = threads.adopt(std::task::Waker::noop()).unwrap();
            park_future(&word, state, Want::Exclusive, 1, waker)
        };
        let unlatched = word.state();
        let first = Latch::<_, Shared>::try_new(&word).ok().unwrap();
        let seen = word.state();
        let second = Latch::<_, Shared>::try_new(&word).ok().unwrap();
        assert!(park(seen) && word.state().is_awaited());
        drop((first, second));
        assert!(!park(seen) && !word.state().is_awaited(), "it is free");
        assert!(!park(unlatched));
    }

    /// Threads that wait for neighbouring pages hardly disturb each other.
    #[test]
    fn neighbouring_words_have_different_places() {
        let words: Vec<PageWord> = (0..4 * PLACES).map(|_| PageWord::new()).collect();
        let places: std::collections::HashSet<_> =
            words.iter().map(|word| std::ptr::from_ref(place_of(word)).addr()).collect();
        assert!(places.len() > PLACES / 2, "{} places", places.len());
    }

    #[test]
    fn two_loaders_of_one_page_load_it_once() {
        for _ in 0..200 {
            let (arena, leases) = Arena::new(1, 4096).unwrap();
            let leases = parking_lot::Mutex::new(leases);
            let word = PageWord::new();
            let loads = AtomicU32::new(0);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| match acquire::<_, Shared>(&word, &mut { LONG }).ok().unwrap().0 {
                        Acquired::Latched(latch) => assert_eq!(latch.bytes(&arena)[0], 7),
                        Acquired::Load(loading) => {
                            loads.fetch_add(1, Ordering::Relaxed);
                            let mut lease = leases.lock().pop().unwrap();
                            arena.bytes_mut(&mut lease)[0] = 7;
                            drop(loading.publish::<Shared>(lease));
                        }
                    });
                }
            });
            assert_eq!(loads.into_inner(), 1);
        }
    }

    fn latched<M: Mode>(word: &PageWord) -> Latch<&PageWord, M> {
        let (Acquired::Latched(latch), _) = acquire(word, &mut { LONG }).ok().unwrap() else {
            panic!("the page does not leave");
        };
        latch
    }

    #[test]
    fn writers_exclude_everybody_and_all_get_their_turn() {
        let (arena, mut leases) = Arena::new(1, 4096).unwrap();
        let word = PageWord::new();
        loaded(&word, &arena, leases.pop().unwrap());
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (word, inside) = (&word, &inside);
                scope.spawn(move || {
                    for step in 0..2000 {
                        if (step + thread) % 3 == 0 {
                            let latch = latched::<Exclusive>(word);
                            assert_eq!(inside.swap(100, Ordering::Relaxed), 0);
                            inside.store(0, Ordering::Relaxed);
                            drop(latch);
                        } else {
                            let latch = latched::<Shared>(word);
                            assert!(inside.fetch_add(1, Ordering::Relaxed) < 4);
                            inside.fetch_sub(1, Ordering::Relaxed);
                            drop(latch);
                        }
                    }
                });
            }
        });
        assert!(word.state().is_unlatched(), "{word:?}");
    }
}
