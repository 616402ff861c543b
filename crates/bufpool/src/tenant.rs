//! Tenants: who accesses pages, on what terms.

use std::ops::Range;
use std::time::Duration;

use crate::error::Result;
use crate::file::{File, Page};
use crate::guard::{Pin, ReadGuard, WriteGuard};
use crate::{Policy, Site};

/// Whatever the engine isolates: a table, a query, a thread, a customer. Cloning gives another handle.
#[derive(Clone)]
pub struct Tenant {}

/// A tenant about to be opened.
pub struct TenantOptions {}

/// A tenant at a call site named by the engine.
pub struct At<'t> {
    tenant: &'t Tenant,
    site: &'static Site,
}

impl TenantOptions {
    /// Frames that no other tenant can take from it. Default 0.
    pub fn floor_frames(self, _frames: u32) -> Self {
        self
    }

    /// The most frames it may own. Default: all.
    pub fn cap_frames(self, _frames: u32) -> Self {
        self
    }

    /// Opens the tenant.
    pub fn open(self) -> Result<Tenant> {
        unreachable!()
    }
}

/// The access functions, once for [`Tenant`] and once for [`At`].
macro_rules! access_functions {
    ($life:lifetime) => {
        /// Shared access to `page`.
        #[track_caller]
        pub fn read<'g>(&'g self, _page: Page<'g>) -> Result<ReadGuard<'g>> {
            unreachable!()
        }
        /// Exclusive access to `page`.
        #[track_caller]
        pub fn write<'g>(&'g self, _page: Page<'g>) -> Result<WriteGuard<'g>> {
            unreachable!()
        }
        /// Exclusive access to `page`, filled with zeros, without reading it.
        #[track_caller]
        pub fn create<'g>(&'g self, _page: Page<'g>) -> Result<WriteGuard<'g>> {
            unreachable!()
        }
        /// As `read`, but `None` instead of waiting for another's latch or load.
        #[track_caller]
        pub fn try_read<'g>(&'g self, _page: Page<'g>) -> Result<Option<ReadGuard<'g>>> {
            unreachable!()
        }
        /// As `write`, but `None` instead of waiting for another's latch or load.
        #[track_caller]
        pub fn try_write<'g>(&'g self, _page: Page<'g>) -> Result<Option<WriteGuard<'g>>> {
            unreachable!()
        }
        /// As `create`, but `None` instead of waiting for another's latch or load.
        #[track_caller]
        pub fn try_create<'g>(&'g self, _page: Page<'g>) -> Result<Option<WriteGuard<'g>>> {
            unreachable!()
        }
        /// As `read`, but `None` after waiting for `limit`.
        #[track_caller]
        pub fn read_timeout<'g>(
            &'g self,
            _page: Page<'g>,
            _limit: Duration,
        ) -> Result<Option<ReadGuard<'g>>> {
            unreachable!()
        }
        /// As `write`, but `None` after waiting for `limit`.
        #[track_caller]
        pub fn write_timeout<'g>(
            &'g self,
            _page: Page<'g>,
            _limit: Duration,
        ) -> Result<Option<WriteGuard<'g>>> {
            unreachable!()
        }
        /// As `create`, but `None` after waiting for `limit`.
        #[track_caller]
        pub fn create_timeout<'g>(
            &'g self,
            _page: Page<'g>,
            _limit: Duration,
        ) -> Result<Option<WriteGuard<'g>>> {
            unreachable!()
        }
        /// Brings `page` in and keeps it there, without a latch.
        #[track_caller]
        pub fn pin<'g>(&'g self, _page: Page<'g>) -> Result<Pin<'g>> {
            unreachable!()
        }
    };
}

impl Tenant {
    access_functions!('t);

    /// This tenant at a call site named by the engine: `tenant.at(site!("inner scan")).read(page)`.
    pub fn at(&self, site: &'static Site) -> At<'_> {
        At { tenant: self, site }
    }

    /// The number of the tenant, as in statistics and traces.
    pub fn id(&self) -> u32 {
        unreachable!()
    }

    /// The name given at opening.
    pub fn name(&self) -> &str {
        unreachable!()
    }

    /// Sets the policy of one priority level.
    pub fn set_policy(&self, _priority: i32, _policy: Policy) -> Result<()> {
        unreachable!()
    }

    /// The policy of one priority level.
    pub fn policy(&self, _priority: i32) -> Result<Policy> {
        unreachable!()
    }

    /// Sets the long-term priority of a file's pages; returns how many resident pages changed level.
    pub fn set_priority(&self, _file: &File, _priority: i32) -> Result<usize> {
        unreachable!()
    }

    /// The long-term priority of a file's pages.
    pub fn priority(&self, _file: &File) -> Result<i32> {
        unreachable!()
    }

    /// Sets the priority of those pages of a range that are resident now, until their next reference; returns how many.
    pub fn set_temporary_priority(&self, _file: &File, _pages: Range<u64>, _priority: i32) -> Result<usize> {
        unreachable!()
    }

    /// Changes the floor.
    pub fn set_floor_frames(&self, _frames: u32) -> Result<()> {
        unreachable!()
    }

    /// Changes the cap; what the tenant has above it is evicted at once.
    pub fn set_cap_frames(&self, _frames: u32) -> Result<()> {
        unreachable!()
    }

    /// Closes the tenant; its pages stay, as nobody's in particular.
    pub fn close(self) -> Result<()> {
        unreachable!()
    }
}

impl<'t> At<'t> {
    access_functions!('t);

    /// The tenant.
    pub fn tenant(&self) -> &'t Tenant {
        self.tenant
    }

    /// The site.
    pub fn site(&self) -> &'static Site {
        self.site
    }
}
