//! Level one: which tenant gives up a frame.
//!
//! The *ledger* is not a replacement order but an allocation order: a block's position in it is its tenant's
//! entitlement to a frame. It is kept as one list a tenant, ordered by 64-bit stamps; the candidate is the least
//! stamp among the heads of the eligible tenants ([`heads`]).

pub(crate) mod heads;
pub(crate) mod lru_sp;
pub(crate) mod placeholders;
pub(crate) mod revocation;

/// What the pool makes of a manager's overrule.
///
/// Paper: Cao, Felten, Li, "Implementation and Performance of Application-Controlled File Caching", OSDI '94.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Allocation {
    /// Managers are not asked: one LRU list over all tenants.
    GlobalLru,
    /// Overruled candidates keep their place, so the same tenant is charged again at once.
    AllocLru,
    /// Swapping without placeholders: foolish tenants take the frames of others.
    LruS,
    /// Swapping and placeholders: an overrule costs nobody but the tenant that made it.
    #[default]
    LruSp,
}

impl Allocation {
    /// Whether managers are asked.
    pub const fn asks_managers(self) -> bool {
        !matches!(self, Self::GlobalLru)
    }
}
