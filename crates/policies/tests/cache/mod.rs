//! A minimal cache: a directory, and the driver's map from page to frame.
#![allow(dead_code)]

use std::collections::HashMap;

use bufpool_policies::{
    Access, Admission, Allocation, Claims, ContextId, Directory, DirectoryOptions, FileId, FrameId,
    ManagerKind, PageId, TenantId,
};

/// No frame is busy, and each claim succeeds.
pub struct NothingBusy;

impl Claims for NothingBusy {
    fn is_busy(&mut self, _: FrameId) -> bool {
        false
    }

    fn claim(&mut self, _: FrameId) -> bool {
        true
    }
}

pub struct Cache {
    pub directory: Directory,
    pub frame_of: HashMap<PageId, FrameId>,
}

impl Cache {
    /// A cache under LRU-SP.
    pub fn new(frames: u32, revocation: bool) -> Self {
        let options =
            DirectoryOptions { frames, allocation: Allocation::LruSp, revocation, shared_pages: false };
        Self { directory: Directory::new(options).unwrap(), frame_of: HashMap::new() }
    }

    /// A cache without revocation, with a manager for the default tenant.
    pub fn managed(frames: u32, kind: ManagerKind) -> Self {
        let mut cache = Self::new(frames, false);
        cache.manage(TenantId(0), kind, 1);
        cache
    }

    pub fn manage(&mut self, tenant: TenantId, kind: ManagerKind, seed: u64) {
        let manager = kind.build(self.directory.frames(), seed, tenant);
        self.directory.set_manager(tenant, manager, true).unwrap();
    }

    /// Makes an access. Returns whether it is a hit.
    pub fn access(&mut self, tenant: TenantId, context: u32, file: u32, page: u64) -> bool {
        let (page, file, context) = (PageId(page), FileId(file), ContextId(context));
        self.make(&Access { page, file, tenant, context, creates: false })
    }

    /// Makes this access. Returns whether it is a hit.
    pub fn make(&mut self, access: &Access) -> bool {
        let page = access.page;
        if let Some(frame) = self.frame_of.get(&page) {
            self.directory.hit(*frame, access);
            return true;
        }
        let frame = match self.directory.admit(access, &mut NothingBusy) {
            Admission::Free { frame, .. } => frame,
            Admission::Evict { frame, page, .. } => {
                self.frame_of.remove(&page);
                frame
            }
            Admission::Exhausted { .. } => unreachable!("nothing is busy"),
        };
        self.directory.loaded(frame);
        self.frame_of.insert(page, frame);
        false
    }

    /// Makes accesses of the default tenant in this context. Returns how many miss.
    pub fn misses(&mut self, context: u32, pages: impl Iterator<Item = u64>) -> u64 {
        pages.map(|page| u64::from(!self.access(TenantId(0), context, 0, page))).sum()
    }
}
