//! Very many cursors at a time. A test program of its own, because the many connections would fill the report
//! that another test reads.

mod common;

use common::{BUFPOOL, Db, pool};

/// Cursors of many connections that read pages in their frames leave frames to others.
#[test]
fn connections_together_leave_frames_to_others() {
    let pool = pool();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let db = Db::open(&path, BUFPOOL);
    db.run("CREATE TABLE t(a, b)");
    db.run(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
         INSERT INTO t SELECT i, hex(zeroblob(100)) FROM n",
    );
    let readers: Vec<Db> = (0..2 * pool.frames()).map(|_| Db::open(&path, BUFPOOL)).collect();
    let mut cursors = Vec::new();
    for (at, reader) in readers.iter().enumerate() {
        reader.run("PRAGMA mmap_size = 1000000000");
        cursors.push(reader.cursor(&format!("SELECT a FROM t WHERE rowid > {}", at * 150)));
    }
    assert_eq!(db.value("SELECT count(*) FROM t"), "20000");
}
