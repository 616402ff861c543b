//! Part A: Cao, Felten, Li, "Implementation and Performance of Application-Controlled File Caching", OSDI '94.
//!
//! The applications are the streams of [`crate::streams`]; elapsed times come from the model of [`super::service`].

use anyhow::Result;
use bufpool_policies::Allocation;
use bufpool_policies::classic::PolicyKind;

use super::service::{self, Program, Ran};
use super::{Context, Experiment, Finding, Verdict};
use crate::output::plot::{self, Bars, Curves, Series};
use crate::parallel;
use crate::simulate::{By, Counts, NextUses, Outcome, Scheme, Setup, SimError, simulate};
use crate::streams::{self, Advice, Settings, find};
use crate::trace::{Directive, Item, Reference, Trace};

const LRU: Scheme = Scheme::OneLevel(PolicyKind::Lru);
const GLOBAL_LRU: Scheme = Scheme::TwoLevel(Allocation::GlobalLru);
const LRU_SP: Scheme = Scheme::TwoLevel(Allocation::LruSp);
const LRU_S: Scheme = Scheme::TwoLevel(Allocation::LruS);
const ALLOC_LRU: Scheme = Scheme::TwoLevel(Allocation::AllocLru);

/// 6.4, 8, 12 and 16 MB of 8 KB blocks.
const SIZES: [u32; 4] = [819, 1024, 1536, 2048];

/// Name, and time on the processor for each access in milliseconds: simulating a cache on a block of addresses takes
/// long, searching text and linking do not.
const APPLICATIONS: [(&str, f64); 8] = [
    ("cs1", 1.0),
    ("cs2", 1.0),
    ("cs3", 1.0),
    ("din", 10.0),
    ("gli", 1.0),
    ("ldk", 1.0),
    ("pjn", 1.0),
    ("sort", 1.0),
];

/// Programs that are run together.
const MIXES: [&[&str]; 9] = [
    &["cs2", "gli"],
    &["cs3", "ldk"],
    &["gli", "sort"],
    &["din", "sort"],
    &["sort", "ldk"],
    &["pjn", "ldk"],
    &["din", "cs2", "ldk"],
    &["cs1", "gli", "ldk"],
    &["din", "cs3", "gli", "ldk"],
];

/// Those of [`MIXES`] on which swapping was tried without.
const ABLATION_MIXES: [usize; 5] = [0, 1, 6, 7, 8];

/// Programs that were run next to Read300.
const NEIGHBOURS: [&str; 4] = ["din", "cs2", "gli", "ldk"];

/// Groups of the foreground in the ReadN experiment.
const READ_N: [u64; 4] = [390, 400, 490, 500];

/// Frames of the ReadN experiments.
const READ_N_FRAMES: u32 = 819;

pub(super) static ALL: &[Experiment] = &[
    Experiment::new("A1", "smart programs alone: block I/Os", smart_reads),
    Experiment::new("A2", "smart programs alone: elapsed time", smart_elapsed),
    Experiment::new("A3", "the gain of cs1 grows until its file fits", gain_until_fit),
    Experiment::new("A4", "LRU gains nothing from frames until a loop fits", flat_lru),
    Experiment::new("A5", "nine mixes: elapsed time", mixes),
    Experiment::new("A6", "allocation without swapping: block I/Os of five mixes", ablation),
    Experiment::new("A7", "ReadN next to Read300: block I/Os", read_n_reads),
    Experiment::new("A8", "ReadN next to Read300: elapsed time", read_n_elapsed),
    Experiment::new("A9", "smart programs next to a foolish one: block I/Os", foolish_neighbour_reads),
    Experiment::new("A10", "smart programs next to a foolish one: elapsed time", foolish_neighbour_elapsed),
    Experiment::new("A11", "an oblivious program next to smart ones", oblivious_neighbour),
    Experiment::new("A12", "cost of a hit for programs without a manager", hit_cost),
    Experiment::new("A13", "mistakes tell fools from smart programs", mistakes),
];

// ---- programs

fn items(name: &str, advice: Advice, seed: u64) -> Vec<Item> {
    let stream = find(name).expect("a known stream");
    stream.items(&Settings::of(stream), advice, seed)
}

fn program(name: &str, advice: Advice, seed: u64) -> Program {
    let (_, compute_ms) = APPLICATIONS.into_iter().find(|(known, _)| *known == name).expect("an application");
    Program { items: items(name, advice, seed), compute_ms, disk: 0 }
}

