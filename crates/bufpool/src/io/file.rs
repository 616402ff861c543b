//! Open files as the backends know them: what is behind them, their alignment and their lock.
//!
//! An [`IoFile`] is a descriptor of the kernel's, or, on the simulated device, a file of that device.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::{OnceLock, Weak};
use std::time::Duration;

use super::name::{FileName, NameError, kind_of};
use super::refused;
#[cfg(any(test, feature = "sim"))]
use super::sim::SimFile;
use crate::io::options::Direct;
use crate::sys;

/// How to open a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileOpen {
    /// Only reads will be asked for; the lock is shared instead of exclusive.
    pub(crate) read_only: bool,
    /// Make the file if it is not there.
    pub(crate) create: bool,
    /// Whether to bypass the page cache.
    pub(crate) direct: Direct,
}

/// What buffers, offsets and lengths of an operation on a file have to be multiples of, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alignment {
    /// For the address of each buffer.
    pub(crate) memory_bytes: u32,
    /// For offsets and lengths.
    pub(crate) offset_bytes: u32,
}

impl Alignment {
    /// Ordinary buffered I/O.
    pub(crate) const NONE: Self = Self { memory_bytes: 1, offset_bytes: 1 };
    /// What direct I/O is satisfied with on every device in use, where nobody says what is needed.
    const ASSUMED: Self = Self { memory_bytes: 4096, offset_bytes: 4096 };
}

/// Which file it is, whatever name it was opened by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileIdentity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl FileIdentity {
    /// The file that `metadata` describes.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        if metadata.file_type().is_block_device() {
            Self { device: metadata.rdev(), inode: 0 }
        } else {
            Self { device: metadata.dev(), inode: metadata.ino() }
        }
    }
}

impl std::fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "inode {} of device {:#x}", self.inode, self.device)
    }
}

/// Why a file could not be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// A system call failed.
    Os { doing: &'static str, error: io::Error },
    /// Somebody else has it open in a way that excludes this one.
    Locked,
    /// Direct I/O was required, and the file does not do it.
    DirectImpossible { why: String },
    /// Neither a regular file nor a block device.
    NotAFile { found: &'static str },
    /// The descriptor does not allow what will be done with it.
    Descriptor { found: &'static str, expected: &'static str },
    /// The file may be new, and its name cannot be made durable because it is not known.
    NoName,
}

impl OpenError {
    fn os(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Os { doing, error }
    }
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Os { doing, error } => write!(f, "{doing} failed: {error}"),
            Self::Locked => f.write_str("the file is in use: its lock (flock) or a lease is held elsewhere"),
            Self::DirectImpossible { why } => write!(f, "direct I/O is required but impossible: {why}"),
            Self::NotAFile { found } => write!(f, "it is {found}, expected a regular file or a block device"),
            Self::Descriptor { found, expected } => {
                write!(f, "the descriptor was opened with {found}, expected {expected}")
            }
            Self::NoName => f.write_str(
                "the path leads to the file, but not to the entry of a folder that could be made durable",
            ),
        }
    }
}

impl std::error::Error for OpenError {}

/// An open, locked file. Dropping it gives up the lock and closes it.
#[derive(Debug)]
pub(crate) struct IoFile {
    medium: Medium,
    identity: FileIdentity,
    direct: bool,
    alignment: Alignment,
    note: String,
    /// Its place in the tables of registered files; a backend sets it, at most once, after opening.
    registration: OnceLock<Registration>,
}

/// What is behind an [`IoFile`].
#[derive(Debug)]
enum Medium {
    Kernel {
        file: File,
        block_device: bool,
        /// None if it was not opened by path, or by one that leads to no entry of a folder.
        name: Option<FileName>,
    },
    #[cfg(any(test, feature = "sim"))]
    Sim(SimFile),
}

