//! Numbers of a tenant's frames among its own, for tables that are as long as it has frames.
//!
//! A tenant with at least a quarter of the pool's frames, or half when they are numbered anew, uses the
//! pool's numbers. A tenant whose frames lie scattered among those of others has numbers of its own, and
//! finds them by a hash: 9 to 17 bytes a frame.

use crate::list::push;
use crate::slot_index::SlotIndex;

/// A tenant's frames lie scattered once one has a number more than this many times as large as the tenant has
/// frames.
const SPREAD: u32 = 4;
/// The same for a tenant whose frames are numbered anew, with all of them at hand.
const SPREAD_AT_ONCE: u32 = 2;
/// Frames below this number never count as scattered: tables up to there are small.
const NUMBERS_MIN: u32 = 256;

/// The numbers.
#[derive(Default)]
pub(super) struct Numbers {
    /// None while frames are counted as by the pool.
    own: Option<Scattered>,
    /// The most frames that the tenant has held at once, about; while frames are numbered anew, how many will
    /// have a number.
    expected: u32,
}

#[derive(Default)]
struct Scattered {
    /// By number: the frame.
    frames: Vec<u32>,
    index: SlotIndex,
    /// Numbers of no frame.
    free: Vec<u32>,
}

impl Scattered {
    fn add(&mut self, frame: u32) -> u32 {
        let number = self.free.pop().unwrap_or(self.frames.len() as u32);
        match self.frames.get_mut(number as usize) {
            Some(place) => *place = frame,
            None => push(&mut self.frames, frame),
        }
        self.index.insert(u64::from(frame), number, |number| u64::from(self.frames[number as usize]));
        number
    }
}

impl Numbers {
    /// For a tenant that is going to tell of `held` frames of a pool, one by one.
    pub fn anew(held: u32, pool_frames: u32) -> Self {
        let is_scattered = pool_frames / SPREAD_AT_ONCE > held;
        Self { own: is_scattered.then(Scattered::default), expected: held }
    }

    /// The number of `frame`, if it has one.
    #[inline]
    pub fn find(&self, frame: u32) -> Option<u32> {
        match &self.own {
            None => Some(frame),
            Some(own) => own.index.find(u64::from(frame), |number| u64::from(own.frames[number as usize])),
        }
    }

    /// The frame with `number`.
    #[inline]
    pub fn frame(&self, number: u32) -> u32 {
        self.own.as_ref().map_or(number, |own| own.frames[number as usize])
    }

    /// A number for `frame`, which has none, of a tenant that holds the frames with the numbers in `held`.
    pub fn add(&mut self, frame: u32, held: &[u32]) -> u32 {
        match &mut self.own {
            Some(own) => own.add(frame),
            None => {
                // Written seldom, as what is read beside it comes from another processor's cache otherwise.
                if self.expected < held.len() as u32 {
                    self.expected = held.len() as u32;
                }
                if frame < NUMBERS_MIN || frame / SPREAD <= self.expected {
                    return frame;
                }
                self.own.insert(Self::scatter(held)).add(frame)
            }
        }
    }

    /// Frames that were counted as by the pool keep their numbers.
    #[cold]
    fn scatter(held: &[u32]) -> Scattered {
        let numbers = held.iter().max().map_or(0, |most| most + 1);
        let mut own = Scattered { frames: (0..numbers).collect(), ..Scattered::default() };
        let mut is_held = vec![false; numbers as usize];
        for number in held {
            is_held[*number as usize] = true;
            own.index.insert(u64::from(*number), *number, u64::from);
        }
        own.free = (0..numbers).rev().filter(|number| !is_held[*number as usize]).collect();
        own
    }

    /// `frame` has no number any more. Returns the one that it had.
    pub fn remove(&mut self, frame: u32) -> Option<u32> {
        let Some(own) = &mut self.own else { return Some(frame) };
        let number = own.index.remove(u64::from(frame), |number| u64::from(own.frames[number as usize]))?;
        push(&mut own.free, number);
        if own.index.len() == 0 {
            // The tenant may come to hold as many frames again, in any order. They must not count as
            // scattered merely because only the first of them have come.
            self.expected = self.expected.max(own.frames.len() as u32);
            self.own = None;
        }
        Some(number)
    }

