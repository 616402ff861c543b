//! `bufbench sim`: traces against policies and sizes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use bufpool_policies::program::Program;
use bufpool_policies::{Allocation, ManagerKind, UnknownName};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;

use super::sim_on_machine;
use super::sim_tier::{LatencyFlag, TIER_COLUMNS, TierFlag, tier_cells};
use crate::cli::Common;
use crate::output::plot::{self, Curves, Series};
use crate::output::progress;
use crate::output::{Cell, Table, WholeFile, unwritable};
use crate::parallel;
use crate::simulate::machine::{MachineOptions, MachinePolicy};
use crate::simulate::{self, By, Counts, NextUses, Outcome, Policy, Setup, SimError};
use crate::trace::{Input, LoadOptions, Size, Trace};

/// Arguments of `bufbench sim`.
#[derive(Args, Debug)]
pub struct SimArgs {
    /// Trace files
    #[arg(long = "trace", required = true, num_args = 1.., value_name = "PATH")]
    pub traces: Vec<PathBuf>,
    /// Policies, separated by commas, or program:FILE for a policy program as every tenant's manager under
    /// LRU-SP, fifo2-sp+program:FILE under FIFO2-SP; on a machine some of lru, lru-sp, tip2, aggressive,
    /// horizon
    #[arg(long, required = true, value_delimiter = ',', value_name = "NAME")]
    pub policy: Vec<Named>,
    /// Cache sizes, separated by commas: frames, or shares of the distinct blocks such as 5%
    #[arg(long, required = true, value_delimiter = ',', value_name = "SIZE")]
    pub frames: Vec<Size>,
    /// A lower cache, which misses read through, such as demote:1000 or adapt-exp:5%; KIND is one of
    /// none-lru, demote-lru, demote, slru/PERCENT, adapt-uni, adapt-exp, promote, inclusive
    #[arg(long, value_name = "KIND:FRAMES", conflicts_with = "machine")]
    pub tier: Option<TierFlag>,
    /// Each tenant is a client of the lower cache, with an equal share of the frames for itself
    #[arg(long, requires = "tier", conflicts_with_all = ["plot", "floors", "caps", "machine"])]
    pub clients: bool,
    /// Milliseconds of the lower cache and of the source, and of a demotion of a block that the lower cache
    /// has: t_a=..,t_d=..[,t_abort=..] [default: t_a=0.2,t_d=10]
    #[arg(long, value_name = "KEY=VALUE,...", requires = "tier", conflicts_with = "machine")]
    pub latency: Option<LatencyFlag>,
    /// Accesses at the beginning of the trace that are played but not counted; blocks count as distinct all
    /// the same
    #[arg(long, value_name = "ACCESSES", default_value_t = 0, conflicts_with = "machine")]
    pub warm_up: u64,
    /// Play the trace in time, each tenant a process, on a machine such as
    /// disks=1,sequential_ms=5,random_ms=22; also queue=scan or fifo, quantum_ms=100, driver_us=500,
    /// hit_us=425
    #[arg(long, value_name = "KEY=VALUE,...", conflicts_with_all = ["by", "plot", "scratch", "floors", "caps",
          "shared_pages", "shared_account", "shared_learning", "program_fuel"])]
    pub machine: Option<Machine>,
    /// Format of the traces [default: told by the name]
    #[arg(long, value_enum)]
    pub input: Option<Input>,
    /// Whether managers that keep being wrong are revoked
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub revocation: Switch,
    /// Whether blocks that another tenant uses are protected from their owner's manager
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    pub shared_pages: Switch,
    /// Under auto, tenants that give no directives, and have no floor or cap, share one account, as in a
    /// pool; off for one each
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub shared_account: Switch,
    /// Under auto, tenants with an account of their own and few pages learn together, as in a pool; off for
    /// each by itself
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub shared_learning: Switch,
    /// Frames that no other tenant can take
    #[arg(long = "floor", value_name = "TENANT=FRAMES")]
    pub floors: Vec<Share>,
    /// Frames that the tenant may not exceed
    #[arg(long = "cap", value_name = "TENANT=FRAMES")]
    pub caps: Vec<Share>,
    /// One row for each tenant or site
    #[arg(long, value_enum)]
    pub by: Option<By>,
    /// Also draw miss ratios over sizes, OPT included, as SVG
    #[arg(long, value_name = "OUT.svg")]
    pub plot: Option<PathBuf>,
    /// Where OPT's next uses are written, 8 bytes an access [default: in memory]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Steps that an event of a program may take [default: 4096, and for replace 16 for each frame of the
    /// tenant if that is more]
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u32).range(1..))]
    pub program_fuel: Option<u32>,
    /// Memory for the accesses of a trace; a longer one is read from its file for each run
    #[arg(long, value_name = "BYTES", default_value_t = LoadOptions::default().budget_bytes)]
    pub trace_memory: usize,
}

