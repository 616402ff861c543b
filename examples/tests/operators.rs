//! Operators that disclose their reads give the right answers under every policy for hints, in a pool much
//! smaller than the files.

mod common;

use std::collections::BTreeSet;

use bufpool::{HintPolicy, HintedPage, OwnedReadGuard, Tenant};
use bufpool_examples::Error;
use bufpool_examples::btree::BTree;
use bufpool_examples::heap::{HeapFile, Layout, Rid};
use bufpool_examples::operators::merge::{Run, merge};
use bufpool_examples::operators::{
    Fetches, Plan, Side, Visit, bitmap_scan, index_join, index_scan, nested_loop,
};
use common::Fixture;

const FRAMES: u32 = 32;
const TUPLES: u64 = 4000;
const TUPLE_BYTES: usize = 100;
const POLICIES: [HintPolicy; 5] = [
    HintPolicy::Off,
    HintPolicy::Auto,
    HintPolicy::CostBenefit,
    HintPolicy::Horizon,
    HintPolicy::Aggressive { batch: 16 },
];

type Index = BTree<8, 8>;

/// A relation of tuples that begin with their key, in random order, and an index on the keys.
struct Relation {
    fixture: Fixture,
    heap: HeapFile,
    index: Index,
}

impl Relation {
    fn new() -> Self {
        let fixture = Fixture::new(FRAMES);
        let tenant = fixture.pool.default_tenant();
        let heap = HeapFile::new(fixture.file("heap"), Layout::Dense, TUPLE_BYTES).unwrap();
        heap.load(&tenant, (0..TUPLES).map(|at| tuple(key_at(at)))).unwrap();
        let mut entries: Vec<(u64, Rid)> = (0..TUPLES).map(|at| (key_at(at), rid_of(&heap, at))).collect();
        entries.sort_unstable();
        let entries = entries.into_iter().map(|(key, rid)| (key.to_be_bytes(), rid.to_bytes()));
        let index = Index::build(fixture.file("index"), &tenant, entries, 70).unwrap();
        fixture.pool.checkpoint().unwrap();
        Self { fixture, heap, index }
    }

    /// A tenant, with nothing in memory.
    fn cold(&self, how: HintPolicy) -> Tenant {
        let pool = &self.fixture.pool;
        [self.heap.file(), self.index.file()].iter().for_each(|file| file.discard(0..file.pages()).unwrap());
        pool.tenant(format!("{how:?}")).hints(how).open().unwrap()
    }
}

/// The key of the tuple at a place. Each key below [`TUPLES`] has one place.
fn key_at(at: u64) -> u64 {
    at * 1237 % TUPLES
}

fn rid_of(heap: &HeapFile, at: u64) -> Rid {
    let per_page = heap.tuples_per_page() as u64;
    Rid { page: at / per_page, slot: (at % per_page) as u16 }
}

fn tuple(key: u64) -> [u8; TUPLE_BYTES] {
    let mut tuple = [key as u8; TUPLE_BYTES];
    tuple[..8].copy_from_slice(&key.to_be_bytes());
    tuple
}

fn key_of(tuple: &[u8]) -> u64 {
    u64::from_be_bytes(tuple[..8].try_into().unwrap())
}

/// The keys of the tuples that the next `limit` visits find.
fn found<E>(heap: &HeapFile, fetches: &mut Fetches<Visit<E>, impl Plan<Visit<E>>>, limit: usize) -> Vec<u64> {
    let mut keys = Vec::new();
    for _ in 0..limit {
        let Some((visit, guard)) = fetches.next().unwrap() else { break };
        let number = guard.page().number();
        let page = heap.view(guard, number).unwrap();
        keys.extend(visit.iter().map(|(slot, _)| key_of(page.tuple(*slot).unwrap())));
    }
    keys
}

#[test]
fn index_scans_give_tuples_in_the_order_of_keys() {
    let relation = Relation::new();
    for how in POLICIES {
        let tenant = relation.cold(how);
        for (first, last, limit) in
            [(0_u64, TUPLES, usize::MAX), (100, 900, usize::MAX), (700, 3000, 60), (50, 50, 9)]
        {
            let keys = first.to_be_bytes()..last.to_be_bytes();
            let mut scan = index_scan(&tenant, &relation.index, &relation.heap, keys).unwrap();
            let found = found(&relation.heap, &mut scan, limit);
            // Neighbouring keys are far apart here: one visit a key.
            let expected: Vec<u64> = (first..last).take(limit).collect();
            assert!(found == expected, "{how:?}, {first} to {last}: {} keys", found.len());
        }
        relation.fixture.pool.check_invariants();
    }
}

