//! Part D: T. M. Wong, J. Wilkes: "My cache or yours? Making storage more exclusive", USENIX ATC '02.
//!
//! *None* is an array without demotions. Unless a row says otherwise, caches have 16,384 blocks of 4 KB each,
//! clients are LRU, and times are those of [`crate::simulate::Latency`]: 0.2 ms to or through the array, and
//! 10 ms more from the disk, or 5 ms more with stand-ins for traces. The paper's traces and some of its
//! tables are lost.

mod clients;
mod model;
mod runs;
mod segmented;
mod sizes;
mod synthetic;
mod traces;

use super::experiment::Experiment;

pub use segmented::best_shares;
pub use sizes::speed_ups;

pub(super) static ALL: &[Experiment] = &[
    Experiment::new("D1", "uniform reads, by the model", model::uniform),
    Experiment::new("D2", "reads by Zipf's law, by the model", model::zipf),
    Experiment::new("D3", "RANDOM: two caches' worth of blocks", synthetic::random),
    Experiment::new("D4", "SEQ: a loop over one block less", synthetic::cyclic),
    Experiment::new("D5", "ZIPF: three caches' worth of blocks", synthetic::zipf),
    Experiment::new("D6", "reads of each third of ZIPF's blocks", synthetic::thirds),
    Experiment::new("D7", "the bandwidth from which on demotions pay", synthetic::bandwidth),
    Experiment::new("D8", "sizes of array and client", sizes::ratios),
    Experiment::new("D9", "DEMOTE-LRU never beats DEMOTE", sizes::order),
    Experiment::new("D10", "what stands in for traces of one client", traces::single_client),
    Experiment::new("D11", "what stands in for traces of several clients", clients::several),
    Experiment::new("D12", "the best share of protected blocks in SLRU", segmented::shares),
];
