//! Published experiments, each with the published value, ours, and a verdict.
//!
//! Parts: A application-controlled caching (OSDI '94), B cost-benefit allocation (CMU-CS-96-174), C detection
//! (USENIX ATC '05), D exclusive caching (USENIX ATC '02), E policy programs (HiPEC). The experiment
//! `call-sites` is of none of them.

pub mod application_control;
pub mod call_sites;
pub mod cost_benefit;
pub mod detection;
pub mod exclusive;
mod experiment;
mod finding;
pub mod policy_programs;

pub use experiment::{Context, Experiment};
pub use finding::{Finding, Verdict};

/// All experiments in order, except those [on request](on_request).
pub fn all() -> impl Iterator<Item = &'static Experiment> {
    let built = application_control::ALL.iter().chain(cost_benefit::ALL).chain(detection::ALL);
    built.chain(exclusive::ALL).chain(policy_programs::ALL)
}

/// The experiments that run only when they are named, because they take minutes.
pub fn on_request() -> impl Iterator<Item = &'static Experiment> {
    call_sites::ALL.iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_have_distinct_names_in_order() {
        let ids: Vec<&str> = all().map(|experiment| experiment.id).collect();
        let mut sorted = ids.clone();
        sorted.sort_by_key(|id| (id.as_bytes()[0], id[1..].parse::<u32>().unwrap_or(0)));
        sorted.dedup();
        assert_eq!(ids, sorted);
    }
}
