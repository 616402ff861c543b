//! A trace whose tenants are clients, each with a cache of its own, above one lower cache.

use std::collections::BTreeMap;

use bufpool_policies::ProgramStats;

use super::SimError;
use super::run::Run;
use super::tally::Tally;
use crate::trace::{Act, Batch, Directive, Replay, Trace};

/// A run for each tenant of the trace.
pub struct ClientsRun<'a, R> {
    trace: &'a Trace,
    /// Per tenant, by number; at least one.
    clients: Vec<R>,
}

impl<'a, R: Run> ClientsRun<'a, R> {
    /// The clients, one for each tenant of `trace`.
    pub fn new(trace: &'a Trace, clients: Vec<R>) -> Self {
        Self { trace, clients }
    }

    /// The tenant that a directive is about, by number; `None` if it is about all.
    fn tenant(&self, directive: &Directive) -> Option<usize> {
        let named = match *directive {
            Directive::Policy { tenant, .. }
            | Directive::Priority { tenant, .. }
            | Directive::TemporaryPriority { tenant, .. }
            | Directive::Hint { tenant, .. }
            | Directive::HintsAll { tenant }
            | Directive::HintsEnd { tenant }
            | Directive::Program { tenant, .. }
            | Directive::ProgramEnd { tenant }
            | Directive::Send { tenant, .. }
            | Directive::Compute { tenant, .. } => tenant,
            Directive::File { .. } | Directive::Pin(_) | Directive::Unpin(_) | Directive::Create(_) => {
                return None;
            }
        };
        Some(self.trace.tenant_number(named).expect("numbered by the loader") as usize)
    }
}

impl<R: Run> Replay for ClientsRun<'_, R> {
    type Error = SimError;

    fn batch(&mut self, batch: Batch<'_>) -> Result<(), SimError> {
        let mut first = 0;
        while first < batch.blocks.len() {
            let tenant = |at: usize| batch.tenants.get(at).copied().unwrap_or(0);
            let same = (first..batch.blocks.len()).take_while(|at| tenant(*at) == tenant(first)).count();
            self.clients[tenant(first) as usize].batch(batch.part(first..first + same))?;
            first += same;
        }
        Ok(())
    }

    fn act(&mut self, act: Act<'_>) -> Result<(), SimError> {
        let of_one = match act {
            Act::Directive(directive, _) => self.tenant(directive),
            Act::Pin(_) | Act::Unpin(_) => None,
        };
        match of_one {
            Some(tenant) => self.clients[tenant].act(act),
            None => self.clients.iter_mut().try_for_each(|client| client.act(act)),
        }
    }
}

impl<R: Run> Run for ClientsRun<'_, R> {
    fn end_warm_up(&mut self) {
        self.clients.iter_mut().for_each(Run::end_warm_up);
    }

    fn end(self) -> (Tally, BTreeMap<u32, ProgramStats>) {
        let mut programs = BTreeMap::new();
        let mut sum: Option<Tally> = None;
        for (number, client) in self.clients.into_iter().enumerate() {
            let (tally, stats) = client.end();
            // Every client knows every tenant, and has the accesses of its own only.
            let own = self.trace.tenants().get(number);
            programs.extend(stats.into_iter().filter(|(named, _)| own == Some(&u64::from(*named))));
            match &mut sum {
                None => sum = Some(tally),
                Some(sum) => sum.add(&tally),
            }
        }
        (sum.expect("at least one client"), programs)
    }
}
