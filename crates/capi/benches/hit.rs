//! A hit through the C functions, and one by an owned guard, compared with one by a borrowed guard in Rust:
//! `cargo bench -p bufpool-capi`. Loops over resident pages in alternating rounds, and prints the medians of
//! the ratios beside their bounds, 1.3 and 1.5.
//!
//! With `once` as argument there is one short round, for tools that count instructions: `by_c`, `by_rust` and
//! `by_owned` are functions of their own.
//!
//! ```text
//! valgrind --tool=callgrind --fair-sched=yes target/release/deps/hit-... once
//! ```

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::time::Instant;

use bufpool::{FileOptions, Page, PoolOptions, Tenant, site};
use bufpool_c::{
    bufpool_file, bufpool_file_open, bufpool_file_options, bufpool_guard, bufpool_pool, bufpool_pool_open,
    bufpool_pool_options, bufpool_read, bufpool_release, bufpool_site, bufpool_status, bufpool_tenant,
    bufpool_tenant_default,
};

const PAGES: u64 = 1024;
const HITS: u64 = 4_000_000;
const ROUNDS: usize = 15;

/// A file and a tenant of a pool that was opened by the C functions. Their handles are never freed.
struct ByC {
    file: *mut bufpool_file,
    tenant: *mut bufpool_tenant,
}

fn opened<T>(open: impl FnOnce(*mut *mut T) -> bufpool_status) -> *mut T {
    let mut place = std::ptr::null_mut();
    assert_eq!(open(&mut place), bufpool_status::BUFPOOL_OK);
    place
}

impl ByC {
    fn new(path: &str) -> Self {
        // SAFETY: numbers, flags and pointers, all of which may be zero; such options are the defaults.
        let mut options: bufpool_pool_options = unsafe { std::mem::zeroed() };
        options.frames = 2 * PAGES as u32;
        // SAFETY: the options and the place for the handle live during the call.
        let pool: *mut bufpool_pool = opened(|place| unsafe { bufpool_pool_open(&options, place) });
        let path = std::ffi::CString::new(path).unwrap();
        let how =
            bufpool_file_options { create: false, read_only: true, bytes: false, create_new: false, tag: 0 };
        // SAFETY: the name, the options and the place live during the call, and no handle is ever freed.
        let file = opened(|place| unsafe { bufpool_file_open(pool, path.as_ptr(), &how, place) });
        // SAFETY: the place lives during the call, and no handle is ever freed.
        let tenant = opened(|place| unsafe { bufpool_tenant_default(pool, place) });
        Self { file, tenant }
    }

    #[inline(never)]
    fn by_c(&self, hits: u64, site: *mut bufpool_site) -> u64 {
        // Called as a C program calls them: the compiler cannot see into them here.
        let read: unsafe extern "C" fn(_, _, _, _, _) -> _ = black_box(bufpool_read);
        let release: unsafe extern "C" fn(_) = black_box(bufpool_release);
        let mut sum = 0;
        for at in 0..hits {
            let mut guard = MaybeUninit::<bufpool_guard>::uninit();
            // SAFETY: handles live, and the guard stays where it is until it is released.
            let status = unsafe { read(self.tenant, self.file, at * 7 % PAGES, site, guard.as_mut_ptr()) };
            assert_eq!(status, bufpool_status::BUFPOOL_OK);
            // SAFETY: the call has written it, as it has returned `BUFPOOL_OK`.
            let guard = unsafe { guard.assume_init_mut() };
            // SAFETY: a page's first byte, which nobody writes while the guard is held.
            sum += u64::from(unsafe { *guard.bytes });
            // SAFETY: a guard that this thread was granted above, and does not use again.
            unsafe { release(guard) };
        }
        sum
    }
}

#[inline(never)]
fn by_rust<'f>(tenant: &Tenant, page: impl Fn(u64) -> Page<'f>, hits: u64) -> u64 {
    (0..hits).map(|at| u64::from(tenant.at(site!("bench")).read(page(at * 7 % PAGES)).unwrap()[0])).sum()
}

#[inline(never)]
fn by_owned<'f>(tenant: &Tenant, page: impl Fn(u64) -> Page<'f>, hits: u64) -> u64 {
    (0..hits)
        .map(|at| u64::from(tenant.at(site!("bench")).read_owned(page(at * 7 % PAGES)).unwrap()[0]))
        .sum()
}

fn nanoseconds(hits: u64, work: impl FnOnce() -> u64) -> f64 {
    let begun = Instant::now();
    black_box(work());
    begun.elapsed().as_nanos() as f64 / hits as f64
}

fn main() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let paths = ["c", "rust"].map(|name| folder.path().join(name).to_string_lossy().into_owned());
    for path in &paths {
        std::fs::write(path, vec![1; PAGES as usize * 8192]).unwrap();
    }
    let c = ByC::new(&paths[0]);
    let pool = PoolOptions::new().frames(2 * PAGES as u32).open().unwrap();
    let file = pool.open_file(&paths[1], FileOptions::new().read_only(true)).unwrap();
    let tenant = pool.default_tenant();
    let [name, source] = ["bench", "hit.rs"].map(|text| std::ffi::CString::new(text).unwrap());
    let mut site =
        bufpool_site { name: name.as_ptr(), file: source.as_ptr(), line: 1, made: std::ptr::null_mut() };
    let is_once = std::env::args().any(|argument| argument == "once");
    let (hits, rounds) = if is_once { (HITS / 4, 0) } else { (HITS, ROUNDS) };
    let measured: Vec<[f64; 3]> = (0..=rounds)
        .map(|_| {
            let page = |number| file.page(number);
            let by_c = nanoseconds(hits, || c.by_c(hits, &mut site));
            let by_rust = nanoseconds(hits, || by_rust(&tenant, page, hits));
            [by_rust, by_c, nanoseconds(hits, || by_owned(&tenant, page, hits))]
        })
        // The first round brings the pages in.
        .skip(rounds.min(1))
        .collect();
    for (name, column, bar) in [("through C", 1, 1.3), ("by an owned guard", 2, 1.5)] {
        let mut rounds = measured.clone();
        rounds.sort_by(|a, b| (a[column] / a[0]).total_cmp(&(b[column] / b[0])));
        let middle = rounds[rounds.len() / 2];
        let (rust, other) = (middle[0], middle[column]);
        println!("a hit: {other:.1} ns {name}, {rust:.1} ns in Rust, ratio {:.2} (bar {bar})", other / rust);
    }
}
