//! The points that programs are graded at: traces at sizes, each with the misses of the best of four
//! well-known policies.

use bufpool_policies::Allocation;
use bufpool_policies::classic::PolicyKind;
use bufpool_policies::program::Program;

use super::SearchError;
use crate::parallel;
use crate::random::mix;
use crate::simulate::{Policy, Setup, SimError, misses};
use crate::trace::{Act, Batch, Directive, Item, Reference, Replay, Trace};

/// The policies that a program is compared with: the best of them at each point.
pub const OPPONENTS: [PolicyKind; 4] =
    [PolicyKind::Fifo, PolicyKind::Lru, PolicyKind::S3Fifo, PolicyKind::Sieve];

/// About the most accesses of a sample.
const SAMPLE_ACCESSES: u64 = 60_000;

/// A program is not played at the remaining points if its grade over the first third of them is above the
/// limit by more than this factor.
const HOPELESS: f64 = 1.05;

/// A trace at a size.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The number of the trace.
    pub trace: usize,
    /// Frames of the cache.
    pub frames: u32,
    /// Misses of the best of [`OPPONENTS`].
    pub best_of_four: u64,
}

/// Traces at sizes.
#[derive(Debug)]
pub struct Points {
    traces: Vec<Trace>,
    points: Vec<Point>,
    /// The seed of the random numbers that programs draw.
    seed: u64,
}

impl Points {
    /// Points from traces and sizes: each of `sized` is the number of a trace, and a number of frames, at
    /// least
    /// 1. Plays each of [`OPPONENTS`] at each point, on at most `jobs` threads.
    ///
    /// # Errors
    ///
    /// If there are no traces or no sizes, a trace has no accesses, or one cannot be played.
    ///
    /// # Panics
    ///
    /// If `sized` has the number of no trace.
    pub fn new(
        traces: Vec<Trace>,
        sized: &[(usize, u32)],
        seed: u64,
        jobs: usize,
    ) -> Result<Self, SearchError> {
        if sized.is_empty() && !traces.is_empty() {
            return Err(SearchError::NoSizes);
        }
        if traces.is_empty() {
            return Err(SearchError::NoTraces);
        }
        if let Some(empty) = traces.iter().find(|trace| trace.accesses() == 0) {
            return Err(SearchError::Empty(empty.path().to_owned()));
        }
        let points = parallel::map(sized.len(), jobs, |number| {
            let (trace, frames) = sized[number];
            let of = |kind| misses(&traces[trace], Policy::OneLevel(kind), &Setup::frames(frames), None);
            let counts: Vec<u64> = OPPONENTS.into_iter().map(of).collect::<Result<_, _>>()?;
            let best_of_four = counts.into_iter().min().unwrap_or(0);
            Ok(Point { trace, frames, best_of_four })
        });
        let points = points.into_iter().collect::<Result<_, SimError>>()?;
        Ok(Self { traces, points, seed })
    }

    /// The same points, with samples in place of the traces that have many accesses. `None` if no trace has.
    ///
    /// # Errors
    ///
    /// If a trace cannot be played.
    pub fn samples(&self, jobs: usize) -> Result<Option<Self>, SearchError> {
        let one_in = |trace: &Trace| trace.accesses().div_ceil(SAMPLE_ACCESSES).max(1);
        let rates: Vec<u64> = self.traces.iter().map(one_in).collect();
        if rates.iter().all(|rate| *rate == 1) {
            return Ok(None);
        }
        let sampled = self.traces.iter().zip(rates).map(|(trace, rate)| sample_or_all(trace, rate));
        let (traces, rates): (Vec<Trace>, Vec<u64>) =
            sampled.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let reduced = |point: &Point| {
            let rate = rates[point.trace];
            let frames = (u64::from(point.frames) + rate / 2) / rate;
            (point.trace, frames.max(1) as u32)
        };
        let sized: Vec<_> = self.points.iter().map(reduced).collect();
        Self::new(traces, &sized, self.seed, jobs).map(Some)
    }

