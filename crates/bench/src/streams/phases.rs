//! Interleaved streams whose patterns change every few thousand accesses, so that a policy that learns has to
//! unlearn. Blocks are numbered from 1.

use std::io;

use super::settings::Settings;
use super::stream::{Script, Stream};
use crate::random::{Permutation, Random, Weighted};

pub(super) static ALL: &[Stream] = &[Stream {
    name: "phases",
    about: "one to four streams of changing patterns, interleaved; the seed decides everything",
    parameters: &[],
    has_smart_advice: false,
    has_foolish_advice: false,
    emit: phases,
}];

const ACCESSES: (u64, u64) = (20_000, 100_000);
const PHASE_ACCESSES: (u64, u64) = (2_000, 15_000);
const PHASE_BLOCKS: (u64, u64) = (100, 8_000);
const RUN_ACCESSES_MAX: u64 = 512;
const STREAMS_MAX: u64 = 4;
/// Exponents of Zipf's law.
const ALPHA: (f64, f64) = (0.6, 1.2);
/// The part of the blocks that are in a sliding window, or in the inner relation of a nested loop.
const PART: (f64, f64) = (0.02, 0.5);
const BURST_BLOCKS_MAX: u64 = 64;
const BURST_REPEATS: (u64, u64) = (2, 8);

fn phases(_settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let mut interleaved = Interleaved::new(&mut script.random);
    for _ in 0..interleaved.accesses {
        let step = interleaved.step(&mut script.random);
        script.access(step.block, step.site)?;
    }
    Ok(())
}

/// One to four streams that take turns.
struct Interleaved {
    /// Accesses of the whole trace.
    accesses: u64,
    /// The most accesses that one stream makes in a row.
    run_max: u64,
    /// Whether each stream has a call site of its own.
    has_sites: bool,
    /// The current phase of each stream.
    streams: Vec<Phase>,
    /// The stream whose turn it is, and how many accesses it makes before the next turn.
    running: usize,
    run_left: u64,
    /// The ranges of blocks that phases have had: the first block and the number of blocks.
    ranges: Vec<(u64, u64)>,
}

/// An access, by its block and its call site.
struct Step {
    block: u64,
    site: u32,
}

impl Interleaved {
    fn new(random: &mut Random) -> Self {
        let accesses = between(random, ACCESSES);
        let run_max = logarithmic(random, (1, RUN_ACCESSES_MAX));
        let has_sites = random.chance(0.5);
        let mut ranges = Vec::new();
        let count = 1 + random.below(STREAMS_MAX);
        let streams = (0..count).map(|_| Phase::draw(random, &mut ranges)).collect();
        Self { accesses, run_max, has_sites, streams, running: 0, run_left: 0, ranges }
    }

    fn step(&mut self, random: &mut Random) -> Step {
        if self.run_left == 0 {
            self.running = random.below(self.streams.len() as u64) as usize;
            self.run_left = 1 + random.below(self.run_max);
        }
        self.run_left -= 1;
        let phase = &mut self.streams[self.running];
        if phase.done == phase.accesses {
            *phase = Phase::draw(random, &mut self.ranges);
        }
        let site = if self.has_sites { self.running as u32 + 1 } else { 1 };
        Step { block: phase.next_block(random), site }
    }
}

/// One pattern over one range of blocks.
struct Phase {
    pattern: Pattern,
    first: u64,
    blocks: u64,
    accesses: u64,
    done: u64,
}

impl Phase {
    /// Draws a phase. Half of the phases have new blocks; the others begin at the first block of an earlier
    /// phase.
    fn draw(random: &mut Random, ranges: &mut Vec<(u64, u64)>) -> Self {
        let accesses = between(random, PHASE_ACCESSES);
        let blocks = logarithmic(random, PHASE_BLOCKS);
        let fresh = ranges.iter().map(|(first, blocks)| first + blocks).max().unwrap_or(1);
        let is_fresh = ranges.is_empty() || random.chance(0.5);
        let first = if is_fresh { fresh } else { ranges[random.below(ranges.len() as u64) as usize].0 };
        ranges.push((first, blocks));
        Self { pattern: Pattern::draw(random, blocks), first, blocks, accesses, done: 0 }
    }

    fn next_block(&mut self, random: &mut Random) -> u64 {
        let offset = self.pattern.offset(random, self.blocks, self.done, self.accesses);
        self.done += 1;
        self.first + offset
    }
}

/// Which block comes next.
enum Pattern {
    Loop,
    Zipf(Weighted, Permutation),
    Uniform,
    /// Each block one or more times in a row, and never again.
    Scan,
    /// Uniform in a window of this many blocks that slides over all blocks once.
    SlidingWindow(u64),
    /// Forwards and backwards.
    Sawtooth,
    /// A block of the outer relation, then the whole inner one, which has this many blocks.
    NestedLoop(u64),
    /// Some consecutive blocks several times over, then others.
    Bursts(Burst),
}

impl Pattern {
    fn draw(random: &mut Random, blocks: u64) -> Self {
        match random.below(8) {
            0 => Self::Loop,
            1 => {
                let alpha = ALPHA.0 + (ALPHA.1 - ALPHA.0) * random.unit();
                Self::Zipf(Weighted::zipf(blocks, alpha), Permutation::new(blocks, random.bits()))
            }
            2 => Self::Uniform,
            3 => Self::Scan,
            4 => Self::SlidingWindow(part(random, blocks)),
            5 => Self::Sawtooth,
            6 => Self::NestedLoop(part(random, blocks)),
            _ => Self::Bursts(Burst::default()),
        }
    }

