//! Records the page accesses of SQLite sessions as traces for `bufbench sim` and `bufbench grade`.
//!
//! The call site of an access is the number of its context, which tells statements apart. The rows are
//! computed, not drawn at random, so each run of the program records the same traces. Accesses while the
//! tables are loaded are left out, and so are those after the first [`ACCESSES_MAX`].
//!
//! ```text
//! cargo run --release -p bufpool-sqlite --example record -- FOLDER
//! ```

#[path = "../../tests/common/mod.rs"]
mod common;
mod sessions;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{env, fs};

use bufpool::PoolOptions;
use bufpool::engine::{Event, Recorder};
use bufpool::manager::PageId;
use bufpool_sqlite::VfsOptions;
use common::{BUFPOOL, Db};

/// Accesses of a trace, at most.
const ACCESSES_MAX: u64 = 120_000;
/// Frames of the pool. The recorded accesses do not depend on them.
const FRAMES: u32 = 1024;

/// A trace that is being recorded.
#[derive(Default)]
struct Recording {
    /// Whether accesses are recorded, and not left out.
    is_on: bool,
    accesses: u64,
    text: String,
}

/// The pool's recorder. Each session in turn has a [`Recording`] of its own in it.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Recording>>);

impl Recorder for Listener {
    fn record(&mut self, event: Event<'_>) {
        let mut recording = self.0.lock().expect("nobody panics with it");
        match event {
            Event::Access { page, site, tenant, .. }
                if recording.is_on && recording.accesses < ACCESSES_MAX =>
            {
                recording.accesses += 1;
                writeln!(recording.text, "{}\t{site}\t{tenant}", page.0).expect("a string takes it");
            }
            Event::File { id, name } => {
                let first = PageId::in_file(id, 0).0;
                let last = first | ((1 << PageId::NUMBER_BITS) - 1);
                let name = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
                writeln!(recording.text, "!file {first} {last} {name}").expect("a string takes it");
            }
            _ => {}
        }
    }
}

fn main() {
    let folder = env::args().nth(1).map(PathBuf::from).expect("the folder for the traces");
    fs::create_dir_all(&folder).expect("the folder can be made");
    let listener = Listener::default();
    let pool = PoolOptions::new().frames(FRAMES).page_bytes(4096).deterministic(1);
    let pool = pool.recorder(Box::new(listener.clone())).open().expect("a pool");
    bufpool_sqlite::register(BUFPOOL, &pool, VfsOptions::default()).expect("a VFS");
    for session in sessions::ALL {
        let path = folder.join(session.name).with_extension("db");
        // What an interrupted run left; there may be none.
        let _ = fs::remove_file(&path);
        let connections: Vec<Db> = (0..session.connections).map(|_| open(&path)).collect();
        (session.load)(&connections[0]);
        listener.0.lock().expect("nobody panics with it").is_on = true;
        (session.run)(&connections);
        drop(connections);
        fs::remove_file(&path).expect("the database is there");
        let recording = std::mem::take(&mut *listener.0.lock().expect("nobody panics with it"));
        fs::write(folder.join(session.name).with_extension("txt"), recording.text).expect("a trace");
        println!("{}: {} accesses", session.name, recording.accesses);
    }
}

/// A connection that reads pages in their frames and has a cache only for pages that it changes.
fn open(path: &Path) -> Db {
    let db = Db::open(path, BUFPOOL);
    db.run("PRAGMA page_size = 4096");
    db.run("PRAGMA mmap_size = 1000000000");
    db.run("PRAGMA cache_size = 16");
    db.run("PRAGMA synchronous = OFF");
    db
}
