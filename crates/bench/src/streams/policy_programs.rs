//! The programs of Lee, Chen, Chang, "In-Kernel Policy Interpretation for Application-Specific Memory Caching
//! Management" (HiPEC), as streams of 4 KB pages. Default sizes are the paper's. How often the join scans its
//! outer relation, and how the tree is laid out in pages, are not published; their defaults are choices.
//!
//! *How a policy program finds the level of a page of `tree`.* Index and data are one file, since a program
//! knows only a page's number in its file (`block`). Pages of the index are numbered by level, beginning with
//! that of the root; data pages come last. So a level is a range of numbers, and a program compares `block`
//! with the first number of each level, which it has as a constant. The `!priority` lines at the beginning of
//! smart advice name these ranges:
//!
//! ```text
//! bufbench gen tree --set lookups=1 --advice smart --seed N | grep priority
//! ```
//!
//! The ranges depend on the seed and on the settings that shape the tree, and not on the number of lookups.
//! The numbering changes no decision of a policy that does not use page numbers.

use std::io;

use bufpool_policies::classic::PolicyKind::Mru;

use super::settings::{Parameter, Settings};
use super::stream::{Script, Stream};
use crate::random::{Permutation, Random};

pub(super) static ALL: &[Stream] = &[
    Stream {
        name: "nlj",
        about: "nested-loop join: the outer relation is read once for each part of the inner one",
        parameters: &[
            Parameter::count("inner", 1, "pages of the inner relation"),
            Parameter::count("outer", 15_360, "pages of the outer relation"),
            Parameter::count("passes", 64, "times the outer relation is read; the paper's inner tuples"),
        ],
        has_smart_advice: true,
        has_foolish_advice: false,
        emit: nested_loop_join,
    },
    Stream {
        name: "tree",
        about: "lookups of random keys in a binary tree built by random insertion, and their tuples",
        parameters: &[
            Parameter {
                max: (1_u64 << 28) as f64,
                ..Parameter::count("nodes", 1 << 20, "nodes, and tuples")
            },
            Parameter::count("nodes_a_page", 256, "nodes a page of the index"),
            Parameter::count("tuples_a_page", 64, "tuples a page of the data, in random order of keys"),
            Parameter {
                name: "breadth_first",
                default: 0.0,
                min: 0.0,
                max: 1.0,
                whole: true,
                about: "1 if nodes lie in pages level by level, 0 in order of insertion",
            },
            Parameter {
                max: 31.0,
                ..Parameter::count("levels", 22, "levels with a priority each; below them and data: 0")
            },
            Parameter::count("lookups", 100_000, "lookups"),
        ],
        has_smart_advice: true,
        has_foolish_advice: false,
        emit: tree_lookups,
    },
    Stream {
        name: "player",
        about: "a film is read once",
        parameters: &[Parameter::count("blocks", 3_318, "pages of the film")],
        has_smart_advice: false,
        has_foolish_advice: false,
        emit: player,
    },
    Stream {
        name: "writer",
        about: "a file is written from begin to end",
        parameters: &[
            Parameter::count("blocks", 15_360, "pages of the file"),
            Parameter::count("passes", 1, "times it is written"),
        ],
        has_smart_advice: false,
        has_foolish_advice: false,
        emit: writer,
    },
];

/// Each pass reads one page of the inner relation, and all of the outer one. Smart advice is MRU, under which
/// the inner page stays.
fn nested_loop_join(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let (inner, outer, passes) = (settings.count("inner"), settings.count("outer"), settings.count("passes"));
    script.file(0, inner, "inner")?;
    script.file(inner, outer, "outer")?;
    if script.is_smart() {
        script.policy(0, Mru)?;
    }
    for pass in 0..passes {
        script.access(pass * inner / passes, 1)?;
        (inner..inner + outer).try_for_each(|block| script.access(block, 2))?;
    }
    Ok(())
}

fn player(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let blocks = settings.count("blocks");
    script.file(0, blocks, "film")?;
    (0..blocks).try_for_each(|block| script.access(block, 1))
}

fn writer(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let blocks = settings.count("blocks");
    script.file(0, blocks, "data")?;
    for _ in 0..settings.count("passes") {
        (0..blocks).try_for_each(|block| script.access(block, 1))?;
    }
    Ok(())
}

