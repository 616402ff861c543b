//! Which pages to bring in before their first access.
//!
//! A planner stands beside managers: it serves all tenants of a pool, the unmanaged ones too, and decides
//! about arrivals only, never about victims. It is told of accesses and asked for plans, both under the
//! pool's policy lock. The pool carries the plans out once it has let go of the lock, as far as its limits
//! and its clean frames go, and reports what became of them.

mod read_ahead;

pub use read_ahead::ReadAhead;

use crate::ids::{Access, ContextId, FileId, TenantId};

/// Asks for pages; see the [module](self).
///
/// No call may block. Each costs a bounded number of steps, which an implementation states.
pub trait Planner: Send {
    /// `access` was made to a page of a file with `bounds`. Returns pages that were planned for before and
    /// will not be needed after all.
    fn observe(&mut self, access: &Access, seen: Seen, bounds: Bounds) -> Option<Stretch>;

    /// A new tenant gets the number of one that was closed. What was known of that, and planned for it, ends.
    fn reused(&mut self, tenant: TenantId);

    /// `access` waits for a page that is on its way in ahead, and will be [observed](Self::observe) later.
    fn awaited(&mut self, access: &Access);

    /// Addresses of what the next observation is likely to change, to be fetched; null where not known.
    fn places(&self) -> [*const u8; 3] {
        [std::ptr::null(); 3]
    }

    /// Whether there are plans.
    fn has_wants(&self) -> bool;

    /// Moves all plans to `out`, those made first coming first. There are no more than [`PLANS_MAX`].
    fn wants(&mut self, out: &mut Vec<Plan>);

    /// What became of a plan: `brought` pages are on their way, others were resident. From page `refused` on,
    /// in ascending order, there was no room. Not called for a plan whose pages are all on their way.
    fn carried_out(&mut self, plan: &Plan, brought: u64, refused: Option<u64>);

    /// Counts of all streams.
    fn counts(&self) -> StreamCounts;

    /// Memory that it takes.
    fn metadata_bytes(&self) -> usize;
}

/// Plans that wait to be carried out; more are not made.
pub const PLANS_MAX: usize = 64;

/// Why an access is observed. Other accesses are hits, which read-ahead cannot make cheaper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// The page was absent.
    Missed,
    /// It is the first access since the page was brought in ahead.
    FoundAhead,
}

/// What bounds plans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// How many pages the file has.
    pub pages: u64,
    /// Pages of the tenant that may be ahead at a time.
    pub limit: u64,
}

/// What a stream is: the accesses of one context of a tenant to one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamKey {
    /// Whose accesses they are.
    pub tenant: TenantId,
    /// From where they are made.
    pub context: ContextId,
    /// The file of the pages.
    pub file: FileId,
}

impl StreamKey {
    /// The key of the stream that an access is part of.
    fn of(access: &Access) -> Self {
        Self { tenant: access.tenant, context: access.context, file: access.file }
    }
}

/// Evenly spaced pages of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// The number of the page needed first.
    pub first: u64,
    /// The distance from one page to the next, in pages; not 0, and negative in a backward stretch.
    pub step: i64,
    /// The number of pages, at least 1.
    pub count: u64,
}

impl Stretch {
    /// Adds `next` if it goes on where this one ends. Returns whether it does.
    pub fn join(&mut self, next: Self) -> bool {
        let joins = self.step == next.step && self.end() == next.first;
        self.count += if joins { next.count } else { 0 };
        joins
    }

    /// The page numbers, ascending.
    pub fn numbers(self) -> impl Iterator<Item = u64> + use<> {
        let lowest = self.lowest();
        (0..self.count).map(move |at| lowest + at * self.step.unsigned_abs())
    }

    /// The page that would come next.
    fn end(self) -> u64 {
        self.first.wrapping_add_signed(self.step.wrapping_mul(self.count as i64))
    }

    fn lowest(self) -> u64 {
        if self.step < 0 { self.end().wrapping_add_signed(-self.step) } else { self.first }
    }

    fn highest(self) -> u64 {
        self.lowest() + (self.count - 1) * self.step.unsigned_abs()
    }
}

/// Pages to bring in ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Who is expected to access them.
    pub key: StreamKey,
    /// Which they are.
    pub pages: Stretch,
}

/// Counts of all streams.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StreamCounts {
    /// Positions that were believed.
    pub opened: u64,
    /// Of the positions believed, those given up with more than a quarter of their pages unused.
    pub wasteful: u64,
}
