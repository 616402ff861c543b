//! The manager that follows directives: priorities of files, temporary priorities of blocks, a policy per
//! level.
//!
//! Paper: Cao, Felten, Li, "Implementation and Performance of Application-Controlled File Caching", OSDI '94.
//! Semantics where the paper is silent: a group of blocks that one directive moves is ordered by last
//! reference; a block already at its new level stays where it is.
//!
//! The victim is chosen by the policy of the lowest-priority level that has a block free to take. Lists are
//! in order of recency, except that a directive puts the blocks that it moves at the end that is replaced
//! later. `set_policy` changes which end is taken, never the order.
//!
//! A policy other than LRU and MRU is told a capacity: the frames that its level could have if all free ones
//! became its own, within the tenant's cap. So a tenant by itself misses exactly where its policy alone
//! would, from the first block on. W-TinyLFU's counters take memory for its whole capacity, which a level may
//! never fill; therefore its capacity is the number of the level's blocks.
//!
//! Cost: O(1) a hit; a victim takes one step for each busy block it passes, at most all of the tenant's. A
//! directive over a range costs O(min(range, resident blocks) * log).

use std::ops::RangeInclusive;

use crate::{
    classic::{self, Departure, OneLevel, PolicyKind},
    error::DirectiveError,
    frame_table::{FrameState, FrameTable, Slot},
    ids::{Access, FrameId, PRIORITIES, PageId, TenantId},
    list::List,
    manager::ranges::{PriorityRanges, RANGES_MAX},
};

/// One priority level of one tenant.
struct Level {
    list: List,
    policy: PolicyKind,
    /// The state of a policy other than LRU and MRU, which need no more than the list.
    order: Option<Box<dyn OneLevel>>,
    /// The capacity last told to `order`; see the file's head.
    capacity_told: u32,
}

/// The levels of one tenant.
pub(crate) struct PriorityPools {
    levels: Vec<Level>,
    /// Bit `n` is set while level `n` (priority `n - 32`) has blocks.
    occupied: u64,
    /// Blocks in all levels.
    held: u32,
    /// Most frames that the tenant may have.
    cap: u32,
    ranges: PriorityRanges,
}

impl PriorityPools {
    /// Of a tenant with this cap.
    pub fn new(cap: u32) -> Self {
        let level =
            || Level { list: List::default(), policy: PolicyKind::Lru, order: None, capacity_told: 0 };
        let levels = (0..64).map(|_| level()).collect();
        Self { levels, occupied: 0, held: 0, cap, ranges: PriorityRanges::default() }
    }

    /// The tenant has another cap.
    pub fn set_cap(&mut self, cap: u32) {
        self.cap = cap;
    }

    pub fn new_block(&mut self, frames: &mut FrameTable, frame: u32) {
        frames[frame].temporary = false;
        let level = self.ranges.get(frames[frame].page);
        self.append(frames, frame, level);
    }

    pub fn block_gone(&mut self, frames: &mut FrameTable, frame: u32, evicted: bool) {
        self.unlink(frames, frame, if evicted { Departure::Evicted } else { Departure::Moved });
    }

    /// Takes all blocks out of the levels, before these are dropped.
    pub fn unlink_all(&mut self, frames: &mut FrameTable) {
        for level in &mut self.levels {
            while level.list.pop_head(&mut frames.pool_links).is_some() {}
        }
        (self.occupied, self.held) = (0, 0);
    }

    /// Cost: two list neighbours; a block marked temporary returns to its base level.
    pub fn block_accessed(&mut self, frames: &mut FrameTable, frame: u32) {
        if frames[frame].temporary {
            self.unlink(frames, frame, Departure::Moved);
            self.new_block(frames, frame);
            return;
        }
        let level = &mut self.levels[index(frames[frame].level)];
        level.list.move_to_tail(&mut frames.pool_links, frame);
        if let Some(order) = &mut level.order {
            order.hit(FrameId(frame), frames[frame].page);
        }
    }

