//! The contexts of each tenant: what its accesses came from, with counts.
//!
//! A context is a call site, the scopes around it and the class of the page. It gets a number at its first
//! access, which is what managers, recordings and reports know it by. Tenants that access from the same
//! context share its number. No context gets a number that another one has, nor, before 2^32 contexts have
//! come and gone, one that another one had. A tenant has at most [`CONTEXTS_MAX`] contexts at a time. When
//! one more comes, the least recently used eighth of them is recycled: their counts are added to a sum. A
//! recycled context that comes again counts from 0.

use std::collections::{HashMap, HashSet};

use bufpool_policies::{TenantId, mix64};

use crate::hits::call_site::SiteTable;
use crate::thread::context::ScopeId;
use crate::thread::site::{PageClass, SiteKey, SiteRef};

/// Contexts of a tenant at a time.
pub(crate) const CONTEXTS_MAX: usize = 4096;
/// Contexts recycled at once. Finding them looks at all of a tenant's contexts, which is amortized O(1) for
/// each new context.
const RECYCLED_AT_ONCE: usize = CONTEXTS_MAX / 8;
/// Places of the cache in front of the maps; a power of two.
const CACHED: usize = 256;

/// What was counted of a context.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct ContextCounts {
    pub accesses: u64,
    pub misses: u64,
    /// Of the misses, those that made their page.
    pub creations: u64,
    pub mistakes: u64,
}

impl ContextCounts {
    /// One miss less. False, and nothing has changed, if none of the kind was counted.
    fn take_back_miss(&mut self, creates: bool) -> bool {
        let of_its_kind = if creates { self.creations } else { self.misses - self.creations };
        if of_its_kind > 0 {
            self.accesses -= 1;
            self.misses -= 1;
            self.creations -= u64::from(creates);
        }
        of_its_kind > 0
    }

    fn add(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.misses += other.misses;
        self.creations += other.creations;
        self.mistakes += other.mistakes;
    }
}

/// A context of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ContextSlot {
    /// Its number.
    pub id: u32,
    /// Where [`Contexts::counts`] finds it, until the next call of [`Contexts::find`].
    pub slot: u32,
    /// Whether it has just got its number.
    pub is_new: bool,
}

/// What makes two contexts the same. Sites count from 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    scope: ScopeId,
    site: u32,
    class: PageClass,
}

/// A context's number, and how many tenants have the context.
struct Numbered {
    id: u32,
    tenants: u32,
}

/// One context of one tenant. What each access changes is in one cache line.
#[repr(C, align(64))]
pub(crate) struct Entry {
    pub counts: ContextCounts,
    /// The value of [`Contexts::now`] at the last use.
    last_use: u64,
    pub id: u32,
    /// Names of the scopes around the site; empty if there are none.
    pub scopes: Box<str>,
    key: Key,
}

impl Entry {
    /// Of the pages that are accessed from it.
    pub fn class(&self) -> PageClass {
        self.key.class
    }
}

/// The contexts of one tenant. What an access reads is in the first cache line, and is seldom changed.
#[repr(C, align(64))]
struct TenantContexts {
    /// The context that this tenant entered into the shared cache last. It is found here even if other
    /// tenants have displaced it in the cache.
    last: Cached,
    /// None where a context was recycled.
    entries: Vec<Option<Entry>>,
    vacant: Vec<u32>,
    slots: HashMap<Key, u32>,
    recycled: u64,
    recycled_counts: ContextCounts,
}

/// A context that was found lately.
#[derive(Clone, Copy)]
struct Cached {
    tenant: TenantId,
    address: usize,
    scope: ScopeId,
    class: PageClass,
    id: u32,
    slot: u32,
}

const EMPTY: Cached = Cached {
    tenant: TenantId(0),
    address: usize::MAX,
    scope: ScopeId(u64::MAX),
    class: PageClass::NONE,
    id: 0,
    slot: 0,
};

impl Cached {
    fn new(tenant: TenantId, site: SiteRef, found: ContextSlot) -> Self {
        let SiteRef { place, scope, class } = site;
        Self { tenant, address: place.address(), scope, class, id: found.id, slot: found.slot }
    }

    /// What was found, if that was the tenant's context at this site.
    #[inline]
    fn get(&self, tenant: TenantId, site: SiteRef) -> Option<ContextSlot> {
        let is_site = self.address == site.place.address() && self.scope == site.scope;
        let is_found = is_site && self.class == site.class && self.tenant == tenant;
        is_found.then_some(ContextSlot { id: self.id, slot: self.slot, is_new: false })
    }
}