    pub fn metadata_bytes(&self) -> usize {
        self.own.as_ref().map_or(0, |own| {
            (own.frames.capacity() + own.free.capacity()) * size_of::<u32>() + own.index.memory_bytes()
        })
    }

    /// Panics unless the frames with the numbers in `held`, and no others, are found by them.
    pub fn check_invariants(&self, held: &[u32]) {
        for number in held {
            assert_eq!(self.find(self.frame(*number)), Some(*number), "frame of number {number}");
        }
        if let Some(own) = &self.own {
            own.index.check_invariants(|number| u64::from(own.frames[number as usize]));
            assert_eq!(own.index.len(), held.len(), "frames with a number");
            assert_eq!(own.frames.len(), held.len() + own.free.len(), "numbers used or free");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn a_tenant_with_most_of_the_pool_counts_frames_as_it_does() {
        for (held, is_scattered) in [(499, true), (500, false), (1000, false)] {
            let (mut numbers, mut own) = (Numbers::anew(held, 1000), Vec::new());
            for frame in (1000 - held..1000).rev() {
                own.push(numbers.add(frame, &own));
            }
            numbers.check_invariants(&own);
            assert_eq!(numbers.own.is_some(), is_scattered, "{held} frames");
        }
    }

    /// However the frames are ordered that come after those that it had.
    #[test]
    fn a_tenant_that_has_lost_most_of_the_pool_counts_what_comes_next_as_the_pool_does() {
        const FRAMES: u32 = 4000;
        let mut numbers = Numbers::default();
        for round in 0..2 {
            let mut own = Vec::new();
            // In the second round the first frame is the farthest, as if it were one of few.
            for step in 0..FRAMES {
                let frame = if round == 0 { step } else { FRAMES - 1 - step };
                own.push(numbers.add(frame, &own));
                assert!(numbers.own.is_none(), "round {round}, frame {frame}");
            }
            numbers.check_invariants(&own);
            (0..FRAMES).for_each(|frame| assert_eq!(numbers.remove(frame), Some(frame)));
        }
    }

    #[test]
    fn a_tenant_whose_frames_lay_scattered_has_no_numbers_of_its_own_once_it_holds_none() {
        let mut numbers = Numbers::default();
        let mut own = Vec::new();
        (0..300).for_each(|at| own.push(numbers.add(at * 1000, &own)));
        assert!(numbers.own.is_some());
        numbers.check_invariants(&own);
        (0..300).for_each(|at| assert!(numbers.remove(at * 1000).is_some()));
        assert!(numbers.own.is_none());
        // It held 300, so it may lie among four times as many.
        assert_eq!(numbers.add(1199, &[]), 1199);
        assert!(numbers.own.is_none());
        assert!(numbers.add(1204, &[1199]) < 1204 && numbers.own.is_some());
    }

    #[test]
    fn frames_keep_their_numbers_while_they_are_held() {
        for (frames, is_scattered) in [(600, false), (200_000, true)] {
            let (mut numbers, mut random) = (Numbers::default(), SplitMix64::new(1));
            let mut held: Vec<(u32, u32)> = Vec::new();
            let own = |held: &[(u32, u32)]| held.iter().map(|(_, number)| *number).collect::<Vec<u32>>();
            for step in 0..3000 {
                // The first ones are those of a tenant that is alone.
                let frame = if step < 300 { step } else { random.below(frames) as u32 };
                match held.iter().position(|(other, _)| *other == frame) {
                    Some(at) => {
                        let (_, number) = held.swap_remove(at);
                        assert_eq!(numbers.remove(frame), Some(number));
                    }
                    None => held.push((frame, numbers.add(frame, &own(&held)))),
                }
                if held.len() > 400 {
                    let (frame, number) = held.swap_remove(random.below(400) as usize);
                    assert_eq!(numbers.remove(frame), Some(number));
                }
                assert!(held.iter().all(|(frame, number)| numbers.find(*frame) == Some(*number)));
            }
            numbers.check_invariants(&own(&held));
            assert_eq!(numbers.own.is_some(), is_scattered);
            let most = held.iter().map(|(_, number)| *number).max();
            assert!(!is_scattered || most < Some(700), "numbers are used again: {most:?}");
        }
    }
}
