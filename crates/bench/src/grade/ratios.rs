//! Misses of a policy, each divided by those of a reference at the same point.

/// Ratios of misses, one a point.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Ratios(Vec<f64>);

impl Ratios {
    /// The number of points.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The geometric mean; `None` if there are no points.
    pub fn mean(&self) -> Option<f64> {
        let logarithms: f64 = self.0.iter().map(|ratio| ratio.ln()).sum();
        (!self.0.is_empty()).then(|| (logarithms / self.0.len() as f64).exp())
    }

    /// The greatest ratio; `None` if there are no points.
    pub fn worst(&self) -> Option<f64> {
        self.0.iter().copied().max_by(f64::total_cmp)
    }

    /// The part of the points, from 0 to 1, whose ratio is above `limit`; `None` if there are no points.
    pub fn share_above(&self, limit: f64) -> Option<f64> {
        let above = self.0.iter().filter(|ratio| **ratio > limit).count();
        (!self.0.is_empty()).then(|| above as f64 / self.0.len() as f64)
    }
}

impl FromIterator<f64> for Ratios {
    fn from_iter<I: IntoIterator<Item = f64>>(ratios: I) -> Self {
        Self(ratios.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_geometric_and_shares_count_what_is_above() {
        let ratios: Ratios = [0.5, 2.0, 1.0, 1.02].into_iter().collect();
        assert!((ratios.mean().unwrap() - 1.02_f64.powf(0.25)).abs() < 1e-12);
        assert_eq!((ratios.worst(), ratios.share_above(1.02)), (Some(2.0), Some(0.25)));
        let none = Ratios::default();
        assert_eq!((none.count(), none.mean(), none.worst(), none.share_above(1.0)), (0, None, None, None));
    }
}
