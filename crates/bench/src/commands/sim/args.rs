//! Arguments of `bufbench sim`.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use bufpool_policies::{Allocation, UnknownName};
use clap::{Args, ValueEnum};

use super::tier::{LatencyFlag, TierFlag};
use crate::cli::whole;
use crate::output::progress;
use crate::simulate::machine::{MachineOptions, MachinePolicy};
use crate::simulate::{By, Policy};
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
    #[arg(long, value_name = "ACCESSES", default_value_t = 0, conflicts_with = "machine",
          value_parser = whole::<u64>(0..=u64::MAX))]
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
    #[arg(long, value_name = "STEPS", value_parser = whole::<u32>(1..=u32::MAX.into()))]
    pub program_fuel: Option<u32>,
    /// Memory for the accesses of a trace; a longer one is read from its file for each run
    #[arg(long, value_name = "BYTES", default_value_t = LoadOptions::default().budget_bytes,
          value_parser = whole::<usize>(0..=u64::MAX))]
    pub trace_memory: usize,
}

impl SimArgs {
    /// Reads one of the traces.
    pub(super) fn load(&self, path: &Path) -> Result<Trace> {
        let length_bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
        let bar = progress::bytes_bar(format!("reading {}", path.display()), length_bytes);
        let options = LoadOptions { input: self.input, budget_bytes: self.trace_memory };
        let trace = Trace::load(path, &options, &bar);
        bar.finish_and_clear();
        Ok(trace?)
    }
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
pub struct Named(pub(super) String);

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
    pub(super) fn simulated(&self) -> Result<(Policy, Option<&Path>)> {
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
        let program = program_file(name);
        if program.is_some_and(|(file, _)| file.as_os_str().is_empty()) {
            return Err(format!("expected {name}FILE with the path of a program, found no path"));
        }
        let is_known = program.is_some() || name.parse::<MachinePolicy>().is_ok();
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
    pub(super) tenant: u32,
    pub(super) frames: u32,
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
