//! The system calls that std does not offer, each as a safe function with a typed result.
//!
//! Nothing here knows of pages, pools or rings. Functions that take memory take it as raw parts and
//! say what the caller owes; all others are safe to call with any open descriptor.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Turns the C convention (-1 and errno) into a result.
fn check(returned: libc::c_int) -> io::Result<libc::c_int> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// As [`check`], for calls that return a number of bytes.
fn check_bytes(returned: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// Repeats `call` while signals interrupt it.
pub(crate) fn retry_interrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Fetches the cache line at an address for writing, without waiting for it. A hint: any address is
/// allowed.
#[inline(always)]
pub(crate) fn fetch_to_write<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction changes nothing but caches, and ignores addresses of nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// The alignment that direct I/O on a file needs, in bytes; powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectAlignment {
    /// Alignment of the memory.
    pub(crate) memory_bytes: u32,
    /// Alignment of offsets and lengths.
    pub(crate) offset_bytes: u32,
}

/// Copies `from` to `to`, of the same length, past the processor's caches where that can be: for bytes that a
/// device reads next, and no program. Where the device's side has read `to` shortly before, on another
/// processor, ordinary stores wait longer for each of its lines.
///
/// # Panics
///
/// If the lengths differ.
pub(crate) fn copy_uncached(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len());
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        // SAFETY: any bytes are valid parts.
        let (head, parts, tail) = unsafe { to.align_to_mut::<__m128i>() };
        if head.is_empty() && tail.is_empty() {
            for (part, source) in parts.iter_mut().zip(from.chunks_exact(size_of::<__m128i>())) {
                // SAFETY: the source is as long as the part, and need not be aligned.
                let value = unsafe { _mm_loadu_si128(source.as_ptr().cast()) };
                // SAFETY: the part is aligned, and ours alone.
                unsafe { _mm_stream_si128(part, value) };
            }
            // SAFETY: every processor of this architecture has it. A thread that is told of the copy finds
            // it.
            unsafe { _mm_sfence() };
            return;
        }
    }
    to.copy_from_slice(from);
}

/// Asks the file system for its direct I/O alignment (`STATX_DIOALIGN`, Linux 6.1).
///
/// `Ok(None)` if the kernel or the file system does not say; alignments of 0 in the answer mean that
/// direct I/O is impossible on this file.
pub(crate) fn direct_alignment(fd: BorrowedFd<'_>) -> io::Result<Option<DirectAlignment>> {
    let mut answer = MaybeUninit::<libc::statx>::zeroed();
    let empty_path = c"".as_ptr();
    // SAFETY: the path is an empty C string, which AT_EMPTY_PATH makes mean `fd`, and `answer` has
    // room for the structure that the kernel fills.
    let returned = unsafe {
        libc::statx(
            fd.as_raw_fd(),
            empty_path,
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            answer.as_mut_ptr(),
        )
    };
    check(returned)?;
    // SAFETY: all-zero bytes are a valid `statx`, and the kernel has overwritten some of them.
    let answer = unsafe { answer.assume_init() };
    let told = answer.stx_mask & libc::STATX_DIOALIGN != 0;
    Ok(told.then_some(DirectAlignment {
        memory_bytes: answer.stx_dio_mem_align,
        offset_bytes: answer.stx_dio_offset_align,
    }))
}

/// `BLKSSZGET`, which libc does not define everywhere: `_IO(0x12, 104)`.
const BLKSSZGET: libc::Ioctl = 0x1268;
/// `BLKGETSIZE64`: `_IOR(0x12, 114, size_t)`.
const BLKGETSIZE64: libc::Ioctl = 0x8008_1272_u32 as libc::Ioctl;

/// Logical block size of a block device in bytes.
pub(crate) fn block_device_sector_bytes(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: BLKSSZGET stores one int through the pointer, which is valid for it.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), BLKSSZGET, &raw mut bytes) })?;
    u32::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Size of a block device in bytes.
pub(crate) fn block_device_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: u64 = 0;
    // SAFETY: BLKGETSIZE64 stores one 64-bit number through the pointer, which is valid for it.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), BLKGETSIZE64, &raw mut bytes) })?;
    Ok(bytes)
}

