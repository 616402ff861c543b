//! The share that keeps a file, and with it the pool, for a guard or pin that borrows nothing.
//!
//! All such guards and pins of a [`File`] handle share one further handle, which is made for them, by its
//! reference count. When a guard ends, its thread leaves the share in place for its next guard (see
//! [`spare`](crate::thread::spare)). When the `File` is dropped, shares that threads have left are taken
//! from them. From then on, as long as a guard or pin outlives its `File`, no thread leaves shares.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::handle::file::File;
use crate::sys::{self, ThreadEnd};
use crate::thread::hot::hot;
use crate::thread::spare::{Shared, Spare, Spares};

/// A share of the handle that is made for guards and pins. It may move to any thread.
pub(crate) struct Keeper(NonNull<File>);

// SAFETY: it is a share of an `Arc<File>`, and a `File` is `Send` and `Sync`.
unsafe impl Send for Keeper {}
// SAFETY: a shared reference gives a `&File`, and a `File` is `Sync`.
unsafe impl Sync for Keeper {}

/// Handles that are given up while guards or pins still share them.
static GIVEN_UP: AtomicUsize = AtomicUsize::new(0);

/// Where the threads of a process have their spare shares.
struct Places {
    /// The process that the places belong to. In the child of a fork, only the forking thread has places
    /// left.
    process: u32,
    all: Vec<NonNull<Spares>>,
}

// SAFETY: places are for all threads; each thread takes its own out before their memory goes.
unsafe impl Send for Places {}

static PLACES: Mutex<Places> = Mutex::new(Places { process: 0, all: Vec::new() });

fn places() -> MutexGuard<'static, Places> {
    let mut places = PLACES.lock();
    let process = std::process::id();
    if places.process != process {
        let own = own();
        places.all.retain(|other| *other == own);
        places.process = process;
    }
    places
}

/// The places of the calling thread.
fn own() -> NonNull<Spares> {
    hot(|thread| NonNull::from(&thread.spares))
}

/// Makes the calling thread's places known, unless it is ending.
fn open_own() {
    static END: ThreadEnd = ThreadEnd::new(shut_own);
    let may_open = hot(|thread| !thread.spares_are_over.get());
    if may_open && sys::has_membarrier() && END.call_in_this_thread() {
        // Known before they are used, so that a thread that gives a handle up finds shares that are put
        // there.
        places().all.push(own());
        hot(|thread| thread.spares.iter().for_each(Spare::open));
    }
}

/// Gives up the calling thread's places, because the thread ends.
fn shut_own() {
    hot(|thread| thread.spares_are_over.set(true));
    let left: Vec<Keeper> =
        hot(|thread| thread.spares.iter().filter_map(Spare::shut_up).map(Keeper::from_share).collect());
    // In the child of a fork, a thread of the parent may hold the lock for good; and nobody looks at places
    // there.
    if left.first().is_none_or(|keeper| keeper.pool.owner.is_here()) {
        let own = own();
        places().all.retain(|other| *other != own);
    }
    left.into_iter().for_each(Keeper::drop_share);
}

/// Takes the shares of `keeper` that threads have left. To be called when the handle that it was made for is
/// dropped, before that handle's own share ends.
pub(crate) fn give_up(keeper: &Arc<File>) {
    if !keeper.pool.owner.is_here() {
        return;
    }
    // A thread that makes its places known later takes the lock after us, and so sees this.
    GIVEN_UP.fetch_add(1, Ordering::SeqCst);
    let own = own();
    let is_alone = places().all.iter().all(|other| *other == own);
    if !is_alone {
        sys::barrier_everywhere();
    }
    let shared = Arc::as_ptr(keeper).cast::<()>().cast_mut();
    let left_by = |spares: &NonNull<Spares>| {
        // SAFETY: of a thread that has not taken them out, for which it needs the lock, which is held.
        let set = Spare::among(unsafe { spares.as_ref() }, shared);
        set.iter().filter(|spare| spare.take_away(shared)).count()
    };
    let taken: usize = places().all.iter().map(left_by).sum();
    for _ in 0..taken {
        // SAFETY: a thread has left it, and it was taken away once.
        drop(unsafe { Arc::from_raw(shared.cast::<File>()) });
    }
}

