//! The page of a heap file: fixed-size tuples, found by slot number.
//!
//! Both layouts start with 8 bytes: magic, bytes of a tuple, number of live tuples, number of slots that were
//! ever used (16 bits each). A page of zeros is an empty page, so pages need no formatting before their first
//! tuple.
//!
//! ```text
//! dense    header | bitmap of live slots | tuple 0 | tuple 1 | ...          slot = position
//! slotted  header | tuples without gaps ->      ...      <- slot directory   slot -> position + 1, 0 if dead
//! ```
//!
//! The dense layout holds a few tuples more. The slotted layout keeps its tuples without gaps when tuples are
//! deleted, at two bytes a tuple. A slot number stays valid in both.

use std::ops::{Deref, DerefMut};

const HEADER_BYTES: usize = 8;
const SLOT_BYTES: usize = 2;

/// How tuples lie on a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// An array of tuples and a bitmap of the live ones.
    Dense,
    /// Tuples without gaps, found through a slot directory at the end of the page.
    Slotted,
}

impl Layout {
    const fn magic(self) -> [u8; 2] {
        match self {
            Self::Dense => *b"HD",
            Self::Slotted => *b"HS",
        }
    }
}

/// Layout and size of the tuples: what a page must agree with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    pub(super) layout: Layout,
    pub(super) tuple_bytes: u16,
}

impl Format {
    /// Tuples on a page of that size; 0 if not even one fits.
    pub fn capacity(self, page_bytes: usize) -> usize {
        let room = page_bytes.saturating_sub(HEADER_BYTES);
        let tuple = usize::from(self.tuple_bytes);
        let fit = match self.layout {
            Layout::Dense => (room * 8) / (tuple * 8 + 1),
            Layout::Slotted => room / (tuple + SLOT_BYTES),
        };
        let fit = match self.layout {
            Layout::Dense if fit.div_ceil(8) + fit * tuple > room => fit - 1,
            _ => fit,
        };
        fit.min(usize::from(u16::MAX) - 1)
    }
}

/// A heap page behind any access to its bytes, such as a guard.
pub struct HeapPage<B> {
    page: B,
    format: Format,
}

impl<B: Deref<Target = [u8]>> HeapPage<B> {
    /// Takes the page as a heap page if it is empty or of this format.
    pub(super) fn open(page: B, format: Format) -> Option<Self> {
        let page = Self { page, format };
        let fits = page.len() <= page.slots() && page.slots() <= page.capacity();
        (page.is_unformatted() || (page.has_signature() && fits)).then_some(page)
    }

    /// Live tuples.
    pub fn len(&self) -> usize {
        usize::from(self.u16_at(4))
    }

    /// True if no tuple is live.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if another tuple does not fit.
    pub fn is_full(&self) -> bool {
        self.len() == self.capacity()
    }

    /// The tuple in `slot`, if it is live.
    pub fn tuple(&self, slot: u16) -> Option<&[u8]> {
        let at = self.tuple_offset(self.position(usize::from(slot))?);
        Some(&self.page[at..at + self.tuple_bytes()])
    }

    /// The live tuples with their slots, in slot order.
    pub fn tuples(&self) -> impl Iterator<Item = (u16, &[u8])> {
        (0..self.slots() as u16).filter_map(|slot| Some((slot, self.tuple(slot)?)))
    }

    fn capacity(&self) -> usize {
        self.format.capacity(self.page.len())
    }

    /// Slots that were ever used, live or dead.
    fn slots(&self) -> usize {
        usize::from(self.u16_at(6))
    }

    fn position(&self, slot: usize) -> Option<usize> {
        if slot >= self.slots() {
            return None;
        }
        match self.format.layout {
            Layout::Dense => (self.page[HEADER_BYTES + slot / 8] & (1 << (slot % 8)) != 0).then_some(slot),
            Layout::Slotted => {
                let entry = usize::from(self.u16_at(self.entry_offset(slot)));
                entry.checked_sub(1).filter(|&position| position < self.len())
            }
        }
    }

    /// The lowest slot without a live tuple.
    fn free_slot(&self) -> Option<usize> {
        if self.is_full() {
            return None;
        }
        if self.len() == self.slots() {
            return Some(self.slots());
        }
        (0..self.slots()).find(|&slot| self.position(slot).is_none())
    }

    fn tuple_offset(&self, position: usize) -> usize {
        let bitmap_bytes = match self.format.layout {
            Layout::Dense => self.capacity().div_ceil(8),
            Layout::Slotted => 0,
        };
        HEADER_BYTES + bitmap_bytes + position * self.tuple_bytes()
    }

    fn entry_offset(&self, slot: usize) -> usize {
        self.page.len() - (slot + 1) * SLOT_BYTES
    }

    fn tuple_bytes(&self) -> usize {
        usize::from(self.format.tuple_bytes)
    }

    fn is_unformatted(&self) -> bool {
        self.page[..HEADER_BYTES] == [0; HEADER_BYTES]
    }

    fn has_signature(&self) -> bool {
        self.page[..2] == self.format.layout.magic() && self.u16_at(2) == self.format.tuple_bytes
    }

    fn u16_at(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.page[offset], self.page[offset + 1]])
    }
}

