//! Every interleaving of a few steps of two or three threads, explored by loom. One file for each protocol.
//!
//! `RUSTFLAGS="--cfg bufpool_loom" cargo test -p bufpool --lib --release --target-dir target/loom
//! loom_models`
//!
//! Loom reports a lost wake-up as a deadlock, and the checked cells report two threads in a page's bytes at
//! once.
//!
//! | protocol | what it protects | schedules |
//! | --- | --- | --- |
//! | latches: [`page::word`](crate::page::word), [`page::latch`](crate::page::latch) | the bytes of a page; who waits is woken | [`latches`]: two writers and a reader; two threads that load a page; one that waits for a load ahead, which ends well or not; an evictor, a reader and a pin |
//! | marks, write ends: [`memory::frame`](crate::memory::frame) | a change is written before its page is clean or leaves | [`write_back`]: a writer during a flush; a flush of everything against a holder who misses; a departing page, its reader and a miss that waits for its frame |
//! | the reserve: [`memory::reserve`](crate::memory::reserve) | each frame has one user; who waits for one gets it | [`write_back`]: a copy in flight, a change of its page and a miss that waits; two borrowed frames that come back beside a miss |
//! | a file's gate: [`files::gate`](crate::files::gate) | no page is loaded behind the back of a close or a truncation | [`gate`]: closing with a load and a write in flight; a load, or a future, that is held off |
//! | what was written and not synced: [`files::unsynced`](crate::files::unsynced) | a flush syncs what it finds clean; the redo point covers it | [`unsynced`]: a writer, a sync that begins and a look; a writer and two flushes |
//! | landing, parked futures: [`landing`](crate::landing), [`wakers`](crate::wakers) | an outcome is taken once, and its future woken | [`futures`]: a future that is dropped while its load lands; one that parks while the page is let go of |
//! | page tables: [`page::table`](crate::page::table) | a word that is found is there, and a page has one | [`page_table`]: two threads that make words and one that looks |
//! | reads without a latch: [`page::word`](crate::page::word), [`thread::reader`](crate::thread::reader) | what is confirmed is whole; no frame is used again while it is read | [`optimistic`]: two changes and a reader; an eviction and a reader |
//! | the access log: [`thread::ring`](crate::thread::ring), [`thread::keys`](crate::thread::keys) | no hit is lost, doubled or half seen | [`access_log`]: hits beside a drain; keys made and cleared beside a drain; a thread that ends beside its pool's look |
//! | the policy lock: [`policy::mutex`](crate::policy::mutex) | one has it, and no thread sleeps while it is free | [`policy_lock`]: three threads |
//! | shares in hand: [`thread::spare`](crate::thread::spare) | a share is ended once | [`shares`]: a share that is left while its handle is given up |
//! | reads ahead: [`state::plans`](crate::state::plans) | plans are carried out | [`plans`]: the maker of plans and a completion |
//! | calls of a tier: [`tier::calls`](crate::tier::calls) | none runs once the pool lets go of the tier | [`tier_calls`]: a call and two threads that close |
//!
//! Other atomics of the crate need no model. They are counts for statistics, and numbers that only have to
//! differ (`counters`, `tier::stats`, serial numbers, `sharded`); counts of handles, as those of an `Arc`;
//! copies of what lies under a lock, for a look without it that may be out of date (`state::aside`, counts of
//! the reserve, `files::bytes`, `page::readers`); flags that are set once and asked again under a lock
//! (`closed`, `open_in`, `has_half_changed`, dropped lists of hints); and guesses, of which an old one costs
//! time at most (`hits::filter`, `tier::usage`, moving averages, what the policy lock has left for the next
//! miss).
//!
//! What the models detect. Each line was tried by breaking the code by hand:
//!
//! | broken | fails |
//! | --- | --- |
//! | `HitRing::push` stores its count relaxed; `drain` stores its own too early, or not at all, or not that of skipped hits | [`access_log::the_access_log_loses_and_doubles_nothing`] |
//! | a key is marked as used relaxed, or before it is filled | [`access_log::keys_are_seen_whole`] |
//! | `is_as` or `still` without its fence; a writer does not count its change; a word held exclusively may be read | [`optimistic::optimistic_reads_are_whole`] |
//! | a read begins without its barrier, or ends relaxed; the waiter looks relaxed, or does not wait | [`optimistic::eviction_against_an_optimistic_reader`] |
//! | a latch is taken, or let go of, relaxed; the last holder wakes nobody | [`latches::readers_and_writers_exclude_one_another_and_all_are_woken`] |
//! | a share is left relaxed, or without its barrier | [`shares::a_share_that_is_left_when_its_handle_is_given_up`] |
//! | numbers of unsynced changes are read in the other order | [`unsynced::what_was_written_is_seen_until_it_is_synced`] |
//! | what was written is noted relaxed | [`unsynced::what_is_clean_is_durable_after_a_flush`] |
//! | a thread gives its ring up relaxed | [`access_log::the_log_of_a_thread_that_ends_is_taken_back_whole`] |
//! | who has made plans looks at the transfers without its fence | [`plans::plans_are_carried_out_by_their_maker_or_the_next_completion`] |
//! | a call of a tier begins without its fence | [`tier_calls::a_tier_is_detached_when_no_call_of_it_is_running`] |
//!
//! Not detected: an optimistic read that begins with a relaxed load of the word.

