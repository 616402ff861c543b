//! The pool's end of its tier: which pages are offered, how the tier is asked, and which answers are
//! believed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bufpool_policies::{PageId, PageWorth, contained};
use parking_lot::Mutex;

use crate::engine::PageName;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::frame::Below;
use crate::sync::deadline_after;
use crate::tier::admission::Admission;
use crate::tier::buffer::{Buffers, Envelope, TierBuffer, TierPage};
use crate::tier::calls::Calls;
use crate::tier::deadlines::Deadlines;
use crate::tier::done::{Answer, GivenCopy, Question};
use crate::tier::gauge::{Gauge, PassedBy, Took};
use crate::tier::questions::Questions;
use crate::tier::stats::Counts;
use crate::tier::usage::{Sample, SharedUsage, Usage};
use crate::tier::{Attachment, Demoted, Life, Tier, TierPolicy, TierRange, TierStats, Version};

/// The most buffers, and the most memory that they may take; but there are at least [`BUFFERS_MIN`] buffers.
const BUFFERS_MAX: usize = 256;
const BUFFERS_BYTES_MAX: usize = 8 << 20;
const BUFFERS_MIN: usize = 8;
/// How often a closing pool checks whether calls of its tier are still running.
const CALL_POLL: Duration = Duration::from_micros(100);

/// A pool's tier.
pub(crate) struct TierLink {
    tier: Arc<dyn Tier>,
    policy: TierPolicy,
    wait: Duration,
    /// What is asked for while the tier is passed by.
    sample: Sample,
    buffers: Buffers,
    deadlines: Deadlines,
    admission: Mutex<Admission>,
    watches_misses: bool,
    /// None in deterministic mode, in which decisions must not depend on the time.
    gauge: Option<Mutex<Gauge>>,
    usage: SharedUsage,
    began: Instant,
    /// Of the tier, about pages. They are over once the pool has let go of the tier.
    calls: Calls,
    questions: Arc<Questions>,
    /// What the tier is to be told before it is asked next.
    life: Mutex<Option<Life>>,
    counts: Counts,
}

/// A copy that the tier gave: of the page, and the version of it, that it was asked for.
pub(crate) struct Taken {
    pub bytes: TierBuffer,
    /// The tier keeps the page, which is therefore to leave memory first.
    pub stays_below: bool,
}

/// A copy of a page on its way down. Dropping it offers the page, so it is dropped without locks and
/// latches.
#[must_use = "dropping it offers the page"]
pub(crate) struct Demotion {
    link: Arc<TierLink>,
    name: PageName,
    version: Version,
    /// There until the drop; none while the tier is passed by.
    page: Option<TierPage>,
}

impl TierLink {
    /// Attaches the tier to a pool of `frames` frames.
    pub fn open(
        tier: Arc<dyn Tier>,
        to: &Attachment,
        frames: u32,
        admission: Admission,
        wait: Duration,
    ) -> Result<Arc<Self>> {
        if to.policy == TierPolicy::Promote && !admission.is_of_all() {
            let message = "TierPolicy::Promote offers pages when they come in, before they are accessed or leave; expected TierAdmit::All";
            return Err(Error::new(ErrorKind::InvalidOptions, "open tier", message));
        }
        let panicked = || Err(Error::of_tier("the tier panicked when it was attached; expected an answer"));
        contained(|| tier.attach(to)).unwrap_or_else(panicked)?;
        let buffers = (BUFFERS_BYTES_MAX / to.page_bytes).clamp(BUFFERS_MIN, BUFFERS_MAX);
        Ok(Arc::new(Self {
            tier,
            policy: to.policy,
            wait,
            sample: Sample::new(frames),
            buffers: Buffers::new(buffers, to.page_bytes),
            deadlines: Deadlines::default(),
            watches_misses: admission.watches_misses(),
            admission: Mutex::new(admission),
            gauge: (!to.is_deterministic).then(|| Mutex::new(Gauge::new(frames))),
            usage: SharedUsage::new(Usage::All),
            began: Instant::now(),
            calls: Calls::new(),
            questions: Arc::default(),
            life: Mutex::default(),
            counts: Counts::default(),
        }))
    }

