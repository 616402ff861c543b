//! Programs that disclose what they will read, for a [machine](crate::simulate::machine): those of Tomkins,
//! Patterson, Gibson, "A Trace-Driven Comparison of Algorithms for Multi-Process Prefetching and Caching",
//! CMU-CS-96-174.
//!
//! Their traces are lost; the streams are substitutes. Sizes and counts are published. Times on the processor
//! are not, except those of the pairs and of XDataSlice. The other programs have 0.8 ms, a time with which
//! the published counts of cscope1 beside cscope2, and its mean time in pairs, are met within their
//! tolerances (`bufbench paper --experiment B8`, `B10`).

use std::io;

use super::settings::{Parameter, Settings};
use super::stream::{Script, Stream};
use super::{applications, xds};
use crate::trace::Directive;

const fn program(
    name: &'static str,
    about: &'static str,
    parameters: &'static [Parameter],
    emit: fn(&Settings, &mut Script<'_>) -> io::Result<()>,
) -> Stream {
    Stream { name, about, parameters, has_smart_advice: false, has_foolish_advice: false, emit }
}

const fn compute_ms(default: f64) -> Parameter {
    milliseconds("compute_ms", default, "time on the processor before each access, in milliseconds")
}

const fn milliseconds(name: &'static str, default: f64, about: &'static str) -> Parameter {
    Parameter { name, default, min: 0.0, max: 60_000.0, whole: false, about }
}

const HINTED: Parameter = Parameter {
    name: "hinted",
    default: 1.0,
    min: 0.0,
    max: 1.0,
    whole: true,
    about: "1 if all accesses are hinted, else 0",
};

const SLICES: Parameter =
    Parameter::count("slices", 25, "slices of the volume, at most 32 if they do not cross");
const READS: Parameter = Parameter::count("reads", 32_371, "reads of all slices");
const DISTINCT: Parameter = Parameter::count(
    "distinct",
    5_853,
    "distinct blocks of all slices, at most 256 a slice if they do not cross",
);

pub(super) static ALL: &[Stream] = &[
    program(
        "cscope1",
        "cscope, symbol search, with hints: as cs1",
        &[
            Parameter::count("blocks", 1073, "blocks of the database"),
            Parameter::count("passes", 8, "queries"),
            Parameter::count("references", 1, "consecutive references to each block"),
            compute_ms(0.8),
            HINTED,
        ],
        file_loop,
    ),
    program(
        "cscope2",
        "cscope, text search, with hints: as cs2",
        &[
            Parameter::count("blocks", 2462, "blocks of the sources"),
            Parameter::count("passes", 4, "patterns"),
            Parameter::count("references", 2, "consecutive references to each block"),
            compute_ms(0.8),
            HINTED,
        ],
        file_loop,
    ),
    program(
        "glimpse",
        "glimpse with hints: as gli, with four queries",
        &[
            Parameter::count("index", 256, "blocks of the four index files"),
            Parameter::count("articles", 5120, "blocks of the articles"),
            Parameter::count("partitions", 64, "partitions of the articles"),
            Parameter::count("queries", 4, "queries"),
            Parameter::share(
                "fraction",
                0.9,
                "least share of the partitions that a query visits; drawn up to 1",
            ),
            compute_ms(0.8),
            HINTED,
        ],
        glimpse,
    ),
    program(
        "xds",
        "XDataSlice: planar slices of a volume of 64 MB",
        &[
            SLICES,
            READS,
            DISTINCT,
            Parameter::count("row", 256, "blocks read before the first of them is read again; 1 for at once"),
            xds::CROSSING,
            Parameter::count("runs", 1, "times the whole is done, each time with another volume"),
            compute_ms(0.92),
            HINTED,
        ],
        slices,
    ),
    program(
        "hinted-pair",
        "a hinted loop (tenant 0) beside an unhinted loop, or blocks read once, of tenant 1",
        &[
            Parameter::count("blocks", 500, "blocks of the hinted loop"),
            Parameter::count("passes", 100, "times they are read"),
            milliseconds("hinted_ms", 5.0, "time on the processor before each hinted access"),
            Parameter::count("unhinted_blocks", 1200, "blocks of the unhinted loop"),
            Parameter::count(
                "unhinted_accesses",
                30_000,
                "unhinted accesses; no more than blocks: each once",
            ),
            milliseconds("unhinted_ms", 5.0, "time on the processor before each unhinted access"),
        ],
        pair,
    ),
    program(
        "xds-pair",
        "XDataSlice with hints (tenant 0) beside an unhinted loop (tenant 1)",
        &[
            SLICES,
            READS,
            DISTINCT,
            Parameter::count("row", 1, "blocks read before the first of them is read again; 1 for at once"),
            xds::CROSSING,
            Parameter::count("runs", 3, "times the whole is done, each time with another volume"),
            milliseconds("hinted_ms", 0.92, "time on the processor before each hinted access"),
            Parameter::count("unhinted_blocks", 500, "blocks of the unhinted loop"),
            Parameter::count("unhinted_accesses", 30_000, "unhinted accesses"),
            milliseconds("unhinted_ms", 10.0, "time on the processor before each unhinted access"),
        ],
        xds_pair,
    ),
];

/// The directives of a program before its first access.
fn begin(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    compute(script, settings.real("compute_ms"))?;
    if settings.count("hinted") == 1 { hint_all(script) } else { Ok(()) }
}

fn file_loop(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    begin(settings, script)?;
    applications::file_loop(settings, script)
}

fn glimpse(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    begin(settings, script)?;
    applications::glimpse(settings, script)
}

fn slices(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    begin(settings, script)?;
    let blocks = xds::blocks(settings, script)?;
    blocks.into_iter().try_for_each(|block| script.access(block, 1))
}

fn pair(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let blocks = settings.count("blocks");
    let passes = settings.count("passes");
    settings.room("passes", passes.saturating_mul(blocks), size_of::<u64>())?;
    let hinted = (0..passes).flat_map(|_| 0..blocks);
    side_by_side(settings, script, hinted.collect())
}

fn xds_pair(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let hinted = xds::blocks(settings, script)?;
    side_by_side(settings, script, hinted)
}

/// Tenant 0 reads the `hinted` blocks. Tenant 1 reads blocks with higher numbers. They take turns until one
/// of them has no reads left; then the other goes on alone.
fn side_by_side(settings: &Settings, script: &mut Script<'_>, hinted: Vec<u64>) -> io::Result<()> {
    let base = hinted.iter().max().map_or(0, |last| last + 1);
    let loop_blocks = settings.count("unhinted_blocks");
    let unhinted = (0..settings.count("unhinted_accesses")).map(|access| base + access % loop_blocks);
    for (tenant, ms) in [(0, "hinted_ms"), (1, "unhinted_ms")] {
        script.tenant = tenant;
        compute(script, settings.real(ms))?;
    }
    script.tenant = 0;
    hint_all(script)?;
    let (mut hinted, mut unhinted) = (hinted.into_iter(), unhinted);
    loop {
        let (of_hinted, of_unhinted) = (hinted.next(), unhinted.next());
        for (tenant, block) in [(0, of_hinted), (1, of_unhinted)] {
            script.tenant = tenant;
            block.map_or(Ok(()), |block| script.access(block, 1))?;
        }
        if of_hinted.is_none() && of_unhinted.is_none() {
            return Ok(());
        }
    }
}

fn hint_all(script: &mut Script<'_>) -> io::Result<()> {
    script.directive(Directive::HintsAll { tenant: script.tenant })
}

fn compute(script: &mut Script<'_>, ms: f64) -> io::Result<()> {
    let compute_us = (ms * 1000.0).round() as u32;
    script.directive(Directive::Compute { tenant: script.tenant, compute_us })
}

#[cfg(test)]
mod tests {
    use crate::streams::{Advice, items};
    use crate::trace::{Directive, Item, Reference};

    #[test]
    fn programs_say_what_they_will_read() {
        for (name, accesses) in [("cscope1", 8_584), ("cscope2", 19_696), ("xds", 32_371)] {
            let items = items(name, &[], Advice::None, 1);
            assert!(matches!(items[0], Item::Directive(Directive::Compute { tenant: 0, .. })), "{name}");
            assert_eq!(items[1], Item::Directive(Directive::HintsAll { tenant: 0 }), "{name}");
            let count = items.iter().filter(|item| matches!(item, Item::Access(_))).count();
            assert_eq!(count, accesses, "{name}");
        }
        let silent = items("cscope1", &["hinted=0"], Advice::None, 1);
        assert!(!silent.contains(&Item::Directive(Directive::HintsAll { tenant: 0 })));
    }

    #[test]
    fn pairs_take_turns_and_share_no_block() {
        let set = ["blocks=2", "passes=2", "unhinted_blocks=3", "unhinted_accesses=5"];
        let accesses: Vec<(u32, u64)> = items("hinted-pair", &set, Advice::None, 1)
            .into_iter()
            .filter_map(|item| match item {
                Item::Access(Reference { block, tenant, .. }) => Some((tenant, block)),
                Item::Directive(_) => None,
            })
            .collect();
        let expected = [(0, 0), (1, 2), (0, 1), (1, 3), (0, 0), (1, 4), (0, 1), (1, 2), (1, 3)];
        assert_eq!(accesses, expected);
    }
}