/// The contexts of all tenants.
pub(crate) struct Contexts {
    sites: SiteTable,
    numbers: HashMap<Key, Numbered>,
    /// The numbers in there.
    ids: HashSet<u32>,
    last_id: u32,
    tenants: Vec<TenantContexts>,
    cache: Box<[Cached]>,
    /// The clock of [`Entry::last_use`]: how often a context was looked for in the maps. Contexts found in
    /// the cache do not advance it, so uses between two searches of the maps count as simultaneous.
    now: u64,
}

impl Contexts {
    pub fn new() -> Self {
        Self {
            sites: SiteTable::default(),
            numbers: HashMap::new(),
            ids: HashSet::new(),
            last_id: 0,
            tenants: Vec::new(),
            cache: vec![EMPTY; CACHED].into(),
            now: 0,
        }
    }

    /// Forgets the contexts of a tenant that had this number before.
    pub fn open_tenant(&mut self, tenant: TenantId) {
        if tenant.index() >= self.tenants.len() {
            self.tenants.resize_with(tenant.index() + 1, TenantContexts::default);
        }
        let before = std::mem::take(&mut self.tenants[tenant.index()]);
        before.slots.into_keys().for_each(|key| self.release(key));
        self.cache.fill(EMPTY);
    }

    /// The tenant's context at this site.
    #[inline]
    pub fn find(&mut self, tenant: TenantId, site: SiteRef) -> ContextSlot {
        self.tenants[tenant.index()].last.get(tenant, site).unwrap_or_else(|| self.find_cached(tenant, site))
    }

    /// As [`find`](Self::find), for a context that is not the tenant's latest.
    fn find_cached(&mut self, tenant: TenantId, site: SiteRef) -> ContextSlot {
        let address = site.place.address();
        let who = u64::from(site.class.0) << 32 | u64::from(tenant.0);
        let hash = mix64(address as u64 ^ site.scope.0.rotate_left(32) ^ who);
        let place = hash as usize % CACHED;
        if let Some(found) = self.cache[place].get(tenant, site) {
            return found;
        }
        let found = self.find_in_maps(tenant, site);
        self.cache[place] = Cached::new(tenant, site, found);
        self.tenants[tenant.index()].last = self.cache[place];
        found
    }

    #[cold]
    fn find_in_maps(&mut self, tenant: TenantId, site: SiteRef) -> ContextSlot {
        self.now += 1;
        let key = Key { scope: site.scope, site: self.sites.intern(site), class: site.class };
        if let Some(&slot) = self.tenants[tenant.index()].slots.get(&key) {
            let entry = self.tenants[tenant.index()].entries[slot as usize].as_ref();
            return ContextSlot { id: entry.expect("slots lead to entries").id, slot, is_new: false };
        }
        self.recycle(tenant);
        let is_new = !self.numbers.contains_key(&key);
        if is_new {
            self.last_id = self.next_id();
            self.ids.insert(self.last_id);
        }
        let number = self.numbers.entry(key).or_insert(Numbered { id: self.last_id, tenants: 0 });
        number.tenants += 1;
        let id = number.id;
        let scopes = site.scope.describe().into();
        let entry = Entry { id, scopes, counts: ContextCounts::default(), key, last_use: self.now };
        ContextSlot { id, slot: self.tenants[tenant.index()].add(entry), is_new }
    }

    /// The next number that no context has. 0 is none. Numbers in use are passed over one by one, which
    /// happens once in 2^32 contexts, when numbers begin again.
    fn next_id(&self) -> u32 {
        let after = |id: &u32| Some(id.wrapping_add(1).max(1));
        let mut ids = std::iter::successors(after(&self.last_id), after);
        ids.find(|id| !self.ids.contains(id)).expect("there are fewer contexts than numbers")
    }

    /// Where the counts of the tenant's latest context are, if it has any.
    pub fn latest(&self, tenant: TenantId) -> Option<*const u8> {
        let tenant = &self.tenants[tenant.index()];
        tenant.entries.get(tenant.last.slot as usize).map(|entry| std::ptr::from_ref(entry).cast())
    }

    /// The counts of what [`find`](Self::find) found; it is used now.
    #[inline]
    pub fn counts(&mut self, tenant: TenantId, found: ContextSlot) -> &mut ContextCounts {
        let tenant = &mut self.tenants[tenant.index()];
        let entry = tenant.entries[found.slot as usize].as_mut().expect("nothing was recycled since");
        entry.last_use = self.now;
        &mut entry.counts
    }

    /// Takes a miss back from the counts of what [`find`](Self::find) found. The context may have been
    /// recycled since the miss was counted, and count from 0 again: then the sum has the miss.
    pub fn take_back_miss(&mut self, tenant: TenantId, found: ContextSlot, creates: bool) {
        if !self.counts(tenant, found).take_back_miss(creates) {
            self.tenants[tenant.index()].recycled_counts.take_back_miss(creates);
        }
    }

