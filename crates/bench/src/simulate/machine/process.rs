//! A process: what one tenant of a trace does, in its own order.

use crate::simulate::SimError;
use crate::trace::{Act, Batch, Directive, Place, Replay, Trace, TraceError};

/// A step of a process.
#[derive(Clone, Debug)]
pub enum Step {
    /// It accesses a block.
    Access(u64),
    /// It gives a directive, which takes no time.
    Say(Directive, Place),
}

/// The steps of each tenant of a trace.
pub struct Processes<'a> {
    trace: &'a Trace,
    /// Per tenant of the trace, by number.
    pub steps: Vec<Vec<Step>>,
}

impl<'a> Processes<'a> {
    /// Splits the trace by tenant.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read again, or has programs or pins. A pin has its place among the accesses of
    /// all tenants, and on a machine their order is not that of the trace.
    pub fn of(trace: &'a Trace) -> Result<Self, SimError> {
        let mut processes = Self { trace, steps: vec![Vec::new(); trace.tenants().len()] };
        trace.replay(&mut processes)?;
        Ok(processes)
    }
}

impl Replay for Processes<'_> {
    type Error = SimError;

    fn batch(&mut self, batch: Batch<'_>) -> Result<(), SimError> {
        for (at, &block) in batch.blocks.iter().enumerate() {
            let tenant = batch.tenants.get(at).copied().unwrap_or(0) as usize;
            self.steps[tenant].push(Step::Access(self.trace.blocks()[block as usize]));
        }
        Ok(())
    }

    fn act(&mut self, act: Act<'_>) -> Result<(), SimError> {
        let Act::Directive(directive, place) = act else {
            let message = "expected a trace without !pin and !unpin, which have no meaning on a machine";
            return Err(SimError::Trace(TraceError::refused(self.trace.path(), Place::File, message)));
        };
        let tenant = match *directive {
            Directive::Program { .. } | Directive::ProgramEnd { .. } | Directive::Send { .. } => {
                let message = "expected a trace without !program, !program-end and !send, which have no meaning on a machine";
                return Err(SimError::Trace(TraceError::refused(self.trace.path(), place, message)));
            }
            Directive::Policy { tenant, .. }
            | Directive::Priority { tenant, .. }
            | Directive::TemporaryPriority { tenant, .. }
            | Directive::Hint { tenant, .. }
            | Directive::HintsAll { tenant }
            | Directive::Compute { tenant, .. } => tenant,
            // Nothing on a machine depends on files or on which accesses create blocks. Pins are acts of
            // their own, refused above. Hints are withdrawn when the process ends, not by `!hints-end`.
            Directive::File { .. }
            | Directive::Pin(_)
            | Directive::Unpin(_)
            | Directive::Create(_)
            | Directive::HintsReplan { .. }
            | Directive::HintsEnd { .. } => return Ok(()),
        };
        let number = self.trace.tenant_number(tenant).expect("numbered by the loader");
        self.steps[number as usize].push(Step::Say(directive.clone(), place));
        Ok(())
    }
}
