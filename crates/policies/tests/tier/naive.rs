//! Naive lower caches: vectors and linear searches, written from the rules alone. Index 0 is ejected next.

use bufpool_policies::tier::TierKind;
use bufpool_policies::{PageId, SplitMix64};

/// The outcome of a call: whether the tier had the page, whether it has it now, and which page it ejected for
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub was_there: bool,
    pub is_there: bool,
    pub ejected: Option<PageId>,
}

pub struct NaiveTier {
    pub kind: TierKind,
    capacity: usize,
    /// The pages of each segment. There is one segment; SLRU has two, ADAPT ten.
    segments: Vec<Vec<PageId>>,
    ghosts: [Vec<PageId>; 2],
    hits: [u64; 2],
    ratios: [f64; 2],
    client_frames: u32,
    promote: NaivePromote,
}

struct NaivePromote {
    random: SplitMix64,
    probability: f64,
    probability_max: f64,
    used_at: Vec<(PageId, u64)>,
    now: u64,
    heard_at: u64,
    hints: u64,
    imbalance: f64,
}

const DEMOTED: usize = 0;
const READ: usize = 1;

fn take_out(pages: &mut Vec<PageId>, page: PageId) -> bool {
    let before = pages.len();
    pages.retain(|other| *other != page);
    pages.len() < before
}

impl NaiveTier {
    pub fn new(kind: TierKind, capacity: u32, client_frames: u32, seed: u64) -> Self {
        let segments = match kind {
            TierKind::AdaptUni | TierKind::AdaptExp => 10,
            TierKind::Slru { .. } => 2,
            _ => 1,
        };
        let probability = client_share(client_frames, capacity);
        Self {
            kind,
            capacity: capacity as usize,
            segments: vec![Vec::new(); segments],
            ghosts: [Vec::new(), Vec::new()],
            hits: [1; 2],
            ratios: [0.0; 2],
            client_frames,
            promote: NaivePromote {
                random: SplitMix64::new(seed),
                probability,
                probability_max: probability,
                used_at: Vec::new(),
                now: 0,
                heard_at: 0,
                hints: 0,
                imbalance: 0.0,
            },
        }
    }

    pub fn pages(&self) -> Vec<PageId> {
        self.segments.concat()
    }

    fn has(&self, page: PageId) -> bool {
        self.segments.iter().any(|segment| segment.contains(&page))
    }

    fn remove(&mut self, page: PageId) {
        for segment in &mut self.segments {
            take_out(segment, page);
        }
    }

    fn size(&self, segment: usize) -> usize {
        let capacity = self.capacity;
        let adaptive = |sizes: [usize; 10]| match segment {
            9 => capacity - sizes[..9].iter().sum::<usize>(),
            _ => sizes[segment],
        };
        match self.kind {
            TierKind::Slru { protected_percent } => {
                let protected = capacity * usize::from(protected_percent) / 100;
                [capacity - protected, protected][segment]
            }
            TierKind::AdaptUni => adaptive([capacity / 10; 10]),
            TierKind::AdaptExp => adaptive(std::array::from_fn(|at| capacity / 1023 * (1 << at))),
            _ => capacity,
        }
    }

    /// Puts a page at the tail of a segment. Pages that overflow a segment move to the one below, and those
    /// that overflow the lowest are ejected. Returns the pages ejected, which may be the page itself.
    fn push(&mut self, segment: usize, page: PageId) -> Vec<PageId> {
        self.segments[segment].push(page);
        let mut out = Vec::new();
        for at in (0..=segment).rev() {
            while self.segments[at].len() > self.size(at) {
                let head = self.segments[at].remove(0);
                match at {
                    0 => out.push(head),
                    _ => self.segments[at - 1].push(head),
                }
            }
        }
        out
    }

    /// Uses a page that the tier has.
    fn use_again(&mut self, page: PageId, is_read: bool) {
        if self.kind == TierKind::Demote && is_read {
            self.remove(page);
            return self.segments[0].insert(0, page);
        }
        let last = self.segments.len() - 1;
        self.remove(page);
        assert_eq!(self.push(last, page), []);
        if self.kind == TierKind::Promote {
            self.stamp(page);
        }
    }

    /// Brings in a page that the tier does not have.
    fn enter(&mut self, page: PageId, list: usize) -> Outcome {
        let out = match self.kind {
            TierKind::AdaptUni | TierKind::AdaptExp => {
                let segment = (10.0 * self.ratios[list]).floor().min(9.0) as usize;
                self.push(segment, page)
            }
            TierKind::Demote if list == READ => {
                let full = self.capacity > 0 && self.segments[0].len() == self.capacity;
                let out = if full { vec![self.segments[0].remove(0)] } else { Vec::new() };
                if self.capacity == 0 {
                    vec![page]
                } else {
                    self.segments[0].insert(0, page);
                    out
                }
            }
            _ => self.push(0, page),
        };
        assert!(out.len() <= 1, "one page for another");
        let is_there = self.has(page);
        let ejected = out.first().copied().filter(|out| *out != page);
        if is_there && self.kind == TierKind::Promote {
            self.stamp(page);
        }
        Outcome { was_there: false, is_there, ejected }
    }

