//! The user's references to a pool, counted apart from those of the pool's own threads.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::state::shared::PoolShared;

/// Keeps a pool alive for a user. Dropping the last one makes the pool's own threads finish and let go of
/// the pool. So when that drop returns, everything is written and the files' locks are released.
pub(crate) struct PoolHandle(Arc<PoolShared>);

impl PoolHandle {
    /// The first handle of the pool, or another one.
    pub fn new(pool: Arc<PoolShared>) -> Self {
        pool.handles.fetch_add(1, Ordering::Relaxed);
        Self(pool)
    }

    /// The pool without a handle, for operations that outlive the call that begins them. The drop of the
    /// last handle waits for them, because the backend knows of them.
    #[inline]
    pub fn shared(&self) -> &Arc<PoolShared> {
        &self.0
    }

    /// Whether both are of the same pool.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Clone for PoolHandle {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.0))
    }
}

impl Deref for PoolHandle {
    type Target = PoolShared;

    #[inline]
    fn deref(&self) -> &PoolShared {
        &self.0
    }
}

impl Drop for PoolHandle {
    fn drop(&mut self) {
        if !self.0.owner.is_here() {
            // The child of a fork leaves its copy where it is: files, rings and threads are the parent's.
            std::mem::forget(Arc::clone(&self.0));
            return;
        }
        // Acquire and release, so that the last drop comes after all that others did with their handles.
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.is_given_up.store(std::thread::panicking(), Ordering::Release);
            self.0.flushes.finish();
            self.0.write_back.stop();
            self.0.backend.drain();
            // An answer of the tier may begin transfers, and the end of a transfer may ask the tier.
            while self.0.tier.as_ref().is_some_and(|tier| tier.wait_for_answers()) {
                self.0.backend.drain();
            }
        }
    }
}
