//! Charts of part A: block I/Os over sizes, and the ReadN table.

use anyhow::Result;

use super::programs::{LRU, LRU_SP, items};
use super::read_n::{READ_N, READ_N_ROWS, read_n_by_turns};
use crate::experiments::experiment::Context;
use crate::output::plot::{self, Bars, Curves, Series};
use crate::simulate::{self, NextUses, Policy, Setup};
use crate::streams::Advice;
use crate::trace::Trace;

/// Block I/Os of four programs over sizes, and the ReadN table beside the published one.
///
/// # Errors
///
/// If a simulation cannot be carried out.
pub fn charts(context: &Context) -> Result<Vec<String>> {
    let mut charts = Vec::new();
    for name in ["cs1", "cs2", "gli", "sort"] {
        charts.push(plot::curves(&curves_alone(name, context.seed)?));
    }
    charts.push(plot::bars(&read_n_bars()?));
    Ok(charts)
}

fn curves_alone(name: &str, seed: u64) -> Result<Curves> {
    const FRAMES: [u32; 9] = [256, 512, 819, 1024, 1280, 1536, 2048, 2560, 3072];
    let oblivious = Trace::of(name, items(name, Advice::None, seed));
    let smart = Trace::of(name, items(name, Advice::Smart, seed));
    let next_uses = NextUses::in_memory(&oblivious)?;
    let series = |name: &str, trace: &Trace, policy: Policy| -> Result<Series> {
        let point = |&frames: &u32| -> Result<(f64, f64)> {
            let misses = simulate::misses(trace, policy, &Setup::frames(frames), Some(&next_uses))?;
            Ok((f64::from(frames), misses as f64))
        };
        let points = FRAMES.iter().map(point).collect::<Result<_>>()?;
        Ok(Series { name: name.to_owned(), points, is_bound: policy == Policy::Opt })
    };
    Ok(Curves {
        title: format!("{name}: block I/Os over cache size"),
        x: "frames".to_owned(),
        y: "block I/Os".to_owned(),
        series: vec![
            series("lru", &oblivious, LRU)?,
            series("smart, lru-sp", &smart, LRU_SP)?,
            series("opt", &oblivious, Policy::Opt)?,
        ],
    })
}

fn read_n_bars() -> Result<Bars> {
    let names = READ_N_ROWS
        .iter()
        .flat_map(|row| [format!("{} published", row.short), format!("{} ours", row.short)]);
    let group = |(number, n): (usize, u64)| -> Result<(String, Vec<f64>)> {
        let mut values = Vec::new();
        for row in &READ_N_ROWS {
            let ours = read_n_by_turns(n, row.advice, row.policy, false)?.counts[&0].misses();
            values.extend([row.reads[number], ours as f64]);
        }
        Ok((format!("Read{n}"), values))
    };
    Ok(Bars {
        title: "ReadN next to Read300: block I/Os".to_owned(),
        names: names.collect(),
        groups: READ_N.into_iter().enumerate().map(group).collect::<Result<_>>()?,
    })
}
