//! Who decides about what part of the cache: three caches in miniature over the sampled pages
//! ([`miniatures`]), by LRU, by ARC and by value, each a [`shadow`] of the cache, and the shares of these
//! experts by what their shadows miss ([`shares`]).

mod arc;
pub(crate) mod experts;
mod holdings;
mod lru;
pub(crate) mod miniatures;
pub(crate) mod shadow;
pub(crate) mod shares;
mod value;