/// Counts a handle that was given up and has lost its last share.
pub(crate) fn note_gone() {
    GIVEN_UP.fetch_sub(1, Ordering::Relaxed);
}

impl Keeper {
    /// Another share of `keeper`, whose handle is not given up as long as this call lasts.
    #[inline(always)]
    pub fn of(keeper: &Arc<File>) -> Self {
        let shared = Arc::as_ptr(keeper).cast::<()>().cast_mut();
        if hot(|thread| Spare::among(&thread.spares, shared)[0].take(shared)) {
            return Self::from_share(shared);
        }
        Self::another(keeper)
    }

    /// As [`of`](Self::of), if the first place has no share: takes one from another place, or adds one to
    /// the count.
    #[cold]
    #[inline(never)]
    fn another(keeper: &Arc<File>) -> Self {
        let shared = Arc::as_ptr(keeper).cast::<()>().cast_mut();
        let found = hot(|thread| {
            let set = Spare::among(&thread.spares, shared);
            // Not in the child of a fork: a thread of the parent may hold the lock that this takes for good,
            // or may have been in the middle of an initialization of the process.
            if set[0].is_shut() && keeper.pool.owner.is_here() {
                open_own();
            }
            if set[1..].iter().any(|spare| spare.take(shared)) {
                return Some(shared);
            }
            // Makes room in the first place, so that shares of handles that are not in use do not keep out
            // those that are.
            let is_full = set.iter().all(|spare| spare.get().is_some());
            let other = set[0].get().filter(|other| is_full && set[0].take_away(*other));
            other.into_iter().for_each(|other| Self::from_share(other).drop_share());
            None
        });
        found.map_or_else(|| Self::from(Arc::clone(keeper)), Self::from_share)
    }

    /// Makes a keeper of a share that was left in a place.
    #[inline(always)]
    fn from_share(shared: Shared) -> Self {
        // SAFETY: shares are those of handles, whose addresses are not null.
        Self(unsafe { NonNull::new_unchecked(shared.cast()) })
    }

    /// Ends a share by decrementing the count.
    #[cold]
    #[inline(never)]
    fn drop_share(self) {
        let share = ManuallyDrop::new(self);
        // SAFETY: made of an `Arc`, which ends here.
        drop(unsafe { Arc::from_raw(share.0.as_ptr()) });
    }
}

impl From<Arc<File>> for Keeper {
    fn from(keeper: Arc<File>) -> Self {
        Self::from_share(Arc::into_raw(keeper).cast::<()>().cast_mut())
    }
}

impl Clone for Keeper {
    fn clone(&self) -> Self {
        // SAFETY: made of an `Arc`, of which this is a share.
        let keeper = ManuallyDrop::new(unsafe { Arc::from_raw(self.0.as_ptr()) });
        Self::from(Arc::clone(&keeper))
    }
}

impl Deref for Keeper {
    type Target = File;

