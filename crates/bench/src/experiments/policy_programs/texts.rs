//! The programs of `examples/programs` that part E runs.

use bufpool_policies::program::Program;

use crate::simulate::TenantProgram;
use crate::trace::{Directive, Item};

/// The groups of levels that have queues of their own in `levels.policy`, each by its last level.
const LEVELS: [i64; 15] = [6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 22];
/// The priority of level 1, the root, under smart advice; each deeper level has one less.
const ROOT_PRIORITY: i64 = 22;

pub(super) fn lru() -> Program {
    parsed(include_str!("../../../../../examples/programs/lru.policy"))
}

pub(super) fn mru() -> Program {
    parsed(include_str!("../../../../../examples/programs/mru.policy"))
}

pub(super) fn fifo2() -> Program {
    parsed(include_str!("../../../../../examples/programs/fifo2.policy"))
}

pub(super) fn fifo2_mach() -> Program {
    parsed(include_str!("../../../../../examples/programs/fifo2-mach.policy"))
}

pub(super) fn ring() -> Program {
    parsed(include_str!("../../../../../examples/programs/ring.policy"))
}

/// The program `levels`, with the ends of levels sent to it that the smart advice of `items` names. Pages are
/// numbered from `base` on.
pub(super) fn levels(items: &[Item], base: u64) -> TenantProgram {
    let program = parsed(include_str!("../../../../../examples/programs/levels.policy"));
    let sent = LEVELS.iter().map(|level| (format!("end{level}"), base as i64 + level_end(items, *level)));
    TenantProgram { program, sent: sent.collect() }
}

/// The number of the first page of a deeper level than `level`.
fn level_end(items: &[Item], level: i64) -> i64 {
    let ends = items.iter().filter_map(|item| match item {
        Item::Directive(Directive::Priority { last, prio, .. }) => {
            (ROOT_PRIORITY + 1 - i64::from(*prio) <= level).then_some(*last as i64 + 1)
        }
        _ => None,
    });
    ends.max().unwrap_or(0)
}

fn parsed(text: &str) -> Program {
    Program::parse(text).expect("the examples are programs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::{self, Advice};

    #[test]
    fn the_values_in_the_text_are_those_of_the_first_seed() {
        let items = streams::items("tree", &["lookups=1"], Advice::Smart, 1);
        let text = include_str!("../../../../../examples/programs/levels.policy");
        for (slot, value) in levels(&items, 0).sent {
            assert!(
                text.contains(&format!("int {slot} = {value}\n"))
                    || text.contains(&format!("int {slot} = {value} ")),
                "{slot} = {value}"
            );
        }
    }
}
