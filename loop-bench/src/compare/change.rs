//! [`Change`]: how far a row or a subject has moved.

use std::fmt;

/// A row, or a subject, in two runs.
#[derive(Clone, Debug)]
pub struct Change {
    /// The workload with its parameters; empty for a subject over all of its rows.
    pub contest: String,
    /// Whose.
    pub subject: String,
    /// How many rows it speaks for.
    pub rows: usize,
    /// The logarithm of the ratio of the newer cost to the older: above 0, slower.
    pub change: f64,
    /// What the change would have to exceed to be flagged.
    pub limit: f64,
}

impl Change {
    /// Whether it is slower, beyond noise.
    pub fn is_slower(&self) -> bool {
        self.change > self.limit
    }

    /// Whether it is faster, beyond noise.
    pub fn is_faster(&self) -> bool {
        -self.change > self.limit
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { contest, subject, rows, change, limit } = self;
        if contest.is_empty() {
            write!(f, "{subject}, {rows} rows")?;
        } else {
            write!(f, "{contest}  {subject}")?;
        }
        write!(f, ": {:+.1} % (noise: up to {:.1} %)", percent(*change), percent(*limit))
    }
}

pub(super) fn percent(logarithm: f64) -> f64 {
    logarithm.exp_m1() * 100.0
}
