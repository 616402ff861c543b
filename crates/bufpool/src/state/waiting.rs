//! How long an access may wait, and what it is for.

use std::time::{Duration, Instant};

use crate::page::word::Want;
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

impl Limit {
    /// When an access that begins now has waited long enough; none if that is up to the pool's options.
    pub fn deadline(self) -> Option<Instant> {
        match self {
            Self::Default => None,
            Self::Now => Some(Instant::now()),
            Self::Within(limit) => Some(deadline_after(limit)),
        }
    }
}

/// What an access is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Write,
    /// Contents do not matter: they are overwritten at once.
    Create,
}

impl Purpose {
    pub fn operation(self) -> &'static str {
        match self {
            Self::Read => "read page",
            Self::Write => "write page",
            Self::Create => "create page",
        }
    }

    pub fn want(self) -> Want {
        if self == Self::Read { Want::Shared } else { Want::Exclusive }
    }
}
