//! What the policy lock protects: the directory, the leases of free frames, and what statistics and
//! recordings need.
//!
//! The lock is held for a decision or a batch of hits, never across I/O, and no latch is waited for under it;
//! so a thread may take it while it holds latches.

use std::sync::Arc;
use std::time::Duration;

use bufpool_policies::{Access, ContextId, DEFAULT_TENANT, Directory, FileId, PageId, TenantId};

use crate::engine::recorder::{Event, Recorder};
use crate::files::open::OpenFiles;
use crate::files::shared::FileShared;
use crate::hits::contexts::{ContextSlot, Contexts};
use crate::hits::filter::HitFilter;
use crate::memory::lease::{FrameLease, FreeLeases};
use crate::policy::ahead::Ahead;
use crate::policy::noted_hits::NotedHits;
use crate::policy::pricing::Pricing;
use crate::policy::programs::Wished;
use crate::policy::recording::Recording;
use crate::policy::tenant_entry::{Managers, TenantEntry};
use crate::thread::site::SiteRef;
use crate::tier::link::TierLink;

/// What the policy lock protects.
pub(crate) struct PolicyState {
    pub directory: Directory,
    /// The lease of each frame that holds no page and is not on its way to one.
    pub free: FreeLeases,
    pub files: OpenFiles,
    /// Tenants by number, closed ones until their number is used again.
    pub tenants: Vec<TenantEntry>,
    pub(super) tenants_opened: u64,
    /// [`TenantEntry::hits_unlisted`] of tenants whose numbers have been reused.
    pub departed_unlisted: u64,
    pub managers: Managers,
    pub contexts: Contexts,
    /// 0 if sites are not told apart, otherwise all ones.
    site_mask: u64,
    pub hits: NotedHits,
    pub ahead: Ahead,
    /// What programs wish, in their order.
    pub(super) wishes: Vec<Wished>,
    /// The tier, if it is told how long pages live here.
    pub(super) promotes_from: Option<Arc<TierLink>>,
    /// None where frames have no prices.
    pub pricing: Option<Pricing>,
    recording: Option<Recording>,
}

/// What a [`PolicyState`] is made of, where it does not begin empty.
pub(crate) struct PolicyParts {
    pub directory: Directory,
    /// The leases of the directory's frames, none of which holds a page.
    pub free: Vec<FrameLease>,
    /// Frames of the reserve, beyond those.
    pub spares: u32,
    pub filter: HitFilter,
    pub managers: Managers,
    /// Whether contexts of one tenant differ by call site.
    pub tells_sites_apart: bool,
    pub ahead: Ahead,
    pub promotes_from: Option<Arc<TierLink>>,
    pub pricing: Option<Pricing>,
    pub recorder: Option<Box<dyn Recorder>>,
}

impl PolicyState {
    /// With the default tenant, which the pool's manager has.
    pub fn new(parts: PolicyParts) -> Self {
        let PolicyParts { directory, free, spares, filter, ahead, managers, promotes_from, pricing, .. } =
            parts;
        let frames = directory.frames();
        let mut policy = Self {
            directory,
            free: FreeLeases::new(frames + spares, free),
            files: OpenFiles::default(),
            tenants: Vec::new(),
            tenants_opened: 0,
            departed_unlisted: 0,
            managers,
            contexts: Contexts::new(),
            site_mask: if parts.tells_sites_apart { u64::MAX } else { 0 },
            hits: NotedHits::new(filter, frames),
            ahead,
            wishes: Vec::new(),
            promotes_from,
            pricing,
            recording: parts.recorder.map(Recording::new),
        };
        policy.add_tenant(DEFAULT_TENANT, TenantEntry::new("default".into()));
        policy.manage_as_default(DEFAULT_TENANT, false);
        policy
    }

    /// The file of a page, if it is open.
    pub fn file(&self, id: FileId) -> Option<&Arc<FileShared>> {
        self.files.get(id)
    }

    /// The tenant's context at a call site, as managers know it.
    pub fn context_of(&mut self, tenant: TenantId, site: SiteRef) -> ContextId {
        ContextId(self.context(tenant, site).id)
    }

    /// The tenant's context at a call site.
    #[inline]
    pub(super) fn context(&mut self, tenant: TenantId, site: SiteRef) -> ContextSlot {
        let found = self.contexts.find(tenant, site.masked(self.site_mask));
        if found.is_new
            && let Some(recording) = &mut self.recording
        {
            let (entry, site) = self.contexts.describe(tenant, found);
            recording.tell(Event::Site {
                id: found.id,
                scopes: &entry.scopes,
                class: entry.class().0,
                name: site.name,
                file: site.file,
                line: site.line,
            });
        }
        found
    }

    /// The page that a tenant waited for is there, or does not come.
    pub fn wait_ended(&mut self, tenant: TenantId) {
        if let Some(pricing) = &mut self.pricing {
            pricing.ended(&mut self.directory, tenant);
        }
    }

    /// A tenant made `accesses`, for which it took `busy`, waits left out.
    pub fn note_pace(&mut self, tenant: TenantId, accesses: u64, busy: Duration) {
        if let Some(pricing) = &mut self.pricing {
            pricing.accessed(&mut self.directory, tenant, accesses.min(u64::from(u32::MAX)) as u32, busy);
        }
    }

    /// A transfer ahead took that long, and its submission kept the processor that long.
    pub fn note_read_ahead(&mut self, took: Duration, submitting: Duration) {
        if let Some(pricing) = &mut self.pricing {
            pricing.read_ahead(&mut self.directory, took, submitting);
        }
    }

    /// Whether there is a recorder.
    pub fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    /// Tells the recorder, if there is one.
    pub fn record(&mut self, event: Event<'_>) {
        if let Some(recording) = &mut self.recording {
            recording.tell(event);
        }
    }

    pub(super) fn record_access(
        &mut self,
        page: PageId,
        context: ContextId,
        tenant: TenantId,
        creates: bool,
    ) {
        if let Some(recording) = &mut self.recording {
            recording.access(Event::Access { page, site: context.0, tenant: tenant.0, creation: creates });
        }
    }

    /// A guard or pin on `page` begins.
    pub fn hold(&mut self, page: PageId) {
        if let Some(recording) = &mut self.recording {
            recording.hold(page);
        }
    }

    /// A guard or pin on `page` ends.
    pub fn let_go(&mut self, page: PageId) {
        if let Some(recording) = &mut self.recording {
            recording.let_go(page);
        }
    }
}

/// An access, as the directory is told of it.
pub(super) fn access(page: PageId, tenant: TenantId, context: ContextId, creates: bool) -> Access {
    Access { page, file: page.file(), tenant, context, creates }
}
