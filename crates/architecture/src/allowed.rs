//! The list of exceptions from the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::graph::Edge;

/// The head of the file of exceptions.
const HEADER: &str = "\
# Imports that go against the rooms of ARCHITECTURE.md. The list only gets shorter: a line that is not needed any
# more fails the test, and new code keeps the rules. After a move of many files it is made anew by
#
#     BUFPOOL_ARCHITECTURE=regenerate cargo test -p bufpool-architecture
#
# `a.rs -> b.rs`: a.rs may import from b.rs.
# `impl room Type`: the room may have inherent impls of another room's type.
";

/// The exceptions of one crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Pairs of files whose imports no rule looks at.
    pub edges: BTreeSet<Edge>,
    /// Pairs of a room and a type's name.
    pub impls: BTreeSet<(String, String)>,
}

/// Reads the exceptions of all crates: a line `[crates/NAME]`, then its exceptions, a line each.
///
/// # Errors
///
/// A line that is neither, with its number.
pub fn read_allowed(text: &str) -> Result<BTreeMap<String, Allowed>, String> {
    let mut lists: BTreeMap<String, Allowed> = BTreeMap::new();
    let mut name = None;
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(heading) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            lists.entry(heading.to_owned()).or_default();
            name = Some(heading);
            continue;
        }
        let expected = || {
            format!("{number}: expected `[crates/NAME]`, `a.rs -> b.rs` or `impl room Type`, found `{line}`")
        };
        let list = name.and_then(|name| lists.get_mut(name)).ok_or_else(expected)?;
        let new = match line.split(' ').collect::<Vec<_>>()[..] {
            ["impl", room, name] => list.impls.insert((room.to_owned(), name.to_owned())),
            [from, "->", to] => list.edges.insert((from.to_owned(), to.to_owned())),
            _ => return Err(expected()),
        };
        if !new {
            return Err(format!("{number}: `{line}` is there twice: remove this line"));
        }
    }
    Ok(lists)
}

/// The file that [`read_allowed`] reads.
pub fn write_allowed(lists: &BTreeMap<String, Allowed>) -> String {
    let mut text = HEADER.to_owned();
    for (name, list) in lists {
        if *list != Allowed::default() {
            text += &format!("\n[{name}]\n{list}");
        }
    }
    text
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (from, to) in &self.edges {
            writeln!(f, "{from} -> {to}")?;
        }
        for (room, name) in &self.impls {
            writeln!(f, "impl {room} {name}")?;
        }
        Ok(())
    }
}
