//! Why a search cannot be carried out.

use std::path::PathBuf;
use std::{error, fmt};

use crate::simulate::SimError;

/// A search that could not be carried out.
#[derive(Debug)]
pub enum SearchError {
    /// There are no traces.
    NoTraces,
    /// There are no sizes.
    NoSizes,
    /// A trace without accesses.
    Empty(PathBuf),
    /// A trace could not be played.
    Sim(SimError),
}

impl fmt::Display for SearchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTraces => f.write_str("expected at least one trace to grade programs on, found none"),
            Self::NoSizes => f.write_str("expected at least one size to grade programs at, found none"),
            Self::Empty(path) => {
                write!(f, "{}: expected a trace with accesses, found none", path.display())
            }
            Self::Sim(error) => error.fmt(f),
        }
    }
}

impl error::Error for SearchError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Sim(error) => error.source(),
            Self::NoTraces | Self::NoSizes | Self::Empty(_) => None,
        }
    }
}

impl From<SimError> for SearchError {
    fn from(error: SimError) -> Self {
        Self::Sim(error)
    }
}
