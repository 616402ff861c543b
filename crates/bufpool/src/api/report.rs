//! [`Stats`] as a text for people, to find out why queries are slow.
//!
//! Who has the memory and who misses comes first (tenants), then from where the misses come and what is made
//! of it (contexts with their streams). What misses most is on top.

use std::collections::HashMap;
use std::fmt;

use bufpool_policies::StreamReport;

use crate::api::file_stats::FileStats;
use crate::api::stats::{ContextStats, ProgramStats, Stats, StreamStats, TenantStats, ratio};
use crate::tier::TierStats;

/// Lines of files in a report; the rest is summed up.
const FILES_SHOWN: usize = 20;
/// Lines of contexts and streams in a report; the rest is summed up.
const STREAMS_SHOWN: usize = 40;

/// [`Stats`] as a text for people. What has the same name in the text and in the [numbers](Self::stats) means
/// the same; *read misses* are misses without creations, and *hit_ratio* leaves creations out.
///
/// The text has totals of the pool; what failed, if anything did, with each poisoned file and its cause;
/// totals of the tier, if there is one; and then up to five tables. Of tenants:
/// what they own and what their managers did, see [`TenantStats`]. Of open files, those with most pages in
/// memory first: see [`FileStats`]. Of policy programs: how often each event
/// ran, how long that took and what failed, see [`ProgramStats`]. Of disclosed reads: what became of them,
/// see [`HintStats`](crate::stats::HintStats). The last one is of [contexts](ContextStats), those that miss
/// most first.
///
/// # The table of contexts
///
/// *read misses*, *accesses* and *hit_ratio* are the pool's counts of the context. With the contexts that
/// were recycled, which have a line together below the others, they add up to those of its tenant. A context
/// that accesses several files has a line with these counts, and below it one line without them for each
/// file: the [streams](StreamReport) that its manager tells apart. With one file there is one line for both.
/// The other columns are what the manager knows of a stream, and are empty if it knows none:
///
/// * *frames*, *share*: [frames](StreamReport::frames) whose page the stream used last, also as a share of
///   all;
/// * *mistakes*: [wrong](StreamReport::mistakes) choices of the manager among them;
/// * *pattern*: the [class](StreamReport::class) of the stream, or that it is
///   [revoked](StreamReport::revoked);
/// * *seen in*: [samples](StreamReport::samples) that the class rests on; then R, the
///   [recency](StreamReport::recency) of the accesses, or T, the [time](StreamReport::mean_interval) until a
///   page is used again;
/// * *unchanged for*: [accesses](StreamReport::unchanged) of the stream since its class changed.
///
/// The last column says who accesses, from where, and what. `commons` stands for several tenants of the
/// commons.
#[derive(Clone, Debug)]
pub struct Report {
    pub(super) stats: Stats,
    /// The open files, in the order in which they were opened.
    pub(super) files: Vec<FileStats>,
}

impl Report {
    /// The numbers behind the text.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The open files, in the order in which they were opened.
    pub fn files(&self) -> &[FileStats] {
        &self.files
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_pool(f)?;
        self.fmt_failures(f)?;
        self.stats.tier.as_ref().map_or(Ok(()), |tier| fmt_tier(f, tier))?;
        self.fmt_tenants(f)?;
        self.fmt_files(f)?;
        self.fmt_programs(f)?;
        self.fmt_hints(f)?;
        self.fmt_streams(f)
    }
}

/// A line of the table of contexts.
struct Row<'a> {
    seen: Seen<'a>,
    /// Its stream, or one of several; none if its manager knows of none, and in the first line of several.
    stream: Option<&'a StreamStats>,
    /// It has the counts of the context, which are in one line only.
    has_counts: bool,
}

/// What one manager sees of a context: one tenant's accesses, or those of all tenants of the commons.
#[derive(Clone, Copy)]
struct Seen<'a> {
    /// The tenant, or several that have the context in common.
    who: &'a str,
    context: &'a ContextStats,
    accesses: u64,
    /// Creations included.
    misses: u64,
    creations: u64,
}

impl Seen<'_> {
    fn read_misses(&self) -> u64 {
        self.misses - self.creations
    }
}

