//! The heap against a sorted list that has no cleverness to get wrong.

use loop_timer::{PurgePolicy, TimerHeap, TimerKey};
use proptest::prelude::*;

/// Timers in due order. A key is found by searching.
#[derive(Default)]
struct Oracle {
    timers: Vec<(u64, TimerKey, u32)>,
}

impl Oracle {
    fn insert(&mut self, when: u64, key: TimerKey, value: u32) {
        let at = self.timers.iter().position(|timer| timer.0 > when);
        self.timers.insert(at.unwrap_or(self.timers.len()), (when, key, value));
    }

    fn remove(&mut self, key: TimerKey) -> Option<u32> {
        let at = self.timers.iter().position(|timer| timer.1 == key)?;
        Some(self.timers.remove(at).2)
    }

    fn get(&self, key: TimerKey) -> Option<(u64, u32)> {
        self.timers.iter().find(|timer| timer.1 == key).map(|timer| (timer.0, timer.2))
    }

    fn pop_due(&mut self, now: u64) -> Option<(u64, TimerKey, u32)> {
        self.timers.first().filter(|timer| timer.0 <= now)?;
        Some(self.timers.remove(0))
    }
}

/// One of all keys, or the newest.
#[derive(Clone, Debug)]
struct Which(Option<prop::sample::Index>);

impl Which {
    fn of(&self, keys: &[TimerKey]) -> TimerKey {
        match &self.0 {
            Some(index) => *index.get(keys),
            None => keys[keys.len() - 1],
        }
    }
}

fn which() -> impl Strategy<Value = Which> {
    prop::option::weighted(0.8, any::<prop::sample::Index>()).prop_map(Which)
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    Cancel(Which),
    Reschedule(Which, u64),
    GetMut(prop::sample::Index),
    PopDue(u64),
    DrainDue(u64, usize),
    Retain(u32),
    NextDeadline,
    Purge,
    Shrink,
    Drain,
    Clear,
}

fn when() -> impl Strategy<Value = u64> {
    // From one tick to all rungs of the ladder.
    prop_oneof![
        6 => 0..4_u64,
        3 => 0..100_000_u64,
        2 => any::<u64>(),
        1 => Just(u64::MAX),
        1 => Just(u64::MAX - 1),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        60 => when().prop_map(Op::Insert),
        50 => which().prop_map(Op::Cancel),
        20 => (which(), when()).prop_map(|(i, w)| Op::Reschedule(i, w)),
        10 => any::<prop::sample::Index>().prop_map(Op::GetMut),
        15 => when().prop_map(Op::PopDue),
        5 => (when(), 0..5_usize).prop_map(|(now, limit)| Op::DrainDue(now, limit)),
        2 => (2..9_u32).prop_map(Op::Retain),
        10 => Just(Op::NextDeadline),
        2 => Just(Op::Purge),
        2 => Just(Op::Shrink),
        1 => Just(Op::Drain),
        1 => Just(Op::Clear),
    ]
}

fn policy() -> impl Strategy<Value = PurgePolicy> {
    prop_oneof![
        Just(PurgePolicy::Asyncio),
        Just(PurgePolicy::Gradual),
        Just(PurgePolicy::Never),
        Just(PurgePolicy::Custom(|total, cancelled| total > 8 && cancelled > total / 2)),
        Just(PurgePolicy::Custom(|_, _| true)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_heap_agrees_with_a_sorted_list(
        policy in policy(),
        ops in prop::collection::vec(op(), 0..600),
    ) {
        let mut heap = TimerHeap::with_policy(policy);
        let mut oracle = Oracle::default();
        // Every key ever given out, stale ones included.
        let mut keys: Vec<TimerKey> = Vec::new();
        for (value, op) in (0..).zip(ops) {
            match op {
                Op::Insert(when) => {
                    let key = heap.insert(when, value);
                    prop_assert!(!keys.contains(&key), "a key was given out twice");
                    keys.push(key);
                    oracle.insert(when, key, value);
                }
                Op::Cancel(which) if !keys.is_empty() => {
                    let key = which.of(&keys);
                    prop_assert_eq!(heap.cancel(key), oracle.remove(key));
                }
                Op::Reschedule(which, when) if !keys.is_empty() => {
                    let key = which.of(&keys);
                    let value = oracle.remove(key);
                    prop_assert_eq!(heap.reschedule(key, when), value.is_some());
                    if let Some(value) = value {
                        oracle.insert(when, key, value);
                    }
                }
                Op::GetMut(index) if !keys.is_empty() => {
                    let key = *index.get(&keys);
                    let found = oracle.get(key);
                    prop_assert_eq!(heap.get(key).copied(), found.map(|found| found.1));
                    prop_assert_eq!(heap.get_mut(key).copied(), found.map(|found| found.1));
                    prop_assert_eq!(heap.deadline(key), found.map(|found| found.0));
                    prop_assert_eq!(heap.contains(key), found.is_some());
                }
                Op::Cancel(_) | Op::Reschedule(..) | Op::GetMut(_) => {}
                Op::PopDue(now) => prop_assert_eq!(heap.pop_due(now), oracle.pop_due(now)),
                Op::DrainDue(now, limit) => {
                    let drained: Vec<_> = heap.drain_due(now, limit).collect();
                    let expected: Vec<_> =
                        std::iter::from_fn(|| oracle.pop_due(now)).take(limit).collect();
                    prop_assert_eq!(drained, expected);
                }
                Op::Retain(divisor) => {
                    heap.retain(|_, _, value| *value % divisor != 0);
                    oracle.timers.retain(|timer| timer.2 % divisor != 0);
                }
                Op::NextDeadline => {
                    let first = oracle.timers.first().map(|timer| timer.0);
                    prop_assert_eq!(heap.next_deadline(), first);
                }
                Op::Purge => {
                    let dead = heap.statistics().cancelled;
                    prop_assert_eq!(heap.purge(), dead);
                }
                Op::Shrink => heap.shrink_to_fit(),
                Op::Drain => {
                    let drained: Vec<_> = heap.drain().collect();
                    prop_assert_eq!(drained, std::mem::take(&mut oracle.timers));
                }
                Op::Clear => {
                    heap.clear();
                    oracle.timers.clear();
                }
            }
            prop_assert_eq!(heap.len(), oracle.timers.len());
            prop_assert_eq!(heap.is_empty(), oracle.timers.is_empty());
        }
        let mut seen: Vec<_> = heap.iter().map(|(when, key, value)| (when, key, *value)).collect();
        let mut expected = oracle.timers.clone();
        seen.sort_by_key(|timer| timer.2);
        expected.sort_by_key(|timer| timer.2);
        prop_assert_eq!(seen, expected);
        let rest: Vec<_> = std::iter::from_fn(|| heap.pop_due(u64::MAX)).collect();
        prop_assert_eq!(rest, oracle.timers);
        prop_assert_eq!(heap.statistics().cancelled, 0);
    }
}
