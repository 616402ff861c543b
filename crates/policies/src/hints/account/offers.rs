//! Which block the lists of an account give up, and when pages are needed.

use super::AccountHints;
use crate::{
    frame_table::FrameTable,
    hints::{aggressive::NextUse, blocks::OFFERS_TRIED, open_list::OpenList},
    ids::{FrameId, PageId, TenantId},
};

/// Lists that one question looks at.
const LISTS_TRIED: usize = 16;

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
        self.distance_beyond(page, f64::NEG_INFINITY)
    }

    /// How long until a page is needed that is not spent, if lists know; `None` as well if it is needed in
    /// `bound` or sooner.
    fn distance_beyond(&self, page: PageId, bound: f64) -> Option<f64> {
        let mut believed = self.lists.naming(page).filter(|(list, _)| !list.has_strayed);
        let nearest = believed.try_fold(f64::INFINITY, |nearest, (list, next)| {
            Some(nearest.min(list.distance(next))).filter(|nearest| *nearest > bound)
        });
        nearest.filter(|nearest| nearest.is_finite())
    }

    /// Whether a reader has [reached](Self::reached) the page, and the access is not told yet.
    pub fn is_awaited(&self, page: PageId) -> bool {
        !self.lists.slots_awaiting(page).is_empty()
    }

    /// How long until a page that comes in is needed, in steps of the directory's time: 0 if a reader waits
    /// for it, or if the lists do not know.
    pub fn needed_in(&self, page: PageId) -> f64 {
        if self.is_awaited(page) { 0.0 } else { self.distance(page).unwrap_or(0.0) }
    }

    /// The block that the lists would give up: a spent one, or that with the farthest next use, of a few of
    /// each of the lists with the farthest blocks. None if they concern no block that could be taken.
    pub fn offer(&mut self, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<Offer> {
        let spent = self.blocks.first_spent(|frame| busy(FrameId(frame)));
        let spent = spent.map(|frame| Offer { frame, distance: f64::INFINITY });
        spent.or_else(|| self.offer_farthest(busy))
    }

    fn offer_farthest(&self, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<Offer> {
        let mut best: Option<Offer> = None;
        let bound = |best: Option<Offer>| best.map_or(f64::NEG_INFINITY, |best| best.distance);
        let mut after = None;
        for _ in 0..LISTS_TRIED {
            let next = self.lists.next_farthest(after);
            let Some((_, slot)) = next.filter(|(distance, _)| *distance > bound(best)) else { break };
            after = next;
            let list = self.lists.at(slot);
            for (position, page) in list.present_by_use().take(OFFERS_TRIED) {
                // Another list may name the page sooner than this one, but none makes it be needed later.
                if list.distance(position) <= bound(best) {
                    break;
                }
                let Some(distance) = self.distance_beyond(page, bound(best)) else { continue };
                let Some(frame) = self.blocks.frame(page) else { continue };
                if !busy(FrameId(frame)) {
                    let frame = self.yielded(list, busy).unwrap_or(frame);
                    best = Some(Offer { frame, distance });
                    // With several lists, the next page of this list may be needed later than this one.
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
        self.lists.naming(page).map(|(list, next)| (list.tenant, next - list.list.position() + 1))
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
        let is_trusted = self.lists.only().is_some_and(|list| !list.has_strayed);
        is_trusted && self.blocks() >= owned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        hints::{Depth, HintPolicy},
        random::SplitMix64,
    };

    /// The distance of what is offered, by a search through all lists.
    fn farthest_by_search(hints: &AccountHints) -> Option<f64> {
        let believed = || hints.lists.iter().filter(|list| !list.has_strayed);
        let distance = |page| {
            let nexts = believed().filter_map(|list| Some(list.distance(list.list.next_use(page)?)));
            nexts.min_by(f64::total_cmp)
        };
        let offers = believed().flat_map(|list| list.present_by_use().take(OFFERS_TRIED));
        offers.filter_map(|(_, page)| distance(page)).max_by(f64::total_cmp)
    }

    #[test]
    fn the_offer_is_the_farthest_of_those_that_a_search_finds() {
        for seed in 0..60 {
            let mut random = SplitMix64::new(seed);
            let mut hints = AccountHints::default();
            let lists = 1 + random.below(LISTS_TRIED as u64);
            for serial in 0..lists {
                hints.open(serial, TenantId(serial as u32 % 3), HintPolicy::Off, Depth::new(8), 1);
            }
            for now in 0..400 {
                let (serial, page) = (random.below(lists), random.below(60));
                match random.below(4) {
                    0 | 1 => {
                        // Every page below 40 is in the frame of its number.
                        let present = (page < 40).then_some((page as u32, false));
                        hints.push(serial, PageId(page), present);
                    }
                    2 => hints.reached(serial, now),
                    _ => _ = hints.accessed(TenantId(serial as u32 % 3), PageId(page), now),
                }
                if random.below(100) == 0 && !hints.is_empty() {
                    hints.close(serial, |_| {});
                }
                let offered = hints.offer_farthest(&mut |_| false);
                assert_eq!(offered.map(|offer| offer.distance), farthest_by_search(&hints), "seed {seed}");
                hints.lists.check_invariants();
            }
        }
    }
}
