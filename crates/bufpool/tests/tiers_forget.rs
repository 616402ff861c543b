//! Goal: no page is ever served that differs from the page in its file, also if a tier hears late that it
//! should forget. Method: calls of `forget` are dropped, delayed, or overtake one another and later
//! demotions, and demotions and fills are delayed or overtake one another and calls of `forget`, while pages
//! change in every way in which a page can change. Each page is compared with the version that it must have,
//! once as it comes from the file and once as it comes from the tier.

mod common;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::Mutex;

use bufpool::engine::{Checksum, PageName};
use bufpool::manager::Allocation;
use bufpool::tier::{
    Attachment, CompressedTier, Demoted, FileTier, Life, MemoryTier, Tier, TierAdmit, TierBuffer, TierDone,
    TierPage, TierPolicy, TierRange, TierReport, Version,
};
use bufpool::{File, FileOptions, Pool, PoolOptions, Result};
use common::{PAGE_BYTES, deterministic, directory, stamp, version};

const PAGES: u64 = 100;
/// The last bytes of a page, where its checksum is in worlds with checksums.
const TRAILER_BYTES: usize = 16;
/// Calls that a delayed one waits for.
const DELAY_CALLS: u64 = 150;
/// Calls that wait at most where they are told in random order: pages that wait hold buffers of the pool's.
const WAITING_MAX: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Calls {
    /// Of `forget`: never told.
    Dropped,
    /// In order, each after [`DELAY_CALLS`] later ones.
    Delayed,
    /// In random order, each while at least three others wait.
    Reordered,
}

/// Which calls a tier hears late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Late {
    Forgets,
    ForgetsAndPages,
}

/// A tier that hears calls late.
struct LateTier {
    tier: Arc<dyn Tier>,
    how: Calls,
    late: Late,
    state: Mutex<State>,
}

enum Call {
    Forget(TierRange),
    Demote(PageName, Version, TierPage),
    Fill(PageName, Version, TierPage),
}

#[derive(Default)]
struct State {
    calls: u64,
    random: u64,
    /// The calls that wait, each with its number.
    waiting: Vec<(u64, Call)>,
    told: u64,
    /// The number of calls that the tier was told of after a later one.
    overtaken: u64,
    /// The number of the call that the tier was last told of.
    last_told: u64,
}

impl State {
    fn below(&mut self, bound: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % bound
    }

    /// The call that the tier is told of now, if it is time for one.
    fn due(&mut self, how: Calls) -> Option<Call> {
        self.calls += 1;
        let at = match how {
            Calls::Dropped => None,
            Calls::Delayed => {
                self.waiting.first().is_some_and(|(came, _)| came + DELAY_CALLS < self.calls).then_some(0)
            }
            Calls::Reordered if self.waiting.len() < 4 => None,
            Calls::Reordered if self.waiting.len() < WAITING_MAX && self.below(20) > 0 => None,
            Calls::Reordered => Some(self.below(self.waiting.len() as u64) as usize),
        };
        let (came, call) = self.waiting.remove(at?);
        self.told += 1;
        self.overtaken += u64::from(came < self.last_told);
        self.last_told = self.last_told.max(came);
        Some(call)
    }

    fn push(&mut self, call: Call) {
        self.calls += 1;
        self.waiting.push((self.calls, call));
    }
}

impl LateTier {
    fn new(tier: Arc<dyn Tier>, how: Calls, late: Late) -> Self {
        Self { tier, how, late, state: Mutex::default() }
    }

    fn one_call(&self) {
        let due = self.state.lock().unwrap().due(self.how);
        match due {
            None => {}
            Some(Call::Forget(range)) => self.tier.forget(range),
            Some(Call::Demote(page, version, bytes)) => drop(self.tier.demote(page, version, bytes)),
            Some(Call::Fill(page, version, bytes)) => drop(self.tier.fill(page, version, bytes)),
        }
    }

