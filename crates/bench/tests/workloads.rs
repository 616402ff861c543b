//! The workloads on small real files: right answers under every scheme, recordings that the simulator replays
//! with exactly the same misses, and what directives save. Nothing here depends on time.

use std::path::PathBuf;

use bufpool::{Direct, HintPolicy, Io, IoBackend};
use bufpool_bench::simulate::{self, By, Setup, simulate};
use bufpool_bench::trace::Trace;
use bufpool_bench::trace::recording::Recording;
use bufpool_bench::workload::{
    self, Database, EXTRA_WORKLOADS, Measurement, Memory, RunOptions, SCHEMES, Scheme, Sizes, WORKLOADS,
    Workload,
};
use tempfile::TempDir;

const SEED: u64 = 1;

struct Fixture {
    database: Database,
    _folder: TempDir,
}

impl Fixture {
    fn new(tuples: u64, io: Io) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = PathBuf::from(folder.path());
        Self { database: Database::new(path, Sizes { tuples }, SEED, Direct::Prefer, io), _folder: folder }
    }

    fn run(
        &self,
        workload: &dyn Workload,
        scheme: &Scheme,
        threads: u32,
        deterministic: bool,
    ) -> Measurement {
        let options = RunOptions { threads, deterministic, seed: SEED, ..RunOptions::default() };
        workload::run(workload, scheme, &self.database, &options, None).unwrap()
    }
}

fn all_workloads() -> impl Iterator<Item = &'static dyn Workload> {
    WORKLOADS.iter().chain(EXTRA_WORKLOADS).copied()
}

#[test]
fn a_recording_replayed_with_the_same_frames_gives_the_same_misses() {
    let fixture = Fixture::new(4_000, Io::Auto);
    for workload in all_workloads() {
        for scheme in SCHEMES {
            check_replay(&fixture, workload, scheme, HintPolicy::Off);
            if workload.takes_hints() {
                check_replay(&fixture, workload, scheme, HintPolicy::Auto);
            }
        }
    }
}

#[track_caller]
fn check_replay(fixture: &Fixture, workload: &dyn Workload, scheme: &Scheme, hints: HintPolicy) {
    let recording = Recording::in_memory();
    let options = RunOptions { deterministic: true, seed: SEED, hints, ..RunOptions::default() };
    let live =
        workload::run(workload, scheme, &fixture.database, &options, Some(recording.recorder())).unwrap();
    let (items, creations) = recording.finish().unwrap();
    let trace = Trace::of(workload.name(), items);
    let frames = Setup::frames(live.frames);
    let setup = Setup { revocation: true, shared_pages: true, by: By::Tenant, seed: SEED, ..frames };
    let policy = match scheme.manager.kind() {
        Some(kind) => simulate::Policy::Managed(kind),
        None => simulate::Policy::TwoLevel(scheme.allocation),
    };
    let replayed = simulate(&trace, policy, &setup, None).unwrap();
    let counts = replayed.total();
    assert_eq!(
        (live.accesses, live.hits, live.misses, live.creations),
        (counts.accesses, counts.hits, counts.misses(), creations),
        "{} under {}, hints {hints:?}",
        workload.name(),
        scheme.name
    );
    let misses = replayed.counts.values().map(bufpool_bench::simulate::Counts::misses);
    assert_eq!(
        sorted(live.tenant_misses.values().copied()),
        sorted(misses),
        "{} under {}, hints {hints:?}, misses of each tenant that has some",
        workload.name(),
        scheme.name
    );
    assert_eq!(live.reads, live.misses - live.creations, "{}: a read for each miss", workload.name());
}

fn sorted(misses: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut misses: Vec<u64> = misses.filter(|misses| *misses > 0).collect();
    misses.sort_unstable();
    misses
}

#[test]
fn directives_never_cost_reads_and_save_four_in_ten_of_a_nested_loop_join() {
    let fixture = Fixture::new(Sizes::QUICK.tuples, Io::Auto);
    let [lru, lru_sp] = ["lru", "lru-sp"].map(|name| Scheme::find(name).unwrap());
    for &workload in WORKLOADS {
        let [lru, lru_sp] = [lru, lru_sp].map(|scheme| fixture.run(workload, scheme, 1, true).reads);
        assert!(lru_sp <= lru, "{}: {lru_sp} reads under lru-sp, {lru} under lru", workload.name());
        if workload.name() == "block-nested-loop-join" {
            assert!(lru_sp as f64 <= 0.60 * lru as f64, "{lru_sp} of {lru} reads");
        }
    }
}

