//! References that are counted separately for groups of threads.
//!
//! A miss takes a reference to a file, or to the source that reads it, and drops it again. With one count
//! for all threads, threads that miss at the same time would take its cache line from each other. So such a
//! value has a few *shards*, each with a count of its own, and a thread clones the shard of its [stripe].

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam::utils::CachePadded;

/// Stripes of threads; a power of two.
pub(crate) const STRIPES: usize = 16;

/// The stripe of the calling thread, below [`STRIPES`]. Threads are assigned to stripes in turn.
#[inline]
pub(crate) fn stripe() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static STRIPE: Cell<usize> = const { Cell::new(STRIPES) };
    }
    STRIPE.with(|stripe| {
        if stripe.get() == STRIPES {
            stripe.set(THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        stripe.get()
    })
}

/// Shards of a value that is kept in a few places; a power of two.
pub(crate) const SHARDS: usize = 4;

/// A reference that shares its count only with its clones.
#[derive(Debug)]
pub(crate) struct Shard<T>(Arc<CachePadded<T>>);

impl<T> Shard<T> {
    /// The first reference of a new count.
    pub fn new(value: T) -> Self {
        Self(Arc::new(CachePadded::new(value)))
    }

    /// Whether there are no clones of it.
    pub fn is_last(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl<T> Clone for Shard<T> {
    #[inline]
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shard<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// A value in shards.
#[derive(Debug)]
pub(crate) struct Sharded<T>([Shard<T>; SHARDS]);

impl<T: Clone> Sharded<T> {
    /// Shards of clones of `value`.
    pub fn new(value: &T) -> Self {
        Self(std::array::from_fn(|_| Shard::new(value.clone())))
    }

    /// The shard of the calling thread.
    #[inline]
    pub fn own(&self) -> &Shard<T> {
        &self.0[stripe() % SHARDS]
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &T {
        &self.0[0]
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_counted_apart() {
        let value = Arc::new(7);
        let shards = Sharded::new(&value);
        let [first, second] = [&shards.0[0], &shards.0[1]];
        let clone = first.clone();
        assert!(!first.is_last() && second.is_last());
        drop(clone);
        assert!(first.is_last());
        assert_eq!((**shards.own().clone(), Arc::strong_count(shards.value())), (7, 1 + SHARDS));
        drop(shards);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn threads_take_turns() {
        let stripes: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4 * STRIPES).map(|_| scope.spawn(|| [stripe(), stripe()])).collect();
            let of = |[first, again]: [usize; 2]| (first == again && first < STRIPES).then_some(first);
            threads.into_iter().filter_map(|thread| of(thread.join().unwrap())).collect()
        });
        let distinct: std::collections::BTreeSet<usize> = stripes.iter().copied().collect();
        assert!(stripes.len() == 4 * STRIPES && distinct.len() > STRIPES / 2, "{stripes:?}");
    }
}
