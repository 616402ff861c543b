//! The trait of backends, and of what they are given to do.

use std::fmt;
use std::ptr::NonNull;

use bufpool_policies::TenantId;

use super::error::IoError;
use super::group::Group;
use super::local::LocalFile;
use super::report::IoReport;
use super::request::{Action, Request, SourceRef};
use super::{elsewhere, transfer};

/// Executes requests. See the [module](self) for what all backends promise.
pub(crate) trait Backend: Send + Sync + fmt::Debug {
    /// Tells the backend where most buffers will lie, so that it can register them with the kernel.
    /// Called at most once, before the first request. Never fails: without registration I/O only costs
    /// more, and [`Backend::report`] says why.
    fn register_memory(&self, start: NonNull<u8>, bytes: usize);

    /// Makes a file known that was just opened, before its first request, so that the backend can register it
    /// with the kernel, and knows how many of its reads in flight saturate the device. Never fails, as
    /// [`Backend::register_memory`].
    fn register_file(&self, _file: &LocalFile) {}

    /// Starts all `requests` (taking them out of the vector, whose room is kept) and returns without
    /// waiting for any. More than the backend can have in flight is queued inside it.
    fn submit(&self, requests: &mut Vec<Request>);

    /// Starts all `requests` and waits until `group` is done. The caller may be used to do the work,
    /// which makes this cheaper than [`Backend::submit`] followed by [`Group::wait`].
    fn submit_and_wait(&self, requests: &mut Vec<Request>, group: &Group);

    /// Starts what `feed` prepares, waits until `group` is done, and lets the feed take in what is done
    /// meanwhile. All requests of the feed report to the group. A backend that can asks for more requests
    /// while earlier ones are in flight, so that the device has work while the caller prepares and takes in.
    /// This default prepares everything first.
    fn stream(&self, feed: &mut dyn Feed, group: &Group) {
        let mut requests = Vec::new();
        while feed.prepare(&mut requests) {}
        self.submit_and_wait(&mut requests, group);
        feed.land();
    }

    /// A lane for the calling thread: operations in flight that no other thread sees to. None where
    /// [`Backend::submit`] is as good. It is used and dropped in this thread, and is empty before the
    /// backend is drained.
    fn lane(&self) -> Option<Box<dyn Lane>> {
        None
    }

    /// As [`Backend::lane`], for one call, which waits for all of the lane's operations. Also none while too
    /// many lanes are leased.
    fn leased_lane(&self) -> Option<Box<dyn Lane>> {
        None
    }

    /// Does one thing and waits for it: in the calling thread for a local file, otherwise by its source.
    fn run(&self, source: &SourceRef, action: Action) -> Result<(), IoError> {
        match LocalFile::of(&**source) {
            Some(file) => transfer::run(file, &action),
            None => elsewhere::run(source, action),
        }
    }

    /// As [`Backend::run`] for a read of `tenant`, which waits for the tenant's turn while tenants compete
    /// for a busy device.
    fn read_for(&self, _tenant: TenantId, source: &SourceRef, read: Action) -> Result<(), IoError> {
        self.run(source, read)
    }

    /// Waits until nothing is in flight, requests that sources do themselves included. Requests submitted
    /// meanwhile may or may not be waited for.
    fn drain(&self);

    /// Which backend runs, with what, and why nothing better.
    fn report(&self) -> IoReport;
}

/// Operations of one thread, which alone starts them and sees to their completions: no other thread has to be
/// woken, and the device works while this one prepares what comes next.
pub(crate) trait Lane {
    /// Starts all `requests` (taking them out of the vector).
    fn submit(&mut self, requests: &mut Vec<Request>);

    /// Waits until something is done, which is then to be [completed](Self::complete). False if the lane has
    /// nothing in flight; requests that it does not do itself are completed by the backend's threads.
    fn wait(&mut self) -> bool;

    /// Completes one operation that is done. False if none is known to be done. One at a time, so that the
    /// caller can start more in between: several are often done at once, and the device would have nothing
    /// to do while all are completed.
    fn complete(&mut self) -> bool;
}

/// Gives a backend the requests of [`Backend::stream`], in the thread that waits for them. Both calls may do
/// a little work, and wait for nothing but the device.
pub(crate) trait Feed {
    /// Adds the next few requests. False if there are no more, and then none was added.
    fn prepare(&mut self, requests: &mut Vec<Request>) -> bool;

    /// Takes in what has been done since the last call.
    fn land(&mut self);
}
