//! The index of the next access to the same block, for every access of a trace: what OPT knows.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bufpool_policies::classic::Opt;

use super::SimError;
use crate::trace::{Act, Batch, Replay, Trace};

/// The index of the next access to the same block for each access of a trace, in memory (4 bytes an access)
/// or in a file (8 bytes an access).
#[derive(Clone, Debug)]
pub struct NextUses {
    store: Store,
}

#[derive(Clone, Debug)]
enum Store {
    /// Indices; [`NEVER`] stands for [`Opt::NEVER`].
    Memory(Arc<Vec<u32>>),
    /// Little-endian 64-bit numbers, and how many there are.
    File(Arc<File>, u64),
}

/// A 32-bit index that means never.
const NEVER: u32 = u32::MAX;

/// Accesses that are read from the file, or turned from blocks into next uses, at a time.
const CHUNK_ACCESSES: usize = 1 << 16;

/// Bytes of an access in the file.
const ENTRY_BYTES: usize = 8;

impl NextUses {
    /// Finds the next uses of a trace that has fewer than 2^32 - 1 accesses. Plays the trace once; allocates
    /// 4 bytes an access, and 4 bytes a distinct block meanwhile.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read again.
    ///
    /// # Panics
    ///
    /// If the trace has 2^32 - 1 accesses or more.
    pub fn in_memory(trace: &Trace) -> Result<Self, SimError> {
        assert!(trace.accesses() < u64::from(NEVER), "an index has 32 bits");
        let mut search = Forward {
            last: vec![NEVER; trace.blocks().len()],
            next: Vec::with_capacity(trace.accesses() as usize),
        };
        trace.replay(&mut search)?;
        Ok(Self { store: Store::Memory(Arc::new(search.next)) })
    }

    /// Finds the next uses of a trace of any length, and keeps them in an unnamed file in `dir`. Allocates 8
    /// bytes a distinct block meanwhile.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read again, or the file cannot be made, written or read.
    pub fn in_file(trace: &Trace, dir: &Path) -> Result<Self, SimError> {
        let file = tempfile::tempfile_in(dir).map_err(SimError::Scratch)?;
        let mut blocks = BlockWriter { out: BufWriter::with_capacity(1 << 20, &file) };
        trace.replay(&mut blocks)?;
        blocks.out.flush().map_err(SimError::Scratch)?;
        drop(blocks);
        turn_blocks_into_uses(&file, trace).map_err(SimError::Scratch)?;
        Ok(Self { store: Store::File(Arc::new(file), trace.accesses()) })
    }

    /// The next uses in the order of the accesses, from the first on.
    pub fn cursor(&self) -> Cursor {
        Cursor { uses: self.clone(), at: 0, chunk: Vec::new(), next: 0, failure: Failure::default() }
    }
}

/// Finds next uses in the order of the accesses.
struct Forward {
    last: Vec<u32>,
    next: Vec<u32>,
}

impl Replay for Forward {
    type Error = SimError;

    fn batch(&mut self, batch: Batch<'_>) -> Result<(), SimError> {
        for &block in batch.blocks {
            let index = self.next.len() as u32;
            let before = std::mem::replace(&mut self.last[block as usize], index);
            if before != NEVER {
                self.next[before as usize] = index;
            }
            self.next.push(NEVER);
        }
        Ok(())
    }

    fn act(&mut self, _act: Act<'_>) -> Result<(), SimError> {
        Ok(())
    }
}

/// Writes the number of each block, to be replaced by its next use.
struct BlockWriter<'a> {
    out: BufWriter<&'a File>,
}

impl Replay for BlockWriter<'_> {
    type Error = SimError;

    fn batch(&mut self, batch: Batch<'_>) -> Result<(), SimError> {
        batch
            .blocks
            .iter()
            .try_for_each(|&block| self.out.write_all(&u64::from(block).to_le_bytes()))
            .map_err(SimError::Scratch)
    }

    fn act(&mut self, _act: Act<'_>) -> Result<(), SimError> {
        Ok(())
    }
}

