//! The header and the directory in the file of a tier.
//!
//! The first page begins with [`MAGIC`]. After that come five words, little-endian: how many copies the
//! directory has, the bytes of a page, where the directory begins, its hash, and a hash of these four words.
//! The words are zero if there is no directory, as while a pool uses the tier.
//!
//! After the first page come the places, and then the directory: for each copy, the next to go first, its
//! [`Envelope`] and its place, in blocks of [`block_bytes`] with zeros at their ends.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use bufpool_policies::mix64;

use crate::error::{Error, ErrorKind, Result};
use crate::io::{Action, Backend, Buffer, SourceRef};
use crate::tier::buffer::{Buffers, Envelope, TierBuffer};
use crate::tier::file::store::Store;
use crate::tier::hash::hash;

/// The beginning of a tier's file. A file that begins with neither this nor a page of zeros belongs to
/// somebody else.
const MAGIC: &[u8; 16] = b"bufpool tier 1\n\0";
const WORDS: usize = 5;
/// An envelope, and a place as a word.
const ENTRY_BYTES: usize = Envelope::BYTES + 8;
const BLOCK_BYTES: usize = 256 << 10;

/// A tier's file, for a pool whose pages have `page_bytes` bytes. Each call waits for its transfer.
#[derive(Clone)]
pub(super) struct TierFile {
    pub source: SourceRef,
    pub backend: Arc<dyn Backend>,
    pub page_bytes: usize,
}

/// Where the directory is, as the header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Directory {
    copies: u64,
    offset: u64,
    hash: u64,
}

/// A directory that is being written.
struct DirectoryWriter<'a> {
    file: &'a TierFile,
    /// Gets a message for each block.
    progress: &'a Sender<()>,
    block: TierBuffer,
    filled_bytes: usize,
    /// Where the next block goes.
    offset: u64,
    written: Directory,
    failure: Option<Error>,
}

impl TierFile {
    /// The offset of a place. The first page is the header's.
    pub fn offset(&self, place: u32) -> u64 {
        (u64::from(place) + 1) * self.page_bytes as u64
    }

    /// Prepares the file for a pool, with `places` places. The file must be a tier's, or nobody's; then it
    /// becomes a tier's. Pages of its directory are restored, if files are known by their tags. Then the
    /// directory is removed, durably, so that a crash from here on leaves a tier without pages.
    ///
    /// # Errors
    ///
    /// If the file is somebody else's, and nothing has changed then; if it is a device with less room; if
    /// I/O fails.
    pub fn make_ready(&self, places: u32, into: &mut Store) -> Result<()> {
        let page_bytes = self.page_bytes as u64;
        let mut header = self.buffer(self.page_bytes);
        let found_bytes = self.source.len_bytes().map_err(failed)?;
        if found_bytes >= page_bytes {
            self.read(0, &mut header)?;
        } else if found_bytes > 0 {
            // A tier of smaller pages may be shorter than a page.
            let mut begin = self.buffer(1 << found_bytes.ilog2());
            if self.read(0, &mut begin).is_ok() && begin.starts_with(MAGIC) {
                header[..begin.len()].copy_from_slice(&begin);
            }
        }
        let is_tiers = header.starts_with(MAGIC);
        if !is_tiers && (header.iter().any(|byte| *byte != 0) || (1..page_bytes).contains(&found_bytes)) {
            let message = "the file has contents that are not a tier's, expected an empty file or one that does not exist";
            return Err(Error::new(ErrorKind::Unsupported, super::OPERATION, message));
        }
        if let Some(directory) = Directory::of(&header, self.page_bytes).filter(|_| into.is_by_tag()) {
            // A tier may lose pages, so a directory that cannot be read is no error.
            if !self.read_directory(directory, into).unwrap_or(false) {
                into.clear();
            }
            into.end_restoring();
        }
        if header[MAGIC.len()..].iter().any(|byte| *byte != 0) || !is_tiers {
            self.write_header(&mut header, None)?;
            self.sync()?;
        }
        self.set_places(places)
    }

