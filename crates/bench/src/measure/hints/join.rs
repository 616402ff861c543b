//! A block nested-loop join whose inner relation does not fit in memory: with disclosed reads and without.

use anyhow::Result;
use bufpool::HintPolicy;

use crate::measure::comparison::{Bar, Comparison};
use crate::rounds::alternate;
use crate::workload::{self, Bound, Database, Memory, RunOptions, Scheme, Table};

/// Joins with two frames for three pages of the inner relation.
///
/// # Errors
/// As the pool's; if an answer is wrong.
pub fn joins(database: &Database, seed: u64) -> Result<Vec<Comparison>> {
    let join = workload::find("block-nested-loop-join")?;
    let frames = (database.table_pages(Table::Large) * 2 / 3) as u32;
    let auto = Scheme::find("auto")?;
    let options = RunOptions { memory: Memory::Frames(frames), seed, ..RunOptions::default() };
    let run = |hints, read_ahead| {
        workload::run(join, auto, database, &RunOptions { hints, read_ahead, ..options }, None)
    };
    let rounds = alternate("block nested-loop join", || {
        let disclosed = run(HintPolicy::Auto, true)?;
        let read_ahead = run(HintPolicy::Off, true)?;
        let single = run(HintPolicy::Off, false)?;
        let again = run(HintPolicy::Off, true)?;
        Ok([disclosed, read_ahead, single, again])
    })?;
    let opt = Bound::of(join, database, &options)?.reads(frames)? as f64;
    let elapsed = |ours: usize, theirs: usize| {
        let seconds = |of: &workload::Measurement| of.elapsed.as_secs_f64();
        rounds.iter().map(|of| (seconds(&of[ours]), seconds(&of[theirs]))).collect()
    };
    let time = |work, against: &str, rounds, bar| Comparison {
        work,
        unit: "s",
        against: against.to_owned(),
        rounds,
        bar,
    };
    Ok(vec![
        Comparison {
            work: "block nested-loop join: pages read",
            unit: "pages",
            against: "OPT".to_owned(),
            rounds: rounds.iter().map(|of| (of[0].reads as f64, opt)).collect(),
            bar: Bar::AtMost(1.02),
        },
        time("block nested-loop join", "auto with read-ahead", elapsed(0, 1), Bar::AtMost(0.9)),
        time("block nested-loop join", "auto without read-ahead", elapsed(0, 2), Bar::AtMost(0.6)),
        time("the same undisclosed once more", "auto with read-ahead", elapsed(3, 1), Bar::None),
    ])
}
