//! Options of tenants that are about to be opened.

use std::sync::Arc;

use bufpool_policies::hints::HintPolicy;
use bufpool_policies::program::{NeedsPrivilege, Program};
use bufpool_policies::{Manager, ManagerKind};

use crate::api::tenant::{privilege_error, tenant_error};
use crate::error::{Error, ErrorKind, Result};
use crate::handle::pool::PoolHandle;
use crate::handle::tenant::Tenant;
use crate::policy::engine_code::EngineCode;
use crate::policy::tenant_entry::TenantEntry;
use crate::thread::stack::{self, NoStacks, StackContexts};

/// A tenant about to be opened; see [`Pool::tenant`](crate::Pool::tenant).
///
/// A tenant that is opened without a floor, a cap or a manager joins the *commons* of a pool whose manager is
/// [`ManagerKind::Auto`]. The commons has one manager, which learns from all its members; the default tenant
/// is one of them. To other tenants the commons is one tenant with all its members' pages. Members are not
/// protected from each other; each keeps its own pages and counts. A tenant leaves the commons for good, with
/// its pages, when it gives its first directive or is given another floor or cap.
#[must_use = "a tenant exists once it is opened"]
pub struct TenantOptions {
    pool: PoolHandle,
    name: String,
    floor_frames: u32,
    cap_frames: Option<u32>,
    privileged_frames: Option<u32>,
    management: Management,
    hint_policy: HintPolicy,
    stack_depth: u8,
    learns_alone: bool,
}

/// What manages a tenant until it gives a directive.
enum Management {
    /// What the pool's options say.
    Default,
    Kind(Option<ManagerKind>),
    Custom(Box<dyn Manager>),
    Program(Program),
}

impl TenantOptions {
    pub(crate) fn new(pool: PoolHandle, name: String) -> Self {
        Self {
            pool,
            name,
            floor_frames: 0,
            cap_frames: None,
            privileged_frames: None,
            management: Management::Default,
            hint_policy: HintPolicy::default(),
            stack_depth: 0,
            learns_alone: false,
        }
    }

    /// Frames that no other tenant can take from it. Default 0. A floor above 0 keeps it out of the commons.
    pub fn floor_frames(mut self, frames: u32) -> Self {
        self.floor_frames = frames;
        self
    }

    /// The most frames it may own, at least 1 and at least its floor. Default: all. Any cap that is set keeps
    /// it out of the commons.
    pub fn cap_frames(mut self, frames: u32) -> Self {
        self.cap_frames = Some(frames);
        self
    }

    /// Has the tenant managed by this kind of manager, of its own, until its first directive; with `None`
    /// its pages go in LRU order. Default: what [`PoolOptions::manager`](crate::PoolOptions::manager) says;
    /// if that is `Auto`, the manager of the commons.
    pub fn manager(mut self, manager: Option<ManagerKind>) -> Self {
        self.management = Management::Kind(manager);
        self
    }

    /// Makes the tenant *privileged*: its floor and its cap are this many frames, at least 1, for as long as
    /// it is open, in place of [`floor_frames`](Self::floor_frames) and [`cap_frames`](Self::cap_frames). No
    /// other tenant ever takes one of them, whatever the tenant's manager did, and its manager is never
    /// revoked. It may run a [`Program`] that says `privileged`.
    pub fn privileged(mut self, frames: u32) -> Self {
        self.privileged_frames = Some(frames);
        self
    }

    /// Has a policy program decide which of the tenant's pages goes. Directives of the tenant are refused.
    /// See [`docs::programs`](crate::docs::programs).
    pub fn program(mut self, program: &Program) -> Self {
        self.management = Management::Program(program.clone());
        self
    }

    /// What is done with the reads that the tenant [discloses](Tenant::hint). Default [`HintPolicy::Auto`].
    pub fn hints(mut self, how: HintPolicy) -> Self {
        self.hint_policy = how;
        self
    }

    /// Makes the calls above an access part of its context, as scopes are: a hash of up to `depth` return
    /// addresses, 0 to 8, of the function that contains the call of the pool, its caller, and so on. Default
    /// 0: none. For engines all of whose accesses come through one function, and that cannot name [call
    /// sites](Tenant::at) or [scopes](crate::context) themselves.
    ///
    /// The stack is walked on misses, and on noted hits of sampled pages: all pages in pools of up to 8,192
    /// frames, one page in eight in larger ones. Other hits leave a page in the stream that it has. A walk
    /// costs some ten nanoseconds; a call that makes a future, or reads many pages, always takes one. Code
    /// that runs on the stack of a coroutine has no such context.
    ///
    /// The walk follows the chain of frame pointers, so the pool and the engine must be compiled with them:
    /// Rust by `-C force-frame-pointers=yes` in `RUSTFLAGS`, C by `-fno-omit-frame-pointer`. Functions
    /// without frame pointers, as those of the standard library may be, are passed over, or end the chain;
    /// the walk never leaves the thread's own stack. Addresses differ between runs of a program, and so do
    /// the numbers by which reports name the contexts.
    pub fn stack_contexts(mut self, depth: u8) -> Self {
        self.stack_depth = depth;
        self
    }

