//! The command line: flags shared by all commands, and one sub-command a variant.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::check_baselines::CheckBaselinesArgs;
use crate::commands::r#gen::GenArgs;
use crate::commands::io::IoArgs;
use crate::commands::live::LiveArgs;
use crate::commands::main_job::MainJobArgs;
use crate::commands::paper::PaperArgs;
#[cfg(feature = "peers")]
use crate::commands::peers::PeersArgs;
use crate::commands::record::RecordArgs;
use crate::commands::scan::ScanArgs;
use crate::commands::sim::SimArgs;
use crate::commands::write_back::WriteBackArgs;
use crate::output::Format;

/// Workloads, traces, the simulator and comparisons for bufpool.
#[derive(Parser, Debug)]
#[command(name = "bufbench", version, about)]
pub struct Cli {
    /// Flags that every command understands.
    #[command(flatten)]
    pub common: Common,
    /// Flags of the main job.
    #[command(flatten)]
    pub main_job: MainJobArgs,
    /// What to do; without a sub-command, the main job.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Flags that every command understands; one that does not apply is ignored.
#[derive(Args, Debug, Clone)]
pub struct Common {
    /// How the result is printed on standard output
    #[arg(long, global = true, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Seed of everything drawn at random
    #[arg(long, global = true, default_value_t = 1, value_parser = seed)]
    pub seed: u64,
    /// Where data files are made [default: a folder below the current one]
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
    /// The number of threads asked for, or one a processor.
    pub fn jobs(&self) -> usize {
        match self.jobs {
            Some(jobs) => jobs as usize,
            None => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        }
    }
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
}

fn jobs(text: &str) -> Result<u32, String> {
    let jobs = text.parse().ok().filter(|jobs| (1..=1024).contains(jobs));
    jobs.ok_or_else(|| "expected a number of threads from 1 to 1024".to_owned())
}

/// Whether data files bypass the operating system's page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Direct {
    /// Direct I/O where the file system can, buffered elsewhere.
    Prefer,
    /// Direct I/O, or an error.
    Require,
    /// Buffered I/O.
    Off,
}

/// The sub-commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run workloads on a live pool
    Live(LiveArgs),
    /// Run one workload and write the trace of its accesses
    Record(RecordArgs),
    /// Write a synthetic stream as a trace
    Gen(GenArgs),
    /// Play traces to replacement policies
    Sim(SimArgs),
    /// Random reads through a pool against a bare io_uring loop on the same file
    Io(IoArgs),
    /// Compare a cold sequential scan through a pool with a bare io_uring loop
    Scan(ScanArgs),
    /// Run published experiments
    Paper(PaperArgs),
    /// Dirty pages through a pool against a bare io_uring loop, and hits beside a writer
    WriteBack(WriteBackArgs),
    /// Compare the cost of a page with other caches and a database
    #[cfg(feature = "peers")]
    Peers(PeersArgs),
    /// Compare miss ratios with those of independent implementations
    CheckBaselines(CheckBaselinesArgs),
}
