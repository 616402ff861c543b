//! Tests of each way to name an item, and of each rule when it is broken, on small made-up crates.

use crate::graph::Graph;
use crate::modules::Sources;
use crate::plan::{Plan, read_plans};
use crate::rules::check;

fn graph(files: &[(&str, &str)]) -> Graph {
    let sources: Sources = files.iter().map(|&(file, text)| (file.to_owned(), text.to_owned())).collect();
    Graph::new(&sources, "made_up").unwrap()
}

/// The imports of `a.rs`, which has this text, beside `b.rs`, `b/inner.rs` and `c.rs`.
fn imports_of(text: &str) -> Vec<String> {
    imports_beside(text, "pub mod inner; pub fn call() {} pub struct B; pub enum E { One, Two }")
}

fn imports_beside(text: &str, b: &str) -> Vec<String> {
    let graph = graph(&[
        ("lib.rs", "mod a; mod b; mod c; pub use b::inner::Deep; pub use std::io::Error;"),
        ("a.rs", text),
        ("b.rs", b),
        ("b/inner.rs", "pub struct Deep; pub fn call() {} pub const DEPTH: u32 = 1;"),
        ("c.rs", "pub struct C; pub struct D; #[macro_export] macro_rules! exported { () => {} }"),
    ]);
    let of_a = graph.imports.values().flatten().filter(|import| import.from == "a.rs");
    of_a.map(|import| format!("{} {} {}", import.line, import.item, import.to)).collect()
}

fn plan(block: &str) -> Plan {
    let document = format!("before\n\n```text rooms crates/made_up\n{block}\n```\n");
    read_plans(&document).unwrap().remove("crates/made_up").unwrap()
}

/// Asserts that there is one message, and that it has all of `parts`.
fn assert_one(messages: &[String], parts: &[&str]) {
    assert_eq!(messages.len(), 1, "{messages:#?}");
    for part in parts {
        assert!(messages[0].contains(part), "expected {part} in:\n{}", messages[0]);
    }
}

#[test]
fn nested_groups_name_each_item() {
    let text = "use crate::{b::{inner::{Deep, call}, B},\n c::C};";
    assert_eq!(imports_of(text), ["1 B b.rs", "1 Deep b/inner.rs", "1 call b/inner.rs", "2 C c.rs"]);
    assert_eq!(imports_of("use crate::b::inner::{self, Deep};"), ["1 Deep b/inner.rs"]);
}

#[test]
fn renames_are_the_item_they_rename() {
    assert_eq!(imports_of("use crate::b::B as Other; fn f(_: Other) {}"), ["1 B b.rs"]);
    assert_eq!(imports_of("use crate::b::inner as deep;\nfn f() { deep::call() }"), ["2 call b/inner.rs"]);
    assert_eq!(imports_of("use super::c::{C as _};"), ["1 C c.rs"]);
}

#[test]
fn re_exports_lead_to_where_the_item_is_defined() {
    let b = "pub mod inner; pub(crate) use inner::Deep as Renamed; pub(crate) use crate::c::C;";
    assert_eq!(
        imports_beside("use crate::b::Renamed;\nuse crate::b::C;", b),
        ["1 Deep b/inner.rs", "2 C c.rs"]
    );
    assert_eq!(imports_of("use crate::Deep;"), ["1 Deep b/inner.rs"]);
}

#[test]
fn what_another_crate_defines_is_imported_from_the_file_that_offers_it() {
    assert_eq!(imports_of("use crate::Error;"), ["1 Error lib.rs"]);
    assert_eq!(imports_of("use std::io::Error; fn f(_: Error) { std::mem::drop(1); }"), [""; 0]);
}

#[test]
fn glob_re_exports_are_looked_through() {
    let b = "pub mod inner; pub use self::inner::*; pub use crate::c::*;";
    assert_eq!(imports_beside("use crate::b::{Deep,\n D};", b), ["1 Deep b/inner.rs", "2 D c.rs"]);
    let globs = imports_beside("use crate::b::*;\nfn f(_: Deep) {}", b);
    assert_eq!(globs, ["1 * b.rs", "2 Deep b/inner.rs"]);
    assert_eq!(imports_of("use crate::b::E::*;"), ["1 E b.rs"], "variants are where the type is");
}

