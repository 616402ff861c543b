//! One sub-command a file; this one only tells which.

pub mod check_baselines;
mod data_folder;
pub mod r#gen;
pub mod io;
pub mod live;
pub mod main_job;
pub mod paper;
#[cfg(feature = "peers")]
pub mod peers;
pub mod record;
pub mod scan;
pub mod sim;
pub mod write_back;

use anyhow::{Result, bail};

use crate::cli::{Cli, Command};

/// Does what the command line asks for.
///
/// # Errors
///
/// Whatever the command reports; the message says what was expected.
pub fn run(cli: &Cli) -> Result<()> {
    match &cli.command {
        None => main_job::run(&cli.main_job, &cli.common),
        Some(_) if cli.main_job.any() => bail!("{}", main_job::NOT_WITH_A_SUB_COMMAND),
        Some(Command::Live(args)) => live::run(args, &cli.common),
        Some(Command::Record(args)) => record::run(args, &cli.common),
        Some(Command::Gen(args)) => r#gen::run(args, &cli.common),
        Some(Command::Sim(args)) => sim::run(args, &cli.common),
        Some(Command::Scan(args)) => scan::run(args, &cli.common),
        Some(Command::Io(args)) => io::run(args, &cli.common),
        Some(Command::WriteBack(args)) => write_back::run(args, &cli.common),
        Some(Command::Paper(args)) => paper::run(args, &cli.common),
        #[cfg(feature = "peers")]
        Some(Command::Peers(args)) => peers::run(args, &cli.common),
        Some(Command::CheckBaselines(args)) => check_baselines::run(args, &cli.common),
    }
}
