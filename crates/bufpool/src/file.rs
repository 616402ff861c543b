//! Open files and names of pages.

use std::ops::Range;

use bufpool_policies::{FileId, PageId};

use crate::error::Result;

/// An open file of a pool. Cloning gives another handle to the same file.
#[derive(Clone)]
pub struct File {}

/// A page of a file: a handle and a number, free to copy.
#[derive(Clone, Copy)]
pub struct Page<'f> {
    file: &'f File,
    number: u64,
}

impl<'f> Page<'f> {
    /// The file the page belongs to.
    pub fn file(self) -> &'f File {
        self.file
    }

    /// The page's number within its file, from 0.
    pub fn number(self) -> u64 {
        self.number
    }

    /// The page's name in traces and policies.
    pub fn id(self) -> PageId {
        PageId::in_file(self.file.id(), self.number)
    }
}

impl File {
    /// Names page `number`; nothing is checked or read yet.
    pub fn page(&self, number: u64) -> Page<'_> {
        Page { file: self, number }
    }

    /// How many pages the file has.
    pub fn pages(&self) -> u64 {
        unreachable!()
    }

    /// Bytes of a page of the file's pool.
    pub fn page_bytes(&self) -> usize {
        unreachable!()
    }

    /// The file's number in this pool.
    pub fn id(&self) -> FileId {
        unreachable!()
    }

    /// The name given at opening.
    pub fn name(&self) -> &str {
        unreachable!()
    }

    /// Adds `pages` pages of zeros at the end and returns their numbers. Space is really allocated.
    pub fn extend(&self, _pages: u64) -> Result<Range<u64>> {
        unreachable!()
    }

    /// Shortens the file to `pages` pages; what it drops is not written.
    pub fn truncate(&self, _pages: u64) -> Result<()> {
        unreachable!()
    }

    /// Drops the pages of a range from memory, dirty ones unwritten.
    pub fn discard(&self, _pages: Range<u64>) -> Result<()> {
        unreachable!()
    }

    /// Drops all pages and removes the file.
    pub fn remove(self) -> Result<()> {
        unreachable!()
    }

    /// Writes every dirty page of the file and makes the file durable.
    pub fn flush(&self) -> Result<()> {
        unreachable!()
    }

    /// Writes one page, if it is dirty, and makes it durable.
    pub fn flush_page(&self, _number: u64) -> Result<()> {
        unreachable!()
    }

    /// Flushes the file, drops its pages and gives up its lock.
    pub fn close(self) -> Result<()> {
        unreachable!()
    }
}
