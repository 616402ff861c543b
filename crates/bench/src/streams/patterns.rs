//! Streams for detectors, which are substitutes for the lost streams of Zhou, von Behren, Brewer, "AMP:
//! Program Context Specific Buffer Caching", USENIX ATC '05, and a few classics. Blocks are numbered from 1.

use std::io;

use super::settings::{Parameter, Settings};
use super::stream::{Script, Stream};
use crate::random::Weighted;

const fn pattern(
    name: &'static str,
    about: &'static str,
    parameters: &'static [Parameter],
    emit: fn(&Settings, &mut Script<'_>) -> io::Result<()>,
) -> Stream {
    Stream { name, about, parameters, has_smart_advice: false, has_foolish_advice: false, emit }
}

const BLOCKS_200: Parameter = Parameter::count("blocks", 200, "distinct blocks");
const PASSES_10: Parameter = Parameter::count("passes", 10, "times the blocks are read");
const ACCESSES_2000: Parameter = Parameter::count("accesses", 2000, "accesses");

pub(super) static ALL: &[Stream] = &[
    pattern(
        "a",
        "a window that slides by one: temporal clustering",
        &[
            Parameter::count("window", 10, "blocks in the window"),
            Parameter::count("positions", 500, "positions of the window"),
        ],
        sliding_window,
    ),
    pattern(
        "a'",
        "small files, each read a few times: temporal clustering",
        &[
            Parameter::count("files", 100, "files"),
            Parameter::count("blocks", 10, "blocks a file"),
            Parameter::count("repeats", 3, "times each file is read"),
        ],
        small_files,
    ),
    pattern("b", "a loop", &[BLOCKS_200, PASSES_10], plain_loop),
    pattern(
        "c",
        "a loop in which each run of blocks is shuffled anew in each pass",
        &[BLOCKS_200, PASSES_10, Parameter::count("run", 8, "blocks shuffled among themselves")],
        loop_of_shuffled_runs,
    ),
    pattern("d", "a loop over a fixed random order", &[BLOCKS_200, PASSES_10], loop_in_random_order),
    pattern("e", "uniform random", &[BLOCKS_200, ACCESSES_2000], uniform),
    pattern("f", "linearly decreasing probability", &[BLOCKS_200, ACCESSES_2000], linear),
    pattern(
        "f'",
        "Zipf's law with exponent 1",
        &[BLOCKS_200, ACCESSES_2000, Parameter::exponent("alpha", 1.0, "exponent")],
        zipf,
    ),
    pattern("g", "blocks read once", &[Parameter::count("blocks", 2000, "distinct blocks")], once),
    pattern(
        "h",
        "a loop with a few hot blocks after each pass",
        &[BLOCKS_200, PASSES_10, Parameter::count("hot", 3, "blocks read again after each pass")],
        loop_with_hot_blocks,
    ),
    pattern("i", "all blocks in a new random order each pass", &[BLOCKS_200, PASSES_10], shuffled_passes),
    pattern("j", "forwards and backwards", &[BLOCKS_200, ACCESSES_2000], zigzag),
    pattern(
        "loop",
        "a loop",
        &[
            Parameter::count("blocks", 1000, "distinct blocks"),
            Parameter::count("passes", 10, "times the blocks are read"),
        ],
        plain_loop,
    ),
    pattern(
        "scan",
        "small files of a tree, each read three times",
        &[
            Parameter::count("files", 1000, "files"),
            Parameter::count("blocks", 10, "blocks a file"),
            Parameter::count("repeats", 3, "times each file is read"),
        ],
        small_files,
    ),
    pattern(
        "uniform",
        "uniform random",
        &[
            Parameter::count("blocks", 10_000, "distinct blocks"),
            Parameter::count("accesses", 100_000, "accesses"),
        ],
        uniform,
    ),
    pattern(
        "zipf",
        "Zipf's law; the hottest block is number 1",
        &[
            Parameter::count("blocks", 49_152, "distinct blocks"),
            Parameter::count("accesses", 540_672, "accesses"),
            Parameter::exponent("alpha", 1.0, "exponent"),
        ],
        zipf,
    ),
];

fn sliding_window(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let window = settings.count("window");
    for position in 1..=settings.count("positions") {
        (position..position + window).try_for_each(|block| script.access(block, 1))?;
    }
    Ok(())
}

fn small_files(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let blocks = settings.count("blocks");
    for file in 0..settings.count("files") {
        let first = 1 + file * blocks;
        for _ in 0..settings.count("repeats") {
            (first..first + blocks).try_for_each(|block| script.access(block, 1))?;
        }
    }
    Ok(())
}

fn plain_loop(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    for _ in 0..settings.count("passes") {
        (1..=settings.count("blocks")).try_for_each(|block| script.access(block, 1))?;
    }
    Ok(())
}

fn loop_of_shuffled_runs(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let mut blocks: Vec<u64> = (1..=settings.kept::<u64>("blocks")?).collect();
    for _ in 0..settings.count("passes") {
        for run in blocks.chunks_mut(settings.count("run") as usize) {
            script.random.shuffle(run);
        }
        blocks.iter().try_for_each(|&block| script.access(block, 1))?;
    }
    Ok(())
}

fn loop_in_random_order(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let mut blocks: Vec<u64> = (1..=settings.kept::<u64>("blocks")?).collect();
    script.random.shuffle(&mut blocks);
    for _ in 0..settings.count("passes") {
        blocks.iter().try_for_each(|&block| script.access(block, 1))?;
    }
    Ok(())
}

pub(super) fn uniform(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let blocks = settings.count("blocks");
    for _ in 0..settings.count("accesses") {
        let block = 1 + script.random.below(blocks);
        script.access(block, 1)?;
    }
    Ok(())
}

fn linear(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let blocks = settings.kept::<f64>("blocks")?;
    draw(settings, script, &Weighted::new((1..=blocks).rev().map(|weight| weight as f64)))
}

fn zipf(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    draw(settings, script, &Weighted::zipf(settings.kept::<f64>("blocks")?, settings.real("alpha")))
}

fn draw(settings: &Settings, script: &mut Script<'_>, weighted: &Weighted) -> io::Result<()> {
    for _ in 0..settings.count("accesses") {
        let block = 1 + weighted.draw(&mut script.random);
        script.access(block, 1)?;
    }
    Ok(())
}

fn once(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    (1..=settings.count("blocks")).try_for_each(|block| script.access(block, 1))
}

fn loop_with_hot_blocks(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let blocks = settings.count("blocks");
    for _ in 0..settings.count("passes") {
        (1..=blocks).try_for_each(|block| script.access(block, 1))?;
        (1..=settings.count("hot").min(blocks)).try_for_each(|block| script.access(block, 1))?;
    }
    Ok(())
}

fn shuffled_passes(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let mut blocks: Vec<u64> = (1..=settings.kept::<u64>("blocks")?).collect();
    for _ in 0..settings.count("passes") {
        script.random.shuffle(&mut blocks);
        blocks.iter().try_for_each(|&block| script.access(block, 1))?;
    }
    Ok(())
}

/// 1, 2, ..., n, n - 1, ..., 1, 2, ...
fn zigzag(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let blocks = settings.count("blocks");
    let period = (2 * blocks - 2).max(1);
    for access in 0..settings.count("accesses") {
        let phase = access % period;
        let block = if phase < blocks { 1 + phase } else { 1 + period - phase };
        script.access(block, 1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::streams::{Advice, find};
    use crate::trace::Item;

    fn blocks(name: &str, seed: u64) -> Vec<u64> {
        let stream = find(name).unwrap();
        let items = stream.items(&stream.settings(), Advice::None, seed);
        items
            .iter()
            .map(|item| match item {
                Item::Access(reference) => reference.block,
                Item::Directive(directive) => panic!("{name} gives {directive:?}"),
            })
            .collect()
    }

    /// The AMP paper's access recency, by its definition: the mean position at which a re-access finds its
    /// block in the list of blocks ordered by last access. 0 is the oldest block, 1 the newest.
    fn mean_recency(blocks: &[u64]) -> Option<f64> {
        let (mut list, mut sum, mut defined) = (Vec::new(), 0.0, 0);
        for block in blocks {
            if let Some(position) = list.iter().position(|seen| seen == block) {
                sum += if list.len() == 1 { 0.5 } else { position as f64 / (list.len() - 1) as f64 };
                defined += 1;
                list.remove(position);
            }
            list.push(*block);
        }
        (defined > 0).then(|| sum / f64::from(defined))
    }

    /// First accesses minus re-accesses, and re-accesses: the counters of PCC.
    fn first_and_again(blocks: &[u64]) -> (i64, i64) {
        let distinct = blocks.iter().collect::<std::collections::HashSet<_>>().len() as i64;
        let again = blocks.len() as i64 - distinct;
        (distinct - again, again)
    }

    #[test]
    fn each_pattern_has_the_recency_it_stands_for() {
        for (name, expected, tolerance) in [
            ("a", 0.934, 0.0005),
            ("a'", 0.952, 0.0005),
            ("b", 0.0, 0.0),
            ("c", 0.009, 0.001),
            ("d", 0.0, 0.0),
            ("e", 0.493, 0.02),
            ("f", 0.55, 0.02),
            ("f'", 0.763, 0.02),
            ("h", 0.015, 0.015),
            ("i", 0.245, 0.02),
            ("j", 0.5, 0.005),
        ] {
            let recency = mean_recency(&blocks(name, 1)).unwrap();
            assert!((recency - expected).abs() <= tolerance, "{name}: {recency} instead of {expected}");
        }
        assert_eq!(mean_recency(&blocks("g", 1)), None);
    }

    #[test]
    fn temporal_patterns_have_the_counts_that_mislead_pcc() {
        assert_eq!(first_and_again(&blocks("a", 1)), (-3982, 4491));
        assert_eq!(first_and_again(&blocks("a'", 1)), (-1000, 2000));
        assert_eq!(first_and_again(&blocks("g", 1)), (2000, 0));
    }

    #[test]
    fn the_seed_decides_what_is_random() {
        for name in ["c", "d", "e", "f", "f'", "i", "uniform", "zipf"] {
            assert_eq!(blocks(name, 1), blocks(name, 1), "{name}");
            assert_ne!(blocks(name, 1), blocks(name, 2), "{name}");
        }
    }

    #[test]
    fn the_zigzag_turns_without_repeating_its_ends() {
        let expected = (1..=200).chain((1..200).rev()).chain(2..=3);
        assert_eq!(blocks("j", 1)[..401], expected.collect::<Vec<_>>());
    }
}
