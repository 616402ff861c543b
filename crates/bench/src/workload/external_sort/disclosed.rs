//! The external sort that discloses its reads in one list, which is planned anew as more is known. While runs
//! are made, these are the reads of the input, and then those of the runs, in the order of their writing. A
//! merge needs their pages in an order that is known when it begins.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use bufpool::{HintedPage, Hints, Tenant};
use bufpool_examples::heap::HeapFile;
use bufpool_examples::operators::merge::{Run, merge};

use super::{FAN_IN, RUNS};
use crate::workload::answer::Answer;
use crate::workload::session::Session;
use crate::workload::wisconsin::{Tuple, unique1, unique2};

/// Sorts `input` and consumes the result.
pub(super) fn sort(session: &Session<'_>, tenant: &Tenant, input: &HeapFile) -> Result<Answer> {
    let (mut runs, mut reads) = make_runs(session, tenant, input)?;
    let mut merged = 0;
    while runs.len() - merged > FAN_IN {
        let output = session.database.create_heap(session.pool, &format!("run-{}.heap", runs.len()))?;
        let (taken, waiting) = runs[merged..].split_at(FAN_IN);
        let taken: Vec<&Run<u64>> = taken.iter().collect();
        let pages = taken.iter().map(|run| run.heap().pages()).sum();
        let waiting = waiting.iter().flat_map(|run| first_pages(run.heap(), run.heap().pages()));
        let later: Vec<HintedPage> = waiting.chain(first_pages(&output, pages)).collect();
        let run = Run::write(output, tenant, |writer| {
            merge(&mut reads, &taken, later, unique1, |tuple| writer.push(unique1(tuple), tuple))
        })?;
        merged += FAN_IN;
        runs.push(run);
    }
    let mut answer = Answer::default();
    let mut position = 0;
    let last: Vec<&Run<u64>> = runs[merged..].iter().collect();
    merge(&mut reads, &last, [], unique1, |tuple| {
        answer.add(position, unique2(tuple));
        position += 1;
        Ok(())
    })?;
    drop(reads);
    for run in runs {
        run.into_heap().into_file().remove()?;
    }
    Ok(answer)
}

/// The first pages of a run, which may not be written yet.
fn first_pages(run: &HeapFile, pages: u64) -> impl Iterator<Item = HintedPage> {
    (0..pages).map(|number| run.file().page(number).into())
}

/// Cuts the input into sorted runs. Returns them with the list of their pages.
fn make_runs(session: &Session<'_>, tenant: &Tenant, input: &HeapFile) -> Result<(Vec<Run<u64>>, Hints)> {
    let (runs, reads) = (Mutex::new(Vec::new()), Mutex::new((tenant.hint([])?, Vec::new())));
    session.share(RUNS, |item, _| {
        let numbers = input.pages() * item / RUNS..input.pages() * (item + 1) / RUNS;
        let heap = session.database.create_heap(session.pool, &format!("run-{item}.heap"))?;
        let mut tuples: Vec<Tuple> =
            Vec::with_capacity((numbers.end - numbers.start) as usize * input.tuples_per_page());
        {
            let mut reads = reads.lock().unwrap_or_else(PoisonError::into_inner);
            let (list, later) = &mut *reads;
            later.extend(first_pages(&heap, numbers.end - numbers.start));
            let pages = numbers.map(|number| HintedPage::from(input.file().page(number)));
            list.replan(pages.clone().chain(later.iter().copied()))?;
            for _ in pages {
                let guard = list.next()?.context("a page of the input")?;
                let page = input.view(&*guard, guard.page().number())?;
                tuples
                    .extend(page.tuples().map(|(_, tuple)| Tuple::try_from(tuple).expect("a tuple's size")));
            }
        }
        tuples.sort_unstable_by_key(|tuple| unique1(tuple));
        let run = Run::write(heap, tenant, |writer| {
            tuples.iter().try_for_each(|tuple| writer.push(unique1(tuple), tuple))
        })?;
        runs.lock().unwrap_or_else(PoisonError::into_inner).push((item, run));
        Ok(())
    })?;
    let mut runs = runs.into_inner().unwrap_or_else(PoisonError::into_inner);
    runs.sort_by_key(|(item, _)| *item);
    let runs = runs.into_iter().map(|(_, run)| run).collect();
    let (reads, _) = reads.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((runs, reads))
}
