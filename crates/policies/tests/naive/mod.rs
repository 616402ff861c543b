//! A naive LRU-SP: plain vectors and linear searches, one line for each line of the algorithm.
//!
//! Blocks are named by their pages, since a page is in at most one frame. Positions in vectors are positions
//! in lists: index 0 is the head, the end that is replaced first.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod fifo2_sp;

use std::collections::{BTreeMap, BTreeSet};

use bufpool_policies::{Allocation, TenantStats};

/// The end of a level that is replaced first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The head.
    Lru,
    /// The tail.
    Mru,
}

#[derive(Clone, Debug)]
pub struct Block {
    pub page: u64,
    pub owner: usize,
    pub last_reference: u64,
    pub foreign: Option<u64>,
    /// Ledger stamp, for comparison with `foreign` only.
    pub stamp: i64,
    pub temporary: bool,
    /// Whether it came in ahead of its first access, and was not accessed yet.
    pub ahead: bool,
}

/// The directives of one tenant.
#[derive(Default, Debug)]
pub struct Pools {
    /// Every level that ever had a block: its pages from head to tail.
    pub levels: BTreeMap<i32, Vec<u64>>,
    pub policies: BTreeMap<i32, Order>,
    /// First page, last page and priority; the latest range that has a page counts.
    pub ranges: Vec<(u64, u64, i32)>,
}

/// The verdicts on an account's overrules, and whether its manager is revoked.
#[derive(Clone, Default, Debug)]
pub struct Record {
    /// For each overrule that was settled since the manager was restored last, whether it was wrong.
    verdicts: Vec<bool>,
    on_probation: bool,
    /// Accesses until the manager is restored; 0 if it is not revoked.
    sentence: usize,
    revocations: u64,
}

impl Record {
    /// Counts a reference or load of a block of the account.
    fn serve(&mut self) {
        if self.sentence > 0 {
            self.sentence -= 1;
            if self.sentence == 0 {
                *self = Record { on_probation: true, revocations: self.revocations, ..Record::default() };
            }
        }
    }

    fn is_revoked(&self) -> bool {
        self.sentence > 0
    }

    /// Settles an overrule. Returns whether that revokes the manager.
    fn settle(&mut self, is_wrong: bool, frames: usize) -> bool {
        self.verdicts.push(is_wrong);
        let last = &self.verdicts[self.verdicts.len().saturating_sub(256)..];
        let wrong = last.iter().filter(|wrong| **wrong).count();
        let on_probation = self.on_probation && self.verdicts.len() < 256;
        let limit_percent = if on_probation { 25 } else { 50 };
        let is_foolish = is_wrong && last.len() >= 128 && 100 * wrong > limit_percent * last.len();
        let is_revoked = is_foolish && self.sentence == 0;
        if is_revoked {
            self.sentence = (16 * frames) << self.revocations.min(6);
            self.revocations += 1;
        }
        is_revoked
    }
}

pub struct Naive {
    pub frames: usize,
    pub allocation: Allocation,
    pub shared_pages: bool,
    /// The ledger, head first.
    pub ledger: Vec<Block>,
    /// Pairs of an absent and a resident page.
    pub placeholders: Vec<(u64, u64)>,
    /// Absent pages whose placeholder an earlier manager made.
    pub inherited: BTreeSet<u64>,
    /// Absent pages whose placeholder was vindicated and that were not referenced since.
    pub vindicated: BTreeSet<u64>,
    /// For each tenant, the number of its account: its own number, or that of the commons, which is the
    /// number of tenants.
    pub account: Vec<usize>,
    /// For each account, as are `floors` and `caps`.
    pub pools: Vec<Option<Pools>>,
    pub floors: Vec<usize>,
    pub caps: Vec<usize>,
    pub pinned: BTreeSet<u64>,
    pub closed: Vec<bool>,
    /// Frames that the driver has borrowed.
    pub lent: usize,
    pub stats: Vec<TenantStats>,
    /// For each account. Of no effect without revocation.
    records: Vec<Record>,
    revocation: bool,
    pub now: u64,
    head_stamp: i64,
}

/// The outcome of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Hit,
    Loaded { evicted: Option<u64> },
    Exhausted,
}

