//! How long after an access its page is used again, learned per class of accesses.
//!
//! A class counts, by age, the sampled pages that were used again, those that were forgotten unused, and those still
//! waiting. The hazard of an age, the share of pages used again among those that reached it, is shrunk towards the
//! parent class, so that a class with little evidence decides like its parent.
//!
//! A page is worth what it can earn per time that it occupies a frame: over all ages at which one could give it up, the
//! best ratio of expected hits to expected time from its present age on. Older is thereby worse under a falling hazard,
//! which is LRU's order, and better in a loop, which is MRU's. Related: Gittins, "Bandit Processes and Dynamic
//! Allocation Indices", J. Royal Statistical Society B 41 (1979); Beckmann, Chen, Cidon, "LHD: Improving Cache Hit Rate
//! by Maximizing Hit Density", NSDI '18, whose classes have neither a site nor a stopping age.

/// No class.
pub(super) const NONE: u32 = u32::MAX;
/// The class of everything, and the ancestor of every class.
pub(super) const ROOT: u32 = 0;

/// Ages told apart: four buckets an octave over ten octaves.
const BUCKETS: usize = 40;
/// Buckets an octave, as a power of two.
const PER_OCTAVE_BITS: u32 = 2;
/// Ages below a 64th of the time in which all frames are replaced are one bucket: 64 to 1,024 give misses within 0.6 %.
const UNITS_PER_TURNOVER: f32 = 64.0;
/// Pages of the parent's kind that a class is presumed to have seen: 2 to 16 give misses within 0.1 %.
const PRIOR_PAGES: f32 = 4.0;
/// The hazard of a bucket before anything is known. Any constant gives LRU's order, since buckets widen with age.
const PRIOR_HAZARD: f32 = 0.05;
/// A class's values are worked out anew when this share of its evidence is new (a 16th to a quarter give
/// misses within 0.3 %), and more than `NEW_PAGES_MIN` pages.
const NEW_SHARE: f32 = 1.0 / 8.0;
const NEW_PAGES_MIN: f32 = 4.0;

/// Counts of one class by age.
struct Class {
    /// Pages used again; ageing.
    reused: [f32; BUCKETS],
    /// Pages used again or forgotten; ageing.
    ended: [f32; BUCKETS],
    /// Pages still waiting, by their age when last looked at.
    waiting: [u32; BUCKETS],
    hazard: [f32; BUCKETS],
    /// Value at the start of each bucket.
    value: [f32; BUCKETS + 1],
    /// The sum of `ended`, and the part of it that was not young.
    ended_pages: f32,
    ended_old_pages: f32,
    /// Evidence since the values were worked out.
    new_pages: f32,
}

impl Class {
    fn new(hazard: [f32; BUCKETS], value: [f32; BUCKETS + 1]) -> Self {
        Self {
            reused: [0.0; BUCKETS],
            ended: [0.0; BUCKETS],
            waiting: [0; BUCKETS],
            hazard,
            value,
            ended_pages: 0.0,
            ended_old_pages: 0.0,
            new_pages: 0.0,
        }
    }
}

/// All classes of a tenant. About 850 bytes a class; slots of classes that nobody uses are used again.
pub(super) struct Classes {
    classes: Vec<Class>,
    parents: Vec<u32>,
    /// Per class: streams, frames, samples and child classes that refer to it.
    users: Vec<u32>,
    free: Vec<u32>,
    units_per_time: f32,
    /// The age at which each bucket begins.
    begins: [f32; BUCKETS + 1],
    /// Ages below this bucket are young: they say nothing about whom to replace.
    young: usize,
    /// Old pages after which a class halves its counts.
    memory_pages: f32,
}

impl Classes {
    /// `turnover_time`: the time in which all frames are replaced when every access misses. `memory_pages`: how many
    /// pages, not used again while young, a class remembers.
    pub fn new(turnover_time: f32, memory_pages: f32) -> Self {
        let units_per_time = UNITS_PER_TURNOVER / turnover_time;
        let begins = std::array::from_fn(|bucket| (bound(bucket) - 1.0) / units_per_time);
        let mut classes = Self {
            classes: vec![Class::new([PRIOR_HAZARD; BUCKETS], [0.0; BUCKETS + 1])],
            parents: vec![NONE],
            users: vec![1],
            free: Vec::new(),
            units_per_time,
            begins,
            young: 0,
            memory_pages,
        };
        classes.young = classes.bucket((turnover_time / 8.0) as u32);
        classes.work_out(ROOT);
        classes
    }

    /// A class that knows what `parent` knows. The caller uses it: see [`release`](Self::release).
    pub fn add(&mut self, parent: u32) -> u32 {
        self.retain(parent);
        let from = &self.classes[parent as usize];
        let class = Class::new(from.hazard, from.value);
        if let Some(slot) = self.free.pop() {
            self.classes[slot as usize] = class;
            self.parents[slot as usize] = parent;
            self.users[slot as usize] = 1;
            return slot;
        }
        self.classes.push(class);
        self.parents.push(parent);
        self.users.push(1);
        self.classes.len() as u32 - 1
    }

