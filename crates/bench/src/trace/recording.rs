//! The trace of a live run, as the pool reports it to a recorder.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use bufpool::engine::{Event, Recorder};
use bufpool::manager::PageId;

use super::{Directive, Item, Reference, Writer, base_name};
use crate::output::unwritable;

/// A recording of a live run, which goes to a [`Sink`]. The pool gets its [`recorder`](Self::recorder).
///
/// A page's block number is its packed id: the file's number in the upper 24 bits, the page's in the lower
/// 40.
pub struct Recording<S> {
    shared: Arc<Mutex<SinkState<S>>>,
}

struct SinkState<S> {
    sink: S,
    creations: u64,
    failed: Option<io::Error>,
}

/// Where the steps of a recording are written.
pub trait Sink: Send + 'static {
    /// Takes one step.
    ///
    /// # Errors
    /// If it cannot be written.
    fn item(&mut self, item: Item) -> io::Result<()>;

    /// Takes the text of the program that a tenant has from here on.
    ///
    /// # Errors
    /// If it cannot be written, or the sink cannot hold programs.
    fn program(&mut self, tenant: u32, text: &str) -> io::Result<()>;

    /// Takes a comment, which is no step of the trace.
    ///
    /// # Errors
    /// If it cannot be written.
    fn remark(&mut self, text: &str) -> io::Result<()>;
}

/// A trace in a file, and the programs of its tenants in files beside it: `NAME.1.policy` and so on, NAME
/// being that of the trace up to its first dot. A file that holds another program keeps it, since another
/// trace may name it; the program goes to the next number.
pub struct TraceFile {
    writer: Writer<'static>,
    path: PathBuf,
    /// The names of the files of programs, by the program's text.
    programs: HashMap<String, String>,
}

impl TraceFile {
    /// Writes what is still buffered, and puts the trace in place.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self) -> io::Result<()> {
        self.writer.finish()
    }

    /// The name of a file beside the trace that holds this program, which is written if there is none.
    fn program_file(&self, text: &str) -> io::Result<String> {
        for number in 1_u64.. {
            let file = format!("{}.{number}.policy", base_name(&self.path));
            let path = self.path.with_file_name(&file);
            match File::create_new(&path) {
                Ok(mut new) => return new.write_all(text.as_bytes()).map(|()| file),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Err(_) if fs::read(&path).is_ok_and(|there| there == text.as_bytes()) => return Ok(file),
                Err(_) => {}
            }
        }
        unreachable!("a folder has fewer files than there are numbers")
    }
}

impl Sink for TraceFile {
    fn item(&mut self, item: Item) -> io::Result<()> {
        self.writer.write(&item)
    }

    fn program(&mut self, tenant: u32, text: &str) -> io::Result<()> {
        let file = match self.programs.get(text) {
            Some(file) => file.clone(),
            None => {
                let file = self.program_file(text)?;
                self.programs.insert(text.to_owned(), file.clone());
                file
            }
        };
        self.item(Item::Directive(Directive::Program { tenant, file }))
    }

    fn remark(&mut self, text: &str) -> io::Result<()> {
        self.writer.comment(text)
    }
}

impl Sink for Vec<Item> {
    fn item(&mut self, item: Item) -> io::Result<()> {
        self.push(item);
        Ok(())
    }

    fn program(&mut self, _tenant: u32, _text: &str) -> io::Result<()> {
        let message = "expected a run without policy programs, which a trace has beside it in files";
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }

    fn remark(&mut self, _text: &str) -> io::Result<()> {
        Ok(())
    }
}

impl Recording<TraceFile> {
    /// A recording into a file, in the trace text format, with the programs of tenants beside it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn to_file(path: &Path) -> Result<Self> {
        let writer = Writer::create(path).with_context(|| unwritable(path))?;
        Ok(Self::new(TraceFile { writer, path: path.to_owned(), programs: HashMap::new() }))
    }
}