    pub fn replace_block(
        &mut self,
        frames: &FrameTable,
        candidate: u32,
        missing: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> u32 {
        let room = self.room(frames);
        let mut occupied = self.occupied;
        while occupied != 0 {
            let level = &mut self.levels[occupied.trailing_zeros() as usize];
            if let Some(victim) = level.victim(frames, room, missing, busy) {
                return victim;
            }
            occupied &= occupied - 1;
        }
        candidate
    }

    pub fn policy(&self, priority: i32) -> Result<PolicyKind, DirectiveError> {
        Ok(self.levels[index(checked(priority)?)].policy)
    }

    pub fn set_policy(
        &mut self,
        frames: &FrameTable,
        priority: i32,
        policy: PolicyKind,
    ) -> Result<(), DirectiveError> {
        let priority = checked(priority)?;
        let room = self.room(frames);
        let level = &mut self.levels[index(priority)];
        if level.policy == policy {
            return Ok(());
        }
        level.policy = policy;
        level.order = match policy {
            PolicyKind::Lru | PolicyKind::Mru => None,
            other => Some(classic::build_for_level(other, level.list.len())),
        };
        level.capacity_told = level.list.len();
        level.tell_capacity(room, true);
        if let Some(order) = &mut level.order {
            level
                .list
                .iter(&frames.pool_links)
                .for_each(|frame| order.insert(FrameId(frame), frames[frame].page));
        }
        Ok(())
    }

    pub fn priority(&self, page: PageId) -> i32 {
        i32::from(self.ranges.get(page))
    }

    /// Long-term priority: returns how many resident blocks moved.
    pub fn set_priority(
        &mut self,
        frames: &mut FrameTable,
        pages: &RangeInclusive<PageId>,
        priority: i32,
        resident: &mut Resident<'_>,
    ) -> Result<usize, DirectiveError> {
        let priority = checked_range(pages, priority)?;
        if !self.ranges.set(*pages.start(), *pages.end(), priority) {
            return Err(DirectiveError::TooManyRanges { limit: RANGES_MAX });
        }
        let mut moved = self.blocks_in(frames, pages, resident);
        moved.retain(|frame| !frames[*frame].temporary && frames[*frame].level != priority);
        self.move_group(frames, &mut moved, priority);
        Ok(moved.len())
    }

    /// Ends the long-term priorities of all pages of a file.
    pub fn end_priorities(&mut self, pages: &RangeInclusive<PageId>) {
        let is_ended = self.ranges.set(*pages.start(), *pages.end(), 0);
        debug_assert!(is_ended, "priorities are of pages of one file");
    }

    /// Temporary priority: returns how many resident blocks it marked.
    pub fn set_temporary_priority(
        &mut self,
        frames: &mut FrameTable,
        pages: &RangeInclusive<PageId>,
        priority: i32,
        resident: &mut Resident<'_>,
    ) -> Result<usize, DirectiveError> {
        let priority = checked_range(pages, priority)?;
        let mut moved = self.blocks_in(frames, pages, resident);
        let marked = moved.len();
        moved.iter().for_each(|frame| frames[*frame].temporary = true);
        moved.retain(|frame| frames[*frame].level != priority);
        self.move_group(frames, &mut moved, priority);
        Ok(marked)
    }

    pub fn metadata_bytes(&self) -> usize {
        let orders = self.levels.iter().filter_map(|level| level.order.as_ref());
        self.levels.capacity() * size_of::<Level>()
            + orders.map(|order| order.metadata_bytes()).sum::<usize>()
    }

    /// Panics unless the levels hold exactly `resident`, each block where its priority says.
    pub fn check_invariants(&self, frames: &FrameTable, resident: usize) {
        let mut count = 0;
        for (number, level) in self.levels.iter().enumerate() {
            level.list.check_invariants(&frames.pool_links);
            assert_eq!(
                self.occupied >> number & 1 == 1,
                !level.list.is_empty(),
                "occupied bit of level {number}"
            );
            for frame in level.list.iter(&frames.pool_links) {
                let slot = &frames[frame];
                assert_eq!(index(slot.level), number, "level of frame {frame}");
                assert_eq!(slot.state, FrameState::Resident, "frame {frame} in a pool");
                assert!(
                    slot.temporary || slot.level == self.ranges.get(slot.page),
                    "base level of frame {frame}"
                );
            }
            if let Some(order) = &level.order {
                order.check_invariants();
            }
            count += level.list.len() as usize;
        }
        assert_eq!((count, self.held as usize), (resident, resident), "blocks in pools");
        self.ranges.check_invariants();
    }

    fn append(&mut self, frames: &mut FrameTable, frame: u32, level: i8) {
        frames[frame].level = level;
        self.occupied |= 1 << index(level);
        self.held += 1;
        let room = self.room(frames);
        let level = &mut self.levels[index(level)];
        level.list.push_tail(&mut frames.pool_links, frame);
        level.inserted(frames, frame, room);
    }

    /// Frames that the tenant could have besides its own.
    fn room(&self, frames: &FrameTable) -> u32 {
        frames.free_frames().min(self.cap.saturating_sub(self.held))
    }

    fn unlink(&mut self, frames: &mut FrameTable, frame: u32, departure: Departure) {
        let number = index(frames[frame].level);
        let level = &mut self.levels[number];
        level.list.remove(&mut frames.pool_links, frame);
        self.held -= 1;
        if let Some(order) = &mut level.order {
            order.remove(FrameId(frame), frames[frame].page, departure);
        }
        if level.list.is_empty() {
            self.occupied &= !(1 << number);
        }
    }

    /// The tenant's blocks of `pages` that are in its pools.
    fn blocks_in(
        &self,
        frames: &FrameTable,
        pages: &RangeInclusive<PageId>,
        resident: &mut Resident<'_>,
    ) -> Vec<u32> {
        let (first, last) = (pages.start().0, pages.end().0);
        let held = self.levels.iter().map(|level| u64::from(level.list.len())).sum::<u64>();
        if last - first >= held {
            let all = self.levels.iter().flat_map(|level| level.list.iter(&frames.pool_links));
            return all.filter(|frame| pages.contains(&frames[*frame].page)).collect();
        }
        let mut own = |page| {
            let frame = (resident.frame_of)(page)?.0;
            let Slot { page: held, owner, state, .. } = frames[frame];
            (held == page && owner == resident.tenant && state == FrameState::Resident).then_some(frame)
        };
        (first..=last).filter_map(|page| own(PageId(page))).collect()
    }

    /// Moves blocks to the end of `level` that makes them replaced later, ordered by last reference.
    fn move_group(&mut self, frames: &mut FrameTable, group: &mut [u32], level: i8) {
        group.sort_unstable_by_key(|frame| frames[*frame].last_reference);
        group.iter().for_each(|frame| self.unlink(frames, *frame, Departure::Moved));
        if self.levels[index(level)].policy != PolicyKind::Mru {
            group.iter().for_each(|frame| self.append(frames, *frame, level));
            return;
        }
        for frame in group.iter().rev() {
            frames[*frame].level = level;
            self.occupied |= 1 << index(level);
            self.held += 1;
            self.levels[index(level)].list.push_head(&mut frames.pool_links, *frame);
        }
    }
}

/// How a directive finds the tenant's resident blocks of a range smaller than its number of blocks. A frame
/// that has another page by now does not count.
pub(crate) struct Resident<'a> {
    pub tenant: TenantId,
    pub frame_of: &'a mut dyn FnMut(PageId) -> Option<FrameId>,
}

