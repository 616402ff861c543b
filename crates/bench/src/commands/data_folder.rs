//! The folder that a command makes its data files in, removed when the command ends.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::cli::Common;
use crate::machine::temporary::Temporary;
use crate::output::note;
use crate::workload::{Database, Sizes};

/// A new folder below `--dir`, which is made if it is not there, or below the current folder. Removed when
/// dropped, unless `--keep` was given.
pub struct DataFolder {
    path: PathBuf,
    /// Removes the folder when dropped; `None` with `--keep`.
    _temporary: Option<Temporary<TempDir>>,
    direct: bufpool::Direct,
    seed: u64,
}

impl DataFolder {
    /// Makes the folder, and says on standard error where it is if it is kept.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(common: &Common) -> Result<Self> {
        let parent = match &common.dir {
            Some(dir) => {
                let what = || format!("--dir {}: expected a folder, or a place for a new one", dir.display());
                std::fs::create_dir_all(dir).with_context(what)?;
                dir.clone()
            }
            None => env::current_dir().context("the current folder")?,
        };
        let make = || tempfile::Builder::new().prefix("bufbench-data-").tempdir_in(&parent);
        let folder = Temporary::new(make).with_context(|| {
            format!("make a folder for data files in {}: expected a writable folder", parent.display())
        })?;
        let path = folder.path().to_owned();
        let temporary = if common.keep {
            note(format_args!("data files stay in {}", folder.made.keep().display()));
            None
        } else {
            Some(folder)
        };
        Ok(Self { path, _temporary: temporary, direct: common.direct.option(), seed: common.seed })
    }

    /// An empty database in a folder of its own in this one.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn database(&self, name: &str, sizes: Sizes, io: bufpool::Io) -> Result<Database> {
        let path = self.path.join(name);
        std::fs::create_dir(&path).with_context(|| format!("make the folder {}", path.display()))?;
        Ok(Database::new(path, sizes, self.seed, self.direct, io))
    }

    /// How data files are opened.
    pub fn direct(&self) -> bufpool::Direct {
        self.direct
    }

    /// The folder's path.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }
}
