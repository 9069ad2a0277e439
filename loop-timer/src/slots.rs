//! Where timers live while the ladder orders their deadlines: a slot table with generations.

use alloc::vec::Vec;
use core::mem;

use crate::counter::{Counter, NonZeroCounter};
use crate::entry::Entry;
use crate::key::TimerKey;

/// No slot: the end of the list of free ones.
const NONE: u32 = u32::MAX;

enum Slot<T> {
    /// `filed` tells which of the ladder's entries is this timer's; any other for this slot is dead.
    /// Where it is not `seq`, the timer was put off since: then the entry is too early, and is to be
    /// brought up to date when its turn comes.
    Live { generation: Counter, filed: NonZeroCounter, seq: NonZeroCounter, value: T },
    /// On the list of free slots, or retired: left off it after its last generation.
    Free { generation: Counter, next: u32 },
}

/// Every operation is O(1), but for the growth of the table.
pub(crate) struct Slots<T, W> {
    table: Vec<Slot<T>>,
    /// The deadlines of the timers in `table`. On their own, because to cancel a timer or to see
    /// that an entry is dead takes no look at them, and less memory to look at is faster.
    whens: Vec<W>,
    /// The head of the list of free slots.
    free: u32,
    live: usize,
    /// The generation of a slot that was never used, different for each heap.
    first: Counter,
}

impl<T, W: Copy> Slots<T, W> {
    pub(crate) fn with_capacity(capacity: usize, first: Counter) -> Slots<T, W> {
        Slots {
            table: Vec::with_capacity(capacity),
            whens: Vec::with_capacity(capacity),
            free: NONE,
            live: 0,
            first,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    #[inline]
    pub(crate) fn insert(
        &mut self,
        when: W,
        seq: NonZeroCounter,
        make: impl FnOnce(TimerKey) -> T,
    ) -> TimerKey {
        let slot = self.free;
        if slot == NONE {
            let key = TimerKey { slot: self.place_behind(), generation: self.first };
            let value = make(key);
            self.whens.push(when);
            self.table.push(Slot::Live { generation: key.generation, filed: seq, seq, value });
            self.live += 1;
            return key;
        }
        let place = &mut self.table[slot as usize];
        let (generation, next) = match *place {
            Slot::Free { generation, next } => (generation, next),
            _ => unreachable!("the list of free slots holds free slots"),
        };
        let key = TimerKey { slot, generation };
        let value = make(key);
        *place = Slot::Live { generation, filed: seq, seq, value };
        self.whens[slot as usize] = when;
        self.free = next;
        self.live += 1;
        key
    }

    /// Makes room behind the last slot, and numbers it.
    #[inline]
    fn place_behind(&mut self) -> u32 {
        assert!(self.table.len() < NONE as usize, "fewer than 2^32 timers");
        if self.table.len() == self.table.capacity() {
            self.grow();
        }
        self.table.len() as u32
    }

    /// Doubles the capacity, in two steps of about a half: one more copy of the table, which is
    /// quick, and never more than a third of it unused.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let len = self.table.len();
        let step = if len.is_power_of_two() { len / 2 } else { len / 3 };
        self.table.reserve_exact(step.max(4));
        self.whens.reserve_exact(self.table.capacity() - len);
    }

    /// Takes a timer out and makes its key stale. A slot whose generations are used up is retired
    /// rather than let an old key come true again.
    #[inline]
    pub(crate) fn remove(&mut self, key: TimerKey) -> Option<T> {
        let place = self.table.get_mut(key.slot as usize)?;
        match place {
            Slot::Live { generation, .. } if *generation == key.generation => {}
            _ => return None,
        }
        let generation = key.generation.wrapping_add(1);
        let emptied = Slot::Free { generation, next: self.free };
        if generation != self.first {
            self.free = key.slot;
        }
        self.live -= 1;
        match mem::replace(place, emptied) {
            Slot::Live { value, .. } => Some(value),
            _ => None,
        }
    }

    pub(crate) fn get(&self, key: TimerKey) -> Option<&T> {
        match self.table.get(key.slot as usize) {
            Some(Slot::Live { generation, value, .. }) if *generation == key.generation => {
                Some(value)
            }
            _ => None,
        }
    }

    pub(crate) fn deadline(&self, key: TimerKey) -> Option<W> {
        self.get(key).map(|_| self.whens[key.slot as usize])
    }

    pub(crate) fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        match self.table.get_mut(key.slot as usize) {
            Some(Slot::Live { generation, value, .. }) if *generation == key.generation => {
                Some(value)
            }
            _ => None,
        }
    }

