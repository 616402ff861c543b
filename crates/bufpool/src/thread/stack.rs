//! The calls above an access, told apart by a hash of their return addresses.
//!
//! Where an engine has one function through which all accesses go, and nobody who can name the call sites,
//! the calls that led there say what an access is for: the call stack is AMP's context, too. Functions that
//! are compiled with frame pointers leave a chain of records on the stack, each the address of the next one
//! and the address that the function returns to:
//!
//! ```text
//!   frame pointer --> | next record | return address |   of the function that runs
//!                          |
//!                          +--> | next record | return address |   of its caller
//! ```
//!
//! A walk reads records between the stack pointer and the end of the thread's own stack only, each at a
//! higher address than the one before, so whatever a register or a record holds, the walk ends, and reads
//! memory that is there. Where code is compiled without frame pointers, the addresses that it finds mean
//! nothing; [`check`] finds out whether that is so of this crate.

use std::arch::asm;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;

use bufpool_policies::{PageId, mix64};

use crate::thread::scope::called_from;
use crate::thread::site::SiteRef;

/// The most return addresses of a hash.
pub(crate) const DEPTH_MAX: u8 = 8;
/// Frames of the largest pool in which the stack is looked at for each hit that is noted.
const SMALL_POOL: u32 = 8192;
/// In larger pools, hits on one page in this many are sampled; a power of two. The sample of the automatic
/// manager, which has a lower rate there and draws by the same bits, is part of it.
const RATE: u64 = 8;

const WORD: usize = size_of::<usize>();

/// What a tenant has asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StackContexts {
    depth: u8,
    rate: u64,
}

/// Why there are no stack contexts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoStacks {
    /// Of this processor or system no records are known.
    Platform,
    /// This crate was compiled without frame pointers.
    NoFramePointers,
}

impl StackContexts {
    /// Of `depth` return addresses, in a pool of `frames`.
    pub fn new(depth: u8, frames: u32) -> Self {
        Self { depth, rate: if frames <= SMALL_POOL { 1 } else { RATE } }
    }

    /// Whether the stack is looked at for hits on `page`. Other hits leave the page in the stream that it
    /// has.
    pub fn samples(self, page: PageId) -> bool {
        (mix64(page.0) >> 32) & (self.rate - 1) == 0
    }

    /// `site`, with a hash of the calls above it as its innermost scope. This is inlined into a function *f*
    /// of the crate, which must not be inlined itself; *e* is the function that calls *f*, mostly the
    /// engine's, into which the crate's own are inlined. The hash covers the return addresses of *e* and of
    /// the functions above it, and so is the same for all *f* that *e* calls, for hits and for misses.
    #[inline(always)]
    pub fn of_caller(self, site: SiteRef) -> SiteRef {
        self.of_frame(site, own_record())
    }

    #[cold]
    #[inline(never)]
    fn of_frame(self, site: SiteRef, record: usize) -> SiteRef {
        match hash(own_stack(), record, 1, self.depth) {
            0 => site,
            hash => called_from(site, hash),
        }
    }
}

/// Whether a walk finds the callers of this crate's functions; if not, why.
pub(crate) fn check() -> Result<(), NoStacks> {
    if !IS_KNOWN {
        return Err(NoStacks::Platform);
    }
    let is_chained = std::hint::black_box(outer as fn() -> bool)();
    if is_chained { Ok(()) } else { Err(NoStacks::NoFramePointers) }
}

#[inline(never)]
fn outer() -> bool {
    let found = std::hint::black_box(inner as fn(usize) -> bool)(own_record());
    // So that the call above is no tail call.
    std::hint::black_box(found)
}

/// Whether the record of this function leads to that of its caller.
#[inline(never)]
fn inner(caller: usize) -> bool {
    let (stack, own) = (own_stack(), own_record());
    stack.contains(&own) && own < caller && next(&stack, own).is_some_and(|(next, _)| next == caller)
}

/// The hash of `depth` return addresses at most, from the record after `skipped` others on; 0 if there is
/// none.
fn hash(stack: Range<usize>, record: usize, skipped: usize, depth: u8) -> u32 {
    let mut record = Some(record);
    let addresses = std::iter::from_fn(|| {
        let (after, address) = next(&stack, record?)?;
        // The callers' records lie above.
        record = Some(after).filter(|after| Some(*after) > record);
        (address != 0).then_some(address)
    });
    let combine = |hash, address| mix64(hash ^ address as u64);
    let hash = addresses.skip(skipped).take(depth.into()).fold(0, combine);
    (hash >> 32) as u32
}

