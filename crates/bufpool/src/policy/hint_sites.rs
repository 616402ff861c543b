//! Lists of disclosed reads, by the contexts that they were opened in.

use bufpool_policies::ContextId;
use bufpool_policies::hints::{HintCounts, HintListId};

/// Contexts of a tenant whose lists of reads are counted apart; those of later ones count as the first one's.
const HINT_SITES_MAX: usize = 1024;

/// Lists of disclosed reads that were opened in one context of a tenant.
pub(crate) struct HintSite {
    pub context: ContextId,
    /// Of lists that are closed.
    pub counts: HintCounts,
    pub open: Vec<HintListId>,
    /// How far ahead the pool looked at most, as far as it was noted.
    pub depth_max: u32,
}

/// Those of a tenant, in the order of their first lists.
#[derive(Default)]
pub(crate) struct HintSites(Vec<HintSite>);

impl HintSites {
    /// Those from the given place on.
    pub fn from(&self, first: usize) -> &[HintSite] {
        self.0.get(first..).unwrap_or(&[])
    }

    /// Lists that are open, with their contexts.
    pub(super) fn open_lists(&self) -> Vec<(HintListId, ContextId)> {
        self.0.iter().flat_map(|site| site.open.iter().map(|list| (*list, site.context))).collect()
    }

    pub(super) fn at(&mut self, context: ContextId) -> &mut HintSite {
        let found = self.0.iter().position(|site| site.context == context);
        // Contexts are recycled, so there may be more in time than there are at a time.
        let at = found.or_else(|| (self.0.len() >= HINT_SITES_MAX).then_some(0)).unwrap_or_else(|| {
            self.0.push(HintSite { context, counts: HintCounts::default(), open: Vec::new(), depth_max: 0 });
            self.0.len() - 1
        });
        &mut self.0[at]
    }
}
