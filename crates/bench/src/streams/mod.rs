//! Synthetic reference streams: the applications of the LRU-SP paper, the patterns of the AMP paper, the
//! programs with hints of the comparison of TIP2 with LRU-SP, the programs of HiPEC, the clients of exclusive
//! caches, changing phases, many tenants, and a few classics. Counts are parameters, except those of
//! `phases`, which the seed decides.
//!
//! A stream is a function that emits the steps of a trace one by one. Most streams need little memory
//! whatever their length; those that keep something in memory refuse settings for which there is no room. The
//! same seed gives the same stream.

mod applications;
mod exclusive;
mod hinted;
mod patterns;
mod phases;
mod policy_programs;
mod settings;
mod stream;
mod tenants;
mod xds;

use crate::trace::Item;

pub use applications::grouped;
pub use settings::{Parameter, SettingError, Settings};
pub use stream::{Advice, Stream};

/// All streams, in the order in which they are listed.
pub fn all() -> impl Iterator<Item = &'static Stream> {
    applications::ALL
        .iter()
        .chain(patterns::ALL)
        .chain(hinted::ALL)
        .chain(policy_programs::ALL)
        .chain(exclusive::ALL)
        .chain(phases::ALL)
        .chain(tenants::ALL)
}

/// The stream of that name.
pub fn find(name: &str) -> Option<&'static Stream> {
    all().find(|stream| stream.name == name)
}

/// All steps of the stream `name` with the settings `set`, each `KEY=VALUE`.
///
/// # Panics
///
/// If there is no such stream or setting, or no room for what the stream keeps in memory.
pub fn items(name: &str, set: &[&str], advice: Advice, seed: u64) -> Vec<Item> {
    let stream = find(name).expect("a known stream");
    let mut settings = stream.settings();
    set.iter().for_each(|assignment| settings.set(assignment).expect("a valid setting"));
    stream.items(&settings, advice, seed)
}
