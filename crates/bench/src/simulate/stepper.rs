//! A two-level simulation driven access by access, for models in which time decides which tenant accesses
//! next.

use super::two_level::TwoLevelRun;
use super::{By, Counts, Policy, Setup, SimError};
use crate::trace::{Act, Batch, Directive, Place, Reference, Replay, Trace};

/// A cache that is asked one access at a time, in any order of the accesses of a trace.
pub struct Stepper<'a> {
    trace: &'a Trace,
    run: TwoLevelRun<'a>,
    accesses: u64,
}

impl<'a> Stepper<'a> {
    /// An empty cache for the blocks and tenants of `trace`, whose order does not matter.
    ///
    /// # Errors
    ///
    /// As [`super::simulate`].
    ///
    /// # Panics
    ///
    /// If `policy` is not a two-level policy.
    pub fn new(trace: &'a Trace, policy: Policy, setup: &Setup) -> Result<Self, SimError> {
        let Policy::TwoLevel(allocation) = policy else {
            panic!("{} is not a two-level policy", policy.name())
        };
        let setup = Setup { by: By::Tenant, ..setup.clone() };
        Ok(Self { trace, run: TwoLevelRun::with_pins(trace, &setup, allocation)?, accesses: 0 })
    }

    /// Makes an access; true if it is a hit.
    ///
    /// # Errors
    ///
    /// If every frame that it could take is pinned.
    ///
    /// # Panics
    ///
    /// If the trace does not have the block or the tenant.
    pub fn access(&mut self, reference: &Reference) -> Result<bool, SimError> {
        let block = self.number(reference.block);
        let tenant = self.trace.tenant_number(reference.tenant).expect("a tenant of the trace");
        let is_hit = self.run.is_resident(block);
        self.run.batch(Batch { first: self.accesses, blocks: &[block], sites: &[], tenants: &[tenant] })?;
        self.accesses += 1;
        Ok(is_hit)
    }

    /// Carries out a directive.
    ///
    /// # Errors
    ///
    /// If it is refused.
    pub fn direct(&mut self, directive: &Directive) -> Result<(), SimError> {
        self.run.act(Act::Directive(directive, Place::File))
    }

    /// Keeps a block's frame from being taken.
    pub fn pin(&mut self, block: u64) {
        let block = self.number(block);
        self.run.act(Act::Pin(block)).expect("a pin is never refused");
    }

    /// Takes one [`Stepper::pin`] back.
    pub fn unpin(&mut self, block: u64) {
        let block = self.number(block);
        self.run.act(Act::Unpin(block)).expect("an unpin is never refused");
    }

    /// The counts of a tenant so far.
    pub fn counts(&self, tenant: u32) -> Counts {
        self.trace.tenant_number(tenant).map_or_else(Counts::default, |number| self.run.counts(number))
    }

    fn number(&self, block: u64) -> u32 {
        self.trace.block_number(block).expect("a block of the trace")
    }
}
