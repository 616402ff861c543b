//! The schemes that workloads are run under: how frames are divided between tenants, and what manages the
//! frames of a tenant.

use anyhow::{Result, anyhow};
use bufpool::ManagerKind;
use bufpool::manager::Allocation;

/// What decides which of a tenant's own pages is replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manager {
    /// Nothing: the tenant is oblivious.
    None,
    /// Priority pools, with the directives that the papers give for each workload.
    Directives,
    /// A manager that needs no directives.
    Kind(ManagerKind),
}

impl Manager {
    /// The pool's manager of tenants that give no directives.
    pub fn kind(self) -> Option<ManagerKind> {
        match self {
            Self::None | Self::Directives => None,
            Self::Kind(kind) => Some(kind),
        }
    }
}

/// A way to decide which page is replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// Its name in tables and on the command line.
    pub name: &'static str,
    /// How the pool divides frames between tenants.
    pub allocation: Allocation,
    /// What manages the frames of each tenant of a workload.
    pub manager: Manager,
    /// Whether the main job runs it by default.
    pub in_main_job: bool,
}

/// All schemes, in the order of the tables.
pub const SCHEMES: &[Scheme] = &[
    Scheme::new("lru", Allocation::GlobalLru, Manager::None).in_main_job(),
    Scheme::new("lru-sp", Allocation::LruSp, Manager::Directives).in_main_job(),
    Scheme::managed(ManagerKind::Auto).in_main_job(),
    Scheme::managed(ManagerKind::Reuse),
    Scheme::managed(ManagerKind::Amp),
    Scheme::managed(ManagerKind::AmpPlus),
    Scheme::managed(ManagerKind::Pcc),
    Scheme::managed(ManagerKind::PccGain),
    Scheme::managed(ManagerKind::Ubm),
    Scheme::managed(ManagerKind::UbmGain),
    Scheme::managed(ManagerKind::Dear),
    Scheme::new("lru-s", Allocation::LruS, Manager::Directives),
    Scheme::new("alloc-lru", Allocation::AllocLru, Manager::Directives),
];

impl Scheme {
    const fn new(name: &'static str, allocation: Allocation, manager: Manager) -> Self {
        Self { name, allocation, manager, in_main_job: false }
    }

    const fn managed(kind: ManagerKind) -> Self {
        Self::new(kind.name(), Allocation::LruSp, Manager::Kind(kind))
    }

    const fn in_main_job(self) -> Self {
        Self { in_main_job: true, ..self }
    }

    /// The scheme of that name.
    ///
    /// # Errors
    /// If there is none; the message names all schemes.
    pub fn find(name: &str) -> Result<&'static Self> {
        SCHEMES.iter().find(|scheme| scheme.name == name).ok_or_else(|| {
            let names: Vec<_> = SCHEMES.iter().map(|scheme| scheme.name).collect();
            anyhow!("no scheme is named {name:?}: expected one of {}", names.join(", "))
        })
    }
}
