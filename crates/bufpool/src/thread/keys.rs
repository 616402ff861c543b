//! Who makes hits, as a thread's ring knows them: tenant, call site, scopes and the class of the page, with a
//! count of skipped hits.

use std::panic::Location;

use bufpool_policies::{TenantId, mix64};
use crossbeam::atomic::AtomicCell;

use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering, const_unless_loom};
use crate::thread::context::ScopeId;
use crate::thread::site::{CallPlace, PageClass, Site, SiteRef};

/// Keys of a ring; a power of two, at most 64. A thread with more call sites drains its ring, and clears its
/// keys, each time that a new key finds no room.
pub(crate) const KEYS: usize = if cfg!(bufpool_loom) { 2 } else { 64 };
/// Skipped hits of a key after which its ring is drained, since a thread whose hits are all skipped has no
/// other occasion.
pub(crate) const SKIPS_A_DRAIN: u64 = 1 << 16;
/// An arbitrary constant: 2^64 divided by the golden ratio.
pub(crate) const SALT: u64 = 0x9E37_79B9_7F4A_7C15;
/// Groups of tenants that a frame's mark tells apart. A tenant's group is its number modulo this.
pub(crate) const TENANT_BITS: u32 = 16;
/// The part of a mark that is an epoch.
pub(crate) const EPOCHS: u32 = !((1 << TENANT_BITS) - 1);

/// The place of a key in its ring's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyPlace(pub(crate) u32);

/// A tenant of a pool, as its hits are told from those of others.
#[derive(Clone)]
pub(crate) struct TenantTag {
    pub tenant: TenantId,
    /// What the filter looks at.
    pub watched: Watched,
    /// Different for each tenant of each pool, with all 64 bits mixed.
    salt: u64,
}

impl TenantTag {
    pub fn new(pool_serial: u64, tenant: TenantId) -> Self {
        // Not of the form in which scopes are numbered.
        let salt = mix64(mix64(pool_serial.rotate_left(32) ^ u64::from(tenant.0)).wrapping_add(SALT));
        Self { tenant, watched: Watched::by(tenant), salt }
    }
}

/// What tells a key from others: pool, tenant, call site, scopes and the class of the page in one number.
///
/// Sites of one tenant outside of scopes have different numbers, since they lie at different addresses, and
/// classes differ in the bits above those of addresses; otherwise two are the same as seldom as random
/// numbers of 64 bits, which is also how scopes are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SiteHash(pub(crate) u64);

impl SiteHash {
    /// In a key that is not in use.
    pub(crate) const NOBODY: u64 = u64::MAX;

    #[inline(always)]
    pub fn new(tenant: &TenantTag, site: SiteRef) -> Self {
        let class = u64::from(site.class.0).wrapping_mul(SALT);
        Self(site.place.address() as u64 ^ site.scope.0 ^ class ^ tenant.salt)
    }

    /// Where its key is looked for first. Descriptions of sites are some 24 bytes long and lie side by side,
    /// so their addresses differ in the bits from the third on.
    #[inline(always)]
    pub(crate) fn home(self) -> usize {
        (self.0 >> 3) as usize % KEYS
    }
}

/// Who makes hits: tenant, call site, scopes and the class of the page; and how many of them were skipped.
///
/// All but the last field are written by the ring's thread: the first six when the key is made, before it is
/// marked as used.
#[cfg_attr(not(bufpool_loom), repr(align(64)))]
pub(crate) struct Key {
    /// As in [`SiteHash`].
    pub(crate) who: AtomicU64,
    pub(crate) scope: AtomicU64,
    pub(crate) tenant: AtomicU32,
    pub(crate) class: AtomicU8,
    /// At most one of the two is set.
    pub(crate) caller: AtomicCell<Option<&'static Location<'static>>>,
    pub(crate) named: AtomicCell<Option<&'static Site>>,
    pub(crate) skipped: AtomicU64,
    /// How many of these have been handed over. Written under the policy lock.
    pub(crate) skipped_taken: AtomicU64,
}

impl Key {
    const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self {
                who: AtomicU64::new(SiteHash::NOBODY),
                scope: AtomicU64::new(0),
                tenant: AtomicU32::new(0),
                class: AtomicU8::new(0),
                caller: AtomicCell::new(None),
                named: AtomicCell::new(None),
                skipped: AtomicU64::new(0),
                skipped_taken: AtomicU64::new(0),
            }
        }
    }

    /// Counts a hit that gets no entry, for the ring's own thread. True once in [`SKIPS_A_DRAIN`] hits: the
    /// ring is to be drained then.
    #[inline(always)]
    pub fn skip(&self) -> bool {
        let skipped = self.skipped.load(Ordering::Relaxed) + 1;
        self.skipped.store(skipped, Ordering::Relaxed);
        skipped.is_multiple_of(SKIPS_A_DRAIN)
    }

    /// Whether the next [`skip`](Self::skip) is a moment to drain.
    #[inline(always)]
    pub fn is_drain_next(&self) -> bool {
        (self.skipped.load(Ordering::Relaxed) + 1).is_multiple_of(SKIPS_A_DRAIN)
    }

    #[inline(always)]
    pub(crate) fn is(&self, who: SiteHash) -> bool {
        self.who.load(Ordering::Relaxed) == who.0
    }

    pub(crate) fn tenant(&self) -> TenantId {
        TenantId(self.tenant.load(Ordering::Relaxed))
    }

    pub(crate) fn site(&self) -> SiteRef {
        let place =
            self.caller.load().map(CallPlace::Caller).or_else(|| self.named.load().map(CallPlace::Named));
        let scope = ScopeId(self.scope.load(Ordering::Relaxed));
        let class = PageClass(self.class.load(Ordering::Relaxed));
        SiteRef { place: place.expect("keys in use have a site"), scope, class }
    }
}

/// The keys of a ring.
pub(crate) struct Keys(pub(crate) [Key; KEYS]);

impl Keys {
    /// Without use.
    #[cfg(not(bufpool_loom))]
    pub const fn new() -> Self {
        Self([const { Key::new() }; KEYS])
    }

    /// Without use.
    #[cfg(bufpool_loom)]
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| Key::new()))
    }

    /// The key of `who`, if it lies where it is looked for first. For the ring's own thread.
    #[inline(always)]
    pub fn get(&self, who: SiteHash) -> Option<&Key> {
        Some(&self.0[who.home()]).filter(|key| key.is(who))
    }
}

/// The bits of a frame's mark that a tenant's hits depend on.
#[derive(Clone, Copy)]
pub(crate) struct Watched(pub(crate) u32);

impl Watched {
    pub fn by(tenant: TenantId) -> Self {
        Self(EPOCHS | bit(tenant))
    }
}

/// The part of a mark that is a tenant's.
pub(crate) fn bit(tenant: TenantId) -> u32 {
    1 << (tenant.0 % TENANT_BITS)
}