/// Replaces the block numbers in the file by next uses, from the end of the file, chunk by chunk.
fn turn_blocks_into_uses(file: &File, trace: &Trace) -> io::Result<()> {
    let mut next = vec![Opt::NEVER; trace.blocks().len()];
    let mut end = trace.accesses();
    let mut bytes = Vec::new();
    while end > 0 {
        let first = (end - 1) / CHUNK_ACCESSES as u64 * CHUNK_ACCESSES as u64;
        bytes.resize((end - first) as usize * ENTRY_BYTES, 0);
        file.read_exact_at(&mut bytes, first * ENTRY_BYTES as u64)?;
        for (offset, entry) in bytes.chunks_exact_mut(ENTRY_BYTES).enumerate().rev() {
            let block = entry_value(entry) as usize;
            let next_use = std::mem::replace(&mut next[block], first + offset as u64);
            entry.copy_from_slice(&next_use.to_le_bytes());
        }
        file.write_all_at(&bytes, first * ENTRY_BYTES as u64)?;
        end = first;
    }
    Ok(())
}

fn entry_value(entry: &[u8]) -> u64 {
    u64::from_le_bytes(entry.try_into().expect("eight bytes"))
}

/// Where a [`Cursor`] leaves the error that ended it early.
#[derive(Clone, Default, Debug)]
pub struct Failure {
    error: Arc<Mutex<Option<io::Error>>>,
}

impl Failure {
    /// The error, if there was one.
    pub fn take(&self) -> Option<io::Error> {
        self.error.lock().expect("nobody panics with it").take()
    }

    fn set(&self, error: io::Error) {
        *self.error.lock().expect("nobody panics with it") = Some(error);
    }
}

/// Gives out next uses in order.
#[derive(Debug)]
pub struct Cursor {
    uses: NextUses,
    /// Index of the first access that is not in `chunk`.
    at: u64,
    chunk: Vec<u64>,
    /// Index into `chunk` of what is given out next.
    next: usize,
    failure: Failure,
}

impl Cursor {
    /// Where the error is left if the cursor ends early.
    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// Reads the next chunk; false at the end.
    #[cold]
    fn fill(&mut self) -> bool {
        self.chunk.clear();
        self.next = 0;
        match &self.uses.store {
            Store::Memory(uses) => {
                let rest = &uses[self.at as usize..];
                let uses = rest.iter().take(CHUNK_ACCESSES);
                self.chunk.extend(uses.map(|&next| if next == NEVER { Opt::NEVER } else { u64::from(next) }));
            }
            Store::File(file, accesses) => {
                let length = (accesses - self.at).min(CHUNK_ACCESSES as u64);
                let mut bytes = vec![0; length as usize * ENTRY_BYTES];
                match file.read_exact_at(&mut bytes, self.at * ENTRY_BYTES as u64) {
                    Ok(()) => self.chunk.extend(bytes.chunks_exact(ENTRY_BYTES).map(entry_value)),
                    Err(error) => self.failure.set(error),
                }
            }
        }
        self.at += self.chunk.len() as u64;
        !self.chunk.is_empty()
    }
}

impl Iterator for Cursor {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if self.next == self.chunk.len() && !self.fill() {
            return None;
        }
        let next = self.chunk[self.next];
        self.next += 1;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Item, Reference};

    #[test]
    fn next_uses_in_memory_and_in_a_file_are_those_found_by_searching() {
        // Longer than a chunk, so that the file is read and turned in several.
        let blocks: Vec<u64> = (0..150_000_u64).map(|at| at * at % 977 % 331).collect();
        let access = |&block: &u64| Item::Access(Reference { block, site: 0, tenant: 0 });
        let trace = Trace::of("squares", blocks.iter().map(access));
        let dir = tempfile::tempdir().unwrap();
        let in_memory: Vec<u64> = NextUses::in_memory(&trace).unwrap().cursor().collect();
        let in_file: Vec<u64> = NextUses::in_file(&trace, dir.path()).unwrap().cursor().collect();
        assert_eq!(in_memory, in_file);
        assert_eq!(in_memory.len(), blocks.len());
        for at in (0..blocks.len()).step_by(1009).chain([65_535, 65_536, blocks.len() - 1]) {
            let found = blocks[at + 1..].iter().position(|block| *block == blocks[at]);
            let expected = found.map_or(Opt::NEVER, |distance| (at + 1 + distance) as u64);
            assert_eq!(in_memory[at], expected, "access {at}");
        }
    }
}
