//! Making rings: the flags that are tried, in which order, and what is noted about refusals.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use io_uring::{Builder, IoUring, Probe, cqueue, opcode, squeue};

use super::super::options::IoOptions;
use super::ring::Ring;

/// What a backend has (`features`) and lacks (`steps_down`), for the report.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    pub(super) features: Vec<String>,
    pub(super) steps_down: Vec<String>,
}

/// A set of flags, and its name in reports.
struct Flags {
    name: &'static str,
    set: fn(&mut Builder),
}

/// For the I/O thread, best first: completions are processed only when it asks, and no other thread touches
/// the ring (Linux 6.1); at least it is not interrupted (5.19); no flags.
const FOR_DRIVER: [Flags; 3] = [
    Flags {
        name: "SUBMIT_ALL|SINGLE_ISSUER|COOP_TASKRUN|DEFER_TASKRUN",
        set: |builder| {
            builder.setup_submit_all().setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun();
        },
    },
    COOPERATIVE,
    PLAIN,
];

/// For rings that move between threads. Flags that bind a ring to a thread are impossible, but the thread
/// that holds one is in the kernel while it waits, so it need not be interrupted.
const FOR_LEASE: [Flags; 2] = [COOPERATIVE, PLAIN];

/// With a kernel thread that submits, there is no task to defer work to.
const FOR_SQPOLL: [Flags; 2] = [
    Flags {
        name: "SUBMIT_ALL",
        set: |builder| {
            builder.setup_submit_all();
        },
    },
    PLAIN,
];

const COOPERATIVE: Flags = Flags {
    name: "SUBMIT_ALL|COOP_TASKRUN",
    set: |builder| {
        builder.setup_submit_all().setup_coop_taskrun();
    },
};

const PLAIN: Flags = Flags { name: "no flags", set: |_| {} };

/// The most files that are registered; further files are used unregistered.
const PLACES_MAX: u32 = 256;

/// Places in the table of registered files. The kernel wants no more than the limit on open files.
pub(super) fn file_places() -> u32 {
    let limit = crate::sys::open_files_limit().unwrap_or(u64::MAX);
    u64::from(PLACES_MAX).min(limit) as u32
}

/// Makes the I/O thread's ring and tries it out. To be called in that thread.
pub(super) fn driver_ring(options: &IoOptions, calls: &Arc<AtomicU64>) -> io::Result<(Ring, Notes)> {
    let ladder: &[Flags] = if options.sqpoll_idle_ms.is_some() { &FOR_SQPOLL } else { &FOR_DRIVER };
    let mut notes = Notes::default();
    let ring = step_down(options, ladder, None, Some(&mut notes))?;
    check_operations(&ring)?;
    let mut ring = Ring::new(ring, options.depth, calls);
    match ring.register_file_table(file_places()) {
        Ok(()) => notes.features.push(format!("registered files (at most {})", file_places())),
        Err(error) => notes.steps_down.push(format!("registered files: {error}")),
    }
    Ok((ring, notes))
}

/// A ring to be leased. With SQPOLL it shares the kernel thread of the ring `driver`.
pub(super) fn lease_ring(options: &IoOptions, driver: RawFd, calls: &Arc<AtomicU64>) -> io::Result<Ring> {
    let ladder: &[Flags] = if options.sqpoll_idle_ms.is_some() { &FOR_SQPOLL } else { &FOR_LEASE };
    let ring = step_down(options, ladder, Some(driver), None)?;
    let mut ring = Ring::new(ring, options.depth, calls);
    // A failure is ignored: the ring only costs a little more, and the driver's ring has noted the reason.
    let _ = ring.register_file_table(file_places());
    Ok(ring)
}

/// A ring that one thread has for itself, for transfers of files that it does not register.
pub(super) fn lane_ring(options: &IoOptions, driver: RawFd, calls: &Arc<AtomicU64>) -> io::Result<Ring> {
    let options = IoOptions { sqpoll_idle_ms: None, iopoll: false, ..options.clone() };
    Ok(Ring::new(step_down(&options, &FOR_LEASE, Some(driver), None)?, options.depth, calls))
}

