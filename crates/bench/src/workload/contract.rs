//! What a workload implements.

use anyhow::Result;

use super::answer::Answer;
use super::database::{Database, Sizes};
use super::options::RunOptions;
use super::session::Session;

/// A workload: work of a storage engine on real files, with a known answer.
pub trait Workload: Sync {
    /// Its name in tables and on the command line.
    fn name(&self) -> &'static str;

    /// The default number of tuples of the large relation.
    fn tuples(&self) -> u64 {
        Sizes::DEFAULT.tuples
    }

    /// Makes the files it needs, unless they are there.
    ///
    /// # Errors
    /// As the pool's.
    fn build(&self, database: &Database) -> Result<()>;

    /// The default number of frames. Called after `build`.
    ///
    /// # Errors
    /// If a file that was built is not there any more.
    fn frames(&self, database: &Database) -> Result<u64>;

    /// How many lookups it makes; `None` if it is no workload of lookups.
    fn lookups(&self, _database: &Database) -> Option<u64> {
        None
    }

    /// Whether it can read pages in batches.
    fn takes_batches(&self) -> bool {
        false
    }

    /// Whether it can disclose what it will read.
    fn takes_hints(&self) -> bool {
        false
    }

    /// Runs it and returns its answer.
    ///
    /// # Errors
    /// As the pool's.
    fn run(&self, session: &Session<'_>) -> Result<Answer>;

    /// Further results as text, from runs of its own; `None` if there are none.
    ///
    /// # Errors
    /// As the pool's.
    fn findings(&self, _database: &Database, _options: &RunOptions) -> Result<Option<String>> {
        Ok(None)
    }

    /// The answer that it has to give, computed without the pool.
    fn expected(&self, database: &Database, seed: u64) -> Answer;
}
