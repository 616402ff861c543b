//! Programs that are valid by construction, and operations on a directory with a tenant that they manage.
//!
//! The random tests and the fuzz targets share this file.
#![allow(dead_code, reason = "the tests and the fuzz targets use a part each")]

use std::collections::HashMap;
use std::fmt::Write;

use arbitrary::{Result, Unstructured};
use bufpool_policies::program::{Program, ProgramManager, ProgramOptions};
use bufpool_policies::{
    Access, Admission, Allocation, Claims, ContextId, Directory, DirectoryOptions, FileId, FrameId, PageId,
    TenantId,
};

/// Pages of each tenant.
const PAGES: u64 = 24;

/// The text of a valid program: two queues, a list of ghosts, a page, three ints, a constant, an event of its
/// own, and bodies of random statements. The verifier accepts each statement in any order.
pub fn program(u: &mut Unstructured<'_>) -> Result<String> {
    let mut text =
        "policy random {\n queue q, r\n ghost g\n page h\n int a = 3\n int b\n int n\n const k = 2\n"
            .to_owned();
    let mut labels = 0;
    for (head, page, end) in [
        ("initial", None, "ret"),
        ("fault(p)", Some("p"), "enqt q, p ; copy h, p ; ret"),
        ("replace(c)", Some("c"), "ret c"),
        ("access(p)", Some("p"), "ret"),
        ("gone(p)", Some("p"), "ret"),
        ("mistake(p)", Some("p"), "ret"),
        ("own(p)", Some("p"), "ret"),
    ] {
        let name = head.split('(').next().unwrap_or(head);
        let is_mandatory = matches!(name, "initial" | "fault" | "replace" | "own");
        if !is_mandatory && u.arbitrary()? {
            continue;
        }
        let _ = writeln!(text, " event {head} {{");
        // An access is short: two statements of at most twelve instructions, and no loop.
        let statements = if name == "access" { 2 } else { u.int_in_range(0..=4)? };
        for _ in 0..statements {
            statement(u, &mut text, name, page, &mut labels)?;
        }
        let _ = writeln!(text, " {end}\n }}");
    }
    text.push_str("}\n");
    Ok(text)
}

fn statement(
    u: &mut Unstructured<'_>,
    text: &mut String,
    event: &str,
    page: Option<&str>,
    labels: &mut u32,
) -> Result<()> {
    *labels += 1;
    let label = *labels;
    let queue = *u.choose(&["q", "r"])?;
    let [x, y, z] =
        [*u.choose(&["a", "b", "n"])?, *u.choose(&["a", "b", "k"])?, *u.choose(&["a", "n", "k"])?];
    let binary = *u.choose(&[
        "add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr", "lt", "le", "eq",
        "ne",
    ])?;
    // An instruction about a page that is not nil.
    let on = |u: &mut Unstructured<'_>, page: &str| -> Result<String> {
        Ok(match u.int_in_range(0..=13)? {
            0 => format!("enqh {queue}, {page}"),
            1 => format!("enqt {queue}, {page}"),
            2 => format!("unlink {page}"),
            3 => format!("setref {page}, {}", u.int_in_range(0..=1)?),
            4 => format!("setmeta {page}, {y}"),
            5 => format!("meta {x}, {page}"),
            6 => format!("inq {x}, {page}, {queue}"),
            7 => format!("pinned {x}, {page}"),
            8 => format!("remember g, {page}"),
            9 => format!("recall {x}, g, {page}"),
            10 => format!("copy h, {page}"),
            11 => format!("flush {page}"),
            12 => format!("mod {x}, {page} ; same b, {page}, {page} ; arg n, candidate ; empty {x}, {queue}"),
            _ => format!("ref {x}, {page} ; block b, {page}"),
        })
    };
    let done = match (u.int_in_range(0..=11)?, page) {
        (0, _) => format!("{binary} {x}, {y}, {z}"),
        (1, _) => format!("ldc {x}, {}", u.arbitrary::<i32>()?),
        (2, _) => format!("len {x}, {queue} ; trim g, {y} ; now b ; rand n"),
        (3, Some(page)) => on(u, page)?,
        (4, Some(page)) if !matches!(event, "own" | "access") => format!("call own, {page}"),
        // A walk over a queue. It may move the pages that it visits, and so never end.
        (5, _) if event != "access" => {
            let (start, step) = *u.choose(&[("peekh", "next"), ("peekt", "prev"), ("deqh", "next")])?;
            let act = on(u, "v")?;
            format!(
                "{start} v, {queue}\n L{label}: isnil t, v ; jnz t, M{label}\n {act}\n {step} v, v ; jmp L{label}\n M{label}: ldc t, 0"
            )
        }
        (6, _) if event == "replace" => {
            let end = *u.choose(&["peekh", "peekt"])?;
            format!(
                "{end} v, {queue} ; isnil t, v ; jnz t, L{label}\n pinned t, v ; jnz t, L{label}\n ret v\n L{label}: ldc t, 0"
            )
        }
        // An answer that may be a page that cannot be taken.
        (7, _) if event == "replace" => {
            format!("isnil t, h ; jnz t, L{label} ; jz {y}, L{label}\n ret h\n L{label}: ldc t, 1")
        }
        (8, _) => {
            let act = on(u, "v")?;
            format!("find v, {y} ; isnil t, v ; jnz t, L{label}\n {act}\n L{label}: ldc t, 2")
        }
        // A test and a conditional jump, to which another jump may lead, and a use of the result behind both.
        (9, _) => {
            let (test, jump) = (*u.choose(&["lt", "le", "eq", "ne"])?, *u.choose(&["jz", "jnz"])?);
            format!(
                "ldc t, {} ; jz {x}, L{label} ; {test} t, {y}, {z}\n L{label}: {jump} t, M{label}\n \
                 {binary} {x}, t, {z}\n M{label}: add b, t, t",
                u.int_in_range(0..=1)?
            )
        }
        // A loop that ends by a test, and another jump to the conditional jump.
        (10, _) if event != "access" => {
            format!(
                "ldc t, 5 ; ldc s, 1\n L{label}: sub t, t, s ; lt i, {y}, t\n M{label}: jnz i, L{label}\n \
                 ne i, t, s ; jz i, N{label} ; sub t, s, s ; jmp M{label}\n N{label}: ldc t, 4"
            )
        }
        _ => {
            let act = on(u, "h")?;
            format!("isnil t, h ; jnz t, L{label}\n {act}\n L{label}: ldc t, 3")
        }
    };
    let _ = writeln!(text, " {done}");
    Ok(())
}

