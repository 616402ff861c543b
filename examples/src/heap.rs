//! A heap file: fixed-size tuples in no order, each with an address that stays valid.
//!
//! [`HeapFile::load`] fills page after page, [`HeapFile::insert`] adds one tuple. Readers take a whole page
//! with [`HeapFile::page`] and go through its tuples under one latch.

mod page;

use std::sync::{Mutex, PoisonError};

use bufpool::{File, ReadGuard, Tenant, WriteGuard};

pub use self::page::{Format, HeapPage, Layout};
use crate::space::Space;
use crate::{Error, Result};

/// The address of a tuple: page and slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rid {
    /// Number of the page in its file.
    pub page: u64,
    /// Slot on the page.
    pub slot: u16,
}

impl Rid {
    /// As eight bytes, big-endian, for the value of an index: 48 bits of page, 16 of slot.
    pub fn to_bytes(self) -> [u8; 8] {
        debug_assert!(self.page < 1 << 48);
        (self.page << 16 | u64::from(self.slot)).to_be_bytes()
    }

    /// The address of which [`to_bytes`](Self::to_bytes) made these bytes.
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        let packed = u64::from_be_bytes(bytes);
        Self { page: packed >> 16, slot: packed as u16 }
    }
}

/// A file of fixed-size tuples.
///
/// Any number of threads may use it at once. An operation latches one page at a time, so it cannot deadlock.
pub struct HeapFile {
    file: File,
    format: Format,
    space: Space,
    /// The page that took the last insert: where the next one looks for room.
    tail: Mutex<Option<u64>>,
}

impl HeapFile {
    /// A heap file over an empty file, or over one that was written with the same layout and tuple size.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a tuple size of 0, or one that is too large for a page.
    pub fn new(file: File, layout: Layout, tuple_bytes: usize) -> Result<Self> {
        let page_bytes = file.page_bytes();
        let format = u16::try_from(tuple_bytes).ok().filter(|&bytes| bytes > 0);
        let format = format.map(|tuple_bytes| Format { layout, tuple_bytes });
        match format {
            Some(format) if format.capacity(page_bytes) > 0 => {
                let tail = Mutex::new(file.pages().checked_sub(1));
                Ok(Self { file, format, space: Space::new(), tail })
            }
            _ => Err(Error::Invalid(format!(
                "a tuple of {tuple_bytes} bytes: expected 1 or more, and at least one on a page of {page_bytes}"
            ))),
        }
    }

    /// The file below, for its directives.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file below, for removing or closing it.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Pages of the file.
    pub fn pages(&self) -> u64 {
        self.file.pages()
    }

    /// Tuples that fit on a page.
    pub fn tuples_per_page(&self) -> usize {
        self.format.capacity(self.file.page_bytes())
    }

    /// Adds tuples on new pages, and returns how many there were. All of these pages but the last are full.
    /// So tuple n of a file that was loaded once is on page n ÷ [`tuples_per_page`](Self::tuples_per_page),
    /// in the slot that is the remainder.
    ///
    /// Takes one creation for each page.
    ///
    /// # Errors
    /// As the pool's. What was loaded before the failure stays.
    ///
    /// # Panics
    /// If a tuple is not of the file's tuple size.
    #[track_caller]
    pub fn load<T: AsRef<[u8]>>(&self, tenant: &Tenant, tuples: impl IntoIterator<Item = T>) -> Result<u64> {
        let mut appender = self.appender(tenant);
        let mut loaded = 0;
        for tuple in tuples {
            appender.push(tuple.as_ref())?;
            loaded += 1;
        }
        appender.finish()?;
        Ok(loaded)
    }

    /// Adds tuples on new pages as they come; see [`load`](Self::load).
    pub fn appender<'t>(&'t self, tenant: &'t Tenant) -> Appender<'t> {
        Appender { heap: self, tenant, page: None }
    }

    /// Adds one tuple: on the page of the last one if there is room, else on a new page.
    ///
    /// # Errors
    /// As the pool's; [`Error::Format`] if the page is not a heap page of this format.
    ///
    /// # Panics
    /// If the tuple is not of the file's tuple size.
    #[track_caller]
    pub fn insert(&self, tenant: &Tenant, tuple: &[u8]) -> Result<Rid> {
        let tail = *self.tail();
        if let Some(number) = tail {
            let mut page = self.view(tenant.write(self.file.page(number))?, number)?;
            if let Some(slot) = page.insert(tuple) {
                return Ok(Rid { page: number, slot });
            }
        }
        let (number, mut page) = self.new_page(tenant)?;
        let slot = page.insert(tuple).expect("a new page has room");
        drop(page);
        *self.tail() = Some(number);
        Ok(Rid { page: number, slot })
    }

