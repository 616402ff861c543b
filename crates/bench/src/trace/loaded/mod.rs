//! A trace that has been read once and can be replayed many times.

mod builder;
mod pinned;
mod steps;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::replay::{Act, Replay};
use super::{Directive, Input, Item, Numbering, Place, Reader, Reference, TraceError, base_name};
use builder::Builder;
use pinned::Pinned;
use steps::{Numbers, Pending, Steps};

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
        let trace = Self::built(builder, base_name(path), source);
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
        Self::built(builder, name.to_owned(), None)
    }

    fn built(mut builder: Builder, name: String, source: Option<(PathBuf, Option<Input>)>) -> Self {
        builder.keep_budget();
        Self {
            name,
            source,
            accesses: builder.accesses,
            items: builder.items,
            unaccessed: builder.unaccessed.len() as u64,
            has_pins: builder.has_pins,
            blocks: builder.blocks,
            sites: builder.sites,
            tenants: builder.tenants,
            steps: builder.steps,
        }
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