/// Makes the first ring of the ladder that the kernel accepts and that works. EINVAL means a flag that the
/// kernel does not know; any other error would be the same on every step.
fn step_down(
    options: &IoOptions,
    ladder: &[Flags],
    attach: Option<RawFd>,
    mut notes: Option<&mut Notes>,
) -> io::Result<IoUring> {
    // The I/O thread's ring needs an entry for its wake-up on top.
    let entries = if attach.is_none() { options.depth + 1 } else { options.depth };
    let mut last = io::Error::from(io::ErrorKind::Unsupported);
    // IOPOLL and SQPOLL are wishes: each step is tried with them first.
    for wishes in [true, false] {
        let wishful = options.iopoll || options.sqpoll_idle_ms.is_some();
        if !wishes && !wishful {
            break;
        }
        for flags in ladder {
            let mut builder = IoUring::builder();
            builder.dontfork();
            (flags.set)(&mut builder);
            let name = if wishes {
                add_wishes(&mut builder, options, attach, flags.name)
            } else {
                flags.name.into()
            };
            match builder.build(entries.next_power_of_two()).and_then(tried_out) {
                Ok(ring) => {
                    if let Some(notes) = notes {
                        notes
                            .features
                            .push(format!("ring flags {name}, {} entries", ring.params().sq_entries()));
                    }
                    return Ok(ring);
                }
                Err(error) => {
                    if let Some(notes) = &mut notes {
                        notes.steps_down.push(format!("ring flags {name}: {error}"));
                    }
                    if error.raw_os_error() != Some(libc::EINVAL) && !wishes {
                        return Err(error);
                    }
                    last = error;
                }
            }
        }
    }
    Err(last)
}

fn add_wishes(
    builder: &mut Builder<squeue::Entry, cqueue::Entry>,
    options: &IoOptions,
    attach: Option<RawFd>,
    name: &str,
) -> String {
    let mut name = name.to_owned();
    if let Some(idle_ms) = options.sqpoll_idle_ms {
        builder.setup_sqpoll(idle_ms);
        if let Some(fd) = attach {
            builder.setup_attach_wq(fd);
        }
        name.push_str("|SQPOLL");
    }
    if options.iopoll {
        builder.setup_iopoll();
        name.push_str("|IOPOLL");
    }
    name
}

/// Sends a no-op through the ring: a sandbox may allow making rings and forbid using them. A ring that
/// polls has no no-op.
fn tried_out(mut ring: IoUring) -> io::Result<IoUring> {
    if ring.params().is_setup_iopoll() {
        return Ok(ring);
    }
    // SAFETY: a no-op refers to no memory.
    let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
    pushed.expect("a new ring is empty");
    crate::sys::retry_interrupted(|| ring.submit_and_wait(1))?;
    let answer = ring.completion().next();
    match answer.map(|answer| answer.result()) {
        Some(0) => Ok(ring),
        Some(errno) => Err(io::Error::from_raw_os_error(-errno)),
        None => Err(io::Error::other("a ring that answers nothing")),
    }
}

/// Refuses kernels before 5.6, whose rings lack operations that we need.
fn check_operations(ring: &IoUring) -> io::Result<()> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [
        opcode::Read::CODE,
        opcode::Readv::CODE,
        opcode::ReadFixed::CODE,
        opcode::Write::CODE,
        opcode::Writev::CODE,
        opcode::WriteFixed::CODE,
        opcode::Fsync::CODE,
    ];
    if needed.iter().all(|&code| probe.is_supported(code)) {
        Ok(())
    } else {
        Err(io::Error::other("this kernel's io_uring lacks operations (Linux 5.6 has them)"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_wish_that_the_kernel_refuses_costs_no_ring() {
        // No ring, so none whose kernel thread could be shared.
        let other = std::fs::File::open("/dev/null").unwrap();
        let lease = |options: &IoOptions| lease_ring(options, other.as_raw_fd(), &Arc::default());
        if let Err(error) = lease(&IoOptions::default()) {
            return println!("skipped: no io_uring here: {error}");
        }
        lease(&IoOptions { sqpoll_idle_ms: Some(10), ..IoOptions::default() }).unwrap();
    }
}
