//! What will be touched soon, for drivers that fetch it side by side before.

use super::Directory;
use crate::{
    allocation::Ledger,
    frame_table::FrameState,
    ids::{FrameId, PageId, TenantId},
};

/// Pages that a manager is told of at once before they come or go.
const TOUCHED_AT_ONCE: usize = 64;
/// Frames from which on a driver fetches what a manager looks up: in smaller pools that is in a processor's
/// second cache, and to find the addresses takes longer than the fetch saves.
const FRAMES_FETCHED: u32 = 1 << 12;

/// What a miss is likely to change: advice for [`Directory::places_of_miss`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextMiss {
    /// The frame that the next question looks at first, as far as it is known.
    pub victim: FrameId,
    /// The page in it.
    pub page: PageId,
    /// The one after it.
    pub next: FrameId,
    /// The number of the missing tenant's account.
    pub account: u32,
    /// The frame that the victim's manager would probably choose; the victim's own if there is no manager.
    pub choice: FrameId,
}

impl Directory {
    /// Touches what [`hit`](Self::hit) will touch of `frames`, so that it comes from memory side by side and
    /// not one after the other. Frames that there are not are passed over.
    pub fn touch(&self, frames: impl Iterator<Item = FrameId> + Clone) {
        let frames = frames.filter(|frame| frame.0 < self.ledger.frames.len());
        let (slots, links) = (&self.ledger.frames, &self.ledger.frames.ledger_links);
        // First what is known of the frames themselves, then of their neighbours in the ledger.
        let mut first_ahead = None;
        let mut touched = 0;
        for frame in frames.clone() {
            if slots[frame.0].state == FrameState::Ahead {
                first_ahead.get_or_insert(frame);
            }
            touched ^= links.next(frame.0);
        }
        for frame in frames.clone() {
            touched ^= links.touch(frame.0);
        }
        std::hint::black_box(touched);
        if let Some(first) = first_ahead {
            let is_ahead = |frame: &FrameId| slots[frame.0].state == FrameState::Ahead;
            self.touch_pages(first, frames.filter(is_ahead));
        }
    }

    /// The addresses of what a miss of `tenant` is likely to change, found without reading any of it. A
    /// driver can touch them all at once, which pays above all where another processor's cache has them.
    pub fn places_of_miss(&self, tenant: TenantId, next_miss: NextMiss) -> [*const u8; 7] {
        let Ledger { frames, accounts, now, .. } = &self.ledger;
        let [slot, links] = frames.places_of(next_miss.victim.0);
        let tenant = self.place_of_tenant(tenant);
        let account = accounts.as_ptr().wrapping_add(next_miss.account as usize).cast();
        let [next, _] = frames.places_of(next_miss.next.0);
        [tenant, account, slot, links, next, std::ptr::from_ref(now).cast(), self.ledger.place_of_heads()]
    }

    /// Shows the addresses of what the missing tenant's manager looks up when `pages` come or go, and when it
    /// gives up its likely choice.
    pub fn places_in_manager(&self, next_miss: NextMiss, pages: &[PageId], show: &mut dyn FnMut(*const u8)) {
        if let Some(account) = self.ledger.accounts.get(next_miss.account as usize)
            && self.capacity >= FRAMES_FETCHED
        {
            account.control.places(pages, &mut std::iter::once(next_miss.choice), show);
        }
    }

    /// Shows the addresses of what the manager of `tenant` looks up when hits on `frames` are told.
    pub fn places_of_hits(
        &self,
        tenant: TenantId,
        frames: &mut dyn Iterator<Item = FrameId>,
        show: &mut dyn FnMut(*const u8),
    ) {
        if self.capacity >= FRAMES_FETCHED {
            let account = self.ledger.account(tenant);
            self.ledger.accounts[account.index()].control.places(&[], frames, show);
        }
    }

    /// Where the counts of `tenant` are, for a driver that is about to count accesses of several.
    pub fn place_of_tenant(&self, tenant: TenantId) -> *const u8 {
        std::ptr::from_ref(&self.ledger.tenants[tenant.index()]).cast()
    }

    /// What the next miss is likely to change, if it is one of `tenant`.
    pub fn next_miss(&self, tenant: TenantId) -> Option<NextMiss> {
        let [victim, next] = self.ledger.next_two().filter(|_| self.free_frames() == 0)?;
        let owner = self.ledger.account(self.ledger.frames[victim].owner);
        let choice = self.ledger.accounts[owner.index()].control.likely_choice(FrameId(victim));
        let choice = if choice.0 < self.ledger.frames.len() { choice } else { FrameId(victim) };
        Some(NextMiss {
            victim: FrameId(victim),
            page: self.ledger.frames[victim].page,
            next: FrameId(next),
            account: self.ledger.account(tenant).0,
            choice,
        })
    }

    /// Touches what the manager of the next page to go will look up by page, for that page and for the
    /// others that are likely to be among the next `count` to go.
    pub fn touch_upcoming(&self, count: usize) {
        if let Some(first) = self.upcoming().next() {
            self.touch_pages(first, self.upcoming().take(count));
        }
    }

    /// Touches what the manager of the first frame's block looks up by page when the pages in `frames` come
    /// or go.
    fn touch_pages(&self, first: FrameId, frames: impl Iterator<Item = FrameId>) {
        let account = self.ledger.account(self.ledger.frames[first.0].owner);
        let control = &self.ledger.accounts[account.index()].control;
        if !control.is_managed() {
            return;
        }
        let mut pages = frames.map(|frame| self.ledger.frames[frame.0].page).peekable();
        while pages.peek().is_some() {
            let mut some = [PageId(0); TOUCHED_AT_ONCE];
            let count = some.iter_mut().zip(&mut pages).map(|(place, page)| *place = page).count();
            control.touch_pages(&some[..count]);
        }
    }

    /// As [`touch`](Self::touch), what the manager of the first frame's block will touch. Pays where
    /// there are more blocks than the processor's second cache has room for.
    pub fn touch_managed(&self, mut frames: impl Iterator<Item = FrameId> + Clone) {
        let Some(first) = frames.clone().next().filter(|frame| self.ledger.frames.is_present(*frame)) else {
            return;
        };
        let account = self.ledger.account(self.ledger.frames[first.0].owner);
        self.ledger.accounts[account.index()].control.touch(&mut frames);
    }

    /// The frames that questions look at next if no frame is free, as far as they lie in one account's list
    /// and no placeholder, cap or manager says otherwise: for drivers that have to fetch what they know of
    /// them.
    pub fn upcoming(&self) -> impl Iterator<Item = FrameId> {
        self.ledger.upcoming().take_while(|_| self.free_frames() == 0).map(FrameId)
    }
}