/// Tries to lock the open file by flock, exclusively or shared. False if a conflicting lock is held. Does
/// not wait.
pub(crate) fn try_flock(fd: BorrowedFd<'_>, exclusive: bool) -> io::Result<bool> {
    let kind = if exclusive { libc::LOCK_EX } else { libc::LOCK_SH };
    // SAFETY: takes a descriptor, which the borrow keeps open, and a flag.
    is_locked(retry_interrupted(|| check(unsafe { libc::flock(fd.as_raw_fd(), kind | libc::LOCK_NB) })))
}

/// Gives up the lock of [`try_flock`], even while something else (a ring) still holds the file open.
pub(crate) fn unlock_flock(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes a descriptor, which the borrow keeps open, and a flag.
    retry_interrupted(|| check(unsafe { libc::flock(fd.as_raw_fd(), libc::LOCK_UN) })).map(drop)
}

/// As [`try_flock`], with a lock of the open file description on all of the file.
pub(crate) fn try_ofd_lock(fd: BorrowedFd<'_>, exclusive: bool) -> io::Result<bool> {
    is_locked(set_ofd_lock(fd, if exclusive { libc::F_WRLCK } else { libc::F_RDLCK }))
}

/// Gives up the lock of [`try_ofd_lock`].
pub(crate) fn unlock_ofd(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_ofd_lock(fd, libc::F_UNLCK).map(drop)
}

fn set_ofd_lock(fd: BorrowedFd<'_>, kind: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: a structure of numbers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    // Zeros mean: from the first byte to the end, wherever the end is.
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: takes a descriptor, which the borrow keeps open, and a structure that lives during the call.
    retry_interrupted(|| check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) }))
}

/// False if a conflicting lock is held.
fn is_locked(result: io::Result<libc::c_int>) -> io::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if [Some(libc::EWOULDBLOCK), Some(libc::EACCES)].contains(&error.raw_os_error()) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Opens `path`, relative to `folder` unless it is absolute, with flags of open(2). Programs that the
/// process starts do not inherit the descriptor. A file that is made has the permissions rw-rw-rw- less the
/// process's mask.
pub(crate) fn open_at(folder: BorrowedFd<'_>, path: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    let flags = flags | libc::O_CLOEXEC;
    let mode: libc::mode_t = 0o666;
    let fd = retry_interrupted(|| {
        // SAFETY: takes a descriptor, which the borrow keeps open, a C string, and numbers.
        check(unsafe { libc::openat(folder.as_raw_fd(), path.as_ptr(), flags, mode) })
    })?;
    // SAFETY: the kernel just made the descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Removes the entry `name` from `folder`; it must not be a folder itself.
pub(crate) fn unlink_at(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    // SAFETY: takes a descriptor, which the borrow keeps open, a C string, and a number.
    check(unsafe { libc::unlinkat(folder.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
}

/// The text of the symbolic link `name` in `folder`.
pub(crate) fn read_link_at(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<Vec<u8>> {
    let mut text = vec![0_u8; libc::PATH_MAX as usize];
    let room = text.as_mut_ptr().cast();
    // SAFETY: takes a descriptor, which the borrow keeps open, and a C string, and writes at most
    // `text.len()` bytes to `text`.
    let bytes =
        check_bytes(unsafe { libc::readlinkat(folder.as_raw_fd(), name.as_ptr(), room, text.len()) })?;
    text.truncate(bytes);
    Ok(text)
}

/// The access mode and the status flags that an open file has (`F_GETFL`).
pub(crate) fn status_flags(fd: BorrowedFd<'_>) -> io::Result<libc::c_int> {
    // SAFETY: F_GETFL takes no argument.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })
}

/// Switches direct I/O of an open file (`O_DIRECT`) on or off. Always switches `O_NONBLOCK` off, with which
/// operations would fail instead of waiting.
pub(crate) fn set_direct(fd: BorrowedFd<'_>, direct: bool) -> io::Result<()> {
    let flags = status_flags(fd)?;
    let wanted = flags & !(libc::O_DIRECT | libc::O_NONBLOCK) | if direct { libc::O_DIRECT } else { 0 };
    if wanted != flags {
        // SAFETY: F_SETFL takes the flags as an int.
        check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, wanted) })?;
    }
    Ok(())
}

/// True if the open file was opened with `O_DIRECT`.
pub(crate) fn is_direct(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(status_flags(fd)? & libc::O_DIRECT != 0)
}

/// A file offset as the kernel's signed type.
fn offset(bytes: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))
}