    /// A READ. Returns its outcome if the tier has the page.
    pub fn read(&mut self, page: PageId) -> Option<Outcome> {
        for list in [DEMOTED, READ] {
            if take_out(&mut self.ghosts[list], page) {
                self.hits[list] += 1;
                self.ghosts[list].push(page);
            }
        }
        let sum = (self.hits[DEMOTED] + self.hits[READ]) as f64;
        self.ratios = self.hits.map(|hits| hits as f64 / sum);
        self.remember(READ, page);
        if !self.has(page) {
            return None;
        }
        if self.kind == TierKind::Promote && self.passes_up() {
            self.remove(page);
        } else {
            self.use_again(page, true);
        }
        Some(Outcome { was_there: true, is_there: self.has(page), ejected: None })
    }

    pub fn fill(&mut self, page: PageId) -> Outcome {
        if self.kind == TierKind::Promote && self.passes_up() {
            return Outcome { was_there: false, is_there: self.has(page), ejected: None };
        }
        if self.has(page) {
            self.use_again(page, true);
            return Outcome { was_there: true, is_there: true, ejected: None };
        }
        self.enter(page, READ)
    }

    pub fn demote(&mut self, page: PageId) -> Outcome {
        let outcome = if self.has(page) {
            self.use_again(page, false);
            Outcome { was_there: true, is_there: true, ejected: None }
        } else {
            self.enter(page, DEMOTED)
        };
        self.remember(DEMOTED, page);
        outcome
    }

    pub fn take(&mut self, page: PageId) -> bool {
        match self.kind {
            TierKind::Inclusive => self.read(page).is_some(),
            TierKind::AdaptUni | TierKind::AdaptExp => {
                let found = self.read(page).is_some();
                self.remove(page);
                found
            }
            _ => self.forget(page),
        }
    }

    pub fn forget(&mut self, page: PageId) -> bool {
        let was_there = self.has(page);
        self.remove(page);
        was_there
    }

    /// Changes the capacity. Returns the pages that are ejected.
    pub fn resize(&mut self, capacity: u32) -> Vec<PageId> {
        self.capacity = capacity as usize;
        let share = client_share(self.client_frames, capacity);
        let promote = &mut self.promote;
        let was_largest = promote.probability == promote.probability_max;
        promote.probability = if was_largest { share } else { promote.probability.min(share) };
        promote.probability_max = share;
        let mut out = Vec::new();
        if matches!(self.kind, TierKind::AdaptUni | TierKind::AdaptExp) {
            while self.pages().len() > self.capacity {
                let first = self.pages()[0];
                self.remove(first);
                out.push(first);
            }
            for at in (1..10).rev() {
                while self.segments[at].len() > self.size(at) {
                    let head = self.segments[at].remove(0);
                    self.segments[at - 1].push(head);
                }
            }
            for at in 0..9 {
                while self.segments[at].len() > self.size(at) {
                    let tail = self.segments[at].pop().unwrap();
                    self.segments[at + 1].insert(0, tail);
                }
            }
        } else {
            for at in (0..self.segments.len()).rev() {
                while self.segments[at].len() > self.size(at) {
                    let head = self.segments[at].remove(0);
                    match at {
                        0 => out.push(head),
                        _ => self.segments[at - 1].push(head),
                    }
                }
            }
        }
        for ghosts in &mut self.ghosts {
            let surplus = ghosts.len().saturating_sub(self.capacity);
            ghosts.drain(..surplus);
        }
        out
    }

    pub fn reset_ratios(&mut self) {
        self.hits = [1; 2];
        self.ratios = [0.0; 2];
    }

    fn remember(&mut self, list: usize, page: PageId) {
        take_out(&mut self.ghosts[list], page);
        self.ghosts[list].push(page);
        if self.ghosts[list].len() > self.capacity {
            self.ghosts[list].remove(0);
        }
    }

    fn stamp(&mut self, page: PageId) {
        self.promote.used_at.retain(|(other, _)| *other != page);
        self.promote.used_at.push((page, self.promote.now));
    }

    fn passes_up(&mut self) -> bool {
        self.promote.random.unit() < self.promote.probability
    }

    pub fn hear_age(&mut self, now: u64, age: u64) {
        let promote = &mut self.promote;
        promote.now = promote.now.max(now);
        let pages = &self.segments[0];
        if self.kind != TierKind::Promote || pages.is_empty() {
            return;
        }
        let (_, used_at) = promote.used_at.iter().find(|(page, _)| *page == pages[0]).unwrap();
        let life = promote.now - used_at;
        if life == 0 || (promote.now - promote.heard_at) * 20 < life {
            return;
        }
        promote.heard_at = promote.now;
        promote.hints += 1;
        if promote.hints.is_multiple_of(2) {
            return;
        }
        let ratio = age as f64 / (age as f64 + life as f64);
        let imbalance = 2.0 * ratio - 1.0;
        let before = std::mem::replace(&mut promote.imbalance, imbalance);
        let same_side = before * imbalance > 0.0;
        if same_side && imbalance.abs() <= 0.95 * before.abs() {
            return;
        }
        let p = promote.probability;
        promote.probability = (p + p * (1.0 - p) * imbalance).clamp(1.0 / 256.0, promote.probability_max);
    }
}

fn client_share(client_frames: u32, capacity: u32) -> f64 {
    let share = f64::from(client_frames) / (f64::from(client_frames) + f64::from(capacity));
    if share.is_nan() { 1.0 / 256.0 } else { share.max(1.0 / 256.0) }
}
