//! E8: seven mixes of join, tree, player and writer under FIFO2-SP, with programs and without.
//!
//! Each program of a mix is a tenant that waits for its pages, one at a time; all share one disk. The time of
//! a sequential read is that of a page of the published join under LRU. The player reads at a fixed pace, and
//! leaves the processor to the others meanwhile. Where the other programs end before the film, the mix ends
//! with the player. So two times are compared: to the end of the last program, and the sum of all programs'
//! times.

use anyhow::Result;
use bufpool_policies::Allocation;

use super::{second_chance, sizes::SIZES, texts};
use crate::experiments::application_control::service::{self, BLOCKS_MAX, Program, Ran};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict, listed};
use crate::parallel;
use crate::simulate::machine::ServiceTimes;
use crate::simulate::{Policy, Setup, SimError, TenantProgram};
use crate::streams::{self, Advice};

/// A sequential read takes as long as a page of the join under LRU; any other read takes a seek in addition.
const DISK: ServiceTimes = ServiceTimes { sequential_us: 12_800, random_us: 22_000 };
/// Time on the processor before an access, in milliseconds.
const COMPUTE_MS: f64 = 0.05;
/// The pages of a film of 129.58 MB that is played at 31.16 KB a second, in pages of 4 KB.
const FILM: &str = "blocks=33172";
const FILM_PERIOD_MS: f64 = 4.0 / 31.16 * 1000.0;
/// Pages of the join's outer relation, and how often the relation is read.
const OUTER: f64 = 15_360.0;
const PASSES: f64 = 64.0;
/// Published times in seconds: the join alone under LRU by size, and the film.
const JOIN_ALONE_S: [f64; 4] = [12_571.80, 12_749.97, 12_735.72, 12_779.17];
const FILM_S: f64 = 4_258.0;

/// A mix, a letter for each program: its published times with policy programs in per cent of those without,
/// by size, and how these ratios depend on the size.
struct Mix {
    programs: &'static str,
    published: [f64; 4],
    shape: Shape,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Each ratio is below 1, and less with more memory; ratios that differ by less than [`TIE`] are a tie.
    GainsWithMemory,
    /// Each ratio is below 1, and greater with more memory; ties as above.
    LosesWithMemory,
    /// Each ratio is below 1, and no two differ by more than [`FLAT`].
    GainsEverywhere,
}

const MIXES: [Mix; 7] = [
    Mix { programs: "JM", published: [62.24, 72.29, 86.95, 92.27], shape: Shape::GainsWithMemory },
    Mix { programs: "TM", published: [91.66, 88.97, 85.54, 81.17], shape: Shape::LosesWithMemory },
    Mix { programs: "JTM", published: [66.80, 78.56, 83.58, 83.39], shape: Shape::GainsWithMemory },
    Mix { programs: "JG", published: [60.46, 66.02, 74.23, 91.98], shape: Shape::GainsWithMemory },
    Mix { programs: "TG", published: [80.64, 82.87, 80.78, 77.82], shape: Shape::GainsEverywhere },
    Mix { programs: "JTG", published: [62.16, 72.99, 79.73, 89.52], shape: Shape::GainsWithMemory },
    Mix { programs: "JTMG", published: [64.63, 71.72, 74.90, 84.36], shape: Shape::GainsWithMemory },
];

/// Ratios that differ by less count as a tie.
const TIE: f64 = 0.01;
/// Ratios that differ by no more are flat; the published ones of T+G differ by .05.
const FLAT: f64 = 0.1;

fn least(ratios: &[f64]) -> f64 {
    ratios.iter().copied().fold(f64::INFINITY, f64::min)
}

fn gains(ratios: &[f64]) -> bool {
    ratios.iter().all(|ratio| *ratio < 1.0)
}

