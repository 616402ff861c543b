//! Goal: each promise of the documentation of guarantees has a ground and tests, and the tests exist.
//!
//! Method: the module is read as text. A promise is a paragraph that begins in bold, with two list items,
//! `Ground:` and `Tests:`.

use std::fs;
use std::path::Path;

/// Promises there are at least; fewer mean that the reader no longer finds them.
const PROMISES_MIN: usize = 30;

#[test]
fn every_promise_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("src/docs/guarantees.rs")).unwrap();
    let text: String =
        text.lines().map(|line| format!("{}\n", line.trim_start_matches("//!").trim())).collect();
    let promises: Vec<_> = text.split("\n\n").filter(|paragraph| paragraph.starts_with("**")).collect();
    assert!(
        promises.len() >= PROMISES_MIN,
        "only {} promises found: has their form changed?",
        promises.len()
    );
    for promise in promises {
        let title = promise.lines().next().unwrap();
        let (_, ground) = promise.split_once("\n* Ground: ").unwrap_or_else(|| panic!("no ground: {title}"));
        let (_, tests) = ground.split_once("\n* Tests: ").unwrap_or_else(|| panic!("no tests: {title}"));
        let named: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test is named: {title}");
        named.into_iter().for_each(|test| check_test(root, test));
    }
}

/// Panics unless `name`, as in `sweeps::nothing_is_lost`, is a test of the crate.
fn check_test(root: &Path, name: &str) {
    let (file, test) = name.split_once("::").unwrap_or_else(|| panic!("{name} is not `file::test`"));
    let path = if file.starts_with("src/") { root.join(file) } else { root.join(format!("tests/{file}.rs")) };
    let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let at = source.find(&format!("fn {test}(")).unwrap_or_else(|| panic!("no {test} in {}", path.display()));
    let before = &source[at.saturating_sub(200)..at];
    assert!(before.contains("#[test]"), "{test} in {file} is not a test");
}