/// The value of `--machine`, which has commas of its own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Machine(pub MachineOptions);

impl FromStr for Machine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

/// The name of a policy, of the simulator or of a machine, or of a program in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named(String);

impl Named {
    /// The policy of that name, of the simulator or of a machine.
    ///
    /// # Errors
    ///
    /// If there is no such policy.
    pub fn find<P: FromStr<Err = UnknownName>>(&self) -> Result<P, UnknownName> {
        self.0.parse()
    }

    /// The policy of the simulator, and the file of the program if it is one.
    fn simulated(&self) -> Result<(Policy, Option<&Path>)> {
        if let Some((file, allocation)) = program_file(&self.0) {
            return Ok((Policy::Program(allocation), Some(file)));
        }
        let found = self.find().with_context(|| {
            let machine = "--machine, such as --machine disks=1,sequential_ms=5,random_ms=22";
            format!("--policy {} is of traces in time; expected {machine}, or another policy", self.0)
        })?;
        Ok((found, None))
    }
}

impl FromStr for Named {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let is_known = program_file(name).is_some() || name.parse::<MachinePolicy>().is_ok();
        if is_known {
            Ok(Self(name.to_owned()))
        } else {
            let found = name.parse::<Policy>().map(|_| Self(name.to_owned()));
            found
                .map_err(|unknown| format!("{unknown}; program:FILE and fifo2-sp+program:FILE name programs"))
        }
    }
}

/// Prefixes of names that mean a program in a file, and the allocation that the program runs under.
const PROGRAMS: [(&str, Allocation); 2] =
    [("program:", Allocation::LruSp), ("fifo2-sp+program:", Allocation::Fifo2Sp)];

/// The file and the allocation that the name of a policy means, if it means a program.
fn program_file(name: &str) -> Option<(&Path, Allocation)> {
    let found = |(prefix, allocation)| Some((Path::new(name.strip_prefix(prefix)?), allocation));
    PROGRAMS.into_iter().find_map(found)
}

/// Something that is on or off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// A number of frames for a tenant of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    tenant: u32,
    frames: u32,
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split_once('=')
            .and_then(|(tenant, frames)| {
                Some(Self { tenant: tenant.parse().ok()?, frames: frames.parse().ok()? })
            })
            .ok_or_else(|| "expected TENANT=FRAMES, two whole numbers".to_owned())
    }
}

/// One run of a trace.
struct Run {
    /// The policy's name as it was given.
    name: String,
    policy: Policy,
    setup: Setup,
    /// Whether the run has rows in the table; OPT may be simulated for the chart alone.
    is_listed: bool,
}

/// The columns of every row, before those of a lower cache.
const COLUMNS: [&str; 15] = [
    "trace",
    "policy",
    "frames",
    "accesses",
    "distinct",
    "hits",
    "misses",
    "miss_ratio",
    "evictions",
    "decisions",
    "overrules",
    "mistakes",
    "vindications",
    "revocations",
    "ns_per_access",
];

/// Simulates and prints the table.
///
/// # Errors
///
/// If no policy takes one of the options, a trace cannot be read or is malformed, or a simulation cannot be
/// carried out.
pub fn run(args: &SimArgs, common: &Common) -> Result<()> {
    if let Some(Machine(machine)) = &args.machine {
        return sim_on_machine::run(args, machine, common);
    }
    check_options(args)?;
    let columns: Vec<&str> = args.by.map(|_| "key").into_iter().chain(COLUMNS).chain(TIER_COLUMNS).collect();
    let mut table = Table::new(&columns);
    let mut charts = Vec::new();
    let plot = args.plot.as_deref().map(WholeFile::begin).transpose()?;
    for path in &args.traces {
        let trace = load(path, args)?;
        let runs = runs(args, common, &trace)?;
        let outcomes = simulate_all(args, common, &trace, &runs)?;
        for (run, outcome) in runs.iter().zip(&outcomes).filter(|(run, _)| run.is_listed) {
            push_rows(&mut table, args, common, &trace, run, outcome);
        }
        if args.plot.is_some() {
            charts.push(chart(&trace, &runs, &outcomes));
        }
    }
    table.print(common.format)?;
    if let Some((file, path)) = plot.zip(args.plot.as_ref()) {
        file.finish_with(&plot::stacked(&charts)).with_context(|| unwritable(path))?;
    }
    Ok(())
}

