//! E9: programs with an event that never ends.

use std::cmp::Ordering;

use anyhow::{Context as _, Result};
use bufpool::Direct;
use bufpool_policies::program::Program;
use bufpool_policies::{Allocation, ProgramStats};

use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};
use crate::machine::temporary::Temporary;
use crate::measure::programs::{Beside, build_file, compare_neighbours};
use crate::random::Random;
use crate::simulate::{By, Counts, Policy, Setup, TenantProgram, simulate};
use crate::trace::{Item, Reference, Trace};

const NEIGHBOUR: u32 = 0;
const RUNAWAY: u32 = 1;
const FRAMES: u32 = 500;
const ACCESSES: u64 = 100_000;
/// Timed reads of the neighbour in a round beside each program.
const READS: u64 = 50_000;
/// The greatest allowed ratio of the neighbour's 99th percentile beside a program that runs away to that
/// beside a sound one.
const P99_MOST: f64 = 1.1;
/// Pages that each tenant accesses; those with low numbers are accessed more often.
const PAGES: u64 = 600;

/// Two tenants that draw pages at random, in turns.
fn trace(seed: u64) -> Trace {
    let mut random = Random::new(seed);
    let accesses = (0..ACCESSES).map(|at| {
        let tenant = (at % 2) as u32;
        let page = (random.unit().powi(2) * PAGES as f64) as u64;
        Item::Access(Reference { block: u64::from(tenant) * PAGES + page, site: 0, tenant })
    });
    Trace::of("runaway", accesses)
}

/// The text of a program in which `event` never ends. Its event `replace` has the body `answer` otherwise.
fn text(event: &str, answer: &str) -> String {
    let own = [
        ("initial", "", "ret"),
        ("fault", "(p)", "enqt all, p ; ret"),
        ("access", "(p)", "ret"),
        ("gone", "(p)", "ret"),
        ("mistake", "(p)", "ret"),
        ("replace", "(c)", answer),
    ];
    let events = own.map(|(name, parameter, body)| {
        let body = if name == event { "L: jmp L" } else { body };
        format!("event {name}{parameter} {{ {body} }}\n")
    });
    format!("policy runaway {{\nqueue all\n{}}}\n", events.concat())
}

/// The counts of the neighbour and of the other tenant, and what the other tenant's program did.
fn play(
    trace: &Trace,
    allocation: Allocation,
    program: Option<Program>,
) -> Result<([Counts; 2], Option<ProgramStats>)> {
    let loaded = program.map(|program| (RUNAWAY, TenantProgram { program, sent: Vec::new() }));
    let setup = Setup { by: By::Tenant, programs: loaded.into_iter().collect(), ..Setup::frames(FRAMES) };
    let outcome = simulate(trace, Policy::TwoLevel(allocation), &setup, None)?;
    let counts = [NEIGHBOUR, RUNAWAY].map(|tenant| outcome.counts[&u64::from(tenant)]);
    Ok((counts, outcome.programs.get(&RUNAWAY).copied()))
}

pub(super) fn endless_events(context: &Context) -> Result<Vec<Finding>> {
    let trace = trace(context.seed);
    let mut findings = vec![refused()];
    for (name, allocation) in [("LRU-SP", Allocation::LruSp), ("FIFO2-SP", Allocation::Fifo2Sp)] {
        let (alone, _) = play(&trace, allocation, None)?;
        for event in ["initial", "fault", "gone", "replace"] {
            let program = Program::parse(&text(event, "ret c"))?;
            let (counts, stats) = play(&trace, allocation, Some(program))?;
            findings.push(Finding {
                what: format!(
                    "{event} never ends under {name}: misses of the neighbour, and of its own tenant"
                ),
                ours: format!("{}, {}; {}", counts[0].misses(), counts[1].misses(), end(stats)),
                tolerance: format!(
                    "exact: {}, {} as without a program",
                    alone[0].misses(),
                    alone[1].misses()
                ),
                verdict: Verdict::of(
                    ran_out(stats)
                        && [0, 1].map(|at| counts[at].misses()) == [0, 1].map(|at| alone[at].misses()),
                    "a program that ran out of fuel changed what goes",
                ),
                ..row()
            });
        }
    }
    findings.push(mistake(&trace)?);
    findings.extend(waits()?);
    Ok(findings)
}

/// A row of E9, to be filled in.
fn row() -> Finding {
    Finding {
        id: "E9",
        what: String::new(),
        published: "the selected page is taken".to_owned(),
        ours: String::new(),
        tolerance: String::new(),
        verdict: Verdict::of(false, "see the numbers"),
    }
}

/// Whether an event ran out of fuel.
fn ran_out(stats: Option<ProgramStats>) -> bool {
    stats.is_some_and(|stats| stats.out_of_fuel > 0)
}

/// How the program ended, in words.
fn end(stats: Option<ProgramStats>) -> String {
    let Some(stats) = stats else { return "no program".to_owned() };
    match stats.unloaded {
        Some(why) => format!("unloaded after {} events: {why}", stats.calls),
        None => format!("{} of {} events ran out of fuel", stats.out_of_fuel, stats.calls),
    }
}

