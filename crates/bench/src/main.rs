//! `bufbench`: workloads, traces, the simulator and comparisons.
//!
//! Exit status 0, or 1 with a message on standard error that says what was expected.

use std::io;
use std::process::ExitCode;

use clap::Parser;

use bufpool_bench::cli::Cli;
use bufpool_bench::commands;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(message) => {
            // `--help` and `--version` arrive here too, and are no failures.
            let failed = message.use_stderr();
            // A closed pipe while help is printed leaves nothing to tell and nobody to tell it to.
            let _ = message.print();
            return if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    match commands::run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if reader_left(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bufbench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the reader of standard output closed it, as `head` does.
fn reader_left(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
