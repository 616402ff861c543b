//! How pages are valued of a stream that goes round.
//!
//! While a stream goes round ([`turns`](super::turns)), its pages are valued by the time until their turn,
//! whatever their kind. A page that is new to such a stream has no turn yet. It is a *stray* until it comes
//! back after a while: it is kept for a moment, because it may be used several times in a row, and then is
//! the first to go. So a page whose turn is known does not make room for one of which nothing is known. If
//! the loop has grown by the stray, its turn is known from its second use on.

use super::intervals::{ClassId, Classes, NONE};
use super::kind::{Kind, LONGEST};
use super::turns::Turns;

/// Uses in turn after which a loop's values are worked out anew, at the latest.
const TURNS_VALUED: u8 = 64;

/// How a stream's pages come back, and what they are worth while it goes round.
pub(crate) struct Round {
    turns: Turns,
    /// The class by which its pages are valued while it goes round, or [`NONE`].
    class: ClassId,
    /// The bucket of the period for which that was done, and uses in turn since then.
    bucket: u8,
    uses: u8,
}

impl Round {
    /// Of a stream that begins at `now`.
    pub const fn new(now: u32) -> Self {
        Self { turns: Turns::new(now), class: NONE, bucket: 0, uses: 0 }
    }

    /// The class by which pages are valued, while the stream goes round.
    pub fn class(&self) -> Option<ClassId> {
        Some(self.class).filter(|class| *class != NONE)
    }

    /// Whether nothing tells that the stream might go round.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.turns.is_idle()
    }

    /// Whether the stream goes round, and a pass does not take so long that pages of the loop may have been
    /// forgotten.
    pub fn knows_pages(&self, classes: &Classes) -> bool {
        let period = self.turns.period().filter(|_| self.class != NONE);
        period.is_some_and(|period| classes.step(period) != LONGEST)
    }

    /// A page that the stream, which has classes `own`, used at `last` is used by it again; `lru_hits`: after
    /// a time for which LRU would have kept it. Returns whether the class begins or ends by that.
    pub fn take_turn(
        &mut self,
        own: impl Iterator<Item = ClassId>,
        classes: &mut Classes,
        (last, now): (u32, u32),
        lru_hits: bool,
        enough: u32,
    ) -> bool {
        if !lru_hits {
            self.turns.miss(last, now, enough);
        } else if !classes.is_soon(now.wrapping_sub(last)) {
            self.turns.hit(enough);
        } else {
            return false;
        }
        match self.turns.period() {
            Some(period) => self.enter(own, classes, period),
            None => self.leave(classes),
        }
    }

    /// Values pages by the time until their turn, if nearly all come back then.
    fn enter(&mut self, own: impl Iterator<Item = ClassId>, classes: &mut Classes, period: u32) -> bool {
        let bucket = classes.ages.bucket(period) as u8;
        self.uses += 1;
        if self.bucket == bucket && self.uses < TURNS_VALUED {
            return false;
        }
        (self.bucket, self.uses) = (bucket, 0);
        let Some(values) = classes.values_in_turn(own, period) else { return self.leave(classes) };
        let begins = self.class == NONE;
        if begins {
            let Some(added) = classes.add(Kind::NEW) else { return false };
            self.class = added;
        }
        classes.set_values(self.class, values);
        begins
    }

    /// No longer values pages by their turn. Returns whether it did.
    pub fn leave(&mut self, classes: &mut Classes) -> bool {
        let Some(class) = self.class() else { return false };
        (self.class, self.bucket) = (NONE, u8::MAX);
        classes.give_up(class);
        true
    }
}
