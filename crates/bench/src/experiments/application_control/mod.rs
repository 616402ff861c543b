//! Part A: Cao, Felten, Li, "Implementation and Performance of Application-Controlled File Caching", OSDI
//! '94.
//!
//! The programs are streams of [`crate::streams`]; elapsed times come from the model of [`service`].

mod alone;
mod beside_read_300;
mod charts;
mod hit_cost;
mod mistakes;
mod mixes;
mod programs;
mod read_n;
pub mod service;

pub use charts::charts;

use super::experiment::Experiment;

pub(super) static ALL: &[Experiment] = &[
    Experiment::new("A1", "smart programs alone: block I/Os", alone::smart_reads),
    Experiment::new("A2", "smart programs alone: elapsed time", alone::smart_elapsed),
    Experiment::new("A3", "the gain of cs1 grows until its file fits", alone::gain_until_fit),
    Experiment::new("A4", "LRU gains nothing from frames until a loop fits", alone::flat_lru),
    Experiment::new("A5", "nine mixes: elapsed time", mixes::mixes),
    Experiment::new("A6", "allocation without swapping: block I/Os of five mixes", mixes::ablation),
    Experiment::new("A7", "ReadN next to Read300: block I/Os", read_n::read_n_reads),
    Experiment::new("A8", "ReadN next to Read300: elapsed time", read_n::read_n_elapsed),
    Experiment::new(
        "A9",
        "smart programs next to a foolish one: block I/Os",
        beside_read_300::foolish_neighbour_reads,
    ),
    Experiment::new(
        "A10",
        "smart programs next to a foolish one: elapsed time",
        beside_read_300::foolish_neighbour_elapsed,
    ),
    Experiment::new("A11", "an oblivious program next to smart ones", beside_read_300::oblivious_neighbour),
    Experiment::new("A12", "cost of a hit for programs without a manager", hit_cost::hit_cost),
    Experiment::new("A13", "mistakes tell fools from smart programs", mistakes::mistakes),
];