#[test]
fn bitmap_scans_visit_each_page_once_in_the_order_of_the_file() {
    let relation = Relation::new();
    for how in POLICIES {
        let tenant = relation.cold(how);
        let ranges = [200..500_u64, 400..600, 3000..3010];
        let tuples = ranges.clone().into_iter().flat_map(|keys| {
            let entries =
                relation.index.scan(&tenant, keys.start.to_be_bytes()..keys.end.to_be_bytes()).unwrap();
            entries.map(|entry| entry.map(|(_, rid)| Rid::from_bytes(rid)))
        });
        let mut scan = bitmap_scan(&tenant, &relation.heap, tuples).unwrap();
        let mut found = BTreeSet::new();
        let mut last = None;
        while let Some((visit, guard)) = scan.next().unwrap() {
            let number = guard.page().number();
            assert!(last.replace(number) < Some(number), "{how:?}: page {number}");
            let page = relation.heap.view(&*guard, number).unwrap();
            for (slot, ()) in visit {
                assert!(found.insert(key_of(page.tuple(slot).unwrap())), "a tuple twice");
            }
        }
        assert!(found.into_iter().eq((200..600).chain(3000..3010)), "{how:?}");
    }
}

#[test]
fn index_joins_find_the_partners_of_all_batches() {
    let relation = Relation::new();
    for how in POLICIES {
        for batch in [1, 7, 32] {
            let tenant = relation.cold(how);
            // Every third key has a partner.
            let outer = (0..900_u64).map(|n| Ok(((n * 4).to_be_bytes(), n)));
            let outer =
                outer.map(|entry| entry.map(|(key, n)| if n % 3 == 0 { (key, n) } else { ([255; 8], n) }));
            let mut join = index_join(&tenant, outer, &relation.index, &relation.heap, batch).unwrap();
            let mut pairs = BTreeSet::new();
            while let Some((visit, guard)) = join.next().unwrap() {
                let page = relation.heap.view(&*guard, guard.page().number()).unwrap();
                for (slot, n) in visit {
                    assert!(pairs.insert((n, key_of(page.tuple(slot).unwrap()))), "a pair twice");
                }
            }
            let expected = (0..900).step_by(3).map(|n| (n, n * 4));
            assert!(pairs.into_iter().eq(expected), "{how:?}, batches of {batch}");
        }
    }
}

#[test]
fn nested_loops_read_the_inner_relation_for_each_block() {
    let relation = Relation::new();
    let inner = HeapFile::new(relation.fixture.file("inner"), Layout::Dense, TUPLE_BYTES).unwrap();
    inner.load(&relation.fixture.pool.default_tenant(), (0..1500).map(tuple)).unwrap();
    let blocks = [0..3, 3..7, 7..8];
    let expected: Vec<(Side, u64)> = blocks
        .iter()
        .flat_map(|block| {
            let outer =
                block.clone().map(|n| (if n == block.start { Side::NewBlock } else { Side::Block }, n));
            outer.chain((0..inner.pages()).map(|n| (Side::Inner, n)))
        })
        .collect();
    for how in POLICIES {
        let tenant = relation.cold(how);
        let mut join = nested_loop(&tenant, &relation.heap, &inner, blocks.clone()).unwrap();
        let mut read = Vec::new();
        while let Some((side, guard)) = join.next().unwrap() {
            let heap = if side == Side::Inner { &inner } else { &relation.heap };
            assert_eq!(guard.page().file().id(), heap.file().id());
            read.push((side, guard.page().number()));
        }
        assert!(read == expected, "{how:?}: {} pages", read.len());
    }
}

