//! A naive interpreter. It reads the text of a program word by word, and does what the reference of the
//! language says of each instruction. Slots are maps by name, queues are vectors.

use std::collections::{BTreeMap, VecDeque};

use bufpool_policies::{FrameId, Incident, Look, PageId, SplitMix64, Wish};

/// The most wishes that wait to be taken; later ones are dropped.
const WISHES_MAX: usize = 64;

/// The value of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value {
    Int(i64),
    Page(Option<FrameId>),
}

/// An event: its parameter, the words of its instructions, and for each label the index of the instruction
/// behind it.
#[derive(Clone, Default)]
struct Event {
    parameter: Option<String>,
    instructions: Vec<Vec<String>>,
    labels: BTreeMap<String, usize>,
}

impl Event {
    /// Whether a jump from this instruction or a later one leads to it. Then the assembler puts a `loop`
    /// before it.
    fn is_loop(&self, at: usize) -> bool {
        self.instructions[at..].iter().any(|words| {
            let is_jump = matches!(words[0].as_str(), "jmp" | "jz" | "jnz");
            is_jump && self.labels[&words[words.len() - 1]] == at
        })
    }
}

/// The state of a resident page.
struct Resident {
    page: PageId,
    meta: i64,
    is_referenced: bool,
}

/// The arguments of an event.
#[derive(Clone, Copy, Default)]
pub struct About {
    pub parameter: Option<FrameId>,
    /// A page of the file in which `find` searches.
    pub page: Option<PageId>,
    pub missing: Option<PageId>,
    pub candidate: Option<PageId>,
    pub context: Option<u32>,
    pub tenant: Option<u32>,
}

/// A program, and its state between events.
pub struct Naive {
    events: BTreeMap<String, Event>,
    slots: BTreeMap<String, Value>,
    queues: BTreeMap<String, VecDeque<FrameId>>,
    ghosts: BTreeMap<String, VecDeque<PageId>>,
    ghosts_max: usize,
    pages: BTreeMap<FrameId, Resident>,
    random: SplitMix64,
    now: u64,
    /// Frames that were granted to a privileged tenant.
    pub granted_frames: u32,
    pub wishes: VecDeque<Wish>,
    /// Frames whose pages the current event has released.
    released: Vec<FrameId>,
    /// Steps that the current event has taken.
    pub spent: u64,
}

/// Slots that hold one of these pages are nil from here on.
fn forget(slots: &mut BTreeMap<String, Value>, gone: &[FrameId]) {
    for slot in slots.values_mut() {
        if matches!(slot, Value::Page(Some(frame)) if gone.contains(frame)) {
            *slot = Value::Page(None);
        }
    }
}

/// A run of an event, and of the events that it calls.
struct Run<'a> {
    about: About,
    fuel: u64,
    look: Option<&'a mut dyn Look>,
}

impl Naive {
    /// The program of a text as [`Program::to_text`](bufpool_policies::program::Program::to_text) makes it:
    /// an instruction a line.
    pub fn new(text: &str, ghosts_max: usize, random: SplitMix64) -> Self {
        let mut naive = Self {
            events: BTreeMap::new(),
            slots: BTreeMap::new(),
            queues: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            ghosts_max,
            pages: BTreeMap::new(),
            random,
            now: 0,
            granted_frames: 0,
            wishes: VecDeque::new(),
            released: Vec::new(),
            spent: 0,
        };
        let mut event = String::new();
        for line in text.lines() {
            let words: Vec<String> = line
                .split([' ', ',', '(', ')', '{', '}', '='])
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect();
            let Some((first, rest)) = words.split_first() else { continue };
            match first.as_str() {
                "policy" => {}
                "queue" => naive.queues.extend(rest.iter().map(|name| (name.clone(), VecDeque::new()))),
                "ghost" => naive.ghosts.extend(rest.iter().map(|name| (name.clone(), VecDeque::new()))),
                "page" => naive.slots.extend(rest.iter().map(|name| (name.clone(), Value::Page(None)))),
                "int" | "const" => {
                    naive.slots.insert(rest[0].clone(), Value::Int(rest[1].parse().unwrap()));
                }
                "event" => {
                    event = rest[0].clone();
                    let parameter = rest.get(1).cloned();
                    naive.events.insert(event.clone(), Event { parameter, ..Event::default() });
                }
                label if label.ends_with(':') => {
                    let event = naive.events.get_mut(&event).unwrap();
                    event.labels.insert(label.trim_end_matches(':').to_owned(), event.instructions.len());
                }
                _ => naive.events.get_mut(&event).unwrap().instructions.push(words),
            }
        }
        naive
    }

