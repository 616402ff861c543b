//! Many pages in one call: hits are latched, and the misses are read together.
//!
//! A call takes what it can without waiting for anybody: pages in memory whose shared latch is free, and the right to load
//! pages that nobody loads yet. The misses then ask for frames under one hold of the policy lock, neighbours become one
//! transfer of up to [`RUN_BYTES`], and all transfers are handed to the device together. At the end, what was refused at first is tried
//! once more.
//!
//! **Why this cannot deadlock.** A call that holds a latch, or the right to load a page, waits for nothing but the device: not for
//! latches, not for others' loads, not for frames. So whoever waits for a page of the batch waits for the device at most.
//! Only a call that came away with nothing at all waits, for the first page of its list, as
//! [`Tenant::read`] does; it holds nothing of its own then.

use bufpool_policies::PageId;

use crate::access::{Limit, Purpose};
use crate::arena::{FrameLease, ReadInto};
use crate::call_site::SiteRef;
use crate::error::{Error, ErrorKind, Result};
use crate::file::Page;
use crate::guard::ReadGuard;
use crate::io::Buffers;
use crate::latch::{Latch, Loading};
use crate::page_word::{PageWord, Want};
use crate::tenant::Tenant;

/// Most bytes of one transfer of neighbouring pages, unless a page is larger.
pub(crate) const RUN_BYTES: usize = 256 << 10;

/// What became of each page of a list, in its order: a guard, an error, or none where that would have meant waiting.
type Granted<'g> = Vec<Result<Option<ReadGuard<'g>>>>;

impl Tenant {
    pub(crate) fn guard_many<'g>(&'g self, pages: &[Page<'g>], site: SiteRef) -> Granted<'g> {
        let granted = if self.pool.is_immediate {
            self.read_in_turn(pages, site)
        } else {
            self.read_together(pages, site)
        };
        debug_assert_eq!(granted.len(), pages.len());
        if pages.is_empty() || granted.iter().any(|page| !matches!(page, Ok(None))) {
            return granted;
        }
        let mut granted = granted;
        granted[0] = self.guard_shared(pages[0], site, Limit::Default).map(Some);
        granted
    }

    /// One page after the other, as deterministic mode has it.
    fn read_in_turn<'g>(&'g self, pages: &[Page<'g>], site: SiteRef) -> Granted<'g> {
        let most = self.pool.batch_pages_max();
        let mut taken = 0;
        let read = |page: &Page<'g>| {
            if taken == most {
                return Ok(None);
            }
            let guard = none_if_busy(self.guard_shared(*page, site, Limit::Now));
            taken += usize::from(matches!(guard, Ok(Some(_))));
            guard
        };
        pages.iter().map(read).collect()
    }

    fn read_together<'g>(&'g self, pages: &[Page<'g>], site: SiteRef) -> Granted<'g> {
        let mut batch = Batch {
            tenant: self,
            pages,
            site,
            granted: pages.iter().map(|_| Ok(None)).collect(),
            taken: 0,
            loads: Vec::new(),
            busy: Vec::new(),
        };
        batch.take();
        batch.load();
        batch.try_again();
        batch.granted
    }
}

fn none_if_busy<G>(granted: Result<G>) -> Result<Option<G>> {
    match granted {
        Ok(guard) => Ok(Some(guard)),
        Err(error) => match error.kind() {
            ErrorKind::LatchTimeout | ErrorKind::SelfDeadlock | ErrorKind::Exhausted => Ok(None),
            _ => Err(error),
        },
    }
}

/// A call in progress.
struct Batch<'a, 'g> {
    tenant: &'g Tenant,
    pages: &'a [Page<'g>],
    site: SiteRef,
    granted: Granted<'g>,
    /// Pages that are latched or being loaded by this call.
    taken: usize,
    loads: Vec<Load<'g>>,
    busy: Vec<Busy>,
}

/// A page that this call brings in.
struct Load<'g> {
    /// Where it is in the list.
    index: usize,
    page: Page<'g>,
    loading: Loading<&'g PageWord>,
}

/// A page that could not be latched at once.
struct Busy {
    index: usize,
    /// Another thread is loading it.
    is_loading: bool,
}

