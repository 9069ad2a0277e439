//! A timer store whose cancel really removes: a binary heap that tells each timer where its entry is. Beside
//! [`Lazy`](super::lazy::Lazy) over the standard library's heap it shows what removing at once costs, and spares.

use super::lazy::Entry;
use super::timer_store::TimerStore;

#[derive(Clone, Copy)]
struct Slot {
    generation: u32,
    id: u32,
    /// Where the entry is in the heap, or which slot is free next.
    at: u32,
    is_live: bool,
}

pub(crate) struct Eager {
    heap: Vec<Entry>,
    slots: Vec<Slot>,
    free: u32,
    seq: u32,
}

impl Eager {
    fn put(&mut self, at: usize, entry: Entry) {
        self.heap[at] = entry;
        self.slots[entry.slot as usize].at = at as u32;
    }

    fn rise(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent] <= entry {
                break;
            }
            self.put(at, self.heap[parent]);
            at = parent;
        }
        self.put(at, entry);
    }

    fn sink(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let left = 2 * at + 1;
            let children = left..self.heap.len().min(left + 2);
            let Some(least) = children.min_by_key(|&child| self.heap[child]) else { break };
            if self.heap[least] >= entry {
                break;
            }
            self.put(at, self.heap[least]);
            at = least;
        }
        self.put(at, entry);
    }

    /// The entry there has another deadline than its place says.
    fn settle(&mut self, at: usize) {
        if at > 0 && self.heap[at] < self.heap[(at - 1) / 2] {
            self.rise(at);
        } else {
            self.sink(at);
        }
    }

    /// Removes a live timer.
    fn take(&mut self, slot: u32) -> u32 {
        let place = &mut self.slots[slot as usize];
        let (at, id) = (place.at as usize, place.id);
        let generation = place.generation.wrapping_add(1);
        *place = Slot { generation, id, at: self.free, is_live: false };
        // A slot whose generations are used up is retired: no key may ever come true again.
        if generation != 0 {
            self.free = slot;
        }
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.settle(at);
        }
        id
    }

    /// The number that keeps ties in order.
    fn draw_seq(&mut self) -> u32 {
        self.seq = self.seq.checked_add(1).expect("fewer than 2^32 insertions");
        self.seq
    }

    fn is_live(&self, (slot, generation): (u32, u32)) -> bool {
        self.slots.get(slot as usize).is_some_and(|one| one.is_live && one.generation == generation)
    }
}

impl TimerStore for Eager {
    const NAME: &'static str = "eager";
    const FIFO: bool = true;
    /// Slot and generation.
    type Key = (u32, u32);

    fn new() -> Self {
        Self { heap: Vec::new(), slots: Vec::new(), free: u32::MAX, seq: 0 }
    }

    fn insert(&mut self, when: u64, id: u32) -> (u32, u32) {
        let seq = self.draw_seq();
        let mut slot = self.free;
        if let Some(place) = self.slots.get_mut(slot as usize) {
            self.free = place.at;
            *place = Slot { id, is_live: true, ..*place };
        } else {
            slot = self.slots.len() as u32;
            self.slots.push(Slot { generation: 0, id, at: 0, is_live: true });
        }
        self.heap.push(Entry { when, seq, slot });
        self.rise(self.heap.len() - 1);
        (slot, self.slots[slot as usize].generation)
    }

    fn cancel(&mut self, key: (u32, u32)) -> Option<u32> {
        self.is_live(key).then(|| self.take(key.0))
    }

    fn reschedule(&mut self, key: (u32, u32), when: u64) -> (u32, u32) {
        assert!(self.is_live(key), "the workload moves live timers only");
        let seq = self.draw_seq();
        let at = self.slots[key.0 as usize].at as usize;
        self.heap[at] = Entry { when, seq, slot: key.0 };
        self.settle(at);
        key
    }

    fn pop(&mut self, now: u64) -> Option<u32> {
        let first = self.heap.first().filter(|first| first.when <= now)?.slot;
        Some(self.take(first))
    }

    fn next_deadline(&mut self) -> Option<u64> {
        self.heap.first().map(|first| first.when)
    }
}