impl Level {
    /// The block that the level's policy gives up, unless all are busy.
    fn victim(
        &mut self,
        frames: &FrameTable,
        room: u32,
        missing: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> Option<u32> {
        self.tell_capacity(room, true);
        if let Some(order) = &mut self.order {
            let missing = missing.map_or(PageId(u64::MAX), |access| access.page);
            return order.victim(missing, busy).map(|frame| frame.0);
        }
        let takes_tail = self.policy == PolicyKind::Mru;
        let mut at = if takes_tail { self.list.tail() } else { self.list.head() };
        for _ in 0..self.list.len() {
            if !busy(FrameId(at)) {
                return Some(at);
            }
            at = if takes_tail { frames.pool_links.prev(at) } else { frames.pool_links.next(at) };
        }
        None
    }

    /// Tells the policy of a block that entered the list. Its capacity is raised here and lowered only at a
    /// question, so it stays the same while the level takes in one block for each that it gives up.
    fn inserted(&mut self, frames: &FrameTable, frame: u32, room: u32) {
        self.tell_capacity(room, false);
        if let Some(order) = &mut self.order {
            order.insert(FrameId(frame), frames[frame].page);
        }
    }

    /// Tells the policy how many frames the level can have if `room` more become its own. A smaller number
    /// than before only if `lowers`.
    fn tell_capacity(&mut self, room: u32, lowers: bool) {
        let Some(order) = &mut self.order else { return };
        let room = if self.policy == PolicyKind::WTinyLfu { 0 } else { room };
        let capacity = self.list.len() + room;
        if capacity > self.capacity_told || lowers && capacity < self.capacity_told {
            self.capacity_told = capacity;
            order.resize(capacity);
        }
    }
}

fn index(level: i8) -> usize {
    (level + 32) as usize
}

/// The level of a priority.
pub(crate) fn checked(priority: i32) -> Result<i8, DirectiveError> {
    match i8::try_from(priority) {
        Ok(level) if PRIORITIES.contains(&priority) => Ok(level),
        _ => Err(DirectiveError::PriorityOutOfRange { priority }),
    }
}

/// The level of a priority that `pages` are to have.
pub(crate) fn checked_range(pages: &RangeInclusive<PageId>, priority: i32) -> Result<i8, DirectiveError> {
    if pages.start() > pages.end() {
        return Err(DirectiveError::InvertedRange { first: *pages.start(), last: *pages.end() });
    }
    checked(priority)
}
