//! Page words reached through their file, for pages that no thread's stack refers to.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::files::shared::FileShared;
use crate::memory::lease::FrameLease;
use crate::page::latch::{Exclusive, Latch, wake};
use crate::page::word::PageWord;
use crate::sharded::Shard;

/// A page word reached through its file, for pages that nobody's stack refers to.
#[derive(Clone)]
pub(crate) struct OwnedWord {
    file: FileRef,
    number: u64,
}

/// What keeps the file.
#[derive(Clone)]
enum FileRef {
    Counted(Arc<FileShared>),
    CountedApart(Shard<Arc<FileShared>>),
}

impl OwnedWord {
    /// The word of a page, which was made.
    pub fn new(file: Arc<FileShared>, number: u64) -> Self {
        Self { file: FileRef::Counted(file), number }
    }

    /// The same, for a thread that takes and drops words again and again.
    #[inline]
    pub fn of_shard(file: Shard<Arc<FileShared>>, number: u64) -> Self {
        Self { file: FileRef::CountedApart(file), number }
    }

    /// The page's file.
    pub fn file(&self) -> &Arc<FileShared> {
        match &self.file {
            FileRef::Counted(file) => file,
            FileRef::CountedApart(file) => file,
        }
    }

    /// The page's number.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Deref for OwnedWord {
    type Target = PageWord;

    fn deref(&self) -> &PageWord {
        self.file().table.get(self.number).expect("words stay as long as their file")
    }
}

/// A page that its holder is about to drop or write: number and exclusive latch.
pub(crate) struct Seized {
    pub number: u64,
    pub latch: Latch<OwnedWord, Exclusive>,
}

/// All resident pages of a range of a file, for a caller that decides whether they leave.
#[derive(Default)]
pub(crate) struct SeizedPages {
    /// Latched, and neither pinned nor being written.
    pub whole: Vec<Seized>,
    /// Those whose writers have panicked: as the others, but that the writers have kept the latches.
    pub half_changed: Vec<OwnedWord>,
}

impl SeizedPages {
    /// The pages, all latched: they leave. Those half changed are poisoned no longer.
    pub fn into_latched(self) -> Vec<Seized> {
        let Self { whole: mut latched, half_changed } = self;
        for word in half_changed {
            let number = word.number();
            if word.file().take_half_changed(number) {
                // SAFETY: the writer has kept its latch, and the page is taken out of the list of such pages
                // once.
                latched.push(Seized { number, latch: unsafe { Latch::regain(word) } });
            }
        }
        latched
    }
}

/// The duty to bring in neighbouring pages of a file, which were absent, on whichever thread. Pages that are
/// not [published](Self::publish) are absent again when it is dropped.
pub(crate) struct LoadingRun {
    file: Arc<FileShared>,
    /// The words of these pages are being loaded, by the holder of this value alone.
    numbers: Range<u64>,
}

impl LoadingRun {
    /// The right to load a page whose word was made, if the page is absent now.
    pub fn try_new(file: &Arc<FileShared>, number: u64) -> Option<Self> {
        let mut run = Self { file: Arc::clone(file), numbers: number..number };
        run.try_extend(number).then_some(run)
    }

    /// Adds a page whose word was made, if it is the next one and absent now.
    pub fn try_extend(&mut self, number: u64) -> bool {
        let word = self.file.table.get_to_load(number).expect("made by the caller");
        let is_added = number == self.numbers.end && word.begin_load_ahead().is_ok();
        self.numbers.end += u64::from(is_added);
        is_added
    }

    /// The pages' file.
    pub fn file(&self) -> &Arc<FileShared> {
        &self.file
    }

    /// The pages.
    pub fn numbers(&self) -> Range<u64> {
        self.numbers.clone()
    }

    /// How many pages there are.
    pub fn len(&self) -> usize {
        (self.numbers.end - self.numbers.start) as usize
    }

    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The pages from the one at place `at` on, no more than one past the last, become a run of their own.
    pub fn split_off(&mut self, at: usize) -> Self {
        assert!(at <= self.len(), "a place of the run");
        let middle = self.numbers.start + at as u64;
        let behind = std::mem::replace(&mut self.numbers.end, middle);
        Self { file: Arc::clone(&self.file), numbers: middle..behind }
    }

    /// The pages for which a thread or a future is parked until they are there.
    pub fn awaited(&self) -> impl Iterator<Item = u64> {
        self.numbers().filter(|number| self.word(*number).state().is_awaited())
    }

    /// The pages are in the leased frames, and nobody holds them. The last one comes first: a thread that
    /// waits for the first one finds the others there when it is woken.
    pub fn publish(mut self, leases: Vec<FrameLease>) {
        assert_eq!(self.len(), leases.len(), "a frame for each page");
        for lease in leases.into_iter().rev() {
            self.numbers.end -= 1;
            let word = self.word(self.numbers.end);
            wake(word, word.publish_unlatched(lease.into_word()));
        }
    }

    /// No frames were found for the pages.
    pub fn give_up(mut self) {
        for number in self.numbers() {
            let word = self.word(number);
            wake(word, word.give_up_load());
        }
        self.numbers.end = self.numbers.start;
    }

    fn word(&self, number: u64) -> &PageWord {
        self.file.table.get(number).expect("words stay as long as their file")
    }
}

impl Drop for LoadingRun {
    fn drop(&mut self) {
        for number in self.numbers() {
            let word = self.word(number);
            wake(word, word.depart());
        }
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;
    use crate::io::sim::SimDevice;
    use crate::{FileOptions, PoolOptions};

    #[test]
    fn a_run_loads_neighbours_and_leaves_them_absent_where_it_ends() {
        let device = SimDevice::new(1);
        device.put("data", &vec![0; 16 * 4096]);
        let pool = PoolOptions::new().frames(32).page_bytes(4096).threads_max(8).open_on(&device).unwrap();
        let handle = pool.open_file("data", FileOptions::new()).unwrap();
        let (file, tenant) = (Arc::clone(&handle.shared), pool.default_tenant());
        let loading = |file: &FileShared| {
            let is_loading = |number: &u64| file.table.get(*number).unwrap().state().is_loading();
            (0..8).filter(is_loading).collect::<Vec<u64>>()
        };
        (0..8).for_each(|number| {
            assert!(file.table.get_or_allocate(number, &tenant.pool.page_table_budget).is_ok());
        });
        let mut run = LoadingRun::try_new(&file, 2).unwrap();
        assert!(LoadingRun::try_new(&file, 2).is_none(), "one loads a page");
        assert!(run.try_extend(3) && run.try_extend(4) && run.try_extend(5));
        assert!(!run.try_extend(5) && !run.try_extend(7), "not the next page");
        let other = LoadingRun::try_new(&file, 6).unwrap();
        assert!(!run.try_extend(6), "another loads it");
        assert_eq!((run.len(), run.numbers(), loading(&file)), (4, 2..6, vec![2, 3, 4, 5, 6]));
        let behind = run.split_off(3);
        assert_eq!((run.numbers(), behind.numbers()), (2..5, 5..6));
        assert!(run.split_off(3).is_empty());
        drop(behind);
        assert_eq!(loading(&file), [2, 3, 4, 6]);
        drop((run, other));
        assert_eq!(loading(&file), []);
        assert!((0..8).all(|number| file.table.get(number).unwrap().state().is_absent()));
    }
}
