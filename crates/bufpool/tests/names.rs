//! Goal: an open file stays the file that was opened, whatever becomes of its name. It is reopened, no other
//! file that has its name is made, read or deleted, and a removed file stays removed. Method: files that are
//! renamed, replaced or unlinked while the pool has them open, on each backend; names that the simulated
//! device forgets.

mod common;

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::Path;

use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::{ErrorKind, File, FileOptions, IoOperation, Pool};
use common::{PAGE_BYTES, directory, kind, new_file, on_each_backend, small, stamp, version};

/// Reopens the file, changes page 1 from version `from` to `to`, and makes that durable.
fn reopen_and_change(pool: &Pool, file: &File, from: u64, to: u64) {
    let tenant = pool.default_tenant();
    assert_eq!(file.reopen().unwrap(), 0);
    assert_eq!(file.pages(), 2);
    assert_eq!(version(&tenant.read(file.page(1)).unwrap(), 1), from);
    stamp(&mut tenant.write(file.page(1)).unwrap(), 1, to);
    file.flush().unwrap();
}

/// A file `data` of two pages, the last of which is version 1.
fn stamped_file(pool: &Pool, directory: &Path) -> File {
    let file = new_file(pool, directory, "data", 2);
    stamp(&mut pool.default_tenant().write(file.page(1)).unwrap(), 1, 1);
    file.flush().unwrap();
    file
}

#[track_caller]
fn assert_not_removed(file: &File, found: &str) {
    let error = file.clone().remove().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NameChanged);
    assert!(error.file().unwrap().ends_with("data"));
    assert!(error.to_string().contains(found), "{error}");
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_renamed_file_is_reopened_and_not_removed() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = small().io(io).open().unwrap();
        let file = stamped_file(&pool, directory.path());
        fs::rename(directory.path().join("data"), directory.path().join("other")).unwrap();
        reopen_and_change(&pool, &file, 1, 2);
        assert_not_removed(&file, "is gone");
        assert_eq!(names_in(directory.path()), ["other"]);
        reopen_and_change(&pool, &file, 2, 3);
        // It is locked and known under its new name, too.
        let other = directory.path().join("other");
        assert_eq!(kind(pool.open_file(&other, FileOptions::new())), ErrorKind::FileAlreadyOpen);
        file.close().unwrap();
        assert_eq!(version(&fs::read(&other).unwrap()[PAGE_BYTES..], 1), 3);
        pool.open_file(&other, FileOptions::new()).unwrap().remove().unwrap();
        assert!(names_in(directory.path()).is_empty());
    });
}

#[test]
fn a_replaced_file_is_reopened_and_who_replaced_it_is_not_removed() {
    on_each_backend(|io| {
        let directory = directory();
        let data = directory.path().join("data");
        let pool = small().io(io).open().unwrap();
        let file = stamped_file(&pool, directory.path());
        fs::write(directory.path().join("new"), vec![7; 3 * PAGE_BYTES]).unwrap();
        fs::rename(directory.path().join("new"), &data).unwrap();
        reopen_and_change(&pool, &file, 1, 2);
        assert_not_removed(&file, "belongs to another file");
        // A symbolic link with the name counts as another file, even if it leads to the file that was opened.
        fs::rename(&data, directory.path().join("new")).unwrap();
        symlink("new", &data).unwrap();
        assert_not_removed(&file, "belongs to another file");
        reopen_and_change(&pool, &file, 2, 3);
        file.close().unwrap();
        assert_eq!(names_in(directory.path()), ["data", "new"]);
        assert_eq!(fs::read(&data).unwrap(), vec![7; 3 * PAGE_BYTES]);
    });
}

#[test]
fn an_unlinked_file_is_reopened_and_made_by_nobody() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = small().io(io).open().unwrap();
        let file = stamped_file(&pool, directory.path());
        fs::remove_file(directory.path().join("data")).unwrap();
        reopen_and_change(&pool, &file, 1, 2);
        assert_not_removed(&file, "is gone");
        assert!(names_in(directory.path()).is_empty());
        reopen_and_change(&pool, &file, 2, 3);
        file.close().unwrap();
        assert!(names_in(directory.path()).is_empty());
    });
}

/// The file is removed from the folder in which it was opened, also if that folder was renamed and another
/// one has its name.
#[test]
fn a_file_in_a_renamed_folder_is_removed_there() {
    on_each_backend(|io| {
        let directory = directory();
        let (before, after) = (directory.path().join("before"), directory.path().join("after"));
        fs::create_dir(&before).unwrap();
        let pool = small().io(io).open().unwrap();
        let file = stamped_file(&pool, &before);
        fs::rename(&before, &after).unwrap();
        fs::create_dir(&before).unwrap();
        fs::write(before.join("data"), [7; 5]).unwrap();
        reopen_and_change(&pool, &file, 1, 2);
        file.remove().unwrap();
        assert!(names_in(&after).is_empty());
        assert_eq!(fs::read(before.join("data")).unwrap(), [7; 5]);
    });
}

