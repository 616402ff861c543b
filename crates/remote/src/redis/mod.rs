//! A tier in the memory of a Redis or Valkey server, which several pools may share.
//!
//! A page that leaves memory is sent to the server under a name that says which contents of which page it is,
//! and a page that is missed is asked for under the only name that it can have now. So nothing that the
//! server has, lost, or did late or twice can make a pool serve outdated contents. Pools that open the same
//! file for reading only, with the same [`tag`](bufpool::FileOptions::tag) and the same
//! [`epoch`](bufpool::FileOptions::epoch), find each other's pages.
//!
//! Which pages go is the server's decision: with `maxmemory` and the policy `volatile-ttl` it evicts what
//! expires soonest, and the tier makes the time at which a page expires its place in the queue. Pages that
//! nobody asks for are gone after a day.

mod breaker;
mod client;
mod error;
mod key;
mod places;
mod server;
mod worker;

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ::redis::{Cmd, RedisError, RedisWrite};
use bufpool::engine::PageName;
use bufpool::tier::{
    Attachment, Demoted, Life, Tier, TierBuffer, TierDone, TierPage, TierRange, TierReport, Version,
};
use bufpool::{Error, Result};
use bufpool_policies::PageId;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;

use client::Place;
pub use error::RedisTierError;
use key::Keys;
use places::{Expiry, Places};
use worker::{Request, Shared};

/// Most bytes of pages that are on their way down; further pages are refused.
const QUEUE_BYTES: usize = 8 << 20;
/// The same as a number of pages, at most. At least [`QUEUE_PAGES_MIN`] have room, whatever their bytes.
const QUEUE_PAGES_MAX: usize = 1024;
const QUEUE_PAGES_MIN: usize = 8;

/// A tier in the memory of a Redis or Valkey server, version 6.2 or later. See the [module](self).
///
/// It serves one pool at a time; each pool of those that share a server has a `RedisTier` of its own, with
/// the same address and namespace. A page that goes down is copied once by the thread that evicts it. A
/// thread of the tier, which it starts with the pool, sends pages and questions over one connection without
/// waiting for answers.
///
/// *A server that fails.* A question that is not answered in half a second is a miss. After three failures
/// in a row nothing is sent for a second: pages that go down are refused, and pages that are asked for are
/// said to be absent. Then one request is tried; each time that it fails, the pause doubles, up to 8
/// seconds. A pool opens over a server that is not there, and uses it when it comes. A server that is full
/// and does not evict is offered no pages for the same times.
///
/// *Promoting.* Under [`TierPolicy::Promote`](bufpool::tier::TierPolicy::Promote) each pool has a probability
/// of its own. What the server's pages live is taken from its evictions, and what the pool's live is turned
/// into time by the accesses that it has made. A page of a file that is open for writing, which stays at the
/// server when it is read, is sent again when it leaves memory, because its name changes: the policy pays for
/// files that are open for reading only.
///
/// *What is not there.* [`forget`](Tier::forget) does nothing: outdated copies are never asked for, and are
/// evicted or expire. Pools in deterministic mode cannot use this tier, as a server's answers depend on
/// time.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use bufpool::tier::{Segments, TierAdmit, TierPolicy};
/// use bufpool::{FileOptions, PoolOptions};
/// use bufpool_remote::redis::RedisTier;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tier = Arc::new(RedisTier::new("redis://memory.example:6379", "orders")?);
/// let policy = TierPolicy::DemoteAdapt(Segments::Exponential);
/// let pool = PoolOptions::new().frames(4096).tier(tier, policy, TierAdmit::All).open()?;
/// // The same table, of the same backup, in every pool.
/// let file = pool.open_file("orders.tbl", FileOptions::new().read_only(true).tag(7).epoch(20_240_131))?;
/// # Ok(())
/// # }
/// ```
pub struct RedisTier {
    place: Place,
    /// Without names and passwords.
    address: String,
    namespace: String,
    single_pool: bool,
    /// A pool uses it, or is about to. Taken by one exchange; given back, by a release, after `used` is none.
    is_in_use: AtomicBool,
    /// None while no pool uses it.
    used: Mutex<Option<Arc<Used>>>,
}

/// What a pool uses.
struct Used {
    keys: Keys,
    shared: Arc<Shared>,
    /// Room for pages on their way down.
    slots: Arc<Semaphore>,
    requests: UnboundedSender<(Instant, Request)>,
}