/// Really allocates `[from, from + bytes)` of the file and makes the file at least that long.
///
/// Where the file system has no fallocate (EOPNOTSUPP), the caller has to write zeros.
pub(crate) fn allocate(fd: BorrowedFd<'_>, from: u64, bytes: u64) -> io::Result<()> {
    let (from, bytes) = (offset(from)?, offset(bytes)?);
    // SAFETY: takes a descriptor, which the borrow keeps open, and numbers.
    retry_interrupted(|| check(unsafe { libc::fallocate(fd.as_raw_fd(), 0, from, bytes) })).map(drop)
}

/// Drops the pages of the file that the system caches and that have no changes.
pub(crate) fn drop_cache(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes a descriptor, which the borrow keeps open, and numbers.
    match unsafe { libc::posix_fadvise(fd.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        // Unlike other calls, this one returns the error number.
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Sets the length of the file.
pub(crate) fn truncate(fd: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    let bytes = offset(bytes)?;
    // SAFETY: takes a descriptor, which the borrow keeps open, and a number.
    retry_interrupted(|| check(unsafe { libc::ftruncate(fd.as_raw_fd(), bytes) })).map(drop)
}

/// Makes the file's data durable; with `data_only`, only the metadata needed to read it back.
pub(crate) fn sync(fd: BorrowedFd<'_>, data_only: bool) -> io::Result<()> {
    let fd = fd.as_raw_fd();
    retry_interrupted(|| {
        if data_only {
            // SAFETY: takes a descriptor, which the caller's borrow keeps open.
            check(unsafe { libc::fdatasync(fd) })
        } else {
            // SAFETY: takes a descriptor, which the caller's borrow keeps open.
            check(unsafe { libc::fsync(fd) })
        }
    })
    .map(drop)
}

/// One positioned read into `pieces`; the number of bytes may be short, 0 is the end of the file.
///
/// # Safety
///
/// Each piece is valid for writes, and nobody else uses it during the call.
pub(crate) unsafe fn read_at(fd: BorrowedFd<'_>, pieces: &[libc::iovec], from: u64) -> io::Result<usize> {
    let count = pieces.len() as libc::c_int;
    // SAFETY: the pieces are valid for writes (our caller's duty), and `pieces` holds `count` of them.
    check_bytes(unsafe { libc::preadv(fd.as_raw_fd(), pieces.as_ptr(), count, offset(from)?) })
}

/// One positioned write from `pieces`; the number of bytes may be short.
///
/// # Safety
///
/// Each piece is valid for reads and initialized, and nobody writes it during the call.
pub(crate) unsafe fn write_at(fd: BorrowedFd<'_>, pieces: &[libc::iovec], from: u64) -> io::Result<usize> {
    let count = pieces.len() as libc::c_int;
    // SAFETY: the pieces are valid for reads (our caller's duty), and `pieces` holds `count` of them.
    check_bytes(unsafe { libc::pwritev(fd.as_raw_fd(), pieces.as_ptr(), count, offset(from)?) })
}

/// One positioned write of the first `bytes` bytes of `memory`, which nobody may be writing: it is
/// meant for mappings that their owner just made.
pub(crate) fn write_mapping_at(
    fd: BorrowedFd<'_>,
    memory: &Mapping,
    bytes: usize,
    from: u64,
) -> io::Result<usize> {
    assert!(bytes <= memory.len());
    let piece = libc::iovec { iov_base: memory.start().as_ptr().cast(), iov_len: bytes };
    // SAFETY: the piece lies within the mapping, which is initialized and outlives the call. The kernel
    // reads it; should somebody write it meanwhile, the kernel sees either byte.
    unsafe { write_at(fd, &[piece], from) }
}

/// An eventfd: a counter that wakes its reader.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
    // SAFETY: the kernel just made the descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The soft limit on locked memory in bytes (`RLIMIT_MEMLOCK`); `None` if unlimited or unknown.
pub(crate) fn memlock_limit_bytes() -> Option<u64> {
    soft_limit(libc::RLIMIT_MEMLOCK)
}

/// The soft limit on open files (`RLIMIT_NOFILE`); `None` if unlimited or unknown.
pub(crate) fn open_files_limit() -> Option<u64> {
    soft_limit(libc::RLIMIT_NOFILE)
}

/// How many addresses a process may still take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AddressSpace {
    /// No limit but the machine's.
    Unlimited,
    /// `RLIMIT_AS` is set. `None` if the system does not say how many are taken.
    Limited { limit_bytes: u64, left_bytes: Option<u64> },
}

/// The limit on the process's addresses (`RLIMIT_AS`), and what is left of them. Reads a file of `/proc`
/// where there is a limit.
pub(crate) fn address_space() -> AddressSpace {
    let Some(limit_bytes) = soft_limit(libc::RLIMIT_AS) else { return AddressSpace::Unlimited };
    let left_bytes = taken_address_bytes().map(|taken| limit_bytes.saturating_sub(taken));
    AddressSpace::Limited { limit_bytes, left_bytes }
}

fn taken_address_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().next()?.parse().ok()?;
    pages.checked_mul(system_page_bytes() as u64)
}

/// The size of the system's pages in bytes, 4 to 64 KiB.
fn system_page_bytes() -> usize {
    // SAFETY: takes a number.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(page_bytes).unwrap_or(4096)
}

fn soft_limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit fills the structure that the pointer names.
    let returned = unsafe { libc::getrlimit(resource, &raw mut limit) };
    (returned == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Anonymous zeroed memory from the kernel, private to this process, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is an owned range of memory; who may touch which part is for its users to say.
unsafe impl Send for Mapping {}
// SAFETY: methods that take `&self` only tell where the memory is and how long.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` (not 0) bytes. The start is page-aligned, and from 2 MiB on a multiple of 2 MiB; huge
    /// pages are advised then. The child of a fork has zeros there, in memory of its own, because it must
    /// not share memory that its parent has I/O in flight on.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        if bytes < HUGE_PAGE_BYTES {
            let start = map(bytes)?;
            return Ok(Self { start, bytes }.advised());
        }
        let padded = bytes.checked_add(HUGE_PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let start = map(padded)?;
        let before = start.as_ptr().align_offset(HUGE_PAGE_BYTES);
        let page_bytes = system_page_bytes();
        let kept = bytes.next_multiple_of(page_bytes);
        unmap(start, before);
        // SAFETY: `before` is below the padding, so both ends stay within the mapping.
        let aligned = unsafe { start.add(before) };
        // SAFETY: `before + kept` is at most `padded`: both parts of the padding are multiples of a page.
        let end = unsafe { aligned.add(kept) };
        unmap(end, padded.next_multiple_of(page_bytes) - before - kept);
        Ok(Self { start: aligned, bytes }.advised())
    }

    /// The result is ignored: this is advice to the kernel, and a refusal only costs speed.
    fn advised(self) -> Self {
        let start = self.start.as_ptr().cast();
        if !wipe_on_fork(self.start, self.bytes) {
            // SAFETY: the range is ours; DONTFORK changes nothing for this process.
            let _ = unsafe { libc::madvise(start, self.bytes, libc::MADV_DONTFORK) };
        }
        advise_huge_pages(self.start, self.bytes);
        self
    }

    /// Its first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unmap(self.start, self.bytes);
    }
}

