//! Processor time of this process and its threads, and how long a thread waited for a processor.

use std::time::Duration;

/// Processor time that all threads of this process have used so far, including threads that have ended.
pub fn cpu_time() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Processor time that the calling thread has used so far.
pub fn thread_cpu_time() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// How often, and for how long, the calling thread did not run so far. It tells a latency that the machine
/// causes from one that the program causes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Displaced {
    /// How often the thread was preempted (involuntary context switches).
    pub times: u64,
    /// How often the thread blocked (voluntary context switches).
    pub parks: u64,
    /// How long the thread was ready to run and did not; 0 where the kernel does not count it.
    pub waited: Duration,
}

impl Displaced {
    /// The counts of the calling thread since it began.
    pub fn now() -> Self {
        // SAFETY: all zeros are a value of this struct of integers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is valid to write to, and the call keeps no pointer to it.
        let status = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        assert_eq!(status, 0, "Linux knows this of each thread");
        // Three numbers: time on a processor and time waiting for one, in nanoseconds, and how often it got
        // one.
        let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let waited = schedstat.split_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0);
        let (times, parks) = (usage.ru_nivcsw as u64, usage.ru_nvcsw as u64);
        Self { times, parks, waited: Duration::from_nanos(waited) }
    }

    /// The counts since `before`, which is of the same thread.
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
