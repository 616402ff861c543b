//! Ends questions that a tier does not answer in time and that no thread waits for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::tier::done::Question;

/// From this many queued questions on, answered ones are dropped before their deadlines. Questions that are
/// open never reach this number, because each has one of the tier's buffers.
const QUESTIONS_MAX: usize = 1024;

/// Questions in the order of their deadlines, and a thread that gives them up then. The thread is started
/// with the first question, and ends when this is dropped.
#[derive(Default)]
pub(super) struct Deadlines {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    questions: VecDeque<(Instant, Arc<Question>)>,
    has_thread: bool,
    is_over: bool,
}

impl Deadlines {
    /// Gives the question up at `deadline`, or at once if no thread can be started for that. Deadlines come
    /// in ascending order, except for those of threads that overtake each other.
    pub fn watch(&self, deadline: Instant, question: Arc<Question>) {
        let mut queue = self.shared.queue.lock();
        if !queue.has_thread {
            let shared = Arc::clone(&self.shared);
            let builder = std::thread::Builder::new().name("bufpool-tier".into());
            if builder.spawn(move || shared.run()).is_err() {
                drop(queue);
                return question.give_up();
            }
            queue.has_thread = true;
        }
        if queue.questions.len() >= QUESTIONS_MAX {
            queue.questions.retain(|(_, question)| !question.is_over());
        }
        let wakes = queue.questions.is_empty();
        queue.questions.push_back((deadline, question));
        drop(queue);
        if wakes {
            self.shared.changed.notify_one();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut queue = self.queue.lock();
        loop {
            match queue.questions.front() {
                _ if queue.is_over => return,
                None => self.changed.wait(&mut queue),
                Some((deadline, _)) if *deadline > Instant::now() => {
                    let deadline = *deadline;
                    self.changed.wait_until(&mut queue, deadline);
                }
                Some(_) => {
                    let due = queue.questions.pop_front();
                    parking_lot::MutexGuard::unlocked(&mut queue, || {
                        due.into_iter().for_each(|(_, question)| question.give_up());
                    });
                }
            }
        }
    }
}

impl Drop for Deadlines {
    fn drop(&mut self) {
        self.shared.queue.lock().is_over = true;
        self.shared.changed.notify_one();
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::tier::done::Answer;

    #[test]
    fn what_was_answered_is_dropped_long_before_its_deadline() {
        let deadlines = Deadlines::default();
        let far = Instant::now() + Duration::from_secs(600);
        for _ in 0..10 * QUESTIONS_MAX {
            let question = Question::calling(Box::new(|_| {}));
            drop(question.done());
            deadlines.watch(far, question);
        }
        assert!(deadlines.shared.queue.lock().questions.len() <= QUESTIONS_MAX);
    }

    #[test]
    fn what_is_not_answered_is_given_up() {
        let deadlines = Deadlines::default();
        let (sender, answers) = mpsc::channel();
        let mut kept = Vec::new();
        for at in 0..20 {
            let sender = sender.clone();
            let question = Question::calling(Box::new(move |answer| {
                sender.send((at, matches!(answer, Answer::TimedOut))).unwrap();
            }));
            let done = question.done();
            deadlines.watch(Instant::now() + Duration::from_millis(1), question);
            if at % 2 == 0 { kept.push(done) } else { drop(done) }
        }
        drop(sender);
        let given_up = answers.iter().take(20).filter(|(at, timed_out)| *timed_out && at % 2 == 0).count();
        assert_eq!(given_up, 10);
        drop(kept);
    }
}
