//! Cost-benefit allocation (TIP2): frames go where they save most time.
//!
//! Frames are of three kinds: those of the LRU queue hold blocks that were accessed without a hint; hinted
//! ones hold blocks that some list names; the others hold blocks that were read from a list and are named no
//! further, and are of no value. The candidate is a frame of no value, else the cheapest of what the queue
//! and the lists offer. Managers are not asked, and LRU-SP's protections do not hold: for tenants that trust
//! each other's hints, and for comparison.
//!
//! Paper: Patterson, Gibson, Ginting, Stodolsky, Zelenka, "Informed Prefetching and Caching", SOSP '95.
//!
//! Cost: O(1) an unhinted access, and a step for each segment of the [curve](HitCurve) above the page; a
//! candidate O(lists log hints), and a step for each frame that may not be taken. A question that finds `n`
//! frames busy one after the other takes about n²/2 such steps.

use super::allocate::{Allocate, Arrival};
use super::ledger::{Eligible, Ledger};
use crate::{
    frame_table::FrameState,
    hints::{
        AccountHints, CostModel,
        cost_benefit::{Offer, cheapest},
        estimators::{AccessRate, HitCurve},
    },
    ids::{AccountId, FrameId, PageId, TenantId},
    list::{Links, List, NIL},
};

/// How [`Allocation::CostBenefit`](crate::Allocation::CostBenefit) prices frames.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct CostBenefitOptions {
    /// What an access costs.
    pub costs: CostModel,
    /// Whether blocks that were read from a list and are named no further enter the queue of unhinted blocks.
    /// Otherwise they are of no value.
    pub keep_read: bool,
    /// Whether frames are kept free for the queue of unhinted blocks while it pays to let it grow.
    pub reserve: bool,
}

/// The list a frame is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// None: the frame is empty.
    Nowhere,
    /// Those that a list named when they were used or came in last.
    Hinted,
    /// The queue of unhinted blocks.
    Queue,
    /// Those of no value.
    Worthless,
}

/// What the allocation keeps.
pub(crate) struct CostBenefit {
    options: CostBenefitOptions,
    curve: HitCurve,
    /// Per tenant.
    rates: Vec<AccessRate>,
    /// Unhinted blocks, the next to go first.
    queue: List,
    /// Blocks of no value, the oldest first.
    worthless: List,
    /// Blocks that a list names, or named; the one looked at longest ago first.
    hinted: List,
    links: Links,
    places: Vec<Place>,
}

impl CostBenefit {
    /// For a pool of `frames`.
    pub fn new(frames: u32) -> Self {
        let mut new = Self {
            options: CostBenefitOptions::default(),
            curve: HitCurve::new(frames),
            rates: Vec::new(),
            queue: List::new(),
            worthless: List::new(),
            hinted: List::new(),
            links: Links::default(),
            places: Vec::new(),
        };
        new.lengthen_to(frames);
        new
    }

    /// How frames are priced from here on.
    pub fn set_options(&mut self, options: CostBenefitOptions) {
        self.options = options;
    }

    /// The tenant's rate so far.
    pub fn rate(&mut self, tenant: TenantId) -> &mut AccessRate {
        if self.rates.len() <= tenant.index() {
            self.rates.resize(tenant.index() + 1, AccessRate::default());
        }
        &mut self.rates[tenant.index()]
    }

    /// Looks at the hinted frame that was looked at longest ago: if no list names its page any more, since
    /// its hint was dropped or its list closed, it is the next of the queue.
    fn look_at_hinted(&mut self, ledger: &Ledger) {
        let frame = self.hinted.head();
        if frame == NIL {
            return;
        }
        let page = ledger.frames[frame].page;
        if hinting(ledger).any(|hints| hints.is_named(page) || hints.is_awaited(page)) {
            self.hinted.move_to_tail(&mut self.links, frame);
        } else {
            self.put_first(frame);
        }
    }

    /// What a prefetch that is `depth` accesses ahead gains `tenant`, in seconds a second.
    pub fn prefetch_gain(&self, tenant: TenantId, depth: u64) -> f64 {
        let rate = self.rates.get(tenant.index()).copied().unwrap_or_default();
        self.options.costs.prefetch_gain_us(depth) * rate.hinted_per_us()
    }