    /// The points.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The name in results of the trace with this number.
    pub fn trace_name(&self, trace: usize) -> &str {
        self.traces[trace].name()
    }

    /// The program's misses at a point.
    fn misses_at(&self, program: &Program, point: &Point) -> Result<u64, SimError> {
        let setup = Setup { seed: self.seed, program: Some(program.clone()), ..Setup::frames(point.frames) };
        misses(&self.traces[point.trace], Policy::Program(Allocation::LruSp), &setup, None)
    }

    /// The program's misses at each point.
    ///
    /// # Errors
    ///
    /// If a trace cannot be played.
    pub fn misses(&self, program: &Program, jobs: usize) -> Result<Vec<u64>, SearchError> {
        let counts =
            parallel::map(self.points.len(), jobs, |number| self.misses_at(program, &self.points[number]));
        Ok(counts.into_iter().collect::<Result<_, _>>()?)
    }

    /// The grade of a program with these misses at the points.
    pub fn grade_of(&self, misses: &[u64]) -> f64 {
        let logarithms = self.points.iter().zip(misses).map(|(point, misses)| point.logarithm(*misses));
        (logarithms.sum::<f64>() / self.points.len() as f64).exp()
    }

    /// The grade of a program. Infinity, without playing the remaining points, if the grade over the first
    /// third of the points is far above `limit`.
    ///
    /// # Errors
    ///
    /// If a trace cannot be played.
    pub fn grade(&self, program: &Program, limit: f64) -> Result<f64, SearchError> {
        let mut sum = 0.0;
        for (number, point) in self.points.iter().enumerate() {
            if number > 0 && number == self.points.len() / 3 {
                let so_far = (sum / number as f64).exp();
                if so_far > limit * HOPELESS {
                    return Ok(f64::INFINITY);
                }
            }
            sum += point.logarithm(self.misses_at(program, point)?);
        }
        Ok((sum / self.points.len() as f64).exp())
    }
}

impl Point {
    /// The logarithm of the ratio of `misses` to those of the best of the four. Each trace has accesses, so
    /// neither count is 0.
    fn logarithm(&self, misses: u64) -> f64 {
        (misses as f64 / self.best_of_four as f64).ln()
    }
}

/// A sample of the trace, and its rate; with rate 1 where the sample would have no accesses.
fn sample_or_all(trace: &Trace, rate: u64) -> Result<(Trace, u64), SearchError> {
    let sampled = sample(trace, rate)?;
    if sampled.accesses() > 0 { Ok((sampled, rate)) } else { Ok((sample(trace, 1)?, 1)) }
}

/// A trace of the accesses to one in `rate` of the blocks, chosen by a hash of the block number, and of all
/// directives except pins, and creations of other blocks.
fn sample(trace: &Trace, rate: u64) -> Result<Trace, SearchError> {
    let mut sampler = Sampler { trace, rate, items: Vec::new() };
    trace.replay(&mut sampler)?;
    Ok(Trace::of(trace.name(), sampler.items))
}

struct Sampler<'a> {
    trace: &'a Trace,
    rate: u64,
    items: Vec<Item>,
}

impl Replay for Sampler<'_> {
    type Error = SimError;

    fn batch(&mut self, batch: Batch<'_>) -> Result<(), SimError> {
        let value = |column: &[u32], at: usize, values: &[u64]| -> u32 {
            let number = column.get(at).copied().unwrap_or(0);
            // Sites and tenants have 32 bits in the file.
            values[number as usize] as u32
        };
        for (at, number) in batch.blocks.iter().enumerate() {
            let block = self.trace.blocks()[*number as usize];
            if self.has(block) {
                let site = value(batch.sites, at, self.trace.sites());
                let tenant = value(batch.tenants, at, self.trace.tenants());
                self.items.push(Item::Access(Reference { block, site, tenant }));
            }
        }
        Ok(())
    }

    fn act(&mut self, act: Act<'_>) -> Result<(), SimError> {
        match act {
            Act::Directive(Directive::Create(block), _) if !self.has(*block) => {}
            Act::Directive(directive, _) => self.items.push(Item::Directive(directive.clone())),
            _ => {}
        }
        Ok(())
    }
}

