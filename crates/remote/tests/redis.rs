//! Goal: pools that share a Redis server find each other's pages, and never serve what their files do not
//! have, whatever happens to the server. Method: a real server, which is killed, stopped, restarted, filled
//! and emptied while threads read stamped pages; and servers of the tests that answer what nobody expects.
//!
//! Where no server is installed the tests on a real one say so on the standard error, and pass; with
//! `BUFPOOL_REDIS_REQUIRED=1` in the environment they fail.

#[path = "common/fake_redis.rs"]
mod fake_redis;
#[path = "common/redis_server.rs"]
mod redis_server;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bufpool::manager::Allocation;
use bufpool::sim::SimDevice;
use bufpool::tier::TierStats;
use bufpool::tier::{Segments, TierAdmit, TierPolicy};
use bufpool::{ErrorKind, File, FileOptions, Pool, PoolOptions};
use bufpool_remote::redis::{RedisTier, RedisTierError};
use fake_redis::{Answers, FakeServer};
use redis_server::Server;

const PAGE_BYTES: usize = 4096;
const FRAMES: u32 = 32;
const PAGES: u64 = 100;
/// Pages that are not in memory after all were read.
const LEFT: u64 = PAGES - FRAMES as u64;
const ADAPT: TierPolicy = TierPolicy::DemoteAdapt(Segments::Uniform);

/// A file `data` of stamped pages, on a drive so slow that a tier pays also on a machine that is busy.
fn slow_device() -> SimDevice {
    let device = SimDevice::new(1);
    device.put("data", &contents(1));
    device.set_latency(Duration::from_millis(20), Duration::from_millis(20));
    device
}

fn contents(version: u64) -> Vec<u8> {
    let mut contents = vec![0; PAGES as usize * PAGE_BYTES];
    for (number, page) in contents.chunks_exact_mut(PAGE_BYTES).enumerate() {
        stamp(page, number as u64, version);
    }
    contents
}

fn stamp(page: &mut [u8], number: u64, version: u64) {
    for part in page.chunks_exact_mut(16) {
        part[..8].copy_from_slice(&number.to_le_bytes());
        part[8..].copy_from_slice(&version.to_le_bytes());
    }
}

/// The version of a stamped page, all of which must be of that version.
#[track_caller]
fn version(page: &[u8], number: u64) -> u64 {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let version = word(&page[8..16]);
    for part in page.chunks_exact(16) {
        assert_eq!((word(&part[..8]), word(&part[8..])), (number, version), "page {number}");
    }
    version
}

fn tier(url: &str) -> Arc<RedisTier> {
    Arc::new(RedisTier::new(url, "test").unwrap())
}

fn options(tier: Arc<RedisTier>, policy: TierPolicy) -> PoolOptions {
    PoolOptions::new()
        .frames(FRAMES)
        .page_bytes(PAGE_BYTES)
        .threads_max(8)
        .read_ahead(false)
        .allocation(Allocation::GlobalLru)
        .manager(None)
        .tier(tier, policy, TierAdmit::All)
        .tier_wait_ms(10_000)
}

fn open(url: &str, policy: TierPolicy, device: &SimDevice) -> Pool {
    options(tier(url), policy).open_on(device).unwrap()
}

fn shared(pool: &Pool, epoch: u64) -> File {
    pool.open_file("data", FileOptions::new().read_only(true).tag(5).epoch(epoch)).unwrap()
}

/// Reads all pages in runs, for which the tier is not asked, so that those that were in memory go down.
fn turn_over(pool: &Pool, file: &File, expected: u64) {
    (0..PAGES / 10).for_each(|run| read_run(pool, file, 10 * run..10 * run + 10, expected));
}

/// Reads neighbouring pages at once, for which the tier is not asked. A page that was dirty may not have been
/// written and left yet; it is read by itself.
fn read_run(pool: &Pool, file: &File, numbers: Range<u64>, expected: u64) {
    let pages: Vec<_> = numbers.clone().map(|number| file.page(number)).collect();
    let mut refused = Vec::new();
    for (number, guard) in numbers.zip(pool.default_tenant().read_many(&pages)) {
        match guard.unwrap() {
            Some(guard) => assert_eq!(version(&guard, number), expected),
            None => refused.push(number),
        }
    }
    read_each(pool, file, refused.into_iter(), expected);
}

