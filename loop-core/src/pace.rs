//! What a run does between the end of an iteration and its next wait: nothing, unless its builder says more.

use std::thread;
use std::time::{Duration, Instant};

use crate::busy_poll::BusyPoll;
use crate::coalesce::Coalesce;
use crate::inner::Inner;
use crate::run_once::Scratch;

/// Chosen when the loop is made. One look tells that there is nothing to do.
pub(crate) struct Pace {
    on: bool,
    busy_poll: BusyPoll,
    coalesce: Coalesce,
}

impl Pace {
    pub(crate) fn new(busy_poll: Duration, coalesce: Duration) -> Self {
        let on = !(busy_poll.is_zero() && coalesce.is_zero());
        Pace { on, busy_poll: BusyPoll::new(busy_poll), coalesce: Coalesce::new(coalesce) }
    }

    /// How long the next iteration may wait, given what the last one found and whether it ran anything; takes the
    /// pause that is due before it. The machine's time is what is spent here, whatever the loop's clock says.
    #[inline]
    pub(crate) fn next_limit(&mut self, inner: &Inner, last: &Scratch) -> Option<Duration> {
        if !self.on {
            return None;
        }
        if let Some(pause) = self.coalesce.due(last.events.iter(), inner.ready.is_empty()) {
            let begun = Instant::now();
            thread::sleep(pause);
            self.coalesce.took(begun.elapsed());
        }
        self.busy_poll.next_limit(last.ran)
    }
}
