//! How long after an access its page is used again, learned per class of accesses.
//!
//! A class counts, by age, the sampled pages that were used again, those that were forgotten unused, and
//! those still waiting. The hazard of an age is the share of pages used again among those that reached it.
//!
//! The hazard of a stream's class is shrunk towards that of all the tenant's pages of the same kind, so that
//! a class with little evidence decides as its tenant does. The hazard of a tenant's kind is shrunk towards
//! that of the kind that it is [presumed to be like](Kind::presumed_like): a loop that begins to hit passes
//! from kind to kind as its intervals become shorter, and if the new kind started from nothing, its pages
//! would be kept and others given up just before their use. Pages that are new or were used again soon are
//! presumed to lose value with age instead, as under LRU. So are pages created, which are presumed to be
//! [worth more](Tuning::created_worth) until they are used, because what is written is written to be read.

use super::ages::{Ages, BUCKETS, Values};
use super::counts::Counts;
use super::kind::{Kind, STEPS};
use crate::manager::automatic::tuning::Tuning;

/// A class: an index into [`Classes`].
pub(crate) type ClassId = u16;
/// No class.
pub(crate) const NONE: ClassId = ClassId::MAX;

/// A class that never learns: its pages lose value with age, as under LRU.
pub(crate) const UNLEARNED: ClassId = Kind::COUNT as ClassId;
/// A class that never learns: what pages of the kind [`Kind::STRAY`] are worth.
const STRAYS: ClassId = UNLEARNED + 1;
/// Classes that no stream holds.
const BUILT_IN_CLASSES: usize = Kind::COUNT + 2;
/// The intervals at which the steps after [`SOON`](super::kind::SOON) begin, in multiples of [the
/// first](Tuning::soon_turnovers). Pages with intervals below these would stay under any policy, under most,
/// and only if chosen well; those beyond the last hardly ever.
const STEP_BOUNDS: [f32; STEPS as usize - 1] = [1.0, 8.0, 32.0];
/// How many times as much the prior of a tenant's class weighs as that of a stream's class.
const TENANT_PRIOR: f32 = 4.0;

/// The hazard of a bucket before anything is known. Any constant gives LRU's order, since buckets widen with
/// age.
const PRIOR_HAZARD: f32 = 0.05;

/// What is known of the pages of some classes; ageing.
#[derive(Clone, Copy, Default)]
pub(crate) struct ClassEvidence {
    /// Pages whose next use, or the lack of one, was seen.
    pub pages: f32,
    /// Pages of these that were used again.
    pub reused: f32,
    /// The sum of the times until then.
    time: f32,
}

impl ClassEvidence {
    /// The mean time until a page was used again, in multiples of `turnover`.
    pub fn mean_interval(&self, turnover: u32) -> Option<f32> {
        (self.reused > 0.0).then(|| self.time / self.reused / turnover as f32)
    }
}

/// All classes of a tenant. About 670 bytes a class, at most as many as it is made for.
pub(crate) struct Classes {
    counts: Vec<Counts>,
    values: Vec<Values>,
    /// By class: the class whose values its pages have. That is the class itself, its stream's class of pages
    /// in turn while the stream goes round, or [`UNLEARNED`] while the stream has no say.
    valued_as: Vec<ClassId>,
    /// Hazards of the tenant's classes.
    hazards: [[f32; BUCKETS]; Kind::COUNT],
    classes_max: usize,
    free: Vec<ClassId>,
    pub ages: Ages,
    /// The ages at which the steps after the first begin.
    step_ages: [u32; STEPS as usize - 1],
    /// Ages below this bucket are young: they do not tell which page to replace.
    young: usize,
    /// Old pages after which a class halves its counts.
    memory_pages: f32,
    prior_pages: f32,
    /// The hazard of pages created, of whatever age, before anything is known.
    created_hazard: f32,
    /// Of the pages of a stream that goes round and that are not young, the share that must have been used
    /// again for the pages to be valued by their turn.
    in_turn_share: f32,
}

