//! Scopes: what the calls under them are for.
//!
//! A call site alone is too coarse: one function of an engine carries every sequential scan. A scope says
//! what is going on, for all accesses of the thread while it lives, and scopes nest: the scopes around an
//! access and its call site together are its *context*, as a call stack would be.
//!
//! ```
//! # fn run(tenant: &bufpool::Tenant, page: bufpool::Page<'_>) -> bufpool::Result<()> {
//! let _query = bufpool::context!("Q6");
//! {
//!     // One place in the source, one context for each node of a plan.
//!     let _node = bufpool::context!("plan node", 3);
//!     tenant.read(page)?; // in the context "Q6 > plan node 3", at this line
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A chain of scopes is known by a hash of its names, places and keys. The thread keeps the current hash, and
//! an access only reads it. What a hash stands for is in a table of the process, where reports find it. The
//! table is bounded: of chains beyond the latest 65,536 or so only the numbers are left, not the names.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use bufpool_policies::mix64;
use parking_lot::Mutex;

use crate::thread::context::{Context, ScopeId};
use crate::thread::hot::hot;
use crate::thread::site::{CallPlace, Origin, PageClass, Site, SiteRef};

/// The most scopes in one another. A scope entered deeper is ignored: the context stays the outer one.
const DEPTH_MAX: u32 = 64;
/// Chains of each of the two generations that descriptions are kept of.
const GENERATION_CHAINS: usize = if cfg!(test) { 64 } else { 1 << 15 };
/// Chains that a thread remembers to be in the table; a power of two.
const KNOWN_CHAINS: usize = 64;

thread_local! {
    /// The numbers of the thread's guards that have not ended, the outermost first.
    static LIVE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    /// The number of the thread's next guard.
    static NEXT: Cell<u64> = const { Cell::new(0) };
    static KNOWN: Known = const {
        Known { generation: Cell::new(0), chains: [const { Cell::new(ScopeId(0)) }; KNOWN_CHAINS] }
    };
}

/// Held by unit tests that look at the names of scopes, or make more than are kept, so that others are
/// forgotten: the table of names is the process's.
#[cfg(test)]
pub(crate) static NAMES_IN_TESTS: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

/// The scope that the thread is in.
#[inline(always)]
pub(crate) fn current() -> ScopeId {
    Context::current().scope
}

impl Context {
    /// The context of the calling thread.
    #[inline]
    pub fn current() -> Self {
        hot(|thread| thread.context.get())
    }

    /// The context of a scope within this one. `key` tells apart what comes from one place, such as nodes of
    /// a plan; beyond 64 scopes in one another, the context stays as it is.
    ///
    /// Takes a lock of the process if the thread has not entered the scope lately, and allocates if no thread
    /// of the process has.
    pub fn within(self, site: &'static Site, key: Option<u64>) -> Self {
        if self.depth >= DEPTH_MAX {
            return self;
        }
        let scope = self.scope.inner(site, key);
        if !KNOWN.with(|known| known.has(scope)) {
            CHAINS.lock().add(scope, self.scope, site, key);
            KNOWN.with(|known| known.add(scope));
        }
        Self { scope, depth: self.depth + 1 }
    }

    /// Puts the calling thread into this context, instead of the one it is in, while the guard lives.
    pub fn enter(self) -> Scope {
        let number = NEXT.replace(NEXT.get() + 1);
        LIVE.with_borrow_mut(|live| live.push(number));
        Scope {
            outer: hot(|thread| thread.context.replace(self)),
            context: self,
            number,
            not_send: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn scope(self) -> ScopeId {
        self.scope
    }
}

impl fmt::Display for Context {
    /// The names from the outermost to the innermost scope, `Q6 > plan node 3`; empty outside of all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scope.describe())
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({self})")
    }
}

/// While it lives, the thread's accesses are made in a scope. Made by [`context!`](crate::context); not
/// `Send`, since it is about the thread that made it.
///
/// Guards are dropped in the reverse order of their making, as variables are. One dropped earlier ends those
/// made after it, too.
#[must_use = "the scope ends when the guard is dropped"]
#[derive(Debug)]
pub struct Scope {
    outer: Context,
    context: Context,
    number: u64,
    not_send: PhantomData<*const ()>,
}

impl Scope {
    /// Enters a scope within the thread's current context. Use [`context!`](crate::context), which makes the
    /// site.
    pub fn new(site: &'static Site, key: Option<u64>) -> Self {
        Context::current().within(site, key).enter()
    }

