//! Which pages a tier of one pool has, and what it keeps of each.

use bufpool_policies::PageId;
use bufpool_policies::tier::{Arrival, LruTier, PromoteTier, TIER_FRAMES_MAX, TierOrder, TierSlot};

use crate::error::{Error, ErrorKind, Result};
use crate::tier::buffer::Envelope;
use crate::tier::{Attachment, Demoted, Life, TierPolicy, TierRange, Version};

/// The pages of a tier, in the order in which they go. For each page it keeps the envelope and a `B`: the
/// bytes, or where they are. The caller drops each `B`, so every one that leaves is returned.
pub(super) struct Copies<B> {
    policy: TierPolicy,
    order: Box<dyn TierOrder>,
    /// Copies by the slot that the order gives.
    slots: Vec<Option<Copy<B>>>,
}

/// What the order of copies depends on: the pool that has the tier, and what it wants of it.
#[derive(Clone, Copy)]
pub(super) struct Client {
    pub policy: TierPolicy,
    pub frames: u32,
    pub seed: u64,
}

impl From<&Attachment> for Client {
    fn from(to: &Attachment) -> Self {
        Self { policy: to.policy, frames: to.frames, seed: to.seed }
    }
}

/// What a tier keeps of a page.
pub(super) struct Copy<B> {
    pub envelope: Envelope,
    pub bytes: B,
}

/// What is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Offer {
    /// A page that leaves memory.
    Demotion,
    /// One that comes from its file.
    Fill,
}

/// The outcome of an offer.
pub(super) struct Kept<B> {
    pub demoted: Demoted,
    /// Bytes that leave: of a page that was ejected, older ones of the same page, or those offered, if they
    /// are not kept.
    pub left: Option<B>,
}

/// The outcome of a look for a page.
pub(super) enum Lookup<B> {
    /// The version that was asked for. It has left the tier, unless it `stays`.
    Right {
        copy: Copy<B>,
        stays: bool,
        /// It stays, and is to leave the pool's memory first.
        stays_below: bool,
    },
    /// Another version, which is of no use to anybody, and has left.
    Stale(B),
    Nothing,
}

impl<B: Clone> Copies<B> {
    /// Copies with room for `pages` pages of the pool `to`.
    ///
    /// # Errors
    ///
    /// If a tier cannot have that many, or the policy is not one for a tier of one pool.
    pub fn new(to: Client, pages: u64) -> Result<Self> {
        let capacity = capacity(pages)?;
        let policy = to.policy;
        let order: Box<dyn TierOrder> = match policy {
            TierPolicy::Demote => Box::new(LruTier::exclusive(capacity)),
            TierPolicy::Inclusive => Box::new(LruTier::inclusive(capacity)),
            TierPolicy::Promote => Box::new(PromoteTier::new(capacity, to.frames, to.seed)),
            TierPolicy::DemoteAdapt(_) => {
                let message = "TierPolicy::DemoteAdapt is for a tier that several pools share, and this is one of one pool; expected Demote, Promote or Inclusive";
                return Err(Error::new(ErrorKind::Unsupported, "open tier", message));
            }
        };
        Ok(Self { policy, order, slots: Vec::new() })
    }

    fn slot(&mut self, slot: TierSlot) -> &mut Option<Copy<B>> {
        let index = slot.index();
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        &mut self.slots[index]
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.order.len()
    }

    /// The copy of a page, of whatever version.
    pub fn get_mut(&mut self, page: PageId) -> Option<&mut Copy<B>> {
        let slot = self.order.find(page)?;
        self.slot(slot).as_mut()
    }

    /// Offers the page.
    pub fn keep(&mut self, page: PageId, copy: Copy<B>, offer: Offer) -> Kept<B> {
        let arrival = match offer {
            Offer::Demotion => self.order.demote(page),
            Offer::Fill => self.order.fill(page),
        };
        let (slot, demoted) = match arrival {
            // The slot is that of the page which was ejected.
            Arrival::Stored { slot, .. } => (slot, Demoted::Stored),
            Arrival::Present(slot) => (slot, Demoted::Present),
            Arrival::NotKept => {
                let demoted = if offer == Offer::Fill { Demoted::PassedUp } else { Demoted::Refused };
                return Kept { demoted, left: Some(copy.bytes) };
            }
        };
        Kept { demoted, left: self.slot(slot).replace(copy).map(|left| left.bytes) }
    }

    /// Gives the copy of a page a new envelope and makes it last to go, if its contents are the same. False
    /// if there is no copy, or one with other contents.
    pub fn renew(&mut self, page: PageId, envelope: Envelope) -> bool {
        let Some(copy) = self.get_mut(page).filter(|copy| copy.envelope.hash() == envelope.hash()) else {
            return false;
        };
        copy.envelope = envelope;
        self.order.demote(page);
        true
    }