    #[inline(always)]
    fn deref(&self) -> &File {
        // SAFETY: shared as long as this lives.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Keeper {
    #[inline(always)]
    fn drop(&mut self) {
        let shared: Shared = self.0.as_ptr().cast();
        let is_left = hot(|thread| Spare::among(&thread.spares, shared)[0].put(shared));
        // Relaxed: a thread that gives a handle up misses this share only if this load comes after its
        // increment.
        if !is_left || GIVEN_UP.load(Ordering::Relaxed) != 0 {
            let_go(shared, is_left);
        }
    }
}

/// Ends a share for which the first place had no room, or, if it `is_left` there, one that may have been
/// given up meanwhile.
#[cold]
#[inline(never)]
fn let_go(shared: Shared, is_left: bool) {
    let is_kept = hot(|thread| {
        let set = Spare::among(&thread.spares, shared);
        let at = if is_left { Some(&set[0]) } else { set[1..].iter().find(|spare| spare.put(shared)) };
        // Not another place: who gives the handle up has perhaps seen what is in that, and not this.
        at.is_some_and(|at| GIVEN_UP.load(Ordering::Relaxed) == 0 || !at.take_away(shared))
    });
    if !is_kept {
        Keeper::from_share(shared).drop_share();
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::sync::{Weak, mpsc};
    use std::time::{Duration, Instant};

    use bufpool_policies::SplitMix64;

    use super::*;
    use crate::io::sim::SimDevice;
    use crate::state::shared::PoolShared;
    use crate::thread::spare::SPARES;
    use crate::{FileOptions, OwnedReadGuard, Pool, PoolOptions, Tenant};

    /// A pool, a file of it, its default tenant, and what tells whether the pool is still there.
    struct Open {
        pool: Pool,
        file: File,
        tenant: Tenant,
        alive: Weak<PoolShared>,
    }

    impl Open {
        fn new() -> Self {
            let device = SimDevice::new(1);
            device.put("data", &[0; 4096 * 4]);
            let pool = PoolOptions::new().page_bytes(4096).frames(64).open_on(&device).unwrap();
            let file = pool.open_file("data", FileOptions::new()).unwrap();
            let (tenant, alive) = (pool.default_tenant(), Arc::downgrade(file.pool.shared()));
            Self { pool, file, tenant, alive }
        }

        fn read(&self) -> OwnedReadGuard {
            self.tenant.read_owned(self.file.page(0)).unwrap()
        }

        /// How many shares of the file's handle for guards there are.
        fn shares(&self) -> usize {
            self.file.keeper.get().map_or(0, Arc::strong_count)
        }

        /// Drops all handles.
        fn leave(self) -> Weak<PoolShared> {
            drop((self.pool, self.file, self.tenant));
            self.alive
        }
    }

    fn is_open(pool: &Weak<PoolShared>) -> bool {
        pool.upgrade().is_some_and(|pool| pool.handles.load(Ordering::Acquire) > 0)
    }

    #[test]
    fn one_share_serves_one_guard_after_another() {
        if !sys::has_membarrier() {
            return;
        }
        let open = Open::new();
        // Guards that other tests keep beyond their handles put an end to that for as long.
        let stays_two = || {
            (0..10).all(|_| {
                drop(open.read());
                open.shares() == 2
            })
        };
        let began = Instant::now();
        while !stays_two() {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::yield_now();
        }
        let guards: Vec<_> = (0..10).map(|_| open.read()).collect();
        assert_eq!(open.shares(), 11);
        drop(guards);
        assert!(open.shares() <= 5, "{}", open.shares());
        assert!(!is_open(&open.leave()));
    }

    #[test]
    fn shares_that_threads_have_left_keep_no_pool() {
        let open = Arc::new(Open::new());
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let open = Arc::clone(&open);
                let ((is_left, left), (end, ends)) = (mpsc::channel(), mpsc::channel::<()>());
                let thread = std::thread::spawn(move || {
                    drop([open.read(), open.read()]);
                    drop(open);
                    is_left.send(()).unwrap();
                    // Ends with the sender, too.
                    let _ = ends.recv();
                });
                left.recv().unwrap();
                (thread, end)
            })
            .collect();
        let pool = Arc::into_inner(open).expect("the threads have dropped theirs").leave();
        assert!(!is_open(&pool));
        for (thread, end) in threads {
            drop(end);
            thread.join().unwrap();
        }
        assert!(pool.upgrade().is_none());
    }

