//! Memory of a simulation, counted by the allocator: bytes for each frame, without the page index, which has
//! 4 bytes for each distinct block of the trace; and no bytes for accesses beyond the trace's budget.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bufpool_bench::simulate::{NextUses, Policy, Setup, simulate};
use bufpool_bench::streams::{self, Advice};
use bufpool_bench::trace::{LoadOptions, Trace};
use indicatif::ProgressBar;

thread_local! {
    /// Bytes that this thread holds, and the most it held.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn book(bytes: isize) {
    HELD.with(|held| {
        let (now, most) = held.get();
        held.set((now + bytes, most.max(now + bytes)));
    });
}

struct Counting;

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        book(layout.size() as isize);
        // SAFETY: the caller's duties are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        book(-(layout.size() as isize));
        // SAFETY: the caller's duties are the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most bytes that `work` held at a time.
fn peak_bytes(work: impl FnOnce()) -> usize {
    let before = HELD.with(|held| {
        let (now, _) = held.get();
        held.set((now, now));
        now
    });
    work();
    HELD.with(|held| (held.get().1 - before) as usize)
}

const FRAMES: usize = 20_000;
/// Bytes that do not grow with frames: for tenants, levels, results.
const FIXED_BYTES: usize = 16 << 10;

fn trace(name: &str, settings: &[&str], advice: Advice) -> Trace {
    Trace::of(name, streams::items(name, settings, advice, 1))
}

/// Bytes for each frame of `FRAMES`, rounded up.
fn frame_bytes(trace: &Trace, name: &str) -> usize {
    let policy: Policy = name.parse().expect("a known policy");
    let next_uses = NextUses::in_memory(trace).expect("a trace in memory");
    let setup = Setup::frames(FRAMES as u32);
    let mut evictions = 0;
    let bytes = peak_bytes(|| {
        evictions =
            simulate(trace, policy, &setup, Some(&next_uses)).expect("a simulation").total().evictions;
    });
    assert!(evictions > 2 * FRAMES as u64, "{name}: ghosts and frames must all be in use");
    bytes.saturating_sub(4 * trace.blocks().len() + FIXED_BYTES).div_ceil(FRAMES)
}

/// The bytes that the comment of each policy states, and 4 bytes for the block in a frame. While an index of
/// ghosts doubles, both copies are in memory.
#[test]
fn a_frame_costs_what_the_policies_say() {
    let zipf = trace("zipf", &["blocks=100000", "accesses=600000", "alpha=0.7"], Advice::None);
    for (name, policy_bytes, doubling_bytes) in [
        ("lru", 8, 0),
        ("mru", 8, 0),
        ("fifo", 8, 0),
        ("clock", 9, 0),
        ("fifo2", 10, 0),
        ("sieve", 9, 0),
        ("lfu", 44, 0),
        ("2q", 22, 4),
        ("arc", 35, 4),
        ("s3-fifo", 33, 4),
        ("lirs", 61, 4),
        ("clock-pro", 63, 4),
        ("w-tinylfu", 33, 0),
        ("w-tinylfu:libcachesim", 75, 0),
        ("lru-sp", 56, 0),
        ("fifo2-sp", 66, 0),
    ] {
        let bytes = frame_bytes(&zipf, name);
        println!("{name}: {bytes} bytes a frame, of which the policy may have {policy_bytes}");
        assert!(bytes <= policy_bytes + doubling_bytes + 4, "{name}: {bytes} bytes a frame");
    }
}

/// With directives a frame also has 8 bytes in a level and, if a placeholder points to it, at most 10 bytes
/// in the index of placeholders, 14 while that doubles.
#[test]
fn directives_cost_their_levels_and_placeholders() {
    let smart = trace("cs1", &["blocks=30000"], Advice::Smart);
    let bytes = frame_bytes(&smart, "lru-sp");
    println!("lru-sp with directives: {bytes} bytes a frame");
    assert!(bytes <= 56 + 8 + 14 + 4, "{bytes} bytes a frame");
}

/// A trace four times as long over the same blocks needs no more memory once it is above its budget.
#[test]
fn memory_does_not_grow_with_the_length_of_a_trace() {
    let dir = tempfile::tempdir().expect("a folder");
    let peak = |passes: u64| {
        let path = dir.path().join(format!("{passes}.txt"));
        let lines: String = (0..passes).flat_map(|_| (0..1000).map(|block| format!("{block}\n"))).collect();
        std::fs::write(&path, lines).expect("a trace written");
        let options = LoadOptions { budget_bytes: 200_000, ..LoadOptions::default() };
        peak_bytes(|| {
            let trace = Trace::load(&path, &options, &ProgressBar::hidden()).expect("a trace");
            assert!(!trace.is_in_memory() && trace.accesses() == 1000 * passes);
            let policy: Policy = "lru".parse().expect("a known policy");
            let outcome = simulate(&trace, policy, &Setup::frames(100), None).expect("a simulation");
            assert_eq!(outcome.total().misses(), 1000 * passes);
        })
    };
    let (short, long) = (peak(100), peak(400));
    println!("{short} bytes for 100,000 accesses, {long} for 400,000");
    assert!(long <= short + 4096, "{short} bytes for 100,000 accesses, {long} for 400,000");
}
