//! Tiers that do not pay.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Result;
use bufpool::engine::PageName;
use bufpool::tier::{
    Attachment, Demoted, Envelope, Tier, TierBuffer, TierDone, TierPage, TierRange, TierReport, Version,
};
use parking_lot::Mutex;

use super::delay::Delay;

/// What is wrong with a tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It has all pages, and answers after the time of a read of the source.
    Slow,
    /// It never has the page, and says so after two fifths of the time of a read of the source.
    NeverHit,
    /// It has all pages and answers at once, and refuses each page that it is offered.
    Refuses,
    /// It loses what it is given, and drops every question at once.
    Dead,
    /// It keeps every page that it is given and every question, and never answers.
    Stuck,
}

/// A tier with a fault. It serves one pool with one read-only file, so it tells pages apart by their numbers
/// and its copies never go out of date.
pub struct FaultyTier {
    fault: Fault,
    /// Delays answers; `None` if they come at once.
    delay: Option<Delay>,
    copies: Mutex<HashMap<u64, Copy>>,
    kept: Mutex<Vec<Kept>>,
}

#[derive(Clone)]
struct Copy {
    envelope: Envelope,
    bytes: std::sync::Arc<[u8]>,
}

/// What a stuck tier keeps of the pool.
#[expect(dead_code, reason = "kept, and never looked at")]
enum Kept {
    Page(TierPage),
    Question(TierBuffer, TierDone),
}

impl FaultyTier {
    /// A tier for a pool on a source whose reads take `source_latency`. Starts a thread if answers come late.
    ///
    /// # Errors
    /// If there is no thread to be had for late answers.
    pub fn new(fault: Fault, source_latency: Duration) -> Result<Self> {
        let delay = match fault {
            Fault::Slow => Some(Delay::new(source_latency)?),
            Fault::NeverHit => Some(Delay::new(source_latency * 2 / 5)?),
            Fault::Refuses | Fault::Dead | Fault::Stuck => None,
        };
        Ok(Self { fault, delay, copies: Mutex::default(), kept: Mutex::default() })
    }

    fn keep(&self, page: PageName, bytes: &TierPage) {
        let copy = Copy { envelope: bytes.envelope(), bytes: (**bytes).into() };
        self.copies.lock().insert(page.number, copy);
    }
}

impl Tier for FaultyTier {
    fn attach(&self, _: &Attachment) -> bufpool::Result<()> {
        Ok(())
    }

    fn demote(&self, page: PageName, _: Version, bytes: TierPage) -> Demoted {
        match self.fault {
            Fault::Slow => self.keep(page, &bytes),
            Fault::Refuses => {
                self.keep(page, &bytes);
                return Demoted::Refused;
            }
            Fault::Stuck => self.kept.lock().push(Kept::Page(bytes)),
            Fault::NeverHit | Fault::Dead => {}
        }
        Demoted::Stored
    }

    fn take(&self, page: PageName, _: Version, mut into: TierBuffer, done: TierDone) {
        match self.fault {
            Fault::Dead => return drop(done),
            Fault::Stuck => return self.kept.lock().push(Kept::Question(into, done)),
            _ => {}
        }
        let Some(Copy { envelope, bytes }) = self.copies.lock().get(&page.number).cloned() else {
            return match &self.delay {
                Some(delay) if self.fault == Fault::NeverHit => delay.run(move || done.absent(into)),
                _ => done.absent(into),
            };
        };
        let answer = move || {
            into.copy_from_slice(&bytes);
            done.filled(into, envelope);
        };
        match &self.delay {
            Some(delay) => delay.run(answer),
            None => answer(),
        }
    }

    fn forget(&self, _: TierRange) {}

    fn report(&self) -> TierReport {
        TierReport::new(format!("a tier with a fault: {:?}", self.fault))
    }
}
