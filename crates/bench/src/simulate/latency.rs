//! What an access takes in a hierarchy of two caches, by the model of T. M. Wong and J. Wilkes: "My cache or
//! yours? Making storage more exclusive", USENIX ATC '02.

use std::str::FromStr;

use super::tally::Counts;

/// Times of a lower cache and of the source, in milliseconds. A hit of the client takes none.
///
/// Written as `t_a=0.2,t_d=10`, and behind that `t_abort`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latency {
    /// To read a page from the lower cache or through it, and to demote one: `t_a`.
    pub tier_ms: f64,
    /// To read a page that the lower cache does not have, beyond `tier_ms`: `t_d`.
    pub source_ms: f64,
    /// To demote a page that the lower cache has: `t_abort`; `None` for `tier_ms`.
    pub abort_ms: Option<f64>,
}

impl Default for Latency {
    fn default() -> Self {
        Self { tier_ms: 0.2, source_ms: 10.0, abort_ms: None }
    }
}

impl Latency {
    /// The mean time of an access in milliseconds; `None` if there are no accesses.
    pub fn mean_ms(&self, counts: &Counts) -> Option<f64> {
        let [misses, tier_hits, demotions, aborted] =
            [counts.misses(), counts.tier_hits, counts.demotions, counts.aborted].map(|count| count as f64);
        let abort_ms = self.abort_ms.unwrap_or(self.tier_ms);
        let demoting = self.tier_ms * (demotions - aborted) + abort_ms * aborted;
        let reading = self.tier_ms * misses + self.source_ms * (misses - tier_hits);
        (counts.accesses > 0).then(|| (reading + demoting) / counts.accesses as f64)
    }
}

impl FromStr for Latency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut latency = Self::default();
        let mut is_set = Vec::new();
        for assignment in text.split(',') {
            let wrong = |expected: &str| format!("expected {expected}, found `{assignment}`");
            let (key, value) = assignment.split_once('=').ok_or_else(|| wrong("KEY=VALUE"))?;
            let number = value.parse::<f64>().ok().filter(|ms| (0.0..=1e9).contains(ms));
            let ms =
                number.ok_or_else(|| wrong(&format!("{key} a number of milliseconds from 0 to 10^9")))?;
            match key {
                "t_a" => latency.tier_ms = ms,
                "t_d" => latency.source_ms = ms,
                "t_abort" => latency.abort_ms = Some(ms),
                _ => return Err(wrong("one of the keys t_a, t_d, t_abort")),
            }
            if is_set.contains(&key) {
                return Err(wrong(&format!("{key} once")));
            }
            is_set.push(key);
        }
        Ok(latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_wrong_ones_refused() {
        let expected = Latency { tier_ms: 0.1, source_ms: 5.0, abort_ms: Some(0.16) };
        assert_eq!("t_d=5,t_abort=0.16,t_a=0.1".parse(), Ok(expected));
        assert_eq!("t_d=10".parse(), Ok(Latency::default()));
        for (text, message) in [
            ("", "expected KEY=VALUE"),
            ("t_a", "expected KEY=VALUE, found `t_a`"),
            ("t_x=1", "one of the keys t_a, t_d, t_abort"),
            ("t_a=-1", "t_a a number of milliseconds from 0"),
            ("t_a=NaN", "t_a a number"),
            ("t_a=1,t_a=2", "expected t_a once"),
        ] {
            let error = text.parse::<Latency>().unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn misses_demotions_and_source_reads_take_their_times() {
        let counts =
            Counts { accesses: 10, hits: 2, tier_hits: 3, demotions: 4, aborted: 1, ..Counts::default() };
        let latency = Latency { tier_ms: 1.0, source_ms: 100.0, abort_ms: None };
        assert_eq!(latency.mean_ms(&counts), Some((8.0 + 500.0 + 4.0) / 10.0));
        let aborting = Latency { abort_ms: Some(0.5), ..latency };
        assert_eq!(aborting.mean_ms(&counts), Some((8.0 + 500.0 + 3.5) / 10.0));
        assert_eq!(latency.mean_ms(&Counts::default()), None);
    }
}
