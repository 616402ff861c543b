//! What a pool's recorder hears of guards and pins.

use bufpool_policies::PageId;

use crate::engine::recorder::{Event, Recorder};

/// Turns held guards into pin events, only where another access happens meanwhile.
pub(super) struct Recording {
    pub recorder: Box<dyn Recorder>,
    /// Pages held now: how often, and whether the recorder knows.
    held: Vec<(PageId, u32, bool)>,
}

impl Recording {
    pub fn new(recorder: Box<dyn Recorder>) -> Self {
        Self { recorder, held: Vec::new() }
    }

    /// An access, which the recorder hears of after the pins of the pages that are held.
    pub fn access(&mut self, event: Event<'_>) {
        for (page, _, told) in &mut self.held {
            if !std::mem::replace(told, true) {
                self.recorder.record(Event::Pin(*page));
            }
        }
        self.recorder.record(event);
    }

    /// A guard or pin on the page begins.
    pub fn hold(&mut self, page: PageId) {
        match self.held.iter_mut().find(|(held, ..)| *held == page) {
            Some((_, times, _)) => *times += 1,
            None => self.held.push((page, 1, false)),
        }
    }

    /// One ends.
    pub fn let_go(&mut self, page: PageId) {
        let Some(at) = self.held.iter().position(|(held, ..)| *held == page) else { return };
        self.held[at].1 -= 1;
        if self.held[at].1 == 0 && self.held.remove(at).2 {
            self.recorder.record(Event::Unpin(page));
        }
    }
}
