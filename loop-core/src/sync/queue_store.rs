//! In which order queues give their items out.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// In which order a queue gives its items out: the seam between [`Queue`](super::Queue),
/// [`LifoQueue`](super::LifoQueue) and [`PriorityQueue`](super::PriorityQueue).
pub trait QueueStore<T>: Default {
    /// Takes an item in.
    fn push(&mut self, item: T);
    /// Gives the next one out.
    fn pop(&mut self) -> Option<T>;
    /// How many there are.
    fn len(&self) -> usize;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// First in, first out.
#[derive(Debug)]
pub struct Fifo<T>(VecDeque<T>);

/// Last in, first out.
#[derive(Debug)]
pub struct Lifo<T>(Vec<T>);

/// The smallest first; equal ones in the order of their coming (B-QUE-01).
#[derive(Debug)]
pub struct Smallest<T> {
    heap: BinaryHeap<Reverse<(T, u64)>>,
    next: u64,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Fifo(VecDeque::new())
    }
}

impl<T> Default for Lifo<T> {
    fn default() -> Self {
        Lifo(Vec::new())
    }
}

impl<T: Ord> Default for Smallest<T> {
    fn default() -> Self {
        Smallest { heap: BinaryHeap::new(), next: 0 }
    }
}

impl<T> QueueStore<T> for Fifo<T> {
    fn push(&mut self, item: T) {
        self.0.push_back(item);
    }

    fn pop(&mut self) -> Option<T> {
        self.0.pop_front()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T> QueueStore<T> for Lifo<T> {
    fn push(&mut self, item: T) {
        self.0.push(item);
    }

    fn pop(&mut self) -> Option<T> {
        self.0.pop()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T: Ord> QueueStore<T> for Smallest<T> {
    fn push(&mut self, item: T) {
        let number = self.next;
        // Comes first: an item whose `Ord` panics is in all the same.
        self.next += 1;
        self.heap.push(Reverse((item, number)));
    }

    fn pop(&mut self) -> Option<T> {
        self.heap.pop().map(|Reverse((item, _))| item)
    }

    fn len(&self) -> usize {
        self.heap.len()
    }
}