impl Naive {
    pub fn new(frames: usize, tenants: usize, allocation: Allocation, shared_pages: bool) -> Self {
        Self {
            frames,
            allocation,
            shared_pages,
            ledger: Vec::new(),
            placeholders: Vec::new(),
            inherited: BTreeSet::new(),
            vindicated: BTreeSet::new(),
            account: (0..tenants).collect(),
            pools: (0..=tenants).map(|_| None).collect(),
            floors: vec![0; tenants + 1],
            caps: vec![frames; tenants + 1],
            pinned: BTreeSet::new(),
            closed: vec![false; tenants],
            lent: 0,
            stats: vec![TenantStats::default(); tenants],
            records: vec![Record::default(); tenants + 1],
            revocation: false,
            now: 0,
            head_stamp: 0,
        }
    }

    /// With revocation.
    pub fn revoking(self) -> Self {
        Self { revocation: true, ..self }
    }

    pub fn position(&self, page: u64) -> Option<usize> {
        self.ledger.iter().position(|block| block.page == page)
    }

    pub fn held(&self, account: usize) -> usize {
        self.ledger.iter().filter(|block| self.account[block.owner] == account).count()
    }

    /// Lets the tenant join the commons, whose manager gives up the most recently used page.
    pub fn join_commons(&mut self, tenant: usize) {
        let commons = self.stats.len();
        self.account[tenant] = commons;
        let policies = BTreeMap::from([(0, Order::Mru)]);
        self.pools[commons].get_or_insert_with(|| Pools { policies, ..Pools::default() });
    }

    fn leave_commons(&mut self, tenant: usize) {
        let own = self.ledger.iter().filter(|block| block.owner == tenant).map(|block| block.page);
        let account = std::mem::replace(&mut self.account[tenant], tenant);
        if account != tenant {
            own.collect::<Vec<_>>().into_iter().for_each(|page| self.leave_pools(account, page));
        }
    }

    pub fn set_floor(&mut self, tenant: usize, floor: usize) {
        if floor != self.floors[self.account[tenant]] {
            self.leave_commons(tenant);
            self.floors[tenant] = floor;
        }
    }

    /// Closes the tenant. Its blocks stay, without placeholders that point to them, and without a manager
    /// other than that of the commons. Accesses of the tenant that were under way may still come.
    pub fn close(&mut self, tenant: usize) {
        self.closed[tenant] = true;
        self.set_floor(tenant, 0);
        if self.account[tenant] == tenant {
            self.pools[tenant] = None;
        }
        let own = self.ledger.iter().filter(|block| block.owner == tenant).map(|block| block.page);
        for holder in own.collect::<Vec<_>>() {
            let claim = self.placeholders.iter().find(|(_, to)| *to == holder).map(|(absent, _)| *absent);
            claim.into_iter().for_each(|absent| self.forget(absent));
        }
        self.end_if_empty(tenant);
    }

    /// Resets the account of a closed tenant without blocks to the state of a new one.
    fn end_if_empty(&mut self, tenant: usize) {
        let is_empty = self.ledger.iter().all(|block| block.owner != tenant);
        if self.closed[tenant] && is_empty && self.account[tenant] == tenant {
            self.pools[tenant] = None;
            self.caps[tenant] = self.frames;
            self.records[tenant] = Record::default();
        }
    }

    pub fn access(&mut self, tenant: usize, page: u64) -> Outcome {
        if let Some(at) = self.position(page) {
            self.stats[tenant].accesses += 1;
            self.stats[tenant].hits += 1;
            self.reference(at, tenant);
            return Outcome::Hit;
        }
        self.vindicated.remove(&page);
        let outcome = self.miss(tenant, page, false);
        if let Outcome::Loaded { .. } = outcome {
            self.stats[tenant].accesses += 1;
            self.stats[tenant].misses += 1;
        }
        outcome
    }

    /// Brings in the page ahead of its first access, unless it is resident.
    pub fn bring_ahead(&mut self, tenant: usize, page: u64) -> Outcome {
        if self.position(page).is_some() {
            return Outcome::Hit;
        }
        self.vindicated.remove(&page);
        self.miss(tenant, page, true)
    }

