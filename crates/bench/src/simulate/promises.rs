//! Accesses that tenants disclose before they make them, all at once: `!hints-all`.

use super::SimError;
use crate::trace::{Act, Batch, Directive, Replay, Trace};

/// The later accesses of the tenants of a trace that ever disclose all of them, found when one first does.
/// However often they do, the trace is read once for that.
#[derive(Default)]
pub struct Promises {
    /// By the tenants' numbers; empty before the first promise.
    of: Vec<Option<Promise>>,
}

/// What a tenant accesses from the first promise of any tenant on.
struct Promise {
    /// Numbers of the blocks.
    blocks: Vec<u32>,
    /// How many of these accesses have been made.
    made: usize,
    /// How many of them its list was told of, or had no need to be. All while there is no promise.
    told: usize,
    stands: bool,
}

impl Promises {
    /// Tenant number `tenant` promises all its accesses from the one with index `from` in the trace on, which
    /// is the next one of all. A promise that stands is not changed by another.
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

    /// The tenant promises nothing any more.
    pub fn end(&mut self, tenant: u32) {
        if let Some(Some(promise)) = self.of.get_mut(tenant as usize) {
            promise.stands = false;
        }
    }

    /// Whether nobody has ever promised anything.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The block of the tenant's next promised access that its list has not been told of.
    pub fn untold(&self, tenant: u32) -> Option<u32> {
        let promise = self.of.get(tenant as usize)?.as_ref().filter(|promise| promise.stands)?;
        promise.blocks.get(promise.told).copied()
    }

    /// The tenant's list was told of that access.
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

/// Finds the accesses, from one on, of the tenants that have a place for them.
struct Later<'a> {
    trace: &'a Trace,
    from: u64,
    promises: Vec<Option<Promise>>,
}

/// Makes these places.
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