    /// A page, latched for reading: one access for all its tuples.
    ///
    /// # Errors
    /// As the pool's; [`Error::Format`] if the page is not a heap page of this format.
    #[track_caller]
    pub fn page<'t>(&'t self, tenant: &'t Tenant, number: u64) -> Result<HeapPage<ReadGuard<'t>>> {
        self.view(tenant.read(self.file.page(number))?, number)
    }

    /// Takes the bytes of page `number`, such as a guard from elsewhere, as a heap page.
    ///
    /// # Errors
    /// [`Error::Format`] if it is not a heap page of this format.
    pub fn view<B: std::ops::Deref<Target = [u8]>>(&self, page: B, number: u64) -> Result<HeapPage<B>> {
        HeapPage::open(page, self.format).ok_or_else(|| Error::Format {
            file: self.file.name().to_string(),
            page: number,
            expected: format!(
                "a {:?} heap page of {}-byte tuples",
                self.format.layout, self.format.tuple_bytes
            ),
        })
    }

    /// What `f` returns for the tuple at `rid`; `None` if there is none. One access.
    ///
    /// # Errors
    /// As [`page`](Self::page).
    #[track_caller]
    pub fn get<R>(&self, tenant: &Tenant, rid: Rid, f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        Ok(self.page(tenant, rid.page)?.tuple(rid.slot).map(f))
    }

    /// Lets `f` change the tuple at `rid`, and returns what `f` does; `None` if there is none. One access.
    ///
    /// # Errors
    /// As [`page`](Self::page).
    #[track_caller]
    pub fn update<R>(&self, tenant: &Tenant, rid: Rid, f: impl FnOnce(&mut [u8]) -> R) -> Result<Option<R>> {
        let mut page = self.view(tenant.write(self.file.page(rid.page))?, rid.page)?;
        Ok(page.tuple_mut(rid.slot).map(f))
    }

    /// Removes the tuple at `rid`; false if there is none. Its slot may be given to a later tuple.
    ///
    /// # Errors
    /// As [`page`](Self::page).
    #[track_caller]
    pub fn delete(&self, tenant: &Tenant, rid: Rid) -> Result<bool> {
        let mut page = self.view(tenant.write(self.file.page(rid.page))?, rid.page)?;
        Ok(page.delete(rid.slot))
    }

    /// A page that nobody uses, with its number.
    #[track_caller]
    fn new_page<'t>(&'t self, tenant: &'t Tenant) -> Result<(u64, HeapPage<WriteGuard<'t>>)> {
        let number = self.space.take(&self.file)?;
        let page = self.view(tenant.create(self.file.page(number))?, number)?;
        Ok((number, page))
    }

    fn tail(&self) -> std::sync::MutexGuard<'_, Option<u64>> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fills new pages of a heap file, and holds an exclusive latch on the page that is being filled; made by
/// [`HeapFile::appender`].
pub struct Appender<'t> {
    heap: &'t HeapFile,
    tenant: &'t Tenant,
    /// The page that takes the next tuple, unless it is full.
    page: Option<HeapPage<WriteGuard<'t>>>,
}

impl Appender<'_> {
    /// Adds a tuple.
    ///
    /// # Errors
    /// As the pool's; the tuple is then not added.
    ///
    /// # Panics
    /// If the tuple is not of the file's tuple size.
    #[track_caller]
    pub fn push(&mut self, tuple: &[u8]) -> Result<()> {
        let page = match &mut self.page {
            Some(page) => page,
            None => self.page.insert(self.heap.new_page(self.tenant)?.1),
        };
        page.insert(tuple).expect("a page is let go of when it is full");
        if page.is_full() {
            self.page = None;
        }
        Ok(())
    }

    /// Releases the last page and shortens the file to the pages that were filled.
    ///
    /// # Errors
    /// As the pool's.
    pub fn finish(mut self) -> Result<()> {
        self.page = None;
        self.heap.space.give_back(&self.heap.file)?;
        *self.heap.tail() = self.heap.pages().checked_sub(1);
        Ok(())
    }
}
