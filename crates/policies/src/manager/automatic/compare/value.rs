//! The cache by value over the sampled pages.

use super::experts::Expert;
use super::shadow::{SampledPages, Shadow, Used};
use crate::list::{NIL, push};
use crate::manager::automatic::learn::intervals::Classes;
use crate::manager::automatic::rank::by_class::PagesByClass;

/// The shadow. Pages that it holds are numbered: 18 bytes each.
#[derive(Default)]
pub(super) struct ByValue {
    /// Their slots, by number; [`NIL`] where a number is free.
    kept: Vec<u32>,
    vacant: Vec<u32>,
    /// The numbers taken.
    by_class: PagesByClass,
}

impl ByValue {
    /// Looks at the page with `number`, or [`NIL`], which is `age` old, in `bucket`.
    #[inline(always)]
    pub fn consider(&mut self, number: u32, age: u32, bucket: usize, classes: &Classes) {
        if number != NIL {
            self.by_class.consider(number, age, bucket, classes);
        }
    }

    /// Makes room among `capacity` pages, and gives `slot`, which is used now, a number.
    fn keep(&mut self, used: &Used<'_>, pages: &mut SampledPages) -> u32 {
        let slot = used.slot;
        while self.kept.len() - self.vacant.len() >= used.capacity as usize {
            let (samples, kept, now) = (&pages.samples, &self.kept, pages.samples[slot].last);
            let age = |number: u32| now.wrapping_sub(samples[kept[number as usize]].last);
            let worst = self.by_class.least(used.classes, age).expect("the shadow holds a page");
            self.give_up(self.kept[worst as usize], pages);
        }
        let number = self.vacant.pop().unwrap_or(self.kept.len() as u32);
        if number as usize == self.kept.len() {
            push(&mut self.kept, NIL);
        }
        self.kept[number as usize] = slot;
        pages.samples[slot].shadowed.kept_at = number;
        pages.set_held(slot, Expert::Value, true);
        number
    }

    fn give_up(&mut self, slot: u32, pages: &mut SampledPages) {
        let number = std::mem::replace(&mut pages.samples[slot].shadowed.kept_at, NIL);
        pages.set_held(slot, Expert::Value, false);
        self.kept[number as usize] = NIL;
        push(&mut self.vacant, number);
        self.by_class.remove(number);
    }
}

impl Shadow for ByValue {
    #[inline]
    fn has_room(&self, _slot: u32, _capacity: u32) -> bool {
        true
    }

    #[inline]
    fn hit(&mut self, used: &Used<'_>, pages: &mut SampledPages) {
        self.by_class.use_again(pages.samples[used.slot].shadowed.kept_at, used.valued, used.classes);
    }

    fn access(&mut self, used: &Used<'_>, pages: &mut SampledPages) {
        if pages.samples[used.slot].shadowed.kept_at != NIL {
            self.hit(used, pages);
            return;
        }
        let number = self.keep(used, pages);
        self.by_class.push(number, used.valued, used.classes);
    }

    fn forget(&mut self, slot: u32, pages: &mut SampledPages) {
        if pages.samples[slot].shadowed.kept_at != NIL {
            self.give_up(slot, pages);
        }
    }

    fn metadata_bytes(&self) -> usize {
        (self.kept.capacity() + self.vacant.capacity()) * size_of::<u32>() + self.by_class.metadata_bytes()
    }

    fn check_invariants(&self, pages: &SampledPages) {
        let held = pages.samples.iter().filter(|sample| sample.shadowed.held.has(Expert::Value)).count();
        assert_eq!(held, self.kept.len() - self.vacant.len(), "pages kept by value");
        for (number, slot) in self.kept.iter().enumerate().filter(|(_, slot)| **slot != NIL) {
            assert_eq!(pages.samples[*slot].shadowed.kept_at, number as u32, "number of a kept page");
        }
        for sample in pages.samples.iter() {
            let is_kept = sample.shadowed.kept_at != NIL;
            assert_eq!(sample.shadowed.held.has(Expert::Value), is_kept, "place of a page kept by value");
        }
        let last = |slot: u32| (slot != NIL).then(|| pages.samples[slot].last);
        self.by_class.check_invariants(self.kept.len() as u32, |number| last(self.kept[number as usize]));
    }
}
