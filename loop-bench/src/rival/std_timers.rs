//! What one writes with the standard library alone: an ordered map, or a binary heap that marks
//! cancelled timers and drops them when they surface.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::timer_store::TimerStore;

/// `BTreeMap` by (deadline, sequence number): cancelling really removes.
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

    fn turn(&mut self, now: u64, due: &mut Vec<u32>) {
        while let Some(first) = self.timers.first_entry() {
            if first.key().0 > now {
                break;
            }
            due.push(first.remove());
        }
    }
}

/// `BinaryHeap` of (deadline, sequence number), the values beside it in the order of insertion.
/// A cancelled timer's entry stays until it reaches the top, and a value's place is never used
/// again: the simple thing, with the memory that the simple thing costs.
pub(crate) struct Lazy {
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    values: Vec<Option<u32>>,
}

impl TimerStore for Lazy {
    const NAME: &'static str = "std/binaryheap";
    const FIFO: bool = true;
    type Key = usize;

    fn new() -> Self {
        Self { heap: BinaryHeap::new(), values: Vec::new() }
    }

    fn insert(&mut self, when: u64, id: u32) -> usize {
        let key = self.values.len();
        self.values.push(Some(id));
        self.heap.push(Reverse((when, key)));
        key
    }

    fn cancel(&mut self, key: usize) -> Option<u32> {
        self.values[key].take()
    }

    fn reschedule(&mut self, key: usize, when: u64) -> usize {
        let id = self.cancel(key).expect("the workload moves live timers only");
        self.insert(when, id)
    }

    fn turn(&mut self, now: u64, due: &mut Vec<u32>) {
        while let Some(&Reverse((when, key))) = self.heap.peek() {
            if when > now {
                break;
            }
            self.heap.pop();
            due.extend(self.values[key].take());
        }
    }
}
