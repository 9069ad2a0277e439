//! [`Summary`]: what is kept of a subject's rounds.

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
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
            _ => sorted[middle],
        };
        Some(Self { median, min, max, samples: sorted.len() })
    }

    /// Whether the two ranges touch: then a ratio of the medians says little.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.min <= other.max && other.min <= self.max
    }
}

#[cfg(test)]
mod tests {
    use super::Summary;

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
