//! A trace that has been read once and can be replayed many times.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::{Directive, FileRanges, Input, Item, Numbering, Place, Reader, Reference, TraceError, base_name};

/// How a trace is loaded.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// The file's format; `None` means that the file's name tells it.
    pub input: Option<Input>,
    /// Bytes that accesses and directives may take in memory. A trace that takes more is read from its file
    /// again for every replay; only its distinct blocks, sites and tenants stay in memory.
    pub budget_bytes: usize,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { input: None, budget_bytes: 64 << 20 }
    }
}

/// A trace whose blocks, sites and tenants are numbered densely, ready to be replayed.
///
/// Memory: 16 to 32 bytes a distinct block. Within the budget also 4 bytes an access, 4 more for each of the
/// columns site and tenant that is not constant, and 16 bytes a pin or unpin; vectors that grow may reserve
/// twice as much.
#[derive(Debug)]
pub struct Trace {
    name: String,
    /// The file and its format; `None` for a trace made in memory.
    source: Option<(PathBuf, Option<Input>)>,
    accesses: u64,
    /// Accesses and directives.
    items: u64,
    /// How many blocks were pinned and never accessed.
    unaccessed: u64,
    has_pins: bool,
    blocks: Numbering,
    sites: Numbering,
    tenants: Numbering,
    /// The steps, unless they exceed the budget.
    steps: Option<Steps>,
}

/// Consecutive accesses. Empty `sites` or `tenants` mean number 0 for all.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Index in the trace of the first access.
    pub first: u64,
    /// Numbers of the blocks.
    pub blocks: &'a [u32],
    /// Numbers of the sites, as long as `blocks` or empty.
    pub sites: &'a [u32],
    /// Numbers of the tenants, as long as `blocks` or empty.
    pub tenants: &'a [u32],
}

impl<'a> Batch<'a> {
    /// The accesses whose indices in this batch are in `range`.
    pub fn part(&self, range: Range<usize>) -> Batch<'a> {
        let column = |numbers: &'a [u32]| if numbers.is_empty() { numbers } else { &numbers[range.clone()] };
        let (blocks, sites, tenants) = (column(self.blocks), column(self.sites), column(self.tenants));
        Batch { first: self.first + range.start as u64, blocks, sites, tenants }
    }
}

/// An event between two accesses.
#[derive(Clone, Copy, Debug)]
pub enum Act<'a> {
    /// The block with this number is pinned once more.
    Pin(u32),
    /// One pin of the block with this number is taken back. The block is pinned.
    Unpin(u32),
    /// Any other directive, and where it stands in the file.
    Directive(&'a Directive, Place),
}

/// What a trace is replayed to, such as a simulated cache.
pub trait Replay {
    /// The error that ends a replay.
    type Error: From<TraceError>;