impl Sampler<'_> {
    fn has(&self, block: u64) -> bool {
        mix(block).is_multiple_of(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn access(block: u64) -> Item {
        Item::Access(Reference { block, site: 0, tenant: 0 })
    }

    fn trace(blocks: impl IntoIterator<Item = u64>) -> Trace {
        Trace::of("t", blocks.into_iter().map(access))
    }

    #[test]
    fn a_policy_of_the_four_is_graded_one_or_above() {
        let mut random = Random::new(1);
        let traces = vec![trace((0..9000).map(|_| (random.unit().powi(3) * 300.0) as u64))];
        let sizes = [(0, 15), (0, 90)];
        let points = Points::new(traces, &sizes, 1, 2).unwrap();
        let grades: Vec<f64> = crate::search::library()
            .iter()
            .filter(|(name, _)| ["fifo", "lru", "s3-fifo", "sieve"].contains(name))
            .map(|(_, program)| points.grade_of(&points.misses(program, 2).unwrap()))
            .collect();
        assert_eq!(grades.len(), 4);
        assert!(grades.iter().all(|grade| *grade >= 1.0), "{grades:?}");
        assert!(grades.iter().any(|grade| *grade < 1.1), "{grades:?}");
        assert!(points.samples(1).unwrap().is_none(), "short traces are graded as they are");
    }

    #[test]
    fn a_sample_has_all_accesses_to_its_blocks_and_smaller_sizes() {
        let long = trace((0..200_000).map(|at| at % 5000));
        let points = Points::new(vec![long], &[(0, 500)], 1, 1).unwrap();
        let samples = points.samples(1).unwrap().expect("a long trace");
        let sampled = &samples.traces[0];
        assert_eq!(sampled.accesses(), sampled.distinct() * 40, "each block is accessed 40 times");
        assert!((1100..=1400).contains(&sampled.distinct()), "{} blocks of 5000 / 4", sampled.distinct());
        assert_eq!((points.points()[0].frames, samples.points()[0].frames), (500, 125));
    }

    #[test]
    fn a_sample_has_the_creations_of_its_blocks_and_is_never_empty() {
        let create = |block| [Item::Directive(Directive::Create(block)), access(block)];
        let created = Trace::of("t", (0..200_000).flat_map(|at| create(at % 5000)));
        let single = trace(std::iter::repeat_n(1, 100_000));
        assert!(!mix(1).is_multiple_of(2), "not sampled");
        let points = Points::new(vec![created, single], &[(0, 500), (1, 3)], 1, 1).unwrap();
        let samples = points.samples(1).unwrap().expect("long traces");
        assert_eq!(samples.traces[0].accesses(), samples.traces[0].distinct() * 40);
        assert_eq!((samples.traces[1].accesses(), samples.points()[1].frames), (100_000, 3));
    }

    #[test]
    fn what_cannot_be_graded_on_is_said() {
        let none = Points::new(Vec::new(), &[(0, 1)], 1, 1).unwrap_err();
        assert!(matches!(none, SearchError::NoTraces), "{none}");
        let no_sizes = Points::new(vec![trace([1])], &[], 1, 1).unwrap_err();
        assert!(matches!(no_sizes, SearchError::NoSizes), "{no_sizes}");
        let empty = Points::new(vec![trace([1]), trace([])], &[(0, 1), (1, 1)], 1, 1).unwrap_err();
        assert!(matches!(empty, SearchError::Empty(_)), "{empty}");
    }
}
