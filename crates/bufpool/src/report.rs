//! [`Stats`] as a text: what somebody wants to know who was woken up by slow queries.
//!
//! Who has the memory and who misses comes first (tenants), then from where the misses come and what is made of it (streams). What
//! misses most is on top.

use std::collections::HashMap;
use std::fmt;

use crate::stats::{ContextStats, Stats, StreamStats, TenantStats, ratio};

/// Lines of streams in a report; the rest is summed up.
const STREAMS_SHOWN: usize = 40;

/// [`Stats`] as a text for people, with a line for each tenant and each stream.
#[derive(Clone, Debug)]
pub struct Report {
    pub(crate) stats: Stats,
}

impl Report {
    /// The numbers behind the text.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_pool(f)?;
        self.fmt_tenants(f)?;
        self.fmt_streams(f)
    }
}

/// A line of the last table: a stream, or a context whose tenant's manager knows no streams.
struct Row<'a> {
    context: &'a ContextStats,
    stream: Option<&'a StreamStats>,
    /// Whether the context has no other line. The pool's counts then stand for the manager's, which may not be told every hit.
    is_only: bool,
}

impl Row<'_> {
    fn accesses(&self) -> u64 {
        match self.stream {
            Some(stream) if !self.is_only => stream.hits + stream.misses,
            _ => self.context.accesses,
        }
    }

    fn misses(&self) -> u64 {
        match self.stream {
            Some(stream) if !self.is_only => stream.misses,
            _ => self.context.misses,
        }
    }
}

impl Report {
    fn fmt_pool(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = &self.stats;
        let mib = |pages: u64| (pages * stats.page_bytes as u64) as f64 / f64::from(1 << 20);
        writeln!(
            f,
            "frames {} of {} bytes ({:.1} MiB), reserve {}, dirty {}, page tables {} bytes, metadata {} bytes",
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
            "accesses {}  hits {} ({:.6})  misses {}  creations {}  waited {}  reads {}  writes {}",
            stats.accesses,
            stats.hits,
            stats.hit_ratio(),
            stats.misses,
            stats.creations,
            stats.waited,
            stats.reads,
            stats.writes
        )?;
        if stats.prefetch_issued > 0 {
            writeln!(
                f,
                "prefetched {}  used {}  wasted {}  failed {}  clean frames scarce {}  streams {}  wasteful {}",
                stats.prefetch_issued,
                stats.prefetch_used,
                stats.prefetch_wasted,
                stats.prefetch_failed,
                stats.prefetch_scarce,
                stats.read_ahead_streams,
                stats.read_ahead_wasteful
            )?;
        }
        Ok(())
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
            "misses",
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
                tenant.name,
                manager(tenant),
                tenant.resident_frames,
                100.0 * ratio(u64::from(tenant.resident_frames), frames),
                tenant.accesses,
                tenant.misses,
                ratio(tenant.hits, tenant.accesses),
                tenant.overrules,
                tenant.mistakes,
                tenant.revocations
            )?;
        }
        Ok(())
    }

    fn fmt_streams(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        writeln!(
            f,
            "\n{:>12} {:>12} {:>9} {:>8} {:>6} {:>8}  {:<10} {:<24} {:<20} tenant: context, file",
            "misses",
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
            let accesses: u64 = rest.iter().map(Row::accesses).sum();
            let misses: u64 = rest.iter().map(Row::misses).sum();
            writeln!(f, "and {} more with {accesses} accesses, {misses} misses", rest.len())?;
        }
        for tenant in self.stats.tenants.iter().filter(|tenant| tenant.contexts_recycled > 0) {
            writeln!(
                f,
                "and {} contexts of {} that were recycled, with {} accesses, {} misses",
                tenant.contexts_recycled, tenant.name, tenant.recycled_accesses, tenant.recycled_misses
            )?;
        }
        Ok(())
    }

    /// Most misses first.
    fn rows(&self) -> Vec<Row<'_>> {
        let mut streams: HashMap<(u32, u32), Vec<&StreamStats>> = HashMap::new();
        for stream in &self.stats.streams {
            streams.entry((stream.tenant, stream.context)).or_default().push(stream);
        }
        let mut rows = Vec::new();
        for context in &self.stats.contexts {
            let known = streams.get(&(context.tenant, context.id)).map_or(&[][..], |known| known);
            let is_only = known.len() <= 1;
            rows.extend(known.iter().map(|stream| Row { context, stream: Some(stream), is_only }));
            if known.is_empty() {
                rows.push(Row { context, stream: None, is_only });
            }
        }
        rows.sort_by_key(|row| std::cmp::Reverse((row.misses(), row.accesses())));
        rows
    }

    fn fmt_row(&self, row: &Row<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (accesses, misses) = (row.accesses(), row.misses());
        let hit_ratio = ratio(accesses - misses, accesses);
        write!(f, "{misses:>12} {accesses:>12} {hit_ratio:>9.6} ")?;
        match row.stream {
            None => write!(f, "{:>8} {:>6} {:>8}  {:<10} {:<24} {:<20} ", "", "", "", "", "", "")?,
            Some(stream) => {
                let share = 100.0 * ratio(u64::from(stream.frames), u64::from(self.stats.frames));
                let pattern = if stream.revoked { "revoked" } else { stream.pattern.name() };
                let unchanged = format!("{} accesses", stream.unchanged);
                write!(f, "{:>8} {share:>5.1}% {:>8}  ", stream.frames, stream.mistakes)?;
                write!(f, "{pattern:<10} {:<24} {unchanged:<20} ", evidence(stream))?;
            }
        }
        let tenant = self.stats.tenants.get(row.context.tenant as usize);
        write!(f, "{}: {}", tenant.map_or("?", |tenant| &tenant.name), row.context.label())?;
        row.stream.map_or(Ok(()), |stream| write!(f, ", {}", stream.file))?;
        writeln!(f)
    }
}

fn manager(tenant: &TenantStats) -> String {
    match (tenant.closed, tenant.revoked) {
        (true, _) => "closed".to_owned(),
        (_, true) => format!("{} (revoked)", tenant.manager),
        _ => tenant.manager.to_owned(),
    }
}

fn evidence(stream: &StreamStats) -> String {
    match (stream.recency, stream.mean_interval) {
        (Some(recency), _) => format!("{} samples, R {recency:.2}", stream.samples),
        (None, Some(interval)) => format!("{} samples, every {interval:.0}", stream.samples),
        (None, None) => format!("{} samples", stream.samples),
    }
}