/// Tells the process that made it apart from children that are forked from it.
///
/// It is a word in memory that the kernel wipes in a child. So even a later process with the parent's number
/// is told apart, and nothing has to be called when a process forks.
#[derive(Debug)]
pub(crate) struct ForkMark {
    page: Mapping,
    process: u32,
    /// Linux before 4.14 does not wipe; there the number of the process decides.
    is_wiped: bool,
}

impl ForkMark {
    const BYTES: usize = 4096;

    /// The mark of the calling process.
    pub(crate) fn new() -> io::Result<Self> {
        let page = Mapping { start: map(Self::BYTES)?, bytes: Self::BYTES };
        let is_wiped = wipe_on_fork(page.start, page.bytes);
        let mark = Self { page, process: std::process::id(), is_wiped };
        mark.word().store(1, Ordering::Relaxed);
        Ok(mark)
    }

    /// Whether the calling process made it.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.word().load(Ordering::Relaxed) != 0 && (self.is_wiped || self.process == std::process::id())
    }

    /// The process that made it.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    #[inline]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: the page is mapped as long as the mark lives, aligned, zeroed by the kernel, and changed
        // through this word only.
        unsafe { self.page.start.cast().as_ref() }
    }
}

/// Reserved addresses, which nothing else in the process gets. A front part of them, which can grow, is
/// zeroed memory. Unmapped when dropped.
#[derive(Debug)]
#[cfg_attr(bufpool_loom, allow(dead_code))] // The models make their words one by one.
pub(crate) struct Reservation {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a reservation is an owned range of addresses; who may touch which part is for its users to say.
unsafe impl Send for Reservation {}
// SAFETY: methods that take `&self` tell where the range is, and make more of it writable by system calls,
// which threads may make at the same time.
unsafe impl Sync for Reservation {}

#[cfg_attr(bufpool_loom, allow(dead_code))]
impl Reservation {
    /// Reserves `bytes` (not 0) addresses, page-aligned. They read as zeros; in the child of a fork all of
    /// them do. Takes no memory, except for the kernel's own tables where it is read (everywhere if the
    /// process locks all its memory: a five hundredth), and counts against no limit but that on addresses.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let reservation = Self { start: map_with(bytes, libc::PROT_READ, libc::MAP_NORESERVE)?, bytes };
        wipe_on_fork(reservation.start, reservation.bytes);
        Ok(reservation)
    }

