//! Where the answer of a tier meets the one that asked.

use std::sync::Arc;
use std::time::Instant;

use bufpool_policies::contained;
use parking_lot::{Condvar, Mutex};

use crate::tier::buffer::{Envelope, TierBuffer};

/// Takes a tier's answer to [`Tier::take`](crate::tier::Tier::take). Dropping it without an answer says that
/// the tier has no such copy.
///
/// Telling the answer, or dropping this, runs the pool's code, which may call the tier again: to take,
/// demote or forget pages. So the tier must hold no lock meanwhile that one of its calls needs.
#[must_use = "dropped, it says that the tier has no such copy"]
pub struct TierDone {
    /// There until the answer.
    question: Option<Arc<Question>>,
}

/// What a tier answered.
pub(super) enum Answer {
    /// The buffer has the bytes.
    Filled(GivenCopy),
    /// It has no such copy.
    Absent,
    /// It took too long.
    TimedOut,
}

/// A copy of a page that a tier gave.
pub(super) struct GivenCopy {
    pub buffer: TierBuffer,
    /// What was kept with the bytes.
    pub envelope: Envelope,
    /// The tier keeps the page, which is therefore to leave the pool's memory first.
    pub stays_below: bool,
}

/// What is done with the answer when it comes, by the thread that brings it.
pub(super) type Then = Box<dyn FnOnce(Answer) + Send>;

/// A question to a tier.
pub(super) struct Question {
    state: Mutex<State>,
    answered: Condvar,
}

enum State {
    /// A thread waits, or will.
    Open,
    /// Somebody is called with the answer.
    Calls(Then),
    Answered(Answer),
    /// Nobody wants the answer any more, or it was taken.
    Over,
}

impl Question {
    /// To be [waited for](Self::wait).
    pub fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::Open), answered: Condvar::new() })
    }

    /// `then` is called with the answer, once, unless the question is [given up](Self::give_up) first.
    pub fn calling(then: Then) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::Calls(then)), answered: Condvar::new() })
    }

    /// The end of the question that the tier is given.
    pub fn done(self: &Arc<Self>) -> TierDone {
        TierDone { question: Some(Arc::clone(self)) }
    }

    /// Waits for the answer until `until` at most. An answer that comes later is dropped by the thread that
    /// brings it.
    pub fn wait(&self, until: Instant) -> Answer {
        let mut state = self.state.lock();
        while matches!(*state, State::Open) {
            if self.answered.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        match std::mem::replace(&mut *state, State::Over) {
            State::Answered(answer) => answer,
            _ => Answer::TimedOut,
        }
    }

    /// Ends the question without an answer, unless there is one.
    pub fn give_up(&self) {
        self.answer(Answer::TimedOut);
    }

    /// Whether the answer was taken or used, or the question was given up.
    pub fn is_over(&self) -> bool {
        matches!(*self.state.lock(), State::Over)
    }

    fn answer(&self, answer: Answer) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Over) {
            State::Open => {
                *state = State::Answered(answer);
                drop(state);
                self.answered.notify_one();
            }
            State::Calls(then) => {
                drop(state);
                // Contained, because the thread may be the tier's, and may be answering while it unwinds.
                contained(|| then(answer));
            }
            // The answer, with its buffer, is dropped after the lock is released.
            State::Answered(_) | State::Over => drop(state),
        }
    }
}

impl TierDone {
    /// The tier has filled the buffer with the page. `envelope` is what the tier has kept with it.
    pub fn filled(mut self, buffer: TierBuffer, envelope: Envelope) {
        self.answer(Answer::Filled(GivenCopy { buffer, envelope, stays_below: false }));
    }

    /// As [`filled`](Self::filled), under [`TierPolicy::Promote`](crate::tier::TierPolicy::Promote): the
    /// tier keeps the page, which is therefore the first to leave memory.
    pub fn filled_and_kept(mut self, buffer: TierBuffer, envelope: Envelope) {
        self.answer(Answer::Filled(GivenCopy { buffer, envelope, stays_below: true }));
    }

    /// Answers with [`filled_and_kept`](Self::filled_and_kept) if `stays_below`, otherwise with
    /// [`filled`](Self::filled).
    pub(super) fn give(self, buffer: TierBuffer, envelope: Envelope, stays_below: bool) {
        if stays_below { self.filled_and_kept(buffer, envelope) } else { self.filled(buffer, envelope) }
    }

    /// The tier has no such copy.
    pub fn absent(mut self, buffer: TierBuffer) {
        drop(buffer);
        self.answer(Answer::Absent);
    }

    /// The question is over without an answer, as if what is done with that had panicked.
    #[cfg(test)]
    pub(crate) fn lose(mut self) {
        let question = self.question.take().expect("there until the answer");
        drop(std::mem::replace(&mut *question.state.lock(), State::Over));
    }

    fn answer(&mut self, answer: Answer) {
        if let Some(question) = self.question.take() {
            question.answer(answer);
        }
    }
}

impl Drop for TierDone {
    fn drop(&mut self) {
        self.answer(Answer::Absent);
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::tier::buffer::Buffers;

    #[test]
    fn an_answer_is_waited_for_and_a_late_one_gives_its_buffer_back() {
        let buffers = Buffers::new(1, 512);
        let question = Question::new();
        let (done, buffer) = (question.done(), buffers.take().unwrap());
        let far = Instant::now() + Duration::from_secs(600);
        std::thread::scope(|scope| {
            scope.spawn(|| done.absent(buffer));
            assert!(matches!(question.wait(far), Answer::Absent));
        });
        let question = Question::new();
        let (done, buffer) = (question.done(), buffers.take().unwrap());
        assert!(matches!(question.wait(Instant::now()), Answer::TimedOut));
        assert_eq!(buffers.lent(), 1);
        let name = crate::engine::PageName { file: bufpool_policies::FileId(0), file_tag: 0, number: 0 };
        let version = crate::tier::Version { epoch: 0, count: 0 };
        let envelope = Envelope::of(name, version, &buffer);
        done.filled(buffer, envelope);
        assert_eq!(buffers.lent(), 0);
    }

    #[test]
    fn a_dropped_answer_is_an_answer() {
        let question = Question::new();
        drop(question.done());
        assert!(matches!(question.wait(Instant::now()), Answer::Absent));
    }

    #[test]
    fn what_is_to_be_called_is_called_once() {
        let (sender, calls) = mpsc::channel();
        let question = |sender: mpsc::Sender<bool>| {
            Question::calling(Box::new(move |answer| {
                sender.send(matches!(answer, Answer::TimedOut)).unwrap();
            }))
        };
        let answered = question(sender.clone());
        drop(answered.done());
        answered.give_up();
        let given_up = question(sender);
        let done = given_up.done();
        given_up.give_up();
        drop((done, answered, given_up));
        assert_eq!(calls.into_iter().collect::<Vec<bool>>(), [false, true]);
    }

    #[test]
    fn a_panic_over_an_answer_stays_away_from_the_tier() {
        let question = Question::calling(Box::new(|_| panic!("over an answer")));
        drop(question.done());
        assert!(question.is_over());
    }
}
