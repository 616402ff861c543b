//! Tiers for a pool under test. One of them, the hoarder, misbehaves: it keeps every copy that it was ever
//! offered, ignores `forget`, and answers as the test says.
#![allow(dead_code)]

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bufpool::engine::PageName;
use bufpool::manager::Allocation;
use bufpool::tier::{
    Attachment, CompressedTier, Demoted, Envelope, FileTier, MemoryTier, Tier, TierAdmit, TierBuffer,
    TierDone, TierPage, TierPolicy, TierRange, TierReport, Version,
};
use bufpool::{PoolOptions, Result};

/// Frames of a pool [over](over) a tier.
pub const FRAMES: u32 = 32;

/// Frames in LRU order alone, over this tier.
pub fn over(options: PoolOptions, tier: Arc<dyn Tier>, policy: TierPolicy) -> PoolOptions {
    options.frames(FRAMES).allocation(Allocation::GlobalLru).manager(None).tier(tier, policy, TierAdmit::All)
}

/// What is below a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Below {
    Nothing,
    Memory(TierPolicy),
    File(TierPolicy),
    Compressed(TierPolicy),
    Hoarder(Answer),
    /// The same, under a policy by which pages go down when they come in, and some stay when they are taken.
    Promoting(Answer),
}

impl Below {
    pub const ALL: [Self; 24] = [
        Self::Nothing,
        Self::Memory(TierPolicy::Demote),
        Self::Memory(TierPolicy::Inclusive),
        Self::File(TierPolicy::Demote),
        Self::File(TierPolicy::Inclusive),
        Self::Memory(TierPolicy::Promote),
        Self::File(TierPolicy::Promote),
        Self::Compressed(TierPolicy::Promote),
        Self::Compressed(TierPolicy::Demote),
        Self::Compressed(TierPolicy::Inclusive),
        Self::Hoarder(Answer::AsAsked),
        Self::Hoarder(Answer::FirstVersion),
        Self::Hoarder(Answer::LastVersion),
        Self::Hoarder(Answer::FirstBytes),
        Self::Hoarder(Answer::OtherBytes),
        Self::Hoarder(Answer::OtherPage),
        Self::Hoarder(Answer::Unfilled),
        Self::Hoarder(Answer::Nothing),
        Self::Hoarder(Answer::Never),
        Self::Promoting(Answer::AsAsked),
        Self::Promoting(Answer::FirstVersion),
        Self::Promoting(Answer::FirstBytes),
        Self::Promoting(Answer::OtherBytes),
        Self::Promoting(Answer::Never),
    ];

    /// A pool of these options over such a tier of 40 pages; one in a file is in the folder.
    pub fn a_pool(self, options: PoolOptions, folder: &Path) -> PoolOptions {
        let (tier, policy): (Arc<dyn Tier>, _) = match self {
            Self::Nothing => return options,
            Self::Memory(policy) => (Arc::new(MemoryTier::new(40)), policy),
            Self::File(policy) => (Arc::new(FileTier::new(folder.join("tier"), 40)), policy),
            Self::Compressed(policy) => (Arc::new(CompressedTier::new(8 << 10)), policy),
            Self::Hoarder(answer) => (Arc::new(Hoarder::new(answer)), TierPolicy::Demote),
            Self::Promoting(answer) => (Arc::new(Hoarder::new(answer)), TierPolicy::Promote),
        };
        options.tier(tier, policy, TierAdmit::All).tier_wait_ms(1)
    }
}

/// What the tier answers with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The version that was asked for.
    AsAsked,
    /// The first version that it was offered.
    FirstVersion,
    /// The last version that it was offered.
    LastVersion,
    /// The bytes of the first version, said to be the one that was asked for.
    FirstBytes,
    /// The right version with a bit changed.
    OtherBytes,
    /// The page after the one that was asked for.
    OtherPage,
    /// A buffer that it has not filled.
    Unfilled,
    /// Nothing, and it panics.
    Panics,
    /// Nothing, at once.
    Nothing,
    /// Nothing, ever: it keeps the question.
    Never,
    /// It panics when it is attached.
    PanicsAttached,
}

