//! Goal: a pool with a tier below it is one cache of their summed size, and never serves what its files do
//! not have, whatever the tier does. Method: access by access against one LRU list; and tiers that keep every
//! copy that they were ever offered, never forget, and answer with what was not asked for, under each way in
//! which a page changes.

mod common;
mod tiers_below;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bufpool::engine::{PageHooks, PageName};
use bufpool::manager::Allocation;
use bufpool::sim::SimDevice;
use bufpool::tier::{
    Attachment, CompressedTier, Demoted, Envelope, FileTier, MemoryTier, PassedBy, Segments, Tier, TierAdmit,
    TierBuffer, TierDone, TierPage, TierPolicy, TierRange, TierReport, Version,
};
use bufpool::{ErrorKind, File, FileOptions, Pool};
use bufpool_policies::PageId;
use bufpool_policies::tier::{Arrival, TierKind, TierOrder, TierSetup};
use common::{
    PAGE_BYTES, Random, deterministic, directory, new_file, on_each_backend, open_on, small, stamp,
    stamped_device, version,
};
use tiers_below::{Answer, FRAMES, Hoarder, over};

const ADAPT: TierPolicy = TierPolicy::DemoteAdapt(Segments::Uniform);

/// Pages of one LRU cache, the one used last at the back.
struct Lru {
    pages: VecDeque<u64>,
    most: usize,
}

impl Lru {
    /// Whether the page was there.
    fn access(&mut self, page: u64) -> bool {
        let place = self.pages.iter().position(|there| *there == page);
        place.map(|place| self.pages.remove(place));
        self.pages.push_back(page);
        if self.pages.len() > self.most {
            self.pages.pop_front();
        }
        place.is_some()
    }
}

fn tier_hits(pool: &Pool) -> u64 {
    pool.stats().tier.unwrap().hits
}

/// Uniform, cyclic and skewed accesses to `pages` pages.
fn streams(pages: u64) -> Vec<Vec<u64>> {
    let mut random = Random(7);
    let uniform = (0..3_000).map(|_| random.below(pages)).collect();
    let cyclic = (0..3_000).map(|at| at % pages).collect();
    let mut random = Random(8);
    let skewed = (0..3_000).map(|_| random.below(pages) * random.below(pages) / pages).collect();
    vec![uniform, cyclic, skewed]
}

#[test]
fn a_pool_and_a_tier_are_one_lru_list() {
    for tier_pages in [1, 7, 40] {
        let size = FRAMES as usize + tier_pages as usize - 1;
        for pages in [size as u64, size as u64 + 1, 100] {
            for stream in streams(pages) {
                let tiers: [Arc<dyn Tier>; 2] =
                    [Arc::new(MemoryTier::new(tier_pages)), Arc::new(FileTier::new("below", tier_pages))];
                for tier in tiers {
                    let device = stamped_device(pages);
                    let options = over(deterministic().tier_wait_ms(10_000), tier, TierPolicy::Demote);
                    let (pool, file) = open_on(options, &device);
                    let mut one_list = Lru { pages: VecDeque::new(), most: size };
                    let tenant = pool.default_tenant();
                    for (at, number) in stream.iter().enumerate() {
                        let before = pool.stats().reads;
                        assert_eq!(version(&tenant.read(file.page(*number)).unwrap(), *number), 1);
                        let was_read = pool.stats().reads > before;
                        assert_eq!(
                            !was_read,
                            one_list.access(*number),
                            "access {at}, page {number} of {pages}"
                        );
                    }
                    let stats = pool.stats();
                    let tier = stats.tier.as_ref().unwrap();
                    assert_eq!(stats.reads, stats.misses - tier.hits);
                    assert_eq!(tier.demotions, stats.left_clean);
                    assert_eq!((tier.wrong, tier.refused, tier.skipped, tier.timed_out), (0, 0, 0, 0));
                    pool.check_invariants();
                    pool.close().unwrap();
                }
            }
        }
    }
}

/// A client of a tier that promotes, as a vector: index 0 goes next. It gives up a page before it reads
/// another, and a page that the tier keeps goes next.
struct Client {
    frames: Vec<Resident>,
    order: Box<dyn TierOrder>,
    /// The file's pages get other versions when they leave memory.
    is_writable: bool,
    accesses: u64,
    /// The time and the age of the page that left last, until the tier is told.
    life: Option<(u64, u64)>,
    source_reads: u64,
    tier_hits: u64,
}

struct Resident {
    page: PageId,
    used_at: u64,
    stays_below: bool,
    is_used_again: bool,
}

impl Client {
    fn access(&mut self, page: PageId) {
        let now = self.accesses;
        self.accesses += 1;
        if let Some(at) = self.frames.iter().position(|resident| resident.page == page) {
            let resident = self.frames.remove(at);
            return self.frames.push(Resident { used_at: now, is_used_again: true, ..resident });
        }
        if self.frames.len() == FRAMES as usize {
            self.give_up_one(now);
        }
        if let Some((now, age)) = self.life.take() {
            self.order.hear_age(now, age);
        }
        let found = self.order.read(page);
        self.tier_hits += u64::from(found.is_some());
        self.source_reads += u64::from(found.is_none());
        let stays_below = match found {
            Some(found) => found.stays,
            None => self.order.fill(page) != Arrival::NotKept,
        };
        let place = if stays_below { 0 } else { self.frames.len() };
        self.frames.insert(place, Resident { page, used_at: now, stays_below, is_used_again: false });
    }

