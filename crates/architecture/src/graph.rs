//! Which file of a crate imports which items from which other file, and circles of files.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{Impl, Import, read_imports};
use crate::modules::{Modules, Sources};

/// The imports of a crate, which [`rules`](crate::rules) compares with the plan.
#[derive(Debug)]
pub struct Graph {
    /// Files that are compiled without tests.
    pub files: BTreeSet<String>,
    /// Imports by importing and defining file, in the order of lines, each item once.
    pub imports: BTreeMap<Edge, Vec<Import>>,
    /// Inherent `impl`s of types of the crate.
    pub impls: Vec<Impl>,
}

/// Importing file, defining file.
pub type Edge = (String, String);

impl Graph {
    /// Reads a crate; `library` is what `main.rs` calls its library.
    ///
    /// # Errors
    ///
    /// As for [`Modules::new`].
    pub fn new(sources: &Sources, library: &str) -> Result<Self, String> {
        let modules = Modules::new(sources, library)?;
        let (mut found, mut impls) = (Vec::new(), Vec::new());
        for module in 0..modules.all.len() {
            read_imports(&modules, module, &mut found, &mut impls);
        }
        found.sort();
        let mut imports: BTreeMap<Edge, Vec<Import>> = BTreeMap::new();
        for import in found {
            let edge = imports.entry((import.from.clone(), import.to.clone())).or_default();
            if edge.iter().all(|earlier| earlier.item != import.item) {
                edge.push(import);
            }
        }
        let files = modules.all.into_iter().map(|module| module.file).collect();
        Ok(Self { files, imports, impls })
    }
}

/// Groups of files that import each other, directly or through other files (strongly connected components),
/// the largest first.
pub fn circles<'e>(edges: &BTreeSet<&'e Edge>) -> Vec<BTreeSet<&'e str>> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in edges {
        next.entry(from).or_default().push(to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        next.keys().map(|&from| (from, reachable(&next, from))).collect();
    let reach_each_other =
        |a: &str, b: &str| reached[a].contains(b) && reached.get(b).is_some_and(|from_b| from_b.contains(a));
    let mut circles = Vec::new();
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    for (&file, files) in &reached {
        if !placed.contains(file) && reach_each_other(file, file) {
            let circle: BTreeSet<&str> =
                files.iter().copied().filter(|other| reach_each_other(file, other)).collect();
            placed.extend(&circle);
            circles.push(circle);
        }
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

fn reachable<'e>(next: &BTreeMap<&'e str, Vec<&'e str>>, from: &str) -> BTreeSet<&'e str> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<&str> = vec![from];
    while let Some(file) = waiting.pop() {
        for &to in next.get(file).into_iter().flatten() {
            if reached.insert(to) {
                waiting.push(to);
            }
        }
    }
    reached
}
