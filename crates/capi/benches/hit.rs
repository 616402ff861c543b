//! A hit through C's functions, held against one in Rust: `cargo bench -p bufpool-capi`. Two loops over the same
//! resident pages in alternating rounds; the middle one of the ratios counts. The bar is 1.3.

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

/// The pool of C, opened as C does.
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
        // SAFETY: options of zeros are valid.
        let mut options: bufpool_pool_options = unsafe { std::mem::zeroed() };
        options.frames = 2 * PAGES as u32;
        // SAFETY: all pointers are to what lives during the calls; handles are kept until the program ends.
        let pool: *mut bufpool_pool = opened(|place| unsafe { bufpool_pool_open(&options, place) });
        let path = std::ffi::CString::new(path).unwrap();
        let how = bufpool_file_options { create: false, read_only: true, bytes: false, tag: 0 };
        // SAFETY: as before.
        let file = opened(|place| unsafe { bufpool_file_open(pool, path.as_ptr(), &how, place) });
        // SAFETY: as before.
        let tenant = opened(|place| unsafe { bufpool_tenant_default(pool, place) });
        Self { file, tenant }
    }

    fn read_all(&self, hits: u64, site: *mut bufpool_site) -> u64 {
        // As a program in C calls them: nothing is known of them here.
        let read: unsafe extern "C" fn(_, _, _, _, _) -> _ = black_box(bufpool_read);
        let release: unsafe extern "C" fn(_) = black_box(bufpool_release);
        let mut sum = 0;
        for at in 0..hits {
            let mut guard = MaybeUninit::<bufpool_guard>::uninit();
            // SAFETY: handles live, and the guard stays where it is until it is released.
            let status = unsafe { read(self.tenant, self.file, at * 7 % PAGES, site, guard.as_mut_ptr()) };
            assert_eq!(status, bufpool_status::BUFPOOL_OK);
            // SAFETY: granted above.
            let guard = unsafe { guard.assume_init_mut() };
            // SAFETY: the page's first byte, while it is latched.
            sum += u64::from(unsafe { *guard.bytes });
            // SAFETY: granted above, in this thread.
            unsafe { release(guard) };
        }
        sum
    }
}

fn read_all<'f>(tenant: &Tenant, page: impl Fn(u64) -> Page<'f>, hits: u64) -> u64 {
    (0..hits).map(|at| u64::from(tenant.at(site!("bench")).read(page(at * 7 % PAGES)).unwrap()[0])).sum()
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
    let mut rounds: Vec<(f64, f64)> = (0..=ROUNDS)
        .map(|_| {
            let by_c = nanoseconds(HITS, || c.read_all(HITS, &mut site));
            (by_c, nanoseconds(HITS, || read_all(&tenant, |number| file.page(number), HITS)))
        })
        .skip(1)
        .collect();
    rounds.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    let (by_c, rust) = rounds[ROUNDS / 2];
    println!("a hit: {by_c:.1} ns through C, {rust:.1} ns in Rust, ratio {:.2} (bar 1.3)", by_c / rust);
}