    /// The block, below `blocks`, of the access with number `done` of `accesses`.
    fn offset(&mut self, random: &mut Random, blocks: u64, done: u64, accesses: u64) -> u64 {
        match self {
            Self::Loop => done % blocks,
            Self::Zipf(ranks, places) => places.apply(ranks.draw(random)),
            Self::Uniform => random.below(blocks),
            Self::Scan => done / accesses.div_ceil(blocks),
            Self::SlidingWindow(window) => {
                let slid = done * (blocks - *window + 1) / accesses;
                slid + random.below(*window)
            }
            Self::Sawtooth => {
                let period = 2 * blocks - 2;
                let at = done % period;
                at.min(period - at)
            }
            Self::NestedLoop(inner) => {
                let (round, at) = (done / (*inner + 1), done % (*inner + 1));
                if at == 0 { *inner + round % (blocks - *inner) } else { at - 1 }
            }
            Self::Bursts(burst) => burst.offset(random, blocks),
        }
    }
}

/// A group of consecutive blocks that is read several times.
#[derive(Default)]
struct Burst {
    first: u64,
    blocks: u64,
    done: u64,
    accesses: u64,
}

impl Burst {
    fn offset(&mut self, random: &mut Random, blocks: u64) -> u64 {
        if self.done == self.accesses {
            self.blocks = 1 + random.below(BURST_BLOCKS_MAX);
            self.first = random.below(blocks - self.blocks + 1);
            self.accesses = self.blocks * between(random, BURST_REPEATS);
            self.done = 0;
        }
        self.done += 1;
        self.first + (self.done - 1) % self.blocks
    }
}

/// A number in a range, ends included, each equally likely.
fn between(random: &mut Random, (least, most): (u64, u64)) -> u64 {
    least + random.below(most - least + 1)
}

/// A number in a range, ends included, whose logarithm is uniform.
fn logarithmic(random: &mut Random, (least, most): (u64, u64)) -> u64 {
    let drawn = (least as f64) * ((most + 1) as f64 / least as f64).powf(random.unit());
    (drawn as u64).min(most)
}

/// A number of blocks, at least 1 and below `blocks`. `blocks` is at least the least of [`PHASE_BLOCKS`].
fn part(random: &mut Random, blocks: u64) -> u64 {
    ((PART.0 + (PART.1 - PART.0) * random.unit()) * blocks as f64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::mem::discriminant;

    use super::*;
    use crate::streams::{Advice, items};
    use crate::trace::Item;

    const SEEDS: u64 = 40;

    #[test]
    fn the_seed_decides_everything() {
        let stream = |seed| items("phases", &[], Advice::None, seed);
        assert_eq!(stream(7), stream(7));
        assert_ne!(stream(7), stream(8));
    }

    #[test]
    fn every_pattern_occurs_and_all_ranges_hold() {
        let mut patterns = HashSet::new();
        let (mut stream_counts, mut sites) = (HashSet::new(), HashSet::new());
        for seed in 0..SEEDS {
            let mut random = Random::new(seed);
            let mut interleaved = Interleaved::new(&mut random);
            assert!((ACCESSES.0..=ACCESSES.1).contains(&interleaved.accesses));
            assert!((1..=RUN_ACCESSES_MAX).contains(&interleaved.run_max));
            stream_counts.insert(interleaved.streams.len());
            for _ in 0..interleaved.accesses {
                let step = interleaved.step(&mut random);
                let phase = &interleaved.streams[interleaved.running];
                patterns.insert(discriminant(&phase.pattern));
                assert!((PHASE_ACCESSES.0..=PHASE_ACCESSES.1).contains(&phase.accesses));
                assert!((PHASE_BLOCKS.0..=PHASE_BLOCKS.1).contains(&phase.blocks));
                assert!((phase.first..phase.first + phase.blocks).contains(&step.block));
                sites.insert(step.site);
            }
        }
        assert_eq!(patterns.len(), 8);
        assert_eq!(stream_counts, HashSet::from([1, 2, 3, 4]));
        assert_eq!(sites, HashSet::from([1, 2, 3, 4]));
    }

    #[test]
    fn streams_have_a_site_each_or_one_for_all() {
        let sites = |seed| -> HashSet<u32> {
            let of = |item| match item {
                Item::Access(reference) => reference.site,
                Item::Directive(directive) => panic!("{directive:?}"),
            };
            items("phases", &[], Advice::None, seed).into_iter().map(of).collect()
        };
        for seed in 0..8 {
            let interleaved = Interleaved::new(&mut Random::new(seed));
            let expected = if interleaved.has_sites { interleaved.streams.len() } else { 1 };
            assert_eq!(sites(seed).len(), expected, "seed {seed}");
        }
    }

    fn offsets(mut pattern: Pattern, blocks: u64, accesses: u64) -> Vec<u64> {
        let mut random = Random::new(1);
        (0..accesses).map(|done| pattern.offset(&mut random, blocks, done, accesses)).collect()
    }

    #[test]
    fn patterns_are_what_their_names_say() {
        assert_eq!(offsets(Pattern::Loop, 3, 7), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(offsets(Pattern::Scan, 4, 7), [0, 0, 1, 1, 2, 2, 3]);
        assert_eq!(offsets(Pattern::Sawtooth, 3, 7), [0, 1, 2, 1, 0, 1, 2]);
        assert_eq!(offsets(Pattern::NestedLoop(2), 4, 9), [2, 0, 1, 3, 0, 1, 2, 0, 1]);
        let slid = offsets(Pattern::SlidingWindow(5), 100, 960);
        assert!(slid[..10].iter().all(|offset| *offset < 5) && slid[950..].iter().all(|at| *at >= 95));
        let bursts = offsets(Pattern::Bursts(Burst::default()), 1000, 5000);
        let repeated = bursts.iter().collect::<HashSet<_>>().len();
        assert!(repeated * 2 <= bursts.len(), "each block of a burst is read twice or more");
    }
}
