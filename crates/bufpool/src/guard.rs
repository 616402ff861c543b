//! Granted access to a page, as values.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::error::Result;
use crate::file::Page;

/// Shared access to a page; dereferences to its bytes. `!Send`.
pub struct ReadGuard<'g> {
    page: Page<'g>,
    not_send: PhantomData<*const ()>,
}

/// Exclusive access to a page; dereferences to its bytes, and makes it dirty when they are first borrowed mutably. `!Send`.
pub struct WriteGuard<'g> {
    page: Page<'g>,
    not_send: PhantomData<*const ()>,
}

/// Keeps a page in memory without latching it. `!Send`.
pub struct Pin<'g> {
    page: Page<'g>,
    not_send: PhantomData<*const ()>,
}

impl<'g> ReadGuard<'g> {
    /// The page.
    pub fn page(&self) -> Page<'g> {
        self.page
    }

    /// A pin on the page, which outlives the guard. Not an access of its own.
    pub fn pin(&self) -> Pin<'g> {
        unreachable!()
    }
}

impl Deref for ReadGuard<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        unreachable!()
    }
}

impl<'g> WriteGuard<'g> {
    /// The page.
    pub fn page(&self) -> Page<'g> {
        self.page
    }

    /// Notes the log sequence number of the last change: the page is not written before the log is durable up to it.
    pub fn set_lsn(&mut self, _lsn: u64) {
        unreachable!()
    }

    /// A pin on the page, which outlives the guard. Not an access of its own.
    pub fn pin(&self) -> Pin<'g> {
        unreachable!()
    }

    /// Turns exclusive into shared access without letting go.
    pub fn downgrade(self) -> ReadGuard<'g> {
        unreachable!()
    }
}

impl Deref for WriteGuard<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        unreachable!()
    }
}

impl DerefMut for WriteGuard<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        unreachable!()
    }
}

impl<'g> Pin<'g> {
    /// The page.
    pub fn page(&self) -> Page<'g> {
        self.page
    }

    /// Shared access to the pinned page.
    #[track_caller]
    pub fn read(&self) -> Result<ReadGuard<'_>> {
        unreachable!()
    }

    /// Exclusive access to the pinned page.
    #[track_caller]
    pub fn write(&self) -> Result<WriteGuard<'_>> {
        unreachable!()
    }
}
