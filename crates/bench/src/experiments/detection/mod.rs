//! Part C: Zhou, von Behren, Brewer, "AMP: Program Context Specific Buffer Caching", USENIX ATC '05.
//!
//! The paper's traces are lost, and its measurements on Linux need its patch of a kernel of 2004. Stand-ins
//! are named as such: synthetic streams, and recorded traces of a database (`BUFPOOL_TRACES`, default
//! `../shared/traces`).

mod classes;
mod cost;
mod loops;
mod misses;
mod recorded;

use super::experiment::Experiment;

pub(super) static ALL: &[Experiment] = &[
    Experiment::new("C1", "classes of the synthetic streams, by detector", classes::classes),
    Experiment::new("C2", "misses against policies that detect nothing", loops::against_generic),
    Experiment::new("C3", "misses against other detectors", recorded::against_detectors),
    Experiment::new("C4", "cscope on a 106 MB index", loops::big_index),
    Experiment::new("C5", "a tree walk that reads each file three times", loops::tree_walk),
    Experiment::new("C6", "DBT3", recorded::dbt3),
    Experiment::new("C7", "glimpseindex on Linux", recorded::glimpse_on_linux),
    Experiment::new("C8", "DBT3 on Linux", recorded::dbt3_on_linux),
    Experiment::new("C9", "cost of detection an access", cost::cost_of_detection),
];
