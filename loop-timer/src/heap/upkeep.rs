//! What nobody asks a `TimerHeap` for: sweeping by policy, and numbers that run out.

use alloc::vec::Vec;

use super::TimerHeap;
use crate::bucket::sift;
use crate::counter::{Counter, NonZeroCounter};
use crate::deadline::Deadline;
use crate::entry::Entry;
use crate::purge::PurgePolicy;

impl<T, W: Deadline> TimerHeap<T, W> {
    /// Every live timer has one entry, so the entries beyond those are the cancelled ones: there is
    /// no counter that could drift. Saturating, because a `W` that panics in a purge loses entries.
    pub(super) fn cancelled(&self) -> usize {
        self.ladder.len().saturating_sub(self.len())
    }

    #[inline]
    pub(super) fn purge_if_due(&mut self) {
        if self.policy.wants(self.ladder.len(), self.cancelled()) {
            self.purge_by_policy();
        }
    }

    #[cold]
    #[inline(never)]
    fn purge_by_policy(&mut self) {
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
        self.owed += self.ladder.sweep(|entry| slots.is_live(entry));
    }

    /// Empties the ladder. The entries of waiting timers alone, up to date and in their order.
    pub(super) fn take_sorted(&mut self) -> Vec<Entry<W>> {
        let mut entries: Vec<_> = self.ladder.take().collect();
        sift(&mut entries, |entry| self.slots.update(entry));
        entries.sort_unstable_by(|a, b| b.cmp(a));
        entries
    }

    /// The next sequence number.
    #[inline]
    pub(super) fn draw_seq(&mut self) -> NonZeroCounter {
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
            self.slots.renumber(&entry, seq);
            self.ladder.push(Entry { seq, ..entry });
        }
        assert!(self.last_seq < Counter::MAX, "fewer than 2^32 timers");
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::iter;

    use super::*;
    use crate::key::TimerKey;

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
