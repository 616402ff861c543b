//! Managers that need no directives, by the names users know.

use std::fmt;
use std::str::FromStr;

use super::Manager;
use super::automatic::{Automatic, SharedLearning, Strategy, Tuning};
use super::partitioned::Partitioned;
use crate::detect::DetectorKind;
use crate::error::UnknownName;
use crate::ids::TenantId;
use crate::random::mix64;

/// A manager that finds out by itself which pages to give up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ManagerKind {
    /// [`Partitioned`] as published, loops named by AMP. For comparison.
    Amp,
    /// As [`Amp`](Self::Amp) with a fallback: a stream that is wrong more often than not loses its class for
    /// a while.
    AmpPlus,
    /// [`Partitioned`], loops named by PCC. Remembers every page it ever saw: for comparison.
    Pcc,
    /// As [`Pcc`](Self::Pcc) with PCC's own allocation, by marginal gains. For comparison.
    PccGain,
    /// [`Partitioned`], loops named by UBM. For comparison.
    Ubm,
    /// As [`Ubm`](Self::Ubm) with UBM's own allocation, by marginal gains. For comparison.
    UbmGain,
    /// [`Partitioned`], loops named by DEAR. For comparison.
    Dear,
    /// [`Automatic`], by what it learned of reuse intervals.
    Reuse,
    /// [`Automatic`], by whatever does best: the default of tenants that give no directives.
    Auto,
}

impl ManagerKind {
    /// All kinds, the default last.
    pub const ALL: [Self; 9] = [
        Self::Amp,
        Self::AmpPlus,
        Self::Pcc,
        Self::PccGain,
        Self::Ubm,
        Self::UbmGain,
        Self::Dear,
        Self::Reuse,
        Self::Auto,
    ];

    /// Its name in commands and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Amp => "amp",
            Self::AmpPlus => "amp+",
            Self::Pcc => "pcc",
            Self::PccGain => "pcc-gain",
            Self::Ubm => "ubm",
            Self::UbmGain => "ubm-gain",
            Self::Dear => "dear",
            Self::Reuse => "reuse",
            Self::Auto => "auto",
        }
    }

    /// A manager for `tenant` in a pool of `pool_frames` frames. The same seed and tenant give the same
    /// decisions, live and in a simulation.
    pub fn build(self, pool_frames: u32, seed: u64, tenant: TenantId) -> Box<dyn Manager> {
        self.build_with(pool_frames, seed, tenant, &Tuning::default(), None)
    }

    /// As [`build`](Self::build), with other constants, which only [`Automatic`] has. `shared` is what
    /// managers of the kind [`Auto`](Self::Auto) learn together as long as their tenants have few pages.
    pub fn build_with(
        self,
        pool_frames: u32,
        seed: u64,
        tenant: TenantId,
        tuning: &Tuning,
        shared: Option<&SharedLearning>,
    ) -> Box<dyn Manager> {
        let seed = mix64(seed ^ u64::from(tenant.0) << 32);
        let falling_back = |detector| Partitioned::new(detector, pool_frames, seed);
        let automatic = |strategy| Automatic::with_tuning(strategy, pool_frames, seed, tuning);
        let partitioned = |detector| falling_back(detector).without_fallback();
        match self {
            Self::Amp => Box::new(partitioned(DetectorKind::Amp)),
            Self::AmpPlus => Box::new(falling_back(DetectorKind::Amp)),
            Self::Pcc => Box::new(partitioned(DetectorKind::Pcc)),
            Self::PccGain => Box::new(partitioned(DetectorKind::Pcc).with_marginal_gains()),
            Self::Ubm => Box::new(partitioned(DetectorKind::Ubm)),
            Self::UbmGain => Box::new(partitioned(DetectorKind::Ubm).with_marginal_gains()),
            Self::Dear => Box::new(partitioned(DetectorKind::Dear)),
            Self::Reuse => Box::new(automatic(Strategy::Reuse)),
            Self::Auto => {
                let alone = automatic(Strategy::Auto);
                Box::new(if let Some(shared) = shared { alone.sharing(shared) } else { alone })
            }
        }
    }
}

impl fmt::Display for ManagerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ManagerKind {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownName {
            name: name.to_owned(),
            kind: "managers",
            known: Self::ALL.map(Self::name).into(),
        })
    }
}