    /// What it would gain to let the queue grow, and by how many frames; `None` if the reserve is off or
    /// there is nothing to gain.
    pub fn growth(&self) -> Option<(f64, u32)> {
        let steepest = self.curve.steepest(self.queue.len());
        let price = self.options.costs.shrinking_cost_us(steepest.per_buffer) * self.unhinted_per_us();
        (self.options.reserve && steepest.buffers > 0).then_some((price, steepest.buffers))
    }

    /// What the frame's block is worth: the greatest of what the queue and all lists say.
    fn price(&self, ledger: &Ledger, frame: u32) -> f64 {
        let of_queue = match self.places[frame as usize] {
            Place::Queue => self.queue_price(),
            Place::Nowhere | Place::Hinted | Place::Worthless => 0.0,
        };
        let page = ledger.frames[frame].page;
        let of_lists = hinting(ledger).flat_map(|hints| hints.reads_until(page));
        of_lists
            .map(|(tenant, distance)| {
                let rate = self.rates.get(tenant.index()).copied().unwrap_or_default();
                self.options.costs.ejection_cost_us(distance) * rate.hinted_per_us()
            })
            .fold(of_queue, f64::max)
    }

    /// What the queue's last buffer is worth, in seconds a second: the larger of what the queue would lose
    /// without it, and what a buffer gains on average along the steepest way to a longer queue.
    fn queue_price(&self) -> f64 {
        let length = self.queue.len();
        let slope = self.curve.local_slope(length).max(self.curve.steepest(length).per_buffer);
        self.options.costs.shrinking_cost_us(slope) * self.unhinted_per_us()
    }

    fn unhinted_per_us(&self) -> f64 {
        self.rates.iter().map(AccessRate::unhinted_per_us).sum()
    }

    fn put(&mut self, frame: u32, place: Place) {
        self.take_out(frame);
        match place {
            Place::Nowhere => {}
            Place::Queue => self.queue.push_tail(&mut self.links, frame),
            Place::Worthless => self.worthless.push_tail(&mut self.links, frame),
            Place::Hinted => self.hinted.push_tail(&mut self.links, frame),
        }
        self.places[frame as usize] = place;
    }

    fn put_first(&mut self, frame: u32) {
        self.take_out(frame);
        self.queue.push_head(&mut self.links, frame);
        self.places[frame as usize] = Place::Queue;
    }

    fn take_out(&mut self, frame: u32) {
        match std::mem::replace(&mut self.places[frame as usize], Place::Nowhere) {
            Place::Nowhere => {}
            Place::Queue => self.queue.remove(&mut self.links, frame),
            Place::Worthless => self.worthless.remove(&mut self.links, frame),
            Place::Hinted => self.hinted.remove(&mut self.links, frame),
        }
    }

    fn lengthen_to(&mut self, frames: u32) {
        let missing = (frames as usize).saturating_sub(self.places.len());
        self.links.add(missing as u32);
        self.places.resize(self.places.len() + missing, Place::Nowhere);
    }
}

/// Whether any list names the page.
fn is_named(ledger: &Ledger, page: PageId) -> bool {
    hinting(ledger).any(|hints| hints.is_named(page))
}

/// The lists of each account that has any.
fn hinting(ledger: &Ledger) -> impl Iterator<Item = &AccountHints> {
    ledger.hinting.iter().filter_map(|account| ledger.accounts[account.index()].hints.as_deref())
}

impl Allocate for CostBenefit {
    fn asks_managers(&self) -> bool {
        false
    }

