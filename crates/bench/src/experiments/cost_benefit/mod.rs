//! Part B: Tomkins, Patterson, Gibson, "A Trace-Driven Comparison of Algorithms for Multi-Process Prefetching
//! and Caching", CMU-CS-96-174: cost-benefit allocation (TIP2) against LRU-SP with controlled-aggressive
//! prefetching.
//!
//! The paper's traces and most of its curves are lost. Streams of [`crate::streams`] stand in for its
//! programs, and run on [`crate::simulate::machine`].
//!
//! Rows whose names have a `/` are no claims of their own. They show how far a result depends on what is not
//! published: the same on a faster disk (`/3-12`, 3 ms for a sequential read and 12 ms for any other;
//! `/5-22`, the slower disk, where the row itself has the faster one), with another stand-in for XDataSlice
//! (`/crossing`), and in B13 with other frames, processors and disk queues.

pub mod bound;
mod distant_reuse;
mod formulas;
mod pairs;
mod programs;
mod runs;
mod sensitivity;

use super::experiment::Experiment;

pub(super) static ALL: &[Experiment] = &[
    Experiment::new("B1", "the prefetch horizon", formulas::horizon),
    Experiment::new("B2", "the bound on aggressive prefetching", formulas::aggressive_bound),
    Experiment::new("B3", "a hinted loop beside blocks read once", pairs::loop_beside_once),
    Experiment::new("B4", "a hinted loop beside a larger unhinted one", pairs::loop_beside_loop),
    Experiment::new("B5", "an unhinted loop beside XDataSlice", pairs::loop_beside_xds),
    Experiment::new("B6", "the same, blocks that were read being kept", pairs::loop_beside_xds_kept),
    Experiment::new(
        "B7",
        "an unhinted loop beside a larger, faster hinted one",
        pairs::loop_beside_fast_loop,
    ),
    Experiment::new("B8", "cscope1 unhinted beside cscope2 hinted", programs::unhinted_beside_hinted),
    Experiment::new("B9", "cscope1 hinted beside XDataSlice unhinted", distant_reuse::hinted_beside_unhinted),
    Experiment::new("B10", "cscope1 in pairs, both hinted", programs::hinted_pairs),
    Experiment::new("B11", "reads of aggressive prefetching with many disks", programs::many_disks),
    Experiment::new("B12", "LRU-SP with a fixed horizon", programs::fixed_horizon),
    Experiment::new("B13", "sensitivity to frames, processor and queue", sensitivity::cscope2_beside_glimpse),
];
