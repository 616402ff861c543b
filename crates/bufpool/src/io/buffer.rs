//! Memory that the kernel, or a thread doing its work, reads or writes while an operation runs.
//!
//! All pointer arithmetic of the I/O layer is here. A [`Buffer`] is a promise made once, by the owner of the
//! memory (the arena, the write buffers), and relied on until the operation has completed.

use std::ptr::NonNull;

/// A piece of memory lent to one operation.
///
/// It says where the bytes are, not whose they are: the operation's [`Completion`](super::Completion)
/// owns the frame, and gets it back when it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)] // The layout of `iovec`; see `Buffer::iovecs`.
pub(crate) struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
}

const _: () = assert!(size_of::<Buffer>() == size_of::<libc::iovec>());

// SAFETY: a buffer is an address and a length; the promise of `Buffer::new` (valid, and not used
// by others in a conflicting way until completion) does not depend on the thread that relies on it.
unsafe impl Send for Buffer {}
// SAFETY: a buffer is `Copy`, so a shared reference allows nothing that a sent copy does not.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// The `bytes` bytes from `start`.
    ///
    /// # Safety
    ///
    /// From now until the operation that carries the buffer has called its completion (or, for
    /// [`Backend::run`](super::Backend::run), returned), the memory stays mapped and initialized,
    /// nobody else writes it, and for a read nobody else reads it either.
    pub(crate) unsafe fn new(start: NonNull<u8>, bytes: usize) -> Self {
        Self { start, bytes }
    }

    /// Length in bytes.
    pub(crate) fn len(self) -> usize {
        self.bytes
    }

    /// The address of the first byte.
    pub(crate) fn start(self) -> NonNull<u8> {
        self.start
    }

    /// This buffer and `next` as one, if they touch and belong to one mapping: both come from the same arena.
    pub(crate) fn joined(self, next: Self) -> Option<Self> {
        let end = self.start.as_ptr().wrapping_add(self.bytes);
        std::ptr::eq(end, next.start.as_ptr())
            .then_some(Self { start: self.start, bytes: self.bytes + next.bytes })
    }

    /// The buffer without its first `bytes` bytes (at most its length).
    pub(crate) fn skip(self, bytes: usize) -> Self {
        assert!(bytes <= self.len());
        // SAFETY: `bytes` is within the buffer, which `Buffer::new` was promised to be one valid range.
        let start = unsafe { self.start.add(bytes) };
        Self { start, bytes: self.bytes - bytes }
    }

    /// The first `bytes` bytes of the buffer (at most its length).
    #[cfg(test)]
    pub(crate) fn first(self, bytes: usize) -> Self {
        assert!(bytes <= self.len());
        Self { start: self.start, bytes }
    }

    /// The buffers as the kernel wants them.
    pub(crate) fn iovecs(buffers: &[Self]) -> &[libc::iovec] {
        // SAFETY: both types are a pointer and a `size_t`, in this order (`repr(C)`), so a slice of one
        // is a slice of the other; making an iovec promises nothing about the memory.
        unsafe { std::slice::from_raw_parts(buffers.as_ptr().cast(), buffers.len()) }
    }

    /// The bytes, for a source that reads into them.
    ///
    /// # Safety
    ///
    /// The operation is a read that is not complete, and nobody else has a slice of the buffer during `'a`.
    pub(super) unsafe fn lend_mut<'a>(self) -> &'a mut [u8] {
        // SAFETY: valid, initialized, and used by nobody but the operation (`Buffer::new`), within which the
        // caller has the only slice.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// The bytes, for a source that writes them.
    ///
    /// # Safety
    ///
    /// The operation is a write that is not complete during `'a`.
    pub(super) unsafe fn lend<'a>(self) -> &'a [u8] {
        // SAFETY: valid, initialized and not written by anyone while the operation runs (`Buffer::new`).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Fills the buffer with zeros: the part of a read that is beyond the end of a file of bytes.
    pub(super) fn fill_zeros(self) {
        // SAFETY: the range is valid for writes and nobody else uses it while the operation runs
        // (`Buffer::new`); a slice that somebody could still read does not overlap it for the same reason.
        unsafe { self.start.as_ptr().write_bytes(0, self.bytes) }
    }

    /// Copies `bytes` to the front of the buffer, as a read does.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn fill(self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len());
        // SAFETY: the range is valid for writes and nobody else uses it while the operation runs
        // (`Buffer::new`); a slice that somebody could still read does not overlap it for the same reason.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr(), bytes.len()) }
    }

    /// Appends a copy of the buffer to `out`, as a write does.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn append_to(self, out: &mut Vec<u8>) {
        // SAFETY: valid, initialized and not written by anyone while the operation runs (`Buffer::new`);
        // the slice ends with this statement, and the caller is the backend that runs the operation.
        out.extend_from_slice(unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len()) });
    }
}