    /// Sets the file's length to that of `places` places; checks the length of a block device.
    pub fn set_places(&self, places: u32) -> Result<()> {
        let bytes = self.offset(places);
        if !self.source.capabilities().fixed_length {
            return self.source.set_len_bytes(bytes).map_err(failed);
        }
        let found_bytes = self.source.len_bytes().map_err(failed)?;
        if found_bytes < bytes {
            let message =
                format!("the block device has {found_bytes} bytes, expected {bytes} for all places");
            return Err(Error::new(ErrorKind::FileLength, super::OPERATION, message));
        }
        Ok(())
    }

    /// Writes the directory of a tier that no pool uses any more, behind its places, and makes it what the
    /// next opening finds. `progress` gets a message for each step.
    pub fn save(&self, store: &Store, places: u32, progress: &Sender<()>) -> Result<()> {
        let offset = self.offset(places);
        let mut writer = DirectoryWriter {
            file: self,
            progress,
            block: self.buffer(block_bytes(self.page_bytes)),
            filled_bytes: 0,
            offset,
            written: Directory { copies: 0, offset, hash: 0 },
            failure: None,
        };
        store.for_each_written(|envelope, place| writer.add(envelope, place));
        let directory = writer.end()?;
        // The pages and the directory must be durable before the header says that they are there.
        self.sync()?;
        let _ = progress.send(());
        self.write_header(&mut self.buffer(self.page_bytes), Some(directory))?;
        self.sync()
    }

    /// Restores the pages of the directory. False if it does not match its hash; then nothing that was
    /// restored can be relied on.
    fn read_directory(&self, directory: Directory, into: &mut Store) -> Result<bool> {
        let mut block = self.buffer(block_bytes(self.page_bytes));
        let (mut offset, mut left, mut sum) = (directory.offset, directory.copies, 0);
        let end = self.source.len_bytes().map_err(failed)?;
        while left > 0 {
            if offset.checked_add(block.len() as u64).is_none_or(|after| after > end) {
                return Ok(false);
            }
            self.read(offset, &mut block)?;
            sum = mix64(sum ^ hash(&block));
            let here = left.min((block.len() / ENTRY_BYTES) as u64);
            for entry in block.chunks_exact(ENTRY_BYTES).take(here as usize) {
                let (envelope, place) = entry.split_at(Envelope::BYTES);
                let envelope = Envelope::from_bytes(envelope.try_into().expect("its length"));
                into.restore(envelope, u32::try_from(word(place, 0)).unwrap_or(u32::MAX));
            }
            offset += block.len() as u64;
            left -= here;
        }
        Ok(sum == directory.hash)
    }

    fn write_header(&self, header: &mut TierBuffer, directory: Option<Directory>) -> Result<()> {
        header.fill(0);
        header[..MAGIC.len()].copy_from_slice(MAGIC);
        if let Some(directory) = directory {
            let words = &mut header[MAGIC.len()..][..WORDS * 8];
            words.copy_from_slice(&directory.to_bytes(self.page_bytes));
        }
        self.write(0, header)
    }

    fn buffer(&self, bytes: usize) -> TierBuffer {
        let mut buffer = Buffers::new(1, bytes).take().expect("one is free");
        buffer.fill(0);
        buffer
    }

    fn read(&self, offset: u64, into: &mut TierBuffer) -> Result<()> {
        // SAFETY: the call returns after the read, and nobody else has the buffer.
        let buffer = unsafe { lend(NonNull::from(&mut **into)) };
        self.run(Action::Read { offset, buffers: buffer.into() })
    }

    fn write(&self, offset: u64, bytes: &TierBuffer) -> Result<()> {
        // SAFETY: the call returns after the write, and nobody changes the buffer meanwhile.
        let buffer = unsafe { lend(NonNull::from(&**bytes)) };
        self.run(Action::Write { offset, buffers: buffer.into() })
    }

    fn sync(&self) -> Result<()> {
        self.run(Action::Sync { all_metadata: true })
    }

    fn run(&self, action: Action) -> Result<()> {
        let ran = self.backend.run(&self.source, action);
        ran.map_err(|error| Error::with_source(ErrorKind::Io, super::OPERATION, error))
    }
}

impl Directory {
    /// The directory according to the header. None unless the tier was closed cleanly, with pages of this
    /// size.
    fn of(header: &[u8], page_bytes: usize) -> Option<Self> {
        let words = header.get(MAGIC.len()..)?.get(..WORDS * 8)?;
        let directory = Self { copies: word(words, 0), offset: word(words, 2), hash: word(words, 3) };
        (words == directory.to_bytes(page_bytes)).then_some(directory)
    }

