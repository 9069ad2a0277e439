//! [`Latencies`]: how long answers took, counted from when they were due to be asked for.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Digits that are kept of each latency: one part in ten thousand.
const DIGITS: u8 = 4;

/// A distribution of latencies. Percentiles are nearest-rank, exact to four digits; the mean, the
/// greatest and the count are exact.
///
/// What is recorded is the time from the *intended* start of a request to its answer. A load generator that
/// waits for a stalled server and then starts its clock records one long wait, and none of the
/// requests that should have been sent meanwhile; their waiting is part of what a stall costs.
///
/// ```
/// use std::time::Duration;
///
/// let mut latencies = loop_bench::Latencies::new();
/// for millis in [1, 1, 1, 9] {
///     latencies.record(Duration::from_millis(millis));
/// }
/// assert_eq!(latencies.mean(), Duration::from_millis(3));
/// assert_eq!(latencies.max(), Duration::from_millis(9));
/// assert_eq!(latencies.at(0.75).as_micros(), 1_000);
/// ```
#[derive(Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
    /// Nanoseconds.
    sum: u128,
    max: Duration,
}

impl Latencies {
    /// None yet.
    pub fn new() -> Self {
        let histogram = Histogram::new(DIGITS).expect("four digits are within the limits");
        Self { histogram, sum: 0, max: Duration::ZERO }
    }