#[test]
fn merges_give_all_tuples_in_order() {
    let fixture = Fixture::new(FRAMES);
    // Runs of different lengths, one without tuples, some keys in several runs.
    let lengths = [1000_u64, 1, 0, 400, 39];
    let keys_of = |run: u64, tuples: u64| (0..tuples).map(move |n| n * (run + 3) / 2);
    let mut expected: Vec<u64> = (0..).zip(lengths).flat_map(|(run, tuples)| keys_of(run, tuples)).collect();
    expected.sort_unstable();
    for (how, name) in POLICIES.into_iter().zip('a'..) {
        let tenant = fixture.pool.tenant(format!("{how:?}")).hints(how).open().unwrap();
        let runs: Vec<Run<u64>> = (0..)
            .zip(lengths)
            .map(|(run, tuples)| {
                let file = fixture.file(&format!("{name}{run}"));
                let heap = HeapFile::new(file, Layout::Dense, TUPLE_BYTES).unwrap();
                let run = Run::write(heap, &tenant, |writer| {
                    keys_of(run, tuples).try_for_each(|key| writer.push(key, &tuple(key)))
                });
                run.unwrap()
            })
            .collect();
        fixture.pool.checkpoint().unwrap();
        runs.iter().for_each(|run| run.heap().file().discard(0..run.heap().pages()).unwrap());
        let mut reads = tenant.hint([]).unwrap();
        let taken: Vec<&Run<u64>> = runs.iter().collect();
        // The second merge goes on with the list of the first, which was told of some of its reads.
        for later in [Some(&runs[3]), None] {
            let later = later.iter().map(|run| run.heap().file().page(1).into());
            let mut merged = Vec::new();
            let consume = |tuple: &[u8]| {
                merged.push(key_of(tuple));
                Ok(())
            };
            merge(&mut reads, &taken, later, key_of, consume).unwrap();
            assert!(merged == expected, "{how:?}: {} of {}", merged.len(), expected.len());
        }
        drop(reads);
        runs.into_iter().for_each(|run| run.into_heap().into_file().remove().unwrap());
    }
}

/// A plan gives all of its pages, also those that the tenant reads and writes by other calls meanwhile.
#[test]
fn a_plan_is_read_in_full_whatever_else_its_tenant_does() {
    let relation = Relation::new();
    for how in POLICIES {
        let tenant = relation.cold(how);
        let mut scan = index_scan(&tenant, &relation.index, &relation.heap, ..).unwrap();
        let mut keys = 0..;
        while let Some((visit, guard)) = scan.next().unwrap() {
            let number = guard.page().number();
            drop::<OwnedReadGuard>(guard);
            for (slot, key) in visit {
                assert_eq!(u64::from_be_bytes(key), keys.next().unwrap());
                let rid = Rid { page: number, slot };
                let written = relation.heap.update(&tenant, rid, |tuple| {
                    tuple[99] = tuple[99].wrapping_add(1);
                    key_of(tuple)
                });
                assert_eq!(written.unwrap(), Some(u64::from_be_bytes(key)));
            }
        }
        assert_eq!(keys.start, TUPLES, "{how:?}");
        relation.fixture.pool.checkpoint().unwrap();
    }
}

#[test]
fn what_cannot_be_read_is_an_error_after_the_pages_before_it() {
    let relation = Relation::new();
    for how in POLICIES {
        let tenant = relation.cold(how);
        let heap = &relation.heap;
        let pages = heap.pages();
        let rid = |page| Ok(Rid { page, slot: 0 });
        // A page that is not there.
        let mut scan = bitmap_scan(&tenant, heap, (0..pages + 2).map(rid)).unwrap();
        assert_eq!(found(heap, &mut scan, pages as usize).len(), pages as usize);
        assert!(matches!(scan.next(), Err(Error::Format { page, .. }) if page == pages), "{how:?}");
        drop(scan);
        // A plan that fails half-way.
        let plan = (0..40).map(|number| {
            let page: HintedPage = heap.file().page(number).into();
            if number == 25 { Err(Error::Invalid("no more".to_owned())) } else { Ok((page, number)) }
        });
        let mut fetches = Fetches::new(&tenant, plan).unwrap();
        // Somebody else reads its first pages for the same tenant.
        (0..5).for_each(|number| drop(tenant.read(heap.file().page(number)).unwrap()));
        for number in 0..25 {
            let (item, guard) = fetches.next().unwrap().unwrap();
            assert_eq!((item, guard.page().number()), (number, number));
        }
        assert!(matches!(fetches.next(), Err(Error::Invalid(_))), "{how:?}");
        assert!(fetches.next().unwrap().is_none());
    }
}
