//! Comments keep within the columns that `rustfmt.toml` gives code, which rustfmt itself does not look at.

use std::fs;
use std::path::Path;

/// `max_width` of `rustfmt.toml`.
const COLUMNS: usize = 110;

/// Folders of the workspace whose sources are looked at, with what is below them.
const FOLDERS: [&str; 2] = ["crates", "examples"];

#[test]
fn comments_keep_within_the_columns_of_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rustfmt = fs::read_to_string(root.join("rustfmt.toml")).unwrap();
    assert!(rustfmt.contains(&format!("max_width = {COLUMNS}")), "rustfmt.toml has another max_width");
    let (mut files, mut too_long) = (0, Vec::new());
    let mut folders = Vec::from(FOLDERS.map(|folder| root.join(folder)));
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.extend((!entry.ends_with("target")).then_some(entry));
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                files += 1;
                let text = fs::read_to_string(&entry).unwrap();
                let lines = text.lines().enumerate().filter(|(_, line)| is_too_long(line));
                too_long.extend(lines.map(|(line, _)| format!("{}:{}", entry.display(), line + 1)));
            }
        }
    }
    assert!(files > 300, "only {files} sources were found");
    assert!(too_long.is_empty(), "comments beyond column {COLUMNS}:\n{}", too_long.join("\n"));
}

/// A line of a table cannot be broken; nor can one word, as an address is.
fn is_too_long(line: &str) -> bool {
    let Some(text) = line.trim_start().strip_prefix("//") else { return false };
    let text = text.trim_start_matches(['/', '!']).trim();
    line.chars().count() > COLUMNS && !text.ends_with('|') && text.contains(' ')
}
