//! Pages of a table, read in batches that the workload makes itself.

use anyhow::Result;
use bufpool::{Page, Tenant};
use bufpool_examples::heap::{HeapFile, HeapPage};

/// Reads the pages `numbers` with one `read_many` and hands them to `visit`, each with its index in the list.
/// Pages for which `read_many` would have had to block are read last, one by one.
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