    /// One more user of `class`.
    #[inline]
    pub fn retain(&mut self, class: u32) {
        self.users[class as usize] += 1;
    }

    /// One user less. A class without users is gone, and with it its use of its parent.
    #[inline]
    pub fn release(&mut self, mut class: u32) {
        loop {
            let users = &mut self.users[class as usize];
            *users -= 1;
            if *users > 0 {
                return;
            }
            self.free.push(class);
            class = self.parents[class as usize];
        }
    }

    /// The bucket of an age.
    #[inline]
    pub fn bucket(&self, age: u32) -> usize {
        let units = age as f32 * self.units_per_time + 1.0;
        let bucket = (units.to_bits() >> (23 - PER_OCTAVE_BITS)) - (127 << PER_OCTAVE_BITS);
        (bucket as usize).min(BUCKETS - 1)
    }

    /// A sampled page was used in `class`.
    pub fn begin(&mut self, class: u32) {
        self.for_line(class, |class| class.waiting[0] += 1);
        self.refresh(class);
    }

    /// A sampled page of `class` waits on: it is now in another bucket.
    pub fn wait(&mut self, class: u32, from: usize, to: usize) {
        self.for_line(class, |class| {
            class.waiting[from] -= 1;
            class.waiting[to] += 1;
            class.new_pages += 0.5;
        });
    }

    /// A sampled page of `class`, counted as waiting in bucket `counted`, was used again or forgotten at `age`.
    pub fn end(&mut self, class: u32, counted: usize, age: u32, reused: bool) {
        let bucket = self.bucket(age);
        let (reused, old) = (f32::from(reused), f32::from(bucket >= self.young));
        self.for_line(class, |class| {
            class.waiting[counted] -= 1;
            class.reused[bucket] += reused;
            class.ended[bucket] += 1.0;
            class.ended_pages += 1.0;
            class.ended_old_pages += old;
            class.new_pages += 1.0;
        });
    }

    /// What a page of `class` and `age` is worth: expected hits per time.
    #[inline]
    pub fn value(&self, class: u32, age: u32) -> f32 {
        let bucket = self.bucket(age);
        let value = &self.classes[class as usize].value;
        let (begin, end) = (self.begins[bucket], self.begins[bucket + 1]);
        let part = ((age as f32 - begin) / (end - begin)).min(1.0);
        value[bucket] + (value[bucket + 1] - value[bucket]) * part
    }

    /// Works out the values of `class`, and of its ancestors first, if enough is new. Amortised O(1) an event.
    #[inline]
    pub fn refresh(&mut self, class: u32) {
        let counts = &self.classes[class as usize];
        if counts.new_pages > NEW_PAGES_MIN && counts.new_pages > NEW_SHARE * counts.ended_pages {
            self.refresh_cold(class);
        }
    }

    #[cold]
    fn refresh_cold(&mut self, class: u32) {
        if class != ROOT {
            self.refresh(self.parents[class as usize]);
        }
        self.work_out(class);
    }

    fn work_out(&mut self, class: u32) {
        let prior = match self.parents[class as usize] {
            NONE => [PRIOR_HAZARD; BUCKETS],
            parent => self.classes[parent as usize].hazard,
        };
        let counts = &mut self.classes[class as usize];
        if counts.ended_old_pages > self.memory_pages {
            counts.reused.iter_mut().chain(&mut counts.ended).for_each(|count| *count *= 0.5);
            counts.ended_pages *= 0.5;
            counts.ended_old_pages *= 0.5;
        }
        counts.new_pages = 0.0;
        let mut reached = 0.0;
        for bucket in (0..BUCKETS).rev() {
            let waiting = counts.waiting[bucket] as f32;
            let at_risk = reached + counts.ended[bucket] + 0.5 * waiting;
            reached += counts.ended[bucket] + waiting;
            let reused = counts.reused[bucket] + PRIOR_PAGES * prior[bucket];
            counts.hazard[bucket] = (reused / (at_risk + PRIOR_PAGES)).min(0.9999);
        }
        counts.value = values(&counts.hazard, &self.begins);
    }

    /// Applies `change` to the class and its ancestors.
    #[inline]
    fn for_line(&mut self, mut class: u32, mut change: impl FnMut(&mut Class)) {
        while class != NONE {
            change(&mut self.classes[class as usize]);
            class = self.parents[class as usize];
        }
    }

    pub fn metadata_bytes(&self) -> usize {
        self.classes.capacity() * size_of::<Class>()
            + (self.parents.capacity() + self.users.capacity() + self.free.capacity()) * size_of::<u32>()
    }

