//! The counts of a simulation, as a whole or by tenant or site.

use std::collections::BTreeMap;

use clap::ValueEnum;

use crate::trace::{Batch, Trace};

/// How counts are kept apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// Not at all.
    Trace,
    /// By tenant.
    Tenant,
    /// By site.
    Site,
}

/// The values of `--by`; without the flag it is [`By::Trace`].
impl ValueEnum for By {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Tenant, Self::Site]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        match self {
            Self::Trace => None,
            Self::Tenant => Some("tenant".into()),
            Self::Site => Some("site".into()),
        }
    }
}

/// Counts of a simulation.
///
/// Accesses, hits, misses and hits of the lower cache count for the tenant or site that accessed. Demotions
/// count for the tenant that owns the demoted block, or the site that loaded it. Everything else counts for
/// the tenant that owns the candidate, or the site that loaded it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Accesses made.
    pub accesses: u64,
    /// Accesses that found their block resident.
    pub hits: u64,
    /// Blocks evicted.
    pub evictions: u64,
    /// Questions put to a manager.
    pub decisions: u64,
    /// Answers other than the candidate.
    pub overrules: u64,
    /// Overrules that turned out wrong.
    pub mistakes: u64,
    /// Overrules that turned out right.
    pub vindications: u64,
    /// Revocations of managers.
    pub revocations: u64,
    /// Misses that found their block in the lower cache.
    pub tier_hits: u64,
    /// Evicted blocks that were offered to the lower cache.
    pub demotions: u64,
    /// Of these, those that the lower cache already had.
    pub aborted: u64,
}

impl Counts {
    /// Accesses that did not find their block.
    pub fn misses(&self) -> u64 {
        self.accesses - self.hits
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.hits += other.hits;
        self.evictions += other.evictions;
        self.decisions += other.decisions;
        self.overrules += other.overrules;
        self.mistakes += other.mistakes;
        self.vindications += other.vindications;
        self.revocations += other.revocations;
        self.tier_hits += other.tier_hits;
        self.demotions += other.demotions;
        self.aborted += other.aborted;
    }
}

/// Counts by key, and the key that each frame's block counts for. Keys are the trace's numbers of tenants or
/// sites.
pub struct Tally {
    by: By,
    counts: Vec<Counts>,
    /// Per frame; empty if there is but one key.
    holders: Vec<u32>,
}

impl Tally {
    /// Nothing counted so far, for a cache of `frames` frames.
    pub fn new(trace: &Trace, by: By, frames: u32) -> Self {
        let keys = match by {
            By::Trace => 1,
            By::Tenant => trace.tenants().len(),
            By::Site => trace.sites().len(),
        };
        let holders = if by == By::Trace { Vec::new() } else { vec![0; frames as usize] };
        Self { by, counts: vec![Counts::default(); keys.max(1)], holders }
    }

    /// How counts are kept apart.
    pub fn by(&self) -> By {
        self.by
    }

    /// The key of each access of the batch; empty if all are 0.
    pub fn keys<'a>(&self, batch: &Batch<'a>) -> &'a [u32] {
        match self.by {
            By::Trace => &[],
            By::Tenant => batch.tenants,
            By::Site => batch.sites,
        }
    }

    /// The counts of the tenant, or of the site, that accesses.
    #[inline]
    pub fn accessor(&mut self, key: u32) -> &mut Counts {
        &mut self.counts[key as usize]
    }

    /// The counts of the key that the block in `frame` belongs to.
    #[inline]
    pub fn holder(&mut self, frame: u32) -> &mut Counts {
        let key = self.holders.get(frame as usize).copied().unwrap_or(0);
        &mut self.counts[key as usize]
    }

    /// The block in `frame` belongs to `key` from now on.
    #[inline]
    pub fn hold(&mut self, frame: u32, key: u32) {
        if let Some(holder) = self.holders.get_mut(frame as usize) {
            *holder = key;
        }
    }

    /// The counts of a key so far.
    pub fn counts(&self, key: u32) -> Counts {
        self.counts[key as usize]
    }

    /// Forgets what was counted; blocks still belong to the same keys.
    pub fn clear(&mut self) {
        self.counts.fill(Counts::default());
    }

    /// Adds what another cache of the same trace counted.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(counts, more)| counts.add(more));
    }

    /// The counts of every key that has any, by the trace's own name for it; of [`By::Trace`] the only key,
    /// 0.
    pub fn finish(self, trace: &Trace) -> BTreeMap<u64, Counts> {
        let name = |number: usize| match self.by {
            By::Trace => 0,
            By::Tenant => trace.tenants()[number],
            By::Site => trace.sites()[number],
        };
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, counts)| **counts != Counts::default() || self.by == By::Trace)
            .map(|(number, counts)| (name(number), *counts))
            .collect()
    }
}