    fn cheapest(&mut self, ledger: &mut Ledger, eligible: &Eligible) -> u32 {
        self.look_at_hinted(ledger);
        let may_take = |ledger: &Ledger, frame: u32| {
            ledger.frames.is_present(FrameId(frame)) && ledger.is_eligible(eligible, frame)
        };
        // One that a list names again meanwhile is of value.
        let mut worthless = self.worthless.iter(&self.links);
        let worthless =
            worthless.find(|frame| may_take(ledger, *frame) && !is_named(ledger, ledger.frames[*frame].page));
        if let Some(frame) = worthless {
            return frame;
        }
        let oldest = self.queue.iter(&self.links).find(|frame| may_take(ledger, *frame));
        let mut busy = |frame: FrameId| !may_take(ledger, frame.0);
        let farthest = hinting(ledger).flat_map(|hints| hints.last_of_each(&mut busy));
        let offered: Vec<u32> = oldest.into_iter().chain(farthest).collect();
        let offers = offered.into_iter().map(|frame| Offer { frame, cost: self.price(ledger, frame) });
        // If queue and lists offer nothing, what is left are blocks whose hints were dropped and that were
        // not looked at since.
        let dropped = || self.hinted.iter(&self.links).find(|frame| may_take(ledger, *frame));
        cheapest(offers).map(|offer| offer.frame).or_else(dropped).unwrap_or(NIL)
    }

    fn passed_over(&mut self, _ledger: &mut Ledger, eligible: &mut Eligible, candidate: u32) {
        eligible.refuse(candidate);
    }

    fn cost_to_give(&self, ledger: &Ledger, candidate: u32) -> f64 {
        self.price(ledger, candidate)
    }

    fn orders_by_use(&self) -> bool {
        false
    }

    fn referenced(&mut self, ledger: &mut Ledger, tenant: TenantId, frame: u32, is_hinted: bool) {
        let (page, account) = (ledger.frames[frame].page, ledger.account(ledger.frames[frame].owner));
        if ledger.renew(account, frame) {
            ledger.ledger_changed(account);
        }
        self.rate(tenant).access(is_hinted);
        let place = match self.places[frame as usize] {
            _ if !is_hinted => {
                self.curve.access(page);
                Place::Queue
            }
            // It keeps its place in the queue, which values it for the unhinted access that put it there.
            Place::Queue if !self.options.keep_read => return,
            _ if is_named(ledger, page) => Place::Hinted,
            _ if self.options.keep_read => {
                self.curve.pass(page);
                Place::Queue
            }
            _ => Place::Worthless,
        };
        self.put(frame, place);
    }

    fn entered(&mut self, ledger: &mut Ledger, _account: AccountId, frame: u32, arrival: Arrival) {
        self.lengthen_to(ledger.frames.len());
        let is_hinted = is_named(ledger, ledger.frames[frame].page);
        match arrival {
            Arrival::Missed => {}
            Arrival::Ahead if is_hinted => self.put(frame, Place::Hinted),
            Arrival::Ahead | Arrival::Restored => self.put(frame, Place::Queue),
        }
    }

    fn overruled(&mut self, _ledger: &mut Ledger, _account: AccountId, _candidate: u32, _victim: u32) {}

    fn departed(&mut self, ledger: &mut Ledger, frame: u32, makes_room: bool) {
        self.take_out(frame);
        if !makes_room && ledger.frames[frame].state == FrameState::Resident {
            self.curve.forget(ledger.frames[frame].page);
        }
    }

    fn demoted(&mut self, _ledger: &mut Ledger, frame: u32) {
        self.put_first(frame);
    }

    fn exchanged(&mut self, a: u32, b: u32) {
        let frames = 1 + a.max(b);
        self.lengthen_to(frames);
        let (of_a, of_b) = (self.places[a as usize], self.places[b as usize]);
        self.put(a, of_b);
        self.put(b, of_a);
    }

    fn account_opened(&mut self, _account: AccountId) {}

    fn metadata_bytes(&self) -> usize {
        self.curve.metadata_bytes()
            + self.rates.capacity() * size_of::<AccessRate>()
            + self.links.memory_bytes()
            + self.places.capacity()
    }

    fn check_invariants(&self, ledger: &Ledger) {
        self.queue.check_invariants(&self.links);
        self.worthless.check_invariants(&self.links);
        self.hinted.check_invariants(&self.links);
        for (frame, place) in (0..).zip(&self.places) {
            let state = ledger.frames[frame].state;
            let is_empty = matches!(state, FrameState::Free | FrameState::Limbo);
            assert_eq!(is_empty, *place == Place::Nowhere, "frame {frame}, {state:?}, in {place:?}");
        }
    }
}