    /// Makes the first `bytes` bytes writable memory, as far as they are not yet. Huge pages are advised if
    /// a huge page fits.
    ///
    /// # Panics
    ///
    /// If fewer are reserved.
    pub(crate) fn open_up(&self, bytes: usize) -> io::Result<()> {
        assert!(bytes <= self.bytes);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range is ours, and nothing in it becomes less accessible than it was.
        check(unsafe { libc::mprotect(self.start.as_ptr().cast(), bytes, protection) })?;
        advise_huge_pages(self.start, bytes);
        Ok(())
    }

    /// The first address.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        unmap(self.start, self.bytes);
    }
}

fn map(bytes: usize) -> io::Result<NonNull<u8>> {
    map_with(bytes, libc::PROT_READ | libc::PROT_WRITE, 0)
}

fn map_with(bytes: usize, protection: libc::c_int, more_flags: libc::c_int) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | more_flags;
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Makes a range of our own, of anonymous memory, read as zeros in the child of a fork. False if the kernel
/// cannot (Linux before 4.14).
fn wipe_on_fork(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the range is the caller's; WIPEONFORK changes nothing for this process.
    unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_WIPEONFORK) == 0 }
}

/// Size of a huge page on the machines that matter; larger [mappings](Mapping) start at a multiple of it.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Advises huge pages for a range of our own in which one fits. A refusal only costs speed.
fn advise_huge_pages(start: NonNull<u8>, bytes: usize) {
    if bytes >= HUGE_PAGE_BYTES {
        // SAFETY: the range is the caller's; HUGEPAGE changes only how it is backed.
        let _ = unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
    }
}

/// Unmaps a range of our own. Does nothing if `bytes` is 0.
fn unmap(start: NonNull<u8>, bytes: usize) {
    if bytes > 0 {
        // SAFETY: callers are `Mapping::new` and what drops a mapping or a reservation, which own the range
        // and do not use it again.
        let returned = unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
        debug_assert_eq!(returned, 0);
    }
}

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and its registration, from linux/membarrier.h.
const MEMBARRIER_PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Whether [`barrier_everywhere`] reaches the process's other threads.
pub(crate) fn has_membarrier() -> bool {
    static REGISTERED: std::sync::LazyLock<bool> =
        std::sync::LazyLock::new(|| membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED));
    *REGISTERED
}

