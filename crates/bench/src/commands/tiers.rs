//! `bufbench tiers`: a pool with a tier below it, compared with the same pool without one in alternating
//! rounds.

use std::time::Duration;

use anyhow::Result;
use bufpool::Io;
use clap::{Args, ValueEnum};

use super::comparison_table::{COLUMNS, row};
use super::data_folder::DataFolder;
use crate::cli::{Common, whole};
use crate::measure::comparison::Comparison;
use crate::measure::tiers::{Effort, compressed, demotions, hits, pays, wasted};
use crate::output::Table;
use crate::rounds::ROUNDS;
use crate::workload::Sizes;

/// The longest round or warm-up that can be asked for, in seconds.
const SECONDS_MAX: f64 = 600.0;

/// Arguments of `bufbench tiers`.
#[derive(Args, Clone, Debug)]
pub struct TiersArgs {
    /// Only one part
    #[arg(long, value_enum)]
    pub only: Option<Part>,
    /// Rounds of each side; the median counts
    #[arg(long, default_value_t = ROUNDS, value_parser = rounds)]
    pub rounds: usize,
    /// Seconds that a round without a tier takes, about
    #[arg(long, default_value = "1", value_parser = seconds)]
    pub seconds: Duration,
    /// Seconds of reads before the first round
    #[arg(long, default_value = "1", value_parser = seconds)]
    pub warm_up: Duration,
    /// Tuples of the relation in which keys are looked up
    #[arg(long, default_value_t = Sizes::DEFAULT.tuples, value_parser = whole::<u64>(20_000..=1 << 29))]
    pub tuples: u64,
}

/// A part of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Part {
    /// Tiers that do not pay: slow, never hit, refusing, dead or stuck
    Wasted,
    /// A tier in a file above a source of 5 ms
    Pays,
    /// Half of the memory as a compressed tier
    Compressed,
    /// What a hit takes
    Hits,
    /// What a question and a demotion cost a miss
    Demotions,
}

/// Measures and prints the table.
///
/// # Errors
/// If the folder for data files cannot be made, the pool fails, or a page is wrong.
pub fn run(args: &TiersArgs, common: &Common) -> Result<()> {
    let folder = DataFolder::new(common)?;
    let effort =
        Effort { rounds: args.rounds, round: args.seconds, warm_up: args.warm_up, seed: common.seed };
    let mut table = Table::new(COLUMNS);
    let mut push = |found: Vec<Comparison>| found.iter().for_each(|of| table.push(row(of)));
    for part in Part::value_variants() {
        if args.only.is_none_or(|only| only == *part) {
            push(match part {
                Part::Wasted => wasted(effort)?,
                Part::Pays => pays(folder.path(), folder.direct(), effort)?,
                Part::Compressed => {
                    let database = folder.database("lookups", Sizes { tuples: args.tuples }, Io::Auto)?;
                    compressed(&database, args.rounds, common.seed)?
                }
                Part::Hits => hits(folder.path(), folder.direct(), effort)?,
                Part::Demotions => demotions(effort)?,
            });
        }
    }
    table.print(common.format)
}

fn rounds(text: &str) -> Result<usize, String> {
    let rounds = text.parse().ok().filter(|rounds| (1..=1000).contains(rounds));
    rounds.ok_or_else(|| "expected a number of rounds from 1 to 1000".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0 && *seconds <= SECONDS_MAX);
    let seconds = seconds.map(Duration::from_secs_f64);
    seconds.ok_or_else(|| format!("expected a number of seconds above 0, at most {SECONDS_MAX}"))
}