impl Recording<Vec<Item>> {
    /// A recording in memory.
    pub fn in_memory() -> Self {
        Self::new(Vec::new())
    }
}

impl<S: Sink> Recording<S> {
    fn new(sink: S) -> Self {
        Self { shared: Arc::new(Mutex::new(SinkState { sink, creations: 0, failed: None })) }
    }

    /// The recorder that the pool is opened with.
    pub fn recorder(&self) -> Box<dyn Recorder> {
        Box::new(Listener { shared: Arc::clone(&self.shared) })
    }

    /// Ends the recording. Returns its sink, and how many accesses of it created their page. The pool must be
    /// closed before.
    ///
    /// # Errors
    /// If a step could not be written.
    ///
    /// # Panics
    /// If a recorder is still alive.
    pub fn finish(self) -> Result<(S, u64)> {
        let shared = Arc::into_inner(self.shared).expect("the pool, and with it the recorder, is gone");
        let state = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        match state.failed {
            Some(error) => Err(error).context("write the recorded trace"),
            None => Ok((state.sink, state.creations)),
        }
    }
}

struct Listener<S> {
    shared: Arc<Mutex<SinkState<S>>>,
}

impl<S: Sink> Recorder for Listener<S> {
    fn record(&mut self, event: Event<'_>) {
        let mut state = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failed.is_none() {
            state.failed = state.take(event).err();
        }
    }
}

impl<S: Sink> SinkState<S> {
    fn take(&mut self, event: Event<'_>) -> io::Result<()> {
        let item = match event {
            Event::Access { page, site, tenant, creation } => {
                if creation {
                    self.creations += 1;
                    self.sink.item(Item::Directive(Directive::Create(page.0)))?;
                }
                Item::Access(Reference { block: page.0, site, tenant })
            }
            Event::Site { id, scopes, class, name, file, line } => {
                let name = name.map_or(String::new(), |name| format!(" ({name})"));
                let scopes = if scopes.is_empty() { String::new() } else { format!(" in {scopes}") };
                let class = if class == 0 { String::new() } else { format!(", class {class}") };
                return self.sink.remark(&format!("site {id} is {file}:{line}{name}{class}{scopes}"));
            }
            Event::File { id, name } => {
                let first = PageId::in_file(id, 0).0;
                let last = first | ((1 << PageId::NUMBER_BITS) - 1);
                Item::Directive(Directive::File { first, last, name: name.to_owned() })
            }
            Event::Pin(page) => Item::Directive(Directive::Pin(page.0)),
            Event::Unpin(page) => Item::Directive(Directive::Unpin(page.0)),
            Event::Policy { tenant, priority, policy } => {
                Item::Directive(Directive::Policy { tenant, prio: priority, policy })
            }
            Event::Priority { tenant, first, last, priority } => {
                Item::Directive(Directive::Priority { tenant, first: first.0, last: last.0, prio: priority })
            }
            Event::TemporaryPriority { tenant, first, last, priority } => {
                Item::Directive(Directive::TemporaryPriority {
                    tenant,
                    first: first.0,
                    last: last.0,
                    prio: priority,
                })
            }
            Event::Hint { tenant, first, last } => {
                Item::Directive(Directive::Hint { tenant, first: first.0, last: last.0 })
            }
            Event::Program { tenant, text, .. } => return self.sink.program(tenant, text),
            Event::ProgramEnd { tenant } => Item::Directive(Directive::ProgramEnd { tenant }),
            Event::Send { tenant, slot, value } => {
                Item::Directive(Directive::Send { tenant, slot: slot.to_owned(), value })
            }
            Event::HintsReplan { tenant } => Item::Directive(Directive::HintsReplan { tenant }),
            Event::HintsEnd { tenant } => Item::Directive(Directive::HintsEnd { tenant }),
            // `Event` is non-exhaustive: events that a trace has no line for are left out.
            _ => return Ok(()),
        };
        self.sink.item(item)
    }
}
