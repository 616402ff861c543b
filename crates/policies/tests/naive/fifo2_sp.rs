//! A naive FIFO2-SP: two vectors of pages, and a list of holders with marks; one line for each line of the
//! algorithm.
//!
//! There is no commons: every tenant has an account of its own.

use std::collections::BTreeSet;

use bufpool_policies::TenantStats;

use super::{Outcome, Record};

/// Which page a tenant's manager gives up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// The least recently used one.
    Oldest,
    /// The most recently used one.
    Newest,
    /// The one with the least [key](scattered).
    Scattered,
}

/// An order of pages that has nothing to do with their use.
pub fn scattered(page: u64) -> (u64, u64) {
    (page * 7919 % 101, page)
}

#[derive(Clone, Debug)]
pub struct Block {
    pub page: u64,
    pub owner: usize,
    /// The reference bit.
    referenced: bool,
    /// Whether it came in ahead of its first access, and was not accessed yet.
    ahead: bool,
}

/// A placeholder, `holder[absent] = page`: `page` is in memory, and `absent` was evicted instead.
#[derive(Clone, Debug)]
struct Holder {
    absent: u64,
    page: u64,
    /// Whether `page` was referenced since the holder was made.
    referenced_since: bool,
    /// Whether an earlier manager made it.
    is_inherited: bool,
}

pub struct Fifo2Sp {
    frames: usize,
    /// In order of arrival.
    pub blocks: Vec<Block>,
    active: Vec<u64>,
    inactive: Vec<u64>,
    holders: Vec<Holder>,
    /// For each tenant: its manager, and the pages that the manager knows, in order of use.
    managers: Vec<Option<(Advice, Vec<u64>)>>,
    records: Vec<Record>,
    pub floors: Vec<usize>,
    pub caps: Vec<usize>,
    pub pinned: BTreeSet<u64>,
    pub closed: Vec<bool>,
    pub lent: usize,
    pub stats: Vec<TenantStats>,
}

impl Fifo2Sp {
    pub fn new(frames: usize, tenants: usize) -> Self {
        Self {
            frames,
            blocks: Vec::new(),
            active: Vec::new(),
            inactive: Vec::new(),
            holders: Vec::new(),
            managers: vec![None; tenants],
            records: vec![Record::default(); tenants],
            floors: vec![0; tenants],
            caps: vec![frames; tenants],
            pinned: BTreeSet::new(),
            closed: vec![false; tenants],
            lent: 0,
            stats: vec![TenantStats::default(); tenants],
        }
    }

    // ---- the algorithm

    fn refill(&mut self) {
        while self.inactive.len() < (2 * (self.active.len() + self.inactive.len())).div_ceil(3) {
            let page = self.active.remove(0);
            self.block(page).referenced = false;
            self.inactive.push(page);
        }
    }

    /// Evicts a page to make room for one of `tenant`. Returns it.
    fn reclaim_one(&mut self, tenant: usize) -> Option<u64> {
        let is_at_cap = self.held(tenant) >= self.caps[tenant];
        if self.is_privileged(tenant) && is_at_cap {
            return self.oldest_own(tenant).map(|page| self.replace(page));
        }
        self.refill();
        let (mut chances, mut passed) = (0, 0);
        while passed < self.inactive.len() {
            let s = self.inactive[passed];
            if !self.may_give(s, tenant) {
                passed += 1;
            } else if self.block(s).referenced && chances < 2 * self.inactive.len() {
                self.block(s).referenced = false;
                self.inactive.remove(passed);
                self.inactive.push(s);
                chances += 1;
            } else if self.pinned.contains(&s) {
                passed += 1;
            } else {
                return Some(self.replace(s));
            }
        }
        let mut active = self.active.iter().copied();
        let first = active.find(|page| self.may_give(*page, tenant) && !self.pinned.contains(page));
        let own = || self.oldest_own(tenant).filter(|_| self.is_privileged(tenant));
        first.or_else(own).map(|page| self.replace(page))
    }

