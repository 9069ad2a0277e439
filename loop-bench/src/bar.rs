//! [`Bar`]: how much of a rival's time ours may take.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::params::Params;
use crate::row::Row;

/// A promise about one workload: ours takes at most so much of what the best of the rivals takes.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// The workload's full name, `handles/once`.
    pub workload: &'static str,
    /// Which of its contests: those with exactly these parameters, or all if this is empty.
    pub params: &'static [(&'static str, u64)],
    /// Our subject.
    pub ours: &'static str,
    /// Whom it is compared with: the fastest of these.
    pub rivals: &'static [&'static str],
    /// The greatest ratio of the medians, ours to the rival's, that meets the bar.
    pub at_most: f64,
}

impl Bar {
    /// What `rows` say about the bar: one verdict for each contest that it is about. A contest
    /// without our subject or without any of the rivals says nothing.
    pub fn verdicts(&self, rows: &[Row]) -> Vec<Verdict> {
        let of_ours = rows.iter().filter(|row| {
            row.workload == self.workload
                && row.subject == self.ours
                && (self.params.is_empty() || row.params == *self.params)
        });
        let verdict = |ours: &Row| {
            let rival = rows
                .iter()
                .filter(|row| row.is_beside(ours))
                .filter(|row| self.rivals.contains(&row.subject.as_str()))
                .min_by(|a, b| a.summary.median.total_cmp(&b.summary.median))?;
            Some(Verdict {
                workload: self.workload.into(),
                params: ours.params.clone(),
                ours: self.ours.into(),
                rival: rival.subject.clone(),
                ratio: ours.summary.median / rival.summary.median,
                at_most: self.at_most,
            })
        };
        of_ours.filter_map(verdict).collect()
    }
}

/// A ratio, and the bar that it was held against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The workload's full name.
    #[serde(rename = "bar")]
    pub workload: Cow<'static, str>,
    /// The contest's parameters.
    pub params: Params,
    /// Our subject.
    pub ours: Cow<'static, str>,
    /// The rival that was fastest.
    pub rival: String,
    /// The ratio of the medians, ours to the rival's.
    pub ratio: f64,
    /// The bar.
    pub at_most: f64,
}

impl Verdict {
    /// Whether the ratio meets the bar.
    pub fn is_met(&self) -> bool {
        self.ratio <= self.at_most
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, params, ours, rival, ratio, at_most } = self;
        let met = if self.is_met() { "met" } else { "NOT MET" };
        write!(f, "{workload}{params}  {ours} : {rival} = {ratio:.2}, at most {at_most:.2}: {met}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAR: Bar = Bar {
        workload: "w/a",
        params: &[("n", 10)],
        ours: "loop-x",
        rivals: &["std", "other"],
        at_most: 0.5,
    };

    fn row(workload: &'static str, subject: &str, n: u64, median: f64) -> Row {
        Row::of(workload, subject, [("n", n)], "ns/op", vec![median]).unwrap()
    }

    #[test]
    fn ours_is_held_against_the_fastest_rival_of_its_own_contest() {
        let rows = [
            row("w/a", "loop-x", 10, 2.0),
            row("w/a", "std", 10, 8.0),
            row("w/a", "other", 10, 4.0),
            row("w/a", "stranger", 10, 1.0),
            row("w/a", "loop-x", 20, 9.0),
            row("w/a", "std", 20, 1.0),
            row("w/b", "std", 10, 1.0),
        ];
        let verdicts = BAR.verdicts(&rows);
        assert_eq!(verdicts.len(), 1);
        assert!(verdicts[0].is_met());
        assert_eq!(verdicts[0].to_string(), "w/a n=10  loop-x : other = 0.50, at most 0.50: met");
        let everywhere = Bar { params: &[], ..BAR }.verdicts(&rows);
        assert_eq!(everywhere.iter().map(Verdict::is_met).collect::<Vec<_>>(), [true, false]);
        assert!(everywhere[1].to_string().ends_with("loop-x : std = 9.00, at most 0.50: NOT MET"));
    }

    #[test]
    fn what_was_not_run_says_nothing() {
        assert_eq!(BAR.verdicts(&[]), []);
        assert_eq!(BAR.verdicts(&[row("w/a", "loop-x", 10, 1.0)]), []);
        assert_eq!(BAR.verdicts(&[row("w/a", "std", 10, 1.0)]), []);
    }
}
