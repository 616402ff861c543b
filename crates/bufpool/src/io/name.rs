//! Names of open files: the entry of a folder that a file was opened by.
//!
//! A path is looked up once, when its file is opened. From then on the folder is known by its descriptor and
//! the file by its identity, so that neither a change of the working directory nor a rename makes an
//! operation meet another file.

use std::ffi::{CString, OsStr};
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use super::identity::FileIdentity;
use crate::sys;

/// Most symbolic links that are followed one after the other; the limit of Linux.
const LINKS_MAX: u32 = 40;

/// Why something could not be done with the name of a file.
#[derive(Debug)]
pub enum NameError {
    /// A system call failed.
    Os { doing: &'static str, error: io::Error },
    /// The file has no name, or none that is known.
    None,
    /// The name is gone, or belongs to the file `found`.
    Changed { found: Option<FileIdentity>, expected: FileIdentity },
}

impl NameError {
    pub(super) fn os(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Os { doing, error }
    }
}

impl std::fmt::Display for NameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Os { doing, error } => write!(f, "{doing} failed: {error}"),
            Self::None => f.write_str("it was not opened by the name that it has in a folder"),
            Self::Changed { found: None, expected } => {
                write!(f, "the name that the file was opened by is gone; expected {expected}")
            }
            Self::Changed { found: Some(found), expected } => {
                write!(f, "the name that the file was opened by belongs to another file: {found}; ")?;
                write!(f, "expected {expected}")
            }
        }
    }
}

impl std::error::Error for NameError {}

/// The name that a source was opened by.
pub trait Entry: std::fmt::Debug + Send + Sync {
    /// Removes the name, if it is still the file's; after a power cut it may be there again until
    /// [`sync_folder`](Self::sync_folder). The source stays usable.
    fn remove(&self) -> Result<(), NameError>;

    /// Makes it durable that the name is there, or is not.
    fn sync_folder(&self) -> Result<(), NameError>;
}

/// An entry of a folder, which may be there or not, and may be a symbolic link.
#[derive(Debug)]
pub(super) struct FileName {
    /// Opened with O_PATH, for which no permission to read the folder is needed.
    folder: OwnedFd,
    entry: CString,
}

impl FileName {
    /// The last part of `path`, as an entry of the folder that the rest of `path` leads to now.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let (folder, entry) = split(path)?;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY);
        Ok(Self { folder: options.open(folder)?.into(), entry })
    }

    /// Where the symbolic link `self` leads to.
    fn target(&self) -> io::Result<Self> {
        let target = sys::read_link_at(self.folder.as_fd(), &self.entry)?;
        let (folder, entry) = split(Path::new(OsStr::from_bytes(&target)))?;
        let folder = CString::new(folder.as_os_str().as_bytes())?;
        let folder = sys::open_at(self.folder.as_fd(), &folder, libc::O_PATH | libc::O_DIRECTORY)?;
        Ok(Self { folder, entry })
    }

    /// Opens what the name leads to, with flags of open(2).
    pub(super) fn open(&self, flags: libc::c_int) -> io::Result<File> {
        sys::open_at(self.folder.as_fd(), &self.entry, flags).map(File::from)
    }

    /// The metadata of what the name leads to; None if there is nothing. The file itself is not opened, so
    /// opening it has no effect on a device and waits for nothing.
    pub(super) fn look(&self) -> io::Result<Option<Metadata>> {
        self.look_with(0)
    }

    fn look_with(&self, more_flags: libc::c_int) -> io::Result<Option<Metadata>> {
        match self.open(libc::O_PATH | more_flags) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(found) => found.metadata().map(Some),
        }
    }

    /// Follows symbolic links from the name to the entry that is the file `identity` itself. None if the
    /// links do not lead there, as some in `/proc/self/fd` do not.
    pub(super) fn entry_of(mut self, identity: FileIdentity) -> io::Result<Option<Self>> {
        for _ in 0..LINKS_MAX {
            let Some(found) = self.look_with(libc::O_NOFOLLOW)? else { return Ok(None) };
            if !found.is_symlink() {
                return Ok((FileIdentity::of(&found) == identity).then_some(self));
            }
            self = match self.target() {
                Err(error) if leads_nowhere(&error) => return Ok(None),
                target => target?,
            };
        }
        Ok(None)
    }

    /// Removes the name if it is that of the file `identity`. Linux has no call that checks and removes in
    /// one step: if somebody renames another file to this name in between, that file loses its name instead.
    pub(super) fn remove(&self, identity: FileIdentity) -> Result<(), NameError> {
        let found = self.look_with(libc::O_NOFOLLOW).map_err(NameError::os("looking up the name"))?;
        let found = found.as_ref().map(FileIdentity::of);
        if found != Some(identity) {
            return Err(NameError::Changed { found, expected: identity });
        }
        sys::unlink_at(self.folder.as_fd(), &self.entry).map_err(NameError::os("unlink"))
    }

    /// Makes durable which names the folder has; a sync of a file need not do that. Succeeds on file systems
    /// that cannot sync folders.
    pub(super) fn sync_folder(&self) -> io::Result<()> {
        #[cfg(test)]
        tests::FOLDER_SYNCS.with(tests::FolderSyncs::called)?;
        let folder = sys::open_at(self.folder.as_fd(), c".", libc::O_RDONLY | libc::O_DIRECTORY)?;
        match sys::sync(folder.as_fd(), false) {
            // Some file systems cannot sync folders.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => Ok(()),
            other => other,
        }
    }
}

