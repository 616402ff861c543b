//! What policy programs wish, carried out after the question and without the policy lock.
//!
//! A wish is void if its page has left, and left undone if the page is held by somebody, or cannot be written
//! now: a program asks again if it still matters.

use std::sync::Arc;

use bufpool_policies::{FrameId, PageId, TenantId, Wish};

use crate::files::shared::FileShared;
use crate::files::word::OwnedWord;
use crate::page::latch::{Exclusive, Latch, Patience};
use crate::policy::programs::Wished;
use crate::state::shared::PoolShared;
use crate::write::evict::{Emptying, Eviction};
use crate::write::page_out::{OPERATION, PageOut, Prepared, WrittenFrom};

/// Carries out wishes.
#[derive(Clone, Copy)]
pub(crate) struct Wishes<'p> {
    pool: &'p PoolShared,
}

impl<'p> Wishes<'p> {
    /// Of this pool.
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
    }

    /// Carries them out, in their order. What would have to wait is left undone unless `how` allows it.
    pub(crate) fn carry_out(self, wishes: Vec<Wished>, how: Emptying) {
        for Wished { tenant, serial, wish, file } in wishes {
            match wish {
                Wish::Flush { frame, page } => self.flush(&file, frame, page, how),
                Wish::SetModified { frame, page } => self.set_modified(&file, frame, page),
                Wish::Release { frame, page } => self.release((tenant, serial), frame, page, how),
            }
        }
    }

    /// Leaves the page to the background writer; in deterministic mode, where there is none, writes it.
    fn flush(self, file: &Arc<FileShared>, frame: FrameId, page: PageId, how: Emptying) {
        let entry = self.pool.frames.get(frame);
        if entry.page() != Some(page) || !entry.is_dirty() || file.is_poisoned() {
            return;
        }
        if !self.pool.is_immediate {
            return self.pool.write_back.wish(page);
        }
        if how == Emptying::AtOnce {
            return;
        }
        let out = PageOut::of(self.pool);
        match out.take_for_write(file, page.number(), Patience::None, WrittenFrom::OwnFrame) {
            // The log is not advanced for a wish.
            Prepared::Outgoing(page) if page.page_lsn > self.pool.log.durable() => out.let_go(page),
            Prepared::Outgoing(page) => {
                // A failure poisons the file, and is counted.
                let _ = out.write_outgoing(vec![page], OPERATION);
            }
            Prepared::Clean | Prepared::InFlight | Prepared::NoRoom | Prepared::Refused(_) => {}
        }
    }

    fn set_modified(self, file: &Arc<FileShared>, frame: FrameId, page: PageId) {
        let entry = self.pool.frames.get(frame);
        if file.is_read_only() || file.is_poisoned() || entry.page() != Some(page) {
            return;
        }
        let word = OwnedWord::new(Arc::clone(file), page.number());
        if let Ok(latch) = Latch::<_, Exclusive>::try_new(word)
            && latch.frame() == frame
        {
            let granted_lsn = self.pool.note_grant(entry);
            self.pool.mark_dirty(entry, granted_lsn);
        }
    }

    fn release(self, owner: (TenantId, u64), frame: FrameId, page: PageId, how: Emptying) {
        let rules = self.pool.claim_rules(how.dirty());
        let victim = self.pool.policy.lock().release_page(owner, frame, page, &rules);
        let Some(victim) = victim else { return };
        // A failure is the affair of the page's file, where it is counted; the page stays.
        if Eviction::of(self.pool).release(victim, owner.0, how).unwrap_or(false) {
            self.pool.frame_may_be_free();
        }
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;
    use crate::io::sim::SimDevice;
    use crate::{FileOptions, PoolOptions};

    /// The same page is in the same frame again by the time that the wish is carried out.
    #[test]
    fn a_wish_of_a_closed_tenant_is_none_of_the_next_one() {
        let device = SimDevice::new(1);
        device.put("data", &vec![0; 4 * 4096]);
        let pool = PoolOptions::new().frames(32).page_bytes(4096).threads_max(8).open_on(&device).unwrap();
        let file = pool.open_file("data", FileOptions::new()).unwrap();
        let page = file.page(1);
        let frame_of = || file.shared.table.get(1).unwrap().state().resident_frame();
        for closes in [false, true] {
            let tenant = pool.tenant("wishes").open().unwrap();
            drop(tenant.read(page).unwrap());
            let frame = frame_of().unwrap();
            let wished = Wished {
                tenant: tenant.tenant_id(),
                serial: pool.shared().policy.lock().tenants[tenant.tenant_id().index()].serial,
                wish: Wish::Release { frame, page: page.id() },
                file: Arc::clone(&file.shared),
            };
            if closes {
                file.discard(0..4).unwrap();
                tenant.clone().close().unwrap();
                let next = pool.tenant("next").open().unwrap();
                assert_eq!(next.id(), tenant.id());
                drop(next.read(page).unwrap());
                assert_eq!(frame_of(), Some(frame));
            }
            Wishes::of(pool.shared()).carry_out(vec![wished], Emptying::AtOnce);
            assert_eq!(frame_of().is_some(), closes);
        }
        pool.check_invariants();
    }
}
