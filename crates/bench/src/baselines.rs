//! Recorded miss ratios of independent implementations, and where the traces are that they were found on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use crate::trace::{base_name, read_text};

/// A row of a file of recorded miss ratios.
#[derive(Clone, Debug)]
pub struct Row {
    /// Base name of the trace.
    pub trace: String,
    /// Frames of the cache.
    pub frames: u32,
    /// The policy's name in the implementation that was measured.
    pub policy: String,
    /// The miss ratio of that implementation, from 0 to 1.
    pub theirs: f64,
}

/// The rows of all CSV files in a folder, the files in alphabetical order.
///
/// # Errors
///
/// If there is no such folder, no CSV file in it, or a file cannot be read or is malformed.
pub fn read_rows(dir: &Path) -> Result<Vec<Row>> {
    let listed = || format!("{}: expected a folder with CSV files", dir.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).with_context(listed)? {
        paths.push(entry.with_context(listed)?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "csv"));
    paths.sort();
    if paths.is_empty() {
        bail!(listed());
    }
    let mut rows = Vec::new();
    for path in paths {
        read_file(&path, &mut rows)?;
    }
    Ok(rows)
}

/// The first line of a file, which names the columns.
const HEADER: &str = "trace,capacity,policy,miss_ratio";

/// Appends the rows of a file to `rows`.
fn read_file(path: &Path, rows: &mut Vec<Row>) -> Result<()> {
    let shown = path.display();
    let text = read_text(path, "a CSV file")?;
    let mut lines = text.lines();
    let header = lines.next().unwrap_or("");
    ensure!(header == HEADER, "{shown}: line 1: expected the header {HEADER}, found `{header}`");
    for (number, line) in (2..).zip(lines) {
        rows.push(parse_row(line).with_context(|| {
            format!(
                "{shown}: line {number}: expected {HEADER} with a capacity from 1 and a ratio from 0 to 1, \
                 found `{line}`"
            )
        })?);
    }
    Ok(())
}

fn parse_row(line: &str) -> Option<Row> {
    let fields: Vec<&str> = line.split(',').collect();
    let [trace, frames, policy, theirs] = fields[..] else { return None };
    let frames = frames.parse().ok().filter(|&frames| frames > 0)?;
    let theirs = theirs.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio))?;
    Some(Row { trace: trace.to_owned(), frames, policy: policy.to_owned(), theirs })
}

/// The trace files in a folder, by base name: those whose names end with `.gz`, `.zst` or `.txt`.
///
/// # Errors
///
/// If there is no such folder.
pub fn traces_in(dir: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("{}: expected a folder", dir.display()))?;
    let mut traces = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        // Files that describe a trace's files and contexts, which end in `.tsv`, are left out.
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if [".gz", ".zst", ".txt"].iter().any(|suffix| name.ends_with(suffix)) {
            traces.insert(base_name(&path), path);
        }
    }
    Ok(traces)
}

/// The folder in which experiments look for recorded traces: `$BUFPOOL_TRACES`, else `../shared/traces`.
pub fn shared_traces() -> PathBuf {
    env::var_os("BUFPOOL_TRACES").map_or_else(|| PathBuf::from("../shared/traces"), PathBuf::from)
}

/// The trace with this base name in that folder, if both are there.
pub fn shared_trace(name: &str) -> Option<PathBuf> {
    traces_in(&shared_traces()).ok()?.remove(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_four_columns() {
        let row = parse_row("cs,100,LRU,0.981714").unwrap();
        assert_eq!(
            (row.trace.as_str(), row.frames, row.policy.as_str(), row.theirs),
            ("cs", 100, "LRU", 0.981714)
        );
        for line in [
            "",
            "cs,100,LRU",
            "cs,0,LRU,0.5",
            "cs,100,LRU,x",
            "cs,100,LRU,0.5,",
            "cs,1,LRU,2",
            "cs,1,LRU,-1",
            "cs,1,LRU,NaN",
        ] {
            assert!(parse_row(line).is_none(), "{line}");
        }
    }
}
