//! Panics of code that is not ours.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `code` returns, or `None` if it panics, after the panic hook has reported that. What the code has
/// worked on may be half done.
///
/// A payload that panics when it is dropped, and what that leaves, end here, too: such a payload is leaked.
#[inline(always)]
pub fn contained<T>(code: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(result) => Some(result),
        Err(payload) => {
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(again);
            }
            None
        }
    }
}