    fn to_bytes(self, page_bytes: usize) -> [u8; WORDS * 8] {
        let mut bytes = [0; WORDS * 8];
        let words = [self.copies, page_bytes as u64, self.offset, self.hash];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        let sum = hash(&bytes[..words.len() * 8]);
        bytes[words.len() * 8..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

impl DirectoryWriter<'_> {
    fn add(&mut self, envelope: Envelope, place: u32) {
        if self.filled_bytes + ENTRY_BYTES > self.block.len() {
            self.write_block();
        }
        let entry = &mut self.block[self.filled_bytes..][..ENTRY_BYTES];
        entry[..Envelope::BYTES].copy_from_slice(&envelope.to_bytes());
        entry[Envelope::BYTES..].copy_from_slice(&u64::from(place).to_le_bytes());
        self.filled_bytes += ENTRY_BYTES;
        self.written.copies += 1;
    }

    fn write_block(&mut self) {
        if self.failure.is_none() {
            self.failure = self.file.write(self.offset, &self.block).err();
        }
        self.written.hash = mix64(self.written.hash ^ hash(&self.block));
        self.offset += self.block.len() as u64;
        self.block.fill(0);
        self.filled_bytes = 0;
        // Nobody may be waiting any more.
        let _ = self.progress.send(());
    }

    fn end(mut self) -> Result<Directory> {
        if self.filled_bytes > 0 {
            self.write_block();
        }
        self.failure.map_or(Ok(self.written), Err)
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * at..8 * (at + 1)].try_into().expect("eight bytes"))
}

fn block_bytes(page_bytes: usize) -> usize {
    BLOCK_BYTES.next_multiple_of(page_bytes)
}

fn failed(error: std::io::Error) -> Error {
    Error::from_io(super::OPERATION, error)
}

/// The bytes of a page or buffer, for a transfer.
///
/// # Safety
///
/// The transfer's completion keeps what the bytes are of, and nobody uses them before it is called; while
/// they are written to a file, others may read them.
pub(super) unsafe fn lend(bytes: NonNull<[u8]>) -> Buffer {
    // SAFETY: the bytes are initialized, on the heap, and stay there as the caller promises.
    unsafe { Buffer::new(bytes.cast(), bytes.len()) }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::io;

    use super::*;
    use crate::io::{Capabilities, FileIdentity, ReadRequest, Source, start_sim};
    use crate::sim::SimDevice;
    use crate::{PAGE_BYTES_MAX, PAGE_BYTES_MIN};

    /// A block device of so many bytes.
    #[derive(Debug)]
    struct Fixed(u64);

    impl Source for Fixed {
        fn identity(&self) -> FileIdentity {
            FileIdentity::from_number(0)
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities { writable: true, fixed_length: true, ..Capabilities::default() }
        }

        fn len_bytes(&self) -> io::Result<u64> {
            Ok(self.0)
        }

        fn read(&self, _: ReadRequest) {}
    }

    /// The header and all places have room on a block device, or it is refused.
    #[test]
    fn a_block_device_has_room_for_all_places() {
        let set_places = |bytes: u64| {
            let source = SourceRef::new(Arc::new(Fixed(bytes)));
            let backend = start_sim(&SimDevice::new(1)).backend;
            TierFile { source, backend, page_bytes: 4096 }.set_places(3)
        };
        set_places(4 * 4096).unwrap();
        set_places(4 * 4096 + 512).unwrap();
        assert_eq!(set_places(4 * 4096 - 512).unwrap_err().kind(), ErrorKind::FileLength);
    }

    /// The file's length stays a multiple of the page size when the directory is written.
    #[test]
    fn a_block_of_the_directory_is_whole_pages() {
        let sizes = (PAGE_BYTES_MIN.ilog2()..=PAGE_BYTES_MAX.ilog2()).map(|log| 1 << log);
        for page_bytes in sizes {
            assert!(block_bytes(page_bytes).is_multiple_of(page_bytes), "pages of {page_bytes} bytes");
        }
    }
}
