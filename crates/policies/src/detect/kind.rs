//! Detectors by name, and what each takes for a stream.

use super::{Amp, AmpOptions, Dear, DearOptions, Detector, Pcc, Ubm};
use crate::{Access, ContextId};

/// A detector that can label the streams of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DetectorKind {
    /// [`Amp`], sampled.
    Amp,
    /// [`Pcc`].
    Pcc,
    /// [`Ubm`].
    Ubm,
    /// [`Dear`].
    Dear,
}

impl DetectorKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Amp, Self::Pcc, Self::Ubm, Self::Dear];

    /// A detector for one stream of a tenant in a pool of `pool_frames` frames.
    pub fn build(self, pool_frames: u32) -> Box<dyn Detector + Send> {
        match self {
            Self::Amp => Box::new(Amp::new(AmpOptions::for_frames(pool_frames))),
            Self::Pcc => Box::new(Pcc::new()),
            Self::Ubm => Box::new(Ubm::new()),
            Self::Dear => Box::new(Dear::new(DearOptions::default())),
        }
    }

    /// The stream that an access belongs to: context and file for AMP and PCC, the file for UBM, the whole
    /// tenant for DEAR. None if the access does not say.
    #[inline]
    pub fn stream(self, access: &Access) -> Option<u64> {
        let file = u64::from(access.file.0);
        match self {
            Self::Amp | Self::Pcc if access.context == ContextId(0) => None,
            Self::Amp | Self::Pcc => Some(u64::from(access.context.0) << 32 | file),
            Self::Ubm => Some(file),
            Self::Dear => Some(0),
        }
    }
}