    /// Looks for a version of the page. A copy leaves if it has another version, or if the policy says so.
    pub fn find(&mut self, page: PageId, version: Version) -> Lookup<B> {
        let Some(copy) = self.get_mut(page) else { return Lookup::Nothing };
        if copy.envelope.version() != version {
            return self.forget(page).map_or(Lookup::Nothing, Lookup::Stale);
        }
        let (envelope, bytes) = (copy.envelope, copy.bytes.clone());
        let is_kept = self.policy != TierPolicy::Demote;
        let read = if is_kept { self.order.read(page) } else { None };
        let stays = read.is_some_and(|read| read.stays);
        if !is_kept {
            self.forget(page);
        } else if let Some(read) = read.filter(|read| !read.stays) {
            self.slot(read.slot).take();
        }
        let stays_below = stays && self.policy == TierPolicy::Promote;
        Lookup::Right { copy: Copy { envelope, bytes }, stays, stays_below }
    }

    /// Hears how long pages stay in the pool's memory.
    pub fn hear_life(&mut self, life: Life) {
        self.order.hear_age(life.now, life.age);
    }

    /// Removes the page, if it is there.
    pub fn forget(&mut self, page: PageId) -> Option<B> {
        let slot = self.order.forget(page)?;
        self.slot(slot).take().map(|copy| copy.bytes)
    }

    /// Removes the page that is next to go.
    #[cfg(feature = "zstd")]
    pub fn eject(&mut self) -> Option<B> {
        let mut next = None;
        let (capacity, len) = (self.order.capacity(), self.order.len());
        self.order.resize(len.saturating_sub(1), &mut |ejected| next = Some(ejected.slot));
        self.order.resize(capacity, &mut |_| {});
        self.slot(next?).take().map(|copy| copy.bytes)
    }

    /// Pages of the range that may be there: all of a short range, otherwise those that are there.
    pub fn pages_of(&self, range: &TierRange) -> Vec<PageId> {
        let numbers = range.pages.clone();
        if numbers.end.saturating_sub(numbers.start) <= u64::from(self.len()) {
            return numbers.map(|number| PageId::in_file(range.file, number)).collect();
        }
        let mut found = Vec::new();
        self.order.for_each(&mut |page, _| {
            if page.file() == range.file && numbers.contains(&page.number()) {
                found.push(page);
            }
        });
        found
    }

    /// Changes the room to `pages` pages. Returns the bytes of pages that had to leave.
    ///
    /// # Errors
    ///
    /// If a tier cannot have that many. Nothing has changed then.
    pub fn resize(&mut self, pages: u64) -> Result<Vec<B>> {
        let capacity = capacity(pages)?;
        let mut ejected = Vec::new();
        self.order.resize(capacity, &mut |page| ejected.push(page.slot));
        Ok(ejected.into_iter().filter_map(|slot| self.slot(slot).take()).map(|copy| copy.bytes).collect())
    }

    /// Calls `visit` with each page and its copy, next to go first.
    pub fn for_each(&self, mut visit: impl FnMut(PageId, &Copy<B>)) {
        self.order.for_each(&mut |page, slot| {
            self.slots
                .get(slot.index())
                .and_then(Option::as_ref)
                .into_iter()
                .for_each(|copy| visit(page, copy));
        });
    }

    pub fn metadata_bytes(&self) -> u64 {
        (self.order.metadata_bytes() + self.slots.capacity() * size_of::<Option<Copy<B>>>()) as u64
    }
}

