//! `bufbench record`: the trace of a live run.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::live::{self, LiveArgs};
use crate::cli::Common;
use crate::output::unwritable;
use crate::trace::recording::Recording;

/// Arguments of `bufbench record`.
#[derive(Args, Debug)]
pub struct RecordArgs {
    #[command(flatten)]
    live: LiveArgs,
    /// File to write, compressed if it ends in .gz or .zst
    #[arg(long)]
    out: PathBuf,
}

/// Runs one workload in deterministic mode, writes its trace, and prints the table of `live`.
///
/// Played by `sim` with the same frames and policy and `--shared-pages on`, the trace gives the same misses.
///
/// # Errors
/// As those of `live`; if more than one thread is asked for, or the trace cannot be written. A file that
/// exists stays unchanged then.
pub fn run(args: &RecordArgs, common: &Common) -> Result<()> {
    ensure!(
        args.live.threads == 1,
        "--threads {}: a trace has all accesses in one order, which only one thread repeats; expected --threads 1",
        args.live.threads
    );
    let mut live = args.live.clone();
    live.pool.deterministic = true;
    let recording = Recording::to_file(&args.out)?;
    live::run_recorded(&live, common, Some(recording.recorder()))?;
    let (writer, _) = recording.finish().with_context(|| unwritable(&args.out))?;
    writer.finish().with_context(|| unwritable(&args.out))
}
