//! E7: a player that reads a film once, in ten frames, beside a program that writes a file.

use std::collections::BTreeMap;

use anyhow::Result;
use bufpool_policies::Allocation;

use super::{sizes::SIZES, texts};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict, listed};
use crate::simulate::{By, Policy, Setup, TenantProgram, simulate};
use crate::streams::{self, Advice};
use crate::trace::{Item, Reference, Trace};

const WRITER: u32 = 0;
const PLAYER: u32 = 1;
/// Frames of the player: 40 KB.
const PLAYER_FRAMES: u32 = 10;
/// Pages of the writer's file.
const FILE: u32 = 15_360;

/// The writer, which writes its file `passes` times, alone or with the player beside it. Both begin and end
/// together.
fn trace(passes: u64, has_player: bool) -> Trace {
    let writes = references("writer", &[&format!("passes={passes}")], WRITER, 0);
    let reads = if has_player { references("player", &[], PLAYER, u64::from(FILE)) } else { Vec::new() };
    let mut items = Vec::with_capacity(writes.len() + reads.len());
    let mut read = 0;
    for (written, write) in writes.iter().enumerate() {
        items.push(Item::Access(*write));
        let due = (written + 1) * reads.len() / writes.len();
        items.extend(reads[read..due].iter().copied().map(Item::Access));
        read = due;
    }
    Trace::of("player and writer", items)
}

/// The accesses of the stream `name` as those of `tenant`, to blocks from `first` on.
fn references(name: &str, set: &[&str], tenant: u32, first: u64) -> Vec<Reference> {
    let items = streams::items(name, set, Advice::None, 1).into_iter();
    let accesses = items.filter_map(|item| match item {
        Item::Access(access) => Some(access),
        Item::Directive(_) => None,
    });
    accesses.map(|access| Reference { block: first + access.block, tenant, ..access }).collect()
}

/// The writer's misses under LRU-SP, with a cap for the player if there is one.
fn writer_misses(trace: &Trace, frames: u32, player_cap: Option<u32>) -> Result<u64> {
    let caps: BTreeMap<u32, u32> = player_cap.into_iter().map(|cap| (PLAYER, cap)).collect();
    let setup = Setup { by: By::Tenant, caps, ..Setup::frames(frames) };
    let outcome = simulate(trace, Policy::TwoLevel(Allocation::LruSp), &setup, None)?;
    Ok(outcome.counts[&u64::from(WRITER)].misses())
}

/// The misses of the writer and of the player, whose program is `ring`. Under LRU-SP the player has a cap;
/// under FIFO2-SP it is a privileged tenant, whose floor is its cap.
fn misses_with_ring(trace: &Trace, frames: u32, allocation: Allocation) -> Result<[u64; 2]> {
    let share = BTreeMap::from([(PLAYER, PLAYER_FRAMES)]);
    let floors = if allocation == Allocation::Fifo2Sp { share.clone() } else { BTreeMap::new() };
    let ring = TenantProgram { program: texts::ring(), sent: Vec::new() };
    let programs = BTreeMap::from([(PLAYER, ring)]);
    let setup = Setup { by: By::Tenant, floors, caps: share, programs, ..Setup::frames(frames) };
    let outcome = simulate(trace, Policy::TwoLevel(allocation), &setup, None)?;
    Ok([WRITER, PLAYER].map(|tenant| outcome.counts[&u64::from(tenant)].misses()))
}

pub(super) fn beside_a_writer(_: &Context) -> Result<Vec<Finding>> {
    let (alone, beside) = (trace(1, false), trace(1, true));
    let misses = |trace: &Trace, cap| {
        SIZES.iter().map(|frames| writer_misses(trace, *frames, cap)).collect::<Result<Vec<u64>>>()
    };
    let (expected, capped) = (misses(&alone, None)?, misses(&beside, Some(PLAYER_FRAMES))?);
    let once = Finding {
        id: "E7",
        what: format!(
            "misses of a writer at {} frames beside a player with a cap of {PLAYER_FRAMES}; alone {}",
            listed(&SIZES),
            listed(&expected)
        ),
        published: "95.91, 91.76, 92.00, 86.71 % of both programs' time".to_owned(),
        ours: listed(&capped),
        tolerance: "exact: as alone".to_owned(),
        verdict: Verdict::of(capped == expected, "the player takes frames from the writer"),
    };
    let privileged = beside_ring("FIFO2-SP, privileged", Allocation::Fifo2Sp)?;
    Ok(vec![
        once,
        writer_that_comes_back()?,
        beside_ring("LRU-SP with a cap", Allocation::LruSp)?,
        privileged,
    ])
}

/// The player with the program `ring`, beside a writer that writes its file twice: each page of the film
/// misses once, and the writer's file stays resident.
fn beside_ring(how: &str, allocation: Allocation) -> Result<Finding> {
    let beside = trace(2, true);
    let film = beside.accesses() - 2 * u64::from(FILE);
    let found = misses_with_ring(&beside, FILE + PLAYER_FRAMES, allocation)?;
    let expected = [u64::from(FILE), film];
    Ok(Finding {
        id: "E7",
        what: format!(
            "misses of a writer that writes its file twice and of a player with the program `ring` in \
             {PLAYER_FRAMES} frames under {how}, at {} frames",
            FILE + PLAYER_FRAMES
        ),
        published: String::new(),
        ours: listed(&found),
        tolerance: format!("exact: {}", listed(&expected)),
        verdict: Verdict::of(found == expected, "the player takes frames from the writer"),
    })
}

/// A file that is written once misses at each page with a cap or without. A file that is written twice, and
/// fits beside the player's frames, shows the effect of the cap.
fn writer_that_comes_back() -> Result<Finding> {
    let frames = FILE + PLAYER_FRAMES;
    let (alone, beside) = (trace(2, false), trace(2, true));
    let expected = writer_misses(&alone, frames, None)?;
    let capped = writer_misses(&beside, frames, Some(PLAYER_FRAMES))?;
    let free = writer_misses(&beside, frames, None)?;
    Ok(Finding {
        id: "E7",
        what: format!(
            "misses of a writer that writes its file twice, at {frames} frames beside a player with a cap of \
             {PLAYER_FRAMES}; alone {expected}, beside one without a cap {free}"
        ),
        published: String::new(),
        ours: capped.to_string(),
        tolerance: "exact: as alone, and less than without a cap".to_owned(),
        verdict: Verdict::of(
            capped == expected && capped < free,
            "the player takes frames from the writer, or takes none without a cap",
        ),
    })
}