    fn give_up_one(&mut self, now: u64) {
        let gone = self.frames.remove(0);
        if gone.stays_below && self.is_writable {
            self.order.demote(gone.page);
        }
        if !gone.stays_below || gone.is_used_again {
            // As in a pool: the access that the page makes room for is counted in the time, and the access by
            // which it was last used is not counted in its age.
            self.life = Some((now + 1, now - gone.used_at - 1));
        }
    }
}

/// The pool and a model that uses the simulator's directory of such a tier do the same, access by access.
#[test]
fn a_pool_over_a_tier_that_promotes_is_a_client_of_the_simulators() {
    for (tier_pages, pages) in [(1, 60), (7, 40), (40, 71), (40, 100), (200, 150)] {
        let mut hits = 0;
        for stream in streams(pages) {
            for is_writable in [true, false] {
                let tiers: [Arc<dyn Tier>; 2] =
                    [Arc::new(MemoryTier::new(tier_pages)), Arc::new(FileTier::new("below", tier_pages))];
                for tier in tiers {
                    let options = over(deterministic().tier_wait_ms(10_000), tier, TierPolicy::Promote);
                    let pool = options.open_on(&stamped_device(pages)).unwrap();
                    let file = pool.open_file("data", FileOptions::new().read_only(!is_writable)).unwrap();
                    hits += follows_a_client(&pool, &file, &stream, is_writable, tier_pages);
                    pool.check_invariants();
                    drop(file);
                    pool.close().unwrap();
                }
            }
        }
        assert!(hits > 0, "{tier_pages} over {pages}");
    }
}

fn follows_a_client(pool: &Pool, file: &File, stream: &[u64], is_writable: bool, tier_pages: u32) -> u64 {
    let setup = TierSetup { frames: tier_pages, client_frames: FRAMES, seed: 1 };
    let mut client = Client {
        frames: Vec::new(),
        order: TierKind::Promote.build(setup),
        is_writable,
        accesses: 0,
        life: None,
        source_reads: 0,
        tier_hits: 0,
    };
    let tenant = pool.default_tenant();
    for (at, number) in stream.iter().enumerate() {
        assert_eq!(version(&tenant.read(file.page(*number)).unwrap(), *number), 1);
        client.access(PageId(*number));
        let stats = pool.stats();
        let expected = (client.source_reads, client.tier_hits);
        assert_eq!((stats.reads, tier_hits(pool)), expected, "access {at}, page {number}, {is_writable}");
    }
    let tier = pool.stats().tier.unwrap();
    assert_eq!((tier.wrong, tier.refused, tier.skipped, tier.timed_out), (0, 0, 0, 0));
    assert!(tier.passed_up > 0, "{tier:?}");
    assert_eq!(tier.report.pages, u64::from(client.order.len()));
    client.order.check_invariants();
    client.tier_hits
}

/// Half the transfers of DEMOTE, in the paper's words: none when a page leaves, one when it comes from its
/// file and the tier keeps it.
#[test]
fn under_promote_nothing_goes_down_when_a_page_leaves_that_is_only_read() {
    let offered = |policy| {
        let options = over(deterministic().tier_wait_ms(10_000), Arc::new(MemoryTier::new(40)), policy);
        let pool = options.open_on(&stamped_device(PAGES)).unwrap();
        let file = pool.open_file("data", FileOptions::new().read_only(true)).unwrap();
        for number in &streams(PAGES)[0] {
            assert_eq!(version(&pool.default_tenant().read(file.page(*number)).unwrap(), *number), 1);
        }
        let stats = pool.stats();
        let tier = stats.tier.unwrap();
        (tier.demotions, stats.reads, stats.left_clean)
    };
    let (demotions, _, left) = offered(TierPolicy::Demote);
    assert_eq!(demotions, left);
    let (offers, reads, left) = offered(TierPolicy::Promote);
    assert!(offers == reads && reads < left, "{offers}, {reads}, {left}");
}

/// Other pools may read the same pages soon, but only of files that no pool writes.
#[test]
fn a_tier_that_pools_share_is_offered_what_is_read_from_read_only_files() {
    for policy in [TierPolicy::Demote, TierPolicy::Inclusive, ADAPT] {
        for is_read_only in [false, true] {
            let hoarder = Arc::new(Hoarder::new(Answer::AsAsked));
            let pool = over(deterministic(), Arc::clone(&hoarder) as _, policy);
            let pool = pool.open_on(&stamped_device(PAGES)).unwrap();
            let file = pool.open_file("data", FileOptions::new().read_only(is_read_only).tag(5)).unwrap();
            for number in [7, 20, 33] {
                assert_eq!(version(&pool.default_tenant().read(file.page(number)).unwrap(), number), 1);
            }
            let tier = pool.stats().tier.unwrap();
            let offered = if policy == ADAPT && is_read_only { 3 } else { 0 };
            assert_eq!(
                (tier.demotions, tier.passed_up),
                (offered, offered / 3),
                "{policy:?}, {is_read_only}"
            );
            for number in [7, 20] {
                assert_eq!(hoarder.bytes_of(5, number).is_empty(), offered == 0, "{policy:?}");
            }
            pool.check_invariants();
        }
    }
}

/// A policy of admission that offers pages later than at their load cannot be combined with promotion.
#[test]
fn a_tier_that_promotes_is_offered_all_pages() {
    for admit in [TierAdmit::SecondEviction, TierAdmit::HitOnce] {
        let tier = Arc::new(MemoryTier::new(40));
        let open = |admit| small().tier(Arc::clone(&tier) as _, TierPolicy::Promote, admit).open();
        assert_eq!(common::kind(open(admit)), ErrorKind::InvalidOptions);
        open(TierAdmit::All).unwrap().close().unwrap();
    }
}

