//! The error of a name that no policy has.

use std::fmt;

/// A name that none of the policies has that may be named in its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownPolicy {
    /// The name as it was given.
    pub name: String,
    /// What may be named there, in the plural.
    pub kind: &'static str,
    /// The names that there are.
    pub known: Vec<&'static str>,
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected one of the {} {}, found `{}`", self.kind, self.known.join(" "), self.name)
    }
}

impl std::error::Error for UnknownPolicy {}
