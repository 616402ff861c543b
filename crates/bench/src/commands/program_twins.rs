//! `bufbench program twins`: programs against the policies of the same names in Rust.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use bufpool_policies::Allocation;
use clap::Args;

use crate::cli::{Common, whole};
use crate::measure::programs::Twin;
use crate::output::{Cell, Table, progress};
use crate::parallel;
use crate::simulate::{Policy, Setup, misses, read_program};
use crate::trace::{Item, Reader, Reference, Size, Trace, base_name};

/// Arguments of `bufbench program twins`.
#[derive(Args, Debug)]
pub struct TwinsArgs {
    /// Texts of programs, each in a file named after its policy: lru.policy
    #[arg(required = true, value_name = "FILE")]
    pub programs: Vec<PathBuf>,
    /// Traces
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    pub trace: Vec<PathBuf>,
    /// Cache sizes, separated by commas: frames, or shares of the distinct blocks such as 5%
    #[arg(long, required = true, value_delimiter = ',', value_name = "SIZE")]
    pub frames: Vec<Size>,
    /// How many accesses of a trace are played, from its beginning
    #[arg(long, default_value_t = 1_000_000, value_name = "ACCESSES",
          value_parser = whole::<u64>(0..=u64::MAX))]
    pub accesses: u64,
}

/// Prints the misses of both twins for each trace and size. All accesses of a trace count as one tenant's,
/// and its directives are left out.
///
/// # Errors
///
/// If a program or a trace cannot be read or is malformed, or a file is not named after a policy; after the
/// table is printed, if the misses of two twins differ.
pub fn run(args: &TwinsArgs, common: &Common) -> Result<()> {
    let twins = args.programs.iter().map(|path| twin(path)).collect::<Result<Vec<_>>>()?;
    let mut table = Table::new(&["program", "trace", "accesses", "frames", "in_rust", "as_program"]);
    let mut differ = 0;
    let bar = progress::bar("twins", args.trace.len() as u64, "traces");
    for path in &args.trace {
        let trace = first_accesses(path, args.accesses)?;
        let compared = parallel::map(twins.len() * args.frames.len(), common.jobs(), |point| {
            let twin = &twins[point / args.frames.len()];
            let frames = args.frames[point % args.frames.len()].frames(trace.distinct());
            both(&trace, twin, frames, common.seed).map(|misses| (twin.native.name(), frames, misses))
        });
        for compared in compared {
            let (name, frames, [in_rust, as_program]) = compared?;
            differ += u64::from(in_rust != as_program);
            let (trace_name, accesses) = (base_name(path), trace.accesses());
            table.push(vec![
                name.into(),
                Cell::text(trace_name),
                accesses.into(),
                u64::from(frames).into(),
                in_rust.into(),
                as_program.into(),
            ]);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    table.print(common.format)?;
    ensure!(
        differ == 0,
        "expected each program to miss as often as its policy in Rust, found {differ} that do not"
    );
    Ok(())
}

fn twin(path: &Path) -> Result<Twin> {
    let program = read_program(path).map_err(anyhow::Error::msg)?;
    let native = base_name(path)
        .parse()
        .with_context(|| format!("{}: expected a file named after a policy", path.display()))?;
    Ok(Twin { native, program })
}

/// The first accesses of a trace, all by one tenant from one site.
fn first_accesses(path: &Path, accesses: u64) -> Result<Trace> {
    let mut reader = Reader::open(path, None, &indicatif::ProgressBar::hidden())?;
    let mut items = Vec::new();
    while (items.len() as u64) < accesses
        && let Some(item) = reader.next_item()?
    {
        if let Item::Access(Reference { block, .. }) = item {
            items.push(Item::Access(Reference { block, site: 0, tenant: 0 }));
        }
    }
    Ok(Trace::of(&base_name(path), items))
}

/// Misses of the policy in Rust, and of the program.
fn both(trace: &Trace, twin: &Twin, frames: u32, seed: u64) -> Result<[u64; 2]> {
    let setup = Setup { program: Some(twin.program.clone()), seed, ..Setup::frames(frames) };
    let of = |policy| misses(trace, policy, &setup, None);
    Ok([of(Policy::OneLevel(twin.native))?, of(Policy::Program(Allocation::LruSp))?])
}
