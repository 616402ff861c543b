//! The schemes that workloads are run under: how frames are divided, and what manages each tenant's.

use anyhow::{Result, anyhow};
use bufpool::Allocation;

/// What decides within a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manager {
    /// Nothing: the tenant is oblivious.
    None,
    /// Priority pools, with the directives that the papers give for each workload.
    Directives,
}

/// A way to decide which page goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// Its name in tables and on the command line.
    pub name: &'static str,
    /// How the pool divides frames between tenants.
    pub allocation: Allocation,
    /// What each workload's tenants get.
    pub manager: Manager,
    /// Whether the main job shows it without being asked for all.
    pub in_main_job: bool,
}

/// All schemes, in the order of the tables.
pub const SCHEMES: &[Scheme] = &[
    Scheme { name: "lru", allocation: Allocation::GlobalLru, manager: Manager::None, in_main_job: true },
    Scheme { name: "lru-sp", allocation: Allocation::LruSp, manager: Manager::Directives, in_main_job: true },
    Scheme { name: "lru-s", allocation: Allocation::LruS, manager: Manager::Directives, in_main_job: false },
    Scheme {
        name: "alloc-lru",
        allocation: Allocation::AllocLru,
        manager: Manager::Directives,
        in_main_job: false,
    },
];

impl Scheme {
    /// The scheme of that name.
    ///
    /// # Errors
    /// If there is none; the message names all.
    pub fn find(name: &str) -> Result<&'static Self> {
        SCHEMES.iter().find(|scheme| scheme.name == name).ok_or_else(|| {
            let names: Vec<_> = SCHEMES.iter().map(|scheme| scheme.name).collect();
            anyhow!("no scheme is named {name:?}: expected one of {}", names.join(", "))
        })
    }
}
