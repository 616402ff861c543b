//! The names of a device's files, and which of them a power cut leaves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::random::Random;

/// Which file each name means: now, when its folder was last synced, and the changes in between, in order.
/// In a change, none means that the name was removed.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) now: BTreeMap<PathBuf, u64>,
    pub(super) durable: BTreeMap<PathBuf, u64>,
    pub(super) unsynced: Vec<(PathBuf, Option<u64>)>,
}

impl Names {
    /// Makes the name `path` mean a file, or nothing.
    pub(super) fn set(&mut self, path: &Path, file: Option<u64>) {
        set(&mut self.now, path, file);
        self.unsynced.push((path.to_owned(), file));
    }

    /// Makes durable what `path` means now.
    pub(super) fn make_durable(&mut self, path: &Path) {
        self.unsynced.retain(|(changed, _)| changed != path);
        set(&mut self.durable, path, self.now.get(path).copied());
    }

    /// Makes the changes of names in a folder durable. Returns the files that lost a durable name.
    pub(super) fn sync_folder(&mut self, folder: Option<&Path>) -> Vec<u64> {
        let Self { durable, unsynced, .. } = self;
        let mut released = Vec::new();
        unsynced.retain(|(path, file)| {
            let synced = path.parent() == folder;
            if synced {
                released.extend(set(durable, path, *file));
            }
            !synced
        });
        released
    }

    /// What is left if the power is cut now.
    pub(super) fn after_power_cut(&self, random: &mut Random) -> BTreeMap<PathBuf, u64> {
        let mut survived = self.durable.clone();
        let mut changes: BTreeMap<&Path, Vec<Option<u64>>> = BTreeMap::new();
        for (path, file) in &self.unsynced {
            changes.entry(path).or_default().push(*file);
        }
        for (path, files) in changes {
            if let Some(last) = random.below(files.len() as u64 + 1).checked_sub(1) {
                set(&mut survived, path, files[last as usize]);
            }
        }
        survived
    }

    /// True if a name means this file, or may do so after a power cut.
    pub(super) fn may_name(&self, file: u64) -> bool {
        let mut named = self.now.values().chain(self.durable.values());
        named.any(|&named| named == file) || self.unsynced.iter().any(|(_, named)| *named == Some(file))
    }
}

/// Makes the name `path` mean a file, or nothing. Returns what it meant before.
fn set(names: &mut BTreeMap<PathBuf, u64>, path: &Path, file: Option<u64>) -> Option<u64> {
    match file {
        Some(number) => names.insert(path.to_owned(), number),
        None => names.remove(path),
    }
}
