//! A naive simulator of two-level replacement, with plain vectors and linear searches.
//!
//! It is written from the rules alone (the steps of LRU-SP with retargeted placeholders, floors, caps, shared
//! pages, the meaning of directives and pins), not from the crate that it checks. It has no frames: a
//! resident block stands for its frame.

use std::collections::BTreeMap;

use bufpool_bench::simulate::{Counts, Setup};
use bufpool_bench::trace::{Directive, Item, Reference};
use bufpool_policies::Allocation;
use bufpool_policies::classic::PolicyKind;

/// A miss found every frame that it could take pinned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllPinned;

/// A resident block.
#[derive(Clone, Debug)]
struct Resident {
    block: u64,
    owner: u32,
    /// Position in the ledger, which is sorted by it. A swap exchanges the stamps of two blocks.
    stamp: u64,
    /// Number of the last reference or load.
    last: u64,
    /// Number of the last reference by another tenant than the owner.
    foreign: Option<u64>,
    is_temporary: bool,
}

/// The state of a tenant that has given a directive.
#[derive(Default, Debug)]
struct Managed {
    /// Long-term priorities, the latest last.
    ranges: Vec<(u64, u64, i32)>,
    policies: BTreeMap<i32, PolicyKind>,
    /// Blocks of each level, least recently referenced first.
    levels: BTreeMap<i32, Vec<u64>>,
}

impl Managed {
    fn base(&self, block: u64) -> i32 {
        let latest = self.ranges.iter().rev().find(|(first, last, _)| (first..=last).contains(&&block));
        latest.map_or(0, |(_, _, prio)| *prio)
    }

    fn level_of(&self, block: u64) -> i32 {
        let holds = |level: &Vec<u64>| level.contains(&block);
        *self.levels.iter().find(|(_, level)| holds(level)).expect("a resident block is in a level").0
    }

    fn policy(&self, prio: i32) -> PolicyKind {
        self.policies.get(&prio).copied().unwrap_or(PolicyKind::Lru)
    }

    fn take_out(&mut self, block: u64) {
        self.levels.values_mut().for_each(|level| level.retain(|other| *other != block));
    }

    fn append(&mut self, block: u64, prio: i32) {
        self.levels.entry(prio).or_default().push(block);
    }

    /// Moves blocks, sorted by last reference, into a level as one group.
    fn move_group(&mut self, group: &[u64], prio: i32) {
        group.iter().for_each(|block| self.take_out(*block));
        let level = self.levels.entry(prio).or_default();
        let at = if self.policies.get(&prio) == Some(&PolicyKind::Mru) { 0 } else { level.len() };
        level.splice(at..at, group.iter().copied());
    }
}

/// The simulated cache.
pub struct Oracle {
    allocation: Allocation,
    setup: Setup,
    /// Head first.
    ledger: Vec<Resident>,
    /// Placeholders: absent block, and the resident block that stayed in its stead.
    placeholders: Vec<(u64, u64)>,
    managed: BTreeMap<u32, Managed>,
    pins: BTreeMap<u64, u32>,
    now: u64,
    counts: BTreeMap<u32, Counts>,
}

impl Oracle {
    pub fn new(allocation: Allocation, setup: &Setup) -> Self {
        Self {
            allocation,
            setup: setup.clone(),
            ledger: Vec::new(),
            placeholders: Vec::new(),
            managed: BTreeMap::new(),
            pins: BTreeMap::new(),
            now: 0,
            counts: BTreeMap::new(),
        }
    }

    /// Plays everything and returns the counts of each tenant that made an access.
    pub fn play(mut self, items: &[Item]) -> Result<BTreeMap<u64, Counts>, AllPinned> {
        for item in items {
            match item {
                Item::Access(reference) => self.access(reference)?,
                Item::Directive(directive) => self.direct(directive),
            }
        }
        let counts = self.counts.into_iter().filter(|(_, counts)| counts.accesses > 0);
        Ok(counts.map(|(tenant, counts)| (u64::from(tenant), counts)).collect())
    }

    // ---- accesses

    fn access(&mut self, reference: &Reference) -> Result<(), AllPinned> {
        self.now += 1;
        let &Reference { block, tenant, .. } = reference;
        self.count(tenant).accesses += 1;
        if self.position(block).is_some() {
            self.count(tenant).hits += 1;
            self.hit(block, Some(tenant));
            return Ok(());
        }
        self.miss(block, tenant)
    }

