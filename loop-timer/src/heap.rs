//! `TimerHeap`: deadlines in order, cancelled ones forgotten later.

use alloc::vec::{self, Vec};
use core::{fmt, iter};

use crate::counter::Counter;
use crate::deadline::Deadline;
use crate::entry::Entry;
use crate::key::TimerKey;
use crate::ladder::Ladder;
use crate::purge::PurgePolicy;
use crate::slots::Slots;
use crate::stats::Statistics;
use crate::tag::first_generation;

mod upkeep;

/// Timers, each a deadline `W` and a value `T`, in the order of their deadlines; those with equal
/// deadlines in the order of their insertion.
///
/// `W` is whatever counts your time: `u64` ticks, `std::time::Instant`, a [`Deadline`] of your own.
/// The heap reads no clock. An `Ord` that panics or contradicts itself costs the order, and perhaps
/// timers that never come due; nothing worse.
///
/// | operation | cost, n entries |
/// |---|---|
/// | `insert`, `insert_with_key` | O(log n) amortised, and O(1) after what is near |
/// | `cancel` | O(1); O(n) in the call that purges, by policy |
/// | `reschedule` | O(1) to a later deadline; to an earlier one like `insert` and `cancel` |
/// | `next_deadline`, `pop_due` | O(log n) amortised |
/// | `get`, `get_mut`, `deadline`, `contains`, `len`, `statistics` | O(1) |
///
/// What is amortised: the table and the buckets grow; `next_deadline` or `pop_due` spreads a bucket
/// of up to n entries when its time comes, and files timers again that were put off since; an
/// `insert` sets up the ladder anew after n / 2 insertions before a deadline that was looked at.
/// `next_deadline` after a million timers were put off took 38 ms, where [`PurgePolicy`] says its
/// pauses were measured. Insertions and reschedules are numbered, to keep ties in order; at the end of
/// 2^32 numbers the next one purges and sorts the entries, and numbers them from 1.
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
        self.insert_with_key(when, |_| value)
    }

    /// As [`insert`](TimerHeap::insert), for a value that knows its own key; if `make` panics, nothing
    /// is added. The value is made where it is to lie, which a large one is quicker for.
    ///
    /// ```
    /// use loop_timer::TimerHeap;
    ///
    /// let mut heap = TimerHeap::new();
    /// let key = heap.insert_with_key(300, |key| ("give up", key));
    /// assert_eq!(heap.pop_due(300), Some((300, key, ("give up", key))));
    /// ```
    ///
    /// # Panics
    /// As `insert`, and if `make` does.
    pub fn insert_with_key(&mut self, when: W, make: impl FnOnce(TimerKey) -> T) -> TimerKey {
        let seq = self.draw_seq();
        let key = self.slots.insert(when, seq, make);
        self.push(Entry { when, seq, slot: key.slot });
        key
    }

    /// Cancels a timer and gives its value back; `None` if the key is stale. The entry in the heap
    /// is forgotten later: when it reaches the head, or in a purge, which may be now. That of the
    /// newest timer goes at once, unless the head was looked at since and it lies near.
    // Inlined, a value that its caller has no use for is not moved at all.
    #[inline(always)]
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        // Moved once, from the slot to the caller.
        let value = self.slots.remove(key);
        if value.is_some() {
            self.ladder.withdraw(key.slot);
            if self.cancelled() > 0 {
                self.purge_if_due();
            }
        }
        value
    }

    /// Gives a timer another deadline, earlier or later. The key stays valid; among equal deadlines
    /// the timer is now the last. False if the key is stale.
    ///
    /// A timer that is put off keeps its entry, and is filed again when that entry's turn comes:
    /// to push a timeout ahead with each byte costs a look at one slot, and no memory. A timer that
    /// comes before its last deadline gets a new entry, and so does any under
    /// [`PurgePolicy::Gradual`]: there the old entry is forgotten later, like a cancelled one.
    pub fn reschedule(&mut self, key: TimerKey, when: W) -> bool {
        // A number more or less does not matter, a second look at the slot does.
        let seq = self.draw_seq();
        let may_wait = !matches!(self.policy, PurgePolicy::Gradual);
        let anew = self.slots.reschedule(key, when, seq, may_wait);
        if anew == Some(true) {
            self.ladder.withdraw(key.slot);
            self.push(Entry { when, seq, slot: key.slot });
            self.purge_if_due();
        }
        anew.is_some()
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
        self.slots.get(key)
    }

    /// The value of a timer; `None` if the key is stale.
    pub fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.slots.get_mut(key)
    }

    /// The deadline of a timer; `None` if the key is stale.
    pub fn deadline(&self, key: TimerKey) -> Option<W> {
        self.slots.deadline(key)
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
            if let Some(key) = self.slots.key(entry.slot) {
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
        self.ladder.retain(|entry| slots.is_live(entry));
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

    /// The first entry that is live and up to date; those before it are popped, or filed again.
    fn head(&mut self) -> Option<(W, TimerKey)> {
        let slots = &mut self.slots;
        loop {
            let first = *self.ladder.first(|entry| slots.update(entry))?;
            let mut entry = first;
            let live = slots.update(&mut entry);
            if live && entry.seq == first.seq {
                return slots.key(entry.slot).map(|key| (entry.when, key));
            }
            self.ladder.pop();
            if live {
                self.ladder.push(entry);
            }
        }
    }

    fn push(&mut self, entry: Entry<W>) {
        self.ladder.push(entry);
        self.high_water = self.high_water.max(self.ladder.len());
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
