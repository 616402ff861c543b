//! PCC: a call site is what its first accesses and re-accesses make it.

use std::collections::HashMap;

use super::{Class, Detector, Evidence};
use crate::PageId;

/// By how much one count must exceed the other. The paper's number was not looked up. With any number below
/// 3,000, small files that are read a few times are misjudged.
const LEAD: i64 = 100;

/// "Program-Counter-Based Pattern Classification in Buffer Caching" (Gniady, Butt, Hu, OSDI '04).
/// Not checked against the paper's text.
///
/// A first access counts one for *sequential*; a re-access takes one from it and counts one for *looping*,
/// and its distance enters the loop's period. O(1) an access, 16 bytes a block ever seen.
#[derive(Clone, Debug, Default)]
pub struct Pcc {
    last_access: HashMap<PageId, u64>,
    accesses: u64,
    sequential: i64,
    looping: i64,
    period: f64,
}

impl Pcc {
    /// A call site without accesses.
    pub fn new() -> Self {
        Self::default()
    }

    /// The two counts: sequential and looping.
    pub fn counts(&self) -> (i64, i64) {
        (self.sequential, self.looping)
    }
}

impl Detector for Pcc {
    fn access(&mut self, page: PageId) {
        self.accesses += 1;
        match self.last_access.insert(page, self.accesses) {
            None => self.sequential += 1,
            Some(before) => {
                self.sequential -= 1;
                self.looping += 1;
                let distance = (self.accesses - before) as f64;
                self.period += (distance - self.period) * if self.looping == 1 { 1.0 } else { 0.125 };
            }
        }
    }

    fn class(&self) -> Class {
        if self.sequential > self.looping + LEAD {
            Class::OneShot
        } else if self.looping > self.sequential + LEAD {
            Class::Looping
        } else {
            Class::Other
        }
    }

    /// A moving mean over re-accesses.
    fn period(&self) -> Option<f64> {
        (self.looping > 0).then_some(self.period)
    }

    fn evidence(&self) -> Evidence {
        Evidence { samples: u32::try_from(self.accesses).unwrap_or(u32::MAX), recency: None }
    }

    fn metadata_bytes(&self) -> usize {
        size_of::<Self>() + self.last_access.capacity() * size_of::<(PageId, u64)>()
    }
}