#[test]
fn inline_paths_are_imports() {
    let text = "fn f() {\n crate::b::call();\n super::c::C;\n let _: crate::b::inner::Deep; }";
    assert_eq!(imports_of(text), ["2 call b.rs", "4 Deep b/inner.rs", "3 C c.rs"]);
    let text = "use crate::b;\nuse crate::b::inner;\nfn f() { b::call(); inner::DEPTH; }";
    assert_eq!(imports_of(text), ["3 call b.rs", "3 DEPTH b/inner.rs"], "through imported modules");
    let text = "fn f() {\n use crate::b::inner;\n inner::call(); }\n fn g() { inner::call() }";
    assert_eq!(imports_of(text), ["3 call b/inner.rs"], "a block's names end with the block");
}

#[test]
fn a_module_and_a_function_may_share_a_name() {
    let b = "pub mod inner; pub use self::inner::call as inner;";
    assert_eq!(
        imports_beside("fn f() {\n crate::b::inner();\n crate::b::inner::DEPTH; }", b),
        ["2 call b/inner.rs", "3 DEPTH b/inner.rs"]
    );
}

#[test]
fn macros_are_read() {
    assert_eq!(
        imports_of("fn f() { assert!(crate::b::B == 1, \"{}\", crate::c::C); }"),
        ["1 B b.rs", "1 C c.rs"]
    );
    assert_eq!(imports_of("some! { static X: crate::b::B = 1; }"), ["1 B b.rs"]);
    assert_eq!(imports_of("macro_rules! m { ($t:ident) => { $crate::c::C => $t::b::x } }"), ["1 C c.rs"]);
    assert_eq!(imports_of("fn f() { crate::exported!(); }"), ["1 exported c.rs"]);
}

