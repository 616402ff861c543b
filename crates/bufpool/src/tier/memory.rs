//! A tier in memory of its own.

use std::sync::Arc;

use bufpool_policies::PageId;
use parking_lot::Mutex;

use crate::engine::PageName;
use crate::error::Result;
use crate::tier::buffer::{TierBuffer, TierPage};
use crate::tier::copies::{Copies, Copy, Kept, Lookup, Offer};
use crate::tier::{Attachment, Demoted, Life, Tier, TierDone, TierRange, TierReport, Version, in_use};

/// A tier in memory of its own: of use where that memory costs less than frames, and for tests.
///
/// A page that goes down is copied once, in some hundred nanoseconds, and so is a page that comes up. The
/// tier serves one pool at a time, and is empty after that.
pub struct MemoryTier {
    state: Mutex<State>,
}

struct State {
    pages_max: u32,
    /// None while no pool uses it.
    used: Option<Used>,
}

struct Used {
    page_bytes: usize,
    /// A thread that reads a copy shares its bytes.
    copies: Copies<Arc<[u8]>>,
    /// Free memory for copies that come in.
    spares: Vec<Arc<[u8]>>,
}

impl MemoryTier {
    /// A tier with room for `pages` pages. The memory is taken when it is first needed.
    pub fn new(pages: u32) -> Self {
        Self { state: Mutex::new(State { pages_max: pages, used: None }) }
    }

    /// Gives it room for `pages` pages, also while a pool uses it. With less room, the pages that are next
    /// to go leave, and their memory is freed.
    ///
    /// # Errors
    ///
    /// If there cannot be that many pages. Nothing has changed then.
    pub fn resize(&self, pages: u32) -> Result<()> {
        let mut state = self.state.lock();
        let left = state.used.as_mut().map(|used| used.resize(pages)).transpose()?;
        state.pages_max = pages;
        drop(state);
        drop(left);
        Ok(())
    }

    fn keep(&self, page: PageName, bytes: &TierPage, offer: Offer) -> Demoted {
        let Some(mut copy) = self.spare() else { return Demoted::Refused };
        let target = Arc::get_mut(&mut copy).expect("spares are nobody's");
        target.copy_from_slice(bytes);
        let copy = Copy { envelope: bytes.envelope(), bytes: copy };
        let mut state = self.state.lock();
        let Some(used) = &mut state.used else { return Demoted::Refused };
        let Kept { demoted, left } = used.copies.keep(PageId::in_file(page.file, page.number), copy, offer);
        left.into_iter().for_each(|bytes| used.keep_spare(bytes));
        demoted
    }

    /// Memory for a page; its contents are not defined.
    fn spare(&self) -> Option<Arc<[u8]>> {
        let mut state = self.state.lock();
        let used = state.used.as_mut()?;
        Some(used.spares.pop().unwrap_or_else(|| Arc::from(vec![0; used.page_bytes])))
    }
}

impl Used {
    /// Changes the room. Returns the memory that is not needed any more.
    fn resize(&mut self, pages: u32) -> Result<Vec<Arc<[u8]>>> {
        let mut left = self.copies.resize(pages.into())?;
        left.append(&mut self.spares);
        Ok(left)
    }

    /// Keeps memory for later copies, unless a thread still reads it.
    fn keep_spare(&mut self, mut bytes: Arc<[u8]>) {
        if Arc::get_mut(&mut bytes).is_some() {
            self.spares.push(bytes);
        }
    }
}

impl Tier for MemoryTier {
    fn attach(&self, to: &Attachment) -> Result<()> {
        let mut state = self.state.lock();
        if state.used.is_some() {
            return Err(in_use());
        }
        let copies = Copies::new(to.into(), state.pages_max.into())?;
        state.used = Some(Used { page_bytes: to.page_bytes, copies, spares: Vec::new() });
        Ok(())
    }

    fn demote(&self, page: PageName, _: Version, bytes: TierPage) -> Demoted {
        self.keep(page, &bytes, Offer::Demotion)
    }

    fn fill(&self, page: PageName, _: Version, bytes: TierPage) -> Demoted {
        self.keep(page, &bytes, Offer::Fill)
    }

    fn hear_life(&self, life: Life) {
        if let Some(used) = &mut self.state.lock().used {
            used.copies.hear_life(life);
        }
    }

    fn take(&self, page: PageName, version: Version, mut into: TierBuffer, done: TierDone) {
        let page = PageId::in_file(page.file, page.number);
        let found =
            self.state.lock().used.as_mut().map_or(Lookup::Nothing, |used| used.copies.find(page, version));
        let spare = match found {
            Lookup::Right { copy, stays_below, .. } => {
                into.copy_from_slice(&copy.bytes);
                done.give(into, copy.envelope, stays_below);
                copy.bytes
            }
            Lookup::Stale(bytes) => {
                done.absent(into);
                bytes
            }
            Lookup::Nothing => return done.absent(into),
        };
        if let Some(used) = &mut self.state.lock().used {
            used.keep_spare(spare);
        }
    }

    fn forget(&self, pages: TierRange) {
        let mut state = self.state.lock();
        let Some(used) = &mut state.used else { return };
        for page in used.copies.pages_of(&pages) {
            used.copies.forget(page).into_iter().for_each(|bytes| used.keep_spare(bytes));
        }
    }

    fn report(&self) -> TierReport {
        let state = self.state.lock();
        let Some(used) = &state.used else { return TierReport::new("memory, in use by no pool") };
        let bytes = |pages: usize| (pages * used.page_bytes) as u64;
        TierReport {
            pages: used.copies.len().into(),
            pages_max: state.pages_max.into(),
            bytes: bytes(used.copies.len() as usize),
            metadata_bytes: bytes(used.spares.len()) + used.copies.metadata_bytes(),
            ..TierReport::new(format!("memory, {} pages of {} bytes", state.pages_max, used.page_bytes))
        }
    }

    fn detach(&self) {
        let used = self.state.lock().used.take();
        drop(used);
    }
}