    /// Offers a page that has been read from its file, with these contents. Returns what the tier has of it
    /// then. While the tier is passed by, pages that it keeps are not treated as such in memory, because a
    /// miss on them would have to wait for the tier. `prepare` gives the copy the form that the page's file
    /// has; if it fails, nothing is offered.
    pub fn fill(
        &self,
        name: PageName,
        version: Version,
        contents: &[u8],
        prepare: impl FnOnce(&mut [u8]) -> bool,
    ) -> Below {
        let page = page_of(name);
        if !self.is_used_for(page) {
            Counts::count(&self.counts.demotions);
            Counts::count(&self.counts.refused);
            return Below::Nothing;
        }
        if !self.admission.lock().admit_read(page, contents.len(), self.now_ns()) {
            Counts::count(&self.counts.not_admitted);
            return Below::Nothing;
        }
        let Some(copy) = self.copy(name, version, contents, prepare) else { return Below::Nothing };
        let demoted = self.guarded(Demoted::Refused, || self.tier.fill(name, version, copy));
        self.was_offered(demoted);
        match demoted {
            Demoted::Refused | Demoted::PassedUp => Below::Nothing,
            _ if self.usage.get().is_passed_by() => Below::Copy,
            Demoted::Stored | Demoted::Present => Below::Page,
        }
    }

    /// A page that the tier keeps leaves memory, and has this version from now on. Returns the copy to be
    /// offered.
    pub fn renew(
        self: &Arc<Self>,
        name: PageName,
        version: Version,
        contents: &[u8],
        prepare: impl FnOnce(&mut [u8]) -> bool,
    ) -> Option<Demotion> {
        if !self.admission.lock().spend_rate(contents.len(), self.now_ns()) {
            Counts::count(&self.counts.not_admitted);
            return None;
        }
        let page = self.copy(name, version, contents, prepare)?;
        Some(Demotion { link: Arc::clone(self), name, version, page: Some(page) })
    }

    /// A copy of these contents, if there is a buffer for it.
    fn copy(
        &self,
        name: PageName,
        version: Version,
        contents: &[u8],
        prepare: impl FnOnce(&mut [u8]) -> bool,
    ) -> Option<TierPage> {
        let Some(mut buffer) = self.buffers.take() else {
            Counts::count(&self.counts.skipped);
            return None;
        };
        buffer.copy_from_slice(contents);
        prepare(&mut buffer).then(|| TierPage::new(buffer, name, version))
    }

    /// Whether pages of a file are offered when they have been read from it. In a shared tier other pools
    /// may want them, and find them only if the file is open for reading only.
    pub fn is_offered_reads(&self, is_read_only: bool) -> bool {
        self.promotes() || self.is_shared() && is_read_only
    }

    /// Whether pages go down when they come from their files, and not when they leave memory.
    pub fn promotes(&self) -> bool {
        self.policy == TierPolicy::Promote
    }

    /// Notes the life of a page that leaves memory, for a tier that [promotes](Self::promotes).
    pub fn left(&self, life: Life) {
        *self.life.lock() = Some(life);
    }

    /// A page leaves memory, with these contents. Returns what is to be offered, if anything. `prepare`
    /// gives the copy the form that the page's file has; if it fails, nothing is offered.
    pub fn offer(
        self: &Arc<Self>,
        name: PageName,
        version: Version,
        worth: PageWorth,
        contents: &[u8],
        prepare: impl FnOnce(&mut [u8]) -> bool,
    ) -> Option<Demotion> {
        let page = page_of(name);
        // What is not sent takes nothing from the limit.
        let is_sent = self.is_used_for(page);
        let mut admission = self.admission.lock();
        let is_admitted =
            admission.admit(page, worth) && (!is_sent || admission.spend_rate(contents.len(), self.now_ns()));
        drop(admission);
        if !is_admitted {
            Counts::count(&self.counts.not_admitted);
            return None;
        }
        let page = if is_sent { Some(self.copy(name, version, contents, prepare)?) } else { None };
        Some(Demotion { link: Arc::clone(self), name, version, page })
    }

    /// Asks for that version of a page, and waits for the answer at most for the pool's `tier_wait_ms`.
    pub fn take(self: &Arc<Self>, name: PageName, version: Version) -> Option<Taken> {
        let buffer = self.buffer_for(name, version)?;
        let (begun, deadline) = (Instant::now(), deadline_after(self.wait));
        let question = Question::new();
        self.ask_tier(name, version, buffer, &question);
        self.judge_answer(name, version, begun, question.wait(deadline))
    }

    /// As [`take`](Self::take), without a thread that waits. `then` is called with the page, or with none,
    /// by any thread, perhaps before this returns.
    pub fn take_later(
        self: &Arc<Self>,
        name: PageName,
        version: Version,
        then: impl FnOnce(Option<Taken>) + Send + 'static,
    ) {
        let Some(buffer) = self.buffer_for(name, version) else { return then(None) };
        let (begun, link) = (Instant::now(), Arc::clone(self));
        let question = self.questions.open();
        self.ask(name, version, buffer, move |answer| {
            question.tell(|| then(link.judge_answer(name, version, begun, answer)));
        });
    }

