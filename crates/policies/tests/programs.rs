//! Policy programs as managers. Each victim is that of the policy of the same name in Rust, whichever frames
//! are busy. Whatever a program does, the directory stays consistent. A program that misbehaves is unloaded,
//! and its tenant is then as one without a manager. Each event does, step by step, what the program's text
//! says.

mod naive_program;
mod program_ops;

use arbitrary::Unstructured;
use bufpool_policies::classic::{self, Departure, PolicyKind};
use bufpool_policies::program::{Program, ProgramManager, ProgramOptions};
use bufpool_policies::{
    Access, Block, ContextId, FileId, FrameId, Incident, Look, Manager, PageId, SendError, SplitMix64,
    TenantId, Wish, mix64,
};
use naive_program::{About, Naive};
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
    Access { page: PageId(page), file: FileId(0), tenant: TenantId(0), context: ContextId(0), creates: false }
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
                ours.new_block(&Block {
                    frame,
                    page: PageId(page),
                    file: FileId(0),
                    context: ContextId(0),
                    created: false,
                });
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

/// Eight incidents unload a program, and the reason is reported.
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
                // The frame of the page that came last.
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

/// The program has one fault each time that `a` is set to 1. Seven faults leave it loaded, and so do seven
/// more after 1,024 calls without a fault; the next one unloads it.
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
    ours.new_block(&Block { frame, page, file: FileId(0), context: ContextId(0), created: false });
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

/// Among the random programs are some with every kind of incident, some that are unloaded, and some that
/// overrule.
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

/// A program that is run twice: as the pool runs it, and by the naive interpreter from its text.
struct Twice {
    fast: ProgramManager,
    naive: Naive,
    fuel: u32,
    faults: u64,
    out_of_fuel: u64,
    /// What the program may look at in questions.
    bits: Bits,
    is_privileged: bool,
}

/// Frames that are busy, a bit each, and frames that the tenant may still take.
#[derive(Clone, Copy, Default)]
struct Bits(u64, u32);

impl Look for Bits {
    fn is_busy(&mut self, frame: FrameId) -> bool {
        self.0 >> frame.0 & 1 == 1
    }

    fn is_modified(&mut self, frame: FrameId) -> bool {
        frame.0.is_multiple_of(3)
    }

    fn frames_left(&self) -> u32 {
        self.1
    }
}

impl Twice {
    const FRAMES: u32 = 8;

    fn new(program: &Program, fuel: u32) -> Self {
        let options = ProgramOptions {
            pool_frames: Self::FRAMES,
            seed: 3,
            tenant: TenantId(0),
            fuel_steps: Some(fuel),
        };
        let mut twice = Self {
            fast: ProgramManager::privileged(program, options, Self::FRAMES),
            naive: Naive::new(&program.to_text(), Self::FRAMES as usize, SplitMix64::new(mix64(3))),
            fuel,
            faults: 0,
            out_of_fuel: 0,
            bits: Bits::default(),
            is_privileged: program.is_privileged(),
        };
        twice.naive.granted_frames = Self::FRAMES;
        twice.check("initial", 0, About::default(), false);
        twice
    }

    /// Runs an event, which the program as the pool runs it has just had, in the naive interpreter too, and
    /// compares steps, incidents and wishes. `before` is the number of steps that the program had taken
    /// before the event. Returns the answer of the naive interpreter.
    fn check(&mut self, event: &str, before: u64, about: About, is_question: bool) -> Option<FrameId> {
        let mut look = self.bits;
        let look = is_question.then_some(&mut look as &mut dyn Look);
        let answer = self.naive.run(event, about, self.fuel.into(), look);
        match answer {
            Ok(_) => {}
            Err(Incident::OutOfFuel) => self.out_of_fuel += 1,
            Err(_) => self.faults += 1,
        }
        let stats = self.fast.stats();
        assert_eq!(stats.steps - before, self.naive.spent, "steps of {event}");
        assert_eq!(
            (stats.out_of_fuel, stats.faults),
            (self.out_of_fuel, self.faults),
            "incidents at {event}"
        );
        self.fast.check_invariants();
        if stats.unloaded.is_none() {
            let wishes: Vec<_> = std::iter::from_fn(|| self.fast.take_wish()).collect();
            assert_eq!(wishes, self.naive.wishes.drain(..).collect::<Vec<_>>(), "wishes of {event}");
        }
        answer.ok().flatten()
    }

    /// Accesses a page, which is drawn from `word`. On a miss it takes a free frame or replaces another page.
    /// `None` once the program is unloaded.
    fn step(&mut self, resident: &mut Vec<PageId>, word: u64) -> Option<()> {
        let page = PageId::in_file(FileId((word & 1) as u32), word >> 1 & 15);
        let access = Access {
            page,
            file: page.file(),
            tenant: TenantId(0),
            context: ContextId(5),
            creates: word >> 16 & 7 == 0,
        };
        self.bits = Bits(word >> 8 & 0b0101_1010, word as u32 >> 20 & 3);
        let steps = self.fast.stats().steps;
        if let Some(at) = resident.iter().position(|other| *other == page) {
            let frame = FrameId(at as u32);
            self.fast.block_accessed(frame, &access);
            self.naive.reference(frame);
            let ids = About { context: Some(5), tenant: Some(0), ..About::default() };
            self.check("access", steps, About { parameter: Some(frame), page: Some(page), ..ids }, false);
            return self.is_loaded();
        }
        let frame = if resident.len() < Self::FRAMES as usize {
            resident.push(page);
            FrameId(resident.len() as u32 - 1)
        } else {
            let victim = self.replace(resident, &access, FrameId(word as u32 >> 5 & 7))?;
            resident[victim.index()] = page;
            victim
        };
        let steps = self.fast.stats().steps;
        self.fast.new_block(&Block {
            frame,
            page,
            file: page.file(),
            context: ContextId(6),
            created: access.creates,
        });
        self.naive.enter(frame, page);
        let ids = About { context: Some(6), tenant: Some(0), ..About::default() };
        self.check("fault", steps, About { parameter: Some(frame), page: Some(page), ..ids }, false);
        self.is_loaded()
    }

