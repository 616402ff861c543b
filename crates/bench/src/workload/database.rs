//! The tables and indexes that workloads run on: real files, each written through a pool that is closed
//! afterwards.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use bufpool::{File, FileOptions, Pool, PoolOptions, Tenant};
use bufpool_examples::btree::BTree;
use bufpool_examples::heap::{HeapFile, Layout, Rid};

use super::wisconsin::{Relation, TUPLE_BYTES};
use crate::machine::bare_loop::{BareLoop, Transfer};
use crate::machine::data_file;
use crate::output::progress;
use crate::random::Random;
use crate::rounds::Spread;

/// Bytes of a page in every workload: the block of the LRU-SP paper.
pub const PAGE_BYTES: usize = 8192;

/// Frames of the pool that builds files, for pages that are written once.
const BUILD_FRAMES: u32 = 1024;

/// How full the pages of an index on a random column are, in per cent: as random inserts leave them. The
/// paper's index has 640 blocks for 200,000 keys.
const FILL_PERCENT: u8 = 69;

/// The sizes of the relations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Tuples of the large relation. The other relations have a tenth of them, at least 1.
    pub tuples: u64,
}

impl Sizes {
    /// 200,000 and 20,000 tuples: those of the papers.
    pub const DEFAULT: Self = Self { tuples: 200_000 };
    /// A tenth of that, for a run of seconds.
    pub const QUICK: Self = Self { tuples: 20_000 };
}

/// The relations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Table {
    /// The large relation.
    Large,
    /// A relation with a tenth of the tuples of the large one.
    Small,
    /// A relation with as many tuples as the small one. Its `unique1` is from a domain five times as large as
    /// that of the large relation, so about one tuple in five has a partner there.
    Sparse,
}

/// The indexes, each from a column to the addresses of the tuples.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Index {
    /// On `unique1` of the large relation: consecutive keys are far apart in the table.
    LargeUnique1,
    /// On `unique2` of the large relation, which is the order of the table.
    LargeUnique2,
    /// On `unique1` of the small relation.
    SmallUnique1,
}

/// A tree from an 8-byte big-endian column to the address of its tuple.
pub type IndexTree = BTree<8, 8>;

/// A folder with data files, each built when a workload first asks for it.
pub struct Database {
    directory: PathBuf,
    sizes: Sizes,
    seed: u64,
    direct: bufpool::Direct,
    io: bufpool::Io,
    built: Mutex<BTreeSet<String>>,
}

impl Database {
    /// An empty database in `directory`, an existing folder without data files.
    pub fn new(
        directory: PathBuf,
        sizes: Sizes,
        seed: u64,
        direct: bufpool::Direct,
        io: bufpool::Io,
    ) -> Self {
        Self { directory, sizes, seed, direct, io, built: Mutex::default() }
    }

    /// The sizes of its relations.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Whether its files are opened for direct I/O.
    pub fn direct(&self) -> bufpool::Direct {
        self.direct
    }

    /// The I/O backend that its pools use.
    pub fn io(&self) -> bufpool::Io {
        self.io
    }

    /// The tuples of a relation.
    pub fn relation(&self, table: Table) -> Relation {
        let large = self.sizes.tuples;
        let small = (large / 10).max(1);
        let seed = self.seed ^ (table as u64) << 32;
        match table {
            Table::Large => Relation::new(large, large, seed),
            Table::Small => Relation::new(small, small, seed),
            Table::Sparse => Relation::new(small, 5 * large, seed),
        }
    }

    /// The number of pages of a relation's heap file.
    pub fn table_pages(&self, table: Table) -> u64 {
        self.relation(table).tuples().div_ceil((PAGE_BYTES / TUPLE_BYTES) as u64)
    }

    /// The number of pages of an index that was built.
    ///
    /// # Errors
    /// If its file is not there.
    pub fn index_pages(&self, index: Index) -> Result<u64> {
        self.file_pages(index_name(index))
    }

    /// The number of pages of a file that was built.
    ///
    /// # Errors
    /// If the file is not there.
    pub fn file_pages(&self, name: &str) -> Result<u64> {
        let path = self.path(name);
        let bytes = fs::metadata(&path).with_context(|| format!("length of {}", path.display()))?.len();
        Ok(bytes / PAGE_BYTES as u64)
    }

    /// Makes the file of a relation, unless this database has made it already.
    ///
    /// # Errors
    /// As the pool's.
    pub fn build_table(&self, table: Table) -> Result<()> {
        self.build(table_name(table), |file, tenant, name| {
            let relation = self.relation(table);
            let bar = progress::bar(format!("build {name}"), relation.tuples(), "tuples");
            heap(file)?.load(tenant, bar.wrap_iter(relation.all()))?;
            bar.finish_and_clear();
            Ok(())
        })
    }

