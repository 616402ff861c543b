//! What does a policy program cost?
//!
//! `cargo bench -p bufpool-bench --bench programs` prints medians of 7 alternating rounds. It compares FIFO2
//! and S3-FIFO as programs with the same policies in Rust: replacements of the directory alone, and faults of
//! a pool, without I/O and, in short turns, with I/O. Then it compares a program's replacement with a system
//! call, a thread and a process.
//!
//! Arguments behind `--` choose:
//!
//! * `replacements`, `faults`, `io`, `crossings`: only these parts;
//! * `instructions`: how many instructions, loads and stores a replacement and a fault take, counted by
//!   callgrind (valgrind has to be installed; a minute): the bench starts itself twice for each side, with
//!   `count=N`, and divides the difference. What the kernel does for a fault is not counted.

use anyhow::{Context, bail};
use bufpool::Direct;
use bufpool_bench::measure::programs::{
    Answers, Clock, Compared, FILE_PAGES, Faults, Replacements, Side, Twin, build_file, compare_crossings,
    compare_faults, compare_replacements,
};

mod callgrind;

/// Replacements, faults, faults with I/O, and questions, each of one round.
const REPLACEMENTS: u64 = 1 << 18;
const FAULTS: u64 = 10_240;
const FAULTS_WITH_IO: u64 = 10_240;
const QUESTIONS: u64 = 5_000;
/// Numbers of replacements and faults where instructions are counted.
const COUNTED: [u64; 2] = [1 << 12, 1 << 14];

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|one| !one.starts_with('-')).collect();
    let is_asked = |what: &str| arguments.is_empty() || arguments.iter().any(|one| one == what);
    if let [part, policy, side, count] = &arguments[..]
        && let Some(count) = count.strip_prefix("count=")
    {
        return run_once(part, policy, side, count.parse().context("count=N wants a number")?);
    }
    if arguments.iter().any(|one| one == "instructions") {
        return count_instructions();
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let path = folder.path().join("faults.pages");
    if is_asked("replacements") {
        print("replacements of the directory alone", &compare_replacements(REPLACEMENTS)?, "");
    }
    if is_asked("faults") {
        build_file(&path, Direct::Off)?;
        let compared = compare_faults(&path, Direct::Off, Clock::Processor, FAULTS)?;
        print("faults without I/O, processor time", &compared, ", bar 1.05");
    }
    if is_asked("io") {
        build_file(&path, Direct::Require)?;
        let compared = compare_faults(&path, Direct::Require, Clock::Elapsed, FAULTS_WITH_IO)?;
        print("faults with I/O, elapsed time", &compared, ", bar 1.005");
        let compared = compare_faults(&path, Direct::Require, Clock::Processor, FAULTS_WITH_IO)?;
        print("faults with I/O, processor time", &compared, ", bar 1.05");
    }
    if is_asked("crossings") {
        let crossings = compare_crossings(QUESTIONS)?;
        println!("a replacement by a program, and what else could be asked:");
        for one in &crossings {
            let to_program = one.ns.median / crossings[0].ns.median;
            println!(
                "{:16} {:9.0} ns ({:.0} to {:.0}) {to_program:8.1} x program",
                one.name, one.ns.median, one.ns.least, one.ns.greatest
            );
        }
    }
    Ok(())
}

fn print(what: &str, compared: &[Compared], bar: &str) {
    println!("{what}:");
    for one in compared {
        println!(
            "{:8} {:8.0} ns in Rust, {:8.0} ns as a program, {:+.0} ns ({:+.0} to {:+.0}), bar +1000; \
             x {:.4} ({:.4} to {:.4}){bar}; in Rust to itself x {:.4} ({:.4} to {:.4})",
            one.name,
            one.native_ns.median,
            one.program_ns.median,
            one.more_ns.median,
            one.more_ns.least,
            one.more_ns.greatest,
            one.ratio.median,
            one.ratio.least,
            one.ratio.greatest,
            one.noise.median,
            one.noise.least,
            one.noise.greatest
        );
    }
}

/// What the bench does when it is started under callgrind.
fn run_once(part: &str, policy: &str, side: &str, count: u64) -> anyhow::Result<()> {
    let twin = Twin::all().into_iter().find(|twin| twin.native.name() == policy).context("a twin's name")?;
    let side = if side == "native" { Side::Native } else { Side::Program };
    match part {
        "replacements" => Replacements::new(&twin, side, count).run().map(drop),
        "answers" => {
            Answers::new(&twin).run(count);
            Ok(())
        }
        "faults" => {
            let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
            let path = folder.path().join("faults.pages");
            std::fs::write(&path, vec![0; 4096 * FILE_PAGES as usize])?;
            Faults::new(&path, Direct::Off, &twin, side)?.run(count).map(drop)
        }
        _ => bail!("expected replacements, answers or faults, found `{part}`"),
    }
}

fn count_instructions() -> anyhow::Result<()> {
    println!("{:32} {:>12} {:>8} {:>8}", "by callgrind:", "instructions", "loads", "stores");
    for twin in Twin::all() {
        for (part, toggle) in [
            ("replacements", "*TwoLevelRun*batch*"),
            ("answers", "*measure::programs::crossings::Answers::run*"),
            ("faults", "*measure::programs::faults::Faults::run*"),
        ] {
            for side in ["native", "program"] {
                if part == "answers" && side == "native" {
                    continue;
                }
                let name = twin.native.name();
                let counted = COUNTED.map(|count| {
                    callgrind::count(Some(toggle), &[part, name, side, &format!("count={count}")])
                });
                let [few, many] = counted;
                let (few, many) = (few?, many?);
                let one = |what: usize| (many[what] - few[what]) / (COUNTED[1] - COUNTED[0]) as f64;
                let row = format!("{part} {name} {side}");
                println!("{row:32} {:12.1} {:8.1} {:8.1}", one(0), one(1), one(2));
            }
        }
    }
    Ok(())
}