impl RedisTier {
    /// A tier on the server at `url`, `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`. Keys begin with
    /// `namespace`: 1 to 64 visible ASCII characters without braces and colons. Pools with the same
    /// namespace share pages. Does no I/O.
    ///
    /// # Errors
    ///
    /// If the address or the namespace is not of this form.
    pub fn new(url: &str, namespace: &str) -> Result<Self, RedisTierError> {
        let client = client::server(url).map_err(bad_url)?;
        Self::at(Place::Server(client), client::address(url).map_err(bad_url)?, namespace)
    }

    /// A tier on a cluster, some of whose nodes are at `urls`. Otherwise as [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// As of [`new`](Self::new), and if there is no address.
    #[cfg(feature = "redis-cluster")]
    pub fn cluster(urls: &[&str], namespace: &str) -> Result<Self, RedisTierError> {
        let client = client::cluster(urls, worker::PATIENCE).map_err(bad_url)?;
        let addresses: Result<Vec<_>, _> = urls.iter().map(|url| client::address(url)).collect();
        Self::at(Place::Cluster(Box::new(client)), addresses.map_err(bad_url)?.join(", "), namespace)
    }

    fn at(place: Place, address: String, namespace: &str) -> Result<Self, RedisTierError> {
        if let Some(what) = key::namespace_error(namespace) {
            return Err(RedisTierError::Namespace { what });
        }
        Ok(Self {
            place,
            address,
            namespace: namespace.to_owned(),
            single_pool: false,
            is_in_use: AtomicBool::new(false),
            used: Mutex::default(),
        })
    }

    /// Takes pages of files without a [`tag`](bufpool::FileOptions::tag), too, for this pool and until it is
    /// closed. Default false: such pages are refused, because other pools could not tell their files apart.
    pub fn single_pool(mut self, on: bool) -> Self {
        self.single_pool = on;
        self
    }

    /// Sends a page that expires when `expiry` says. If `expiry` gives `None`, the page is passed up and not
    /// sent.
    fn send(
        &self,
        page: PageName,
        version: Version,
        bytes: &TierPage,
        expiry: impl FnOnce(&mut Places) -> Option<Expiry>,
    ) -> Demoted {
        let Some(used) = self.used() else { return Demoted::Refused };
        let Some(key) = used.keys.of(page, version) else { return Demoted::Refused };
        let now = Instant::now();
        let Ok(slot) = Arc::clone(&used.slots).try_acquire_owned() else { return Demoted::Refused };
        if !used.shared.may_demote(now) {
            return Demoted::Refused;
        }
        let expiry = expiry(&mut used.shared.places.lock());
        let Some(Expiry { new_ms, present_ms }) = expiry else { return Demoted::PassedUp };
        let command = set(&key, bytes, new_ms, present_ms.is_some());
        let renew = present_ms.map(|ms| {
            let mut renew = ::redis::cmd("PEXPIRE");
            renew.arg(&key).arg(ms);
            renew
        });
        match used.requests.send((now, Request::Demote { command, renew, _slot: slot })) {
            Ok(()) => Demoted::Stored,
            Err(_) => Demoted::Refused,
        }
    }

    fn used(&self) -> Option<Arc<Used>> {
        self.used.lock().clone()
    }

    fn open(&self, to: &Attachment) -> Result<Used> {
        if to.is_deterministic {
            return Err(Error::of_tier(
                "a tier on a server cannot serve a pool in deterministic mode, expected a tier whose answers do not depend on the time",
            ));
        }
        let failed = |what: &str, error: &dyn std::fmt::Display| Error::of_tier(format!("{what}: {error}"));
        let instance = self.single_pool.then(getrandom::u64).transpose();
        let instance = instance.map_err(|error| failed("a random number", &error))?;
        let seed = getrandom::u64().map_err(|error| failed("a random number", &error))?;
        let places = Places::new(to.policy, to.page_bytes, to.frames, seed);
        let shared = Arc::new(Shared::new(self.place.clone(), to.page_bytes, places));
        let requests = worker::start(Arc::clone(&shared));
        let slots = (QUEUE_BYTES / to.page_bytes).clamp(QUEUE_PAGES_MIN, QUEUE_PAGES_MAX);
        Ok(Used {
            keys: Keys::new(self.namespace.clone(), instance),
            shared,
            slots: Arc::new(Semaphore::new(slots)),
            requests: requests.map_err(|error| failed("the thread of the tier", &error))?,
        })
    }
}