/// If a page that the tier keeps is changed in memory, the tier has the new version once the page has left.
#[test]
fn a_page_that_stays_below_is_renewed_when_it_leaves() {
    let device = stamped_device(PAGES);
    let options =
        over(deterministic().tier_wait_ms(10_000), Arc::new(MemoryTier::new(200)), TierPolicy::Promote);
    let (pool, file) = open_on(options, &device);
    let tenant = pool.default_tenant();
    for round in 1..6 {
        for number in 0..PAGES {
            assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), round);
            stamp(&mut tenant.write(file.page(number)).unwrap(), number, round + 1);
        }
    }
    let tier = pool.stats().tier.unwrap();
    assert!(tier.hits > 0 && tier.present > 0, "{tier:?}");
    assert_eq!(tier.wrong, 0, "{tier:?}");
    pool.check_invariants();
}

#[test]
fn pages_come_from_a_tier_on_each_backend() {
    on_each_backend(|io| {
        let folder = directory();
        let in_file = |name| Arc::new(FileTier::new(folder.path().join(name), 200));
        let tiers: [(Arc<dyn Tier>, _); 3] = [
            (Arc::new(MemoryTier::new(200)), TierPolicy::Demote),
            (in_file("below"), TierPolicy::Demote),
            (Arc::new(MemoryTier::new(200)), TierPolicy::Promote),
        ];
        for (at, (tier, policy)) in tiers.into_iter().enumerate() {
            let options = over(small().io(io), tier, policy);
            let pool = options.tier_wait_ms(10_000).open().unwrap();
            let file = new_file(&pool, folder.path(), &format!("data{at}"), 150);
            let tenant = pool.default_tenant();
            for number in 0..150 {
                stamp(&mut tenant.create(file.page(number)).unwrap(), number, 1);
            }
            for round in 0..4 {
                for number in 0..150 {
                    assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), 1, "round {round}");
                }
            }
            let tier = pool.stats().tier.unwrap();
            assert!(tier.hits > 0, "{tier:?}");
            assert_eq!((tier.wrong, tier.timed_out, tier.panics), (0, 0, 0), "{tier:?}");
            pool.close().unwrap();
        }
    });
}

/// A pool over a [`Hoarder`], with a file of 100 pages at version 1 that have all been in memory once, so
/// that the tier has a copy of each page that has left memory.
struct Hoarded {
    device: SimDevice,
    hoarder: Arc<Hoarder>,
    pool: Pool,
    file: File,
}

const PAGES: u64 = 100;

impl Hoarded {
    fn new(answer: Answer) -> Self {
        Self::under(TierPolicy::Demote, answer)
    }

    fn under(policy: TierPolicy, answer: Answer) -> Self {
        let device = stamped_device(PAGES);
        let hoarder = Arc::new(Hoarder::new(answer));
        let options = over(deterministic(), Arc::clone(&hoarder) as _, policy);
        let (pool, file) = open_on(options, &device);
        let hoarded = Self { device, hoarder, pool, file };
        hoarded.turn_over(&hoarded.file);
        hoarded
    }

    /// Every page is read, so that those that were in memory leave it.
    fn turn_over(&self, file: &File) {
        for number in 0..file.pages() {
            drop(self.pool.default_tenant().read(file.page(number)).unwrap());
        }
    }

    fn version(&self, file: &File, number: u64) -> u64 {
        let tenant = self.pool.default_tenant();
        let bytes = tenant.read(file.page(number)).unwrap();
        if bytes.iter().all(|byte| *byte == 0) { 0 } else { version(&bytes, number) }
    }

    fn write(&self, number: u64, version: u64) {
        stamp(&mut self.pool.default_tenant().write(self.file.page(number)).unwrap(), number, version);
    }
}

/// Each way in which a page changes, while the tier has its copies of before and no `forget` is heard.
#[test]
fn a_copy_of_before_is_never_served() {
    for policy in [TierPolicy::Demote, ADAPT, TierPolicy::Promote] {
        for answer in Answer::ALL {
            serves_no_copy_of_before(policy, answer);
        }
    }
}

fn serves_no_copy_of_before(policy: TierPolicy, answer: Answer) {
    let world = Hoarded::under(policy, answer);
    let (pool, file) = (&world.pool, &world.file);
    let tenant = pool.default_tenant();
    // Written back while it stays, and by its eviction.
    world.write(3, 2);
    file.flush_page(3).unwrap();
    world.write(4, 2);
    world.turn_over(file);
    assert_eq!([3, 4].map(|number| world.version(file, number)), [2, 2], "{answer:?}");
    // Overwritten without being read.
    stamp(&mut tenant.create(file.page(5)).unwrap(), 5, 3);
    world.turn_over(file);
    assert_eq!(world.version(file, 5), 3, "{answer:?}");
    // A change that was dropped, and one that was dropped after an earlier one was written.
    world.write(6, 4);
    file.discard(6..7).unwrap();
    world.write(7, 5);
    file.flush_page(7).unwrap();
    world.write(7, 6);
    file.discard(7..8).unwrap();
    assert_eq!([6, 7].map(|number| world.version(file, number)), [1, 5], "{answer:?}");
    world.turn_over(file);
    assert_eq!([6, 7].map(|number| world.version(file, number)), [1, 5], "{answer:?}");
    // Shortened and lengthened, absent pages and present ones.
    file.truncate(60).unwrap();
    file.extend(40).unwrap();
    assert_eq!([60, 61, 99].map(|number| world.version(file, number)), [0; 3], "{answer:?}");
    // Closed, restored from an older copy, and opened again.
    file.flush().unwrap();
    file.reopen().unwrap();
    assert_eq!([3, 5, 70].map(|number| world.version(file, number)), [2, 3, 0], "{answer:?}");
    let contents = |version: u64| {
        let mut contents = vec![0; PAGES as usize * PAGE_BYTES];
        for (number, page) in contents.chunks_exact_mut(PAGE_BYTES).enumerate() {
            stamp(page, number as u64, version);
        }
        contents
    };
    world.turn_over(file);
    world.device.put("data", &contents(8));
    file.reopen().unwrap();
    assert!((0..PAGES).all(|number| world.version(file, number) == 8), "{answer:?}");
    assert_eq!(pool.stats().tier.unwrap().panics > 0, answer == Answer::Panics, "{answer:?}");
    pool.check_invariants();
    let Hoarded { device, hoarder, pool, file } = world;
    drop((file, tenant));
    pool.close().unwrap();
    // Another pool over the same tier and an older file.
    device.put("data", &contents(9));
    let options = over(deterministic(), hoarder, policy);
    let (pool, file) = open_on(options, &device);
    let tenant = pool.default_tenant();
    for number in 0..PAGES {
        let bytes = tenant.read(file.page(number)).unwrap();
        assert_eq!(version(&bytes, number), 9, "{answer:?}");
    }
}

