//! The one conversion between a `Duration` and what the kernel's wait takes.

use std::time::Duration;

use rustix::event::Timespec;

/// The longest wait, of every backend: what `poll` can take, and less than any kernel refuses.
pub(crate) const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);

/// A timeout in whole milliseconds, rounded **up**: a wait is never shortened, and a short one never
/// becomes a zero that spins (B-SEL-15). What does not fit is clamped to `i32::MAX`, about 24.8
/// days: the caller wakes up, finds nothing due, and waits again. `None`, wait for ever, stays.
///
/// ```
/// use loop_selector::whole_millis;
/// use std::time::Duration;
///
/// assert_eq!(whole_millis(Some(Duration::from_micros(400))), Some(1));
/// assert_eq!(whole_millis(Some(Duration::from_micros(1100))), Some(2));
/// assert_eq!(whole_millis(Some(Duration::ZERO)), Some(0));
/// assert_eq!(whole_millis(Some(Duration::MAX)), Some(i32::MAX));
/// assert_eq!(whole_millis(None), None);
/// ```
pub fn whole_millis(timeout: Option<Duration>) -> Option<i32> {
    // `Duration::as_millis` rounds down, and all of it in nanoseconds is a division of 128 bits before every wait.
    timeout.map(|t| {
        let odd = t.subsec_nanos().div_ceil(1_000_000);
        let millis = t.as_secs().saturating_mul(1_000).saturating_add(odd.into());
        i32::try_from(millis).unwrap_or(i32::MAX)
    })
}

/// The same for rustix, which hands a whole number of milliseconds on unchanged.
pub(crate) fn timespec(timeout: Option<Duration>) -> Option<Timespec> {
    whole_millis(timeout).map(|ms| exact(Duration::from_millis(ms as u64)))
}

/// A timeout in seconds and whole microseconds, rounded up, with the same greatest value.
pub(crate) fn seconds_and_micros(timeout: Option<Duration>) -> Option<(u32, u32)> {
    timeout.map(|t| {
        // What is clamped is less than 2^32 seconds, and has no odd nanoseconds that would carry beyond it.
        let t = t.min(LONGEST);
        let odd = t.subsec_nanos().div_ceil(1_000);
        (t.as_secs() as u32 + odd / 1_000_000, odd % 1_000_000)
    })
}

/// A timeout to the nanosecond, with the same greatest value.
#[cfg(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "dragonfly",
    target_os = "netbsd",
    target_os = "openbsd",
))]
pub(crate) fn fine_timespec(timeout: Option<Duration>) -> Option<Timespec> {
    timeout.map(|t| exact(t.min(LONGEST)))
}

/// A timeout to the nanosecond if it needs that: `None` if it is a whole number of milliseconds, or
/// too long to care.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn odd_timespec(timeout: Option<Duration>) -> Option<Timespec> {
    timeout.filter(|t| t.subsec_nanos() % 1_000_000 != 0 && *t < LONGEST).map(exact)
}

fn exact(timeout: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos() as _,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // smol-rs/smol#109: 900 us rounded down to 0 ms made the loop spin.
    #[test]
    fn s03_a_sub_millisecond_timeout_is_not_zero() {
        assert_eq!(whole_millis(Some(Duration::from_micros(900))), Some(1));
        assert_eq!(whole_millis(Some(Duration::from_nanos(1))), Some(1));
        assert_eq!(seconds_and_micros(Some(Duration::from_nanos(1))), Some((0, 1)));
    }

    // twisted/twisted#6259: 1e15 ms, truncated to 32 bits, became negative.
    #[test]
    fn s04_a_huge_timeout_is_clamped() {
        assert_eq!(whole_millis(Some(Duration::from_secs(1_000_000_000_000))), Some(i32::MAX));
        let t = timespec(Some(Duration::from_secs(u64::MAX / 10))).unwrap();
        assert_eq!((t.tv_sec, t.tv_nsec), (2_147_483, 647_000_000));
        assert_eq!(seconds_and_micros(Some(Duration::MAX)), Some((2_147_483, 647_000)));
    }

    #[test]
    fn b_sel_15_exact_milliseconds_stay() {
        for ms in [0, 1, 999, 1000, 1001, i32::MAX as u64 - 1, i32::MAX as u64] {
            assert_eq!(whole_millis(Some(Duration::from_millis(ms))), Some(ms as i32));
        }
    }

    #[test]
    fn b_sel_15_microseconds_are_rounded_up_and_carry() {
        let of = |nanos| seconds_and_micros(Some(Duration::from_nanos(nanos))).unwrap();
        assert_eq!(of(0), (0, 0));
        assert_eq!(of(400_000), (0, 400));
        assert_eq!(of(1_100_001), (0, 1_101));
        assert_eq!(of(999_999_001), (1, 0));
        assert_eq!(seconds_and_micros(None), None);
    }

    #[test]
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn b_sel_15_nanoseconds_are_kept_where_they_matter() {
        let t = odd_timespec(Some(Duration::from_nanos(1_100_001))).unwrap();
        assert_eq!((t.tv_sec, t.tv_nsec), (0, 1_100_001));
        for none in
            [None, Some(Duration::ZERO), Some(Duration::from_millis(7)), Some(Duration::MAX)]
        {
            assert!(odd_timespec(none).is_none());
        }
    }
}