impl Classes {
    /// `turnover_time`: the time in which all frames are replaced when every access misses. `memory_pages`:
    /// how many pages, not used again while young, a class remembers. `classes_max` bounds the classes
    /// besides the tenant's.
    pub fn new(turnover_time: f32, memory_pages: f32, classes_max: usize, tuning: &Tuning) -> Self {
        let ages = Ages::new(turnover_time);
        let created_hazard = PRIOR_HAZARD * tuning.created_worth;
        let mut hazards = [[PRIOR_HAZARD; BUCKETS]; Kind::COUNT];
        hazards[Kind::CREATED.index()] = [created_hazard; BUCKETS];
        let of_kind = |class: usize| ages.values(hazards.get(class).unwrap_or(&hazards[0]));
        let mut classes = Self {
            counts: (0..BUILT_IN_CLASSES).map(|_| Counts::new(NONE)).collect(),
            values: (0..BUILT_IN_CLASSES).map(of_kind).collect(),
            valued_as: (0..BUILT_IN_CLASSES as ClassId).collect(),
            hazards,
            classes_max: classes_max + BUILT_IN_CLASSES,
            free: Vec::new(),
            step_ages: STEP_BOUNDS.map(|soon| (soon * tuning.soon_turnovers * turnover_time) as u32),
            young: ages.bucket((turnover_time / 8.0) as u32),
            ages,
            memory_pages,
            prior_pages: tuning.prior_pages,
            created_hazard,
            in_turn_share: 1.0 - tuning.out_of_turn_share,
        };
        classes.valued_as[Kind::STRAY.index()] = STRAYS;
        let strays = &mut classes.values[usize::from(STRAYS)];
        *strays = [0.0; BUCKETS + 1];
        strays[0] = tuning.stray_value / turnover_time;
        classes
    }

    /// The step of an interval.
    #[inline]
    pub fn step(&self, interval: u32) -> u8 {
        self.step_ages.iter().map(|age| u8::from(interval >= *age)).sum::<u8>()
    }

    /// Whether `interval` is of the first step.
    #[inline]
    pub fn is_soon(&self, interval: u32) -> bool {
        interval < self.step_ages[0]
    }

    /// Adds a class that starts with the values of the tenant's class of `kind`. None if there are as many as
    /// there may be.
    pub fn add(&mut self, kind: Kind) -> Option<ClassId> {
        let class = match self.free.pop() {
            Some(class) => class,
            None if self.counts.len() >= self.classes_max => return None,
            None => {
                self.counts.push(Counts::new(NONE));
                self.values.push([0.0; BUCKETS + 1]);
                self.valued_as.push(NONE);
                (self.counts.len() - 1) as ClassId
            }
        };
        let at = usize::from(class);
        self.counts[at] = Counts::new(kind.class());
        self.values[at] = self.values[kind.index()];
        self.valued_as[at] = class;
        Some(class)
    }

    /// The pages of `class`, which a stream holds, are worth what those of `valued_as` are.
    pub fn set_valued_as(&mut self, class: ClassId, valued_as: ClassId) {
        self.valued_as[usize::from(class)] = valued_as;
    }

    /// Sets what pages of `class` are worth. No sample may count in `class`, or its values would be worked
    /// out anew.
    pub fn set_values(&mut self, class: ClassId, values: Values) {
        self.values[usize::from(class)] = values;
    }

    /// Whether no page waits in `class`, so that it is free once it is [given up](Self::give_up).
    pub fn is_idle(&self, class: ClassId) -> bool {
        self.counts[usize::from(class)].waiting_pages() == 0
    }

    /// The stream that had `class` added gives it up.
    pub fn give_up(&mut self, class: ClassId) {
        let counts = &mut self.counts[usize::from(class)];
        counts.held = false;
        if counts.waiting_pages() == 0 {
            self.free.push(class);
        }
    }

