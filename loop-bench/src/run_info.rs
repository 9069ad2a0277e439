//! [`RunInfo`]: how a run was done.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::machine::line_of;
use crate::pin::Pins;
use crate::round::Plan;

/// How a run was done: the second line of its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInfo {
    /// The version of `loop-bench`.
    pub version: String,
    /// When it began, in UTC.
    pub date: String,
    /// What repeats it.
    pub seed: u64,
    /// Smaller sizes and fewer rounds.
    pub quick: bool,
    /// Counted rounds of each subject.
    pub rounds: usize,
    /// Over how many processes the rounds are spread, one after another. Files of older versions, in which it was one, do not say it.
    #[serde(default = "one")]
    pub passes: usize,
    /// The cores of the server and of the rest, `0,1`, or `none`.
    pub pins: String,
}

impl RunInfo {
    /// Of a run that begins now.
    pub fn new(plan: &Plan, passes: usize, pins: Option<Pins>) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            date: line_of("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]).unwrap_or_default(),
            seed: plan.seed,
            quick: plan.quick,
            rounds: plan.rounds(),
            passes,
            pins: pins.map_or_else(|| "none".into(), |pins| pins.to_string()),
        }
    }
}

fn one() -> usize {
    1
}

impl fmt::Display for RunInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, rounds, passes, pins, .. } = self;
        write!(f, "seed {seed}, {rounds} rounds")?;
        if *passes > 1 {
            write!(f, " in {passes} passes")?;
        }
        write!(f, ", cores {pins}")
    }
}
