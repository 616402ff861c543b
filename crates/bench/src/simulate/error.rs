//! Why a simulation could not be carried out.

use std::{error, fmt, io};

use bufpool_policies::program::NeedsPrivilege;
use bufpool_policies::{DirectoryError, SendError};

use crate::trace::{Place, Trace, TraceError};

/// A simulation that could not be carried out.
#[derive(Debug)]
pub enum SimError {
    /// The trace is malformed, cannot be read, or asks for something that is refused.
    Trace(TraceError),
    /// The directory refused a number of frames, or another request.
    Directory(DirectoryError),
    /// The floor or cap of a tenant contradicts the other, or the floors of the tenants before it.
    Limits {
        /// The tenant, by its name in the trace.
        tenant: u64,
        /// What does not fit.
        why: DirectoryError,
    },
    /// A floor or cap of a tenant that the trace does not have.
    UnknownTenant {
        /// The trace's name.
        trace: String,
        /// The tenant named.
        tenant: u32,
    },
    /// There are more clients of a lower cache than frames.
    TooFewFrames {
        /// The trace's name.
        trace: String,
        /// Its tenants.
        clients: u32,
        /// The frames of all clients together.
        frames: u32,
    },
    /// OPT was to decide for a cache that does not see the accesses of the whole trace.
    OptBelow,
    /// The file of next uses failed.
    Scratch(io::Error),
    /// A program needs a privileged tenant.
    Privileged(NeedsPrivilege),
    /// A program refused a value that it was sent.
    NotSent {
        /// The name of the slot.
        slot: String,
        /// Why it was refused, and what was expected.
        why: SendError,
    },
}

impl SimError {
    /// The access with index `access` found every frame that it could take pinned.
    pub(super) fn all_pinned(trace: &Trace, access: u64, block: u32, frames: u32) -> Self {
        let place = trace.place_of(access).unwrap_or(Place::File);
        let block = trace.blocks()[block as usize];
        let message = format!(
            "block {block} needs a frame, and each of the {frames} frames is pinned, protected by a floor or beyond \
             its tenant's cap; expected fewer pins, lower floors or more frames"
        );
        Self::Trace(TraceError::refused(trace.path(), place, message))
    }
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(f),
            Self::Directory(error) => error.fmt(f),
            Self::Privileged(error) => error.fmt(f),
            Self::NotSent { slot, why } => write!(f, "{why}, found `{slot}`"),
            Self::Limits { tenant, why } => write!(f, "--floor, --cap: tenant {tenant}: {why}"),
            Self::UnknownTenant { trace, tenant } => {
                write!(f, "--floor, --cap: expected a tenant of trace {trace}, found {tenant}")
            }
            Self::TooFewFrames { trace, clients, frames } => write!(
                f,
                "--clients: expected at least a frame for each of the {clients} tenants of trace {trace}, found {frames}"
            ),
            Self::OptBelow => f.write_str(
                "--tier: expected another policy than opt, which knows the accesses of the whole trace only, with \
                 --clients and above promote",
            ),
            Self::Scratch(_) => f.write_str(
                "--scratch: the next uses of OPT cannot be written or read, expected a folder that exists, may be \
                 written to, and has 8 bytes free for each access",
            ),
        }
    }
}

impl error::Error for SimError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Trace(error) => error.source(),
            Self::Scratch(error) => Some(error),
            Self::Directory(_)
            | Self::Limits { .. }
            | Self::Privileged(_)
            | Self::NotSent { .. }
            | Self::UnknownTenant { .. }
            | Self::TooFewFrames { .. }
            | Self::OptBelow => None,
        }
    }
}

impl From<TraceError> for SimError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl From<DirectoryError> for SimError {
    fn from(error: DirectoryError) -> Self {
        Self::Directory(error)
    }
}
