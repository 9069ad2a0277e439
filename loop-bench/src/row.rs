//! [`Row`]: one result.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::params::Params;
use crate::stats::Summary;

/// One result: a subject in a contest.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The workload's full name, `timers/churn`.
    pub workload: Cow<'static, str>,
    /// The subject's name, `tokio-util`.
    pub subject: String,
    /// The numbers that shape the workload.
    pub params: Params,
    /// What the rounds count; less is better in every unit there is.
    pub unit: Cow<'static, str>,
    /// The counted rounds, in the order in which they were run. The same place in two rows of one
    /// contest is the same round: the same data, at nearly the same time.
    pub rounds: Vec<f64>,
    /// Of the rounds.
    pub summary: Summary,
    /// The processor time of each of the rounds, nanoseconds an operation, if it was measured: of all threads, with
    /// set-up, load generator and checks. What else the machine does hardly moves it.
    pub processor: Vec<f64>,
    /// What else an operation costs.
    pub costs: Costs,
    /// The latencies at rising percentiles, if the workload records them: pairs of a percentile and
    /// nanoseconds.
    pub curve: Vec<(f64, f64)>,
    /// Whether it was computed from other rows, and measured nothing of its own.
    pub derived: bool,
}

impl Row {
    /// A result of rounds alone; `None` if there are none.
    pub fn of(
        workload: impl Into<Cow<'static, str>>,
        subject: impl Into<String>,
        params: impl Into<Params>,
        unit: impl Into<Cow<'static, str>>,
        rounds: Vec<f64>,
    ) -> Option<Self> {
        Some(Self {
            workload: workload.into(),
            subject: subject.into(),
            params: params.into(),
            unit: unit.into(),
            summary: Summary::of(&rounds)?,
            rounds,
            processor: Vec::new(),
            costs: Costs::default(),
            curve: Vec::new(),
            derived: false,
        })
    }

    /// The workload's family, `timers`.
    pub fn family(&self) -> &str {
        self.workload.split('/').next().unwrap_or_default()
    }

    /// Whether two rows are of one contest.
    pub fn is_beside(&self, other: &Self) -> bool {
        self.workload == other.workload && self.params == other.params
    }

    /// Whether the subject is of this project: its crates all begin so, and no rival does.
    pub fn is_ours(&self) -> bool {
        is_ours(&self.subject)
    }

    /// The result of both rows' rounds, those of `earlier` first: what one subject did in one contest, twice. Of costs
    /// and curves, which are medians and percentiles already, it has the means; what is counted stays as it is here.
    pub fn after(self, earlier: &Self) -> Self {
        let rounds = [&earlier.rounds[..], &self.rounds].concat();
        let (before, here) = (earlier.rounds.len() as f64, self.rounds.len() as f64);
        let mean = |a: f64, b: f64| (a * before + b * here) / (before + here);
        let both = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| mean(a, b));
        let costs = Costs {
            user: both(earlier.costs.user, self.costs.user),
            system: both(earlier.costs.system, self.costs.system),
            ..self.costs
        };
        let point = |&(percentile, nanos): &(f64, f64)| {
            let same = earlier.curve.iter().find(|point| point.0 == percentile)?;
            Some((percentile, mean(same.1, nanos)))
        };
        Self {
            summary: Summary::of(&rounds).unwrap_or(self.summary),
            rounds,
            processor: [&earlier.processor[..], &self.processor].concat(),
            costs,
            curve: self.curve.iter().filter_map(point).collect(),
            ..self
        }
    }

    /// The same subject's result by another measure: each round divided by `divisor`; a derived row.
    /// Costs and curve stay behind.
    pub fn scaled(
        &self,
        workload: impl Into<Cow<'static, str>>,
        unit: impl Into<Cow<'static, str>>,
        divisor: f64,
    ) -> Self {
        let Summary { median, min, max, samples } = self.summary;
        let summary =
            Summary { median: median / divisor, min: min / divisor, max: max / divisor, samples };
        Self {
            workload: workload.into(),
            subject: self.subject.clone(),
            params: self.params.clone(),
            unit: unit.into(),
            rounds: self.rounds.iter().map(|round| round / divisor).collect(),
            summary,
            processor: Vec::new(),
            costs: Costs::default(),
            curve: Vec::new(),
            derived: true,
        }
    }
}

