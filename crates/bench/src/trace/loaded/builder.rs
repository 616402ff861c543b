//! Takes the steps of a trace one by one, and numbers what they name.

use std::collections::HashSet;

use super::pinned::Pinned;
use super::steps::{Numbers, Steps, StoredAct};
use crate::trace::{Directive, FileRanges, Item, Numbering, Place, Reference};

/// Takes the steps of a trace one by one.
pub(super) struct Builder {
    budget_bytes: usize,
    pub accesses: u64,
    pub items: u64,
    pub blocks: Numbering,
    pub sites: Numbering,
    pub tenants: Numbering,
    pub steps: Option<Steps>,
    pub has_pins: bool,
    pins: Pinned,
    /// Blocks that have a number and were not accessed so far.
    pub unaccessed: HashSet<u32>,
    files: FileRanges,
    /// The block of the last `!create` and where that stands, until the block is accessed.
    pub created: Option<(u64, Place)>,
}

impl Builder {
    pub fn new(budget_bytes: usize) -> Self {
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
    pub fn push(&mut self, item: Item, place: Place) -> Result<(), String> {
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
            steps.push_act(self.accesses, act);
        }
        self.keep_budget();
    }

    /// Drops the steps if they exceed the budget.
    pub fn keep_budget(&mut self) {
        if self.steps.as_ref().is_some_and(|steps| steps.bytes() > self.budget_bytes) {
            self.steps = None;
        }
    }
}

fn too_many(what: &str) -> String {
    format!("at most 2^32 - 1 distinct {what}")
}
