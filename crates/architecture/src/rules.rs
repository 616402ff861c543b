//! The three rules.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Edge, Graph, circles};
use crate::imports::Impl;
use crate::plan::{Plan, room};

/// Files that may import each other in a circle.
const CIRCLE_MAX: usize = 3;
/// The room that may have inherent impls of any room's types.
const PUBLIC_CALLS: &str = "api";
/// Imports of a circle that a message lists.
const LISTED_MAX: usize = 40;

/// The messages about a crate: one for each breach of a rule, and each room that is drawn and does not exist,
/// or exists and is not drawn.
pub fn check(graph: &Graph, plan: &Plan) -> Vec<String> {
    let mut messages = differences(graph, plan);
    messages.extend(upward_messages(graph, plan));
    messages.extend(circle_messages(graph, plan));
    messages.extend(impl_messages(graph, plan));
    messages
}

/// Messages about rooms that are drawn and do not exist, or exist and are not drawn.
fn differences(graph: &Graph, plan: &Plan) -> Vec<String> {
    let name = &plan.name;
    let there: BTreeMap<&str, &String> = graph.files.iter().map(|file| (room(file), file)).collect();
    let not_drawn = there.iter().filter(|(room, _)| !plan.levels.contains_key(**room)).map(|(room, file)| {
        format!(
            "{name}/src/{file} is in the room `{room}`, which ARCHITECTURE.md does not draw: add it to the \
             block `rooms {name}`, below the rooms that use it and above those it uses"
        )
    });
    let not_there = plan.levels.keys().filter(|room| !there.contains_key(room.as_str())).map(|room| {
        format!(
            "ARCHITECTURE.md draws the room `{room}` in the block `rooms {name}`, but {name}/src has no such \
             file or folder: remove it from the block (two spaces end the names of a line)"
        )
    });
    not_drawn.chain(not_there).collect()
}

fn is_upward(plan: &Plan, (from, to): &Edge) -> bool {
    match (plan.levels.get(room(from)), plan.levels.get(room(to))) {
        (Some(from), Some(to)) => to < from,
        _ => false,
    }
}

fn upward_messages(graph: &Graph, plan: &Plan) -> Vec<String> {
    let name = &plan.name;
    let upward = graph.imports.iter().filter(|(edge, _)| is_upward(plan, edge));
    let message = |(from, to): &Edge, line: usize, item: &str| {
        format!(
            "{name}/src/{from}:{line} imports `{item}` from {to}, upwards: ARCHITECTURE.md draws `{}` above \
             `{}`, and a room uses only rooms below it. Move `{item}` down to where both may use it, move the \
             code that needs it up, or pass in what it is needed for",
            room(to),
            room(from)
        )
    };
    upward
        .flat_map(|(edge, imports)| {
            imports.iter().map(move |import| message(edge, import.line, &import.item))
        })
        .collect()
}

fn is_inside((from, to): &Edge, circle: &BTreeSet<&str>) -> bool {
    circle.contains(from.as_str()) && circle.contains(to.as_str())
}

fn circle_messages(graph: &Graph, plan: &Plan) -> Vec<String> {
    // Imports that go up are left to rule 1. Without them all files of a circle are on one level.
    let edges: BTreeSet<&Edge> = graph.imports.keys().filter(|edge| !is_upward(plan, edge)).collect();
    let too_large = circles(&edges).into_iter().filter(|circle| circle.len() > CIRCLE_MAX);
    too_large
        .map(|circle| {
            let name = &plan.name;
            let imports = edges.iter().filter(|edge| is_inside(edge, &circle)).map(|&edge| {
                let (first, (_, to)) = (&graph.imports[edge][0], edge);
                format!("\n    {name}/src/{}:{} imports `{}` from {to}", first.from, first.line, first.item)
            });
            format!(
                "{name}: {} files import each other in a circle, and {CIRCLE_MAX} may. Open it: move what \
                 several of them need into a file of its own below them. The imports in it:{}",
                circle.len(),
                imports.take(LISTED_MAX).collect::<String>()
            )
        })
        .collect()
}

/// Whether an inherent impl is outside of the room of its type.
fn is_foreign(found: &Impl) -> bool {
    room(&found.file) != room(&found.defined_in) && room(&found.file) != PUBLIC_CALLS
}

fn impl_messages(graph: &Graph, plan: &Plan) -> Vec<String> {
    let foreign = graph.impls.iter().filter(|found| is_foreign(found));
    foreign
        .map(|Impl { file, line, name, defined_in }| {
            format!(
                "{}/src/{file}:{line} adds an `impl` to `{name}`, which {defined_in} defines: methods lie in \
                 the room of their type (`{}`), because calls of them name no import. Write a function that \
                 takes the type, or a type of this room",
                plan.name,
                room(defined_in)
            )
        })
        .collect()
}
