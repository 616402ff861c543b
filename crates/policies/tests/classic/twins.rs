//! Each policy in step with its naive twin.

use bufpool_policies::classic::{
    Arc, Clock, ClockPro, Fifo, Fifo2, Lfu, LibCacheSimWTinyLfu, Lirs, LirsParameters, Lru, Mru, OneLevel,
    Opt, S3Fifo, S3FifoParameters, Sieve, TwoQueue, TwoQueueParameters, WTinyLfu, WTinyLfuParameters,
};
use proptest::prelude::*;

use crate::driver::{Driver, Step, cases};
use crate::naive;

fn in_step(frames: u32, steps: &[Step], policy: impl OneLevel + 'static, twin: impl OneLevel + 'static) {
    let mut driver = Driver::new(frames, vec![Box::new(policy), Box::new(twin)]);
    steps.iter().for_each(|step| driver.step(step));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn lru((frames, steps) in cases()) {
        in_step(frames, &steps, Lru::new(frames), naive::Ordered::lru());
    }

    #[test]
    fn mru((frames, steps) in cases()) {
        in_step(frames, &steps, Mru::new(frames), naive::Ordered::mru());
    }

    #[test]
    fn fifo((frames, steps) in cases()) {
        in_step(frames, &steps, Fifo::new(frames), naive::Ordered::fifo());
    }

    #[test]
    fn clock((frames, steps) in cases()) {
        in_step(frames, &steps, Clock::new(frames), naive::Clock::default());
    }

    #[test]
    fn fifo2((frames, steps) in cases()) {
        in_step(frames, &steps, Fifo2::new(frames), naive::Fifo2::default());
    }

    #[test]
    fn sieve((frames, steps) in cases()) {
        in_step(frames, &steps, Sieve::new(frames), naive::Sieve::default());
    }

    #[test]
    fn lfu((frames, steps) in cases()) {
        in_step(frames, &steps, Lfu::new(frames), naive::Lfu::default());
    }

    /// Next uses are pairwise different, so that there are no ties; their order is random.
    #[test]
    fn opt((frames, steps) in cases(), factor in 1..1_000_000u64) {
        let next_uses = || (1..).map(move |access: u64| access.wrapping_mul(2 * factor + 1) % (1 << 40));
        let twin = naive::Opt::new(Box::new(next_uses()));
        in_step(frames, &steps, Opt::new(Box::new(next_uses())), twin);
    }

    #[test]
    fn two_queue((frames, steps) in cases(), kin_percent in 0..=100u32, kout_percent in 0..200u32) {
        let parameters = TwoQueueParameters { kin_percent, kout_percent };
        let twin = naive::TwoQueue::new(frames, kin_percent, kout_percent);
        in_step(frames, &steps, TwoQueue::with_parameters(frames, parameters), twin);
    }

    #[test]
    fn arc((frames, steps) in cases()) {
        in_step(frames, &steps, Arc::new(frames), naive::Arc::new(frames));
    }

    #[test]
    fn s3_fifo(
        (frames, steps) in cases(),
        (small_percent, ghost_percent) in (0..=100u32, 0..200u32),
        (move_references, fill_main_first) in (0..=3u8, any::<bool>()),
    ) {
        let parameters = S3FifoParameters { small_percent, ghost_percent, move_references, fill_main_first };
        let twin = naive::S3Fifo::new(frames, parameters);
        in_step(frames, &steps, S3Fifo::with_parameters(frames, parameters), twin);
    }

    #[test]
    fn lirs(
        (frames, steps) in cases(),
        (hir_percent, hir_frames_min) in (0..=100u32, 0..4u32),
        (history_percent, skip_repeats) in (0..400u32, any::<bool>()),
    ) {
        let parameters = LirsParameters { hir_percent, hir_frames_min, history_percent, skip_repeats };
        let twin = naive::Lirs::new(frames, parameters);
        in_step(frames, &steps, Lirs::with_parameters(frames, parameters), twin);
    }

    #[test]
    fn clock_pro((frames, steps) in cases()) {
        in_step(frames, &steps, ClockPro::new(frames), naive::ClockPro::new(frames));
    }

    /// The policy begins with a sketch so large that no two pages share a counter, and keeps it, so that
    /// counts are exact.
    #[test]
    fn w_tinylfu(
        (frames, steps) in cases(),
        (window_percent, protected_percent) in (0..=100u32, 0..=100u32),
        sample_factor in 1..20u32,
    ) {
        let parameters = WTinyLfuParameters { window_percent, protected_percent, sample_factor };
        let mut policy = WTinyLfu::with_parameters(1 << 16, parameters);
        policy.resize(frames);
        in_step(frames, &steps, policy, naive::WTinyLfu::new(frames, parameters));
    }

    /// With counters for this many frames no two pages of the case share counters.
    #[test]
    fn w_tinylfu_of_libcachesim((frames, steps) in cases()) {
        let mut policy = LibCacheSimWTinyLfu::new(1 << 16);
        policy.resize(frames);
        in_step(frames, &steps, policy, naive::LibCacheSimWTinyLfu::new(frames));
    }
}