    /// Evicts the candidate `s`, or the page that its manager names instead. Returns the page.
    fn replace(&mut self, s: u64) -> u64 {
        let t = self.owner(s);
        let mut r = s;
        let is_known = !self.block(s).ahead;
        if let Some((advice, known)) = &self.managers[t]
            && is_known
            && !self.records[t].is_revoked()
        {
            self.stats[t].decisions += 1;
            let mut takeable = known.iter().copied().filter(|page| !self.pinned.contains(page));
            r = match advice {
                Advice::Oldest => takeable.next(),
                Advice::Newest => takeable.next_back(),
                Advice::Scattered => takeable.min_by_key(|page| scattered(*page)),
            }
            .unwrap_or(s);
        }
        if r != s {
            self.stats[t].overrules += 1;
            if !self.is_privileged(t) {
                self.swap_and_hold(s, r);
            }
        } else {
            self.end_holder_of(s, Some(false));
        }
        self.unlink(r);
        self.stats[t].evictions += 1;
        r
    }

    /// Takes `s` out of its queue, puts it before `r` in the queue of `r`, and makes a holder.
    fn swap_and_hold(&mut self, s: u64, r: u64) {
        self.leave_queues(s);
        let queue = if self.active.contains(&r) { &mut self.active } else { &mut self.inactive };
        let at = queue.iter().position(|page| *page == r).expect("it is in a queue");
        queue.insert(at, s);
        self.end_holder_of(s, Some(false));
        let passed_on = self.holders.iter().position(|holder| holder.page == r && !holder.referenced_since);
        match passed_on {
            Some(at) => self.holders[at].page = s,
            None => {
                self.holders.retain(|holder| holder.page != r);
                let (referenced_since, is_inherited) = (false, false);
                self.holders.push(Holder { absent: r, page: s, referenced_since, is_inherited });
            }
        }
    }

    /// Brings in `page`, which is absent.
    fn fault(&mut self, tenant: usize, page: u64, ahead: bool) -> Outcome {
        if let Some(at) = self.holders.iter().position(|holder| holder.absent == page) {
            let holder = self.holders[at].clone();
            let t = self.owner(holder.page);
            if holder.referenced_since {
                self.holders.remove(at);
            } else if self.pinned.contains(&holder.page) {
                self.reference(holder.page);
                self.holders.retain(|holder| holder.absent != page);
            } else {
                self.end_holder_of(holder.page, (!ahead).then_some(true));
                self.stats[t].mistakes += u64::from(!ahead);
                self.unlink(holder.page);
                self.stats[t].evictions += 1;
                self.load(page, tenant, ahead);
                return Outcome::Loaded { evicted: Some(holder.page) };
            }
        }
        if self.has_free() && self.held(tenant) < self.caps[tenant] {
            self.load(page, tenant, ahead);
            return Outcome::Loaded { evicted: None };
        }
        match self.reclaim_one(tenant) {
            Some(gone) => {
                self.load(page, tenant, ahead);
                Outcome::Loaded { evicted: Some(gone) }
            }
            None => Outcome::Exhausted,
        }
    }

    // ---- events

    pub fn access(&mut self, tenant: usize, page: u64) -> Outcome {
        let is_hit = self.is_resident(page);
        let outcome = if is_hit { Outcome::Hit } else { self.fault(tenant, page, false) };
        if outcome != Outcome::Exhausted {
            let stats = &mut self.stats[tenant];
            stats.accesses += 1;
            stats.hits += u64::from(is_hit);
            stats.misses += u64::from(!is_hit);
        }
        if is_hit {
            self.reference(page);
        }
        outcome
    }

    /// Brings in the page ahead of its first access, unless it is resident.
    pub fn bring_ahead(&mut self, tenant: usize, page: u64) -> Outcome {
        if self.is_resident(page) { Outcome::Hit } else { self.fault(tenant, page, true) }
    }

