//! Tenants as handles have them: who accesses pages, and in which pool.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use bufpool_policies::TenantId;

use crate::error::{Error, ErrorKind, Result};
use crate::handle::file::File;
use crate::handle::pool::PoolHandle;
use crate::hits::fast_path::PoolTag;
use crate::policy::mutex::PolicyGuard;
use crate::policy::state::PolicyState;
use crate::thread::keys::TenantTag;
use crate::thread::stack::StackContexts;

/// What the engine isolates: a table, a query, a thread or a customer. Cloning gives another handle.
///
/// Access functions are `#[track_caller]`: the caller's source line is the call site in statistics. A
/// wrapper repeats the attribute if its own callers are to be the call sites. Each granted guard is one
/// access.
///
/// A `try_` form returns `None` instead of waiting for a latch, for another thread's load or for a frame;
/// also if it is the calling thread that holds the latch. A `_timeout` form waits for them at most the time
/// given, instead of `latch_wait_ms` and `frame_wait_ms`. A miss waits for the device in all forms.
///
/// # Errors
///
/// All access functions: [`ErrorKind::PageBeyondEnd`], [`ErrorKind::FileClosed`],
/// [`ErrorKind::TenantClosed`], [`ErrorKind::PoolClosed`], [`ErrorKind::WrongPool`] for the arguments;
/// [`ErrorKind::ForkedChild`] in the child of a fork; [`ErrorKind::LatchTimeout`] after `latch_wait_ms`, or
/// [`ErrorKind::SelfDeadlock`] at once in debug builds and with the feature `deadlock-check`;
/// [`ErrorKind::PagePoisoned`] if a writer of the page has panicked; [`ErrorKind::Exhausted`] if every frame
/// the tenant may take is pinned; [`ErrorKind::FileLength`] if there is no room for the page's word in the
/// page table; [`ErrorKind::Io`], [`ErrorKind::UnexpectedEof`] if the page could not be read, or if no frame
/// is left but those of pages that could not be written; [`ErrorKind::Corrupt`] if it was read and is
/// damaged. `write` and `create` also [`ErrorKind::ReadOnly`] and [`ErrorKind::FilePoisoned`].
#[derive(Clone)]
pub struct Tenant {
    pub(crate) pool: PoolHandle,
    pub(crate) tag: TenantTag,
    pub(crate) shared: Arc<TenantShared>,
}

pub(crate) struct TenantShared {
    /// The pool's tag; [`PoolTag::CLOSED`] once the tenant is closed. So a hit checks tenant and pool by one
    /// word.
    pub open_in: AtomicPtr<u8>,
    pub name: Arc<str>,
    /// None if the calls above an access are not part of its context.
    pub stacks: Option<StackContexts>,
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tenant({}, {})", self.tenant_id().0, self.shared.name)
    }
}

impl Tenant {
    pub(crate) fn new(pool: PoolHandle, id: TenantId, name: Arc<str>, stacks: Option<StackContexts>) -> Self {
        let tag = TenantTag::new(pool.hot.serial, id);
        let open_in = AtomicPtr::new(pool.hot.tag.as_ptr());
        Self { pool, tag, shared: Arc::new(TenantShared { open_in, name, stacks }) }
    }

    /// The number of the tenant, as in statistics and traces. It may be given to another tenant once this
    /// one is closed and its pages are gone.
    pub fn id(&self) -> u32 {
        self.tenant_id().0
    }

    #[inline]
    pub(crate) fn tenant_id(&self) -> TenantId {
        self.tag.tenant
    }

    #[inline]
    pub(crate) fn tag(&self) -> &TenantTag {
        &self.tag
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.open_in() == PoolTag::CLOSED
    }

    /// The pool that the tenant is open in; [`PoolTag::CLOSED`] if it is closed. Relaxed: it is closed under
    /// the policy lock, under which all that depends on it [looks again](Self::lock_policy). An access that
    /// still finds it open is one from before.
    #[inline(always)]
    pub(crate) fn open_in(&self) -> PoolTag {
        PoolTag::from_ptr(self.shared.open_in.load(Ordering::Relaxed))
    }

    /// The name given at opening.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Locks the policy, and checks under the lock that the tenant is open, because the number of a closed
    /// tenant may be another's.
    pub(crate) fn lock_policy(&self, operation: &'static str) -> Result<PolicyGuard<'_, PolicyState>> {
        self.pool.owner.check(operation)?;
        let policy = self.pool.policy.lock();
        self.check_open(operation)?;
        Ok(policy)
    }

    pub(crate) fn check_open(&self, operation: &'static str) -> Result<()> {
        self.pool.check_open(operation)?;
        if self.is_closed() {
            let message = format!("tenant {} was closed", self.shared.name);
            return Err(Error::new(ErrorKind::TenantClosed, operation, message));
        }
        Ok(())
    }

    pub(crate) fn check_file(&self, file: &File, operation: &'static str) -> Result<()> {
        if self.pool.is_same(&file.pool) {
            return Ok(());
        }
        let message = format!("tenant {} belongs to another pool than the file", self.shared.name);
        Err(Error::new(ErrorKind::WrongPool, operation, message).in_file(file.name()))
    }
}
