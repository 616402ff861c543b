//! XDataSlice: planar slices of a data set that does not fit in memory, as in Tomkins, Patterson, Gibson, "A
//! Trace-Driven Comparison of Algorithms for Multi-Process Prefetching and Caching", CMU-CS-96-174.
//!
//! The trace is lost. It is published that 25 slices of a volume of 64 MB take 32,371 reads of 5,853 distinct
//! blocks of 8 KB. Here the volume is 256 planes of 32 blocks. A slice has blocks in consecutive planes, so
//! consecutive reads are about 32 blocks apart. A block holds several rows of the picture, so a slice reads
//! it several times, each time after `row` blocks.
//!
//! How slices lie is not published. By default each has about 234 blocks of its own, one in each of as many
//! planes. With `crossing=1` slices are random planes through the whole volume, each from a random height in
//! the first plane to one in the last, and have blocks of earlier slices. How high a slice is then follows
//! from the number of distinct blocks. With the defaults it has 400 to 600 blocks, about half of them blocks
//! of earlier slices.

use std::io;

use super::settings::{Parameter, Settings};
use super::stream::Script;
use crate::random::Random;

/// The size of the volume: the number of planes, and of blocks in a plane.
const PLANES: u64 = 256;
const PLANE_BLOCKS: u64 = 32;

pub(super) const CROSSING: Parameter = Parameter {
    name: "crossing",
    default: 0.0,
    min: 0.0,
    max: 1.0,
    whole: true,
    about: "1 if slices are random planes, which cross; 0 if each has blocks of its own",
};

/// A slice that is a plane through the volume: its height in the first plane of the volume and in the last,
/// in blocks, and how many reads it takes.
struct Plane {
    begin: f64,
    end: f64,
    reads: u64,
}

impl Plane {
    /// The blocks of the slice's reads, in order. From its first row to its last the slice rises by `height`
    /// blocks.
    fn blocks(&self, height: f64, row: u64) -> impl Iterator<Item = u64> {
        let times = self.reads.div_ceil(PLANES).max(1);
        let reads = row_by_row(PLANES, self.reads, row);
        reads.map(move |(plane, time)| self.block(plane, height * time as f64 / times as f64))
    }

    /// The block of `plane` that is `above` blocks over the slice's first row.
    fn block(&self, plane: u64, above: f64) -> u64 {
        let along = plane as f64 / (PLANES - 1) as f64;
        let height = self.begin + (self.end - self.begin) * along + above;
        plane * PLANE_BLOCKS + (height as u64).min(PLANE_BLOCKS - 1)
    }
}

/// The blocks of the stream, in order.
pub(super) fn blocks(settings: &Settings, script: &mut Script<'_>) -> io::Result<Vec<u64>> {
    let reads = settings.count("reads").saturating_mul(settings.count("runs"));
    settings.room("reads", reads, size_of::<u64>())?;
    let slices = if settings.count("crossing") == 1 { crossing_slices } else { slices_apart };
    let runs = 0..settings.count("runs");
    let blocks = runs.flat_map(|run| {
        let volume = run * PLANES * PLANE_BLOCKS;
        slices(settings, &mut script.random).into_iter().map(move |block| volume + block)
    });
    Ok(blocks.collect())
}

/// How many of `whole` belong to the slice with this number, if they are divided among `slices`.
fn part(number: u64, slices: u64, whole: u64) -> u64 {
    (number + 1) * whole / slices - number * whole / slices
}

/// The reads of slices that have no block in common, one slice after the other.
fn slices_apart(settings: &Settings, random: &mut Random) -> Vec<u64> {
    let slices = settings.count("slices").min(PLANE_BLOCKS);
    let mut places: Vec<u64> = (0..PLANE_BLOCKS).collect();
    random.shuffle(&mut places);
    let mut blocks = Vec::new();
    for slice in 0..slices {
        let reads = part(slice, slices, settings.count("reads"));
        let distinct = part(slice, slices, settings.count("distinct")).clamp(1, PLANES);
        let first = random.below(PLANES - distinct + 1);
        let block = |plane: u64| places[slice as usize] + (first + plane) * PLANE_BLOCKS;
        blocks.extend(row_by_row(distinct, reads, settings.count("row")).map(|(plane, _)| block(plane)));
    }
    blocks
}

