//! B9: a hinted program beside an unhinted one that reads blocks again at all distances.

use anyhow::Result;
use bufpool_policies::PageId;
use bufpool_policies::hints::CostModel;
use bufpool_policies::hints::estimators::HitCurve;

use super::runs::{FRAMES, beside, on_both_disks, play, run};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};
use crate::simulate::machine::MachinePolicy::{Aggressive, Tip2};
use crate::simulate::machine::{MachineOptions, MachineOutcome};
use crate::streams::{self, Advice};
use crate::trace::Item;

/// How many draws of XDataSlice's slices B9 is run with.
const DRAWS: u64 = 20;
const UNHINTED_XDS: [&str; 2] = ["hinted=0", "crossing=1"];
/// Time between two accesses of each program in microseconds, without waits: computing, and the time of a
/// hit.
const XDS_US: f64 = 920.0 + 425.0;
const CSCOPE1_US: f64 = 800.0 + 425.0;
const CSCOPE1_BLOCKS: u64 = 1073;
/// Length of the LRU queue that is priced, in buffers: more than the 256 blocks that lie between two reads of
/// a block by one slice.
const BEHIND_A_ROW: u32 = 320;

pub(super) fn hinted_beside_unhinted(context: &Context) -> Result<Vec<Finding>> {
    on_both_disks("B9/3-12", |machine| on_disk(machine, context))
}

fn on_disk(machine: MachineOptions, context: &Context) -> Result<Vec<Finding>> {
    let mut draws = Vec::new();
    for draw in 0..DRAWS {
        let seed = context.seed + draw;
        let trace = beside([("cscope1", &[]), ("xds", &UNHINTED_XDS)], seed);
        let outcomes = play(&trace, &[run(machine, Aggressive), run(machine, Tip2)], context.jobs)?;
        draws.push(Draw::of(&outcomes, seed));
    }
    let mean = |of: fn(&Draw) -> f64| draws.iter().map(of).sum::<f64>() / DRAWS as f64;
    let prefetches = [mean(|draw| draw.prefetches[0]), mean(|draw| draw.prefetches[1])];
    let misses = [mean(|draw| draw.misses[0]), mean(|draw| draw.misses[1])];
    let more = draws.iter().filter(|draw| draw.prefetches[1] > draw.prefetches[0]).count();
    let reason = format!(
        "in the draws in which TIP2 makes fewer, cscope1 is over after {:.0} of {:.0} reads of XDataSlice (medians). \
         By those, one more buffer behind the first {BEHIND_A_ROW} of the queue gains {:.2} ms a second, by all \
         reads {:.2}; a block of cscope1 is worth {:.2}",
        median(&draws, |draw| draw.reads),
        median(&draws, |draw| draw.reads_in_all),
        median(&draws, |draw| draw.queue_price),
        median(&draws, |draw| draw.queue_price_in_all),
        loop_price(),
    );
    let ratio = misses[1] / misses[0];
    Ok(vec![
        Finding {
            id: "B9",
            what: format!(
                "prefetches of cscope1 hinted beside XDataSlice unhinted under LRU-SP, TIP2; means over {DRAWS} \
                 draws of slices that cross"
            ),
            published: "2100, 6700".to_owned(),
            ours: format!("{:.0}, {:.0}; TIP2 more in {more}", prefetches[0], prefetches[1]),
            tolerance: format!("TIP2 makes more in {} or more", DRAWS / 2),
            verdict: match prefetches[1] > prefetches[0] {
                true if 2 * more >= draws.len() => Verdict::Reproduced,
                true => Verdict::SameOrder(reason),
                false => Verdict::NotReproduced(reason),
            },
        },
        Finding {
            id: "B9",
            what: "demand misses under LRU-SP, TIP2, means".to_owned(),
            published: "similar".to_owned(),
            ours: format!("{:.0}, {:.0}", misses[0], misses[1]),
            tolerance: "15 %".to_owned(),
            verdict: Verdict::of((ratio - 1.0).abs() <= 0.15, "XDataSlice is a stand-in"),
        },
    ])
}

/// The results of B9 with one draw of slices.
struct Draw {
    /// Prefetches of cscope1 under LRU-SP, and under TIP2.
    prefetches: [f64; 2],
    /// Demand misses of both programs under LRU-SP, and under TIP2.
    misses: [f64; 2],
    /// Accesses of XDataSlice under TIP2 up to the moment at which the first process ended.
    reads: f64,
    /// The [`queue_price`] after these accesses, and after all.
    queue_price: f64,
    reads_in_all: f64,
    queue_price_in_all: f64,
}

impl Draw {
    fn of(outcomes: &[MachineOutcome], seed: u64) -> Self {
        let [sp, tip] = outcomes else { unreachable!("two runs") };
        let xds = streams::items("xds", &UNHINTED_XDS, Advice::None, seed);
        let reads = tip.of_until_first_end(1).counts.accesses;
        let reads_in_all = tip.of(1).counts.accesses;
        Self {
            prefetches: [sp, tip].map(|outcome| outcome.of(0).counts.prefetches as f64),
            misses: [sp, tip].map(|outcome| outcome.all.counts.demand_misses as f64),
            reads: reads as f64,
            queue_price: queue_price(&xds, reads),
            reads_in_all: reads_in_all as f64,
            queue_price_in_all: queue_price(&xds, reads_in_all),
        }
    }
}

/// The median over the draws in which TIP2 makes no more prefetches than LRU-SP; 0 if there are none.
fn median(draws: &[Draw], of: fn(&Draw) -> f64) -> f64 {
    let fewer = draws.iter().filter(|draw| draw.prefetches[1] <= draw.prefetches[0]);
    let mut values: Vec<f64> = fewer.map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// TIP2's estimate, after `reads` accesses of XDataSlice, of what one more buffer gains in an LRU queue of
/// [`BEHIND_A_ROW`] buffers; in milliseconds a second.
fn queue_price(xds: &[Item], reads: u64) -> f64 {
    let mut curve = HitCurve::new(FRAMES);
    let blocks = xds.iter().filter_map(|item| match item {
        Item::Access(reference) => Some(reference.block),
        Item::Directive(_) => None,
    });
    blocks.take(reads as usize).for_each(|block| curve.access(PageId(block)));
    let slope = curve.local_slope(BEHIND_A_ROW).max(curve.steepest(BEHIND_A_ROW).per_buffer);
    CostModel::default().shrinking_cost_us(slope) / XDS_US * 1000.0
}

/// TIP2's estimate of the value of a block of cscope1 that has just been read, in milliseconds a second.
fn loop_price() -> f64 {
    CostModel::default().ejection_cost_us(CSCOPE1_BLOCKS) / CSCOPE1_US * 1000.0
}
