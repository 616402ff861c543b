//! Why the directory refuses a request, and the error for unknown names. A refused request changes nothing.

use std::fmt;

use crate::ids::{FRAMES_MAX, PRIORITIES, PageId, TenantId};

/// A directive that was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DirectiveError {
    /// No such tenant, or it was closed.
    UnknownTenant {
        /// The tenant named.
        tenant: TenantId,
    },
    /// The tenant has a manager of the engine's own, which decides alone.
    HasManager {
        /// The tenant named.
        tenant: TenantId,
    },
    /// A priority outside [`PRIORITIES`].
    PriorityOutOfRange {
        /// The priority given.
        priority: i32,
    },
    /// The last page of a range comes before its first.
    InvertedRange {
        /// The first page given.
        first: PageId,
        /// The last page given.
        last: PageId,
    },
    /// The tenant's ranges of long-term priority are used up.
    TooManyRanges {
        /// How many it may have.
        limit: usize,
    },
}

impl fmt::Display for DirectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownTenant { tenant } => write!(f, "tenant {} is not open", tenant.0),
            Self::HasManager { tenant } => {
                write!(f, "tenant {} has a manager of its own, expected one that takes directives", tenant.0)
            }
            Self::PriorityOutOfRange { priority } => {
                let (least, most) = (PRIORITIES.start(), PRIORITIES.end());
                write!(f, "priority {priority} is outside {least}..={most}")
            }
            Self::InvertedRange { first, last } => {
                write!(f, "the range ends at page {} before it begins at page {}", last.0, first.0)
            }
            Self::TooManyRanges { limit } => {
                write!(f, "expected at most {limit} ranges of pages with a priority for one tenant")
            }
        }
    }
}

impl std::error::Error for DirectiveError {}

/// A change of frames or tenants that was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The number of frames is 0 or above [`FRAMES_MAX`].
    FramesOutOfRange {
        /// The number given.
        frames: u32,
    },
    /// No such tenant, or it was closed.
    UnknownTenant {
        /// The tenant named.
        tenant: TenantId,
    },
    /// The default tenant is always open.
    DefaultTenant,
    /// A cap of no frames, or one below the floor.
    CapBelowFloor {
        /// The floor, in frames.
        floor_frames: u32,
        /// The cap, in frames.
        cap_frames: u32,
    },
    /// A tenant that cannot join the commons, because it has blocks, a manager, a floor or a cap of its own.
    NotCommon {
        /// The tenant named.
        tenant: TenantId,
    },
    /// All floors together leave too few frames.
    FloorsTooLarge {
        /// What the floors would come to, in frames.
        floors_frames: u64,
        /// What they may come to, in frames.
        limit_frames: u32,
    },
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FramesOutOfRange { frames } => {
                write!(f, "{frames} frames, expected 1 to {FRAMES_MAX}")
            }
            Self::UnknownTenant { tenant } => write!(f, "tenant {} is not open", tenant.0),
            Self::DefaultTenant => write!(f, "the default tenant cannot be closed"),
            Self::CapBelowFloor { floor_frames, cap_frames } => {
                write!(
                    f,
                    "a cap of {cap_frames} frames, expected at least 1 and at least the floor of {floor_frames}"
                )
            }
            Self::NotCommon { tenant } => {
                write!(
                    f,
                    "tenant {} cannot join the commons, expected one without blocks, manager, floor and cap of its own",
                    tenant.0
                )
            }
            Self::FloorsTooLarge { floors_frames, limit_frames } => {
                write!(f, "floors of {floors_frames} frames in all, expected at most {limit_frames}")
            }
        }
    }
}

impl std::error::Error for DirectoryError {}

/// A name that is not among those known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownName {
    /// The name as it was given.
    pub name: String,
    /// What it should be the name of, in the plural.
    pub kind: &'static str,
    /// The names that there are.
    pub known: Vec<&'static str>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected one of the {} {}, found `{}`", self.kind, self.known.join(" "), self.name)
    }
}

impl std::error::Error for UnknownName {}
