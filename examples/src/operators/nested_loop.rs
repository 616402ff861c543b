//! Block nested-loop join.

use std::ops::Range;

use bufpool::Tenant;

use super::fetches::{Fetches, Plan};
use crate::Result;
use crate::heap::HeapFile;

/// What a page of a block nested-loop join is read for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The first page of a block of the outer relation: what was built of the block before is not needed any
    /// more.
    NewBlock,
    /// Another page of the block.
    Block,
    /// A page of the inner relation, to be probed with the block.
    Inner,
}

/// The pages of a block nested-loop join: for each block, its pages of the outer relation and then all pages
/// of the inner one.
///
/// The plan tells the pool that the inner relation is read again for each block. If it does not fit, the pool
/// keeps the part that fits and reads the rest ahead. Blocks should not be empty, because an empty one has no
/// page of [`Side::NewBlock`]. Takes one access for each page of the plan.
///
/// # Errors
/// As the pool's.
pub fn nested_loop<'a>(
    tenant: &Tenant,
    outer: &'a HeapFile,
    inner: &'a HeapFile,
    blocks: impl IntoIterator<Item = Range<u64>, IntoIter: 'a>,
) -> Result<Fetches<Side, impl Plan<Side> + 'a>> {
    let plan = blocks.into_iter().flat_map(move |block| {
        let first = block.start;
        let build = block.map(move |number| {
            let side = if number == first { Side::NewBlock } else { Side::Block };
            (outer.file().page(number), side)
        });
        build.chain((0..inner.pages()).map(|number| (inner.file().page(number), Side::Inner)))
    });
    Fetches::new(tenant, plan.map(|(page, side)| Ok((page.into(), side))))
}