/// The pool serves right copies from the tier, so the test above would find a stale page.
#[test]
fn a_hoarder_that_answers_as_asked_is_hit() {
    let world = Hoarded::new(Answer::AsAsked);
    let before = tier_hits(&world.pool);
    world.turn_over(&world.file);
    assert_eq!(tier_hits(&world.pool) - before, PAGES);
    assert_eq!(world.pool.stats().tier.unwrap().wrong, 0);
}

#[test]
fn what_is_not_what_was_asked_for_is_counted() {
    for answer in [Answer::OtherBytes, Answer::OtherPage, Answer::FirstVersion] {
        let world = Hoarded::new(answer);
        world.write(3, 2);
        world.turn_over(&world.file);
        world.turn_over(&world.file);
        let tier = world.pool.stats().tier.unwrap();
        assert!(tier.wrong > 0, "{answer:?}: {tier:?}");
        assert_eq!(world.version(&world.file, 3), 2);
    }
}

/// A tier of two pools that answers the one with large pages in buffers of the other, which it keeps.
#[derive(Default)]
struct MixesBuffers {
    copies: Mutex<HashMap<u64, (Envelope, Vec<u8>)>>,
    small: Mutex<Vec<TierBuffer>>,
}

impl Tier for MixesBuffers {
    fn attach(&self, _: &Attachment) -> bufpool::Result<()> {
        Ok(())
    }

    fn demote(&self, page: PageName, _: Version, bytes: TierPage) -> Demoted {
        if bytes.len() > PAGE_BYTES {
            return Demoted::Refused;
        }
        self.copies.lock().unwrap().insert(page.number, (bytes.envelope(), bytes.to_vec()));
        Demoted::Stored
    }

    fn take(&self, page: PageName, _: Version, into: TierBuffer, done: TierDone) {
        if into.len() == PAGE_BYTES {
            self.small.lock().unwrap().push(into);
            return drop(done);
        }
        let copy = self.copies.lock().unwrap().get(&page.number).cloned();
        let Some((envelope, bytes)) = copy else { return done.absent(into) };
        let Some(mut small) = self.small.lock().unwrap().pop() else { return done.absent(into) };
        small.copy_from_slice(&bytes);
        done.filled(small, envelope);
    }

    fn forget(&self, _: TierRange) {}

    fn report(&self) -> TierReport {
        TierReport::new("mixes buffers")
    }
}

/// The copy is right by its envelope: name, version and hash are those of a shorter page.
#[test]
fn a_copy_of_another_length_is_a_miss() {
    for options in [small, deterministic] {
        let device = SimDevice::new(1);
        device.put("data", &vec![7; 2 * 60 * PAGE_BYTES]);
        let tier = Arc::new(MixesBuffers::default());
        let open = |page_bytes| {
            let options = over(options(), tier.clone(), TierPolicy::Inclusive).page_bytes(page_bytes);
            let pool = options.read_ahead(false).open_on(&device).unwrap();
            let file = pool.open_file("data", FileOptions::new().read_only(true).tag(5).epoch(9)).unwrap();
            (pool, file)
        };
        let (pool_of_small, pages) = open(PAGE_BYTES);
        (0..120).for_each(|number| drop(pool_of_small.default_tenant().read(pages.page(number)).unwrap()));
        let (pool, file) = open(2 * PAGE_BYTES);
        let tenant = pool.default_tenant();
        let is_whole = |page: &[u8]| page.len() == 2 * PAGE_BYTES && page.iter().all(|byte| *byte == 7);
        for number in (0..60).step_by(2) {
            assert!(is_whole(&tenant.read(file.page(number)).unwrap()));
            assert!(is_whole(&common::block_on(tenant.read_async(file.page(number + 1))).unwrap()));
        }
        let stats = pool.stats().tier.unwrap();
        assert!(stats.wrong > 0 && (stats.hits, stats.panics) == (0, 0), "{stats:?}");
        pool.check_invariants();
    }
}

