//! `bufbench sim`: traces against policies and sizes.

mod args;
mod on_machine;
mod tier;

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use bufpool_policies::program::Program;
use bufpool_policies::{Allocation, ManagerKind};
use indicatif::ProgressBar;

use crate::cli::Common;
use crate::output::plot::{self, Curves, Series};
use crate::output::{Cell, Table, WholeFile, unwritable};
use crate::output::{note, progress};
use crate::parallel;
use crate::simulate::{self, By, Counts, NextUses, Outcome, Policy, Setup, SimError};
use crate::trace::Trace;
use args::{Machine, Share, Switch};
pub use args::{Named, SimArgs};
use tier::{TIER_COLUMNS, tier_cells};

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
        return on_machine::run(args, machine, common);
    }
    check_options(args)?;
    let columns: Vec<&str> = args.by.map(|_| "key").into_iter().chain(COLUMNS).chain(TIER_COLUMNS).collect();
    let mut table = Table::new(&columns);
    let mut charts = Vec::new();
    let plot = args.plot.as_deref().map(WholeFile::begin).transpose()?;
    for path in &args.traces {
        let trace = args.load(path)?;
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
            note(format_args!("bufbench: {message}"));
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
    let latency = args.tier.map(|_| args.latency.unwrap_or_default().0);
    for (key, counts) in &outcome.counts {
        let key = args.by.map(|_| Cell::Count(*key));
        let of_tier = tier_cells(latency, counts);
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