    /// Contexts of a tenant, in no order, with their sites: those in at most `count` places from the place
    /// with number `first` on. None if there are no such places.
    pub fn of(
        &self,
        tenant: TenantId,
        first: usize,
        count: usize,
    ) -> Option<impl Iterator<Item = (&Entry, SiteKey)>> {
        let places = self.tenants[tenant.index()].entries.get(first..).filter(|places| !places.is_empty())?;
        let entries = places.iter().take(count).flatten();
        Some(entries.map(|entry| (entry, self.sites.key(entry.key.site))))
    }

    /// How many contexts of the tenant were recycled, and the sum of their counts.
    pub fn recycled(&self, tenant: TenantId) -> (u64, ContextCounts) {
        let tenant = &self.tenants[tenant.index()];
        (tenant.recycled, tenant.recycled_counts)
    }

    /// A context that the tenant has, and its site.
    pub fn describe(&self, tenant: TenantId, found: ContextSlot) -> (&Entry, SiteKey) {
        let entry = self.tenants[tenant.index()].entries[found.slot as usize].as_ref();
        let entry = entry.expect("nothing was recycled since");
        (entry, self.sites.key(entry.key.site))
    }

    /// Makes room for one more context.
    fn recycle(&mut self, tenant: TenantId) {
        let contexts = &mut self.tenants[tenant.index()];
        if contexts.slots.len() < CONTEXTS_MAX {
            return;
        }
        let mut by_use: Vec<(u64, u32)> =
            contexts.slots.values().map(|&slot| (contexts.entry(slot).last_use, slot)).collect();
        by_use.select_nth_unstable(RECYCLED_AT_ONCE);
        let recycled: Vec<Key> =
            by_use[..RECYCLED_AT_ONCE].iter().map(|&(_, slot)| contexts.remove(slot)).collect();
        recycled.into_iter().for_each(|key| self.release(key));
        self.cache.fill(EMPTY);
        self.tenants[tenant.index()].last = EMPTY;
    }

    /// One tenant fewer has the context. Its number is forgotten when no tenant has it.
    fn release(&mut self, key: Key) {
        let number = self.numbers.get_mut(&key).expect("contexts of tenants have numbers");
        number.tenants -= 1;
        if number.tenants == 0 {
            self.ids.remove(&number.id);
            self.numbers.remove(&key);
        }
    }

    /// Bytes of memory held, names of scopes not counted.
    pub fn metadata_bytes(&self) -> usize {
        let of_tenant = |tenant: &TenantContexts| {
            tenant.entries.capacity() * size_of::<Option<Entry>>()
                + tenant.slots.capacity() * size_of::<(Key, u32)>()
        };
        self.tenants.iter().map(of_tenant).sum::<usize>()
            + self.numbers.capacity() * size_of::<(Key, Numbered)>()
            + self.ids.capacity() * size_of::<u32>()
            + self.cache.len() * size_of::<Cached>()
    }

    /// Panics where maps, entries and counts of tenants contradict each other.
    pub fn check_invariants(&self) {
        let mut tenants_of: HashMap<Key, u32> = HashMap::new();
        for tenant in &self.tenants {
            assert!(tenant.slots.len() <= CONTEXTS_MAX);
            assert_eq!(tenant.slots.len() + tenant.vacant.len(), tenant.entries.len());
            for (key, &slot) in &tenant.slots {
                let entry = tenant.entry(slot);
                assert_eq!(entry.key, *key);
                assert_eq!(entry.id, self.numbers[key].id);
                *tenants_of.entry(*key).or_default() += 1;
            }
        }
        assert_eq!(tenants_of.len(), self.numbers.len());
        assert_eq!(self.numbers.values().map(|number| number.id).collect::<HashSet<u32>>(), self.ids);
        assert_eq!(self.ids.len(), self.numbers.len(), "no two contexts have one number");
        assert!(tenants_of.iter().all(|(key, tenants)| self.numbers[key].tenants == *tenants));
        let last = self.tenants.iter().map(|tenant| &tenant.last);
        for cached in self.cache.iter().chain(last).filter(|cached| cached.address != EMPTY.address) {
            assert_eq!(self.tenants[cached.tenant.index()].entry(cached.slot).id, cached.id);
        }
    }
}

impl Default for TenantContexts {
    fn default() -> Self {
        Self {
            last: EMPTY,
            entries: Vec::new(),
            vacant: Vec::new(),
            slots: HashMap::new(),
            recycled: 0,
            recycled_counts: ContextCounts::default(),
        }
    }
}