    /// Asks the tier. `then` is called with the answer, or when the time is over, by any thread.
    fn ask(
        &self,
        name: PageName,
        version: Version,
        buffer: TierBuffer,
        then: impl FnOnce(Answer) + Send + 'static,
    ) {
        let deadline = deadline_after(self.wait);
        let question = Question::calling(Box::new(then));
        self.ask_tier(name, version, buffer, &question);
        if !question.is_over() {
            self.deadlines.watch(deadline, question);
        }
    }

    fn ask_tier(&self, name: PageName, version: Version, buffer: TierBuffer, question: &Arc<Question>) {
        let life = if self.promotes() { self.life.lock().take() } else { None };
        // If the tier is detached, `done` is dropped, which is the answer.
        let done = question.done();
        self.guarded((), || {
            life.into_iter().for_each(|life| self.tier.hear_life(life));
            self.tier.take(name, version, buffer, done);
        });
    }

    /// A buffer to ask for the page with. None if the tier is not to be asked for it, or its answer not to
    /// be waited for.
    fn buffer_for(self: &Arc<Self>, name: PageName, version: Version) -> Option<TierBuffer> {
        if self.watches_misses {
            self.admission.lock().comes_in(page_of(name));
        }
        let usage = self.usage.get();
        if !usage.asks(|| self.sample.has_missed(page_of(name))) {
            return None;
        }
        let buffer = self.buffers.take();
        if buffer.is_none() {
            Counts::count(&self.counts.skipped);
        }
        if usage.is_passed_by() {
            self.ask_beside(name, version, buffer?);
            return None;
        }
        buffer
    }

    /// Asks for a page while it is read from its file, to see whether the tier would pay.
    fn ask_beside(self: &Arc<Self>, name: PageName, version: Version, buffer: TierBuffer) {
        let (begun, link) = (Instant::now(), Arc::clone(self));
        self.ask(name, version, buffer, move |answer| {
            let took = link.outcome(name, version, &answer);
            link.judge(|gauge| gauge.took(link.now_ns(), nanoseconds(begun.elapsed()), took));
        });
    }

    /// How a question has ended; a wrong answer is counted.
    fn outcome(&self, name: PageName, version: Version, answer: &Answer) -> Took {
        match answer {
            Answer::Filled(copy) if self.is_page(name, version, copy) => Took::Hit,
            Answer::Filled(_) => {
                Counts::count(&self.counts.wrong);
                // Otherwise a tier that keeps what is taken would take the page for one that it has.
                let pages = name.number..name.number + 1;
                self.forget(TierRange { file: name.file, file_tag: name.file_tag, pages });
                Took::No
            }
            Answer::Absent => Took::No,
            Answer::TimedOut => Took::TimedOut,
        }
    }

    /// Whether a copy is that version of the page. A buffer of another pool may have another length.
    fn is_page(&self, name: PageName, version: Version, copy: &GivenCopy) -> bool {
        copy.buffer.len() == self.buffers.page_bytes()
            && copy.envelope == Envelope::of(name, version, &copy.buffer)
    }

    /// Counts an answer, and returns the copy if it is right.
    fn judge_answer(
        &self,
        name: PageName,
        version: Version,
        begun: Instant,
        answer: Answer,
    ) -> Option<Taken> {
        let took = self.outcome(name, version, &answer);
        Counts::count(match took {
            Took::Hit => &self.counts.hits,
            Took::No => &self.counts.absent,
            Took::TimedOut => &self.counts.timed_out,
        });
        self.judge(|gauge| gauge.took(self.now_ns(), nanoseconds(begun.elapsed()), took));
        match answer {
            Answer::Filled(GivenCopy { buffer, stays_below, .. }) if took == Took::Hit => {
                Some(Taken { bytes: buffer, stays_below: stays_below && self.promotes() })
            }
            _ => None,
        }
    }

    /// Notes that the engine's hooks have rejected a copy that was taken.
    pub fn was_rejected(&self) {
        Counts::count(&self.counts.wrong);
        self.served_no_miss();
    }