/// The memory of one transfer: one piece, or several that are neighbours in the file.
#[derive(Clone, Debug)]
pub(crate) enum Buffers {
    /// One page, or a run of bytes in one piece.
    One(Buffer),
    /// Neighbouring pages in frames that are not neighbours.
    Many(Box<[Buffer]>),
}

impl Buffers {
    /// Most pieces of one attempt: what the kernel takes in one call (`UIO_MAXIOV`).
    pub(crate) const PIECES_MAX: usize = 1024;

    /// The pieces, in file order.
    pub(crate) fn pieces(&self) -> &[Buffer] {
        match self {
            Self::One(piece) => std::slice::from_ref(piece),
            Self::Many(pieces) => pieces,
        }
    }

    /// Bytes in all.
    pub(crate) fn len(&self) -> usize {
        self.pieces().iter().map(|piece| piece.len()).sum()
    }

    /// What is left when the first `done` bytes have been transferred.
    pub(crate) fn rest(&self, done: usize) -> impl Iterator<Item = Buffer> + '_ {
        let mut skip = done;
        self.pieces().iter().filter_map(move |piece| {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            (skipped < piece.len()).then(|| piece.skip(skipped))
        })
    }

    /// As [`Buffers::rest`], into `out`, which is cleared first: at most [`Buffers::PIECES_MAX`] pieces,
    /// the others being left to the next attempt.
    pub(crate) fn rest_into(&self, done: usize, out: &mut Vec<Buffer>) {
        out.clear();
        out.extend(self.rest(done).take(Self::PIECES_MAX));
    }

    /// Calls `use_rest` with what [`rest_into`](Self::rest_into) finds; a single piece needs no allocation.
    pub(crate) fn with_rest<R>(
        &self,
        done: usize,
        scratch: &mut Vec<Buffer>,
        use_rest: impl FnOnce(&[Buffer]) -> R,
    ) -> R {
        if let Self::One(piece) = self {
            return use_rest(&[piece.skip(done)]);
        }
        self.rest_into(done, scratch);
        use_rest(scratch)
    }
}

impl From<Buffer> for Buffers {
    fn from(piece: Buffer) -> Self {
        Self::One(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_skips_whole_and_partial_pieces() {
        let mut memory = [0_u8; 12];
        let start = NonNull::from(&mut memory).cast::<u8>();
        // SAFETY: the array outlives the buffer and nobody else uses it.
        let all = unsafe { Buffer::new(start, 12) };
        let piece = |from: usize, bytes: usize| Buffer { start: all.skip(from).start, bytes };
        let buffers = Buffers::Many([piece(0, 4), piece(4, 4), piece(8, 4)].into());
        assert_eq!(buffers.len(), 12);
        assert_eq!(buffers.rest(0).collect::<Vec<_>>(), [piece(0, 4), piece(4, 4), piece(8, 4)]);
        assert_eq!(buffers.rest(4).collect::<Vec<_>>(), [piece(4, 4), piece(8, 4)]);
        assert_eq!(buffers.rest(6).collect::<Vec<_>>(), [piece(6, 2), piece(8, 4)]);
        assert_eq!(buffers.rest(12).count(), 0);
        let mut scratch = Vec::new();
        for (buffers, done) in [(&buffers, 0), (&buffers, 6), (&all.into(), 0), (&all.into(), 6)] {
            let expected: Vec<Buffer> = buffers.rest(done).collect();
            assert_eq!(buffers.with_rest(done, &mut scratch, <[Buffer]>::to_vec), expected);
        }
        let iovecs = Buffer::iovecs(buffers.pieces());
        assert_eq!((iovecs[2].iov_base, iovecs[2].iov_len), (all.skip(8).start.as_ptr().cast(), 4));
    }
}
