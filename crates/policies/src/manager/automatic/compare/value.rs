//! The cache by value over the sampled pages.

use super::experts::Expert;
use super::shadow::{SampledPages, Shadow, Used};
use crate::manager::automatic::learn::intervals::Classes;
use crate::manager::automatic::rank::by_class::PagesByClass;

/// The shadow. 10 bytes a sample.
#[derive(Default)]
pub(super) struct ByValue {
    /// The slots held, and how many there are.
    by_class: PagesByClass,
    len: u32,
}

impl ByValue {
    /// Looks at `slot`, which is held, `age` old, and that is in `bucket`.
    #[inline(always)]
    pub fn consider(&mut self, slot: u32, age: u32, bucket: usize, classes: &Classes) {
        self.by_class.consider(slot, age, bucket, classes);
    }

    fn give_up(&mut self, slot: u32, pages: &mut SampledPages) {
        pages.set_held(slot, Expert::Value, false);
        self.by_class.remove(slot);
        self.len -= 1;
    }
}

impl Shadow for ByValue {
    #[inline]
    fn has_room(&self, _slot: u32, _capacity: u32) -> bool {
        true
    }

    #[inline]
    fn hit(&mut self, used: &Used<'_>, _pages: &mut SampledPages) {
        self.by_class.use_again(used.slot, used.valued, used.classes);
    }

    fn access(&mut self, used: &Used<'_>, pages: &mut SampledPages) {
        if pages.is_held(used.slot, Expert::Value) {
            self.hit(used, pages);
            return;
        }
        let now = pages.samples[used.slot].last;
        while self.len >= used.capacity {
            let age = |slot: u32| now.wrapping_sub(pages.samples[slot].last);
            let least = self.by_class.least(used.classes, age).expect("the shadow holds a page");
            self.give_up(least, pages);
        }
        self.by_class.push(used.slot, used.valued, used.classes);
        self.len += 1;
        pages.set_held(used.slot, Expert::Value, true);
    }

    fn forget(&mut self, slot: u32, pages: &mut SampledPages) {
        if pages.is_held(slot, Expert::Value) {
            self.give_up(slot, pages);
        }
    }

    fn metadata_bytes(&self) -> usize {
        self.by_class.metadata_bytes()
    }

    fn check_invariants(&self, pages: &SampledPages) {
        let held = pages.samples.iter().filter(|sample| sample.shadowed.held.has(Expert::Value)).count();
        assert_eq!(held, self.len as usize, "pages kept by value");
        let last = |slot: u32| pages.is_held(slot, Expert::Value).then(|| pages.samples[slot].last);
        self.by_class.check_invariants(pages.samples.len() as u32, last);
    }
}
