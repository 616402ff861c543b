use super::*;
use crate::trace::{Batch, Item, Reference, Writer};
use proptest::prelude::*;
use std::collections::HashSet;

/// Records what is played, with the blocks, sites and tenants of the file.
struct Transcript<'a> {
    trace: &'a Trace,
    items: Vec<Item>,
}

impl Replay for Transcript<'_> {
    type Error = TraceError;

    fn batch(&mut self, batch: Batch<'_>) -> Result<(), TraceError> {
        let number = |column: &[u32], at: usize| column.get(at).map_or(0, |&number| number as usize);
        for (at, &block) in batch.blocks.iter().enumerate() {
            self.items.push(Item::Access(Reference {
                block: self.trace.blocks()[block as usize],
                site: self.trace.sites()[number(batch.sites, at)] as u32,
                tenant: self.trace.tenants()[number(batch.tenants, at)] as u32,
            }));
        }
        Ok(())
    }

    fn act(&mut self, act: Act<'_>) -> Result<(), TraceError> {
        let block = |number: u32| self.trace.blocks()[number as usize];
        self.items.push(Item::Directive(match act {
            Act::Pin(number) => Directive::Pin(block(number)),
            Act::Unpin(number) => Directive::Unpin(block(number)),
            Act::Directive(directive, _) => directive.clone(),
        }));
        Ok(())
    }
}

fn transcript(trace: &Trace) -> Vec<Item> {
    let mut transcript = Transcript { trace, items: Vec::new() };
    trace.replay(&mut transcript).unwrap();
    transcript.items
}

fn item() -> impl Strategy<Value = Item> {
    let access = (0_u64..20, 0_u32..3, 0_u32..3)
        .prop_map(|(block, site, tenant)| Item::Access(Reference { block, site, tenant }));
    let temporary = (0_u32..5, 0_u64..20).prop_map(|(tenant, first)| {
        Item::Directive(Directive::TemporaryPriority { tenant, first, last: first + 3, prio: -1 })
    });
    let pin = (0_u64..30).prop_map(|block| Item::Directive(Directive::Pin(block)));
    prop_oneof![8 => access, 1 => temporary, 1 => pin]
}

proptest! {
    #[test]
    fn a_replay_gives_back_what_was_written(items in prop::collection::vec(item(), 0..60)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.txt");
        let mut writer = Writer::create(&path).unwrap();
        items.iter().for_each(|item| writer.write(item).unwrap());
        writer.finish().unwrap();
        for budget_bytes in [usize::MAX, 0] {
            let options = LoadOptions { input: None, budget_bytes };
            let trace = Trace::load(&path, &options, &ProgressBar::hidden()).unwrap();
            prop_assert_eq!(trace.is_in_memory(), budget_bytes > 0 || items.is_empty());
            prop_assert_eq!(&transcript(&trace), &items);
            let blocks: HashSet<u64> = items.iter().filter_map(|item| match item {
                Item::Access(reference) => Some(reference.block),
                Item::Directive(_) => None,
            }).collect();
            prop_assert_eq!(trace.distinct(), blocks.len() as u64);
        }
    }
}

#[test]
fn an_access_is_found_again_by_its_index() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.txt");
    fs::write(&path, "# head\n4\n!pin 4\n5\n").unwrap();
    let trace = Trace::open(&path).unwrap();
    assert_eq!(trace.place_of(0), Some(Place::Line(2)));
    assert_eq!(trace.place_of(1), Some(Place::Line(4)));
    assert_eq!(trace.place_of(2), None);
    assert!(trace.has_pins());
}

#[test]
fn a_file_that_becomes_shorter_or_longer_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.txt");
    let options = LoadOptions { input: None, budget_bytes: 0 };
    for changed in ["", "4\n5\n", "4\n5\n!pin 4\n4\n4\n"] {
        fs::write(&path, "4\n5\n!pin 4\n4\n").unwrap();
        let trace = Trace::load(&path, &options, &ProgressBar::hidden()).unwrap();
        fs::write(&path, changed).unwrap();
        let error = trace.replay(&mut Transcript { trace: &trace, items: Vec::new() }).unwrap_err();
        assert!(error.to_string().ends_with("the file changed while it was in use"), "{changed:?}: {error}");
    }
}

/// As long as it has as many steps of blocks that are known.
#[test]
fn a_file_whose_directives_become_others_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.txt");
    let options = LoadOptions { input: None, budget_bytes: 0 };
    for (was, changed) in [
        ("4\n!pin 4\n4\n", "4\n!unpin 4\n4\n"),
        ("4\n!policy 0 0 mru\n4\n", "4\n!pin 4\n4\n"),
        ("4\n!policy 0 0 mru\n4\n", "4\n!policy 9 0 mru\n4\n"),
    ] {
        fs::write(&path, was).unwrap();
        let trace = Trace::load(&path, &options, &ProgressBar::hidden()).unwrap();
        fs::write(&path, changed).unwrap();
        let error = trace.replay(&mut Transcript { trace: &trace, items: Vec::new() }).unwrap_err();
        let expected = "line 2: the file changed while it was in use";
        assert!(error.to_string().ends_with(expected), "{changed:?}: {error}");
    }
}

#[test]
fn a_block_is_of_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.txt");
    fs::write(&path, "!file 0 9 a\n!file 10 19 b\n!file 5 9 a\n4\n!file 9 12 b\n").unwrap();
    let error = Trace::open(&path).unwrap_err();
    let expected = "line 5: expected blocks of no other file, found 9 to 12 of b where 5 to 9 are of a";
    assert!(error.to_string().ends_with(expected), "{error}");
}

#[test]
fn a_creation_needs_its_access() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.txt");
    let open = |text: &str| {
        fs::write(&path, text).unwrap();
        Trace::open(&path).map_err(|error| error.to_string())
    };
    open("!create 4\n!pin 4\n# fine\n4\n5\n").unwrap();
    for (text, expected) in [
        ("3\n!create 4\n", "line 2: expected an access to block 4 after !create 4, found the end"),
        ("!create 4\n5\n4\n", "line 2: expected an access to block 4 next, as !create 4 stands before it"),
        ("!create 4\n!create 4\n4\n", "line 2: expected an access to block 4 next"),
    ] {
        let error = open(text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_unpin_needs_a_pin() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.txt");
    fs::write(&path, "4\n!pin 4\n!unpin 4\n!unpin 4\n").unwrap();
    let error = Trace::open(&path).unwrap_err();
    assert!(
        error.to_string().ends_with("line 4: expected a block that is pinned, found !unpin 4"),
        "{error}"
    );
}
