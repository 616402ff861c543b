//! A bare io_uring loop: what the device gives to a program that does nothing but transfer blocks.
//!
//! It is the reference of `bufbench io` and of all other comparisons with the device: one thread, one ring
//! with the flags that make it faster where the kernel has them, a registered file, and registered buffers
//! where the memlock limit allows. A new operation is submitted for each that completes. The caller opens the
//! file, for direct I/O or not.

use std::alloc::Layout;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types};

use super::cpu_time::cpu_time;

/// The direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// Reads from the file.
    Read,
    /// Writes to the file whatever the blocks in memory hold: zeros until a run reads or fills them.
    Write,
    /// Writes to the file, and fills every block in memory before, as a program that produces data does.
    FillAndWrite,
}

/// The time that a run of the loop took.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LoopTime {
    /// Blocks transferred.
    pub operations: u64,
    /// Time from just before the first submission to the last completion.
    pub elapsed: Duration,
    /// Processor time of the whole process in that time.
    pub cpu: Duration,
}

impl LoopTime {
    /// Operations a second.
    pub fn operations_per_s(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    /// Processor time of an operation, in microseconds.
    pub fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.operations as f64
    }
}

/// A ring with its buffers, for one file.
pub struct BareLoop {
    // Dropped before the memory that its operations refer to.
    ring: IoUring,
    file: File,
    memory: Blocks,
    depth: u32,
    buffers_are_registered: bool,
}

impl BareLoop {
    /// A loop over `file`, which is open for direct I/O or not, as the caller wants. `depth`, at least 1, is
    /// the number of blocks in flight; `block_bytes` is a multiple of 4,096.
    ///
    /// # Errors
    /// If the depth or the block size does not fit, there is no memory for the blocks, or the kernel makes no
    /// ring or does not register the file.
    pub fn new(file: File, block_bytes: usize, depth: u32) -> Result<Self> {
        ensure!(depth >= 1, "depth 0: expected at least 1");
        ensure!(
            block_bytes > 0 && block_bytes.is_multiple_of(4096),
            "blocks of {block_bytes} bytes: expected a multiple of 4096"
        );
        let memory = Blocks::new(block_bytes, depth as usize)?;
        let ring = ring(depth).context("a ring for the bare loop: expected a system that allows io_uring")?;
        ring.submitter().register_files(&[file.as_raw_fd()]).context("registering the file")?;
        // SAFETY: the memory is mapped as long as the ring, which is dropped first, and used by its
        // operations only.
        let registered = unsafe { ring.submitter().register_buffers(&[memory.iovec()]) };
        Ok(Self { ring, file, memory, depth, buffers_are_registered: registered.is_ok() })
    }

    /// Transfers one block at each of the `offsets`, keeping `depth` of them in flight.
    ///
    /// # Errors
    /// The first transfer that failed or was cut short; the loop may be run again. If the ring cannot be
    /// entered, or the iterator panics, operations may still be in flight, and later runs are refused.
    pub fn run(&mut self, transfer: Transfer, offsets: impl IntoIterator<Item = u64>) -> Result<LoopTime> {
        ensure!(
            !self.memory.is_in_flight,
            "the bare loop: a run was broken off with operations in flight, expected a loop that was not"
        );
        self.memory.is_in_flight = true;
        let mut offsets = offsets.into_iter();
        let (start, cpu) = (Instant::now(), cpu_time());
        let mut operations = 0;
        let mut in_flight = 0;
        let mut outcome = Ok(());
        for slot in 0..self.depth {
            in_flight += u32::from(self.push_next(transfer, slot, &mut offsets));
        }
        while in_flight > 0 {
            self.enter(1)?;
            let mut freed = Vec::with_capacity(self.depth as usize);
            for answer in self.ring.completion() {
                in_flight -= 1;
                operations += 1;
                if answer.result() == self.memory.block_bytes as i32 {
                    freed.push(answer.user_data() as u32);
                } else if outcome.is_ok() {
                    outcome = Err(failure(answer.result(), self.memory.block_bytes));
                }
            }
            for slot in freed.into_iter().take_while(|_| outcome.is_ok()) {
                in_flight += u32::from(self.push_next(transfer, slot, &mut offsets));
                if transfer == Transfer::FillAndWrite {
                    // Submitted at once, so that the device is busy while the next block is filled.
                    self.enter(0)?;
                }
            }
        }
        self.memory.is_in_flight = false;
        outcome?;
        Ok(LoopTime { operations, elapsed: start.elapsed(), cpu: cpu_time().saturating_sub(cpu) })
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    fn enter(&self, wanted: usize) -> Result<()> {
        match self.ring.submit_and_wait(wanted) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error).context("the bare loop"),
            _ => Ok(()),
        }
    }

    /// Queues the operation at the next offset. Returns false if there is no offset left.
    fn push_next(&mut self, transfer: Transfer, slot: u32, offsets: &mut impl Iterator<Item = u64>) -> bool {
        let Some(offset) = offsets.next() else { return false };
        if transfer == Transfer::FillAndWrite {
            self.memory.fill(slot);
        }
        let entry = self.entry(transfer, slot, offset).user_data(u64::from(slot));
        // SAFETY: the slot's block is used by this operation alone until its completion, and outlives the
        // ring.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the queue has an entry for each slot");
        true
    }

    fn entry(&self, transfer: Transfer, slot: u32, offset: u64) -> Entry {
        let (file, block, bytes) = (types::Fixed(0), self.memory.block(slot), self.memory.block_bytes as u32);
        match (transfer, self.buffers_are_registered) {
            (Transfer::Read, true) => opcode::ReadFixed::new(file, block, bytes, 0).offset(offset).build(),
            (Transfer::Read, false) => opcode::Read::new(file, block, bytes).offset(offset).build(),
            (Transfer::Write | Transfer::FillAndWrite, true) => {
                opcode::WriteFixed::new(file, block, bytes, 0).offset(offset).build()
            }
            (Transfer::Write | Transfer::FillAndWrite, false) => {
                opcode::Write::new(file, block, bytes).offset(offset).build()
            }
        }
    }
}