/// What is in the record at this address: the next record's, and a return address. None if it does not lie in
/// `stack`, or not where a record can lie.
fn next(stack: &Range<usize>, record: usize) -> Option<(usize, usize)> {
    let is_there = record.is_multiple_of(WORD)
        && record >= stack.start
        && record.checked_add(2 * WORD).is_some_and(|end| end <= stack.end);
    if !is_there {
        return None;
    }
    // SAFETY: a word in the stack, as just checked.
    let after = unsafe { load(record) };
    // SAFETY: the next word, which also lies in the stack, as just checked.
    let address = unsafe { load(record + WORD) };
    Some((after, address))
}

/// The part of the calling thread's stack that is in use. Empty if the thread runs on another stack than its
/// own, as coroutines do.
#[inline(never)]
fn own_stack() -> Range<usize> {
    let here = stack_pointer();
    let stack = STACK.get().unwrap_or_else(|| {
        let stack = find_own_stack().unwrap_or((0, 0));
        STACK.set(Some(stack));
        stack
    });
    if (stack.0..stack.1).contains(&here) { here..stack.1 } else { 0..0 }
}

thread_local! {
    /// The addresses between which the thread's stack lies, once they were needed.
    static STACK: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// Asks the system, which for a program's first thread reads files.
#[cold]
fn find_own_stack() -> Option<(usize, usize)> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: there is no precondition.
    let own = unsafe { libc::pthread_self() };
    // SAFETY: the calling thread is not over, and there is a place for the result.
    if unsafe { libc::pthread_getattr_np(own, attributes.as_mut_ptr()) } != 0 {
        return None;
    }
    let (mut start, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: the attributes were just made, and there are places for both results.
    let failed = unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut start, &raw mut bytes) };
    // SAFETY: they are not used again.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    (failed == 0).then(|| (start.addr(), start.addr().saturating_add(bytes)))
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod machine {
    use super::asm;

    pub(super) const IS_KNOWN: bool = true;

    /// The address of the record of the function that this is inlined into, if it has one.
    #[inline(always)]
    pub(super) fn own_record() -> usize {
        let record;
        // SAFETY: reads a register, whatever it holds.
        unsafe { asm!("mov {}, rbp", out(reg) record, options(nomem, nostack, preserves_flags)) };
        record
    }

    #[inline(always)]
    pub(super) fn stack_pointer() -> usize {
        let here;
        // SAFETY: reads a register.
        unsafe { asm!("mov {}, rsp", out(reg) here, options(nomem, nostack, preserves_flags)) };
        here
    }

    /// The word at an address.
    ///
    /// # Safety
    ///
    /// The address is aligned, and lies in the part of the calling thread's stack that is in use.
    #[inline(always)]
    pub(super) unsafe fn load(address: usize) -> usize {
        let word;
        // SAFETY: memory that is mapped, by the caller's promise. It may be of any variable: the compiler
        // sees no access to it, and takes nothing for granted of what comes out. Nor is anything done with
        // that but comparing and hashing, so it may be half written.
        unsafe {
            asm!("mov {}, [{}]", out(reg) word, in(reg) address, options(readonly, nostack, preserves_flags));
        }
        word
    }
}

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
mod machine {
    use super::asm;

    pub(super) const IS_KNOWN: bool = true;

    /// The address of the record of the function that this is inlined into, if it has one.
    #[inline(always)]
    pub(super) fn own_record() -> usize {
        let record;
        // SAFETY: reads a register, whatever it holds.
        unsafe { asm!("mov {}, x29", out(reg) record, options(nomem, nostack, preserves_flags)) };
        record
    }

    #[inline(always)]
    pub(super) fn stack_pointer() -> usize {
        let here;
        // SAFETY: reads a register.
        unsafe { asm!("mov {}, sp", out(reg) here, options(nomem, nostack, preserves_flags)) };
        here
    }

