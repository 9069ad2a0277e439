//! What a run does between the end of an iteration and its next wait: nothing, unless its builder says more.

use std::thread;
use std::time::Duration;

use crate::busy_poll::BusyPoll;
use crate::inner::Inner;

/// Chosen when the loop is made. One look tells that there is nothing to do.
pub(crate) struct Pace {
    on: bool,
    busy_poll: BusyPoll,
    coalesce: Duration,
}

impl Pace {
    pub(crate) fn new(busy_poll: Duration, coalesce: Duration) -> Self {
        let on = !(busy_poll.is_zero() && coalesce.is_zero());
        Pace { on, busy_poll: BusyPoll::new(busy_poll), coalesce }
    }

    /// How long the next iteration may wait, given whether anything ran in the last one; takes the pause that is due
    /// before it. The machine's time is what is spent here, whatever the loop's clock says.
    #[inline]
    pub(crate) fn next_limit(&mut self, inner: &Inner, ran: bool) -> Option<Duration> {
        if !self.on {
            return None;
        }
        let pause = self.pause(inner.events.get(), inner.ready.is_empty());
        if !pause.is_zero() {
            thread::sleep(pause);
        }
        self.busy_poll.next_limit(ran)
    }

    /// A lone client that asks and waits for its answer gains nothing from a pause.
    fn pause(&self, found: usize, idle: bool) -> Duration {
        if found > 1 && idle { self.coalesce } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_pauses_when_several_were_ready_and_nothing_is_left_to_run() {
        let pause = Duration::from_micros(50);
        let coalescing = Pace::new(Duration::ZERO, pause);
        assert!(coalescing.on);
        assert_eq!(coalescing.pause(2, true), pause);
        assert_eq!(coalescing.pause(1_000, true), pause);
        for (found, idle) in [(0, true), (1, true), (2, false)] {
            assert_eq!(coalescing.pause(found, idle), Duration::ZERO, "{found}, {idle}");
        }
        assert!(Pace::new(pause, Duration::ZERO).on);
        assert!(!Pace::new(Duration::ZERO, Duration::ZERO).on);
    }
}
