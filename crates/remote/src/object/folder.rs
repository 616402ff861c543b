//! Chunks that are files of a folder, read without the store's client.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::path::Path;

use bufpool::source::ReadRequest;
use rustix::io::{Errno, preadv};

use super::chunk::{ENVELOPE_BYTES, check_envelope};
use super::landing::Part;

/// Most pieces of one call (`UIO_MAXIOV`).
const PIECES_MAX: usize = 1024;

/// Reads a part from the file of its chunk straight into the memory of the request. False if it is not there
/// as it must be, or cannot be read.
pub(super) fn read(chunk: &Path, part: &Part, request: &mut ReadRequest, page_bytes: u32) -> bool {
    let first = part.pages.start - request.offset() / u64::from(page_bytes);
    let mut pages: Vec<&mut [u8]> = request
        .pieces()
        .flat_map(|piece| piece.chunks_exact_mut(page_bytes as usize))
        .skip(first as usize)
        .take((part.pages.end - part.pages.start) as usize)
        .collect();
    let mut envelopes = vec![[0; ENVELOPE_BYTES]; pages.len()];
    let framed = envelopes.iter_mut().zip(&mut pages);
    let mut slices: Vec<_> =
        framed.flat_map(|(envelope, page)| [IoSliceMut::new(envelope), IoSliceMut::new(page)]).collect();
    let range = part.range(page_bytes);
    let Ok(file) = File::open(chunk) else { return false };
    if !read_all(&file, &mut slices, range.start).is_ok_and(|read| read == range.end - range.start) {
        return false;
    }
    part.pages.clone().zip(envelopes).zip(pages).all(|((number, envelope), page)| {
        let sum = crc32c::crc32c_append(part.id.checksum(number), page);
        check_envelope(&envelope, number, sum).is_ok()
    })
}

/// Fills `slices` from `offset` on, or as much of them as the file has bytes for. Returns how many bytes it
/// has.
fn read_all(file: &File, mut slices: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<u64> {
    let mut read = 0;
    while !slices.is_empty() {
        let pieces = slices.len().min(PIECES_MAX);
        match preadv(file, &mut slices[..pieces], offset + read) {
            Ok(0) => break,
            Ok(more) => {
                IoSliceMut::advance_slices(&mut slices, more);
                read += more as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(read)
}
