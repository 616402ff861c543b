//! Doubly linked lists threaded through a flat array of slots.
//!
//! [`Links`] owns one pair of neighbours per slot, [`List`] owns two ends and a length. Several lists may
//! share one [`Links`] as long as a slot is in at most one of them at a time. Every operation is O(1),
//! except growing the array and walking it, and nothing is allocated for a slot that has been seen before.
//!
//! Convention of this crate: the **head** is the old, cold end, the **tail** the new, hot one.

/// No slot: the neighbour beyond an end of a list, and the ends of an empty list.
pub(crate) const NIL: u32 = u32::MAX;

/// The neighbour of a slot that is in no list. It is never followed; checks for misuse look for it.
const UNLINKED: u32 = u32::MAX - 1;

/// The neighbours of one slot.
#[derive(Clone, Copy)]
struct Neighbours {
    prev: u32,
    next: u32,
}

impl Neighbours {
    const NONE: Self = Self { prev: UNLINKED, next: UNLINKED };
}

/// A table of at least this many slots grows by a sixteenth; a shorter one doubles.
const LARGE: usize = 1024;

/// A table is lengthened by this many slots at a time, as far as its allocation has room.
const STEP: usize = 64;

/// Lengthens `slots` to at least `len`, and further where the allocation has room. Tables by frame number
/// are made for the frames of the pool and grow only by the few of its reserve, so a large one does not
/// double.
#[cold]
pub(crate) fn lengthen<T: Clone>(slots: &mut Vec<T>, len: usize, value: T) {
    if len > slots.capacity() && slots.len() >= LARGE {
        slots.reserve_exact(len - slots.len() + slots.len() / 16);
    }
    slots.resize(len.max((slots.len() + STEP).min(slots.capacity())), value);
}

/// Appends to a table, which grows by the rule of [`lengthen`].
#[inline]
pub(crate) fn push<T>(slots: &mut Vec<T>, value: T) {
    if slots.len() == slots.capacity() && slots.len() >= LARGE {
        slots.reserve_exact(slots.len() / 16);
    }
    slots.push(value);
}

/// The neighbours of every slot. 8 bytes a slot.
#[derive(Default)]
pub(crate) struct Links {
    slots: Vec<Neighbours>,
}

impl Links {
    /// No slot usable yet, with room for `slots`.
    pub(crate) fn with_capacity(slots: u32) -> Self {
        Self { slots: Vec::with_capacity(slots as usize) }
    }

    /// Makes `slot` usable. Amortised O(1); allocates only when `slot` is larger than all before.
    #[inline]
    pub(crate) fn grow_to(&mut self, slot: u32) {
        if slot as usize >= self.slots.len() {
            self.grow_cold(slot);
        }
    }

    #[cold]
    fn grow_cold(&mut self, slot: u32) {
        let len = slot as usize + 1;
        self.slots.reserve(len - self.slots.len());
        self.slots.resize(len.max((self.slots.len() + STEP).min(self.slots.capacity())), Neighbours::NONE);
    }

    /// Makes exactly `slots` more slots usable.
    pub(crate) fn add(&mut self, slots: u32) {
        self.slots.reserve_exact(slots as usize);
        self.slots.resize(self.slots.len() + slots as usize, Neighbours::NONE);
    }

    /// As [`grow_to`](Self::grow_to), by [`lengthen`].
    #[inline]
    pub(crate) fn lengthen_for(&mut self, slot: u32) {
        if slot as usize >= self.slots.len() {
            self.lengthen_to(slot as usize + 1);
        }
    }

    /// The same, to `len` slots.
    pub(crate) fn lengthen_to(&mut self, len: usize) {
        lengthen(&mut self.slots, len, Neighbours::NONE);
    }

    /// True if `slot` is in one of the lists.
    #[inline]
    pub(crate) fn is_linked(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|n| n.next != UNLINKED)
    }

    /// The number of slots usable.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Reads the links that taking `slot` out of its list will change, so that they are in the processor's
    /// cache by then. The result means nothing; a caller that uses it keeps the reads from being dropped.
    #[inline]
    pub(crate) fn touch(&self, slot: u32) -> u32 {
        let sides = self.slots.get(slot as usize).map_or([NIL; 2], |n| [n.prev, n.next]);
        sides
            .into_iter()
            .filter_map(|side| self.slots.get(side as usize))
            .fold(0, |touched, n| touched ^ n.next)
    }

    /// The address of the neighbours of a slot, to be fetched; any address if there is no such slot.
    pub(crate) fn place_of(&self, slot: u32) -> *const u8 {
        self.slots.as_ptr().wrapping_add(slot as usize).cast()
    }

    /// The slot towards the tail, [`NIL`] after the tail.
    #[inline]
    pub(crate) fn next(&self, slot: u32) -> u32 {
        self.slots[slot as usize].next
    }

    /// The slot towards the head, [`NIL`] before the head.
    #[inline]
    pub(crate) fn prev(&self, slot: u32) -> u32 {
        self.slots[slot as usize].prev
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Neighbours>()
    }
}

