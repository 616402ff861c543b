//! Published experiments, each with what was published, what we find, and a verdict.
//!
//! Parts: A application-controlled caching (OSDI '94), B cost-benefit allocation (CMU-CS-96-174), C detection (USENIX
//! ATC '05), D exclusive caching (USENIX ATC '02), E policy programs (HiPEC).

pub mod application_control;
pub mod call_sites;
pub mod detection;
pub mod service;

use std::fmt;

use anyhow::Result;

/// What came of one published statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The experiment, such as `A7`.
    pub id: &'static str,
    /// What is compared.
    pub what: String,
    /// The published value.
    pub published: String,
    /// Ours.
    pub ours: String,
    /// How far ours may be away and count as reproduced.
    pub tolerance: String,
    /// How ours compares.
    pub verdict: Verdict,
}

/// How our result compares with a published one.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// Within the stated tolerance.
    Reproduced,
    /// Outside the tolerance, and less than a factor of two away, or the same sign or order; and why.
    SameOrder(String),
    /// Neither, and why.
    NotReproduced(String),
    /// What it needs does not exist yet.
    NotYetBuilt,
}

impl Verdict {
    /// By ratio: reproduced if `ours` is within the share `tolerance` of `published`, same order within a factor of
    /// two, else not reproduced; the latter two because of `reason`.
    pub fn of_ratio(published: f64, ours: f64, tolerance: f64, reason: &str) -> Self {
        let ratio = ours / published;
        if (ratio - 1.0).abs() <= tolerance {
            Self::Reproduced
        } else if (0.5..=2.0).contains(&ratio) {
            Self::SameOrder(reason.to_owned())
        } else {
            Self::NotReproduced(reason.to_owned())
        }
    }

    /// Reproduced if so, else not because of `reason`.
    pub fn of(holds: bool, reason: &str) -> Self {
        if holds { Self::Reproduced } else { Self::NotReproduced(reason.to_owned()) }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reproduced => f.write_str("reproduced"),
            Self::SameOrder(reason) => write!(f, "same order: {reason}"),
            Self::NotReproduced(reason) => write!(f, "not reproduced: {reason}"),
            Self::NotYetBuilt => f.write_str("not yet built"),
        }
    }
}

/// What carries an experiment out.
type Run = fn(&Context) -> Result<Vec<Finding>>;

/// One experiment.
#[derive(Debug)]
pub struct Experiment {
    /// Its name, such as `A7`.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    run: Option<Run>,
}

/// What experiments are run with.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Seed of everything drawn at random.
    pub seed: u64,
    /// Threads.
    pub jobs: usize,
}

impl Experiment {
    const fn new(id: &'static str, title: &'static str, run: Run) -> Self {
        Self { id, title, run: Some(run) }
    }

    const fn later(id: &'static str, title: &'static str) -> Self {
        Self { id, title, run: None }
    }

    /// Runs it.
    ///
    /// # Errors
    ///
    /// If a simulation cannot be carried out.
    pub fn run(&self, context: &Context) -> Result<Vec<Finding>> {
        match self.run {
            Some(run) => run(context),
            None => Ok(vec![Finding {
                id: self.id,
                what: self.title.to_owned(),
                published: String::new(),
                ours: String::new(),
                tolerance: String::new(),
                verdict: Verdict::NotYetBuilt,
            }]),
        }
    }
}

/// All experiments in order, except those [on request](on_request).
pub fn all() -> impl Iterator<Item = &'static Experiment> {
    static LATER: [Experiment; 3] = [
        Experiment::later("B", "cost-benefit against rate-based allocation"),
        Experiment::later("D", "exclusive caching"),
        Experiment::later("E", "policy programs"),
    ];
    application_control::ALL.iter().chain(&LATER[..1]).chain(detection::ALL).chain(&LATER[1..])
}

/// The experiments that run only when they are named, since they take long.
pub fn on_request() -> impl Iterator<Item = &'static Experiment> {
    call_sites::ALL.iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_by_ratio_have_two_limits() {
        assert_eq!(Verdict::of_ratio(100.0, 109.0, 0.1, ""), Verdict::Reproduced);
        assert_eq!(Verdict::of_ratio(100.0, 111.0, 0.1, "why"), Verdict::SameOrder("why".to_owned()));
        assert_eq!(Verdict::of_ratio(100.0, 49.0, 0.1, "why"), Verdict::NotReproduced("why".to_owned()));
    }

    #[test]
    fn experiments_have_distinct_names_in_order() {
        let ids: Vec<&str> = all().map(|experiment| experiment.id).collect();
        let mut sorted = ids.clone();
        sorted.sort_by_key(|id| (id.as_bytes()[0], id[1..].parse::<u32>().unwrap_or(0)));
        sorted.dedup();
        assert_eq!(ids, sorted);
    }
}
