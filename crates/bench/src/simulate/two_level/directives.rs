//! Directives of a trace, carried out on the directory.

use std::ops::RangeInclusive;

use bufpool_policies::hints::{HintListId, HintPolicy};
use bufpool_policies::{DirectiveError, Directory, FrameId, HintOptions, PageId, TenantId};

use super::TwoLevelRun;
use crate::simulate::SimError;
use crate::simulate::one_level::ABSENT;
use crate::trace::{Directive, Place, Trace, TraceError};

/// Options of hint lists. The simulator fetches nothing ahead, so depth and reads in flight do not matter.
const HINTS: HintOptions = HintOptions { policy: HintPolicy::Auto, depth_max: 1, in_flight_max: 1 };
/// Of a list of all accesses the block needed last goes. [`HintPolicy::Auto`] may choose another at the same
/// price in a loop, which pays only where pages are read ahead; recordings of pools have such lists.
const PROMISED: HintOptions = HintOptions { policy: HintPolicy::Horizon, ..HINTS };

impl TwoLevelRun<'_> {
    pub(super) fn direct(&mut self, directive: &Directive, place: Place) -> Result<(), SimError> {
        let trace = self.trace;
        let refused = |why: String| SimError::Trace(TraceError::refused(trace.path(), place, why));
        if !matches!(directive, Directive::Hint { .. }) {
            self.end_replaced();
        }
        match *directive {
            Directive::Policy { tenant, .. }
            | Directive::Priority { tenant, .. }
            | Directive::TemporaryPriority { tenant, .. } => {
                self.prioritize(directive).map_err(|why| {
                    // The directory has numbers of its own for tenants.
                    let why = match why {
                        DirectiveError::HasManager { .. } => {
                            DirectiveError::HasManager { tenant: TenantId(tenant) }
                        }
                        why => why,
                    };
                    refused(why.to_string())
                })?;
            }
            Directive::File { first, last, ref name } => {
                self.ranges.set(first, last, name);
                self.files.clear();
            }
            Directive::Hint { tenant, first, last } => self.disclose(tenant, first..=last),
            Directive::HintsAll { tenant } => self.disclose_all(tenant)?,
            Directive::HintsReplan { tenant } => self.replaced = self.lists.remove(&tenant),
            Directive::HintsEnd { tenant } => self.end_hints(tenant),
            Directive::Program { tenant, ref file } => self.load_program(tenant, file).map_err(refused)?,
            Directive::ProgramEnd { tenant } => {
                let ended = self.directory.clear_manager(self.tenant(tenant));
                ended.expect("tenants of a trace are open");
            }
            Directive::Send { tenant, ref slot, value } => {
                let sent = self.directory.send(self.tenant(tenant), slot, value);
                sent.map_err(|why| refused(format!("!send {tenant} {slot}: {why}")))?;
            }
            Directive::Create(block) => self.created = Some(block),
            // The simulator has no time.
            Directive::Compute { .. } => {}
            Directive::Pin(_) | Directive::Unpin(_) => unreachable!("pins are acts of their own"),
        }
        Ok(())
    }

    /// Carries out a directive about a tenant's priority levels.
    fn prioritize(&mut self, directive: &Directive) -> Result<(), DirectiveError> {
        let frame = |page: PageId| frame_of(self.trace, &self.frame_of, page.0);
        match *directive {
            Directive::Policy { tenant, prio, policy } => {
                self.directory.set_policy(self.tenant(tenant), prio, policy)
            }
            Directive::Priority { tenant, first, last, prio } => {
                let (tenant, pages) = (self.tenant(tenant), PageId(first)..=PageId(last));
                self.directory.set_priority(tenant, pages, prio, frame).map(drop)
            }
            Directive::TemporaryPriority { tenant, first, last, prio } => {
                let (tenant, pages) = (self.tenant(tenant), PageId(first)..=PageId(last));
                self.directory.set_temporary_priority(tenant, pages, prio, frame).map(drop)
            }
            _ => unreachable!("a directive of another kind"),
        }
    }

    /// Adds the blocks to the list of the tenant `named`, until the list is full.
    fn disclose(&mut self, named: u32, blocks: RangeInclusive<u64>) {
        let tenant = self.tenant(named);
        let Self { trace, directory, frame_of: frames, lists, .. } = self;
        let list = *lists.entry(named).or_insert_with(|| open_list(directory, tenant, HINTS));
        for block in blocks {
            if directory.hint(list, PageId(block), frame_of(trace, frames, block)).is_none() {
                break;
            }
        }
    }

    /// The tenant `named` discloses all its accesses from now on.
    fn disclose_all(&mut self, named: u32) -> Result<(), SimError> {
        let number = self.tenant_number(named);
        self.promises.make(self.trace, number, self.next_access)?;
        self.disclose_promised(number);
        Ok(())
    }

    /// The plan that takes a list's place is known.
    pub(super) fn end_replaced(&mut self) {
        if let Some(list) = self.replaced.take() {
            self.directory.close_hints(list);
        }
    }

    fn end_hints(&mut self, named: u32) {
        if let Some(list) = self.lists.remove(&named) {
            self.directory.close_hints(list);
        }
        self.promises.end(self.tenant_number(named));
    }

    /// Adds as many of a tenant's promised accesses to its list as the list has room for.
    #[cold]
    pub(super) fn disclose_promised(&mut self, tenant: u32) {
        let Self { trace, directory, frame_of: frames, lists, promises, tenants, .. } = self;
        let named = trace.tenants()[tenant as usize] as u32;
        let tenant_id = tenants[tenant as usize];
        let list = *lists.entry(named).or_insert_with(|| open_list(directory, tenant_id, PROMISED));
        while let Some(block) = promises.untold(tenant) {
            let block = trace.blocks()[block as usize];
            if directory.hint(list, PageId(block), frame_of(trace, frames, block)).is_none() {
                return;
            }
            promises.was_told(tenant);
        }
    }
}

/// The frame of a block of the trace, by the `frames` of all, if it is resident.
fn frame_of(trace: &Trace, frames: &[u32], block: u64) -> Option<FrameId> {
    let frame = frames[trace.block_number(block)? as usize];
    (frame != ABSENT).then_some(FrameId(frame))
}

fn open_list(directory: &mut Directory, tenant: TenantId, options: HintOptions) -> HintListId {
    directory.open_hints(tenant, options).expect("tenants of a trace are open")
}
