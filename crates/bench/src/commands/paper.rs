//! `bufbench paper`: published experiments, published values beside ours.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::cli::Common;
use crate::experiments::{self, Context, Experiment, Finding, Verdict, application_control};
use crate::output::report::Report;
use crate::output::{Cell, Table, WholeFile, unwritable};
use crate::output::{note, progress};

/// Arguments of `bufbench paper`.
#[derive(Args, Debug)]
pub struct PaperArgs {
    /// One experiment, such as A7, or a part, such as A [default: all but `call-sites`, which runs for
    /// minutes]
    #[arg(long, value_name = "NAME")]
    pub experiment: Option<String>,
    /// Also write an HTML page with tables and charts
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Runs the experiments and prints the findings.
///
/// # Errors
///
/// If there is no such experiment, a simulation cannot be carried out, or the report cannot be written.
pub fn run(args: &PaperArgs, common: &Common) -> Result<()> {
    let chosen = choose(args.experiment.as_deref())?;
    let file = args.report.as_deref().map(WholeFile::begin).transpose()?;
    let context = Context { seed: common.seed, jobs: common.jobs() };
    let bar = progress::bar("experiments", chosen.len() as u64, "done");
    let mut findings = Vec::new();
    for experiment in &chosen {
        bar.set_message(format!("{} {}", experiment.id, experiment.title));
        findings.extend(experiment.run(&context).with_context(|| format!("experiment {}", experiment.id))?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let table = table(&findings);
    table.print(common.format)?;
    note(format_args!("bufbench: {}", tally(&findings)));
    if let Some((file, path)) = file.zip(args.report.as_ref()) {
        let mut report = Report::new("Published experiments");
        report.paragraph(&tally(&findings));
        if chosen.iter().any(|experiment| experiment.id.starts_with('A')) {
            report.heading("Application-controlled caching");
            application_control::charts(&context)?.iter().for_each(|chart| report.chart(chart));
        }
        report.heading("Findings");
        report.table(&table);
        report.write(file, Path::new(".")).with_context(|| unwritable(path))?;
    }
    Ok(())
}

/// The experiments of that name, or of the part of that name.
fn choose(name: Option<&str>) -> Result<Vec<&'static Experiment>> {
    let Some(name) = name else { return Ok(experiments::all().collect()) };
    let is_chosen =
        |id: &str| id.eq_ignore_ascii_case(name) || (name.len() == 1 && id[..1].eq_ignore_ascii_case(name));
    let on_request = experiments::on_request().find(|experiment| experiment.id.eq_ignore_ascii_case(name));
    let of_part = experiments::all().filter(|experiment| is_chosen(experiment.id));
    let chosen: Vec<_> = on_request.into_iter().chain(of_part).collect();
    if chosen.is_empty() {
        let known = experiments::all().chain(experiments::on_request());
        let ids: Vec<&str> = known.map(|experiment| experiment.id).collect();
        bail!("expected one of the experiments {}, or a part, found `{name}`", ids.join(" "));
    }
    Ok(chosen)
}

fn table(findings: &[Finding]) -> Table {
    let mut table = Table::new(&["id", "what", "published", "ours", "tolerance", "verdict"]);
    for finding in findings {
        table.push(vec![
            finding.id.into(),
            Cell::text(&finding.what),
            Cell::text(&finding.published),
            Cell::text(&finding.ours),
            Cell::text(&finding.tolerance),
            Cell::text(finding.verdict.to_string()),
        ]);
    }
    table
}

/// How many verdicts of each kind there are. Rows with a `/` in their name, such as `B8/3-12`, show a
/// sensitivity and are not counted.
fn tally(findings: &[Finding]) -> String {
    let claims = || findings.iter().filter(|finding| !finding.id.contains('/'));
    let count = |is: fn(&Verdict) -> bool| claims().filter(|finding| is(&finding.verdict)).count();
    format!(
        "{} reproduced, {} of the same order, {} not reproduced, {} not run",
        count(|verdict| *verdict == Verdict::Reproduced),
        count(|verdict| matches!(verdict, Verdict::SameOrder(_))),
        count(|verdict| matches!(verdict, Verdict::NotReproduced(_))),
        count(|verdict| matches!(verdict, Verdict::NotRun(_))),
    )
}
