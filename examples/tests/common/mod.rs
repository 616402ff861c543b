//! A pool and a directory for its files that disappear together.

use bufpool::{File, FileOptions, Pool, PoolOptions};
use tempfile::TempDir;

pub struct Fixture {
    pub pool: Pool,
    directory: TempDir,
}

impl Fixture {
    pub fn new(frames: u32) -> Self {
        let pool = PoolOptions::new().frames(frames).page_bytes(4096).threads_max(8).open().unwrap();
        Self { pool, directory: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    /// The file of that name; made if it is not there.
    pub fn file(&self, name: &str) -> File {
        let path = self.directory.path().join(name);
        self.pool.open_file(path, FileOptions::new().create(true)).unwrap()
    }
}
