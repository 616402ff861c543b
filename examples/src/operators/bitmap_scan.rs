//! The tuples of a set of addresses.

use bufpool::Tenant;

use super::fetches::{Fetches, Plan, Visit, visits};
use crate::Result;
use crate::heap::{HeapFile, Rid};

/// The heap pages of a set of tuples, each once and in the order of the file, with the slots that are wanted.
/// The addresses may come from several indexes, in any order, and more than once.
///
/// Costs one access for each page, and memory for all addresses.
///
/// # Errors
/// The first of `tuples`; as the pool's.
pub fn bitmap_scan<'a>(
    tenant: &Tenant,
    heap: &'a HeapFile,
    tuples: impl IntoIterator<Item = Result<Rid>>,
) -> Result<Fetches<Visit<()>, impl Plan<Visit<()>> + 'a>> {
    let mut tuples = tuples.into_iter().collect::<Result<Vec<Rid>>>()?;
    tuples.sort_unstable();
    tuples.dedup();
    Fetches::new(tenant, visits(heap, tuples.into_iter().map(|rid| Ok((rid, ())))))
}
