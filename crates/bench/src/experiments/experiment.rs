//! An experiment, and what it is run with.

use anyhow::Result;

use super::finding::{Finding, Verdict};

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
    pub(super) const fn new(id: &'static str, title: &'static str, run: Run) -> Self {
        Self { id, title, run: Some(run) }
    }

    pub(super) const fn later(id: &'static str, title: &'static str) -> Self {
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
