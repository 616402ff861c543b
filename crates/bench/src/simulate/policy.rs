//! What can be simulated: one policy over all frames, or a ledger over tenants with managers below it.

use std::str::FromStr;

use bufpool_policies::classic::PolicyKind;
use bufpool_policies::{Allocation, ManagerKind, UnknownName};

use super::variant::Variant;

/// What decides which block goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// One policy over all frames. It ignores tenants, and all directives but pins.
    OneLevel(PolicyKind),
    /// A one-level policy with the rules of another program.
    Variant(Variant),
    /// Belady's optimum over all frames.
    Opt,
    /// A ledger over all tenants, and each tenant's priority levels below it.
    TwoLevel(Allocation),
    /// LRU-SP over all tenants. Each tenant has a manager that needs no directives, until it gives a
    /// directive.
    Managed(ManagerKind),
    /// A ledger over all tenants. The program of [`Setup::program`](super::Setup::program) is the manager of
    /// each tenant until the tenant gives a directive.
    Program(Allocation),
}

impl Policy {
    /// The policy's name. [`FromStr`] reads the names of the policies of [`Policy::all`].
    pub fn name(self) -> &'static str {
        match self {
            Self::OneLevel(kind) => kind.name(),
            Self::Variant(variant) => variant.name(),
            Self::Opt => "opt",
            Self::TwoLevel(Allocation::GlobalLru) => "global-lru",
            Self::TwoLevel(Allocation::AllocLru) => "alloc-lru",
            Self::TwoLevel(Allocation::LruS) => "lru-s",
            Self::TwoLevel(Allocation::LruSp) => "lru-sp",
            Self::TwoLevel(Allocation::CostBenefit) => "cost-benefit",
            Self::TwoLevel(Allocation::Fifo2Sp) => "fifo2-sp",
            Self::Managed(kind) => kind.name(),
            Self::Program(_) => "program",
        }
    }

    /// Whether it shares frames among tenants; one-level policies ignore them.
    pub fn knows_tenants(self) -> bool {
        matches!(self, Self::TwoLevel(_) | Self::Managed(_) | Self::Program(_))
    }

    /// All policies that users can name, programs aside, in the order they are listed.
    pub fn all() -> impl Iterator<Item = Policy> {
        let two_level = [Allocation::LruSp, Allocation::AllocLru, Allocation::LruS, Allocation::Fifo2Sp];
        let two_level = two_level.map(Self::TwoLevel);
        let managed = ManagerKind::ALL.into_iter().map(Self::Managed);
        let variants = Variant::ALL.into_iter().map(Self::Variant);
        let one_level = PolicyKind::ALL.into_iter().map(Self::OneLevel).chain([Self::Opt]).chain(variants);
        one_level.chain(two_level).chain(managed)
    }
}

impl FromStr for Policy {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::all().find(|policy| policy.name() == name).ok_or_else(|| UnknownName {
            name: name.to_owned(),
            kind: "policies",
            known: Self::all().map(Self::name).collect(),
        })
    }
}
