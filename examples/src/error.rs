//! What can go wrong in the small engine.

use std::fmt;

/// The result of an operation on a heap file or a B+-tree.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on a heap file or a B+-tree failed. Nothing was changed then, unless the operation says
/// otherwise.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The pool failed; its error names page and operation.
    Pool(bufpool::Error),
    /// A page is not one of this structure: another structure's file, other sizes, or damage.
    Format {
        /// The file's name.
        file: String,
        /// The page's number in it.
        page: u64,
        /// What the page should have been.
        expected: String,
    },
    /// An argument that is not allowed. The text says what was given and what is allowed.
    Invalid(String),
}

impl From<bufpool::Error> for Error {
    fn from(error: bufpool::Error) -> Self {
        Self::Pool(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(error) => error.fmt(f),
            Self::Format { file, page, expected } => {
                write!(f, "page {page} of {file} is not {expected}")
            }
            Self::Invalid(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // `Display` prints the pool's error itself, so its source is next.
            Self::Pool(error) => error.source(),
            Self::Format { .. } | Self::Invalid(_) => None,
        }
    }
}