#[test]
fn what_only_tests_compile_is_left_out() {
    let text = "
        #[cfg(test)] use crate::b::B;
        #[cfg(all(test, unix))] mod tests { use crate::b::B; }
        #[cfg(test)] mod file_that_is_not_there;
        #[cfg(bufpool_loom)] fn explored() { crate::b::call(); }
        struct S;
        impl S { #[cfg(test)] fn tested() { crate::b::call(); } }
        fn f() { #[cfg(bufpool_loom)] { crate::b::call(); } }
        /// [`crate::b::B`]
        #[cfg(not(test))] fn kept() { crate::c::C; }
        #[cfg(any(test, feature = \"sim\"))] fn kept_too() { crate::c::D; }";
    assert_eq!(imports_of(text), ["10 C c.rs", "11 D c.rs"]);
}

#[test]
fn the_program_imports_from_the_library_by_its_name() {
    let graph = graph(&[
        ("lib.rs", "pub mod a;"),
        ("a.rs", "pub fn run() {}"),
        ("main.rs", "use made_up::a; fn main() { a::run(); }"),
    ]);
    assert!(graph.imports.contains_key(&("main.rs".to_owned(), "a.rs".to_owned())), "{graph:?}");
}

#[test]
fn inline_modules_are_part_of_their_file() {
    let text = "use crate::b::B;\nmod inside { use super::B; use super::super::c::C; fn f() { self::C; } }";
    assert_eq!(imports_of(text), ["1 B b.rs", "2 C c.rs"]);
}

#[test]
fn an_import_of_a_room_above_fails() {
    let files = [("lib.rs", "mod a; mod b;"), ("a.rs", "pub struct A;"), ("b/mod.rs", "\nuse crate::a::A;")];
    let files = [files[0], files[1], ("b.rs", files[2].1)];
    let graph = graph(&files);
    let messages = check(&graph, &plan("lib\na  what it is for\nb/"));
    assert_one(&messages, &["crates/made_up/src/b.rs:2 imports `A` from a.rs", "draws `a` above `b`"]);
    assert_eq!(check(&graph, &plan("lib\nb\na")), [""; 0], "downwards");
    assert_eq!(check(&graph, &plan("lib\nb a")), [""; 0], "on one line");
}

/// Files of a room that each import the next, the last one the first.
fn ring(files: usize) -> Graph {
    let name = |number: usize| format!("n{}", number % files);
    let modules = (0..files).map(|number| format!("mod {};", name(number))).collect::<String>();
    let mut sources = Sources::from([("lib.rs".to_owned(), "mod ring;".to_owned())]);
    sources.insert("ring/mod.rs".to_owned(), modules);
    for number in 0..files {
        let text = format!("use super::{}::Next; pub struct Next;", name(number + 1));
        sources.insert(format!("ring/{}.rs", name(number)), text.replace("::Next;", "::Next as Other;"));
    }
    Graph::new(&sources, "made_up").unwrap()
}

#[test]
fn a_circle_of_four_fails_and_one_of_three_does_not() {
    let plan = plan("lib\nring/");
    assert_eq!(check(&ring(3), &plan), [""; 0]);
    let messages = check(&ring(4), &plan);
    assert_one(&messages, &["4 files import each other", "ring/n3.rs:1 imports `Next` from ring/n0.rs"]);
}

#[test]
fn a_module_that_publishes_its_children_is_in_no_circle_with_them() {
    let child = "use super::Shared; pub struct Own;";
    let with_parent = |parent: &str| {
        let parent = format!("mod a; mod b; mod c; pub struct Shared; {parent}");
        let files = [("lib.rs", "mod r;"), ("r/mod.rs", parent.as_str())];
        graph(&[&files[..], &[("r/a.rs", child), ("r/b.rs", child), ("r/c.rs", child)]].concat())
    };
    let plan = plan("lib\nr");
    let published = "pub use a::Own as A; pub use b::Own as B; pub use c::Own as C;";
    assert_eq!(check(&with_parent(published), &plan), [""; 0]);
    let used = format!("{published} fn f() {{ A; B; C; }}");
    assert_one(&check(&with_parent(&used), &plan), &["4 files import each other"]);
}

#[test]
fn an_impl_of_another_rooms_type_fails() {
    let graph = |room: &str| {
        let root = format!("mod {room}; mod b; pub use b::B;");
        let file = format!("{room}.rs");
        graph(&[
            ("lib.rs", root.as_str()),
            (file.as_str(), "use crate::B;\nimpl B { fn f() {} }\nimpl Clone for B {}"),
            ("b.rs", "mod own; pub struct B; impl B {}"),
            ("b/own.rs", "impl super::B {}"),
        ])
    };
    let messages = check(&graph("a"), &plan("lib\na\nb"));
    assert_one(&messages, &["crates/made_up/src/a.rs:2 adds an `impl` to `B`, which b.rs defines"]);
    assert_eq!(check(&graph("api"), &plan("lib\napi\nb")), [""; 0]);
}

#[test]
fn rooms_are_drawn_once_and_are_there() {
    let graph = graph(&[("lib.rs", "mod a; mod b;"), ("a.rs", ""), ("b/mod.rs", "")]);
    let messages = check(&graph, &plan("lib\nb"));
    assert_one(&messages, &["crates/made_up/src/a.rs is in the room `a`", "does not draw"]);
    let messages = check(&graph, &plan("lib\na gone  not there\nb"));
    assert_one(&messages, &["draws the room `gone`", "no such file or folder"]);
    let twice = "```text rooms crates/made_up\na\na\n```";
    assert_eq!(read_plans(twice).unwrap_err(), "3: the room `a` of crates/made_up is drawn twice");
    let open = "```text rooms crates/made_up\na";
    assert!(read_plans(open).unwrap_err().contains("has no end"));
}

#[test]
fn sources_that_cannot_be_read_say_where() {
    let read = |text: &str| {
        let sources = Sources::from([("lib.rs".to_owned(), text.to_owned())]);
        Graph::new(&sources, "made_up").unwrap_err()
    };
    assert!(read("\nfn (").starts_with("lib.rs:2: "));
    assert_eq!(read("mod a;"), "lib.rs:1: expected the module `a` in a.rs or a/mod.rs");
    assert!(Graph::new(&Sources::new(), "made_up").unwrap_err().contains("expected lib.rs or main.rs"));
}
