//! Opening and locking local files, by path or descriptor, and settling how they are accessed.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use super::{LocalFile, OwnName};
use crate::io::identity::FileIdentity;
use crate::io::name::{FileName, kind_of};
use crate::io::open::{FileOpen, OpenError};
use crate::io::options::{Direct, FileLock, IoOptions, refused};
use crate::io::source::Alignment;
use crate::sys;

impl LocalFile {
    /// Opens and locks the file at `path`.
    pub(in super::super) fn open(path: &Path, how: &FileOpen) -> Result<Self, OpenError> {
        let name = FileName::of(path).map_err(OpenError::os("opening the folder"))?;
        if how.create_new {
            return Self::make(name, how);
        }
        // The file is looked at first, because the mere opening of some devices starts or stops them.
        if let Some(found) = name.look().map_err(OpenError::os("opening"))? {
            check_kind(&found)?;
        }
        let creates = how.create && !how.read_only;
        let access = if how.read_only { libc::O_RDONLY } else { libc::O_RDWR };
        // O_NONBLOCK: the name may mean a FIFO by now, which is not to be waited for.
        let flags = access | libc::O_NONBLOCK | if creates { libc::O_CREAT } else { 0 };
        let (file, refusal) = open_patiently(&name, flags, how.direct != Direct::Off)?;
        let kind = check_kind(&file.metadata().map_err(OpenError::os("fstat"))?)?;
        let name = name.entry_of(kind.identity).map_err(OpenError::os("looking up the name"))?;
        // The folder is synced even if the file was there: whoever made it may have been interrupted before
        // the sync.
        if creates {
            let name = name.as_ref().ok_or(OpenError::NoName)?;
            name.sync_folder().map_err(OpenError::os("making the file's name durable"))?;
        }
        Self::settle(file, kind, name, how, refusal)
    }

    /// Makes the file `name`, opens and locks it. If that fails the name is free, as before.
    fn make(name: FileName, how: &FileOpen) -> Result<Self, OpenError> {
        // Direct I/O is switched on later: where it is refused at opening, the file is made all the same.
        let file = name.open(libc::O_RDWR | libc::O_CREAT | libc::O_EXCL).map_err(|error| {
            let exists = error.kind() == io::ErrorKind::AlreadyExists;
            if exists { OpenError::Exists } else { OpenError::os("making the file")(error) }
        })?;
        let kind = check_kind(&file.metadata().map_err(OpenError::os("fstat"))?)?;
        let identity = kind.identity;
        let synced = name.sync_folder().map_err(OpenError::os("making the file's name durable"));
        match synced.and_then(|()| Self::settle(file, kind, None, how, None)) {
            Ok(mut made) => {
                made.name = Some(OwnName { name, identity });
                Ok(made)
            }
            Err(error) => {
                // The first failure is the one to tell of.
                let _ = name.remove(identity);
                Err(error)
            }
        }
    }

    /// Takes over an open file and locks it.
    pub(in super::super) fn adopt(fd: OwnedFd, how: &FileOpen) -> Result<Self, OpenError> {
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
        let (mut alignment, mut note) = settle_alignment(file.as_fd(), block_device, how.direct, refusal)?;
        let granule = alignment.offset_bytes.max(alignment.memory_bytes) as usize;
        if how.direct == Direct::Prefer && !how.page_bytes.is_multiple_of(granule) {
            sys::set_direct(file.as_fd(), false).map_err(OpenError::os("switching direct I/O off"))?;
            alignment = Alignment::NONE;
            note = format!(
                "buffered: direct I/O takes multiples of {granule} bytes, pages have {}",
                how.page_bytes
            );
        }
        let direct = sys::is_direct(file.as_fd()).map_err(OpenError::os("fcntl"))?;
        lock(file.as_fd(), how)?;
        let name = name.map(|name| OwnName { name, identity });
        Ok(Self {
            file,
            identity,
            block_device,
            name,
            read_only: how.read_only,
            direct,
            alignment,
            missing_bytes_max: how.missing_bytes_max,
            lock: how.lock,
            note,
            saturation_depth: IoOptions::SATURATION_DEPTH,
            registration: OnceLock::new(),
        })
    }
}

