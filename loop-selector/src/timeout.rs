//! The one conversion between a `Duration` and what the kernel's wait takes.

use std::time::Duration;

use rustix::event::Timespec;

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
    // `Duration::as_millis` rounds down; in nanoseconds a u128 holds every `Duration`.
    timeout.map(|t| i32::try_from(t.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX))
}

/// The same for rustix, which hands a whole number of milliseconds on unchanged.
pub(crate) fn timespec(timeout: Option<Duration>) -> Option<Timespec> {
    whole_millis(timeout).map(|ms| Timespec {
        tv_sec: i64::from(ms / 1000),
        tv_nsec: i64::from(ms % 1000 * 1_000_000) as _,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // smol-rs/smol#109: 900 us rounded down to 0 ms made the loop spin.
    #[test]
    fn s03_a_sub_millisecond_timeout_is_not_zero() {
        assert_eq!(whole_millis(Some(Duration::from_micros(900))), Some(1));
        assert_eq!(whole_millis(Some(Duration::from_nanos(1))), Some(1));
    }

    // twisted/twisted#6259: 1e15 ms, truncated to 32 bits, became negative.
    #[test]
    fn s04_a_huge_timeout_is_clamped() {
        assert_eq!(whole_millis(Some(Duration::from_secs(1_000_000_000_000))), Some(i32::MAX));
        let t = timespec(Some(Duration::from_secs(u64::MAX / 10))).unwrap();
        assert_eq!((t.tv_sec, t.tv_nsec), (2_147_483, 647_000_000));
    }

    #[test]
    fn b_sel_15_exact_milliseconds_stay() {
        for ms in [0, 1, 999, 1000, 1001, i32::MAX as u64 - 1, i32::MAX as u64] {
            assert_eq!(whole_millis(Some(Duration::from_millis(ms))), Some(ms as i32));
        }
    }
}
