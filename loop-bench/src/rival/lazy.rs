//! A timer store with lazy cancel around any queue of small entries. It promises what `loop-timer`
//! promises: keys that never come true again, first in first out, also after a reschedule, the value
//! back at once, and asyncio's purge rule. It is what one would write first: one table of slots, and
//! a new entry for each reschedule. Among those that are made of it only the layouts differ.

use super::timer_store::TimerStore;

/// A deadline in a queue, ordered by `when` and `seq`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) when: u64,
    pub(crate) seq: u32,
    pub(crate) slot: u32,
}

/// The layout: where entries wait for their turn.
pub(crate) trait Queue: Default {
    const NAME: &'static str;

    fn push(&mut self, entry: Entry);
    /// The earliest entry.
    fn first(&mut self) -> Option<Entry>;
    /// Takes out what `first` returned.
    fn pop(&mut self);
    fn len(&self) -> usize;
    fn retain(&mut self, keep: impl FnMut(&Entry) -> bool);
}

enum Slot {
    Live { generation: u32, seq: u32, when: u64, id: u32 },
    Free { generation: u32, next: u32 },
}

pub(crate) struct Lazy<Q> {
    queue: Q,
    slots: Vec<Slot>,
    free: u32,
    live: usize,
    seq: u32,
}

impl<Q: Queue> Lazy<Q> {
    fn take(&mut self, slot: u32) -> u32 {
        let place = &mut self.slots[slot as usize];
        let Slot::Live { generation, id, .. } = *place else {
            unreachable!("only live timers are taken")
        };
        let generation = generation.wrapping_add(1);
        *place = Slot::Free { generation, next: self.free };
        // A slot whose generations are used up is retired: no key may ever come true again.
        if generation != 0 {
            self.free = slot;
        }
        self.live -= 1;
        id
    }

    /// The next number, to keep ties in order. A run of the benchmark draws few of them, so their
    /// end is a panic here, where `loop-timer` would start anew.
    fn draw_seq(&mut self) -> u32 {
        self.seq = self.seq.checked_add(1).expect("fewer than 2^32 insertions");
        self.seq
    }

    fn purge_if_due(&mut self) {
        let total = self.queue.len();
        if total > 100 && total - self.live > total / 2 {
            let slots = &self.slots;
            self.queue.retain(|entry| is_live(slots, entry));
        }
    }
}

fn is_live(slots: &[Slot], entry: &Entry) -> bool {
    matches!(slots[entry.slot as usize], Slot::Live { seq, .. } if seq == entry.seq)
}

impl<Q: Queue> TimerStore for Lazy<Q> {
    const NAME: &'static str = Q::NAME;
    const FIFO: bool = true;
    /// Slot and generation.
    type Key = (u32, u32);

    fn new() -> Self {
        Self { queue: Q::default(), slots: Vec::new(), free: u32::MAX, live: 0, seq: 0 }
    }

    fn insert(&mut self, when: u64, id: u32) -> (u32, u32) {
        let seq = self.draw_seq();
        let mut slot = self.free;
        let mut generation = 0;
        if let Some(place) = self.slots.get_mut(slot as usize) {
            if let Slot::Free { generation: unused, next } = *place {
                (generation, self.free) = (unused, next);
            }
            *place = Slot::Live { generation, seq, when, id };
        } else {
            slot = self.slots.len() as u32;
            self.slots.push(Slot::Live { generation, seq, when, id });
        }
        self.live += 1;
        self.queue.push(Entry { when, seq, slot });
        (slot, generation)
    }

    fn cancel(&mut self, (slot, named): (u32, u32)) -> Option<u32> {
        match self.slots.get(slot as usize)? {
            Slot::Live { generation, .. } if *generation == named => {}
            _ => return None,
        }
        let id = self.take(slot);
        self.purge_if_due();
        Some(id)
    }

    fn reschedule(&mut self, key: (u32, u32), to: u64) -> (u32, u32) {
        let number = self.draw_seq();
        match &mut self.slots[key.0 as usize] {
            Slot::Live { generation, seq, when, .. } if *generation == key.1 => {
                (*seq, *when) = (number, to);
            }
            _ => panic!("the workload moves live timers only"),
        }
        self.queue.push(Entry { when: to, seq: number, slot: key.0 });
        self.purge_if_due();
        key
    }

    fn pop(&mut self, now: u64) -> Option<u32> {
        loop {
            let first = self.queue.first()?;
            if !is_live(&self.slots, &first) {
                self.queue.pop();
            } else if first.when > now {
                return None;
            } else {
                self.queue.pop();
                let id = self.take(first.slot);
                self.purge_if_due();
                return Some(id);
            }
        }
    }

    fn next_deadline(&mut self) -> Option<u64> {
        loop {
            let first = self.queue.first()?;
            if is_live(&self.slots, &first) {
                return Some(first.when);
            }
            self.queue.pop();
        }
    }
}