/// Refuses options that have an effect under none of the policies, and warns of those that have an effect
/// under some of them only.
fn check_options(args: &SimArgs) -> Result<()> {
    let policies = args.policy.iter().map(|named| Ok((named.0.as_str(), named.simulated()?.0)));
    let policies = policies.collect::<Result<Vec<(&str, Policy)>>>()?;
    let tenants = Policy::knows_tenants as fn(Policy) -> bool;
    let learns = |policy| policy == Policy::Managed(ManagerKind::Auto);
    for (flag, is_given, takes) in [
        ("--floor", !args.floors.is_empty(), tenants),
        ("--cap", !args.caps.is_empty(), tenants),
        ("--shared-pages", args.shared_pages == Switch::On, tenants),
        ("--program-fuel", args.program_fuel.is_some(), tenants),
        ("--shared-account", args.shared_account == Switch::Off, learns),
        ("--shared-learning", args.shared_learning == Switch::Off, learns),
    ] {
        let without = policies.iter().filter(|(_, policy)| is_given && !takes(*policy));
        let without: Vec<&str> = without.map(|(name, _)| *name).collect();
        if without.is_empty() {
            continue;
        }
        let message = format!("{flag} has no effect under {}", without.join(" "));
        if without.len() < policies.len() {
            eprintln!("bufbench: {message}");
            continue;
        }
        let takers = Policy::all().filter(|policy| takes(*policy)).map(Policy::name);
        let mut takers: Vec<&str> = takers.collect();
        if takes(Policy::Program(Allocation::LruSp)) {
            takers.extend(["program:FILE", "fifo2-sp+program:FILE"]);
        }
        bail!("{message}, expected one of the policies {}", takers.join(" "));
    }
    Ok(())
}

pub(super) fn load(path: &Path, args: &SimArgs) -> Result<Trace> {
    let length_bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
    let bar = progress::bytes_bar(format!("reading {}", path.display()), length_bytes);
    let options = LoadOptions { input: args.input, budget_bytes: args.trace_memory };
    let trace = Trace::load(path, &options, &bar);
    bar.finish_and_clear();
    Ok(trace?)
}

/// A run for every policy at every size.
fn runs(args: &SimArgs, common: &Common, trace: &Trace) -> Result<Vec<Run>> {
    let setup = Setup {
        frames: 0,
        revocation: args.revocation == Switch::On,
        shared_pages: args.shared_pages == Switch::On,
        floors: by_tenant("--floor", &args.floors)?,
        caps: by_tenant("--cap", &args.caps)?,
        by: args.by.unwrap_or(By::Trace),
        seed: common.seed,
        tuning: None,
        shared_account: args.shared_account == Switch::On,
        shared_learning: args.shared_learning == Switch::On,
        program: None,
        programs: BTreeMap::new(),
        program_fuel: args.program_fuel,
        lower: args.tier.map(|tier| tier.lower_cache(trace.distinct(), args.clients)).transpose()?,
        warm_up: args.warm_up,
    };
    let mut runs = Vec::new();
    let mut push = |name: &str, policy: Policy, program: Option<Program>, is_listed: bool| {
        runs.extend(args.frames.iter().map(|size| {
            let frames = size.frames(trace.distinct());
            let setup = Setup { frames, program: program.clone(), ..setup.clone() };
            Run { name: name.to_owned(), policy, setup, is_listed }
        }));
    };
    for named in &args.policy {
        let (policy, file) = named.simulated()?;
        let program = file.map(simulate::read_program).transpose().map_err(anyhow::Error::msg)?;
        push(&named.0, policy, program, true);
    }
    let opt = Policy::Opt.name();
    if args.plot.is_some() && !args.policy.iter().any(|named| named.0 == opt) {
        push(opt, Policy::Opt, None, false);
    }
    Ok(runs)
}

