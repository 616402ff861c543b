//! The cache by value over the sampled pages.

use super::experts::Expert;
use super::shadow::SampledPages;
use crate::manager::automatic::learn::intervals::{ClassId, Classes};
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

    /// A page that it holds is used, and is of `class` from now on.
    #[inline]
    pub fn hit(&mut self, slot: u32, class: ClassId, classes: &Classes) {
        self.by_class.use_again(slot, class, classes);
    }

    pub fn access(
        &mut self,
        slot: u32,
        class: ClassId,
        capacity: u32,
        classes: &Classes,
        pages: &mut SampledPages,
    ) {
        if pages.is_held(slot, Expert::Value) {
            return self.hit(slot, class, classes);
        }
        let now = pages.samples[slot].last;
        while self.len >= capacity {
            let age = |slot: u32| now.wrapping_sub(pages.samples[slot].last);
            let least = self.by_class.least(classes, age).expect("the shadow holds a page");
            self.give_up(least, pages);
        }
        self.by_class.push(slot, class, classes);
        self.len += 1;
        pages.set_held(slot, Expert::Value, true);
    }

    pub fn forget(&mut self, slot: u32, pages: &mut SampledPages) {
        if pages.is_held(slot, Expert::Value) {
            self.give_up(slot, pages);
        }
    }

    pub fn metadata_bytes(&self) -> usize {
        self.by_class.metadata_bytes()
    }

    pub fn check_invariants(&self, pages: &SampledPages) {
        let held = pages.samples.iter().filter(|sample| sample.shadowed.held.has(Expert::Value)).count();
        assert_eq!(held, self.len as usize, "pages kept by value");
        let last = |slot: u32| pages.is_held(slot, Expert::Value).then(|| pages.samples[slot].last);
        self.by_class.check_invariants(pages.samples.len() as u32, last);
    }
}
