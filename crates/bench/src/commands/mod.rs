//! The command line. Each sub-command has a file; this one reads the command line and runs the sub-command.

pub mod check_baselines;
mod comparison_table;
mod data_folder;
pub mod r#gen;
pub mod grade;
pub mod hints;
pub mod io;
pub mod live;
pub mod main_job;
pub mod misses;
pub mod paper;
#[cfg(feature = "peers")]
pub mod peers;
pub mod phases;
pub mod program;
pub mod program_search;
pub mod program_twins;
pub mod record;
pub mod scan;
pub mod sim;
pub mod tenants;
pub mod tiers;
pub mod tune;
pub mod write_back;

use std::env;
use std::ffi::OsString;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};

use self::check_baselines::CheckBaselinesArgs;
use self::r#gen::GenArgs;
use self::grade::GradeArgs;
use self::hints::HintsArgs;
use self::io::IoArgs;
use self::live::LiveArgs;
use self::main_job::MainJobArgs;
use self::misses::MissesArgs;
use self::paper::PaperArgs;
#[cfg(feature = "peers")]
use self::peers::PeersArgs;
use self::phases::PhasesArgs;
use self::program::ProgramArgs;
use self::record::RecordArgs;
use self::scan::ScanArgs;
use self::sim::SimArgs;
use self::tenants::TenantsArgs;
use self::tiers::TiersArgs;
use self::tune::TuneArgs;
use self::write_back::WriteBackArgs;
use crate::cli::Common;

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

impl Cli {
    /// Reads the command line.
    ///
    /// # Errors
    ///
    /// If it is wrong, or asks for help.
    pub fn read() -> Result<Self, clap::Error> {
        Self::try_parse_from(with_values_below_zero(env::args_os()))
    }
}

/// Makes an argument such as `-1`, `-5%` or `-1..3` the value of the flag before it, so that this flag
/// refuses it and says what it expects. Otherwise it would be an unknown flag.
fn with_values_below_zero(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    for argument in arguments {
        let is_below_zero = matches!(argument.as_encoded_bytes(), [b'-', b'.' | b'0'..=b'9', ..]);
        let flag = joined.last_mut().filter(|before| {
            let before = before.as_encoded_bytes();
            is_below_zero && before.len() > 2 && before.starts_with(b"--") && !before.contains(&b'=')
        });
        match flag {
            Some(flag) => {
                flag.push("=");
                flag.push(argument);
            }
            None => joined.push(argument),
        }
    }
    joined
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
    /// Grade policies on lists of traces beside LRU, ARC, the best generic policy and OPT
    Grade(GradeArgs),
    /// Halve and double the constants of the automatic manager, on lists of traces
    Tune(TuneArgs),
    /// Grade policies on many streams of changing phases
    Phases(PhasesArgs),
    /// Check a policy program, print its code, or search for one
    Program(ProgramArgs),
    /// Random reads through a pool against a bare io_uring loop on the same file
    Io(IoArgs),
    /// Misses on a source in memory, by several threads, beside two pools and other caches
    Misses(MissesArgs),
    /// Compare a cold sequential scan through a pool with a bare io_uring loop
    Scan(ScanArgs),
    /// Disclosed reads against reads in batches, single reads, and lists that are wrong
    Hints(HintsArgs),
    /// Run published experiments
    Paper(PaperArgs),
    /// Dirty pages through a pool against a bare io_uring loop, and hits beside a writer
    WriteBack(WriteBackArgs),
    /// What many tenants cost, each with a manager or a floor of its own
    Tenants(TenantsArgs),
    /// What a tier below a pool brings, and what it costs where it brings nothing
    Tiers(TiersArgs),
    /// Compare the cost of a page with other caches and a database
    #[cfg(feature = "peers")]
    Peers(PeersArgs),
    /// Compare the cost of a page with other caches and a database; needs the feature `peers`
    #[cfg(not(feature = "peers"))]
    #[command(disable_help_flag = true)]
    Peers {
        /// Arguments of a build with the feature
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        rest: Vec<String>,
    },
    /// Compare miss ratios with those of independent implementations
    CheckBaselines(CheckBaselinesArgs),
}

/// Runs the command that the command line asks for.
///
/// # Errors
///
/// If flags of the main job stand before a sub-command; else as those of the command.
pub fn run(cli: &Cli) -> Result<()> {
    match &cli.command {
        None => main_job::run(&cli.main_job, &cli.common),
        Some(_) if cli.main_job.any() => bail!("{}", main_job::NOT_WITH_A_SUB_COMMAND),
        Some(Command::Live(args)) => live::run(args, &cli.common),
        Some(Command::Record(args)) => record::run(args, &cli.common),
        Some(Command::Gen(args)) => r#gen::run(args, &cli.common),
        Some(Command::Sim(args)) => sim::run(args, &cli.common),
        Some(Command::Grade(args)) => grade::run(args, &cli.common),
        Some(Command::Tune(args)) => tune::run(args, &cli.common),
        Some(Command::Phases(args)) => phases::run(args, &cli.common),
        Some(Command::Program(args)) => program::run(args, &cli.common),
        Some(Command::Scan(args)) => scan::run(args, &cli.common),
        Some(Command::Hints(args)) => hints::run(args, &cli.common),
        Some(Command::Io(args)) => io::run(args, &cli.common),
        Some(Command::Misses(args)) => misses::run(args, &cli.common),
        Some(Command::WriteBack(args)) => write_back::run(args, &cli.common),
        Some(Command::Tenants(args)) => tenants::run(args, &cli.common),
        Some(Command::Tiers(args)) => tiers::run(args, &cli.common),
        Some(Command::Paper(args)) => paper::run(args, &cli.common),
        #[cfg(feature = "peers")]
        Some(Command::Peers(args)) => peers::run(args, &cli.common),
        #[cfg(not(feature = "peers"))]
        Some(Command::Peers { .. }) => {
            bail!(
                "expected a build with the other caches: cargo run --release -p bufpool-bench --features peers -- peers"
            )
        }
        Some(Command::CheckBaselines(args)) => check_baselines::run(args, &cli.common),
    }
}
