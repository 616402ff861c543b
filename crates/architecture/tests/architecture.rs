//! The imports of each crate keep the order of its rooms, which `ARCHITECTURE.md` draws.
//!
//! The crate's documentation has the rules, and says how imports are found and which are not seen.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bufpool_architecture::graph::Graph;
use bufpool_architecture::modules::read_sources;
use bufpool_architecture::plan::{Plan, read_plans};
use bufpool_architecture::rules::check;

/// Folder and library of each crate that is checked.
const CRATES: [(&str, &str); 8] = [
    ("crates/policies", "bufpool_policies"),
    ("crates/bufpool", "bufpool"),
    ("crates/remote", "bufpool_remote"),
    ("crates/capi", "bufpool_c"),
    ("crates/bench", "bufpool_bench"),
    ("crates/architecture", "bufpool_architecture"),
    ("examples", "bufpool_examples"),
    ("examples/sqlite", "bufpool_sqlite"),
];

#[test]
fn rooms_use_only_what_is_drawn_below_them() {
    let messages: Vec<String> = read_crates().iter().flat_map(|(graph, plan)| check(graph, plan)).collect();
    assert!(messages.is_empty(), "{} differences:\n\n{}\n", messages.len(), messages.join("\n\n"));
}

/// Imports and drawn rooms of each crate.
fn read_crates() -> Vec<(Graph, Plan)> {
    let root = root();
    let map = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let mut plans: BTreeMap<_, _> =
        read_plans(&map).unwrap_or_else(|message| panic!("ARCHITECTURE.md:{message}"));
    let crates = CRATES.map(|(name, library)| {
        let plan = plans.remove(name).unwrap_or_else(|| {
            panic!(
                "ARCHITECTURE.md has no block ```text rooms {name}: draw the rooms of the crate, top first"
            )
        });
        let sources = read_sources(&root.join(name).join("src")).unwrap();
        let graph = Graph::new(&sources, library).unwrap_or_else(|message| panic!("{name}/src/{message}"));
        (graph, plan)
    });
    assert!(plans.is_empty(), "ARCHITECTURE.md draws crates that are not in CRATES of this test: {plans:?}");
    crates.into()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
