//! The contents of a device's files, and what of them a power cut leaves.

use super::random::Random;
use crate::io::buffer::Buffer;

/// One file: as it reads now, as it was when last synced, and what happened in between.
#[derive(Clone, Debug, Default)]
pub(super) struct FileState {
    pub(super) now: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) unsynced: Vec<Event>,
    /// A sync that failed has lost changes: `now` shows some that are neither durable nor unsynced.
    pub(super) has_lost: bool,
    /// Open for writing once, or for reading any number of times.
    pub(super) writers: u32,
    pub(super) readers: u32,
}

/// Something that the next sync makes durable.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) id: u64,
    pub(super) change: Change,
    /// Its completion has been told, so a sync that begins now covers it.
    pub(super) completed: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Bytes { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

impl Change {
    pub(super) fn apply(&self, contents: &mut Vec<u8>) {
        match self {
            Self::Length(bytes) => contents.resize(*bytes, 0),
            Self::Bytes { offset, bytes } => {
                let end = (offset + bytes.len()).min(contents.len());
                if *offset < end {
                    contents[*offset..end].copy_from_slice(&bytes[..end - offset]);
                }
            }
        }
    }
}

impl FileState {
    /// Fills `pieces` from `offset` on, with at most `most` bytes; 0 at the end of the file.
    pub(super) fn read(&self, offset: usize, pieces: impl Iterator<Item = Buffer>, most: usize) -> usize {
        let mut left = self.now.get(offset..).unwrap_or_default();
        left = &left[..left.len().min(most)];
        let available = left.len();
        for piece in pieces {
            let (now, later) = left.split_at(piece.len().min(left.len()));
            piece.fill(now);
            left = later;
        }
        available - left.len()
    }

    /// Makes durable what was completed; what is still being written stays unsynced.
    pub(super) fn sync(&mut self) {
        let Self { durable, unsynced, .. } = self;
        unsynced.retain(|event| {
            if event.completed {
                event.change.apply(durable);
            }
            !event.completed
        });
    }

    /// Completed writes reach the device in part, and their rest never will. Changes of length are not lost,
    /// because they are the file system's.
    pub(super) fn lose(&mut self, random: &mut Random, sector_bytes: usize) {
        let Self { durable, unsynced, has_lost, .. } = self;
        unsynced.retain(|event| match &event.change {
            Change::Bytes { offset, bytes } if event.completed => {
                let end = (offset + bytes.len()).min(durable.len());
                if *offset < end {
                    overwrite_some_sectors(durable, *offset, &bytes[..end - offset], sector_bytes, random);
                }
                *has_lost = true;
                false
            }
            _ => true,
        });
    }

    /// Makes lost changes visible: the file reads as the device has it, with later changes applied.
    pub(super) fn drop_cache(&mut self) {
        if std::mem::take(&mut self.has_lost) {
            self.now.clone_from(&self.durable);
            self.unsynced.iter().for_each(|event| event.change.apply(&mut self.now));
        }
    }

    /// What is left if the power is cut now.
    pub(super) fn after_power_cut(&self, random: &mut Random, sector_bytes: usize) -> Vec<u8> {
        let mut survived = self.durable.clone();
        let lengths = self.unsynced.iter().filter(|event| matches!(event.change, Change::Length(_))).count();
        let mut lengths_left = random.below(lengths as u64 + 1);
        for event in &self.unsynced {
            match &event.change {
                Change::Length(_) if lengths_left > 0 => {
                    lengths_left -= 1;
                    event.change.apply(&mut survived);
                }
                Change::Length(_) => {}
                Change::Bytes { offset, bytes } => {
                    let end = (offset + bytes.len()).min(survived.len());
                    if *offset < end {
                        let bytes = &bytes[..end - offset];
                        overwrite_some_sectors(&mut survived, *offset, bytes, sector_bytes, random);
                    }
                }
            }
        }
        survived
    }
}

/// Writes `bytes` at `offset`: all sectors, no sector, or a random half of them, each of the three with the
/// same chance.
pub(super) fn overwrite_some_sectors(
    contents: &mut [u8],
    offset: usize,
    bytes: &[u8],
    sector_bytes: usize,
    random: &mut Random,
) {
    let fate = random.below(3);
    for (index, sector) in bytes.chunks(sector_bytes).enumerate() {
        let written = match fate {
            0 => false,
            1 => true,
            _ => random.below(2) == 0,
        };
        if written {
            contents[offset + index * sector_bytes..][..sector.len()].copy_from_slice(sector);
        }
    }
}
