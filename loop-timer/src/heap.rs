//! `TimerHeap`: deadlines in order, cancelled ones forgotten later.

use alloc::vec::{self, Vec};
use core::{fmt, iter};

use crate::counter::{Counter, NonZeroCounter};
use crate::deadline::Deadline;
use crate::entry::Entry;
use crate::key::TimerKey;
use crate::ladder::Ladder;
use crate::purge::PurgePolicy;
use crate::slots::Slots;
use crate::stats::Statistics;
use crate::tag::first_generation;

/// Timers, each a deadline `W` and a value `T`, in the order of their deadlines; those with equal
/// deadlines in the order of their insertion.
///
/// `W` is whatever counts your time: `u64` ticks, `std::time::Instant`, a [`Deadline`] of your own.
/// The heap reads no clock. An `Ord` that panics or contradicts itself costs the order, and perhaps
/// timers that never come due; nothing worse.
///
/// | operation | cost, n entries |
/// |---|---|
/// | `insert` | O(log n) amortised, and O(1) after what is near |
/// | `cancel`, `reschedule` | like `insert`; O(n) in the call that purges, by policy |
/// | `next_deadline`, `pop_due` | O(log n) amortised |
/// | `get`, `get_mut`, `deadline`, `contains`, `len`, `statistics` | O(1) |
///
/// What is amortised: the table and the buckets grow; `next_deadline` or `pop_due` spreads a bucket
/// of up to n entries when its time comes, a few nanoseconds each; an `insert` sets up the ladder
/// anew after n / 2 insertions before a deadline that was looked at. Insertions and reschedules are
/// numbered, to keep ties in order; at the end of 2^32 numbers the next one purges and sorts the
/// entries, and numbers them from 1.
///
/// With the default policy at most max(100, 2 x live) entries are held after any call. Values are
/// moved out, never dropped, inside every operation but [`clear`](TimerHeap::clear) and
/// [`retain`](TimerHeap::retain).
pub struct TimerHeap<T, W = u64> {
    ladder: Ladder<W>,
    slots: Slots<T, W>,
    last_seq: Counter,
    policy: PurgePolicy,
    purges: u64,
    high_water: usize,
    /// Looks at entries that were taken in advance, under `PurgePolicy::Gradual`.
    owed: usize,
}

impl<T, W: Deadline> TimerHeap<T, W> {
    /// An empty heap that purges by asyncio's rule. Allocates nothing yet.
    pub fn new() -> TimerHeap<T, W> {
        TimerHeap::with_capacity(0)
    }

    /// An empty heap with room for the values of `capacity` timers.
    pub fn with_capacity(capacity: usize) -> TimerHeap<T, W> {
        TimerHeap {
            ladder: Ladder::new(),
            slots: Slots::with_capacity(capacity, first_generation()),
            last_seq: 0,
            policy: PurgePolicy::default(),
            purges: 0,
            high_water: 0,
            owed: 0,
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
        let key = self.slots.insert(when, seq, value);
        self.push(Entry { when, seq, slot: key.slot });
        key
    }

    /// Cancels a timer and gives its value back; `None` if the key is stale. The entry in the heap
    /// is forgotten later: when it reaches the head, or in a purge, which may be now.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let value = self.slots.remove(key)?;
        self.purge_if_due();
        Some(value)
    }

    /// Gives a timer another deadline, earlier or later. The key stays valid; among equal deadlines
    /// the timer is now the last. False if the key is stale.
    pub fn reschedule(&mut self, key: TimerKey, when: W) -> bool {
        // A number more or less does not matter, a second look at the slot does.
        let seq = self.draw_seq();
        if !self.slots.reschedule(key, when, seq) {
            return false;
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
        if self.ladder.is_quiet(now) {
            return None;
        }
        let (when, key) = self.head()?;
        if when > now {
            return None;
        }
        self.ladder.pop();
        let value = self.slots.remove(key)?;
        if self.cancelled() > 0 {
            self.purge_if_due();
        }
        Some((when, key, value))
    }

    /// Takes out timers that are due, as [`pop_due`](TimerHeap::pop_due) does, but no more than
    /// `limit`. They leave one by one as the iterator is asked for them: what it was not asked for
    /// stays.
    pub fn drain_due(
        &mut self,
        now: W,
        limit: usize,
    ) -> impl Iterator<Item = (W, TimerKey, T)> + '_ {
        iter::from_fn(move || self.pop_due(now)).take(limit)
    }

