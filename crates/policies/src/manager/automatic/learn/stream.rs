//! One stream.

use super::intervals::{ClassId, Classes, NONE, UNLEARNED};
use super::kind::Kind;
use super::round::Round;
use super::verdict::Verdict;
use crate::detect;
use crate::ids::{ContextId, FileId};

/// Evidence on which a stream is labelled, in pages: as much as AMP asks for.
const LABEL_PAGES: f32 = 16.0;
/// The share of pages used again below which a stream is a one-shot scan.
const ONE_SHOT_SHARE: f32 = 1.0 / 16.0;
/// How much more a page must be worth at one age than at another for the order to have a name.
const LABEL_RATIO: f32 = 1.5;

/// Names a stream of a tenant, as long as it is remembered: less than
/// [`STREAMS_MAX`](super::streams::STREAMS_MAX).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StreamId(pub u16);

impl StreamId {
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One stream.
pub(crate) struct Stream {
    pub(super) key: u64,
    pub hits: u64,
    pub misses: u64,
    /// Blocks whose last access was the stream's, or that of one which had its number before.
    pub frames: u32,
    /// Accesses when its label changed last.
    labelled: u64,
    /// When it was used last.
    pub(super) used: u32,
    pub mistakes: u32,
    pub verdict: Verdict,
    pub label: detect::Class,
    pub(super) classes: [ClassId; Kind::COUNT],
    pub(super) round: Round,
}

impl Stream {
    pub fn new(key: u64, now: u32) -> Self {
        Self {
            key,
            hits: 0,
            misses: 0,
            frames: 0,
            labelled: 0,
            used: now,
            mistakes: 0,
            verdict: Verdict::default(),
            label: detect::Class::Other,
            classes: [NONE; Kind::COUNT],
            round: Round::new(now),
        }
    }

    pub fn context(&self) -> ContextId {
        ContextId((self.key >> 32) as u32)
    }

    pub fn file(&self) -> FileId {
        FileId(self.key as u32)
    }

    pub fn is_revoked(&self) -> bool {
        self.verdict.is_revoked()
    }

    pub fn accesses(&self) -> u64 {
        self.hits + self.misses
    }

    /// Accesses since its label changed last.
    pub fn unchanged(&self) -> u64 {
        self.accesses() - self.labelled
    }

    /// Whether a page of which nothing is remembered counts as a stray.
    pub fn has_strays(&self, classes: &Classes) -> bool {
        !self.is_revoked() && self.round.knows_pages(classes)
    }

    /// The classes it has, by kind.
    pub fn classes(&self) -> impl Iterator<Item = ClassId> + use<> {
        self.classes.into_iter().filter(|class| *class != NONE)
    }

    /// Sets by which class's values the pages of each of its classes are valued.
    pub fn set_values(&self, classes: &mut Classes) {
        for class in self.classes() {
            let valued_as = if self.is_revoked() { UNLEARNED } else { self.round.class().unwrap_or(class) };
            classes.set_valued_as(class, valued_as);
        }
    }

    /// A page that it used at `times.0` is used by it again at `times.1`; see [`Round::take_turn`].
    pub fn take_turn(&mut self, classes: &mut Classes, times: (u32, u32), lru_hits: bool, enough: u32) {
        let own = self.classes();
        if self.round.take_turn(own, classes, times, lru_hits, enough) {
            self.set_values(classes);
        }
    }

    /// Gives up its classes.
    pub fn strip(&mut self, classes: &mut Classes) {
        if self.round.leave(classes) {
            self.set_values(classes);
        }
        let before = std::mem::replace(&mut self.classes, [NONE; Kind::COUNT]);
        before.into_iter().filter(|class| *class != NONE).for_each(|class| classes.give_up(class));
    }

    /// Names it by what its classes have learned: for reports, and to keep pages of scans out of a tier. No
    /// victim depends on it.
    #[cold]
    pub fn name(&mut self, classes: &Classes) {
        let evidence = classes.evidence(self.classes());
        if evidence.pages < LABEL_PAGES {
            return;
        }
        let [young, old] = classes.young_and_old(self.classes());
        let label = if evidence.reused < ONE_SHOT_SHARE * evidence.pages {
            detect::Class::OneShot
        } else if old > LABEL_RATIO * young {
            detect::Class::Looping
        } else if young > LABEL_RATIO * old {
            detect::Class::Temporal
        } else {
            detect::Class::Probabilistic
        };
        if label != self.label {
            (self.label, self.labelled) = (label, self.accesses());
        }
    }
}
