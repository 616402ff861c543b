//! Why a tier could not be made.

use std::sync::Arc;
use std::{error, fmt};

/// Why a [`RedisTier`](super::RedisTier) could not be made. What happens at the server later is no error, but
/// costs misses; see [`TierReport::note`](bufpool::tier::TierReport).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RedisTierError {
    /// The address is none that the client understands.
    Url {
        /// What the client says.
        error: Arc<redis::RedisError>,
    },
    /// The namespace is not one that keys can begin with.
    Namespace {
        /// What was found, and what was expected.
        what: String,
    },
}

impl fmt::Display for RedisTierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { error } => {
                write!(
                    f,
                    "the server's address: {error}, expected redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]"
                )
            }
            Self::Namespace { what } => f.write_str(what),
        }
    }
}

impl error::Error for RedisTierError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Url { error } => Some(&**error),
            Self::Namespace { .. } => None,
        }
    }
}