    /// A sampled page was used in `class`.
    pub fn begin(&mut self, class: ClassId) {
        self.count_with_parent(class, |counts| counts.waiting[0] += 1);
        self.refresh(class);
    }

    /// A sampled page of `class` waits on: it is now in another bucket.
    pub fn wait(&mut self, class: ClassId, from: usize, to: usize) {
        self.count_with_parent(class, |counts| {
            counts.waiting[from] -= 1;
            counts.waiting[to] += 1;
            counts.new_pages += 0.5;
        });
        self.refresh(class);
    }

    /// A sampled page of `class`, counted as waiting in bucket `counted`, was used again or forgotten at
    /// `age`. Returns whether the values of the class changed.
    pub fn end(&mut self, class: ClassId, counted: usize, age: u32, reused: bool) -> bool {
        let bucket = self.ages.bucket(age);
        let (reused, old) = (f32::from(reused), f32::from(bucket >= self.young));
        self.count_with_parent(class, |counts| {
            counts.waiting[counted] -= 1;
            counts.reused[bucket] += reused;
            counts.ended[bucket] += 1.0;
            counts.ended_pages += 1.0;
            counts.ended_old_pages += old;
            counts.new_pages += 1.0;
        });
        let counts = &self.counts[usize::from(class)];
        if !counts.held && counts.waiting_pages() == 0 {
            self.free.push(class);
        }
        self.refresh(class)
    }

    /// What pages of `class` are worth.
    #[inline]
    pub fn values(&self, class: ClassId) -> &Values {
        &self.values[usize::from(self.valued_as[usize::from(class)])]
    }

    /// What is known from all of `classes` together.
    pub fn evidence(&self, classes: impl Iterator<Item = ClassId>) -> ClassEvidence {
        let mut sum = ClassEvidence::default();
        for class in classes {
            let counts = &self.counts[usize::from(class)];
            sum.pages += counts.ended_pages;
            for (bucket, reused) in counts.reused.iter().enumerate() {
                sum.reused += reused;
                sum.time += reused * self.ages.middle(bucket);
            }
        }
        sum
    }

    /// What the pages of a stream are worth whose turn comes a `period` after their last use. None unless
    /// nearly all pages of its `classes` come back. A page is worth the share of pages that come back over
    /// the time until its turn, so the nearer its turn, the more. If its turn is over, it was left out, and
    /// nothing is known of it: it is worth what the prior says.
    pub fn values_in_turn(&self, classes: impl Iterator<Item = ClassId>, period: u32) -> Option<Values> {
        let turn = self.ages.bucket(period).min(BUCKETS - 2);
        let over = turn + 2;
        let (mut reused, mut ended) = (0.0, self.prior_pages);
        for class in classes {
            let counts = &self.counts[usize::from(class)];
            reused += counts.reused[self.young..].iter().sum::<f32>();
            ended += counts.ended_old_pages + counts.waiting[over..].iter().sum::<u32>() as f32;
        }
        let share = reused / ended;
        let value = |bucket: usize| match bucket {
            BUCKETS => 0.0,
            _ if bucket < over => {
                share / (period as f32 - self.ages.begin(bucket)).max(self.ages.width(turn))
            }
            _ => PRIOR_HAZARD / self.ages.width(bucket),
        };
        (share >= self.in_turn_share).then(|| std::array::from_fn(value))
    }

    /// The share of the tenant's pages that were used again so far, of those that came in or got new
    /// contents.
    pub fn reused_share(&self) -> f32 {
        let first_uses = [Kind::NEW, Kind::CREATED].map(|kind| &self.counts[kind.index()]);
        let pages = |counts: &Counts| counts.ended_pages + counts.waiting_pages() as f32;
        let reused = |counts: &Counts| counts.reused.iter().sum::<f32>();
        first_uses.map(reused).iter().sum::<f32>() / first_uses.map(pages).iter().sum::<f32>().max(1.0)
    }