/// Batches and prefetches ask the tier for pages without neighbours, and read runs from the file.
#[test]
fn batches_and_prefetches_are_served_from_a_tier() {
    let device = stamped_device(PAGES);
    device.set_latency(Duration::from_micros(200), Duration::from_micros(300));
    let hoarder = Arc::new(Hoarder::new(Answer::AsAsked));
    let options = over(small().tier_wait_ms(10_000), Arc::clone(&hoarder) as _, TierPolicy::Demote);
    let (pool, file) = open_on(options, &device);
    let tenant = pool.default_tenant();
    let read = |numbers: &[u64]| {
        let pages: Vec<_> = numbers.iter().map(|number| file.page(*number)).collect();
        for (number, guard) in numbers.iter().zip(tenant.read_many(&pages)) {
            assert_eq!(version(&guard.unwrap().unwrap(), *number), 1);
        }
    };
    let counts = || {
        pool.check_invariants();
        let stats = pool.stats();
        (stats.reads, stats.tier.unwrap().hits)
    };
    (0..PAGES / 10).for_each(|ten| read(&(10 * ten..10 * ten + 10).collect::<Vec<_>>()));
    assert_eq!(counts(), (PAGES, 0));
    read(&[1, 3, 5]);
    assert_eq!(counts(), (PAGES, 3), "alone");
    read(&[20, 21, 22, 30]);
    assert_eq!(counts(), (PAGES + 3, 4), "a run and one alone");
    assert_eq!(tenant.prefetch([40, 42].map(|number| file.page(number))), 2);
    assert_eq!(counts(), (PAGES + 3, 6), "prefetched alone");
    read(&[40, 42]);
    assert_eq!(tenant.prefetch((50..52).map(|number| file.page(number))), 2);
    assert_eq!(counts(), (PAGES + 5, 6), "prefetched in a run");
    let wrong = pool.stats().tier.unwrap().wrong;
    read(&[50, 51]);
    assert_eq!((counts(), wrong), ((PAGES + 5, 6), 0), "they are there");
}

/// Pages of a batch that the tier has, and for which no frame is left, are no misses that the tier served.
#[test]
fn copies_without_a_frame_are_no_hits() {
    let device = stamped_device(PAGES);
    device.set_latency(Duration::from_micros(200), Duration::from_micros(300));
    let options = small().frame_wait_ms(1).tier_wait_ms(10_000);
    let options = over(options, Arc::new(MemoryTier::new(PAGES as u32)), TierPolicy::Demote);
    let (pool, file) = open_on(options, &device);
    let tenant = pool.default_tenant();
    (0..PAGES).for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
    let last = PAGES - u64::from(FRAMES) + 1..PAGES;
    let pins: Vec<_> = last.map(|number| tenant.pin(file.page(number)).unwrap()).collect();
    let pages = [1, 3, 5].map(|number| file.page(number));
    let granted = tenant.read_many(&pages).into_iter().map(|page| page.unwrap().is_some());
    assert!(granted.eq([true, false, false]), "there is one frame");
    drop(pins);
    let check = || {
        let stats = pool.stats();
        let tier = stats.tier.as_ref().unwrap();
        assert_eq!(stats.reads + tier.hits, stats.misses, "{tier:?}");
        (stats.misses - PAGES, tier.hits)
    };
    assert_eq!(check(), (1, 1));
    pages.into_iter().for_each(|page| drop(tenant.read(page).unwrap()));
    assert_eq!(check(), (3, 1), "the copies have left the tier");
}

/// A run that is read from the file, though an exclusive tier has its pages, leaves no page in both places.
#[test]
fn an_exclusive_tier_forgets_runs_that_pass_it_by() {
    let in_all = 2 * u64::from(FRAMES);
    let below = in_all - u64::from(FRAMES);
    let room = 4 * FRAMES;
    let tiers: [Arc<dyn Tier>; 3] = [
        Arc::new(MemoryTier::new(room)),
        Arc::new(FileTier::new("below", room)),
        Arc::new(CompressedTier::new(u64::from(room) * PAGE_BYTES as u64)),
    ];
    for tier in tiers {
        let device = stamped_device(in_all);
        let options = over(small().tier_wait_ms(10_000), tier, TierPolicy::Demote);
        let (pool, file) = open_on(options, &device);
        let tenant = pool.default_tenant();
        let read = |numbers: Range<u64>| {
            let pages: Vec<_> = numbers.clone().map(|number| file.page(number)).collect();
            for (number, guard) in numbers.zip(tenant.read_many(&pages)) {
                assert_eq!(version(&guard.unwrap().unwrap(), number), 1);
            }
        };
        let counts = || {
            let stats = pool.stats();
            let tier = stats.tier.unwrap();
            (stats.reads, tier.hits, tier.report.pages)
        };
        (0..in_all).step_by(4).for_each(|first| read(first..first + 4));
        assert_eq!(counts(), (in_all, 0, below));
        read(0..4);
        assert_eq!(counts(), (in_all + 4, 0, below), "read");
        assert_eq!(tenant.prefetch((4..6).map(|number| file.page(number))), 2);
        (4..6).for_each(|number| assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), 1));
        assert_eq!(counts(), (in_all + 6, 0, below), "prefetched");
        pool.check_invariants();
        pool.close().unwrap();
    }
}

