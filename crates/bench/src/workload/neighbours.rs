//! Lookups of an oblivious tenant, beside a tenant that manages its frames foolishly.

use std::fmt::Write as _;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

use super::answer::Answer;
use super::contract::Workload;
use super::database::Database;
use super::lookup::Lookup;
use super::measurement::Measurement;
use super::neighbour_mixes::simulate_mixes;
use super::options::RunOptions;
use super::read_n::{NEIGHBOUR, Reader, foolish_tenant};
use super::run::run;
use super::scheme::Scheme;
use super::session::Session;
use crate::rounds::{ROUNDS, Spread};

/// The neighbour's accesses for each item of lookups, if one thread does both.
const NEIGHBOUR_ACCESSES: u64 = 200;
/// Pages that the neighbour reads in one call, if it has a thread of its own.
const NEIGHBOUR_LIST: u64 = 64;
const MIXES: u64 = 1_000;
const OTHERS: &str = "lookups";

/// Uniform lookups, counted and timed, beside the background program of `readn` on a file larger than memory.
///
/// With one thread the two take turns. With more, the neighbour has one thread for itself, reads 64 pages in
/// a call, and starts over at the end of its file until the lookups are done. Directive: the neighbour's
/// foolish one. Under `lru` the neighbour is oblivious. The two schemes show what its directive costs the
/// lookups, in misses and, on a saturated device, in time.
pub struct Neighbours;

const LOOKUPS: Lookup = Lookup::UNIFORM;

impl Workload for Neighbours {
    fn name(&self) -> &'static str {
        "neighbours"
    }

    fn build(&self, database: &Database) -> Result<()> {
        NEIGHBOUR.build(database)?;
        LOOKUPS.build(database)
    }

    fn frames(&self, database: &Database) -> Result<u64> {
        LOOKUPS.frames(database)
    }

    fn lookups(&self, database: &Database) -> Option<u64> {
        LOOKUPS.lookups(database)
    }

    fn run(&self, session: &Session<'_>) -> Result<Answer> {
        let neighbour = NEIGHBOUR.open(session, foolish_tenant(session)?)?;
        let lookups = LOOKUPS.open(session, session.tenant(OTHERS, |_| Ok(()))?)?;
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
                    .try_for_each(|list| neighbour.read_list(list_of(list)))
            });
            let others = Session { threads: session.threads - 1, ..*session };
            let look_up = || {
                others.share(LOOKUPS.items(session.database), |item, answer| lookups.run_item(item, answer))
            };
            let answer = catch_unwind(AssertUnwindSafe(look_up));
            // After a panic as well, because the scope waits for the thread.
            done.store(true, Ordering::Relaxed);
            let answer = answer.unwrap_or_else(|panic| resume_unwind(panic));
            match beside.join() {
                Ok(neighbour) => neighbour.and(answer),
                Err(panic) => resume_unwind(panic),
            }
        })
    }

    /// Misses and time of the lookups beside the foolish neighbour, compared with those beside the same
    /// neighbour without its directive, in alternating rounds; and simulated misses of managed tenants over
    /// random mixes.
    fn findings(&self, database: &Database, options: &RunOptions) -> Result<Option<String>> {
        let rounds = if options.deterministic { 1 } else { ROUNDS };
        let (oblivious, foolish) = (Scheme::find("lru")?, Scheme::find("lru-sp")?);
        let (mut misses, mut elapsed, mut reads) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let beside = |scheme| run(self, scheme, database, options, None);
            let (foolish, oblivious) = (beside(foolish)?, beside(oblivious)?);
            let misses_of = |run: &Measurement, who: &str| run.tenant_misses[who] as f64;
            misses.push(misses_of(&foolish, OTHERS) / misses_of(&oblivious, OTHERS));
            elapsed.push(foolish.elapsed.as_secs_f64() / oblivious.elapsed.as_secs_f64());
            reads.push(foolish.reads as f64 / foolish.elapsed.as_secs_f64());
        }
        let mut text = format!(
            "others beside a foolish neighbour, against beside the same one oblivious (--threads {}, {rounds} rounds)",
            options.threads
        );
        write!(text, "\n  misses   {}", shown(misses))?;
        if !options.deterministic {
            write!(text, "\n  elapsed  {}", shown(elapsed))?;
            write!(text, "\n  reads a second beside the fool, all tenants  {:.0}", Spread::of(reads).median)?;
        }
        let mixes = simulate_mixes(MIXES, options.seed)?;
        write!(text, "\nmanaged tenants beside the same, {MIXES} random mixes simulated")?;
        write!(text, "\n  misses   {:.6} in all, ", mixes.foolish as f64 / mixes.oblivious as f64)?;
        write!(text, "{:.1} % of the mixes above 1.01, greatest {:.3}", 100.0 * mixes.worse, mixes.greatest)?;
        Ok(Some(text))
    }

    fn expected(&self, database: &Database, seed: u64) -> Answer {
        LOOKUPS.expected(database, seed)
    }
}

/// The median of some ratios, and the least and the greatest of them.
fn shown(ratios: Vec<f64>) -> String {
    let Spread { least, median, greatest } = Spread::of(ratios);
    format!("{median:.6} ({least:.3} to {greatest:.3})")
}

/// Makes accesses of the neighbour, which starts over at the end of its file.
fn read_round(neighbour: &Reader, accesses: Range<u64>) -> Result<()> {
    accesses.into_iter().try_for_each(|at| neighbour.read(at % NEIGHBOUR.accesses()).map(drop))
}

/// The accesses of list number `list`. After the file's last list, which may be shorter, the lists start
/// over.
fn list_of(list: u64) -> Range<u64> {
    let lists = NEIGHBOUR.accesses().div_ceil(NEIGHBOUR_LIST);
    let first = list % lists * NEIGHBOUR_LIST;
    first..(first + NEIGHBOUR_LIST).min(NEIGHBOUR.accesses())
}
