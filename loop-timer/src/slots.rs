//! Where timers live while the ladder orders their deadlines: a slot table with generations.

use alloc::vec::Vec;
use core::mem;

use crate::counter::{Counter, NonZeroCounter};
use crate::key::TimerKey;

/// No slot: the end of the list of free ones.
const NONE: u32 = u32::MAX;

enum Slot<T, W> {
    /// `seq` tells which of the ladder's entries is this timer's; any other for this slot is dead.
    Live { generation: Counter, seq: NonZeroCounter, when: W, value: T },
    /// On the list of free slots, or retired: left off it after its last generation.
    Free { generation: Counter, next: u32 },
}

/// Every operation is O(1), but for the growth of the table.
pub(crate) struct Slots<T, W> {
    table: Vec<Slot<T, W>>,
    /// The head of the list of free slots.
    free: u32,
    live: usize,
    /// The generation of a slot that was never used, different for each heap.
    first: Counter,
}

impl<T, W: Copy> Slots<T, W> {
    pub(crate) fn with_capacity(capacity: usize, first: Counter) -> Slots<T, W> {
        Slots { table: Vec::with_capacity(capacity), free: NONE, live: 0, first }
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    #[inline]
    pub(crate) fn insert(&mut self, when: W, seq: NonZeroCounter, value: T) -> TimerKey {
        let slot = self.free;
        if slot == NONE {
            let slot = self.table.len() as u32;
            assert!(self.table.len() < NONE as usize, "fewer than 2^32 timers");
            let generation = self.first;
            self.table.push(Slot::Live { generation, seq, when, value });
            self.live += 1;
            return TimerKey { slot, generation };
        }
        let place = &mut self.table[slot as usize];
        let generation = match *place {
            Slot::Free { generation, next } => {
                self.free = next;
                generation
            }
            _ => unreachable!("the list of free slots holds free slots"),
        };
        *place = Slot::Live { generation, seq, when, value };
        self.live += 1;
        TimerKey { slot, generation }
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

    pub(crate) fn get(&self, key: TimerKey) -> Option<(W, &T)> {
        match self.table.get(key.slot as usize) {
            Some(Slot::Live { generation, when, value, .. }) if *generation == key.generation => {
                Some((*when, value))
            }
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        match self.table.get_mut(key.slot as usize) {
            Some(Slot::Live { generation, value, .. }) if *generation == key.generation => {
                Some(value)
            }
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn reschedule(&mut self, key: TimerKey, to: W, number: NonZeroCounter) -> bool {
        match self.table.get_mut(key.slot as usize) {
            Some(Slot::Live { generation, seq, when, .. }) if *generation == key.generation => {
                *seq = number;
                *when = to;
                true
            }
            _ => false,
        }
    }

    /// The key of the timer that waits in `slot` under the number `seq`, if one does.
    pub(crate) fn key(&self, slot: u32, number: NonZeroCounter) -> Option<TimerKey> {
        match self.table.get(slot as usize) {
            Some(Slot::Live { generation, seq, .. }) if *seq == number => {
                Some(TimerKey { slot, generation: *generation })
            }
            _ => None,
        }
    }

    /// Whether a timer waits in `slot` under the number `seq`.
    #[inline]
    pub(crate) fn is_live(&self, slot: u32, number: NonZeroCounter) -> bool {
        let found = match self.table.get(slot as usize) {
            Some(Slot::Live { seq, .. }) => seq.get(),
            _ => 0,
        };
        found == number.get()
    }

    /// Gives the timer that waits in `slot` under the number `from` another number.
    pub(crate) fn renumber(&mut self, slot: u32, from: NonZeroCounter, to: NonZeroCounter) {
        match self.table.get_mut(slot as usize) {
            Some(Slot::Live { seq, .. }) if *seq == from => *seq = to,
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
            Some(Slot::Live { generation, when, value, .. }) => {
                Some((*when, TimerKey { slot, generation: *generation }, value))
            }
            _ => None,
        }
    }

    /// All timers, in the order of their slots. O(slots).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (W, TimerKey, &T)> {
        self.table.iter().zip(0..).filter_map(|(slot_content, slot)| match slot_content {
            Slot::Live { generation, when, value, .. } => {
                Some((*when, TimerKey { slot, generation: *generation }, value))
            }
            _ => None,
        })
    }

    pub(crate) fn reserve(&mut self, additional: usize) {
        self.table.reserve(additional);
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.table.shrink_to_fit();
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
                let key = slots.insert(0_u64, ONE, use_of_slot);
                assert_eq!(key.slot, 0);
                assert!(!keys.contains(&key));
                keys.push(key);
                assert_eq!(slots.remove(key), Some(use_of_slot));
            }
            let next = slots.insert(0, ONE, 999);
            assert_eq!(next.slot, 1, "slot 0 must not be used again");
            assert!(keys.iter().all(|key| slots.get(*key).is_none()));
            assert_eq!(slots.iter().count(), 1);
            assert_eq!(slots.len(), 1);
        }
    }
}
