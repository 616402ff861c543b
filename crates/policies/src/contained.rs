//! Panics of code that is not ours.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `code` returns, or `None` if it panics. The panic hook has reported the panic then, and what the
/// code was changing may be half changed.
///
/// A payload that panics when it is dropped is caught, too; the payload of that second panic is leaked.
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
