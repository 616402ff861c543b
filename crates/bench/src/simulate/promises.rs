//! `!hints-all`: a tenant discloses all its later accesses at once.

use super::SimError;
use crate::trace::{Act, Batch, Directive, Replay, Trace};

/// The later accesses of each tenant that gives `!hints-all` anywhere in the trace. They are found when the
/// first tenant gives it, by playing the trace twice; later ones need no pass over the trace.
#[derive(Default)]
pub struct Promises {
    /// By the tenants' numbers; `None` for a tenant that never gives `!hints-all`. Empty before the first
    /// promise.
    of: Vec<Option<Promise>>,
}

/// The accesses of a tenant after the first promise of any tenant.
struct Promise {
    /// Numbers of the blocks accessed, in order.
    blocks: Vec<u32>,
    /// How many of these accesses have been made.
    made: usize,
    /// How many of these accesses are on the tenant's list, or were made before its promise. Means nothing
    /// unless `stands`.
    told: usize,
    /// Whether the tenant has given `!hints-all` and not withdrawn it.
    stands: bool,
}

impl Promises {
    /// Tenant number `tenant` promises all its accesses from now on. `from` is the index in the trace of the
    /// next access of any tenant. A promise that stands is not changed by another.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read again.
    pub fn make(&mut self, trace: &Trace, tenant: u32, from: u64) -> Result<(), SimError> {
        if self.of.is_empty() {
            let mut later = Later { trace, from, promises: trace.tenants().iter().map(|_| None).collect() };
            trace.replay(&mut Promising(&mut later))?;
            trace.replay(&mut later)?;
            self.of = later.promises;
        }
        if let Some(promise) = &mut self.of[tenant as usize]
            && !promise.stands
        {
            promise.stands = true;
            promise.told = promise.made;
        }
        Ok(())
    }

    /// The tenant withdraws its promise, if it has made one.
    pub fn end(&mut self, tenant: u32) {
        if let Some(Some(promise)) = self.of.get_mut(tenant as usize) {
            promise.stands = false;
        }
    }

    /// Whether no tenant has made a promise so far.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The number of the block of the tenant's first promised access that is not on its list.
    pub fn untold(&self, tenant: u32) -> Option<u32> {
        let promise = self.of.get(tenant as usize)?.as_ref().filter(|promise| promise.stands)?;
        promise.blocks.get(promise.told).copied()
    }

    /// That access is on the tenant's list now.
    pub fn was_told(&mut self, tenant: u32) {
        if let Some(Some(promise)) = self.of.get_mut(tenant as usize) {
            promise.told += 1;
        }
    }

    /// The tenant makes an access.
    pub fn access(&mut self, tenant: u32) {
        if let Some(Some(promise)) = self.of.get_mut(tenant as usize) {
            promise.made += 1;
        }
    }
}

/// Collects the accesses from index `from` on of the tenants that have a promise to collect them in.
struct Later<'a> {
    trace: &'a Trace,
    from: u64,
    promises: Vec<Option<Promise>>,
}

/// Makes an empty promise for each tenant that gives `!hints-all` anywhere in the trace.
struct Promising<'l, 'a>(&'l mut Later<'a>);

impl Replay for Promising<'_, '_> {
    type Error = SimError;

    fn batch(&mut self, _: Batch<'_>) -> Result<(), SimError> {
        Ok(())
    }

    fn act(&mut self, act: Act<'_>) -> Result<(), SimError> {
        if let Act::Directive(Directive::HintsAll { tenant }, _) = act {
            let number = self.0.trace.tenant_number(*tenant).expect("numbered by the loader");
            let promise = Promise { blocks: Vec::new(), made: 0, told: 0, stands: false };
            self.0.promises[number as usize] = Some(promise);
        }
        Ok(())
    }
}

impl Replay for Later<'_> {
    type Error = SimError;

    fn batch(&mut self, batch: Batch<'_>) -> Result<(), SimError> {
        let begin = self.from.saturating_sub(batch.first).min(batch.blocks.len() as u64) as usize;
        for (at, block) in batch.blocks.iter().enumerate().skip(begin) {
            let tenant = batch.tenants.get(at).copied().unwrap_or(0);
            if let Some(promise) = &mut self.promises[tenant as usize] {
                promise.blocks.push(*block);
            }
        }
        Ok(())
    }

    fn act(&mut self, _: Act<'_>) -> Result<(), SimError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use indicatif::ProgressBar;

    use super::*;
    use crate::trace::LoadOptions;

    fn untold(promises: &mut Promises, trace: &Trace, tenant: u32) -> Vec<u64> {
        let mut blocks = Vec::new();
        while let Some(block) = promises.untold(tenant) {
            blocks.push(trace.blocks()[block as usize]);
            promises.was_told(tenant);
        }
        blocks
    }

    #[test]
    fn the_trace_is_read_once_for_all_promises() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.txt");
        fs::write(&path, "1\n2\n!hints-all 0\n3\n4\n5 0 1\n!hints-all 1\n6\n7 0 1\n8 0 2\n").unwrap();
        let options = LoadOptions { input: None, budget_bytes: 0 };
        let trace = Trace::load(&path, &options, &ProgressBar::hidden()).unwrap();
        let mut promises = Promises::default();
        assert!(promises.is_empty() && promises.untold(0).is_none());
        promises.make(&trace, 0, 2).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(untold(&mut promises, &trace, 0), [3, 4, 6]);
        assert_eq!(promises.untold(1), None, "it has promised nothing so far");
        [0, 0, 1].into_iter().for_each(|tenant| promises.access(tenant));
        promises.make(&trace, 1, 5).unwrap();
        assert_eq!(untold(&mut promises, &trace, 1), [7]);
        promises.make(&trace, 0, 5).unwrap();
        assert_eq!(promises.untold(0), None, "its promise stands, and all of it was told");
        promises.end(0);
        assert_eq!(promises.untold(0), None);
        promises.make(&trace, 0, 5).unwrap();
        assert_eq!(untold(&mut promises, &trace, 0), [6], "what is still to come");
    }
}
