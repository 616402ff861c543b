//! The result of one published statement here, and how it compares.

use std::fmt;

/// The result of one published statement here.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The experiment, such as `A7`; with a `/` if the row shows a sensitivity and is no claim.
    pub id: &'static str,
    /// What is compared.
    pub what: String,
    /// The published value.
    pub published: String,
    /// Our value.
    pub ours: String,
    /// How far our value may be from the published one and count as reproduced.
    pub tolerance: String,
    /// How our value compares.
    pub verdict: Verdict,
}

/// How our result compares with a published one.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// Our value is within the stated tolerance.
    Reproduced,
    /// Our value is outside the tolerance, but within a factor of two, or of the same sign or in the same
    /// order; and why.
    SameOrder(String),
    /// Neither, and why.
    NotReproduced(String),
    /// The experiment needs something that is missing, and what that is.
    NotRun(String),
}

impl Verdict {
    /// The verdict by the ratio of `ours` to `published`: reproduced if it differs from 1 by at most
    /// `tolerance`, same order if it is from 0.5 to 2, else not reproduced; the latter two because of
    /// `reason`.
    pub fn of_ratio(published: f64, ours: f64, tolerance: f64, reason: &str) -> Self {
        let ratio = ours / published;
        if (ratio - 1.0).abs() <= tolerance {
            Self::Reproduced
        } else if (0.5..=2.0).contains(&ratio) {
            Self::SameOrder(reason.to_owned())
        } else {
            Self::NotReproduced(reason.to_owned())
        }
    }

    /// Reproduced if `holds`, else not reproduced because of `reason`.
    pub fn of(holds: bool, reason: &str) -> Self {
        if holds { Self::Reproduced } else { Self::NotReproduced(reason.to_owned()) }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reproduced => f.write_str("reproduced"),
            Self::SameOrder(reason) => write!(f, "same order: {reason}"),
            Self::NotReproduced(reason) => write!(f, "not reproduced: {reason}"),
            Self::NotRun(needs) => write!(f, "not run: {needs}"),
        }
    }
}

/// Numbers as findings list them: `819, 1024`.
pub(super) fn listed<T: ToString>(numbers: &[T]) -> String {
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_by_ratio_have_two_limits() {
        assert_eq!(Verdict::of_ratio(100.0, 109.0, 0.1, ""), Verdict::Reproduced);
        assert_eq!(Verdict::of_ratio(100.0, 111.0, 0.1, "why"), Verdict::SameOrder("why".to_owned()));
        assert_eq!(Verdict::of_ratio(100.0, 49.0, 0.1, "why"), Verdict::NotReproduced("why".to_owned()));
    }
}
