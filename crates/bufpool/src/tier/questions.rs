//! Questions to a tier for whose answers no thread waits. The code that is told an answer may hold the pool.
//! So the drop of the pool's last handle waits for the questions; when it returns, the pool has ended.

use std::cell::Cell;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

thread_local! {
    /// Answers that the thread is telling now, one within the other.
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
    /// Opens one more question.
    pub fn open(self: &Arc<Self>) -> OpenQuestion {
        *self.open.lock() += 1;
        OpenQuestion(Arc::clone(self))
    }

    /// Whether the calling thread is telling an answer.
    pub fn is_telling() -> bool {
        TELLING.get() > 0
    }

    /// Waits until all questions are over, and returns whether one was open. Does not wait, and returns
    /// false, in a thread that is telling an answer.
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
