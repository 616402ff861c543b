//! The applications of Cao, Felten, Li, "Implementation and Performance of Application-Controlled File
//! Caching", OSDI '94, as streams of 8 KB blocks, with the directives that they give in the paper.
//!
//! Default sizes are the paper's. Passes, partitions and the like are not published; their defaults are
//! choices.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use bufpool_policies::classic::PolicyKind::{Lru, Mru};

use super::settings::{Parameter, Settings};
use super::stream::{Advice, Script, Stream};

const fn application(
    name: &'static str,
    about: &'static str,
    parameters: &'static [Parameter],
    emit: fn(&Settings, &mut Script<'_>) -> io::Result<()>,
) -> Stream {
    Stream { name, about, parameters, has_smart_advice: true, has_foolish_advice: false, emit }
}

pub(super) static ALL: &[Stream] = &[
    application(
        "cs1",
        "cscope, symbol search: the database is read once a query",
        &[
            Parameter::count("blocks", 1073, "blocks of the database"),
            Parameter::count("passes", 8, "queries"),
            Parameter::count("references", 1, "consecutive references to each block"),
        ],
        file_loop,
    ),
    application(
        "cs2",
        "cscope, text search in 18 MB: the sources are read once a pattern",
        &[
            Parameter::count("blocks", 2462, "blocks of the sources"),
            Parameter::count("passes", 4, "patterns"),
            Parameter::count("references", 2, "consecutive references to each block"),
        ],
        file_loop,
    ),
    application(
        "cs3",
        "cscope, text search in 10 MB",
        &[
            Parameter::count("blocks", 1280, "blocks of the sources"),
            Parameter::count("passes", 4, "patterns"),
            Parameter::count("references", 2, "consecutive references to each block"),
        ],
        file_loop,
    ),
    application(
        "din",
        "dinero, cache simulations: a trace file is read once a simulation",
        &[
            Parameter::count("blocks", 1024, "blocks of the trace file"),
            Parameter::count("passes", 9, "simulations"),
            Parameter::count("references", 1, "consecutive references to each block"),
        ],
        file_loop,
    ),
    application(
        "gli",
        "glimpse: each query scans the index, then article partitions in a fixed order",
        &[
            Parameter::count("index", 256, "blocks of the four index files"),
            Parameter::count("articles", 5120, "blocks of the articles"),
            Parameter::count("partitions", 64, "partitions of the articles"),
            Parameter::count("queries", 5, "queries"),
            Parameter::share(
                "fraction",
                0.9,
                "least share of the partitions that a query visits; drawn up to 1",
            ),
        ],
        glimpse,
    ),
    application(
        "ldk",
        "linking a kernel: object files read in small pieces, some headers once more",
        &[
            Parameter::count("blocks", 3200, "blocks of the object files"),
            Parameter::count("references", 4, "small reads a block"),
            Parameter::share("reread", 0.1, "share of the blocks that are read once more"),
            Parameter::count("distance", 64, "blocks read until then"),
        ],
        link_editor,
    ),
    application(
        "pjn",
        "Postgres join: sequential outer relation, index probes, fetches from the inner relation",
        &[
            Parameter::count("outer", 410, "blocks of the outer relation"),
            Parameter::count("tuples", 20_000, "tuples of the outer relation"),
            Parameter::count("index", 640, "index blocks below the root"),
            Parameter::count("inner", 4096, "blocks of the inner relation"),
            Parameter::share("match", 0.2, "share of the outer tuples that match"),
        ],
        postgres_join,
    ),
    application(
        "sort",
        "external merge sort: runs written once, merged in creation order, read once",
        &[
            Parameter::count("blocks", 2176, "blocks of the input"),
            Parameter::count("memory", 128, "blocks of a run"),
            Parameter::count("fan_in", 8, "runs merged at a time"),
        ],
        external_sort,
    ),
    Stream {
        name: "readn",
        about: "two programs that re-read groups of n blocks: tenant 0 in front, tenant 1 behind",
        parameters: &[
            Parameter::count("n", 390, "blocks a group of the foreground"),
            Parameter::count("blocks", 1170, "blocks of the foreground's file"),
            Parameter::count("background_n", 300, "blocks a group of the background"),
            Parameter::count("background_blocks", 1310, "blocks of the background's file"),
            Parameter::count("repeats", 5, "times each group is read"),
            Parameter::count("foreground_burst", 3, "consecutive accesses of the foreground"),
            Parameter::count("background_burst", 2, "consecutive accesses of the background"),
        ],
        has_smart_advice: false,
        has_foolish_advice: true,
        emit: read_n,
    },
];

/// cs1, cs2, cs3, din: one file is read from beginning to end again and again.
pub(super) fn file_loop(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let blocks = settings.count("blocks");
    script.file(0, blocks, "data")?;
    if script.is_smart() {
        script.priority(0, blocks, 0)?;
        script.policy(0, Mru)?;
    }
    for _ in 0..settings.count("passes") {
        for block in 0..blocks {
            for _ in 0..settings.count("references") {
                script.access(block, 1)?;
            }
        }
    }
    Ok(())
}

pub(super) fn glimpse(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    const INDEX_FILES: u64 = 4;
    let (index, articles) = (settings.count("index"), settings.count("articles"));
    let partitions = settings.count("partitions").min(articles);
    settings.room("partitions", partitions, size_of::<u64>())?;
    let part = |number: u64, parts: u64, blocks: u64| number * blocks / parts;
    for file in 0..INDEX_FILES.min(index) {
        let files = INDEX_FILES.min(index);
        let (first, end) = (part(file, files, index), part(file + 1, files, index));
        script.file(first, end - first, format!("index{file}"))?;
    }
    script.file(index, articles, "articles")?;
    if script.is_smart() {
        script.priority(0, index, 1)?;
        script.policy(1, Mru)?;
        script.policy(0, Mru)?;
    }
    let least = settings.real("fraction");
    let mut order: Vec<u64> = (0..partitions).collect();
    for _ in 0..settings.count("queries") {
        (0..index).try_for_each(|block| script.access(block, 1))?;
        let fraction = least + (1.0 - least) * script.random.unit();
        let visited = (fraction * partitions as f64).round() as usize;
        script.random.shuffle(&mut order);
        order[..visited].sort_unstable();
        for &partition in &order[..visited] {
            let blocks = part(partition, partitions, articles)..part(partition + 1, partitions, articles);
            blocks.into_iter().try_for_each(|block| script.access(index + block, 2))?;
        }
    }
    Ok(())
}

fn link_editor(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let (blocks, distance) = (settings.count("blocks"), settings.count("distance"));
    script.file(0, blocks, "objects")?;
    if script.is_smart() {
        script.policy(-1, Lru)?;
    }
    let reread = settings.real("reread");
    // Blocks to read once more, oldest first, each with the block that the linker has read by then.
    let mut headers = VecDeque::new();
    for block in 0..blocks {
        read_and_forget(script, block, 1, settings.count("references"))?;
        if script.random.chance(reread) {
            headers.push_back((block, block + distance));
        }
        while headers.front().is_some_and(|&(_, due)| due <= block) {
            let (header, _) = headers.pop_front().expect("one is due");
            read_and_forget(script, header, 2, 1)?;
        }
    }
    headers.into_iter().try_for_each(|(header, _)| read_and_forget(script, header, 2, 1))
}

fn read_and_forget(script: &mut Script<'_>, block: u64, site: u32, references: u64) -> io::Result<()> {
    (0..references).try_for_each(|_| script.access(block, site))?;
    if script.is_smart() { script.done_with(block) } else { Ok(()) }
}

fn postgres_join(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let (outer, tuples) = (settings.count("outer"), settings.count("tuples"));
    let (leaves, inner) = (settings.count("index"), settings.count("inner"));
    let root = outer;
    let data = root + 1 + leaves;
    script.file(0, outer, "outer")?;
    script.file(root, 1 + leaves, "index")?;
    script.file(data, inner, "inner")?;
    if script.is_smart() {
        script.priority(root, 1 + leaves, 1)?;
    }
    let mut block_read = None;
    for tuple in 0..tuples {
        // An outer block is accessed once for all its tuples.
        let block = tuple * outer / tuples;
        if block_read != Some(block) {
            script.access(block, 1)?;
            block_read = Some(block);
        }
        script.access(root, 2)?;
        let leaf = script.random.below(leaves);
        script.access(root + 1 + leaf, 3)?;
        if script.random.chance(settings.real("match")) {
            let fetched = script.random.below(inner);
            script.access(data + fetched, 4)?;
        }
    }
    Ok(())
}

/// Block numbers: first the input, then the temporary files in order of creation, then the output.
fn external_sort(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let (blocks, memory) = (settings.count("blocks"), settings.count("memory"));
    let fan_in = settings.count("fan_in").max(2) as usize;
    settings.room("blocks", blocks.div_ceil(memory), size_of::<Range<u64>>())?;
    script.file(0, blocks, "input")?;
    if script.is_smart() {
        script.policy(-1, Mru)?;
        script.policy(0, Mru)?;
        script.priority(0, blocks, -1)?;
    }
    let mut next_free = blocks;
    let mut runs = VecDeque::<Range<u64>>::new();
    for first in (0..blocks).step_by(memory as usize) {
        let end = (first + memory).min(blocks);
        (first..end).try_for_each(|block| read_and_forget(script, block, 1, 1))?;
        let run = next_free..next_free + (end - first);
        next_free = run.end;
        run.clone().try_for_each(|block| script.access(block, 2))?;
        runs.push_back(run);
    }
    while !runs.is_empty() {
        let merged: Vec<_> = runs.drain(..fan_in.min(runs.len())).collect();
        let result = merge(script, merged, next_free)?;
        next_free = result.end;
        if !runs.is_empty() {
            runs.push_back(result);
        }
    }
    Ok(())
}

/// Reads the blocks of the runs in a random order that keeps the order in each run, as random keys give, and
/// writes as many blocks from `first` on.
fn merge(script: &mut Script<'_>, mut runs: Vec<Range<u64>>, first: u64) -> io::Result<Range<u64>> {
    let blocks: u64 = runs.iter().map(|run| run.end - run.start).sum();
    for written in first..first + blocks {
        // The next block is one of a run with the probability of the run's share of the blocks left.
        let mut point = script.random.below(first + blocks - written);
        let run = runs.iter_mut().find(|run| {
            let left = run.end - run.start;
            let here = point < left;
            point = point.wrapping_sub(if here { 0 } else { left });
            here
        });
        let block = run.and_then(Iterator::next).expect("as many blocks are left as are to be written");
        read_and_forget(script, block, 3, 1)?;
        script.access(written, 4)?;
    }
    Ok(first..first + blocks)
}

fn read_n(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let blocks = settings.count("blocks");
    let repeats = settings.count("repeats");
    script.file(0, blocks, "foreground")?;
    script.file(blocks, settings.count("background_blocks"), "background")?;
    let mut front = grouped(0, blocks, settings.count("n"), repeats).peekable();
    let mut back =
        grouped(blocks, settings.count("background_blocks"), settings.count("background_n"), repeats)
            .peekable();
    if script.advice == Advice::Foolish {
        script.tenant = 1;
        script.policy(0, Mru)?;
    }
    while front.peek().is_some() || back.peek().is_some() {
        script.tenant = 0;
        let burst = front.by_ref().take(settings.count("foreground_burst") as usize);
        burst.into_iter().try_for_each(|block| script.access(block, 1))?;
        script.tenant = 1;
        let burst = back.by_ref().take(settings.count("background_burst") as usize);
        burst.into_iter().try_for_each(|block| script.access(block, 2))?;
    }
    Ok(())
}

/// The accesses of ReadN to the file `first .. first + blocks`, in groups of `n` blocks. Each group is read
/// `repeats` times before the next; the last group may be smaller.
pub fn grouped(first: u64, blocks: u64, n: u64, repeats: u64) -> impl Iterator<Item = u64> {
    let end = first + blocks;
    (first..end).step_by(n as usize).flat_map(move |group| {
        let group = group..(group + n).min(end);
        (0..repeats).flat_map(move |_| group.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::find;
    use crate::trace::{Directive, Item};
    use std::collections::HashMap;

    fn items(name: &str, advice: Advice) -> Vec<Item> {
        let stream = find(name).unwrap();
        stream.items(&stream.settings(), advice, 1)
    }

    /// How often each block is accessed.
    fn counts(items: &[Item]) -> HashMap<u64, u64> {
        let mut counts = HashMap::new();
        for item in items {
            if let Item::Access(reference) = item {
                *counts.entry(reference.block).or_insert(0) += 1;
            }
        }
        counts
    }

    #[test]
    fn sizes_are_the_papers() {
        for (name, accesses, distinct) in
            [("cs1", 8584, 1073), ("cs2", 19_696, 2462), ("cs3", 10_240, 1280), ("din", 9216, 1024)]
        {
            let counts = counts(&items(name, Advice::None));
            assert_eq!((counts.values().sum::<u64>(), counts.len()), (accesses, distinct), "{name}");
        }
    }

    #[test]
    fn glimpse_reads_its_index_in_every_query_and_most_articles() {
        let counts = counts(&items("gli", Advice::None));
        assert!((0..256).all(|block| counts[&block] == 5));
        assert_eq!(counts.len(), 256 + 5120);
        let articles: u64 = (256..256 + 5120).map(|block| counts[&block]).sum();
        assert!((23_000..=25_600).contains(&articles), "{articles}");
    }

    #[test]
    fn the_link_editor_frees_each_block_after_its_last_byte() {
        let smart = items("ldk", Advice::Smart);
        let counts = counts(&smart);
        assert_eq!(counts.len(), 3200);
        assert!(counts.values().all(|&count| count == 4 || count == 5));
        let again = counts.values().filter(|&&count| count == 5).count();
        assert!((250..390).contains(&again), "{again}");
        let freed = smart
            .iter()
            .filter(|item| matches!(item, Item::Directive(Directive::TemporaryPriority { .. })))
            .count();
        assert_eq!(freed, 3200 + again);
    }

    #[test]
    fn the_join_probes_the_index_once_a_tuple_and_reads_the_outer_relation_once() {
        let counts = counts(&items("pjn", Advice::Smart));
        assert!((0..410).all(|block| counts[&block] == 1));
        assert_eq!(counts[&410], 20_000, "the root");
        let leaves: u64 = (411..411 + 640).filter_map(|block| counts.get(&block)).sum();
        assert_eq!(leaves, 20_000);
        let fetched: u64 = (1051..1051 + 4096).filter_map(|block| counts.get(&block)).sum();
        assert!((3800..4200).contains(&fetched), "{fetched}");
    }

    #[test]
    fn the_sort_writes_each_temporary_block_once_and_reads_it_once() {
        let counts = counts(&items("sort", Advice::Smart));
        // 17 runs: two merges of eight and the last run make three, merged into the output.
        let temporary = 2176 + 2 * 8 * 128;
        assert!((0..2176).all(|block| counts[&block] == 1), "input");
        assert!((2176..2176 + temporary).all(|block| counts[&block] == 2), "temporary files");
        assert!((2176 + temporary..2 * 2176 + temporary).all(|block| counts[&block] == 1), "output");
        assert_eq!(counts.len() as u64, 2 * 2176 + temporary);
    }

    #[test]
    fn read_n_takes_turns_and_the_background_runs_on() {
        let items = items("readn", Advice::Foolish);
        assert!(items.contains(&Item::Directive(Directive::Policy { tenant: 1, prio: 0, policy: Mru })));
        let tenants: Vec<u32> = items
            .iter()
            .filter_map(|item| match item {
                Item::Access(reference) => Some(reference.tenant),
                Item::Directive(_) => None,
            })
            .collect();
        assert_eq!(tenants[..10], [0, 0, 0, 1, 1, 0, 0, 0, 1, 1]);
        assert_eq!(tenants.iter().filter(|&&tenant| tenant == 0).count(), 5 * 1170);
        assert_eq!(tenants.iter().filter(|&&tenant| tenant == 1).count(), 5 * 1310);
        assert_eq!(tenants.last(), Some(&1));
    }

    #[test]
    fn groups_are_repeated_before_the_next_begins() {
        assert_eq!(grouped(10, 5, 2, 2).collect::<Vec<_>>(), [10, 11, 10, 11, 12, 13, 12, 13, 14, 14]);
    }
}
