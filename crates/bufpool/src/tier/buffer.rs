//! The memory in which pages travel between a pool and its tier, and the envelope that goes with each copy.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::PageName;
use crate::tier::Version;
use crate::tier::hash::hash;

/// What buffers are aligned to, for direct I/O.
const ALIGNMENT: usize = 4096;

/// A fixed number of buffers of one page each, on the heap and not in the pool's arena. The memory outlives
/// the pool while a tier has a buffer.
pub(super) struct Buffers {
    shared: Arc<Shared>,
}

struct Shared {
    page_bytes: usize,
    buffers: usize,
    free: Mutex<Vec<Aligned>>,
}

/// Memory in which a page's bytes begin at `start`, so that they are aligned.
struct Aligned {
    memory: Box<[u8]>,
    start: usize,
}

/// A buffer that a tier fills with a page, lent by the pool. Dereferences to a page's bytes, aligned to 4
/// KiB. Dropping it gives the memory back to the pool.
pub struct TierBuffer {
    /// There until the drop.
    memory: Option<Aligned>,
    owner: Arc<Shared>,
}

/// A page that is offered to a tier, in the form that its file has. Dereferences to the bytes, aligned to
/// 4 KiB. The tier keeps it as long as it needs it; dropping it gives the memory back to the pool.
pub struct TierPage {
    buffer: TierBuffer,
    envelope: Envelope,
}

/// What a copy of a page says about itself. A tier keeps it with the copy, and hands both back unchanged.
/// The hash covers the bytes alone, so the pool would believe an envelope that is made up with another
/// version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    file_tag: u64,
    number: u64,
    version: Version,
    hash: u64,
}

impl Buffers {
    /// For pages of `page_bytes` bytes. The memory is taken when it is first needed.
    pub fn new(buffers: usize, page_bytes: usize) -> Self {
        let free = Mutex::new(Vec::new());
        Self { shared: Arc::new(Shared { page_bytes, buffers, free }) }
    }

    /// A buffer, if one is free. What it contains is not defined.
    pub fn take(&self) -> Option<TierBuffer> {
        let mut free = self.shared.free.lock();
        // Each buffer that is lent holds a reference, as `self` does.
        if free.is_empty() && Arc::strong_count(&self.shared) > self.shared.buffers {
            return None;
        }
        let owner = Arc::clone(&self.shared);
        let memory = free.pop().unwrap_or_else(|| Aligned::new(owner.page_bytes));
        Some(TierBuffer { memory: Some(memory), owner })
    }

    /// Bytes of each buffer.
    pub fn page_bytes(&self) -> usize {
        self.shared.page_bytes
    }

    /// How many buffers are with the tier, or on their way to or from it.
    pub fn lent(&self) -> usize {
        Arc::strong_count(&self.shared) - 1
    }

    /// Bytes of memory of all buffers that were ever needed.
    pub fn bytes(&self) -> usize {
        (self.shared.free.lock().len() + self.lent()) * (self.page_bytes() + ALIGNMENT)
    }
}

impl Aligned {
    fn new(page_bytes: usize) -> Self {
        let memory = vec![0; page_bytes + ALIGNMENT].into_boxed_slice();
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start }
    }
}

impl Deref for TierBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let Aligned { memory, start } = self.memory.as_ref().expect("there until the drop");
        &memory[*start..*start + self.owner.page_bytes]
    }
}

impl DerefMut for TierBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let Aligned { memory, start } = self.memory.as_mut().expect("there until the drop");
        &mut memory[*start..*start + self.owner.page_bytes]
    }
}

impl Drop for TierBuffer {
    fn drop(&mut self) {
        self.owner.free.lock().extend(self.memory.take());
    }
}

impl TierPage {
    /// The page in `buffer`, whose bytes are those that its file has.
    pub(super) fn new(buffer: TierBuffer, page: PageName, version: Version) -> Self {
        let envelope = Envelope::of(page, version, &buffer);
        Self { buffer, envelope }
    }

    /// The envelope, which is to be kept with the bytes.
    pub fn envelope(&self) -> Envelope {
        self.envelope
    }
}

impl Deref for TierPage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Envelope {
    /// Bytes of [`Envelope::to_bytes`].
    pub const BYTES: usize = 40;

    /// For a page with these contents.
    pub(super) fn of(page: PageName, version: Version, bytes: &[u8]) -> Self {
        Self { file_tag: page.file_tag, number: page.number, version, hash: hash(bytes) }
    }

    /// The engine's number for the file that the page is of.
    pub fn file_tag(&self) -> u64 {
        self.file_tag
    }

    /// The page's number in the file.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Which contents of the page the copy has.
    pub fn version(&self) -> Version {
        self.version
    }

    /// A hash of the bytes. Two copies of a page with the same hash are taken to have the same contents.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The envelope as bytes, for tiers that store bytes.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let words = [self.file_tag, self.number, self.version.epoch, self.version.count, self.hash];
        let mut bytes = [0; Self::BYTES];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    /// The envelope that [`to_bytes`](Self::to_bytes) made these bytes of. Never fails: any bytes are some
    /// envelope.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let word = |at: usize| {
            let word = bytes[8 * at..8 * (at + 1)].try_into().expect("eight bytes");
            u64::from_le_bytes(word)
        };
        let version = Version { epoch: word(2), count: word(3) };
        Self { file_tag: word(0), number: word(1), version, hash: word(4) }
    }
}

impl fmt::Debug for TierBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TierBuffer({} bytes)", self.len())
    }
}

impl fmt::Debug for TierPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TierPage({:?})", self.envelope)
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_bounded_aligned_and_given_back() {
        let buffers = Buffers::new(3, 512);
        assert_eq!((buffers.lent(), buffers.bytes()), (0, 0), "nothing is taken before it is needed");
        let mut taken: Vec<_> = std::iter::from_fn(|| buffers.take()).collect();
        assert_eq!((taken.len(), buffers.lent()), (3, 3));
        for buffer in &mut taken {
            assert_eq!((buffer.len(), buffer.as_ptr().align_offset(ALIGNMENT)), (512, 0));
            buffer.fill(7);
        }
        taken.pop();
        let again = buffers.take().unwrap();
        assert!(buffers.take().is_none());
        drop((taken, again));
        assert_eq!((buffers.lent(), buffers.bytes()), (0, 3 * (512 + ALIGNMENT)));
    }

    #[test]
    fn a_buffer_outlives_the_set_it_is_of() {
        let buffers = Buffers::new(1, 512);
        let mut kept = buffers.take().unwrap();
        drop(buffers);
        kept.fill(1);
        assert!(kept.iter().all(|byte| *byte == 1));
    }

    #[test]
    fn an_envelope_survives_as_bytes() {
        let page = PageName { file: bufpool_policies::FileId(3), file_tag: 5, number: 7 };
        let version = Version { epoch: u64::MAX - 1, count: 9 };
        let envelope = Envelope::of(page, version, &[1; 512]);
        assert_eq!(Envelope::from_bytes(envelope.to_bytes()), envelope);
        assert_ne!(envelope, Envelope::of(page, version, &[2; 512]));
        let other = Version { count: 8, ..version };
        assert_ne!(envelope, Envelope::of(page, other, &[1; 512]));
    }
}
