//! Lists of traces: names of files, one a line.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::trace::read_text;

/// A list's name, and the files of its traces.
pub type TraceList = (String, Vec<PathBuf>);

/// The name of each list, with the files of the traces that it names.
///
/// # Errors
///
/// If a list cannot be read, names nothing, or names a file that is neither in its own folder nor in
/// `traces`; or if a trace is named twice.
pub fn read_lists(lists: &[PathBuf], traces: &Path) -> Result<Vec<TraceList>> {
    let name =
        |list: &PathBuf| list.file_stem().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let read = |list: &PathBuf| Ok((name(list), read_list(list, traces)?));
    let lists: Vec<TraceList> = lists.iter().map(read).collect::<Result<_>>()?;
    let mut seen: Vec<&PathBuf> = lists.iter().flat_map(|(_, paths)| paths).collect();
    seen.sort();
    if let Some(twice) = seen.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("{}: expected a trace on one list, found it twice", twice[0].display());
    }
    Ok(lists)
}

/// Ends of the names of traces, compressed or not.
const TRACE_ENDS: [&str; 7] = [".txt", ".tsv", ".trc", ".lis", ".bin", ".gz", ".zst"];
/// Ends of the names of files that describe a trace's contexts and files, and are no traces.
const KEY_ENDS: [&str; 2] = [".contexts.tsv", ".files.tsv"];

/// All traces in a folder, in the order of their names, as a list with the folder's name.
///
/// # Errors
///
/// If the folder cannot be read or has no traces.
pub fn read_folder(traces: &Path) -> Result<TraceList> {
    let shown = traces.display();
    let entries = fs::read_dir(traces)
        .with_context(|| format!("--traces {shown}: cannot be read, expected a folder with traces"))?;
    let ends = |path: &Path, ends: &[&str]| {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        ends.iter().any(|end| name.ends_with(end))
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>()?;
    paths.retain(|path| path.is_file() && ends(path, &TRACE_ENDS) && !ends(path, &KEY_ENDS));
    paths.sort();
    if paths.is_empty() {
        bail!("--traces {shown}: expected traces, files whose names end with {}", TRACE_ENDS.join(" "));
    }
    let name = traces.file_name().map_or_else(|| ".".into(), |name| name.to_string_lossy().into_owned());
    Ok((name, paths))
}

/// The files of the traces that a list names, in its order. A name is relative to the list's folder or, if
/// there is no such file, to `traces`. `#` begins a comment.
///
/// # Errors
///
/// If the list cannot be read, names nothing, or names a file that is in neither folder.
fn read_list(list: &Path, traces: &Path) -> Result<Vec<PathBuf>> {
    let (shown, folder) = (list.display(), traces.display());
    let beside = list.parent().unwrap_or(Path::new(""));
    let mut paths = Vec::new();
    for (number, line) in (1..).zip(read_text(list, "a list of traces")?.lines()) {
        let name = line.split('#').next().unwrap_or("").trim();
        if name.is_empty() {
            continue;
        }
        let found = [beside, traces].map(|folder| folder.join(name)).into_iter().find(|path| path.is_file());
        paths.push(found.with_context(|| {
            format!(
                "{shown}: line {number}: expected a trace {name} beside the list or in {folder} (--traces)"
            )
        })?);
    }
    if paths.is_empty() {
        bail!("{shown}: expected names of traces, one a line, found none");
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_beside_the_list_and_among_the_traces() {
        let (folder, traces) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let list = folder.path().join("some.list");
        fs::write(folder.path().join("own.txt"), "1\n").unwrap();
        fs::write(traces.path().join("shared.txt"), "1\n").unwrap();
        fs::write(&list, "# which\nshared.txt\n\nown.txt # recorded here\n").unwrap();
        let found = read_list(&list, traces.path()).unwrap();
        assert_eq!(found, [traces.path().join("shared.txt"), folder.path().join("own.txt")]);
        for (text, expected) in
            [("# nothing\n", "expected names of traces"), ("no.txt\n", "line 1: expected a trace no.txt")]
        {
            fs::write(&list, text).unwrap();
            assert!(read_list(&list, traces.path()).unwrap_err().to_string().contains(expected), "{text}");
        }
    }
}