impl IoFile {
    /// Opens and locks the file at `path`.
    pub(super) fn open(path: &Path, how: &FileOpen) -> Result<Self, OpenError> {
        let name = FileName::of(path).map_err(OpenError::os("opening the folder"))?;
        // Looked at first, because opening alone starts or stops some devices.
        if let Some(found) = name.look().map_err(OpenError::os("opening"))? {
            check_kind(&found)?;
        }
        let creates = how.create && !how.read_only;
        let access = if how.read_only { libc::O_RDONLY } else { libc::O_RDWR };
        // What has become a FIFO meanwhile is not waited for.
        let flags = access | libc::O_NONBLOCK | if creates { libc::O_CREAT } else { 0 };
        let (file, refusal) = open_patiently(&name, flags, how.direct != Direct::Off)?;
        let kind = check_kind(&file.metadata().map_err(OpenError::os("fstat"))?)?;
        let name = name.entry_of(kind.identity).map_err(OpenError::os("looking up the name"))?;
        // Also if it was there: whoever made it may not have come so far.
        if creates {
            let name = name.as_ref().ok_or(OpenError::NoName)?;
            name.sync_folder().map_err(OpenError::os("making the file's name durable"))?;
        }
        Self::settle(file, kind, name, how, refusal)
    }

    /// Takes over an open file and locks it.
    pub(super) fn adopt(fd: OwnedFd, how: &FileOpen) -> Result<Self, OpenError> {
        let file = File::from(fd);
        let kind = check_kind(&file.metadata().map_err(OpenError::os("fstat"))?)?;
        check_access(file.as_fd(), how)?;
        Self::settle(file, kind, None, how, None)
    }

    /// Settles how an open file is accessed, and locks it.
    fn settle(
        file: File,
        Kind { identity, block_device }: Kind,
        name: Option<FileName>,
        how: &FileOpen,
        refusal: Option<&'static str>,
    ) -> Result<Self, OpenError> {
        let wants_direct = how.direct != Direct::Off && refusal.is_none();
        let refusal = match sys::set_direct(file.as_fd(), wants_direct) {
            Err(error) if wants_direct && error.raw_os_error() == Some(libc::EINVAL) => {
                sys::set_direct(file.as_fd(), false).map_err(OpenError::os("switching direct I/O off"))?;
                Some("refused when switched on (EINVAL)")
            }
            other => other.map(|()| refusal).map_err(OpenError::os("switching direct I/O"))?,
        };
        let (alignment, note) = settle_alignment(file.as_fd(), block_device, how.direct, refusal)?;
        let direct = sys::is_direct(file.as_fd()).map_err(OpenError::os("fcntl"))?;
        lock(file.as_fd(), !how.read_only)?;
        let medium = Medium::Kernel { file, block_device, name };
        Ok(Self { medium, identity, direct, alignment, note, registration: OnceLock::new() })
    }

