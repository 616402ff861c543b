//! Goal: a relative path means what it meant when the file was opened.
//! Method: the one test of its process, whose working directory it changes.

mod common;

use std::{env, fs};

use bufpool::FileOptions;
use common::{PAGE_BYTES, directory, on_each_backend, small, stamp, version};

#[test]
fn a_file_stays_the_one_that_was_opened_when_the_working_directory_changes() {
    on_each_backend(|io| {
        let directory = directory();
        let (before, after) = (directory.path().join("before"), directory.path().join("after"));
        fs::create_dir(&before).unwrap();
        fs::create_dir(&after).unwrap();
        let pool = small().io(io).open().unwrap();
        let tenant = pool.default_tenant();
        env::set_current_dir(&before).unwrap();
        let open = |name| {
            let file = pool.open_file(name, FileOptions::new().create(true)).unwrap();
            file.extend(2).unwrap();
            stamp(&mut tenant.write(file.page(1)).unwrap(), 1, 1);
            file.flush().unwrap();
            file
        };
        let (data, only_there) = (open("data"), open("only there"));
        env::set_current_dir(&after).unwrap();
        fs::write("data", vec![7; PAGE_BYTES]).unwrap();
        for file in [&data, &only_there] {
            assert_eq!((file.reopen().unwrap(), file.pages()), (0, 2));
            assert_eq!(version(&tenant.read(file.page(1)).unwrap(), 1), 1);
        }
        data.remove().unwrap();
        only_there.remove().unwrap();
        assert_eq!(fs::read_dir(&before).unwrap().count(), 0);
        assert_eq!(fs::read_dir(&after).unwrap().count(), 1);
        assert_eq!(fs::read("data").unwrap(), vec![7; PAGE_BYTES]);
        env::set_current_dir("/").unwrap();
    });
}
