//! Pages in the order of a plan, each with what it is read for.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use bufpool::{HintedPage, Hints, OwnedReadGuard, Tenant};

use crate::heap::{HeapFile, Rid};
use crate::{Error, Result};

/// What a heap page is read for: slots, each with what the plan knows of its tuple.
pub type Visit<E> = Vec<(u16, E)>;

/// Pages, each with an item, in the order in which they will be read.
pub trait Plan<T>: Iterator<Item = Result<(HintedPage, T)>> {}

impl<T, I: Iterator<Item = Result<(HintedPage, T)>>> Plan<T> for I {}

/// The pages of a plan, in its order, each with its item; fetched ahead as far as the tenant's
/// [`HintPolicy`](bufpool::HintPolicy) says.
///
/// Calls of this handle ask the plan for more pages, some steps ahead of the reader. The plan may itself read
/// pages, such as the leaves of an index.
pub struct Fetches<T, I> {
    pages: Hints<Steps<T, I>>,
    planned: Rc<RefCell<Planned<T>>>,
}

/// What the pool's list has been told of, and the caller has not been given yet.
struct Planned<T> {
    steps: VecDeque<(HintedPage, T)>,
    error: Option<Error>,
}

/// Gives the pages of a plan to the pool's list and keeps their items.
struct Steps<T, I> {
    plan: I,
    planned: Rc<RefCell<Planned<T>>>,
}

impl<T, I: Plan<T>> Fetches<T, I> {
    /// Discloses a plan, and begins to fetch its first pages. The plan ends with its first error.
    ///
    /// # Errors
    /// As [`Tenant::hint`].
    pub fn new(tenant: &Tenant, plan: impl IntoIterator<IntoIter = I>) -> Result<Self> {
        let planned = Rc::new(RefCell::new(Planned { steps: VecDeque::new(), error: None }));
        let pages = tenant.hint_to_read(Steps { plan: plan.into_iter(), planned: Rc::clone(&planned) })?;
        Ok(Self { pages, planned })
    }

    /// The next item and its page, latched for reading; `None` at the end of the plan. One access.
    ///
    /// # Errors
    /// As the pool's; the plan's error, after the pages that come before it; [`Error::Format`] for a page
    /// that no open file has.
    #[track_caller]
    #[expect(clippy::should_implement_trait, reason = "an Iterator cannot say from where it is called")]
    pub fn next(&mut self) -> Result<Option<(T, OwnedReadGuard)>> {
        let given = self.pages.next();
        let mut planned = self.planned.borrow_mut();
        let step = planned.steps.pop_front();
        match (step, given?) {
            (None, _) => planned.error.take().map_or(Ok(None), Err),
            (Some((page, item)), Some(guard)) if page == guard.page().into() => Ok(Some((item, guard))),
            // The list leaves out pages that no open file has. In a plan such a page is an error.
            (Some((page, _)), _) => Err(Error::Format {
                file: format!("file {}", page.file.0),
                page: page.number,
                expected: "a page of an open file".to_owned(),
            }),
        }
    }
}

impl<T, I: Plan<T>> Iterator for Steps<T, I> {
    type Item = HintedPage;

    fn next(&mut self) -> Option<HintedPage> {
        let step = self.plan.next()?;
        let mut planned = self.planned.borrow_mut();
        match step {
            Ok((page, item)) => {
                planned.steps.push_back((page, item));
                Some(page)
            }
            Err(error) => {
                planned.error = Some(error);
                None
            }
        }
    }
}

/// Plans one visit for tuples that follow each other on the same page.
pub(super) fn visits<'a, E>(
    heap: &'a HeapFile,
    entries: impl Iterator<Item = Result<(Rid, E)>> + 'a,
) -> impl Plan<Visit<E>> + 'a
where
    E: 'a,
{
    let mut entries = entries.peekable();
    std::iter::from_fn(move || {
        let (rid, entry) = match entries.next()? {
            Ok(first) => first,
            Err(error) => return Some(Err(error)),
        };
        let mut visit = vec![(rid.slot, entry)];
        let is_beside =
            |entry: &Result<(Rid, E)>| entry.as_ref().is_ok_and(|(next, _)| next.page == rid.page);
        while let Some(Ok((next, entry))) = entries.next_if(is_beside) {
            visit.push((next.slot, entry));
        }
        Some(Ok((heap.file().page(rid.page).into(), visit)))
    })
}