/// An operation on the directory.
#[derive(Clone, Debug)]
pub enum Op {
    Access {
        tenant: bool,
        page: u8,
    },
    Ahead {
        tenant: bool,
        page: u8,
    },
    Discard {
        tenant: bool,
        page: u8,
    },
    /// From here on `frames` frames from `first` on are busy.
    Busy {
        first: u8,
        frames: u8,
    },
    Cap {
        frames: u8,
    },
    Send {
        value: i32,
    },
    Reload,
}

/// A random operation: mostly an access, and mostly of the tenant with the program.
fn op(u: &mut Unstructured<'_>) -> Result<Op> {
    let (kind, page) = (u.arbitrary::<u8>()?, u.arbitrary::<u8>()?);
    Ok(match kind {
        0..=219 => Op::Access { tenant: kind % 4 > 0, page },
        220..=231 => Op::Ahead { tenant: kind % 4 > 0, page },
        232..=239 => Op::Discard { tenant: kind % 4 > 0, page },
        240..=247 => Op::Busy { first: page, frames: u.arbitrary()? },
        248..=250 => Op::Cap { frames: page },
        251..=254 => Op::Send { value: u.arbitrary()? },
        255 => Op::Reload,
    })
}

/// Claims of a driver in which a range of frames is busy: the first, and how many.
#[derive(Clone, Copy)]
struct Busy(u32, u32);

impl Claims for Busy {
    fn is_busy(&mut self, frame: FrameId) -> bool {
        (self.0..self.0 + self.1).contains(&frame.0)
    }

    fn is_modified(&mut self, frame: FrameId) -> bool {
        frame.0.is_multiple_of(2)
    }

    fn claim(&mut self, frame: FrameId) -> bool {
        !self.is_busy(frame)
    }
}

/// A directory with two tenants, one of them managed by the program.
pub struct World {
    pub directory: Directory,
    pub managed: TenantId,
    program: Program,
    frame_of: HashMap<PageId, FrameId>,
    busy: Busy,
}

impl World {
    pub fn new(program: &Program, frames: u32) -> Self {
        let options = DirectoryOptions {
            frames,
            allocation: Allocation::LruSp,
            revocation: false,
            shared_pages: false,
        };
        let mut directory = Directory::new(options).unwrap();
        let managed = directory.open_tenant(0, frames).unwrap();
        let mut world =
            Self { directory, managed, program: program.clone(), frame_of: HashMap::new(), busy: Busy(0, 0) };
        world.load();
        world
    }