impl<'g> Batch<'_, 'g> {
    /// Latches what is there, and wins the right to load what nobody loads.
    fn take(&mut self) {
        let most = self.tenant.pool.batch_pages_max();
        for (index, page) in self.pages.iter().copied().enumerate() {
            if self.taken == most {
                return;
            }
            match self.take_one(index, page) {
                Ok(true) => self.taken += 1,
                Ok(false) => {}
                Err(error) => self.granted[index] = Err(error),
            }
        }
    }

    fn take_one(&mut self, index: usize, page: Page<'g>) -> Result<bool> {
        const OPERATION: &str = "read page";
        let word = self.tenant.checked_word(page, Purpose::Read, OPERATION)?;
        // A page may come or go between two looks, but not often.
        for _ in 0..4 {
            match Latch::try_new(word, Want::Shared) {
                Ok(latch) => {
                    self.grant_hit(index, page, latch);
                    return Ok(true);
                }
                Err(state) if state.is_absent() => {}
                Err(state) => {
                    let is_ours = || self.loads.iter().any(|load| load.page.id() == page.id());
                    let is_loading = state.is_loading() && !is_ours();
                    self.busy.push(Busy { index, is_loading });
                    return Ok(false);
                }
            }
            if let Ok(loading) = Loading::try_new(word) {
                page.file().shared.check_loadable(page.number(), OPERATION)?;
                self.loads.push(Load { index, page, loading });
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn grant_hit(&mut self, index: usize, page: Page<'g>, latch: Latch<&'g PageWord>) {
        let tenant = self.tenant;
        tenant.pool.note_hit(page, latch.frame(), tenant.tenant_id(), self.site, false);
        self.granted[index] = Ok(Some(ReadGuard::new(tenant, page, latch)));
    }

    /// Brings in the misses.
    fn load(&mut self) {
        if self.loads.is_empty() {
            return;
        }
        let mut leases = self.find_frames();
        let errors = self.read(&mut leases);
        self.publish(leases, errors);
    }

    /// Frames for the misses, as many as there are; the loads that got none are given up.
    fn find_frames(&mut self) -> Vec<FrameLease> {
        let (pool, tenant) = (&*self.tenant.pool, self.tenant.tenant_id());
        let pages = self.loads.iter().map(|load| load.page.id());
        let admitted = pool.admit_all(tenant, pages, self.site);
        let mut leases = Vec::with_capacity(admitted.len());
        let mut loads = std::mem::take(&mut self.loads).into_iter();
        for (admitted, load) in admitted.into_iter().zip(&mut loads) {
            // A page gets nothing because another could not make room; whoever reads it alone waits, or hears why.
            if let Ok(Some(lease)) = pool.vacate(admitted, tenant, self.site) {
                leases.push(lease);
                self.loads.push(load);
            }
        }
        leases
    }

    /// Reads all pages into their frames. Returns what went wrong, by load.
    fn read(&self, leases: &mut [FrameLease]) -> Vec<Option<Error>> {
        const OPERATION: &str = "read page";
        let (pool, tenant) = (&*self.tenant.pool, self.tenant.tenant_id());
        let mut errors: Vec<Option<Error>> = self.loads.iter().map(|_| None).collect();
        let mut reads = Vec::new();
        // The first load of each read.
        let mut firsts = Vec::new();
        let mut rest = &mut *leases;
        let mut first = 0;
        for run in self.loads.chunk_by(|a, b| follows(a.page, b.page)) {
            for run in run.chunks(run_pages(pool.page_bytes)) {
                let leases = rest.split_off_mut(..run.len()).expect("a lease for each load");
                match run[0].page.file().shared.io(OPERATION) {
                    Ok(file) => {
                        reads.push(ReadInto { file, number: run[0].page.number(), leases });
                        firsts.push(first);
                    }
                    Err(error) => {
                        errors[first..first + run.len()].fill_with(|| Some(error.duplicate()));
                    }
                }
                first += run.len();
            }
        }
        let mut again = Vec::new();
        let mut count = reads.iter().map(|read| read.leases.len()).sum::<usize>();
        for (read, error) in pool.arena.read_all(&*pool.backend, &mut reads, tenant) {
            let (first, pages) = (firsts[read as usize], reads[read as usize].leases.len());
            count -= pages;
            if pages == 1 {
                let page = self.loads[first].page;
                let error = page.file().shared.io_error(OPERATION, error);
                errors[first] = Some(error.at_page(page.number()));
            } else {
                // Which of them cannot be read?
                again.extend(first..first + pages);
            }
        }
        drop(reads);
        again.sort_unstable();
        pool.count_reads(count as u64);
        for (at, (load, lease)) in self.loads.iter().zip(leases).enumerate() {
            let (file, number) = (&load.page.file().shared, load.page.number());
            let outcome = if again.binary_search(&at).is_ok() {
                pool.read_verified(file, number, lease, tenant, OPERATION)
            } else if errors[at].is_none() {
                pool.verify_or_read_again(file, number, lease, tenant, OPERATION)
            } else {
                continue;
            };
            errors[at] = outcome.err();
        }
        errors
    }

    /// Hands out what was read, and gives up the frames of what was not.
    fn publish(&mut self, leases: Vec<FrameLease>, errors: Vec<Option<Error>>) {
        let (pool, tenant) = (&*self.tenant.pool, self.tenant);
        {
            let mut policy = pool.policy.lock();
            for ((load, lease), error) in self.loads.iter().zip(&leases).zip(&errors) {
                if error.is_none() {
                    pool.frames.get(lease.frame()).occupy(load.page.id());
                    policy.directory.loaded(lease.frame());
                }
            }
        }
        for ((load, lease), error) in std::mem::take(&mut self.loads).into_iter().zip(leases).zip(errors) {
            self.granted[load.index] = match error {
                None => {
                    let latch = load.loading.publish(lease, Want::Shared);
                    Ok(Some(ReadGuard::new(tenant, load.page, latch)))
                }
                Some(error) => {
                    pool.give_up_frame(lease, tenant.tenant_id(), self.site);
                    Err(error)
                }
            };
        }
    }

    /// Latches what was busy at first: a page twice in the list, or one that another thread has let go of meanwhile.
    fn try_again(&mut self) {
        for Busy { index, is_loading } in std::mem::take(&mut self.busy) {
            let page = self.pages[index];
            let word = page.file().shared.table.get(page.number());
            if let Some(Ok(latch)) = word.map(|word| Latch::try_new(word, Want::Shared)) {
                self.tenant.pool.count_waited(is_loading);
                self.grant_hit(index, page, latch);
            }
        }
    }
}

/// `b` is the next page of the same file.
fn follows(a: Page<'_>, b: Page<'_>) -> bool {
    PageId(a.id().0 + 1) == b.id()
}

/// Most pages of one transfer.
pub(crate) fn run_pages(page_bytes: usize) -> usize {
    (RUN_BYTES / page_bytes).clamp(1, Buffers::PIECES_MAX)
}
