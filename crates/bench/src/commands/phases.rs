//! `bufbench phases`: policies on many streams of changing phases.

use std::str::FromStr;

use anyhow::Result;
use clap::Args;

use super::sim::Named;
use crate::cli::Common;
use crate::grade::{PhasePoint, Ratios, play_phases};
use crate::output::{Cell, Table, progress};
use crate::parallel;
use crate::simulate::Policy;
use crate::trace::Size;

/// Arguments of `bufbench phases`.
#[derive(Args, Debug)]
pub struct PhasesArgs {
    /// Seeds of the streams, FIRST..LAST with both included, or a single one
    #[arg(long, value_name = "SEEDS", default_value = "1..40")]
    pub seeds: Seeds,
    /// Policies, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAME", default_value = "auto")]
    pub policy: Vec<Named>,
    /// Cache sizes, separated by commas: frames, or shares of the distinct blocks
    #[arg(long, value_delimiter = ',', value_name = "SIZE", default_value = "3%,10%,30%,60%")]
    pub frames: Vec<Size>,
    /// A row for each point, not one for each policy
    #[arg(long)]
    pub points: bool,
}

/// A range of seeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seeds {
    first: u64,
    last: u64,
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let seeds = first.parse().ok().zip(last.parse().ok()).map(|(first, last)| Self { first, last });
        let is_range = |seeds: &Self| seeds.first <= seeds.last && seeds.last - seeds.first < SEEDS_MAX;
        seeds.filter(is_range).ok_or_else(|| {
            format!("expected a seed, or FIRST..LAST with at most {SEEDS_MAX} of them, such as 1..40")
        })
    }
}

const SEEDS_MAX: u64 = 1_000_000;

/// Points of at least this many turnovers are also summed up apart: there a policy had time to learn.
const LEARNED_TURNOVERS: f64 = 5.0;
/// A ratio of misses to those of the better of LRU and ARC that is above this counts as a loss.
const LOSS: f64 = 1.02;

const POINT_COLUMNS: [&str; 8] = ["seed", "frames", "policy", "misses", "lru", "arc", "turnovers", "ratio"];
const COLUMNS: [&str; 9] = [
    "policy",
    "points",
    "mean",
    "above_1.02",
    "worst",
    "worst_at",
    "points_from_5_turnovers",
    "above_1.02_from_5",
    "worst_from_5",
];

/// Plays the policies on the streams and prints the table.
///
/// # Errors
///
/// If a policy is not known or cannot be played.
pub fn run(args: &PhasesArgs, common: &Common) -> Result<()> {
    let policies: Vec<Policy> = args.policy.iter().map(Named::find).collect::<Result<_, _>>()?;
    let seeds = (args.seeds.last - args.seeds.first + 1) as usize;
    let bar = progress::bar("playing phases", seeds as u64, "streams");
    let points = parallel::map(seeds, common.jobs(), |number| {
        let played = play_phases(args.seeds.first + number as u64, &policies, &args.frames, common.seed);
        bar.inc(1);
        played
    });
    bar.finish_and_clear();
    let points: Vec<PhasePoint> = points.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    let table = if args.points { every_point(&points, &policies) } else { summary(&points, &policies) };
    table.print(common.format)?;
    Ok(())
}

fn every_point(points: &[PhasePoint], policies: &[Policy]) -> Table {
    let mut table = Table::new(&POINT_COLUMNS);
    for point in points {
        for (number, policy) in policies.iter().enumerate() {
            table.push(vec![
                point.seed.into(),
                u64::from(point.frames).into(),
                policy.name().into(),
                point.misses[number].into(),
                point.lru.into(),
                point.arc.into(),
                Cell::real(point.turnovers(), 1),
                Cell::Ratio(point.ratio(number)),
            ]);
        }
    }
    table
}

fn summary(points: &[PhasePoint], policies: &[Policy]) -> Table {
    let mut table = Table::new(&COLUMNS);
    for (number, policy) in policies.iter().enumerate() {
        let ratios: Ratios = points.iter().map(|point| point.ratio(number)).collect();
        let learned = points.iter().filter(|point| point.turnovers() >= LEARNED_TURNOVERS);
        let learned: Ratios = learned.map(|point| point.ratio(number)).collect();
        let worst = points.iter().max_by(|a, b| a.ratio(number).total_cmp(&b.ratio(number)));
        table.push(vec![
            policy.name().into(),
            (ratios.count() as u64).into(),
            Cell::ratio_or_empty(ratios.mean()),
            Cell::ratio_or_empty(ratios.share_above(LOSS)),
            Cell::ratio_or_empty(ratios.worst()),
            worst.map_or(Cell::Empty, |point| Cell::text(format!("{}:{}", point.seed, point.frames))),
            (learned.count() as u64).into(),
            Cell::ratio_or_empty(learned.share_above(LOSS)),
            Cell::ratio_or_empty(learned.worst()),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_one_or_a_range() {
        assert_eq!("3".parse(), Ok(Seeds { first: 3, last: 3 }));
        assert_eq!("1..40".parse(), Ok(Seeds { first: 1, last: 40 }));
        for text in ["", "..", "4..1", "1..", "x", "1..2..3", "0..1000000"] {
            assert!(text.parse::<Seeds>().unwrap_err().contains("expected a seed"), "{text}");
        }
    }

    #[test]
    fn points_of_few_turnovers_are_in_the_first_figures_only() {
        let point =
            |frames, lru, misses| PhasePoint { seed: 9, frames, lru, arc: 2000, misses: vec![misses] };
        let points = [point(100, 1000, 1010), point(500, 1000, 1200)];
        let table = summary(&points, &["auto".parse().unwrap()]);
        let row: Vec<String> = table.rows()[0].iter().map(Table::plain).collect();
        let expected =
            ["auto", "2", "1.100909", "0.500000", "1.200000", "9:500", "1", "0.000000", "1.010000"];
        assert_eq!(row, expected);
    }
}