    /// Adds one. O(1), but for the first that is longer than all before, which makes room for it.
    pub fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).clamp(1, 1 << 62);
        self.histogram.record(nanos).expect("the histogram grows");
        self.sum += latency.as_nanos();
        self.max = self.max.max(latency);
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("it grows");
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The least latency that the share `quantile`, from 0 to 1, of all do not exceed; zero if there are none.
    pub fn at(&self, quantile: f64) -> Duration {
        let value = self.histogram.value_at_quantile(quantile);
        // The middle of those that the histogram cannot tell apart.
        Duration::from_nanos(self.histogram.median_equivalent(value)).min(self.max)
    }

    /// How many were longer than `limit`.
    pub fn slower_than(&self, limit: Duration) -> u64 {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.histogram
            .iter_recorded()
            .filter(|value| value.value_iterated_to() > limit)
            .map(|value| value.count_at_value())
            .sum()
    }

    /// The mean; zero if there are none.
    pub fn mean(&self) -> Duration {
        let mean = self.sum / u128::from(self.count().max(1));
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The greatest; zero if there are none.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The latencies at rising percentiles, up to the last that so many recordings can tell: pairs of a percentile
    /// and nanoseconds.
    pub fn curve(&self) -> Vec<(f64, f64)> {
        const PERCENTILES: [f64; 14] =
            [0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.999];
        let told = |percentile: &f64| self.count() as f64 * (1.0 - percentile / 100.0) >= 1.0;
        let at = |percentile: f64| (percentile, self.at(percentile / 100.0).as_nanos() as f64);
        let mut curve: Vec<_> = PERCENTILES.into_iter().filter(told).map(at).collect();
        if self.count() > 0 {
            curve.push((100.0, self.max.as_nanos() as f64));
        }
        curve
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latencies")
            .field("count", &self.count())
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

/// When requests are due: one every `interval` from the start, whatever became of those before.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    per_second: f64,
}

impl Schedule {
    /// So many requests a second.
    ///
    /// # Panics
    /// If that is not a positive number.
    pub fn per_second(rate: f64) -> Self {
        assert!(rate > 0.0 && rate.is_finite(), "{rate} requests a second");
        Self { per_second: rate }
    }

    /// When request `number`, counted from 0, is due: the time since the start. Computed from the number, so that
    /// errors do not add up.
    pub fn due(&self, number: u64) -> Duration {
        Duration::from_secs_f64(number as f64 / self.per_second)
    }

    /// How many are due before `elapsed`.
    pub fn due_before(&self, elapsed: Duration) -> u64 {
        (elapsed.as_secs_f64() * self.per_second).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    /// A server that takes a millisecond a request and stands still from the first second to the
    /// second one; when an answer to a request that reaches it at `asked` is there.
    fn answered(asked: Duration) -> Duration {
        let frozen = Duration::from_secs(1)..Duration::from_secs(2);
        if frozen.contains(&asked) { frozen.end + MILLI } else { asked + MILLI }
    }

    /// Three hundred requests, one every 10 ms, one under way at a time. Source: PerfCake#258.
    fn requests(mut record: impl FnMut(Duration, Duration, Duration)) {
        let schedule = Schedule::per_second(100.0);
        let mut free = Duration::ZERO;
        for number in 0..300 {
            let due = schedule.due(number);
            let asked = due.max(free);
            free = answered(asked);
            record(due, asked, free);
        }
    }

    /// To whole hundredths of a millisecond.
    fn millis(time: Duration) -> f64 {
        (time.as_secs_f64() * 1e5).round() / 1e2
    }

    #[test]
    fn s38_a_stall_shows_in_the_percentiles() {
        let mut latencies = Latencies::new();
        requests(|due, _asked, answered| latencies.record(answered - due));
        assert_eq!(latencies.count(), 300);
        assert_eq!(millis(latencies.mean()), 187.85);
        let at = |quantile| (latencies.at(quantile).as_secs_f64() * 1e4).round() / 10.0;
        assert_eq!((at(0.50), at(0.90), at(0.99)), (1.0, 731.0, 974.0));
        assert_eq!(millis(latencies.max()), 1001.0);
        assert_eq!(latencies.slower_than(Duration::from_micros(1_500)), 112);
    }

    #[test]
    fn s38_the_clock_of_a_generator_that_waits_hides_the_stall() {
        let mut latencies = Latencies::new();
        requests(|_due, asked, answered| latencies.record(answered - asked));
        assert_eq!(millis(latencies.at(0.90)), 1.0);
        assert_eq!(millis(latencies.at(0.99)), 1.0);
        assert!(latencies.mean() < 6 * MILLI);
    }

    #[test]
    fn percentiles_are_nearest_rank_and_keep_four_digits() {
        let mut latencies = Latencies::new();
        let mut exact: Vec<u64> = (0..1_000).map(|n| crate::rng::mix(n) >> 30).collect();
        exact.iter().for_each(|&nanos| latencies.record(Duration::from_nanos(nanos)));
        exact.sort_unstable();
        for percent in 1..=100 {
            let rank = exact[percent * 10 - 1] as f64;
            let found = latencies.at(percent as f64 / 100.0).as_nanos() as f64;
            assert!((found / rank - 1.0).abs() <= 1e-4, "{percent}: {found} for {rank}");
        }
    }

    #[test]
    fn a_merge_is_as_if_all_had_been_recorded_in_one_place() {
        let (mut one, mut other, mut both) = (Latencies::new(), Latencies::new(), Latencies::new());
        for n in 1..100 {
            let latency = n * MILLI;
            if n % 3 == 0 { &mut one } else { &mut other }.record(latency);
            both.record(latency);
        }
        one.merge(&other);
        assert_eq!(one.curve(), both.curve());
        assert_eq!((one.mean(), one.count()), (both.mean(), both.count()));
        one.clear();
        assert_eq!((one.count(), one.max(), one.curve()), (0, Duration::ZERO, vec![]));
    }

    #[test]
    fn a_curve_ends_where_the_recordings_do() {
        let mut latencies = Latencies::new();
        (0..100).for_each(|_| latencies.record(MILLI));
        let percentiles: Vec<f64> = latencies.curve().iter().map(|point| point.0).collect();
        assert_eq!(percentiles.last(), Some(&100.0));
        assert!(percentiles.contains(&99.0) && !percentiles.contains(&99.5));
    }

    #[test]
    fn a_schedule_does_not_drift() {
        let schedule = Schedule::per_second(3.0);
        assert_eq!(schedule.due(3_000_000), Duration::from_secs(1_000_000));
        assert_eq!(schedule.due_before(Duration::ZERO), 0);
        assert_eq!(schedule.due_before(Duration::from_millis(700)), 3);
    }
}
