//! Which way of choosing is followed: three caches in miniature over the sampled pages ([`miniatures`]), by
//! LRU, by ARC and by value, each a [`Shadow`](shadow::Shadow), and the judge of what they miss
//! ([`experts`]).

mod arc;
pub(crate) mod experts;
mod holdings;
mod lru;
pub(crate) mod miniatures;
mod shadow;
mod value;