mod access_log;
mod futures;
mod gate;
mod latches;
mod optimistic;
mod page_table;
mod plans;
mod policy_lock;
mod shares;
mod tier_calls;
mod unsynced;
mod write_back;

use std::sync::LazyLock;
use std::task::Waker;

use bufpool_policies::PageId;
use loom::cell::UnsafeCell;
use loom::sync::Arc;

use crate::memory::arena::Arena;
use crate::memory::frame::Frame;
use crate::memory::lease::FrameLease;
use crate::owner::Owner;
use crate::page::latch::{Acquired, Latch, Mode, Patience, Shared, acquire, acquire_resident};
use crate::page::word::PageWord;
use crate::wakers::{PoolWaker, WakerThread};

const PATIENT: Patience = Patience::Limit(std::time::Duration::MAX);

/// Explores with at most two preemptions, which is where nearly all races show.
fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(body);
}

/// A page with one frame: its word, its entry in the frame table, and its contents.
struct Page {
    word: PageWord,
    frame: Frame,
    contents: UnsafeCell<u32>,
}

// SAFETY: `contents` is only touched under the word's latches, which is what the models check.
unsafe impl Sync for Page {}
// SAFETY: `contents` is only touched under the word's latches, which is what the models check.
unsafe impl Send for Page {}

fn lease() -> FrameLease {
    Arena::new(1, 4096).expect("one page of memory").1.pop().expect("one frame")
}

fn latch<M: Mode>(page: &Page) -> Latch<&PageWord, M> {
    acquire_resident(&page.word, &mut { PATIENT }).ok().flatten().expect("the page is resident")
}

impl Page {
    fn absent() -> Arc<Self> {
        Arc::new(Self { word: PageWord::new(), frame: Frame::empty(), contents: UnsafeCell::new(0) })
    }

    fn resident() -> Arc<Self> {
        let page = Self::absent();
        page.frame.occupy(PageId(0));
        let Ok((Acquired::Load(loading), _)) = acquire::<_, Shared>(&page.word, &mut { PATIENT }) else {
            unreachable!()
        };
        drop(loading.publish::<Shared>(lease()));
        page
    }

    fn read(&self) -> u32 {
        // SAFETY: the caller holds a latch; loom fails the model if somebody writes meanwhile.
        self.contents.with(|contents| unsafe { *contents })
    }

    fn write(&self, value: u32) {
        // SAFETY: the caller holds the exclusive latch; loom fails the model if somebody else is here.
        self.contents.with_mut(|contents| unsafe { *contents = value });
    }
}

/// A waker that notes that it was used.
struct Woken(std::sync::atomic::AtomicBool);

impl std::task::Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// As a pool adopts it. In the models a waker runs where it is handed over.
fn pool_waker(waker: &Waker) -> PoolWaker {
    static THREAD: LazyLock<WakerThread> =
        LazyLock::new(|| WakerThread::new(Owner::new().expect("one page of memory")));
    THREAD.adopt(waker).expect("no thread is needed")
}
