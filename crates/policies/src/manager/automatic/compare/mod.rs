//! Who chooses what goes: three caches in miniature over the sampled pages ([`miniatures`]), by LRU, by ARC
//! and by value, each a [`shadow`] of the cache; and the [`judge`] of these experts by what their shadows
//! miss.

pub(crate) mod arc;
pub(crate) mod experts;
pub(crate) mod judge;
mod lru;
pub(crate) mod miniatures;
pub(crate) mod shadow;
mod value;
