//! This project's timer heap, with its default purge rule.

use loop_timer::{TimerHeap, TimerKey};

use super::timer_store::TimerStore;

pub(crate) struct Heap(TimerHeap<u32, u64>);

impl TimerStore for Heap {
    const NAME: &'static str = "loop-timer";
    const FIFO: bool = true;
    type Key = TimerKey;

    fn new() -> Self {
        Self(TimerHeap::new())
    }

    fn insert(&mut self, when: u64, id: u32) -> TimerKey {
        self.0.insert(when, id)
    }

    fn cancel(&mut self, key: TimerKey) -> Option<u32> {
        self.0.cancel(key)
    }

    fn reschedule(&mut self, key: TimerKey, when: u64) -> TimerKey {
        assert!(self.0.reschedule(key, when), "the workload moves live timers only");
        key
    }

    fn pop(&mut self, now: u64) -> Option<u32> {
        self.0.pop_due(now).map(|(_when, _key, id)| id)
    }

    fn next_deadline(&mut self) -> Option<u64> {
        self.0.next_deadline()
    }
}