impl TenantContexts {
    fn add(&mut self, entry: Entry) -> u32 {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() as u32 - 1
        });
        self.slots.insert(entry.key, slot);
        self.entries[slot as usize] = Some(entry);
        slot
    }

    fn remove(&mut self, slot: u32) -> Key {
        let entry = self.entries[slot as usize].take().expect("slots lead to entries");
        self.slots.remove(&entry.key);
        self.vacant.push(slot);
        self.recycled += 1;
        self.recycled_counts.add(&entry.counts);
        entry.key
    }

    fn entry(&self, slot: u32) -> &Entry {
        self.entries[slot as usize].as_ref().expect("slots lead to entries")
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;
    use crate::{Context, context, site};

    const TENANT: TenantId = TenantId(0);

    fn two_tenants() -> Contexts {
        let mut contexts = Contexts::new();
        (0..2).for_each(|tenant| contexts.open_tenant(TenantId(tenant)));
        contexts
    }

    fn access(contexts: &mut Contexts, tenant: TenantId, site: SiteRef) -> u32 {
        let found = contexts.find(tenant, site);
        contexts.counts(tenant, found).accesses += 1;
        contexts.check_invariants();
        found.id
    }

    #[test]
    fn a_site_in_another_scope_is_another_context() {
        let _names = crate::thread::scope::NAMES_IN_TESTS.lock();
        let mut contexts = two_tenants();
        let scan = || SiteRef::named(site!("scan"));
        let plain = access(&mut contexts, TENANT, scan());
        let [first, second] = [1, 2].map(|query| {
            let _scope = context!("query", query);
            access(&mut contexts, TENANT, scan())
        });
        assert_eq!((plain, first, second), (1, 2, 3));
        assert_eq!(access(&mut contexts, TENANT, scan()), plain);
        let other = TenantId(1);
        assert_eq!(access(&mut contexts, other, scan()), plain, "tenants share numbers");
        let mut listed: Vec<_> = contexts
            .of(TENANT, 0, usize::MAX)
            .into_iter()
            .flatten()
            .map(|(entry, site)| (&*entry.scopes, site.name, entry.counts.accesses))
            .collect();
        listed.sort_unstable();
        let name = Some("scan");
        assert_eq!(listed, [("", name, 2), ("query 1", name, 1), ("query 2", name, 1)]);
        contexts.open_tenant(TENANT);
        contexts.check_invariants();
        assert_eq!(access(&mut contexts, other, scan()), plain, "the other tenant still has it");
    }

    /// Ten thousand contexts come and go; one that is used all the time stays, and no access is lost from the
    /// sums.
    #[test]
    fn the_least_used_contexts_are_recycled() {
        let _names = crate::thread::scope::NAMES_IN_TESTS.lock();
        let mut contexts = two_tenants();
        let lasting = SiteRef::named(site!("lasting"));
        for key in 0..10_000 {
            let scope = Context::NONE.within(site!("passing"), Some(key)).scope();
            let passing = SiteRef { scope, ..lasting };
            let found = contexts.find(TENANT, passing);
            assert_eq!((u64::from(found.id), found.is_new), (key + 2 - u64::from(key == 0), true));
            contexts.counts(TENANT, found).accesses += 1;
            assert_eq!(access_quickly(&mut contexts, lasting), 2);
            let is_full = key + 2 > CONTEXTS_MAX as u64;
            assert_eq!(contexts.recycled(TENANT).0 > 0, is_full, "with key {key}");
            if key % 100 == 0 {
                contexts.check_invariants();
            }
        }
        contexts.check_invariants();
        let live: u64 = contexts
            .of(TENANT, 0, usize::MAX)
            .into_iter()
            .flatten()
            .map(|(entry, _)| entry.counts.accesses)
            .sum();
        let (recycled, counts) = contexts.recycled(TENANT);
        assert_eq!(live + counts.accesses, 20_000);
        assert_eq!(
            contexts.of(TENANT, 0, usize::MAX).into_iter().flatten().count() as u64 + recycled,
            10_001
        );
        assert!(recycled >= 10_001 - CONTEXTS_MAX as u64);
    }

    /// After 2^32 contexts.
    #[test]
    fn numbers_that_begin_again_pass_over_those_in_use() {
        let _names = crate::thread::scope::NAMES_IN_TESTS.lock();
        let mut contexts = two_tenants();
        let number = |contexts: &mut Contexts, key| {
            let scope = Context::NONE.within(site!("numbered"), Some(key)).scope();
            access(contexts, TENANT, SiteRef { scope, ..SiteRef::named(site!("at")) })
        };
        assert_eq!([0, 1].map(|key| number(&mut contexts, key)), [1, 2]);
        contexts.last_id = u32::MAX - 1;
        assert_eq!([2, 3, 4].map(|key| number(&mut contexts, key)), [u32::MAX, 3, 4]);
        assert_eq!(number(&mut contexts, 0), 1, "it has its number still");
    }

    fn access_quickly(contexts: &mut Contexts, site: SiteRef) -> u32 {
        let found = contexts.find(TENANT, site);
        contexts.counts(TENANT, found).accesses += 1;
        found.id
    }
}
