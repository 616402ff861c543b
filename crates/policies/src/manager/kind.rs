//! Managers that need no directives, by the names users know.

use std::fmt;
use std::str::FromStr;

use super::Manager;
use super::automatic::{Automatic, Strategy};
use super::partitioned::Partitioned;
use crate::detect::DetectorKind;
use crate::ids::TenantId;
use crate::random::mix64;

/// A manager that finds out by itself which pages to give up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ManagerKind {
    /// [`Partitioned`], loops named by AMP.
    Amp,
    /// [`Partitioned`], loops named by PCC. Remembers every page it ever saw: for comparison.
    Pcc,
    /// [`Partitioned`], loops named by UBM. For comparison.
    Ubm,
    /// [`Partitioned`], loops named by DEAR. For comparison.
    Dear,
    /// [`Automatic`], by what it learned of reuse intervals.
    Reuse,
    /// [`Automatic`], by whatever does best: the default of tenants that give no directives.
    Auto,
}

impl ManagerKind {
    /// All kinds, the default last.
    pub const ALL: [Self; 6] = [Self::Amp, Self::Pcc, Self::Ubm, Self::Dear, Self::Reuse, Self::Auto];

    /// Its name in commands and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Amp => "amp",
            Self::Pcc => "pcc",
            Self::Ubm => "ubm",
            Self::Dear => "dear",
            Self::Reuse => "reuse",
            Self::Auto => "auto",
        }
    }

    /// A manager for `tenant` in a pool of `pool_frames` frames. The same seed and tenant give the same
    /// decisions, live and in a simulation.
    pub fn build(self, pool_frames: u32, seed: u64, tenant: TenantId) -> Box<dyn Manager> {
        let seed = mix64(seed ^ u64::from(tenant.0) << 32);
        let partitioned = |detector| Partitioned::new(detector, pool_frames, seed);
        match self {
            Self::Amp => Box::new(partitioned(DetectorKind::Amp)),
            Self::Pcc => Box::new(partitioned(DetectorKind::Pcc).without_fallback()),
            Self::Ubm => Box::new(partitioned(DetectorKind::Ubm).without_fallback()),
            Self::Dear => Box::new(partitioned(DetectorKind::Dear).without_fallback()),
            Self::Reuse => Box::new(Automatic::new(Strategy::Reuse, pool_frames, seed)),
            Self::Auto => Box::new(Automatic::new(Strategy::Auto, pool_frames, seed)),
        }
    }
}

impl fmt::Display for ManagerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ManagerKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name);
            format!("expected one of the managers {}", known.join(" "))
        })
    }
}
