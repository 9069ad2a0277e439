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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_activity_begins_the_time_anew() {
        let look = Some(Duration::ZERO);
        let mut busy = BusyPoll::new(Duration::from_millis(5));
        while busy.next_limit(false) == look {}
        assert_eq!(busy.next_limit(false), None, "it has given up, and waits");
        assert_eq!(busy.next_limit(true), look);
        assert_eq!(busy.idle_since, None);
        let mut never = BusyPoll::new(Duration::ZERO);
        assert_eq!((never.next_limit(true), never.next_limit(false)), (None, None));
    }
}