    /// The HIT step. `by` is the tenant that accesses the block; `None` if a pinned block counts as
    /// referenced.
    fn hit(&mut self, block: u64, by: Option<u32>) {
        let at = self.position(block).expect("it was looked up");
        let mut resident = self.ledger.remove(at);
        let owner = resident.owner;
        resident.stamp = self.now;
        resident.last = self.now;
        if by.is_some_and(|by| by != owner) {
            resident.foreign = Some(self.now);
        }
        resident.is_temporary = false;
        self.ledger.push(resident);
        if self.drop_placeholder_to(block).is_some() {
            self.count(owner).vindications += 1;
        }
        if let Some(managed) = self.managed.get_mut(&owner) {
            managed.take_out(block);
            managed.append(block, managed.base(block));
        }
    }

    fn miss(&mut self, block: u64, tenant: u32) -> Result<(), AllPinned> {
        let mut heir = tenant;
        let named = self.placeholders.iter().find(|(absent, _)| *absent == block).map(|(_, stayed)| *stayed);
        let candidate = match named {
            Some(stayed) if self.is_pinned(stayed) => {
                self.hit(stayed, None);
                self.ordinary_candidate(tenant)?
            }
            Some(stayed) => {
                self.drop_placeholder_to(stayed);
                let owner = self.resident(stayed).owner;
                self.count(owner).mistakes += 1;
                if self.setup.shared_pages {
                    heir = owner;
                }
                Some(stayed)
            }
            None => self.ordinary_candidate(tenant)?,
        };
        if let Some(candidate) = candidate {
            self.make_room(candidate);
        }
        self.load(block, tenant, heir);
        Ok(())
    }

    /// The block that the ledger names; `None` if a free frame is used.
    fn ordinary_candidate(&self, tenant: u32) -> Result<Option<u64>, AllPinned> {
        let cap = self.setup.caps.get(&tenant).copied().unwrap_or(self.setup.frames);
        let is_at_cap = self.owned(tenant) >= cap as usize;
        if self.ledger.len() < self.setup.frames as usize && !is_at_cap {
            return Ok(None);
        }
        let is_eligible = |owner: u32| {
            let floor = self.setup.floors.get(&owner).copied().unwrap_or(0);
            owner == tenant || (!is_at_cap && self.owned(owner) > floor as usize)
        };
        self.ledger
            .iter()
            .find(|resident| is_eligible(resident.owner) && !self.is_pinned(resident.block))
            .map(|resident| Some(resident.block))
            .ok_or(AllPinned)
    }

    /// Steps 2 to 4: the candidate's manager may overrule, then the victim is evicted.
    fn make_room(&mut self, candidate: u64) {
        let owner = self.resident(candidate).owner;
        let mut victim = candidate;
        if self.allocation != Allocation::GlobalLru && self.managed.contains_key(&owner) {
            self.count(owner).decisions += 1;
            victim = self.choose(owner, candidate);
        }
        if victim != candidate {
            self.count(owner).overrules += 1;
            self.overrule(candidate, victim);
        } else {
            self.drop_placeholder_to(victim);
        }
        self.count(owner).evictions += 1;
        self.ledger.retain(|resident| resident.block != victim);
        if let Some(managed) = self.managed.get_mut(&owner) {
            managed.take_out(victim);
        }
    }

    /// The block chosen by the policy of the lowest level that has one that may go.
    fn choose(&self, owner: u32, candidate: u64) -> u64 {
        let head = self.ledger[0].stamp;
        let may_go = |block: &u64| {
            let is_protected = self.setup.shared_pages
                && *block != candidate
                && self.resident(*block).foreign.is_some_and(|foreign| foreign >= head);
            !self.is_pinned(*block) && !is_protected
        };
        let managed = &self.managed[&owner];
        for (prio, level) in &managed.levels {
            let chosen = match managed.policy(*prio) {
                PolicyKind::Lru => level.iter().find(|block| may_go(block)),
                PolicyKind::Mru => level.iter().rev().find(|block| may_go(block)),
                other => panic!("{other} is not simulated here"),
            };
            if let Some(chosen) = chosen {
                return *chosen;
            }
        }
        panic!("the candidate itself may go")
    }