    /// A file of the simulated device.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn simulated(file: SimFile, identity: FileIdentity, alignment: Alignment) -> Self {
        let note = "simulated".to_owned();
        let registration = OnceLock::new();
        Self { medium: Medium::Sim(file), identity, direct: true, alignment, note, registration }
    }

    /// The descriptor. Backends for real files only meet real files, because they opened them.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match &self.medium {
            Medium::Kernel { file, .. } => file.as_fd(),
            #[cfg(any(test, feature = "sim"))]
            Medium::Sim(_) => unreachable!("a file of the simulated device in a backend for real files"),
        }
    }

    /// The simulated file; the other way round.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn sim(&self) -> &SimFile {
        match &self.medium {
            Medium::Sim(file) => file,
            Medium::Kernel { .. } => unreachable!("a real file on the simulated device"),
        }
    }

    /// Where it is registered, if it is.
    pub(super) fn registration(&self) -> Option<&Registration> {
        self.registration.get()
    }

    /// Notes where it is registered. Called by the backend that opened it, before anybody else has it.
    pub(super) fn set_registration(&self, registration: Registration) {
        self.registration
            .set(registration)
            .expect("a file is registered once, by the backend that opened it");
    }

    /// Which file it is.
    pub(crate) fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// True for a block device, which has a fixed length.
    pub(crate) fn is_block_device(&self) -> bool {
        matches!(self.medium, Medium::Kernel { block_device: true, .. })
    }

    /// True if I/O on it bypasses the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    /// What operations have to be multiples of.
    pub(crate) fn alignment(&self) -> Alignment {
        self.alignment
    }

    /// How the alignment is known, and why I/O is not direct if it is not; for reports.
    pub(crate) fn note(&self) -> &str {
        &self.note
    }

    /// Its length now, in bytes.
    pub(crate) fn len_bytes(&self) -> io::Result<u64> {
        match &self.medium {
            Medium::Kernel { file, block_device: true, .. } => sys::block_device_bytes(file.as_fd()),
            Medium::Kernel { file, block_device: false, .. } => Ok(file.metadata()?.len()),
            #[cfg(any(test, feature = "sim"))]
            Medium::Sim(file) => file.len_bytes(),
        }
    }

    /// Sets its length. Fails for a block device.
    pub(crate) fn truncate(&self, bytes: u64) -> io::Result<()> {
        match &self.medium {
            Medium::Kernel { file, .. } => sys::truncate(file.as_fd(), bytes),
            #[cfg(any(test, feature = "sim"))]
            Medium::Sim(file) => file.truncate(bytes),
        }
    }

    /// Lets the operating system forget what it has cached of the file, if it caches any of it.
    pub(crate) fn drop_cache(&self) -> io::Result<()> {
        match &self.medium {
            Medium::Kernel { file, .. } if !self.direct => sys::drop_cache(file.as_fd()),
            Medium::Kernel { .. } => Ok(()),
            #[cfg(any(test, feature = "sim"))]
            Medium::Sim(file) => file.drop_cache(),
        }
    }

    /// Removes the name that the file was opened by, if it is still the file's; after a power cut it may be
    /// there again until [`sync_folder`](Self::sync_folder). The file stays usable.
    pub(crate) fn remove_name(&self) -> Result<(), NameError> {
        match &self.medium {
            Medium::Kernel { name, .. } => name.as_ref().ok_or(NameError::None)?.remove(self.identity),
            #[cfg(any(test, feature = "sim"))]
            Medium::Sim(file) => file.remove_name(self.identity),
        }
    }

    /// Makes it durable that the name is there, or is not.
    pub(crate) fn sync_folder(&self) -> Result<(), NameError> {
        let synced = match &self.medium {
            Medium::Kernel { name, .. } => name.as_ref().ok_or(NameError::None)?.sync_folder(),
            #[cfg(any(test, feature = "sim"))]
            Medium::Sim(file) => file.sync_folder(),
        };
        synced.map_err(NameError::os("syncing the folder"))
    }

    /// True if the file was opened by a name that it had in a folder.
    pub(crate) fn has_name(&self) -> bool {
        match &self.medium {
            Medium::Kernel { name, .. } => name.is_some(),
            #[cfg(any(test, feature = "sim"))]
            Medium::Sim(_) => true,
        }
    }

    /// Really allocates the range of a real file; see [`Action::Allocate`](super::Action::Allocate). On
    /// failure the length is as before.
    pub(super) fn allocate(&self, from: u64, bytes: u64) -> io::Result<()> {
        let before = self.len_bytes()?;
        let end = from.checked_add(bytes).ok_or_else(|| io::Error::from_raw_os_error(libc::EFBIG))?;
        if let Medium::Kernel { block_device: true, .. } = self.medium {
            let fits = end <= before;
            return if fits { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENOSPC)) };
        }
        let allocated = match sys::allocate(self.fd(), from, bytes) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => self.append_zeros(before, end),
            other => other,
        };
        if allocated.is_err() && self.len_bytes()? > before {
            self.truncate(before)?;
        }
        allocated
    }

    /// Writes zeros from `from`, the end of the file, to `to`, for file systems without fallocate.
    fn append_zeros(&self, from: u64, to: u64) -> io::Result<()> {
        const ZEROS_BYTES: usize = 1 << 20;
        let zeros = sys::Mapping::new(ZEROS_BYTES)?;
        let mut at = from;
        while at < to {
            let bytes = (to - at).min(ZEROS_BYTES as u64) as usize;
            at += sys::retry_interrupted(|| sys::write_mapping_at(self.fd(), &zeros, bytes, at))? as u64;
        }
        Ok(())
    }
}

impl Drop for IoFile {
    fn drop(&mut self) {
        match &self.medium {
            // Closing alone would not do: a ring lets go of its files some time after it was told to.
            Medium::Kernel { file, .. } => drop(sys::unlock(file.as_fd())),
            #[cfg(any(test, feature = "sim"))]
            Medium::Sim(_) => {}
        }
    }
}

/// Of a file that has pages.
struct Kind {
    identity: FileIdentity,
    block_device: bool,
}