impl<B: DerefMut<Target = [u8]>> HeapPage<B> {
    /// Adds a tuple and returns its slot, or `None` if the page is full.
    ///
    /// # Panics
    /// If the tuple is not of the file's tuple size.
    pub fn insert(&mut self, tuple: &[u8]) -> Option<u16> {
        assert_eq!(tuple.len(), self.tuple_bytes(), "bytes of a tuple");
        let slot = self.free_slot()?;
        if self.is_unformatted() {
            self.page[..2].copy_from_slice(&self.format.layout.magic());
            self.set_u16(2, self.format.tuple_bytes);
        }
        let position = match self.format.layout {
            Layout::Dense => {
                self.page[HEADER_BYTES + slot / 8] |= 1 << (slot % 8);
                slot
            }
            Layout::Slotted => {
                let position = self.len();
                self.set_u16(self.entry_offset(slot), position as u16 + 1);
                position
            }
        };
        let at = self.tuple_offset(position);
        self.page[at..at + tuple.len()].copy_from_slice(tuple);
        self.set_u16(4, self.len() as u16 + 1);
        self.set_u16(6, self.slots().max(slot + 1) as u16);
        Some(slot as u16)
    }

    /// The tuple in `slot` for changing, if it is live.
    pub fn tuple_mut(&mut self, slot: u16) -> Option<&mut [u8]> {
        let at = self.tuple_offset(self.position(usize::from(slot))?);
        let bytes = self.tuple_bytes();
        Some(&mut self.page[at..at + bytes])
    }

    /// Removes the tuple in `slot`; false if there was none.
    pub fn delete(&mut self, slot: u16) -> bool {
        let slot = usize::from(slot);
        let Some(position) = self.position(slot) else { return false };
        match self.format.layout {
            Layout::Dense => self.page[HEADER_BYTES + slot / 8] &= !(1 << (slot % 8)),
            Layout::Slotted => self.close_gap(slot, position),
        }
        self.set_u16(4, self.len() as u16 - 1);
        true
    }

    /// Marks the slot dead and moves the last tuple to the position that becomes free.
    fn close_gap(&mut self, slot: usize, position: usize) {
        let last = self.len() - 1;
        let last_slot = (0..self.slots()).find(|&s| self.position(s) == Some(last));
        let last_slot = last_slot.expect("each position below the number of live tuples has a slot");
        let (from, end, to) =
            (self.tuple_offset(last), self.tuple_offset(last + 1), self.tuple_offset(position));
        self.page.copy_within(from..end, to);
        self.set_u16(self.entry_offset(last_slot), position as u16 + 1);
        self.set_u16(self.entry_offset(slot), 0);
    }

    fn set_u16(&mut self, offset: usize, value: u16) {
        self.page[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty(layout: Layout) -> HeapPage<Vec<u8>> {
        HeapPage::open(vec![0; 128], Format { layout, tuple_bytes: 10 }).unwrap()
    }

    fn contents(page: &HeapPage<Vec<u8>>) -> Vec<(u16, u8)> {
        page.tuples().map(|(slot, tuple)| (slot, tuple[9])).collect()
    }

    #[test]
    fn capacities_leave_room_for_bitmap_and_directory() {
        let capacity = |layout| Format { layout, tuple_bytes: 208 }.capacity(8192);
        assert_eq!((capacity(Layout::Dense), capacity(Layout::Slotted)), (39, 38));
        for layout in [Layout::Dense, Layout::Slotted] {
            for tuple_bytes in 1..200 {
                let n = Format { layout, tuple_bytes }.capacity(128);
                let overhead = if layout == Layout::Dense { n.div_ceil(8) } else { 2 * n };
                assert!(HEADER_BYTES + overhead + n * usize::from(tuple_bytes) <= 128);
            }
        }
    }

    #[test]
    fn slots_stay_valid_while_others_come_and_go() {
        for layout in [Layout::Dense, Layout::Slotted] {
            let mut page = empty(layout);
            for i in 0..10 {
                assert_eq!(page.insert(&[i; 10]), Some(u16::from(i)));
            }
            assert!(page.delete(2) && page.delete(9) && !page.delete(2) && !page.delete(70));
            assert_eq!(contents(&page), [0, 1, 3, 4, 5, 6, 7, 8].map(|i| (i, i as u8)));
            assert_eq!(page.insert(&[42; 10]), Some(2));
            page.tuple_mut(8).unwrap().fill(43);
            let expected = [(0, 0), (1, 1), (2, 42), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 43)];
            assert_eq!(contents(&page), expected, "{layout:?}");
            assert_eq!(page.len(), 9);
        }
    }

    #[test]
    fn a_full_page_takes_no_more_until_a_tuple_goes() {
        for layout in [Layout::Dense, Layout::Slotted] {
            let mut page = empty(layout);
            while !page.is_full() {
                page.insert(&[1; 10]).unwrap();
            }
            assert_eq!(page.len(), page.capacity());
            assert_eq!(page.insert(&[2; 10]), None);
            page.delete(5);
            assert_eq!(page.insert(&[2; 10]), Some(5));
            assert!(page.is_full());
        }
    }

    #[test]
    fn refuses_pages_of_another_format() {
        let mut page = empty(Layout::Dense);
        page.insert(&[1; 10]);
        let bytes = page.page;
        let open = |layout, tuple_bytes| HeapPage::open(bytes.clone(), Format { layout, tuple_bytes });
        assert!(open(Layout::Dense, 10).is_some());
        assert!(open(Layout::Slotted, 10).is_none());
        assert!(open(Layout::Dense, 11).is_none());
    }
}
