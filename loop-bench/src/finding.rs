//! [`Finding`]: what a probe found, and [`Probe`]: a measurement that is no contest.

use std::fmt;

use crate::bar::Verdict;
use crate::sample::Plan;

/// A measurement that is not made by timing rounds of a contest: counted calls, instructions, pairs.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Its full name, `selectors/calls`.
    pub name: &'static str,
    /// Makes it. May run the present program again, under a profiler, which must be `loop-bench`.
    pub run: fn(&Plan) -> Vec<Finding>,
}

/// What came of a probe.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// A ratio, held against its bar.
    Held(Verdict),
    /// Nothing, because something is missing on this machine.
    NotMeasured {
        /// What was to be measured.
        what: String,
        /// What is missing.
        why: String,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(verdict) => verdict.fmt(f),
            Self::NotMeasured { what, why } => write!(f, "{what}: not measured: {why}"),
        }
    }
}