/// ReadN over a file of so many blocks.
fn read_n(blocks: u64, n: u64, advice: Advice) -> Program {
    let fool = Directive::Policy { tenant: 0, prio: 0, policy: PolicyKind::Mru };
    let advice = (advice == Advice::Foolish).then_some(Item::Directive(fool));
    let accesses =
        streams::grouped(0, blocks, n, 5).map(|block| Item::Access(Reference { block, site: 1, tenant: 0 }));
    Program { items: advice.into_iter().chain(accesses).collect(), compute_ms: 1.0, disk: 0 }
}

fn read_300(advice: Advice) -> Program {
    read_n(1310, 300, advice)
}

/// When the last of them ended.
fn elapsed_s(ran: &[Ran]) -> f64 {
    ran.iter().map(|ran| ran.elapsed_s).fold(0.0, f64::max)
}

fn misses(ran: &[Ran]) -> u64 {
    ran.iter().map(|ran| ran.counts.misses()).sum()
}

fn percent_change(before: f64, after: f64) -> f64 {
    (after / before - 1.0) * 100.0
}

/// `-84 %`, and `+0 %` for changes too small to see.
fn percent(change: f64) -> String {
    let rounded = change.round();
    format!("{:+.0} %", if rounded == 0.0 { 0.0 } else { rounded })
}

/// `-84 %` for each.
fn percents(changes: &[f64]) -> String {
    let texts: Vec<String> = changes.iter().copied().map(percent).collect();
    texts.join(", ")
}

fn least(changes: &[f64]) -> f64 {
    changes.iter().copied().fold(f64::INFINITY, f64::min)
}

fn sizes() -> String {
    SIZES.map(|frames| frames.to_string()).join(", ")
}

// ---- charts

/// Block I/Os of four programs over sizes, and the ReadN table beside the published one.
///
/// # Errors
///
/// If a simulation cannot be carried out.
pub fn charts(context: &Context) -> Result<Vec<String>> {
    let mut charts = Vec::new();
    for name in ["cs1", "cs2", "gli", "sort"] {
        charts.push(plot::curves(&curves_alone(name, context.seed)?));
    }
    charts.push(plot::bars(&read_n_bars()?));
    Ok(charts)
}

fn curves_alone(name: &str, seed: u64) -> Result<Curves> {
    const FRAMES: [u32; 9] = [256, 512, 819, 1024, 1280, 1536, 2048, 2560, 3072];
    let oblivious = Trace::of(name, items(name, Advice::None, seed));
    let smart = Trace::of(name, items(name, Advice::Smart, seed));
    let next_uses = NextUses::in_memory(&oblivious)?;
    let series = |name: &str, trace: &Trace, scheme: Scheme| -> Result<Series> {
        let point = |&frames: &u32| -> Result<(f64, f64)> {
            let outcome = simulate(trace, scheme, &Setup::frames(frames), Some(&next_uses))?;
            Ok((f64::from(frames), outcome.total().misses() as f64))
        };
        let points = FRAMES.iter().map(point).collect::<Result<_>>()?;
        Ok(Series { name: name.to_owned(), points, is_bound: scheme == Scheme::Opt })
    };
    Ok(Curves {
        title: format!("{name}: block I/Os over cache size"),
        x: "frames".to_owned(),
        y: "block I/Os".to_owned(),
        series: vec![
            series("lru", &oblivious, LRU)?,
            series("smart, lru-sp", &smart, LRU_SP)?,
            series("opt", &oblivious, Scheme::Opt)?,
        ],
    })
}

fn read_n_bars() -> Result<Bars> {
    let names = READ_N_ROWS
        .iter()
        .flat_map(|row| [format!("{} published", row.short), format!("{} ours", row.short)]);
    let group = |(number, n): (usize, u64)| -> Result<(String, Vec<f64>)> {
        let mut values = Vec::new();
        for row in &READ_N_ROWS {
            let ours = read_n_by_turns(n, row.advice, row.scheme, false)?.counts[&0].misses();
            values.extend([row.reads[number], ours as f64]);
        }
        Ok((format!("Read{n}"), values))
    };
    Ok(Bars {
        title: "ReadN next to Read300: block I/Os".to_owned(),
        names: names.collect(),
        groups: READ_N.into_iter().enumerate().map(group).collect::<Result<_>>()?,
    })
}

// ---- A1 to A4: one program