/// The alignment that direct I/O needs on every device in use, for files that do not say what they need.
const ASSUMED: Alignment = Alignment { memory_bytes: 4096, offset_bytes: 4096 };

/// What kind of file it is, for files that have pages.
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

/// Refuses a descriptor that cannot read, or that cannot write at given offsets unless the file is opened
/// for reading only.
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

/// Opens a file, with direct I/O if `direct` is set. If the file system refuses direct I/O at opening, opens
/// the file without it and returns the reason as well. Waits as [`patiently`] for a lease to be given up.
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

/// Locks the file. Waits a little for a lock that is about to go away: the kernel takes down the rings of a
/// killed process, and with them its files and locks, some time after the process is gone.
fn lock(fd: BorrowedFd<'_>, how: &FileOpen) -> Result<(), OpenError> {
    let exclusive = !how.read_only;
    patiently(|| {
        let locked = match how.lock {
            FileLock::Flock => sys::try_flock(fd, exclusive).map_err(OpenError::os("flock"))?,
            FileLock::Ofd => {
                sys::try_ofd_lock(fd, exclusive).map_err(OpenError::os("locking (F_OFD_SETLK)"))?
            }
            FileLock::None => true,
        };
        Ok(locked.then_some(()))
    })
}

/// Calls `attempt` until it gives something, for up to a fifth of a second in all; then the file is in use
/// ([`OpenError::Locked`]).
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

/// Finds out which alignment direct I/O needs. Switches direct I/O off if the file has none.
///
/// Tests can set `BUFPOOL_REFUSE_DIOALIGN` (any value but `0`) to treat every file as one that does not tell
/// its alignment.
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
            return Ok((ASSUMED, "direct: alignment assumed, STATX_DIOALIGN says nothing".into()));
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
        // A kernel or sandbox without the call tells nothing either.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL | libc::EPERM)) => {
            Ok(None)
        }
        other => other.map_err(OpenError::os("statx")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::name::tests::FOLDER_SYNCS;
    use super::*;
    use crate::io::name::NameError;
    use crate::io::source::Source;

    /// A file is handed out with its name durable or not at all, and a try that failed does not make the next
    /// one forget it.
    #[test]
    fn a_file_that_may_be_new_is_opened_with_its_name_durable() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let open = |create| {
            let how = FileOpen { create, direct: Direct::Off, ..FileOpen::EXISTING };
            let before = FOLDER_SYNCS.with(|syncs| syncs.count.get());
            let opened = LocalFile::open(&path, &how).map(drop);
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

    #[test]
    fn a_file_is_buffered_where_its_pages_are_too_small_for_direct_io() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let open = |name: &str, page_bytes| {
            let how = FileOpen { page_bytes, ..FileOpen::READ_WRITE };
            LocalFile::open(&directory.path().join(name), &how).unwrap()
        };
        let (large, odd) = (open("large", 1 << 16), open("odd", 100));
        assert!(!odd.is_direct() && odd.alignment == Alignment::NONE, "{}", odd.note());
        assert_eq!(odd.note().contains("pages have 100"), large.is_direct(), "{}", odd.note());
    }

    /// A name that was removed is gone for good, or the caller hears of it.
    #[test]
    fn the_folder_is_synced_after_a_removal() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let how = FileOpen { direct: Direct::Off, ..FileOpen::READ_WRITE };
        let file = LocalFile::open(&path, &how).unwrap();
        file.entry().unwrap().remove().unwrap();
        assert!(!path.exists());
        let before = FOLDER_SYNCS.with(|syncs| syncs.count.get());
        file.entry().unwrap().sync_folder().unwrap();
        assert_eq!(FOLDER_SYNCS.with(|syncs| syncs.count.get()), before + 1);
        FOLDER_SYNCS.with(|syncs| syncs.fails.set(true));
        assert!(matches!(file.entry().unwrap().sync_folder(), Err(NameError::Os { .. })));
        FOLDER_SYNCS.with(|syncs| syncs.fails.set(false));
        assert!(matches!(file.entry().unwrap().remove(), Err(NameError::Changed { found: None, .. })));
    }
}
