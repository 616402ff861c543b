//! Goal: the pool takes a descriptor only if it allows what the pool will do with it, and opens only regular
//! files and block devices. All else is refused, without waiting and without a change, with an error that
//! says what it is and what was expected. Method: one case each, on each backend; the descriptor's flags are
//! those that the kernel tells.

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;

use bufpool::{Direct, ErrorKind, FileOptions};
use common::{PAGE_BYTES, directory, new_file, on_each_backend, small, stamp, version};

/// The flags of an open file, as fcntl tells them.
fn flags(fd: &impl AsRawFd) -> i32 {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).unwrap();
    let octal = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    i32::from_str_radix(octal.trim(), 8).unwrap()
}

/// A file that is opened with these flags and this access mode. With O_PATH the kernel ignores the mode.
fn open_with(path: &Path, read: bool, write: bool, flags: i32) -> File {
    OpenOptions::new().read(read).write(write).custom_flags(flags).open(path).unwrap()
}

#[test]
fn a_descriptor_that_appends_is_refused() {
    on_each_backend(|io| {
        let directory = directory();
        let path = directory.path().join("data");
        fs::write(&path, vec![7; 2 * PAGE_BYTES]).unwrap();
        let pool = small().io(io).open().unwrap();
        for read_only in [false, true] {
            let open = open_with(&path, true, true, libc::O_APPEND);
            let shared = open.try_clone().unwrap();
            let before = flags(&shared);
            let error = pool.open_fd(open.into(), FileOptions::new().read_only(read_only)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Descriptor);
            assert!(error.to_string().contains("O_APPEND"), "{error}");
            assert!(error.file().unwrap().starts_with("fd "));
            assert_eq!(flags(&shared), before);
        }
        // Without the flag the descriptor is taken.
        let file = pool.open_fd(open_with(&path, true, true, 0).into(), FileOptions::new()).unwrap();
        let tenant = pool.default_tenant();
        stamp(&mut tenant.write(file.page(1)).unwrap(), 1, 9);
        file.close().unwrap();
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 2 * PAGE_BYTES);
        assert_eq!(version(&bytes[PAGE_BYTES..], 1), 9);
    });
}

#[test]
fn a_descriptor_allows_what_the_options_ask_for() {
    on_each_backend(|io| {
        let directory = directory();
        let path = directory.path().join("data");
        fs::write(&path, vec![7; 2 * PAGE_BYTES]).unwrap();
        let pool = small().io(io).open().unwrap();
        // Whether the descriptor reads and writes, further flags; the word in the error; whether the pool
        // takes it for writing, and for reading only.
        let cases = [
            (true, true, 0, "O_RDWR", true, true),
            (true, false, 0, "O_RDONLY", false, true),
            (false, true, 0, "O_WRONLY", false, false),
            (true, true, libc::O_PATH, "O_PATH", false, false),
        ];
        for (read, write, more, word, may_write, may_read) in cases {
            for (read_only, allowed) in [(false, may_write), (true, may_read)] {
                let open = OwnedFd::from(open_with(&path, read, write, more));
                match pool.open_fd(open, FileOptions::new().read_only(read_only)) {
                    Ok(file) => {
                        assert!(allowed, "{word} was taken, read_only {read_only}");
                        assert_eq!(pool.default_tenant().read(file.page(1)).unwrap()[0], 7);
                        file.close().unwrap();
                    }
                    Err(error) => {
                        assert!(!allowed, "{word}: {error}");
                        assert_eq!(error.kind(), ErrorKind::Descriptor);
                        let text = error.to_string();
                        assert!(text.contains(word) && text.contains("expected"), "{text}");
                    }
                }
            }
        }
    });
}