    fn load(&mut self) {
        let pool_frames = self.directory.frames();
        let options = ProgramOptions { pool_frames, seed: 7, tenant: self.managed, fuel_steps: Some(300) };
        // A privileged program is refused as the manager of a tenant.
        if let Ok(manager) = ProgramManager::new(&self.program, options) {
            self.directory.set_manager(self.managed, Box::new(manager), false).unwrap();
        }
    }

    /// Does the operation, takes all wishes, and checks the invariants.
    pub fn apply(&mut self, op: &Op) {
        match *op {
            Op::Access { tenant, page } => self.access(tenant, page, false),
            Op::Ahead { tenant, page } => self.access(tenant, page, true),
            Op::Discard { tenant, page } => {
                if let Some(frame) = self.frame_of.remove(&self.page(tenant, page)) {
                    self.directory.discard(frame);
                }
            }
            Op::Busy { first, frames } => self.busy = Busy(u32::from(first % 40), u32::from(frames % 40)),
            Op::Cap { frames } => {
                self.directory.set_cap(self.managed, u32::from(frames).max(1)).unwrap();
                while let Some(eviction) = self.directory.shrink(self.managed, &mut self.busy) {
                    self.frame_of.remove(&eviction.page);
                    self.directory.release(eviction.frame);
                }
            }
            Op::Send { value } => {
                let _ = self.directory.send(self.managed, "a", i64::from(value));
            }
            Op::Reload => self.load(),
        }
        while self.directory.take_wish(self.managed).is_some() {}
        self.directory.check_invariants();
        assert_eq!(
            self.directory.tenant_stats(self.managed).manager_panics,
            0,
            "the program's manager panicked"
        );
    }

    fn page(&self, managed: bool, page: u8) -> PageId {
        PageId(u64::from(page) % PAGES + if managed { 1 << PageId::NUMBER_BITS } else { 0 })
    }

    fn access(&mut self, managed: bool, page: u8, ahead: bool) {
        let tenant = if managed { self.managed } else { TenantId(0) };
        let page = self.page(managed, page);
        let access = Access { page, file: FileId(0), tenant, context: ContextId(0), creates: false };
        if let Some(frame) = self.frame_of.get(&page) {
            if !ahead {
                self.directory.hit(*frame, &access);
            }
            return;
        }
        let admission = match ahead {
            true => self.directory.admit_ahead(&access, &mut self.busy),
            false => self.directory.admit(&access, &mut self.busy),
        };
        let frame = match admission {
            Admission::Free { frame, .. } => frame,
            Admission::Evict { frame, page, .. } => {
                assert!(!self.busy.is_busy(frame), "a busy frame was taken");
                self.frame_of.remove(&page).expect("what is evicted was resident");
                frame
            }
            Admission::Exhausted { .. } => return,
        };
        self.directory.loaded(frame);
        self.frame_of.insert(page, frame);
    }
}

/// Runs a program on a small directory.
pub fn run(program: &Program, frames: u32, operations: &[Op]) -> World {
    let mut world = World::new(program, frames);
    operations.iter().for_each(|op| world.apply(op));
    world
}

/// Generates a program and operations from a fuzzer's input, and runs them. Returns the directory after the
/// last one.
pub fn run_generated(bytes: &[u8]) -> Result<World> {
    let mut u = Unstructured::new(bytes);
    let frames = u.int_in_range(1..=30)?;
    let text = program(&mut u)?;
    let program = Program::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let bytes = program.to_bytes();
    let again = Program::parse(&program.to_text()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(again.to_bytes(), bytes, "{text}");
    assert_eq!(Program::from_bytes(&bytes).unwrap().to_bytes(), bytes, "{text}");
    let mut world = World::new(&program, frames);
    while !u.is_empty() {
        world.apply(&op(&mut u)?);
    }
    Ok(world)
}

/// Reads any bytes as a program, as text and in binary form. Programs that are accepted are run.
pub fn run_bytes(bytes: &[u8]) {
    let workload = || (0..200_u8).map(|at| Op::Access { tenant: at % 3 > 0, page: at.wrapping_mul(7) });
    let operations: Vec<_> = workload().collect();
    let text = std::str::from_utf8(bytes).ok().and_then(|text| Program::parse(text).ok());
    for program in text.into_iter().chain(Program::from_bytes(bytes).ok()) {
        let again = Program::parse(&program.to_text()).expect("text of a program");
        assert_eq!(again.to_bytes(), program.to_bytes());
        run(&program, 9, &operations);
    }
}