/// The reads of slices that are random planes, one slice after the other.
fn crossing_slices(settings: &Settings, random: &mut Random) -> Vec<u64> {
    let slices = settings.count("slices");
    let drawn = (0..slices).map(|number| Plane {
        begin: random.unit() * PLANE_BLOCKS as f64,
        end: random.unit() * PLANE_BLOCKS as f64,
        reads: part(number, slices, settings.count("reads")),
    });
    let drawn: Vec<Plane> = drawn.collect();
    let height = height_for(settings.count("distinct"), &drawn);
    drawn.iter().flat_map(|slice| slice.blocks(height, settings.count("row"))).collect()
}

/// `reads` reads of the blocks `0..distinct`. The blocks are read in rows of `row`, and each row several
/// times before the next. Each read is given with how often its block was read before.
fn row_by_row(distinct: u64, reads: u64, row: u64) -> impl Iterator<Item = (u64, u64)> {
    let read_before = move |block: u64| block * reads / distinct;
    (0..distinct).step_by(row as usize).flat_map(move |first| {
        let end = (first + row).min(distinct);
        (0..read_before(end) - read_before(first))
            .map(move |read| (first + read % (end - first), read / (end - first)))
    })
}

/// The height at which the slices have `distinct` distinct blocks together, or a number as near to it as
/// possible.
fn height_for(distinct: u64, slices: &[Plane]) -> f64 {
    let (mut low, mut high) = (0.0, PLANE_BLOCKS as f64);
    // 45 halvings of 32 blocks: heights that differ by less than 2^-40 of a block count as equal.
    for _ in 0..45 {
        let height = (low + high) / 2.0;
        match distinct_blocks(slices, height) {
            found if found < distinct => low = height,
            found if found > distinct => high = height,
            _ => return height,
        }
    }
    low
}

fn distinct_blocks(slices: &[Plane], height: f64) -> u64 {
    let mut is_read = vec![false; (PLANES * PLANE_BLOCKS) as usize];
    for block in slices.iter().flat_map(|slice| slice.blocks(height, PLANES)) {
        is_read[block as usize] = true;
    }
    is_read.iter().filter(|is_read| **is_read).count() as u64
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
        for set in ["row=1", "row=32", "row=256", "crossing=1"] {
            let blocks = accessed(&[set]);
            let distinct: HashSet<u64> = blocks.iter().copied().collect();
            assert_eq!((blocks.len(), distinct.len()), (32_371, 5_853), "{set}");
            assert!(distinct.iter().all(|block| *block < 8_192));
        }
        for crossing in ["crossing=0", "crossing=1"] {
            let three: HashSet<u64> = accessed(&["runs=3", crossing]).into_iter().collect();
            assert_eq!(three.len(), 3 * 5_853);
        }
    }

    #[test]
    fn a_block_is_read_again_a_row_later() {
        let blocks = accessed(&["row=32"]);
        assert_eq!(blocks[0], blocks[32]);
        assert_eq!(blocks[1], blocks[0] + 32);
        let at_once = accessed(&["row=1"]);
        assert_eq!(at_once[0], at_once[1]);
        let reads: Vec<u64> = row_by_row(3, 7, 2).map(|(block, _)| block).collect();
        assert_eq!(reads, [0, 1, 0, 1, 2, 2, 2]);
    }

    /// The number of reads at each stack distance: the number of other blocks read since the block was read
    /// last.
    fn distances(blocks: &[u64]) -> Vec<u64> {
        let (mut stack, mut counts) = (Vec::new(), vec![0; 8_192]);
        for block in blocks {
            if let Some(at) = stack.iter().rev().position(|other| other == block) {
                counts[at] += 1;
                stack.remove(stack.len() - 1 - at);
            }
            stack.push(*block);
        }
        counts
    }

    /// Slices that do not cross read no block again after more than a row. Slices that cross do, at all
    /// distances.
    #[test]
    fn slices_that_cross_have_blocks_of_earlier_ones() {
        let again = |crossing: &str| {
            let counts = distances(&accessed(&[crossing]));
            [0..100, 100..512, 512..1_280, 1_280..8_192].map(|range| counts[range].iter().sum::<u64>())
        };
        assert_eq!(again("crossing=0"), [0, 32_371 - 5_853, 0, 0]);
        let [at_once, a_row_later, in_the_cache, beyond] = again("crossing=1");
        assert_eq!(at_once + a_row_later + in_the_cache + beyond, 32_371 - 5_853);
        assert!(at_once < 100 && a_row_later > 20_000, "{at_once}, {a_row_later}");
        assert!(in_the_cache > 500 && beyond > 2_000, "{in_the_cache}, {beyond}");
    }
}