/// Reads pages one by one, each of which the tier is asked for.
fn read_each(pool: &Pool, file: &File, numbers: impl Iterator<Item = u64>, expected: u64) {
    let tenant = pool.default_tenant();
    for number in numbers {
        assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), expected);
    }
}

fn stats(pool: &Pool) -> TierStats {
    pool.stats().tier.unwrap()
}

fn ask<T: redis::FromRedisValue>(server: &Server, command: &[&str]) -> T {
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut words = redis::cmd(command[0]);
    command[1..].iter().for_each(|word| {
        words.arg(word);
    });
    words.query(&mut connection).unwrap()
}

/// Waits until the server has taken what was sent to it without waiting.
fn wait_for_keys(server: &Server, keys: u64) {
    for _ in 0..3_000 {
        if ask::<u64>(server, &["DBSIZE"]) == keys {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} keys, expected {keys}", ask::<u64>(server, &["DBSIZE"]));
}

#[test]
fn pools_find_each_others_pages() {
    for policy in [TierPolicy::Demote, ADAPT, TierPolicy::Inclusive] {
        let Some(server) = Server::start(&["--maxmemory", "64mb", "--maxmemory-policy", "volatile-ttl"])
        else {
            return;
        };
        let device = slow_device();
        let [first, second] = [(); 2].map(|()| open(&server.url(), policy, &device));
        let [first_file, second_file] = [&first, &second].map(|pool| shared(pool, 1));
        turn_over(&first, &first_file, 1);
        wait_for_keys(&server, LEFT);
        let note = stats(&first).report.note;
        assert!(
            note.contains("maxmemory 67108864 bytes, volatile-ttl") && !note.contains("expected"),
            "{note}"
        );
        // A pool that has read nothing from the file does not know what hits save, and passes the tier by.
        read_each(&second, &second_file, PAGES - 10..PAGES, 1);
        let reads = second.stats().reads;
        read_each(&second, &second_file, 0..LEFT, 1);
        let tier = stats(&second);
        assert_eq!((tier.hits, tier.absent, tier.wrong, tier.timed_out), (LEFT, 10, 0, 0), "{policy:?}");
        assert_eq!(second.stats().reads, reads, "{policy:?}");
        // What was taken has left, or not; and what the second pool gave up for it has come.
        let given_up = LEFT + 10 - u64::from(FRAMES);
        wait_for_keys(&server, if policy == TierPolicy::Demote { given_up } else { LEFT + 10 });
        drop((first_file, second_file));
        for pool in [first, second] {
            pool.check_invariants();
            pool.close().unwrap();
        }
    }
}

/// A page that one pool has just read from the file, and still has, another finds at the server.
#[test]
fn a_page_that_was_read_is_found_while_its_reader_has_it() {
    let Some(server) = Server::start(&["--maxmemory", "64mb", "--maxmemory-policy", "volatile-ttl"]) else {
        return;
    };
    let device = slow_device();
    let [first, second] = [(); 2].map(|()| open(&server.url(), ADAPT, &device));
    let [first_file, second_file] = [&first, &second].map(|pool| shared(pool, 1));
    read_each(&first, &first_file, 0..10, 1);
    wait_for_keys(&server, 10);
    // One that has read nothing from the file does not know what hits save, and passes the tier by.
    read_each(&second, &second_file, 90..100, 1);
    let reads = second.stats().reads;
    read_each(&second, &second_file, 0..10, 1);
    assert_eq!((stats(&second).hits, second.stats().reads), (10, reads));
    // It is in both, and stays where it is.
    read_each(&first, &first_file, 0..10, 1);
    assert_eq!(stats(&first).hits, 0);
    wait_for_keys(&server, 20);
}

/// What one pool reads alone from the file, the server keeps, unless it is passed up; what another finds
/// there is passed up to it, or stays.
#[test]
fn promoted_pages_are_kept_or_passed_up() {
    let Some(server) = Server::start(&["--maxmemory", "64mb", "--maxmemory-policy", "volatile-ttl"]) else {
        return;
    };
    let device = slow_device();
    let [first, second] = [(); 2].map(|()| open(&server.url(), TierPolicy::Promote, &device));
    let [first_file, second_file] = [&first, &second].map(|pool| shared(pool, 1));
    read_each(&first, &first_file, 0..PAGES, 1);
    let tier = stats(&first);
    assert_eq!((tier.demotions, tier.refused, tier.present, tier.hits), (PAGES, 0, 0, 0), "{tier:?}");
    let kept = PAGES - tier.passed_up;
    assert!(kept > 0);
    wait_for_keys(&server, kept);
    read_each(&second, &second_file, (0..PAGES).rev(), 1);
    let tier = stats(&second);
    assert_eq!((tier.hits, tier.wrong, tier.timed_out), (kept, 0, 0), "{tier:?}");
    assert_eq!((tier.absent, tier.demotions), (PAGES - kept, PAGES - kept), "{tier:?}");
    // Those that left memory had not gone down, and those that stay are where they were.
    read_each(&second, &second_file, 0..PAGES, 1);
    for pool in [&first, &second] {
        pool.check_invariants();
        assert_eq!(stats(pool).wrong, 0);
    }
}

/// Pages of another epoch of the engine's have other names.
#[test]
fn pages_of_another_epoch_are_not_found() {
    let Some(server) = Server::start(&[]) else { return };
    let device = slow_device();
    let first = open(&server.url(), ADAPT, &device);
    turn_over(&first, &shared(&first, 1), 1);
    wait_for_keys(&server, LEFT);
    device.put("data", &contents(2));
    let second = open(&server.url(), ADAPT, &device);
    read_each(&second, &shared(&second, 2), 0..10, 2);
    assert_eq!((stats(&second).hits, stats(&second).wrong), (0, 0));
    let note = stats(&second).report.note;
    assert!(note.contains("no maxmemory, expected a limit"), "{note}");
}

/// No name has braces, and each page expires.
#[test]
fn keys_expire_and_spread_over_a_cluster() {
    let Some(server) = Server::start(&[]) else { return };
    let device = slow_device();
    let pool = open(&server.url(), ADAPT, &device);
    turn_over(&pool, &shared(&pool, 0x7b7d_7b7d_7b7d_7b7d), 1);
    wait_for_keys(&server, LEFT);
    let keys: Vec<String> = ask(&server, &["KEYS", "test:*"]);
    assert_eq!(keys.len() as u64, LEFT);
    for key in keys {
        assert!(!key.contains(['{', '}']), "{key}");
        assert!(ask::<i64>(&server, &["PTTL", &key]) > 3_600_000, "{key}");
    }
}

#[cfg(feature = "redis-cluster")]
#[test]
fn a_cluster_of_one_node_keeps_pages() {
    let Some(server) = Server::start(&["--cluster-enabled", "yes"]) else { return };
    ask::<()>(&server, &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    while !ask::<String>(&server, &["CLUSTER", "INFO"]).contains("cluster_state:ok") {
        std::thread::sleep(Duration::from_millis(10));
    }
    let device = slow_device();
    let tier = Arc::new(RedisTier::cluster(&[&server.url()], "test").unwrap());
    let pool = options(tier, ADAPT).open_on(&device).unwrap();
    let file = shared(&pool, 1);
    assert!(stats(&pool).report.note.contains("no maxmemory"), "{:?}", stats(&pool));
    turn_over(&pool, &file, 1);
    wait_for_keys(&server, LEFT);
    read_each(&pool, &file, 0..20, 1);
    assert_eq!((stats(&pool).hits, stats(&pool).wrong), (20, 0), "{:?}", stats(&pool));
}

/// Pages are spread over three nodes, and those of one that dies are read from the file.
#[cfg(feature = "redis-cluster")]
#[test]
fn a_cluster_of_three_nodes_keeps_pages_and_may_lose_one() {
    let Some(mut nodes) = cluster_of_three() else { return };
    let device = slow_device();
    let tier = Arc::new(RedisTier::cluster(&[&nodes[0].url(), &nodes[1].url()], "test").unwrap());
    let pool = options(tier, ADAPT).open_on(&device).unwrap();
    let file = shared(&pool, 1);
    turn_over(&pool, &file, 1);
    let keys = |node: &Server| ask::<u64>(node, &["DBSIZE"]);
    while nodes.iter().map(keys).sum::<u64>() < LEFT {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(nodes.iter().all(|node| keys(node) > 0));
    read_each(&pool, &file, 0..20, 1);
    assert_eq!((stats(&pool).hits, stats(&pool).wrong), (20, 0), "{:?}", stats(&pool));
    nodes[2].kill();
    read_each(&pool, &file, (0..PAGES).chain(0..PAGES), 1);
    assert_eq!(stats(&pool).wrong, 0, "{:?}", stats(&pool));
    pool.check_invariants();
}

/// Each with a third of the slots. None if no server is installed.
#[cfg(feature = "redis-cluster")]
fn cluster_of_three() -> Option<Vec<Server>> {
    let settings = ["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"];
    let mut nodes = Vec::new();
    for (at, slots) in [("1", ["0", "5460"]), ("2", ["5461", "10922"]), ("3", ["10923", "16383"])] {
        let node = Server::start(&settings)?;
        ask::<()>(&node, &["CLUSTER", "SET-CONFIG-EPOCH", at]);
        ask::<()>(&node, &["CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1]]);
        nodes.push(node);
    }
    for other in &nodes[1..] {
        ask::<()>(&nodes[0], &["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()]);
    }
    let agreed = ["cluster_state:ok", "cluster_slots_assigned:16384", "cluster_known_nodes:3"];
    for node in &nodes {
        while !agreed.iter().all(|line| ask::<String>(node, &["CLUSTER", "INFO"]).contains(line)) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Some(nodes)
}

#[test]
fn files_without_a_tag_are_for_a_single_pool() {
    let Some(server) = Server::start(&[]) else { return };
    for single_pool in [false, true] {
        let device = slow_device();
        let tier = Arc::new(RedisTier::new(&server.url(), "test").unwrap().single_pool(single_pool));
        let pool = options(tier, TierPolicy::Demote).open_on(&device).unwrap();
        let file = pool.open_file("data", FileOptions::new()).unwrap();
        turn_over(&pool, &file, 1);
        wait_for_keys(&server, if single_pool { LEFT } else { 0 });
        assert_eq!(stats(&pool).refused, if single_pool { 0 } else { LEFT });
        read_each(&pool, &file, 0..10, 1);
        assert_eq!(stats(&pool).hits, if single_pool { 10 } else { 0 });
    }
}

/// Each way in which a page changes while the server has copies of before.
#[test]
fn a_file_that_is_written_never_shows_a_page_of_before() {
    let Some(server) = Server::start(&[]) else { return };
    let mut hits = 0;
    for policy in [TierPolicy::Demote, ADAPT, TierPolicy::Promote, TierPolicy::Inclusive] {
        let device = slow_device();
        device.set_latency(Duration::from_millis(2), Duration::from_millis(2));
        let pool = open(&server.url(), policy, &device);
        let file = pool.open_file("data", FileOptions::new().tag(5)).unwrap();
        let tenant = pool.default_tenant();
        turn_over(&pool, &file, 1);
        for round in 2..6 {
            for number in 0..PAGES {
                stamp(&mut tenant.write(file.page(number)).unwrap(), number, round);
            }
            read_each(&pool, &file, 0..PAGES, round);
            turn_over(&pool, &file, round);
            read_each(&pool, &file, (0..PAGES).rev(), round);
        }
        // Restored from an older copy.
        file.flush().unwrap();
        device.put("data", &contents(1));
        file.reopen().unwrap();
        read_each(&pool, &file, 0..PAGES, 1);
        // Shortened and lengthened.
        file.truncate(60).unwrap();
        file.extend(PAGES - 60).unwrap();
        for number in 60..PAGES {
            assert!(tenant.read(file.page(number)).unwrap().iter().all(|byte| *byte == 0));
        }
        hits += stats(&pool).hits;
        assert_eq!(stats(&pool).wrong, 0);
        pool.check_invariants();
    }
    assert!(hits > 0, "the server was asked");
}

/// Runs `faults` while threads read pages of a pool over the server at random.
fn while_read(url: &str, policy: TierPolicy, faults: impl FnOnce(&Pool, &dyn Fn(u64))) {
    let device = slow_device();
    device.set_latency(Duration::from_millis(2), Duration::from_millis(2));
    let pool = options(tier(url), policy).tier_wait_ms(50).open_on(&device).unwrap();
    let file = shared(&pool, 1);
    turn_over(&pool, &file, 1);
    let (is_over, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 1..4_u64 {
            let (pool, file, is_over, reads) = (&pool, &file, &is_over, &reads);
            scope.spawn(move || {
                let mut random = thread;
                while !is_over.load(Ordering::Relaxed) {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    read_each(pool, file, std::iter::once(random % PAGES), 1);
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // However the faults end, the threads do.
        let ends = Ends(&is_over);
        let go_on = |count: u64| {
            let until = reads.load(Ordering::Relaxed) + count;
            while reads.load(Ordering::Relaxed) < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        go_on(200);
        faults(&pool, &go_on);
        go_on(200);
        drop(ends);
    });
    assert_eq!(stats(&pool).panics, 0);
    pool.check_invariants();
    drop(file);
    pool.close().unwrap();
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_server_that_is_killed_and_restarted_costs_misses() {
    let Some(mut server) = Server::start(&[]) else { return };
    for policy in [ADAPT, TierPolicy::Promote] {
        while_read(&server.url(), policy, |pool, go_on| {
            server.kill();
            go_on(500);
            let tier = stats(pool);
            assert!(tier.report.failures > 0 && tier.report.note.contains("not reached"), "{tier:?}");
            server.restart();
            go_on(500);
            server.restart();
        });
    }
}

#[test]
fn a_server_that_is_stopped_costs_misses() {
    let Some(server) = Server::start(&[]) else { return };
    for policy in [ADAPT, TierPolicy::Promote] {
        while_read(&server.url(), policy, |_, go_on| {
            server.stop();
            go_on(500);
            server.go_on();
            go_on(500);
            server.stop();
        });
    }
    // A pool opens and closes over it as well.
    let device = slow_device();
    let pool = open(&server.url(), ADAPT, &device);
    read_each(&pool, &shared(&pool, 1), 0..10, 1);
    let note = stats(&pool).report.note;
    assert!(note.contains("not reached: "), "{note}");
    pool.close().unwrap();
}

#[test]
fn a_server_that_is_emptied_costs_misses() {
    let Some(server) = Server::start(&[]) else { return };
    for policy in [ADAPT, TierPolicy::Promote] {
        while_read(&server.url(), policy, |_, go_on| {
            for _ in 0..5 {
                ask::<()>(&server, &["FLUSHALL"]);
                go_on(100);
            }
        });
    }
}

/// A server that has no room and evicts nothing is left alone for a while, and asked for what it has.
#[test]
fn a_full_server_takes_what_it_has_room_for() {
    for policy in ["noeviction", "volatile-ttl"] {
        // Room for some of the pages only.
        let Some(server) = Server::start(&["--maxmemory-policy", policy]) else { return };
        let used: String = ask(&server, &["INFO", "memory"]);
        let used = used.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        let room = used.parse::<u64>().unwrap() + 400_000;
        ask::<()>(&server, &["CONFIG", "SET", "maxmemory", &room.to_string()]);
        while_read(&server.url(), ADAPT, |pool, go_on| {
            go_on(1_000);
            let tier = stats(pool);
            assert_eq!(tier.report.failures > 0, policy == "noeviction", "{tier:?}");
            assert_eq!(
                tier.report.note.contains("expected volatile-ttl"),
                policy == "noeviction",
                "{tier:?}"
            );
            assert_eq!(tier.wrong, 0);
            let keys = ask::<u64>(&server, &["DBSIZE"]);
            assert!((1..PAGES).contains(&keys), "{keys}");
            let info: String = ask(&server, &["INFO", "stats"]);
            assert_eq!(!info.contains("evicted_keys:0\r"), policy == "volatile-ttl");
        });
    }
}

/// After a failure the tier is used again without the pool's doing.
#[test]
fn a_server_that_comes_later_is_used() {
    let Some(mut server) = Server::start(&[]) else { return };
    server.kill();
    let device = slow_device();
    let pool = open(&server.url(), ADAPT, &device);
    let file = shared(&pool, 1);
    assert!(stats(&pool).report.note.contains("not reached: "));
    server.restart();
    // The pool itself passes by a tier that refuses 256 pages; it does not come to that.
    for _ in 0..3 {
        turn_over(&pool, &file, 1);
        if stats(&pool).refused < stats(&pool).demotions {
            break;
        }
    }
    read_each(&pool, &file, 0..PAGES, 1);
    let tier = stats(&pool);
    assert!(
        tier.hits > 0 && tier.report.note.contains("Redis 7") || tier.report.note.contains("Valkey"),
        "{tier:?}"
    );
}

#[test]
fn answers_that_nobody_expects_are_misses() {
    for answers in Answers::MISSES {
        let server = FakeServer::start(answers);
        for policy in [TierPolicy::Demote, ADAPT, TierPolicy::Promote] {
            let device = slow_device();
            device.set_latency(Duration::from_millis(1), Duration::from_millis(1));
            let pool = options(tier(&server.url()), policy).tier_wait_ms(50).open_on(&device).unwrap();
            let file = shared(&pool, 1);
            for _ in 0..2 {
                turn_over(&pool, &file, 1);
                read_each(&pool, &file, 0..PAGES, 1);
            }
            let tier = stats(&pool);
            assert_eq!((tier.hits, tier.panics), (0, 0), "{answers:?}: {tier:?}");
            assert!(
                tier.wrong > 0 || tier.timed_out > 0 || tier.report.failures > 0,
                "{answers:?}: {tier:?}"
            );
            let note = &tier.report.note;
            assert_eq!(note.contains("it is not used"), answers == Answers::TooOld, "{tier:?}");
            assert_eq!(note.contains("refuses questions"), answers == Answers::Refusal, "{tier:?}");
            pool.check_invariants();
            drop(file);
            pool.close().unwrap();
        }
        assert!(server.connections() > 0);
    }
}

/// A server that does not say what it is may keep pages all the same, and the report does not deny it.
#[test]
fn a_server_that_says_nothing_of_itself_is_used() {
    for (answers, why) in [
        (Answers::InfoRefused, "does not say what it is: NoPerm: this user may not run INFO"),
        (Answers::InfoNumber, "does not say what it is: its answer to INFO is no text"),
    ] {
        let server = FakeServer::start(answers);
        let device = slow_device();
        let pool = open(&server.url(), ADAPT, &device);
        let file = shared(&pool, 1);
        turn_over(&pool, &file, 1);
        read_each(&pool, &file, 0..PAGES, 1);
        let tier = stats(&pool);
        assert!(tier.hits > 0, "{tier:?}");
        let note = &tier.report.note;
        assert!(note.contains(why) && !note.contains("not reached"), "{note}");
    }
}

#[test]
fn a_tier_is_of_one_pool_at_a_time() {
    let server = FakeServer::start(Answers::Garbage);
    let tier = tier(&server.url());
    let device = slow_device();
    let pool = options(tier.clone(), ADAPT).open_on(&device).unwrap();
    let error = options(tier.clone(), ADAPT).open_on(&device).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidOptions);
    assert!(error.to_string().contains("expected one that no pool uses"), "{error}");
    pool.close().unwrap();
    options(tier.clone(), ADAPT).open_on(&device).unwrap().close().unwrap();
    let error = options(tier.clone(), ADAPT).deterministic(1).open_on(&device).err().unwrap();
    assert!(error.to_string().contains("deterministic"), "{error}");
    // That one has not kept it.
    options(tier, ADAPT).open_on(&device).unwrap().close().unwrap();
}

#[test]
fn what_is_no_address_or_namespace_is_refused() {
    for url in ["", "127.0.0.1", "http://127.0.0.1", "redis://host:port"] {
        let error = RedisTier::new(url, "test").err().unwrap();
        assert!(matches!(error, RedisTierError::Url { .. }), "{url}: {error:?}");
        assert!(error.to_string().contains("expected redis://"), "{error}");
    }
    for namespace in ["", "a{b}", "a:b"] {
        let error = RedisTier::new("redis://127.0.0.1", namespace).err().unwrap();
        assert!(matches!(error, RedisTierError::Namespace { .. }), "{namespace}: {error:?}");
    }
}