/// Sixteen pages in the room of one, at most, if they have few different bytes; and those of random bytes are
/// kept, too.
#[test]
fn a_compressed_tier_has_more_pages_than_bytes_for_them() {
    for (fill_randomly, least, most) in [(false, 256, 256), (true, 14, 16)] {
        let device = SimDevice::new(1);
        let mut random = Random(3);
        let mut contents = vec![0; 500 * PAGE_BYTES];
        for (number, page) in contents.chunks_exact_mut(PAGE_BYTES).enumerate() {
            page[..8].copy_from_slice(&(number as u64).to_le_bytes());
            if fill_randomly {
                page[8..].iter_mut().for_each(|byte| *byte = random.below(256) as u8);
            }
        }
        device.put("data", &contents);
        let tier = Arc::new(CompressedTier::new(16 * PAGE_BYTES as u64));
        let (pool, file) = open_on(over(deterministic(), tier, TierPolicy::Demote), &device);
        let tenant = pool.default_tenant();
        for number in (0..2).flat_map(|_| (0..500).rev()).chain(0..500) {
            let expected = &contents[number * PAGE_BYTES..(number + 1) * PAGE_BYTES];
            assert_eq!(*tenant.read(file.page(number as u64)).unwrap(), *expected);
        }
        let tier = pool.stats().tier.unwrap();
        assert!(tier.report.bytes <= 16 * PAGE_BYTES as u64, "{tier:?}");
        assert!((least..=most).contains(&tier.report.pages), "{tier:?}");
        assert!(tier.hits > 0 && tier.wrong == 0 && tier.report.failures == 0, "{tier:?}");
    }
}

/// The latency of the source, by which a tier is judged, is measured with each form of access that reads
/// single pages.
#[test]
fn each_way_of_reading_a_page_alone_tells_what_the_source_takes() {
    let read_together = |pool: &Pool, file: &File| {
        let pages = [1, 3, 5].map(|number| file.page(number));
        assert!(pool.default_tenant().read_many(&pages).into_iter().all(|read| read.unwrap().is_some()));
    };
    let prefetch = |pool: &Pool, file: &File| {
        let pages = [1, 3, 5].map(|number| file.page(number));
        assert_eq!(pool.default_tenant().prefetch(pages), 3);
        // These reads wait for the prefetched pages.
        pages.into_iter().for_each(|page| drop(pool.default_tenant().read(page).unwrap()));
    };
    let ways: [fn(&Pool, &File); 2] = [read_together, prefetch];
    for (at, way) in ways.iter().enumerate() {
        let device = stamped_device(PAGES);
        let options = over(small(), Arc::new(MemoryTier::new(40)), TierPolicy::Demote);
        let (pool, file) = open_on(options, &device);
        way(&pool, &file);
        let stats = pool.stats();
        assert_eq!((stats.reads, stats.tier.as_ref().unwrap().absent), (3, 3));
        assert!(stats.tier.unwrap().source_latency_us > 0.0, "way {at}");
        pool.close().unwrap();
    }
}

/// Reads are served from the file, and after the third question without an answer no read waits for the tier.
#[test]
fn a_tier_that_never_answers_is_passed_by() {
    for with_futures in [false, true] {
        let device = stamped_device(PAGES);
        let hoarder = Arc::new(Hoarder::new(Answer::Never));
        let options = over(small().tier_wait_ms(1), Arc::clone(&hoarder) as _, TierPolicy::Demote);
        let (pool, file) = open_on(options, &device);
        let tenant = pool.default_tenant();
        for number in (0..3).flat_map(|_| 0..PAGES) {
            if with_futures {
                let guard = common::block_on(tenant.read_async(file.page(number))).unwrap();
                assert_eq!(version(&guard, number), 1);
            } else {
                assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), 1);
            }
        }
        let tier = pool.stats().tier.unwrap();
        assert_eq!((tier.timed_out, tier.hits), (3, 0), "{tier:?}");
        assert_eq!((tier.passed_by, tier.times_passed_by), (Some(PassedBy::DoesNotAnswer), 1));
        assert!(tier.buffers_lent >= 3 && tier.refused > 0, "{tier:?}");
        pool.check_invariants();
        drop((file, tenant));
        pool.close().unwrap();
    }
}

#[test]
fn futures_are_served_from_a_tier() {
    for options in [small, deterministic] {
        for answer in Answer::ALL {
            let device = stamped_device(PAGES);
            // The device is so slow that a tier in memory pays.
            device.set_latency(Duration::from_micros(200), Duration::from_micros(300));
            let hoarder = Arc::new(Hoarder::new(answer));
            let options = over(options(), Arc::clone(&hoarder) as _, TierPolicy::Demote);
            let (pool, file) = open_on(options.tier_wait_ms(10_000), &device);
            let tenant = pool.default_tenant();
            for number in (0..2).flat_map(|_| 0..PAGES) {
                let guard = common::block_on(tenant.read_async(file.page(number))).unwrap();
                assert_eq!(version(&guard, number), 1, "{answer:?}");
            }
            assert_eq!(tier_hits(&pool) > 0, answer.is_right(), "{answer:?}");
            pool.check_invariants();
        }
    }
}

/// Copies of a file that is open for reading only are of use to another pool, if the engine says that it is
/// the same.
#[test]
fn an_epoch_of_the_engine_makes_copies_last() {
    let device = stamped_device(PAGES);
    let hoarder = Arc::new(Hoarder::new(Answer::AsAsked));
    let hits = |epoch: Option<u64>| {
        let options = over(deterministic(), Arc::clone(&hoarder) as _, TierPolicy::Demote);
        let pool = options.open_on(&device).unwrap();
        let how = FileOptions::new().read_only(true).tag(5);
        let how = if let Some(epoch) = epoch { how.epoch(epoch) } else { how };
        let file = pool.open_file("data", how).unwrap();
        for number in 0..PAGES {
            assert_eq!(version(&pool.default_tenant().read(file.page(number)).unwrap(), number), 1);
        }
        tier_hits(&pool)
    };
    assert_eq!((hits(None), hits(None)), (0, 0));
    assert_eq!((hits(Some(1)), hits(Some(1)), hits(Some(2))), (0, PAGES - u64::from(FRAMES), 0));
}

