//! Which page is worth least, of those that the tenant holds.

pub(crate) mod by_class;
pub(crate) mod held;