/// For each application, the change at each size that its directives bring.
fn changes_alone(
    context: &Context,
    cost: impl Fn(&str, Advice, Scheme, u32) -> Result<f64, SimError> + Sync,
) -> Result<Vec<Vec<f64>>> {
    let changes = parallel::map(APPLICATIONS.len(), context.jobs, |number| {
        let (name, _) = APPLICATIONS[number];
        let change = |&frames: &u32| -> Result<f64, SimError> {
            let before = cost(name, Advice::None, GLOBAL_LRU, frames)?;
            Ok(percent_change(before, cost(name, Advice::Smart, LRU_SP, frames)?))
        };
        SIZES.iter().map(change).collect::<Result<Vec<f64>, SimError>>()
    });
    Ok(changes.into_iter().collect::<Result<_, _>>()?)
}

/// One finding an application, and one for the range of the best changes.
fn findings_alone(
    id: &'static str,
    unit: &str,
    least_gain: f64,
    published: &str,
    changes: &[Vec<f64>],
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = APPLICATIONS
        .iter()
        .zip(changes)
        .map(|((name, _), changes)| Finding {
            id,
            what: format!("{name}, {unit} smart against LRU at {} frames", sizes()),
            published: published.to_owned(),
            ours: percents(changes),
            tolerance: format!("at best at least -{least_gain:.0} %"),
            verdict: Verdict::of(least(changes) <= -least_gain, why_no_gain(name)),
        })
        .collect();
    let best: Vec<f64> = changes.iter().map(|changes| least(changes)).filter(|&best| best < -0.5).collect();
    let (most, fewest) = (least(&best), best.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    findings.push(Finding {
        id,
        what: format!("range of the best changes in {unit} among programs that gain"),
        published: published.to_owned(),
        ours: format!("{fewest:+.0} % to {most:+.0} %"),
        tolerance: "largest gain not below the published one".to_owned(),
        verdict: Verdict::of(
            most <= if unit == "block I/Os" { -80.0 } else { -45.0 },
            "the largest gain is smaller",
        ),
    });
    findings
}

fn why_no_gain(name: &str) -> &'static str {
    match name {
        "ldk" => {
            "the stream re-reads a block only while LRU still holds it; the real linker's order is not published"
        }
        "sort" => "nearly all accesses are first touches; the real run sizes are not published",
        "pjn" => {
            "the index gains, but the fetches from the inner relation, which nothing can keep, outweigh it"
        }
        _ => "the parameters of the stream are inferred",
    }
}

fn smart_reads(context: &Context) -> Result<Vec<Finding>> {
    let changes = changes_alone(context, |name, advice, scheme, frames| {
        let trace = Trace::of(name, items(name, advice, context.seed));
        Ok(simulate(&trace, scheme, &Setup::frames(frames), None)?.total().misses() as f64)
    })?;
    Ok(findings_alone("A1", "block I/Os", 9.0, "-9 % to over -80 %", &changes))
}

fn smart_elapsed(context: &Context) -> Result<Vec<Finding>> {
    let changes = changes_alone(context, |name, advice, scheme, frames| {
        let program = program(name, advice, context.seed);
        Ok(elapsed_s(&service::run(&[program], scheme, &Setup::frames(frames))?))
    })?;
    Ok(findings_alone("A2", "elapsed time", 6.0, "-6 % to over -45 %", &changes))
}

fn misses_alone(name: &str, advice: Advice, scheme: Scheme, frames: u32) -> Result<u64> {
    let trace = Trace::of(name, items(name, advice, 1));
    Ok(simulate(&trace, scheme, &Setup::frames(frames), None)?.total().misses())
}

fn gain_until_fit(_: &Context) -> Result<Vec<Finding>> {
    let gain = |frames: u32| -> Result<f64> {
        let before = misses_alone("cs1", Advice::None, LRU, frames)?;
        let after = misses_alone("cs1", Advice::Smart, LRU_SP, frames)?;
        Ok(percent_change(before as f64, after as f64))
    };
    let sizes = [200, 400, 600, 819, 1024, 1536, 2048];
    let gains = sizes.iter().map(|&frames| gain(frames)).collect::<Result<Vec<_>>>()?;
    // The database has 1,073 blocks: the last two sizes hold it.
    let grows = gains[..5].windows(2).all(|pair| pair[1] < pair[0]);
    let vanishes = gains[5..].iter().all(|&gain| gain == 0.0);
    Ok(vec![Finding {
        id: "A3",
        what: format!(
            "cs1, block I/Os smart against LRU at {} frames",
            sizes.map(|size| size.to_string()).join(", ")
        ),
        published: "grows with the cache, none from 12 MB (1536 frames)".to_owned(),
        ours: percents(&gains),
        tolerance: "order".to_owned(),
        verdict: Verdict::of(grows && vanishes, "the gain does not grow until the file fits"),
    }])
}