    /// Whether an automatic manager of the tenant's own learns from its accesses alone. Default false: a
    /// tenant with less than 32 pages, if these are a small part of the pool, learns together with all such
    /// tenants when the pages of a context and file are used again. So it knows something about code that
    /// other tenants have run. Only what is learned is shared: the tenant gives up no pages but its own, and
    /// costs others no frame. If others use such pages differently, what they have taught may cost the
    /// tenant hits. Tenants in the commons have one manager anyway.
    pub fn learns_alone(mut self, on: bool) -> Self {
        self.learns_alone = on;
        self
    }

    /// A manager of the engine's own; see [`manager`](crate::manager). Directives of the tenant are refused.
    /// The manager must not call the pool: a call that would take one of its locks fails with
    /// [`ErrorKind::SelfDeadlock`]. Statistics and reports have no counts there, and
    /// [`min_dirty_lsn`](crate::Pool::min_dirty_lsn) is none.
    pub fn custom_manager(mut self, manager: Box<dyn Manager>) -> Self {
        self.management = Management::Custom(manager);
        self
    }

    /// Opens the tenant.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Floor`] if all floors together leave less than `2 * threads_max + 8` frames, the cap is
    /// below the floor, or the tenant is privileged with 0 frames; [`ErrorKind::Privilege`] for a privileged
    /// program if the tenant is not privileged; [`ErrorKind::InvalidOptions`] for [stack
    /// contexts](Self::stack_contexts) of more than 8 addresses; [`ErrorKind::Unsupported`] for stack
    /// contexts of any depth above 0 if this crate was compiled without frame pointers, or not for Linux on
    /// x86-64 or AArch64;
    /// [`ErrorKind::PoolClosed`].
    pub fn open(self) -> Result<Tenant> {
        const OPERATION: &str = "open tenant";
        self.pool.check_open(OPERATION)?;
        let is_privileged = self.privileged_frames.is_some();
        if let Management::Program(program) = &self.management
            && program.is_privileged()
            && !is_privileged
        {
            return Err(privilege_error(OPERATION, &self.name, program, NeedsPrivilege));
        }
        let stacks = self.stacks(OPERATION)?;
        let floor_frames = self.privileged_frames.unwrap_or(self.floor_frames);
        let cap_frames = self.privileged_frames.or(self.cap_frames);
        let has_limits = floor_frames > 0 || cap_frames.is_some();
        let mut policy = self.pool.policy.lock();
        let frames = policy.directory.frames();
        let cap_frames = cap_frames.map_or(frames, |cap| cap.min(frames));
        self.pool.check_floors(&policy, 0, floor_frames, OPERATION)?;
        let opened = if is_privileged {
            policy.directory.open_privileged(floor_frames)
        } else {
            policy.directory.open_tenant(floor_frames, cap_frames)
        };
        let id = opened.map_err(|error| tenant_error(OPERATION, &self.name, error))?;
        let name: Arc<str> = self.name.into();
        let mut entry = TenantEntry::new(Arc::clone(&name));
        entry.hint_policy = self.hint_policy;
        entry.is_privileged = is_privileged;
        entry.stacks = stacks;
        entry.learns_alone = self.learns_alone;
        policy.add_tenant(id, entry);
        match self.management {
            Management::Default => policy.manage_as_default(id, has_limits),
            Management::Kind(Some(kind)) => policy.manage(id, kind),
            Management::Kind(None) => {}
            Management::Custom(manager) => {
                let manager = Box::new(EngineCode::new(self.pool.owner.clone(), manager));
                policy.manage_by(id, manager);
            }
            Management::Program(program) => {
                policy.manage_by_program(id, &program).expect("checked above");
            }
        }
        drop(policy);
        Ok(Tenant::new(self.pool, id, name, stacks))
    }

    /// Which part of the stack is to be looked at; an error if that is impossible here.
    fn stacks(&self, operation: &'static str) -> Result<Option<StackContexts>> {
        let refuse = |kind, message| Err(Error::new(kind, operation, message));
        if self.stack_depth > stack::DEPTH_MAX {
            let message = format!(
                "stack_contexts = {} for tenant {}, expected at most {}",
                self.stack_depth,
                self.name,
                stack::DEPTH_MAX
            );
            return refuse(ErrorKind::InvalidOptions, message);
        }
        if self.stack_depth == 0 {
            return Ok(None);
        }
        let expected = match stack::check() {
            Ok(()) => {
                let frames = self.pool.policy.lock().directory.frames();
                return Ok(Some(StackContexts::new(self.stack_depth, frames)));
            }
            Err(NoStacks::Platform) => "Linux on x86-64 or AArch64",
            Err(NoStacks::NoFramePointers) => {
                "bufpool compiled with frame pointers, RUSTFLAGS=\"-C force-frame-pointers=yes\""
            }
        };
        refuse(
            ErrorKind::Unsupported,
            format!("stack_contexts = {} for tenant {}, expected {expected}", self.stack_depth, self.name),
        )
    }
}
