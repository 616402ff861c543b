//! Page tables.

use bufpool_policies::FileId;
use loom::sync::Arc;
use loom::thread;

use super::model;
use crate::memory::arena::FrameMap;
use crate::page::table::{PageTable, PageTableBudget};

/// A page table grows while others look words up: a thread that finds a word may use it, and a page has one
/// word for all.
#[test]
fn a_page_table_grows_under_its_readers() {
    fn address(table: &PageTable, number: u64) -> Option<usize> {
        table.get(number).map(|word| {
            assert!(word.state().is_absent());
            std::ptr::from_ref(word).addr()
        })
    }
    model(|| {
        let table = Arc::new(PageTable::new(FileId(0), FrameMap::none()));
        let budget = Arc::new(PageTableBudget::new(u64::MAX));
        let make = |number| {
            let (table, budget) = (Arc::clone(&table), Arc::clone(&budget));
            thread::spawn(move || {
                let word = table.get_or_allocate(number, &budget).expect("there is no limit");
                std::ptr::from_ref(word).addr()
            })
        };
        let makers = [make(0), make(2)];
        let seen = address(&table, 0);
        let made = makers.map(|maker| maker.join().unwrap());
        assert!(seen.is_none_or(|seen| seen == made[0]));
        assert_eq!([address(&table, 0), address(&table, 2)], made.map(Some));
        assert_eq!(budget.bytes(), 3 * size_of::<u64>() as u64);
    });
}