impl Report {
    fn fmt_pool(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = &self.stats;
        let borrowed = match stats.borrowed_frames {
            0 => String::new(),
            frames => format!(" and {frames} borrowed frames"),
        };
        let mib = |pages: u64| (pages * stats.page_bytes as u64) as f64 / f64::from(1 << 20);
        writeln!(
            f,
            "frames {} of {} bytes ({:.1} MiB), reserve {}{borrowed}, dirty {}, page tables {} bytes, metadata {} bytes",
            stats.frames,
            stats.page_bytes,
            mib(u64::from(stats.frames)),
            stats.reserve_frames,
            stats.dirty_frames,
            stats.page_tables_bytes,
            stats.metadata_bytes
        )?;
        writeln!(
            f,
            "accesses {}  hits {} ({:.6})  read misses {}  creations {}  waited {}  reads {}  writes {}",
            stats.accesses,
            stats.hits,
            stats.hit_ratio(),
            stats.misses.saturating_sub(stats.creations),
            stats.creations,
            stats.waited,
            stats.reads,
            stats.writes
        )?;
        if stats.prefetch_issued > 0 {
            writeln!(
                f,
                "prefetched {}  used {}  late {}  wasted {}  failed {}  clean frames scarce {}  streams {}  wasteful {}",
                stats.prefetch_issued,
                stats.prefetch_used,
                stats.prefetch_late,
                stats.prefetch_wasted,
                stats.prefetch_failed,
                stats.prefetch_scarce,
                stats.read_ahead_streams,
                stats.read_ahead_wasteful
            )?;
        }
        Ok(())
    }