impl Tier for RedisTier {
    /// Waits for the server's first answer, for a second at most.
    fn attach(&self, to: &Attachment) -> Result<()> {
        if self.is_in_use.swap(true, Ordering::AcqRel) {
            let message =
                format!("the tier on {} is another pool's, expected one that no pool uses", self.address);
            return Err(Error::of_tier(message));
        }
        let used = self.open(to).inspect_err(|_| self.is_in_use.store(false, Ordering::Release))?;
        *self.used.lock() = Some(Arc::new(used));
        Ok(())
    }

    fn demote(&self, page: PageName, version: Version, bytes: TierPage) -> Demoted {
        self.send(page, version, &bytes, |places| Some(places.of_demoted(page_id(page))))
    }

    fn fill(&self, page: PageName, version: Version, bytes: TierPage) -> Demoted {
        self.send(page, version, &bytes, Places::of_filled)
    }

    fn hear_life(&self, life: Life) {
        if let Some(used) = self.used() {
            used.shared.places.lock().hear(life, Instant::now());
        }
    }

    fn take(&self, page: PageName, version: Version, into: TierBuffer, done: TierDone) {
        let used = self.used();
        let named = used.as_ref().and_then(|used| Some((used, used.keys.of(page, version)?)));
        let now = Instant::now();
        let Some((used, key)) = named.filter(|(used, _)| used.shared.may_take(now)) else {
            return done.absent(into);
        };
        let (expires, stays_below) = {
            let mut places = used.shared.places.lock();
            let expires = places.of_taken(page_id(page));
            (expires, expires.is_some() && places.keeps_alone())
        };
        let command = match expires {
            None => {
                let mut command = ::redis::cmd("GETDEL");
                command.arg(key);
                command
            }
            Some(expires) => {
                let mut command = ::redis::cmd("GETEX");
                command.arg(key).arg("PX").arg(expires);
                command
            }
        };
        // If the thread is gone, the request is dropped, which says that the page is absent.
        let _ = used.requests.send((now, Request::Take { command, into, done, stays_below }));
    }

    /// Does nothing: outdated copies are never asked for, and their names are not known.
    fn forget(&self, _: TierRange) {}

    /// Pages and bytes are those that the server has of all its users, as it was asked last.
    fn report(&self) -> TierReport {
        let Some(used) = self.used() else {
            return TierReport::new(format!("{}, in use by no pool", self.address));
        };
        let shared = &used.shared;
        let server = shared.server.lock().clone();
        let mut note = self.address.clone();
        if let Some(server) = &server {
            let _ = write!(note, ", {server}");
        }
        let is_too_old = server.as_ref().is_some_and(|server| !server.is_new_enough());
        if let Some(trouble) = shared.trouble().filter(|_| !is_too_old) {
            let _ = write!(note, "; {trouble}");
        }
        let mut report = TierReport::new(note);
        if let Some(server) = &server {
            (report.pages, report.bytes) = (server.keys, server.memory_used);
        }
        report.metadata_bytes = shared.places.lock().memory_bytes() as u64;
        report.failures = shared.failures.load(Ordering::Relaxed);
        report
    }

    /// Requests that were made before are carried out, and the tier's thread ends within a second.
    fn detach(&self) {
        let used = self.used.lock().take();
        if used.is_some() {
            drop(used);
            self.is_in_use.store(false, Ordering::Release);
        }
    }
}

/// The command that keeps a page: the envelope, and then the page's bytes.
fn set(key: &str, page: &TierPage, expires: u64, unless_present: bool) -> Cmd {
    let envelope = page.envelope().to_bytes();
    let mut command = Cmd::with_capacity(6, page.len() + envelope.len() + key.len() + 32);
    command.arg("SET").arg(key);
    {
        let mut value = command.writer_for_next_arg();
        let written = value.write_all(&envelope).and_then(|()| value.write_all(page));
        written.expect("memory takes what is written");
    }
    command.arg("PX").arg(expires);
    if unless_present {
        command.arg("NX");
    }
    command
}

fn page_id(page: PageName) -> PageId {
    PageId::in_file(page.file, page.number)
}

fn bad_url(error: RedisError) -> RedisTierError {
    RedisTierError::Url { error: Arc::new(error) }
}