#[test]
fn answers_are_right_on_several_threads_and_on_both_backends() {
    for io in [Io::Auto, Io::Require(IoBackend::Threads)] {
        let fixture = Fixture::new(4_000, io);
        let scheme = Scheme::find("lru-sp").unwrap();
        for workload in all_workloads() {
            let measured = fixture.run(workload, scheme, 3, false);
            assert_eq!(measured.accesses, measured.hits + measured.misses, "{}", workload.name());
        }
    }
}

#[test]
fn a_deterministic_run_is_the_same_each_time() {
    let fixture = Fixture::new(4_000, Io::Auto);
    let scheme = Scheme::find("lru-sp").unwrap();
    for &workload in WORKLOADS {
        let counts =
            |measured: Measurement| (measured.accesses, measured.misses, measured.reads, measured.writes);
        let runs = [(); 2].map(|()| counts(fixture.run(workload, scheme, 1, true)));
        assert_eq!(runs[0], runs[1], "{}", workload.name());
    }
}

/// The runs check their own answers.
#[test]
fn workloads_that_disclose_their_reads_give_the_same_answers() {
    let all = [HintPolicy::Auto, HintPolicy::Aggressive { batch: 16 }, HintPolicy::Horizon];
    for io in [Io::Auto, Io::Require(IoBackend::Threads)] {
        let fixture = Fixture::new(4_000, io);
        let disclosing: Vec<_> = all_workloads().filter(|workload| workload.takes_hints()).collect();
        assert_eq!(disclosing.len(), 5);
        for workload in disclosing {
            let schemes = ["lru-sp", "auto"].map(|name| Scheme::find(name).unwrap());
            for (scheme, hints) in schemes.iter().flat_map(|scheme| all.map(|hints| (scheme, hints))) {
                for (threads, deterministic) in [(1, true), (1, false), (3, false)] {
                    let options =
                        RunOptions { threads, deterministic, hints, seed: SEED, ..RunOptions::default() };
                    let run = workload::run(workload, scheme, &fixture.database, &options, None);
                    run.unwrap_or_else(|error| panic!("{options:?}: {error:#}"));
                }
            }
        }
    }
}

#[test]
fn batches_made_by_hand_give_the_same_answers() {
    let fixture = Fixture::new(4_000, Io::Auto);
    for workload in WORKLOADS.iter().filter(|workload| workload.takes_batches()) {
        for (batch, deterministic) in [(2, true), (16, false), (500, false)] {
            let options = RunOptions { batch, deterministic, seed: SEED, ..RunOptions::default() };
            workload::run(*workload, &SCHEMES[0], &fixture.database, &options, None).unwrap();
        }
    }
}

/// A loop that is disclosed in full is read about as often as by OPT.
#[test]
fn a_disclosed_nested_loop_reads_what_opt_does() {
    let fixture = Fixture::new(Sizes::QUICK.tuples, Io::Auto);
    let join = workload::find("block-nested-loop-join").unwrap();
    let frames = 2 * fixture.database.table_pages(workload::Table::Large) as u32 / 3;
    let options = RunOptions {
        memory: Memory::Frames(frames),
        deterministic: true,
        seed: SEED,
        hints: HintPolicy::Auto,
        ..RunOptions::default()
    };
    for scheme in ["lru-sp", "auto"] {
        let scheme = Scheme::find(scheme).unwrap();
        let measured = workload::run(join, scheme, &fixture.database, &options, None).unwrap();
        let opt = workload::Bound::of(join, &fixture.database, &options).unwrap().reads(frames).unwrap();
        assert!(measured.reads as f64 <= 1.02 * opt as f64, "{} reads, OPT {opt}", measured.reads);
    }
}

/// The run checks its own answer. Lookups that are made together access shared pages of the tree once.
#[test]
fn lookups_made_together_give_the_same_answer_with_fewer_accesses() {
    let fixture = Fixture::new(4_000, Io::Auto);
    let workload = EXTRA_WORKLOADS.iter().find(|workload| workload.takes_batches()).unwrap();
    let accesses = |batch, threads| {
        let memory = Memory::Frames(100);
        let options = RunOptions { memory, threads, seed: SEED, batch, ..RunOptions::default() };
        let measured = workload::run(*workload, &SCHEMES[0], &fixture.database, &options, None).unwrap();
        assert_eq!(measured.lookups, Some(4_000));
        measured.accesses
    };
    let alone = accesses(1, 1);
    assert!(accesses(16, 1) < alone && accesses(64, 3) < alone);
}
