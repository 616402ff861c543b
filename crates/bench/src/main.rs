//! `bufbench`: workloads, traces, the simulator and comparisons.
//!
//! Exit status 0, or 1 with a message on standard error that says what was expected.

#![warn(clippy::print_stderr, reason = "it panics if standard error is full or closed: `output::note`")]

use std::io;
use std::process::ExitCode;

use bufpool_bench::commands::{self, Cli};
use bufpool_bench::machine::temporary;
use bufpool_bench::output::{UNPRINTABLE, note};

fn main() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(message) => {
            // `--help` and `--version` arrive here too, and are no failures.
            let failed = message.use_stderr();
            return match message.print() {
                // If standard output is closed, nobody reads the help, which is no failure.
                Err(error) if !failed && error.kind() != io::ErrorKind::BrokenPipe => {
                    note(format_args!("bufbench: {UNPRINTABLE}: {error}"));
                    ExitCode::FAILURE
                }
                _ if failed => ExitCode::FAILURE,
                _ => ExitCode::SUCCESS,
            };
        }
    };
    if let Err(error) = temporary::remove_on_signals() {
        note(format_args!("bufbench: a signal will leave temporary files behind: {error}"));
    }
    match commands::run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if reader_left(&error) => ExitCode::SUCCESS,
        Err(error) => {
            note(format_args!("bufbench: {}", causes(&error)));
            ExitCode::FAILURE
        }
    }
}

/// The texts of the error and of its causes, each once. Errors of the pool end with the text of their cause
/// already, so that cause is not appended again.
fn causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text += ": ";
            text += &cause;
        }
    }
    text
}

/// Whether the reader of standard output closed it, as `head` does.
fn reader_left(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use bufpool::{FileOptions, PoolOptions};

    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let pool = PoolOptions::new().frames(64).open().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let failed = pool.open_file(&missing, FileOptions::new()).unwrap_err();
        let error = anyhow::Error::from(bufpool_examples::Error::from(failed)).context("build the tables");
        let text = causes(&error);
        assert!(text.starts_with("build the tables: open file"), "{text}");
        assert_eq!(text.matches("No such file").count(), 1, "{text}");
        assert!(format!("{error:#}").matches("No such file").count() > 1, "the chain itself repeats it");
    }
}
