//! The model of the simulated device, against a naive one where there is a choice.

use std::ptr::NonNull;

use proptest::prelude::*;

use super::super::start_sim;
use super::*;
use crate::io::{Action, Backend, Buffer, FileOpen, IoError, Opener, SourceRef, Started};
use crate::{FileOptions, PoolOptions};

const READ_WRITE: FileOpen = FileOpen::READ_WRITE;

fn open(device: &SimDevice) -> (Arc<dyn Backend>, SourceRef) {
    let Started { opener, backend } = start_sim(device);
    let file = opener.open(Path::new("file"), &READ_WRITE).unwrap();
    (backend, SourceRef::new(file))
}

/// Lends `memory` to operations that end before this function returns.
fn write_at(
    backend: &dyn Backend,
    file: &SourceRef,
    offset: usize,
    memory: &mut [u8],
) -> Result<(), IoError> {
    // SAFETY: the borrow is exclusive and lasts until `run` has returned.
    let buffer = unsafe { Buffer::new(NonNull::from(&mut *memory).cast(), memory.len()) };
    backend.run(file, Action::Write { offset: offset as u64, buffers: buffer.into() })
}

fn read_at(backend: &dyn Backend, file: &SourceRef, offset: usize, memory: &mut [u8]) -> Result<(), IoError> {
    // SAFETY: the borrow is exclusive and lasts until `run` has returned.
    let buffer = unsafe { Buffer::new(NonNull::from(&mut *memory).cast(), memory.len()) };
    backend.run(file, Action::Read { offset: offset as u64, buffers: buffer.into() })
}

fn sync(backend: &dyn Backend, file: &SourceRef) -> Result<(), IoError> {
    backend.run(file, Action::Sync { all_metadata: false })
}

#[test]
fn short_and_interrupted_calls_are_continued() {
    let device = SimDevice::new(1);
    let (backend, file) = open(&device);
    let mut memory: Vec<u8> = (0..8192).map(|index| (index % 253) as u8).collect();
    let failures = [
        SimFailure::Short(700),
        SimFailure::Os(libc::EINTR),
        SimFailure::Os(libc::EAGAIN),
        SimFailure::Os(libc::ECANCELED),
        SimFailure::Short(1536),
    ];
    for (nth, &failure) in (1..).zip(&failures) {
        device.fail(SimFault { operation: IoOperation::Write, nth, failure });
        device.fail(SimFault { operation: IoOperation::Read, nth, failure });
    }
    write_at(&*backend, &file, 0, &mut memory).unwrap();
    assert_eq!(device.contents("file").unwrap(), memory);
    let mut back = vec![0; 8192];
    read_at(&*backend, &file, 0, &mut back).unwrap();
    assert_eq!(back, memory);
    assert_eq!((device.calls(IoOperation::Write), device.calls(IoOperation::Read)), (6, 6));
}

/// A device that always asks to try again does not make the caller try for ever.
#[test]
fn retries_are_bounded() {
    let device = SimDevice::new(1);
    let (backend, file) = open(&device);
    for nth in 1..=100 {
        device.fail(SimFault { operation: IoOperation::Write, nth, failure: SimFailure::Os(libc::EAGAIN) });
        device.fail(SimFault { operation: IoOperation::Sync, nth, failure: SimFailure::Os(libc::EINTR) });
    }
    let error = write_at(&*backend, &file, 0, &mut [1; 512]).unwrap_err();
    assert_eq!(error.os_error(), Some(libc::EAGAIN));
    assert_eq!(device.calls(IoOperation::Write), u64::from(super::super::error::RETRIES_MAX));
    assert_eq!(sync(&*backend, &file).unwrap_err().os_error(), Some(libc::EINTR));
}

