//! What a foolish tenant costs managed tenants, simulated over many random mixes.
//!
//! Oblivious tenants provably hit wherever they would under LRU, whatever other tenants do. For managed
//! tenants nothing is proved once an overrule has turned out right, so the cost is measured: each mix is
//! simulated with a foolish tenant, and with the same tenant oblivious.

use anyhow::Result;
use bufpool_policies::Allocation;
use bufpool_policies::classic::PolicyKind;

use super::session::random_of;
use crate::random::{Random, Weighted};
use crate::simulate::{By, Policy, Setup, simulate};
use crate::trace::{Directive, Item, Reference, Trace};

/// Accesses of a mix.
const ACCESSES: usize = 6_000;
/// Passes of the foolish tenant over a group of pages.
const PASSES: u64 = 5;
/// Blocks of tenant number n begin at n times this.
const TENANT_BLOCKS: u64 = 1 << 32;
const FOOL: u32 = 0;

/// Misses of the managed tenants.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct MixMisses {
    /// Misses beside the foolish tenants, summed over all mixes.
    pub foolish: u64,
    /// Misses beside the same tenants as oblivious ones, summed over all mixes.
    pub oblivious: u64,
    /// The share of mixes, from 0 to 1, in which misses beside the foolish tenant are more than 1.01 times
    /// those beside the oblivious one.
    pub worse: f64,
    /// The greatest of these ratios.
    pub greatest: f64,
}

/// Simulates `mixes` random mixes under LRU-SP.
pub(super) fn simulate_mixes(mixes: u64, seed: u64) -> Result<MixMisses> {
    let mut sum = MixMisses { foolish: 0, oblivious: 0, worse: 0.0, greatest: 0.0 };
    for mix in 0..mixes {
        let [foolish, oblivious] = [true, false].map(|foolish| {
            let mut random = random_of(seed, mix);
            Mix::draw(&mut random).managed_misses(foolish, random)
        });
        let (foolish, oblivious) = (foolish?, oblivious?);
        let ratio = foolish as f64 / oblivious as f64;
        sum.foolish += foolish;
        sum.oblivious += oblivious;
        sum.worse += if ratio > 1.01 { 1.0 / mixes as f64 } else { 0.0 };
        sum.greatest = sum.greatest.max(ratio);
    }
    Ok(sum)
}

/// One foolish tenant, and one to three managed tenants.
struct Mix {
    frames: u32,
    /// Pages of a group of the foolish tenant.
    group: u64,
    managed: Vec<Program>,
    /// How often each tenant accesses a page, relative to the others; the foolish tenant first.
    speeds: Weighted,
}

/// The accesses of a managed tenant, and the directive that suits them.
enum Program {
    /// A loop over `blocks` pages. Directive: MRU.
    Loop { blocks: u64 },
    /// An access to one of `index` hot pages, then to one of `table` others. Directive: priority 1 for the
    /// hot ones.
    Lookup { index: u64, table: u64 },
    /// Accesses by Zipf's law. Directive: LFU.
    Skewed { ranks: Weighted },
}

impl Mix {
    fn draw(random: &mut Random) -> Self {
        let frames = 64 + random.below(449);
        let tenants = 1 + random.below(3);
        let managed = (0..tenants).map(|_| Program::draw(frames, random)).collect();
        let speeds: Vec<f64> = (0..=tenants).map(|_| 0.2 + random.unit()).collect();
        Self {
            frames: frames as u32,
            group: frames / 8 + 1 + random.below(frames / 2),
            managed,
            speeds: Weighted::new(speeds.into_iter()),
        }
    }

    fn managed_misses(&self, foolish: bool, mut random: Random) -> Result<u64> {
        let mut items: Vec<Item> = Vec::with_capacity(ACCESSES + 8);
        if foolish {
            items.push(policy(FOOL, PolicyKind::Mru));
        }
        let managed = (FOOL + 1..).zip(&self.managed);
        items.extend(managed.map(|(tenant, program)| program.directive(tenant)));
        let mut steps = vec![0_u64; self.managed.len() + 1];
        for _ in 0..ACCESSES {
            let tenant = self.speeds.draw(&mut random) as usize;
            let step = steps[tenant];
            steps[tenant] += 1;
            let block = match tenant.checked_sub(1) {
                None => step / (PASSES * self.group) * self.group + step % self.group,
                Some(index) => self.managed[index].block(step, &mut random),
            };
            let (block, tenant) = (tenant as u64 * TENANT_BLOCKS + block, tenant as u32);
            items.push(Item::Access(Reference { block, site: 0, tenant }));
        }
        let setup = Setup { revocation: true, by: By::Tenant, ..Setup::frames(self.frames) };
        let trace = Trace::of("mix", items);
        let outcome = simulate(&trace, Policy::TwoLevel(Allocation::LruSp), &setup, None)?;
        let managed = outcome.counts.iter().filter(|(tenant, _)| **tenant != u64::from(FOOL));
        Ok(managed.map(|(_, counts)| counts.misses()).sum())
    }
}

impl Program {
    fn draw(frames: u64, random: &mut Random) -> Self {
        match random.below(3) {
            0 => Self::Loop { blocks: frames / 4 + random.below(2 * frames) },
            1 => {
                Self::Lookup { index: 1 + random.below(frames / 2), table: frames + random.below(4 * frames) }
            }
            _ => {
                Self::Skewed { ranks: Weighted::zipf(frames + random.below(4 * frames), 0.5 + random.unit()) }
            }
        }
    }

    fn directive(&self, tenant: u32) -> Item {
        match self {
            Self::Loop { .. } => policy(tenant, PolicyKind::Mru),
            Self::Lookup { index, .. } => {
                let first = u64::from(tenant) * TENANT_BLOCKS;
                Item::Directive(Directive::Priority { tenant, first, last: first + index - 1, prio: 1 })
            }
            Self::Skewed { .. } => policy(tenant, PolicyKind::Lfu),
        }
    }

    fn block(&self, step: u64, random: &mut Random) -> u64 {
        match self {
            Self::Loop { blocks } => step % blocks,
            Self::Lookup { index, .. } if step.is_multiple_of(2) => random.below(*index),
            Self::Lookup { index, table } => index + random.below(*table),
            Self::Skewed { ranks } => ranks.draw(random),
        }
    }
}

fn policy(tenant: u32, policy: PolicyKind) -> Item {
    Item::Directive(Directive::Policy { tenant, prio: 0, policy })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directive changes the misses of managed tenants, so the two runs of a mix differ; and the same
    /// seed gives the same mixes.
    #[test]
    fn a_mix_differs_in_the_fools_directive_alone() {
        let mixes = simulate_mixes(20, 1).unwrap();
        assert!(mixes.foolish > 0 && mixes.oblivious > 0);
        assert_ne!(mixes.foolish, mixes.oblivious);
        assert_eq!(mixes, simulate_mixes(20, 1).unwrap());
    }
}
