//! The imports of each crate keep the order of its rooms, which `ARCHITECTURE.md` draws.
//!
//! The crate's documentation has the rules, and says how imports are found and which are not seen.
//!
//! `allowed.txt` beside this file has the exceptions from the rules that the present files need. To move many
//! files: draw the new rooms in `ARCHITECTURE.md`, move the files, and make that list anew with
//! `BUFPOOL_ARCHITECTURE=regenerate cargo test -p bufpool-architecture`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use bufpool_architecture::allowed::{read_allowed, write_allowed};
use bufpool_architecture::graph::Graph;
use bufpool_architecture::modules::read_sources;
use bufpool_architecture::plan::{Plan, read_plans};
use bufpool_architecture::rules::{check, needed};

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
    let crates = read_crates();
    let allowed_path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/allowed.txt");
    if env::var_os("BUFPOOL_ARCHITECTURE").is_some_and(|value| value == "regenerate") {
        assert!(env::var_os("CI").is_none(), "BUFPOOL_ARCHITECTURE=regenerate checks nothing: not for CI");
        let lists = crates.iter().map(|(name, graph, plan)| ((*name).to_owned(), needed(graph, plan)));
        fs::write(&allowed_path, write_allowed(&lists.collect())).unwrap();
    }
    let mut lists = read_allowed(&fs::read_to_string(&allowed_path).unwrap())
        .unwrap_or_else(|message| panic!("{}:{message}", allowed_path.display()));
    let mut messages = Vec::new();
    for (name, graph, plan) in &crates {
        messages.extend(check(graph, plan, &lists.remove(*name).unwrap_or_default()));
    }
    messages
        .extend(lists.keys().map(|name| format!("{}: no crate [{name}] is checked", allowed_path.display())));
    assert!(messages.is_empty(), "{} differences:\n\n{}\n", messages.len(), messages.join("\n\n"));
}

/// Folder, imports and drawn rooms of each crate.
fn read_crates() -> Vec<(&'static str, Graph, Plan)> {
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
        (name, graph, plan)
    });
    assert!(plans.is_empty(), "ARCHITECTURE.md draws crates that are not in CRATES of this test: {plans:?}");
    crates.into()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
