//! [`TimerStore`]: what the timer workloads ask of a store.

/// A store of timers, each with a deadline in whole milliseconds since the store was made and a
/// number to know it by.
pub(crate) trait TimerStore {
    /// The subject's name in results.
    const NAME: &'static str;
    /// Whether equal deadlines leave in insertion order; if so, the workloads insist.
    const FIFO: bool;
    /// Finds a timer again.
    type Key;

    fn new() -> Self;
    fn insert(&mut self, when: u64, id: u32) -> Self::Key;
    /// Takes a live timer out. `None` if it is gone.
    fn cancel(&mut self, key: Self::Key) -> Option<u32>;
    /// Moves a live timer to a later deadline.
    fn reschedule(&mut self, key: Self::Key, when: u64) -> Self::Key;
    /// Moves the clock to `now`, which never goes back, and takes out the first timer that is due.
    fn pop(&mut self, now: u64) -> Option<u32>;
    /// Takes out the earliest timer, and moves the clock to its deadline at most. Then earlier
    /// calls of `pop` had a `now` before it.
    fn pop_first(&mut self) -> Option<u32> {
        self.pop(u64::MAX)
    }
    /// The exact next deadline, from a store that can tell it.
    fn next_deadline(&mut self) -> Option<u64> {
        None
    }
    /// Adds a timer that will never be cancelled.
    fn insert_only(&mut self, when: u64, id: u32) {
        self.insert(when, id);
    }
    /// Lets go of the key of a timer that has left by itself.
    fn forget(&mut self, key: Self::Key) {
        drop(key);
    }
}
