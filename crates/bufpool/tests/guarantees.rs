//! Goal: each test that the documentation of guarantees names exists.

use std::fs;
use std::path::Path;

#[test]
fn every_test_that_is_named_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("src/docs/guarantees.rs")).unwrap();
    let quoted = text.split('`').skip(1).step_by(2);
    let mut named = 0;
    for (file, test) in quoted.filter_map(|name| name.split_once("::")) {
        // The others are links to types and functions.
        let is_test = file.starts_with(|first: char| first.is_ascii_lowercase()) && test.contains('_');
        if !is_test || file == "bufpool" {
            continue;
        }
        let path =
            if file.starts_with("src/") { root.join(file) } else { root.join(format!("tests/{file}.rs")) };
        let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let at =
            source.find(&format!("fn {test}(")).unwrap_or_else(|| panic!("no {test} in {}", path.display()));
        let before = &source[at.saturating_sub(200)..at];
        assert!(before.contains("#[test]"), "{test} in {file} is not a test");
        named += 1;
    }
    assert!(named >= 40, "only {named} tests found: has the form of the names changed?");
}
