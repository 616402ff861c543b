//! One sub-command a file; this one only tells which.

pub mod check_baselines;
pub mod r#gen;
pub mod sim;

use anyhow::{Result, bail};

use crate::cli::{Cli, Command};

/// Does what the command line asks for.
///
/// # Errors
///
/// Whatever the command reports; the message says what was expected.
pub fn run(cli: &Cli) -> Result<()> {
    match &cli.command {
        None => bail!("expected a sub-command; see --help"),
        Some(Command::Gen(args)) => r#gen::run(args, &cli.common),
        Some(Command::Sim(args)) => sim::run(args, &cli.common),
        Some(Command::CheckBaselines(args)) => check_baselines::run(args, &cli.common),
    }
}
