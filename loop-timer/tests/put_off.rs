//! Timers that are put off again and again, as the timeout of a connection is by each byte: they
//! keep their one entry, and must be as exact as if each time they had been inserted anew.

use std::collections::BTreeMap;

use loop_timer::{PurgePolicy, TimerHeap, TimerKey};

fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |bound| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 24) % bound
    }
}

#[test]
fn a_timer_that_is_put_off_keeps_its_one_entry() {
    let mut heap = TimerHeap::new();
    let key = heap.insert(0_u64, 'v');
    for when in 0..100_000 {
        assert!(heap.reschedule(key, when));
    }
    let statistics = heap.statistics();
    assert_eq!((statistics.cancelled, statistics.purges, statistics.high_water), (0, 0, 1));
    assert_eq!(heap.deadline(key), Some(99_999));
    assert_eq!(heap.next_deadline(), Some(99_999));
    assert_eq!(heap.pop_due(99_998), None);
    assert_eq!(heap.pop_due(99_999), Some((99_999, key, 'v')));
}

#[test]
fn a_timer_that_was_put_off_comes_back_and_leaves_a_dead_entry() {
    let mut heap = TimerHeap::new();
    let (a, b) = (heap.insert(10_u64, 'a'), heap.insert(20, 'b'));
    heap.reschedule(a, 40);
    heap.reschedule(a, 30); // earlier than 40, though its entry says 10
    assert_eq!((heap.statistics().live, heap.statistics().cancelled), (2, 1));
    assert_eq!(heap.pop_due(99), Some((20, b, 'b')));
    assert_eq!(heap.pop_due(99), Some((30, a, 'a')));
    assert_eq!(heap.pop_due(99), None);
    assert_eq!(heap.statistics().cancelled, 0);
}

#[test]
fn ties_follow_the_order_of_reschedules() {
    let mut heap = TimerHeap::new();
    let (a, b, c) = (heap.insert(7_u64, 'a'), heap.insert(1, 'b'), heap.insert(7, 'c'));
    heap.reschedule(b, 7); // after a and c
    heap.reschedule(a, 7); // after b
    heap.insert(7, 'd');
    let left: Vec<_> = heap.drain_due(7, 9).map(|due| due.2).collect();
    assert_eq!(left, ['c', 'b', 'a', 'd']);
    assert!(!heap.contains(c));
}

#[test]
fn a_gradual_heap_files_a_new_entry_at_once() {
    let mut heap = TimerHeap::with_policy(PurgePolicy::Gradual);
    let key = heap.insert(0_u64, ());
    heap.insert(2, ());
    heap.reschedule(key, 1);
    assert_eq!(heap.statistics().cancelled, 1);
}

/// Thousands, so that whole buckets are spread and sorted while most entries in them are too early.
#[test]
fn a_crowd_that_is_put_off_leaves_in_order() {
    for seed in 0..24 {
        let mut below = random(seed);
        let policy = match seed % 3 {
            0 => PurgePolicy::Asyncio,
            1 => PurgePolicy::Never,
            _ => PurgePolicy::Gradual,
        };
        let mut heap = TimerHeap::with_policy(policy);
        let mut oracle: BTreeMap<(u64, u64), TimerKey> = BTreeMap::new();
        let mut places: Vec<(TimerKey, (u64, u64))> = Vec::new();
        let (n, span) = (3_000, 1 << (4 + below(24)));
        let (mut now, mut order) = (0, 0..);
        let mut order = move || order.next().unwrap();
        for id in 0..n {
            let place = (below(span), order());
            let key = heap.insert(place.0, id);
            oracle.insert(place, key);
            places.push((key, place));
        }
        for step in 0..30_000 {
            let id = below(n) as usize;
            let (key, place) = &mut places[id];
            match below(100) {
                0..=69 => {
                    // Mostly later, sometimes earlier, sometimes the same.
                    let when =
                        if below(8) == 0 { now + below(span) } else { place.0 + below(span) };
                    assert_eq!(heap.reschedule(*key, when), oracle.remove(place).is_some());
                    if heap.contains(*key) {
                        *place = (when, order());
                        oracle.insert(*place, *key);
                    }
                }
                70..=79 => {
                    assert_eq!(heap.cancel(*key).is_some(), oracle.remove(place).is_some());
                    *place = (now + below(span), order());
                    // The old timer may have been popped before.
                    *key = heap.insert(place.0, id as u64);
                    oracle.insert(*place, *key);
                }
                80..=81 if step % 7 == 0 => {
                    heap.purge();
                    assert_eq!(heap.statistics().cancelled, 0);
                }
                80..=89 => {
                    let first = oracle.keys().next().map(|place| place.0);
                    assert_eq!(heap.next_deadline(), first);
                }
                _ => {
                    now += below(span / 8 + 1);
                    while let Some(entry) = oracle.first_key_value().filter(|e| e.0.0 <= now) {
                        let (place, key) = (*entry.0, *entry.1);
                        oracle.remove(&place);
                        let due = heap.pop_due(now).map(|due| (due.0, due.1));
                        assert_eq!(due, Some((place.0, key)), "seed {seed}, step {step}");
                    }
                    assert_eq!(heap.pop_due(now), None);
                }
            }
            assert_eq!(heap.len(), oracle.len());
        }
        let rest: Vec<_> = heap.drain().map(|timer| (timer.0, timer.1)).collect();
        let expected: Vec<_> = oracle.iter().map(|(place, key)| (place.0, *key)).collect();
        assert_eq!(rest, expected, "seed {seed}");
    }
}
