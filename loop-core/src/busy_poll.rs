//! Looking before waiting.

use std::time::{Duration, Instant};

/// For how long after the last activity a run asks the selector without waiting.
#[derive(Default)]
pub(crate) struct BusyPoll {
    limit: Duration,
    /// When the first iteration after the last activity ended.
    idle_since: Option<Instant>,
}

impl BusyPoll {
    pub(crate) fn new(limit: Duration) -> Self {
        BusyPoll { limit, idle_since: None }
    }

    /// How long the next iteration may wait, given whether anything ran in the last one. The machine's time is
    /// what is spent here, whatever the loop's clock says.
    pub(crate) fn next_limit(&mut self, ran: bool) -> Option<Duration> {
        if self.limit.is_zero() {
            return None;
        }
        if ran {
            self.idle_since = None;
            return Some(Duration::ZERO);
        }
        let idle = self.idle_since.get_or_insert_with(Instant::now).elapsed();
        (idle < self.limit).then_some(Duration::ZERO)
    }
}