/// A name that was removed since its folder was synced is there or not, and so is its file; other folders are
/// left alone.
#[test]
fn unsynced_names_survive_in_every_way() {
    let device = SimDevice::new(1);
    device.put("folder/old", &[1; 512]);
    device.put("other/old", &[2; 512]);
    let old = device.open(Path::new("folder/old"), &READ_WRITE).unwrap();
    old.entry().unwrap().remove().unwrap();
    drop(old);
    assert_eq!(device.contents("folder/old"), None);
    let exists = |name: &str, seed| device.crash_image(seed).contents(name).is_some();
    assert!((0..50).any(|seed| exists("folder/old", seed)));
    assert!((0..50).any(|seed| !exists("folder/old", seed)));
    assert!((0..50).all(|seed| exists("other/old", seed)));
    assert_eq!(device.state.lock().files.len(), 2, "it may have to survive");
    // The next file that may be new in the folder.
    let new = device.open(Path::new("folder/new"), &READ_WRITE).unwrap();
    assert!((0..50).all(|seed| exists("folder/new", seed) && !exists("folder/old", seed)));
    assert_eq!(device.state.lock().files.len(), 2, "the old one and the new one");
    new.entry().unwrap().remove().unwrap();
    new.entry().unwrap().sync_folder().unwrap();
    assert!((0..50).all(|seed| !exists("folder/new", seed)));
    drop(new);
    assert_eq!(device.state.lock().files.len(), 1);
}

#[test]
fn each_kind_fails_at_its_nth_call() {
    for operation in [IoOperation::Read, IoOperation::Write, IoOperation::Sync, IoOperation::Allocate] {
        for nth in 1..=3 {
            let device = SimDevice::new(nth);
            let (backend, file) = open(&device);
            device.put("file", &[7; 1024]);
            let before = device.calls(operation);
            device.fail(SimFault { operation, nth: before + nth, failure: SimFailure::Io });
            for call in 1..=3 {
                let results = [
                    (IoOperation::Read, read_at(&*backend, &file, 512, &mut [0; 512])),
                    (IoOperation::Write, write_at(&*backend, &file, 0, &mut [call as u8; 512])),
                    (IoOperation::Sync, sync(&*backend, &file)),
                    (IoOperation::Allocate, backend.run(&file, Action::Allocate { offset: 0, bytes: 2048 })),
                ];
                for (kind, result) in results {
                    let expected = (kind == operation && call == nth).then_some(libc::EIO);
                    assert_eq!(result.err().and_then(|error| error.os_error()), expected);
                }
            }
        }
    }
}

#[test]
fn a_full_device_refuses_growth_and_keeps_what_it_has() {
    let device = SimDevice::new(1);
    device.set_capacity_bytes(1024);
    let (backend, file) = open(&device);
    backend.run(&file, Action::Allocate { offset: 0, bytes: 1024 }).unwrap();
    let error = backend.run(&file, Action::Allocate { offset: 1024, bytes: 512 }).unwrap_err();
    assert!(error.is_no_space());
    assert!(write_at(&*backend, &file, 1024, &mut [1; 512]).unwrap_err().is_no_space());
    write_at(&*backend, &file, 512, &mut [2; 512]).unwrap();
    assert_eq!(device.contents("file").unwrap().len(), 1024);
}

/// A write whose completion has not been told when a sync begins is not covered by the sync.
#[test]
fn a_sync_covers_only_what_was_completed() {
    let device = SimDevice::new(5);
    device.set_latency(Duration::from_secs(3600), Duration::from_secs(3600));
    let (backend, file) = open(&device);
    device.put("file", &[0; 512]);
    let mut events = Vec::new();
    let mut state = device.state.lock();
    state.write(1, 0, vec![9; 512], None, &mut events).unwrap();
    state.files.get_mut(&1).unwrap().sync();
    assert_eq!(state.files[&1].durable, [0; 512]);
    state.mark_completed(1, &events);
    state.files.get_mut(&1).unwrap().sync();
    assert_eq!(state.files[&1].durable, [9; 512]);
    assert!(state.files[&1].unsynced.is_empty());
    drop(state);
    drop((backend, file));
}

