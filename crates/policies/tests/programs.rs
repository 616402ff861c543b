//! Policy programs as managers: each victim is that of the policy of the same name in Rust, whichever frames
//! are busy; whatever a program does, the directory stays consistent; one that misbehaves is unloaded, and
//! its tenant does then what one without a manager does.

mod program_ops;

use arbitrary::Unstructured;
use bufpool_policies::classic::{self, Departure, PolicyKind};
use bufpool_policies::program::{Program, ProgramManager, ProgramOptions};
use bufpool_policies::{
    Access, Block, ContextId, FileId, FrameId, Incident, Manager, PageId, SendError, SplitMix64, TenantId,
    Wish,
};
use program_ops::{Op, World};
use proptest::prelude::*;

fn example(name: &str) -> Program {
    let path = format!("{}/../../examples/programs/{name}.policy", env!("CARGO_MANIFEST_DIR"));
    Program::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn manager(program: &Program, frames: u32) -> ProgramManager {
    let options = ProgramOptions { pool_frames: frames, seed: 1, tenant: TenantId(0), fuel_steps: None };
    ProgramManager::new(program, options).unwrap()
}

fn access(page: u64) -> Access {
    Access { page: PageId(page), file: FileId(0), tenant: TenantId(0), context: ContextId(0) }
}

#[test]
fn every_victim_is_the_twins_whichever_frames_are_busy() {
    for kind in [
        PolicyKind::Lru,
        PolicyKind::Mru,
        PolicyKind::Fifo,
        PolicyKind::Clock,
        PolicyKind::Sieve,
        PolicyKind::S3Fifo,
        PolicyKind::Lfu,
        PolicyKind::TwoQueue,
    ] {
        for frames in [1_u32, 2, 5, 17, 40] {
            let mut twin = classic::build(kind, frames);
            let mut ours = manager(&example(kind.name()), frames);
            let mut random = SplitMix64::new(u64::from(frames));
            let mut pages: Vec<u64> = Vec::new();
            for step in 0..4000 {
                let page = (random.unit().powi(2) * f64::from(3 * frames)) as u64;
                if let Some(frame) = pages.iter().position(|resident| *resident == page) {
                    twin.hit(FrameId(frame as u32), PageId(page));
                    ours.block_accessed(FrameId(frame as u32), &access(page));
                    continue;
                }
                if pages.len() < frames as usize {
                    pages.push(page);
                } else {
                    // A third of the time some frames are busy, but never all.
                    let (first, length) = (random.below(frames.into()), random.below(frames.into()) / 2);
                    let is_busy = |frame: FrameId| {
                        step % 3 == 0
                            && (u64::from(frame.0) + u64::from(frames) - first) % u64::from(frames) < length
                    };
                    let mut busy = is_busy;
                    let victim = twin.victim(PageId(page), &mut busy).unwrap();
                    let candidate = FrameId((0..frames).find(|frame| !is_busy(FrameId(*frame))).unwrap());
                    let choice = ours.replace_block(candidate, Some(&access(page)), &mut busy);
                    assert_eq!(choice, victim, "{kind}, {frames} frames, step {step}");
                    let gone = PageId(std::mem::replace(&mut pages[victim.index()], page));
                    twin.remove(victim, gone, Departure::Evicted);
                    ours.block_gone(victim, gone);
                    ours.check_invariants();
                }
                let frame = pages.iter().position(|resident| *resident == page).unwrap();
                let frame = FrameId(frame as u32);
                twin.insert(frame, PageId(page));
                ours.new_block(&Block { frame, page: PageId(page), file: FileId(0), context: ContextId(0) });
            }
            assert_eq!((ours.stats().out_of_fuel, ours.stats().unloaded), (0, None), "{kind}");
        }
    }
}

#[test]
fn hits_are_needed_by_programs_that_look_at_them() {
    assert!(manager(&example("lru"), 9).needs_every_hit(PageId(0)));
    assert!(!manager(&example("clock"), 9).needs_every_hit(PageId(0)));
}

fn text(replace: &str) -> String {
    format!(
        "policy t {{ queue q\n page h\n int a\n const k = 0\n event initial {{ ret }}\n \
             event fault(p) {{ enqt q, p ; copy h, p ; ret }}\n event replace(c) {{ {replace} }} }}"
    )
}

fn loops() -> impl Iterator<Item = Op> + Clone {
    (0..=u8::MAX).map(|at| Op::Access { tenant: true, page: at % 20 })
}

/// Eight incidents, and the reason.
#[test]
fn a_program_with_too_many_incidents_is_unloaded_with_its_reason() {
    for (replace, incident, words) in [
        ("L: jmp L", Incident::OutOfFuel, "event replace ran out of fuel"),
        ("div a, k, k ; ret c", Incident::DivisionByZero, "event replace divided by zero"),
        (
            // The page that came last, which is busy below.
            "isnil t, h ; jnz t, L ; ret h\n L: ret c",
            Incident::InvalidAnswer,
            "event replace named a page that could not be taken",
        ),
    ] {
        let program = Program::parse(&text(replace)).unwrap();
        let mut world = World::new(&program, 10);
        let mut seen = 0;
        for op in loops() {
            if incident == Incident::InvalidAnswer {
                // All frames but that of the ledger's head.
                let head = world.directory.upcoming().next().map_or(0, |frame| frame.0 as u8);
                let newest = (head + 9) % 10;
                world.apply(&Op::Busy { first: newest, frames: 1 });
            }
            world.apply(&op);
            let stats = world.directory.program_stats(world.managed).unwrap();
            seen = stats.faults + stats.out_of_fuel + stats.invalid_answers;
            assert_eq!(stats.unloaded.is_some(), seen >= 8, "{stats:?}");
            if let Some(unloaded) = stats.unloaded {
                assert_eq!((unloaded.incident, unloaded.event), (incident, "replace"));
                assert!(unloaded.to_string().ends_with(words), "{unloaded}");
            }
        }
        assert_eq!(seen, 8, "nothing runs after that");
    }
}

/// A fault happens when `a` is 1, once. Seven, and an eighth after 1,024 calls without one, leave the program
/// loaded; seven more do not.
#[test]
fn incidents_that_are_far_apart_do_not_unload_a_program() {
    let program = Program::parse(&text("jz a, ok\n ldc a, 0 ; div a, k, k\n ok: ret c")).unwrap();
    let mut world = World::new(&program, 10);
    let mut accesses = loops().cycle();
    let mut faults = |world: &mut World, count: u64| {
        let stats = |world: &World| world.directory.program_stats(world.managed).unwrap();
        let enough = stats(world).faults + count;
        while stats(world).faults < enough && stats(world).unloaded.is_none() {
            world.apply(&Op::Send { value: 1 });
            world.apply(&accesses.next().unwrap());
        }
        world.apply(&Op::Send { value: 0 });
        world.directory.program_stats(world.managed).unwrap()
    };
    let after_seven = faults(&mut world, 7);
    assert_eq!((after_seven.faults, after_seven.unloaded), (7, None));
    for op in loops().cycle() {
        world.apply(&op);
        let stats = world.directory.program_stats(world.managed).unwrap();
        if stats.calls > after_seven.calls + 1024 || stats.unloaded.is_some() {
            break;
        }
    }
    assert_eq!(faults(&mut world, 7).unloaded, None);
    assert!(faults(&mut world, 1).unloaded.is_some());
}

#[test]
fn parameters_are_sent_by_name() {
    let program = Program::parse(&text("jz a, c1\n flush c ; setmod c\n c1: ret c")).unwrap();
    let mut world = World::new(&program, 5);
    let (directory, managed) = (&mut world.directory, world.managed);
    assert_eq!(directory.send(managed, "a", 1), Ok(()));
    for name in ["k", "q", "h", "t", "none"] {
        assert_eq!(directory.send(managed, name, 1), Err(SendError::UnknownSlot), "{name}");
    }
    assert_eq!(directory.send(TenantId(0), "a", 1), Err(SendError::NoProgram));
    assert_eq!(directory.send(TenantId(99), "a", 1), Err(SendError::NoProgram));
    assert_eq!(directory.program_stats(TenantId(0)), None);
}

#[test]
fn wishes_are_taken_in_order() {
    let program = Program::parse(&text("flush c ; setmod c ; ret c")).unwrap();
    let mut ours = manager(&program, 4);
    let (frame, page) = (FrameId(2), PageId(70));
    ours.new_block(&Block { frame, page, file: FileId(0), context: ContextId(0) });
    assert_eq!(ours.replace_block(frame, None, &mut |_| false), frame);
    let wishes: Vec<_> = std::iter::from_fn(|| ours.take_wish()).collect();
    assert_eq!(wishes, [Wish::Flush { frame, page }, Wish::SetModified { frame, page }]);
}

#[test]
fn a_privileged_program_needs_a_privileged_tenant() {
    let text = "policy p privileged { event initial { ret }\n event fault(p) { ret p }\n event replace(c) { ret c } }";
    let program = Program::parse(text).unwrap();
    let options = ProgramOptions { pool_frames: 4, seed: 1, tenant: TenantId(0), fuel_steps: None };
    let refused = ProgramManager::new(&program, options).err().unwrap();
    assert!(refused.to_string().starts_with("expected a program without `privileged`"), "{refused}");
}

/// What the random tests below draw reaches every kind of incident, programs that are unloaded, and programs
/// that choose for themselves.
#[test]
fn generated_programs_do_everything_that_programs_do() {
    let mut sum = [0_u64; 6];
    for seed in 0..400 {
        let mut random = SplitMix64::new(seed);
        let bytes: Vec<u8> = (0..1200).map(|_| random.next_u64() as u8).collect();
        let world = program_ops::run_generated(&bytes).unwrap();
        let stats = world.directory.program_stats(world.managed).unwrap();
        let overrules = world.directory.tenant_stats(world.managed).overrules;
        let unloaded = u64::from(stats.unloaded.is_some());
        let seen = [stats.calls, stats.faults, stats.out_of_fuel, stats.invalid_answers, unloaded, overrules];
        sum.iter_mut().zip(seen).for_each(|(sum, seen)| *sum += seen);
    }
    assert!(sum.iter().all(|count| *count >= 10), "{sum:?}");
}

/// Inputs on which a fuzz target once failed.
#[test]
fn regressions() {
    let inputs = |target: &str| {
        let folder = format!("{}/../../fuzz/regressions/{target}", env!("CARGO_MANIFEST_DIR"));
        let files = std::fs::read_dir(folder).into_iter().flatten();
        files.map(|file| std::fs::read(file.unwrap().path()).unwrap())
    };
    inputs("program_bytes").for_each(|bytes| program_ops::run_bytes(&bytes));
    inputs("program_ops").for_each(|bytes| assert!(program_ops::run_generated(&bytes).is_ok()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A generated program is valid, and its text and its bytes are the same program; whatever it does, the
    /// directory is consistent after each step.
    #[test]
    fn generated_programs_run(bytes in prop::collection::vec(any::<u8>(), 100..1500)) {
        prop_assert!(program_ops::run_generated(&bytes).is_ok());
    }

    /// The tenant without a program hits wherever it would beside one without.
    #[test]
    fn a_program_takes_no_hits_from_others(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        frames in 2..30_u32,
        accesses in prop::collection::vec((any::<bool>(), any::<u8>()), 0..300),
    ) {
        let program = Program::parse(&program_ops::program(&mut Unstructured::new(&bytes)).unwrap()).unwrap();
        let plain = Program::parse(&text("ret c")).unwrap();
        let hits = |program: &Program| {
            let mut world = World::new(program, frames);
            accesses.iter().for_each(|(tenant, page)| world.apply(&Op::Access { tenant: *tenant, page: *page }));
            world.directory.tenant_stats(TenantId(0)).hits
        };
        prop_assert!(hits(&program) >= hits(&plain));
    }

    #[test]
    fn any_bytes_are_refused_or_run(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        program_ops::run_bytes(&bytes);
    }
}
