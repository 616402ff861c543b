//! A page is read into a frame, and the hooks verify it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bufpool_policies::{TenantId, contained};

use crate::engine::PageName;
use crate::error::{Error, ErrorKind, Result};
use crate::files::shared::FileShared;
use crate::io::IoError;
use crate::memory::frame::Below;
use crate::memory::lease::FrameLease;
use crate::state::shared::PoolShared;
use crate::tier::Version;
use crate::tier::link::{Taken, TierLink};

/// Which reading of a page it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attempt {
    /// Together with neighbours, in one transfer. If that fails, each page is read by itself to find out
    /// which cannot be read.
    Together,
    /// By itself.
    First,
    /// By itself, after the hooks have rejected it once. Reading again tells a transfer that went wrong from
    /// contents that are wrong on the device.
    Second,
}

/// Why a page does not come in.
#[derive(PartialEq, Eq, Debug)]
enum Cause {
    Io(IoError),
    Rejected(String),
}

impl Attempt {
    /// None if the page is good, or how it is to be read again.
    fn judge(
        self,
        result: std::result::Result<(), IoError>,
        verify: impl FnOnce() -> std::result::Result<(), String>,
    ) -> std::result::Result<Option<Self>, Cause> {
        match (result, self) {
            (Err(_), Self::Together) => Ok(Some(Self::First)),
            (Err(error), _) => Err(Cause::Io(error)),
            (Ok(()), _) => match (verify(), self) {
                (Ok(()), _) => Ok(None),
                (Err(message), Self::Second) => Err(Cause::Rejected(message)),
                (Err(_), _) => Ok(Some(Self::Second)),
            },
        }
    }
}

/// What became of a page that was read.
pub(crate) enum Verdict {
    Good,
    /// It is to be read once more, by itself.
    Again(Attempt),
    Failed(Error),
}

/// Reads pages and lets hooks verify them.
#[derive(Clone, Copy)]
pub(crate) struct PageRead<'p> {
    pub pool: &'p PoolShared,
}