fn flat_lru(_: &Context) -> Result<Vec<Finding>> {
    ["cs1", "cs2", "cs3", "din"]
        .into_iter()
        .map(|name| {
            let trace = Trace::of(name, items(name, Advice::None, 1));
            let fits = trace.distinct() as u32;
            let sizes = [fits / 10, fits / 2, fits - 1, fits];
            let misses = sizes
                .iter()
                .map(|&frames| Ok(simulate(&trace, LRU, &Setup::frames(frames), None)?.total().misses()))
                .collect::<Result<Vec<u64>>>()?;
            let is_flat = misses[0] == misses[2] && misses[3] == u64::from(fits);
            Ok(Finding {
                id: "A4",
                what: format!(
                    "{name}, misses of LRU at {} frames",
                    sizes.map(|size| size.to_string()).join(", ")
                ),
                published: "flat until the loop fits".to_owned(),
                ours: misses.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
                tolerance: "exact".to_owned(),
                verdict: Verdict::of(is_flat, "the curve is not flat"),
            })
        })
        .collect()
}

// ---- A5, A6: mixes

fn mix_name(mix: &[&str]) -> String {
    mix.join("+")
}

fn run_mix(
    mix: &[&str],
    advice: Advice,
    scheme: Scheme,
    frames: u32,
    seed: u64,
) -> Result<Vec<Ran>, SimError> {
    let programs: Vec<Program> = mix.iter().map(|name| program(name, advice, seed)).collect();
    service::run(&programs, scheme, &Setup::frames(frames))
}

fn mixes(context: &Context) -> Result<Vec<Finding>> {
    let changes = parallel::map(MIXES.len(), context.jobs, |number| {
        let change = |&frames: &u32| -> Result<(f64, f64), SimError> {
            let before = run_mix(MIXES[number], Advice::None, GLOBAL_LRU, frames, context.seed)?;
            let after = run_mix(MIXES[number], Advice::Smart, LRU_SP, frames, context.seed)?;
            let reads = percent_change(misses(&before) as f64, misses(&after) as f64);
            Ok((percent_change(elapsed_s(&before), elapsed_s(&after)), reads))
        };
        SIZES.iter().map(change).collect::<Result<Vec<_>, SimError>>()
    });
    let mut findings = Vec::new();
    let mut best = 0.0_f64;
    for (mix, changes) in MIXES.iter().zip(changes) {
        let (elapsed, reads): (Vec<f64>, Vec<f64>) = changes?.into_iter().unzip();
        best = best.min(least(&elapsed));
        let worst = elapsed.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        findings.push(Finding {
            id: "A5",
            what: format!("{}, elapsed time smart against LRU at {} frames", mix_name(mix), sizes()),
            published: "up to -30 %".to_owned(),
            ours: format!("{} (block I/Os {})", percents(&elapsed), percents(&reads)),
            tolerance: "a gain at some size, no loss above 2 % at any".to_owned(),
            verdict: Verdict::of(least(&elapsed) < -1.0 && worst <= 2.0, "no gain, or a loss at some size"),
        });
    }
    findings.push(Finding {
        id: "A5",
        what: "largest gain in elapsed time among the mixes".to_owned(),
        published: "-30 %".to_owned(),
        ours: percents(&[best]),
        tolerance: "± 50 % of it".to_owned(),
        verdict: Verdict::of_ratio(
            -30.0,
            best,
            0.5,
            "the programs' computing times are not published; the less they compute, the more a saved read counts",
        ),
    });
    Ok(findings)
}

const ORDER_INFERRED: &str = "the order of accesses within the programs is inferred: here each gains more by its own policy than \
                              its neighbours take";

