//! [`Plan`], [`Lap`], [`Wrong`]: how a round is to be done, what it took, what can go wrong.

use std::fmt;
use std::time::{Duration, Instant};

/// How a run is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Smaller sizes and fewer rounds.
    pub quick: bool,
    /// Decides the data and the order of the subjects.
    pub seed: u64,
    rounds: usize,
}

impl Plan {
    /// Smaller sizes and three rounds.
    pub const fn quick(seed: u64) -> Self {
        Self { quick: true, seed, rounds: 3 }
    }

    /// Full sizes and nine rounds.
    pub const fn full(seed: u64) -> Self {
        Self { quick: false, seed, rounds: 9 }
    }

    /// Either of the two.
    pub const fn new(quick: bool, seed: u64) -> Self {
        if quick { Self::quick(seed) } else { Self::full(seed) }
    }

    /// With another number of rounds, at least one.
    pub const fn with_rounds(self, rounds: usize) -> Self {
        Self { rounds: if rounds == 0 { 1 } else { rounds }, ..self }
    }

    /// Counted rounds of each subject, after one that warms up.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// `quick` or `full`, whichever the plan is.
    pub fn size<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// An answer that is not the one the workload knows to be right, or none at all: what was expected
/// and what came. One of these makes the whole run fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

impl Wrong {
    /// `Ok` if the two are equal, else what differs.
    pub fn unless_equal<T: PartialEq + fmt::Debug>(
        what: &str,
        found: T,
        expected: T,
    ) -> Result<(), Self> {
        if found == expected {
            return Ok(());
        }
        Err(Self(format!("{what}: found {found:?}, expected {expected:?}")))
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

impl From<std::io::Error> for Wrong {
    fn from(error: std::io::Error) -> Self {
        Self(format!("input/output: {error}"))
    }
}

/// What one round of one subject took: the time of the measured part alone, and the operations in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lap {
    /// Of the measured part, without set-up and checks.
    pub elapsed: Duration,
    /// How many operations the measured part did.
    pub ops: u64,
}

impl Lap {
    /// Times `work`, which does `ops` operations.
    pub fn time<R>(ops: u64, work: impl FnOnce() -> R) -> (Self, R) {
        let start = Instant::now();
        let result = work();
        (Self { elapsed: start.elapsed(), ops }, result)
    }

    /// For a contest that [measures](crate::Contest::measuring) bytes: `bytes` in the place of nanoseconds.
    pub fn of_bytes(bytes: u64, ops: u64) -> Self {
        Self { elapsed: Duration::from_nanos(bytes), ops }
    }

    /// The two laps as one.
    pub fn plus(self, other: Self) -> Self {
        Self { elapsed: self.elapsed + other.elapsed, ops: self.ops + other.ops }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unless_equal_names_both_sides() {
        assert_eq!(Wrong::unless_equal("sum", 3, 3), Ok(()));
        let wrong = Wrong::unless_equal("sum", 3, 4).unwrap_err();
        assert_eq!(wrong.to_string(), "sum: found 3, expected 4");
    }
}