    /// The thread that forks has left nothing anywhere before, while another one holds the lock on all
    /// places.
    #[test]
    fn the_child_of_a_fork_waits_for_no_thread_that_has_the_places() {
        let open = Open::new();
        drop(open.read());
        let keeper = open.file.keeper.get().unwrap();
        let held = places();
        let status = std::thread::scope(|scope| {
            let forking = scope.spawn(|| {
                // SAFETY: the child does nothing but take a share and let go of it, and ends by `_exit`.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: takes a number; the signal ends a child that hangs.
                    unsafe { libc::alarm(20) };
                    drop(Keeper::of(keeper));
                    // SAFETY: takes a number.
                    unsafe { libc::_exit(0) };
                }
                let mut status = -1;
                // SAFETY: `status` is valid for the call.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                status
            });
            forking.join().unwrap()
        });
        drop(held);
        assert_eq!(status, 0, "the child hung, or failed");
        assert!(!is_open(&open.leave()));
    }

    #[test]
    fn a_guard_that_outlives_its_handle_keeps_the_pool_until_it_ends_in_any_thread() {
        for ends_elsewhere in [false, true] {
            let open = Open::new();
            drop(open.read());
            let (guard, pin) = (open.read(), open.tenant.pin_owned(open.file.page(1)).unwrap());
            let pool = open.leave();
            assert!(is_open(&pool));
            assert_eq!(guard[0], 0);
            let end = move || drop((guard, pin));
            if ends_elsewhere {
                std::thread::spawn(end).join().unwrap();
            } else {
                end();
            }
            assert!(!is_open(&pool) && pool.upgrade().is_none());
        }
    }

    #[test]
    fn a_handle_made_of_a_guard_stays_when_the_first_is_gone() {
        let open = Open::new();
        let guard = open.read();
        let file = guard.page().file().clone();
        let tenant = open.tenant.clone();
        let pool = open.leave();
        drop(guard);
        drop(tenant.read_owned(file.page(2)).unwrap());
        drop(file);
        assert!(is_open(&pool));
        drop(tenant);
        assert!(!is_open(&pool));
    }

    #[test]
    fn a_thread_that_ends_lets_go_of_what_it_has_left() {
        let open = Arc::new(Open::new());
        for _ in 0..4 {
            let open = Arc::clone(&open);
            std::thread::spawn(move || drop([open.read(), open.read()])).join().unwrap();
        }
        assert_eq!(open.shares(), 1);
    }

    /// Threads clone handles, drop them before and after their guards, and let guards end in one another.
    #[test]
    fn no_share_is_lost_or_ended_twice_whatever_threads_do() {
        const THREADS: usize = 4;
        // With those on their way to another thread, fewer than may hold one page.
        const GUARDS: usize = 16;
        let open = Open::new();
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::sync_channel(8)).unzip();
        std::thread::scope(|scope| {
            for (at, ended_here) in receivers.into_iter().enumerate() {
                let (file, tenant) = (open.file.clone(), open.tenant.clone());
                let to = senders[(at + 1) % THREADS].clone();
                let mut random = SplitMix64::new(at as u64);
                scope.spawn(move || {
                    let (mut handles, mut guards) = (vec![file], Vec::new());
                    for _ in 0..5000 {
                        let handle = random.next_u64() as usize % handles.len();
                        match random.next_u64() % 8 {
                            0 if handles.len() < 2 * SPARES => handles.push(handles[handle].clone()),
                            1 if handles.len() > 1 => drop(handles.swap_remove(handle)),
                            2 => guards.truncate(guards.len() / 2),
                            // A guard that nobody takes ends here.
                            3 => drop(guards.pop().map(|guard| to.try_send(guard))),
                            4 => drop(ended_here.try_recv()),
                            _ if guards.len() == GUARDS => guards.clear(),
                            _ => {
                                let page = handles[handle].page(random.next_u64() % 4);
                                guards.push(tenant.read_owned(page).unwrap());
                                assert_eq!(guards[random.next_u64() as usize % guards.len()][0], 0);
                            }
                        }
                    }
                });
            }
        });
        drop(senders);
        let pool = open.leave();
        assert!(!is_open(&pool) && pool.upgrade().is_none());
    }

    #[test]
    fn shares_of_many_handles_take_turns() {
        let opens: Vec<Open> = (0..3 * SPARES).map(|_| Open::new()).collect();
        for _ in 0..3 {
            for open in &opens {
                drop(open.read());
                assert!(open.shares() <= 2);
            }
        }
        let left: usize = opens.iter().map(|open| open.shares() - 1).sum();
        assert!(left <= SPARES);
        for open in opens {
            assert!(!is_open(&open.leave()));
        }
    }
}
