//! What it costs to ask a policy program, the kernel, another thread or another process which page to give
//! up.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use bufpool_policies::program::{ProgramManager, ProgramOptions};
use bufpool_policies::{Access, Block, ContextId, FileId, FrameId, Manager, PageId, TenantId};

use super::{FRAMES, Twin};
use crate::rounds::{self, Spread};

/// Bytes of a question to another process, and of its answer.
const MESSAGE_BYTES: usize = 32;

/// One that can be asked, and what its answer takes.
#[derive(Clone, Debug)]
pub struct Crossing {
    /// Its name.
    pub name: &'static str,
    /// Nanoseconds from question to answer.
    pub ns: Spread,
}

/// A program that is asked without a pool around it. A replacement is the question, the event of the page
/// that leaves and the event of the page that comes in.
pub struct Answers {
    manager: ProgramManager,
    /// Per frame: its page.
    pages: Vec<PageId>,
    next: u64,
}

impl Answers {
    /// The twin's program, with [`FRAMES`] pages.
    ///
    /// # Panics
    /// If the program is privileged.
    pub fn new(twin: &Twin) -> Self {
        let options = ProgramOptions { pool_frames: FRAMES, seed: 1, tenant: TenantId(0), fuel_steps: None };
        let manager = ProgramManager::new(&twin.program, options).expect("no privileged program");
        let mut answers = Self { manager, pages: Vec::new(), next: 0 };
        for frame in 0..FRAMES {
            let page = answers.next_page();
            answers.pages.push(page);
            answers.enter(FrameId(frame));
        }
        answers
    }

    /// Makes `count` replacements.
    #[inline(never)]
    pub fn run(&mut self, count: u64) {
        for _ in 0..count {
            let page = self.next_page();
            let access =
                Access { page, file: FileId(0), tenant: TenantId(0), context: ContextId(0), creates: false };
            let candidate = FrameId((self.next % u64::from(FRAMES)) as u32);
            let victim = self.manager.replace_block(candidate, Some(&access), &mut |_| false);
            self.manager.block_gone(victim, self.pages[victim.index()]);
            self.pages[victim.index()] = page;
            self.enter(victim);
        }
    }

    fn next_page(&mut self) -> PageId {
        self.next += 1;
        PageId(self.next)
    }

    fn enter(&mut self, frame: FrameId) {
        let page = self.pages[frame.index()];
        self.manager.new_block(&Block {
            frame,
            page,
            file: FileId(0),
            context: ContextId(0),
            created: false,
        });
    }
}

/// A thread that sends back what it receives.
struct Echo {
    ask: Option<mpsc::Sender<u64>>,
    answers: mpsc::Receiver<u64>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Echo {
    fn new() -> Self {
        let (ask, asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let echo = move || while asked.recv().is_ok_and(|question| answer.send(question).is_ok()) {};
        Self { ask: Some(ask), answers, thread: Some(thread::spawn(echo)) }
    }

    fn run(&self, count: u64) -> Result<()> {
        let ask = self.ask.as_ref().context("the thread is there until the end")?;
        for question in 0..count {
            ask.send(question)?;
            std::hint::black_box(self.answers.recv()?);
        }
        Ok(())
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// A process that writes back what it reads.
struct Piped {
    process: Child,
    questions: Option<ChildStdin>,
    answers: ChildStdout,
}

impl Piped {
    fn new() -> Result<Self> {
        let mut process =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start cat")?;
        let questions = process.stdin.take();
        let answers = process.stdout.take().context("its output is a pipe")?;
        Ok(Self { process, questions, answers })
    }

    fn run(&mut self, count: u64) -> Result<()> {
        let questions = self.questions.as_mut().context("the pipe is there until the end")?;
        let mut message = [0; MESSAGE_BYTES];
        for _ in 0..count {
            questions.write_all(&message)?;
            self.answers.read_exact(&mut message)?;
        }
        Ok(())
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        // The end of its input ends the process.
        self.questions = None;
        let _status = self.process.wait();
    }
}

fn system_calls(count: u64) {
    for _ in 0..count {
        // SAFETY: the call takes nothing and changes nothing.
        std::hint::black_box(unsafe { libc::syscall(libc::SYS_getppid) });
    }
}

/// Compares a replacement by the program of the first of [`Twin::all`], a system call that does nothing, a
/// question to a thread and back through channels, and one to a process and back through pipes. A round has
/// `count` of each of the last two, and a hundred times as many of each of the first two.
///
/// # Errors
/// If no process can be started, or a channel or pipe breaks.
pub fn compare_crossings(count: u64) -> Result<[Crossing; 4]> {
    let (twin, quick) = (&Twin::all()[0], 100 * count);
    let mut answers = Answers::new(twin);
    let (echo, mut piped) = (Echo::new(), Piped::new()?);
    let rounds = rounds::alternate("crossings", || {
        Ok([
            nanoseconds(quick, || {
                answers.run(quick);
                Ok(())
            })?,
            nanoseconds(quick, || {
                system_calls(quick);
                Ok(())
            })?,
            nanoseconds(count, || echo.run(count))?,
            nanoseconds(count, || piped.run(count))?,
        ])
    })?;
    let names = ["program", "system call", "thread", "process"];
    Ok(std::array::from_fn(|at| Crossing {
        name: names[at],
        ns: Spread::of(rounds.iter().map(|round| round[at])),
    }))
}

/// Nanoseconds of each of the `count` questions that `run` asks.
fn nanoseconds(count: u64, run: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}
