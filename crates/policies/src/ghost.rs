//! Ghosts: pages that were evicted lately and are remembered by number only. The directory of a lower cache
//! is made of the same lists.
//!
//! There are one or more lists, oldest ghost at the head, over one set of slots and one index. Lists have no
//! bound of their own; a policy keeps them within its bound with [`Ghosts::pop_oldest`]. A page keeps its
//! slot until it is forgotten. Slots are used again, so memory follows the largest number of ghosts there
//! ever was, at 22 to 26 bytes a ghost.

use crate::PageId;
use crate::list::{Links, List};
use crate::slot_index::SlotIndex;

/// Remembered pages in `LISTS` lists; a page is in at most one of them.
pub(crate) struct Ghosts<const LISTS: usize> {
    /// Per slot: the page, and the list it is in.
    ghosts: Vec<PageId>,
    list_of: Vec<u8>,
    links: Links,
    lists: [List; LISTS],
    free: List,
    index: SlotIndex,
}

impl<const LISTS: usize> Ghosts<LISTS> {
    /// No ghosts, with room for `ghosts`.
    pub(crate) fn with_capacity(ghosts: u32) -> Self {
        Self {
            ghosts: Vec::with_capacity(ghosts as usize),
            list_of: Vec::with_capacity(ghosts as usize),
            links: Links::with_capacity(ghosts),
            lists: [const { List::new() }; LISTS],
            free: List::new(),
            index: SlotIndex::default(),
        }
    }

    /// The number of ghosts in `list`.
    #[inline]
    pub(crate) fn len(&self, list: usize) -> u32 {
        self.lists[list].len()
    }

    /// The list that `page` is in.
    #[inline]
    pub(crate) fn find(&self, page: PageId) -> Option<usize> {
        Some(self.list_of(self.slot(page)?))
    }

    /// The slot of `page`.
    #[inline]
    pub(crate) fn slot(&self, page: PageId) -> Option<u32> {
        self.index.find(page.0, |slot| self.ghosts[slot as usize].0)
    }

    /// The list that the page in `slot` is in.
    #[inline]
    pub(crate) fn list_of(&self, slot: u32) -> usize {
        self.list_of[slot as usize] as usize
    }

    /// The oldest ghost of `list`, and its slot.
    #[inline]
    pub(crate) fn oldest(&self, list: usize) -> Option<(u32, PageId)> {
        self.iter(list).next()
    }

    /// The newest ghost of `list`, and its slot.
    pub(crate) fn newest(&self, list: usize) -> Option<(u32, PageId)> {
        let slot = self.lists[list].iter_from_tail(&self.links).next()?;
        Some((slot, self.ghosts[slot as usize]))
    }

    /// The ghosts of `list` with their slots, oldest first.
    pub(crate) fn iter(&self, list: usize) -> impl Iterator<Item = (u32, PageId)> {
        self.lists[list].iter(&self.links).map(|slot| (slot, self.ghosts[slot as usize]))
    }

    /// Makes `page`, which must be in no list, the newest ghost of `list`, and returns its slot: the one that
    /// became free last, else a new one. Allocates only when there are more ghosts than ever before.
    pub(crate) fn push(&mut self, list: usize, page: PageId) -> u32 {
        let slot = self.enter(list, page);
        self.lists[list].push_tail(&mut self.links, slot);
        slot
    }

    /// As [`push`](Self::push), but `page` becomes the oldest ghost.
    pub(crate) fn push_oldest(&mut self, list: usize, page: PageId) -> u32 {
        let slot = self.enter(list, page);
        self.lists[list].push_head(&mut self.links, slot);
        slot
    }

    /// Makes the page in `slot` the newest ghost of `list`.
    pub(crate) fn shift(&mut self, slot: u32, list: usize) {
        self.lists[self.list_of(slot)].remove(&mut self.links, slot);
        self.list_of[slot as usize] = list as u8;
        self.lists[list].push_tail(&mut self.links, slot);
    }

    /// Makes the page in `slot` the oldest ghost of `list`.
    pub(crate) fn shift_oldest(&mut self, slot: u32, list: usize) {
        self.lists[self.list_of(slot)].remove(&mut self.links, slot);
        self.list_of[slot as usize] = list as u8;
        self.lists[list].push_head(&mut self.links, slot);
    }

    /// Gives `page` a slot, which is marked for `list` and not yet in it.
    fn enter(&mut self, list: usize, page: PageId) -> u32 {
        let slot = self.free.pop_head(&mut self.links).unwrap_or_else(|| {
            let slot = self.ghosts.len() as u32;
            self.ghosts.push(page);
            self.list_of.push(0);
            self.links.grow_to(slot);
            slot
        });
        self.ghosts[slot as usize] = page;
        self.list_of[slot as usize] = list as u8;
        self.index.insert(page.0, slot, |slot| self.ghosts[slot as usize].0);
        slot
    }

    /// Forgets `page`. Returns the list it was in.
    pub(crate) fn take(&mut self, page: PageId) -> Option<usize> {
        let slot = self.index.remove(page.0, |slot| self.ghosts[slot as usize].0)?;
        let list = self.list_of[slot as usize] as usize;
        self.lists[list].remove(&mut self.links, slot);
        self.free.push_head(&mut self.links, slot);
        Some(list)
    }

    /// Forgets the oldest ghost of `list`.
    pub(crate) fn pop_oldest(&mut self, list: usize) -> Option<PageId> {
        let slot = self.lists[list].pop_head(&mut self.links)?;
        let page = self.ghosts[slot as usize];
        self.index.remove(page.0, |slot| self.ghosts[slot as usize].0);
        self.free.push_head(&mut self.links, slot);
        Some(page)
    }

    /// Forgets the newest ghost of `list`.
    pub(crate) fn pop_newest(&mut self, list: usize) -> Option<PageId> {
        let (_, page) = self.newest(list)?;
        self.take(page);
        Some(page)
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.ghosts.capacity() * size_of::<PageId>()
            + self.list_of.capacity()
            + self.links.memory_bytes()
            + self.index.memory_bytes()
    }

    /// Recounts lists and index. Panics with a message if they disagree.
    pub(crate) fn check_invariants(&self) {
        let mut listed = 0;
        for (number, list) in self.lists.iter().enumerate() {
            list.check_invariants(&self.links);
            listed += list.len() as usize;
            for slot in list.iter(&self.links) {
                assert_eq!(
                    self.list_of[slot as usize] as usize, number,
                    "a ghost is marked for another list"
                );
            }
        }
        self.free.check_invariants(&self.links);
        self.index.check_invariants(|slot| self.ghosts[slot as usize].0);
        assert_eq!(self.index.len(), listed, "the index does not hold exactly the ghosts that are listed");
        assert_eq!(listed + self.free.len() as usize, self.ghosts.len(), "a slot is neither used nor free");
    }
}
