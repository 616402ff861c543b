//! What a stream is: its description, and what it emits its steps to.

use std::io;

use bufpool_policies::classic::PolicyKind;
use clap::ValueEnum;

use super::settings::{Parameter, Settings};
use crate::random::Random;
use crate::trace::{Directive, Item, Reference};

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
    /// Its name on the command line.
    pub name: &'static str,
    /// What it imitates.
    pub about: &'static str,
    /// Its parameters, with their defaults.
    pub parameters: &'static [Parameter],
    /// Whether `smart` gives directives.
    pub has_smart_advice: bool,
    /// Whether `foolish` gives directives.
    pub has_foolish_advice: bool,
    pub(super) emit: fn(&Settings, &mut Script<'_>) -> io::Result<()>,
}

impl Stream {
    /// Its parameters, with their default values.
    pub fn settings(&self) -> Settings {
        Settings::new(self.name, self.parameters)
    }

    /// Emits every step of the stream to `emit`.
    ///
    /// # Errors
    ///
    /// The first error of `emit`; or one that holds a [`SettingError`](super::SettingError), if there is no
    /// room for what the stream keeps in memory.
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
    ///
    /// # Panics
    ///
    /// If there is no room for what the stream keeps in memory.
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
pub(super) struct Script<'a> {
    pub(super) advice: Advice,
    pub(super) random: Random,
    /// The tenant of the accesses and directives from here on.
    pub(super) tenant: u32,
    emit: &'a mut dyn FnMut(Item) -> io::Result<()>,
}

impl Script<'_> {
    pub(super) fn is_smart(&self) -> bool {
        self.advice == Advice::Smart
    }

    pub(super) fn access(&mut self, block: u64, site: u32) -> io::Result<()> {
        (self.emit)(Item::Access(Reference { block, site, tenant: self.tenant }))
    }

    pub(super) fn directive(&mut self, directive: Directive) -> io::Result<()> {
        (self.emit)(Item::Directive(directive))
    }

    /// Says that blocks `first .. first + blocks` are the file `name`.
    pub(super) fn file(&mut self, first: u64, blocks: u64, name: impl Into<String>) -> io::Result<()> {
        self.directive(Directive::File { first, last: first + blocks - 1, name: name.into() })
    }

    pub(super) fn policy(&mut self, prio: i32, policy: PolicyKind) -> io::Result<()> {
        self.directive(Directive::Policy { tenant: self.tenant, prio, policy })
    }

    pub(super) fn priority(&mut self, first: u64, blocks: u64, prio: i32) -> io::Result<()> {
        let last = first + blocks - 1;
        self.directive(Directive::Priority { tenant: self.tenant, first, last, prio })
    }

    /// Gives the block its directive: it is not needed again.
    pub(super) fn done_with(&mut self, block: u64) -> io::Result<()> {
        let (tenant, first, last) = (self.tenant, block, block);
        self.directive(Directive::TemporaryPriority { tenant, first, last, prio: -1 })
    }
}
