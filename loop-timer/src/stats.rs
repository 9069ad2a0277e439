//! `Statistics`: what a heap holds and has done.

/// A reading of a [`TimerHeap`](crate::TimerHeap)'s counters, taken in O(1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Timers that are waiting.
    pub live: usize,
    /// Entries in the heap whose timer was cancelled, or has another entry since it was rescheduled:
    /// exactly those, no more.
    pub cancelled: usize,
    /// Sweeps over the whole heap so far, asked for or by policy.
    pub purges: u64,
    /// The most entries, live and cancelled, that were held at once.
    pub high_water: usize,
}
