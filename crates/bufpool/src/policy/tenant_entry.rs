//! The pool's tenants: what it adds to the directory's knowledge of them, and who manages them.

use std::sync::Arc;

use bufpool_policies::hints::HintPolicy;
use bufpool_policies::program::Program;
use bufpool_policies::{ManagerKind, SharedLearning};

use crate::policy::ahead::AheadPages;
use crate::policy::hint_sites::HintSites;
use crate::thread::stack::StackContexts;

/// How managers of tenants are made.
#[derive(Default)]
pub(crate) struct Managers {
    /// What manages tenants that do not say.
    pub default: Option<ManagerKind>,
    /// Seed of what managers draw at random.
    pub seed: u64,
    /// Steps that an event of a program may take; `None` for the programs' own limit.
    pub program_fuel_steps: Option<u32>,
    /// What tenants with automatic managers of their own and few pages learn together.
    pub shared_learning: SharedLearning,
}

/// Who manages a tenant, until it gives a directive, if not the commons.
pub(crate) enum ManagedBy {
    Nobody,
    Kind(ManagerKind),
    Program(Program),
    /// A manager of the engine's own.
    Custom,
}

impl ManagedBy {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Nobody => "none",
            Self::Kind(kind) => kind.name(),
            Self::Program(_) => "program",
            Self::Custom => "custom",
        }
    }
}

/// What the pool adds to the directory's knowledge of a tenant.
pub(crate) struct TenantEntry {
    pub name: Arc<str>,
    /// No other tenant of the pool ever has it, unlike its number.
    pub serial: u64,
    pub closed: bool,
    pub(super) manager: ManagedBy,
    /// Its floor is its cap, from its opening on.
    pub is_privileged: bool,
    /// Its automatic manager learns from it alone.
    pub learns_alone: bool,
    /// Hits on pages that had moved on, or were outside the directory, when the hit was applied.
    pub hits_unlisted: u64,
    /// How the call stack is part of its contexts; None if it is not.
    pub stacks: Option<StackContexts>,
    /// Misses that made their page.
    pub creations: u64,
    /// Pages brought in ahead for it.
    pub(super) ahead: AheadPages,
    /// What is done with the reads that it discloses.
    pub hint_policy: HintPolicy,
    pub hint_sites: HintSites,
}

impl TenantEntry {
    pub fn new(name: Arc<str>) -> Self {
        Self {
            name,
            serial: 0,
            closed: false,
            manager: ManagedBy::Nobody,
            is_privileged: false,
            learns_alone: false,
            hits_unlisted: 0,
            stacks: None,
            creations: 0,
            ahead: AheadPages::default(),
            hint_policy: HintPolicy::default(),
            hint_sites: HintSites::default(),
        }
    }

    /// The program that is its manager.
    pub fn program(&self) -> Option<&Program> {
        match &self.manager {
            ManagedBy::Program(program) => Some(program),
            _ => None,
        }
    }
}