/// Room for more pages and for fewer, while a pool goes on reading and writing.
#[test]
fn a_tier_is_resized_while_a_pool_uses_it() {
    type Resize<'a> = Box<dyn Fn(u32) -> bufpool::Result<()> + 'a>;
    on_each_backend(|io| {
        let folder = directory();
        let path = folder.path().join("below");
        let memory = Arc::new(MemoryTier::new(40));
        let in_file = Arc::new(FileTier::new(&path, 40));
        let compressed = Arc::new(CompressedTier::new(40 * PAGE_BYTES as u64));
        let compressed_resize = |pages: u32| compressed.resize(u64::from(pages) * PAGE_BYTES as u64);
        let tiers: [(Arc<dyn Tier>, Resize<'_>); 3] = [
            (Arc::clone(&memory) as _, Box::new(|pages| memory.resize(pages))),
            (Arc::clone(&in_file) as _, Box::new(|pages| in_file.resize(pages))),
            (Arc::clone(&compressed) as _, Box::new(compressed_resize)),
        ];
        for (at, (tier, resize)) in tiers.into_iter().enumerate() {
            let pool = over(small().io(io), tier, TierPolicy::Demote).tier_wait_ms(10_000).open().unwrap();
            let file = new_file(&pool, folder.path(), &format!("data{at}"), 150);
            let tenant = pool.default_tenant();
            let mut versions = [0; 150];
            for (round, pages) in [40_u32, 100, 0, 7, 200, 12].into_iter().enumerate() {
                resize(pages).unwrap();
                // A file has all its places from the beginning, and not when the last of them is written.
                let places_bytes = (u64::from(pages) + 128) * PAGE_BYTES as u64;
                assert!(at != 1 || std::fs::metadata(&path).unwrap().len() >= places_bytes);
                for number in 0..150 {
                    let page = file.page(number);
                    let at = number as usize;
                    if round == 0 || (number as usize + round).is_multiple_of(7) {
                        versions[at] += 1;
                        stamp(&mut tenant.write(page).unwrap(), number, versions[at]);
                    } else {
                        let found = version(&tenant.read(page).unwrap(), number);
                        assert_eq!(found, versions[at], "page {number} of tier {at}");
                    }
                }
                let tier = pool.stats().tier.unwrap();
                assert_eq!((tier.wrong, tier.timed_out, tier.panics), (0, 0, 0), "{tier:?}");
                assert!(at == 2 || tier.report.pages_max == pages.into(), "{:?}", tier.report);
                assert!(tier.report.bytes <= u64::from(pages) * PAGE_BYTES as u64, "{:?}", tier.report);
                assert!((pages > 0 && tier.report.pages > 0) || pages < 12, "{:?}", tier.report);
            }
            assert_eq!(common::kind(resize(u32::MAX)), ErrorKind::InvalidOptions);
            pool.close().unwrap();
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), (12 + 128 + 1) * PAGE_BYTES as u64);
    });
}

/// The greatest value of `tier_wait_ms` does not overflow.
#[test]
fn a_limit_may_be_as_long_as_it_can_be() {
    let device = stamped_device(PAGES);
    let hoarder = Arc::new(Hoarder::new(Answer::AsAsked));
    let (pool, file) = open_on(over(small().tier_wait_ms(u64::MAX), hoarder, TierPolicy::Demote), &device);
    let tenant = pool.default_tenant();
    for number in (0..2).flat_map(|_| 0..PAGES) {
        assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), 1);
        let next = (number + 50) % PAGES;
        assert_eq!(version(&common::block_on(tenant.read_async(file.page(next))).unwrap(), next), 1);
    }
}

#[test]
fn what_no_tier_can_do_is_refused_when_the_pool_is_opened() {
    let folder = directory();
    let kind = |tier: Arc<dyn Tier>, policy| common::kind(over(small(), tier, policy).open());
    let adapt = TierPolicy::DemoteAdapt(Segments::Exponential);
    let in_file = |pages| FileTier::new(folder.path().join("tier"), pages);
    assert_eq!(kind(Arc::new(MemoryTier::new(40)), adapt), ErrorKind::Unsupported);
    assert_eq!(kind(Arc::new(in_file(40)), adapt), ErrorKind::Unsupported);
    assert_eq!(kind(Arc::new(CompressedTier::new(1 << 20)), adapt), ErrorKind::Unsupported);
    assert_eq!(kind(Arc::new(MemoryTier::new(u32::MAX)), TierPolicy::Demote), ErrorKind::InvalidOptions);
    assert_eq!(kind(Arc::new(in_file(u32::MAX)), TierPolicy::Demote), ErrorKind::InvalidOptions);
    assert_eq!(kind(Arc::new(CompressedTier::new(u64::MAX)), TierPolicy::Demote), ErrorKind::InvalidOptions);
    assert!(!folder.path().join("tier").exists(), "nothing was made");
    let panics = Arc::new(Hoarder::new(Answer::PanicsAttached));
    assert_eq!(kind(panics, TierPolicy::Demote), ErrorKind::InvalidOptions);
    // A tier has one pool at a time, and another one later.
    let tier = Arc::new(MemoryTier::new(40));
    let first = over(small(), Arc::clone(&tier) as _, TierPolicy::Demote).open().unwrap();
    assert_eq!(kind(Arc::clone(&tier) as _, TierPolicy::Demote), ErrorKind::InvalidOptions);
    first.close().unwrap();
    over(small(), tier, TierPolicy::Demote).open().unwrap().close().unwrap();
}

