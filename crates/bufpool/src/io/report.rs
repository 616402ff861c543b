//! The report of a backend about itself.

use std::fmt;

/// Which backend runs, with what, and the reason for each step down. `Display` prints it in lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoReport {
    /// `uring`, `threads` or `sim`; `none` in the child of a fork.
    pub backend: &'static str,
    /// What is in use: flags, registrations, depth.
    pub features: Vec<String>,
    /// What was tried or wanted and is not in use, each with the reason.
    pub steps_down: Vec<String>,
}

impl fmt::Display for IoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "I/O backend: {}", self.backend)?;
        for feature in &self.features {
            write!(f, "\n  with {feature}")?;
        }
        for step in &self.steps_down {
            write!(f, "\n  without {step}")?;
        }
        Ok(())
    }
}