    /// Notes that a copy that was taken has served no miss after all.
    pub fn served_no_miss(&self) {
        Counts::count(&self.counts.absent);
        self.counts.hits.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a page is in one place at a time.
    pub fn is_exclusive(&self) -> bool {
        self.policy == TierPolicy::Demote
    }

    /// A page was read from its file in this time.
    pub fn source_read(&self, took: Duration) {
        if let Some(gauge) = &self.gauge {
            gauge.lock().source_read(nanoseconds(took));
        }
    }

    /// Copies of these pages are not asked for again.
    pub fn forget(&self, pages: TierRange) {
        self.guarded((), || self.tier.forget(pages));
    }

    /// Lets go of the tier, once, because the pool is closing. From then on another pool may have the tier.
    /// Waits for calls that are running, at most as long as for an answer.
    pub fn close(&self) {
        if !self.calls.end() {
            return;
        }
        // A tier may answer within the call that asks, and the code that is told may drop the pool. Then
        // this thread is in that call itself.
        let until = if Questions::is_telling() { Instant::now() } else { deadline_after(self.wait) };
        while self.calls.are_running() && Instant::now() < until {
            std::thread::sleep(CALL_POLL);
        }
        self.contained((), || self.tier.detach());
    }

    /// Waits until no [answer](Self::take_later) is awaited or being told, unless the calling thread is
    /// telling one. Returns whether it has waited. Takes no longer than the pool's limit and the work done
    /// with the answers.
    pub fn wait_for_answers(&self) -> bool {
        self.questions.wait()
    }

    /// The counts of the tier.
    pub fn stats(&self) -> TierStats {
        let report = self.contained(None, || Some(self.tier.report())).unwrap_or_default();
        let gauge = self.gauge.as_ref().map(|gauge| gauge.lock());
        TierStats {
            buffers_lent: self.buffers.lent() as u64,
            buffers_bytes: self.buffers.bytes() as u64,
            passed_by: gauge.as_ref().and_then(|gauge| gauge.passed_by()),
            source_latency_us: gauge.as_ref().map_or(0.0, |gauge| gauge.source_latency_ns() / 1e3),
            report,
            ..self.counts.stats()
        }
    }

    /// Whether a page is offered now.
    fn is_used_for(&self, page: PageId) -> bool {
        self.usage.get().offers(|| self.sample.has(page))
    }

    /// Whether other pools may be served with pages that this one offers.
    fn is_shared(&self) -> bool {
        matches!(self.policy, TierPolicy::DemoteAdapt(_))
    }

    /// Counts what the tier made of a page.
    fn was_offered(&self, demoted: Demoted) {
        Counts::count(&self.counts.demotions);
        match demoted {
            Demoted::Stored => {}
            Demoted::Present => Counts::count(&self.counts.present),
            Demoted::Refused => Counts::count(&self.counts.refused),
            Demoted::PassedUp => Counts::count(&self.counts.passed_up),
        }
        self.judge(|gauge| gauge.offered(demoted == Demoted::Refused));
    }

    fn judge(&self, note: impl FnOnce(&mut Gauge)) {
        let Some(gauge) = &self.gauge else { return };
        let mut gauge = gauge.lock();
        note(&mut gauge);
        let usage = match gauge.passed_by() {
            None => Usage::All,
            Some(_) if gauge.is_on_trial() => Usage::Trial,
            Some(PassedBy::DoesNotPay { .. }) if self.is_shared() => Usage::OffersAndSample,
            Some(_) => Usage::Sample,
        };
        if self.usage.set(usage) == Usage::All && usage.is_passed_by() {
            Counts::count(&self.counts.times_passed_by);
        }
    }

    fn now_ns(&self) -> u64 {
        if self.gauge.is_none() { 0 } else { nanoseconds(self.began.elapsed()) }
    }

    /// Makes a call of the tier about pages, unless the pool has let go of it; then it returns `otherwise`.
    fn guarded<R>(&self, otherwise: R, call: impl FnOnce() -> R) -> R {
        let Some(_running) = self.calls.begin() else { return otherwise };
        self.contained(otherwise, call)
    }

    /// Makes a call of the tier. If it panics, counts that and returns `panicked`.
    fn contained<R>(&self, panicked: R, call: impl FnOnce() -> R) -> R {
        contained(call).unwrap_or_else(|| {
            Counts::count(&self.counts.panics);
            panicked
        })
    }
}

impl Drop for Demotion {
    fn drop(&mut self) {
        let Self { link, name, version, page } = self;
        let Some(page) = page.take() else {
            Counts::count(&link.counts.demotions);
            return Counts::count(&link.counts.refused);
        };
        let demoted = link.guarded(Demoted::Refused, || link.tier.demote(*name, *version, page));
        link.was_offered(demoted);
    }
}

fn page_of(name: PageName) -> PageId {
    PageId::in_file(name.file, name.number)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