/// The number of pages, if a tier can have that many.
///
/// # Errors
///
/// If a tier cannot have that many.
pub(super) fn capacity(pages: u64) -> Result<u32> {
    let capacity = u32::try_from(pages).ok().filter(|capacity| *capacity <= TIER_FRAMES_MAX);
    capacity.ok_or_else(|| {
        let message = format!("room for {pages} pages, expected at most {TIER_FRAMES_MAX}");
        Error::new(ErrorKind::InvalidOptions, "open tier", message)
    })
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use bufpool_policies::FileId;

    use super::*;
    use crate::engine::PageName;

    const FILE: FileId = FileId(1);

    fn page(number: u64) -> PageId {
        PageId::in_file(FILE, number)
    }

    fn copy(number: u64, count: u64, bytes: u8) -> Copy<u8> {
        let name = PageName { file: FILE, file_tag: 0, number };
        Copy { envelope: Envelope::of(name, version(count), &[bytes; 512]), bytes }
    }

    fn client(policy: TierPolicy) -> Client {
        Client { policy, frames: 2, seed: 1 }
    }

    fn version(count: u64) -> Version {
        Version { epoch: 7, count }
    }

    #[test]
    fn each_copy_that_leaves_is_returned_once() {
        let mut copies = Copies::new(client(TierPolicy::Demote), 2).unwrap();
        let mut keep = |number, count, bytes| {
            let Kept { demoted, left } =
                copies.keep(page(number), copy(number, count, bytes), Offer::Demotion);
            (demoted, left)
        };
        assert_eq!(keep(1, 1, 10), (Demoted::Stored, None));
        assert_eq!(keep(2, 1, 20), (Demoted::Stored, None));
        assert_eq!(keep(1, 2, 11), (Demoted::Present, Some(10)), "an older one of the page");
        assert_eq!(keep(3, 1, 30), (Demoted::Stored, Some(20)), "the next to go");
        assert!(matches!(copies.find(page(1), version(1)), Lookup::Stale(11)));
        assert!(matches!(copies.find(page(1), version(2)), Lookup::Nothing));
        assert!(matches!(copies.find(page(3), version(1)), Lookup::Right { stays: false, .. }));
        assert_eq!((copies.len(), copies.forget(page(3))), (0, None));
    }

    #[test]
    fn copies_that_stay_are_renewed_if_their_contents_are_the_same() {
        let mut copies = Copies::new(client(TierPolicy::Inclusive), 2).unwrap();
        copies.keep(page(1), copy(1, 1, 10), Offer::Demotion);
        assert!(matches!(copies.find(page(1), version(1)), Lookup::Right { stays: true, .. }));
        assert!(copies.renew(page(1), copy(1, 2, 10).envelope));
        assert!(
            !copies.renew(page(1), copy(1, 3, 11).envelope)
                && !copies.renew(page(2), copy(2, 1, 10).envelope)
        );
        assert!(matches!(copies.find(page(1), version(2)), Lookup::Right { stays: true, .. }));
    }

    #[test]
    fn promoted_copies_are_kept_or_passed_up_and_never_both() {
        let mut copies = Copies::new(client(TierPolicy::Promote), 2).unwrap();
        let (mut kept, mut passed_up) = ([0; 2], [0; 2]);
        for count in 0..1000 {
            let Kept { demoted, left } = copies.keep(page(1), copy(1, count, 7), Offer::Fill);
            match demoted {
                Demoted::Stored => kept[0] += 1,
                Demoted::PassedUp => {
                    passed_up[0] += 1;
                    assert_eq!((left, copies.len()), (Some(7), 0));
                    continue;
                }
                other => panic!("{other:?}"),
            }
            let Lookup::Right { stays, stays_below, .. } = copies.find(page(1), version(count)) else {
                panic!("it was kept");
            };
            assert_eq!((stays, copies.len()), (stays_below, u32::from(stays)));
            if stays {
                kept[1] += 1;
            } else {
                passed_up[1] += 1;
            }
            copies.forget(page(1));
        }
        // Half of the frames are the pool's.
        let is_half = |at: usize| (kept[at] as f64 / (kept[at] + passed_up[at]) as f64 - 0.5).abs() < 0.08;
        assert!(is_half(0) && is_half(1), "{kept:?}, {passed_up:?}");
    }

    #[test]
    fn ranges_are_found_by_their_pages_or_by_those_that_are_there() {
        let mut copies = Copies::new(client(TierPolicy::Demote), 100).unwrap();
        for number in 0..20 {
            copies.keep(page(number), copy(number, 1, 0), Offer::Demotion);
        }
        for (file, pages, found) in [(FILE, 5..9, 4), (FILE, 15..u64::MAX, 5), (FileId(2), 0..u64::MAX, 0)] {
            let range = TierRange { file, file_tag: 0, pages };
            let gone = copies.pages_of(&range).into_iter().filter_map(|page| copies.forget(page)).count();
            assert_eq!(gone, found, "{range:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let kind = |policy, pages| Copies::<u8>::new(client(policy), pages).err().map(|error| error.kind());
        let adapt = TierPolicy::DemoteAdapt(bufpool_policies::tier::Segments::Uniform);
        assert_eq!(kind(adapt, 10), Some(ErrorKind::Unsupported));
        assert_eq!(kind(TierPolicy::Demote, u64::MAX), Some(ErrorKind::InvalidOptions));
        assert_eq!(kind(TierPolicy::Demote, u64::from(TIER_FRAMES_MAX) + 1), Some(ErrorKind::InvalidOptions));
        let mut none = Copies::new(client(TierPolicy::Demote), 0).unwrap();
        assert_eq!(none.keep(page(1), copy(1, 1, 3), Offer::Demotion).left, Some(3), "there is no room");
    }
}
