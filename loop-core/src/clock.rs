//! Where the loop reads the time from.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

/// The loop's source of time.
///
/// Every deadline of the loop is an [`Instant`] of this clock. The loop reads it only while a timer
/// lives or debug mode is on, so a loop without timers never pays for it. Replacing the clock is how
/// tests move time by hand: see [`VirtualClock`].
pub trait Clock {
    /// The current instant. It must never go back (B-LOOP-25).
    fn now(&self) -> Instant;

    /// The smallest step of this clock. A timer is due once its deadline lies less than this ahead
    /// (B-TMR-03), which spares the loop a useless turn when a wait ends a step too early.
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }
}

/// The machine's monotonic clock, read through [`Instant::now`].
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// A clock that moves only when it is told to.
///
/// Share it with the loop through an `Rc`, advance it, and step the loop with
/// [`EventLoop::run_once`](crate::EventLoop::run_once) and a limit of zero:
///
/// ```
/// use loop_core::{EventLoop, VirtualClock};
/// use std::{cell::Cell, rc::Rc, time::Duration};
///
/// let clock = Rc::new(VirtualClock::new());
/// let mut event_loop = EventLoop::builder().clock(clock.clone()).build()?;
/// let fired = Rc::new(Cell::new(false));
/// let seen = fired.clone();
/// event_loop.call_later(Duration::from_secs(3600), move || seen.set(true));
///
/// event_loop.run_once(Some(Duration::ZERO))?;
/// assert!(!fired.get());
/// clock.advance(Duration::from_secs(3600));
/// event_loop.run_once(Some(Duration::ZERO))?;
/// assert!(fired.get());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct VirtualClock {
    now: Cell<Instant>,
}

impl VirtualClock {
    /// A clock that stands at the moment of this call.
    pub fn new() -> Self {
        VirtualClock { now: Cell::new(Instant::now()) }
    }

    /// Moves the clock forward. Moves beyond what an [`Instant`] can hold stop at its end.
    pub fn advance(&self, by: Duration) {
        self.now.set(saturating_add(self.now.get(), by));
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for VirtualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VirtualClock").field(&self.now.get()).finish()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        self.now.get()
    }
}

/// `instant + by`, or the last instant that this platform can express (B-TMR-12).
pub(crate) fn saturating_add(instant: Instant, by: Duration) -> Instant {
    instant.checked_add(by).unwrap_or_else(|| {
        // Rare by nature, so the search may take its hundred steps.
        let mut end = instant;
        let mut step = Duration::from_secs(1 << 62);
        while !step.is_zero() {
            match end.checked_add(step) {
                Some(later) => end = later,
                None => step /= 2,
            }
        }
        end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additions_saturate_at_the_last_instant() {
        let now = Instant::now();
        let end = saturating_add(now, Duration::MAX);
        assert_eq!(end.checked_add(Duration::from_nanos(1)), None);
        assert!(end > now + Duration::from_secs(1 << 40));
        assert_eq!(saturating_add(now, Duration::from_secs(5)), now + Duration::from_secs(5));
    }
}