    /// Gives a timer another deadline and number. Whether it needs a new entry for them, or `None`
    /// if the key is stale. A timer that is put off needs none, if it `may_wait` in its old place.
    #[inline]
    pub(crate) fn reschedule(
        &mut self,
        key: TimerKey,
        to: W,
        number: NonZeroCounter,
        may_wait: bool,
    ) -> Option<bool>
    where
        W: Ord,
    {
        match self.table.get_mut(key.slot as usize) {
            Some(Slot::Live { generation, filed, seq, .. }) if *generation == key.generation => {
                let when = &mut self.whens[key.slot as usize];
                let anew = !may_wait || to < *when;
                *when = to;
                *seq = number;
                if anew {
                    *filed = number;
                }
                Some(anew)
            }
            _ => None,
        }
    }

    /// Brings an entry up to date, to which its timer then owes nothing. False if it is dead.
    #[inline]
    pub(crate) fn update(&mut self, entry: &mut Entry<W>) -> bool {
        let (found, number) = match self.table.get(entry.slot as usize) {
            Some(Slot::Live { filed, seq, .. }) => (filed.get(), seq.get()),
            _ => (0, 0),
        };
        let live = found == entry.seq.get();
        // Two conditions that seldom hold: the first is a guess the processor need not wait for.
        if number != found && live {
            self.refile(entry);
        }
        live
    }

    #[cold]
    #[inline(never)]
    fn refile(&mut self, entry: &mut Entry<W>) {
        if let Slot::Live { filed, seq, .. } = &mut self.table[entry.slot as usize] {
            *filed = *seq;
            entry.seq = *seq;
            entry.when = self.whens[entry.slot as usize];
        }
    }

    /// Whether the entry is a waiting timer's.
    #[inline]
    pub(crate) fn is_live(&self, entry: &Entry<W>) -> bool {
        let found = match self.table.get(entry.slot as usize) {
            Some(Slot::Live { filed, .. }) => filed.get(),
            _ => 0,
        };
        found == entry.seq.get()
    }

    /// The key of the timer in a slot, if there is one.
    pub(crate) fn key(&self, slot: u32) -> Option<TimerKey> {
        match self.table.get(slot as usize) {
            Some(Slot::Live { generation, .. }) => Some(TimerKey { slot, generation: *generation }),
            _ => None,
        }
    }

    /// Gives the timer of an entry that is up to date another number.
    pub(crate) fn renumber(&mut self, entry: &Entry<W>, to: NonZeroCounter) {
        match self.table.get_mut(entry.slot as usize) {
            Some(Slot::Live { filed, seq, .. }) if *filed == entry.seq => {
                *filed = to;
                *seq = to;
            }
            _ => {}
        }
    }

    /// All slots lie below this.
    pub(crate) fn reach(&self) -> u32 {
        self.table.len() as u32
    }

    /// The timer in a slot, if there is one.
    pub(crate) fn at(&mut self, slot: u32) -> Option<(W, TimerKey, &mut T)> {
        match self.table.get_mut(slot as usize) {
            Some(Slot::Live { generation, value, .. }) => {
                let key = TimerKey { slot, generation: *generation };
                Some((self.whens[slot as usize], key, value))
            }
            _ => None,
        }
    }

    /// All timers, in the order of their slots. O(slots).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (W, TimerKey, &T)> {
        let slots = self.table.iter().zip(&self.whens).zip(0..);
        slots.filter_map(|((content, when), slot)| match content {
            Slot::Live { generation, value, .. } => {
                Some((*when, TimerKey { slot, generation: *generation }, value))
            }
            _ => None,
        })
    }

    pub(crate) fn reserve(&mut self, additional: usize) {
        self.table.reserve(additional);
        self.whens.reserve(additional);
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.table.shrink_to_fit();
        self.whens.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NonZeroCounter = match NonZeroCounter::new(1) {
        Some(one) => one,
        None => panic!(),
    };

    #[test]
    fn a_slot_is_retired_after_its_last_generation() {
        for first in [0, 1, 100, Counter::MAX] {
            let mut slots = Slots::with_capacity(0, first);
            let mut keys = Vec::new();
            for use_of_slot in 0..=u32::from(Counter::MAX) {
                let key = slots.insert(0_u64, ONE, |_| use_of_slot);
                assert_eq!(key.slot, 0);
                assert!(!keys.contains(&key));
                keys.push(key);
                assert_eq!(slots.remove(key), Some(use_of_slot));
            }
            let next = slots.insert(0, ONE, |_| 999);
            assert_eq!(next.slot, 1, "slot 0 must not be used again");
            assert!(keys.iter().all(|key| slots.get(*key).is_none()));
            assert_eq!(slots.iter().count(), 1);
            assert_eq!(slots.len(), 1);
        }
    }
}