    /// The HIT step.
    fn reference(&mut self, at: usize, by: usize) {
        self.now += 1;
        let mut block = self.ledger.remove(at);
        let (page, owner) = (block.page, block.owner);
        block.last_reference = self.now;
        block.stamp = self.now as i64;
        let account = self.account[owner];
        if self.account[by] != account {
            block.foreign = Some(self.now);
        }
        let is_first = std::mem::take(&mut block.ahead);
        self.ledger.push(block);
        self.serve(account);
        self.stats[owner].prefetch_used += u64::from(is_first);
        if let Some(absent) = self.settle_placeholder_to(page, false) {
            self.stats[owner].vindications += 1;
            self.vindicated.insert(absent);
        }
        if self.pools[account].is_some() {
            let at = self.ledger.len() - 1;
            let level = if is_first || std::mem::take(&mut self.ledger[at].temporary) {
                self.base(account, page)
            } else {
                self.level_of(account, page)
            };
            self.leave_pools(account, page);
            self.level(account, level).push(page);
        }
    }

    fn miss(&mut self, tenant: usize, page: u64, ahead: bool) -> Outcome {
        let mut candidate = None;
        let mut by_placeholder = false;
        if let Some((_, holder)) = self.placeholders.iter().copied().find(|(absent, _)| *absent == page) {
            let at = self.position(holder).expect("placeholders point to resident pages");
            let owner = self.ledger[at].owner;
            if self.pinned.contains(&holder) {
                self.reference(at, owner);
                // The page that is missed is about to be referenced.
                self.vindicated.remove(&page);
            } else {
                if ahead {
                    // Only a miss of a process shows a mistake.
                    self.drop_placeholder_to(holder);
                    self.inherited.remove(&page);
                } else {
                    self.settle_placeholder_to(holder, true);
                    self.stats[owner].mistakes += 1;
                }
                candidate = Some(holder);
                by_placeholder = true;
            }
        }
        let mut heir = tenant;
        if candidate.is_none() {
            let account = self.account[tenant];
            if self.has_free() && self.held(account) < self.caps[account] {
                self.load(page, tenant, heir, ahead);
                return Outcome::Loaded { evicted: None };
            }
            candidate = self.ledger.iter().find(|block| self.may_give(block, tenant)).map(|block| block.page);
        }
        let Some(candidate) = candidate else { return Outcome::Exhausted };
        let owner = self.owner(candidate);
        if by_placeholder && self.shared_pages && self.account[owner] != self.account[tenant] {
            heir = owner;
        }
        let victim = self.decide(owner, candidate);
        self.evict(victim);
        self.load(page, tenant, heir, ahead);
        Outcome::Loaded { evicted: Some(victim) }
    }

    fn has_free(&self) -> bool {
        self.ledger.len() + self.lent < self.frames
    }

    /// Evicts the page that would make room for the tenant's next one, and lends its frame to the driver.
    pub fn evict_next(&mut self, tenant: usize) -> Option<u64> {
        if self.has_free() || self.caps[self.account[tenant]] < self.frames {
            return None;
        }
        let account = self.account[tenant];
        if self.floors[account] > 0 && self.held(account) <= self.floors[account] {
            return None;
        }
        let candidate = self.ledger.iter().find(|block| self.may_give(block, tenant))?;
        let (owner, candidate) = (candidate.owner, candidate.page);
        let victim = self.decide(owner, candidate);
        self.evict(victim);
        self.lent += 1;
        Some(victim)
    }

    fn evict(&mut self, victim: u64) {
        let block = self.ledger.remove(self.position(victim).unwrap());
        self.leave_pools(self.account[block.owner], victim);
        self.stats[block.owner].evictions += 1;
        self.stats[block.owner].prefetch_wasted += u64::from(block.ahead);
        self.end_if_empty(block.owner);
    }

    /// The victim if the ledger names `candidate`. Swaps and placeholders are updated.
    fn decide(&mut self, owner: usize, candidate: u64) -> u64 {
        let mut victim = candidate;
        let account = self.account[owner];
        let has_say = self.pools[account].is_some() && self.records[account].sentence == 0;
        let is_known = !self.ledger[self.position(candidate).unwrap()].ahead;
        if has_say && is_known && self.allocation != Allocation::GlobalLru {
            self.stats[owner].decisions += 1;
            victim = self.choose(account, candidate);
        }
        if victim == candidate {
            self.settle_placeholder_to(candidate, false);
            return victim;
        }
        self.stats[owner].overrules += 1;
        if self.allocation == Allocation::AllocLru {
            return victim;
        }
        let (a, b) = (self.position(candidate).unwrap(), self.position(victim).unwrap());
        self.ledger.swap(a, b);
        let stamp = self.ledger[a].stamp;
        self.ledger[a].stamp = self.ledger[b].stamp;
        self.ledger[b].stamp = stamp;
        if self.allocation == Allocation::LruS {
            return victim;
        }
        self.settle_placeholder_to(candidate, false);
        match self.drop_placeholder_to(victim) {
            Some(absent) => self.placeholders.push((absent, candidate)),
            None => self.placeholders.push((victim, candidate)),
        }
        victim
    }

