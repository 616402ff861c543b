//! Pages by class, each class in the order of last use, and the least valuable page of all.
//!
//! Pages of one class differ in age only. So the least valuable page of a class is the oldest where values
//! fall with age, the newest in a loop, and otherwise lies in a valley of the values. Each class has a *hand*
//! in that valley: it moves to a neighbour that is worth less, and to any page looked at that is.
//!
//! Values change slowly with age. So the least value of each class is remembered from when its pages were
//! looked at last; a question looks at the class that seems to have the least page, and at a few others in
//! turn. It takes constant time but for finding the least number of an array.

use crate::list::{Links, List, NIL, lengthen};
use crate::manager::automatic::learn::intervals::{ClassId, Classes};
use crate::manager::automatic::learn::kind::Kind;

/// Classes looked at, at most, until one is still the least.
const TRIES: u32 = 4;
/// Classes whose least values are summed up in one place.
const BLOCK: usize = 64;

/// The pages of one class.
struct Pages {
    /// The oldest at the head.
    list: List,
    /// A page worth less than its neighbours, or [`NIL`] in an empty list.
    hand: u32,
}

/// A page, or a class by its least page, and what that is worth.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Least {
    value: f32,
    of: u32,
}

impl Least {
    /// The lesser of both; of equals the first one.
    #[inline]
    fn or(self, other: Self) -> Self {
        if other.value < self.value { other } else { self }
    }

    /// The class of a block that seems to have the least page, of classes from number `first` on whose least
    /// pages are worth these `values`.
    fn of_block(first: usize, values: &[f32]) -> Self {
        let classes = (first as u32..).zip(values).map(|(of, &value)| Self { value, of });
        classes.fold(Self { value: f32::INFINITY, of: first as u32 }, Self::or)
    }
}

/// A class that is passed over, and what its least page is worth.
#[derive(Clone, Copy)]
pub(crate) struct PassedOver {
    class: ClassId,
    least: f32,
}

/// Classes without pages that are passed over, one after the other, for one to review.
const EMPTY_PASSED_MAX: usize = 8;

/// Pages, numbered by frame or otherwise. 10 bytes each, and 20 a class.
#[derive(Default)]
pub(crate) struct PagesByClass {
    links: Links,
    /// By page: the class that lists it.
    class_of: Vec<ClassId>,
    by_class: Vec<Pages>,
    /// By class: the value of the least page found when the class was looked at last, or of a lesser one
    /// found since; infinite if the class has no page.
    least: Vec<f32>,
    /// The least of each [`BLOCK`] of these, with its class.
    least_of_block: Vec<Least>,
    /// The class reviewed last.
    reviewed: usize,
}

impl PagesByClass {
    /// Lists `page`, which is not listed and is used now, as the newest of `class`.
    #[inline]
    pub fn push(&mut self, page: u32, class: ClassId, classes: &Classes) {
        if page as usize >= self.class_of.len() {
            lengthen(&mut self.class_of, page as usize + 1, 0);
            self.links.lengthen_to(self.class_of.len());
        }
        self.class_of[page as usize] = class;
        self.append(page, class, classes);
    }

    /// `page`, which is in no list, is used now, and is the newest of `class`.
    #[inline(always)]
    fn append(&mut self, page: u32, class: ClassId, classes: &Classes) {
        let at = usize::from(class);
        if at >= self.by_class.len() {
            self.grow(class);
        }
        let Pages { list, hand } = &mut self.by_class[at];
        list.push_tail(&mut self.links, page);
        if *hand == NIL {
            *hand = page;
        }
        let value = classes.values(class)[0];
        if value < self.least[at] {
            self.set_least(at, value);
        }
    }

    /// Reads what [`use_again`](Self::use_again) will of `page`, so that it is in the processor's cache by
    /// then.
    #[inline]
    pub fn touch(&self, page: u32) -> u32 {
        self.links.touch(page) ^ self.touch_class(page)
    }

    /// Reads which class lists `page`.
    #[inline]
    pub fn touch_class(&self, page: u32) -> u32 {
        self.class_of.get(page as usize).copied().map_or(0, u32::from)
    }

    /// The addresses of the class and of the neighbours of `page`, to be fetched; any if it is not listed.
    #[inline]
    pub fn places_of(&self, page: u32) -> [*const u8; 2] {
        [self.class_of.as_ptr().wrapping_add(page as usize).cast(), self.links.place_of(page)]
    }

