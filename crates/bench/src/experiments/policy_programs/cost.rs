//! E1, E2: what interpreting a policy program costs, measured in a short run.

use anyhow::{Context as _, Result};
use bufpool::Direct;

use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};
use crate::machine::temporary::Temporary;
use crate::measure::programs::{
    Clock, Compared, build_file, compare_crossings, compare_faults, compare_replacements,
};

/// Faults of a round without I/O, and of one with I/O.
const FAULTS: u64 = 10_240;
const FAULTS_WITH_IO: u64 = 1_024;
/// Questions to another thread, and to another process, in a round.
const QUESTIONS: u64 = 1_000;
/// The most that a program may add to a fault, in nanoseconds.
const MORE_NS: f64 = 1000.0;
const BUSY: &str =
    "the program costs more, or the machine is not quiet: see what the native policy is to itself";

pub(super) fn a_fault(_: &Context) -> Result<Vec<Finding>> {
    let folder = Temporary::folder().context("a folder for the file that is read")?;
    let path = folder.path().join("faults.pages");
    build_file(&path, Direct::Off)?;
    let mut findings = Vec::new();
    for compared in compare_replacements(FAULTS)? {
        findings.push(Finding {
            id: "E1",
            what: format!(
                "{} as a program against Rust, a replacement of the directory alone",
                compared.name
            ),
            published: "8.36 to 18.53 us".to_owned(),
            ours: told(&compared),
            tolerance: "less than 1 us more".to_owned(),
            verdict: Verdict::of(compared.more_ns.median < MORE_NS, BUSY),
        });
    }
    for compared in compare_faults(&path, Direct::Off, Clock::Processor, FAULTS)? {
        findings.push(ratio(&compared, "without I/O, processor time", "+2.13 %", 1.05));
    }
    if build_file(&path, Direct::Require).is_ok() {
        for compared in compare_faults(&path, Direct::Require, Clock::Elapsed, FAULTS_WITH_IO)? {
            findings.push(ratio(&compared, "with I/O, elapsed time", "+0.23 %", 1.005));
        }
    } else {
        findings.push(Finding {
            id: "E1",
            what: format!("faults with I/O in {}", folder.path().display()),
            published: "+0.23 %".to_owned(),
            ours: String::new(),
            tolerance: "x 1.005".to_owned(),
            verdict: Verdict::NotRun("a folder with direct I/O, which TMPDIR names".to_owned()),
        });
    }
    Ok(findings)
}

fn ratio(compared: &Compared, how: &str, published: &str, most: f64) -> Finding {
    Finding {
        id: "E1",
        what: format!("{} as a program against Rust, a fault of the pool {how}", compared.name),
        published: published.to_owned(),
        ours: told(compared),
        tolerance: format!("x {most}, and less than 1 us more"),
        verdict: Verdict::of(compared.ratio.median <= most && compared.more_ns.median < MORE_NS, BUSY),
    }
}

fn told(compared: &Compared) -> String {
    format!(
        "x {:.3} ({:.3} to {:.3}): {:.0} to {:.0} ns, {:+.0} ns; the native policy to itself x {:.3} \
         ({:.3} to {:.3})",
        compared.ratio.median,
        compared.ratio.least,
        compared.ratio.greatest,
        compared.program_ns.median,
        compared.native_ns.median,
        compared.more_ns.median,
        compared.noise.median,
        compared.noise.least,
        compared.noise.greatest
    )
}

pub(super) fn against_crossings(_: &Context) -> Result<Vec<Finding>> {
    let [program, system_call, thread, process] = compare_crossings(QUESTIONS)?;
    let ns = program.ns.median;
    let to = |other: f64| format!("{ns:.0} ns to {other:.0} ns, 1 to {:.1}", other / ns);
    let finding = |what: &str, published: &str, other: f64, least: f64| Finding {
        id: "E2",
        what: format!("a replacement by a program against {what}"),
        published: published.to_owned(),
        ours: to(other),
        tolerance: if least > 1.0 { format!("1 to {least} at least") } else { "less".to_owned() },
        verdict: Verdict::of(other >= ns * least, "the program is not cheaper by that much"),
    };
    Ok(vec![
        finding("a system call that does nothing", "13.44 us to 18.4 us", system_call.ns.median, 1.0),
        finding("a thread and back by channels", "13.44 us to 292.3 us (IPC)", thread.ns.median, 10.0),
        finding(
            "a process and back by pipes, 32 bytes",
            "13.44 us to 317.9 us (IPC)",
            process.ns.median,
            10.0,
        ),
    ])
}
