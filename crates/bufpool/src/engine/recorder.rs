//! The trace of a run, told to a [`Recorder`] in the order in which the directory saw it.
//!
//! Replaying the events in a simulator with the same number of frames gives the same misses: accesses come in
//! the directory's order, and a page that is held (by a guard or a pin) while another access happens is
//! bracketed by [`Event::Pin`] and [`Event::Unpin`]. Pages dropped by `truncate`, `discard`, `remove` and
//! `File::close` have no event, because the trace format has no word for them; do these outside the part that
//! is replayed. The same holds for more than one open list of disclosed reads a tenant, and for
//! [`Hints::skip`](crate::Hints::skip): the replay has one list a tenant, and finds skipped hints by the
//! accesses behind them.
//!
//! Floors and caps have no event; the replay is given them. A policy program does in the replay what it did
//! in the run if seed and fuel are the same, unless it looks at `mod`, which only a pool can tell, or is
//! privileged.

use bufpool_policies::classic::PolicyKind as Policy;
use bufpool_policies::{FileId, PageId};

/// Receives the events of a run in deterministic mode.
///
/// It is called under the pool's policy lock and must not call into the pool. A panic of it goes to the panic
/// hook and no further; it is told nothing more then.
pub trait Recorder: Send {
    /// Takes one event.
    fn record(&mut self, event: Event<'_>);
}

/// One step of a recorded run.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A file was opened; its pages have ids from `PageId::in_file(id, 0)` on.
    File {
        /// The file's number in the pool.
        id: FileId,
        /// Its name.
        name: &'a str,
    },
    /// A context, that is a call site with the scopes around it and the class of its pages, was seen for the
    /// first time.
    Site {
        /// The number used by later accesses; 0 never occurs.
        id: u32,
        /// Names of the scopes around it, `Q6 > plan node 3`; empty if there are none.
        scopes: &'a str,
        /// What [`Page::class`](crate::Page::class) said of the pages; 0 if nothing.
        class: u8,
        /// The name given with `site!`, if any.
        name: Option<&'a str>,
        /// Source file of the call.
        file: &'a str,
        /// Line of the call.
        line: u32,
    },
    /// A guard was granted.
    Access {
        /// The page.
        page: PageId,
        /// The number of the context; see [`Event::Site`].
        site: u32,
        /// The number of the tenant that accesses.
        tenant: u32,
        /// True if the access made the page instead of reading it.
        creation: bool,
    },
    /// From here on the page's frame may not be taken.
    Pin(PageId),
    /// The page's frame may be taken again.
    Unpin(PageId),
    /// `Tenant::set_policy`.
    Policy {
        /// The number of the tenant.
        tenant: u32,
        /// The level.
        priority: i32,
        /// Its policy from now on.
        policy: Policy,
    },
    /// `Tenant::set_priority`: the pages `first..=last`.
    Priority {
        /// The number of the tenant that owns the pages.
        tenant: u32,
        /// First page of the range.
        first: PageId,
        /// Last page of the range, included.
        last: PageId,
        /// Their priority from now on.
        priority: i32,
    },
    /// `Tenant::set_program`, or a tenant was opened with a program.
    Program {
        /// The number of the tenant.
        tenant: u32,
        /// The program's name.
        name: &'a str,
        /// The program, as [`Program::to_text`](crate::Program::to_text) gives it.
        text: &'a str,
    },
    /// The tenant's pages go in LRU order from here on: `Tenant::clear_program`, of a tenant that had a
    /// program, or `Tenant::close`, of one that had a program, directives or another manager of its own.
    ProgramEnd {
        /// The number of the tenant.
        tenant: u32,
    },
    /// `Tenant::send`.
    Send {
        /// The number of the tenant.
        tenant: u32,
        /// The program's name of the slot.
        slot: &'a str,
        /// Its value from now on.
        value: i64,
    },
    /// A list of [`Tenant::hint`](crate::Tenant::hint): the pages `first..=last` are its next hints.
    Hint {
        /// The number of the tenant that will read them.
        tenant: u32,
        /// First page of the run.
        first: PageId,
        /// Last page of the run, included.
        last: PageId,
    },
    /// [`Hints::replan`](crate::Hints::replan): the hints that follow, up to the next event of another kind,
    /// take the place of what the tenant's list still named.
    HintsReplan {
        /// The number of the tenant.
        tenant: u32,
    },
    /// What the tenant's list still named is withdrawn.
    HintsEnd {
        /// The number of the tenant.
        tenant: u32,
    },
    /// `Tenant::set_temporary_priority`: those of the pages `first..=last` that are resident.
    TemporaryPriority {
        /// The number of the tenant that owns the pages.
        tenant: u32,
        /// First page of the range.
        first: PageId,
        /// Last page of the range, included.
        last: PageId,
        /// Their priority until their next reference.
        priority: i32,
    },
}