fn tree_lookups(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let nodes = settings.count("nodes");
    settings.room("nodes", nodes, NODE_BYTES_MAX)?;
    let mut tree = Tree::by_random_insertion(nodes as usize, &mut script.random);
    tree.lay_out(settings.count("nodes_a_page") as usize, settings.count("breadth_first") == 1);
    let data = tree.page_levels.len() as u64;
    let tuples_a_page = settings.count("tuples_a_page");
    script.file(0, data + nodes.div_ceil(tuples_a_page), "tree")?;
    if script.is_smart() {
        let levels = settings.count("levels") as u32;
        let mut first = 0;
        for pages in tree.page_levels.chunk_by(|one, other| one == other) {
            if pages[0] <= levels {
                script.priority(first, pages.len() as u64, (levels + 1 - pages[0]) as i32)?;
            }
            first += pages.len() as u64;
        }
    }
    let tuple_of = Permutation::new(nodes, script.random.bits());
    let mut path = Vec::new();
    for _ in 0..settings.count("lookups") {
        let key = script.random.below(nodes);
        tree.path(key as usize, &mut path);
        path.iter().try_for_each(|page| script.access(u64::from(*page), 1))?;
        script.access(data + tuple_of.apply(key) / tuples_a_page, 2)?;
    }
    Ok(())
}

/// About the most bytes that a node takes while pages are laid out: five numbers and, if each node has a page
/// of its own, a slice.
const NODE_BYTES_MAX: usize = 5 * size_of::<u32>() + size_of::<&[u32]>();

/// A binary search tree. Nodes are numbered from 0 in order of insertion, levels from 1, the level of the
/// root.
struct Tree {
    /// For each key: its node.
    nodes: Vec<u32>,
    /// For each node: its parent. The root's is the root.
    parents: Vec<u32>,
    /// For each node: its level.
    levels: Vec<u32>,
    /// For each node: its page.
    pages: Vec<u32>,
    /// For each page: the least level of its nodes. Ascending.
    page_levels: Vec<u32>,
}

impl Tree {
    /// The tree of the keys below `count`, inserted in a random order, each order equally likely. O(`count`).
    ///
    /// It is the Cartesian tree of the keys by node number, since each node was inserted before those below
    /// it. So it is made from the least key to the greatest, with the nodes from the root to the last key on
    /// a stack.
    fn by_random_insertion(count: usize, random: &mut Random) -> Self {
        let mut nodes: Vec<u32> = (0..count as u32).collect();
        random.shuffle(&mut nodes);
        let mut parents = vec![0; count];
        let mut rightmost: Vec<u32> = Vec::new();
        for &node in &nodes {
            let mut below = None;
            while let Some(later) = rightmost.pop_if(|last| *last > node) {
                below = Some(later);
            }
            if let Some(below) = below {
                parents[below as usize] = node;
            }
            parents[node as usize] = rightmost.last().copied().unwrap_or(node);
            rightmost.push(node);
        }
        let mut levels: Vec<u32> = Vec::with_capacity(count);
        for (node, &parent) in parents.iter().enumerate() {
            levels.push(if parent as usize == node { 1 } else { levels[parent as usize] + 1 });
        }
        Self { nodes, parents, levels, pages: Vec::new(), page_levels: Vec::new() }
    }

    /// Puts `nodes_a_page` nodes in each page, level by level or in order of insertion. Pages are numbered by
    /// level, those of one level in the order in which they are filled.
    fn lay_out(&mut self, nodes_a_page: usize, breadth_first: bool) {
        let mut order: Vec<u32> =
            if breadth_first { self.nodes.clone() } else { (0..self.nodes.len() as u32).collect() };
        if breadth_first {
            order.sort_by_key(|node| self.levels[*node as usize]);
        }
        let level = |page: &&[u32]| page.iter().map(|node| self.levels[*node as usize]).min();
        let mut filled: Vec<&[u32]> = order.chunks(nodes_a_page).collect();
        filled.sort_by_key(level);
        self.page_levels = filled.iter().filter_map(level).collect();
        self.pages = vec![0; order.len()];
        for (number, page) in filled.into_iter().enumerate() {
            page.iter().for_each(|node| self.pages[*node as usize] = number as u32);
        }
    }