    fn fmt_failures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats { read_failures, write_failures, log_failures, .. } = self.stats;
        if read_failures + write_failures + log_failures > 0 {
            writeln!(
                f,
                "FAILED: reads {read_failures}  writes and syncs {write_failures}  advances of the log {log_failures}"
            )?;
        }
        let mut notes = self.files.iter().flat_map(|file| &file.notes);
        notes.try_for_each(|note| writeln!(f, "POISONED: {}", on_one_line(note)))
    }

    fn fmt_tenants(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<20} {:<18} {:>8} {:>6} {:>12} {:>12} {:>9} {:>10} {:>10} {:>10}",
            "tenant",
            "manager",
            "frames",
            "share",
            "accesses",
            "read misses",
            "hit_ratio",
            "overrules",
            "mistakes",
            "revoked"
        )?;
        let frames = u64::from(self.stats.frames);
        for tenant in &self.stats.tenants {
            writeln!(
                f,
                "{:<20} {:<18} {:>8} {:>5.1}% {:>12} {:>12} {:>9.6} {:>10} {:>10} {:>10}",
                on_one_line(&tenant.name),
                manager(tenant),
                tenant.resident_frames,
                100.0 * ratio(u64::from(tenant.resident_frames), frames),
                tenant.accesses,
                tenant.misses.saturating_sub(tenant.creations),
                ratio(tenant.hits, tenant.accesses.saturating_sub(tenant.creations)),
                tenant.overrules,
                tenant.mistakes,
                tenant.revocations
            )?;
        }
        Ok(())
    }

    fn fmt_files(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.files.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "\n{:>12} {:>8} {:>6} {:>8} {:>8}  {:<10} file",
            "pages", "frames", "share", "dirty", "handles", "state"
        )?;
        let mut files: Vec<_> = self.files.iter().collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.resident_frames));
        let (shown, rest) = files.split_at(files.len().min(FILES_SHOWN));
        for file in shown {
            writeln!(
                f,
                "{:>12} {:>8} {:>5.1}% {:>8} {:>8}  {:<10} {}",
                file.pages,
                file.resident_frames,
                100.0 * ratio(file.resident_frames, u64::from(self.stats.frames)),
                file.dirty_frames,
                file.handles,
                state(file),
                on_one_line(&file.name)
            )?;
        }
        if !rest.is_empty() {
            let frames: u64 = rest.iter().map(|file| file.resident_frames).sum();
            let dirty: u64 = rest.iter().map(|file| file.dirty_frames).sum();
            writeln!(f, "and {} more files with {frames} frames, {dirty} of them dirty", rest.len())?;
        }
        Ok(())
    }

    fn fmt_programs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let programs =
            self.stats.tenants.iter().filter_map(|tenant| Some((tenant, tenant.program.as_ref()?)));
        let mut programs = programs.peekable();
        if programs.peek().is_none() {
            return Ok(());
        }
        writeln!(
            f,
            "\n{:>9} {:>9} {:>9} {:>9} {:>8} {:>12} {:>9} {:>8} {:>8} {:>8}  tenant: program",
            "replace",
            "fault",
            "access",
            "gone",
            "mistake",
            "steps",
            "time_ms",
            "no_fuel",
            "div_zero",
            "invalid"
        )?;
        for (tenant, program) in programs {
            let ProgramStats { calls, .. } = program;
            writeln!(
                f,
                "{:>9} {:>9} {:>9} {:>9} {:>8} {:>12} {:>9.1} {:>8} {:>8} {:>8}  {}: {}",
                calls.replace,
                calls.fault,
                calls.access,
                calls.gone,
                calls.mistake,
                program.steps,
                program.spent_ns as f64 / 1e6,
                program.out_of_fuel,
                program.faults,
                program.invalid_answers,
                on_one_line(&tenant.name),
                program.name
            )?;
            if let Some(why) = program.unloaded {
                writeln!(
                    f,
                    "          unloaded: {why}. The pages of {} go in LRU order until it is given a program.",
                    on_one_line(&tenant.name)
                )?;
            }
        }
        Ok(())
    }

    fn fmt_hints(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stats.hints.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "\n{:>10} {:>10} {:>9} {:>9} {:>10} {:>8} {:>8} {:>7} {:>7} {:>9}  tenant: context of the hints",
            "given", "used", "skipped", "late", "prefetched", "lost", "wasted", "lists", "depth", "depth_max"
        )?;
        for hints in &self.stats.hints {
            let counts = &hints.counts;
            let tenant = self.stats.tenants.iter().find(|tenant| tenant.id == hints.tenant);
            let is_same =
                |context: &&ContextStats| (context.id, context.tenant) == (hints.context, hints.tenant);
            let context = self.stats.contexts.iter().find(is_same);
            writeln!(
                f,
                "{:>10} {:>10} {:>9} {:>9} {:>10} {:>8} {:>8} {:>7} {:>7} {:>9}  {}: {}",
                counts.given,
                counts.used,
                counts.skipped,
                counts.late,
                counts.prefetched,
                counts.lost,
                counts.wasted,
                counts.lists,
                hints.depth,
                hints.depth_max,
                tenant.map_or_else(String::new, |tenant| on_one_line(&tenant.name)),
                context.map_or_else(
                    || "a context that was recycled".to_owned(),
                    |context| on_one_line(&context.label())
                )
            )?;
        }
        Ok(())
    }

    fn fmt_streams(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        writeln!(
            f,
            "\n{:>12} {:>12} {:>9} {:>8} {:>6} {:>8}  {:<10} {:<24} {:<20} tenant: context, file",
            "read misses",
            "accesses",
            "hit_ratio",
            "frames",
            "share",
            "mistakes",
            "pattern",
            "seen in",
            "unchanged for"
        )?;
        let (shown, rest) = rows.split_at(rows.len().min(STREAMS_SHOWN));
        shown.iter().try_for_each(|row| self.fmt_row(row, f))?;
        if !rest.is_empty() {
            let counted = || rest.iter().filter(|row| row.has_counts).map(|row| row.seen);
            let accesses: u64 = counted().map(|seen| seen.accesses).sum();
            let misses: u64 = counted().map(|seen| seen.read_misses()).sum();
            writeln!(f, "and {} more with {accesses} accesses, {misses} read misses", rest.len())?;
        }
        for tenant in self.stats.tenants.iter().filter(|tenant| tenant.contexts_recycled > 0) {
            writeln!(
                f,
                "and {} contexts of {} that were recycled, with {} accesses, {} read misses",
                tenant.contexts_recycled,
                on_one_line(&tenant.name),
                tenant.recycled_accesses,
                tenant.recycled_misses - tenant.recycled_creations
            )?;
        }
        Ok(())
    }

    /// Contexts with most misses first. Accesses and misses are the pool's counts. The manager's counts may
    /// lack hits, and its misses include creations and prefetches.
    fn rows(&self) -> Vec<Row<'_>> {
        let mut streams: HashMap<(Option<u32>, u32), Vec<&StreamStats>> = HashMap::new();
        for stream in &self.stats.streams {
            streams.entry((stream.tenant, stream.seen.context.0)).or_default().push(stream);
        }
        let mut contexts = self.contexts_by_manager();
        contexts.sort_by_key(|(_, seen)| std::cmp::Reverse((seen.read_misses(), seen.accesses)));
        let mut rows = Vec::new();
        for (manager, seen) in contexts {
            let known = streams.get(&(manager, seen.context.id)).map_or(&[][..], |known| known);
            let (first, others) = match known {
                [stream] => (Some(*stream), &[][..]),
                several => (None, several),
            };
            rows.push(Row { seen, stream: first, has_counts: true });
            rows.extend(others.iter().map(|stream| Row { seen, stream: Some(stream), has_counts: false }));
        }
        rows
    }

    /// The contexts with the tenant whose manager sees them, or none for the commons, where tenants' accesses
    /// from one context are summed up.
    fn contexts_by_manager(&self) -> Vec<(Option<u32>, Seen<'_>)> {
        let tenants: HashMap<u32, &TenantStats> =
            self.stats.tenants.iter().map(|tenant| (tenant.id, tenant)).collect();
        let mut common: HashMap<u32, usize> = HashMap::new();
        let mut seen: Vec<(Option<u32>, Seen<'_>)> = Vec::new();
        for context in &self.stats.contexts {
            let &ContextStats { accesses, misses, creations, .. } = context;
            let tenant = tenants.get(&context.tenant);
            let who = tenant.map_or("?", |tenant| &tenant.name);
            let manager = tenant.is_none_or(|tenant| !tenant.in_commons).then_some(context.tenant);
            let next = seen.len();
            let at = if manager.is_none() { *common.entry(context.id).or_insert(next) } else { next };
            if at == next {
                seen.push((manager, Seen { who, context, accesses, misses, creations }));
                continue;
            }
            let (_, sum) = &mut seen[at];
            sum.who = "commons";
            sum.accesses += accesses;
            sum.misses += misses;
            sum.creations += creations;
        }
        seen
    }

    fn fmt_row(&self, row: &Row<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = &row.seen;
        if row.has_counts {
            let hit_ratio = ratio(seen.accesses - seen.misses, seen.accesses - seen.creations);
            write!(f, "{:>12} {:>12} {hit_ratio:>9.6} ", seen.read_misses(), seen.accesses)?;
        } else {
            write!(f, "{:>12} {:>12} {:>9} ", "", "", "")?;
        }
        match row.stream {
            None => write!(f, "{:>8} {:>6} {:>8}  {:<10} {:<24} {:<20} ", "", "", "", "", "", "")?,
            Some(StreamStats { seen, .. }) => {
                let share = 100.0 * ratio(u64::from(seen.frames), u64::from(self.stats.frames));
                let pattern = if seen.revoked { "revoked" } else { seen.class.name() };
                let unchanged = format!("{} accesses", seen.unchanged);
                write!(f, "{:>8} {share:>5.1}% {:>8}  ", seen.frames, seen.mistakes)?;
                write!(f, "{pattern:<10} {:<24} {unchanged:<20} ", evidence(seen))?;
            }
        }
        write!(f, "{}: {}", on_one_line(seen.who), on_one_line(&seen.context.label()))?;
        row.stream.map_or(Ok(()), |stream| write!(f, ", {}", on_one_line(&stream.file)))?;
        writeln!(f)
    }
}

