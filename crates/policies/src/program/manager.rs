//! A manager that runs a program.

use super::{
    Program,
    code::{SlotKind, Standard},
    run::{About, Cause, Machine},
};
use crate::{
    ids::{Access, FrameId, PageId, TenantId},
    list::NIL,
    manager::{Block, EventCalls, Incident, Look, Manager, ProgramStats, SendError, Unloaded, Wish},
    random::{SplitMix64, mix64},
};

/// Fuel of an event, where nothing else is said.
const FUEL: u64 = 4096;
/// Fuel of `replace` for each of the tenant's pages, if that is more.
const FUEL_PER_PAGE: u64 = 16;
/// Incidents within [`INCIDENT_CALLS`] calls for which a program is unloaded.
const INCIDENTS_MAX: usize = 8;
/// Calls among which incidents are counted.
const INCIDENT_CALLS: u64 = 1024;

/// For whom a program runs, and what it may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgramOptions {
    /// The frames of the pool, at least 1: how many ghosts a list may have.
    pub pool_frames: u32,
    /// The seed of `rand`; the same seed and tenant give the same numbers.
    pub seed: u64,
    /// Whose pages it manages.
    pub tenant: TenantId,
    /// Steps that an event may take. `None`: 4,096, and for `replace` 16 for each page of the tenant, if that
    /// is more.
    pub fuel_steps: Option<u32>,
}

/// A program that only a privileged tenant can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeedsPrivilege;

impl std::fmt::Display for NeedsPrivilege {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("expected a program without `privileged`, for a tenant that is not privileged")
    }
}

impl std::error::Error for NeedsPrivilege {}

/// The manager of a tenant that has a program.
///
/// An event that runs out of fuel, divides by zero, or answers a question with a page that cannot be taken is
/// an *incident*: what it did stands, the pool's candidate goes, and the incident is counted. With 8
/// incidents among 1,024 events the program is *unloaded*: the tenant's pages go in the ledger's order from
/// then on, as those of a tenant without a manager.
pub struct ProgramManager {
    program: Program,
    /// Whether the program answers by its event `fault` while the tenant is at its cap.
    is_privileged: bool,
    tenant: TenantId,
    fuel_steps: Option<u64>,
    /// What the program keeps; none once it is unloaded.
    machine: Option<Machine>,
    stats: ProgramStats,
    /// The calls of the last incidents, by the number of the incident modulo their number.
    incident_calls: [u64; INCIDENTS_MAX],
    incidents: usize,
    /// The event that answered the last question.
    asked: Standard,
}

impl ProgramManager {
    /// A manager for `program`, whose event `initial` has run.
    ///
    /// # Errors
    ///
    /// [`NeedsPrivilege`] if the program is privileged.
    pub fn new(program: &Program, options: ProgramOptions) -> Result<Self, NeedsPrivilege> {
        if program.is_privileged() { Err(NeedsPrivilege) } else { Ok(Self::privileged(program, options, 0)) }
    }

    /// As [`new`](Self::new), for a tenant that is privileged and has been granted `frames`: it may run any
    /// program.
    ///
    /// While the tenant is at its cap, a privileged program answers the question for a missing page by its
    /// event `fault`, about the candidate, with the number of the page as `arg d, missing`. Of a page that
    /// has come in `fault` is told as well; `arg d, missing` gives -1 then, and its answer means nothing.
    pub fn privileged(program: &Program, options: ProgramOptions, frames: u32) -> Self {
        let ProgramOptions { pool_frames, seed, tenant, fuel_steps } = options;
        let random = SplitMix64::new(mix64(seed ^ u64::from(tenant.0) << 32));
        let mut machine = Machine::new(program.code(), program.locals_max(), pool_frames.max(1), random);
        machine.granted_frames = frames;
        let mut manager = Self {
            program: program.clone(),
            is_privileged: program.is_privileged(),
            tenant,
            fuel_steps: fuel_steps.map(u64::from),
            machine: Some(machine),
            stats: ProgramStats::default(),
            incident_calls: [0; INCIDENTS_MAX],
            incidents: 0,
            asked: Standard::Replace,
        };
        manager.run(Standard::Initial, NIL, Cause::Untold, None);
        manager
    }

    /// What the program did.
    pub fn stats(&self) -> ProgramStats {
        self.stats
    }

    /// Runs an event, if the program has it and is loaded. The page that it gave, [`NIL`] if none.
    #[inline]
    fn run(&mut self, event: Standard, parameter: u32, cause: Cause<'_>, look: Option<&mut dyn Look>) -> u32 {
        let Some(machine) = &mut self.machine else { return NIL };
        let Some(number) = self.program.standard(event) else { return NIL };
        let pages = if look.is_some() { machine.pages.resident() } else { 0 };
        let fuel = self.fuel_steps.unwrap_or(FUEL.max(FUEL_PER_PAGE * u64::from(pages)));
        let about = About { parameter, cause };
        let ended = machine.run(self.program.steps(), number, about, fuel, look);
        self.stats.calls += 1;
        *calls_of(&mut self.stats.calls_of, event) += 1;
        self.stats.steps += ended.steps;
        match ended.answer {
            Ok(page) => page,
            Err(incident) => {
                self.note(incident, event);
                NIL
            }
        }
    }

