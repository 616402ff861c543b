//! What a pool's recorder hears of guards and pins.

use bufpool_policies::{PageId, contained};

use crate::engine::recorder::{Event, Recorder};

/// Turns held guards into pin events, only where another access happens meanwhile.
pub(super) struct Recording {
    recorder: Box<dyn Recorder>,
    /// It is told nothing more.
    has_panicked: bool,
    /// Pages held now: how often, and whether the recorder knows.
    held: Vec<(PageId, u32, bool)>,
}

impl Recording {
    pub fn new(recorder: Box<dyn Recorder>) -> Self {
        Self { recorder, has_panicked: false, held: Vec::new() }
    }

    /// Tells the recorder. A panic of it ends here: callers are in the middle of changes.
    pub fn tell(&mut self, event: Event<'_>) {
        if !self.has_panicked {
            self.has_panicked = contained(|| self.recorder.record(event)).is_none();
        }
    }

    /// An access, which the recorder hears of after the pins of the pages that are held.
    pub fn access(&mut self, event: Event<'_>) {
        for at in 0..self.held.len() {
            let (page, _, told) = &mut self.held[at];
            if !std::mem::replace(told, true) {
                let pin = Event::Pin(*page);
                self.tell(pin);
            }
        }
        self.tell(event);
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
            self.tell(Event::Unpin(page));
        }
    }
}
