//! Priority queues that find an item by its key through a hash table: `priority-queue` and
//! `keyed_priority_queue`, each with the timer's number as key and its value within the priority.

use std::cmp::Reverse;

use super::timer_store::TimerStore;

/// Deadline and sequence number, the earliest first.
type When = Reverse<(u64, u64)>;

pub(crate) struct PriorityQueue {
    queue: priority_queue::PriorityQueue<u32, When>,
    seq: u64,
}

impl TimerStore for PriorityQueue {
    const NAME: &'static str = "priority-queue";
    const FIFO: bool = true;
    type Key = u32;

    fn new() -> Self {
        Self { queue: priority_queue::PriorityQueue::new(), seq: 0 }
    }

    fn insert(&mut self, when: u64, id: u32) -> u32 {
        self.seq += 1;
        self.queue.push(id, Reverse((when, self.seq)));
        id
    }

    fn cancel(&mut self, key: u32) -> Option<u32> {
        self.queue.remove(&key).map(|(id, _)| id)
    }

    fn reschedule(&mut self, key: u32, when: u64) -> u32 {
        self.seq += 1;
        self.queue.change_priority(&key, Reverse((when, self.seq)));
        key
    }

    fn pop(&mut self, now: u64) -> Option<u32> {
        let (_, Reverse((when, _))) = self.queue.peek()?;
        if *when > now {
            return None;
        }
        self.queue.pop().map(|(id, _)| id)
    }
}

pub(crate) struct KeyedPriorityQueue {
    queue: keyed_priority_queue::KeyedPriorityQueue<u32, When>,
    seq: u64,
}

impl TimerStore for KeyedPriorityQueue {
    const NAME: &'static str = "keyed_priority_queue";
    const FIFO: bool = true;
    type Key = u32;

    fn new() -> Self {
        Self { queue: keyed_priority_queue::KeyedPriorityQueue::new(), seq: 0 }
    }

    fn insert(&mut self, when: u64, id: u32) -> u32 {
        self.seq += 1;
        self.queue.push(id, Reverse((when, self.seq)));
        id
    }

    fn cancel(&mut self, key: u32) -> Option<u32> {
        self.queue.remove(&key).map(|_| key)
    }

    fn reschedule(&mut self, key: u32, when: u64) -> u32 {
        self.seq += 1;
        _ = self.queue.set_priority(&key, Reverse((when, self.seq)));
        key
    }

    fn pop(&mut self, now: u64) -> Option<u32> {
        let (_, Reverse((when, _))) = self.queue.peek()?;
        if *when > now {
            return None;
        }
        self.queue.pop().map(|(id, _)| id)
    }
}