fn ablation(context: &Context) -> Result<Vec<Finding>> {
    let tasks: Vec<(usize, u32)> =
        ABLATION_MIXES.into_iter().flat_map(|mix| SIZES.map(|frames| (mix, frames))).collect();
    let reads = parallel::map(tasks.len(), context.jobs, |task| {
        let (mix, frames) = tasks[task];
        let reads = |advice, scheme| -> Result<u64, SimError> {
            Ok(misses(&run_mix(MIXES[mix], advice, scheme, frames, context.seed)?))
        };
        Ok([
            reads(Advice::None, GLOBAL_LRU)?,
            reads(Advice::Smart, ALLOC_LRU)?,
            reads(Advice::Smart, LRU_SP)?,
        ])
    });
    let reads: Vec<[u64; 3]> = reads.into_iter().collect::<Result<_, SimError>>()?;
    let mut findings = Vec::new();
    let mut worse_mixes = 0;
    for (mix, reads) in ABLATION_MIXES.iter().zip(reads.chunks(SIZES.len())) {
        let worse = reads.iter().filter(|[_, alloc, sp]| alloc > sp).count();
        worse_mixes += usize::from(2 * worse >= SIZES.len());
        let texts: Vec<String> = reads.iter().map(|[lru, alloc, sp]| format!("{lru}/{alloc}/{sp}")).collect();
        findings.push(Finding {
            id: "A6",
            what: format!("{}, block I/Os LRU/ALLOC-LRU/LRU-SP at {} frames", mix_name(MIXES[*mix]), sizes()),
            published: "ALLOC-LRU mostly worse than LRU-SP (figure lost)".to_owned(),
            ours: texts.join(", "),
            tolerance: "worse at two sizes of four".to_owned(),
            verdict: Verdict::of(2 * worse >= SIZES.len(), "ALLOC-LRU is not worse here"),
        });
    }
    let loses = reads.iter().filter(|[lru, alloc, _]| alloc > lru).count();
    findings.push(Finding {
        id: "A6",
        what: "mixes in which ALLOC-LRU is worse than LRU-SP; cases in which it is worse than LRU".to_owned(),
        published: "most of 5; some".to_owned(),
        ours: format!("{worse_mixes} of 5; {loses} of {}", reads.len()),
        tolerance: "at least 3 of 5, at least 1".to_owned(),
        verdict: match (worse_mixes >= 3, loses >= 1) {
            (true, true) => Verdict::Reproduced,
            (true, false) | (false, true) => Verdict::SameOrder(ORDER_INFERRED.to_owned()),
            _ => Verdict::NotReproduced(ORDER_INFERRED.to_owned()),
        },
    });
    Ok(findings)
}

// ---- A7, A8: ReadN next to Read300

/// A row of the ReadN table, values by [`READ_N`].
struct ReadNRow {
    what: &'static str,
    /// The same in a word.
    short: &'static str,
    /// Of the background.
    advice: Advice,
    scheme: Scheme,
    reads: [f64; 4],
    seconds: [f64; 4],
}

const READ_N_ROWS: [ReadNRow; 3] = [
    ReadNRow {
        what: "oblivious",
        short: "oblivious",
        advice: Advice::None,
        scheme: LRU_SP,
        reads: [1172.0, 1181.0, 1176.0, 1481.0],
        seconds: [53.0, 58.0, 59.0, 72.0],
    },
    ReadNRow {
        what: "foolish background, unprotected (LRU-S)",
        short: "unprotected",
        advice: Advice::Foolish,
        scheme: LRU_S,
        reads: [1300.0, 1538.0, 1465.0, 2294.0],
        seconds: [73.0, 89.0, 76.0, 122.0],
    },
    ReadNRow {
        what: "foolish background, protected (LRU-SP)",
        short: "protected",
        advice: Advice::Foolish,
        scheme: LRU_SP,
        reads: [1170.0, 1170.0, 1199.0, 1580.0],
        seconds: [75.0, 75.0, 72.0, 91.0],
    },
];

const INTERLEAVING: &str =
    "who comes when is not published, and decides whether 490 + 300 and 500 + 300 fit in 819";

/// Foreground three accesses, background two, in turn.
fn read_n_by_turns(n: u64, advice: Advice, scheme: Scheme, revocation: bool) -> Result<Outcome, SimError> {
    let stream = find("readn").expect("a known stream");
    let mut settings = Settings::of(stream);
    settings.set(&format!("n={n}")).expect("a valid setting");
    let trace = Trace::of("readn", stream.items(&settings, advice, 1));
    let setup = Setup { by: By::Tenant, revocation, ..Setup::frames(READ_N_FRAMES) };
    simulate(&trace, scheme, &setup, None)
}