impl Shape {
    fn holds(self, ratios: &[f64]) -> bool {
        gains(ratios)
            && match self {
                Self::GainsWithMemory => ratios.is_sorted_by(|more, less| *more < less + TIE),
                Self::LosesWithMemory => ratios.is_sorted_by(|more, less| *more > less - TIE),
                Self::GainsEverywhere => {
                    let (least, most) = (least(ratios), ratios.iter().copied().fold(0.0, f64::max));
                    most - least <= FLAT
                }
            }
    }

    fn name(self) -> &'static str {
        match self {
            Self::GainsWithMemory => "each below 1, and less with more memory",
            Self::LosesWithMemory => "each below 1, and more with more memory",
            Self::GainsEverywhere => "each below 1, and at most .1 apart",
        }
    }
}

/// The program that `letter` stands for, as that of `tenant`, and its policy program: J the join, T the tree,
/// M the player, G the writer, which has none.
fn program(letter: char, tenant: u32, seed: u64) -> (Program, Option<TenantProgram>) {
    let stream = |name: &str, set: &[&str], advice| streams::items(name, set, advice, seed);
    let plain = |program| Some(TenantProgram { program, sent: Vec::new() });
    let (items, decides, period_ms) = match letter {
        'J' => (stream("nlj", &[], Advice::None), plain(texts::mru()), 0.0),
        'T' => {
            let levels = stream("tree", &["lookups=1"], Advice::Smart);
            let decides = texts::levels(&levels, u64::from(tenant) * BLOCKS_MAX);
            (stream("tree", &[], Advice::None), Some(decides), 0.0)
        }
        'M' => (stream("player", &[FILM], Advice::None), plain(texts::ring()), FILM_PERIOD_MS),
        _ => (stream("writer", &[], Advice::None), None, 0.0),
    };
    (Program { items, compute_ms: COMPUTE_MS, disk: 0, period_ms }, decides)
}

/// The results of a mix at a size, without and with policy programs.
struct Outcome {
    without: Vec<Ran>,
    with: Vec<Ran>,
}

impl Outcome {
    fn of(mix: &Mix, frames: u32, seed: u64) -> Result<Self, SimError> {
        let (programs, decide): (Vec<_>, Vec<_>) =
            (0..).zip(mix.programs.chars()).map(|(tenant, letter)| program(letter, tenant, seed)).unzip();
        let run =
            |setup: &Setup| service::run_on(&[DISK], &programs, Policy::TwoLevel(Allocation::Fifo2Sp), setup);
        let without = run(&Setup::frames(frames))?;
        let decide = (0..).zip(decide).filter_map(|(tenant, program)| Some((tenant, program?)));
        let with = run(&Setup { programs: decide.collect(), ..Setup::frames(frames) })?;
        Ok(Self { without, with })
    }

    fn ratio(&self, time: fn(&[Ran]) -> f64) -> f64 {
        time(&self.with) / time(&self.without)
    }
}

/// The time to the end of the last program, in seconds.
fn to_the_end(ran: &[Ran]) -> f64 {
    ran.iter().map(|ran| ran.elapsed_s).fold(0.0, f64::max)
}

/// The sum of all programs' times, in seconds.
fn summed(ran: &[Ran]) -> f64 {
    ran.iter().map(|ran| ran.elapsed_s).sum()
}

/// The number of frames in which the join alone under MRU has this many misses.
fn frames_of_mru(misses: f64) -> f64 {
    OUTER + 1.0 - (misses - 1.0 - OUTER) / (PASSES - 1.0)
}

pub(super) fn seven_mixes(context: &Context) -> Result<Vec<Finding>> {
    let outcomes = parallel::map(MIXES.len() * SIZES.len(), context.jobs, |number| {
        Outcome::of(&MIXES[number / SIZES.len()], SIZES[number % SIZES.len()], context.seed)
    });
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut findings = Vec::new();
    for (mix, by_size) in MIXES.iter().zip(outcomes.chunks(SIZES.len())) {
        for (what, time) in
            [("to the end of the last", to_the_end as fn(&[Ran]) -> f64), ("all programs' together", summed)]
        {
            findings.push(row(mix, what, by_size, time));
        }
    }
    findings.extend(second_chance::as_in_mach(context)?);
    Ok(findings)
}

