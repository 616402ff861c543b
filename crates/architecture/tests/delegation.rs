//! Goal: the pool, which wraps an engine's own manager, passes every call of the trait `Manager` on to it.
//! Most methods of the trait have defaults, so the compiler does not see one that is missing in the wrapper.
//! Method: the names of the methods are read from the source text of the trait and of the wrapper, and
//! compared.

use std::fs;
use std::path::Path;

/// The names of the methods in the block that begins with this line.
fn methods(file: &str, first_line: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().skip_while(|line| *line != first_line).take_while(|line| *line != "}");
    let names = lines.filter_map(|line| line.strip_prefix("    fn ")?.split(['(', '<']).next());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort_unstable();
    names
}

#[test]
fn managers_of_the_engines_own_hear_every_call() {
    let all = methods("policies/src/manager/mod.rs", "pub trait Manager: Send {");
    let passed_on =
        methods("bufpool/src/policy/engine_code.rs", "impl Manager for EngineCode<dyn Manager> {");
    assert!(all.len() > 15, "{all:?}");
    assert_eq!(passed_on, all);
}
