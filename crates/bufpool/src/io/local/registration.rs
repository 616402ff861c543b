//! Places of files in the tables of files that are registered with rings.

use std::sync::Weak;

/// A file's place in the tables of files registered with rings.
///
/// Rings register a file when they first meet it, and compare the serial number each time. So a place that
/// is used again for another file is never mistaken for the old one.
pub(in crate::io) struct Registration {
    /// Index into the tables.
    pub(in crate::io) place: u32,
    /// Different for every file that a backend opens.
    pub(in crate::io) serial: u64,
    /// Told when the file is dropped.
    pub(in crate::io) registry: Weak<dyn Registry>,
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.release(self.place);
        }
    }
}

/// Who gives out places to registered files.
pub(in crate::io) trait Registry: Send + Sync {
    /// The file at `place` is gone: let go of it and use the place again.
    fn release(&self, place: u32);
}
