//! Which block the lists of an account give up, and when pages are needed.

use super::AccountHints;
use crate::{
    frame_table::FrameTable,
    hints::{aggressive::NextUse, blocks::OFFERS_TRIED, open_list::OpenList},
    ids::{FrameId, PageId, TenantId},
};

/// The block that the lists give up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Offer {
    pub frame: u32,
    /// In how many steps of the directory's time its page is needed again, as far as the lists tell; infinite
    /// if they name it no further.
    pub distance: f64,
}

impl AccountHints {
    /// How long until the page is needed, in steps of the directory's time, if the lists know: infinite for a
    /// spent page.
    pub fn distance(&self, page: PageId) -> Option<f64> {
        if self.blocks.is_spent(page) {
            return Some(f64::INFINITY);
        }
        let lists = self.lists.iter().filter(|list| !list.has_strayed);
        let nearest = lists.filter_map(|list| Some(list.distance(list.list.next_use(page)?)));
        nearest.min_by(f64::total_cmp)
    }

    /// Whether a reader has [reached](Self::reached) the page, and the access is not told yet.
    pub fn is_awaited(&self, page: PageId) -> bool {
        self.lists.iter().any(|list| list.led.as_ref().is_some_and(|awaited| awaited.contains(&page)))
    }

    /// How long until a page that comes in is needed, in steps of the directory's time: 0 if a reader waits
    /// for it, or if the lists do not know.
    pub fn needed_in(&self, page: PageId) -> f64 {
        if self.is_awaited(page) { 0.0 } else { self.distance(page).unwrap_or(0.0) }
    }

    /// The block that the lists would give up: a spent one, or that with the farthest next use. None if they
    /// concern no block that could be taken.
    pub fn offer(&mut self, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<Offer> {
        let spent = self.blocks.first_spent(|frame| busy(FrameId(frame)));
        let spent = spent.map(|frame| Offer { frame, distance: f64::INFINITY });
        spent.or_else(|| self.offer_farthest(busy))
    }

    fn offer_farthest(&self, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<Offer> {
        let mut best: Option<Offer> = None;
        for list in self.lists.iter().filter(|list| !list.has_strayed) {
            let offers = list.present_by_use().take(OFFERS_TRIED);
            for (_, page) in offers {
                let Some(distance) = self.distance(page) else { continue };
                let Some(frame) = self.blocks.frame(page) else { continue };
                if best.is_some_and(|best| best.distance >= distance) {
                    break;
                }
                if !busy(FrameId(frame)) {
                    let frame = self.yielded(list, busy).unwrap_or(frame);
                    best = Some(Offer { frame, distance });
                    // With several lists, another one may name this page sooner, so that the next page of
                    // this list may be needed later.
                    if self.lists.len() == 1 {
                        break;
                    }
                }
            }
        }
        best
    }

    /// The block that goes instead of the one that the list needs last, at the same price. None with several
    /// lists.
    fn yielded(&self, list: &OpenList, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<u32> {
        if self.lists.len() > 1 {
            return None;
        }
        let pages = list.present_by_yield().take(OFFERS_TRIED);
        let mut frames = pages.filter_map(|page| self.blocks.frame(page));
        frames.find(|frame| !busy(FrameId(*frame)))
    }

    /// For each list that names the page: whose list it is, and how many of the list's reads ahead the page
    /// is. The next read is 1 ahead.
    pub fn reads_until(&self, page: PageId) -> impl Iterator<Item = (TenantId, u64)> {
        self.lists.iter().filter_map(move |list| {
            let next = list.list.next_use(page)?;
            Some((list.tenant, next - list.list.position() + 1))
        })
    }

    /// The frame of the block that each list needs last, busy ones left out.
    pub fn last_of_each(&self, busy: &mut dyn FnMut(FrameId) -> bool) -> Vec<u32> {
        let lists = self.lists.iter();
        lists
            .filter_map(|list| {
                let mut frames = list.present_by_use().filter_map(|(_, page)| self.blocks.frame(page));
                frames.find(|frame| !busy(FrameId(*frame)))
            })
            .collect()
    }

    /// When the block that would go first is needed again, by the reads of the list that needs it first;
    /// `None` if the lists concern no block that could go.
    pub fn next_use_of_victim(&mut self, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<NextUse> {
        if self.blocks.first_spent(|frame| busy(FrameId(frame))).is_some() {
            return Some(NextUse::Never);
        }
        let frame = self.offer_farthest(busy)?.frame;
        let here = |list: &OpenList| {
            let at = list.present_by_use().find(|(_, page)| self.blocks.frame(*page) == Some(frame));
            at.map(|(position, _)| position - list.list.position() + 1)
        };
        self.lists.iter().filter_map(here).min().map(NextUse::Ahead)
    }

    /// Whether the page of an offer is needed later than the page in `frame`. If the lists do not know when
    /// that is needed, it is expected to stay idle for as long as it has been.
    pub fn is_later(&self, offer: Offer, frames: &FrameTable, frame: u32, now: u64) -> bool {
        let idle = || now.saturating_sub(frames[frame].last_reference) as f64;
        offer.distance > self.distance(frames[frame].page).unwrap_or_else(idle)
    }

    /// Whether an offer decides alone: there is one list only, and it names each of the account's `owned`
    /// blocks, or the block came in for it.
    pub fn settles(&self, owned: u32) -> bool {
        let is_trusted = matches!(self.lists.as_slice(), [list] if !list.has_strayed);
        is_trusted && self.blocks() >= owned
    }
}
