//! Chunks: immutable objects of up to 256 pages, which need not be neighbours in the file.
//!
//! A chunk's object has its pages one after the other, each behind an envelope of 16 bytes: the page's number
//! (8 bytes, little-endian), the CRC-32C (4 bytes) of the chunk's name, the number and the page, and 4 zeros.
//! So each page that a range request brings is checked by itself, and one of another chunk, of another place,
//! or in pieces is found.
//!
//! A chunk's name has the number of the manifest that its writer began with. The writer commits the next
//! number or nothing. So once a manifest with a higher number is there, a chunk that it does not have will
//! never be in any.

use std::fmt;

use bytes::Bytes;
use parking_lot::Mutex;

/// Bytes before each page.
pub(super) const ENVELOPE_BYTES: usize = 16;

/// The name of a chunk. No two chunks have the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct ChunkId {
    /// Number of the manifest that the writer began with.
    pub base: u64,
    /// The writer's random number.
    pub writer: u128,
    /// Counts the writer's chunks.
    pub sequence: u64,
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:032x}-{:016x}", self.base, self.writer, self.sequence)
    }
}

impl ChunkId {
    /// The name that `text` is, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let id = Self {
            base: u64::from_str_radix(parts.next()?, 16).ok()?,
            writer: u128::from_str_radix(parts.next()?, 16).ok()?,
            sequence: u64::from_str_radix(parts.next()?, 16).ok()?,
        };
        (id.to_string() == text).then_some(id)
    }

    /// The checksum of what comes before page `number`: the chunk's name and the number.
    pub fn checksum(&self, number: u64) -> u32 {
        let mut sum = crc32c::crc32c(&self.base.to_le_bytes());
        sum = crc32c::crc32c_append(sum, &self.writer.to_le_bytes());
        sum = crc32c::crc32c_append(sum, &self.sequence.to_le_bytes());
        crc32c::crc32c_append(sum, &number.to_le_bytes())
    }

    /// The object's bytes: pages `numbers`, which lie one after the other in `pages`.
    pub fn encode(&self, numbers: &[u64], pages: &[u8]) -> Vec<u8> {
        let page_bytes = pages.len() / numbers.len().max(1);
        let mut object = Vec::with_capacity(pages.len() + numbers.len() * ENVELOPE_BYTES);
        for (number, page) in numbers.iter().zip(pages.chunks_exact(page_bytes)) {
            object.extend_from_slice(&number.to_le_bytes());
            let sum = crc32c::crc32c_append(self.checksum(*number), page);
            object.extend_from_slice(&sum.to_le_bytes());
            object.extend_from_slice(&[0; 4]);
            object.extend_from_slice(page);
        }
        object
    }
}

/// Whether `envelope` is that of page `number` of the file, whose checksum is `expected`. Says what is wrong
/// if it is not.
pub(super) fn check_envelope(
    envelope: &[u8; ENVELOPE_BYTES],
    number: u64,
    expected: u32,
) -> Result<(), String> {
    let found = u64::from_le_bytes(envelope[..8].try_into().expect("eight bytes"));
    if found != number {
        return Err(format!("page {found} is there instead"));
    }
    let sum = u32::from_le_bytes(envelope[8..12].try_into().expect("four bytes"));
    if sum != expected || envelope[12..] != [0; 4] {
        return Err(format!("its checksum is {sum:#010x}, expected {expected:#010x}"));
    }
    Ok(())
}

/// A chunk: in memory until it is in the store.
#[derive(Debug)]
pub(super) struct Chunk(Mutex<Place>);

#[derive(Debug)]
enum Place {
    Memory { numbers: Vec<u64>, pages: Vec<u8> },
    Store(ChunkId),
}

impl Chunk {
    /// Without pages, in memory.
    pub fn new() -> Self {
        Self(Mutex::new(Place::Memory { numbers: Vec::new(), pages: Vec::new() }))
    }

    /// One that is in the store.
    pub fn stored(id: ChunkId) -> Self {
        Self(Mutex::new(Place::Store(id)))
    }

    /// Where it is in the store, if it is there.
    pub fn id(&self) -> Option<ChunkId> {
        match &*self.0.lock() {
            Place::Memory { .. } => None,
            Place::Store(id) => Some(*id),
        }
    }

    /// Adds a page to a chunk in memory. Returns its place.
    pub fn push(&self, number: u64, page: &[u8]) -> u32 {
        let mut place = self.0.lock();
        let Place::Memory { numbers, pages } = &mut *place else { unreachable!("not in the store yet") };
        numbers.push(number);
        pages.extend_from_slice(page);
        numbers.len() as u32 - 1
    }

    /// Overwrites the page at `at` of a chunk in memory.
    pub fn overwrite(&self, at: u32, page: &[u8]) {
        let mut place = self.0.lock();
        let Place::Memory { pages, .. } = &mut *place else { unreachable!("not in the store yet") };
        pages[at as usize * page.len()..][..page.len()].copy_from_slice(page);
    }

    /// How many pages a chunk in memory has.
    pub fn len(&self) -> u32 {
        match &*self.0.lock() {
            Place::Memory { numbers, .. } => numbers.len() as u32,
            Place::Store(_) => unreachable!("not in the store yet"),
        }
    }

    /// Gives `copy` the pages from `at` on, if the chunk is in memory; else returns its name.
    pub fn read(&self, at: u32, bytes: std::ops::Range<usize>, copy: impl FnOnce(&[u8])) -> Option<ChunkId> {
        match &*self.0.lock() {
            Place::Memory { numbers, pages } => {
                let page_bytes = pages.len() / numbers.len();
                let from = at as usize * page_bytes;
                copy(&pages[from + bytes.start..from + bytes.end]);
                None
            }
            Place::Store(id) => Some(*id),
        }
    }

    /// The object's bytes, under the name `id`. It stays in memory.
    pub fn encode(&self, id: &ChunkId) -> Bytes {
        match &*self.0.lock() {
            Place::Memory { numbers, pages } => id.encode(numbers, pages).into(),
            Place::Store(_) => unreachable!("not in the store yet"),
        }
    }

    /// It is in the store, and memory is free.
    pub fn set_stored(&self, id: ChunkId) {
        *self.0.lock() = Place::Store(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ChunkId = ChunkId { base: 7, writer: u128::MAX / 7 * 5, sequence: 1 << 40 };

    #[test]
    fn names_are_read_back() {
        assert_eq!(ChunkId::parse(&ID.to_string()), Some(ID));
        for other in ["", "7-5-3", "0-0", &format!("{ID}-0"), &ID.to_string().to_uppercase()] {
            assert_eq!(ChunkId::parse(other), None, "{other}");
        }
    }

    /// Each bit of a chunk is covered, and so are its name and the page's number.
    #[test]
    fn every_flipped_bit_is_found() {
        let page: Vec<u8> = (0..64).collect();
        let mut object = ID.encode(&[9], &page);
        let open = |id: ChunkId, object: &[u8], number| {
            let (envelope, page) = object.split_first_chunk().unwrap();
            check_envelope(envelope, number, crc32c::crc32c_append(id.checksum(number), page))
        };
        assert_eq!(open(ID, &object, 9), Ok(()));
        for bit in 0..object.len() * 8 {
            object[bit / 8] ^= 1 << (bit % 8);
            assert!(open(ID, &object, 9).is_err(), "bit {bit}");
            object[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(open(ID, &object, 8).is_err());
        for other in [ChunkId { base: 8, ..ID }, ChunkId { writer: 1, ..ID }, ChunkId { sequence: 2, ..ID }] {
            assert!(open(other, &object, 9).is_err());
        }
    }
}