/// A name as it is shown in a line: what would end the line, or move in it, is escaped.
pub(super) fn on_one_line(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    for letter in name.chars() {
        if letter.is_control() {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// What can be done to a file, and what a flush of it would do.
fn state(file: &FileStats) -> &'static str {
    match file {
        FileStats { poisoned: true, .. } => "poisoned",
        FileStats { read_only: true, .. } => "read-only",
        FileStats { unsynced: true, .. } => "unsynced",
        FileStats { dirty_frames: 0, .. } => "durable",
        _ => "dirty",
    }
}

fn manager(tenant: &TenantStats) -> String {
    let of = tenant.manager;
    match tenant {
        TenantStats { closed: true, .. } => "closed".to_owned(),
        TenantStats { revoked: true, .. } => format!("{of} (revoked)"),
        TenantStats { program: Some(ProgramStats { unloaded: Some(_), .. }), .. } => {
            format!("{of} (unloaded)")
        }
        TenantStats { manager: "none", manager_panics: 1.., .. } => format!("{of} (panicked)"),
        TenantStats { in_commons: true, .. } => format!("{of} (commons)"),
        _ => of.to_owned(),
    }
}

fn evidence(seen: &StreamReport) -> String {
    match (seen.recency, seen.mean_interval) {
        (Some(recency), _) => format!("{} samples, R {recency:.2}", seen.samples),
        (None, Some(interval)) => format!("{} samples, T {interval:.2}", seen.samples),
        (None, None) => format!("{} samples", seen.samples),
    }
}

fn fmt_tier(f: &mut fmt::Formatter<'_>, tier: &TierStats) -> fmt::Result {
    let passed_by = tier.passed_by.map_or_else(|| "in use".into(), |why| format!("PASSED BY: {why}"));
    writeln!(f, "tier: {}; {passed_by}", tier.report.note)?;
    writeln!(
        f,
        "  has {} pages  hits {}  absent {}  timed out {}  wrong {}  panics {}  source {:.0} us",
        tier.report.pages,
        tier.hits,
        tier.absent,
        tier.timed_out,
        tier.wrong,
        tier.panics,
        tier.source_latency_us
    )?;
    writeln!(
        f,
        "  demotions {}  present {}  refused {}  passed up {}  skipped {}  not admitted {}  rescues {}  failures {}",
        tier.demotions,
        tier.present,
        tier.refused,
        tier.passed_up,
        tier.skipped,
        tier.not_admitted,
        tier.report.rescues,
        tier.report.failures
    )
}
