//! Answers of workloads, in a form that can be compared with the expected answer.

use anyhow::{Result, ensure};

use crate::random::mix;

/// The number of rows of a result, and a checksum over them that does not depend on their order.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Answer {
    /// Rows of the result.
    pub rows: u64,
    /// Sum of a hash of each row, modulo 2^64.
    pub checksum: u64,
}

impl Answer {
    /// Adds one row, which is two numbers.
    pub fn add(&mut self, left: u64, right: u64) {
        self.rows += 1;
        self.checksum = self.checksum.wrapping_add(mix(mix(left).wrapping_add(right)));
    }

    /// Adds all rows of another answer.
    pub fn merge(&mut self, other: Self) {
        self.rows += other.rows;
        self.checksum = self.checksum.wrapping_add(other.checksum);
    }

    /// Compares the answer with the expected one; `what` names the workload in the message.
    ///
    /// # Errors
    /// If it is not the expected one.
    pub fn check(self, what: &str, expected: Self) -> Result<()> {
        ensure!(
            self == expected,
            "wrong answer of {what}: expected {} rows with checksum {:016x}, got {} with {:016x}",
            expected.rows,
            expected.checksum,
            self.rows,
            self.checksum
        );
        Ok(())
    }
}

impl FromIterator<(u64, u64)> for Answer {
    fn from_iter<T: IntoIterator<Item = (u64, u64)>>(rows: T) -> Self {
        let mut answer = Self::default();
        for (left, right) in rows {
            answer.add(left, right);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter_but_every_row_does() {
        let rows = [(1, 2), (2, 1), (3, 3)];
        let answer: Answer = rows.into_iter().collect();
        let turned: Answer = rows.into_iter().rev().collect();
        answer.check("rows", turned).unwrap();
        let changed: Answer = [(1, 2), (2, 1), (3, 4)].into_iter().collect();
        let message = answer.check("a join", changed).unwrap_err().to_string();
        assert!(message.starts_with("wrong answer of a join: expected 3 rows"), "{message}");
        let fewer: Answer = rows.into_iter().take(2).collect();
        assert!(fewer.check("rows", answer).is_err());
    }
}