/// A full memory barrier on every processor that runs a thread of this process. If the kernel offers none, a
/// barrier of the caller only.
pub(crate) fn barrier_everywhere() {
    if !(has_membarrier() && membarrier(MEMBARRIER_PRIVATE_EXPEDITED)) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes three numbers and touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// A function for threads to call when they end, one for the whole process.
pub(crate) struct ThreadEnd {
    end: fn(),
    key: std::sync::OnceLock<Option<libc::pthread_key_t>>,
}

impl ThreadEnd {
    pub const fn new(end: fn()) -> Self {
        Self { end, key: std::sync::OnceLock::new() }
    }

    /// Makes the calling thread call the function when it ends, after all its thread-local variables are
    /// dropped. It may be called from within a destructor of a key of `pthread_key_create`; then the
    /// function is called in the next round of such destructors. False if that is impossible.
    pub fn call_in_this_thread(&'static self) -> bool {
        extern "C" fn call(this: *mut libc::c_void) {
            // SAFETY: the value that was set below, of a key with this destructor, and static.
            let this = unsafe { &*this.cast::<ThreadEnd>() };
            (this.end)();
        }

        let key = self.key.get_or_init(|| {
            let mut key = 0;
            // SAFETY: `key` is valid for the call, and the destructor is for the values that are set below.
            let made = unsafe { libc::pthread_key_create(&mut key, Some(call)) };
            (made == 0).then_some(key)
        });
        let Some(key) = key else { return false };
        // SAFETY: the key was made and is never deleted.
        unsafe { libc::pthread_setspecific(*key, std::ptr::from_ref(self).cast()) == 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_copy_past_the_caches_is_a_copy() {
        let from: Vec<u8> = (0..8192).map(|at| (at % 251) as u8).collect();
        let mut to = vec![0; 8192 + 32];
        // Aligned or not, and with an end that is no whole part.
        for (start, len) in [(0, 8192), (0, 4096), (16, 64), (3, 4096), (0, 100), (5, 0)] {
            for shift in [0, 1, 16] {
                to.fill(0);
                copy_uncached(&mut to[start..start + len], &from[shift.min(8192 - len)..][..len]);
                assert_eq!(to[start..start + len], from[shift.min(8192 - len)..][..len]);
                assert!(to[..start].iter().chain(&to[start + len..]).all(|&byte| byte == 0));
            }
        }
    }

    #[test]
    fn mapping_is_aligned_and_zeroed() {
        for bytes in [4096, 12_288, 2 << 20, (6 << 20) + 4096] {
            let mapping = Mapping::new(bytes).unwrap();
            let alignment = if bytes < 2 << 20 { 4096 } else { 2 << 20 };
            assert_eq!(mapping.start().as_ptr().align_offset(alignment), 0);
            // SAFETY: the mapping is `bytes` long, initialized by the kernel, and ours alone.
            let memory = unsafe { std::slice::from_raw_parts_mut(mapping.start().as_ptr(), mapping.len()) };
            assert!(memory.iter().all(|&byte| byte == 0));
            memory[bytes - 1] = 1;
        }
    }

    #[test]
    fn a_reservation_is_memory_as_far_as_it_was_opened_up() {
        let reservation = Reservation::new(1 << 30).unwrap();
        for bytes in [4096, 12_288, 4096] {
            reservation.open_up(bytes).unwrap();
            // SAFETY: just opened up, initialized by the kernel, and ours alone.
            let memory = unsafe { std::slice::from_raw_parts_mut(reservation.start().as_ptr(), bytes) };
            assert_eq!(std::mem::replace(&mut memory[bytes - 1], 0), 0);
        }
        assert!(Reservation::new(1 << 60).is_err());
    }

    #[test]
    fn a_second_exclusive_lock_is_refused_until_the_first_is_given_up() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = file.reopen().unwrap();
        type Try = fn(BorrowedFd<'_>, bool) -> io::Result<bool>;
        type Unlock = fn(BorrowedFd<'_>) -> io::Result<()>;
        let kinds: [(Try, Unlock); 2] = [(try_flock, unlock_flock), (try_ofd_lock, unlock_ofd)];
        for (try_lock, unlock) in kinds {
            assert!(try_lock(file.as_file().as_fd(), true).unwrap());
            assert!(!try_lock(other.as_fd(), false).unwrap());
            unlock(file.as_file().as_fd()).unwrap();
            assert!(try_lock(other.as_fd(), false).unwrap());
            assert!(try_lock(file.as_file().as_fd(), false).unwrap());
            unlock(file.as_file().as_fd()).unwrap();
            unlock(other.as_fd()).unwrap();
        }
    }

    #[test]
    fn allocate_gives_blocks_not_a_hole() {
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::tempfile().unwrap();
        match allocate(file.as_fd(), 0, 1 << 20) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return,
            other => other.unwrap(),
        }
        let metadata = file.metadata().unwrap();
        assert_eq!(metadata.len(), 1 << 20);
        assert!(metadata.blocks() * 512 >= 1 << 20);
        truncate(file.as_fd(), 4096).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4096);
    }
}
