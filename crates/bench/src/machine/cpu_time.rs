//! Processor time of this process and its threads, and what they had to wait for it.

use std::time::Duration;

/// Processor time that all threads of this process have used so far, those that have ended included.
pub fn cpu_time() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Processor time that the calling thread has used so far.
pub fn thread_cpu_time() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// How the calling thread was kept from running so far: what tells a latency of the machine from one of the
/// program.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Displaced {
    /// How often it had to give way to another thread (involuntary context switches).
    pub times: u64,
    /// How often it went to sleep (voluntary context switches).
    pub parks: u64,
    /// How long it was ready and did not run; 0 where the kernel does not say.
    pub waited: Duration,
}

impl Displaced {
    /// Of the calling thread, since it began.
    pub fn now() -> Self {
        // SAFETY: all zeros are a value of this struct of integers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is valid to write to, and the call keeps no pointer to it.
        let status = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        assert_eq!(status, 0, "Linux knows this of each thread");
        // Time on a processor, time waiting for one, and how often it got one; in nanoseconds.
        let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let waited = schedstat.split_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0);
        let (times, parks) = (usage.ru_nivcsw as u64, usage.ru_nvcsw as u64);
        Self { times, parks, waited: Duration::from_nanos(waited) }
    }

    /// Since `before`, of the same thread.
    pub fn since(self, before: Self) -> Self {
        Self {
            times: self.times - before.times,
            parks: self.parks - before.parks,
            waited: self.waited.saturating_sub(before.waited),
        }
    }
}

fn clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to, and the call keeps no pointer to it.
    let status = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(status, 0, "Linux always has these clocks");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let before = cpu_time();
        let mut number = 1_u64;
        while cpu_time() == before {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        assert!(cpu_time() > before);
    }

    #[test]
    fn what_a_thread_waited_does_not_fall() {
        let before = Displaced::now();
        std::thread::yield_now();
        let since = Displaced::now().since(before);
        assert!(since.waited < Duration::from_secs(3600) && since.times < 1 << 32, "{since:?}");
    }
}
