//! [`Pair`]: a row in both runs.

use crate::results::Results;
use crate::row::Row;
use crate::stats::{Summary, mean, median, middle_mean};

/// A row in both runs.
pub(super) struct Pair<'a> {
    pub(super) row: &'a Row,
    /// The change by the least round, and by the rounds relative to the rivals: logarithms.
    pub(super) by_least: f64,
    pub(super) by_rivals: Option<f64>,
    /// The standard error of the change that the rounds tell of; those of a process, which share more than the program,
    /// as one.
    pub(super) noise: f64,
    /// Whether all rounds of one run are above all of the other's.
    pub(super) is_apart: bool,
}

impl<'a> Pair<'a> {
    pub(super) fn of(
        row: &'a Row,
        old: &'a Results,
        new: &'a Results,
        rounds: fn(&Row) -> &[f64],
    ) -> Option<Self> {
        let before = old.rows.iter().find(|other| is_same(row, other))?;
        let least = |row: &Row| Some(Summary::of(rounds(row))?.min).filter(|min| *min > 0.0);
        let by_least = (least(row)? / least(before)?).ln();
        let relative = |run: &Results, row: &Row| relative_to_rivals(run, row, rounds);
        let (is, was) = (relative(new, row), relative(old, before));
        let by_rivals = is
            .as_ref()
            .zip(was.as_ref())
            .and_then(|(is, was)| Some(middle_mean(is)? - middle_mean(was)?));
        let spread = |run: &Results, relative: Option<&Vec<f64>>, row: &Row| {
            let error = |rounds: &[f64]| standard_error(&of_passes(rounds, run.run.passes));
            let plain = error(&logarithms(rounds(row)));
            relative.map_or(plain, |relative| error(relative).min(plain))
        };
        let noise = spread(new, is.as_ref(), row).hypot(spread(old, was.as_ref(), before));
        let is_apart = match (&is, &was) {
            (Some(is), Some(was)) => are_apart(is, was),
            _ => are_apart(rounds(row), rounds(before)),
        };
        Some(Self { row, by_least, by_rivals, noise, is_apart })
    }

    /// The change relative to the rivals, or to all of them if there are none beside.
    pub(super) fn relative(&self, drift: f64) -> f64 {
        self.by_rivals.unwrap_or(self.by_least - drift)
    }

    /// The smaller of the two changes, if they agree in direction.
    pub(super) fn change(&self, drift: f64) -> f64 {
        let by_least = self.by_least - drift;
        match self.by_rivals {
            None => by_least,
            Some(by_rivals) if by_rivals.signum() != by_least.signum() => 0.0,
            Some(by_rivals) => by_rivals.abs().min(by_least.abs()).copysign(by_least),
        }
    }
}

pub(super) fn is_same(a: &Row, b: &Row) -> bool {
    a.is_beside(b) && a.subject == b.subject && a.unit == b.unit
}

fn logarithms(rounds: &[f64]) -> Vec<f64> {
    rounds.iter().map(|round| round.max(f64::MIN_POSITIVE).ln()).collect()
}

/// Each round's logarithm less the mean of the rivals' in the same round, so that one rival that has changed weighs no
/// more than its share; `None` if there are no other rivals.
fn relative_to_rivals(run: &Results, row: &Row, rounds: fn(&Row) -> &[f64]) -> Option<Vec<f64>> {
    let rivals: Vec<Vec<f64>> = run
        .rows
        .iter()
        .filter(|rival| rival.is_beside(row) && !rival.is_ours() && rival.subject != row.subject)
        .map(|rival| logarithms(rounds(rival)))
        .collect();
    let relative = |(index, round): (usize, f64)| {
        let of_round: Vec<f64> =
            rivals.iter().filter_map(|rival| rival.get(index)).copied().collect();
        Some(round - mean(&of_round)?)
    };
    logarithms(rounds(row)).into_iter().enumerate().map(relative).collect()
}

/// The median of each process's share of the rounds, in their order.
fn of_passes(rounds: &[f64], passes: usize) -> Vec<f64> {
    if passes <= 1 {
        return rounds.to_vec();
    }
    let begin = |pass: usize| rounds.len() * pass / passes;
    (0..passes).filter_map(|pass| median(&rounds[begin(pass)..begin(pass + 1)])).collect()
}

/// Of the median of `samples`, from their median distance to it; of three or fewer from their range.
fn standard_error(samples: &[f64]) -> f64 {
    let Some(middle) = median(samples) else { return 0.0 };
    let distances: Vec<f64> = samples.iter().map(|sample| (sample - middle).abs()).collect();
    let deviation = if samples.len() <= 3 {
        // The range of three normal samples is 1.69 standard deviations, on the average.
        let max = samples.iter().copied().fold(f64::MIN, f64::max);
        let min = samples.iter().copied().fold(f64::MAX, f64::min);
        (max - min) / 1.69
    } else {
        1.4826 * median(&distances).unwrap_or(0.0)
    };
    1.25 * deviation / (samples.len() as f64).sqrt()
}

fn are_apart(one: &[f64], other: &[f64]) -> bool {
    match (Summary::of(one), Summary::of(other)) {
        (Some(one), Some(other)) => !one.overlaps(&other),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rounds_of_a_process_count_as_one() {
        let rounds = [1.0, 3.0, 2.0, 9.0, 7.0];
        assert_eq!(of_passes(&rounds, 1), rounds);
        assert_eq!(of_passes(&rounds, 2), [2.0, 7.0]);
        assert_eq!(of_passes(&rounds, 9), rounds);
    }
}