fn read_n_reads(_: &Context) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for ReadNRow { what: row, advice, scheme, reads, .. } in READ_N_ROWS {
        for (n, published) in READ_N.into_iter().zip(reads) {
            let ours = read_n_by_turns(n, advice, scheme, false)?.counts[&0].misses();
            findings.push(Finding {
                id: "A7",
                what: format!("Read{n} next to Read300, {row}: block I/Os"),
                published: published.to_string(),
                ours: ours.to_string(),
                tolerance: "± 15 %".to_owned(),
                verdict: Verdict::of_ratio(published, ours as f64, 0.15, INTERLEAVING),
            });
        }
    }
    for n in READ_N {
        let oblivious = read_n_by_turns(n, Advice::None, LRU_SP, false)?.counts[&0].misses();
        let protected = read_n_by_turns(n, Advice::Foolish, LRU_SP, false)?.counts[&0].misses();
        findings.push(Finding {
            id: "A7",
            what: format!("Read{n}: protected next to a fool against next to an oblivious program"),
            published: "about equal".to_owned(),
            ours: format!("{protected} against {oblivious}"),
            tolerance: "exact".to_owned(),
            verdict: Verdict::of(protected == oblivious, "protection has a hole"),
        });
    }
    Ok(findings)
}

fn read_n_elapsed(_: &Context) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for ReadNRow { what: row, advice, scheme, seconds, .. } in READ_N_ROWS {
        for (n, published) in READ_N.into_iter().zip(seconds) {
            let programs = [read_n(1170, n, Advice::None), read_300(advice)];
            let ran = service::run(&programs, scheme, &Setup::frames(READ_N_FRAMES))?;
            let ours = ran[0].elapsed_s;
            findings.push(Finding {
                id: "A8",
                what: format!("Read{n} next to Read300, {row}: seconds, one disk"),
                published: published.to_string(),
                ours: format!("{ours:.1} ({} block I/Os)", ran[0].counts.misses()),
                tolerance: "± 20 %".to_owned(),
                verdict: Verdict::of_ratio(published, ours, 0.2, INTERLEAVING),
            });
        }
    }
    Ok(findings)
}

// ---- A9 to A11: smart programs next to Read300

const WAITS_INFERRED: &str = "how long Read300 waits depends on when its neighbour computes and when it reads or writes, and the \
                              computing times are inferred";

/// For each of [`NEIGHBOURS`]: what became of it, and of Read300, on one disk or two.
fn next_to_read_300(
    name: &str,
    own: Advice,
    of_read_300: Advice,
    disks: usize,
    seed: u64,
) -> Result<[Ran; 2]> {
    let neighbour = program(name, own, seed);
    let read_300 = Program { disk: disks - 1, ..read_300(of_read_300) };
    let ran = service::run(&[neighbour, read_300], LRU_SP, &Setup::frames(READ_N_FRAMES))?;
    Ok([ran[0], ran[1]])
}

fn foolish_neighbour_reads(context: &Context) -> Result<Vec<Finding>> {
    let published = [[3067.0, 3495.0], [9760.0, 10542.0], [9086.0, 9759.0], [5201.0, 5374.0]];
    foolish_neighbour(context, "A9", "block I/Os", published, |ran| ran.counts.misses() as f64)
}

fn foolish_neighbour_elapsed(context: &Context) -> Result<Vec<Finding>> {
    let published = [[155.0, 202.0], [225.0, 339.0], [156.0, 261.0], [112.0, 208.0]];
    foolish_neighbour(context, "A10", "seconds, one disk", published, |ran| ran.elapsed_s)
}

fn foolish_neighbour(
    context: &Context,
    id: &'static str,
    unit: &str,
    published: [[f64; 2]; 4],
    measure: impl Fn(&Ran) -> f64,
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (name, published) in NEIGHBOURS.into_iter().zip(published) {
        let mut ours = [0.0; 2];
        for (ours, advice) in ours.iter_mut().zip([Advice::None, Advice::Foolish]) {
            *ours = measure(&next_to_read_300(name, Advice::Smart, advice, 1, context.seed)?[0]);
        }
        for (number, how) in ["oblivious", "foolish"].into_iter().enumerate() {
            findings.push(Finding {
                id,
                what: format!("{name} next to {how} Read300: {unit}"),
                published: published[number].to_string(),
                ours: format!("{:.0}", ours[number]),
                tolerance: "± 20 %".to_owned(),
                verdict: Verdict::of_ratio(published[number], ours[number], 0.2, why_another(name)),
            });
        }
        let growth = [percent_change(published[0], published[1]), percent_change(ours[0], ours[1])];
        findings.push(Finding {
            id,
            what: format!("{name}: growth of {unit} through Read300's folly"),
            published: percents(&growth[..1]),
            ours: percents(&growth[1..]),
            tolerance: "± 10 points; same order: it grows".to_owned(),
            verdict: if (growth[0] - growth[1]).abs() <= 10.0 {
                Verdict::Reproduced
            } else if growth[1] > 0.0 {
                Verdict::SameOrder(why_another(name).to_owned())
            } else {
                Verdict::NotReproduced("it does not grow".to_owned())
            },
        });
    }
    Ok(findings)
}

