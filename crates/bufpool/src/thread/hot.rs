//! What a hit looks at of its own thread, side by side, so that one address reaches all of it.

use std::cell::Cell;

use crate::sync::const_unless_loom;
use crate::thread::context::Context;
use crate::thread::keys::Keys;
use crate::thread::reader::{Reader, ReaderRef};
use crate::thread::ring::HitRing;
#[cfg(not(bufpool_loom))]
use crate::thread::spare::SPARES;
use crate::thread::spare::{Spare, Spares};

/// A thread's counts of guards and pins, of which all but one are a pool's own; a power of two.
pub(crate) const HOLDS_SLOTS: usize = 32;

/// A pool's serial number, and the thread's ring there.
pub(crate) type PoolRing = (u64, Option<&'static HitRing>);
/// Of no pool.
pub(crate) const NO_RING: PoolRing = (u64::MAX, None);

/// One thread's part of a hit. It has no destructor, so an access need not check whether the thread has
/// destroyed it already.
pub(crate) struct HotThread {
    /// The scopes the thread is in.
    pub context: Cell<Context>,
    /// The keys of the ring used last, in whatever pool; [`NO_KEYS`] if there is none.
    pub keys: Cell<&'static Keys>,
    /// The thread's optimistic reads, unless it has to fence them itself.
    pub reader: Reader,
    /// The reader that the thread has registered: the one above, or one that fences itself.
    pub registered: Cell<Option<ReaderRef>>,
    /// The thread is not ending, so it may register a reader.
    pub may_register: Cell<bool>,
    /// Guards and pins, by the slots of their pools. The first, of pools without a slot of their own, begins
    /// at [`HOLDS_APART`].
    pub holds: [Cell<i64>; HOLDS_SLOTS],
    /// The ring used last.
    pub last_ring: Cell<PoolRing>,
    /// Shares of file handles, for owned guards.
    pub spares: Spares,
    /// The thread is ending, so it may keep no more of them.
    pub spares_are_over: Cell<bool>,
}

/// The initial value of the shared count, whose pools are counted elsewhere: far below 0, so that its sign
/// tells.
pub(crate) const HOLDS_APART: i64 = i64::MIN / 2;

impl HotThread {
    const_unless_loom! {
        fn new(keys: &'static Keys) -> Self {
            let mut holds = [const { Cell::new(0) }; HOLDS_SLOTS];
            holds[0] = Cell::new(HOLDS_APART);
            Self {
                context: Cell::new(Context::NONE),
                keys: Cell::new(keys),
                reader: Reader::unregistered(),
                registered: Cell::new(None),
                may_register: Cell::new(true),
                holds,
                last_ring: Cell::new(NO_RING),
                spares: spares_shut(),
                spares_are_over: Cell::new(false),
            }
        }
    }
}

#[cfg(not(bufpool_loom))]
const fn spares_shut() -> Spares {
    [const { Spare::shut() }; SPARES]
}

#[cfg(bufpool_loom)]
fn spares_shut() -> Spares {
    std::array::from_fn(|_| Spare::shut())
}

/// Nobody's keys.
#[cfg(not(bufpool_loom))]
static NO_KEYS: Keys = Keys::new();

#[cfg(not(bufpool_loom))]
thread_local! {
    static HOT: HotThread = const { HotThread::new(&NO_KEYS) };
}

#[cfg(not(bufpool_loom))]
pub(crate) fn no_keys() -> &'static Keys {
    &NO_KEYS
}

#[cfg(bufpool_loom)]
thread_local! {
    static HOT: HotThread = HotThread::new(no_keys());
}

#[cfg(bufpool_loom)]
pub(crate) fn no_keys() -> &'static Keys {
    Box::leak(Box::new(Keys::new()))
}

/// Lets `look` at the calling thread's part.
#[inline(always)]
pub(crate) fn hot<R>(look: impl FnOnce(&HotThread) -> R) -> R {
    HOT.with(look)
}