fn ring(depth: u32) -> io::Result<IoUring> {
    let mut best = IoUring::builder();
    best.setup_submit_all().setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun();
    best.build(depth.next_power_of_two()).or_else(|_| IoUring::new(depth.next_power_of_two()))
}

fn failure(result: i32, block_bytes: usize) -> anyhow::Error {
    match u32::try_from(-result) {
        Ok(errno) if errno > 0 => {
            anyhow::Error::new(io::Error::from_raw_os_error(-result)).context("the bare loop")
        }
        _ => anyhow::anyhow!("the bare loop: {result} bytes transferred, expected {block_bytes}"),
    }
}

/// Memory of one block for each slot, zeroed when it is allocated.
struct Blocks {
    start: NonNull<u8>,
    layout: Layout,
    block_bytes: usize,
    /// Whether operations may be using the memory: during a run, and for good after a run that was broken
    /// off. The memory is then never freed.
    is_in_flight: bool,
}

impl Blocks {
    fn new(block_bytes: usize, count: usize) -> Result<Self> {
        let bytes = block_bytes.checked_mul(count).context("more buffer memory than there are addresses")?;
        let layout = Layout::from_size_align(bytes, 4096)?;
        // SAFETY: the size is not 0: blocks have at least 4,096 bytes, and there is one at least.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        let start = NonNull::new(start).context("no memory for the bare loop's buffers")?;
        Ok(Self { start, layout, block_bytes, is_in_flight: false })
    }

    fn block(&self, slot: u32) -> *mut u8 {
        assert!((slot as usize + 1) * self.block_bytes <= self.layout.size());
        // SAFETY: within the allocation, by the line above.
        unsafe { self.start.as_ptr().add(slot as usize * self.block_bytes) }
    }

    /// Overwrites a block that no operation uses, with a 1 at every 4,096th byte and zeros elsewhere.
    fn fill(&mut self, slot: u32) {
        let (start, bytes) = (self.block(slot), self.block_bytes);
        // SAFETY: a block of ours, zeroed when it was allocated, and `self` is borrowed exclusively. No
        // operation uses it: a run begins with none in flight, and fills a slot before it pushes the slot's
        // first operation, or after the answer to the last one.
        let block = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
        block.fill(0);
        block.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    }

    fn iovec(&self) -> libc::iovec {
        libc::iovec { iov_base: self.start.as_ptr().cast(), iov_len: self.layout.size() }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        if !self.is_in_flight {
            // SAFETY: allocated with this layout; nothing that is in flight refers to it.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) }
        }
    }
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Blocks {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of 16 blocks. It is not in `/tmp`, which may be a file system without direct I/O.
    fn file() -> File {
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.set_len(16 * 4096).unwrap();
        file
    }

    fn bare_loop(depth: u32) -> Option<BareLoop> {
        match BareLoop::new(file(), 4096, depth) {
            Ok(bare) => Some(bare),
            Err(error) => {
                println!("skipped: {error:#}");
                None
            }
        }
    }

    #[test]
    fn transfers_each_block_once_whatever_the_depth() {
        for depth in [1, 3, 64] {
            let Some(mut bare) = bare_loop(depth) else { return };
            for transfer in [Transfer::Write, Transfer::FillAndWrite, Transfer::Read] {
                let time = bare.run(transfer, (0..16).map(|block| block * 4096)).unwrap();
                assert_eq!(time.operations, 16);
            }
            assert_eq!(bare.run(Transfer::Read, []).unwrap().operations, 0);
        }
    }

    #[test]
    fn a_read_beyond_the_end_is_an_error_and_leaves_nothing_in_flight() {
        let Some(mut bare) = bare_loop(4) else { return };
        let beyond = bare.run(Transfer::Read, (8..24).map(|block| block * 4096)).unwrap_err();
        assert!(format!("{beyond:#}").contains("0 bytes transferred, expected 4096"), "{beyond:#}");
        assert_eq!(bare.run(Transfer::Read, [0]).unwrap().operations, 1);
    }

    /// Its operations in flight could use the memory of the next run's operations.
    #[test]
    fn a_loop_that_was_broken_off_does_not_run_again() {
        let Some(mut bare) = bare_loop(4) else { return };
        let offsets = (0..8).map(|block| if block < 6 { block * 4096 } else { panic!("in the middle") });
        let run = std::panic::AssertUnwindSafe(|| bare.run(Transfer::Read, offsets));
        assert!(std::panic::catch_unwind(run).is_err());
        let again = bare.run(Transfer::FillAndWrite, [0]).unwrap_err();
        assert!(again.to_string().contains("broken off with operations in flight"), "{again}");
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        assert!(BareLoop::new(file(), 4096, 0).is_err());
        assert!(BareLoop::new(file(), 1000, 1).is_err());
    }
}