    /// The priority pools' choice.
    fn choose(&self, account: usize, candidate: u64) -> u64 {
        let oldest = self.ledger.first().map(|block| block.stamp).unwrap();
        let takeable = |page: &u64| {
            let block = &self.ledger[self.position(*page).unwrap()];
            let is_shared = self.shared_pages && block.foreign.is_some_and(|at| at as i64 >= oldest);
            !self.pinned.contains(page) && (*page == candidate || !is_shared)
        };
        let pools = self.pools[account].as_ref().unwrap();
        for (priority, pages) in &pools.levels {
            let found = match pools.policies.get(priority) {
                Some(Order::Mru) => pages.iter().rev().find(|page| takeable(page)),
                _ => pages.iter().find(|page| takeable(page)),
            };
            if let Some(page) = found {
                return *page;
            }
        }
        candidate
    }

    fn may_give(&self, block: &Block, tenant: usize) -> bool {
        let (account, owner) = (self.account[tenant], self.account[block.owner]);
        let own = owner == account;
        let eligible = if self.held(account) >= self.caps[account] {
            own
        } else {
            own || self.held(owner) > self.floors[owner]
        };
        eligible && !self.pinned.contains(&block.page)
    }

    fn load(&mut self, page: u64, by: usize, owner: usize, ahead: bool) {
        self.now += 1;
        let account = self.account[owner];
        let foreign = (self.account[by] != account).then_some(self.now);
        let (last_reference, stamp) = (self.now, self.now as i64);
        self.ledger.push(Block { page, owner, last_reference, foreign, stamp, temporary: false, ahead });
        if ahead {
            self.stats[owner].prefetched += 1;
            return;
        }
        self.serve(account);
        if self.pools[account].is_some() {
            let level = self.base(account, page);
            self.level(account, level).push(page);
        }
    }

    // ---- the rest of a page's life

    pub fn discard(&mut self, page: u64) {
        let Some(at) = self.position(page) else { return };
        let absent = self.drop_placeholder_to(page);
        absent.map(|absent| self.inherited.remove(&absent));
        let block = self.ledger.remove(at);
        self.stats[block.owner].prefetch_wasted += u64::from(block.ahead);
        self.leave_pools(self.account[block.owner], page);
        self.end_if_empty(block.owner);
    }

    /// Ends the identity of `page`, which is absent.
    pub fn forget(&mut self, page: u64) {
        self.vindicated.remove(&page);
        self.inherited.remove(&page);
        let Some((_, holder)) = self.placeholders.iter().copied().find(|(absent, _)| *absent == page) else {
            return;
        };
        self.drop_placeholder_to(holder);
        let at = self.position(holder).unwrap();
        let mut block = self.ledger.remove(at);
        self.head_stamp -= 1;
        block.stamp = self.head_stamp;
        self.ledger.insert(0, block);
    }

    /// Sets the tenant's cap, and evicts its pages above the cap. Returns them.
    pub fn set_cap(&mut self, tenant: usize, cap: usize) -> Vec<u64> {
        if cap != self.caps[self.account[tenant]] {
            self.leave_commons(tenant);
            self.caps[tenant] = cap;
        }
        let mut gone = Vec::new();
        while self.held(tenant) > cap {
            let takeable = |block: &&Block| block.owner == tenant && !self.pinned.contains(&block.page);
            let Some(candidate) = self.ledger.iter().find(takeable).map(|block| block.page) else { break };
            let victim = self.decide(tenant, candidate);
            self.evict(victim);
            gone.push(victim);
        }
        gone
    }

    // ---- directives

    fn manage(&mut self, tenant: usize) {
        self.leave_commons(tenant);
        if self.pools[tenant].is_none() {
            let holders = self.placeholders.iter().filter(|(_, holder)| self.owner(*holder) == tenant);
            let absent: Vec<u64> = holders.map(|(absent, _)| *absent).collect();
            self.inherited.extend(absent);
            let mut pools = Pools::default();
            let own = self.ledger.iter().filter(|block| block.owner == tenant && !block.ahead);
            pools.levels.insert(0, own.map(|block| block.page).collect());
            self.pools[tenant] = Some(pools);
        }
    }

