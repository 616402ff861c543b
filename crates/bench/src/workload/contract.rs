//! What a workload has to say of itself.

use anyhow::Result;

use super::answer::Answer;
use super::database::{Database, Sizes};
use super::options::RunOptions;
use super::session::Session;

/// Something that an engine does all day.
pub trait Workload: Sync {
    /// Its name in tables and on the command line.
    fn name(&self) -> &'static str;

    /// Tuples of the large relation if nothing else is asked for.
    fn tuples(&self) -> u64 {
        Sizes::DEFAULT.tuples
    }

    /// Makes the files it needs, unless they are there.
    ///
    /// # Errors
    /// As the pool's.
    fn build(&self, database: &Database) -> Result<()>;

    /// The number of frames it is run with if none is given; asked after `build`.
    ///
    /// # Errors
    /// If a file that was built is gone.
    fn frames(&self, database: &Database) -> Result<u64>;

    /// How many lookups it makes, where counting them makes sense.
    fn lookups(&self, _database: &Database) -> Option<u64> {
        None
    }

    /// Whether it can read pages together.
    fn takes_batches(&self) -> bool {
        false
    }

    /// Whether it can disclose what it will read.
    fn takes_hints(&self) -> bool {
        false
    }

    /// Runs it and returns what it found.
    ///
    /// # Errors
    /// As the pool's.
    fn run(&self, session: &Session<'_>) -> Result<Answer>;

    /// More to be said of it than a row can hold, from runs of its own.
    ///
    /// # Errors
    /// As the pool's.
    fn findings(&self, _database: &Database, _options: &RunOptions) -> Result<Option<String>> {
        Ok(None)
    }

    /// What it has to find, computed without the pool.
    fn expected(&self, database: &Database, seed: u64) -> Answer;
}
