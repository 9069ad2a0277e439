//! What a loop has done so far, in numbers.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use crate::loop_ref::LoopRef;

/// Counters, always on: most are added to once an iteration.
pub(crate) struct Counters {
    pub(crate) iterations: Count,
    pub(crate) callbacks: Count,
    pub(crate) polls: Count,
    pub(crate) events: Count,
    pub(crate) wakes: Count,
    pub(crate) timers: Count,
    lag: [Count; BUCKETS],
    max_lag: Cell<u64>,
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            iterations: Count::default(),
            callbacks: Count::default(),
            polls: Count::default(),
            events: Count::default(),
            wakes: Count::default(),
            timers: Count::default(),
            lag: std::array::from_fn(|_| Count::default()),
            max_lag: Cell::new(0),
        }
    }
}

#[derive(Default)]
pub(crate) struct Count(Cell<u64>);

impl Count {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.set(self.0.get().wrapping_add(n));
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.get()
    }
}

/// The first bucket is below a microsecond, each of the others twice as far; the last has no end.
const BUCKETS: usize = 32;

impl Counters {
    /// Notes a timer that fired `lag` nanoseconds after its deadline.
    #[inline]
    pub(crate) fn timer(&self, lag: u64) {
        self.timers.add(1);
        self.lag[bucket(lag)].add(1);
        if lag > self.max_lag.get() {
            self.max_lag.set(lag);
        }
    }
}

#[inline]
fn bucket(lag: u64) -> usize {
    let microseconds = lag / 1000;
    (u64::BITS - microseconds.leading_zeros()).min(BUCKETS as u32 - 1) as usize
}

/// What a loop has done since it was made; from [`LoopRef::statistics`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Iterations.
    pub iterations: u64,
    /// Entries of the ready queue that were run and are not steps of tasks: callbacks, due timers, signal
    /// handlers, calls from other threads. What one wait has reported of descriptors counts as one.
    pub callbacks: u64,
    /// Steps of tasks.
    pub polls: u64,
    /// Ready descriptors that the selector reported.
    pub events: u64,
    /// Messages from other threads: calls, wakes of tasks.
    pub wakes: u64,
    /// Timers that fired, those of sleeping tasks included.
    pub timers: u64,
    /// How much later than their deadlines they fired.
    pub lag: LagHistogram,
}

impl LoopRef {
    /// Counters of what the loop has done since it was made. They are always on.
    ///
    /// ```
    /// # use loop_core::EventLoop;
    /// # use std::time::Duration;
    /// let mut event_loop = EventLoop::builder().simulated()?.build()?;
    /// event_loop.call_later(Duration::from_secs(5), || ());
    /// event_loop.run_once(None)?;
    /// let statistics = event_loop.statistics();
    /// assert_eq!((statistics.iterations, statistics.timers, statistics.callbacks), (1, 1, 1));
    /// assert_eq!(statistics.lag.max(), Duration::ZERO); // virtual time is never late
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn statistics(&self) -> Statistics {
        let counters = &self.inner.counters;
        Statistics {
            iterations: counters.iterations.get(),
            callbacks: counters.callbacks.get(),
            polls: counters.polls.get(),
            events: counters.events.get(),
            wakes: counters.wakes.get(),
            timers: counters.timers.get(),
            lag: LagHistogram {
                buckets: std::array::from_fn(|index| counters.lag[index].get()),
                max: counters.max_lag.get(),
            },
        }
    }
}

/// How late timers were: how long a loop's callbacks kept it from them. Each bucket is twice as wide as
/// the one before it, so what is read from it is right within a factor of two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LagHistogram {
    buckets: [u64; BUCKETS],
    max: u64,
}

impl LagHistogram {
    /// How many timers are in it.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The largest lag, exactly.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// A lag that `fraction` of the timers did not exceed, from 0 to 1: 0.99, say. Rounded up to the end of
    /// a bucket; zero if no timer has fired.
    pub fn quantile(&self, fraction: f64) -> Duration {
        // NaN counts as 0.
        let wanted = (self.count() as f64 * fraction.clamp(0.0, 1.0)).ceil() as u64;
        let mut seen = 0;
        for (end, count) in self.iter() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return end.min(self.max());
            }
        }
        Duration::ZERO
    }

    /// The buckets: where each ends, and how many timers are in it. The last one's end is
    /// [`Duration::MAX`].
    pub fn iter(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.buckets.iter().enumerate().map(|(index, count)| {
            let end = match index {
                last if last == BUCKETS - 1 => Duration::MAX,
                index => Duration::from_micros(1 << index),
            };
            (end, *count)
        })
    }
}

impl fmt::Debug for LagHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LagHistogram")
            .field("count", &self.count())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_double_and_quantiles_round_up() {
        let counters = Counters::default();
        for (lag, expected) in [(0, 0), (999, 0), (1000, 1), (1999, 1), (2000, 2), (u64::MAX, 31)] {
            assert_eq!(bucket(lag), expected, "{lag}");
        }
        (0..98).for_each(|_| counters.timer(1500));
        counters.timer(70_000);
        counters.timer(3_000_000);
        let lag = LagHistogram {
            buckets: std::array::from_fn(|index| counters.lag[index].get()),
            max: counters.max_lag.get(),
        };
        assert_eq!(lag.count(), 100);
        assert_eq!(lag.quantile(0.0), Duration::from_micros(2));
        assert_eq!(lag.quantile(0.98), Duration::from_micros(2));
        assert_eq!(lag.quantile(0.99), Duration::from_micros(128));
        assert_eq!(lag.quantile(1.0), Duration::from_millis(3));
        assert_eq!(lag.quantile(f64::NAN), Duration::from_micros(2));
        assert_eq!(lag.max(), Duration::from_millis(3));
        assert_eq!(lag.iter().map(|(_, count)| count).sum::<u64>(), 100);
    }
}
