//! Which frames hold a pinned block.

use std::collections::HashMap;

/// Pins of blocks, resident or not. The frame of a pinned block is busy as soon as the block is in it.
///
/// Allocates nothing for a trace without pins.
pub struct Pins {
    /// Outstanding pins of each pinned block, resident or not.
    blocks: HashMap<u32, u32>,
    /// Per frame; empty if the trace has no pins.
    frames: Vec<bool>,
}

impl Pins {
    /// No pins. `any` says whether there will be some.
    pub fn new(any: bool, frames: u32) -> Self {
        Self { blocks: HashMap::new(), frames: if any { vec![false; frames as usize] } else { Vec::new() } }
    }

    /// Whether the block in `frame` is pinned.
    #[inline]
    pub fn is_busy(&self, frame: u32) -> bool {
        self.frames.get(frame as usize).copied().unwrap_or(false)
    }

    /// `block`, which is in `frame` if it is resident, is pinned once more.
    pub fn pin(&mut self, block: u32, frame: Option<u32>) {
        *self.blocks.entry(block).or_insert(0) += 1;
        self.set(frame, true);
    }

    /// One pin of `block` goes.
    pub fn unpin(&mut self, block: u32, frame: Option<u32>) {
        let pins = self.blocks.get_mut(&block).expect("the loader checked that unpins have pins");
        *pins -= 1;
        if *pins == 0 {
            self.blocks.remove(&block);
            self.set(frame, false);
        }
    }

    /// `block` came into `frame`.
    #[inline]
    pub fn loaded(&mut self, block: u32, frame: u32) {
        if !self.blocks.is_empty() {
            self.set(Some(frame), self.blocks.contains_key(&block));
        }
    }

    fn set(&mut self, frame: Option<u32>, busy: bool) {
        if let Some(frame) = frame {
            self.frames[frame as usize] = busy;
        }
    }
}