    /// Panics unless `users` of streams, frames and samples and `waiting` samples, given as (class, bucket), are what
    /// the classes count.
    pub fn check_invariants(
        &self,
        users: impl Iterator<Item = u32>,
        waiting: impl Iterator<Item = (u32, usize)>,
    ) {
        let mut counted = vec![0; self.classes.len()];
        counted[ROOT as usize] = 1;
        users.for_each(|class| counted[class as usize] += 1);
        let free = |class: usize| self.free.contains(&(class as u32));
        for class in (0..self.classes.len()).filter(|class| !free(*class)) {
            if let Some(count) = counted.get_mut(self.parents[class] as usize) {
                *count += 1;
            }
        }
        let mut buckets = vec![[0; BUCKETS]; self.classes.len()];
        for (mut class, bucket) in waiting {
            while class != NONE {
                buckets[class as usize][bucket] += 1;
                class = self.parents[class as usize];
            }
        }
        for class in (0..self.classes.len()).filter(|class| !free(*class)) {
            assert_eq!(self.users[class], counted[class], "users of class {class}");
            assert_eq!(self.classes[class].waiting, buckets[class], "waiting pages of class {class}");
            assert!(self.classes[class].value.iter().all(|value| value.is_finite() && *value >= 0.0));
        }
    }
}

/// The lower bound of a bucket, in units from 1.
fn bound(bucket: usize) -> f32 {
    f32::from_bits((bucket as u32 + (127 << PER_OCTAVE_BITS)) << (23 - PER_OCTAVE_BITS))
}

/// The value at the start of each bucket: the steepest slope, from there to any later point, of expected hits over
/// expected time. One pass from the right over the upper hull of the points.
fn values(hazard: &[f32; BUCKETS], begins: &[f32; BUCKETS + 1]) -> [f32; BUCKETS + 1] {
    let (mut time, mut hits, mut alive) = ([0.0; BUCKETS + 1], [0.0; BUCKETS + 1], 1.0f32);
    for bucket in 0..BUCKETS {
        let (width, hazard) = (begins[bucket + 1] - begins[bucket], hazard[bucket]);
        time[bucket + 1] = time[bucket] + alive * width * (1.0 - 0.5 * hazard);
        hits[bucket + 1] = hits[bucket] + alive * hazard;
        alive *= 1.0 - hazard;
    }
    let slope = |from: usize, to: usize| {
        let spent = time[to] - time[from];
        if spent > 0.0 { (hits[to] - hits[from]) / spent } else { 0.0 }
    };
    let mut value = [0.0; BUCKETS + 1];
    let (mut hull, mut corners) = ([BUCKETS; BUCKETS + 1], 1);
    for bucket in (0..BUCKETS).rev() {
        while corners >= 2 && slope(bucket, hull[corners - 1]) <= slope(bucket, hull[corners - 2]) {
            corners -= 1;
        }
        value[bucket] = slope(bucket, hull[corners - 1]);
        hull[corners] = bucket;
        corners += 1;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hull against the definition: the best ratio over all ages at which to give up.
    #[test]
    fn values_equal_the_best_stopping_age() {
        let begins: [f32; BUCKETS + 1] = std::array::from_fn(|bucket| bound(bucket) - 1.0);
        let mut random = crate::random::SplitMix64::new(1);
        for _ in 0..200 {
            let hazard: [f32; BUCKETS] =
                std::array::from_fn(|_| (random.unit() * random.unit() * random.unit()) as f32);
            let value = values(&hazard, &begins);
            for (from, value) in value.iter().take(BUCKETS).enumerate() {
                let (mut time, mut hits, mut alive, mut best) = (0.0f64, 0.0f64, 1.0f64, 0.0f64);
                for bucket in from..BUCKETS {
                    let hazard = f64::from(hazard[bucket]);
                    let width = f64::from(begins[bucket + 1] - begins[bucket]);
                    time += alive * width * (1.0 - 0.5 * hazard);
                    hits += alive * hazard;
                    alive *= 1.0 - hazard;
                    best = best.max(hits / time);
                }
                // Sums in single precision lose what little is left alive at the end.
                if best > 1e-3 {
                    assert!((f64::from(*value) / best - 1.0).abs() < 0.05, "{value} {best}");
                }
            }
        }
    }

    #[test]
    fn without_evidence_older_is_worse() {
        let classes = Classes::new(800.0, 100.0);
        let ages = [0, 10, 100, 1000, 5000];
        assert!(ages.windows(2).all(|w| classes.value(ROOT, w[0]) > classes.value(ROOT, w[1])));
    }

    /// The prior lifts the narrow youngest buckets; a loop's worth of evidence outweighs it.
    #[test]
    fn in_a_loop_older_is_better() {
        let mut classes = Classes::new(800.0, 10_000.0);
        for _ in 0..1600 {
            classes.begin(ROOT);
            classes.end(ROOT, 0, 1600, true);
        }
        classes.work_out(ROOT);
        let ages = [0, 100, 400, 800, 1200];
        assert!(ages.windows(2).all(|w| classes.value(ROOT, w[0]) < classes.value(ROOT, w[1])));
    }
}
