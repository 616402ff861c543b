//! How long an access may wait, what it gets when it may wait no longer, and what it is for.

use std::time::Duration;

use crate::error::Error;
use crate::page::latch::Patience;
use crate::state::shared::PoolShared;
use crate::sync::deadline_after;

/// How long an access may wait for others.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    /// As the pool's options say; longer is an error.
    Default,
    /// Not at all.
    Now,
    /// This long.
    Within(Duration),
}

/// The waits of one access, each with what is left of its patience.
pub(crate) struct Waits {
    /// For others' latches and loads, and for operations that hold off a load.
    pub latch: Patience,
    /// For a frame.
    pub frame: Patience,
    /// The caller has set the limit. When it is over the caller gets [`Refused::Busy`]; without an own limit
    /// it gets an error.
    pub own_limit: bool,
}

impl Waits {
    /// Of an access that begins now.
    pub fn begin(pool: &PoolShared, limit: Limit) -> Self {
        match limit {
            Limit::Default => Self {
                latch: Patience::Limit(pool.latch_wait),
                frame: Patience::Limit(pool.frame_wait),
                own_limit: false,
            },
            Limit::Now => Self { latch: Patience::None, frame: Patience::None, own_limit: true },
            Limit::Within(limit) => {
                let until = Patience::Until(deadline_after(limit));
                Self { latch: until, frame: until, own_limit: true }
            }
        }
    }
}

/// Why an access was not granted.
pub(crate) enum Refused {
    /// It would have had to wait longer than its caller allows.
    Busy,
    /// The error says why.
    Failed(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Refused {
    /// The error of an access whose caller has set no limit of its own, and which is therefore never busy.
    #[cold]
    pub fn into_error(self) -> Error {
        match self {
            Self::Failed(error) => error,
            Self::Busy => unreachable!("without a limit of the caller's, waiting ends with an error"),
        }
    }
}

/// What an access is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Write,
    /// Contents do not matter: they are made zeros at once.
    Create,
    /// Contents do not matter: others take their place at once.
    Overwrite,
}

impl Purpose {
    pub const fn operation(self) -> &'static str {
        match self {
            Self::Read => "read page",
            Self::Write => "write page",
            Self::Create => "create page",
            Self::Overwrite => "overwrite page",
        }
    }

    /// Contents do not matter, so an absent page is not read.
    #[inline]
    pub fn creates(self) -> bool {
        matches!(self, Self::Create | Self::Overwrite)
    }
}
