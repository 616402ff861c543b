//! Flags that several commands share.

mod hints;
mod io;

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;

pub use hints::Hints;
pub use io::{Backend, Direct};

use crate::output::Format;

/// Flags that every command understands; one that does not apply is ignored.
#[derive(Args, Debug, Clone)]
pub struct Common {
    /// How the result is printed on standard output
    #[arg(long, global = true, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Seed of everything drawn at random
    #[arg(long, global = true, default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    pub seed: u64,
    /// Where data files are made; the folder is made if it is not there [default: a folder below the current
    /// one]
    #[arg(long, global = true)]
    pub dir: Option<PathBuf>,
    /// Keep the data files
    #[arg(long, global = true)]
    pub keep: bool,
    /// How data files are opened
    #[arg(long, global = true, value_enum, default_value_t = Direct::Require)]
    pub direct: Direct,
    /// Threads that work on independent parts of the job [default: one a processor]
    #[arg(long, global = true, value_parser = jobs)]
    pub jobs: Option<u32>,
}

impl Common {
    /// The number of threads that was asked for, or one for each processor that this process may use.
    pub fn jobs(&self) -> usize {
        match self.jobs {
            Some(jobs) => jobs as usize,
            None => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        }
    }
}

/// Reads whole numbers in a range. Errors say which numbers those are, also where the text is no number.
pub fn whole<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let number = number.and_then(|number: u64| T::try_from(number).ok());
        number.ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
    }
}

fn jobs(text: &str) -> Result<u32, String> {
    let jobs = text.parse().ok().filter(|jobs| (1..=1024).contains(jobs));
    jobs.ok_or_else(|| "expected a number of threads from 1 to 1024".to_owned())
}