    fn overrule(&mut self, candidate: u64, victim: u64) {
        if self.allocation != Allocation::AllocLru {
            let at_candidate = self.position(candidate).expect("resident");
            let at_victim = self.position(victim).expect("resident");
            let stamps = (self.ledger[at_candidate].stamp, self.ledger[at_victim].stamp);
            self.ledger.swap(at_candidate, at_victim);
            (self.ledger[at_candidate].stamp, self.ledger[at_victim].stamp) = stamps;
        }
        if self.allocation == Allocation::LruSp {
            self.drop_placeholder_to(candidate);
            let absent = self.drop_placeholder_to(victim).unwrap_or(victim);
            self.placeholders.push((absent, candidate));
        }
    }

    fn load(&mut self, block: u64, tenant: u32, owner: u32) {
        let foreign = (tenant != owner).then_some(self.now);
        let (stamp, last) = (self.now, self.now);
        self.ledger.push(Resident { block, owner, stamp, last, foreign, is_temporary: false });
        if let Some(managed) = self.managed.get_mut(&owner) {
            managed.append(block, managed.base(block));
        }
    }

    // ---- directives

    fn direct(&mut self, directive: &Directive) {
        match *directive {
            Directive::Policy { tenant, prio, policy } => {
                self.manage(tenant).policies.insert(prio, policy);
            }
            Directive::Priority { tenant, first, last, prio } => {
                self.manage(tenant).ranges.push((first, last, prio));
                let moved = self.group(tenant, first, last, prio, |resident| !resident.is_temporary);
                self.manage(tenant).move_group(&moved, prio);
            }
            Directive::TemporaryPriority { tenant, first, last, prio } => {
                self.manage(tenant);
                let moved = self.group(tenant, first, last, prio, |_| true);
                for resident in &mut self.ledger {
                    if resident.owner == tenant && (first..=last).contains(&resident.block) {
                        resident.is_temporary = true;
                    }
                }
                self.manage(tenant).move_group(&moved, prio);
            }
            Directive::File { .. }
            | Directive::Create(_)
            | Directive::Hint { .. }
            | Directive::HintsAll { .. }
            | Directive::HintsReplan { .. }
            | Directive::HintsEnd { .. }
            | Directive::Program { .. }
            | Directive::ProgramEnd { .. }
            | Directive::Send { .. }
            | Directive::Compute { .. } => {}
            Directive::Pin(block) => *self.pins.entry(block).or_insert(0) += 1,
            Directive::Unpin(block) => *self.pins.get_mut(&block).expect("pinned") -= 1,
        }
    }

    /// The tenant's blocks in `first..=last` that `moves` accepts and that are not in level `prio`, by last
    /// reference.
    fn group(
        &self,
        tenant: u32,
        first: u64,
        last: u64,
        prio: i32,
        moves: impl Fn(&Resident) -> bool,
    ) -> Vec<u64> {
        let managed = &self.managed[&tenant];
        let mut group: Vec<&Resident> = self
            .ledger
            .iter()
            .filter(|resident| resident.owner == tenant && (first..=last).contains(&resident.block))
            .filter(|resident| moves(resident) && managed.level_of(resident.block) != prio)
            .collect();
        group.sort_by_key(|resident| resident.last);
        group.iter().map(|resident| resident.block).collect()
    }

    /// The tenant's state. Before its first directive a tenant's blocks are in no level; with it they enter
    /// level 0, in ledger order.
    fn manage(&mut self, tenant: u32) -> &mut Managed {
        let ledger = &self.ledger;
        self.managed.entry(tenant).or_insert_with(|| {
            let own = ledger.iter().filter(|resident| resident.owner == tenant);
            let mut managed = Managed::default();
            own.for_each(|resident| managed.append(resident.block, 0));
            managed
        })
    }

    // ---- looking

    fn count(&mut self, tenant: u32) -> &mut Counts {
        self.counts.entry(tenant).or_default()
    }

    fn position(&self, block: u64) -> Option<usize> {
        self.ledger.iter().position(|resident| resident.block == block)
    }

    fn resident(&self, block: u64) -> &Resident {
        &self.ledger[self.position(block).expect("resident")]
    }

    fn owned(&self, tenant: u32) -> usize {
        self.ledger.iter().filter(|resident| resident.owner == tenant).count()
    }

    fn is_pinned(&self, block: u64) -> bool {
        self.pins.get(&block).is_some_and(|pins| *pins > 0)
    }

    /// Drops the placeholder that points to `stayed` and returns the absent block it was for.
    fn drop_placeholder_to(&mut self, stayed: u64) -> Option<u64> {
        let at = self.placeholders.iter().position(|(_, block)| *block == stayed)?;
        Some(self.placeholders.remove(at).0)
    }
}
