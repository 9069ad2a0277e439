//! `Deadline`: what the heap asks of the type that counts your time.

use core::time::Duration;

/// A point in time that can be placed, roughly, on a line of 2^64 ticks.
///
/// The order of timers is decided by `Ord` alone. The ticks only decide which deadlines are worth
/// comparing: the heap keeps timers in buckets of ticks, and sorts a bucket when its time comes.
/// So ticks may be coarse, and they may be clamped at both ends; timers on one tick are ordered by
/// a small binary heap, at O(log n) each.
///
/// Implemented for the integers up to 64 bits, `Duration`, pairs whose first half is a deadline,
/// and with the feature `std` for `std::time::Instant`.
///
/// # Implementing it
///
/// An ordered float has its ticks in its bits:
///
/// ```
/// use core::cmp::Ordering;
/// use loop_timer::{Deadline, TimerHeap};
///
/// #[derive(Clone, Copy, Debug)]
/// struct Seconds(f64);
///
/// impl Ord for Seconds {
///     fn cmp(&self, other: &Self) -> Ordering {
///         self.0.total_cmp(&other.0)
///     }
/// }
/// # impl PartialOrd for Seconds {
/// #     fn partial_cmp(&self, other: &Self) -> Option<Ordering> { Some(self.cmp(other)) }
/// # }
/// # impl PartialEq for Seconds {
/// #     fn eq(&self, other: &Self) -> bool { self.cmp(other).is_eq() }
/// # }
/// # impl Eq for Seconds {}
///
/// impl Deadline for Seconds {
///     fn ticks(self, _origin: Seconds) -> u64 {
///         let bits = self.0.to_bits();
///         // Negative numbers count down from the middle, the others up from it.
///         if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
///     }
/// }
///
/// let mut heap = TimerHeap::new();
/// heap.insert(Seconds(0.5), "half");
/// heap.insert(Seconds(-1.5), "past");
/// assert_eq!(heap.next_deadline(), Some(Seconds(-1.5)));
/// ```
///
/// A type of several parts uses its first part, or whichever the order looks at first. A type with
/// no notion of distance may return 0 always: then the heap is a plain binary heap.
pub trait Deadline: Ord + Copy {
    /// The tick on which `self` lies. `origin` is a deadline that the heap was given once, the same
    /// at each call, for types that know only distances; others ignore it.
    ///
    /// For a fixed `origin` the ticks must follow the order: `a <= b` implies `a.ticks(origin) <=
    /// b.ticks(origin)`. Where they do not, timers may come late or out of order; nothing worse.
    /// It is called a few times for each timer, so it should take a nanosecond or two.
    fn ticks(self, origin: Self) -> u64;
}

macro_rules! unsigned {
    ($($integer:ty)*) => {$(
        impl Deadline for $integer {
            fn ticks(self, _origin: Self) -> u64 {
                self as u64
            }
        }
    )*};
}

unsigned!(u8 u16 u32 u64 usize);

macro_rules! signed {
    ($($integer:ty)*) => {$(
        impl Deadline for $integer {
            fn ticks(self, _origin: Self) -> u64 {
                (self as i64 as u64) ^ 1 << 63
            }
        }
    )*};
}

signed!(i8 i16 i32 i64 isize);

/// Whole nanoseconds; all that is longer than 584 years shares the last tick.
impl Deadline for Duration {
    fn ticks(self, _origin: Duration) -> u64 {
        self.as_secs()
            .checked_mul(1_000_000_000)
            .and_then(|nanos| nanos.checked_add(u64::from(self.subsec_nanos())))
            .unwrap_or(u64::MAX)
    }
}

/// Nanoseconds from the origin, which lies in the middle: 292 years each way.
#[cfg(feature = "std")]
impl Deadline for std::time::Instant {
    fn ticks(self, origin: std::time::Instant) -> u64 {
        const MIDDLE: u64 = 1 << 63;
        let zero = Duration::from_secs(0);
        match self.checked_duration_since(origin) {
            Some(ahead) => MIDDLE.saturating_add(ahead.ticks(zero)),
            None => MIDDLE.saturating_sub(origin.duration_since(self).ticks(zero)),
        }
    }
}

/// The ticks of the first half: the second only orders what lies on the same tick.
impl<A: Deadline, B: Ord + Copy> Deadline for (A, B) {
    fn ticks(self, origin: (A, B)) -> u64 {
        self.0.ticks(origin.0)
    }
}
