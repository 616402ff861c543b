//! Open files and names of pages, as handles have them.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};

use bufpool_policies::{FileId, PageId};

use crate::error::{Error, Result};
use crate::files::shared::FileShared;
use crate::handle::keeper::{self, Keeper};
use crate::handle::pool::PoolHandle;
use crate::hits::fast_path::FastPath;
use crate::thread::site::PageClass;

/// An open file of a pool. Cloning gives another handle to the same file.
///
/// Dropping the last handle leaves the file open in the pool: its pages stay cached, dirty ones are still
/// written by [`Pool::checkpoint`](crate::Pool::checkpoint) and [`Pool::close`](crate::Pool::close), and
/// opening the same path again gives it back. [`File::close`] ends that. Owned guards and pins, futures until
/// they are dropped, and [`Hints`](crate::Hints) that have been read have handles of their own: while one of
/// them is left, [`Pool::open_file`](crate::Pool::open_file) fails with
/// [`ErrorKind::FileAlreadyOpen`](crate::ErrorKind::FileAlreadyOpen), and
/// [`Pool::open_or_share`](crate::Pool::open_or_share) gives another handle.
///
/// # What others see of `close`, `remove`, `reopen` and `truncate`
///
/// Others see nothing before the outcome is decided, and nothing at all of an operation that fails. Meanwhile
/// an access of another thread is served, or waits as for a latch: `latch_wait_ms` at most, or its own limit.
/// `try_` forms return `None` at once, futures are pending, prefetches are not begun. After the decision the
/// access is served, by the reopened file after a `reopen`, or gets
/// [`ErrorKind::FileClosed`](crate::ErrorKind::FileClosed) or
/// [`ErrorKind::PageBeyondEnd`](crate::ErrorKind::PageBeyondEnd). The operation itself waits for pages that
/// others hold, `latch_wait_ms` in all. From time to time it releases the pages that it holds, so a thread
/// that holds one page and asks for another does not wait for an operation that waits for it. Operations on
/// one file, and [`File::extend`], take turns; one that waits for its turn longer than `latch_wait_ms` fails
/// with [`ErrorKind::LatchTimeout`](crate::ErrorKind::LatchTimeout).
pub struct File {
    pub(crate) pool: PoolHandle,
    pub(crate) shared: Arc<FileShared>,
    /// The parts of file and pool that a hit reads.
    pub(crate) hot: FastPath,
    /// The handle that owned guards and pins share, made for the first of them.
    pub(super) keeper: OnceLock<Arc<File>>,
    /// A reference to itself, if this is such a handle.
    me: Weak<File>,
}

/// A page of a file: a borrowed handle and a number, free to copy.
#[derive(Clone, Copy)]
pub struct Page<'f> {
    file: &'f File,
    number: u64,
}

/// A page with the class that the engine has given it; see [`Page::class`].
#[derive(Clone, Copy)]
pub struct ClassedPage<'f> {
    page: Page<'f>,
    class: PageClass,
}

/// What the access functions of a [`Tenant`](crate::Tenant) take: a [`Page`], or one with its
/// [class](Page::class).
pub trait AnyPage<'f>: Copy + sealed::Sealed {
    /// The page.
    fn page(self) -> Page<'f>;

    #[doc(hidden)]
    fn number_of_class(self) -> u8;
}

mod sealed {
    /// No other types are pages.
    pub trait Sealed {}

    impl Sealed for super::Page<'_> {}
    impl Sealed for super::ClassedPage<'_> {}
}

impl<'f> AnyPage<'f> for Page<'f> {
    #[inline(always)]
    fn page(self) -> Page<'f> {
        self
    }

    #[inline(always)]
    fn number_of_class(self) -> u8 {
        PageClass::NONE.0
    }
}

impl<'f> AnyPage<'f> for ClassedPage<'f> {
    #[inline(always)]
    fn page(self) -> Page<'f> {
        self.page
    }

    #[inline(always)]
    fn number_of_class(self) -> u8 {
        self.class.0
    }
}

impl<'f> ClassedPage<'f> {
    /// The page.
    #[inline]
    pub fn page(self) -> Page<'f> {
        self.page
    }

    /// The class given with [`Page::class`].
    #[inline]
    pub fn class(self) -> u8 {
        self.class.0
    }
}

impl fmt::Debug for ClassedPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, class {}", self.page, self.class.0)
    }
}

