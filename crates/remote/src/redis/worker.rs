//! The thread that speaks to the server.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use ::redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};
use bufpool::tier::{Envelope, TierBuffer, TierDone};
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::breaker::Breaker;
use super::client::{Connection, Place, no_answer};
use super::places::Places;
use super::server::Server;

/// How long the server has for an answer, or to take a connection. Whoever misses a page waits no longer than
/// [`tier_wait_ms`](bufpool::PoolOptions::tier_wait_ms), which should be less.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);
/// While there are requests, the server is asked this often what it has.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// What is asked of the server. If a request is dropped, that is a miss.
pub(super) enum Request {
    /// For a page.
    Take {
        command: Cmd,
        into: TierBuffer,
        done: TierDone,
        /// The server keeps the page, and the pool must not.
        stays_below: bool,
    },
    /// To keep a page.
    Demote {
        command: Cmd,
        /// What makes it last if the server has it already.
        renew: Option<Cmd>,
        _slot: OwnedSemaphorePermit,
    },
}

/// What the pool's threads and this one share.
pub(super) struct Shared {
    place: Place,
    page_bytes: usize,
    pub places: Mutex<Places>,
    /// What the server said of itself when it was asked last.
    pub server: Mutex<Option<Server>>,
    /// Why the server that is reached does not say what it is.
    pub no_info: Mutex<Option<String>>,
    /// Whether the server is there.
    reach: Mutex<Breaker>,
    /// Whether it takes pages.
    room: Mutex<Breaker>,
    pub failures: AtomicU64,
    last_error: Mutex<Option<LastError>>,
}

/// The error that came last.
struct LastError {
    text: String,
    /// The server itself said so.
    is_answer: bool,
}

/// A connection that is in use.
#[derive(Clone)]
struct Line {
    connection: Connection,
    /// It failed, and another one is to be made. Set once; a request that misses it fails by itself.
    is_broken: Arc<AtomicBool>,
}

/// Starts the thread, and waits until the server has said what it is, or did not. The thread ends when the
/// sender is dropped and what was sent before is done, or given up.
pub(super) fn start(shared: Arc<Shared>) -> io::Result<UnboundedSender<(Instant, Request)>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (sender, receiver) = unbounded_channel();
    let (tried, is_tried) = mpsc::channel();
    std::thread::Builder::new().name("bufpool-redis".into()).spawn(move || {
        runtime.block_on(serve(shared, receiver, tried));
        // Does not wait for look-ups of host names, which may take longer.
        runtime.shutdown_background();
    })?;
    // An error says that the thread has panicked: nothing is ever sent then, which is a miss.
    let _ = is_tried.recv();
    Ok(sender)
}

async fn serve(
    shared: Arc<Shared>,
    mut requests: UnboundedReceiver<(Instant, Request)>,
    tried: mpsc::Sender<()>,
) {
    let mut line = shared.connect().await;
    let mut asked = Instant::now();
    drop(tried);
    let mut under_way = JoinSet::new();
    while let Some((sent, request)) = requests.recv().await {
        while under_way.try_join_next().is_some() {}
        if sent.elapsed() > PATIENCE {
            continue;
        }
        if line.as_ref().is_none_or(|line| line.is_broken.load(Ordering::Relaxed)) {
            line = shared.connect().await;
            asked = Instant::now();
        }
        let Some(line) = &line else {
            // Requests that came meanwhile fail, too.
            while requests.try_recv().is_ok() {}
            continue;
        };
        if asked.elapsed() > ASKED_EVERY {
            asked = Instant::now();
            let (shared, mut line) = (Arc::clone(&shared), line.clone());
            under_way.spawn(async move { shared.ask(&mut line).await });
        }
        under_way.spawn(Arc::clone(&shared).run(line.clone(), request));
    }
    while under_way.join_next().await.is_some() {}
}

impl Shared {
    pub fn new(place: Place, page_bytes: usize, places: Places) -> Self {
        Self {
            place,
            page_bytes,
            places: Mutex::new(places),
            server: Mutex::default(),
            no_info: Mutex::default(),
            reach: Mutex::default(),
            room: Mutex::default(),
            failures: AtomicU64::new(0),
            last_error: Mutex::default(),
        }
    }

    /// Whether a page may be asked for.
    pub fn may_take(&self, now: Instant) -> bool {
        self.reach.lock().lets_pass(now, PATIENCE)
    }

    /// Whether a page may go down.
    pub fn may_demote(&self, now: Instant) -> bool {
        self.room.lock().lets_pass(now, PATIENCE) && self.may_take(now)
    }

