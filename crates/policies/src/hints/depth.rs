//! How far ahead of its reader a list fetches.

/// The depth at which a list starts.
pub const DEPTH_MIN: u32 = 2;

/// A number of hints to look ahead, which grows when the reader had to wait and shrinks when there is nothing
/// to read.
///
/// Doubles after a wait: what was in flight was begun too late. Falls by one after a full window of the
/// largest depth in which every hinted page was in memory: a reader that finds most of its pages resident
/// keeps the depth that the others need. In a steady state it is the prefetch horizon, the time of a read
/// over the time between accesses, found by trying. The rule is that of PostgreSQL's read streams
/// (`read_stream.c`) in the form whose distance decays only after a window without a read.
#[derive(Clone, Debug)]
pub struct Depth {
    now: u32,
    max: u32,
    /// Hints consumed since the last read or wait.
    quiet: u32,
}

impl Depth {
    /// Starts at [`DEPTH_MIN`] and never exceeds `max`, at least 1.
    pub fn new(max: u32) -> Self {
        let max = max.max(1);
        Self { now: DEPTH_MIN.min(max), max, quiet: 0 }
    }

    /// Hints to look ahead now, at least 1.
    pub fn get(&self) -> u32 {
        self.now
    }

    /// The largest depth.
    pub fn max(&self) -> u32 {
        self.max
    }

    /// The reader waited for a page that the list named.
    pub fn waited(&mut self) {
        self.now = self.now.saturating_mul(2).min(self.max);
        self.quiet = 0;
    }

    /// A read was begun for the list.
    pub fn read_begun(&mut self) {
        self.quiet = 0;
    }

    /// A hint was consumed.
    pub fn consumed(&mut self) {
        self.quiet += 1;
        if self.quiet >= self.max {
            self.quiet = 0;
            self.now = (self.now - 1).max(DEPTH_MIN.min(self.max));
        }
    }

    /// More than a quarter of what was fetched was not used. Halves the depth.
    pub fn wasted(&mut self) {
        self.now = (self.now / 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_only_by_waits() {
        let mut depth = Depth::new(16);
        assert_eq!(depth.get(), 2);
        (0..8).for_each(|_| depth.read_begun());
        assert_eq!(depth.get(), 2);
        let seen: Vec<u32> = (0..5)
            .map(|_| {
                depth.waited();
                depth.get()
            })
            .collect();
        assert_eq!(seen, [4, 8, 16, 16, 16]);
    }

    /// A page in memory between two reads does not undo what a wait has taught.
    #[test]
    fn falls_by_one_after_a_window_without_a_read() {
        let mut depth = Depth::new(16);
        (0..3).for_each(|_| depth.waited());
        for _ in 0..100 {
            (0..15).for_each(|_| depth.consumed());
            depth.read_begun();
        }
        assert_eq!(depth.get(), 16);
        (0..16).for_each(|_| depth.consumed());
        assert_eq!(depth.get(), 15);
        (0..16 * 100).for_each(|_| depth.consumed());
        assert_eq!(depth.get(), DEPTH_MIN);
    }

    #[test]
    fn a_limit_below_the_start_holds() {
        let mut depth = Depth::new(0);
        depth.waited();
        assert_eq!(depth.get(), 1);
        (0..100).for_each(|_| depth.consumed());
        assert_eq!(depth.get(), 1);
        let mut depth = Depth::new(8);
        depth.waited();
        depth.wasted();
        depth.wasted();
        depth.wasted();
        assert_eq!(depth.get(), 1);
    }
}
