//! Why something could not be done on an object store.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Why something could not be done with a file on an object store. Names the object concerned.
///
/// In an error of the pool it is the [`source`](std::error::Error::source) of the [`bufpool::IoError`], which
/// is that of the [`bufpool::Error`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ObjectError {
    /// The store refused, or failed each time that the call was repeated.
    Store {
        /// What was to be done.
        doing: &'static str,
        /// With which object.
        object: String,
        /// What the store's client says.
        error: Arc<object_store::Error>,
    },
    /// The store did not answer in [`ObjectOptions::timeout_ms`](super::ObjectOptions::timeout_ms). What was
    /// asked may have been done, or be done later.
    TimedOut {
        /// What was to be done.
        doing: &'static str,
        /// With which object.
        object: String,
        /// How long was waited.
        after: Duration,
    },
    /// There is no file: it has no first manifest.
    NoFile {
        /// The manifest that is not there.
        object: String,
    },
    /// There is a file already.
    FileExists {
        /// Its first manifest.
        object: String,
    },
    /// Another writer has committed first. Nothing of what this one has written since its last commit is in
    /// the file. [`File::reopen`](bufpool::File::reopen) begins with what the other has committed.
    Superseded {
        /// The other's manifest.
        manifest: String,
        /// The other's number, drawn when it opened the file. None if the manifest is so old that it has been
        /// emptied. It is this writer's own if a commit that was reported as failed has landed after all.
        writer: Option<u128>,
    },
    /// A chunk of the manifest that is open is gone, as others commit newer ones and collect garbage.
    /// [`File::reopen`](bufpool::File::reopen) begins with the newest.
    ChunkGone {
        /// The chunk.
        object: String,
        /// The page that was wanted.
        page: u64,
        /// Number of the manifest that is open.
        manifest: u64,
        /// Number of the newest. If it is the same, the store has lost the chunk.
        newest: u64,
    },
    /// An object is not what was written there: cut short, damaged, or another one.
    Corrupt {
        /// The object.
        object: String,
        /// The page that is concerned, if it is one.
        page: Option<u64>,
        /// What was found, and what was expected.
        what: String,
    },
    /// The file takes no writes.
    ReadOnly {
        /// Why.
        why: String,
    },
    /// An option out of its range.
    Options {
        /// Which, and what was expected.
        what: String,
    },
    /// A local file, or the runtime's thread, failed.
    Local {
        /// What was to be done.
        doing: &'static str,
        /// With which file, if it was one.
        path: Option<PathBuf>,
        /// What the operating system says.
        error: Arc<io::Error>,
    },
}

impl ObjectError {
    /// The error of this kind that an error of the pool comes from, if it does.
    ///
    /// ```no_run
    /// # use bufpool_remote::object::ObjectError;
    /// # fn run(file: &bufpool::File) {
    /// if let Err(error) = file.flush() {
    ///     if let Some(ObjectError::Superseded { manifest, .. }) = ObjectError::of(&error) {
    ///         eprintln!("another writer was first: {manifest}");
    ///     }
    /// }
    /// # }
    /// ```
    pub fn of<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            // Asked for its source, an `io::Error` passes over the error that it has inside.
            let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            next = inside.map(|inside| inside as _).or_else(|| error.source());
        }
        None
    }

    pub(super) fn local(doing: &'static str, path: Option<PathBuf>, error: io::Error) -> Self {
        Self::Local { doing, path, error: Arc::new(error) }
    }

    pub(super) fn corrupt(object: impl Into<String>, page: Option<u64>, what: impl Into<String>) -> Self {
        Self::Corrupt { object: object.into(), page, what: what.into() }
    }

    /// True if the object that was asked for is not there.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Store { error, .. } if matches!(**error, object_store::Error::NotFound { .. }))
    }
}

impl std::fmt::Display for ObjectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store { doing, object, error } => write!(f, "{doing} of object {object} failed: {error}"),
            Self::TimedOut { doing, object, after } => {
                write!(f, "{doing} of object {object}: no answer in {} ms", after.as_millis())
            }
            Self::NoFile { object } => write!(f, "there is no file: no object {object}"),
            Self::FileExists { object } => write!(f, "there is a file already: object {object}"),
            Self::Superseded { manifest, writer: Some(writer) } => {
                write!(f, "writer {writer:032x} has committed manifest {manifest} first")
            }
            Self::Superseded { manifest, writer: None } => {
                write!(f, "others have committed manifest {manifest} and many after it")
            }
            Self::ChunkGone { object, page, manifest, newest } => {
                write!(f, "object {object} with page {page} is gone; manifest {manifest} is open, ")?;
                write!(f, "and the newest is {newest}")
            }
            Self::Corrupt { object, page: Some(page), what } => {
                write!(f, "object {object}, page {page}: {what}")
            }
            Self::Corrupt { object, page: None, what } => write!(f, "object {object}: {what}"),
            Self::ReadOnly { why } => write!(f, "the file takes no writes: {why}"),
            Self::Options { what } => f.write_str(what),
            Self::Local { doing, path: Some(path), error } => {
                write!(f, "{doing} {} failed: {error}", path.display())
            }
            Self::Local { doing, path: None, error } => write!(f, "{doing} failed: {error}"),
        }
    }
}

impl std::error::Error for ObjectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store { error, .. } => Some(&**error),
            Self::Local { error, .. } => Some(&**error),
            _ => None,
        }
    }
}

impl From<ObjectError> for io::Error {
    fn from(error: ObjectError) -> Self {
        let kind = match &error {
            ObjectError::TimedOut { .. } => io::ErrorKind::TimedOut,
            ObjectError::NoFile { .. } | ObjectError::ChunkGone { .. } => io::ErrorKind::NotFound,
            ObjectError::FileExists { .. } => io::ErrorKind::AlreadyExists,
            ObjectError::Corrupt { .. } => io::ErrorKind::InvalidData,
            ObjectError::ReadOnly { .. } => io::ErrorKind::Unsupported,
            ObjectError::Options { .. } => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
