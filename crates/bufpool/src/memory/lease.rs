//! The right to a frame's bytes as a value, and where leases that nobody uses are kept.

use bufpool_policies::FrameId;

/// The right to a frame's bytes. Neither cloned nor made twice; dropping it loses the frame for good.
#[derive(Debug)]
#[must_use = "a lost lease is a lost frame"]
pub(crate) struct FrameLease {
    frame: FrameId,
}

impl FrameLease {
    /// That of a frame of a new arena, which makes each once.
    pub(super) fn first(frame: FrameId) -> Self {
        Self { frame }
    }

    /// The frame.
    pub fn frame(&self) -> FrameId {
        self.frame
    }

    /// The frame is handed to a page word.
    pub fn into_word(self) -> FrameId {
        let Self { frame } = self;
        frame
    }

    /// The lease of a frame that a page word held.
    ///
    /// # Safety
    ///
    /// The caller has taken the frame out of the word, or holds the word exclusively and gives up its other
    /// ways to the bytes. Or it has a latch on the word and lends the lease out by shared reference only, as
    /// long as it keeps the latch, and as the latch allows: nobody writes to the bytes meanwhile.
    pub unsafe fn from_word(frame: FrameId) -> Self {
        Self { frame }
    }
}

/// Leases that nobody uses, one bit a frame. They are taken in the order of their frames, round and round, so
/// that pages which come in one after the other lie side by side in memory as far as there are neighbours.
pub(crate) struct FreeLeases {
    /// Set for the frames whose leases are here.
    bits: Box<[u64]>,
    /// Where to look next.
    next: usize,
    count: usize,
}

impl FreeLeases {
    /// Those of `leases`, with room for all frames below `frames`.
    pub fn new(frames: u32, leases: Vec<FrameLease>) -> Self {
        let bits = vec![0; (frames as usize).div_ceil(64)].into();
        let mut free = Self { bits, next: 0, count: 0 };
        leases.into_iter().for_each(|lease| free.put(lease));
        free
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether that of `frame` is here.
    pub fn has(&self, frame: FrameId) -> bool {
        self.bits[frame.index() / 64] >> (frame.index() % 64) & 1 != 0
    }

    pub fn put(&mut self, lease: FrameLease) {
        let frame = lease.into_word();
        debug_assert!(!self.has(frame), "a frame has one lease");
        self.bits[frame.index() / 64] |= 1 << (frame.index() % 64);
        self.count += 1;
    }

    /// That of `frame`, if it is here.
    pub fn take_of(&mut self, frame: FrameId) -> Option<FrameLease> {
        if !self.has(frame) {
            return None;
        }
        self.bits[frame.index() / 64] &= !(1 << (frame.index() % 64));
        self.count -= 1;
        // The frame's lease went into `put`, and comes out once, because the bit is cleared.
        Some(FrameLease { frame })
    }

    /// The next one. Looks at each word of bits once at most, and rarely at more than a few.
    pub fn take(&mut self) -> Option<FrameLease> {
        let words = self.bits.len();
        let (word, bit) = (self.next / 64, self.next % 64);
        // The word looked at first comes again at the end, for what lies before `next`.
        let masked = |step| {
            let at = (word + step) % words;
            (at, self.bits[at] & if step == 0 { u64::MAX << bit } else { u64::MAX })
        };
        let (at, free) = (0..=words).filter(|_| self.count > 0).map(masked).find(|(_, free)| *free != 0)?;
        let index = at * 64 + free.trailing_zeros() as usize;
        self.next = (index + 1) % (words * 64);
        self.take_of(FrameId(index as u32))
    }

    pub fn metadata_bytes(&self) -> usize {
        size_of_val(&*self.bits)
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;
    use crate::memory::arena::Arena;

    /// Against a plain set: nothing is lost or doubled, and what is taken one after the other are neighbours
    /// as far as there are any.
    #[test]
    fn leases_are_taken_round_and_round() {
        for frames in [1, 63, 64, 65, 200] {
            let mut free = FreeLeases::new(frames, Arena::new(frames, 4096).unwrap().1);
            let mut naive: std::collections::BTreeSet<u32> = (0..frames).collect();
            let (mut taken, mut next, mut draw) = (Vec::new(), 0, 12345_u32);
            for _ in 0..2_000 {
                draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if (draw >> 16) % 3 > 0 {
                    let expected = naive.range(next..).next().or(naive.first()).copied();
                    let lease = free.take();
                    assert_eq!(lease.as_ref().map(|lease| lease.frame().0), expected);
                    let Some(lease) = lease else { continue };
                    naive.remove(&lease.frame().0);
                    next = lease.frame().0 + 1;
                    taken.push(lease);
                } else if !taken.is_empty() {
                    let lease = taken.swap_remove((draw >> 20) as usize % taken.len());
                    let frame = lease.frame();
                    assert!(!free.has(frame) && free.take_of(frame).is_none());
                    naive.insert(frame.0);
                    free.put(lease);
                    assert!(free.has(frame));
                    if draw >> 31 == 0 {
                        naive.remove(&frame.0);
                        taken.extend(free.take_of(frame));
                    }
                }
                assert_eq!(free.len(), naive.len());
            }
        }
    }
}