    /// Offers a page to the tier, now or later. If later, the pool does not learn what the tier answers.
    fn offer(&self, call: Call) -> Demoted {
        let demoted = match (self.late, call) {
            (Late::Forgets, Call::Demote(page, version, bytes)) => self.tier.demote(page, version, bytes),
            (Late::Forgets, Call::Fill(page, version, bytes)) => self.tier.fill(page, version, bytes),
            (_, call) => {
                self.state.lock().unwrap().push(call);
                Demoted::Stored
            }
        };
        self.one_call();
        demoted
    }
}

impl Tier for LateTier {
    fn attach(&self, to: &Attachment) -> Result<()> {
        self.tier.attach(to)
    }

    fn demote(&self, page: PageName, version: Version, bytes: TierPage) -> Demoted {
        self.offer(Call::Demote(page, version, bytes))
    }

    fn fill(&self, page: PageName, version: Version, bytes: TierPage) -> Demoted {
        self.offer(Call::Fill(page, version, bytes))
    }

    fn hear_life(&self, life: Life) {
        self.tier.hear_life(life);
    }

    fn take(&self, page: PageName, version: Version, into: TierBuffer, done: TierDone) {
        self.one_call();
        self.tier.take(page, version, into, done);
    }

    fn forget(&self, pages: TierRange) {
        self.state.lock().unwrap().push(Call::Forget(pages));
    }

    fn report(&self) -> TierReport {
        self.tier.report()
    }

    fn detach(&self) {
        self.state.lock().unwrap().waiting.clear();
        self.tier.detach();
    }
}

/// A pool of 32 frames over a late tier, and a file in which each page has the version that is written down.
struct World {
    folder: PathBuf,
    has_checksums: bool,
    late: Arc<LateTier>,
    pool: Pool,
    file: File,
    expected: Vec<u64>,
    /// The next version.
    next: u64,
    /// The name of this world in messages.
    name: String,
}

fn with_hooks(options: PoolOptions, has_checksums: bool) -> PoolOptions {
    if has_checksums {
        options.hooks(Box::new(Checksum::in_page(PAGE_BYTES - TRAILER_BYTES)))
    } else {
        options
    }
}

/// A checksum in the page would be cut off with the last page of a file of bytes.
fn open(pool: &Pool, folder: &Path, has_checksums: bool) -> File {
    let options = FileOptions::new().create(true).bytes(!has_checksums).tag(5);
    pool.open_file(folder.join("data"), options).unwrap()
}

fn write(pool: &Pool, file: &File, number: u64, version: u64) {
    let tenant = pool.default_tenant();
    let mut page = tenant.write(file.page(number)).unwrap();
    stamp(&mut page[..PAGE_BYTES - TRAILER_BYTES], number, version);
}

impl World {
    fn new(
        folder: &Path,
        tier: Arc<dyn Tier>,
        policy: TierPolicy,
        how: Calls,
        late: Late,
        has_checksums: bool,
    ) -> Self {
        let late = Arc::new(LateTier::new(tier, how, late));
        let options =
            with_hooks(deterministic(), has_checksums).allocation(Allocation::GlobalLru).manager(None);
        let pool = options.tier(Arc::clone(&late) as _, policy, TierAdmit::All).open().unwrap();
        let file = open(&pool, folder, has_checksums);
        file.extend(PAGES).unwrap();
        let name = format!("{policy:?}, {:?} {how:?}, checksums {has_checksums}", late.late);
        let expected = vec![0; PAGES as usize];
        let mut world =
            Self { folder: folder.to_owned(), has_checksums, late, pool, file, expected, next: 1, name };
        (0..PAGES).for_each(|number| world.write(number));
        world.check("at first");
        world
    }

    fn write(&mut self, number: u64) {
        write(&self.pool, &self.file, number, self.next);
        self.expected[number as usize] = self.next;
        self.next += 1;
    }

