//! Lookups of an oblivious tenant beside one that manages its frames foolishly.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

use super::lookup::Lookup;
use super::read_n::{BACKGROUND, Reader, foolish_tenant};
use super::{Answer, Database, Session, Workload};

/// The neighbour's accesses for each batch of lookups, when one thread does both.
const NEIGHBOUR_ACCESSES: u64 = 200;

/// Uniform lookups, counted and timed, beside the background program of `readn`.
///
/// With one thread the two take turns; with more, the neighbour has the last one for itself and goes round until the
/// lookups are done. Directive: the neighbour's foolish one. Under `lru` the neighbour is oblivious: the two schemes show
/// what its folly costs the others.
pub struct Neighbours;

const LOOKUPS: Lookup = Lookup::UNIFORM;

impl Workload for Neighbours {
    fn name(&self) -> &'static str {
        "neighbours"
    }

    fn build(&self, database: &Database) -> Result<()> {
        BACKGROUND.build(database)?;
        LOOKUPS.build(database)
    }

    fn frames(&self, database: &Database) -> Result<u64> {
        LOOKUPS.frames(database)
    }

    fn lookups(&self, database: &Database) -> Option<u64> {
        LOOKUPS.lookups(database)
    }

    fn run(&self, session: &Session<'_>) -> Result<Answer> {
        let neighbour = BACKGROUND.open(session, foolish_tenant(session)?)?;
        let lookups = LOOKUPS.open(session, session.tenant("lookups", |_| Ok(()))?)?;
        if session.threads == 1 {
            return session.share(LOOKUPS.items(session.database), |item, answer| {
                read_round(&neighbour, item * NEIGHBOUR_ACCESSES..(item + 1) * NEIGHBOUR_ACCESSES)?;
                lookups.run_item(item, answer)
            });
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| {
                // Relaxed: the flag ends the loop and publishes nothing.
                (0..)
                    .take_while(|_| !done.load(Ordering::Relaxed))
                    .try_for_each(|at| read_round(&neighbour, at..at + 1))
            });
            let others = Session { threads: session.threads - 1, ..*session };
            let answer =
                others.share(LOOKUPS.items(session.database), |item, answer| lookups.run_item(item, answer));
            done.store(true, Ordering::Relaxed);
            match beside.join() {
                Ok(neighbour) => neighbour.and(answer),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn expected(&self, database: &Database, seed: u64) -> Answer {
        LOOKUPS.expected(database, seed)
    }
}

/// Accesses of the neighbour, which starts over at the end of its file.
fn read_round(neighbour: &Reader, accesses: std::ops::Range<u64>) -> Result<()> {
    accesses.into_iter().try_for_each(|at| neighbour.read(at % BACKGROUND.accesses()).map(drop))
}