    pub fn set_policy(&mut self, tenant: usize, priority: i32, order: Order) {
        self.manage(tenant);
        let pools = self.pools[tenant].as_mut().unwrap();
        pools.policies.insert(priority, order);
    }

    pub fn set_priority(&mut self, tenant: usize, first: u64, last: u64, priority: i32) -> usize {
        self.manage(tenant);
        self.pools[tenant].as_mut().unwrap().ranges.push((first, last, priority));
        let mut moved = self.own_in(tenant, first, last);
        moved.retain(|page| !self.ledger[self.position(*page).unwrap()].temporary);
        moved.retain(|page| self.level_of(tenant, *page) != priority);
        self.move_group(tenant, &moved, priority);
        moved.len()
    }

    pub fn set_temporary(&mut self, tenant: usize, first: u64, last: u64, priority: i32) -> usize {
        self.manage(tenant);
        let mut moved = self.own_in(tenant, first, last);
        let marked = moved.len();
        for page in &moved {
            let at = self.position(*page).unwrap();
            self.ledger[at].temporary = true;
        }
        moved.retain(|page| self.level_of(tenant, *page) != priority);
        self.move_group(tenant, &moved, priority);
        marked
    }

    /// The tenant's resident pages in a range, least recently referenced first.
    fn own_in(&self, tenant: usize, first: u64, last: u64) -> Vec<u64> {
        let inside =
            |block: &&Block| block.owner == tenant && !block.ahead && (first..=last).contains(&block.page);
        let mut own: Vec<&Block> = self.ledger.iter().filter(inside).collect();
        own.sort_by_key(|block| block.last_reference);
        own.into_iter().map(|block| block.page).collect()
    }

    fn move_group(&mut self, tenant: usize, group: &[u64], priority: i32) {
        group.iter().for_each(|page| self.leave_pools(tenant, *page));
        let pools = self.pools[tenant].as_mut().unwrap();
        let is_mru = matches!(pools.policies.get(&priority), Some(Order::Mru));
        let level = pools.levels.entry(priority).or_default();
        let at = if is_mru { 0 } else { level.len() };
        level.splice(at..at, group.iter().copied());
    }

    // ---- revocation

    /// Counts a reference or load of a block of the account.
    fn serve(&mut self, account: usize) {
        self.records[account].serve();
    }

    fn settle_placeholder_to(&mut self, holder: u64, is_wrong: bool) -> Option<u64> {
        let absent = self.drop_placeholder_to(holder)?;
        if self.inherited.remove(&absent) {
            return Some(absent);
        }
        let owner = self.owner(holder);
        let record = &mut self.records[self.account[owner]];
        self.stats[owner].revocations += u64::from(self.revocation && record.settle(is_wrong, self.frames));
        Some(absent)
    }

    // ---- small things

    fn drop_placeholder_to(&mut self, holder: u64) -> Option<u64> {
        let at = self.placeholders.iter().position(|(_, to)| *to == holder)?;
        Some(self.placeholders.remove(at).0)
    }

    fn owner(&self, page: u64) -> usize {
        self.ledger[self.position(page).unwrap()].owner
    }

    fn base(&self, account: usize, page: u64) -> i32 {
        let ranges = &self.pools[account].as_ref().unwrap().ranges;
        let latest = ranges.iter().rev().find(|(first, last, _)| (*first..=*last).contains(&page));
        latest.map_or(0, |range| range.2)
    }

    fn level(&mut self, account: usize, priority: i32) -> &mut Vec<u64> {
        self.pools[account].as_mut().unwrap().levels.entry(priority).or_default()
    }

    fn level_of(&self, account: usize, page: u64) -> i32 {
        let levels = &self.pools[account].as_ref().unwrap().levels;
        *levels.iter().find(|(_, pages)| pages.contains(&page)).expect("a managed block is in a level").0
    }

    fn leave_pools(&mut self, account: usize, page: u64) {
        if let Some(pools) = &mut self.pools[account] {
            pools.levels.values_mut().for_each(|level| level.retain(|other| *other != page));
        }
    }

    /// The shadow ledger: for each block of the ledger the absent page whose placeholder points to it or,
    /// without one, the block's own page.
    pub fn shadow(&self) -> Vec<u64> {
        let claim = |page| self.placeholders.iter().find(|(_, to)| *to == page).map(|(absent, _)| *absent);
        self.ledger.iter().map(|block| claim(block.page).unwrap_or(block.page)).collect()
    }
}