    /// Reads all pages twice, so that each of them leaves memory, and comes from the tier if that has it.
    fn check(&self, after: &str) {
        let tenant = self.pool.default_tenant();
        for number in (0..2).flat_map(|_| 0..PAGES) {
            let page = tenant.read(self.file.page(number)).unwrap();
            let bytes = &page[..PAGE_BYTES - TRAILER_BYTES];
            let found = if bytes.iter().all(|byte| *byte == 0) { 0 } else { version(bytes, number) };
            assert_eq!(found, self.expected[number as usize], "page {number} after {after}: {}", self.name);
        }
    }

    /// Lets pages change in one of the ways; `at` is the first of ten pages.
    fn change(&mut self, way: Way, at: u64) {
        match way {
            Way::WriteBack => {
                self.write(at);
                self.file.flush_page(at).unwrap();
                (at + 1..at + 4).for_each(|number| self.write(number));
            }
            Way::Create => {
                stamp(
                    &mut self.pool.default_tenant().create(self.file.page(at)).unwrap()
                        [..PAGE_BYTES - TRAILER_BYTES],
                    at,
                    self.next,
                );
                self.expected[at as usize] = self.next;
                self.next += 1;
            }
            Way::Overwrite => {
                let mut bytes = vec![0; PAGE_BYTES];
                stamp(&mut bytes[..PAGE_BYTES - TRAILER_BYTES], at, self.next);
                self.pool.default_tenant().overwrite(self.file.page(at), &bytes).unwrap();
                self.expected[at as usize] = self.next;
                self.next += 1;
            }
            Way::SetLength => {
                let (page_bytes, kept) = (PAGE_BYTES as u64, 100);
                self.file.set_byte_len(at * page_bytes + kept).unwrap();
                self.file.set_byte_len(PAGES * page_bytes).unwrap();
                self.expected[at as usize + 1..].fill(0);
                let cut = self.pool.default_tenant().read(self.file.page(at)).unwrap()
                    [kept as usize..PAGE_BYTES - TRAILER_BYTES]
                    .to_vec();
                assert!(cut.iter().all(|byte| *byte == 0), "page {at} was cut: {}", self.name);
                self.write(at);
            }
            Way::Discard => {
                self.file.flush().unwrap();
                write(&self.pool, &self.file, at, u64::MAX);
                self.file.discard(at..at + 1).unwrap();
            }
            Way::TruncateAndExtend => {
                let pages = PAGES - 10 - at / 10;
                self.file.truncate(pages).unwrap();
                self.file.extend(PAGES - pages).unwrap();
                self.expected[pages as usize..].fill(0);
            }
            Way::Reopen => {
                self.file.flush().unwrap();
                self.file.reopen().unwrap();
            }
            Way::CloseAndOpen => self.while_closed(|_| {}),
            Way::Restore => {
                self.file.flush().unwrap();
                let (data, older) = (self.folder.join("data"), self.folder.join("older"));
                std::fs::copy(&data, &older).unwrap();
                let expected = self.expected.clone();
                (at..at + 10).for_each(|number| self.write(number));
                self.check("changes to be undone");
                self.file.flush().unwrap();
                std::fs::copy(&older, &data).unwrap();
                self.file.reopen().unwrap();
                self.expected = expected;
            }
            Way::OtherProcess => self.while_closed(|world| {
                let first = world.next;
                run_other_process(&world.folder, world.has_checksums, at, first);
                for number in at..at + 10 {
                    world.expected[number as usize] = first;
                }
                world.next += 1;
            }),
        }
        self.check(&format!("{way:?} at {at}"));
    }

    fn while_closed(&mut self, then: impl FnOnce(&mut Self)) {
        self.file.clone().close().unwrap();
        then(self);
        self.file = open(&self.pool, &self.folder, self.has_checksums);
    }
}