/// Symbolic links are followed once, when the file is opened: the file is removed, and the link stays.
#[test]
fn a_file_opened_through_links_is_removed_itself() {
    on_each_backend(|io| {
        let directory = directory();
        let folder = directory.path().join("folder");
        fs::create_dir(&folder).unwrap();
        symlink("folder/data", directory.path().join("second")).unwrap();
        symlink(directory.path().join("second"), directory.path().join("first")).unwrap();
        let pool = small().io(io).open().unwrap();
        let file = pool.open_file(directory.path().join("first"), FileOptions::new().create(true)).unwrap();
        file.extend(1).unwrap();
        file.flush().unwrap();
        assert_eq!(names_in(&folder), ["data"]);
        fs::remove_file(directory.path().join("first")).unwrap();
        file.remove().unwrap();
        assert!(names_in(&folder).is_empty());
        assert_eq!(names_in(directory.path()), ["folder", "second"]);
    });
}

/// A file that is opened by a path below `/proc/self/fd` has no name that could be removed or made durable.
#[test]
fn a_file_opened_by_no_entry_of_a_folder_has_no_name() {
    on_each_backend(|io| {
        use std::os::fd::AsRawFd;
        let directory = directory();
        let data = directory.path().join("data");
        fs::write(&data, vec![7; PAGE_BYTES]).unwrap();
        let open = fs::File::open(&data).unwrap();
        fs::remove_file(&data).unwrap();
        let path = format!("/proc/self/fd/{}", open.as_raw_fd());
        let pool = small().io(io).open().unwrap();
        assert_eq!(kind(pool.open_file(&path, FileOptions::new().create(true))), ErrorKind::NameChanged);
        let file = pool.open_file(&path, FileOptions::new()).unwrap();
        assert_eq!(kind(file.clone().remove()), ErrorKind::Unsupported);
        assert_eq!(file.reopen().unwrap(), 0);
        assert_eq!(pool.default_tenant().read(file.page(0)).unwrap()[0], 7);
        assert!(names_in(directory.path()).is_empty());
    });
}

#[test]
fn a_descriptor_is_reopened_as_it_is_and_has_no_name() {
    on_each_backend(|io| {
        let directory = directory();
        let path = directory.path().join("data");
        let pool = small().io(io).open().unwrap();
        stamped_file(&pool, directory.path()).close().unwrap();
        let open = fs::File::options().read(true).write(true).open(&path).unwrap();
        let file = pool.open_fd(OwnedFd::from(open), FileOptions::new()).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, [7; 5]).unwrap();
        reopen_and_change(&pool, &file, 1, 2);
        assert_eq!(kind(file.clone().remove()), ErrorKind::Unsupported);
        reopen_and_change(&pool, &file, 2, 3);
        file.close().unwrap();
        assert_eq!(fs::read(&path).unwrap(), [7; 5]);
    });
}

/// After a power cut a removed file is absent and a new file present, whichever of the unsynced writes
/// survive.
#[test]
fn a_removal_and_a_creation_survive_a_power_cut() {
    let device = SimDevice::new(1);
    let pool = small().open_on(&device).unwrap();
    let open = |name: &str| pool.open_file(name, FileOptions::new().create(true)).unwrap();
    let (removed, _kept) = (open("folder/removed"), open("other/kept"));
    removed.remove().unwrap();
    for seed in 0..50 {
        let image = device.crash_image(seed);
        assert_eq!((image.contents("folder/removed"), image.contents("other/kept")), (None, Some(vec![])));
    }
}

/// If the folder cannot be synced, the file is removed, and the error says that it may come back.
#[test]
fn a_removal_that_is_not_durable_is_an_error() {
    let device = SimDevice::new(1);
    let pool = small().open_on(&device).unwrap();
    let file = pool.open_file("data", FileOptions::new().create(true)).unwrap();
    let nth = device.calls(IoOperation::Sync) + 1;
    device.fail(SimFault { operation: IoOperation::Sync, nth, failure: SimFailure::Io });
    let error = file.clone().remove().unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Io, Some("data")));
    assert!(error.to_string().contains("removed"), "{error}");
    assert_eq!(kind(file.flush()), ErrorKind::FileClosed);
    assert_eq!(device.contents("data"), None);
    let survives = |seed| device.crash_image(seed).contents("data").is_some();
    assert!((0..50).any(survives) && !(0..50).all(survives));
    pool.open_file("data", FileOptions::new().create(true)).unwrap().remove().unwrap();
    assert!(!(0..50).any(survives));
}