impl<'f> Page<'f> {
    /// The file the page belongs to.
    #[inline]
    pub fn file(self) -> &'f File {
        self.file
    }

    /// The page's number within its file, from 0.
    #[inline]
    pub fn number(self) -> u64 {
        self.number
    }

    /// The same page, said to be of a class: what the engine knows it for, such as root, inner page, leaf,
    /// heap or temporary page, each by a number of the engine's own; 0 is none.
    ///
    /// The class of an access is part of its context, beside call site and scopes. The automatic manager and
    /// read-ahead learn each class separately, and statistics count each separately; the page has the class
    /// that the latest access named. A class says what pages have in common, and promises nothing. A pin
    /// keeps the class that its page was given, unless it was made of a guard; prefetches and [disclosed
    /// reads](crate::Tenant::hint) have none. Accesses that name no class are not slower because others do.
    ///
    /// ```
    /// # fn run(tenant: &bufpool::Tenant, file: &bufpool::File) -> bufpool::Result<()> {
    /// const INNER: u8 = 1;
    /// const LEAF: u8 = 2;
    /// let inner = tenant.read(file.page(7).class(INNER))?;
    /// # drop(inner);
    /// let leaf = tenant.read(file.page(99).class(LEAF))?;
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[must_use = "the page itself stays as it is"]
    pub fn class(self, class: u8) -> ClassedPage<'f> {
        ClassedPage { page: self, class: PageClass(class) }
    }

    /// The page's name in traces and policies. A number that is higher than a file can have gets the name of
    /// the last possible page.
    #[inline]
    pub fn id(self) -> PageId {
        let last = (1 << PageId::NUMBER_BITS) - 1;
        PageId::in_file(self.file.id(), self.number.min(last))
    }

    /// Adds this page and its file to the error.
    #[cold]
    pub(crate) fn named_in(self, error: Error) -> Error {
        error.in_file(self.file.name()).at_page(self.number)
    }

    /// Checks that the page's file is optimistic, or that it is not, as `expected`.
    #[inline]
    pub(crate) fn check_optimistic(self, expected: bool, operation: &'static str) -> Result<()> {
        let checked = self.file.shared.check_optimistic(expected, operation);
        checked.map_err(|error| self.named_in(error))
    }
}

impl fmt::Debug for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} of {}", self.number, self.file.name())
    }
}

impl Clone for File {
    fn clone(&self) -> Self {
        Self::new(self.pool.clone(), Arc::clone(&self.shared))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // In the child of a fork nothing was given up.
        if self.is_keeper() && self.pool.owner.is_here() {
            keeper::note_gone();
        }
        match self.keeper.take() {
            // Both count as one handle, which ends with the last share.
            Some(keeper) => keeper::give_up(&keeper),
            None => _ = self.shared.handles.fetch_sub(1, Ordering::Release),
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({}, {} pages)", self.name(), self.pages())
    }
}

impl File {
    pub(crate) fn new(pool: PoolHandle, shared: Arc<FileShared>) -> Self {
        shared.handles.fetch_add(1, Ordering::Relaxed);
        Self::uncounted(pool, shared)
    }

    /// A handle that ends the count of another one.
    fn uncounted(pool: PoolHandle, shared: Arc<FileShared>) -> Self {
        // SAFETY: the file is one of this pool's, and its table lives as long as the handle has a share of
        // it.
        let hot = unsafe { FastPath::new(&pool.hot, &shared.table, shared.optimistic) };
        Self { pool, shared, hot, keeper: OnceLock::new(), me: Weak::new() }
    }

    /// Whether this handle was made for guards and pins that borrow nothing.
    fn is_keeper(&self) -> bool {
        !self.me.ptr_eq(&Weak::new())
    }

    /// A share of the handle for guards and pins that borrow nothing.
    #[inline(always)]
    pub(crate) fn keeper(&self) -> Keeper {
        self.keeper.get().map_or_else(|| self.find_keeper(), Keeper::of)
    }

    #[cold]
    fn find_keeper(&self) -> Keeper {
        let new = || {
            Arc::new_cyclic(|me| {
                let mut keeper = Self::uncounted(self.pool.clone(), Arc::clone(&self.shared));
                keeper.me = Weak::clone(me);
                keeper
            })
        };
        match self.me.upgrade() {
            Some(me) => Keeper::from(me),
            None => Keeper::of(self.keeper.get_or_init(new)),
        }
    }

    /// Names page `number`; nothing is checked or read yet.
    #[inline]
    pub fn page(&self, number: u64) -> Page<'_> {
        Page { file: self, number }
    }

    /// How many pages the file has.
    #[inline]
    pub fn pages(&self) -> u64 {
        self.shared.gate.pages()
    }

    /// Bytes of a page of the file's pool.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.pool.page_bytes
    }

    /// The file's number in this pool.
    #[inline]
    pub fn id(&self) -> FileId {
        self.shared.id
    }

    /// Whether a write or sync has failed: the file takes no more writes until it is
    /// [reopened](Self::reopen).
    pub fn is_poisoned(&self) -> bool {
        self.shared.is_poisoned()
    }

    /// Whether it was closed or removed, by any of its handles: calls fail with
    /// [`ErrorKind::FileClosed`](crate::ErrorKind::FileClosed).
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// The path given at opening, or a name made from the descriptor.
    pub fn name(&self) -> &str {
        &self.shared.name
    }
}