/// Folder and entry of a path. A path that does not end in a name is the entry `.` of itself.
fn split(path: &Path) -> io::Result<(&Path, CString)> {
    let (folder, entry) = match (path.parent(), path.file_name()) {
        (Some(folder), Some(entry)) if folder.as_os_str().is_empty() => (Path::new("."), entry),
        (Some(folder), Some(entry)) => (folder, entry),
        _ => (path, OsStr::new(".")),
    };
    Ok((folder, CString::new(entry.as_bytes())?))
}

fn leads_nowhere(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR))
}

/// The kind of a file that has no pages, for messages.
pub(super) fn kind_of(file: FileType) -> &'static str {
    match file {
        file if file.is_dir() => "a directory",
        file if file.is_fifo() => "a FIFO (pipe)",
        file if file.is_socket() => "a socket",
        file if file.is_char_device() => "a character device",
        file if file.is_symlink() => "a symbolic link",
        _ => "a file of an unknown kind",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use super::*;

    /// Syncs of folders by this thread.
    #[derive(Default)]
    pub(in super::super) struct FolderSyncs {
        pub(in super::super) count: Cell<u32>,
        pub(in super::super) fails: Cell<bool>,
    }

    impl FolderSyncs {
        pub(super) fn called(&self) -> io::Result<()> {
            self.count.set(self.count.get() + 1);
            if self.fails.get() { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
        }
    }

    thread_local! {
        pub(in super::super) static FOLDER_SYNCS: FolderSyncs = FolderSyncs::default();
    }

    #[test]
    fn paths_are_split_into_folder_and_entry() {
        let cases = [
            ("data", ".", "data"),
            ("/data", "/", "data"),
            ("a/b/data", "a/b", "data"),
            ("a/../data", "a/..", "data"),
            ("a/..", "a/..", "."),
            ("/", "/", "."),
            ("", "", "."),
        ];
        for (path, folder, entry) in cases {
            let (found_folder, found_entry) = split(Path::new(path)).unwrap();
            assert_eq!((found_folder, found_entry.to_str().unwrap()), (Path::new(folder), entry), "{path}");
        }
        assert!(split(Path::new("a\0b")).is_err());
    }

    #[test]
    fn links_that_go_round_lead_to_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("round");
        std::os::unix::fs::symlink("round", &path).unwrap();
        let identity = FileIdentity::of(&directory.path().metadata().unwrap());
        assert!(FileName::of(&path).unwrap().entry_of(identity).unwrap().is_none());
    }
}
