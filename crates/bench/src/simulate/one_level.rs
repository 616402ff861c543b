//! A trace against one policy that owns all frames.

use std::collections::BTreeMap;

use bufpool_policies::classic::{Departure, OneLevel};
use bufpool_policies::{FrameId, PageId, ProgramStats};

use super::lower::Below;
use super::pins::Pins;
use super::run::Run;
use super::tally::Tally;
use super::{Setup, SimError};
use crate::trace::{Act, Batch, Replay, Trace};

/// Marks a block without a frame.
pub const ABSENT: u32 = u32::MAX;

/// The driver that `bufpool_policies::classic` describes.
pub struct OneLevelRun<'a, P: ?Sized> {
    trace: &'a Trace,
    policy: Box<P>,
    frames: u32,
    /// Per block: its frame, or [`ABSENT`].
    frame_of: Vec<u32>,
    /// Per frame in use: its block. Frames are used in ascending order.
    block_in: Vec<u32>,
    pins: Pins,
    tally: Tally,
    below: Option<Below>,
}

impl<'a, P: OneLevel + ?Sized> OneLevelRun<'a, P> {
    /// An empty cache, with its connection to the lower cache, if there is one.
    pub fn new(trace: &'a Trace, setup: &Setup, policy: Box<P>, below: Option<Below>) -> Self {
        Self {
            trace,
            policy,
            frames: setup.frames,
            frame_of: vec![ABSENT; trace.blocks().len()],
            block_in: Vec::with_capacity(setup.frames as usize),
            pins: Pins::new(trace.has_pins(), setup.frames),
            tally: Tally::new(trace, setup.by, setup.frames),
            below,
        }
    }

    fn page(&self, block: u32) -> PageId {
        PageId(self.trace.blocks()[block as usize])
    }

    fn miss(&mut self, access: u64, block: u32, key: u32) -> Result<(), SimError> {
        let reads_first = self.below.as_ref().is_some_and(Below::keeps_alone);
        if reads_first && !self.read_below(block, key) {
            return Ok(());
        }
        let frame = if self.block_in.len() < self.frames as usize {
            self.block_in.push(block);
            self.block_in.len() as u32 - 1
        } else {
            self.make_room(access, block)?
        };
        self.block_in[frame as usize] = block;
        self.frame_of[block as usize] = frame;
        self.policy.insert(FrameId(frame), self.page(block));
        self.tally.hold(frame, key);
        self.pins.loaded(block, frame);
        if !reads_first {
            self.read_below(block, key);
        }
        Ok(())
    }

    /// Reads the missing block through the lower cache, if there is one. Returns whether the cache may keep
    /// it.
    fn read_below(&mut self, block: u32, key: u32) -> bool {
        let page = self.page(block);
        let Some(below) = &mut self.below else { return true };
        below.read(page, self.tally.accessor(key))
    }

    /// Evicts what the policy names, and returns the frame.
    fn make_room(&mut self, access: u64, block: u32) -> Result<u32, SimError> {
        let (page, pins) = (self.page(block), &self.pins);
        let Some(victim) = self.policy.victim(page, &mut |frame| pins.is_busy(frame.0)) else {
            return Err(SimError::all_pinned(self.trace, access, block, self.frames));
        };
        let gone = self.block_in[victim.index()];
        let gone_page = self.page(gone);
        self.policy.remove(victim, gone_page, Departure::Evicted);
        self.frame_of[gone as usize] = ABSENT;
        let counts = self.tally.holder(victim.0);
        counts.evictions += 1;
        if let Some(below) = &mut self.below {
            below.ejected(gone, gone_page, access, counts);
        }
        Ok(victim.0)
    }

    fn frame(&self, block: u32) -> Option<u32> {
        let frame = self.frame_of[block as usize];
        (frame != ABSENT).then_some(frame)
    }
}

impl<P: OneLevel + ?Sized> Replay for OneLevelRun<'_, P> {
    type Error = SimError;

    fn batch(&mut self, batch: Batch<'_>) -> Result<(), SimError> {
        let keys = self.tally.keys(&batch);
        for (at, &block) in batch.blocks.iter().enumerate() {
            let key = keys.get(at).copied().unwrap_or(0);
            let counts = self.tally.accessor(key);
            counts.accesses += 1;
            if let Some(below) = &mut self.below {
                below.used(block, batch.first + at as u64);
            }
            match self.frame_of[block as usize] {
                ABSENT => self.miss(batch.first + at as u64, block, key)?,
                frame => {
                    counts.hits += 1;
                    self.policy.hit(FrameId(frame), self.page(block));
                }
            }
        }
        Ok(())
    }

    fn act(&mut self, act: Act<'_>) -> Result<(), SimError> {
        match act {
            Act::Pin(block) => self.pins.pin(block, self.frame(block)),
            Act::Unpin(block) => self.pins.unpin(block, self.frame(block)),
            Act::Directive(..) => {}
        }
        Ok(())
    }
}

impl<P: OneLevel + ?Sized> Run for OneLevelRun<'_, P> {
    fn end_warm_up(&mut self) {
        self.tally.clear();
        self.below.iter_mut().for_each(Below::end_warm_up);
    }

    fn end(self) -> (Tally, BTreeMap<u32, ProgramStats>) {
        (self.tally, BTreeMap::new())
    }
}
