//! [`Judgement`]: what moved between two runs by one measure, and how far it may by chance.

use std::collections::BTreeMap;

use super::change::Change;
use super::pair::Pair;
use crate::results::Results;
use crate::row::Row;
use crate::stats::median;

/// What moved by less is not worth a flag, as a logarithm.
const LEAST: f64 = 0.05;

/// The chance that a comparison of two runs of the same program flags anything.
const FALSE_ALARM: f64 = 1e-3;

/// No noise is less than this, whatever a few rows say.
const LEAST_NOISE: f64 = 0.01;

/// Single rows stray further than the normal distribution knows: their limits are so much wider.
const TAILS: f64 = 1.4;

/// How much less the rows of a subject stray from their middle than that strays by chance: they share the program.
const SHARED: f64 = 1.8;

/// So many independent rows a subject's rows are worth at most if there are no rivals beside them, which share the day.
const INDEPENDENT: usize = 4;

/// Two runs, compared by one measure.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// `time` or `processor time`.
    pub measure: &'static str,
    /// Each row that both runs have, in the order of the newer.
    pub rows: Vec<Change>,
    /// Each subject, over all of its rows.
    pub subjects: Vec<Change>,
    /// The change of all rivals alike, which is the machine's: a logarithm.
    pub drift: f64,
    /// What a row moves by chance: a standard deviation, as a logarithm.
    pub noise: f64,
}