#[test]
fn what_a_sync_has_lost_is_not_written_by_the_next_one() {
    let mut survived = Vec::new();
    for seed in 0..20 {
        let device = SimDevice::new(seed);
        device.set_sector_bytes(4096);
        let (backend, file) = open(&device);
        let mut memory = [1; 4096];
        write_at(&*backend, &file, 0, &mut memory).unwrap();
        sync(&*backend, &file).unwrap();
        memory.fill(2);
        write_at(&*backend, &file, 0, &mut memory).unwrap();
        let nth = device.calls(IoOperation::Sync) + 1;
        device.fail(SimFault { operation: IoOperation::Sync, nth, failure: SimFailure::Lost });
        sync(&*backend, &file).unwrap_err();
        sync(&*backend, &file).unwrap();
        memory.fill(0);
        read_at(&*backend, &file, 0, &mut memory).unwrap();
        assert_eq!(memory, [2; 4096], "in the cache");
        let image = device.crash_image(seed).contents("file").unwrap();
        file.drop_cache().unwrap();
        read_at(&*backend, &file, 0, &mut memory).unwrap();
        assert_eq!(memory[..], image, "on the device");
        survived.push(memory[0]);
        // What is written from here on is synced as ever.
        memory.fill(3);
        write_at(&*backend, &file, 0, &mut memory).unwrap();
        sync(&*backend, &file).unwrap();
        assert_eq!(device.crash_image(seed).contents("file").unwrap(), [3; 4096]);
    }
    assert!(survived.contains(&1) && survived.contains(&2), "{survived:?}");
}

#[test]
fn nothing_works_after_a_power_cut_and_its_image_does() {
    let device = SimDevice::new(1);
    let (backend, file) = open(&device);
    write_at(&*backend, &file, 0, &mut [1; 1024]).unwrap();
    sync(&*backend, &file).unwrap();
    device.cut_power_at(device.calls_total() + 2);
    write_at(&*backend, &file, 0, &mut [2; 1024]).unwrap();
    assert_eq!(write_at(&*backend, &file, 0, &mut [3; 1024]).unwrap_err().os_error(), Some(libc::EIO));
    assert!(device.power_is_cut());
    assert!(sync(&*backend, &file).is_err());
    assert!(file.set_len_bytes(0).is_err());
    assert!(device.open(Path::new("other"), &READ_WRITE).is_err());
    let (backend, file) = open(&device.crash_image(8));
    let mut memory = [0; 1024];
    read_at(&*backend, &file, 0, &mut memory).unwrap();
    assert!(memory.iter().all(|byte| (1..=3).contains(byte)));
}

/// Different seeds leave the old page, the new one, and mixtures of their sectors; the same seed leaves
/// the same image.
#[test]
fn unsynced_writes_survive_in_every_way() {
    let device = SimDevice::new(1);
    let (backend, file) = open(&device);
    write_at(&*backend, &file, 0, &mut [1; 4096]).unwrap();
    sync(&*backend, &file).unwrap();
    write_at(&*backend, &file, 0, &mut [2; 4096]).unwrap();
    let image = |seed| device.crash_image(seed).contents("file").unwrap();
    let images: Vec<_> = (0..100).map(image).collect();
    assert!(images.iter().any(|image| *image == [1; 4096]));
    assert!(images.iter().any(|image| *image == [2; 4096]));
    assert!(images.iter().any(|image| image.contains(&1) && image.contains(&2)));
    let sectors = || images.iter().flat_map(|image| image.chunks(512));
    assert!(sectors().all(|sector| sector == [1; 512] || sector == [2; 512]));
    assert_eq!(image(4), image(4));
}

/// With sectors as large as pages, a page is never torn.
#[test]
fn writes_up_to_a_sector_are_atomic() {
    let device = SimDevice::new(1);
    device.set_sector_bytes(4096);
    let (backend, file) = open(&device);
    write_at(&*backend, &file, 0, &mut [1; 8192]).unwrap();
    sync(&*backend, &file).unwrap();
    write_at(&*backend, &file, 0, &mut [2; 8192]).unwrap();
    device.cut_power();
    let images: Vec<_> = (0..50).map(|seed| device.crash_image(seed).contents("file").unwrap()).collect();
    let pages = || images.iter().flat_map(|image| image.chunks(4096));
    assert!(pages().all(|page| page == [1; 4096] || page == [2; 4096]));
    assert!(images.iter().any(|image| image[0] != image[4096]));
}

