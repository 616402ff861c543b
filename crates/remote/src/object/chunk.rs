//! Chunks: immutable objects of up to 256 pages, which need not be neighbours in the file.
//!
//! A chunk's object has its pages one after the other, each behind an envelope of 16 bytes: the page's number
//! (8 bytes, little-endian), the CRC-32C (4 bytes) of the chunk's name, the number and the page, and 4 zeros.
//! So each page that a range request brings is checked by itself, and one of another chunk, of another place, or
//! in pieces is found.
//!
//! A chunk's name has the number of the manifest that its writer began with. The writer commits the next number
//! or nothing. So once a manifest with a higher number is there, a chunk that it does not have will never be in
//! any.

use std::fmt;

use bytes::Bytes;
use parking_lot::Mutex;

use super::error::ObjectError;

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

    fn checksum(&self, number: u64, page: &[u8]) -> u32 {
        let mut sum = crc32c::crc32c(&self.base.to_le_bytes());
        sum = crc32c::crc32c_append(sum, &self.writer.to_le_bytes());
        sum = crc32c::crc32c_append(sum, &self.sequence.to_le_bytes());
        sum = crc32c::crc32c_append(sum, &number.to_le_bytes());
        crc32c::crc32c_append(sum, page)
    }

    /// The object's bytes: pages `numbers`, which lie one after the other in `pages`.
    pub fn encode(&self, numbers: &[u64], pages: &[u8]) -> Vec<u8> {
        let page_bytes = pages.len() / numbers.len().max(1);
        let mut object = Vec::with_capacity(pages.len() + numbers.len() * ENVELOPE_BYTES);
        for (number, page) in numbers.iter().zip(pages.chunks_exact(page_bytes)) {
            object.extend_from_slice(&number.to_le_bytes());
            object.extend_from_slice(&self.checksum(*number, page).to_le_bytes());
            object.extend_from_slice(&[0; 4]);
            object.extend_from_slice(page);
        }
        object
    }

    /// The page in `framed`, an envelope and what follows, which must be page `number` of the file. Says what
    /// is wrong if it is not.
    pub fn open<'a>(&self, framed: &'a [u8], number: u64) -> Result<&'a [u8], String> {
        let (envelope, page) = framed.split_at(ENVELOPE_BYTES);
        let found = u64::from_le_bytes(envelope[..8].try_into().expect("eight bytes"));
        if found != number {
            return Err(format!("page {found} is there instead"));
        }
        let sum = u32::from_le_bytes(envelope[8..12].try_into().expect("four bytes"));
        let expected = self.checksum(number, page);
        if sum != expected || envelope[12..] != [0; 4] {
            return Err(format!("its checksum is {sum:#010x}, expected {expected:#010x}"));
        }
        Ok(page)
    }
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

/// The pages that a range request has brought of a chunk, from `at` on: `count` of them, page `first` of the
/// file and those after it.
pub(super) fn check_run<'a>(
    id: ChunkId,
    object: &str,
    bytes: &'a [u8],
    first: u64,
    count: usize,
    page_bytes: usize,
) -> Result<Vec<&'a [u8]>, ObjectError> {
    let framed_bytes = page_bytes + ENVELOPE_BYTES;
    let pages: Vec<_> = bytes.chunks_exact(framed_bytes).take(count).collect();
    if pages.len() < count {
        let missing = first + pages.len() as u64;
        let what = format!("cut short: {} bytes, expected {}", bytes.len(), count * framed_bytes);
        return Err(ObjectError::corrupt(object, Some(missing), what));
    }
    let numbered = (first..).zip(pages);
    numbered
        .map(|(number, framed)| {
            id.open(framed, number).map_err(|what| ObjectError::corrupt(object, Some(number), what))
        })
        .collect()
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
        assert_eq!(ID.open(&object, 9), Ok(&page[..]));
        for bit in 0..object.len() * 8 {
            object[bit / 8] ^= 1 << (bit % 8);
            assert!(ID.open(&object, 9).is_err(), "bit {bit}");
            object[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(ID.open(&object, 8).is_err());
        for other in [ChunkId { base: 8, ..ID }, ChunkId { writer: 1, ..ID }, ChunkId { sequence: 2, ..ID }] {
            assert!(other.open(&object, 9).is_err());
        }
    }

    #[test]
    fn a_run_that_is_cut_short_names_the_first_page_that_is_missing() {
        let object = ID.encode(&[4, 5, 6], &[1; 3 * 64]);
        assert_eq!(check_run(ID, "o", &object, 4, 3, 64).unwrap().len(), 3);
        let cut = check_run(ID, "o", &object[..object.len() - 1], 4, 3, 64).unwrap_err();
        assert!(matches!(cut, ObjectError::Corrupt { page: Some(6), .. }), "{cut}");
    }
}