/// The frames that a flag gives each tenant.
///
/// # Errors
///
/// If it names a tenant twice.
fn by_tenant(flag: &str, shares: &[Share]) -> Result<BTreeMap<u32, u32>> {
    let mut frames = BTreeMap::new();
    for Share { tenant, frames: given } in shares {
        let before = frames.insert(*tenant, *given);
        ensure!(
            before.is_none(),
            "{flag} gives frames to tenant {tenant} more than once, expected one {flag} a tenant"
        );
    }
    Ok(frames)
}

fn simulate_all(args: &SimArgs, common: &Common, trace: &Trace, runs: &[Run]) -> Result<Vec<Outcome>> {
    let needs_opt = runs.iter().any(|run| run.policy == Policy::Opt);
    let next_uses = if needs_opt { Some(next_uses(args, trace)?) } else { None };
    let bar = progress::bar(format!("simulating {}", trace.name()), runs.len() as u64, "runs");
    let outcomes = parallel::map(runs.len(), common.jobs(), |number| {
        let Run { name, policy, setup, .. } = &runs[number];
        let outcome = simulate::simulate(trace, *policy, setup, next_uses.as_ref());
        bar.inc(1);
        outcome.with_context(|| format!("policy {name}, {} frames", setup.frames))
    });
    bar.finish_and_clear();
    outcomes.into_iter().collect()
}

fn next_uses(args: &SimArgs, trace: &Trace) -> Result<NextUses> {
    let spinner = ProgressBar::new_spinner().with_message(format!("next uses of {}", trace.name()));
    spinner.enable_steady_tick(std::time::Duration::from_millis(200));
    let uses: Result<NextUses, SimError> = match &args.scratch {
        Some(dir) => NextUses::in_file(trace, dir),
        None if trace.is_in_memory() => NextUses::in_memory(trace),
        None => bail!(
            "{}: OPT needs {} bytes for the next uses of a trace that does not fit in memory; expected --scratch DIR",
            trace.path().display(),
            trace.accesses().saturating_mul(8)
        ),
    };
    spinner.finish_and_clear();
    Ok(uses?)
}

/// Miss ratio over size, one curve a policy.
fn chart(trace: &Trace, runs: &[Run], outcomes: &[Outcome]) -> Curves {
    let mut series: Vec<Series> = Vec::new();
    for (run, outcome) in runs.iter().zip(outcomes) {
        let name = &run.name;
        let at = series.iter().position(|series| series.name == *name).unwrap_or_else(|| {
            let is_bound = run.policy == Policy::Opt;
            series.push(Series { name: name.clone(), points: Vec::new(), is_bound });
            series.len() - 1
        });
        let ratio = outcome.total().misses() as f64 / trace.accesses().max(1) as f64;
        series[at].points.push((f64::from(run.setup.frames), ratio));
    }
    for series in &mut series {
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let title = format!("{}: {} accesses, {} blocks", trace.name(), trace.accesses(), trace.distinct());
    Curves { title, x: "frames".to_owned(), y: "miss ratio".to_owned(), series }
}

fn push_rows(
    table: &mut Table,
    args: &SimArgs,
    common: &Common,
    trace: &Trace,
    run: &Run,
    outcome: &Outcome,
) {
    // Runs on several threads slow each other down, so times are shown with `--jobs 1` only.
    let nanoseconds = if common.jobs == Some(1) && trace.accesses() > 0 {
        Cell::real(outcome.elapsed.as_nanos() as f64 / trace.accesses() as f64, 1)
    } else {
        Cell::Empty
    };
    for (key, counts) in &outcome.counts {
        let key = args.by.map(|_| Cell::Count(*key));
        let of_tier = tier_cells(args, counts);
        let cells = cells(trace, run, counts).into_iter().chain([nanoseconds.clone()]).chain(of_tier);
        table.push(key.into_iter().chain(cells).collect());
    }
}

/// All columns up to the time.
fn cells(trace: &Trace, run: &Run, counts: &Counts) -> [Cell; COLUMNS.len() - 1] {
    [
        Cell::text(trace.name()),
        Cell::text(run.name.as_str()),
        u64::from(run.setup.frames).into(),
        counts.accesses.into(),
        trace.distinct().into(),
        counts.hits.into(),
        counts.misses().into(),
        Cell::share(counts.misses(), counts.accesses),
        counts.evictions.into(),
        counts.decisions.into(),
        counts.overrules.into(),
        counts.mistakes.into(),
        counts.vindications.into(),
        counts.revocations.into(),
    ]
}