impl Answer {
    /// All answers but [`Never`](Self::Never) and [`PanicsAttached`](Self::PanicsAttached).
    pub const ALL: [Self; 9] = [
        Self::AsAsked,
        Self::FirstVersion,
        Self::LastVersion,
        Self::FirstBytes,
        Self::OtherBytes,
        Self::OtherPage,
        Self::Unfilled,
        Self::Panics,
        Self::Nothing,
    ];

    /// Whether pages that have not changed are served.
    pub fn is_right(self) -> bool {
        matches!(self, Self::AsAsked | Self::LastVersion | Self::FirstVersion | Self::FirstBytes)
    }
}

/// See the file's head. Pages are known by the file's tag.
pub struct Hoarder {
    answer: Answer,
    promotes: AtomicBool,
    copies: Mutex<HashMap<(u64, u64), Vec<Copy>>>,
    kept: Mutex<Vec<(TierBuffer, TierDone)>>,
}

#[derive(Clone)]
struct Copy {
    version: Version,
    envelope: Envelope,
    bytes: Vec<u8>,
}

impl Hoarder {
    pub fn new(answer: Answer) -> Self {
        Self { answer, promotes: AtomicBool::new(false), copies: Mutex::default(), kept: Mutex::default() }
    }

    /// The bytes of the copy of a page that it was offered last; empty if there is none.
    pub fn bytes_of(&self, tag: u64, number: u64) -> Vec<u8> {
        self.copies(tag, number).pop().map_or_else(Vec::new, |copy| copy.bytes)
    }

    fn copies(&self, tag: u64, number: u64) -> Vec<Copy> {
        self.copies.lock().unwrap().get(&(tag, number)).cloned().unwrap_or_default()
    }
}

impl Tier for Hoarder {
    fn attach(&self, to: &Attachment) -> Result<()> {
        assert_ne!(self.answer, Answer::PanicsAttached);
        self.promotes.store(to.policy == TierPolicy::Promote, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps two pages of three.
    fn fill(&self, page: PageName, version: Version, bytes: TierPage) -> Demoted {
        if page.number.is_multiple_of(3) { Demoted::PassedUp } else { self.demote(page, version, bytes) }
    }

    fn demote(&self, page: PageName, version: Version, bytes: TierPage) -> Demoted {
        let copy = Copy { version, envelope: bytes.envelope(), bytes: bytes.to_vec() };
        self.copies.lock().unwrap().entry((page.file_tag, page.number)).or_default().push(copy);
        Demoted::Stored
    }

    fn take(&self, page: PageName, version: Version, mut into: TierBuffer, done: TierDone) {
        let copies = self.copies(page.file_tag, page.number);
        let as_asked = copies.iter().find(|copy| copy.version == version);
        let chosen = match self.answer {
            Answer::AsAsked | Answer::OtherBytes | Answer::Unfilled => as_asked.cloned(),
            Answer::FirstVersion | Answer::FirstBytes => copies.first().cloned(),
            Answer::LastVersion => copies.last().cloned(),
            Answer::OtherPage => self.copies(page.file_tag, page.number + 1).last().cloned(),
            Answer::Panics | Answer::PanicsAttached => std::panic::panic_any(crate::common::Bomb),
            Answer::Nothing => None,
            Answer::Never => return self.kept.lock().unwrap().push((into, done)),
        };
        let Some(Copy { mut envelope, mut bytes, .. }) = chosen else { return done.absent(into) };
        match self.answer {
            Answer::OtherBytes => bytes[100] ^= 1,
            Answer::FirstBytes => envelope = as_asked.map_or(envelope, |copy| copy.envelope),
            _ => {}
        }
        if self.answer != Answer::Unfilled {
            into.copy_from_slice(&bytes);
        }
        // Every other page is the pool's from now on, which does not keep this tier from having it.
        if self.promotes.load(Ordering::Relaxed) && page.number.is_multiple_of(2) {
            done.filled_and_kept(into, envelope);
        } else {
            done.filled(into, envelope);
        }
    }

    fn forget(&self, _: TierRange) {}

    fn report(&self) -> TierReport {
        TierReport::new("a hoarder")
    }
}
