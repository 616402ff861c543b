//! Memory that a piece of work takes from the system.

use std::fs;

/// Does `work`. Returns its result, and by how many bytes the resident memory of the process, that of all
/// threads, exceeded at its peak what it was before; `None` where the system does not tell.
pub fn with_peak_bytes<T>(work: impl FnOnce() -> T) -> (T, Option<u64>) {
    // Memory that was freed before goes back to the system. Otherwise `work` could use it unseen.
    // SAFETY: it has no preconditions.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
    let before = fs::write("/proc/self/clear_refs", "5").ok().and_then(|()| status_bytes("VmRSS"));
    let done = work();
    let most = status_bytes("VmHWM");
    (done, before.zip(most).and_then(|(before, most)| most.checked_sub(before)))
}

fn status_bytes(name: &str) -> Option<u64> {
    status_word(name)?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// The first word of the value of `name` in `/proc/self/status`.
pub(super) fn status_word(name: &str) -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_freed_again_counts() {
        const BYTES: usize = 256 << 20;
        let (length, peak) = with_peak_bytes(|| std::hint::black_box(vec![1_u8; BYTES]).len());
        assert_eq!(length, BYTES);
        // Other tests run at the same time, so the figure is approximate.
        if let Some(peak) = peak {
            assert!(peak >= BYTES as u64 / 2, "{peak}");
        }
    }
}