    /// Takes out `page`, which is listed.
    #[inline]
    pub fn remove(&mut self, page: u32) {
        let class = usize::from(self.class_of[page as usize]);
        self.take_out(page, class);
    }

    /// Takes `page` out of the list of `class`.
    #[inline(always)]
    fn take_out(&mut self, page: u32, class: usize) {
        let Pages { list, hand } = &mut self.by_class[class];
        if *hand == page {
            *hand = match self.links.next(page) {
                NIL => self.links.prev(page),
                next => next,
            };
        }
        list.remove(&mut self.links, page);
        if list.is_empty() {
            self.set_least(class, f32::INFINITY);
        }
    }

    /// `page`, which is listed, is used now, and of `class` from now on.
    // Inlined, since a small caller runs it with every hit.
    #[inline(always)]
    pub fn use_again(&mut self, page: u32, class: ClassId, classes: &Classes) {
        // Whether it was of that class before follows no pattern: one way for both.
        let before = std::mem::replace(&mut self.class_of[page as usize], class);
        self.take_out(page, usize::from(before));
        self.append(page, class, classes);
    }

    #[cold]
    fn grow(&mut self, class: ClassId) {
        let classes = usize::from(class) + 1;
        self.by_class.resize_with(classes, || Pages { list: List::new(), hand: NIL });
        self.least.resize(classes, f32::INFINITY);
        for block in self.least_of_block.len()..classes.div_ceil(BLOCK) {
            self.least_of_block.push(Least::of_block(block * BLOCK, &[]));
        }
    }

    fn set_least(&mut self, class: usize, value: f32) {
        if self.least[class] == value {
            return;
        }
        self.least[class] = value;
        let block = class / BLOCK;
        let of_block = &mut self.least_of_block[block];
        let of = class as u32;
        if value < of_block.value || value == of_block.value && of < of_block.of {
            *of_block = Least { value, of };
        } else if of == of_block.of {
            let end = self.least.len().min((block + 1) * BLOCK);
            *of_block = Least::of_block(block * BLOCK, &self.least[block * BLOCK..end]);
        }
    }

    /// The class whose least page seems to be the least.
    #[inline]
    fn least_class(&self) -> Option<usize> {
        let least = self.least_of_block.iter().copied().reduce(Least::or)?;
        (least.value != f32::INFINITY).then_some(least.of as usize)
    }

    /// The page that [`least`](Self::least) probably finds.
    #[inline]
    pub fn likely_least(&self) -> Option<u32> {
        Some(self.by_class[self.least_class()?].hand)
    }

    /// Shows pages that [`least`](Self::least) is about to look at first.
    #[inline]
    pub fn looked_at_next(&self, mut show: impl FnMut(u32)) {
        for class in [Some(Kind::STRAY.index()), Some(self.reviewed + 1), self.least_class()] {
            if let Some(Pages { list, hand }) = class.and_then(|class| self.by_class.get(class)) {
                [list.head(), *hand, list.tail()].into_iter().for_each(&mut show);
            }
        }
    }

    /// The least valuable page, about; none if no page is listed. `age` tells how long ago a page was used.
    pub fn least(&mut self, classes: &Classes, age: impl Fn(u32) -> u32) -> Option<u32> {
        // Looked at every time, since strays lose their value sooner than other pages.
        self.look(Kind::STRAY.index(), classes, &age);
        for _ in 0..EMPTY_PASSED_MAX {
            self.reviewed = if self.reviewed + 1 < self.by_class.len() { self.reviewed + 1 } else { 0 };
            if self.look(self.reviewed, classes, &age).is_some() {
                break;
            }
        }
        let mut best = Least { value: f32::INFINITY, of: NIL };
        for _ in 0..TRIES {
            let class = self.least_class()?;
            if best.value <= self.least[class] {
                break;
            }
            best = best.or(self.look(class, classes, &age)?);
        }
        Some(best.of)
    }

    /// Looks at the ends of a class and around its hand, which moves to what is worth less. Of equals the
    /// oldest is least.
    #[inline]
    fn look(&mut self, class: usize, classes: &Classes, age: impl Fn(u32) -> u32) -> Option<Least> {
        let is_empty = self.by_class.get(class)?.list.is_empty();
        (!is_empty).then(|| self.look_at_some(class, classes, age))
    }

