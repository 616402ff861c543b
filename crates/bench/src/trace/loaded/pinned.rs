//! Which blocks of a trace are pinned.

use std::collections::HashMap;

/// Outstanding pins of each pinned block.
#[derive(Default)]
pub(super) struct Pinned(HashMap<u64, u32>);

impl Pinned {
    pub fn pin(&mut self, block: u64) {
        *self.0.entry(block).or_insert(0) += 1;
    }

    /// Takes back one pin. Returns whether there was one.
    pub fn unpin(&mut self, block: u64) -> bool {
        let Some(pins) = self.0.get_mut(&block) else { return false };
        *pins -= 1;
        if *pins == 0 {
            self.0.remove(&block);
        }
        true
    }
}
