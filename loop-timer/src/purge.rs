//! `PurgePolicy`: when cancelled entries are worth a sweep.

/// Decides, after each cancel and reschedule, whether to drop all cancelled entries now: O(n) in
/// the entries held.
///
/// A policy that waits until a fixed share of the entries is cancelled costs O(1) a cancel,
/// amortised: the sweep is paid for by the cancels since the last one.
#[derive(Clone, Copy, Debug, Default)]
pub enum PurgePolicy {
    /// asyncio's rule: more than 100 entries held, and strictly more than half of them cancelled.
    /// (`_MIN_SCHEDULED_TIMER_HANDLES` and `_MIN_CANCELLED_TIMER_HANDLES_FRACTION` in its
    /// `base_events.py`.)
    #[default]
    Asyncio,
    /// Never by itself: an entry stays until its deadline comes to the head of the heap, or
    /// [`TimerHeap::purge`](crate::TimerHeap::purge) is called. Memory is then bounded only by
    /// the cancels between two purges.
    Never,
    /// Asks a function: `purge(total, cancelled)`, where `cancelled` of the `total` entries are
    /// dead. It is called with the heap in order; the cancelled value is lost if it panics.
    Custom(fn(total: usize, cancelled: usize) -> bool),
}

impl PurgePolicy {
    pub(crate) fn wants(self, total: usize, cancelled: usize) -> bool {
        match self {
            PurgePolicy::Asyncio => total > 100 && cancelled > total / 2,
            PurgePolicy::Never => false,
            PurgePolicy::Custom(purge) => purge(total, cancelled),
        }
    }
}