/// Refuses what has no pages.
fn check_kind(metadata: &Metadata) -> Result<Kind, OpenError> {
    let block_device = metadata.file_type().is_block_device();
    if !block_device && !metadata.file_type().is_file() {
        return Err(OpenError::NotAFile { found: kind_of(metadata.file_type()) });
    }
    Ok(Kind { identity: FileIdentity::of(metadata), block_device })
}

/// Refuses a descriptor that cannot read and, unless the file is opened for reading only, write where it is
/// told to.
fn check_access(fd: BorrowedFd<'_>, how: &FileOpen) -> Result<(), OpenError> {
    let flags = sys::status_flags(fd).map_err(OpenError::os("fcntl"))?;
    let expected = if how.read_only { "O_RDONLY or O_RDWR" } else { "O_RDWR" };
    let refused = |found| Err(OpenError::Descriptor { found, expected });
    if flags & libc::O_PATH != 0 {
        return refused("O_PATH, which allows neither reading nor writing");
    }
    match flags & libc::O_ACCMODE {
        libc::O_RDWR => {}
        libc::O_RDONLY if how.read_only => {}
        libc::O_RDONLY => return refused("O_RDONLY"),
        libc::O_WRONLY => return refused("O_WRONLY"),
        _ => return refused("an access mode that is none of O_RDONLY, O_WRONLY and O_RDWR"),
    }
    if flags & libc::O_APPEND != 0 {
        let found = "O_APPEND, which moves every write to the end of the file";
        return Err(OpenError::Descriptor { found, expected: "no O_APPEND" });
    }
    Ok(())
}

/// Opens a file, for direct I/O if that is wanted and not refused at once; then why it is refused is
/// returned, too. Waits as [`patiently`] for a lease to be given up.
fn open_patiently(
    name: &FileName,
    flags: libc::c_int,
    direct: bool,
) -> Result<(File, Option<&'static str>), OpenError> {
    let open = |flags| {
        patiently(|| match name.open(flags) {
            Err(error) if error.raw_os_error() == Some(libc::EWOULDBLOCK) => Ok(None),
            other => other.map(Some).map_err(OpenError::os("opening")),
        })
    };
    if !direct {
        return Ok((open(flags)?, None));
    }
    match open(flags | libc::O_DIRECT) {
        // Some file systems refuse the flag when the file is opened.
        Err(OpenError::Os { error, .. }) if error.raw_os_error() == Some(libc::EINVAL) => {
            Ok((open(flags)?, Some("refused when opened (EINVAL)")))
        }
        other => Ok((other?, None)),
    }
}

/// A file's place in the tables of files registered with rings.
///
/// Rings register a file when they first meet it, and compare the serial number each time: a place
/// that is used again for another file is never mistaken for the old one.
pub(super) struct Registration {
    /// Index into the tables.
    pub(super) place: u32,
    /// Different for every file that a backend opens.
    pub(super) serial: u64,
    /// Told when the file is dropped.
    pub(super) registry: Weak<dyn Registry>,
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.release(self.place);
        }
    }
}

/// Who gives out places to registered files.
pub(super) trait Registry: Send + Sync {
    /// The file at `place` is gone: let go of it and use the place again.
    fn release(&self, place: u32);
}

/// Locks the file, waiting a little for a lock that is about to go away: the kernel takes down the rings of a
/// killed process, and with them its files and locks, in the background after the process is gone.
fn lock(fd: BorrowedFd<'_>, exclusive: bool) -> Result<(), OpenError> {
    patiently(|| {
        let locked = sys::try_lock(fd, exclusive).map_err(OpenError::os("flock"))?;
        Ok(locked.then_some(()))
    })
}

/// Calls `attempt` until it gives something, for up to a fifth of a second in all.
fn patiently<T>(attempt: impl Fn() -> Result<Option<T>, OpenError>) -> Result<T, OpenError> {
    const ATTEMPTS: u32 = 10;
    for number in 0..ATTEMPTS {
        if number > 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
        if let Some(given) = attempt()? {
            return Ok(given);
        }
    }
    Err(OpenError::Locked)
}

