//! Options of a pool for the I/O layer, and what the pool reports about them.

use bufpool::{Direct, ErrorKind, FileOptions, PoolOptions};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Creates pages, makes them durable, and reads them in a second pool. Returns the second pool's report of
/// its I/O.
fn round_trip(options: impl Fn() -> PoolOptions) -> String {
    let folder = folder();
    let path = folder.path().join("pages");
    let pool = options().open().unwrap();
    let file = pool.open_file(&path, FileOptions::new().create(true)).unwrap();
    let tenant = pool.tenant("writer").open().unwrap();
    for number in file.extend(200).unwrap() {
        tenant.create(file.page(number)).unwrap().fill(number as u8);
    }
    pool.close().unwrap();
    let pool = options().open().unwrap();
    let file = pool.open_file(&path, FileOptions::new()).unwrap();
    let tenants = ["one", "two"].map(|name| pool.tenant(name).open().unwrap());
    std::thread::scope(|scope| {
        for (first, tenant) in tenants.iter().enumerate() {
            let file = &file;
            scope.spawn(move || {
                let pages: Vec<_> = (first as u64 * 100..).take(40).map(|number| file.page(number)).collect();
                for page in tenant.read_many(&pages) {
                    let page = page.unwrap().expect("nobody else reads these");
                    assert!(page.iter().all(|byte| *byte == page.page().number() as u8));
                }
                let page = tenant.read(file.page(first as u64 * 100 + 50)).unwrap();
                assert_eq!(page[9], page.page().number() as u8);
            });
        }
    });
    let said = pool.io().to_string();
    pool.close().unwrap();
    said
}

fn small() -> PoolOptions {
    PoolOptions::new().frames(128).page_bytes(4096)
}

/// The report says of each option that it is in use, or why not.
#[test]
fn wishes_are_fulfilled_or_told() {
    for (wish, options) in [
        ("SQPOLL", (|| small().sqpoll_idle_ms(5)) as fn() -> PoolOptions),
        ("IOPOLL", || small().iopoll(true)),
    ] {
        let said = round_trip(options);
        println!("{said}");
        assert!(said.contains(wish) || said.contains("without io_uring"), "{wish}: {said}");
    }
}

/// With io_uring all frames are registered as buffers, unless the kernel refuses that; the report then says
/// how much was wanted.
#[test]
fn all_frames_are_registered() {
    // In deterministic mode there is no clean reserve, so these are all frames.
    let pool = small().deterministic(1).open().unwrap();
    let said = pool.io().to_string();
    let are_all = ["registered buffers (512 KiB)", "(512 KiB wanted"].iter().any(|all| said.contains(all));
    assert!(are_all || !said.starts_with("I/O backend: uring"), "{said}");
    assert!(!said.contains("for 0 operations"), "nothing was left to threads: {said}");
}

/// How many reads saturate the device is known with the first file.
#[test]
fn a_pool_without_files_names_no_number_of_reads() {
    let folder = folder();
    let pool = small().open().unwrap();
    let said = pool.io().to_string();
    assert!(
        said.contains("tenants taking turns (from how many reads in flight on, the first file"),
        "{said}"
    );
    pool.open_file(folder.path().join("pages"), FileOptions::new().create(true)).unwrap();
    let said = pool.io().to_string();
    assert!(said.contains("taking turns from 32 reads in flight on"), "{said}");
}

#[test]
fn a_pool_serves_tenants_in_turn_on_a_device_that_takes_one_read_at_a_time() {
    let said = round_trip(|| small().saturation_depth(1));
    assert!(said.contains("taking turns from 1 reads in flight on"), "{said}");
    let buffered = round_trip(|| small().saturation_depth(1).direct(Direct::Off));
    assert!(buffered.contains("buffered"), "{buffered}");
}

#[test]
fn depths_out_of_range_are_refused() {
    for (options, name) in [
        (small().saturation_depth(0), "saturation_depth"),
        (small().saturation_depth(5000), "saturation_depth"),
        (small().io_depth(0), "io_depth"),
    ] {
        let error = options.open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOptions);
        assert!(error.to_string().contains(name) && error.to_string().contains("from 1 to 4096"), "{error}");
    }
    for depth in [1, 3, 4096] {
        drop(small().io_depth(depth).open().unwrap());
    }
}
