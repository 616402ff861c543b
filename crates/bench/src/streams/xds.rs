//! XDataSlice: planar slices of a data set that does not fit in memory, as in Tomkins, Patterson, Gibson, "A
//! Trace-Driven Comparison of Algorithms for Multi-Process Prefetching and Caching", CMU-CS-96-174.
//!
//! The trace is lost; what is published is that 25 slices of a volume of 64 MB take 32,371 reads of 5,853
//! distinct blocks of 8 KB. Here the volume is 256 planes of 32 blocks, and a slice cuts all planes: the
//! blocks of one of its rows lie 32 apart. A slice of more than one picture row to a block reads them again,
//! `row` blocks further on.

use std::io;

use super::settings::Settings;
use super::stream::{Parameter, Script};

/// Blocks of the volume: planes, and blocks of a plane.
const PLANES: u64 = 256;
const PLANE_BLOCKS: u64 = 32;

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::count("slices", 25, "slices of the volume, at most 32"),
    Parameter::count("reads", 32_371, "reads of all slices"),
    Parameter::count("distinct", 5_853, "distinct blocks of all slices, at most 256 a slice"),
    Parameter::count("row", 256, "blocks read before the first of them is read again; 1 for at once"),
    Parameter::count("runs", 1, "times the whole is done, each time with another volume"),
    super::hinted::COMPUTE_MS_XDS,
    super::hinted::HINTED,
];

/// The blocks of the stream, in order.
pub(super) fn blocks(settings: &Settings, script: &mut Script<'_>) -> Vec<u64> {
    let slices = settings.count("slices").min(PLANE_BLOCKS);
    let part = |number: u64, whole: u64| number * whole / slices;
    let mut blocks = Vec::new();
    for run in 0..settings.count("runs") {
        let mut places: Vec<u64> = (0..PLANE_BLOCKS).collect();
        script.random.shuffle(&mut places);
        for slice in 0..slices {
            let distinct =
                part(slice + 1, settings.count("distinct")) - part(slice, settings.count("distinct"));
            let reads = part(slice + 1, settings.count("reads")) - part(slice, settings.count("reads"));
            let distinct = distinct.clamp(1, PLANES);
            let first = script.random.below(PLANES - distinct + 1);
            let place = run * PLANES * PLANE_BLOCKS + places[slice as usize];
            let block = |plane: u64| place + (first + plane) * PLANE_BLOCKS;
            blocks.extend(row_by_row(distinct, reads, settings.count("row")).map(block));
        }
    }
    blocks
}

/// `reads` reads of the blocks `0..distinct`, `row` of them at a time, again and again.
fn row_by_row(distinct: u64, reads: u64, row: u64) -> impl Iterator<Item = u64> {
    let read_before = move |block: u64| block * reads / distinct;
    (0..distinct).step_by(row as usize).flat_map(move |first| {
        let end = (first + row).min(distinct);
        (0..read_before(end) - read_before(first)).map(move |read| first + read % (end - first))
    })
}

pub(super) fn slices(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    super::hinted::begin(settings, script)?;
    let blocks = blocks(settings, script);
    blocks.into_iter().try_for_each(|block| script.access(block, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::{self, Advice};
    use crate::trace::Item;
    use std::collections::HashSet;

    fn accessed(set: &[&str]) -> Vec<u64> {
        let items = streams::items("xds", set, Advice::None, 1);
        items
            .into_iter()
            .filter_map(|item| match item {
                Item::Access(reference) => Some(reference.block),
                Item::Directive(_) => None,
            })
            .collect()
    }

    #[test]
    fn reads_and_blocks_are_those_published() {
        for row in ["row=1", "row=32", "row=256"] {
            let blocks = accessed(&[row]);
            let distinct: HashSet<u64> = blocks.iter().copied().collect();
            assert_eq!((blocks.len(), distinct.len()), (32_371, 5_853), "{row}");
            assert!(distinct.iter().all(|block| *block < 8_192));
        }
        let three: HashSet<u64> = accessed(&["runs=3"]).into_iter().collect();
        assert_eq!(three.len(), 3 * 5_853);
    }

    #[test]
    fn a_block_is_read_again_a_row_later() {
        let blocks = accessed(&["row=32"]);
        assert_eq!(blocks[0], blocks[32]);
        assert_eq!(blocks[1], blocks[0] + 32);
        let at_once = accessed(&["row=1"]);
        assert_eq!(at_once[0], at_once[1]);
        assert_eq!(row_by_row(3, 7, 2).collect::<Vec<_>>(), [0, 1, 0, 1, 2, 2, 2]);
    }
}