    /// The same for a class that has pages. No page is looked at twice.
    #[inline(never)]
    fn look_at_some(&mut self, class: usize, classes: &Classes, age: impl Fn(u32) -> u32) -> Least {
        let Pages { list, hand } = &self.by_class[class];
        let values = classes.values(class as ClassId);
        let look = |of: u32| Least { value: classes.ages.value(values, age(of)), of };
        let (before, after) = (self.links.prev(*hand), self.links.next(*hand));
        let mut valley = look(*hand);
        let mut oldest = valley;
        if before != NIL {
            oldest = look(before);
            valley = valley.or(oldest);
        }
        if after != NIL {
            valley = valley.or(look(after));
        }
        if oldest.of != list.head() {
            oldest = look(list.head());
        }
        let mut least = oldest.or(valley);
        if after != NIL && after != list.tail() {
            least = least.or(look(list.tail()));
        }
        self.by_class[class].hand = valley.of;
        self.set_least(class, least.value);
        least
    }

    /// Looks at `page`, which is listed and was used `age` ago, that is in `bucket`: it may be the least of
    /// its class.
    #[inline(always)]
    pub fn consider(&mut self, page: u32, age: u32, bucket: usize, classes: &Classes) {
        let class = usize::from(self.class_of[page as usize]);
        let values = classes.values(class as ClassId);
        // Values within a bucket are interpolated, so none is lower than both at its bounds.
        let least = self.least[class];
        if values[bucket] >= least && values[bucket + 1] >= least {
            return;
        }
        let value = classes.ages.value(values, age);
        if value < least {
            self.by_class[class].hand = page;
            self.set_least(class, value);
        }
    }

    /// `page`, or the nearest page of its class in order of use that `may_go`, at most `steps` away.
    pub fn nearest(&self, page: u32, steps: u32, may_go: &mut impl FnMut(u32) -> bool) -> Option<u32> {
        if may_go(page) {
            return Some(page);
        }
        let mut ends = [page; 2];
        for _ in 0..steps {
            for (end, step) in ends.iter_mut().zip([Links::prev, Links::next]) {
                *end = if *end == NIL { NIL } else { step(&self.links, *end) };
                if *end != NIL && may_go(*end) {
                    return Some(*end);
                }
            }
        }
        None
    }

    /// What `page`, which is listed and was used `age` ago, is worth.
    pub fn value(&self, page: u32, age: u32, classes: &Classes) -> f32 {
        classes.ages.value(classes.values(self.class_of[page as usize]), age)
    }

    /// [`least`](Self::least) passes over the class of `page` from now on.
    pub fn pass_over(&mut self, page: u32) -> PassedOver {
        let class = self.class_of[page as usize];
        let least = self.least[usize::from(class)];
        self.set_least(usize::from(class), f32::INFINITY);
        PassedOver { class, least }
    }

    /// A class is no longer passed over. Those passed over last come first.
    pub fn restore(&mut self, PassedOver { class, least }: PassedOver) {
        self.set_least(usize::from(class), least);
    }

    pub fn metadata_bytes(&self) -> usize {
        self.links.memory_bytes()
            + self.class_of.capacity() * size_of::<ClassId>()
            + self.by_class.capacity() * size_of::<Pages>()
            + self.least.capacity() * size_of::<f32>()
            + self.least_of_block.capacity() * size_of::<Least>()
    }