/// One list over the slots of a [`Links`], which each call gets as an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

impl List {
    pub(crate) const fn new() -> Self {
        Self { head: NIL, tail: NIL, len: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The oldest slot, or [`NIL`].
    #[inline]
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// The newest slot, or [`NIL`].
    #[inline]
    pub(crate) fn tail(&self) -> u32 {
        self.tail
    }

    #[inline]
    pub(crate) fn push_tail(&mut self, links: &mut Links, slot: u32) {
        self.link(links, self.tail, slot, NIL);
    }

    #[inline]
    pub(crate) fn push_head(&mut self, links: &mut Links, slot: u32) {
        self.link(links, NIL, slot, self.head);
    }

    /// Puts `slot` right before `place`, on its head side; at the tail if `place` is [`NIL`].
    #[inline]
    pub(crate) fn insert_before(&mut self, links: &mut Links, place: u32, slot: u32) {
        let prev = if place == NIL { self.tail } else { links.prev(place) };
        self.link(links, prev, slot, place);
    }

    #[inline]
    fn link(&mut self, links: &mut Links, prev: u32, slot: u32, next: u32) {
        debug_assert!(!links.is_linked(slot), "slot {slot} is already in a list");
        links.slots[slot as usize] = Neighbours { prev, next };
        match prev {
            NIL => self.head = slot,
            _ => links.slots[prev as usize].next = slot,
        }
        match next {
            NIL => self.tail = slot,
            _ => links.slots[next as usize].prev = slot,
        }
        self.len += 1;
    }

    /// Takes `slot`, which must be in this list, out of it.
    #[inline]
    pub(crate) fn remove(&mut self, links: &mut Links, slot: u32) {
        debug_assert!(links.is_linked(slot), "slot {slot} is in no list");
        let Neighbours { prev, next } = links.slots[slot as usize];
        match prev {
            NIL => self.head = next,
            _ => links.slots[prev as usize].next = next,
        }
        match next {
            NIL => self.tail = prev,
            _ => links.slots[next as usize].prev = prev,
        }
        links.slots[slot as usize] = Neighbours { prev: UNLINKED, next: UNLINKED };
        self.len -= 1;
    }

    #[inline]
    pub(crate) fn pop_head(&mut self, links: &mut Links) -> Option<u32> {
        let slot = self.head;
        (slot != NIL).then(|| {
            self.remove(links, slot);
            slot
        })
    }

    /// Makes `slot`, which must be in this list, the newest.
    #[inline]
    pub(crate) fn move_to_tail(&mut self, links: &mut Links, slot: u32) {
        if self.tail == slot {
            return;
        }
        debug_assert!(links.is_linked(slot), "slot {slot} is in no list");
        // `slot` is not the tail, so there is a slot after it, and the list has a tail.
        let Neighbours { prev, next } = links.slots[slot as usize];
        links.slots[next as usize].prev = prev;
        match prev {
            NIL => self.head = next,
            _ => links.slots[prev as usize].next = next,
        }
        links.slots[self.tail as usize].next = slot;
        links.slots[slot as usize] = Neighbours { prev: self.tail, next: NIL };
        self.tail = slot;
    }

    /// `slot`, which is in no list, takes the place of `other`, which then is in none.
    pub(crate) fn replace(&mut self, links: &mut Links, other: u32, slot: u32) {
        let next = links.next(other);
        self.remove(links, other);
        self.insert_before(links, next, slot);
    }

    /// Exchanges the places of two different slots of this list.
    #[inline]
    pub(crate) fn swap(&mut self, links: &mut Links, a: u32, b: u32) {
        debug_assert_ne!(a, b);
        if links.next(b) == a {
            return self.swap(links, b, a);
        }
        let (after_a, after_b) = (links.next(a), links.next(b));
        self.remove(links, a);
        self.remove(links, b);
        self.insert_before(links, after_b, a);
        self.insert_before(links, if after_a == b { a } else { after_a }, b);
    }

    /// The slot after `slot` when the list is read as a ring: after the tail comes the head.
    #[inline]
    pub(crate) fn next_in_ring(&self, links: &Links, slot: u32) -> u32 {
        match links.next(slot) {
            NIL => self.head,
            next => next,
        }
    }

    /// The slots from head to tail. Removing during the walk is not possible; see [`Links::next`] for that.
    pub(crate) fn iter<'a>(&self, links: &'a Links) -> impl Iterator<Item = u32> + use<'a> {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let slot = at;
            (slot != NIL).then(|| {
                at = links.next(slot);
                slot
            })
        })
    }

    /// The slots from tail to head.
    pub(crate) fn iter_from_tail<'a>(&self, links: &'a Links) -> impl Iterator<Item = u32> + use<'a> {
        let mut at = self.tail;
        std::iter::from_fn(move || {
            let slot = at;
            (slot != NIL).then(|| {
                at = links.prev(slot);
                slot
            })
        })
    }

    /// Recounts the list in both directions. Panics with a message if it is broken.
    pub(crate) fn check_invariants(&self, links: &Links) {
        let (mut prev, mut at, mut len) = (NIL, self.head, 0);
        while at != NIL {
            assert!(links.is_linked(at), "slot {at} of a list is marked as unlinked");
            assert_eq!(links.prev(at), prev, "slot {at} does not point back to its predecessor");
            len += 1;
            assert!(len <= self.len, "a list of {} slots has more, or runs in a circle", self.len);
            (prev, at) = (at, links.next(at));
        }
        assert_eq!(self.tail, prev, "a list does not end at its tail");
        assert_eq!(self.len, len, "a list's length is not the number of its slots");
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a list behaves as a `VecDeque` whatever is done to it.
    //! Method: random operations on two lists over one array, contents compared after every step.

    use super::*;
    use proptest::prelude::*;

    const SLOTS: u32 = 12;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        PushHead,
        PushTail,
        InsertBefore(usize),
        Remove,
        MoveToTail,
        PopHead,
        Swap(usize),
        Replace(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<(usize, u32, Step)>> {
        let step = prop_oneof![
            Just(Step::PushHead),
            Just(Step::PushTail),
            (0..SLOTS as usize).prop_map(Step::InsertBefore),
            Just(Step::Remove),
            Just(Step::MoveToTail),
            Just(Step::PopHead),
            (0..SLOTS as usize).prop_map(Step::Swap),
            (0..SLOTS).prop_map(Step::Replace),
        ];
        prop::collection::vec((0..2usize, 0..SLOTS, step), 1..200)
    }

    proptest! {
        #[test]
        fn lists_equal_vectors(steps in steps()) {
            let mut links = Links::default();
            let mut lists = [List::new(), List::new()];
            let mut naive: [Vec<u32>; 2] = [Vec::new(), Vec::new()];
            for (which, slot, step) in steps {
                links.grow_to(slot);
                let (list, vector) = (&mut lists[which], &mut naive[which]);
                let place = vector.iter().position(|&s| s == slot);
                prop_assert!(place.is_none() || links.is_linked(slot));
                match (step, place) {
                    (Step::PushHead, None) if !links.is_linked(slot) => {
                        list.push_head(&mut links, slot);
                        vector.insert(0, slot);
                    }
                    (Step::PushTail, None) if !links.is_linked(slot) => {
                        list.push_tail(&mut links, slot);
                        vector.push(slot);
                    }
                    (Step::InsertBefore(at), None) if !links.is_linked(slot) => {
                        let at = at.min(vector.len());
                        list.insert_before(&mut links, vector.get(at).copied().unwrap_or(NIL), slot);
                        vector.insert(at, slot);
                    }
                    (Step::Remove, Some(at)) => {
                        list.remove(&mut links, slot);
                        vector.remove(at);
                    }
                    (Step::MoveToTail, Some(at)) => {
                        list.move_to_tail(&mut links, slot);
                        vector.remove(at);
                        vector.push(slot);
                    }
                    (Step::Swap(with), Some(at)) if with % vector.len() != at => {
                        let with = with % vector.len();
                        list.swap(&mut links, slot, vector[with]);
                        vector.swap(at, with);
                    }
                    (Step::Replace(by), Some(at)) => {
                        links.grow_to(by);
                        if !links.is_linked(by) {
                            list.replace(&mut links, slot, by);
                            vector[at] = by;
                        }
                    }
                    (Step::PopHead, _) => {
                        let popped = (!vector.is_empty()).then(|| vector.remove(0));
                        prop_assert_eq!(list.pop_head(&mut links), popped);
                    }
                    _ => {}
                }
                for (list, vector) in lists.iter().zip(&naive) {
                    list.check_invariants(&links);
                    prop_assert_eq!(&list.iter(&links).collect::<Vec<_>>(), vector);
                    prop_assert!(list.iter_from_tail(&links).eq(vector.iter().rev().copied()));
                    prop_assert_eq!(list.len() as usize, vector.len());
                    prop_assert_eq!(list.is_empty(), vector.is_empty());
                    if let (Some(&first), Some(&last)) = (vector.first(), vector.last()) {
                        prop_assert_eq!(list.next_in_ring(&links, last), first);
                    }
                }
            }
        }
    }

    /// Every pair of places of a list of five, neighbours and ends included, against a vector.
    #[test]
    fn swap_exchanges_any_two_places() {
        for a in 0..5 {
            for b in (0..5).filter(|b| *b != a) {
                let (mut links, mut list) = (Links::default(), List::new());
                links.add(5);
                (0..5).for_each(|slot| list.push_tail(&mut links, slot));
                let mut expected: Vec<u32> = (0..5).collect();
                expected.swap(a, b);
                list.swap(&mut links, a as u32, b as u32);
                list.check_invariants(&links);
                assert_eq!(list.iter(&links).collect::<Vec<_>>(), expected);
            }
        }
    }
}
