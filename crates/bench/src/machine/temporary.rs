//! Files and folders that exist during a run, and are removed at its end even if a signal ends it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io, thread};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use tempfile::TempDir;

use super::memory::status_word;

/// The paths to be removed. The thread that handles signals keeps this locked until the process ends, so that
/// nothing new is made.
static PATHS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The most attempts to remove a folder in which other threads still make files.
const REMOVALS_MAX: u32 = 16;

/// A temporary file or folder, which removes itself when dropped.
#[derive(Debug)]
pub struct Temporary<T> {
    /// The file or folder. It is dropped, and so removed, before its path is forgotten.
    pub made: T,
    _registered: Registered,
}

#[derive(Debug)]
struct Registered(PathBuf);

impl<T: AsRef<Path>> Temporary<T> {
    /// Calls `make`. Until the value is dropped, a signal that ends the process also removes what `make`
    /// made.
    ///
    /// # Errors
    ///
    /// Those of `make`.
    pub fn new(make: impl FnOnce() -> io::Result<T>) -> io::Result<Self> {
        let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
        let made = make()?;
        let path = std::path::absolute(made.as_ref())?;
        paths.insert(path.clone());
        Ok(Self { made, _registered: Registered(path) })
    }

    /// The path of the file or folder.
    pub fn path(&self) -> &Path {
        self.made.as_ref()
    }
}

impl Temporary<TempDir> {
    /// A new folder in the system's folder for temporary files.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn folder() -> io::Result<Self> {
        Self::new(tempfile::tempdir)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        PATHS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// From here on SIGHUP, SIGINT and SIGTERM remove all temporary files and folders before they end the
/// process, with the exit status that they have otherwise. A signal that the process was started to ignore
/// stays ignored.
///
/// # Errors
///
/// If the signals cannot be caught, or no thread can be started.
pub fn remove_on_signals() -> io::Result<()> {
    let ignored = status_word("SigIgn").and_then(|mask| u64::from_str_radix(&mask, 16).ok()).unwrap_or(0);
    let caught = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(caught)?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
            paths.iter().for_each(|path| remove(path));
            // The default handler ends the process. Nothing can be done if it fails.
            let _ = emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

/// Removes a file or folder as far as possible. Errors are ignored, since the process ends.
fn remove(path: &Path) {
    if fs::remove_file(path).is_ok() {
        return;
    }
    for _ in 0..REMOVALS_MAX {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_temporary_is_known_until_it_is_dropped() {
        let known = |path: &Path| PATHS.lock().unwrap().contains(path);
        let folder = Temporary::folder().unwrap();
        let path = folder.path().to_owned();
        assert!(known(&path) && path.is_dir());
        drop(folder);
        assert!(!known(&path) && !path.exists());
    }

    #[test]
    fn files_and_filled_folders_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [file, filled] = ["file", "filled"].map(|name| folder.path().join(name));
        fs::write(&file, "").unwrap();
        fs::create_dir(&filled).unwrap();
        fs::write(filled.join("pages"), "").unwrap();
        [&file, &filled].into_iter().for_each(|path| remove(path));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
