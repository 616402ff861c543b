//! The external sort that discloses its reads: those of the input and, for each merge, those of the pages of
//! all runs, in the order in which the merge needs them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use bufpool::Tenant;
use bufpool_examples::heap::HeapFile;
use bufpool_examples::operators::Fetches;
use bufpool_examples::operators::merge::{Run, merge};

use super::{FAN_IN, RUNS};
use crate::workload::answer::Answer;
use crate::workload::session::Session;
use crate::workload::wisconsin::{Tuple, unique1, unique2};

/// Sorts `input` and consumes the result.
pub(super) fn sort(session: &Session<'_>, tenant: &Tenant, input: &HeapFile) -> Result<Answer> {
    let mut runs = make_runs(session, tenant, input)?;
    let mut waiting: VecDeque<usize> = (0..runs.len()).collect();
    while waiting.len() > FAN_IN {
        let merged: Vec<&Run<u64>> = waiting.drain(..FAN_IN).map(|run| &runs[run]).collect();
        let output = session.database.create_heap(session.pool, &format!("run-{}.heap", runs.len()))?;
        let run = Run::write(output, tenant, |writer| {
            merge(tenant, &merged, unique1, |tuple| writer.push(unique1(tuple), tuple))
        })?;
        waiting.push_back(runs.len());
        runs.push(run);
    }
    let mut answer = Answer::default();
    let mut position = 0;
    let last: Vec<&Run<u64>> = waiting.iter().map(|&run| &runs[run]).collect();
    merge(tenant, &last, unique1, |tuple| {
        answer.add(position, unique2(tuple));
        position += 1;
        Ok(())
    })?;
    for run in runs {
        run.into_heap().into_file().remove()?;
    }
    Ok(answer)
}

/// Cuts the input into sorted runs.
fn make_runs(session: &Session<'_>, tenant: &Tenant, input: &HeapFile) -> Result<Vec<Run<u64>>> {
    let runs = Mutex::new(Vec::new());
    session.share(RUNS, |item, _| {
        let numbers = input.pages() * item / RUNS..input.pages() * (item + 1) / RUNS;
        let mut tuples: Vec<Tuple> =
            Vec::with_capacity((numbers.end - numbers.start) as usize * input.tuples_per_page());
        let mut pages =
            Fetches::new(tenant, numbers.map(|number| Ok((input.file().page(number).into(), ()))))?;
        while let Some(((), guard)) = pages.next()? {
            let page = input.view(&*guard, guard.page().number())?;
            tuples.extend(page.tuples().map(|(_, tuple)| Tuple::try_from(tuple).expect("a tuple's size")));
        }
        tuples.sort_unstable_by_key(|tuple| unique1(tuple));
        let heap = session.database.create_heap(session.pool, &format!("run-{item}.heap"))?;
        let run = Run::write(heap, tenant, |writer| {
            tuples.iter().try_for_each(|tuple| writer.push(unique1(tuple), tuple))
        })?;
        runs.lock().unwrap_or_else(PoisonError::into_inner).push((item, run));
        Ok(())
    })?;
    let mut runs = runs.into_inner().unwrap_or_else(PoisonError::into_inner);
    runs.sort_by_key(|(item, _)| *item);
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}
