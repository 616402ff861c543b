//! The B+-tree against a plain map, in a pool of few frames, and used by several threads at once.

mod common;

use std::collections::BTreeMap;
use std::ops::Bound;

use bufpool::Tenant;
use bufpool_examples::Error;
use bufpool_examples::btree::BTree;
use common::Fixture;
use proptest::prelude::*;

/// With values and keys this long, 6 entries fit on a leaf and 11 keys on an inner page, so that few keys
/// make a high tree.
const VALUE: usize = 248;
const KEY: usize = 360;
type Tree = BTree<KEY, VALUE>;
type Index = BTree<8, 8>;

const FRAMES: u32 = 64;

fn key(n: u64) -> [u8; KEY] {
    let mut key = [7; KEY];
    key[..8].copy_from_slice(&n.to_be_bytes());
    key
}

fn value(n: u64) -> [u8; VALUE] {
    [n as u8; VALUE]
}

fn scanned(tree: &Tree, tenant: &Tenant) -> Vec<([u8; KEY], [u8; VALUE])> {
    tree.scan(tenant, ..).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn bulk_built_trees_of_every_height_hold_their_keys() {
    for keys in [0, 1, 6, 7, 50, 500, 3000] {
        for fill_percent in [50, 69, 100] {
            let fixture = Fixture::new(FRAMES);
            let tenant = fixture.pool.default_tenant();
            let entries = (0..keys).map(|n| (key(2 * n), value(n)));
            let tree = Tree::build(fixture.file("tree"), &tenant, entries.clone(), fill_percent).unwrap();
            assert_eq!(tree.check_invariants(&tenant).unwrap(), keys);
            assert_eq!(scanned(&tree, &tenant), entries.collect::<Vec<_>>());
            for n in (0..keys).step_by(7) {
                assert_eq!(tree.get(&tenant, &key(2 * n)).unwrap(), Some(value(n)));
                assert_eq!(tree.get(&tenant, &key(2 * n + 1)).unwrap(), None);
            }
            // More leaves than a thread can latch at once, and some keys twice.
            let wanted: Vec<u64> = (0..2 * keys + 2).step_by(3).chain([1, 0, 0]).collect();
            let found = tree.get_many(&tenant, &wanted.iter().map(|&n| key(n)).collect::<Vec<_>>()).unwrap();
            for (n, found) in wanted.iter().zip(found) {
                assert_eq!(found, (n % 2 == 0 && n / 2 < keys).then(|| value(n / 2)), "key {n}");
            }
        }
    }
}

#[test]
fn ascending_inserts_fill_the_leaves() {
    let fixture = Fixture::new(FRAMES);
    let tenant = fixture.pool.default_tenant();
    let tree = Index::create(fixture.file("tree"), &tenant).unwrap();
    for n in 0..20_000_u64 {
        assert_eq!(tree.insert(&tenant, &n.to_be_bytes(), &n.to_le_bytes()).unwrap(), None);
    }
    assert_eq!(tree.check_invariants(&tenant).unwrap(), 20_000);
    let per_leaf = (4096 - 24) / 16;
    assert!(tree.file().pages() < 20_000 / (per_leaf - 1) + 40, "{} pages", tree.file().pages());
}

#[test]
fn contents_survive_closing() {
    let fixture = Fixture::new(FRAMES);
    let tenant = fixture.pool.default_tenant();
    let file = fixture.file("tree");
    let tree = Tree::create(file.clone(), &tenant).unwrap();
    for n in 0..1000 {
        tree.insert(&tenant, &key(n * 7919 % 1000), &value(n)).unwrap();
    }
    let before = scanned(&tree, &tenant);
    drop(tree);
    file.close().unwrap();
    let tree = Tree::open(fixture.file("tree"), &tenant).unwrap();
    assert_eq!(tree.check_invariants(&tenant).unwrap(), 1000);
    assert!(scanned(&tree, &tenant) == before);
}

#[test]
fn what_does_not_fit_is_refused() {
    let fixture = Fixture::new(FRAMES);
    let tenant = fixture.pool.default_tenant();
    let invalid = |result: Result<Tree, Error>| matches!(result, Err(Error::Invalid(_)));
    assert!(invalid(Tree::build(fixture.file("a"), &tenant, [], 49)));
    assert!(invalid(Tree::build(fixture.file("b"), &tenant, [2, 1].map(|n| (key(n), value(n))), 100)));
    let too_large = BTree::<2000, 8>::create(fixture.file("c"), &tenant);
    assert!(matches!(too_large, Err(Error::Invalid(_))));

    let file = fixture.file("d");
    Tree::create(file.clone(), &tenant).unwrap();
    assert!(invalid(Tree::create(file.clone(), &tenant)), "the file is not empty");
    let other = Index::open(file, &tenant);
    assert!(matches!(other, Err(Error::Format { page: 0, .. })));
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Remove(u64),
    Get(u64),
    Scan(Bound<u64>, Bound<u64>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let n = 0..400_u64;
    let bound = prop_oneof![
        n.clone().prop_map(Bound::Included),
        n.clone().prop_map(Bound::Excluded),
        Just(Bound::Unbounded),
    ];
    let step = prop_oneof![
        8 => n.clone().prop_map(Step::Insert),
        4 => n.clone().prop_map(Step::Remove),
        2 => n.prop_map(Step::Get),
        1 => (bound.clone(), bound).prop_map(|(from, to)| Step::Scan(from, to)),
    ];
    prop::collection::vec(step, 1..600)
}

/// The keys of the model in a range. `BTreeMap::range` panics if the start is above the end; a scan is then
/// empty.
fn model_range(model: &BTreeMap<u64, u64>, from: Bound<u64>, to: Bound<u64>) -> Vec<u64> {
    let inside = |n: u64| {
        let above = match from {
            Bound::Included(from) => n >= from,
            Bound::Excluded(from) => n > from,
            Bound::Unbounded => true,
        };
        let below = match to {
            Bound::Included(to) => n <= to,
            Bound::Excluded(to) => n < to,
            Bound::Unbounded => true,
        };
        above && below
    };
    model.keys().copied().filter(|&n| inside(n)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn agrees_with_a_map(steps in steps()) {
        let fixture = Fixture::new(FRAMES);
        let tenant = fixture.pool.default_tenant();
        let tree = Tree::create(fixture.file("tree"), &tenant).unwrap();
        let mut model = BTreeMap::new();
        for (round, step) in (0_u64..).zip(steps) {
            match step {
                Step::Insert(n) => {
                    let previous = tree.insert(&tenant, &key(n), &value(round)).unwrap();
                    prop_assert_eq!(previous, model.insert(n, round).map(value));
                }
                Step::Remove(n) => {
                    prop_assert_eq!(tree.remove(&tenant, &key(n)).unwrap(), model.remove(&n).map(value));
                }
                Step::Get(n) => {
                    prop_assert_eq!(tree.get(&tenant, &key(n)).unwrap(), model.get(&n).copied().map(value));
                }
                Step::Scan(from, to) => {
                    let found = tree.scan(&tenant, (from.map(key), to.map(key))).unwrap();
                    let found: Vec<_> = found.map(|entry| entry.unwrap().0).collect();
                    let expected: Vec<_> = model_range(&model, from, to).into_iter().map(key).collect();
                    prop_assert!(found == expected, "{from:?} to {to:?}");
                }
            }
            prop_assert_eq!(tree.check_invariants(&tenant).unwrap(), model.len() as u64);
        }
    }
}

/// Four threads change disjoint keys that lie on the same leaves, while two others scan and one looks up
/// batches of keys. The leaves are small, so that splits reach the root again and again.
#[test]
fn threads_neither_lose_keys_nor_wait_for_each_other_in_a_circle() {
    const WRITERS: u64 = 4;
    const KEYS_EACH: u64 = 600;
    let fixture = Fixture::new(FRAMES);
    let setup = fixture.pool.default_tenant();
    let tree = Tree::create(fixture.file("tree"), &setup).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (tree, tenant) = (&tree, fixture.pool.default_tenant());
            scope.spawn(move || {
                for i in 0..KEYS_EACH {
                    let n = (i * 7919 % KEYS_EACH) * WRITERS + writer;
                    assert_eq!(tree.insert(&tenant, &key(n), &value(n)).unwrap(), None);
                    assert_eq!(tree.get(&tenant, &key(n)).unwrap(), Some(value(n)));
                    if i % 3 == 0 {
                        assert_eq!(tree.remove(&tenant, &key(n)).unwrap(), Some(value(n)));
                    }
                }
            });
        }
        for _ in 0..2 {
            let (tree, tenant) = (&tree, fixture.pool.default_tenant());
            scope.spawn(move || {
                for _ in 0..20 {
                    let keys: Vec<_> =
                        tree.scan(&tenant, ..).unwrap().map(|entry| entry.unwrap().0).collect();
                    assert!(keys.is_sorted_by(|a, b| a < b));
                }
            });
        }
        let (tree, tenant) = (&tree, fixture.pool.default_tenant());
        scope.spawn(move || {
            for round in 0..60 {
                let wanted = (0..12).map(|n| (round * 31 + n * 197) % (KEYS_EACH * WRITERS));
                let wanted: Vec<u64> = wanted.collect();
                let found =
                    tree.get_many(&tenant, &wanted.iter().map(|&n| key(n)).collect::<Vec<_>>()).unwrap();
                for (n, found) in wanted.iter().zip(found) {
                    assert!(found.is_none_or(|found| found == value(*n)));
                }
            }
        });
    });
    let kept = (0..KEYS_EACH).filter(|i| i % 3 != 0).count() as u64 * WRITERS;
    assert_eq!(tree.check_invariants(&setup).unwrap(), kept);
}
