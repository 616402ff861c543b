//! Who manages a tenant, from its opening to its closing.

use bufpool_policies::program::{NeedsPrivilege, Program, ProgramOptions};
use bufpool_policies::{DEFAULT_TENANT, Directory, DirectoryError, Manager, ManagerKind, TenantId, Tuning};

use crate::engine::recorder::Event;
use crate::policy::programs::LiveProgram;
use crate::policy::state::PolicyState;
use crate::policy::tenant_entry::{ManagedBy, TenantEntry};

impl PolicyState {
    /// A tenant was opened; its number may have been another's.
    pub fn add_tenant(&mut self, id: TenantId, mut entry: TenantEntry) {
        self.contexts.open_tenant(id);
        self.tenants_opened += 1;
        entry.serial = self.tenants_opened;
        if id.index() < self.tenants.len() {
            if let Some(planner) = &mut self.ahead.planner {
                planner.reused(id);
            }
            let before = std::mem::replace(&mut self.tenants[id.index()], entry);
            self.departed_unlisted += before.hits_unlisted;
        } else {
            self.tenants.push(entry);
        }
    }

    /// A tenant wants what the pool has for those that say nothing: under `auto` that is a place in the
    /// commons, unless it has a floor or a cap.
    pub fn manage_as_default(&mut self, id: TenantId, has_limits: bool) {
        match self.managers.default {
            Some(kind @ ManagerKind::Auto) if !has_limits => {
                let (frames, seed) = (self.directory.frames(), self.managers.seed);
                let joined = self.directory.join_commons(id, || kind.build(frames, seed, DEFAULT_TENANT));
                joined.expect("the tenant is new");
            }
            Some(kind) => self.manage(id, kind),
            None => {}
        }
    }

    /// Changes an open tenant's floor or cap. One that thereby leaves the commons gets a manager like the one
    /// it had there.
    pub fn set_limit(
        &mut self,
        id: TenantId,
        set: impl FnOnce(&mut Directory) -> Result<(), DirectoryError>,
    ) -> Result<(), DirectoryError> {
        let was_common = self.directory.is_in_commons(id);
        set(&mut self.directory)?;
        if was_common && !self.directory.is_in_commons(id) {
            self.manage_as_default(id, true);
        }
        Ok(())
    }

    /// Gives an open tenant a manager of its own, which its first directive replaces.
    pub fn manage(&mut self, id: TenantId, kind: ManagerKind) {
        let (frames, tuning) = (self.directory.frames(), Tuning::default());
        let shared = Some(&self.managers.shared_learning).filter(|_| !self.tenants[id.index()].learns_alone);
        let manager = kind.build_with(frames, self.managers.seed, id, &tuning, shared);
        self.directory.set_manager(id, manager, true).expect("the tenant is open");
        self.tenants[id.index()].manager = ManagedBy::Kind(kind);
    }

    /// Gives an open tenant a manager of the engine's own, which refuses directives.
    pub fn manage_by(&mut self, id: TenantId, manager: Box<dyn Manager>) {
        self.directory.set_manager(id, manager, false).expect("the tenant is open");
        self.tenants[id.index()].manager = ManagedBy::Custom;
    }

    /// Gives an open tenant a program as its manager, which refuses directives.
    ///
    /// # Errors
    ///
    /// [`NeedsPrivilege`], and nothing has changed.
    pub fn manage_by_program(&mut self, id: TenantId, program: &Program) -> Result<(), NeedsPrivilege> {
        let entry = &mut self.tenants[id.index()];
        if program.is_privileged() && !entry.is_privileged {
            return Err(NeedsPrivilege);
        }
        let options = ProgramOptions {
            pool_frames: self.directory.frames(),
            seed: self.managers.seed,
            tenant: id,
            fuel_steps: self.managers.program_fuel_steps,
        };
        let granted_frames = if entry.is_privileged { self.directory.cap_frames(id) } else { 0 };
        entry.manager = ManagedBy::Program(program.clone());
        let manager = Box::new(LiveProgram::new(program, options, granted_frames));
        self.directory.set_manager(id, manager, false).expect("the tenant is open");
        if self.is_recording() {
            self.record(Event::Program { tenant: id.0, name: program.name(), text: &program.to_text() });
        }
        Ok(())
    }

    /// An open tenant's pages go in the ledger's order from now on, if it has a program.
    pub fn clear_program(&mut self, id: TenantId) {
        let entry = &mut self.tenants[id.index()];
        if entry.program().is_some() {
            entry.manager = ManagedBy::Nobody;
            self.directory.clear_manager(id).expect("the tenant is open");
            self.record(Event::ProgramEnd { tenant: id.0 });
        }
    }

    /// Closes an open tenant and its lists of disclosed reads.
    pub fn close_tenant(&mut self, id: TenantId) -> Result<(), DirectoryError> {
        if id != DEFAULT_TENANT {
            self.close_all_hints(id);
        }
        let was_managed = self.directory.is_managed(id) && !self.directory.is_in_commons(id);
        self.directory.close_tenant(id)?;
        self.directory.forget_rate(id);
        // The tenant's number may soon be another's.
        self.ahead.wanted.retain(|(tenant, ..)| *tenant != id);
        let entry = &mut self.tenants[id.index()];
        entry.closed = true;
        let had_program = entry.program().is_some();
        entry.manager = ManagedBy::Nobody;
        if had_program || was_managed {
            self.record(Event::ProgramEnd { tenant: id.0 });
        }
        Ok(())
    }

    /// What manages a tenant now, for reports.
    pub fn manager_name(&self, id: TenantId) -> &'static str {
        match (self.directory.is_managed(id), self.directory.has_directives(id)) {
            (false, _) => "none",
            (true, true) => "directives",
            (true, false) if self.directory.is_in_commons(id) => ManagerKind::Auto.name(),
            (true, false) => self.tenants[id.index()].manager.name(),
        }
    }
}