    /// Makes the file of an index, unless this database has made it already.
    ///
    /// # Errors
    /// As the pool's.
    pub fn build_index(&self, index: Index) -> Result<()> {
        self.build(index_name(index), |file, tenant, name| {
            let per_page = heap(file.clone())?.tuples_per_page() as u64;
            let rid = |unique2: u64| Rid { page: unique2 / per_page, slot: (unique2 % per_page) as u16 };
            let (table, fill_percent) = match index {
                Index::LargeUnique1 => (Table::Large, FILL_PERCENT),
                Index::LargeUnique2 => (Table::Large, 100),
                Index::SmallUnique1 => (Table::Small, FILL_PERCENT),
            };
            let relation = self.relation(table);
            let unique2_of = |key: u64| match index {
                Index::LargeUnique2 => key,
                Index::LargeUnique1 | Index::SmallUnique1 => {
                    relation.unique2(key).expect("by the book, unique1 is a permutation")
                }
            };
            let bar = progress::bar(format!("build {name}"), relation.tuples(), "keys");
            let entries =
                (0..relation.tuples()).map(|key| (key.to_be_bytes(), rid(unique2_of(key)).to_bytes()));
            IndexTree::build(file, tenant, bar.wrap_iter(entries), fill_percent)?;
            bar.finish_and_clear();
            Ok(())
        })
    }

    /// Makes the file `name` with `fill`, unless this database has made it already. The file is written
    /// through a pool of its own, so that the pools of runs start cold.
    ///
    /// # Errors
    /// Those of `fill` and of the pool.
    pub fn build(&self, name: &str, fill: impl FnOnce(File, &Tenant, &str) -> Result<()>) -> Result<()> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if built.contains(name) {
            return Ok(());
        }
        let pool = PoolOptions::new().frames(BUILD_FRAMES).page_bytes(PAGE_BYTES).io(self.io).open()?;
        let file = self.open(&pool, name, true)?;
        fill(file, &pool.default_tenant(), name).with_context(|| format!("build {name}"))?;
        pool.close()?;
        built.insert(name.to_owned());
        Ok(())
    }

    /// Opens the file of a relation in `pool`.
    ///
    /// # Errors
    /// As the pool's.
    pub fn open_table(&self, pool: &Pool, table: Table) -> Result<HeapFile> {
        heap(self.open(pool, table_name(table), false)?)
    }

    /// Opens an index in `pool`. It makes one access, to the root page.
    ///
    /// # Errors
    /// As the pool's.
    pub fn open_index(&self, pool: &Pool, tenant: &Tenant, index: Index) -> Result<IndexTree> {
        Ok(IndexTree::open(self.open(pool, index_name(index), false)?, tenant)?)
    }

    /// Makes an empty heap file, which the caller removes.
    ///
    /// # Errors
    /// As the pool's.
    pub fn create_heap(&self, pool: &Pool, name: &str) -> Result<HeapFile> {
        heap(self.open(pool, name, true)?)
    }

    /// Opens the file `name` in `pool`.
    ///
    /// # Errors
    /// As the pool's. If direct I/O is required and impossible, the message says what to do.
    pub fn open(&self, pool: &Pool, name: &str, create: bool) -> Result<File> {
        let options = FileOptions::new().create(create).direct(self.direct);
        pool.open_file(self.path(name), options).map_err(|error| {
            let hint = self.advice(&error);
            anyhow::Error::new(error).context(hint)
        })
    }

    fn advice(&self, error: &bufpool::Error) -> String {
        match error.kind() {
            bufpool::ErrorKind::IoUnavailable | bufpool::ErrorKind::Alignment => {
                data_file::not_direct(&self.directory)
            }
            _ => format!("open a data file in {}", self.directory.display()),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// How many random pages a bare loop reads in a second from the largest data file, with `depth` reads in
    /// flight: the median of three rounds of 30,000 reads.
    ///
    /// # Errors
    /// As the file system's and the loop's.
    pub fn raw_reads_per_s(&self, depth: u32, seed: u64) -> Result<f64> {
        const READS: u64 = 30_000;
        let built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let sized =
            built.iter().map(|name| Ok((self.file_pages(name)?, name))).collect::<Result<Vec<_>>>()?;
        let (pages, name) = sized.into_iter().max().context("no data file was built")?;
        let mut bare = BareLoop::new(data_file::open(&self.path(name), self.direct)?, PAGE_BYTES, depth)?;
        let mut random = Random::new(seed);
        let mut round = || {
            let offsets = (0..READS).map(|_| random.below(pages) * PAGE_BYTES as u64);
            anyhow::Ok(bare.run(Transfer::Read, offsets)?.operations_per_s())
        };
        Ok(Spread::of([round()?, round()?, round()?]).median)
    }

    /// The folder of the data files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

fn heap(file: File) -> Result<HeapFile> {
    Ok(HeapFile::new(file, Layout::Dense, TUPLE_BYTES)?)
}

fn table_name(table: Table) -> &'static str {
    match table {
        Table::Large => "large.heap",
        Table::Small => "small.heap",
        Table::Sparse => "sparse.heap",
    }
}

fn index_name(index: Index) -> &'static str {
    match index {
        Index::LargeUnique1 => "large_unique1.btree",
        Index::LargeUnique2 => "large_unique2.btree",
        Index::SmallUnique1 => "small_unique1.btree",
    }
}