#[derive(Clone, Copy, Debug)]
enum Way {
    WriteBack,
    Create,
    Overwrite,
    Discard,
    TruncateAndExtend,
    SetLength,
    Reopen,
    CloseAndOpen,
    Restore,
    OtherProcess,
}

const WAYS: [Way; 10] = [
    Way::WriteBack,
    Way::Create,
    Way::Overwrite,
    Way::Discard,
    Way::TruncateAndExtend,
    Way::SetLength,
    Way::Reopen,
    Way::CloseAndOpen,
    Way::Restore,
    Way::OtherProcess,
];

/// Names the folder, in the other process's environment.
const FOLDER: &str = "BUFPOOL_FORGET_FOLDER";
const CHECKSUMS: &str = "BUFPOOL_FORGET_CHECKSUMS";
const FIRST_PAGE: &str = "BUFPOOL_FORGET_FIRST_PAGE";
const VERSION: &str = "BUFPOOL_FORGET_VERSION";
const TEST: &str = "late_forgets_never_bring_back_what_a_page_was";

fn run_other_process(folder: &Path, has_checksums: bool, first_page: u64, version: u64) {
    let variables: [(&str, OsString); 4] = [
        (FOLDER, folder.into()),
        (CHECKSUMS, has_checksums.to_string().into()),
        (FIRST_PAGE, first_page.to_string().into()),
        (VERSION, version.to_string().into()),
    ];
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", TEST]).envs(variables).stdin(Stdio::null()).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
}

/// The other process: changes ten pages.
fn be_other_process(folder: &Path) {
    let number = |name| env::var(name).unwrap().parse::<u64>().unwrap();
    let has_checksums = env::var(CHECKSUMS).unwrap() == "true";
    let pool = with_hooks(deterministic(), has_checksums).open().unwrap();
    let file = open(&pool, folder, has_checksums);
    for page in number(FIRST_PAGE)..number(FIRST_PAGE) + 10 {
        write(&pool, &file, page, number(VERSION));
    }
    drop(file);
    pool.close().unwrap();
}

#[test]
fn late_forgets_never_bring_back_what_a_page_was() {
    if let Some(folder) = env::var_os(FOLDER) {
        return be_other_process(Path::new(&folder));
    }
    let forgets = [Calls::Dropped, Calls::Delayed, Calls::Reordered].map(|how| (how, Late::Forgets));
    let pages = [Calls::Delayed, Calls::Reordered].map(|how| (how, Late::ForgetsAndPages));
    for policy in [TierPolicy::Demote, TierPolicy::Promote, TierPolicy::Inclusive] {
        for (how, late) in forgets.into_iter().chain(pages) {
            for has_checksums in [false, true] {
                let folder = directory();
                let tiers: [Arc<dyn Tier>; 3] = [
                    Arc::new(MemoryTier::new(200)),
                    Arc::new(FileTier::new(folder.path().join("tier"), 200)),
                    Arc::new(CompressedTier::new(1 << 20)),
                ];
                for (at, tier) in tiers.into_iter().enumerate() {
                    let place = folder.path().join(at.to_string());
                    std::fs::create_dir(&place).unwrap();
                    change_in_all_ways(World::new(&place, tier, policy, how, late, has_checksums));
                }
            }
        }
    }
}

fn change_in_all_ways(mut world: World) {
    for round in 0..2 {
        for (at, way) in (0_u64..).step_by(7).zip(WAYS) {
            if matches!(way, Way::SetLength) && world.has_checksums {
                continue;
            }
            world.change(way, (at + 31 * round) % (PAGES - 10));
        }
    }
    let tier = world.pool.stats().tier.unwrap();
    assert!(tier.hits > 0, "{}: {tier:?}", world.name);
    let state = world.late.state.lock().unwrap();
    assert_eq!(state.told > 0, world.late.how != Calls::Dropped, "{}", world.name);
    assert_eq!(state.overtaken > 0, world.late.how == Calls::Reordered, "{}", world.name);
    world.pool.check_invariants();
}