/// The row of the event `access`, in which the verifier allows no loop.
fn refused() -> Finding {
    let found = Program::parse(&text("access", "ret c"));
    Finding {
        what: "access never ends: no such program is loaded".to_owned(),
        ours: found.as_ref().map_or_else(ToString::to_string, |_| "loaded".to_owned()),
        tolerance: "refused".to_owned(),
        verdict: Verdict::of(found.is_err(), "the verifier accepts a loop in `access`"),
        ..row()
    }
}

/// The row of the event `mistake`. Mistakes need a program that overrules. A page that it rightly keeps saves
/// a miss that would take a frame of the neighbour, so the neighbour may have fewer misses.
fn mistake(trace: &Trace) -> Result<Finding> {
    let newest = "peekt v, all ; isnil t, v ; jnz t, none ; ret v\nnone: ret c";
    let program = Program::parse(&text("mistake", newest))?;
    let ([alone, _], _) = play(trace, Allocation::LruSp, None)?;
    let ([beside, _], stats) = play(trace, Allocation::LruSp, Some(program))?;
    Ok(Finding {
        what: "mistake never ends under LRU-SP: misses of the neighbour".to_owned(),
        ours: format!("{}; {}", beside.misses(), end(stats)),
        tolerance: format!("exact: {} as without a program", alone.misses()),
        verdict: match beside.misses().cmp(&alone.misses()) {
            Ordering::Equal if ran_out(stats) => Verdict::Reproduced,
            Ordering::Less if ran_out(stats) => Verdict::SameOrder(
                "what the program rightly keeps before it is unloaded spares the neighbour misses".to_owned(),
            ),
            _ => Verdict::NotReproduced("the neighbour pays for another tenant's program".to_owned()),
        },
        ..row()
    })
}

/// Rows of the times of a neighbour's reads in a live pool. A program that runs out of fuel in each event of
/// a kind is unloaded after a few; one that does so too seldom to be unloaded goes on, and its row has no
/// bar.
fn waits() -> Result<Vec<Finding>> {
    let folder = Temporary::folder().context("a folder for the file that is read")?;
    let path = folder.path().join("neighbour.pages");
    build_file(&path, Direct::Off)?;
    let sound = Program::parse(&text("none", "ret c"))?;
    let mut findings = Vec::new();
    for event in ["fault", "gone", "replace"] {
        let runaway = Program::parse(&text(event, "ret c"))?;
        let beside = compare_neighbours(&path, &sound, &runaway, READS)?;
        let is_unloaded = beside.stats.as_ref().is_some_and(|stats| stats.unloaded.is_some());
        findings.push(Finding {
            what: format!("{event} never ends: 99th percentile of a neighbour's reads in a live pool"),
            ours: told(&beside),
            tolerance: format!("x {P99_MOST} of that beside a program that ends, and unloaded"),
            verdict: Verdict::of(
                is_unloaded && beside.ratio.median <= P99_MOST,
                "the neighbour waits longer, or the machine is not quiet: see the sound program to itself",
            ),
            ..row()
        });
    }
    let seldom = Program::parse(SELDOM)?;
    let beside = compare_neighbours(&path, &sound, &seldom, READS)?;
    let stays = beside.stats.as_ref().is_some_and(|stats| stats.unloaded.is_none() && stats.out_of_fuel > 0);
    findings.push(Finding {
        what: "replace never ends once in 80 times, so that the program stays: the same".to_owned(),
        ours: told(&beside),
        tolerance: "stays loaded; the ratio has no bar".to_owned(),
        verdict: Verdict::of(stays, "the program is unloaded, or never ran out of fuel"),
        ..row()
    });
    Ok(findings)
}

/// A program that runs out of fuel at each 80th question. A question for a miss of its own tenant comes with
/// two more events, one for another tenant's miss with one more. So eight incidents are spread over more than
/// 1,024 events, and the program is not unloaded.
const SELDOM: &str = "policy seldom {
  int asked
  const one = 1
  const period = 80
  event initial    { ret }
  event fault(p)   { ret }
  event gone(p)    { ret }
  event replace(c) { add asked, asked, one ; rem t, asked, period ; jnz t, well
                  L: jmp L
               well: ret c }
}";

fn told(beside: &Beside) -> String {
    let unloaded = beside.stats.as_ref().and_then(|stats| stats.unloaded);
    format!(
        "x {:.3} ({:.3} to {:.3}): {:.0} to {:.0} ns; the sound program to itself x {:.3} ({:.3} to {:.3}); \
         {} events ran out of fuel, {}",
        beside.ratio.median,
        beside.ratio.least,
        beside.ratio.greatest,
        beside.other_ns.median,
        beside.sound_ns.median,
        beside.noise.median,
        beside.noise.least,
        beside.noise.greatest,
        beside.stats.as_ref().map_or(0, |stats| stats.out_of_fuel),
        if unloaded.is_some() { "unloaded" } else { "still loaded" }
    )
}