/// The path of a file that is no tier is refused, and the file is not changed.
#[test]
fn a_file_that_is_not_a_tiers_is_left_as_it_is() {
    let folder = directory();
    let path = folder.path().join("important");
    let open = || over(small(), Arc::new(FileTier::new(&path, 40)), TierPolicy::Demote).open();
    for contents in [b"some notes".to_vec(), vec![7; 10 * PAGE_BYTES], vec![7; PAGE_BYTES + 1]] {
        std::fs::write(&path, &contents).unwrap();
        assert_eq!(common::kind(open()), ErrorKind::Unsupported);
        assert_eq!(std::fs::read(&path).unwrap(), contents);
    }
    std::fs::write(&path, b"").unwrap();
    for _ in 0..2 {
        let pool = open().unwrap();
        // The pool that has it as its tier has it locked.
        assert_eq!(common::kind(open()), ErrorKind::FileLocked);
        assert_eq!(common::kind(pool.open_file(&path, FileOptions::new())), ErrorKind::FileLocked);
        pool.close().unwrap();
    }
    assert_eq!(
        common::kind(over(small(), Arc::new(FileTier::new(folder.path(), 40)), TierPolicy::Demote).open()),
        ErrorKind::Unsupported
    );
}

/// What a tier is told of a page is what hooks make of it, and what it gives goes through them.
#[test]
fn hooks_see_pages_on_their_way_to_a_tier_and_back() {
    struct Veiled {
        fails: bool,
    }
    impl PageHooks for Veiled {
        fn on_read(&self, _: PageName, bytes: &mut [u8]) -> Result<(), String> {
            if bytes[PAGE_BYTES - 1] != 0xaa {
                return Err("it is not veiled".into());
            }
            bytes.iter_mut().for_each(|byte| *byte ^= 0xaa);
            Ok(())
        }

        fn before_write(&self, page: PageName, bytes: &mut [u8]) {
            assert!(!self.fails || page.number != 3, "a hook that fails");
            bytes.iter_mut().for_each(|byte| *byte ^= 0xaa);
        }
    }
    for fails in [false, true] {
        let device = SimDevice::new(1);
        let plain = |number: u64| {
            let mut bytes = vec![0; PAGE_BYTES];
            stamp(&mut bytes, number, 1);
            bytes[PAGE_BYTES - 1] = 0;
            bytes
        };
        let contents: Vec<u8> = (0..PAGES).flat_map(plain).map(|byte| byte ^ 0xaa).collect();
        device.put("data", &contents);
        let hoarder = Arc::new(Hoarder::new(Answer::AsAsked));
        let options = deterministic().hooks(Box::new(Veiled { fails }));
        let (pool, file) = open_on(over(options, Arc::clone(&hoarder) as _, TierPolicy::Demote), &device);
        let tenant = pool.default_tenant();
        for number in (0..2).flat_map(|_| 0..PAGES) {
            assert_eq!(*tenant.read(file.page(number)).unwrap(), *plain(number));
        }
        let kept = hoarder.bytes_of(0, 5);
        assert_eq!(kept, contents[5 * PAGE_BYTES..6 * PAGE_BYTES], "as its file has it");
        // A page that the hooks refuse for the tier is read from its file.
        assert_eq!((tier_hits(&pool), hoarder.bytes_of(0, 3).is_empty()), (PAGES - u64::from(fails), fails));
        tenant.write(file.page(9)).unwrap()[0] ^= 1;
        file.flush().unwrap();
    }
}

/// The engine may keep pages out of the tier that were not accessed again after they came in, or left once
/// only.
#[test]
fn a_tier_gets_the_pages_that_are_admitted() {
    let offered = |admit, again: &dyn Fn(u64) -> bool| {
        let device = stamped_device(PAGES);
        let hoarder = Arc::new(Hoarder::new(Answer::AsAsked));
        let options = deterministic().frames(FRAMES).allocation(Allocation::GlobalLru).manager(None);
        let (pool, file) =
            open_on(options.tier(Arc::clone(&hoarder) as _, TierPolicy::Demote, admit), &device);
        let tenant = pool.default_tenant();
        for number in 0..PAGES {
            (0..1 + u64::from(again(number))).for_each(|_| drop(tenant.read(file.page(number)).unwrap()));
        }
        let first_time = (0..PAGES).filter(|number| !hoarder.bytes_of(0, *number).is_empty()).collect();
        // The pages that left last come back, and leave again.
        for number in (40..PAGES).rev().chain(0..40) {
            drop(tenant.read(file.page(number)).unwrap());
        }
        let second_time = (0..PAGES).filter(|number| !hoarder.bytes_of(0, *number).is_empty()).count();
        let first_time: Vec<u64> = first_time;
        let stats = pool.stats().tier.unwrap();
        (first_time, second_time, stats.not_admitted)
    };
    let gone = PAGES - u64::from(FRAMES);
    let (first_time, ..) = offered(TierAdmit::All, &|_| false);
    assert_eq!(first_time, (0..gone).collect::<Vec<_>>());
    let (first_time, _, refused) = offered(TierAdmit::HitOnce, &|number| number % 3 == 0);
    assert_eq!(first_time, (0..gone).filter(|number| number % 3 == 0).collect::<Vec<_>>());
    assert!(refused > 0);
    let (first_time, second_time, _) = offered(TierAdmit::SecondEviction, &|_| false);
    assert!(first_time.is_empty() && second_time > 0, "{second_time}");
}
