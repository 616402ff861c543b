//! Files of results, which appear whole or not at all.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use super::table::unwritable;
use crate::machine::fifo;
use crate::machine::temporary::Temporary;

/// A file that is written under a temporary name beside its path and renamed by [`finish`](Self::finish).
/// Without that call, a file at the path stays as it was. Nothing is synced to the device.
///
/// A path that exists and is no regular file, such as a pipe or a device, is opened and written directly, and
/// so is a path that stands for an open descriptor, such as `/dev/stdout`.
pub struct WholeFile {
    out: Out,
}

enum Out {
    Beside { file: Temporary<NamedTempFile>, target: PathBuf },
    Through(File),
}

impl WholeFile {
    /// Begins a file at `path`. A regular file at the path is not changed, so this also checks early whether
    /// it can be written. The file of a descriptor is truncated.
    ///
    /// # Errors
    ///
    /// If the path, or the folder that it is in, cannot be written; if the path is a named FIFO that nobody
    /// has open for reading.
    pub fn create(path: &Path) -> io::Result<Self> {
        let existing = fs::metadata(path).ok();
        let is_regular = existing.as_ref().is_none_or(fs::Metadata::is_file);
        if !is_regular || is_descriptor(path) {
            let open = || OpenOptions::new().write(true).truncate(true).open(path);
            let file = if fifo::is_named(path) { fifo::create(path) } else { open() };
            return Ok(Self { out: Out::Through(file?) });
        }
        if existing.is_some() {
            // A file that may not be written may not be replaced either.
            OpenOptions::new().write(true).open(path)?;
        }
        let target = behind_links(path);
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        // The system's mask applies, as for any new file.
        let permissions = Permissions::from_mode(0o666);
        let mut builder = tempfile::Builder::new();
        builder.prefix(".bufbench-").permissions(permissions);
        let folder = folder.unwrap_or(Path::new("."));
        // The error without the temporary name, which nobody has asked for.
        let make = || builder.tempfile_in(folder).map_err(|error| io::Error::from(error.kind()));
        let file = Temporary::new(make)?;
        if let Some(existing) = existing {
            file.made.as_file().set_permissions(existing.permissions())?;
        }
        Ok(Self { out: Out::Beside { file, target } })
    }

    /// As [`create`](Self::create), for a file that is written at the end of long work: that it cannot be
    /// written is found before the work.
    ///
    /// # Errors
    ///
    /// Those of `create`, with a message that says what was expected.
    pub fn begin(path: &Path) -> Result<Self> {
        Self::create(path).with_context(|| unwritable(path))
    }

    /// Puts the file in place.
    ///
    /// # Errors
    ///
    /// If it cannot be renamed.
    pub fn finish(self) -> io::Result<()> {
        match self.out {
            Out::Beside { file, target } => Ok(file.made.persist(target).map(drop)?),
            Out::Through(_) => Ok(()),
        }
    }

    /// Writes `text` and puts the file in place.
    ///
    /// # Errors
    ///
    /// If it cannot be written or renamed.
    pub fn finish_with(mut self, text: &str) -> io::Result<()> {
        self.write_all(text.as_bytes())?;
        self.finish()
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Out::Beside { file, .. } => file.made.write(bytes),
            Out::Through(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        // Neither kind of file has a buffer.
        Ok(())
    }
}

/// Whether the path stands for a descriptor of this process, whose file must not be replaced.
fn is_descriptor(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"].iter().any(|prefix| path.starts_with(prefix))
}

/// The path itself or, if it is a symbolic link, the path that it leads to, which need not exist.
fn behind_links(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| match fs::read_link(path) {
        Ok(target) => path.with_file_name("").join(target),
        Err(_) => path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt, symlink};

    use super::*;

    fn names_in(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn an_unfinished_file_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old");
        fs::write(&path, "old").unwrap();
        for path in [&path, &folder.path().join("new")] {
            let mut file = WholeFile::create(path).unwrap();
            file.write_all(b"half").unwrap();
        }
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names_in(folder.path())), ("old", 1));
    }

    #[test]
    fn a_finished_file_has_the_old_one_s_permissions_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let [path, link, dangling] = ["old", "link", "dangling"].map(|name| folder.path().join(name));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        symlink("old", &link).unwrap();
        symlink("made", &dangling).unwrap();
        for link in [&link, &dangling] {
            WholeFile::create(link).unwrap().finish_with("new").unwrap();
            assert!(fs::symlink_metadata(link).unwrap().is_symlink());
            assert_eq!(fs::read_to_string(link).unwrap(), "new");
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names_in(folder.path()), 4);
    }

    #[test]
    fn a_device_is_written_through_and_a_folder_refused() {
        let folder = tempfile::tempdir().unwrap();
        WholeFile::create(Path::new("/dev/null")).unwrap().finish_with("new").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        assert!(WholeFile::create(folder.path()).is_err());
        assert!(WholeFile::create(&folder.path().join("no/such")).is_err());
    }
}
