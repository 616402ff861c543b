//! What a manager knows of a stream, for reports.

use crate::detect::Class;
use crate::ids::{ContextId, FileId};

/// One stream, the pair of context and file, as its manager sees it. Counts are since the manager began to
/// remember the stream; streams that were forgotten and come again start anew.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StreamReport {
    /// The context that the accesses are made from.
    pub context: ContextId,
    /// The file that is accessed.
    pub file: FileId,
    /// What the stream looks like.
    pub class: Class,
    /// How much the class rests on: sampled accesses whose next use, or the lack of one, was seen. Ageing.
    pub samples: u32,
    /// AMP's access recency of the sampled accesses, 0 (a loop) to 1 (what was used last is used again); none
    /// where the manager does not measure it or no sampled page came again.
    pub recency: Option<f32>,
    /// Mean time until the page of a sampled access was used again, in multiples of the time in which all
    /// frames are replaced while every access misses; none where the manager does not measure it or no
    /// sampled page came again.
    pub mean_interval: Option<f32>,
    /// Frames whose page this stream used last.
    pub frames: u32,
    /// Accesses that found their page resident, as far as the manager was told of them.
    pub hits: u64,
    /// Pages that came in for the stream: read, made, or brought in ahead of an access.
    pub misses: u64,
    /// Times that the manager gave up a page last used by this stream and was wrong to.
    pub mistakes: u64,
    /// Whether the stream was wrong so often that it is treated like any other for now.
    pub revoked: bool,
    /// Accesses of the stream since its class changed, or since it began.
    pub unchanged: u64,
}