    fn reference(&mut self, page: u64) {
        let owner = self.owner(page);
        let is_privileged = self.is_privileged(owner);
        let block = self.block(page);
        block.referenced = !is_privileged;
        let is_first = std::mem::take(&mut block.ahead);
        self.stats[owner].prefetch_used += u64::from(is_first);
        self.records[owner].serve();
        if let Some(at) =
            self.holders.iter().position(|holder| holder.page == page && !holder.referenced_since)
        {
            self.holders[at].referenced_since = true;
            self.stats[owner].vindications += 1;
            if !self.holders[at].is_inherited {
                self.verdict(owner, false);
            }
        }
        if let Some((_, known)) = &mut self.managers[owner] {
            known.retain(|other| *other != page);
            known.push(page);
        }
    }

    fn load(&mut self, page: u64, owner: usize, ahead: bool) {
        self.blocks.push(Block { page, owner, referenced: false, ahead });
        if !self.is_privileged(owner) {
            self.active.push(page);
        }
        if ahead {
            self.stats[owner].prefetched += 1;
            return;
        }
        self.records[owner].serve();
        if let Some((_, known)) = &mut self.managers[owner] {
            known.push(page);
        }
    }

    /// Evicts the page that would make room for the tenant's next one, and lends its frame to the driver.
    pub fn evict_next(&mut self, tenant: usize) -> Option<u64> {
        let is_at_floor = self.floors[tenant] > 0 && self.held(tenant) <= self.floors[tenant];
        if self.has_free() || self.caps[tenant] < self.frames || is_at_floor {
            return None;
        }
        let gone = self.reclaim_one(tenant)?;
        self.lent += 1;
        Some(gone)
    }

    /// Ends the page's identity.
    pub fn end(&mut self, page: u64) {
        if self.is_resident(page) {
            self.end_holder_of(page, None);
            self.unlink(page);
        } else if let Some(at) = self.holders.iter().position(|holder| holder.absent == page) {
            let holder = self.holders.remove(at);
            if !holder.referenced_since {
                self.goes_next(holder.page);
            }
        }
    }

    // ---- tenants

    pub fn set_manager(&mut self, tenant: usize, advice: Option<Advice>) {
        for at in 0..self.holders.len() {
            self.holders[at].is_inherited |= self.owner(self.holders[at].page) == tenant;
        }
        let known = self.blocks.iter().filter(|block| block.owner == tenant && !block.ahead);
        self.managers[tenant] = advice.map(|advice| (advice, known.map(|block| block.page).collect()));
    }

    pub fn set_floor(&mut self, tenant: usize, floor: usize) {
        if floor != self.floors[tenant] {
            self.floors[tenant] = floor;
            self.share_changed(tenant);
        }
    }

    /// Sets the tenant's cap, and evicts its pages above the cap. Returns them.
    pub fn set_cap(&mut self, tenant: usize, cap: usize) -> Vec<u64> {
        if cap != self.caps[tenant] {
            self.caps[tenant] = cap;
            self.share_changed(tenant);
        }
        let mut gone = Vec::new();
        while self.held(tenant) > cap {
            let Some(page) = self.reclaim_one(tenant) else { break };
            gone.push(page);
        }
        gone
    }

    fn share_changed(&mut self, tenant: usize) {
        let own: Vec<u64> = self.own(tenant).collect();
        for page in own {
            if self.is_privileged(tenant) {
                self.leave_queues(page);
                self.block(page).referenced = false;
                self.end_holder_of(page, None);
            } else if !self.active.contains(&page) && !self.inactive.contains(&page) {
                self.active.push(page);
            }
        }
    }

    pub fn close(&mut self, tenant: usize) {
        self.set_floor(tenant, 0);
        self.closed[tenant] = true;
        self.managers[tenant] = None;
        let own: Vec<u64> = self.own(tenant).collect();
        for page in own {
            if self.holders.iter().any(|holder| holder.page == page && !holder.referenced_since) {
                self.end_holder_of(page, None);
                self.goes_next(page);
            }
        }
        self.end_if_empty(tenant);
    }

