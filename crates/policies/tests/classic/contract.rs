//! The contract that every policy keeps with its driver.

use std::collections::BTreeSet;

use bufpool_policies::classic::{LibCacheSimWTinyLfu, Opt, PolicyKind, build, build_for_level};
use proptest::prelude::*;

use crate::driver::{Driver, Step, cases};

proptest! {
    /// Victims are resident and not busy. There is no victim only if all frames are busy. No page is lost: at
    /// the end as many evictions as resident pages empty the cache.
    #[test]
    fn every_policy_keeps_the_contract((frames, steps) in cases()) {
        for kind in PolicyKind::ALL {
            keeps_the_contract(Driver::new(frames, vec![build(kind, frames)]), &steps);
        }
        keeps_the_contract(Driver::new(frames, vec![Box::new(LibCacheSimWTinyLfu::new(frames))]), &steps);
        let next_uses = (0..u64::MAX).map(|access| access * 7919 % 101);
        keeps_the_contract(Driver::new(frames, vec![Box::new(Opt::new(Box::new(next_uses)))]), &steps);
    }

    /// The policy of a level, whose frames are renumbered, decides as the same policy without renumbering.
    #[test]
    fn renumbered_frames_change_nothing((frames, steps) in cases()) {
        for kind in PolicyKind::ALL {
            let policies = vec![build(kind, frames), build_for_level(kind, frames)];
            keeps_the_contract(Driver::new(frames, policies), &steps);
        }
    }
}

fn keeps_the_contract(mut driver: Driver, steps: &[Step]) {
    steps.iter().for_each(|step| driver.step(step));
    while !driver.resident.is_empty() {
        let victim = driver.victim(u64::MAX, &BTreeSet::new()).expect("nothing is busy");
        driver.evict(victim);
    }
    assert_eq!(driver.victim(u64::MAX, &BTreeSet::new()), None, "an empty cache has no victim");
}

#[test]
fn names_are_read_as_they_are_written() {
    for kind in PolicyKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
        assert_eq!(build(kind, 1).name(), kind.name());
        assert_eq!(build_for_level(kind, 1).name(), kind.name());
    }
    for name in ["", "LRU", "lru ", "opt"] {
        assert_eq!(name.parse::<PolicyKind>().unwrap_err().name, name);
    }
}
