//! `TimerHeap`: deadlines in order, cancelled ones forgotten later.

use alloc::collections::BinaryHeap;
use alloc::vec::{self, Vec};
use core::fmt;
use core::mem;

use crate::entry::Entry;
use crate::key::TimerKey;
use crate::purge::PurgePolicy;
use crate::slots::{Slots, Timer};
use crate::stats::Statistics;

/// Timers, each a deadline `W` and a value `T`, in the order of their deadlines; those with equal
/// deadlines in the order of their insertion.
///
/// `W` is whatever counts your time: `u64` ticks, `std::time::Instant`, a type of your own. The
/// heap reads no clock. An `Ord` that panics or contradicts itself costs the order, and perhaps
/// timers that never come due; nothing worse.
///
/// | operation | cost, n entries |
/// |---|---|
/// | `insert` | O(log n) |
/// | `cancel` | O(1) amortised; O(n) in the call that purges |
/// | `reschedule` | O(log n) amortised; O(n) in the call that purges |
/// | `next_deadline`, `pop_due` | O(log n), and O(log n) for each cancelled entry that it trims |
/// | `get`, `get_mut`, `deadline`, `contains`, `len`, `statistics` | O(1) |
///
/// With the default policy a `cancel` or `reschedule` leaves at most max(100, 2 x live) entries.
/// Values are moved out, never dropped, inside every operation but [`clear`](TimerHeap::clear).
pub struct TimerHeap<T, W = u64> {
    entries: BinaryHeap<Entry<W>>,
    slots: Slots<T, W>,
    next_seq: u64,
    policy: PurgePolicy,
    purges: u64,
    high_water: usize,
}

impl<T, W: Ord + Copy> TimerHeap<T, W> {
    /// An empty heap that purges by asyncio's rule. Allocates nothing yet.
    pub fn new() -> TimerHeap<T, W> {
        TimerHeap::with_capacity(0)
    }

    /// An empty heap with room for `capacity` timers.
    pub fn with_capacity(capacity: usize) -> TimerHeap<T, W> {
        TimerHeap {
            entries: BinaryHeap::with_capacity(capacity),
            slots: Slots::with_capacity(capacity),
            next_seq: 0,
            policy: PurgePolicy::default(),
            purges: 0,
            high_water: 0,
        }
    }

    /// An empty heap that purges by `policy`.
    pub fn with_policy(policy: PurgePolicy) -> TimerHeap<T, W> {
        TimerHeap { policy, ..TimerHeap::new() }
    }

    /// Adds a timer that is due at `when`, past instants included.
    ///
    /// # Panics
    /// If 2^32 slots are in use, or if memory runs out.
    pub fn insert(&mut self, when: W, value: T) -> TimerKey {
        let seq = self.draw_seq();
        let key = self.slots.insert(Timer { when, seq, value });
        self.push(Entry { when, seq, slot: key.slot });
        key
    }

