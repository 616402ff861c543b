//! The scopes around an access, as a thread keeps them: a hash and a depth.

/// The hash of a chain of scopes; 0 outside of all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ScopeId(pub u64);

impl ScopeId {
    /// Outside of all scopes.
    pub const NONE: Self = Self(0);
}

/// The scopes that a thread is in, to be taken elsewhere: [`Tenant::in_context`](crate::Tenant::in_context)
/// makes accesses in it from other threads and tasks, [`enter`](Context::enter) puts a whole thread into it.
///
/// The default is outside of all scopes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Context {
    pub(super) scope: ScopeId,
    pub(super) depth: u32,
}

impl Context {
    /// Outside of all scopes.
    pub const NONE: Self = Self { scope: ScopeId(0), depth: 0 };
}