    /// The scope and those around it.
    pub fn context(&self) -> Context {
        self.context
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        // Numbers rise from guard to guard. One that is not there was ended by an outer one.
        let end = |live: &mut Vec<u64>| live.binary_search(&self.number).map(|at| live.truncate(at)).is_ok();
        if LIVE.try_with(|live| end(&mut live.borrow_mut())).unwrap_or(false) {
            hot(|thread| thread.context.set(self.outer));
        }
    }
}

/// Enters a [`Scope`] that lasts until the value is dropped: `let _scope = context!("Q6 lineitem");`.
///
/// A second argument, a `u64`, tells apart what comes from one place in the source: `context!("plan node",
/// number)`.
#[macro_export]
macro_rules! context {
    ($name:expr) => {
        $crate::Scope::new($crate::site!($name), ::core::option::Option::None)
    };
    ($name:expr, $key:expr) => {
        $crate::Scope::new($crate::site!($name), ::core::option::Option::Some($key))
    };
}

impl ScopeId {
    fn inner(self, site: &Site, key: Option<u64>) -> Self {
        let key = key.map_or(0, |key| mix64(!key));
        let hash = mix64(mix64(self.0 ^ site.hash()).wrapping_add(key));
        Self(hash.max(1))
    }

    /// The names of the chain, from the outermost scope to the innermost.
    pub fn describe(self) -> String {
        if self == Self::NONE {
            return String::new();
        }
        let chain = CHAINS.lock().find(self);
        chain.map_or_else(|| format!("scope {:016x}", self.0), |chain| chain.to_string())
    }
}

/// `site`, within the scope of the calls with this hash.
pub(crate) fn called_from(site: SiteRef, hash: u32) -> SiteRef {
    let outer = Context { scope: site.scope, depth: 0 };
    SiteRef { scope: outer.within(crate::site!("calls"), Some(hash.into())).scope, ..site }
}

impl SiteRef {
    /// The caller's source location, in the thread's current scope.
    #[track_caller]
    #[inline]
    pub fn caller() -> Self {
        Self { place: CallPlace::caller(), scope: current(), class: PageClass::NONE }
    }

    /// A named site, in the thread's current scope.
    #[cfg(test)]
    pub fn named(site: &'static Site) -> Self {
        Self { place: CallPlace::Named(site), scope: current(), class: PageClass::NONE }
    }
}

impl Origin {
    #[inline(always)]
    pub fn scope(self) -> ScopeId {
        self.scope.unwrap_or_else(current)
    }

    /// With the scopes as they are now.
    #[inline(always)]
    pub fn site(self) -> SiteRef {
        SiteRef { place: self.place, scope: self.scope(), class: self.class }
    }
}

/// What a chain stands for.
struct Chain {
    outer: Option<Arc<Chain>>,
    name: &'static str,
    key: Option<u64>,
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(outer) = &self.outer {
            write!(f, "{outer} > ")?;
        }
        f.write_str(self.name)?;
        self.key.map_or(Ok(()), |key| write!(f, " {key}"))
    }
}

/// Chains of the process in two generations: what is met goes into the young one, and when that is full, what
/// was not met since it began is forgotten.
#[derive(Default)]
struct Chains {
    young: HashMap<ScopeId, Arc<Chain>>,
    old: HashMap<ScopeId, Arc<Chain>>,
}

static CHAINS: LazyLock<Mutex<Chains>> = LazyLock::new(Mutex::default);
/// The number of the young generation. When it changes, threads forget which chains they have met, and so
/// renew the chains in use.
static GENERATION: AtomicU64 = AtomicU64::new(0);

impl Chains {
    fn add(&mut self, scope: ScopeId, outer: ScopeId, site: &'static Site, key: Option<u64>) {
        if self.find(scope).is_none() {
            let outer = self.find(outer);
            self.insert(scope, Arc::new(Chain { outer, name: site.name(), key }));
        }
    }

    fn find(&mut self, scope: ScopeId) -> Option<Arc<Chain>> {
        if let Some(chain) = self.young.get(&scope) {
            return Some(Arc::clone(chain));
        }
        let chain = self.old.remove(&scope)?;
        self.insert(scope, Arc::clone(&chain));
        Some(chain)
    }

    fn insert(&mut self, scope: ScopeId, chain: Arc<Chain>) {
        if self.young.len() >= GENERATION_CHAINS {
            self.old = std::mem::take(&mut self.young);
            // Relaxed: a thread that sees the old number a moment longer only skips a renewal.
            GENERATION.fetch_add(1, Ordering::Relaxed);
        }
        self.young.insert(scope, chain);
    }
}