/// Finds out what direct I/O demands, or that there is none, and switches it off in that case.
///
/// Tests can set `BUFPOOL_REFUSE_DIOALIGN` (any value but `0`) to make every file one that does not say.
fn settle_alignment(
    fd: BorrowedFd<'_>,
    block_device: bool,
    direct: Direct,
    refusal: Option<&'static str>,
) -> Result<(Alignment, String), OpenError> {
    if direct == Direct::Off {
        return Ok((Alignment::NONE, "buffered: direct I/O is off".into()));
    }
    let why = match (refusal, told_alignment(fd)?) {
        (Some(refusal), _) => refusal,
        (None, Some(told)) if told.memory_bytes > 0 && told.offset_bytes > 0 => {
            let alignment = Alignment { memory_bytes: told.memory_bytes, offset_bytes: told.offset_bytes };
            return Ok((alignment, "direct: alignment told by STATX_DIOALIGN".into()));
        }
        (None, Some(_)) => "STATX_DIOALIGN says that this file has none",
        (None, None) if block_device => {
            let bytes = sys::block_device_sector_bytes(fd).map_err(OpenError::os("BLKSSZGET"))?;
            let alignment = Alignment { memory_bytes: bytes, offset_bytes: bytes };
            return Ok((alignment, "direct: alignment is the device's sector (BLKSSZGET)".into()));
        }
        (None, None) => {
            return Ok((Alignment::ASSUMED, "direct: alignment assumed, STATX_DIOALIGN says nothing".into()));
        }
    };
    if direct == Direct::Require {
        return Err(OpenError::DirectImpossible { why: why.into() });
    }
    sys::set_direct(fd, false).map_err(OpenError::os("switching direct I/O off"))?;
    Ok((Alignment::NONE, format!("buffered: direct I/O impossible, {why}")))
}

fn told_alignment(fd: BorrowedFd<'_>) -> Result<Option<sys::DirectAlignment>, OpenError> {
    if refused("BUFPOOL_REFUSE_DIOALIGN") {
        return Ok(None);
    }
    match sys::direct_alignment(fd) {
        // A kernel or sandbox that does not know the call does not say either.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL | libc::EPERM)) => {
            Ok(None)
        }
        other => other.map_err(OpenError::os("statx")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::name::tests::FOLDER_SYNCS;
    use super::*;

    /// A file is handed out with its name durable or not at all, and a try that failed does not make the next one forget it.
    #[test]
    fn a_file_that_may_be_new_is_opened_with_its_name_durable() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let open = |create| {
            let how = FileOpen { read_only: false, create, direct: Direct::Off };
            let before = FOLDER_SYNCS.with(|syncs| syncs.count.get());
            let opened = IoFile::open(&path, &how).map(drop);
            (opened, FOLDER_SYNCS.with(|syncs| syncs.count.get()) - before)
        };
        FOLDER_SYNCS.with(|syncs| syncs.fails.set(true));
        for _ in 0..2 {
            let (opened, syncs) = open(true);
            let Err(OpenError::Os { doing, error }) = opened else { panic!("opened without a durable name") };
            assert_eq!(
                (doing, error.raw_os_error(), syncs),
                ("making the file's name durable", Some(libc::EIO), 1)
            );
        }
        FOLDER_SYNCS.with(|syncs| syncs.fails.set(false));
        let (opened, syncs) = open(true);
        assert_eq!((opened.is_ok(), syncs), (true, 1));
        let (opened, syncs) = open(false);
        assert_eq!((opened.is_ok(), syncs), (true, 0));
    }

    /// A name that was removed is gone for good, or the caller hears of it.
    #[test]
    fn the_folder_is_synced_after_a_removal() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let how = FileOpen { read_only: false, create: true, direct: Direct::Off };
        let file = IoFile::open(&path, &how).unwrap();
        file.remove_name().unwrap();
        assert!(!path.exists());
        let before = FOLDER_SYNCS.with(|syncs| syncs.count.get());
        file.sync_folder().unwrap();
        assert_eq!(FOLDER_SYNCS.with(|syncs| syncs.count.get()), before + 1);
        FOLDER_SYNCS.with(|syncs| syncs.fails.set(true));
        assert!(matches!(file.sync_folder(), Err(NameError::Os { .. })));
        FOLDER_SYNCS.with(|syncs| syncs.fails.set(false));
        assert!(matches!(file.remove_name(), Err(NameError::Changed { found: None, .. })));
    }
}