    /// The pages of the nodes from the root to the key's node. Consecutive nodes on one page give the page
    /// once.
    fn path(&self, key: usize, path: &mut Vec<u32>) {
        path.clear();
        let mut node = self.nodes[key];
        loop {
            path.push(self.pages[node as usize]);
            let parent = self.parents[node as usize];
            if parent == node {
                break;
            }
            node = parent;
        }
        path.dedup();
        path.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::{self, Advice};
    use crate::trace::{Directive, Item};

    fn tree(count: usize, nodes_a_page: usize, breadth_first: bool) -> Tree {
        let mut tree = Tree::by_random_insertion(count, &mut Random::new(3));
        tree.lay_out(nodes_a_page, breadth_first);
        tree
    }

    /// Plain insertion: key after key, each from the root down.
    #[test]
    fn the_tree_is_that_of_plain_insertion() {
        for count in [1, 2, 3, 50, 1000] {
            let tree = tree(count, 4, false);
            let mut key_of = vec![0; count];
            tree.nodes.iter().enumerate().for_each(|(key, node)| key_of[*node as usize] = key);
            let mut below: Vec<[Option<usize>; 2]> = vec![[None; 2]; count];
            for node in 1..count {
                let (mut at, mut level) = (0, 1);
                loop {
                    level += 1;
                    let side = usize::from(key_of[node] > key_of[at]);
                    match below[at][side] {
                        Some(next) => at = next,
                        None => break below[at][side] = Some(node),
                    }
                }
                assert_eq!((tree.parents[node] as usize, tree.levels[node]), (at, level), "node {node}");
            }
        }
    }

    #[test]
    fn pages_are_full_and_numbered_by_level() {
        for breadth_first in [false, true] {
            let tree = tree(1000, 16, breadth_first);
            assert!(tree.page_levels.is_sorted() && tree.page_levels.len() == 1000_usize.div_ceil(16));
            for (page, level) in tree.page_levels.iter().enumerate() {
                let inside = (0..1000).filter(|node| tree.pages[*node] == page as u32);
                let levels: Vec<u32> = inside.map(|node| tree.levels[node]).collect();
                assert!(levels.len() == 16 || levels.len() == 1000 % 16, "page {page}");
                assert_eq!(levels.iter().min(), Some(level), "page {page}");
            }
            let mut path = Vec::new();
            for key in 0..1000 {
                tree.path(key, &mut path);
                assert_eq!(
                    (path[0], path.last()),
                    (tree.pages[0], Some(&tree.pages[tree.nodes[key] as usize]))
                );
                let mut distinct = path.clone();
                distinct.sort_unstable();
                distinct.dedup();
                assert_eq!(distinct.len(), path.len(), "no page comes twice on a path");
            }
        }
    }

    /// The mean depth of a node, that of the root being 0, is about 2 ln n - 2.8, here 24.9: the paper's
    /// height of
    /// 25. A level is the depth and 1.
    #[test]
    fn a_tree_of_a_million_nodes_has_the_papers_height_and_size() {
        let tree = tree(1 << 20, 256, false);
        let mean = tree.levels.iter().map(|level| f64::from(*level)).sum::<f64>() / f64::from(1 << 20);
        assert!((24.0..28.0).contains(&mean), "{mean}");
        assert_eq!(tree.page_levels.len(), 4096, "16 MB");
    }

    #[test]
    fn smart_advice_names_the_pages_of_each_level_and_nothing_else_changes() {
        let set = &["nodes=5000", "nodes_a_page=16", "levels=8", "lookups=50"];
        let plain = streams::items("tree", set, Advice::None, 7);
        let smart = streams::items("tree", set, Advice::Smart, 7);
        let is_priority = |item: &&Item| matches!(item, Item::Directive(Directive::Priority { .. }));
        let ranges: Vec<&Item> = smart.iter().filter(is_priority).collect();
        let rest: Vec<&Item> = smart.iter().filter(|item| !is_priority(item)).collect();
        assert_eq!(rest, plain.iter().collect::<Vec<_>>());
        let mut next = 0;
        let mut above = i32::MAX;
        for range in ranges {
            let Item::Directive(Directive::Priority { first, last, prio, .. }) = *range else {
                unreachable!()
            };
            assert!(first == next && last >= first && prio < above && prio > 0, "{range:?}");
            (next, above) = (last + 1, prio);
        }
        assert!(next > 0 && next < 5000 / 16, "deeper pages have no priority of their own");
    }

    #[test]
    fn more_lookups_begin_with_the_same() {
        let lookups =
            |count: &str| streams::items("tree", &["nodes=300", "lookups=20", count], Advice::None, 1);
        let (few, many) = (lookups("lookups=20"), lookups("lookups=90"));
        assert_eq!(few[..], many[..few.len()]);
    }
}
