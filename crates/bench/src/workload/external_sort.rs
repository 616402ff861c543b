//! External merge sort: the paper's `sort`, whose temporary files are written once and read once.

mod disclosed;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use bufpool::{Policy, ReadGuard, Tenant};
use bufpool_examples::heap::{Appender, HeapFile, HeapPage};

use super::answer::Answer;
use super::contract::Workload;
use super::database::{Database, Table};
use super::session::Session;
use super::wisconsin::{Tuple, unique1, unique2};

/// The number of runs that the input is cut into. Each is sorted in private memory.
const RUNS: u64 = 10;

/// The number of runs that are merged at a time, in the order of their creation.
const FAN_IN: usize = 8;

/// Sorts the large relation by `unique1` and consumes the result in order.
///
/// A quarter of the input fits in memory. Directives (the paper's): levels −1 and 0 replace the most recently
/// used page. The input is on level −1, since it is read once. A page of a run goes to level −1 when its last
/// tuple has been read. So the runs that were written first, which are merged first, stay.
///
/// Temporary files are removed at the end of the run, under every scheme. A recorded trace has no directive
/// for dropped pages, and so gives the same misses.
pub struct ExternalSort;

impl Workload for ExternalSort {
    fn name(&self) -> &'static str {
        "external-sort"
    }

    fn build(&self, database: &Database) -> Result<()> {
        database.build_table(Table::Large)
    }

    fn frames(&self, database: &Database) -> Result<u64> {
        Ok(database.table_pages(Table::Large) / 4)
    }

    fn takes_hints(&self) -> bool {
        true
    }

    fn run(&self, session: &Session<'_>) -> Result<Answer> {
        let input = session.database.open_table(session.pool, Table::Large)?;
        let tenant = session.tenant("sort", |sort| {
            sort.set_policy(-1, Policy::Mru)?;
            sort.set_policy(0, Policy::Mru)?;
            sort.set_priority(input.file(), -1).map(drop)
        })?;
        if session.gives_hints() {
            return disclosed::sort(session, &tenant, &input);
        }
        let sort = Sort { session, tenant: &tenant, input: &input };

        let mut runs = sort.make_runs()?;
        let mut waiting: VecDeque<usize> = (0..runs.len()).collect();
        while waiting.len() > FAN_IN {
            let merged: Vec<usize> = waiting.drain(..FAN_IN).collect();
            let run = sort.merge_to_run(&merged, &runs)?;
            waiting.push_back(runs.len());
            runs.push(run);
        }
        let mut answer = Answer::default();
        let mut position = 0;
        sort.merge(waiting.iter().map(|&run| &runs[run]), |tuple| {
            answer.add(position, unique2(tuple));
            position += 1;
            Ok(())
        })?;
        for run in runs {
            run.into_file().remove()?;
        }
        Ok(answer)
    }

    fn expected(&self, database: &Database, _seed: u64) -> Answer {
        let relation = database.relation(Table::Large);
        let unique2 = |unique1| relation.unique2(unique1).expect("by the book, unique1 is a permutation");
        (0..relation.tuples()).map(|unique1| (unique1, unique2(unique1))).collect()
    }
}

struct Sort<'a> {
    session: &'a Session<'a>,
    tenant: &'a Tenant,
    input: &'a HeapFile,
}

impl Sort<'_> {
    /// Cuts the input into sorted runs.
    fn make_runs(&self) -> Result<Vec<HeapFile>> {
        let runs = Mutex::new(Vec::new());
        self.session.share(RUNS, |item, _| {
            let pages = self.input.pages() * item / RUNS..self.input.pages() * (item + 1) / RUNS;
            let mut tuples: Vec<Tuple> =
                Vec::with_capacity((pages.end - pages.start) as usize * self.input.tuples_per_page());
            for number in pages {
                let page = self.input.page(self.tenant, number)?;
                tuples
                    .extend(page.tuples().map(|(_, tuple)| Tuple::try_from(tuple).expect("a tuple's size")));
            }
            tuples.sort_unstable_by_key(|tuple| unique1(tuple));
            let run = self.session.database.create_heap(self.session.pool, &format!("run-{item}.heap"))?;
            run.load(self.tenant, tuples)?;
            runs.lock().unwrap_or_else(PoisonError::into_inner).push((item, run));
            Ok(())
        })?;
        let mut runs = runs.into_inner().unwrap_or_else(PoisonError::into_inner);
        runs.sort_by_key(|(item, _)| *item);
        Ok(runs.into_iter().map(|(_, run)| run).collect())
    }

    /// Merges some of the runs into a new one.
    fn merge_to_run(&self, merged: &[usize], runs: &[HeapFile]) -> Result<HeapFile> {
        let name = format!("run-{}.heap", runs.len());
        let output = self.session.database.create_heap(self.session.pool, &name)?;
        let mut appender: Appender<'_> = output.appender(self.tenant);
        self.merge(merged.iter().map(|&run| &runs[run]), |tuple| Ok(appender.push(tuple)?))?;
        appender.finish()?;
        Ok(output)
    }

    /// Hands the tuples of all runs to `consume`, in order.
    fn merge<'r>(
        &'r self,
        runs: impl Iterator<Item = &'r HeapFile>,
        mut consume: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut readers: Vec<RunReader<'_>> = runs.map(|run| RunReader::new(self, run)).collect();
        self.session.progress.set_position(0);
        self.session.progress.set_length(readers.iter().map(|reader| reader.run.pages()).sum());
        let mut heads = BinaryHeap::with_capacity(readers.len());
        for (at, reader) in readers.iter_mut().enumerate() {
            heads.extend(reader.head()?.map(|tuple| Reverse((unique1(tuple), at))));
        }
        while let Some(Reverse((_, at))) = heads.pop() {
            let reader = &mut readers[at];
            consume(reader.head()?.context("a run that ended has no head")?)?;
            reader.at += 1;
            heads.extend(reader.head()?.map(|tuple| Reverse((unique1(tuple), at))));
        }
        Ok(())
    }
}

/// Reads a run from its first tuple to its last, and keeps the page of the next tuple pinned.
struct RunReader<'a> {
    sort: &'a Sort<'a>,
    run: &'a HeapFile,
    /// The page that is being read, and its number.
    page: Option<HeapPage<ReadGuard<'a>>>,
    number: u64,
    /// The slot of the next tuple.
    at: usize,
}

impl<'a> RunReader<'a> {
    fn new(sort: &'a Sort<'a>, run: &'a HeapFile) -> Self {
        Self { sort, run, page: None, number: 0, at: 0 }
    }

    /// The next tuple; `None` at the end of the run.
    fn head(&mut self) -> Result<Option<&[u8]>> {
        if self.page.as_ref().is_some_and(|page| self.at == page.len()) {
            self.page = None;
            self.done_with(self.number)?;
            self.number += 1;
            self.at = 0;
        }
        if self.page.is_none() && self.number < self.run.pages() {
            self.page = Some(self.run.page(self.sort.tenant, self.number)?);
        }
        Ok(self.page.as_ref().and_then(|page| page.tuple(self.at as u16)))
    }

    /// Gives the page its directive: it will not be read again.
    fn done_with(&self, number: u64) -> Result<()> {
        self.sort.session.progress.inc(1);
        if self.sort.session.takes_advice() {
            self.sort.tenant.set_temporary_priority(self.run.file(), number..number + 1, -1)?;
        }
        Ok(())
    }
}