    /// Cancels a timer and gives its value back; `None` if the key is stale. The entry in the heap
    /// is forgotten later: when it reaches the head, or in a purge, which may be now.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let timer = self.slots.remove(key)?;
        self.purge_if_due();
        Some(timer.value)
    }

    /// Gives a timer another deadline, earlier or later. The key stays valid; among equal deadlines
    /// the timer is now the last. False if the key is stale.
    pub fn reschedule(&mut self, key: TimerKey, when: W) -> bool {
        if !self.contains(key) {
            return false;
        }
        let seq = self.draw_seq();
        if let Some(timer) = self.slots.get_mut(key) {
            timer.when = when;
            timer.seq = seq;
        }
        self.push(Entry { when, seq, slot: key.slot });
        self.purge_if_due();
        true
    }

    /// The deadline of the timer that is due first. Exact: cancelled entries at the head are
    /// trimmed, never reported.
    pub fn next_deadline(&mut self) -> Option<W> {
        self.head().map(|(when, _)| when)
    }

    /// Takes the first timer out if it is due: if its deadline is not after `now`. Call it until it
    /// returns `None`, or as often as one turn of your loop shall be long.
    pub fn pop_due(&mut self, now: W) -> Option<(W, TimerKey, T)> {
        let (when, key) = self.head()?;
        if when > now {
            return None;
        }
        self.entries.pop();
        let timer = self.slots.remove(key)?;
        Some((when, key, timer.value))
    }

    /// The value of a timer; `None` if the key is stale.
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.slots.get(key).map(|timer| &timer.value)
    }

    /// The value of a timer; `None` if the key is stale.
    pub fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.slots.get_mut(key).map(|timer| &mut timer.value)
    }

    /// The deadline of a timer; `None` if the key is stale.
    pub fn deadline(&self, key: TimerKey) -> Option<W> {
        self.slots.get(key).map(|timer| timer.when)
    }

    /// True if the key's timer is still waiting.
    pub fn contains(&self, key: TimerKey) -> bool {
        self.slots.get(key).is_some()
    }

    /// How many timers are waiting. Cancelled ones do not count.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if no timer is waiting.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Empties the heap and returns the timers in the order in which they would have been due. The
    /// heap is empty, and all keys are stale, before the iterator yields the first. O(n log n).
    pub fn drain(&mut self) -> vec::IntoIter<(W, TimerKey, T)> {
        let mut timers = Vec::with_capacity(self.len());
        for entry in mem::take(&mut self.entries).into_sorted_vec().iter().rev() {
            if let Some(key) = self.slots.key(entry.slot, entry.seq) {
                timers.extend(self.slots.remove(key).map(|timer| (entry.when, key, timer.value)));
            }
        }
        timers.into_iter()
    }

    /// Empties the heap and drops the values, when the heap is already empty. Where a value's
    /// destructor reaches this heap through a cell, drop what [`drain`](TimerHeap::drain) returns
    /// instead, with the cell not borrowed.
    pub fn clear(&mut self) {
        drop(self.drain());
    }

    /// All waiting timers, in no particular order. O(the most timers that ever waited at once).
    pub fn iter(&self) -> impl Iterator<Item = (W, TimerKey, &T)> {
        self.slots.iter().map(|(key, timer)| (timer.when, key, &timer.value))
    }

    /// Drops all cancelled entries from the heap now, and returns how many there were. O(n).
    pub fn purge(&mut self) -> usize {
        let mut entries = mem::take(&mut self.entries).into_vec();
        let total = entries.len();
        entries.retain(|entry| self.slots.key(entry.slot, entry.seq).is_some());
        self.entries = entries.into();
        self.purges += 1;
        total - self.entries.len()
    }

    /// Makes room for `additional` more timers.
    ///
    /// # Panics
    /// If memory runs out.
    pub fn reserve(&mut self, additional: usize) {
        self.entries.reserve(additional);
        self.slots.reserve(additional);
    }

    /// Purges, and gives unused memory back. A slot that was used once stays, because it remembers
    /// which keys are stale.
    pub fn shrink_to_fit(&mut self) {
        self.purge();
        self.entries.shrink_to_fit();
        self.slots.shrink_to_fit();
    }

    /// What the heap holds and has done.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            live: self.len(),
            cancelled: self.cancelled(),
            purges: self.purges,
            high_water: self.high_water,
        }
    }

    /// The first live entry; dead ones before it are popped.
    fn head(&mut self) -> Option<(W, TimerKey)> {
        loop {
            let entry = self.entries.peek()?;
            if let Some(key) = self.slots.key(entry.slot, entry.seq) {
                return Some((entry.when, key));
            }
            self.entries.pop();
        }
    }

    fn push(&mut self, entry: Entry<W>) {
        self.entries.push(entry);
        self.high_water = self.high_water.max(self.entries.len());
    }

    /// Every live timer has one entry, so the entries beyond those are the cancelled ones: there is
    /// no counter that could drift. Saturating, because a `W` that panics in a purge loses entries.
    fn cancelled(&self) -> usize {
        self.entries.len().saturating_sub(self.len())
    }

    fn purge_if_due(&mut self) {
        if self.policy.wants(self.entries.len(), self.cancelled()) {
            self.purge();
        }
    }

    /// The next sequence number. When they are used up, after 2^64 - 1 timers, the entries are
    /// numbered anew in their order: O(n log n), once in some centuries.
    fn draw_seq(&mut self) -> u64 {
        if self.next_seq == u64::MAX {
            self.renumber();
        }
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    fn renumber(&mut self) {
        self.purge();
        let mut entries = mem::take(&mut self.entries).into_sorted_vec();
        self.next_seq = 0;
        for entry in entries.iter_mut().rev() {
            let key = self.slots.key(entry.slot, entry.seq);
            entry.seq = self.next_seq;
            self.next_seq += 1;
            if let Some(timer) = key.and_then(|key| self.slots.get_mut(key)) {
                timer.seq = entry.seq;
            }
        }
        self.entries = entries.into();
    }
}

impl<T, W: Ord + Copy> Default for TimerHeap<T, W> {
    fn default() -> TimerHeap<T, W> {
        TimerHeap::new()
    }
}

impl<T, W: Ord + Copy> fmt::Debug for TimerHeap<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerHeap").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_sequence_numbers_keeps_order_and_keys() {
        let mut heap = TimerHeap::new();
        heap.next_seq = u64::MAX - 3;
        let a = heap.insert(7_u64, 'a');
        let b = heap.insert(7, 'b');
        let dead = heap.insert(7, 'x');
        assert_eq!(heap.cancel(dead), Some('x'));
        let c = heap.insert(7, 'c');
        assert_eq!(heap.next_seq, 3, "numbered anew: a, b, and now c");
        assert_eq!(heap.statistics().cancelled, 0);
        let d = heap.insert(6, 'd');
        assert!(heap.reschedule(d, 7));
        for key in [a, b, c, d] {
            assert!(heap.contains(key));
        }
        let order: Vec<char> =
            core::iter::from_fn(|| heap.pop_due(7)).map(|(_, _, value)| value).collect();
        assert_eq!(order, ['a', 'b', 'c', 'd']);
    }
}
