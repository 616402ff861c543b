//! Merging sorted runs.
//!
//! A merge needs the next page of a run when it has consumed the last key of the page before. So the last
//! keys of all pages, which are remembered when the runs are written, give the order in which the merge needs
//! the pages (Knuth, The Art of Computer Programming, volume 3, 5.4.9: forecasting).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bufpool::{HintedPage, Hints, OwnedReadGuard, Tenant};

use crate::heap::{Appender, HeapFile, HeapPage};
use crate::{Error, Result};

/// A sorted run: a heap file that is filled in order.
pub struct Run<K> {
    heap: HeapFile,
    /// The last key of each page.
    last_keys: Vec<K>,
}

/// Fills a run; made by [`Run::write`].
pub struct RunWriter<'t, K> {
    appender: Appender<'t>,
    per_page: usize,
    tuples: usize,
    last_keys: Vec<K>,
}

impl<K: Copy + Ord> Run<K> {
    /// Writes a run into an empty heap file: `fill` pushes its tuples in order.
    ///
    /// # Errors
    /// As the pool's and those of `fill`.
    #[track_caller]
    pub fn write(
        heap: HeapFile,
        tenant: &Tenant,
        fill: impl FnOnce(&mut RunWriter<'_, K>) -> Result<()>,
    ) -> Result<Self> {
        let appender = heap.appender(tenant);
        let per_page = heap.tuples_per_page();
        let mut writer = RunWriter { appender, per_page, tuples: 0, last_keys: Vec::new() };
        fill(&mut writer)?;
        let last_keys = writer.finish()?;
        Ok(Self { heap, last_keys })
    }

    /// The heap file.
    pub fn heap(&self) -> &HeapFile {
        &self.heap
    }

    /// The heap file, for removing it.
    pub fn into_heap(self) -> HeapFile {
        self.heap
    }
}

impl<K: Copy + Ord> RunWriter<'_, K> {
    /// Adds a tuple, whose key must not be below the one before.
    ///
    /// # Errors
    /// As the pool's; the tuple is then not added.
    #[track_caller]
    pub fn push(&mut self, key: K, tuple: &[u8]) -> Result<()> {
        self.appender.push(tuple)?;
        if self.tuples.is_multiple_of(self.per_page) {
            self.last_keys.push(key);
        }
        self.last_keys[self.tuples / self.per_page] = key;
        self.tuples += 1;
        Ok(())
    }

    fn finish(self) -> Result<Vec<K>> {
        self.appender.finish()?;
        Ok(self.last_keys)
    }
}

/// Hands the tuples of all runs to `consume`, in the order of their keys, and those with equal keys in the
/// order of the runs.
///
/// `reads` is told of the reads of the merge, and that those of `later` come after them, in the place of what
/// it named before. When the merge is over, `later` is what is left of it. What is read later need not be
/// written yet: it tells the pool which of the pages that are written now it should keep.
///
/// One page of each run is latched for reading at a time. Takes one access for each page.
///
/// # Errors
/// As the pool's and those of `consume`; [`Error::Format`] if a run is not as it was written.
#[track_caller]
pub fn merge<K: Copy + Ord>(
    reads: &mut Hints,
    runs: &[&Run<K>],
    later: impl IntoIterator<Item = HintedPage>,
    key: impl Fn(&[u8]) -> K,
    mut consume: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    reads.replan(forecast(runs).into_iter().map(|(run, number)| page_of(runs[run], number)).chain(later))?;
    let mut heads = Vec::with_capacity(runs.len());
    let mut least = BinaryHeap::with_capacity(runs.len());
    for (at, run) in runs.iter().enumerate() {
        let mut head = Head { run, page: None, slot: 0, pages_read: 0 };
        head.find_tuple(reads)?;
        least.extend(head.tuple().map(|tuple| Reverse((key(tuple), at))));
        heads.push(head);
    }
    while let Some(Reverse((_, at))) = least.pop() {
        let head = &mut heads[at];
        consume(head.tuple().expect("a run that has ended is not in the heap"))?;
        head.slot += 1;
        head.find_tuple(reads)?;
        least.extend(head.tuple().map(|tuple| Reverse((key(tuple), at))));
    }
    Ok(())
}

/// The pages that a merge reads, in its order, each as a run and a number: the first page of each run, then
/// each one when the last key of the page before it has been consumed.
fn forecast<K: Copy + Ord>(runs: &[&Run<K>]) -> Vec<(usize, u64)> {
    let firsts = runs.iter().enumerate().filter(|(_, run)| !run.last_keys.is_empty()).map(|(at, _)| (at, 0));
    let mut rest = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        let pages = run.last_keys.iter().zip(1..run.last_keys.len() as u64);
        rest.extend(pages.map(|(last_before, number)| (*last_before, at, number)));
    }
    rest.sort_unstable();
    firsts.chain(rest.into_iter().map(|(_, at, number)| (at, number))).collect()
}

fn page_of<K>(run: &Run<K>, number: u64) -> HintedPage {
    run.heap.file().page(number).into()
}

/// Where a merge is in a run.
struct Head<'r, K> {
    run: &'r Run<K>,
    page: Option<HeapPage<OwnedReadGuard>>,
    slot: u16,
    pages_read: u64,
}

impl<K> Head<'_, K> {
    /// The tuple it is at; `None` at the end of the run.
    fn tuple(&self) -> Option<&[u8]> {
        self.page.as_ref()?.tuple(self.slot)
    }

    /// Goes on to the next page of the run behind the last tuple of this one.
    #[track_caller]
    fn find_tuple(&mut self, reads: &mut Hints) -> Result<()> {
        if self.tuple().is_some() {
            return Ok(());
        }
        self.page = None;
        if self.pages_read == self.run.heap.pages() {
            return Ok(());
        }
        let number = self.pages_read;
        let next = reads.next()?.filter(|guard| page_of(self.run, number) == guard.page().into());
        let guard = next.ok_or_else(|| Error::Format {
            file: self.run.heap.file().name().to_owned(),
            page: number,
            expected: "a page of a sorted run, as it was written".to_owned(),
        })?;
        self.page = Some(self.run.heap.view(guard, number)?);
        (self.slot, self.pages_read) = (0, number + 1);
        Ok(())
    }
}
