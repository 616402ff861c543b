//! Synthetic reference streams: the applications of the LRU-SP paper, the patterns of the AMP paper, and a
//! few classics, with every count a parameter.
//!
//! A stream is a function that emits the steps of a trace one by one, so that any length can be written with
//! little memory. The same seed gives the same stream.

mod applications;
mod patterns;
mod settings;

use std::io;

use bufpool_policies::classic::PolicyKind;
use clap::ValueEnum;

use crate::random::Random;
use crate::trace::{Directive, Item, Reference};

pub use applications::grouped;
pub use settings::{SettingError, Settings};

/// Which directives a stream gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Advice {
    /// None: an application that knows nothing of its cache.
    None,
    /// Those of the paper, where it gives any.
    Smart,
    /// The background program asks for MRU on data that it re-reads soon.
    Foolish,
}

/// A kind of stream.
#[derive(Debug)]
pub struct Stream {
    /// What users call it.
    pub name: &'static str,
    /// What it imitates.
    pub about: &'static str,
    /// What can be set, with defaults.
    pub parameters: &'static [Parameter],
    /// Whether `smart` gives directives.
    pub has_smart_advice: bool,
    /// Whether `foolish` gives directives.
    pub has_foolish_advice: bool,
    emit: fn(&Settings, &mut Script<'_>) -> io::Result<()>,
}

/// A number that shapes a stream.
#[derive(Debug)]
pub struct Parameter {
    /// What users call it.
    pub name: &'static str,
    /// Its value if nothing is said.
    pub default: f64,
    /// Smallest value allowed.
    pub min: f64,
    /// Largest value allowed.
    pub max: f64,
    /// Whether only whole numbers are allowed.
    pub whole: bool,
    /// What it means.
    pub about: &'static str,
}

impl Parameter {
    /// A whole number of at least 1 and at most 2^40.
    const fn count(name: &'static str, default: u64, about: &'static str) -> Self {
        Self { name, default: default as f64, min: 1.0, max: (1_u64 << 40) as f64, whole: true, about }
    }

    /// A number in 0..=1.
    const fn share(name: &'static str, default: f64, about: &'static str) -> Self {
        Self { name, default, min: 0.0, max: 1.0, whole: false, about }
    }

    /// An exponent in 0..=10.
    const fn exponent(name: &'static str, default: f64, about: &'static str) -> Self {
        Self { name, default, min: 0.0, max: 10.0, whole: false, about }
    }
}

/// All streams, in the order they are listed to users.
pub fn all() -> impl Iterator<Item = &'static Stream> {
    applications::ALL.iter().chain(patterns::ALL)
}

/// The stream of that name.
pub fn find(name: &str) -> Option<&'static Stream> {
    all().find(|stream| stream.name == name)
}

/// All steps of the stream `name` with the settings `set`, each `KEY=VALUE`.
///
/// # Panics
///
/// If there is no such stream or setting.
pub fn items(name: &str, set: &[&str], advice: Advice, seed: u64) -> Vec<Item> {
    let stream = find(name).expect("a known stream");
    let mut settings = Settings::of(stream);
    set.iter().for_each(|assignment| settings.set(assignment).expect("a valid setting"));
    stream.items(&settings, advice, seed)
}

impl Stream {
    /// Emits every step of the stream to `emit`.
    ///
    /// # Errors
    ///
    /// The first one of `emit`.
    pub fn emit(
        &self,
        settings: &Settings,
        advice: Advice,
        seed: u64,
        emit: &mut dyn FnMut(Item) -> io::Result<()>,
    ) -> io::Result<()> {
        (self.emit)(settings, &mut Script { advice, random: Random::new(seed), tenant: 0, emit })
    }

    /// All steps at once.
    pub fn items(&self, settings: &Settings, advice: Advice, seed: u64) -> Vec<Item> {
        let mut items = Vec::new();
        let mut keep = |item| {
            items.push(item);
            Ok(())
        };
        self.emit(settings, advice, seed, &mut keep).expect("nothing to fail");
        items
    }
}

/// What a stream's function writes to.
struct Script<'a> {
    advice: Advice,
    random: Random,
    /// Who accesses and advises from here on.
    tenant: u32,
    emit: &'a mut dyn FnMut(Item) -> io::Result<()>,
}

impl Script<'_> {
    fn is_smart(&self) -> bool {
        self.advice == Advice::Smart
    }

    fn access(&mut self, block: u64, site: u32) -> io::Result<()> {
        (self.emit)(Item::Access(Reference { block, site, tenant: self.tenant }))
    }

    fn directive(&mut self, directive: Directive) -> io::Result<()> {
        (self.emit)(Item::Directive(directive))
    }

    /// Blocks `first .. first + blocks` are the file `name`.
    fn file(&mut self, first: u64, blocks: u64, name: impl Into<String>) -> io::Result<()> {
        self.directive(Directive::File { first, last: first + blocks - 1, name: name.into() })
    }

    fn policy(&mut self, prio: i32, policy: PolicyKind) -> io::Result<()> {
        self.directive(Directive::Policy { tenant: self.tenant, prio, policy })
    }

    fn priority(&mut self, first: u64, blocks: u64, prio: i32) -> io::Result<()> {
        let last = first + blocks - 1;
        self.directive(Directive::Priority { tenant: self.tenant, first, last, prio })
    }

    /// The block is not needed again.
    fn done_with(&mut self, block: u64) -> io::Result<()> {
        let (tenant, first, last) = (self.tenant, block, block);
        self.directive(Directive::TemporaryPriority { tenant, first, last, prio: -1 })
    }
}
