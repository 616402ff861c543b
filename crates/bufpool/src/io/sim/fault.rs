//! What happens to calls that are to fail.

use crate::io::error::IoOperation;

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimFault {
    /// The kind of call.
    pub operation: IoOperation,
    /// Its number among calls of this kind, from 1, counted since the device was made.
    pub nth: u64,
    /// How it fails.
    pub failure: SimFailure,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimFailure {
    /// EIO, without effect.
    Io,
    /// ENOSPC, without effect.
    NoSpace,
    /// Any other error number, without effect. EINTR, EAGAIN and ECANCELED are tried again by the pool.
    Os(i32),
    /// A read or write moves at most this many bytes and reports how many. Does nothing to other calls.
    Short(usize),
    /// EIO, after a random subset of the sectors of a write has been written. As `Io` for other calls.
    Torn,
    /// EIO of a sync that loses what it was to make durable, as Linux does with a buffered file. Any part of
    /// that is on the device, and no later sync writes the rest. Reads show all of it as it was written
    /// until the cache of the file is dropped, as [`File::reopen`](crate::File::reopen) does. As `Io` for
    /// other calls.
    Lost,
}
