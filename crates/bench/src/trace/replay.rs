//! What a trace is replayed to.

use std::ops::Range;

use super::{Directive, Place, TraceError};

/// Consecutive accesses. Empty `sites` or `tenants` mean number 0 for all.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Index in the trace of the first access.
    pub first: u64,
    /// Numbers of the blocks.
    pub blocks: &'a [u32],
    /// Numbers of the sites, as long as `blocks` or empty.
    pub sites: &'a [u32],
    /// Numbers of the tenants, as long as `blocks` or empty.
    pub tenants: &'a [u32],
}

impl<'a> Batch<'a> {
    /// The accesses whose indices in this batch are in `range`.
    pub fn part(&self, range: Range<usize>) -> Batch<'a> {
        let column = |numbers: &'a [u32]| if numbers.is_empty() { numbers } else { &numbers[range.clone()] };
        let (blocks, sites, tenants) = (column(self.blocks), column(self.sites), column(self.tenants));
        Batch { first: self.first + range.start as u64, blocks, sites, tenants }
    }
}

/// An event between two accesses.
#[derive(Clone, Copy, Debug)]
pub enum Act<'a> {
    /// The block with this number is pinned once more.
    Pin(u32),
    /// One pin of the block with this number is taken back. The block is pinned.
    Unpin(u32),
    /// Any other directive, and where it stands in the file.
    Directive(&'a Directive, Place),
}

/// What a trace is replayed to, such as a simulated cache.
pub trait Replay {
    /// The error that ends a replay.
    type Error: From<TraceError>;

    /// Takes accesses in order.
    fn batch(&mut self, batch: Batch<'_>) -> Result<(), Self::Error>;

    /// Takes an event that precedes the next batch.
    fn act(&mut self, act: Act<'_>) -> Result<(), Self::Error>;
}