    /// Brings in a page, which counts as an access.
    pub fn enter(&mut self, frame: FrameId, page: PageId) {
        self.now += 1;
        self.pages.insert(frame, Resident { page, meta: 0, is_referenced: false });
    }

    pub fn reference(&mut self, frame: FrameId) {
        self.now += 1;
        self.pages.get_mut(&frame).unwrap().is_referenced = true;
    }

    /// Removes the page in the frame.
    pub fn leave(&mut self, frame: FrameId) {
        self.unlink(frame);
        self.pages.remove(&frame);
        forget(&mut self.slots, &[frame]);
    }

    /// Runs an event, if the program has it. Returns the page that it gives.
    pub fn run(
        &mut self,
        event: &str,
        about: About,
        fuel: u64,
        look: Option<&mut dyn Look>,
    ) -> Result<Option<FrameId>, Incident> {
        self.spent = 0;
        self.released.clear();
        if !self.events.contains_key(event) {
            return Ok(None);
        }
        self.event(&mut Run { about, fuel, look }, event, about.parameter)
    }

    fn charge(&mut self, run: &Run<'_>, units: u64) -> Result<(), Incident> {
        if self.spent + units > run.fuel {
            return Err(Incident::OutOfFuel);
        }
        self.spent += units;
        Ok(())
    }

    fn event(
        &mut self,
        run: &mut Run<'_>,
        name: &str,
        parameter: Option<FrameId>,
    ) -> Result<Option<FrameId>, Incident> {
        let event = self.events[name].clone();
        let mut locals = BTreeMap::new();
        if let Some(name) = &event.parameter {
            locals.insert(name.clone(), Value::Page(parameter));
        }
        let mut at = 0;
        loop {
            if event.is_loop(at) {
                self.charge(run, 1)?;
            }
            let words: Vec<&str> = event.instructions[at].iter().map(String::as_str).collect();
            at += 1;
            match words[..] {
                ["call", callee] => {
                    self.charge(run, 1)?;
                    self.call(run, callee, None, &mut locals)?;
                    continue;
                }
                ["call", callee, page] => {
                    self.charge(run, 1)?;
                    let page = self.page(&locals, page);
                    self.call(run, callee, Some(page), &mut locals)?;
                    continue;
                }
                ["find", to, number] => {
                    self.charge(run, 4)?;
                    let found = self.find(run.about.page, self.int(&locals, number));
                    self.set(&mut locals, to, Value::Page(found));
                    continue;
                }
                _ => self.spent += 1,
            }
            match words[..] {
                ["ret"] => return Ok(None),
                ["ret", page] => return Ok(Some(self.page(&locals, page))),
                ["jmp", label] => at = event.labels[label],
                ["jz", tested, label] if self.int(&locals, tested) == 0 => at = event.labels[label],
                ["jnz", tested, label] if self.int(&locals, tested) != 0 => at = event.labels[label],
                ["jz" | "jnz", ..] => {}
                _ => self.straight(run, &mut locals, &words)?,
            }
        }
    }

    /// Runs an event of the program's own. The caller's slots forget pages that it releases.
    fn call(
        &mut self,
        run: &mut Run<'_>,
        callee: &str,
        parameter: Option<FrameId>,
        locals: &mut BTreeMap<String, Value>,
    ) -> Result<(), Incident> {
        let before = self.released.len();
        self.event(run, callee, parameter)?;
        forget(locals, &self.released[before..]);
        Ok(())
    }