    /// The word at an address. A return address may be signed; the signature depends on the address and on
    /// where it lies on the stack, so it is the same for the same calls.
    ///
    /// # Safety
    ///
    /// The address is aligned, and lies in the part of the calling thread's stack that is in use.
    #[inline(always)]
    pub(super) unsafe fn load(address: usize) -> usize {
        let word;
        // SAFETY: memory that is mapped, by the caller's promise. It may be of any variable: the compiler
        // sees no access to it, and takes nothing for granted of what comes out. Nor is anything done with
        // that but comparing and hashing, so it may be half written.
        unsafe {
            asm!("ldr {}, [{}]", out(reg) word, in(reg) address, options(readonly, nostack, preserves_flags));
        }
        word
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod machine {
    pub(super) const IS_KNOWN: bool = false;

    pub(super) fn own_record() -> usize {
        0
    }

    pub(super) fn stack_pointer() -> usize {
        0
    }

    /// # Safety
    ///
    /// None is asked for.
    pub(super) unsafe fn load(_: usize) -> usize {
        0
    }
}

use machine::{IS_KNOWN, load, own_record, stack_pointer};

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    /// Records that a test makes, in an array on the stack: they end at `end`.
    fn hash_of(words: &[usize], first: usize, depth: u8) -> u32 {
        let stack = ptr::from_ref(words).addr()..ptr::from_ref(words).addr() + size_of_val(words);
        let stack = Range { start: stack_pointer().max(stack.start), ..stack };
        hash(stack, first, 0, depth)
    }

    /// Three records, 4 words apart, each with its number as the return address.
    fn chain() -> ([usize; 12], usize) {
        let mut words = [usize::MAX; 12];
        (words[1], words[5], words[9]) = (1, 2, 3);
        (words, 4 * WORD)
    }

    fn link(words: &mut [usize; 12], step: usize) -> usize {
        let start = words.as_ptr().addr();
        for record in 0..3 {
            words[4 * record] = start + step * (record + 1);
        }
        start
    }

    #[test]
    fn return_addresses_and_their_number_make_the_hash() {
        let (mut words, step) = chain();
        let start = link(&mut words, step);
        let hashes: Vec<u32> = (1..=4).map(|depth| hash_of(&words, start, depth)).collect();
        assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2], "{hashes:?}");
        assert_eq!(hashes[2], hashes[3], "the next record would lie beyond the end");
        assert_eq!(hash_of(&words, start, 0), 0);
        words[9] += 1;
        assert_eq!(hash_of(&words, start, 2), hashes[1]);
        assert_ne!(hash_of(&words, start, 3), hashes[2]);
    }

    /// To itself, backwards, to addresses that no word has, and to the last word.
    #[test]
    fn a_broken_chain_ends_the_walk() {
        let (mut words, step) = chain();
        let start = link(&mut words, step);
        let one = hash_of(&words, start, 1);
        let last = start + 11 * WORD;
        for broken in [start, start - 1, 0, start + step + 1, start + 4, last, last + WORD, usize::MAX] {
            words[0] = broken;
            assert_eq!(hash_of(&words, start, DEPTH_MAX), one, "{broken:#x}");
        }
        for first in [0, 1, start - WORD, start + 1, last, usize::MAX, usize::MAX - 7] {
            assert_eq!(hash_of(&words, first, DEPTH_MAX), 0, "{first:#x}");
        }
        (words[0], words[1]) = (start + step, 0);
        assert_eq!(hash_of(&words, start, DEPTH_MAX), 0, "no function returns to 0");
    }

    /// Whatever the registers and the stack hold: this crate may be compiled without frame pointers.
    #[test]
    fn a_walk_stays_in_a_small_stack() {
        let walk = || {
            let stack = own_stack();
            let here = ptr::from_ref(&stack).addr();
            assert!(stack.contains(&here) && stack.end - stack.start <= 128 << 10, "{stack:x?}");
            for record in (stack.start..stack.end + 64).step_by(WORD) {
                hash(stack.clone(), record, 0, DEPTH_MAX);
            }
            StackContexts::new(DEPTH_MAX, 1).of_caller(SiteRef::caller());
        };
        std::thread::Builder::new().stack_size(64 << 10).spawn(walk).unwrap().join().unwrap();
    }

    #[test]
    fn one_page_in_eight_is_sampled_in_a_large_pool() {
        let sampled = |frames| {
            let stacks = StackContexts::new(1, frames);
            (0..80_000).filter(|page| stacks.samples(PageId(*page))).count()
        };
        assert_eq!(sampled(SMALL_POOL), 80_000);
        assert!((9_500..10_500).contains(&sampled(SMALL_POOL + 1)));
    }
}
