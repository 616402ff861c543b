//! Pages of a table read together, in batches made by hand.

use anyhow::Result;
use bufpool::{Page, Tenant};
use bufpool_examples::heap::{HeapFile, HeapPage};

/// Reads the pages `numbers` with one `read_many` and hands them to `visit`, each with its place in the list;
/// those that would have had to wait come last, one by one.
pub(super) fn visit_together(
    tenant: &Tenant,
    table: &HeapFile,
    numbers: &[u64],
    mut visit: impl FnMut(usize, HeapPage<&[u8]>) -> Result<()>,
) -> Result<()> {
    let pages: Vec<Page<'_>> = numbers.iter().map(|&number| table.file().page(number)).collect();
    let mut left = Vec::new();
    for (at, guard) in tenant.read_many(&pages).into_iter().enumerate() {
        match guard? {
            Some(guard) => visit(at, table.view(&*guard, numbers[at])?)?,
            None => left.push(at),
        }
    }
    for at in left {
        let guard = tenant.read(pages[at])?;
        visit(at, table.view(&*guard, numbers[at])?)?;
    }
    Ok(())
}
