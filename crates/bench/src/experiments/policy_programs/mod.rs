//! Part E: Lee, Chen, Chang, "In-Kernel Policy Interpretation for Application-Specific Memory Caching
//! Management" (HiPEC).
//!
//! The paper's times are those of a 33 MHz 486 under Mach. So misses are compared rather than times, on the
//! streams of [`crate::streams`], with as many frames as the paper's machine had left for data.

mod cost;
mod join;
mod mixes;
mod player;
mod runaway;
mod second_chance;
mod sizes;
mod texts;
mod tree;

use super::experiment::Experiment;

pub(super) static ALL: &[Experiment] = &[
    Experiment::new("E1", "what interpreting a policy costs a fault", cost::a_fault),
    Experiment::new(
        "E2",
        "a program's answer against one from another thread or process",
        cost::against_crossings,
    ),
    Experiment::new("E3", "nested-loop join: MRU against LRU", join::mru_against_lru),
    Experiment::new("E4", "nested-loop join: LRU gains nothing from memory", join::lru_is_flat),
    Experiment::new("E5", "lookups in a tree, pages by level: a million", tree::a_million),
    Experiment::new("E6", "lookups in a tree, pages by level: a hundred thousand", tree::a_hundred_thousand),
    Experiment::new("E7", "a film that is read in ten frames beside a writer", player::beside_a_writer),
    Experiment::new("E8", "seven mixes with programs and without", mixes::seven_mixes),
    Experiment::new("E9", "a program that runs away", runaway::endless_events),
];
