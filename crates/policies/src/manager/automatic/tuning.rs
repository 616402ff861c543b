//! The constants that are chosen, not derived.

/// A constant of [`Tuning`], to be looked at and changed by its name.
#[derive(Clone, Copy, Debug)]
pub struct TuningConstant {
    /// The name of the field.
    pub name: &'static str,
    get: fn(&Tuning) -> f64,
    scale: fn(&mut Tuning, f64),
}

impl TuningConstant {
    /// What `tuning` has.
    pub fn get(&self, tuning: &Tuning) -> f64 {
        (self.get)(tuning)
    }

    /// `tuning` with this constant times `factor`; counts are rounded down.
    pub fn scaled(&self, tuning: &Tuning, factor: f64) -> Tuning {
        let mut scaled = *tuning;
        (self.scale)(&mut scaled, factor);
        scaled
    }
}

macro_rules! tuning {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr,)*) => {
        /// The constants of the automatic manager that are chosen.
        ///
        /// All other numbers of it follow from these, from the size of the cache, or are the sizes of tables.
        /// `bufbench tune` prints what other values do to misses; each constant was tried at half and at
        /// twice its value on `crates/bench/traces/tuning.list`, where no mean moved by 0.5 %. Of
        /// `created_worth` and `instead_of_held` those traces say nothing.
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct Tuning {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl Default for Tuning {
            fn default() -> Self {
                Self { $($name: $value,)* }
            }
        }

        impl Tuning {
            /// The constants, in the order of the fields.
            pub const CONSTANTS: &'static [TuningConstant] = &[$(TuningConstant {
                name: stringify!($name),
                get: |tuning| tuning.$name as f64,
                scale: |tuning, factor| tuning.$name = (tuning.$name as f64 * factor) as $type,
            },)*];
        }
    };
}

tuning! {
    /// The time that a miss takes, where a hit takes 1; at least 1. Only misses compete for frames. But where
    /// nearly all accesses hit, a large value gives all pages used between two misses nearly the same age,
    /// and a value of 1 makes ages count hits alone.
    time_per_miss: u32 = 8,
    /// Sampled pages remembered for each that the cache can hold; at least 1. A loop longer than that is not
    /// seen as one. A sample costs 60 bytes; so small pools remember at most a page a frame
    /// and 4,900 more.
    reach: u32 = 4,
    /// Frames of the largest pool in which every page is sampled. The miniatures are exact where there are
    /// few accesses to choose by; a hit on a sampled page costs four times one on another.
    small_pool: u32 = 4095,
    /// The interval, in turnovers, below which a page that is used again would stay under any policy. It
    /// divides the first two steps of intervals; the further bounds are 8 and 32 times as long.
    soon_turnovers: f32 = 1.0 / 16.0,
    /// The weight, in pages, of what a stream's class presumes before it has evidence. What the tenant's
    /// classes presume weighs four times as much.
    prior_pages: f32 = 1.0,
    /// How many times as much as a page that was read one with new contents is presumed to be worth, until
    /// it is used. Few traces say which accesses create; values from 1 to 8 were tried on an external sort
    /// (`bufbench live`), which reads 1.06, 1.05, 1.05 and 1.07 times what directives need at 1, 2, 4 and 8.
    created_worth: f32 = 2.0,
    /// The share of pages that must have been used again, when the pool is full for the first time, for ARC
    /// to be trusted. Where nothing comes back, that ARC prefers what was used twice is a guess, and LRU is
    /// not worse than any.
    first_reuse_share: f32 = 1.0 / 16.0,
    /// The share from which on ARC is not trusted: where most pages come back, it tells little that a page
    /// was used twice. Values are trusted below half of this share.
    first_reuse_end: f32 = 0.5,
    /// The regret with which values begin unless something speaks for them, in distances. ARC begins with
    /// three quarters of it, and LRU with a third if something speaks for another expert.
    prior_regret: f32 = 0.2,
    /// The least distance of two experts, as a share of the pages that a shadow holds. Where both hold nearly
    /// the same, and in a sample, single misses are chance.
    distance_min_share: f32 = 0.1,
    /// The run of pages used again in order from which on a stream counts as going round, as a share of the
    /// pages that the cache holds. A loop that LRU misses has more pages than the cache, so one pass suffices
    /// for such a run.
    run_share: f32 = 0.25,
    /// Of the pages of a stream that goes round and that are not young, the largest share that may stay
    /// unused if its pages are to be valued by their turn.
    out_of_turn_share: f32 = 0.1,
    /// What a stray is worth when it is used, in hits per turnover; its value falls to 0 within 1/128 of a
    /// turnover. In a loop that just does not fit the cache but mostly hits, the turn of a page comes an
    /// eighth of a turnover after its use, so a page just used is worth 8. With 16, a stray goes before such
    /// a page after 1/256 of a turnover.
    stray_value: f32 = 16.0,
    /// Where the page worth least and its neighbours are held and cannot go: the share of the worth of the
    /// ledger's oldest page below which another page goes instead; else the oldest does. With the oldest
    /// goes what is out of date. Values from 1/100 to 1 were tried on the main job and on SQLite (`bufbench
    /// --deterministic`, `compare_sqlite`): joins and sorts read less with large ones, lookups that change
    /// with small ones.
    instead_of_held: f32 = 0.25,
    /// The share of a stream's overrules that must be right for it to keep its say. It is low because
    /// mistakes are no proof of a fault: of two pages used at random, either may come back first; and a page
    /// of a loop that was given up comes back before one that stays and is never used.
    right_share: f32 = 0.1,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_constant_is_scaled_by_itself() {
        let tuning = Tuning { reach: 3, right_share: 0.3, ..Tuning::default() };
        for constant in Tuning::CONSTANTS {
            let doubled = constant.scaled(&tuning, 2.0);
            for other in Tuning::CONSTANTS {
                let factor = if other.name == constant.name { 2.0 } else { 1.0 };
                assert_eq!(other.get(&doubled), factor * other.get(&tuning), "{}", other.name);
            }
        }
    }
}
