//! What can be done to a pool.

use arbitrary::{Arbitrary, Unstructured};
use bufpool::sim::SimFailure;
use bufpool::{IoOperation, Policy};

use super::super::common::{PAGE_BYTES, WISHES};

pub const TENANTS: usize = 3;
/// Operations name pages below this, whether the file has them or not.
pub const NUMBERS: u64 = 120;
/// What calls of a simulated device may do instead of succeeding.
pub const FAILURES: [SimFailure; 5] = [
    SimFailure::Io,
    SimFailure::Torn,
    SimFailure::NoSpace,
    SimFailure::Short(PAGE_BYTES),
    SimFailure::Os(EINTR),
];
/// The error of an interrupted system call, which the pool always repeats.
const EINTR: i32 = 4;
pub const FAILING: [IoOperation; 4] =
    [IoOperation::Read, IoOperation::Write, IoOperation::Sync, IoOperation::Allocate];

/// Policy programs: one that looks at everything and has wishes, one without an event `access`, one that runs
/// for ever, and a privileged one that releases pages.
pub const PROGRAMS: [&str; 4] = [
    WISHES,
    "policy random {
       event initial { ret }
       event fault(p) { ret }
       event replace(c) { ldc n, 120 ; rand r ; rem r, r, n ; find v, r ; isnil t, v ; jnz t, none ; ret v
                    none: ret c }
     }",
    "policy endless {
       const zero = 0
       event initial { ret }
       event fault(p) { L: jz zero, L ; ret }
       event replace(c) { ret c }
     }",
    "policy releases privileged {
       queue all  int wish  const zero = 0  const many = 1000
       event initial { ret }
       event fault(p) { arg m, missing ; lt t, m, zero ; jz t, asked
                        enqt all, p ; request n, many ; jnz n, told
                        peekh v, all ; isnil t, v ; jnz t, told ; release v
                  back: peekt v, all ; isnil t, v ; jnz t, back ; ret v
                  told: ret p
                 asked: peekt v, all ; isnil t, v ; jnz t, none ; ret v
                  none: ret p }
       event replace(c) { ret c }
     }",
];

#[derive(Clone, Debug, Arbitrary)]
pub enum Operation {
    Read {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = number)]
        number: u64,
    },
    Write {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = number)]
        number: u64,
    },
    Create {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = number)]
        number: u64,
    },
    /// `count` pages from `first` on are created one after the other.
    CreateMany {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = number)]
        first: u64,
        #[arbitrary(with = count)]
        count: u64,
    },
    /// `count` pages from `first` on are read in one call, every third one twice.
    ReadMany {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = number)]
        first: u64,
        #[arbitrary(with = count)]
        count: u64,
    },
    Prefetch {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = number)]
        first: u64,
        #[arbitrary(with = count)]
        count: u64,
    },
    /// A list of reads is disclosed, which goes through its pages twice. It replaces the list before.
    Hint {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = number)]
        first: u64,
        #[arbitrary(with = count)]
        count: u64,
    },
    /// The next pages of the list are read.
    ReadHinted {
        #[arbitrary(with = count)]
        count: u64,
    },
    SkipHints {
        #[arbitrary(with = count)]
        count: u64,
    },
    /// What is left of the list comes in the other direction, and other pages after it.
    ReplanHints {
        #[arbitrary(with = number)]
        first: u64,
        #[arbitrary(with = count)]
        count: u64,
    },
    DropHints,
    /// A page is pinned, read, written and released.
    Pin {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = number)]
        number: u64,
    },
    /// A future of the page is polled once, and dropped.
    Poll {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = number)]
        number: u64,
    },
    /// A shared guard is kept while other operations go on; in deterministic mode only, where no background
    /// thread waits for it.
    Keep {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = number)]
        number: u64,
    },
    /// The guard kept longest is dropped.
    LetGo,
    FlushPage {
        #[arbitrary(with = number)]
        number: u64,
    },
    Flush,
    Checkpoint,
    Extend {
        #[arbitrary(with = count)]
        more: u64,
    },
    Truncate {
        #[arbitrary(with = number)]
        to: u64,
    },
    Discard {
        #[arbitrary(with = number)]
        first: u64,
        #[arbitrary(with = count)]
        count: u64,
    },
    Policy {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = priority)]
        priority: i32,
        #[arbitrary(with = policy)]
        policy: Policy,
    },
    Priority {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = priority)]
        priority: i32,
    },
    TemporaryPriority {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = number)]
        first: u64,
        #[arbitrary(with = count)]
        count: u64,
        #[arbitrary(with = priority)]
        priority: i32,
    },
    Floor {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = floor)]
        frames: u32,
    },
    Cap {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = cap)]
        frames: u32,
    },
    /// The tenant is closed, and one without wishes opened in its place.
    CloseTenant {
        #[arbitrary(with = tenant)]
        tenant: usize,
    },
    /// The file is closed and opened again.
    CloseFile,
    /// The file, which is not poisoned, is reopened.
    Reopen,
    /// A call of the device to come goes wrong; only where the device is simulated.
    Fault {
        #[arbitrary(with = failing)]
        operation: IoOperation,
        #[arbitrary(with = after)]
        after: u64,
        #[arbitrary(with = failure)]
        failure: SimFailure,
    },
    /// A policy program becomes the tenant's manager.
    Program {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = program)]
        program: usize,
    },
    /// A number is sent to the `int` of the tenant's program, if it has one.
    Send {
        #[arbitrary(with = tenant)]
        tenant: usize,
        value: i8,
    },
    ClearProgram {
        #[arbitrary(with = tenant)]
        tenant: usize,
    },
    /// The tenant is closed, and a privileged one opened in its place, if its frames can be had.
    OpenPrivileged {
        #[arbitrary(with = tenant)]
        tenant: usize,
        #[arbitrary(with = floor)]
        frames: u32,
    },
    /// The power is cut, and a new pool opened on what survived; only where the device is simulated.
    PowerCut {
        seed: u8,
    },
}

fn tenant(u: &mut Unstructured<'_>) -> arbitrary::Result<usize> {
    u.int_in_range(0..=TENANTS - 1)
}

fn number(u: &mut Unstructured<'_>) -> arbitrary::Result<u64> {
    u.int_in_range(0..=NUMBERS - 1)
}

fn count(u: &mut Unstructured<'_>) -> arbitrary::Result<u64> {
    u.int_in_range(0..=19)
}

fn priority(u: &mut Unstructured<'_>) -> arbitrary::Result<i32> {
    u.int_in_range(-1..=1)
}

fn policy(u: &mut Unstructured<'_>) -> arbitrary::Result<Policy> {
    u.choose(&Policy::ALL).copied()
}

fn program(u: &mut Unstructured<'_>) -> arbitrary::Result<usize> {
    u.int_in_range(0..=PROGRAMS.len() - 1)
}

fn floor(u: &mut Unstructured<'_>) -> arbitrary::Result<u32> {
    u.int_in_range(0..=10)
}

fn cap(u: &mut Unstructured<'_>) -> arbitrary::Result<u32> {
    u.int_in_range(1..=40)
}

fn after(u: &mut Unstructured<'_>) -> arbitrary::Result<u64> {
    u.int_in_range(1..=20)
}

fn failing(u: &mut Unstructured<'_>) -> arbitrary::Result<IoOperation> {
    u.choose(&FAILING).copied()
}

fn failure(u: &mut Unstructured<'_>) -> arbitrary::Result<SimFailure> {
    u.choose(&FAILURES).copied()
}