    /// Takes accesses in order.
    fn batch(&mut self, batch: Batch<'_>) -> Result<(), Self::Error>;

    /// Takes an event that precedes the next batch.
    fn act(&mut self, act: Act<'_>) -> Result<(), Self::Error>;
}

impl Trace {
    /// [`load`](Self::load) with default options, without showing progress.
    ///
    /// # Errors
    ///
    /// As those of `load`.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Self::load(path, &LoadOptions::default(), &ProgressBar::hidden())
    }

    /// Reads a trace once and prepares it; `progress` advances with the bytes read.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is malformed; if it unpins a block that is not pinned, gives a block to
    /// two files, or has a `!create` that is not followed by an access to its block; if it has 2^32 distinct
    /// blocks or more; or if it exceeds the budget and is no regular file, so that it cannot be read again.
    pub fn load(path: &Path, options: &LoadOptions, progress: &ProgressBar) -> Result<Self, TraceError> {
        let mut reader = Reader::open(path, options.input, progress)?;
        let mut builder = Builder::new(options.budget_bytes);
        while let Some(item) = reader.next_item()? {
            let place = reader.place();
            builder.push(item, place).map_err(|why| TraceError::malformed(path, place, why))?;
        }
        if let Some((block, place)) = builder.created {
            let expected = format!("an access to block {block} after !create {block}, found the end");
            return Err(TraceError::malformed(path, place, expected));
        }
        let source = Some((path.to_owned(), options.input));
        let trace = builder.finish(base_name(path), source);
        if !trace.is_in_memory() && !is_regular(path) {
            let message = format!(
                "no regular file, so its accesses cannot be read again for each run, and they take more than {} bytes of \
                 memory; expected a regular file, or a larger --trace-memory",
                options.budget_bytes
            );
            return Err(TraceError::refused(path, Place::File, message));
        }
        Ok(trace)
    }

    /// A trace of the given steps, held in memory.
    ///
    /// # Panics
    ///
    /// If a block is unpinned that is not pinned, or given to two files; if the access after a
    /// [`Directive::Create`] is to another block; or if there are more than 2^32 - 1 distinct blocks.
    pub fn of(name: &str, items: impl IntoIterator<Item = Item>) -> Self {
        let mut builder = Builder::new(usize::MAX);
        for item in items {
            builder.push(item, Place::File).expect("a well-formed trace");
        }
        builder.finish(name.to_owned(), None)
    }

    /// The trace's name in results.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of accesses.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Number of distinct blocks accessed.
    pub fn distinct(&self) -> u64 {
        self.blocks.values().len() as u64 - self.unaccessed
    }

    /// The blocks, each at its number. They are more than [`Trace::distinct`] if some were pinned and never
    /// accessed.
    pub fn blocks(&self) -> &[u64] {
        self.blocks.values()
    }

    /// The sites, each at its number; number 0 is site 0.
    pub fn sites(&self) -> &[u64] {
        self.sites.values()
    }

    /// The tenants, each at its number, including tenants that only directives name.
    pub fn tenants(&self) -> &[u64] {
        self.tenants.values()
    }

    /// Renames the blocks, for policies that hash block names. Directives keep the old names, so this is of
    /// use for one-level policies only. Changes nothing if the accesses are not in memory.
    ///
    /// # Panics
    ///
    /// If two blocks get the same name.
    pub fn rename_blocks(&mut self, rename: impl Fn(u64) -> u64) {
        if self.steps.is_none() {
            return;
        }
        let mut renamed = Numbering::new();
        for (number, &block) in self.blocks.values().iter().enumerate() {
            assert_eq!(renamed.number(rename(block)), Some(number as u32), "two blocks get one name");
        }
        self.blocks = renamed;
    }

    /// The number of a block, if the trace has it. O(1) expected.
    pub fn block_number(&self, block: u64) -> Option<u32> {
        self.blocks.get(block)
    }

    /// The number of a tenant, if the trace has it. O(1) expected.
    pub fn tenant_number(&self, tenant: u32) -> Option<u32> {
        self.tenants.get(u64::from(tenant))
    }

    /// Whether any block is ever pinned.
    pub fn has_pins(&self) -> bool {
        self.has_pins
    }

    /// Whether the accesses are in memory.
    pub fn is_in_memory(&self) -> bool {
        self.steps.is_some()
    }

    /// Plays the trace to `run`. Returns the time spent on reading the file, which is 0 if the trace is in
    /// memory. The time includes that of [`Replay::act`].
    ///
    /// # Errors
    ///
    /// The first error of `run`; or if the file cannot be read again, or has changed.
    pub fn replay<R: Replay>(&self, run: &mut R) -> Result<Duration, R::Error> {
        match &self.steps {
            Some(steps) => steps.replay(run).map(|()| Duration::ZERO),
            None => self.replay_file(run),
        }
    }

    /// Where the access with index `access` stands in the file, found by reading the file again up to there.
    /// `None` if the file cannot be read again or has no such access.
    pub fn place_of(&self, access: u64) -> Option<Place> {
        // Opening a pipe again would block until another writer comes.
        let (path, input) = self.source.as_ref().filter(|(path, _)| is_regular(path))?;
        let mut reader = Reader::open(path, *input, &ProgressBar::hidden()).ok()?;
        let mut seen = 0;
        while let Some(item) = reader.next_item().ok()? {
            if let Item::Access(_) = item {
                if seen == access {
                    return Some(reader.place());
                }
                seen += 1;
            }
        }
        None
    }

    /// The trace's file, or the trace's name if it was made in memory.
    pub fn path(&self) -> &Path {
        self.source.as_ref().map_or(Path::new(&self.name), |(path, _)| path)
    }

    fn replay_file<R: Replay>(&self, run: &mut R) -> Result<Duration, R::Error> {
        let (path, input) = self.source.as_ref().expect("what was made in memory stays there");
        let started = Instant::now();
        let mut played = Duration::ZERO;
        let mut reader = Reader::open(path, *input, &ProgressBar::hidden())?;
        let (mut pending, mut pins) = (Pending::default(), Pinned::default());
        let mut items = 0;
        while let Some(item) = reader.next_item()? {
            items += 1;
            if items > self.items {
                return Err(self.changed(reader.place()).into());
            }
            match item {
                Item::Access(reference) => {
                    let numbers = self.numbers(&reference).ok_or_else(|| self.changed(reader.place()))?;
                    pending.push(numbers);
                    if pending.is_full() {
                        played += pending.play(run)?;
                    }
                }
                Item::Directive(directive) => {
                    played += pending.play(run)?;
                    let place = reader.place();
                    if !self.still_fits(&directive, &mut pins) {
                        return Err(self.changed(place).into());
                    }
                    let number = |block| self.blocks.get(block).ok_or_else(|| self.changed(place));
                    run.act(match directive {
                        Directive::Pin(block) => Act::Pin(number(block)?),
                        Directive::Unpin(block) => Act::Unpin(number(block)?),
                        _ => Act::Directive(&directive, place),
                    })?;
                }
            }
        }
        if items < self.items {
            return Err(self.changed(Place::File).into());
        }
        played += pending.play(run)?;
        Ok(started.elapsed() - played)
    }

    fn numbers(&self, reference: &Reference) -> Option<Numbers> {
        Some(Numbers {
            block: self.blocks.get(reference.block)?,
            site: self.sites.get(u64::from(reference.site))?,
            tenant: self.tenants.get(u64::from(reference.tenant))?,
        })
    }

    /// Whether the directive is one that the loader can have seen: a player relies on the numbers of tenants,
    /// and on what is pinned.
    fn still_fits(&self, directive: &Directive, pins: &mut Pinned) -> bool {
        match *directive {
            Directive::Pin(block) => {
                pins.pin(block);
                self.has_pins
            }
            Directive::Unpin(block) => pins.unpin(block),
            _ => directive.tenant().is_none_or(|tenant| self.tenant_number(tenant).is_some()),
        }
    }

    fn changed(&self, place: Place) -> TraceError {
        TraceError::refused(self.path(), place, "the file changed while it was in use")
    }
}

/// Whether the path is a regular file, which can be read again from its beginning.
fn is_regular(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// Outstanding pins of each pinned block.
#[derive(Default)]
struct Pinned(HashMap<u64, u32>);

impl Pinned {
    fn pin(&mut self, block: u64) {
        *self.0.entry(block).or_insert(0) += 1;
    }

    /// Takes back one pin. Returns whether there was one.
    fn unpin(&mut self, block: u64) -> bool {
        let Some(pins) = self.0.get_mut(&block) else { return false };
        *pins -= 1;
        if *pins == 0 {
            self.0.remove(&block);
        }
        true
    }
}

/// An access, by the numbers of its block, site and tenant.
#[derive(Clone, Copy)]
struct Numbers {
    block: u32,
    site: u32,
    tenant: u32,
}

/// Accesses that were read from a file and not played yet.
#[derive(Default)]
struct Pending {
    first: u64,
    blocks: Vec<u32>,
    sites: Vec<u32>,
    tenants: Vec<u32>,
}

impl Pending {
    const ACCESSES_MAX: usize = 1 << 16;

    fn push(&mut self, numbers: Numbers) {
        self.blocks.push(numbers.block);
        self.sites.push(numbers.site);
        self.tenants.push(numbers.tenant);
    }

    fn is_full(&self) -> bool {
        self.blocks.len() >= Self::ACCESSES_MAX
    }

    /// Plays all of them, and returns the time that this took.
    fn play<R: Replay>(&mut self, run: &mut R) -> Result<Duration, R::Error> {
        let Self { first, blocks, sites, tenants } = self;
        let started = Instant::now();
        if !blocks.is_empty() {
            run.batch(Batch { first: *first, blocks, sites, tenants })?;
        }
        self.first += self.blocks.len() as u64;
        self.blocks.clear();
        self.sites.clear();
        self.tenants.clear();
        Ok(started.elapsed())
    }
}

/// The steps of a trace in memory.
#[derive(Default, Debug)]
struct Steps {
    blocks: Vec<u32>,
    sites: Column,
    tenants: Column,
    /// Events, each with the index of the access that it precedes.
    acts: Vec<(u64, StoredAct)>,
    directives: Vec<(Directive, Place)>,
    /// Bytes of heap memory that the directives hold.
    text_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
enum StoredAct {
    Pin(u32),
    Unpin(u32),
    /// Index into `Steps::directives`.
    Directive(u32),
}

/// One number for each access. Takes no memory as long as all numbers are 0.
#[derive(Default, Debug)]
struct Column {
    values: Vec<u32>,
}

impl Column {
    /// Appends the value of the access with index `at`.
    fn push(&mut self, at: usize, value: u32) {
        if value != 0 && self.values.is_empty() {
            self.values.resize(at, 0);
        }
        if value != 0 || !self.values.is_empty() {
            self.values.push(value);
        }
    }

    fn slice(&self, range: std::ops::Range<usize>) -> &[u32] {
        if self.values.is_empty() { &[] } else { &self.values[range] }
    }
}

impl Steps {
    fn push(&mut self, numbers: Numbers) {
        let at = self.blocks.len();
        self.blocks.push(numbers.block);
        self.sites.push(at, numbers.site);
        self.tenants.push(at, numbers.tenant);
    }

    fn push_directive(&mut self, directive: Directive, place: Place) {
        if let Directive::File { name: text, .. }
        | Directive::Program { file: text, .. }
        | Directive::Send { slot: text, .. } = &directive
        {
            self.text_bytes += text.capacity();
        }
        self.acts.push((self.blocks.len() as u64, StoredAct::Directive(self.directives.len() as u32)));
        self.directives.push((directive, place));
    }

    fn bytes(&self) -> usize {
        size_of::<u32>() * (self.blocks.len() + self.sites.values.len() + self.tenants.values.len())
            + size_of::<(u64, StoredAct)>() * self.acts.len()
            + size_of::<(Directive, Place)>() * self.directives.len()
            + self.text_bytes
    }

    fn replay<R: Replay>(&self, run: &mut R) -> Result<(), R::Error> {
        let mut next = 0;
        for &(before, act) in &self.acts {
            self.play(next..before as usize, run)?;
            next = before as usize;
            run.act(match act {
                StoredAct::Pin(block) => Act::Pin(block),
                StoredAct::Unpin(block) => Act::Unpin(block),
                StoredAct::Directive(index) => {
                    let (directive, place) = &self.directives[index as usize];
                    Act::Directive(directive, *place)
                }
            })?;
        }
        self.play(next..self.blocks.len(), run)
    }

    fn play<R: Replay>(&self, range: std::ops::Range<usize>, run: &mut R) -> Result<(), R::Error> {
        if range.is_empty() {
            return Ok(());
        }
        run.batch(Batch {
            first: range.start as u64,
            blocks: &self.blocks[range.clone()],
            sites: self.sites.slice(range.clone()),
            tenants: self.tenants.slice(range),
        })
    }
}

/// Takes the steps of a trace one by one.
struct Builder {
    budget_bytes: usize,
    accesses: u64,
    items: u64,
    blocks: Numbering,
    sites: Numbering,
    tenants: Numbering,
    steps: Option<Steps>,
    has_pins: bool,
    pins: Pinned,
    /// Blocks that have a number and were not accessed so far.
    unaccessed: HashSet<u32>,
    files: FileRanges,
    /// The block of the last `!create` and where that stands, until the block is accessed.
    created: Option<(u64, Place)>,
}

impl Builder {
    fn new(budget_bytes: usize) -> Self {
        let mut sites = Numbering::new();
        // Site 0 means that the site is unknown: it keeps its number.
        sites.number(0);
        Self {
            budget_bytes,
            accesses: 0,
            items: 0,
            blocks: Numbering::new(),
            sites,
            tenants: Numbering::new(),
            steps: Some(Steps::default()),
            has_pins: false,
            pins: Pinned::default(),
            unaccessed: HashSet::new(),
            files: FileRanges::new(),
            created: None,
        }
    }

    /// Appends a step, or says what was expected instead.
    fn push(&mut self, item: Item, place: Place) -> Result<(), String> {
        self.items += 1;
        match item {
            Item::Access(reference) => self.access(&reference),
            Item::Directive(Directive::Pin(block)) => self.pin(block),
            Item::Directive(Directive::Unpin(block)) => self.unpin(block),
            Item::Directive(directive) => {
                self.number_tenant_of(&directive);
                if let Directive::File { first, last, name } = &directive {
                    self.files.add(*first, *last, name)?;
                }
                if let Directive::Create(block) = &directive {
                    self.end_creation(None)?;
                    self.created = Some((*block, place));
                }
                if let Some(steps) = &mut self.steps {
                    steps.push_directive(directive, place);
                }
                self.keep_budget();
                Ok(())
            }
        }
    }

    fn access(&mut self, reference: &Reference) -> Result<(), String> {
        let numbers = Numbers {
            block: self.block_number(reference.block)?,
            site: self.sites.number(u64::from(reference.site)).ok_or_else(|| too_many("sites"))?,
            tenant: self.tenants.number(u64::from(reference.tenant)).ok_or_else(|| too_many("tenants"))?,
        };
        if self.created.is_some() {
            self.end_creation(Some(reference.block))?;
        }
        if !self.unaccessed.is_empty() {
            self.unaccessed.remove(&numbers.block);
        }
        if let Some(steps) = &mut self.steps {
            steps.push(numbers);
        }
        self.accesses += 1;
        if self.accesses.is_multiple_of(1 << 12) {
            self.keep_budget();
        }
        Ok(())
    }

    fn pin(&mut self, block: u64) -> Result<(), String> {
        let known = self.blocks.get(block).is_some();
        let number = self.block_number(block)?;
        if !known {
            self.unaccessed.insert(number);
        }
        self.pins.pin(block);
        self.has_pins = true;
        self.push_act(StoredAct::Pin(number));
        Ok(())
    }

    fn unpin(&mut self, block: u64) -> Result<(), String> {
        let pinned = self.blocks.get(block).filter(|_| self.pins.unpin(block));
        let Some(number) = pinned else {
            return Err(format!("a block that is pinned, found !unpin {block}"));
        };
        self.push_act(StoredAct::Unpin(number));
        Ok(())
    }

    /// Ends the creation that is under way, which only an access to its block may do. `accessed` is the block
    /// of an access; `None` stands for the next `!create`.
    fn end_creation(&mut self, accessed: Option<u64>) -> Result<(), String> {
        match self.created.take() {
            Some((block, _)) if accessed != Some(block) => {
                Err(format!("an access to block {block} next, as !create {block} stands before it"))
            }
            _ => Ok(()),
        }
    }

    fn block_number(&mut self, block: u64) -> Result<u32, String> {
        self.blocks.number(block).ok_or_else(|| too_many("blocks"))
    }

    /// Numbers the tenant that gives a directive, since it may not have accessed anything.
    fn number_tenant_of(&mut self, directive: &Directive) {
        if let Some(tenant) = directive.tenant() {
            self.tenants.number(u64::from(tenant));
        }
    }

    fn push_act(&mut self, act: StoredAct) {
        if let Some(steps) = &mut self.steps {
            steps.acts.push((self.accesses, act));
        }
        self.keep_budget();
    }

    /// Drops the steps if they exceed the budget.
    fn keep_budget(&mut self) {
        if self.steps.as_ref().is_some_and(|steps| steps.bytes() > self.budget_bytes) {
            self.steps = None;
        }
    }

    fn finish(mut self, name: String, source: Option<(PathBuf, Option<Input>)>) -> Trace {
        self.keep_budget();
        Trace {
            name,
            source,
            accesses: self.accesses,
            items: self.items,
            unaccessed: self.unaccessed.len() as u64,
            has_pins: self.has_pins,
            blocks: self.blocks,
            sites: self.sites,
            tenants: self.tenants,
            steps: self.steps,
        }
    }
}

fn too_many(what: &str) -> String {
    format!("at most 2^32 - 1 distinct {what}")
}

#[cfg(test)]
mod tests {
    use super::super::Writer;
    use super::*;
    use proptest::prelude::*;

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
            assert!(
                error.to_string().ends_with("the file changed while it was in use"),
                "{changed:?}: {error}"
            );
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
            (
                "!create 4\n5\n4\n",
                "line 2: expected an access to block 4 next, as !create 4 stands before it",
            ),
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
}
