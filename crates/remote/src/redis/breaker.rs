//! Whether a server is to be tried at all. Pure; the caller brings the time.

use std::time::{Duration, Instant};

/// Errors in a row after which the server is left alone.
const ERRORS_MAX: u32 = 3;
/// How long the server is left alone the first time. Doubled each time that the probe fails.
const REST: Duration = Duration::from_secs(1);
/// How often that time is doubled, at most.
const DOUBLINGS_MAX: u32 = 3;

/// Counts errors in a row. After [`ERRORS_MAX`] nothing passes for a while; then one request, the *probe*,
/// whose success lets all pass again.
#[derive(Default, Debug)]
pub(super) struct Breaker {
    errors: u32,
    /// How often the probe has failed since all passed.
    rests: u32,
    /// Nothing passes before this time; None if all pass.
    closed_until: Option<Instant>,
    has_probe: bool,
}

impl Breaker {
    /// Whether a request may be sent. `patience` is how long a probe may take; another is let through then.
    pub fn lets_pass(&mut self, now: Instant, patience: Duration) -> bool {
        let Some(until) = self.closed_until else { return true };
        let passes = now >= until;
        if passes {
            self.has_probe = true;
            self.closed_until = Some(now + patience);
        }
        passes
    }

    pub fn is_closed(&self) -> bool {
        self.closed_until.is_some()
    }

    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// A request has failed. Those that fail while nothing passes were sent before, and change nothing.
    pub fn failed(&mut self, now: Instant) {
        if self.closed_until.is_some() && !self.has_probe {
            return;
        }
        self.errors += 1;
        if self.errors >= ERRORS_MAX || self.has_probe {
            self.closed_until = Some(now + REST * (1 << self.rests.min(DOUBLINGS_MAX)));
            self.rests += 1;
            self.has_probe = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(500);

    #[test]
    fn three_errors_in_a_row_close_it_and_a_probe_opens_it() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..2 {
            breaker.failed(now);
            breaker.failed(now);
            assert!(breaker.lets_pass(now, PATIENCE));
            breaker.succeeded();
        }
        (0..3).for_each(|_| breaker.failed(now));
        assert!(breaker.is_closed());
        assert!(!breaker.lets_pass(now + REST / 2, PATIENCE));
        assert!(breaker.lets_pass(now + REST, PATIENCE), "the probe");
        assert!(!breaker.lets_pass(now + REST, PATIENCE), "one");
        breaker.succeeded();
        assert!(breaker.lets_pass(now, PATIENCE) && !breaker.is_closed());
    }

    #[test]
    fn rests_grow_to_a_limit_and_late_errors_do_not_lengthen_them() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        (0..100).for_each(|_| breaker.failed(now));
        for rest in [1, 2, 4, 8, 8] {
            let rest = REST * rest;
            assert!(!breaker.lets_pass(now + rest - REST / 2, PATIENCE), "{rest:?}");
            now += rest;
            assert!(breaker.lets_pass(now, PATIENCE), "{rest:?}");
            (0..100).for_each(|_| breaker.failed(now));
        }
    }

    #[test]
    fn a_probe_that_is_lost_is_followed_by_another() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        (0..3).for_each(|_| breaker.failed(now));
        assert!(breaker.lets_pass(now + REST, PATIENCE));
        assert!(!breaker.lets_pass(now + REST + PATIENCE / 2, PATIENCE));
        assert!(breaker.lets_pass(now + REST + PATIENCE, PATIENCE));
    }
}
