//! Random reads with futures: how an asynchronous runtime uses a pool, without a runtime.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use anyhow::Result;
use bufpool::{File, ReadFuture, Tenant};

/// Reads the first byte of each of `pages` with `depth` futures in flight. As soon as one is done, the next
/// page is begun. Blocks the calling thread until all are read.
///
/// # Errors
/// The first error of the pool; the other reads are abandoned then.
pub fn read(tenant: &Tenant, file: &File, pages: &[u64], depth: usize) -> Result<()> {
    let woken = Arc::new(Woken { reader: std::thread::current(), slots: Mutex::default() });
    let mut pages = pages.iter();
    let mut begin = || pages.next().map(|page| tenant.read_async(file.page(*page)));
    let mut slots: Vec<Slot> = Vec::new();
    for number in 0..depth {
        let Some(future) = begin() else { break };
        let waker = Waker::from(Arc::new(SlotWaker { woken: Arc::clone(&woken), number }));
        slots.push(Slot { future: Some(future), waker });
        woken.slots.lock().expect("no waker panics").push(number);
    }
    let mut unfinished = slots.len();
    let mut ready = Vec::new();
    while unfinished > 0 {
        std::mem::swap(&mut ready, &mut *woken.slots.lock().expect("no waker panics"));
        if ready.is_empty() {
            // A wake-up between the look above and here is not lost: `park` returns at once then.
            std::thread::park();
        }
        for number in ready.drain(..) {
            let slot = &mut slots[number];
            // A page may be resident, and then the next one is begun at once.
            while let Some(future) = &mut slot.future {
                match Pin::new(future).poll(&mut Context::from_waker(&slot.waker)) {
                    Poll::Pending => break,
                    Poll::Ready(guard) => std::hint::black_box(guard?[0]),
                };
                slot.future = begin();
                unfinished -= usize::from(slot.future.is_none());
            }
        }
    }
    Ok(())
}

struct Slot {
    /// `None` once there are no more pages.
    future: Option<ReadFuture>,
    waker: Waker,
}

/// Slots whose futures are to be polled.
struct Woken {
    reader: Thread,
    slots: Mutex<Vec<usize>>,
}

struct SlotWaker {
    woken: Arc<Woken>,
    number: usize,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.woken.slots.lock().expect("no waker panics").push(self.number);
        self.woken.reader.unpark();
    }
}

#[cfg(test)]
mod tests {
    use bufpool::{Direct, FileOptions, PoolOptions};

    use super::*;
    use crate::machine::data_file::{PAGE_BYTES, build};

    #[test]
    fn each_page_is_read_once_whatever_the_depth() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages");
        build(&path, 256, Direct::Off).unwrap();
        for depth in [1, 7, 300] {
            let options = PoolOptions::new().frames(512).page_bytes(PAGE_BYTES).read_ahead(false);
            let pool = options.open().unwrap();
            let file = pool.open_file(&path, FileOptions::new().direct(Direct::Off)).unwrap();
            let pages: Vec<u64> = (0..256).rev().collect();
            read(&pool.default_tenant(), &file, &pages, depth).unwrap();
            let stats = pool.stats();
            assert_eq!((stats.accesses, stats.misses, stats.reads), (256, 256, 256), "depth {depth}");
            // All pages are resident now.
            read(&pool.default_tenant(), &file, &pages, depth).unwrap();
            assert_eq!(pool.stats().hits, 256, "depth {depth}");
            assert!(read(&pool.default_tenant(), &file, &[3, 256], depth).is_err(), "beyond the end");
            pool.close().unwrap();
        }
    }
}