/// What is compared: a name, and the rounds.
pub(super) type Measure = (&'static str, fn(&Row) -> &[f64]);

pub(super) const MEASURES: [Measure; 2] =
    [("time", |row| &row.rounds), ("processor time", |row| &row.processor)];

impl Judgement {
    pub(super) fn of((measure, rounds): Measure, old: &Results, new: &Results) -> Self {
        let pairs: Vec<Pair> = new
            .rows
            .iter()
            .filter(|row| !row.derived)
            .filter_map(|row| Pair::of(row, old, new, rounds))
            .collect();
        let drift = drift(&pairs);
        let noise = strays(&pairs, drift).unwrap_or(0.0).max(LEAST_NOISE);

        let mut families: BTreeMap<&str, Vec<&Pair>> = BTreeMap::new();
        pairs.iter().for_each(|pair| families.entry(pair.row.family()).or_default().push(pair));
        let of_family = |pairs: Vec<&Pair>| {
            let told: Vec<f64> = pairs.iter().map(|pair| pair.noise).collect();
            let strays = strays(pairs.iter().copied(), drift).unwrap_or(0.0);
            median(&told).unwrap_or(0.0).max(strays).max(noise)
        };
        let families: BTreeMap<&str, f64> =
            families.into_iter().map(|(family, pairs)| (family, of_family(pairs))).collect();
        let limit = |noise: f64, of: usize| {
            // Rows and subjects, by each measure.
            let judged = 2 * MEASURES.len() * of;
            LEAST.max(noise * deviations(FALSE_ALARM / judged as f64))
        };
        let rows: Vec<Change> = pairs
            .iter()
            .map(|pair| Change {
                contest: format!("{}{}", pair.row.workload, pair.row.params),
                subject: pair.row.subject.clone(),
                rows: 1,
                change: pair.change(drift),
                // A row with no rival beside it cannot be told from a process that is unlucky.
                limit: if pair.is_apart && pair.by_rivals.is_some() {
                    limit(TAILS * pair.noise.max(families[pair.row.family()]), pairs.len())
                } else {
                    f64::INFINITY
                },
            })
            .collect();

        let mut of_subject: BTreeMap<&str, Vec<&Pair>> = BTreeMap::new();
        pairs.iter().for_each(|pair| of_subject.entry(&pair.row.subject).or_default().push(pair));
        let count = of_subject.len();
        let beside_rivals = usual(&pairs, |pair| Some(pair.by_rivals?.abs()))
            .map(|noise| noise.min(SHARED * scatter(&of_subject, drift)).max(LEAST_NOISE));
        let subjects = of_subject.into_iter().map(|(subject, pairs)| {
            let change = middle(&pairs, |pair| pair.relative(drift));
            let by_least = middle(&pairs, |pair| pair.by_least - drift);
            let relative = pairs.iter().filter(|pair| pair.by_rivals.is_some()).count();
            let noise = match beside_rivals {
                Some(noise) if relative * 2 > pairs.len() => noise / (relative as f64).sqrt(),
                _ => noise / (pairs.len().min(INDEPENDENT) as f64).sqrt(),
            };
            // A median of several is known worse than a mean, by a quarter. Of one or two it is
            // no better than a row, which is judged as such.
            let limit = match pairs.len() {
                0..3 => f64::INFINITY,
                _ => limit(1.25 * noise, count),
            };
            // What the least rounds do not show at least half of is the rivals' doing.
            let change = if by_least.signum() == change.signum() {
                change.abs().min(2.0 * by_least.abs()).copysign(change)
            } else {
                0.0
            };
            let (contest, subject, rows) = (String::new(), subject.to_owned(), pairs.len());
            Change { contest, subject, rows, change, limit }
        });

        Self { measure, subjects: subjects.collect(), rows, drift, noise }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Change> {
        self.subjects.iter().chain(&self.rows)
    }
}

/// The median of the rivals' changes, each rival's being the median of its rows: if one of them has changed, the
/// others are in the middle. Of fewer than three rivals none can be told from the machine.
fn drift(pairs: &[Pair<'_>]) -> f64 {
    let mut rivals: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for pair in pairs.iter().filter(|pair| !pair.row.is_ours()) {
        rivals.entry(&pair.row.subject).or_default().push(pair.by_least);
    }
    let changes: Vec<f64> = rivals.values().filter_map(|changes| median(changes)).collect();
    if changes.len() < 3 { 0.0 } else { median(&changes).unwrap_or(0.0) }
}

/// The median of what `change` says of each pair.
fn middle(pairs: &[&Pair<'_>], change: impl Fn(&Pair) -> f64) -> f64 {
    let changes: Vec<f64> = pairs.iter().map(|pair| change(pair)).collect();
    median(&changes).unwrap_or(0.0)
}

/// How far the rows of subjects that have several stray from their subject's change: a standard deviation. A subject
/// that has changed, rival or not, does not count as noise here.
fn scatter(of_subject: &BTreeMap<&str, Vec<&Pair<'_>>>, drift: f64) -> f64 {
    let mut distances = Vec::new();
    for pairs in of_subject.values().filter(|pairs| pairs.len() >= 3) {
        let center = middle(pairs, |pair| pair.relative(drift));
        distances.extend(pairs.iter().map(|pair| (pair.relative(drift) - center).abs()));
    }
    median(&distances).map_or(f64::INFINITY, |distance| 1.4826 * distance)
}

/// The standard deviation of what moved and should not have.
fn strays<'a>(pairs: impl IntoIterator<Item = &'a Pair<'a>> + Clone, drift: f64) -> Option<f64> {
    usual(pairs, |pair| {
        let by_least = (pair.by_least - drift).abs();
        Some(pair.by_rivals.map_or(by_least, |by_rivals| by_rivals.abs().min(by_least)))
    })
}

/// A standard deviation, by the median of the distances: of the rivals, for they have not changed, or of all, if that
/// is less: one of few rivals may have changed.
fn usual<'a>(
    pairs: impl IntoIterator<Item = &'a Pair<'a>> + Clone,
    distance: impl Fn(&Pair) -> Option<f64>,
) -> Option<f64> {
    let all: Vec<f64> = pairs.clone().into_iter().filter_map(&distance).collect();
    let rivals = pairs.into_iter().filter(|pair| !pair.row.is_ours());
    let rivals: Vec<f64> = rivals.filter_map(&distance).collect();
    let all = median(&all)?;
    Some(1.4826 * median(&rivals).map_or(all, |rivals| rivals.min(all)))
}

/// How many standard deviations above the mean a normal value lies with a probability of `tail`.
/// Source: Abramowitz and Stegun, 26.2.23; off by 0.00045 at most.
fn deviations(tail: f64) -> f64 {
    let t = (-2.0 * tail.ln()).sqrt();
    let over = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let under = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - over / under
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_of_the_normal_distribution() {
        for (tail, expected) in [(0.5, 0.0), (0.158_655, 1.0), (0.001_35, 3.0), (2.866_5e-7, 5.0)] {
            assert!((deviations(tail) - expected).abs() < 1e-3, "{tail}");
        }
    }
}
