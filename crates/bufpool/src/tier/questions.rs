//! Questions to a tier for whose answers no thread waits. What is done with an answer may keep the pool: so
//! who drops the pool's last handle waits for the questions, and finds the pool ended when the drop returns.

use std::cell::Cell;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

thread_local! {
    /// Answers that the thread is telling.
    static TELLING: Cell<u32> = const { Cell::new(0) };
}

/// How many questions are not over.
#[derive(Default)]
pub(super) struct Questions {
    open: Mutex<u32>,
    over: Condvar,
}

/// A question that is not over as long as this lives.
pub(super) struct OpenQuestion(Arc<Questions>);

/// The thread is telling an answer.
struct Telling;

impl Questions {
    /// One more.
    pub fn open(self: &Arc<Self>) -> OpenQuestion {
        *self.open.lock() += 1;
        OpenQuestion(Arc::clone(self))
    }

    /// Whether the calling thread is telling an answer.
    pub fn is_telling() -> bool {
        TELLING.get() > 0
    }

    /// Waits until all are over. Returns whether one was not. Does not wait in a thread that is telling an
    /// answer.
    pub fn wait(&self) -> bool {
        let mut open = self.open.lock();
        let waits = *open > 0 && !Self::is_telling();
        while waits && *open > 0 {
            self.over.wait(&mut open);
        }
        waits
    }
}

impl OpenQuestion {
    /// Tells the answer; then the question is over.
    pub fn tell(self, answer: impl FnOnce()) {
        TELLING.set(TELLING.get() + 1);
        let _telling = Telling;
        answer();
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        *self.0.open.lock() -= 1;
        self.0.over.notify_all();
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        TELLING.set(TELLING.get() - 1);
    }
}