    /// Why nothing is sent at present, or why it is not known what the server is.
    pub fn trouble(&self) -> Option<String> {
        let (is_unreached, is_full) = (self.reach.lock().is_closed(), self.room.lock().is_closed());
        let (no_info, is_unknown) = (self.no_info.lock().clone(), self.server.lock().is_none());
        let last = self.last_error.lock();
        let (error, is_answer) =
            last.as_ref().map_or(("no error yet", false), |last| (last.text.as_str(), last.is_answer));
        let what = match no_info {
            _ if is_unreached && is_answer => "refuses questions",
            _ if is_unreached => "not reached",
            _ if is_full => "takes no pages",
            Some(why) => return Some(format!("does not say what it is: {why}")),
            None if is_unknown => "not reached",
            None => return None,
        };
        Some(format!("{what}: {error}"))
    }

    async fn connect(&self) -> Option<Line> {
        let connected = tokio::time::timeout(PATIENCE, self.place.connect()).await;
        match connected.unwrap_or_else(|_| Err(no_answer(PATIENCE))) {
            Ok(connection) => {
                let mut line = Line { connection, is_broken: Arc::default() };
                self.ask(&mut line).await;
                (!line.is_broken.load(Ordering::Relaxed)).then_some(line)
            }
            Err(error) => {
                self.unreached(&error);
                None
            }
        }
    }

    /// Asks what the server is and has.
    async fn ask(&self, line: &mut Line) {
        match line.connection.ask(PATIENCE).await {
            Ok(Some(server)) => {
                if !server.is_new_enough() {
                    line.is_broken.store(true, Ordering::Relaxed);
                    self.failures.fetch_add(1, Ordering::Relaxed);
                    self.reach.lock().failed(Instant::now());
                }
                self.places.lock().learn(&server, Instant::now());
                *self.server.lock() = Some(server);
                *self.no_info.lock() = None;
            }
            Ok(None) => *self.no_info.lock() = Some("its answer to INFO is no text".to_owned()),
            // A user without the right to run INFO may still have the right to get and set.
            Err(error) if is_answer(&error) => {
                self.note(&error);
                *self.no_info.lock() = Some(error.to_string());
            }
            Err(error) => {
                line.is_broken.store(true, Ordering::Relaxed);
                self.unreached(&error);
            }
        }
    }

    async fn run(self: Arc<Self>, mut line: Line, request: Request) {
        match request {
            Request::Take { command, mut into, done, stays_below } => {
                let answer = line.connection.run(&command, PATIENCE).await;
                let value = self.judge(&line, &self.reach, answer);
                let copy = match &value {
                    Some(Value::BulkString(bytes)) => self.split(bytes),
                    _ => None,
                };
                if let Some((envelope, page)) = copy {
                    into.copy_from_slice(page);
                    if stays_below {
                        return done.filled_and_kept(into, envelope);
                    }
                    return done.filled(into, envelope);
                }
                let is_answer = matches!(value, Some(Value::Nil) | None);
                self.failures.fetch_add(u64::from(!is_answer), Ordering::Relaxed);
                done.absent(into);
            }
            Request::Demote { command, renew, _slot } => {
                let answer = line.connection.run(&command, PATIENCE).await;
                if let (Some(Value::Nil), Some(renew)) = (self.judge(&line, &self.room, answer), renew) {
                    let answer = line.connection.run(&renew, PATIENCE).await;
                    self.judge(&line, &self.room, answer);
                }
            }
        }
    }

    /// The value of an answer, if it is one. Tells the breakers how the request went: a refusal by the
    /// server is told to `refuser`, a connection without an answer is broken.
    fn judge(&self, line: &Line, refuser: &Mutex<Breaker>, answer: RedisResult<Value>) -> Option<Value> {
        match answer {
            Ok(value) => {
                self.reach.lock().succeeded();
                refuser.lock().succeeded();
                Some(value)
            }
            Err(error) if is_answer(&error) => {
                self.note(&error);
                if !std::ptr::eq(refuser, &raw const self.reach) {
                    self.reach.lock().succeeded();
                }
                refuser.lock().failed(Instant::now());
                None
            }
            Err(error) => {
                line.is_broken.store(true, Ordering::Relaxed);
                self.unreached(&error);
                None
            }
        }
    }

    fn unreached(&self, error: &RedisError) {
        self.note(error);
        *self.no_info.lock() = None;
        self.reach.lock().failed(Instant::now());
    }

    fn note(&self, error: &RedisError) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        *self.last_error.lock() = Some(LastError { text: error.to_string(), is_answer: is_answer(error) });
    }

    /// The envelope and the page in a value of the server; None if it has another length than these.
    fn split<'b>(&self, bytes: &'b [u8]) -> Option<(Envelope, &'b [u8])> {
        let (envelope, page) = bytes.split_first_chunk()?;
        (page.len() == self.page_bytes).then(|| (Envelope::from_bytes(*envelope), page))
    }
}

/// Whether the server has understood, and refuses.
fn is_answer(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}