    /// Panics unless the pages of which `last` tells when they were used, and no others, are listed, each
    /// class by age.
    pub fn check_invariants(&self, pages: u32, last: impl Fn(u32) -> Option<u32>) {
        let mut listed = 0;
        for (class, Pages { list, hand }) in self.by_class.iter().enumerate() {
            list.check_invariants(&self.links);
            assert_eq!(list.is_empty(), *hand == NIL, "hand of class {class}");
            assert_eq!(list.is_empty(), self.least[class] == f32::INFINITY, "least value of class {class}");
            assert!(
                *hand == NIL || usize::from(self.class_of[*hand as usize]) == class,
                "hand of class {class}"
            );
            let mut before = None;
            for page in list.iter(&self.links) {
                assert_eq!(usize::from(self.class_of[page as usize]), class, "class of page {page}");
                let last = last(page).expect("a listed page");
                let since = before.map_or(0, |before| last.wrapping_sub(before) as i32);
                assert!(since >= 0, "page {page} is older than the one before");
                before = Some(last);
                listed += 1;
            }
        }
        assert_eq!(listed, (0..pages).filter(|page| last(*page).is_some()).count(), "pages listed");
        for (block, least) in self.least.chunks(BLOCK).enumerate() {
            let least = Least::of_block(block * BLOCK, least);
            assert_eq!(self.least_of_block[block].value, least.value, "least value of block {block}");
            assert!(
                least.value == f32::INFINITY || self.least_of_block[block] == least,
                "least class of block {block}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the page found is about the least valuable of all, whatever shape the classes' values have.
    //! Method: classes that learned to fall, to rise, and to have a valley; random uses and questions, each
    //! answer compared with a look at every page.

    use super::*;
    use crate::manager::automatic::learn::intervals::UNLEARNED;
    use crate::manager::automatic::tuning::Tuning;
    use crate::random::SplitMix64;

    const TURNOVER: u32 = 800;

    /// One class that forgets, one that loops, and one whose pages are used again soon or after a long time.
    fn learned() -> (Classes, [ClassId; 3]) {
        let mut classes = Classes::new(TURNOVER as f32, 10_000.0, 10, &Tuning::default());
        let added = [(); 3].map(|()| classes.add(Kind::NEW).expect("room for a class"));
        for (class, intervals) in added.into_iter().zip([&[20u32, 60, 200][..], &[1600], &[20, 1600]]) {
            for round in 0..600 {
                let interval = intervals[round % intervals.len()];
                classes.begin(class);
                classes.end(class, 0, interval, true);
            }
        }
        (classes, added)
    }

    #[test]
    fn the_least_of_all_is_found() {
        let (classes, added) = learned();
        let mut random = SplitMix64::new(7);
        let (mut pages, mut now, mut near, mut questions) = (PagesByClass::default(), 0u32, 0, 0);
        let mut last = [None; 120];
        for step in 0..20_000 {
            now += 4;
            let page = random.below(120) as usize;
            if last[page].replace(now).is_some() {
                pages.remove(page as u32);
            }
            pages.push(page as u32, added[(random.below(9) / 3) as usize], &classes);
            let looked_at = random.below(120) as usize;
            if let Some(last) = last[looked_at] {
                pages.consider(looked_at as u32, now - last, classes.ages.bucket(now - last), &classes);
            }
            if step % 2 == 0 {
                let age = |page: u32| now - last[page as usize].expect("a listed page");
                let class_of = pages.class_of.clone();
                let value = |page: u32| {
                    let class = class_of[page as usize];
                    classes.ages.value(classes.values(class), age(page))
                };
                let listed = (0..120u32).filter(|page| last[*page as usize].is_some());
                let least = listed.map(value).fold(f32::INFINITY, f32::min);
                let found = pages.least(&classes, age).expect("a page is listed");
                questions += 1;
                near += u32::from(value(found) <= 1.15 * least);
                last[found as usize] = None;
                pages.remove(found);
            }
            if step % 100 == 0 {
                pages.check_invariants(120, |page| last[page as usize]);
            }
        }
        assert!(near * 100 >= questions * 95, "{near} of {questions} were near the least");
    }

    #[test]
    fn a_class_without_say_loses_value_with_age() {
        let (mut classes, [_, looping, _]) = learned();
        let value = |classes: &Classes, age| classes.ages.value(classes.values(looping), age);
        assert!(value(&classes, 1200) > value(&classes, 100));
        classes.set_valued_as(looping, UNLEARNED);
        assert!(value(&classes, 1200) < value(&classes, 100));
        classes.set_valued_as(looping, looping);
        assert!(value(&classes, 1200) > value(&classes, 100));
    }

    #[test]
    fn blocks_of_classes_sum_up_their_least() {
        let mut classes = Classes::new(TURNOVER as f32, 100.0, 300, &Tuning::default());
        let added: Vec<ClassId> = (0..300).map(|_| classes.add(Kind::NEW).expect("room")).collect();
        let mut pages = PagesByClass::default();
        for (page, class) in added.iter().enumerate() {
            pages.push(page as u32, *class, &classes);
        }
        pages.check_invariants(300, |_| Some(0));
        for gone in 0..300u32 {
            let found = pages.least(&classes, |page| page).expect("a page is listed");
            pages.remove(found);
            assert_eq!(pages.by_class.iter().map(|class| class.list.len()).sum::<u32>(), 299 - gone);
        }
        assert_eq!(pages.least(&classes, |page| page), None);
    }
}
