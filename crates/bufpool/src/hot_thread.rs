//! What a hit looks at of its own thread, side by side, so that one address reaches all of it.

use std::cell::Cell;

use crate::access_log::Ring;
use crate::readers::Reader;
use crate::scope::Context;

/// Pools told apart by a thread's counts of guards and pins; a power of two. Pools that share a slot are counted together.
pub(crate) const HOLDS_SLOTS: usize = 8;

/// A pool's serial number, and the thread's ring there.
pub(crate) type PoolRing = (u64, Option<&'static Ring>);
/// Of no pool.
pub(crate) const NO_RING: PoolRing = (u64::MAX, None);

/// One thread's part of a hit. Without a destructor, so that it can be looked at without asking whether it is still there.
pub(crate) struct HotThread {
    /// The scopes the thread is in.
    pub context: Cell<Context>,
    /// The ring used last, in whatever pool.
    pub last_ring: Cell<PoolRing>,
    /// The thread's optimistic reads, if it has made any and need not fence them itself.
    pub reader: Cell<Option<&'static Reader>>,
    /// Guards and pins, by the slots of their pools.
    pub holds: [Cell<i32>; HOLDS_SLOTS],
}

thread_local! {
    static HOT: HotThread = const {
        HotThread {
            context: Cell::new(Context::NONE),
            last_ring: Cell::new(NO_RING),
            reader: Cell::new(None),
            holds: [const { Cell::new(0) }; HOLDS_SLOTS],
        }
    };
}

/// Lets `look` at the calling thread's part.
#[inline(always)]
pub(crate) fn hot<R>(look: impl FnOnce(&HotThread) -> R) -> R {
    HOT.with(look)
}
