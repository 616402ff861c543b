//! Goal: policy programs decide in the live pool as in the simulator, can do no harm to others whatever they
//! do, and can be given, spoken to and taken away at any time. Method: small pools in deterministic mode,
//! where every miss can be predicted, and on every backend; runaway and faulty programs, one for each event.

mod common;

use bufpool::{ErrorKind, File, Io, Pool, Program, Tenant};
use common::{deterministic, directory, kind, new_file, on_each_backend, small};

const MRU: &str = "policy mru {
  queue all
  event initial     { ret }
  event fault(p)    { enqt all, p ; ret }
  event access(p)   { enqt all, p ; ret }
  event replace(c)  { peekt v, all
                L:    isnil t, v ; jnz t, none
                      pinned t, v ; jz t, take
                      prev v, v ; jmp L
                take: ret v
                none: ret c }
}";

/// Gives up the newest page while `newest` is 1, otherwise the pool's candidate; knows nothing of hits.
const SWITCH: &str = "policy switch {
  queue all
  int newest = 1
  const one = 1
  event initial     { ret }
  event fault(p)    { enqt all, p ; ret }
  event replace(c)  { ne t, newest, one ; jnz t, pool
                      peekt v, all ; isnil t, v ; jnz t, pool
                      ret v
                pool: ret c }
}";

fn program(text: &str) -> Program {
    Program::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn read(tenant: &Tenant, file: &File, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
}

fn misses(pool: &Pool, tenant: &Tenant) -> u64 {
    let stats = pool.stats();
    stats.tenants.iter().find(|stats| stats.id == tenant.id()).unwrap().misses
}

/// Forty pages of 32 frames read round and round: MRU keeps most of them, LRU none.
#[test]
fn a_program_decides_on_each_backend() {
    on_each_backend(|io: Io| {
        let directory = directory();
        let pool = small().io(io).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 40);
        let scan = pool.tenant("scan").program(&program(MRU)).open().unwrap();
        (0..4).for_each(|_| read(&scan, &file, 0..40));
        assert!(misses(&pool, &scan) < 100, "{}", pool.report());
        pool.check_invariants();
        pool.close().unwrap();
    });
}

#[test]
fn a_value_that_is_sent_changes_what_a_program_decides() {
    let directory = directory();
    let pool = deterministic().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 40);
    let tenant = pool.tenant("scan").program(&program(SWITCH)).open().unwrap();
    read(&tenant, &file, 0..40);
    assert_eq!(misses(&pool, &tenant), 40);
    read(&tenant, &file, 0..31);
    assert_eq!(misses(&pool, &tenant), 40, "the newest went");
    tenant.send("newest", 0).unwrap();
    read(&tenant, &file, 31..39);
    read(&tenant, &file, 0..8);
    assert_eq!(misses(&pool, &tenant), 56, "the oldest went");
    for (slot, expected) in [("one", ErrorKind::UnknownSlot), ("all", ErrorKind::UnknownSlot)] {
        assert_eq!(kind(tenant.send(slot, 1)), expected);
    }
    let error = tenant.send("nwest", 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownSlot);
    assert!(error.to_string().contains("nwest") && error.to_string().contains("scan"), "{error}");
    tenant.clear_program().unwrap();
    assert_eq!(kind(tenant.send("newest", 1)), ErrorKind::NoProgram);
    assert_eq!(kind(pool.default_tenant().send("newest", 1)), ErrorKind::NoProgram);
    pool.check_invariants();
}
