//! The rooms of each crate, as `ARCHITECTURE.md` draws them.

use std::collections::BTreeMap;

/// What the first line of a block begins with, before the crate's folder.
const FENCE: &str = "```text rooms ";

/// The rooms of one crate.
#[derive(Debug)]
pub struct Plan {
    /// The crate's folder.
    pub name: String,
    /// Level of each room, from 0, which is the top.
    pub levels: BTreeMap<String, usize>,
}

/// Reads all plans of a document.
///
/// A line of a block is a level: names with one space between them, a folder's with a `/` at its end if one
/// likes. Two spaces or more end the names; what follows says what the rooms are for. Lines without a name
/// are skipped.
///
/// # Errors
///
/// A block without an end, or a name or crate that is drawn twice, with its line.
pub fn read_plans(document: &str) -> Result<BTreeMap<String, Plan>, String> {
    let mut plans = BTreeMap::new();
    let mut lines = document.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let Some(name) = line.strip_prefix(FENCE) else { continue };
        let mut plan = Plan { name: name.trim().to_owned(), levels: BTreeMap::new() };
        let mut level = 0;
        loop {
            let Some((line, number)) = lines.next() else {
                return Err(format!("{number}: the block `{line}` has no end; expected a line ```"));
            };
            if line == "```" {
                break;
            }
            for room in room_names(line) {
                if plan.levels.insert(room.to_owned(), level).is_some() {
                    return Err(format!("{number}: the room `{room}` of {} is drawn twice", plan.name));
                }
            }
            level += 1;
        }
        let name = plan.name.clone();
        if plans.insert(name.clone(), plan).is_some() {
            return Err(format!("{number}: the rooms of {name} are drawn twice"));
        }
    }
    Ok(plans)
}

fn room_names(line: &str) -> impl Iterator<Item = &str> {
    let names = line.trim().split("  ").next().unwrap_or_default();
    names.split(' ').map(|name| name.trim_end_matches('/')).filter(|name| !name.is_empty())
}

/// The room that a file below `src` belongs to.
pub fn room(file: &str) -> &str {
    match file.split_once('/') {
        Some((folder, _)) => folder,
        None => file.trim_end_matches(".rs"),
    }
}
