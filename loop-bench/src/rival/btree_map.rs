//! `BTreeMap` by (deadline, sequence number): cancelling really removes.

use std::collections::BTreeMap;

use super::timer_store::TimerStore;

pub(crate) struct Map {
    timers: BTreeMap<(u64, u64), u32>,
    next: u64,
}

impl TimerStore for Map {
    const NAME: &'static str = "std/btreemap";
    const FIFO: bool = true;
    type Key = (u64, u64);

    fn new() -> Self {
        Self { timers: BTreeMap::new(), next: 0 }
    }

    fn insert(&mut self, when: u64, id: u32) -> (u64, u64) {
        let key = (when, self.next);
        self.next += 1;
        self.timers.insert(key, id);
        key
    }

    fn cancel(&mut self, key: (u64, u64)) -> Option<u32> {
        self.timers.remove(&key)
    }

    fn reschedule(&mut self, key: (u64, u64), when: u64) -> (u64, u64) {
        let id = self.timers.remove(&key).expect("the workload moves live timers only");
        self.insert(when, id)
    }

    fn pop(&mut self, now: u64) -> Option<u32> {
        let first = self.timers.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    fn next_deadline(&mut self) -> Option<u64> {
        self.timers.first_key_value().map(|(&(when, _), _)| when)
    }
}