    /// Runs the events of a replacement: mistake, replace, and gone for the page that is replaced. `None`
    /// once the program is unloaded.
    fn replace(&mut self, resident: &[PageId], access: &Access, candidate: FrameId) -> Option<FrameId> {
        let at = resident[candidate.index()];
        let about = About {
            parameter: Some(candidate),
            page: Some(at),
            missing: Some(access.page),
            candidate: None,
            context: Some(access.context.0),
            tenant: Some(access.tenant.0),
        };
        let steps = self.fast.stats().steps;
        self.fast.placeholder_used(access, candidate);
        self.check("mistake", steps, about, false);
        self.is_loaded()?;

        let steps = self.fast.stats().steps;
        let mut look = self.bits;
        let chosen = self.fast.choose(candidate, Some(access), &mut look);
        let about = About { page: Some(access.page), candidate: Some(at), ..about };
        // At its cap, a privileged program answers by the other event.
        let asked = if self.is_privileged && look.frames_left() == 0 { "fault" } else { "replace" };
        let answer = self.check(asked, steps, about, true);
        assert_eq!(chosen, answer.unwrap_or(candidate), "the answer");
        self.is_loaded()?;

        let (gone, steps) = (resident[chosen.index()], self.fast.stats().steps);
        self.fast.block_gone(chosen, gone);
        let about = About { parameter: Some(chosen), page: Some(gone), ..About::default() };
        self.check("gone", steps, about, false);
        self.naive.leave(chosen);
        self.is_loaded().map(|()| chosen)
    }

    fn is_loaded(&self) -> Option<()> {
        self.fast.stats().unloaded.is_none().then_some(())
    }
}

/// Checks that each event of the program takes the steps, has the incidents and wishes, and gives the page
/// that its text says.
fn run_twice(program: &Program, fuel: u32, words: impl IntoIterator<Item = u64>) {
    let (mut twice, mut resident) = (Twice::new(program, fuel), Vec::new());
    // Until the last word, or until the program is unloaded.
    let _ = words.into_iter().try_for_each(|word| twice.step(&mut resident, word));
}

#[test]
fn examples_do_what_their_text_says() {
    let folder = format!("{}/../../examples/programs", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let programs: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "policy")).collect();
    assert!(programs.len() >= 15, "{programs:?}");
    for path in programs {
        let program = Program::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let mut random = SplitMix64::new(1);
        run_twice(&program, 4096, (0..2000).map(|_| random.next_u64()));
    }
}

/// A page that is released is nil in the slots of the callers too, and may be found again until it leaves.
#[test]
fn privileged_programs_do_what_their_text_says() {
    let text = "policy p privileged {
        queue q, r
        page h
        int left
        event initial    { ldc a, 5 ; request left, a ; ret }
        event fault(p)   { request left, left ; enqt q, p ; copy h, p ; peekh v, q ; isnil t, v ; jnz t, end
                           ref t, v ; jz t, end ; call drop_one, v
                           isnil left, v ; isnil t, p ; jnz t, none ; ret p
                     none: ldc b, 3 ; find v, b ; isnil t, v ; jnz t, other ; ret v
                    other: isnil t, h ; jnz t, again ; ret h
                    again: arg b, candidate ; find v, b ; isnil t, v ; jnz t, again ; ret v
                      end: ret p }
        event replace(c) { ldc a, 2 ; request a, a ; jnz a, one ; release c
                           peekt v, q ; isnil t, v ; jnz t, one ; ret v
                      one: arg b, candidate ; find v, b ; isnil t, v ; jnz t, one ; ret v }
        event drop_one(p) { copy h, p ; peekt v, q ; isnil t, v ; jnz t, end ; enqh r, v ; call last, p
                      end: ret }
        event last(p)    { release p ; ret }
    }";
    let program = Program::parse(text).unwrap();
    for fuel in [7, 20, 4096] {
        let mut random = SplitMix64::new(u64::from(fuel));
        run_twice(&program, fuel, (0..2000).map(|_| random.next_u64()));
    }
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

    /// A generated program is valid, and its text and its bytes stand for the same program. Whatever it does,
    /// the directory is consistent after each step.
    #[test]
    fn generated_programs_run(bytes in prop::collection::vec(any::<u8>(), 100..1500)) {
        prop_assert!(program_ops::run_generated(&bytes).is_ok());
    }

    #[test]
    fn generated_programs_do_what_their_text_says(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        fuel in 1..400_u32,
        words in prop::collection::vec(any::<u64>(), 0..200),
    ) {
        let program = Program::parse(&program_ops::program(&mut Unstructured::new(&bytes)).unwrap()).unwrap();
        run_twice(&program, fuel, words);
    }

    /// The tenant without a program has at least as many hits as beside a program that overrules nothing.
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