    /// What a page is worth after an eighth and after three quarters of the mean time until it is used again:
    /// one of that of `classes` with most evidence, or of the tenant's of new pages if there are none.
    pub fn young_and_old(&self, classes: impl Iterator<Item = ClassId>) -> [f32; 2] {
        let pages = |class: &ClassId| self.counts[usize::from(*class)].ended_pages;
        let richest = classes.max_by(|a, b| pages(a).total_cmp(&pages(b))).unwrap_or(Kind::NEW.class());
        let ClassEvidence { reused, time, .. } = self.evidence(std::iter::once(richest));
        let mean = time / reused.max(1.0);
        let values = &self.values[usize::from(richest)];
        [mean / 8.0, mean * 0.75].map(|age| self.ages.value(values, age as u32))
    }

    /// Works out the values of `class`, and of the tenant's first, if enough is new; tells whether it did.
    /// Amortised O(1) an event.
    #[inline]
    fn refresh(&mut self, class: ClassId) -> bool {
        let counts = &self.counts[usize::from(class)];
        let is_stale = counts.is_stale();
        if is_stale {
            self.refresh_cold(class);
        }
        is_stale
    }

    #[cold]
    fn refresh_cold(&mut self, class: ClassId) {
        let at = usize::from(class);
        let parent = self.counts[at].parent;
        let prior = match parent {
            NONE => self.prior_of(Kind::from_number(class as u8)),
            parent => {
                self.refresh(parent);
                self.hazards[usize::from(parent)]
            }
        };
        let prior_pages = if parent == NONE { TENANT_PRIOR * self.prior_pages } else { self.prior_pages };
        self.counts[at].forget(self.memory_pages);
        let hazard = self.counts[at].hazard(&prior, prior_pages);
        if parent == NONE {
            self.hazards[at] = hazard;
        }
        self.values[at] = self.ages.values(&hazard);
    }

    /// The hazard that the tenant's class of `kind` is shrunk towards.
    fn prior_of(&self, kind: Kind) -> [f32; BUCKETS] {
        match kind.presumed_like() {
            Some(like) => self.hazards[like.index()],
            None if kind == Kind::CREATED => [self.created_hazard; BUCKETS],
            None => [PRIOR_HAZARD; BUCKETS],
        }
    }

    /// Applies `change` to the class and the tenant's class of its kind.
    #[inline]
    fn count_with_parent(&mut self, class: ClassId, mut change: impl FnMut(&mut Counts)) {
        let counts = &mut self.counts[usize::from(class)];
        change(counts);
        let parent = counts.parent;
        if parent != NONE {
            change(&mut self.counts[usize::from(parent)]);
        }
    }