/// The kind of a file is looked at before it is opened: opening a FIFO would wait for its other end.
#[test]
fn what_is_not_a_file_of_pages_is_refused_and_not_waited_for() {
    on_each_backend(|io| {
        let directory = directory();
        let path = |name: &str| directory.path().join(name);
        assert!(Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
        let _listener = UnixListener::bind(path("socket")).unwrap();
        let (paired, _other) = UnixStream::pair().unwrap();
        let (reader, _writer) = std::io::pipe().unwrap();
        let pool = small().io(io).open().unwrap();
        for options in
            [FileOptions::new(), FileOptions::new().create(true), FileOptions::new().read_only(true)]
        {
            for options in [options.direct(Direct::Prefer), options.direct(Direct::Off)] {
                let by_path = |path: &Path, what: &str| {
                    let error = pool.open_file(path, options).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                    let text = error.to_string();
                    assert!(text.contains(what) && text.contains("expected a regular file"), "{text}");
                    assert_eq!(error.file(), path.to_str());
                };
                by_path(&path("fifo"), "a FIFO");
                by_path(&path("socket"), "a socket");
                by_path(directory.path(), "a directory");
                by_path(&path("."), "a directory");
                by_path(Path::new("/dev/null"), "a character device");
            }
        }
        let by_descriptor = |fd: OwnedFd, what: &str| {
            let error = pool.open_fd(fd, FileOptions::new().read_only(true)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains(what), "{error}");
        };
        by_descriptor(File::open(directory.path()).unwrap().into(), "a directory");
        by_descriptor(File::open("/dev/null").unwrap().into(), "a character device");
        by_descriptor(reader.try_clone().unwrap().into(), "a FIFO");
        by_descriptor(paired.into(), "a socket");
        // The pool is as it was.
        new_file(&pool, directory.path(), "data", 1).close().unwrap();
    });
}

/// On a file that was opened with O_NONBLOCK, some file systems refuse operations that would have to wait.
#[test]
fn files_are_not_left_in_the_mode_that_refuses_to_wait() {
    on_each_backend(|io| {
        let directory = directory();
        let path = directory.path().join("data");
        let pool = small().io(io).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 1);
        let is_ours = |entry: &fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|open| open == path);
        let ours = || {
            let open = fs::read_dir("/proc/self/fd").unwrap().map(Result::unwrap).find(is_ours).unwrap();
            let info = fs::read_to_string(Path::new("/proc/self/fdinfo").join(open.file_name())).unwrap();
            i32::from_str_radix(info.split_whitespace().nth(3).unwrap(), 8).unwrap()
        };
        assert_eq!(ours() & libc::O_NONBLOCK, 0);
        file.close().unwrap();
        let open = open_with(&path, true, true, libc::O_NONBLOCK);
        let shared = open.try_clone().unwrap();
        let file = pool.open_fd(open.into(), FileOptions::new()).unwrap();
        assert_eq!(flags(&shared) & libc::O_NONBLOCK, 0);
        stamp(&mut pool.default_tenant().write(file.page(0)).unwrap(), 0, 3);
        file.close().unwrap();
        assert_eq!(version(&fs::read(&path).unwrap(), 0), 3);
    });
}

/// A file is open in a pool by its name or by a descriptor, and who comes second is told so. The error is not
/// that the file is locked, though the pool itself holds its lock.
#[test]
fn a_file_that_is_open_by_its_name_is_not_taken_by_a_descriptor() {
    on_each_backend(|io| {
        let directory = directory();
        let path = directory.path().join("data");
        fs::write(&path, vec![7; 2 * PAGE_BYTES]).unwrap();
        let pool = small().io(io).open().unwrap();
        let by_descriptor = || pool.open_fd(open_with(&path, true, true, 0).into(), FileOptions::new());
        let by_name = || pool.open_or_share(&path, FileOptions::new());
        let file = by_name().unwrap();
        assert_eq!(by_descriptor().unwrap_err().kind(), ErrorKind::FileAlreadyOpen);
        file.close().unwrap();
        by_descriptor().unwrap().close().unwrap();
        std::thread::scope(|scope| {
            let open = [&by_descriptor as &(dyn Fn() -> _ + Sync), &by_name];
            for open in open.into_iter().cycle().take(4) {
                scope.spawn(move || {
                    for _ in 0..200 {
                        match open() {
                            // Another thread may have closed a file that was shared.
                            Ok(file) => drop(file.close()),
                            Err(error) => assert_eq!(error.kind(), ErrorKind::FileAlreadyOpen, "{error}"),
                        }
                    }
                });
            }
        });
    });
}