    /// An instruction that is no jump, call or return.
    fn straight(
        &mut self,
        run: &mut Run<'_>,
        locals: &mut BTreeMap<String, Value>,
        words: &[&str],
    ) -> Result<(), Incident> {
        match *words {
            ["enqh", queue, page] => self.move_to(queue, self.page(locals, page), false),
            ["enqt", queue, page] => self.move_to(queue, self.page(locals, page), true),
            ["unlink", page] => self.unlink(self.page(locals, page)),
            ["setref", page, bit] => {
                let page = self.page(locals, page);
                self.pages.get_mut(&page).unwrap().is_referenced = bit == "1";
            }
            ["setmeta", page, value] => {
                let (page, value) = (self.page(locals, page), self.int(locals, value));
                self.pages.get_mut(&page).unwrap().meta = value;
            }
            ["flush", page] => {
                let frame = self.page(locals, page);
                self.wish(Wish::Flush { frame, page: self.pages[&frame].page });
            }
            ["setmod", page] => {
                let frame = self.page(locals, page);
                self.wish(Wish::SetModified { frame, page: self.pages[&frame].page });
            }
            ["release", page] => {
                let frame = self.page(locals, page);
                self.wish(Wish::Release { frame, page: self.pages[&frame].page });
                self.unlink(frame);
                self.released.push(frame);
                forget(&mut self.slots, &[frame]);
                forget(locals, &[frame]);
            }
            ["remember", list, page] => self.remember(list, self.pages[&self.page(locals, page)].page),
            ["trim", list, length] => {
                let length = self.int(locals, length).max(0) as usize;
                let ghosts = self.ghosts.get_mut(list).unwrap();
                let excess = ghosts.len().saturating_sub(length);
                ghosts.drain(..excess.min(64));
            }
            [op @ ("peekh" | "peekt" | "deqh" | "deqt"), to, queue] => {
                let queue = &self.queues[queue];
                let found = if op.ends_with('h') { queue.front() } else { queue.back() }.copied();
                if let Some(frame) = found.filter(|_| op.starts_with('d')) {
                    self.unlink(frame);
                }
                self.set(locals, to, Value::Page(found));
            }
            [op @ ("next" | "prev"), to, page] => {
                let found = self.beside(self.page(locals, page), op == "next");
                self.set(locals, to, Value::Page(found));
            }
            ["copy", to, page] => {
                let page = self.page(locals, page);
                self.set(locals, to, Value::Page(Some(page)));
            }
            [op, to, ref operands @ ..] => {
                let value = match self.told(run, locals, op, operands) {
                    Some(value) => value,
                    None => self.computed(locals, op, operands)?,
                };
                self.set(locals, to, Value::Int(value));
            }
            _ => unreachable!("{words:?}"),
        }
        Ok(())
    }

    /// The int of an instruction about pages, queues, ghosts or the event; `None` for other instructions.
    fn told(
        &mut self,
        run: &mut Run<'_>,
        locals: &BTreeMap<String, Value>,
        op: &str,
        operands: &[&str],
    ) -> Option<i64> {
        let number = |page: Option<PageId>| page.map_or(-1, |page| page.number() as i64);
        let id = |id: Option<u32>| id.map_or(-1, i64::from);
        let flag = |is_so: bool| i64::from(is_so);
        Some(match (op, operands) {
            ("empty", [queue]) => flag(self.queues[*queue].is_empty()),
            ("len", [queue]) => self.queues[*queue].len() as i64,
            ("inq", [page, queue]) => flag(self.queues[*queue].contains(&self.page(locals, page))),
            ("same", [page, other]) => flag(self.page(locals, page) == self.page(locals, other)),
            ("isnil", [page]) => flag(self.value(locals, page) == Value::Page(None)),
            ("pinned", [page]) => {
                let page = self.page(locals, page);
                flag(run.look.as_mut().is_some_and(|look| look.is_busy(page)))
            }
            ("mod", [page]) => {
                let page = self.page(locals, page);
                flag(run.look.as_mut().is_some_and(|look| look.is_modified(page)))
            }
            ("request", [frames]) => {
                let told_left = self.granted_frames.saturating_sub(self.pages.len() as u32);
                let left = run.look.as_ref().map_or(told_left, |look| look.frames_left());
                self.int(locals, frames).clamp(0, left.into())
            }
            ("ref", [page]) => flag(self.pages[&self.page(locals, page)].is_referenced),
            ("meta", [page]) => self.pages[&self.page(locals, page)].meta,
            ("block", [page]) => number(Some(self.pages[&self.page(locals, page)].page)),
            ("prio", [_]) => 0,
            ("arg", ["missing"]) => number(run.about.missing),
            ("arg", ["candidate"]) => number(run.about.candidate),
            ("arg", ["context"]) => id(run.about.context),
            ("arg", ["tenant"]) => id(run.about.tenant),
            ("now", []) => self.now as i64,
            ("rand", []) => (self.random.next_u64() >> 1) as i64,
            ("ghosts", [list]) => self.ghosts[*list].len() as i64,
            ("recall", [list, page]) => {
                let page = self.pages[&self.page(locals, page)].page;
                let ghosts = self.ghosts.get_mut(*list).unwrap();
                let known = ghosts.iter().position(|ghost| *ghost == page);
                flag(known.and_then(|at| ghosts.remove(at)).is_some())
            }
            _ => return None,
        })
    }

