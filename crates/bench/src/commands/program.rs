//! `bufbench program`: policy programs in files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bufpool_policies::program::Program;
use clap::{Args, Subcommand};

use super::program_search::{self, SearchArgs};
use super::program_twins::{self, TwinsArgs};
use crate::cli::Common;
use crate::output::{Cell, Table, UNPRINTABLE};
use crate::simulate::read_program;

/// Arguments of `bufbench program`.
#[derive(Args, Debug)]
pub struct ProgramArgs {
    /// What to do with the program
    #[command(subcommand)]
    pub action: Action,
}

/// What to do with a program.
#[derive(Subcommand, Debug)]
pub enum Action {
    /// Verify it, and print the size of each event and the most steps that it takes
    Check {
        /// The program's text
        file: PathBuf,
    },
    /// Verify it, and print the text of its code
    Disassemble {
        /// The program's text
        file: PathBuf,
    },
    /// Search for a program that misses less than the best of fifo, lru, s3-fifo and sieve
    Search(SearchArgs),
    /// Compare programs with the policies of the same names in Rust, to the last miss
    Twins(TwinsArgs),
}

/// Carries out the action.
///
/// # Errors
///
/// If the file cannot be read or is no program, with line, column and what was expected; as those of the
/// search and of the comparison.
pub fn run(args: &ProgramArgs, common: &Common) -> Result<()> {
    match &args.action {
        Action::Check { file } => {
            let mut table = Table::new(&["event", "instructions", "steps_max"]);
            for event in load(file)?.events() {
                let steps_max = event.steps_max.map_or(Cell::Empty, |steps| u64::from(steps).into());
                table.push(vec![Cell::text(event.name), u64::from(event.instructions).into(), steps_max]);
            }
            table.print(common.format)?;
        }
        Action::Disassemble { file } => {
            let text = load(file)?.to_text();
            io::stdout().write_all(text.as_bytes()).context(UNPRINTABLE)?;
        }
        Action::Search(args) => program_search::run(args, common)?,
        Action::Twins(args) => program_twins::run(args, common)?,
    }
    Ok(())
}

fn load(file: &Path) -> Result<Program> {
    read_program(file).map_err(anyhow::Error::msg)
}
