//! Where timers live while the heap orders their deadlines: a slot table with generations.

use alloc::vec::Vec;
use core::mem;

use crate::key::TimerKey;

/// A waiting timer.
pub(crate) struct Timer<T, W> {
    pub(crate) when: W,
    /// Which of the heap's entries is this timer's; any other entry for its slot is dead.
    pub(crate) seq: u64,
    pub(crate) value: T,
}

struct Slot<T, W> {
    generation: u32,
    content: Content<T, W>,
}

enum Content<T, W> {
    Live(Timer<T, W>),
    Free {
        next: Option<u32>,
    },
    /// Served its last generation.
    Retired,
}

/// Every operation is O(1), but for the growth of the table.
pub(crate) struct Slots<T, W> {
    table: Vec<Slot<T, W>>,
    /// The head of the list of free slots.
    free: Option<u32>,
    live: usize,
}

impl<T, W> Slots<T, W> {
    pub(crate) fn with_capacity(capacity: usize) -> Slots<T, W> {
        Slots { table: Vec::with_capacity(capacity), free: None, live: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    pub(crate) fn insert(&mut self, timer: Timer<T, W>) -> TimerKey {
        let slot = match self.free {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.table.len()).expect("fewer than 2^32 timers");
                self.table.push(Slot { generation: 0, content: Content::Free { next: None } });
                slot
            }
        };
        let Slot { generation, content } = &mut self.table[slot as usize];
        if let Content::Free { next } = mem::replace(content, Content::Live(timer)) {
            self.free = next;
        }
        self.live += 1;
        TimerKey { slot, generation: *generation }
    }

    /// Takes a timer out and makes its key stale. A slot whose generations are used up is retired
    /// rather than let an old key come true again: one slot lost in 2^32 timers.
    pub(crate) fn remove(&mut self, key: TimerKey) -> Option<Timer<T, W>> {
        self.get(key)?;
        let slot = &mut self.table[key.slot as usize];
        let emptied = match slot.generation.checked_add(1) {
            Some(generation) => {
                slot.generation = generation;
                Content::Free { next: self.free.replace(key.slot) }
            }
            None => Content::Retired,
        };
        self.live -= 1;
        match mem::replace(&mut slot.content, emptied) {
            Content::Live(timer) => Some(timer),
            _ => None,
        }
    }

    pub(crate) fn get(&self, key: TimerKey) -> Option<&Timer<T, W>> {
        match self.table.get(key.slot as usize) {
            Some(Slot { generation, content: Content::Live(timer) })
                if *generation == key.generation =>
            {
                Some(timer)
            }
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, key: TimerKey) -> Option<&mut Timer<T, W>> {
        match self.table.get_mut(key.slot as usize) {
            Some(Slot { generation, content: Content::Live(timer) })
                if *generation == key.generation =>
            {
                Some(timer)
            }
            _ => None,
        }
    }

    /// The key of the timer that waits in `slot` under the number `seq`, if one does.
    pub(crate) fn key(&self, slot: u32, seq: u64) -> Option<TimerKey> {
        match &self.table[slot as usize] {
            Slot { generation, content: Content::Live(timer) } if timer.seq == seq => {
                Some(TimerKey { slot, generation: *generation })
            }
            _ => None,
        }
    }

    /// All timers, in the order of their slots. O(slots).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TimerKey, &Timer<T, W>)> {
        self.table.iter().zip(0..).filter_map(
            |(Slot { generation, content }, slot)| match content {
                Content::Live(timer) => Some((TimerKey { slot, generation: *generation }, timer)),
                _ => None,
            },
        )
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

    #[test]
    fn a_slot_at_its_last_generation_is_retired() {
        let mut slots = Slots::with_capacity(0);
        let timer = |value| Timer { when: 0_u64, seq: 0, value };
        slots.insert(timer("first"));
        slots.table[0].generation = u32::MAX;
        let last = TimerKey { slot: 0, generation: u32::MAX };
        assert_eq!(slots.get(last).map(|timer| timer.value), Some("first"));
        assert!(slots.remove(last).is_some());

        assert!(slots.get(last).is_none());
        assert!(slots.remove(last).is_none());
        assert!(slots.key(0, 0).is_none());
        assert_eq!(slots.len(), 0);
        assert_eq!(slots.insert(timer("next")).slot, 1, "slot 0 must not be used again");
        assert_eq!(slots.iter().count(), 1);
    }

    #[test]
    fn a_slot_before_its_last_generation_is_used_once_more() {
        let mut slots = Slots::with_capacity(0);
        let timer = || Timer { when: 0_u64, seq: 0, value: () };
        slots.insert(timer());
        slots.table[0].generation = u32::MAX - 1;
        assert!(slots.remove(TimerKey { slot: 0, generation: u32::MAX - 1 }).is_some());
        assert_eq!(slots.insert(timer()), TimerKey { slot: 0, generation: u32::MAX });
    }
}