    /// The int of an instruction about ints.
    fn computed(
        &self,
        locals: &BTreeMap<String, Value>,
        op: &str,
        operands: &[&str],
    ) -> Result<i64, Incident> {
        if op == "ldc" {
            return Ok(operands[0].parse().unwrap());
        }
        let ints: Vec<i64> = operands.iter().map(|name| self.int(locals, name)).collect();
        Ok(match (op, &ints[..]) {
            ("not", [x]) => !x,
            ("div" | "rem", [_, 0]) => return Err(Incident::DivisionByZero),
            ("div", [x, y]) => x.wrapping_div(*y),
            ("rem", [x, y]) => x.wrapping_rem(*y),
            ("add", [x, y]) => x.wrapping_add(*y),
            ("sub", [x, y]) => x.wrapping_sub(*y),
            ("mul", [x, y]) => x.wrapping_mul(*y),
            ("min", [x, y]) => *x.min(y),
            ("max", [x, y]) => *x.max(y),
            ("and", [x, y]) => x & y,
            ("or", [x, y]) => x | y,
            ("xor", [x, y]) => x ^ y,
            ("shl", [x, y]) => x << y.rem_euclid(64),
            ("shr", [x, y]) => x >> y.rem_euclid(64),
            ("lt", [x, y]) => i64::from(x < y),
            ("le", [x, y]) => i64::from(x <= y),
            ("eq", [x, y]) => i64::from(x == y),
            ("ne", [x, y]) => i64::from(x != y),
            _ => unreachable!("{op} {operands:?}"),
        })
    }

    // ---- slots

    fn value(&self, locals: &BTreeMap<String, Value>, name: &str) -> Value {
        *locals.get(name).unwrap_or_else(|| &self.slots[name])
    }

    fn int(&self, locals: &BTreeMap<String, Value>, name: &str) -> i64 {
        let Value::Int(int) = self.value(locals, name) else { panic!("{name} is no int") };
        int
    }

    fn page(&self, locals: &BTreeMap<String, Value>, name: &str) -> FrameId {
        let Value::Page(Some(frame)) = self.value(locals, name) else { panic!("{name} is no page") };
        frame
    }

    fn set(&mut self, locals: &mut BTreeMap<String, Value>, name: &str, value: Value) {
        match self.slots.get_mut(name) {
            Some(slot) => *slot = value,
            None => drop(locals.insert(name.to_owned(), value)),
        }
    }

    // ---- queues, ghosts and wishes

    fn unlink(&mut self, frame: FrameId) {
        self.queues.values_mut().for_each(|queue| queue.retain(|other| *other != frame));
    }

    fn move_to(&mut self, queue: &str, frame: FrameId, to_tail: bool) {
        self.unlink(frame);
        let queue = self.queues.get_mut(queue).unwrap();
        if to_tail { queue.push_back(frame) } else { queue.push_front(frame) }
    }

    fn beside(&self, frame: FrameId, behind: bool) -> Option<FrameId> {
        self.queues.values().find_map(|queue| {
            let at = queue.iter().position(|other| *other == frame)?;
            if behind { queue.get(at + 1) } else { queue.get(at.checked_sub(1)?) }.copied()
        })
    }

    fn find(&self, beside: Option<PageId>, number: i64) -> Option<FrameId> {
        let file = beside?.file();
        let is_it = |page: PageId| page.file() == file && page.number() as i64 == number;
        self.pages.iter().find(|(_, resident)| is_it(resident.page)).map(|(frame, _)| *frame)
    }

    fn remember(&mut self, list: &str, page: PageId) {
        self.ghosts.values_mut().for_each(|ghosts| ghosts.retain(|ghost| *ghost != page));
        let ghosts = self.ghosts.get_mut(list).unwrap();
        if ghosts.len() == self.ghosts_max {
            ghosts.pop_front();
        }
        ghosts.push_back(page);
    }

    fn wish(&mut self, wish: Wish) {
        if self.wishes.len() < WISHES_MAX {
            self.wishes.push_back(wish);
        }
    }
}
