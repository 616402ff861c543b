//! The heap file against a plain map, with a pool much smaller than the file.

mod common;

use std::collections::BTreeMap;

use bufpool_examples::Error;
use bufpool_examples::heap::{HeapFile, Layout, Rid};
use common::Fixture;
use proptest::prelude::*;

const FRAMES: u32 = 24;

fn contents(heap: &HeapFile, tenant: &bufpool::Tenant) -> BTreeMap<Rid, Vec<u8>> {
    let mut found = BTreeMap::new();
    for number in 0..heap.pages() {
        let page = heap.page(tenant, number).unwrap();
        for (slot, tuple) in page.tuples() {
            found.insert(Rid { page: number, slot }, tuple.to_vec());
        }
    }
    found
}

#[test]
fn loaded_tuples_lie_where_their_number_says() {
    for layout in [Layout::Dense, Layout::Slotted] {
        let fixture = Fixture::new(FRAMES);
        let tenant = fixture.pool.default_tenant();
        let heap = HeapFile::new(fixture.file("heap"), layout, 100).unwrap();
        let tuples = 40 * heap.tuples_per_page() + 1;
        let loaded = heap.load(&tenant, (0..tuples).map(|i| [i as u8; 100])).unwrap();
        assert_eq!((loaded, heap.pages()), (tuples as u64, 41));
        for i in 0..tuples {
            let (page, slot) = (i / heap.tuples_per_page(), i % heap.tuples_per_page());
            let rid = Rid { page: page as u64, slot: slot as u16 };
            let tuple = heap.get(&tenant, rid, <[u8]>::to_vec).unwrap();
            assert_eq!(tuple, Some(vec![i as u8; 100]), "{layout:?} tuple {i}");
        }
        assert_eq!(heap.get(&tenant, Rid { page: 40, slot: 1 }, <[u8]>::len).unwrap(), None);
    }
}

#[test]
fn contents_survive_closing() {
    let fixture = Fixture::new(FRAMES);
    let tenant = fixture.pool.default_tenant();
    let file = fixture.file("heap");
    let heap = HeapFile::new(file.clone(), Layout::Slotted, 100).unwrap();
    heap.load(&tenant, (0..2000).map(|i| [i as u8; 100])).unwrap();
    let before = contents(&heap, &tenant);
    drop(heap);
    file.close().unwrap();
    let heap = HeapFile::new(fixture.file("heap"), Layout::Slotted, 100).unwrap();
    assert_eq!(contents(&heap, &tenant), before);
    assert_eq!(before.len(), 2000);
}

#[test]
fn another_format_is_an_error_that_names_the_page() {
    let fixture = Fixture::new(FRAMES);
    let tenant = fixture.pool.default_tenant();
    let file = fixture.file("heap");
    HeapFile::new(file.clone(), Layout::Dense, 100).unwrap().load(&tenant, [[1; 100]]).unwrap();
    let other = HeapFile::new(file.clone(), Layout::Dense, 99).unwrap();
    assert!(matches!(other.page(&tenant, 0), Err(Error::Format { page: 0, .. })));
    for bytes in [0, 5000] {
        assert!(matches!(HeapFile::new(file.clone(), Layout::Dense, bytes), Err(Error::Invalid(_))));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u8),
    /// Of the n-th tuple, counted round.
    Update(usize, u8),
    Delete(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => any::<u8>().prop_map(Step::Insert),
        1 => (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Step::Update(at, byte)),
        2 => any::<usize>().prop_map(Step::Delete),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn agrees_with_a_map(steps in steps(), slotted in any::<bool>()) {
        let layout = if slotted { Layout::Slotted } else { Layout::Dense };
        let fixture = Fixture::new(FRAMES);
        let tenant = fixture.pool.default_tenant();
        let heap = HeapFile::new(fixture.file("heap"), layout, 200).unwrap();
        let mut model: BTreeMap<Rid, Vec<u8>> = BTreeMap::new();
        let nth = |model: &BTreeMap<Rid, Vec<u8>>, at: usize| model.keys().nth(at % model.len().max(1)).copied();
        for step in steps {
            match step {
                Step::Insert(byte) => {
                    let rid = heap.insert(&tenant, &[byte; 200]).unwrap();
                    prop_assert!(model.insert(rid, vec![byte; 200]).is_none(), "{rid:?} was taken");
                }
                Step::Update(at, byte) => if let Some(rid) = nth(&model, at) {
                    heap.update(&tenant, rid, |tuple| tuple.fill(byte)).unwrap().unwrap();
                    model.insert(rid, vec![byte; 200]);
                },
                Step::Delete(at) => if let Some(rid) = nth(&model, at) {
                    prop_assert!(heap.delete(&tenant, rid).unwrap());
                    prop_assert!(!heap.delete(&tenant, rid).unwrap());
                    model.remove(&rid);
                },
            }
        }
        prop_assert_eq!(contents(&heap, &tenant), model);
    }
}
