//! Manifests: which chunks a file has, at one moment.
//!
//! A manifest is an object whose name is its number. The first has number 1, each commit makes the next, and
//! no name is ever free again: old manifests are emptied, not removed. So a writer that is late finds its
//! number taken, whatever has happened meanwhile.
//!
//! All numbers are little-endian. Magic (16 bytes), version (4), bytes of a page (4), number (8), pages of
//! the file (8), file (16), writer (16), commit (16), chunks (8), runs (8). Then each chunk: base (8), writer
//! (16), sequence (8). Then each run of pages: first page (8), pages (8), index of the chunk (4), place in
//! the chunk (4). Then the CRC-32C of all before (4).

use std::collections::HashMap;
use std::sync::Arc;

use super::chunk::{Chunk, ChunkId};
use super::error::ObjectError;
use super::map::PageMap;

const MAGIC: [u8; 16] = *b"bufpool manifest";
const VERSION: u32 = 1;
/// Most pages of a chunk.
pub(super) const CHUNK_PAGES_MAX: u64 = 256;
/// Most pages of a file: what a pool can number.
pub(super) const PAGES_MAX: u64 = 1 << 40;

/// What a manifest says.
#[derive(Clone, Debug)]
pub(super) struct Manifest {
    pub number: u64,
    pub page_bytes: u32,
    /// Length of the file.
    pub pages: u64,
    /// Drawn when the file was made.
    pub file: u128,
    /// Drawn when the writer opened it.
    pub writer: u128,
    /// Drawn for each commit, so that a writer whose answer was lost knows its own again.
    pub commit: u128,
    pub map: PageMap,
}

impl Manifest {
    /// The object's bytes. All chunks must be in the store.
    pub fn encode(&self) -> Vec<u8> {
        let mut indexes: HashMap<ChunkId, u32> = HashMap::new();
        let mut chunks = Vec::new();
        let mut runs = Vec::with_capacity(self.map.iter().len() * 24);
        for (first, extent) in self.map.iter() {
            let id = extent.chunk.id().expect("chunks are uploaded before a commit");
            let index = *indexes.entry(id).or_insert_with(|| {
                chunks.push(id);
                chunks.len() as u32 - 1
            });
            runs.extend_from_slice(&first.to_le_bytes());
            runs.extend_from_slice(&extent.pages.to_le_bytes());
            runs.extend_from_slice(&index.to_le_bytes());
            runs.extend_from_slice(&extent.at.to_le_bytes());
        }
        let mut bytes = Vec::with_capacity(128 + chunks.len() * 32 + runs.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.page_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.pages.to_le_bytes());
        for id in [self.file, self.writer, self.commit] {
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        bytes.extend_from_slice(&(chunks.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&(self.map.iter().len() as u64).to_le_bytes());
        for ChunkId { base, writer, sequence } in chunks {
            bytes.extend_from_slice(&base.to_le_bytes());
            bytes.extend_from_slice(&writer.to_le_bytes());
            bytes.extend_from_slice(&sequence.to_le_bytes());
        }
        bytes.extend_from_slice(&runs);
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads what is in `object`, which should be manifest `number`.
    pub fn decode(bytes: &[u8], number: u64, object: &str) -> Result<Self, ObjectError> {
        Self::parse(bytes, number).map_err(|what| ObjectError::corrupt(object, None, what))
    }

    fn parse(bytes: &[u8], number: u64) -> Result<Self, String> {
        let short = || format!("{} bytes are no manifest", bytes.len());
        let (body, sum) = bytes.split_last_chunk().ok_or_else(short)?;
        let mut rest = Reader(body);
        if rest.take() != Some(MAGIC) {
            return Err("it is no manifest".into());
        }
        let (found, expected) = (u32::from_le_bytes(*sum), crc32c::crc32c(body));
        if found != expected {
            return Err(format!("the manifest's checksum is {found:#010x}, expected {expected:#010x}"));
        }
        let version = rest.u32().ok_or_else(short)?;
        if version != VERSION {
            return Err(format!("its format has version {version}, expected {VERSION}"));
        }
        let manifest = Self::parse_body(&mut rest).ok_or_else(short)?;
        if manifest.number != number {
            return Err(format!("manifest {} is there instead of {number}", manifest.number));
        }
        Ok(manifest)
    }

    /// What follows upon the version. None if it is too short, or contradicts itself.
    fn parse_body(rest: &mut Reader<'_>) -> Option<Self> {
        let page_bytes = rest.u32()?;
        let (number, pages) = (rest.u64()?, rest.u64()?);
        let (file, writer, commit) = (rest.u128()?, rest.u128()?, rest.u128()?);
        let (chunk_count, run_count) = (rest.u64()?, rest.u64()?);
        let mut chunks = Vec::new();
        for _ in 0..chunk_count {
            let id = ChunkId { base: rest.u64()?, writer: rest.u128()?, sequence: rest.u64()? };
            chunks.push(Arc::new(Chunk::stored(id)));
        }
        let mut map = PageMap::default();
        let mut end = 0;
        for _ in 0..run_count {
            let (first, run) = (rest.u64()?, rest.u64()?);
            let (index, at) = (rest.u32()?, rest.u32()?);
            let is_sound = first >= end && run > 0 && run.checked_add(at.into())? <= CHUNK_PAGES_MAX;
            end = first.checked_add(run).filter(|&end| is_sound && end <= pages)?;
            map.insert(first, run, chunks.get(index as usize)?, at);
        }
        let is_sound = page_bytes.is_power_of_two() && pages <= PAGES_MAX;
        (rest.0.is_empty() && is_sound).then_some(Self {
            number,
            page_bytes,
            pages,
            file,
            writer,
            commit,
            map,
        })
    }
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.take().map(u128::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let mut map = PageMap::default();
        for (first, sequence) in [(0, 1), (5, 2), (9, 1)] {
            let id = ChunkId { base: 2, writer: 77, sequence };
            map.insert(first, 3, &Arc::new(Chunk::stored(id)), 8);
        }
        Manifest { number: 3, page_bytes: 4096, pages: 12, file: 1, writer: 2, commit: 3, map }
    }

    #[test]
    fn a_manifest_is_read_back() {
        let bytes = manifest().encode();
        let read = Manifest::decode(&bytes, 3, "o").unwrap();
        assert_eq!(read.encode(), bytes);
        assert_eq!((read.pages, read.file, read.writer, read.commit), (12, 1, 2, 3));
        assert!(Manifest::decode(&bytes, 4, "o").unwrap_err().to_string().contains("instead of 4"));
    }

    /// Damage anywhere is an error, also where the checksum is made to fit.
    #[test]
    fn a_damaged_manifest_is_refused() {
        let mut bytes = manifest().encode();
        for at in 0..bytes.len() {
            bytes[at] ^= 0x41;
            assert!(Manifest::decode(&bytes, 3, "o").is_err(), "byte {at}");
            bytes[at] ^= 0x41;
            assert!(Manifest::decode(&bytes[..at], 3, "o").is_err(), "{at} bytes");
        }
        let body = bytes.len() - 4;
        for at in 20..body {
            let mut forged = bytes[..body].to_vec();
            forged[at] ^= 0xff;
            forged.extend_from_slice(&crc32c::crc32c(&forged).to_le_bytes());
            if let Ok(read) = Manifest::decode(&forged, 3, "o") {
                assert!(read.map.iter().all(|(first, extent)| first + extent.pages <= read.pages));
            }
        }
    }
}
