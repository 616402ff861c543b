//! A trace whose tenants are clients, each with a cache of its own, above one lower cache.

use std::collections::BTreeMap;

use bufpool_policies::ProgramStats;

use super::SimError;
use super::run::Run;
use super::tally::Tally;
use crate::trace::{Act, Batch, Directive, Place, Replay, Trace};

/// A run for each tenant of the trace.
pub struct ClientsRun<'a, R> {
    trace: &'a Trace,
    /// Per tenant, by number; at least one.
    clients: Vec<R>,
    /// The block that the next access creates; the tenant that makes it is not known before.
    created: Option<u64>,
}

impl<'a, R: Run> ClientsRun<'a, R> {
    /// The clients, one for each tenant of `trace`.
    pub fn new(trace: &'a Trace, clients: Vec<R>) -> Self {
        Self { trace, clients, created: None }
    }

    /// The tenant that a directive is about, by number; `None` if it is about all.
    fn tenant(&self, directive: &Directive) -> Option<usize> {
        let number = self.trace.tenant_number(directive.tenant()?);
        Some(number.expect("numbered by the loader") as usize)
    }
}

impl<R: Run> Replay for ClientsRun<'_, R> {
    type Error = SimError;

    fn batch(&mut self, batch: Batch<'_>) -> Result<(), SimError> {
        let mut first = 0;
        while first < batch.blocks.len() {
            let tenant = |at: usize| batch.tenants.get(at).copied().unwrap_or(0);
            let same = (first..batch.blocks.len()).take_while(|at| tenant(*at) == tenant(first)).count();
            let client = &mut self.clients[tenant(first) as usize];
            if let Some(block) = self.created.take() {
                client.act(Act::Directive(&Directive::Create(block), Place::File))?;
            }
            client.batch(batch.part(first..first + same))?;
            first += same;
        }
        Ok(())
    }

    fn act(&mut self, act: Act<'_>) -> Result<(), SimError> {
        if let Act::Directive(Directive::Create(block), _) = act {
            self.created = Some(*block);
            return Ok(());
        }
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
            // Every client has opened all tenants, but only its own tenant has made accesses.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Item, Reference};

    /// A client that notes what it is told.
    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Replay for Heard {
        type Error = SimError;

        fn batch(&mut self, batch: Batch<'_>) -> Result<(), SimError> {
            self.0.push(format!("{} accesses", batch.blocks.len()));
            Ok(())
        }

        fn act(&mut self, act: Act<'_>) -> Result<(), SimError> {
            let Act::Directive(directive, _) = act else { panic!("the trace has no pins") };
            self.0.push(format!("{directive:?}"));
            Ok(())
        }
    }

    impl Run for Heard {
        fn end_warm_up(&mut self) {}

        fn end(self) -> (Tally, BTreeMap<u32, ProgramStats>) {
            panic!("a client that only hears has counts of nothing")
        }
    }

    #[test]
    fn a_creation_is_told_to_who_makes_it() {
        let access = |block, tenant| Item::Access(Reference { block, site: 0, tenant });
        let items =
            [access(1, 0), access(1, 1), Item::Directive(Directive::Create(7)), access(7, 1), access(7, 0)];
        let trace = Trace::of("clients", items);
        let mut run = ClientsRun::new(&trace, vec![Heard::default(), Heard::default()]);
        trace.replay(&mut run).unwrap();
        let [first, second] = [0, 1].map(|client: usize| run.clients[client].0.join(", "));
        assert_eq!(first, "1 accesses, 1 accesses");
        assert_eq!(second, "1 accesses, Create(7), 1 accesses");
    }
}