/// What a pool acknowledged with a checkpoint is in every image; a failing device makes errors, not losses.
#[test]
fn a_pool_on_the_device_keeps_what_it_acknowledged() {
    let open = |device: &SimDevice| {
        let pool = PoolOptions::new().frames(64).page_bytes(512).threads_max(1).open_on(device).unwrap();
        let file = pool.open_file("data", FileOptions::new().create(true)).unwrap();
        (pool, file)
    };
    let device = SimDevice::new(1);
    let (pool, file) = open(&device);
    let tenant = pool.default_tenant();
    for number in file.extend(200).unwrap() {
        tenant.create(file.page(number)).unwrap().fill(number as u8 + 1);
    }
    pool.checkpoint().unwrap();
    for number in 0..50 {
        tenant.write(file.page(number)).unwrap().fill(0);
    }
    device.cut_power();
    assert!(pool.checkpoint().is_err());
    for seed in 0..10 {
        let (pool, file) = open(&device.crash_image(seed));
        let tenant = pool.default_tenant();
        for number in 0..200 {
            let page = tenant.read(file.page(number)).unwrap();
            let old = page.iter().all(|&byte| byte == number as u8 + 1);
            let new = number < 50 && page.iter().all(|&byte| byte == 0);
            assert!(old || new, "page {number} of image {seed}");
        }
    }
}

/// A step of a random history on one file of sectors.
#[derive(Clone, Debug)]
enum Step {
    Write { sector: usize, sectors: usize, value: u8 },
    Sync,
    Grow { sectors: usize },
    Shrink { sectors: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..12_usize, 1..5_usize, 1..=255_u8)
            .prop_map(|(sector, sectors, value)| Step::Write { sector, sectors, value }),
        2 => Just(Step::Sync),
        1 => (0..16_usize).prop_map(|sectors| Step::Grow { sectors }),
        1 => (0..16_usize).prop_map(|sectors| Step::Shrink { sectors }),
    ]
}

proptest! {
    /// What reads back is what was written; what survives was, sector by sector, there at the last sync
    /// or came since, and the length is one that the file had since.
    #[test]
    fn agrees_with_a_naive_file(steps in prop::collection::vec(step(), 1..40), seed in any::<u64>()) {
        let device = SimDevice::new(seed);
        let (backend, file) = open(&device);
        let mut now: Vec<u8> = Vec::new();
        let mut since_sync: Vec<Vec<u8>> = vec![Vec::new()];
        for step in steps {
            match step {
                Step::Write { sector, sectors, value } => {
                    let mut memory = vec![value; sectors * 512];
                    write_at(&*backend, &file, sector * 512, &mut memory).unwrap();
                    let end = (sector + sectors) * 512;
                    if now.len() < end {
                        now.resize(end, 0);
                        since_sync.push(now.clone());
                    }
                    now[sector * 512..end].fill(value);
                }
                Step::Sync => {
                    sync(&*backend, &file).unwrap();
                    since_sync.clear();
                }
                Step::Grow { sectors } => {
                    let bytes = sectors as u64 * 512;
                    backend.run(&file, Action::Allocate { offset: 0, bytes }).unwrap();
                    now.resize(now.len().max(sectors * 512), 0);
                }
                Step::Shrink { sectors } => {
                    file.set_len_bytes(sectors as u64 * 512).unwrap();
                    now.resize(sectors * 512, 0);
                }
            }
            since_sync.push(now.clone());
            prop_assert_eq!(&device.contents("file").unwrap(), &now);
            let image = device.crash_image(seed ^ now.len() as u64).contents("file").unwrap();
            prop_assert!(since_sync.iter().any(|version| version.len() == image.len()));
            for (index, sector) in image.chunks(512).enumerate() {
                let seen = |version: &Vec<u8>| {
                    version.get(index * 512..(index + 1) * 512) == Some(sector)
                };
                prop_assert!(sector.iter().all(|&byte| byte == 0) || since_sync.iter().any(seen));
            }
            if since_sync.len() == 1 {
                prop_assert_eq!(&image, &now);
            }
        }
    }
}
