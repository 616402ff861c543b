//! Comments and prose keep within the columns that `rustfmt.toml` gives code. rustfmt does not check them.

use std::fs;
use std::path::Path;

/// `max_width` of `rustfmt.toml`.
const COLUMNS: usize = 110;

/// Folders of the workspace that are looked at, with all folders below them except `target`. Of the
/// workspace's own folder, the first, only the files are.
const FOLDERS: [&str; 4] = ["", "crates", "examples", "fuzz"];

#[test]
fn comments_and_prose_keep_within_the_columns_of_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rustfmt = fs::read_to_string(root.join("rustfmt.toml")).unwrap();
    assert!(rustfmt.contains(&format!("max_width = {COLUMNS}")), "rustfmt.toml has another max_width");
    let (mut files, mut too_long) = (0, Vec::new());
    let mut folders = Vec::from(FOLDERS.map(|folder| root.join(folder)));
    while let Some(folder) = folders.pop() {
        let is_below = folder != root.join("");
        for entry in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.extend((is_below && !entry.ends_with("target")).then_some(entry));
                continue;
            }
            let lines_of = match entry.extension().and_then(|extension| extension.to_str()) {
                Some("rs") => comments,
                Some("md") => prose,
                _ => continue,
            };
            files += 1;
            let text = fs::read_to_string(&entry).unwrap();
            let lines = lines_of(&text).into_iter().filter(|(_, line)| is_too_long(line));
            too_long.extend(lines.map(|(number, _)| format!("{}:{number}", entry.display())));
        }
    }
    assert!(files > 300, "only {files} files were found");
    assert!(too_long.is_empty(), "text beyond column {COLUMNS}:\n{}", too_long.join("\n"));
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line))
}

fn comments(text: &str) -> Vec<(usize, &str)> {
    numbered(text).filter(|(_, line)| line.trim_start().starts_with("//")).collect()
}

/// Lines of Markdown, without headings and fenced blocks.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut is_fenced = false;
    let lines = numbered(text).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence && !line.starts_with('#')
    });
    lines.collect()
}

/// Whether a line is too long and could be broken. A row of a table and a single word, such as an address,
/// cannot.
fn is_too_long(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!']).trim();
    line.chars().count() > COLUMNS && !text.ends_with('|') && text.contains(' ')
}
