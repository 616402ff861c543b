//! Asynchronous access: futures that any executor drives; here a `block_on` of twenty lines, and tokio.
//!
//! `cargo run -p bufpool-examples --example async_reads` prints:
//!
//! ```text
//! by hand: 8 pages, one after the other
//! by hand: 8 reads in flight at once
//! tokio: 64 tasks read and changed 64 pages
//! a read that was given up in flight left nothing behind
//! 64 pages changed
//! ```

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use bufpool::{File, FileOptions, OwnedReadGuard, PoolOptions, Tenant};

const PAGES: u64 = 64;

/// Wakes the thread that waits in [`block_on`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Drives one future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Drives several futures together, all of which are begun before the first is awaited.
async fn join<F: Future + Unpin>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut pending: Vec<(F, Option<F::Output>)> = futures.into_iter().map(|future| (future, None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in pending.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ready) = Pin::new(future).poll(context) {
                *output = Some(ready);
            }
        }
        if pending.iter().all(|(_, output)| output.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    pending.into_iter().map(|(_, output)| output.expect("all are ready")).collect()
}

fn number_in(page: &OwnedReadGuard) -> u64 {
    u64::from_le_bytes(page[..8].try_into().expect("8 bytes"))
}

/// What a task does. A guard may move with its task from thread to thread. Here each guard is dropped before
/// the task awaits anything else.
async fn change(tenant: Tenant, file: File, number: u64) -> bufpool::Result<()> {
    let before = number_in(&tenant.read_async(file.page(number)).await?);
    let mut page = tenant.write_async(file.page(number)).await?;
    page[..8].copy_from_slice(&(before + PAGES).to_le_bytes());
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    // 48 frames for 64 pages, so that some have to be read again.
    let pool = PoolOptions::new().frames(48).page_bytes(4096).open()?;
    let file = pool.open_file(folder.path().join("numbers"), FileOptions::new().create(true))?;
    let tenant = pool.default_tenant();
    for number in file.extend(PAGES)? {
        tenant.create(file.page(number))?[..8].copy_from_slice(&number.to_le_bytes());
    }

    block_on(async {
        for number in 0..8 {
            assert_eq!(number_in(&tenant.read_async(file.page(number)).await?), number);
        }
        println!("by hand: 8 pages, one after the other");
        let reads = (8..16).map(|number| tenant.read_async(file.page(number)));
        for (number, page) in (8..).zip(join(reads).await) {
            assert_eq!(number_in(&page?), number);
        }
        println!("by hand: 8 reads in flight at once");
        Ok::<_, bufpool::Error>(())
    })?;

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    runtime.block_on(async {
        let task = |number| tokio::spawn(change(tenant.clone(), file.clone(), number));
        let tasks: Vec<_> = (0..PAGES).map(task).collect();
        let count = tasks.len();
        for task in tasks {
            task.await??;
        }
        println!("tokio: {count} tasks read and changed {PAGES} pages");
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;

    // A future that is dropped does not wait any more. Its read goes on, and the next access finds the page
    // in memory or on its way in.
    file.flush()?;
    file.discard(0..PAGES)?;
    {
        let mut read = pin!(tenant.read_async(file.page(0)));
        let _ = read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    assert_eq!(number_in(&block_on(tenant.read_async(file.page(0)))?), PAGES);
    println!("a read that was given up in flight left nothing behind");

    let mut changed = 0;
    for number in 0..PAGES {
        let page = tenant.read(file.page(number))?;
        changed += u64::from(page[..8] == (number + PAGES).to_le_bytes());
    }
    println!("{changed} pages changed");
    Ok(pool.close()?)
}