/// Rows of one contest, side by side, in the order of their first.
pub(crate) fn contests<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<Vec<&'a Row>> {
    let mut contests: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        match contests.iter_mut().find(|contest| contest[0].is_beside(row)) {
            Some(contest) => contest.push(row),
            None => contests.push(vec![row]),
        }
    }
    contests
}

/// See [`Row::is_ours`].
pub(crate) fn is_ours(subject: &str) -> bool {
    subject.starts_with("loop-")
}

/// What an operation costs besides the time of the measured part: medians of the rounds. Processor
/// time is that of the whole process and the whole round, with set-up, load generator and checks,
/// which are the same for all subjects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Costs {
    /// Nanoseconds of processor time outside the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<f64>,
    /// Nanoseconds of processor time inside the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<f64>,
    /// Instructions outside the kernel, counted by callgrind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
    /// Calls of `malloc` and its relatives, counted by callgrind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocations: Option<f64>,
    /// System calls, counted by strace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<f64>,
    /// The most memory that a process held which did one round and nothing else, in bytes; not
    /// divided by operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident: Option<f64>,
}

impl Costs {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_beside_each_other_if_workload_and_params_agree() {
        let row =
            |workload: &'static str, n| Row::of(workload, "a", [("n", n)], "ns/op", vec![1.0]);
        let (a, b, c) = (row("w/a", 1), row("w/a", 2), row("w/b", 1));
        assert!(a.clone().unwrap().is_beside(&a.clone().unwrap()));
        assert!(!a.clone().unwrap().is_beside(&b.unwrap()));
        assert!(!a.unwrap().is_beside(&c.unwrap()));
        assert_eq!(Row::of("w", "a", [], "ns/op", vec![]), None);
    }

    #[test]
    fn a_row_after_another_has_the_rounds_of_both() {
        let row = |rounds: &[f64], user, curve: &[(f64, f64)]| Row {
            processor: rounds.to_vec(),
            costs: Costs { user: Some(user), instructions: Some(7.0), ..Costs::default() },
            curve: curve.to_vec(),
            ..Row::of("w/a", "a", [], "ns/op", rounds.to_vec()).unwrap()
        };
        let earlier = row(&[4.0, 1.0, 2.0], 8.0, &[(50.0, 10.0), (90.0, 30.0), (100.0, 50.0)]);
        let joined = row(&[3.0], 4.0, &[(50.0, 6.0), (100.0, 10.0)]).after(&earlier);
        assert_eq!(joined.rounds, [4.0, 1.0, 2.0, 3.0]);
        assert_eq!(joined.processor, joined.rounds);
        assert_eq!(Summary::of(&joined.rounds), Some(joined.summary));
        assert_eq!((joined.costs.user, joined.costs.system), (Some(7.0), None));
        assert_eq!(joined.costs.instructions, Some(7.0));
        assert_eq!(joined.curve, [(50.0, 9.0), (100.0, 40.0)]);
    }

    #[test]
    fn a_scaled_row_has_scaled_rounds() {
        let row = Row::of("w/a", "a", [("n", 1)], "ns/op", vec![4.0, 2.0, 6.0]).unwrap();
        let scaled = row.scaled("w/b", "times", 2.0);
        assert_eq!(scaled.rounds, [2.0, 1.0, 3.0]);
        assert_eq!(Summary::of(&scaled.rounds), Some(scaled.summary));
        assert_eq!((&*scaled.workload, &*scaled.unit), ("w/b", "times"));
    }
}