/// The row of a mix and one of the two times.
fn row(mix: &Mix, what: &str, by_size: &[Outcome], time: fn(&[Ran]) -> f64) -> Finding {
    let ratios: Vec<f64> = by_size.iter().map(|outcome| outcome.ratio(time)).collect();
    let seconds: Vec<String> = by_size
        .iter()
        .map(|outcome| format!("{:.0}/{:.0}", time(&outcome.with), time(&outcome.without)))
        .collect();
    Finding {
        id: "E8",
        what: format!(
            "{}, time with programs to time without, {what}, at {} frames",
            mix.programs.chars().map(String::from).collect::<Vec<_>>().join("+"),
            listed(&SIZES)
        ),
        published: format!("{} %{}", listed(&mix.published), published_share(mix)),
        ours: format!(
            "{} % ({} s){}",
            listed(&ratios.iter().map(|ratio| format!("{:.1}", 100.0 * ratio)).collect::<Vec<_>>()),
            listed(&seconds),
            shares(mix, by_size)
        ),
        tolerance: mix.shape.name().to_owned(),
        verdict: if mix.shape.holds(&ratios) {
            Verdict::Reproduced
        } else if gains(&ratios) {
            Verdict::SameOrder(reason(mix, by_size))
        } else {
            Verdict::NotReproduced(reason(mix, by_size))
        },
    }
}

/// Frames that the join had in the published mix with the player, if the programs' times add up.
///
/// At 64 MB the mix took 16,780 s without programs. That is the join's time alone plus the film's, within a
/// per cent. So the time with programs, less that of the film, is taken to be the join's.
fn published_share(mix: &Mix) -> String {
    if mix.programs != "JM" {
        return String::new();
    }
    let frames = mix.published.iter().zip(JOIN_ALONE_S).map(|(percent, alone_s)| {
        let join_s = percent / 100.0 * (alone_s + FILM_S) - FILM_S;
        let misses = join_s / alone_s * PASSES * (OUTER + 1.0);
        format!("{:.0}", frames_of_mru(misses))
    });
    format!("; if times add up, the join had {} frames", listed(&frames.collect::<Vec<_>>()))
}

/// The number of frames in which the join alone under MRU would miss as often as here, in words; empty for a
/// mix without the join.
fn shares(mix: &Mix, by_size: &[Outcome]) -> String {
    let Some(join) = mix.programs.find('J') else { return String::new() };
    let used: Vec<String> = by_size
        .iter()
        .map(|outcome| format!("{:.0}", frames_of_mru(outcome.with[join].counts.misses() as f64)))
        .collect();
    format!("; the join misses as MRU alone in {} frames", listed(&used))
}

/// Which program ends last in each run, and the misses of each program with policy programs to those without,
/// in words.
fn reason(mix: &Mix, by_size: &[Outcome]) -> String {
    let last = |ran: &[Ran]| {
        let ends = mix.programs.chars().zip(ran);
        ends.max_by(|a, b| a.1.elapsed_s.total_cmp(&b.1.elapsed_s)).map_or(' ', |(letter, _)| letter)
    };
    let ends: Vec<String> = by_size
        .iter()
        .map(|outcome| format!("{} ({})", last(&outcome.with), last(&outcome.without)))
        .collect();
    let misses: Vec<String> = mix
        .programs
        .chars()
        .enumerate()
        .map(|(at, letter)| {
            let ratio = |outcome: &Outcome| {
                let misses = |ran: &[Ran]| ran[at].counts.misses() as f64;
                format!("{:.2}", misses(&outcome.with) / misses(&outcome.without))
            };
            format!("{letter} {}", listed(&by_size.iter().map(ratio).collect::<Vec<_>>()))
        })
        .collect();
    format!(
        "the last to end is, with programs (without), {}; misses with to without: {}",
        listed(&ends),
        misses.join("; ")
    )
}
