//! `bufbench tenants`: what many tenants cost, in the simulator and in a pool.

use anyhow::{Result, bail};
use bufpool_policies::ManagerKind;
use clap::{Args, ValueEnum};

use super::sim::Named;
use crate::cli::{Common, whole};
use crate::measure::tenants::{LiveCosts, Work, live, simulated};
use crate::output::{Cell, Table};
use crate::rounds::{Spread, alternate_often};
use crate::simulate::Policy;
use crate::streams::{self, Advice};
use crate::trace::Trace;

/// Arguments of `bufbench tenants`.
#[derive(Args, Debug)]
pub struct TenantsArgs {
    /// Numbers of tenants, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,100,10000",
          value_parser = whole::<u32>(1..=10_000))]
    pub tenants: Vec<u32>,
    /// Policies, separated by commas; in a pool only managers, and lru-sp for tenants without a manager
    #[arg(long, value_delimiter = ',', value_name = "NAME", default_value = "lru-sp,auto")]
    pub policy: Vec<Named>,
    /// Only this part
    #[arg(long, value_enum)]
    pub only: Option<Part>,
    /// Rounds of the part `pool`, in which the numbers of tenants alternate
    #[arg(long, default_value_t = 3, value_parser = whole::<u32>(1..=1000))]
    pub rounds: u32,
}

/// A part of the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Part {
    /// A million accesses in the simulator, 15,000 frames, tenants with a manager each
    Sim,
    /// A pool whose tenants have a floor each
    Pool,
}

const SIM_FRAMES: u32 = 15_000;

const COLUMNS: [&str; 8] =
    ["work", "policy", "tenants", "operations", "misses", "memory_bytes", "ns_each", "to_fewest_tenants"];

/// Measures and prints the table.
///
/// # Errors
///
/// If a policy is not known; if one that is to run in a pool is neither lru-sp nor a manager; as those of the
/// simulator and the pool.
pub fn run(args: &TenantsArgs, common: &Common) -> Result<()> {
    let policies: Vec<Policy> = args.policy.iter().map(Named::find).collect::<Result<_, _>>()?;
    let mut table = Table::new(&COLUMNS);
    if args.only != Some(Part::Pool) {
        push_simulated(&mut table, args, &policies, common.seed)?;
    }
    if args.only != Some(Part::Sim) {
        for policy in &policies {
            push_live(&mut table, args, *policy, common.seed)?;
        }
    }
    table.print(common.format)?;
    Ok(())
}

/// A row for each policy and number of tenants; for `auto` a second row, in which all tenants share one
/// manager.
fn push_simulated(table: &mut Table, args: &TenantsArgs, policies: &[Policy], seed: u64) -> Result<()> {
    let traces: Vec<Trace> = args
        .tenants
        .iter()
        .map(|tenants| {
            let set = format!("tenants={tenants}");
            Trace::of("tenants", streams::items("tenants", &[&set], Advice::None, seed))
        })
        .collect();
    for policy in policies {
        let accounts: &[(&str, bool)] = match policy {
            Policy::Managed(ManagerKind::Auto) => &[("sim", false), ("sim-shared", true)],
            _ => &[("sim", false)],
        };
        for (work, is_shared) in accounts {
            let mut fewest = None;
            for (tenants, trace) in args.tenants.iter().zip(&traces) {
                let ran = simulated(trace, *policy, SIM_FRAMES, *is_shared, seed)?;
                table.push(vec![
                    (*work).into(),
                    policy.name().into(),
                    u64::from(*tenants).into(),
                    ran.accesses.into(),
                    ran.misses.into(),
                    ran.peak_bytes.map_or(Cell::Empty, Cell::Count),
                    Cell::real(ran.ns_access, 1),
                    Cell::Ratio(ran.ns_access / *fewest.get_or_insert(ran.ns_access)),
                ]);
            }
        }
    }
    Ok(())
}

/// A row for each kind of work and number of tenants under the policy.
fn push_live(table: &mut Table, args: &TenantsArgs, policy: Policy, seed: u64) -> Result<()> {
    let manager = match policy {
        Policy::TwoLevel(bufpool_policies::Allocation::LruSp) => None,
        Policy::Managed(kind) => Some(kind),
        _ => bail!("in a pool: expected lru-sp or a manager, found {}", policy.name()),
    };
    let rounds: Vec<Vec<LiveCosts>> =
        alternate_often(args.rounds as usize, &format!("tenants under {}", policy.name()), || {
            args.tenants.iter().map(|tenants| live(*tenants, manager, seed)).collect()
        })?;
    for (number, work) in Work::ALL.into_iter().enumerate() {
        let median = |at: usize| Spread::of(rounds.iter().map(|round| round[at][number].1)).median;
        for (at, tenants) in args.tenants.iter().enumerate() {
            table.push(vec![
                work.name().into(),
                policy.name().into(),
                u64::from(*tenants).into(),
                rounds[0][at][number].0.into(),
                Cell::Empty,
                Cell::Empty,
                Cell::real(median(at), 1),
                Cell::Ratio(median(at) / median(0)),
            ]);
        }
    }
    Ok(())
}
