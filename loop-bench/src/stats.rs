//! [`Summary`], [`Ratio`]: what is said of a subject's rounds, and of two subjects'.

use std::fmt;

/// Median, least and greatest of a set of samples, and how many there were.
///
/// The median and not the mean: on a machine that does other things too, noise only ever adds, and
/// one bad round must not move the result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle sample; of an even number, the mean of the two in the middle.
    pub median: f64,
    /// The least sample.
    pub min: f64,
    /// The greatest sample.
    pub max: f64,
    /// How many samples there were.
    pub samples: usize,
}

impl Summary {
    /// Sums up `samples`, in any order; `None` if there are none. O(n log n).
    ///
    /// ```
    /// let summary = loop_bench::Summary::of(&[3.0, 1.0, 2.0]).unwrap();
    /// assert_eq!((summary.min, summary.median, summary.max), (1.0, 2.0, 3.0));
    /// ```
    pub fn of(samples: &[f64]) -> Option<Self> {
        let sorted = sorted(samples);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        Some(Self { median: middle(&sorted)?, min, max, samples: sorted.len() })
    }

    /// Whether the two ranges touch: then a ratio of the medians says little.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.min <= other.max && other.min <= self.max
    }
}

/// The ratio of two subjects of one contest, from the ratios of each round's pair: what hits both of a
/// pair cancels out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median of the pairs' ratios.
    pub median: f64,
    /// Where the true median lies, by the order of the pairs: of five pairs or more, with a
    /// confidence of 93 % at least; of three, with 75 %.
    pub low: f64,
    /// The other end.
    pub high: f64,
}

impl Ratio {
    /// Of each of `ours` to the one of `theirs` at the same place; `None` if there are no pairs. One with a
    /// zero, which is below what the clock can tell, is no pair.
    ///
    /// ```
    /// let ratio = loop_bench::Ratio::of(&[1.0, 4.0, 2.0], &[2.0, 8.0, 4.0]).unwrap();
    /// assert_eq!((ratio.low, ratio.median, ratio.high), (0.5, 0.5, 0.5));
    /// assert!(!ratio.is_tie());
    /// ```
    pub fn of(ours: &[f64], theirs: &[f64]) -> Option<Self> {
        let ratios = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs);
        let ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
        let sorted = sorted(&ratios);
        let left_out = outside(sorted.len());
        Some(Self {
            median: middle(&sorted)?,
            low: sorted[left_out],
            high: sorted[sorted.len() - 1 - left_out],
        })
    }

    /// Whether the difference is inside the spread: it may as well be none.
    pub fn is_tie(&self) -> bool {
        self.low <= 1.0 && 1.0 <= self.high
    }
}

/// `0.50`, or `~0.97` for a tie.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:.2}", if self.is_tie() { "~" } else { "" }, self.median)
    }
}

/// How many of `n` sorted samples may be left out at each end, so that the median of all there could
/// be lies between the rest with a probability of 93 % or, for want of samples, all that there is.
/// That many are on one side with the probability of so many heads of `n` coins.
fn outside(n: usize) -> usize {
    let (mut left_out, mut tail, mut ways) = (0, 0.0, 1.0);
    let all = 2_f64.powi(n as i32);
    for k in 0..n / 2 {
        tail += ways / all;
        if 2.0 * tail > 0.07 {
            break;
        }
        left_out = k;
        ways *= (n - k) as f64 / (k + 1) as f64;
    }
    left_out
}

/// The mean of the middle half of `samples`, of fewer than four their median; `None` if there are none. As deaf to a
/// bad round as a median, and less rough.
pub(crate) fn middle_mean(samples: &[f64]) -> Option<f64> {
    if samples.len() < 4 {
        return median(samples);
    }
    let sorted = sorted(samples);
    let cut = sorted.len() / 4;
    mean(&sorted[cut..sorted.len() - cut])
}

/// `None` if there are none.
pub(crate) fn mean(samples: &[f64]) -> Option<f64> {
    let count = samples.len() as f64;
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / count)
}

/// The middle sample, in any order; `None` if there are none. O(n log n).
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    middle(&sorted(samples))
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => Some((sorted.get(middle.checked_sub(1)?)? + sorted[middle]) / 2.0),
        _ => Some(sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::{Ratio, Summary, mean, middle_mean, outside};

    #[test]
    fn the_middle_mean_leaves_out_a_quarter_at_each_end() {
        assert_eq!(middle_mean(&[9.0, 1.0, 2.0, 4.0, 3.0]), Some(3.0));
        assert_eq!(middle_mean(&[90.0, 1.0, 2.0, 4.0]), Some(3.0));
        assert_eq!(middle_mean(&[90.0, 1.0, 2.0]), Some(2.0));
        assert_eq!((middle_mean(&[]), mean(&[])), (None, None));
    }

    #[test]
    fn what_hits_both_of_a_pair_cancels_out() {
        let rival = [10.0, 100.0, 1_000.0, 10.0, 10.0];
        let ours = rival.map(|time| time * 0.8);
        let ratio = Ratio::of(&ours, &rival).unwrap();
        assert!((ratio.median - 0.8).abs() < 1e-9 && !ratio.is_tie(), "{ratio:?}");
        assert!(Summary::of(&ours).unwrap().overlaps(&Summary::of(&rival).unwrap()));
    }

    #[test]
    fn a_difference_inside_the_spread_is_a_tie() {
        let ratio = Ratio::of(&[1.0, 1.2, 0.9], &[1.0, 1.0, 1.0]).unwrap();
        assert!(ratio.is_tie());
        assert_eq!(ratio.to_string(), "~1.00");
        assert_eq!(Ratio::of(&[2.0; 3], &[1.0; 3]).unwrap().to_string(), "2.00");
        assert_eq!(Ratio::of(&[], &[]), None);
    }

    #[test]
    fn the_spread_leaves_out_what_chance_allows() {
        // Of five, 2 * 1/32 lie outside; of nine, leaving out one at each end, 2 * 10/512.
        let left_out = [1, 3, 5, 7, 8, 9, 12].map(outside);
        assert_eq!(left_out, [0, 0, 0, 0, 0, 1, 2]);
    }

    #[test]
    fn nothing_has_no_summary() {
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn one_sample_is_all_three() {
        let expected = Summary { median: 4.5, min: 4.5, max: 4.5, samples: 1 };
        assert_eq!(Summary::of(&[4.5]), Some(expected));
    }

    #[test]
    fn an_even_number_takes_the_mean_of_the_middle() {
        let summary = Summary::of(&[10.0, 1.0, 2.0, 4.0]).unwrap();
        assert_eq!(summary, Summary { median: 3.0, min: 1.0, max: 10.0, samples: 4 });
    }

    #[test]
    fn one_outlier_does_not_move_the_median() {
        let summary = Summary::of(&[5.0, 5.0, 1e9, 5.0, 5.0]).unwrap();
        assert_eq!(summary.median, 5.0);
        assert_eq!(summary.max, 1e9);
    }

    #[test]
    fn ranges_overlap_or_not() {
        let range = |min, max| Summary { median: min, min, max, samples: 2 };
        assert!(range(1.0, 3.0).overlaps(&range(2.0, 4.0)));
        assert!(range(2.0, 4.0).overlaps(&range(1.0, 3.0)));
        assert!(!range(1.0, 2.0).overlaps(&range(3.0, 4.0)));
    }
}