    pub fn metadata_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<Counts>()
            + self.values.capacity() * size_of::<Values>()
            + self.valued_as.capacity() * size_of::<ClassId>()
            + self.free.capacity() * size_of::<ClassId>()
    }

    /// Panics unless `held` by streams and `waiting` samples, given as (class, bucket), are what the classes
    /// count.
    pub fn check_invariants(
        &self,
        held: impl Iterator<Item = ClassId>,
        waiting: impl Iterator<Item = (ClassId, usize)>,
    ) {
        let mut holders = vec![0; self.counts.len()];
        holders[..BUILT_IN_CLASSES].fill(1);
        held.for_each(|class| holders[usize::from(class)] += 1);
        let mut buckets = vec![[0; BUCKETS]; self.counts.len()];
        for (class, bucket) in waiting {
            buckets[usize::from(class)][bucket] += 1;
            if let Some(parent) = buckets.get_mut(usize::from(self.counts[usize::from(class)].parent)) {
                parent[bucket] += 1;
            }
        }
        for (class, counts) in self.counts.iter().enumerate() {
            if self.free.contains(&(class as ClassId)) {
                assert_eq!((holders[class], counts.waiting_pages()), (0, 0), "class {class} is free");
                continue;
            }
            assert_eq!(holders[class], u32::from(counts.held), "holders of class {class}");
            assert_eq!(counts.waiting, buckets[class], "waiting pages of class {class}");
            assert!(self.values[class].iter().all(|value| value.is_finite() && *value >= 0.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::automatic::learn::kind::{LONGEST, SOON};

    fn once(step: u8) -> ClassId {
        Kind::once(step).class()
    }

    #[test]
    fn without_evidence_older_is_worse() {
        let classes = Classes::new(800.0, 100.0, 10, &Tuning::default());
        let ages = [0, 100, 1000, 5000];
        let values = ages.map(|age| classes.ages.value(classes.values(0), age));
        assert!(values.is_sorted_by(|a, b| a > b), "{values:?}");
    }

    /// The prior lifts the narrow youngest buckets; a loop's worth of evidence outweighs it.
    #[test]
    fn in_a_loop_older_is_better() {
        let mut classes = Classes::new(800.0, 10_000.0, 10, &Tuning::default());
        for _ in 0..1600 {
            classes.begin(0);
            classes.end(0, 0, 1600, true);
        }
        classes.refresh_cold(0);
        let ages = [0, 100, 400, 800, 1200];
        let value = |age| classes.ages.value(classes.values(0), age);
        assert!(ages.windows(2).all(|w| value(w[0]) < value(w[1])));
    }

    #[test]
    fn a_kind_without_evidence_is_like_the_next_unless_it_is_used_soon() {
        let mut classes = Classes::new(800.0, 10_000.0, 10, &Tuning::default());
        for _ in 0..1600 {
            classes.begin(once(2));
            classes.end(once(2), 0, 1600, true);
        }
        (0..STEPS).rev().for_each(|step| classes.refresh_cold(once(step)));
        classes.refresh_cold(Kind::NEW.class());
        let twice = Kind::once(2).used_again(2).class();
        classes.refresh_cold(twice);
        for (kind, rises) in [
            (Kind::NEW.class(), false),
            (once(SOON), false),
            (once(1), true),
            (once(2), true),
            (once(LONGEST), false),
            (twice, true),
        ] {
            let value = |age| classes.ages.value(classes.values(kind), age);
            assert_eq!(value(1200) > value(100), rises, "kind {kind}");
        }
    }

    #[test]
    fn the_longest_intervals_without_evidence_are_like_new_pages() {
        let mut classes = Classes::new(800.0, 10_000.0, 10, &Tuning::default());
        for _ in 0..1600 {
            classes.begin(Kind::NEW.class());
            classes.end(Kind::NEW.class(), 0, 1600, true);
        }
        let later = [LONGEST, LONGEST - 1].map(once);
        [Kind::NEW.class(), later[0], later[1]].into_iter().for_each(|kind| classes.refresh_cold(kind));
        for kind in later {
            let value = |age| classes.ages.value(classes.values(kind), age);
            assert!(value(1200) > value(100), "kind {kind}");
        }
    }

    #[test]
    fn pages_created_are_among_those_that_may_be_used_again() {
        let mut classes = Classes::new(800.0, 100.0, 10, &Tuning::default());
        for (kind, reused) in
            [(Kind::NEW, false), (Kind::NEW, false), (Kind::CREATED, true), (Kind::CREATED, false)]
        {
            classes.begin(kind.class());
            classes.end(kind.class(), 0, 100, reused);
        }
        assert_eq!(classes.reused_share(), 0.25);
    }

    #[test]
    fn steps_are_ordered_by_interval() {
        let classes = Classes::new(800.0, 100.0, 10, &Tuning::default());
        let steps = [0, 49, 50, 399, 400, 1599, 1600, u32::MAX].map(|age| classes.step(age));
        assert_eq!(steps, [0, 0, 1, 1, 2, 2, 3, 3]);
    }
}