    /// Resets a closed tenant without blocks to the state of a new one.
    fn end_if_empty(&mut self, tenant: usize) {
        if self.closed[tenant] && self.held(tenant) == 0 {
            self.caps[tenant] = self.frames;
            self.records[tenant] = Record::default();
        }
    }

    // ---- small things

    /// Whether the tenant has a fixed number of frames, which no other tenant can take.
    fn is_privileged(&self, tenant: usize) -> bool {
        self.floors[tenant] == self.caps[tenant]
    }

    fn may_give(&self, page: u64, tenant: usize) -> bool {
        let owner = self.owner(page);
        let is_open = self.held(owner) > self.floors[owner] && self.held(tenant) < self.caps[tenant];
        owner == tenant || is_open
    }

    fn oldest_own(&self, tenant: usize) -> Option<u64> {
        self.own(tenant).find(|page| !self.pinned.contains(page))
    }

    /// Makes `page` the first of the inactive queue, and the oldest of all blocks.
    fn goes_next(&mut self, page: u64) {
        let at = self.blocks.iter().position(|block| block.page == page).expect("it is resident");
        let block = self.blocks.remove(at);
        self.blocks.insert(0, Block { referenced: false, ..block });
        self.leave_queues(page);
        self.inactive.insert(0, page);
    }

    /// Ends the holder that points to `page`. `is_wrong` is the verdict on its overrule; `None` if it is not
    /// judged.
    fn end_holder_of(&mut self, page: u64, is_wrong: Option<bool>) {
        let at = self.holders.iter().position(|holder| holder.page == page && !holder.referenced_since);
        let ended = at.map(|at| self.holders[at].clone());
        self.holders.retain(|holder| holder.page != page);
        if let (Some(ended), Some(is_wrong)) = (ended, is_wrong)
            && !ended.is_inherited
        {
            self.verdict(self.owner(page), is_wrong);
        }
    }

    fn verdict(&mut self, tenant: usize, is_wrong: bool) {
        let is_revoked = self.records[tenant].settle(is_wrong, self.frames);
        self.stats[tenant].revocations += u64::from(is_revoked);
    }

    fn unlink(&mut self, page: u64) {
        self.holders.retain(|holder| holder.page != page);
        self.leave_queues(page);
        let at = self.blocks.iter().position(|block| block.page == page).expect("it is resident");
        let block = self.blocks.remove(at);
        self.stats[block.owner].prefetch_wasted += u64::from(block.ahead);
        if let Some((_, known)) = &mut self.managers[block.owner] {
            known.retain(|other| *other != page);
        }
        self.end_if_empty(block.owner);
    }

    fn leave_queues(&mut self, page: u64) {
        self.active.retain(|other| *other != page);
        self.inactive.retain(|other| *other != page);
    }

    fn has_free(&self) -> bool {
        self.blocks.len() + self.lent < self.frames
    }

    pub fn is_resident(&self, page: u64) -> bool {
        self.blocks.iter().any(|block| block.page == page)
    }

    pub fn held(&self, tenant: usize) -> usize {
        self.own(tenant).count()
    }

    fn own(&self, tenant: usize) -> impl Iterator<Item = u64> {
        self.blocks.iter().filter(move |block| block.owner == tenant).map(|block| block.page)
    }

    /// The number of holders whose page was not referenced since.
    pub fn outstanding(&self) -> usize {
        self.holders.iter().filter(|holder| !holder.referenced_since).count()
    }

    fn owner(&self, page: u64) -> usize {
        self.blocks.iter().find(|block| block.page == page).expect("it is resident").owner
    }

    fn block(&mut self, page: u64) -> &mut Block {
        self.blocks.iter_mut().find(|block| block.page == page).expect("it is resident")
    }
}