    /// The value of a timer; `None` if the key is stale.
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.slots.get(key).map(|timer| timer.1)
    }

    /// The value of a timer; `None` if the key is stale.
    pub fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.slots.get_mut(key)
    }

    /// The deadline of a timer; `None` if the key is stale.
    pub fn deadline(&self, key: TimerKey) -> Option<W> {
        self.slots.get(key).map(|timer| timer.0)
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
        for entry in self.take_sorted() {
            if let Some(key) = self.slots.key(entry.slot, entry.seq) {
                timers.extend(self.slots.remove(key).map(|value| (entry.when, key, value)));
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

    /// Cancels the timers that `keep` refuses, in no particular order. Their values are dropped at
    /// the end, when the heap is in order again, or if `keep` panics: then the timers that it had
    /// not seen stay. O(the most timers that ever waited at once).
    ///
    /// Where a value's destructor reaches this heap through a cell, [`cancel`](TimerHeap::cancel)
    /// the keys that [`iter`](TimerHeap::iter) finds instead.
    pub fn retain(&mut self, mut keep: impl FnMut(W, TimerKey, &mut T) -> bool) {
        let mut refused = Vec::new();
        for slot in 0..self.slots.reach() {
            if let Some((when, key, value)) = self.slots.at(slot) {
                if !keep(when, key, value) {
                    refused.extend(self.slots.remove(key));
                }
            }
        }
        self.purge_if_due();
    }

    /// All waiting timers, in no particular order. O(the most timers that ever waited at once).
    pub fn iter(&self) -> impl Iterator<Item = (W, TimerKey, &T)> {
        self.slots.iter()
    }

    /// Drops all cancelled entries from the heap now, and returns how many there were. O(n).
    pub fn purge(&mut self) -> usize {
        let total = self.ladder.len();
        let slots = &self.slots;
        self.ladder.retain(|entry| slots.is_live(entry.slot, entry.seq));
        self.purges += 1;
        total - self.ladder.len()
    }

    /// Makes room for the values of `additional` more timers. Their deadlines go where the future
    /// puts them, which cannot be reserved.
    ///
    /// # Panics
    /// If memory runs out.
    pub fn reserve(&mut self, additional: usize) {
        self.slots.reserve(additional);
    }

    /// Purges, and gives unused memory back. A slot that was used once stays, because it remembers
    /// which keys are stale.
    pub fn shrink_to_fit(&mut self) {
        self.purge();
        self.ladder.shrink_to_fit();
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
        let slots = &self.slots;
        loop {
            let entry = self.ladder.first(|entry| slots.is_live(entry.slot, entry.seq))?;
            if let Some(key) = slots.key(entry.slot, entry.seq) {
                return Some((entry.when, key));
            }
            self.ladder.pop();
        }
    }

    fn push(&mut self, entry: Entry<W>) {
        self.ladder.push(entry);
        self.high_water = self.high_water.max(self.ladder.len());
    }

    /// Every live timer has one entry, so the entries beyond those are the cancelled ones: there is
    /// no counter that could drift. Saturating, because a `W` that panics in a purge loses entries.
    fn cancelled(&self) -> usize {
        self.ladder.len().saturating_sub(self.len())
    }

    fn purge_if_due(&mut self) {
        if !self.policy.wants(self.ladder.len(), self.cancelled()) {
            return;
        }
        if let PurgePolicy::Gradual = self.policy {
            self.sweep();
        } else {
            self.purge();
        }
    }

    /// Each call earns a look at a few entries. A block is swept on credit, and worked off.
    fn sweep(&mut self) {
        const LOOKS: usize = 8;
        if self.owed >= LOOKS {
            self.owed -= LOOKS;
            return;
        }
        let slots = &self.slots;
        self.owed += self.ladder.sweep(|entry| slots.is_live(entry.slot, entry.seq));
    }

    /// Empties the ladder. The entries of waiting timers alone, in their order.
    fn take_sorted(&mut self) -> Vec<Entry<W>> {
        let slots = &self.slots;
        let taken = self.ladder.take();
        let mut entries: Vec<_> =
            taken.filter(|entry| slots.is_live(entry.slot, entry.seq)).collect();
        entries.sort_unstable_by(|a, b| b.cmp(a));
        entries
    }

    /// The next sequence number.
    #[inline]
    fn draw_seq(&mut self) -> NonZeroCounter {
        if self.last_seq == Counter::MAX {
            self.renumber();
        }
        self.last_seq += 1;
        NonZeroCounter::new(self.last_seq).expect("counted up from zero")
    }

    /// The numbers are used up: a purge, and the entries are numbered anew in their order.
    #[cold]
    fn renumber(&mut self) {
        let entries = self.take_sorted();
        self.purges += 1;
        self.last_seq = 0;
        for entry in entries {
            self.last_seq += 1;
            let seq = NonZeroCounter::new(self.last_seq).expect("counted up from zero");
            self.slots.renumber(entry.slot, entry.seq, seq);
            self.ladder.push(Entry { seq, ..entry });
        }
        assert!(self.last_seq < Counter::MAX, "fewer than 2^32 timers");
    }
}

impl<T, W: Deadline> Default for TimerHeap<T, W> {
    fn default() -> TimerHeap<T, W> {
        TimerHeap::new()
    }
}

impl<T, W: Deadline> fmt::Debug for TimerHeap<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerHeap").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::iter;

    use super::*;

    #[test]
    fn the_end_of_the_sequence_numbers_keeps_order_and_keys() {
        let mut heap = TimerHeap::new();
        heap.last_seq = Counter::MAX - 3;
        let a = heap.insert(7_u64, 'a');
        let b = heap.insert(7, 'b');
        let dead = heap.insert(7, 'x');
        assert_eq!(heap.cancel(dead), Some('x'));
        let c = heap.insert(7, 'c');
        assert_eq!(heap.last_seq, 3, "numbered anew: a, b, and now c");
        assert_eq!(heap.statistics().cancelled, 0);
        let d = heap.insert(6, 'd');
        assert!(heap.reschedule(d, 7));
        for key in [a, b, c, d] {
            assert!(heap.contains(key));
        }
        let order: Vec<char> =
            iter::from_fn(|| heap.pop_due(7)).map(|(_, _, value)| value).collect();
        assert_eq!(order, ['a', 'b', 'c', 'd']);
    }

    /// Counts of one byte run out all the time: order and keys must not show it.
    #[test]
    fn the_heap_outlives_its_counters() {
        let mut random = 1_u32;
        let mut below = |bound: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 16) % bound
        };
        let mut heap = TimerHeap::with_policy(PurgePolicy::Never);
        let mut oracle: Vec<(u64, TimerKey, u32)> = Vec::new();
        let mut gone: Vec<TimerKey> = Vec::new();
        let add = |oracle: &mut Vec<(u64, TimerKey, u32)>, timer: (u64, TimerKey, u32)| {
            let place = oracle.iter().position(|other| other.0 > timer.0).unwrap_or(oracle.len());
            oracle.insert(place, timer);
        };
        for value in 0..60_000 {
            let when = u64::from(below(5));
            match below(4) {
                0 | 1 if oracle.len() < 100 => {
                    let key = heap.insert(when, value);
                    assert!(!gone.contains(&key), "a key came back after {} uses", gone.len());
                    add(&mut oracle, (when, key, value));
                }
                2 if !oracle.is_empty() => {
                    let (_, key, value) = oracle.remove(below(oracle.len() as u32) as usize);
                    assert!(heap.reschedule(key, when));
                    add(&mut oracle, (when, key, value));
                }
                _ if !oracle.is_empty() && value % 3 == 0 => {
                    let (when, key, value) = oracle.remove(0);
                    assert_eq!(heap.pop_due(4), Some((when, key, value)));
                    gone.push(key);
                }
                _ if !oracle.is_empty() => {
                    let (_, key, value) = oracle.remove(below(oracle.len() as u32) as usize);
                    assert_eq!(heap.cancel(key), Some(value));
                    gone.push(key);
                }
                _ => {}
            }
            assert_eq!(heap.next_deadline(), oracle.first().map(|timer| timer.0));
        }
        assert!(gone.len() > 2 * 256, "no slot came to its end");
        assert!(gone.iter().all(|key| !heap.contains(*key)));
    }

    #[test]
    #[should_panic(expected = "fewer than")]
    fn more_timers_than_numbers_are_refused() {
        let mut heap = TimerHeap::new();
        for when in 0..256_u64 {
            heap.insert(when, ());
        }
    }
}
