//! Steps of a trace, by number: those in memory, and those that wait to be played.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::trace::replay::{Act, Batch, Replay};
use crate::trace::{Directive, Place};

/// An access, by the numbers of its block, site and tenant.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    pub block: u32,
    pub site: u32,
    pub tenant: u32,
}

/// Accesses that were read from a file and not played yet.
#[derive(Default)]
pub(super) struct Pending {
    first: u64,
    blocks: Vec<u32>,
    sites: Vec<u32>,
    tenants: Vec<u32>,
}

impl Pending {
    const ACCESSES_MAX: usize = 1 << 16;

    pub fn push(&mut self, numbers: Numbers) {
        self.blocks.push(numbers.block);
        self.sites.push(numbers.site);
        self.tenants.push(numbers.tenant);
    }

    pub fn is_full(&self) -> bool {
        self.blocks.len() >= Self::ACCESSES_MAX
    }

    /// Plays all of them, and returns the time that this took.
    pub fn play<R: Replay>(&mut self, run: &mut R) -> Result<Duration, R::Error> {
        let Self { first, blocks, sites, tenants } = self;
        let started = Instant::now();
        if !blocks.is_empty() {
            run.batch(Batch { first: *first, blocks, sites, tenants })?;
        }
        self.first += self.blocks.len() as u64;
        self.blocks.clear();
        self.sites.clear();
        self.tenants.clear();
        Ok(started.elapsed())
    }
}

/// The steps of a trace in memory.
#[derive(Default, Debug)]
pub(super) struct Steps {
    blocks: Vec<u32>,
    sites: Column,
    tenants: Column,
    /// Events, each with the index of the access that it precedes.
    acts: Vec<(u64, StoredAct)>,
    directives: Vec<(Directive, Place)>,
    /// Bytes of heap memory that the directives hold.
    text_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum StoredAct {
    Pin(u32),
    Unpin(u32),
    /// Index into `Steps::directives`.
    Directive(u32),
}

/// One number for each access. Takes no memory as long as all numbers are 0.
#[derive(Default, Debug)]
struct Column {
    values: Vec<u32>,
}

impl Column {
    /// Appends the value of the access with index `at`.
    fn push(&mut self, at: usize, value: u32) {
        if value != 0 && self.values.is_empty() {
            self.values.resize(at, 0);
        }
        if value != 0 || !self.values.is_empty() {
            self.values.push(value);
        }
    }

    fn slice(&self, range: Range<usize>) -> &[u32] {
        if self.values.is_empty() { &[] } else { &self.values[range] }
    }
}

impl Steps {
    pub fn push(&mut self, numbers: Numbers) {
        let at = self.blocks.len();
        self.blocks.push(numbers.block);
        self.sites.push(at, numbers.site);
        self.tenants.push(at, numbers.tenant);
    }

    pub fn push_directive(&mut self, directive: Directive, place: Place) {
        if let Directive::File { name: text, .. }
        | Directive::Program { file: text, .. }
        | Directive::Send { slot: text, .. } = &directive
        {
            self.text_bytes += text.capacity();
        }
        self.acts.push((self.blocks.len() as u64, StoredAct::Directive(self.directives.len() as u32)));
        self.directives.push((directive, place));
    }

    /// `act` precedes the access with index `before`.
    pub fn push_act(&mut self, before: u64, act: StoredAct) {
        self.acts.push((before, act));
    }

    pub fn bytes(&self) -> usize {
        size_of::<u32>() * (self.blocks.len() + self.sites.values.len() + self.tenants.values.len())
            + size_of::<(u64, StoredAct)>() * self.acts.len()
            + size_of::<(Directive, Place)>() * self.directives.len()
            + self.text_bytes
    }

    pub fn replay<R: Replay>(&self, run: &mut R) -> Result<(), R::Error> {
        let mut next = 0;
        for &(before, act) in &self.acts {
            self.play(next..before as usize, run)?;
            next = before as usize;
            run.act(match act {
                StoredAct::Pin(block) => Act::Pin(block),
                StoredAct::Unpin(block) => Act::Unpin(block),
                StoredAct::Directive(index) => {
                    let (directive, place) = &self.directives[index as usize];
                    Act::Directive(directive, *place)
                }
            })?;
        }
        self.play(next..self.blocks.len(), run)
    }

    fn play<R: Replay>(&self, range: Range<usize>, run: &mut R) -> Result<(), R::Error> {
        if range.is_empty() {
            return Ok(());
        }
        run.batch(Batch {
            first: range.start as u64,
            blocks: &self.blocks[range.clone()],
            sites: self.sites.slice(range.clone()),
            tenants: self.tenants.slice(range),
        })
    }
}
