//! Which manager each tenant of a trace has.

use std::path::Path;

use bufpool_policies::program::{NeedsPrivilege, Program, ProgramManager, ProgramOptions};
use bufpool_policies::{DEFAULT_TENANT, ManagerKind, SharedLearning, TenantId};

use super::TwoLevelRun;
use crate::simulate::program_file::read_program;
use crate::simulate::{Setup, SimError, TenantProgram};

impl TwoLevelRun<'_> {
    /// Gives each tenant a manager, which its first directive replaces. With [`ManagerKind::Auto`], tenants
    /// without a floor or cap are in the commons until they give a directive, as in a pool.
    ///
    /// # Errors
    ///
    /// None, because the tenants of a trace stay open.
    pub fn manage(&mut self, kind: ManagerKind, setup: &Setup) -> Result<(), SimError> {
        let (frames, tuning) = (self.directory.frames(), setup.tuning.unwrap_or_default());
        let shared = setup.shared_learning.then(SharedLearning::default);
        let build = |tenant, shared| kind.build_with(frames, setup.seed, tenant, &tuning, shared);
        let named = self.tenants.iter().copied().zip(self.trace.tenants().iter().map(|named| *named as u32));
        for (tenant, named) in named {
            let has_limits = setup.floors.contains_key(&named) || setup.caps.contains_key(&named);
            if kind == ManagerKind::Auto && setup.shared_account && !has_limits {
                self.directory.join_commons(tenant, || build(DEFAULT_TENANT, None))?;
            } else {
                self.directory.set_manager(tenant, build(TenantId(named), shared.as_ref()), true)?;
            }
        }
        Ok(())
    }

    /// Gives each tenant the program as its manager, which its first directive replaces.
    ///
    /// # Errors
    ///
    /// If the program is privileged.
    pub fn manage_by_program(&mut self, program: &Program) -> Result<(), SimError> {
        for at in 0..self.tenants.len() {
            let named = self.trace.tenants()[at] as u32;
            let manager = self.program_manager(program, named).map_err(SimError::Privileged)?;
            self.directory.set_manager(self.tenants[at], manager, true)?;
        }
        Ok(())
    }

    /// Gives the tenant that the trace calls `named` a program as its manager, if the trace has that tenant.
    /// Its directives are refused from then on.
    pub(super) fn manage_one_by_program(
        &mut self,
        named: u32,
        loaded: &TenantProgram,
    ) -> Result<(), SimError> {
        let Some(number) = self.trace.tenant_number(named) else { return Ok(()) };
        let tenant = self.tenants[number as usize];
        let manager = self.program_manager(&loaded.program, named).map_err(SimError::Privileged)?;
        self.directory.set_manager(tenant, manager, false)?;
        for (slot, value) in &loaded.sent {
            let refused = |why| SimError::NotSent { slot: slot.clone(), why };
            self.directory.send(tenant, slot, *value).map_err(refused)?;
        }
        Ok(())
    }

    /// A manager that runs the program for the tenant that the trace calls `named`.
    fn program_manager(&self, program: &Program, named: u32) -> Result<Box<ProgramManager>, NeedsPrivilege> {
        let options = ProgramOptions {
            pool_frames: self.directory.frames(),
            seed: self.seed,
            tenant: TenantId(named),
            fuel_steps: self.program_fuel,
        };
        ProgramManager::new(program, options).map(Box::new)
    }

    /// Makes the program in a file beside the trace the tenant's manager. Directives are refused from then
    /// on.
    pub(super) fn load_program(&mut self, named: u32, file: &str) -> Result<(), String> {
        let folder = self.trace.path().parent().unwrap_or(Path::new(""));
        let program = read_program(&folder.join(file))?;
        let manager = self.program_manager(&program, named).map_err(|why| format!("{file}: {why}"))?;
        self.directory.set_manager(self.tenant(named), manager, false).map_err(|why| why.to_string())
    }
}
