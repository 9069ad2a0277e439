//! [`TimerStore`]: what the timer workloads ask of a store.

/// A store of timers, each with a deadline in whole milliseconds since the store was made and a
/// number to know it by.
pub(crate) trait TimerStore {
    /// The subject's name in results.
    const NAME: &'static str;
    /// Whether equal deadlines leave in insertion order; if so, the workloads insist.
    const FIFO: bool;
    /// Finds a timer again.
    type Key: Copy;

    fn new() -> Self;
    fn insert(&mut self, when: u64, id: u32) -> Self::Key;
    /// Takes a timer out; `None` if it is gone.
    fn cancel(&mut self, key: Self::Key) -> Option<u32>;
    /// Moves a live timer; its key may change.
    fn reschedule(&mut self, key: Self::Key, when: u64) -> Self::Key;
    /// Moves the clock to `now` and appends to `due` all timers whose deadline is reached, in order
    /// of deadline.
    fn turn(&mut self, now: u64, due: &mut Vec<u32>);
}