impl<'p> PageRead<'p> {
    /// Of this pool.
    #[inline(always)]
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
    }

    /// Reads a page into a frame for `tenant` and lets the hooks verify it, as often as it takes to know.
    pub(crate) fn read(
        self,
        file: &FileShared,
        number: u64,
        lease: &mut FrameLease,
        tenant: TenantId,
        mut attempt: Attempt,
        operation: &'static str,
    ) -> Result<()> {
        let io = file.io(operation).map_err(|error| error.at_page(number))?;
        if attempt == Attempt::First && self.take_from_tier(file, number, lease) {
            return Ok(());
        }
        loop {
            let begun = Instant::now();
            let result = self.pool.arena.read(&*self.pool.backend, &io, number, lease, tenant);
            self.transferred(file, number, 1, begun, result.is_ok());
            match self.judge(file, number, lease, result, attempt, operation) {
                Verdict::Good => {
                    self.offer(file, number, lease);
                    return Ok(());
                }
                Verdict::Again(next) => attempt = next,
                Verdict::Failed(error) => return Err(error),
            }
        }
    }

    /// As [`read`](Self::read), the first time; does `meanwhile` once the transfer has begun.
    pub(crate) fn read_meanwhile(
        self,
        file: &FileShared,
        number: u64,
        lease: FrameLease,
        tenant: TenantId,
        operation: &'static str,
        meanwhile: impl FnOnce(),
    ) -> (FrameLease, Result<()>) {
        let io = match file.io(operation) {
            Ok(io) => io,
            Err(error) => return (lease, Err(error.at_page(number))),
        };
        let mut lease = lease;
        if self.take_from_tier(file, number, &mut lease) {
            meanwhile();
            return (lease, Ok(()));
        }
        let begun = Instant::now();
        let (mut lease, result) =
            self.pool.arena.read_meanwhile(&*self.pool.backend, &io, number, lease, tenant, meanwhile);
        self.transferred(file, number, 1, begun, result.is_ok());
        let outcome = match self.judge(file, number, &mut lease, result, Attempt::First, operation) {
            Verdict::Good => {
                self.offer(file, number, &mut lease);
                Ok(())
            }
            Verdict::Again(next) => self.read(file, number, &mut lease, tenant, next, operation),
            Verdict::Failed(error) => Err(error),
        };
        (lease, outcome)
    }

    /// Counts a transfer from the file that is over, of `pages` pages from `first` on.
    pub(crate) fn transferred(
        self,
        file: &FileShared,
        first: u64,
        pages: usize,
        begun: Instant,
        succeeded: bool,
    ) {
        if succeeded {
            self.pool.count_reads(pages as u64);
        } else {
            self.pool.counters.read_failures.fetch_add(1, Ordering::Relaxed);
        }
        let Some(tier) = &self.pool.tier else { return };
        // Reads of several pages do not show how long a miss takes.
        if pages == 1 {
            tier.source_read(begun.elapsed());
        } else if succeeded && tier.is_exclusive() {
            // A run is read without asking the tier, whose copies are of no use any more.
            self.pool.forget_in_tier(file, first..first + pages as u64);
        }
    }

    /// The tier, and what to ask it for: a page that the calling thread brings in.
    pub(crate) fn in_tier(
        self,
        file: &FileShared,
        number: u64,
    ) -> Option<(&'p Arc<TierLink>, PageName, Version)> {
        let (tier, word) = (self.pool.tier.as_ref()?, file.table.get(number)?);
        Some((tier, file.page_name(number), file.version(word.state())))
    }

    /// Takes the page, which the calling thread brings in, from the tier into its frame. Waits for the tier.
    /// False if that has none, or none of use.
    pub(crate) fn take_from_tier(self, file: &FileShared, number: u64, lease: &mut FrameLease) -> bool {
        let Some((tier, name, version)) = self.in_tier(file, number) else { return false };
        tier.take(name, version).is_some_and(|taken| self.accept_copy(file, number, lease, &taken))
    }

    /// Copies what the tier gave into the frame, and verifies it. False if it is not the page; the tier's
    /// count of such copies grows then.
    pub(crate) fn accept_copy(
        self,
        file: &FileShared,
        number: u64,
        lease: &mut FrameLease,
        taken: &Taken,
    ) -> bool {
        self.pool.arena.bytes_mut(lease).copy_from_slice(&taken.bytes);
        let is_good = self.verify(file, number, lease).is_ok();
        match &self.pool.tier {
            Some(tier) if !is_good => tier.was_rejected(),
            _ if is_good && taken.stays_below => self.pool.frames.get(lease.frame()).set_below(Below::Page),
            _ => {}
        }
        is_good
    }

    /// Offers the tier a page that was read from its file by itself, was verified, and is about to come in.
    pub(crate) fn offer(self, file: &FileShared, number: u64, lease: &mut FrameLease) {
        let Some((tier, name, version)) = self.in_tier(file, number) else { return };
        if !tier.is_offered_reads(file.is_read_only()) {
            return;
        }
        let contents = self.pool.arena.bytes(lease);
        let below = tier.fill(name, version, contents, |bytes| self.pool.make_as_in_file(name, bytes));
        if tier.promotes() {
            self.pool.frames.get(lease.frame()).set_below(below);
        }
    }

    /// What to make of a page whose transfer is over.
    pub(crate) fn judge(
        self,
        file: &FileShared,
        number: u64,
        lease: &mut FrameLease,
        result: std::result::Result<(), IoError>,
        attempt: Attempt,
        operation: &'static str,
    ) -> Verdict {
        match attempt.judge(result, || self.verify(file, number, lease)) {
            Ok(Some(next)) => Verdict::Again(next),
            Ok(None) => Verdict::Good,
            Err(Cause::Io(error)) => Verdict::Failed(file.io_error(operation, error).at_page(number)),
            Err(Cause::Rejected(message)) => {
                let message = format!("contents failed verification twice: {message}");
                Verdict::Failed(file.error(ErrorKind::Corrupt, operation, message).at_page(number))
            }
        }
    }

    /// Lets the hooks verify what was read into a frame.
    pub(crate) fn verify(
        self,
        file: &FileShared,
        number: u64,
        lease: &mut FrameLease,
    ) -> std::result::Result<(), String> {
        let Some(hooks) = &self.pool.hooks else { return Ok(()) };
        let bytes = self.pool.arena.bytes_mut(lease);
        let checked = contained(|| hooks.on_read(file.page_name(number), bytes));
        checked.unwrap_or_else(|| Err("the hook panicked".into()))
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;
    use crate::io::Action;

    #[test]
    fn a_page_is_read_again_where_that_may_help() {
        let failed = || Action::Sync { all_metadata: false }.failed(crate::io::error::Cause::Os(libc::EIO));
        let rejects = || Err("bad".to_owned());
        for attempt in [Attempt::Together, Attempt::First, Attempt::Second] {
            assert_eq!(attempt.judge(Ok(()), || Ok(())), Ok(None));
        }
        let unread =
            || -> std::result::Result<(), String> { unreachable!("a failed read has nothing to verify") };
        assert_eq!(Attempt::Together.judge(Err(failed()), unread), Ok(Some(Attempt::First)));
        assert_eq!(Attempt::First.judge(Err(failed()), unread), Err(Cause::Io(failed())));
        assert_eq!(Attempt::Second.judge(Err(failed()), unread), Err(Cause::Io(failed())));
        assert_eq!(Attempt::Together.judge(Ok(()), rejects), Ok(Some(Attempt::Second)));
        assert_eq!(Attempt::First.judge(Ok(()), rejects), Ok(Some(Attempt::Second)));
        assert_eq!(Attempt::Second.judge(Ok(()), rejects), Err(Cause::Rejected("bad".into())));
    }
}
