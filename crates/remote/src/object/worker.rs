//! The thread that speaks to stores.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::ThreadId;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::error::ObjectError;

/// Most threads for stores whose calls block, as those of a folder.
const BLOCKING_THREADS_MAX: usize = 64;

/// A thread that runs the clients of object stores. Several files may share one
/// ([`ObjectOptions::worker`](super::ObjectOptions::worker)). It ends once no file has it, and nothing of
/// theirs is under way.
#[derive(Debug)]
pub struct Worker {
    handle: Handle,
    thread: ThreadId,
    /// Dropped with the last share, which ends the thread.
    _stop: oneshot::Sender<()>,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Of the operating system, which starts no thread.
    pub fn start() -> io::Result<Arc<Self>> {
        let mut builder = Builder::new_current_thread();
        builder.enable_all().max_blocking_threads(BLOCKING_THREADS_MAX).thread_name("bufpool-folder");
        let runtime = builder.build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("bufpool-remote".into()).spawn(move || {
            // An error says that the sender is gone, which is what is waited for.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        })?;
        Ok(Arc::new(Self { handle, thread: thread.thread().id(), _stop: stop }))
    }

    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.handle.spawn(work)
    }

    /// Does `work`, which blocks, on one of the threads for that.
    pub(super) fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        self.handle.spawn_blocking(work);
    }

    /// Does `work` and waits for it.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, ObjectError>> + Send + 'static,
    ) -> Result<T, ObjectError> {
        const DOING: &str = "waiting for the thread of object stores";
        let failed = |what: &str| Err(ObjectError::local(DOING, None, io::Error::other(what.to_owned())));
        if std::thread::current().id() == self.thread {
            return failed("it would wait for itself");
        }
        let (sender, receiver) = mpsc::channel();
        self.spawn(async move {
            let _ = sender.send(work.await);
        });
        receiver.recv().unwrap_or_else(|_| failed("it panicked"))
    }
}
