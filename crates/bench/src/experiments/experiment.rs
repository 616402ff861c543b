//! An experiment, and what it is run with.

use anyhow::Result;

use super::finding::Finding;

/// The function that runs an experiment.
type Run = fn(&Context) -> Result<Vec<Finding>>;

/// One experiment.
#[derive(Debug)]
pub struct Experiment {
    /// Its name, such as `A7`.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    run: Run,
}

/// What experiments are run with.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Seed of everything drawn at random.
    pub seed: u64,
    /// Threads that independent simulations may use.
    pub jobs: usize,
}

impl Experiment {
    pub(super) const fn new(id: &'static str, title: &'static str, run: Run) -> Self {
        Self { id, title, run }
    }

    /// Runs the experiment; some take minutes.
    ///
    /// # Errors
    ///
    /// If a simulation or a measurement cannot be carried out.
    pub fn run(&self, context: &Context) -> Result<Vec<Finding>> {
        (self.run)(context)
    }
}
