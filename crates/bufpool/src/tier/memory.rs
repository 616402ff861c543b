//! A tier in memory of its own.

use std::sync::Arc;

use bufpool_policies::PageId;
use bufpool_policies::tier::{Arrival, TierOrder, TierSlot};
use parking_lot::Mutex;

use crate::engine::PageName;
use crate::error::{Error, ErrorKind, Result};
use crate::tier::buffer::{Envelope, TierBuffer, TierPage};
use crate::tier::{Attachment, Demoted, Tier, TierDone, TierPolicy, TierRange, TierReport, Version};

/// A tier in memory of its own: of use where that memory costs less than frames, and for tests.
///
/// A page that goes down is copied once, in some hundred nanoseconds, and a page that comes up as well. It
/// serves one pool at a time, and is empty after that.
pub struct MemoryTier {
    pages_max: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// None while no pool uses it.
    used: Option<Used>,
}

struct Used {
    page_bytes: usize,
    policy: TierPolicy,
    order: Box<dyn TierOrder>,
    /// By slot.
    copies: Vec<Option<Copy>>,
    /// Memory for copies that come in.
    spares: Vec<Arc<[u8]>>,
}

struct Copy {
    envelope: Envelope,
    /// Shared with a thread that reads it.
    bytes: Arc<[u8]>,
}

impl MemoryTier {
    /// With room for `pages` pages, whose memory is taken when it is first needed.
    pub fn new(pages: u32) -> Self {
        Self { pages_max: pages, state: Mutex::default() }
    }

    /// Memory for a page; its contents are not defined.
    fn spare(&self) -> Option<Arc<[u8]>> {
        let mut state = self.state.lock();
        let used = state.used.as_mut()?;
        Some(used.spares.pop().unwrap_or_else(|| Arc::from(vec![0; used.page_bytes])))
    }
}

impl Used {
    fn copy(&mut self, slot: TierSlot) -> &mut Option<Copy> {
        let index = slot.index();
        if index >= self.copies.len() {
            self.copies.resize_with(index + 1, || None);
        }
        &mut self.copies[index]
    }

    /// Keeps memory that nobody reads any more.
    fn keep_spare(&mut self, mut bytes: Arc<[u8]>) {
        if Arc::get_mut(&mut bytes).is_some() {
            self.spares.push(bytes);
        }
    }

    fn keep(&mut self, page: PageId, copy: Copy) -> Demoted {
        let (slot, demoted) = match self.order.demote(page) {
            Arrival::Stored { slot, .. } => (slot, Demoted::Stored),
            Arrival::Present(slot) => (slot, Demoted::Present),
            Arrival::NotKept => {
                self.keep_spare(copy.bytes);
                return Demoted::Refused;
            }
        };
        // That of the page which was ejected, or an older one of this page.
        if let Some(displaced) = self.copy(slot).replace(copy) {
            self.keep_spare(displaced.bytes);
        }
        demoted
    }

    /// The copy, if it is of that version. One of another version is of no use to anybody.
    fn find(&mut self, page: PageId, version: Version) -> Option<(Envelope, Arc<[u8]>)> {
        let slot = self.order.find(page)?;
        let copy = self.copy(slot).as_ref()?;
        if copy.envelope.version() != version {
            self.forget(page);
            return None;
        }
        let found = (copy.envelope, Arc::clone(&copy.bytes));
        let stays = match self.policy {
            TierPolicy::Demote => self.order.take(page).is_none(),
            _ => self.order.read(page).is_some_and(|found| found.stays),
        };
        if !stays {
            *self.copy(slot) = None;
        }
        Some(found)
    }

    fn forget(&mut self, page: PageId) {
        if let Some(slot) = self.order.forget(page)
            && let Some(copy) = self.copy(slot).take()
        {
            self.keep_spare(copy.bytes);
        }
    }
}

impl Tier for MemoryTier {
    fn attach(&self, to: &Attachment) -> Result<()> {
        let mut state = self.state.lock();
        if state.used.is_some() {
            let message = "the memory tier is another pool's, expected one that no pool uses";
            return Err(Error::new(ErrorKind::InvalidOptions, "open pool", message));
        }
        let &Attachment { page_bytes, policy, .. } = to;
        let order = policy.order(self.pages_max);
        state.used = Some(Used { page_bytes, policy, order, copies: Vec::new(), spares: Vec::new() });
        Ok(())
    }

    fn demote(&self, page: PageName, _: Version, bytes: TierPage) -> Demoted {
        let Some(mut copy) = self.spare() else { return Demoted::Refused };
        let target = Arc::get_mut(&mut copy).expect("spares are nobody's");
        target.copy_from_slice(&bytes);
        let copy = Copy { envelope: bytes.envelope(), bytes: copy };
        match &mut self.state.lock().used {
            Some(used) => used.keep(PageId::in_file(page.file, page.number), copy),
            None => Demoted::Refused,
        }
    }

    fn take(&self, page: PageName, version: Version, mut into: TierBuffer, done: TierDone) {
        let page = PageId::in_file(page.file, page.number);
        let found = self.state.lock().used.as_mut().and_then(|used| used.find(page, version));
        let Some((envelope, bytes)) = found else { return done.absent(into) };
        into.copy_from_slice(&bytes);
        done.filled(into, envelope);
        if let Some(used) = &mut self.state.lock().used {
            used.keep_spare(bytes);
        }
    }

    fn forget(&self, pages: TierRange) {
        if let Some(used) = &mut self.state.lock().used {
            pages.each_of(&*used.order).into_iter().for_each(|page| used.forget(page));
        }
    }

    fn report(&self) -> TierReport {
        let state = self.state.lock();
        let Some(used) = &state.used else { return TierReport::new("memory, in use by no pool") };
        let bytes = |copies: usize| (copies * used.page_bytes) as u64;
        TierReport {
            pages: u64::from(used.order.len()),
            pages_max: u64::from(self.pages_max),
            bytes: bytes(used.order.len() as usize),
            metadata_bytes: bytes(used.spares.len()) + used.order.metadata_bytes() as u64,
            ..TierReport::new(format!("memory, {} pages of {} bytes", self.pages_max, used.page_bytes))
        }
    }

    fn detach(&self) {
        let used = self.state.lock().used.take();
        drop(used);
    }
}
