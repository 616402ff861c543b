//! `bufbench hints`: disclosed reads, compared in alternating rounds with what an engine would do without
//! disclosing them.

use anyhow::{Result, bail};
use clap::Args;

use super::comparison_table::{COLUMNS, row};
use super::data_folder::DataFolder;
use crate::cli::{Backend, Common, whole};
use crate::measure::comparison::Comparison;
use crate::measure::hints::{index_scans, joins, many_lists, wrong_lists};
use crate::output::Table;
use crate::workload::Sizes;

// What `--only` chooses from.
const INDEX_SCAN: &str = "index-scan";
const JOIN: &str = "join";
const WRONG: &str = "wrong";
const MANY: &str = "many";

/// The join's relations have the tuples of the scanned relation divided by this.
const JOIN_SHARE: u64 = 5;

/// Arguments of `bufbench hints`.
#[derive(Args, Clone, Debug)]
pub struct HintsArgs {
    /// Tuples of the relation that is scanned; the join has a fifth
    #[arg(long, default_value_t = 1_000_000, value_parser = whole::<u64>(20_000..=1 << 29))]
    pub tuples: u64,
    /// Tuples of a batch made by hand
    #[arg(long, default_value_t = 64, value_parser = whole::<u64>(1..=1024))]
    pub batch: u64,
    /// Only one part: index-scan, join, wrong or many
    #[arg(long, default_value = "")]
    pub only: String,
    /// The pool's I/O backend
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
}

/// Measures and prints the table.
///
/// # Errors
/// If the data files cannot be made, the pool fails, or an answer is wrong.
pub fn run(args: &HintsArgs, common: &Common) -> Result<()> {
    let is_wanted = |part: &str| part.starts_with(&args.only);
    let parts = [INDEX_SCAN, JOIN, WRONG, MANY];
    if !parts.into_iter().any(is_wanted) {
        bail!("--only {}: expected one of {}, or how it begins", args.only, parts.join(" "));
    }
    let folder = DataFolder::new(common)?;
    let sizes = |tuples| Sizes { tuples };
    let large = folder.database("scans", sizes(args.tuples), args.backend.io())?;
    let small = folder.database("joins", sizes(args.tuples / JOIN_SHARE), args.backend.io())?;
    let mut table = Table::new(COLUMNS);
    let mut push = |found: Vec<Comparison>| found.iter().for_each(|of| table.push(row(of)));
    if is_wanted(INDEX_SCAN) {
        push(index_scans(&large, args.batch as usize, common.seed)?);
    }
    if is_wanted(JOIN) {
        push(joins(&small, common.seed)?);
    }
    if is_wanted(WRONG) {
        push(wrong_lists(&large, common.seed)?);
    }
    if is_wanted(MANY) {
        push(many_lists(&large, common.seed)?);
    }
    table.print(common.format)
}
