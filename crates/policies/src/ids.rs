//! Newtypes for the things a decision is about, so that two integers can never be swapped, and the ranges of
//! numbers that several modules check.

use std::{fmt, ops::RangeInclusive};

/// A page, in one 64-bit space over all files.
///
/// The simulator uses a trace's block number as it is; the live pool packs file and page number
/// into it with [`PageId::in_file`]. Policies only compare, hash and order it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u64);

impl PageId {
    /// Bits of a packed page id that hold the page's number within its file.
    pub const NUMBER_BITS: u32 = 40;

    /// Packs `file`, below 2^24, and `number`, below 2^40. Debug builds panic if one is larger.
    #[inline]
    pub const fn in_file(file: FileId, number: u64) -> Self {
        debug_assert!(file.0 < 1 << (64 - Self::NUMBER_BITS) && number < 1 << Self::NUMBER_BITS);
        Self(((file.0 as u64) << Self::NUMBER_BITS) | number)
    }

    /// The file of a packed page id.
    #[inline]
    pub const fn file(self) -> FileId {
        FileId((self.0 >> Self::NUMBER_BITS) as u32)
    }

    /// The page number of a packed page id.
    #[inline]
    pub const fn number(self) -> u64 {
        self.0 & ((1 << Self::NUMBER_BITS) - 1)
    }
}

impl fmt::Debug for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageId({})", self.0)
    }
}

impl FileId {
    /// The highest number of a file.
    pub const MAX: Self = Self((1 << (u64::BITS - PageId::NUMBER_BITS)) - 1);
}

/// Declares a newtype over an unsigned integer that indexes a table.
macro_rules! index_type {
    ($(#[$doc:meta])* $name:ident($repr:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub $repr);

        impl $name {
            /// The index as `usize`.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index_type! {
    /// A page frame: an index into every per-frame array. It is below the number of frames with spare ones
    /// included, because pages may also lie in frames of a pool's clean reserve.
    FrameId(u32)
}
index_type! {
    /// A tenant: a table, a query, a thread, a customer; whatever the engine isolates.
    TenantId(u32)
}
index_type! {
    /// An account: the part of the ledger that one tenant has, or that several have in common.
    AccountId(u32)
}
index_type! {
    /// A file. It can have a priority, and together with a context it identifies a stream.
    FileId(u32)
}
index_type! {
    /// The program context of an access: a call site, combined with the scopes around it. 0 is unknown.
    ContextId(u32)
}

/// Frames that a directory can have, [spare](crate::Directory::add_spares) ones included: their numbers have
/// 24 bits.
pub const FRAMES_MAX: u32 = (1 << 24) - 1;

/// The priorities that a file or a range of pages can have, each a level of its tenant.
pub const PRIORITIES: RangeInclusive<i32> = -32..=31;

/// One access, as policies see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The page accessed.
    pub page: PageId,
    /// The file of the page.
    pub file: FileId,
    /// Who accesses it.
    pub tenant: TenantId,
    /// From where it is accessed.
    pub context: ContextId,
    /// Whether it replaces the page's contents as a whole, so that a miss reads nothing.
    pub creates: bool,
}