/// Why a program next to Read300 costs another number of block I/Os or seconds than the published one.
fn why_another(name: &str) -> &'static str {
    match name {
        "din" => {
            "how many frames it keeps beside Read300 depends on who comes when, which is not published; its computing time is \
             inferred"
        }
        "cs2" => {
            "alone with 819 frames and MRU it misses 7391 times; to miss 9760 times it must have had hardly a frame, which \
             the unpublished order of accesses decides"
        }
        "gli" => {
            "each query of the stream reads all articles, which is 26880 accesses in a loop; 9086 block I/Os for 5376 blocks \
             mean that the original's queries read about a third of them"
        }
        "ldk" => {
            "the stream has the 3200 blocks that are read; the published number must include the blocks written, whose \
             number and times are not given"
        }
        _ => "the parameters of the stream are inferred",
    }
}

fn oblivious_neighbour(context: &Context) -> Result<Vec<Finding>> {
    let one_disk = [[87.0, 67.0], [88.0, 83.0], [60.0, 64.0], [78.0, 76.0]];
    let two_disks = [[20.0, 20.0], [18.0, 17.5], [19.0, 18.0], [17.0, 17.0]];
    let mut findings = Vec::new();
    for (disks, published) in [(1, one_disk), (2, two_disks)] {
        for (name, published) in NEIGHBOURS.into_iter().zip(published) {
            for ((advice, how), published) in
                [(Advice::None, "oblivious"), (Advice::Smart, "smart")].into_iter().zip(published)
            {
                let [_, read_300] = next_to_read_300(name, advice, Advice::None, disks, context.seed)?;
                let reads = read_300.counts.misses();
                let disk = if disks == 1 { "one disk" } else { "two disks" };
                findings.push(Finding {
                    id: "A11",
                    what: format!("Read300 next to {how} {name}, {disk}: seconds; block I/Os"),
                    published: format!("{published}; about 1310"),
                    ours: format!("{:.1}; {reads}", read_300.elapsed_s),
                    tolerance: "± 20 % and ± 2 %".to_owned(),
                    verdict: if (1284..=1336).contains(&reads) {
                        Verdict::of_ratio(published, read_300.elapsed_s, 0.2, WAITS_INFERRED)
                    } else {
                        Verdict::NotReproduced("Read300 pays for its neighbour".to_owned())
                    },
                });
            }
        }
    }
    Ok(findings)
}

// ---- A12, A13: what it costs, and who errs

fn hit_cost(_: &Context) -> Result<Vec<Finding>> {
    const ROUNDS: usize = 7;
    let stream = find("loop").expect("a known stream");
    let mut settings = Settings::of(stream);
    settings.set("passes=500").expect("a valid setting");
    let trace = Trace::of("loop", stream.items(&settings, Advice::None, 1));
    let nanoseconds = |scheme| -> Result<f64, SimError> {
        let outcome = simulate(&trace, scheme, &Setup::frames(1000), None)?;
        Ok(outcome.elapsed.as_nanos() as f64 / trace.accesses() as f64)
    };
    let mut ratios = Vec::new();
    let mut costs = Vec::new();
    for _ in 0..ROUNDS {
        let (without, with) = (nanoseconds(GLOBAL_LRU)?, nanoseconds(LRU_SP)?);
        ratios.push(with / without);
        costs.push(with);
    }
    ratios.sort_by(f64::total_cmp);
    costs.sort_by(f64::total_cmp);
    let ratio = ratios[ROUNDS / 2];
    Ok(vec![Finding {
        id: "A12",
        what:
            "a hit of a program without a manager, LRU-SP against global LRU, medians of 7 alternating rounds"
                .to_owned(),
        published: "no overhead".to_owned(),
        ours: format!(
            "x {ratio:.2} ({:.2} to {:.2}), {:.0} ns a hit",
            ratios[0],
            ratios[ROUNDS - 1],
            costs[ROUNDS / 2]
        ),
        tolerance: "x 1.10".to_owned(),
        verdict: Verdict::of_ratio(
            1.0,
            ratio.max(1.0),
            0.1,
            "a run of a few milliseconds on a machine that others use",
        ),
    }])
}