/// Chains that a thread has met in this generation, each in the one place its hash gives it.
struct Known {
    generation: Cell<u64>,
    chains: [Cell<ScopeId>; KNOWN_CHAINS],
}

impl Known {
    fn has(&self, scope: ScopeId) -> bool {
        self.generation.get() == GENERATION.load(Ordering::Relaxed) && self.place(scope).get() == scope
    }

    fn add(&self, scope: ScopeId) {
        let generation = GENERATION.load(Ordering::Relaxed);
        if self.generation.replace(generation) != generation {
            self.chains.iter().for_each(|chain| chain.set(ScopeId::NONE));
        }
        self.place(scope).set(scope);
    }

    fn place(&self, scope: ScopeId) -> &Cell<ScopeId> {
        &self.chains[scope.0 as usize % KNOWN_CHAINS]
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    /// Until the generation ends, which other tests may bring about at any time.
    #[test]
    fn a_thread_knows_the_chains_that_it_has_met() {
        let known =
            Known { generation: Cell::new(0), chains: [const { Cell::new(ScopeId(0)) }; KNOWN_CHAINS] };
        assert!(!known.has(ScopeId(7)));
        let is_known = |scope| {
            known.add(scope);
            known.has(scope)
        };
        assert!((0..1000).any(|_| is_known(ScopeId(7))));
        known.generation.set(u64::MAX);
        assert!(!known.has(ScopeId(7)), "that was another generation");
    }

    #[test]
    fn scopes_nest_and_end() {
        let _names = NAMES_IN_TESTS.lock();
        assert_eq!(Context::current(), Context::NONE);
        let query = context!("Q6");
        let inner = |key| {
            let node = context!("plan node", key);
            (node.context(), Context::current())
        };
        let (third, current) = inner(3);
        assert_eq!(third, current);
        assert_eq!(third.to_string(), "Q6 > plan node 3");
        assert_eq!(inner(3).0, third);
        assert_ne!(inner(4).0, third);
        assert_eq!(Context::current(), query.context());
        drop(query);
        assert_eq!(Context::current(), Context::NONE);
        assert_ne!(inner(3).0, third, "the same scope within another");
    }

    #[test]
    fn a_context_goes_to_another_thread() {
        let _names = NAMES_IN_TESTS.lock();
        let query = context!("Q7");
        let context = query.context();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(Context::current(), Context::NONE);
                let entered = context.enter();
                assert_eq!(Context::current().to_string(), "Q7");
                drop(entered);
                assert_eq!(Context::current(), Context::NONE);
            });
        });
    }

    #[test]
    fn a_guard_dropped_early_ends_those_inside_it() {
        let _names = NAMES_IN_TESTS.lock();
        let outer = context!("outer");
        let middle = context!("middle");
        let inner = context!("inner");
        drop(middle);
        assert_eq!(Context::current(), outer.context());
        drop(inner);
        assert_eq!(Context::current(), outer.context());
        let again = context!("again");
        assert_eq!(again.context().to_string(), "outer > again");
        drop(again);
        drop(outer);
        assert_eq!(Context::current(), Context::NONE);
    }

    #[test]
    fn recursion_stops_at_the_depth_limit() {
        let _names = NAMES_IN_TESTS.lock();
        let guards: Vec<Scope> = (0..3 * DEPTH_MAX).map(|_| context!("recursion")).collect();
        assert_eq!(Context::current().depth, DEPTH_MAX);
        assert_eq!(Context::current().to_string().matches("recursion").count(), DEPTH_MAX as usize);
        guards.into_iter().rev().for_each(drop);
        assert_eq!(Context::current(), Context::NONE);
    }

    /// Chains in use keep their names, others lose them, and the table stays within its bound.
    #[test]
    fn names_of_old_chains_are_forgotten() {
        let _names = NAMES_IN_TESTS.lock();
        let kept = context!("kept").context();
        let first = Context::NONE.within(crate::site!("temporary"), Some(0));
        for key in 1..10 * GENERATION_CHAINS as u64 {
            let chain = Context::NONE.within(crate::site!("short-lived"), Some(key));
            assert_eq!(chain.to_string(), format!("short-lived {key}"));
            assert_eq!(kept.to_string(), "kept");
        }
        assert!(first.to_string().starts_with("scope "), "{first}");
        let registry = CHAINS.lock();
        assert!(registry.young.len() <= GENERATION_CHAINS && registry.old.len() <= GENERATION_CHAINS);
    }
}
