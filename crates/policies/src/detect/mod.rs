//! What kind of stream is this? A detector watches the accesses of one stream and labels it, nothing else;
//! what to make of the label is a manager's business.
//!
//! | detector | stream | looks at | cost an access | memory |
//! | --- | --- | --- | --- | --- |
//! | [`AmpExact`] | any | recency ranks of re-accessed blocks | O(log n) | 24 bytes a block |
//! | [`Amp`] | any | the same on sampled blocks | O(1), at most 64 steps on a sampled block | 64 entries |
//! | [`Pcc`] | a call site | first accesses against re-accesses | O(1) | 16 bytes a block |
//! | [`Ubm`] | a file | runs of consecutive blocks, their repetition | O(1) | one run at a time |
//! | [`Dear`] | an application | two orders of a period's blocks | O(1) | 40 bytes a block of a period |
//!
//! The recency rank of a block is its place in the stream's blocks ordered by last use. [`Dear`] takes
//! O(n log n) at the end of a period of n blocks to see which order tells the next use better.
//!
//! [`AmpExact`] is the oracle for [`Amp`]; the other three are there to compare with.

mod amp;
mod amp_exact;
mod dear;
mod kind;
mod pcc;
mod ubm;

pub use amp::{Amp, AmpOptions};
pub use amp_exact::AmpExact;
pub use dear::{Dear, DearOptions};
pub use kind::DetectorKind;
pub use pcc::Pcc;
pub use ubm::Ubm;

use std::fmt;

use crate::PageId;

/// What a stream looks like.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Class {
    /// Not enough evidence, or none of the other classes.
    #[default]
    Other,
    /// Blocks are used once: nothing is gained by keeping them.
    OneShot,
    /// The same blocks come again in the same order: the one used last is needed last.
    Looping,
    /// What was used lately is used again soon.
    Temporal,
    /// Each block is used with a probability of its own, whatever was used before.
    Probabilistic,
}

impl Class {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::OneShot => "one-shot",
            Self::Looping => "loop",
            Self::Temporal => "clustered",
            Self::Probabilistic => "by chance",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Watches one stream.
pub trait Detector {
    /// The stream accesses `page`.
    fn access(&mut self, page: PageId);

    /// The label that the accesses so far deserve.
    fn class(&self) -> Class;

    /// Accesses of the stream from one use of a block to the next, above 0, where the detector measures them.
    fn period(&self) -> Option<f64> {
        None
    }

    /// What the label rests on.
    fn evidence(&self) -> Evidence {
        Evidence::default()
    }

    /// Bytes of memory held.
    fn metadata_bytes(&self) -> usize;
}

/// What a label rests on.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Evidence {
    /// Accesses that the label is based on.
    pub samples: u32,
    /// AMP's mean access recency, from 0 (a loop) to 1; none where it is not measured, or nothing was
    /// accessed again.
    pub recency: Option<f64>,
}