const UNNOTICED: &str = "the fool's mistakes are not among the overrules that it is judged by";

fn wrong_share(counts: &Counts) -> f64 {
    counts.mistakes as f64 / counts.overrules.max(1) as f64
}

fn mistakes(context: &Context) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for n in READ_N {
        let free = read_n_by_turns(n, Advice::Foolish, LRU_SP, false)?;
        let (fool, share) = (free.counts[&1], wrong_share(&free.counts[&1]));
        findings.push(Finding {
            id: "A13",
            what: format!("foolish Read300 next to Read{n}: wrong overrules, without revocation"),
            published: "none (our earlier simulation: 0.74 to 0.80)".to_owned(),
            ours: format!("{share:.2} of {}", fool.overrules),
            tolerance: "0.74 to 0.81".to_owned(),
            verdict: Verdict::of((0.74..=0.81).contains(&share), "the share of wrong overrules is another"),
        });
        let judged = read_n_by_turns(n, Advice::Foolish, LRU_SP, true)?;
        let oblivious = read_n_by_turns(n, Advice::None, LRU_SP, false)?;
        findings.push(Finding {
            id: "A13",
            what: format!(
                "foolish Read300 next to Read{n}: revocations; block I/Os of both without and with revocation"
            ),
            published: "was being added, no number".to_owned(),
            ours: format!(
                "{}; Read300 {} and {}, Read{n} {} and {}",
                judged.counts[&1].revocations,
                fool.misses(),
                judged.counts[&1].misses(),
                free.counts[&0].misses(),
                judged.counts[&0].misses()
            ),
            tolerance: "at least one revocation; same order: none, yet nobody pays".to_owned(),
            verdict: if judged.counts[&1].revocations > 0 {
                Verdict::Reproduced
            } else if judged.counts[&0].misses() <= oblivious.counts[&0].misses() {
                Verdict::SameOrder(UNNOTICED.to_owned())
            } else {
                Verdict::NotReproduced(UNNOTICED.to_owned())
            },
        });
    }
    for (name, _) in APPLICATIONS {
        let trace = Trace::of(name, items(name, Advice::Smart, context.seed));
        let setup = Setup { revocation: true, ..Setup::frames(READ_N_FRAMES) };
        let counts = simulate(&trace, LRU_SP, &setup, None)?.total();
        findings.push(Finding {
            id: "A13",
            what: format!("smart {name}: wrong overrules; revocations"),
            published: "none (our earlier simulation: 0.00)".to_owned(),
            ours: format!("{:.2} of {}; {}", wrong_share(&counts), counts.overrules, counts.revocations),
            tolerance: "at most 0.02 wrong, none revoked".to_owned(),
            verdict: Verdict::of(
                wrong_share(&counts) <= 0.02 && counts.revocations == 0,
                "a smart program errs",
            ),
        });
    }
    findings.push(mistakes_in_mixes(context)?);
    Ok(findings)
}

/// Smart programs next to each other: the worst share of wrong overrules of any, and all revocations.
fn mistakes_in_mixes(context: &Context) -> Result<Finding> {
    let ran = parallel::map(MIXES.len(), context.jobs, |number| {
        let advice = |name: &&str| program(name, Advice::Smart, context.seed);
        let programs: Vec<Program> = MIXES[number].iter().map(advice).collect();
        let setup = Setup { revocation: true, ..Setup::frames(READ_N_FRAMES) };
        service::run(&programs, LRU_SP, &setup)
    });
    let ran: Vec<Vec<Ran>> = ran.into_iter().collect::<Result<_, SimError>>()?;
    let counts = || ran.iter().flatten().map(|ran| ran.counts);
    let worst = counts().map(|counts| wrong_share(&counts)).fold(0.0, f64::max);
    let revocations: u64 = counts().map(|counts| counts.revocations).sum();
    Ok(Finding {
        id: "A13",
        what: "smart programs of the nine mixes at 819 frames: largest share of wrong overrules; revocations"
            .to_owned(),
        published: "none".to_owned(),
        ours: format!("{worst:.2}; {revocations}"),
        tolerance: "none revoked".to_owned(),
        verdict: Verdict::of(revocations == 0, "a smart program loses its say"),
    })
}