    /// Counts an incident, and unloads the program if there were too many lately.
    #[cold]
    fn note(&mut self, incident: Incident, event: Standard) {
        match incident {
            Incident::OutOfFuel => self.stats.out_of_fuel += 1,
            Incident::DivisionByZero => self.stats.faults += 1,
            Incident::InvalidAnswer => self.stats.invalid_answers += 1,
        }
        self.incident_calls[self.incidents % INCIDENTS_MAX] = self.stats.calls;
        self.incidents += 1;
        let oldest = self.incident_calls[self.incidents % INCIDENTS_MAX];
        if self.incidents >= INCIDENTS_MAX && self.stats.calls - oldest < INCIDENT_CALLS {
            self.machine = None;
            self.stats.unloaded = Some(Unloaded { incident, event: event.name() });
        }
    }

    #[inline]
    fn knows(&self, frame: FrameId) -> bool {
        self.machine.as_ref().is_some_and(|machine| machine.pages.has(frame))
    }
}

#[inline]
fn calls_of(calls: &mut EventCalls, event: Standard) -> &mut u64 {
    match event {
        Standard::Initial => &mut calls.initial,
        Standard::Fault => &mut calls.fault,
        Standard::Replace => &mut calls.replace,
        Standard::Access => &mut calls.access,
        Standard::Gone => &mut calls.gone,
        Standard::Mistake => &mut calls.mistake,
    }
}

impl Manager for ProgramManager {
    fn new_block(&mut self, block: &Block) {
        let Some(machine) = &mut self.machine else { return };
        machine.pages.enter(block.frame, block.page);
        machine.now += 1;
        let cause = Cause::Load(block.context, self.tenant);
        self.run(Standard::Fault, block.frame.0, cause, None);
    }

    fn block_gone(&mut self, frame: FrameId, _page: PageId) {
        if !self.knows(frame) {
            return;
        }
        self.run(Standard::Gone, frame.0, Cause::Untold, None);
        if let Some(machine) = &mut self.machine {
            machine.gone(frame);
        }
    }

    fn block_accessed(&mut self, frame: FrameId, access: &Access) {
        let Some(machine) = &mut self.machine else { return };
        if !machine.pages.has(frame) {
            return;
        }
        machine.pages.set_referenced(frame.0, true);
        machine.now += 1;
        self.run(Standard::Access, frame.0, Cause::Hit(access), None);
    }

    fn replace_block(
        &mut self,
        candidate: FrameId,
        missing: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        self.choose(candidate, missing, &mut BusyOnly(busy))
    }

    fn choose(&mut self, candidate: FrameId, missing: Option<&Access>, look: &mut dyn Look) -> FrameId {
        if !self.knows(candidate) {
            return candidate;
        }
        let is_fault = self.is_privileged && missing.is_some() && look.frames_left() == 0;
        self.asked = if is_fault { Standard::Fault } else { Standard::Replace };
        match self.run(self.asked, candidate.0, Cause::Question(missing), Some(look)) {
            NIL => candidate,
            frame => FrameId(frame),
        }
    }

    fn answer_refused(&mut self) {
        self.note(Incident::InvalidAnswer, self.asked);
    }

    fn placeholder_used(&mut self, missing: &Access, placeholder: FrameId) {
        if !self.knows(placeholder) {
            return;
        }
        self.run(Standard::Mistake, placeholder.0, Cause::Mistake(missing), None);
    }

    /// Only an event `access` looks at hits one by one.
    fn needs_every_hit(&self, _page: PageId) -> bool {
        self.machine.is_some() && self.program.standard(Standard::Access).is_some()
    }

    fn take_wish(&mut self) -> Option<Wish> {
        self.machine.as_mut()?.take_wish()
    }

    fn send(&mut self, slot: &str, value: i64) -> Result<(), SendError> {
        let mut slots = self.program.code().slots.iter();
        let is_sent = |kind: SlotKind| matches!(kind, SlotKind::Int(_));
        let number = slots.position(|own| own.name == slot && is_sent(own.kind));
        let number = number.ok_or(SendError::UnknownSlot)?;
        if let Some(machine) = &mut self.machine {
            machine.send(number, value);
        }
        Ok(())
    }

    fn program_stats(&self) -> Option<ProgramStats> {
        Some(self.stats)
    }

    fn metadata_bytes(&self) -> usize {
        size_of::<Self>() + self.machine.as_ref().map_or(0, Machine::memory_bytes)
    }

    fn check_invariants(&self) {
        if let Some(machine) = &self.machine {
            machine.check_invariants();
        }
    }
}

/// What may be looked at where only busy frames are known.
struct BusyOnly<'a>(&'a mut dyn FnMut(FrameId) -> bool);

impl Look for BusyOnly<'_> {
    fn is_busy(&mut self, frame: FrameId) -> bool {
        (self.0)(frame)
    }

    fn is_modified(&mut self, _frame: FrameId) -> bool {
        false
    }

    fn frames_left(&self) -> u32 {
        0
    }
}
